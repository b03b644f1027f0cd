//! Shows whether this machine's poste.toml is trusted to run commands, or trusts it.

use poste_config::{Command, Trust, TrustView};
use poste_core::text::Name;
use poste_core::{Digest, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb, person};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Trust the file as it is now. Only a person can.
    #[serde(skip)]
    pub yes: bool,
    /// Digest of the file that the person has read; default: the current one.
    #[serde(skip)]
    pub seen: Option<Digest>,
    /// Revoke the trust
    #[serde(skip)]
    pub revoke: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The path of poste.toml.
    pub file: String,
    /// BLAKE3 of its text; null without a file.
    pub digest: Option<Digest>,
    /// Whether it may run commands.
    pub trusted: bool,
    /// `no_file`, `never`, `changed` or `trusted`.
    pub state: &'static str,
    /// The person who trusted this file, or an earlier version of it.
    pub by: Option<Name>,
    /// When that was, RFC 3339.
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub at: Option<Timestamp>,
    /// The commands in it.
    pub commands: Vec<Command>,
}

impl Answer {
    fn new(file: String, view: TrustView) -> Self {
        let (state, mark) = match view.trust {
            Trust::NoFile => ("no_file", None),
            Trust::Never => ("never", None),
            Trust::Changed(mark) => ("changed", Some(mark)),
            Trust::Trusted(mark) => ("trusted", Some(mark)),
        };
        Self {
            file,
            digest: view.digest,
            trusted: state == "trusted",
            state,
            at: mark.as_ref().map(|mark| mark.at),
            by: mark.map(|mark| mark.by),
            commands: view.commands,
        }
    }
}

impl Verb for Input {
    const NAME: &'static str = "trust";
    const ACCESS: Access = Access::Administers;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("yes", Touch::SpeaksAsPerson), ("seen", Touch::SpeaksAsPerson), ("revoke", Touch::SpeaksAsPerson)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if self.revoke && !poste_config::revoke_trust(desk.office)? {
            desk.say("nothing was trusted here");
        }
        let file = poste_config::config_path(desk.office)?.display().to_string();
        let answer = Answer::new(file.clone(), poste_config::trust(desk.office)?);
        if !self.yes || answer.trusted {
            return Ok(Answered::new(answer));
        }
        let missing = || Error::not_found(format!("{file} does not exist"));
        let digest = self.seen.or(answer.digest).ok_or_else(missing)?;
        let by = person::confirmed(desk)?;
        poste_config::trust_config(desk.office, &digest, by)?;
        desk.note_stored(format!("that {file} is trusted"));
        Ok(Answered::new(Answer::new(file, poste_config::trust(desk.office)?)))
    }
}
