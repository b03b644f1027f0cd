//! Closes a session that ends. A program waits about a second for this hook, and then exits in any case.

use std::time::Duration;

use poste_config::Value;
use poste_core::store::tables::SessionRow;
use poste_core::views;
use poste_verbs::Result;
use poste_verbs::live::Live;
use poste_verbs::session::{Identity, close};

use super::serve::{Call, setting};
use crate::station::Station;

/// Timeout for the write lock. The next session takes over one that is not closed now, once its process has ended.
const PATIENCE: Duration = Duration::from_millis(400);

pub(super) fn end(station: &Station, hook: &Call) -> Result {
    // The same process continues with another conversation, which takes over this session and its claims.
    if hook.event.continues {
        return Ok(());
    }
    let run = hook.live().map_or_else(|| hook.session.clone(), |live| live.session);
    let mut open = Station { lock_timeout: PATIENCE, ..station.clone() }.open()?;
    if let Some(session) = views::session_row(open.office.store(), &run)?.filter(SessionRow::is_live) {
        let keep = setting(&hook.office, "session", "on_end") == Some(Value::Word("keep"));
        let own = Identity { agent: Some(session.agent), session: Some(run.clone()) };
        let close = close::Input { session_id: Some(run.clone()), keep, ..close::Input::default() };
        open.act_as(&own).desk().call(close)?;
    }
    // A session that has ended can no longer be reached.
    let _ = Live::forget(&hook.office, &run);
    let _ = Live::forget(&hook.office, &hook.session);
    Ok(())
}
