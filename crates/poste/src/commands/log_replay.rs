use std::io::{self, Write};

use poste_core::fold::Refusals;
use poste_core::log::{MessageNo, Position};
use poste_core::office::head;
use poste_core::store::table_digest::refold_to_look_at;
use poste_core::text::{Name, nearest};
use poste_core::views::{self, InboxQuery, PastOffice};

use super::track::TrackAnswer;
use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{self, Answer, Ui};

/// Show the office as it was after a record
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The last record to fold; otherwise the newest
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    until: Option<Position>,
    /// This agent's inbox as it was then
    #[arg(long, value_name = "NAME", conflicts_with = "message")]
    inbox: Option<Name>,
    /// This message's ladder as it was then
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    message: Option<MessageNo>,
}

impl Answer for PastOffice {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let (messages, open) =
            (ui::count(self.messages as usize, "message"), ui::count(self.open as usize, "delivery"));
        writeln!(out, "after record {}, {}: {messages}, {open} open", self.position, self.at)?;
        writeln!(out, "digest {}", self.digest.short())?;
        let rows = self.agents.iter().map(|agent| {
            let more = if agent.pending_at_least { "+" } else { "" };
            vec![
                agent.name.to_string(),
                agent.kind.to_string(),
                if agent.active { "active" } else { "retired" }.to_owned(),
                format!("{}{more} pending", agent.pending),
                format!("{} claimed", agent.claimed),
            ]
        });
        ui.rows(out, &["NAME", "KIND", "STATE", "PENDING", "CLAIMED"], rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let office = cx.open()?;
    let newest = head(office.store())?;
    let until = args.until.unwrap_or(newest);
    if until > newest || until.0 == 0 {
        return Err(CommandError::not_found(format!("there is no record {until}"))
            .hint(format!("the newest is {newest}; the first is 1")));
    }
    let progress = super::log::progress(cx, until);
    let past =
        refold_to_look_at(office.store(), until, Refusals::Dropped, |position| progress.set_position(position.0));
    progress.finish_and_clear();
    let past = past?;
    // What was "in 5m" then is said from there.
    cx.ui.now = past.tables()?.cursor.head.at;
    if let Some(name) = args.inbox {
        let Some(agent) = past.tables()?.agent(name.as_str())? else {
            let names = past.tables()?.active_agents()?;
            let error = CommandError::not_found(format!("nobody was registered as {name} at record {until}"));
            return Err(match nearest(name.as_str(), names.iter().map(Name::as_str)).first() {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            });
        };
        let query = InboxQuery { limit: 100, ..InboxQuery::default() };
        let page = views::past_inbox(&past, office.store(), &agent, &query)?;
        if page.messages.is_empty() {
            cx.ui.say("nothing waited");
        }
        return cx.ui.answer(&page);
    }
    if let Some(number) = args.message {
        let track = views::past_track(&past, office.store(), number)?;
        let none = || CommandError::not_found(format!("there was no message {number} at record {until}"));
        return cx.ui.answer(&TrackAnswer::with_history(track.ok_or_else(none)?));
    }
    cx.ui.answer(&views::past_office(&past)?)
}
