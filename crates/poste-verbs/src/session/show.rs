//! Shows what the agents of a session share: goal, agents, decisions, questions.

use poste_core::text::Session;
use poste_core::views::{self, SessionContext};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{chosen, no_session, page};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Session to show; default: the caller's
    pub id: Option<Session>,
    /// Also write the session's page again
    pub page: bool,
}

impl Verb for Input {
    const NAME: &'static str = "session show";
    const ACCESS: Access = Access::Reads;
    type Answer = SessionContext;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<SessionContext>> {
        let session = chosen(desk, self.id)?;
        let context = views::session_context(desk.office.store(), &session.id)?;
        let context = context.ok_or_else(|| no_session(&session.id))?;
        if self.page {
            let path = page::write(desk.office, &context.root)?;
            desk.say(format!("written to {}", path.display()));
        }
        Ok(Answered::new(context))
    }
}
