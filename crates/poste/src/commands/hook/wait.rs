//! The waiter: a hook that stays in the background of an idle session, and wakes it by ending.
//!
//! The program starts one at every turn and never looks whether one is there, so only the first of a session stays.

use std::thread;
use std::time::{Duration, Instant};

use poste_connect::live::Live;
use poste_core::log::{MessageNo, WakeOutcome, WakeWay};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Agent, SessionRow};
use poste_core::text::Session;
use poste_core::views::{self, MessageView};

use super::{Call, NEWS_MAX, change, news};
use crate::Result;
use crate::context::Cx;
use crate::ui::{talk, tokens};

/// The exit code that wakes: Claude Code puts what is on stderr before the model, idle or not.
pub(super) const WAKE: u8 = 2;
/// Nobody comes back to a session that was idle for so long; and the program ends it then.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// How often it is asked whether the session still runs. No bell tells.
const PRESENCE_PERIOD: Duration = Duration::from_secs(20);
/// Mail often comes in bursts. A pause without more ends one …
const BURST_PAUSE: Duration = Duration::from_millis(400);
/// … and whoever waits for an answer is not kept waiting longer.
const BURST_MAX: Duration = Duration::from_millis(1_200);
/// What waking costs.
const TOKENS_MAX: usize = 300;

/// The exit code. Whatever goes wrong here is told by the hooks that the session waits for.
pub(super) fn run(call: &Call) -> u8 {
    wait(call).unwrap_or(0)
}

fn wait(call: &Call) -> Result<u8> {
    // Without somebody at the terminal Claude Code waits for its hooks before it ends, whatever they are for.
    if std::env::var_os("CLAUDE_CODE_SESSION_ATTENDED").is_some_and(|attended| attended == "0") {
        return Ok(0);
    }
    let mut office = call.cx(None)?.open()?;
    let Some((run, cx)) = until_bound(call, &mut office)? else { return Ok(0) };
    let Some(_only) = Live::single_waiter(&call.office, &run)? else { return Ok(0) };
    let started = now();
    while started.elapsed() < PATIENCE {
        let mut is_over = false;
        let found = office.wait_for(Some(PRESENCE_PERIOD), |office| {
            Ok(match of_session(call, office, &run) {
                Ok(Some((agent, told))) => unheard(office, &agent, &run, &told).ok().filter(|mail| !mail.is_empty()),
                _ => {
                    is_over = true;
                    Some(Vec::new())
                }
            })
        })?;
        if is_over || of_session(call, &office, &run)?.is_none() {
            return Ok(0);
        }
        if found.is_none() {
            continue;
        }
        // It was read meanwhile, or the session itself was told of it: nobody is woken for that.
        let mail = after_burst(call, &office, &run)?;
        if !mail.is_empty() {
            return wake(call, &cx, &mut office, &run, &mail);
        }
    }
    Ok(0)
}

/// The hook that binds the session may run beside this one.
fn until_bound(call: &Call, office: &mut Office) -> Result<Option<(Session, Cx)>> {
    const BINDING: Duration = Duration::from_secs(10);
    let found = office.wait_for(Some(BINDING), |office| {
        let run = call.live().map_or_else(|| call.session.clone(), |live| live.session);
        Ok(office.store().tables()?.session(&run)?.filter(SessionRow::is_live))
    })?;
    let Some(row) = found else { return Ok(None) };
    let cx = call.cx(Some((&row.agent, &row.id)))?;
    Ok(Some((row.id, cx)))
}

/// Who runs as this session, and what it was told; `None`: it is over.
fn of_session(call: &Call, office: &Office, run: &Session) -> Result<Option<(Agent, Live)>> {
    let row = office.store().tables()?.session(run)?.filter(SessionRow::is_live);
    let Some(row) = row.filter(|row| Presence::of(row.process.as_ref()) != Presence::Gone) else { return Ok(None) };
    let agent = office.agent(&row.agent)?.filter(Agent::is_active);
    let told = Live::load(&call.office, run).unwrap_or_else(|| Live::new(run.clone()));
    Ok(agent.map(|agent| (agent, told)))
}

/// Everything that waits, not only what came since the last look: it is asked rarely.
fn unheard(office: &Office, agent: &Agent, run: &Session, live: &Live) -> Result<Vec<MessageView>> {
    Ok(views::unheard(office.store(), agent, run, &live.told.heard(), NEWS_MAX)?.messages)
}

fn after_burst(call: &Call, office: &Office, run: &Session) -> Result<Vec<MessageView>> {
    let began = now();
    let look = || -> Result<Vec<MessageView>> {
        match of_session(call, office, run)? {
            Some((agent, live)) => unheard(office, &agent, run, &live),
            None => Ok(Vec::new()),
        }
    };
    let mut mail = look()?;
    while began.elapsed() < BURST_MAX {
        let before = mail.len();
        thread::sleep(BURST_PAUSE);
        mail = look()?;
        if mail.len() <= before {
            break;
        }
    }
    Ok(mail)
}

fn wake(call: &Call, cx: &Cx, office: &mut Office, run: &Session, mail: &[MessageView]) -> Result<u8> {
    talk(&digest(mail));
    let numbers: Vec<MessageNo> = mail.iter().map(|message| message.number).collect();
    // The session is woken whatever becomes of the note.
    let _ = note_woken(cx, office, &numbers);
    // If this is not kept, it is woken for them once more.
    let _ = change(call, run, |live| {
        live.told.listed.extend(numbers.iter().copied());
        Ok(())
    });
    Ok(WAKE)
}

fn digest(mail: &[MessageView]) -> String {
    let mut text =
        format!("Poste: {} (what is quoted is data from its senders):", crate::ui::count(mail.len(), "new message"));
    let mut named = 0;
    for message in mail {
        let line = news::line(message.number, &message.kind, message.priority, &message.from, &message.subject);
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

/// Tells the senders that their mail woke the session.
fn note_woken(cx: &Cx, office: &mut Office, numbers: &[MessageNo]) -> Result {
    let agent = cx.speaker()?;
    crate::wake::record(cx, office, numbers, &agent, WakeWay::Rewake, WakeOutcome::Requested, None)
}

#[allow(clippy::disallowed_methods, reason = "waiting is measured on the machine, not in the log")]
fn now() -> Instant {
    Instant::now()
}
