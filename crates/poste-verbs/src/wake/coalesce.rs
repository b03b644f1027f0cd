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

/// The time over which wakes of an agent are counted.
const PACE: Duration = Duration::from_secs(60);

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
    /// When the agent was woken within the last minute.
    #[serde(default)]
    recent_ms: Vec<u64>,
}

impl Rung {
    fn read(file: &Locked) -> Option<Self> {
        let mut bytes = Vec::new();
        (&**file).take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn write(&self, mut file: &std::fs::File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// A clock that was set back makes no ring wait.
    fn recent(&self, now_ms: u64) -> Vec<u64> {
        let is_recent = |at: &u64| now_ms.checked_sub(*at).is_some_and(|ago| u128::from(ago) < PACE.as_millis());
        self.recent_ms.iter().copied().filter(is_recent).collect()
    }
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
    recent_ms: Vec<u64>,
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
    let last = Rung::read(&file);
    let recent_ms = last.as_ref().map(|last| last.recent(now_ms())).unwrap_or_default();
    let last = last.filter(|last| last.how.is_some() || !by_hand);
    // A clock that was set back makes no ring wait.
    let ago = last.as_ref().and_then(|last| now_ms().checked_sub(last.at_ms)).map(Duration::from_millis);
    let (Some(last), Some(ago)) = (last, ago.filter(|ago| *ago < WINDOW)) else {
        return Ok(Turn::Now(Bell { file, recent_ms }));
    };
    if numbers.iter().all(|number| last.numbers.contains(number)) {
        return Ok(Turn::Covered { ago, how: last.how });
    }
    // More urgent mail does not wait because of a less urgent ring.
    if urgency < last.urgency {
        return Ok(Turn::Now(Bell { file, recent_ms }));
    }
    Ok(Turn::Wait(WINDOW - ago))
}

/// How long an agent must not be woken because it was woken this often within a minute. `None`: it may be woken.
pub fn rest(office: &Path, agent: &Name, per_minute: u32) -> io::Result<Option<Duration>> {
    let file = locked(office, agent, "rung", PATIENCE)?;
    let now = now_ms();
    let recent = Rung::read(&file).map(|rung| rung.recent(now)).unwrap_or_default();
    let counted = recent.len().checked_sub(usize::try_from(per_minute).unwrap_or(usize::MAX));
    // One more is possible once the oldest of the last so many is a minute ago.
    let oldest = counted.and_then(|first| recent.get(first));
    Ok(oldest.map(|at| PACE.saturating_sub(Duration::from_millis(now.saturating_sub(*at)))))
}

/// Notes that an agent was woken without a ring.
pub fn woke(office: &Path, agent: &Name) -> io::Result<()> {
    let file = locked(office, agent, "rung", PATIENCE)?;
    let now = now_ms();
    let nothing = Rung { at_ms: 0, how: None, urgency: Urgency::Later, numbers: Vec::new(), recent_ms: Vec::new() };
    let mut rung = Rung::read(&file).unwrap_or(nothing);
    rung.recent_ms = rung.recent(now);
    rung.recent_ms.push(now);
    rung.write(&file)
}

fn locked(office: &Path, agent: &Name, extension: &str, patience: Duration) -> io::Result<Locked> {
    let file = format!("{}.{extension}", live::stem_of(&format!("agent {agent}")));
    live::locked(&live::make_folder(office)?, &file, patience)
}

impl Bell {
    /// Notes a ring, whether or not a way worked, and gives up the right to ring.
    pub fn rang(self, how: Option<WakeWay>, numbers: &[MessageNo], urgency: Urgency) -> io::Result<()> {
        let (at_ms, mut recent_ms) = (now_ms(), self.recent_ms);
        recent_ms.extend(how.map(|_| at_ms));
        Rung { at_ms, how, urgency, numbers: numbers.to_vec(), recent_ms }.write(&self.file)
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
