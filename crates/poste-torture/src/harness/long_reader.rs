//! The WAL: short without readers, bounded behind a long reader, and short again afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use poste_core::Error;
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::SystemClock;

use crate::check;
use crate::desk::{Desk, told};
use crate::letters;
use crate::rig::{Result, Rig, Tally};

/// The limit of the write path (512 KiB) and one more commit of a batch.
const WAL_BYTES_USUAL: u64 = 2 * 1024 * 1024;

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    tally.expect(2);
    without_readers(rig, tally)?;
    if tally.is_enough() || rig.stops_early {
        return Ok(());
    }
    beside_a_reader(rig, tally)
}

/// Ten megabytes through one process.
fn without_readers(rig: &Rig, tally: &Tally) -> Result {
    let desk = Desk::with_agents(rig.disk.join("wal"), &rig.sound.poste, &["a", "b"])?;
    let lines: String = (0..4_000)
        .map(|n| format!("{{\"to\":\"b\",\"subject\":\"{n}\",\"body\":\"{}\"}}\n", "y".repeat(2_000)))
        .collect();
    let batch = desk.folder.join("batch.jsonl");
    std::fs::write(&batch, lines).map_err(|error| told(&batch, &error))?;
    let run = desk.run(&rig.tortured.poste, &["send", "--batch", "batch.jsonl", "--as", "a"])?;
    tally.check(run.is_ok(), || format!("a batch ended with {}", run.told()));
    let bytes = desk.wal_bytes();
    tally.check(bytes <= WAL_BYTES_USUAL, || format!("the WAL has {bytes} bytes without a reader"));
    tally.point();
    Ok(())
}

/// A transaction that stays open while a writer writes as fast as it can. The WAL grows up to its limit; then writers
/// are told which process is reading. Once the reader is gone, writes succeed again, and the WAL is short again.
fn beside_a_reader(rig: &Rig, tally: &Tally) -> Result {
    let patience = Duration::from_secs(rig.pick(3, 60));
    let desk = Desk::with_agents(rig.disk.join("reader"), &rig.sound.poste, &["a", "b"])?;
    let usual = Options::default();
    let wal_bytes_full = rig.pick(16 * 1024 * 1024, usual.wal_bytes_full);
    // Refused immediately: how long a writer waits is tested elsewhere.
    let options = Options { wal_bytes_full, lock_timeout: Duration::ZERO, ..usual };
    let place = Place { path: desk.office(), clock: Arc::new(SystemClock), options };
    let text = |error: poste_core::Error| error.to_string();
    let mut office = place.open().map_err(text)?;
    let reader = place.open().map_err(text)?;
    let count = "SELECT count(*) FROM log";
    let sql = |error: rusqlite::Error| error.to_string();
    let snapshot = reader.store().conn().unchecked_transaction().map_err(sql)?;
    let seen: u64 = snapshot.query_row(count, [], |row| row.get(0)).map_err(sql)?;
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    let (mut sent, mut refused) = (Vec::new(), 0_u64);
    while started.elapsed() < patience {
        let each = Instant::now();
        let id = format!("beside-{}", sent.len());
        match office.propose(&letters::letter(&id, "a", "b", "message", 100)?, &Rules::none()) {
            Ok(_) => sent.push(id),
            Err(Error::WalFull { .. }) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error.to_string()),
        }
        longest = longest.max(each.elapsed());
    }
    let still: u64 = snapshot.query_row(count, [], |row| row.get(0)).map_err(sql)?;
    tally.check(seen == still, || "what a reader sees changed inside its transaction".to_owned());
    let grown = desk.wal_bytes();
    let bound = wal_bytes_full + WAL_BYTES_USUAL;
    tally.check(grown <= bound, || format!("behind a reader the WAL has {grown} bytes, more than {bound}"));
    snapshot.finish().map_err(sql)?;
    letters::send(&mut office, "after", "a", "b", "message")?;
    let after = desk.wal_bytes();
    tally.note(format!(
        "a reader of {} s beside {} commits: WAL {:.1} MiB ({:.1} KiB a commit), {refused} sends refused at its bound, \
         slowest {} ms; {after} bytes after the next commit",
        patience.as_secs(),
        sent.len(),
        grown as f64 / 1_048_576.0,
        grown as f64 / 1_024.0 / sent.len().max(1) as f64,
        longest.as_millis(),
    ));
    tally.check(after <= WAL_BYTES_USUAL, || format!("the reader has ended and the WAL still has {after} bytes"));
    drop((office, reader));
    sent.push("after".to_owned());
    if let Err(broken) = check::sound(&desk.office(), &sent) {
        tally.violation(format!("after a long reader, {broken}"));
    }
    tally.point();
    Ok(())
}
