//! Damage to the files of an office: `poste log verify` reports it, or nothing that was written has changed.

use std::fs;
use std::path::PathBuf;

use poste_core::Digest;
use poste_core::store::table_digest;
use rusqlite::Connection;

use crate::acts::{Bases, acts};
use crate::aftermath;
use crate::desk::{Desk, Run, told};
use crate::rig::{Result, Rig, Tally, on_every_core};

/// Targeted damage: each of these must be found.
const TAMPERING: &[(&str, &str)] = &[
    ("a content", "UPDATE content SET bytes = CAST(replace(CAST(bytes AS TEXT), 'please', 'refuse') AS BLOB)"),
    ("a missing content", "DELETE FROM content WHERE position = (SELECT max(position) FROM content)"),
    ("a delivery", "UPDATE deliveries SET attempts = attempts + 1 WHERE number = 1"),
    ("a lost delivery", "DELETE FROM deliveries WHERE number = 1"),
    ("an id", "UPDATE ids SET fingerprint = zeroblob(16) WHERE position = (SELECT max(position) FROM ids)"),
    ("a time", "UPDATE log SET at = at - 1 WHERE position = 2"),
    ("a link of the chain", "UPDATE log SET chain = zeroblob(32) WHERE position = 2"),
    ("an envelope", "UPDATE log SET envelope = CAST(replace(CAST(envelope AS TEXT), '\"a\"', '\"b\"') AS BLOB)"),
    ("a lost record", "DELETE FROM log WHERE position = 2"),
    ("a lost last record", "DELETE FROM log WHERE position = (SELECT max(position) FROM log)"),
];

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let folder = rig.memory.join("damage");
    let desk = office(rig, &folder)?;
    let flips = if rig.stops_early { 0 } else { rig.pick(60, 2_000) };
    tally.expect(TAMPERING.len() + 2 + flips);
    for (what, sql) in TAMPERING {
        let copy = desk.copy_to(folder.join("tampered"))?;
        let conn = Connection::open(copy.database()).map_err(|error| error.to_string())?;
        conn.execute_batch(sql).map_err(|error| format!("{what}: {error}"))?;
        drop(conn);
        is_told(rig, tally, &copy, what)?;
    }
    let copy = desk.copy_to(folder.join("tampered"))?;
    let blob = only_blob(&copy)?;
    fs::write(&blob, "something else").map_err(|error| told(&blob, &error))?;
    is_told(rig, tally, &copy, "a blob")?;
    fs::remove_file(&blob).map_err(|error| told(&blob, &error))?;
    is_told(rig, tally, &copy, "a missing blob")?;
    bit_flips(rig, tally, &desk, flips)
}

/// Records of several kinds, a blob, and a WAL that holds the newest of them.
fn office(rig: &Rig, folder: &std::path::Path) -> Result<Desk> {
    let bases = Bases::make(rig, &folder.join("bases"))?;
    let all = acts(&folder.join("files"))?;
    let desk = Desk::at(bases.path(crate::acts::Base::LongWal)).copy_to(folder.join("desk"))?;
    for name in ["send", "blob", "claim", "done", "batch"] {
        let act = all.iter().find(|act| act.name == name).ok_or_else(|| format!("there is no command {name}"))?;
        let run = aftermath::undisturbed(rig, &desk, act)?;
        if !run.is_ok() {
            return Err(format!("{name} ended with {}", run.told()));
        }
    }
    Ok(desk)
}

fn only_blob(desk: &Desk) -> Result<PathBuf> {
    let folder = desk.office().join("blobs");
    let mut entries = fs::read_dir(&folder).map_err(|error| told(&folder, &error))?.flatten();
    entries.next().map(|entry| entry.path()).ok_or_else(|| "there is no blob to damage".to_owned())
}

fn verify(rig: &Rig, desk: &Desk) -> Result<Run> {
    desk.run(&rig.tortured.poste, &["log", "verify", "--json"])
}

fn is_told(rig: &Rig, tally: &Tally, desk: &Desk, what: &str) -> Result {
    let run = verify(rig, desk)?;
    tally
        .check(run.is_documented() && !run.is_ok(), || format!("{what} was damaged: verify ended with {}", run.told()));
    tally.point();
    Ok(())
}

/// Everything that was written, and everything the fold made of it.
fn all_of(desk: &Desk) -> rusqlite::Result<(Digest, Vec<u8>)> {
    let conn = Connection::open(desk.database())?;
    let tables = table_digest::digest(&conn).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let mut content = blake3::Hasher::new();
    let mut statement = conn.prepare("SELECT position, subject, coalesce(bytes, '') FROM content ORDER BY position")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        content.update(&row.get::<_, i64>(0)?.to_le_bytes());
        content.update(row.get_ref(1)?.as_bytes()?);
        content.update(row.get_ref(2)?.as_bytes()?);
    }
    Ok((tables, content.finalize().as_bytes().to_vec()))
}

/// Flips one bit anywhere in the database, its WAL, or a blob.
fn bit_flips(rig: &Rig, tally: &Tally, desk: &Desk, flips: usize) -> Result {
    let whole = all_of(&desk.copy_to(rig.memory.join("damage/whole"))?).map_err(|error| error.to_string())?;
    let mut rng = rig.rng("damage");
    let files = [
        "office.db".to_owned(),
        "office.db-wal".to_owned(),
        only_blob(desk)?.strip_prefix(desk.office()).map_err(|error| error.to_string())?.to_string_lossy().into_owned(),
    ];
    let points: Vec<(&String, u64)> = (0..flips).map(|n| (&files[n % files.len()], rng.next_u64())).collect();
    on_every_core(&points, tally, |core, (file, random)| {
        let copy = desk.copy_to(rig.memory.join(format!("damage/core-{core}")))?;
        let path = copy.office().join(file);
        let mut bytes = fs::read(&path).map_err(|error| told(&path, &error))?;
        let bit = usize::try_from(random % (bytes.len() as u64 * 8)).unwrap_or(0);
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bytes).map_err(|error| told(&path, &error))?;
        let run = verify(rig, &copy)?;
        tally.check(run.is_documented(), || format!("bit {bit} of {file}: verify ended with {}", run.told()));
        if run.is_ok() {
            let unchanged = all_of(&copy).is_ok_and(|all| all == whole);
            tally.check(unchanged, || format!("bit {bit} of {file} changed the office, and verify calls it sound"));
        }
        tally.point();
        Ok(())
    })
}
