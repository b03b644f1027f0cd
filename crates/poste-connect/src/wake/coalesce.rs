//! One ring for what comes together: whoever was rung a moment ago is not rung again for the same mail, and for other mail
//! only after a while.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use poste_core::log::{MessageNo, WakeWay};
use poste_core::text::Name;
use poste_core::vocabulary::Urgency;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::live;

/// Mail that comes within this becomes one ring.
pub const WINDOW: Duration = Duration::from_secs(5);

const BYTES_MAX: u64 = 64 * 1024;

/// The last ring that was heard of.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Rung {
    at_ms: u64,
    how: WakeWay,
    urgency: Urgency,
    numbers: Vec<MessageNo>,
}

/// Whether it is time to ring.
#[derive(Debug)]
pub enum Turn {
    /// A ring so long ago was for all of this.
    Covered { ago: Duration, how: WakeWay },
    /// Somebody was rung a moment ago for something else: look again after this.
    Wait(Duration),
    /// Nobody else rings while this is held.
    Now(Bell),
}

/// The right to ring an agent.
#[derive(Debug)]
pub struct Bell {
    file: File,
}

/// Asks to ring an agent for some mail.
pub fn turn(office: &Path, agent: &Name, numbers: &[MessageNo], urgency: Urgency) -> io::Result<Turn> {
    live::make_folder(office)?;
    let name = blake3::hash(format!("agent {agent}").as_bytes()).to_hex();
    let path = office.join(live::FOLDER).join(&name[..32]).with_extension("rung");
    let mut file = live::lock_file(&path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut bytes = Vec::new();
    (&mut file).take(BYTES_MAX).read_to_end(&mut bytes)?;
    let last: Option<Rung> = serde_json::from_slice(&bytes).ok();
    // A clock that was set back makes nobody wait.
    let ago = last.as_ref().and_then(|last| now_ms().checked_sub(last.at_ms)).map(Duration::from_millis);
    let (Some(last), Some(ago)) = (last, ago.filter(|ago| *ago < WINDOW)) else { return Ok(Turn::Now(Bell { file })) };
    if numbers.iter().all(|number| last.numbers.contains(number)) {
        return Ok(Turn::Covered { ago, how: last.how });
    }
    // What must be seen now does not wait for what need not.
    if urgency < last.urgency {
        return Ok(Turn::Now(Bell { file }));
    }
    Ok(Turn::Wait(WINDOW - ago))
}

impl Bell {
    /// Notes a ring that was asked for, and gives the right back.
    pub fn rang(mut self, how: WakeWay, numbers: &[MessageNo], urgency: Urgency) -> io::Result<()> {
        let rung = Rung { at_ms: now_ms(), how, urgency, numbers: numbers.to_vec() };
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&serde_json::to_vec(&rung)?)
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_covers_what_it_was_for_and_holds_up_the_rest_for_a_while() {
        let office = tempfile::tempdir().expect("a folder");
        let agent: Name = "coder".parse().expect("a name");
        let one = [MessageNo(1)];
        let both = [MessageNo(1), MessageNo(2)];
        let turn = |numbers: &[MessageNo], urgency| turn(office.path(), &agent, numbers, urgency).expect("asked");
        let Turn::Now(bell) = turn(&one, Urgency::Turn) else { panic!("nobody rang yet") };
        drop(bell); // no way worked: nothing is noted
        let Turn::Now(bell) = turn(&one, Urgency::Turn) else { panic!("nobody rang yet") };
        bell.rang(WakeWay::Tmux, &one, Urgency::Turn).expect("noted");
        assert!(matches!(turn(&one, Urgency::Turn), Turn::Covered { how: WakeWay::Tmux, .. }));
        assert!(matches!(turn(&both, Urgency::Turn), Turn::Wait(left) if left <= WINDOW));
        let Turn::Now(bell) = turn(&both, Urgency::Now) else { panic!("what is urgent does not wait") };
        bell.rang(WakeWay::Tmux, &both, Urgency::Now).expect("noted");
        assert!(matches!(turn(&[MessageNo(3)], Urgency::Now), Turn::Wait(_)));
        let other: Name = "other".parse().expect("a name");
        assert!(matches!(super::turn(office.path(), &other, &one, Urgency::Now), Ok(Turn::Now(_))));
    }
}
