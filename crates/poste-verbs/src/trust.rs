//! Shows which commands of files may run on this machine, and trusts them.

use poste_config::trust::{self, changed_lines};
use poste_config::{Candidate, Command, Refusal, Reviewed, Trust};
use poste_core::Foreign;
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
    /// Revoke it only in what has this name. It may be gone.
    #[serde(skip)]
    pub named: Option<String>,
    /// Trust exactly these, which a person has read.
    #[serde(skip)]
    pub seen: Option<Vec<Digest>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// What would run commands, or speak in a person's name.
    pub files: Vec<File>,
    /// What there is to say if there is none.
    #[serde(skip)]
    pub nothing: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct File {
    /// Its path from the project's folder.
    pub file: String,
    /// BLAKE3 of its text.
    pub digest: Digest,
    /// Of everything that a person reviews of it.
    #[serde(skip)]
    pub seen: Digest,
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

impl File {
    fn new(office: &Office, candidate: Candidate, trust: Trust) -> Result<Self> {
        let digest = Digest::of(candidate.text.as_bytes());
        let (state, reviewed) = match trust {
            Trust::Never => ("never", None),
            Trust::Changed(reviewed) => ("changed", Some(reviewed)),
            Trust::Trusted(reviewed) => ("trusted", Some(reviewed)),
        };
        let changes = reviewed.as_ref().map_or(Ok(Vec::new()), |old| changes(office, old, &candidate))?;
        let seen = candidate.digest();
        Ok(Self {
            file: candidate.file,
            digest,
            seen,
            trusted: state == "trusted",
            state,
            at: reviewed.as_ref().map(|reviewed| reviewed.at),
            by: reviewed.map(|reviewed| reviewed.by),
            commands: candidate.commands,
            changes,
            text: None,
        })
    }

    fn of_store(reviewed: Reviewed, trusted: bool) -> Self {
        let Reviewed { file, digest, by, at, .. } = reviewed;
        let (by, at) = (Some(by), Some(at));
        Self {
            file,
            digest,
            seen: digest,
            trusted,
            state: if trusted { "trusted" } else { "never" },
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
        let Self { workflow, handoff, list, revoke, named, seen } = self;
        if list {
            let files = trust::all_trusted(desk.office)?.into_iter().map(|reviewed| File::of_store(reviewed, true));
            return Ok(Answered::new(Answer { files: files.collect(), nothing: "nothing is trusted here" }));
        }
        if revoke {
            let of_handoff = handoff.map(handoff::file_name);
            let is_meant = |reviewed: &Reviewed| match (&named, &of_handoff) {
                (Some(name), _) => reviewed.is_named(name),
                (None, Some(file)) => reviewed.file == *file,
                (None, None) => true,
            };
            let revoked = trust::revoke_trust(desk.office, is_meant)?.into_iter();
            let files = revoked.map(|reviewed| File::of_store(reviewed, false)).collect();
            return Ok(Answered::new(Answer { files, nothing: "nothing was trusted here" }));
        }
        let shows_text = workflow.is_some();
        let candidates = match (workflow, handoff) {
            (_, Some(number)) => {
                let folder = desk.worktree().ok().map(|tree| tree.root());
                vec![trust::in_folder(desk.office, handoff::commands_of(desk.office, number)?, folder)?]
            }
            (Some(given), None) => vec![workflow::candidate(desk.office, &given.find(desk.office.path()?)?)?],
            (None, None) => trust::candidates(desk.office)?,
        };
        if let Some(seen) = seen {
            let by = person::decider(desk)?;
            if let Some(candidate) = candidates.iter().find(|candidate| !seen.contains(&candidate.digest())) {
                return Err(changed_meanwhile(&candidate.file));
            }
            // Nothing is trusted unless all of it can be.
            if let Some(why) = candidates.iter().find_map(cannot_be_trusted) {
                return Err(why);
            }
            for candidate in &candidates {
                trust::set_trusted(desk.office, candidate, by.clone()).map_err(|refusal| match refusal {
                    Refusal::Changed(program) => changed_meanwhile(&program),
                    Refusal::Unsound(why) => Error::refused(Foreign::words(why).to_string()),
                    Refusal::Failed(error) => error.into(),
                })?;
                desk.note_stored(format!("that {} is trusted", Foreign::name(&*candidate.file)));
            }
        }
        let files = candidates.into_iter().map(|candidate| {
            let state = trust::trust(desk.office, &candidate)?;
            let text = shows_text.then(|| candidate.text.clone());
            Ok(File { text, ..File::new(desk.office, candidate, state)? })
        });
        Ok(Answered::new(Answer { files: files.collect::<Result<_>>()?, nothing: "nothing runs a command" }))
    }
}

fn changed_meanwhile(what: &str) -> Error {
    let error = Error::conflict(format!("{} changed while you reviewed it", Foreign::words(what)));
    error.hint(note!("review it again: "[trust]))
}

fn cannot_be_trusted(candidate: &Candidate) -> Option<Error> {
    let (command, why) = candidate.problem()?;
    let error = Error::refused(format!("{} cannot be trusted", Foreign::name(&*candidate.file))).code("untrusted");
    let error = error.cause(format!("{}: {}", command.key, Foreign::words(why)));
    Some(error.hint("name a program that is there: its bytes are reviewed, and a copy of them runs"))
}

/// What changed in a text and its programs since they were reviewed, as lines that begin with - and +.
fn changes(office: &Office, reviewed: &Reviewed, candidate: &Candidate) -> Result<Vec<String>> {
    let mut lines = changed_lines(reviewed, &candidate.text, usize::MAX);
    for word in reviewed.changed_programs(candidate) {
        let now = candidate.commands.iter().find(|command| command.program.as_deref() == Some(word));
        lines.extend(now.map_or(Ok(Vec::new()), |now| trust::changed_program(office, reviewed, now))?);
    }
    Ok(lines)
}

/// The error for something that may not run, because a file that says how is not trusted. Names each such file, and what
/// changed in it.
pub fn untrusted(office: &Office, what: &str) -> Error {
    const LINES_MAX: usize = 4;
    let mut error = Error::refused(what).code("untrusted");
    for candidate in trust::candidates(office).unwrap_or_default() {
        let file = Foreign::name(&*candidate.file);
        match trust::trust(office, &candidate) {
            Ok(Trust::Trusted(_)) => {}
            Ok(Trust::Changed(reviewed)) => {
                let mut lines = changed_lines(&reviewed, &candidate.text, LINES_MAX);
                let programs = reviewed.changed_programs(&candidate);
                lines.extend(programs.iter().map(|program| format!("{program}, a program of it, changed")));
                let lines = Foreign::lines(lines.join("\n"));
                error = error.cause(format!("{file} changed since {} trusted it:{lines}", reviewed.by));
            }
            Ok(Trust::Never) => error = error.cause(format!("{file} was never trusted here")),
            Err(why) => error = error.cause(format!("{file}: {why}")),
        }
    }
    error.hint(note!("a person reviews it and trusts it: "[trust]))
}
