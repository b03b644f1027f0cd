//! Shows the calling agent and the office.

use poste_core::text::Session;
use poste_core::views::{self, RosterEntry, SessionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb, unknown_agent};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub entry: RosterEntry,
    /// The session of this call.
    pub session: Option<Session>,
    /// The session the agent runs as, if any; it may differ from `session`.
    pub live_session: Option<SessionView>,
    /// The office's folder.
    pub office: String,
}

impl Verb for Input {
    const NAME: &'static str = "whoami";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let name = desk.speaker()?;
        let store = desk.office.store();
        let Some(entry) = views::agent(store, &name)? else { return Err(unknown_agent(desk.office, &name)?) };
        let session = desk.caller.session.clone();
        let live_session = views::live_session(store, &name)?;
        let over = session.as_ref().map(|session| views::session_over(store, session)).transpose()?.flatten();
        let office = desk.office.path()?.display().to_string();
        if let Some(over) = over {
            desk.warn(over);
        }
        Ok(Answered::new(Answer { entry, session, live_session, office }))
    }
}
