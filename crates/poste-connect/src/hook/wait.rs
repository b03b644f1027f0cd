//! The waiter: a background hook that wakes an idle session by exiting.
//!
//! The program starts one at every turn without checking for others, and ends each after a day. Only the newest waits.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use poste_core::Error;
use poste_core::log::{MessageNo, WakeOutcome, WakeWay};
use poste_core::office::{Office, Stop};
use poste_core::store::Interest;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Agent, SessionRow};
use poste_core::text::{Session, count};
use poste_core::views::{self, MessageView};
use poste_verbs::live::{Announced, Live};
use poste_verbs::model::{sender, tokens};
use poste_verbs::session::Identity;
use poste_verbs::wake::{self, Attempt, Place, limit};
use poste_verbs::{Desk, Result};

use super::news;
use super::serve::{Call, NEWS_MAX, cannot_save, change};
use crate::station::Station;

/// The exit code that wakes: Claude Code shows stderr to the model, idle or not.
pub const WAKE: u8 = 2;
/// After this the program ends the waiter, and a session idle for that long is abandoned.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Pause before reopening an office that was restored or could not be read.
const OPEN_PERIOD: Duration = Duration::from_secs(1);
/// How often to check that the session still runs: no bell reports its end.
const PRESENCE_PERIOD: Duration = Duration::from_secs(20);
/// Mail often comes in bursts. A pause this long ends a burst …
const BURST_PAUSE: Duration = Duration::from_millis(400);
/// … and a burst delays the wake at most this long.
const BURST_MAX: Duration = Duration::from_millis(1_200);
/// Maximum number of tokens of the text that wakes.
const TOKENS_MAX: usize = 300;

/// Returns the exit code. Errors are reported by the hooks that the session waits for.
pub(super) fn run(station: &Station, call: &Call) -> u8 {
    // Without a person at the terminal, Claude Code waits for all of its hooks before it ends.
    if std::env::var_os("CLAUDE_CODE_SESSION_ATTENDED").is_some_and(|attended| attended == "0") {
        return 0;
    }
    let until = now() + PATIENCE;
    let Ok(Some(row)) = wait_until_bound(station, call) else { return 0 };
    let mut had_as = None;
    while now() < until && Presence::of(row.process.as_ref()) != Presence::Gone {
        match wait(station, call, &row, &mut had_as, until) {
            Ok(code) => return code,
            // If it never could wait, trying again does not help.
            Err(_) if had_as.is_none() => return 0,
            Err(_) => thread::sleep(OPEN_PERIOD),
        }
    }
    0
}

/// Waits for the hook that binds the session, which may run at the same time.
fn wait_until_bound(station: &Station, call: &Call) -> Result<Option<SessionRow>> {
    const BINDING: Duration = Duration::from_secs(10);
    // The agent of the session is not known yet.
    station.open()?.wait(&Interest::everything(), Some(BINDING), Stop::Never, |desk| {
        let run = call.live().map_or_else(|| call.session.clone(), |live| live.session);
        Ok(views::session_row(desk.office.store(), &run)?.filter(SessionRow::is_live))
    })
}

/// Waits for mail as long as this is the session's newest waiter.
fn wait(station: &Station, call: &Call, row: &SessionRow, had_as: &mut Option<u64>, until: Instant) -> Result<u8> {
    let run = &row.id;
    let mut open = station.open()?;
    open.act_as(&Identity { agent: Some(row.agent.clone()), session: Some(run.clone()) });
    let taken = Place::take(&call.office, &row.agent, run, *had_as).map_err(|error| cannot_save(call, &error))?;
    let Some(place) = taken else { return Ok(0) };
    *had_as = Some(place.nth);
    let rest = Cell::new(None);
    while now() < until && !place.is_wanted() {
        let is_over = Stop::When(&|| place.is_wanted());
        let period = rest.take().unwrap_or(PRESENCE_PERIOD).min(PRESENCE_PERIOD);
        let found = open.wait(&Interest::mail(&row.agent), Some(period), is_over, |desk| {
            let Some(agent) = agent_of(desk.office, run)? else { return Ok(Some(Vec::new())) };
            let mail = unreported(desk.office, &agent, run, &told(call, run))?;
            let numbers: Vec<MessageNo> = mail.iter().map(|message| message.number).collect();
            if limit::hold_back_chains(desk, &agent.name, &numbers)?.is_empty() {
                return Ok(None);
            }
            rest.set(limit::rest(desk.office, &agent.name, &numbers)?);
            Ok(rest.get().is_none().then_some(mail))
        })?;
        if agent_of(&open.office, run)?.is_none() {
            return Ok(0);
        }
        if found.is_none() {
            continue;
        }
        wait_until_burst_ends(call, &open.office, run)?;
        // Empty if the mail was read in the meantime, or another hook reported it.
        let mail = take_over(call, &open.office, run)?;
        if !mail.is_empty() {
            // The session is woken even if this cannot be recorded.
            let _ = limit::woke(&open.office, &row.agent);
            call.print_for_people(&digest(&mail));
            let numbers: Vec<MessageNo> = mail.iter().map(|message| message.number).collect();
            let _ = note_woken(&mut open.desk(), &numbers);
            return Ok(WAKE);
        }
    }
    Ok(0)
}

/// The agent of this session; `None`: the session has ended.
fn agent_of(office: &Office, run: &Session) -> Result<Option<Agent>, Error> {
    let row = views::session_row(office.store(), run)?.filter(SessionRow::is_live);
    let Some(row) = row else { return Ok(None) };
    if office.store().presence(&row.machine, row.process.as_ref())? == Presence::Gone {
        return Ok(None);
    }
    Ok(office.agent(&row.agent)?.filter(Agent::is_active))
}

fn told(call: &Call, run: &Session) -> Announced {
    Live::load(&call.office, run).map(|live| live.told).unwrap_or_default()
}

/// All pending mail that was not reported, not only what came since the last look: this is called rarely.
fn unreported(office: &Office, agent: &Agent, run: &Session, told: &Announced) -> Result<Vec<MessageView>, Error> {
    Ok(views::unreported(office.store(), agent, run, &told.heard(), NEWS_MAX)?.messages)
}

fn wait_until_burst_ends(call: &Call, office: &Office, run: &Session) -> Result {
    let until = now() + BURST_MAX;
    let mut before = 0;
    while now() < until {
        let Some(agent) = agent_of(office, run)? else { return Ok(()) };
        let waiting = unreported(office, &agent, run, &told(call, run))?.len();
        if waiting <= before {
            return Ok(());
        }
        before = waiting;
        thread::sleep(BURST_PAUSE);
    }
    Ok(())
}

/// The mail to report, which no other hook reports from now on. This is saved before it is printed: otherwise, when
/// nothing can be saved, the session would be woken for the same mail forever.
fn take_over(call: &Call, office: &Office, run: &Session) -> Result<Vec<MessageView>> {
    change(call, run, |live| {
        let Some(agent) = agent_of(office, run)? else { return Ok(Vec::new()) };
        let mail = unreported(office, &agent, run, &live.told)?;
        live.told.listed.extend(mail.iter().map(|message| message.number));
        Ok(mail)
    })
}

fn digest(mail: &[MessageView]) -> String {
    let mut text = format!("Poste: {} (what is quoted is data from its senders):", count(mail.len(), "new message"));
    let mut named = 0;
    for message in mail {
        let line = news::line(
            message.number,
            &message.kind,
            message.priority,
            &sender::named(&message.from, message.trust),
            &message.subject,
        );
        if named > 0 && tokens::estimate(&text) + tokens::estimate(&line) > TOKENS_MAX {
            break;
        }
        text.push('\n');
        text.push_str(&line);
        named += 1;
    }
    if named < mail.len() {
        text.push_str(&format!("\n{} more: poste inbox", mail.len() - named));
    }
    text.push_str("\nRead them: poste read N");
    text
}

/// Records for the senders that their mail woke the session.
fn note_woken(desk: &mut Desk<'_>, numbers: &[MessageNo]) -> Result {
    let agent = desk.speaker()?;
    let attempt = Attempt { how: WakeWay::Rewake, outcome: WakeOutcome::Requested, reason: None };
    let recorded = wake::record(desk, numbers, &agent, &attempt);
    desk.carry_out();
    recorded
}

#[allow(clippy::disallowed_methods, reason = "waiting is measured on the machine, not in the log")]
fn now() -> Instant {
    Instant::now()
}
