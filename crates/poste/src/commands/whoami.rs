use std::io::{self, Write};

use poste_core::text::Session;
use poste_core::views::{self, RosterEntry, SessionView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::explain::unknown_agent;
use crate::ui::{Answer, Ui, escape};

/// Show who speaks, in which office
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste whoami --as coder\n  POSTE_AGENT=coder poste whoami")]
pub(crate) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhoamiAnswer {
    #[serde(flatten)]
    pub entry: RosterEntry,
    pub session: Option<Session>,
    /// The session the agent runs as, if one was started; it need not be this one.
    pub live_session: Option<SessionView>,
    pub office: String,
}

impl Answer for WhoamiAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", super::register::describe(&self.entry.agent))?;
        let more = if self.entry.pending_at_least { "+" } else { "" };
        writeln!(out, "{}{more} pending, {} claimed", self.entry.pending, self.entry.claimed)?;
        if let Some(session) = &self.session {
            writeln!(out, "session {session}")?;
        }
        if let Some(live) = &self.live_session {
            writeln!(out, "runs as {}", super::session::in_a_line(ui, live))?;
        }
        writeln!(out, "office {}", escape::line(&self.office))
    }
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    let name = cx.speaker()?;
    let office = cx.open()?;
    let entry = match views::agent(office.store(), &name)? {
        Some(entry) => entry,
        None => return Err(unknown_agent(&office, &name)?),
    };
    let session = cx.session();
    let live_session = views::live_session(office.store(), &name)?;
    if let Some(session) = &session
        && let Some(known) = office.store().tables()?.session(session)?
        && !known.is_live()
    {
        cx.ui.warn(super::session::over_text(&known));
    }
    cx.ui.answer(&WhoamiAnswer { entry, session, live_session, office: office.path()?.display().to_string() })
}
