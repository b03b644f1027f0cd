//! The session is over. A program waits for this hook a second or so, and then ends whatever became of it.

use std::time::Duration;

use poste_config::Value;
use poste_core::store::tables::SessionRow;
use poste_core::views;
use poste_verbs::Result;
use poste_verbs::live::Live;
use poste_verbs::session::{Identity, close};

use super::serve::{Call, setting};
use crate::station::Station;

/// For the write lock. What is not closed now is taken over when the next session finds that the process is gone.
const PATIENCE: Duration = Duration::from_millis(400);

pub(super) fn end(station: &Station, hook: &Call) -> Result {
    // The same process goes on with another conversation, and takes over from this one with what it holds.
    if hook.event.goes_on {
        return Ok(());
    }
    let run = hook.live().map_or_else(|| hook.session.clone(), |live| live.session);
    let mut open = Station { lock_timeout: PATIENCE, ..station.clone() }.open()?;
    if let Some(session) = views::session_row(open.office.store(), &run)?.filter(SessionRow::is_live) {
        let keep = setting(&hook.office, "session", "on_end") == Some(Value::Word("keep"));
        let own = Identity { agent: Some(session.agent), session: Some(run.clone()) };
        let close = close::Input { session_id: Some(run.clone()), keep, ..close::Input::default() };
        open.speak_as(&own).desk().call(close)?;
    }
    // The way into a session that is over is nobody's any more.
    let _ = Live::forget(&hook.office, &run);
    let _ = Live::forget(&hook.office, &hook.session);
    Ok(())
}
