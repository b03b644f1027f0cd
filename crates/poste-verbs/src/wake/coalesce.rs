//! Combines rings: an agent that was rung a moment ago is not rung again for the same mail, and for other mail only
//! after a while. While one process rings, one more waits to ring, and all others leave their mail to that one.

use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use poste_core::log::{MessageNo, WakeWay};
use poste_core::store::Locked;
use poste_core::text::Name;
use poste_core::vocabulary::Urgency;
use serde::{Deserialize, Serialize};

use super::{LIMIT, planner};
use crate::live;

/// Mail that arrives within this time becomes one ring.
pub const WINDOW: Duration = Duration::from_secs(5);

/// Longer than a ring that tries every way.
const PATIENCE: Duration = LIMIT.saturating_mul(planner::WAYS_MAX + 1);
/// Room for the numbers of far more mail than an agent leaves waiting.
const BYTES_MAX: u64 = 1024 * 1024;

/// The last ring.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Rung {
    at_ms: u64,
    /// None: no way worked.
    how: Option<WakeWay>,
    urgency: Urgency,
    numbers: Vec<MessageNo>,
}

/// Whether it is time to ring.
#[derive(Debug)]
pub enum Turn {
    /// A ring this long ago was for all of this mail, by the way that worked.
    Covered { ago: Duration, how: Option<WakeWay> },
    /// The agent was rung a moment ago for other mail: try again after this.
    Wait(Duration),
    /// No other process rings while this is held.
    Now(Bell),
}

/// The right to ring an agent.
#[derive(Debug)]
pub struct Bell {
    file: Locked,
}

/// The place of the process that rings next.
#[derive(Debug)]
pub struct Next {
    _lock: Locked,
}

/// Asks to be the next process that rings an agent, for all mail that rings by then. `None`: another process is next,
/// and will ring for this mail too.
pub fn next(office: &Path, agent: &Name) -> io::Result<Option<Next>> {
    match locked(office, agent, "next", Duration::ZERO) {
        Ok(lock) => Ok(Some(Next { _lock: lock })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks to ring an agent for some mail. A request by hand ignores a failed last ring, whose cause may have been fixed.
/// `WouldBlock`: the process that rings does not finish.
pub fn turn(office: &Path, agent: &Name, numbers: &[MessageNo], urgency: Urgency, by_hand: bool) -> io::Result<Turn> {
    let file = locked(office, agent, "rung", PATIENCE)?;
    let mut bytes = Vec::new();
    (&*file).take(BYTES_MAX).read_to_end(&mut bytes)?;
    let last: Option<Rung> = serde_json::from_slice(&bytes).ok();
    let last = last.filter(|last| last.how.is_some() || !by_hand);
    // A clock that was set back makes no ring wait.
    let ago = last.as_ref().and_then(|last| now_ms().checked_sub(last.at_ms)).map(Duration::from_millis);
    let (Some(last), Some(ago)) = (last, ago.filter(|ago| *ago < WINDOW)) else { return Ok(Turn::Now(Bell { file })) };
    if numbers.iter().all(|number| last.numbers.contains(number)) {
        return Ok(Turn::Covered { ago, how: last.how });
    }
    // More urgent mail does not wait because of a less urgent ring.
    if urgency < last.urgency {
        return Ok(Turn::Now(Bell { file }));
    }
    Ok(Turn::Wait(WINDOW - ago))
}

fn locked(office: &Path, agent: &Name, extension: &str, patience: Duration) -> io::Result<Locked> {
    let file = format!("{}.{extension}", live::stem_of(&format!("agent {agent}")));
    live::locked(&live::make_folder(office)?, &file, patience)
}

impl Bell {
    /// Notes a ring, whether or not a way worked, and gives up the right to ring.
    pub fn rang(self, how: Option<WakeWay>, numbers: &[MessageNo], urgency: Urgency) -> io::Result<()> {
        let rung = Rung { at_ms: now_ms(), how, urgency, numbers: numbers.to_vec() };
        self.file.set_len(0)?;
        (&*self.file).rewind()?;
        (&*self.file).write_all(&serde_json::to_vec(&rung)?)
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
