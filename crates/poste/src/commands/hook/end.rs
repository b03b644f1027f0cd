//! The session is over. A program waits for this hook a second or so, and then ends whatever became of it.

use std::time::Duration;

use poste_connect::live::Live;
use poste_core::config::Value;
use poste_core::store::tables::SessionRow;

use super::{Call, setting};
use crate::Result;
use crate::call::{Caller, call};

/// For the write lock. What is not closed now is taken over when the next session finds that the process is gone.
const PATIENCE: Duration = Duration::from_millis(400);

pub(super) fn end(hook: &Call) -> Result {
    // The same process goes on with another conversation, and takes over from this one with what it holds.
    if hook.event.goes_on {
        return Ok(());
    }
    let run = hook.live().map_or_else(|| hook.session.clone(), |live| live.session);
    let office = hook.cx(None)?.place()?.open()?;
    if let Some(session) = office.store().tables()?.session(&run)?.filter(SessionRow::is_live) {
        let caller = Caller {
            schema: hook.schema,
            speaker: Some(session.agent),
            session: Some(run.clone()),
            office: Some(hook.office.clone()),
        };
        let patience = format!("{}ms", PATIENCE.as_millis());
        let mut words = vec!["session", "close", "--lock-timeout", &patience];
        if setting(&hook.office, "session", "on_end") == Some(Value::Word("keep")) {
            words.push("--keep");
        }
        words.extend(["--", run.as_str()]);
        if let Some(error) = call(&caller, words).error {
            return Err(error);
        }
    }
    // The way into a session that is over is nobody's any more.
    let _ = Live::forget(&hook.office, &run);
    let _ = Live::forget(&hook.office, &hook.session);
    Ok(())
}
