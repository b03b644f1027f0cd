//! Shows which commands of files may run on this machine, and trusts them.

use poste_config::trust::{self, changed_lines};
use poste_config::{Candidate, Command, Reviewed, Trust};
use poste_core::log::MessageNo;
use poste_core::{Digest, Office, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb, handoff, person, workflow};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A workflow definition, instead of the configuration files.
    #[serde(skip)]
    pub workflow: Option<workflow::Given>,
    /// The commands of this handoff, instead of the configuration files.
    #[serde(skip)]
    pub handoff: Option<MessageNo>,
    /// Everything that is trusted in this office.
    #[serde(skip)]
    pub list: bool,
    /// Revoke the trust in what is shown.
    #[serde(skip)]
    pub revoke: bool,
    /// Trust exactly these texts, which a person has read.
    #[serde(skip)]
    pub seen: Option<Vec<Digest>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// What would run commands, or speak in a person's name.
    pub files: Vec<File>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct File {
    /// Its path from the project's folder.
    pub file: String,
    /// BLAKE3 of its text.
    pub digest: Digest,
    /// Whether it may run its commands.
    pub trusted: bool,
    /// `never`, `changed` or `trusted`.
    pub state: &'static str,
    /// Who trusted it, or an earlier version of it.
    pub by: Option<String>,
    /// When that was, RFC 3339.
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub at: Option<Timestamp>,
    /// The commands in it.
    pub commands: Vec<Command>,
    /// What changed since it was trusted, as lines that begin with - and +.
    pub changes: Vec<String>,
    /// The whole text of a workflow definition.
    pub text: Option<String>,
}

/// Enough for the whole change of any file that a person would read.
const CHANGES_MAX: usize = 1_000;

impl File {
    fn new(candidate: Candidate, trust: Trust) -> Self {
        let digest = Digest::of(candidate.text.as_bytes());
        let (state, reviewed) = match trust {
            Trust::Never => ("never", None),
            Trust::Changed(reviewed) => ("changed", Some(reviewed)),
            Trust::Trusted(reviewed) => ("trusted", Some(reviewed)),
        };
        let changes = reviewed.as_ref().map(|old| changed_lines(old, &candidate.text, CHANGES_MAX)).unwrap_or_default();
        Self {
            file: candidate.file,
            digest,
            trusted: state == "trusted",
            state,
            at: reviewed.as_ref().map(|reviewed| reviewed.at),
            by: reviewed.map(|reviewed| reviewed.by),
            commands: candidate.commands,
            changes,
            text: None,
        }
    }

    fn of_store(reviewed: Reviewed) -> Self {
        let Reviewed { file, digest, by, at, .. } = reviewed;
        let (by, at) = (Some(by), Some(at));
        Self {
            file,
            digest,
            trusted: true,
            state: "trusted",
            by,
            at,
            commands: Vec::new(),
            changes: Vec::new(),
            text: None,
        }
    }
}

impl Verb for Input {
    const NAME: &'static str = "trust";
    const ACCESS: Access = Access::Administers;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("workflow", Touch::SpeaksAsPerson),
        ("handoff", Touch::SpeaksAsPerson),
        ("seen", Touch::SpeaksAsPerson),
        ("revoke", Touch::SpeaksAsPerson),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { workflow, handoff, list, revoke, seen } = self;
        if list {
            let files = trust::all_trusted(desk.office)?.into_iter().map(File::of_store);
            return Ok(Answered::new(Answer { files: files.collect() }));
        }
        let is_about_one = workflow.is_some() || handoff.is_some();
        let shows_text = workflow.is_some();
        let candidates = match (workflow, handoff) {
            (_, Some(number)) => vec![handoff::commands_of(desk.office, number)?],
            (Some(given), None) => vec![workflow::candidate(desk.office, &given.find(desk.office.path()?)?)?],
            (None, None) => trust::candidates(desk.office)?,
        };
        if revoke {
            let one = candidates.first().filter(|_| is_about_one).map(|candidate| candidate.file.as_str());
            if trust::revoke_trust(desk.office, one)?.is_empty() {
                desk.say("nothing was trusted here");
            }
        }
        if let Some(seen) = seen {
            let by = person::decider(desk)?;
            for candidate in &candidates {
                if !seen.contains(&Digest::of(candidate.text.as_bytes())) {
                    let message = format!("{} changed while you reviewed it", candidate.file);
                    return Err(Error::conflict(message).hint(note!("review it again: "[trust])));
                }
                trust::set_trusted(desk.office, candidate, by.clone())?;
                desk.note_stored(format!("that {} is trusted", candidate.file));
            }
        }
        let files = candidates.into_iter().map(|candidate| {
            let state = trust::trust(desk.office, &candidate)?;
            let text = shows_text.then(|| candidate.text.clone());
            Ok(File { text, ..File::new(candidate, state) })
        });
        Ok(Answered::new(Answer { files: files.collect::<Result<_>>()? }))
    }
}

/// The error for something that may not run, because a file that says how is not trusted. Names each such file, and what
/// changed in it.
pub fn untrusted(office: &Office, what: &str) -> Error {
    const LINES_MAX: usize = 4;
    let mut error = Error::refused(what).code("untrusted");
    for candidate in trust::candidates(office).unwrap_or_default() {
        let file = &candidate.file;
        match trust::trust(office, &candidate) {
            Ok(Trust::Trusted(_)) => {}
            Ok(Trust::Changed(reviewed)) => {
                let lines = changed_lines(&reviewed, &candidate.text, LINES_MAX);
                let lines = match lines.is_empty() {
                    true => "a program of it changed".to_owned(),
                    false => lines.join("\n"),
                };
                error = error.cause(format!("{file} changed since {} trusted it:\n{lines}", reviewed.by));
            }
            Ok(Trust::Never) => error = error.cause(format!("{file} was never trusted here")),
            Err(why) => error = error.cause(format!("{file}: {why}")),
        }
    }
    error.hint(note!("a person reviews it and trusts it: "[trust]))
}
