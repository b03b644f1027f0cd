//! Archive files as a failing disk, an editor or an attacker leaves them.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use poste_core::store::Folder;
use poste_core::store::archive::{Archives, Line};
use poste_core::store::tables::ArchiveRow;
use poste_core::{Digest, Error, Position, Timestamp};

use super::{Checked, must};

const FILE: &str = "2027-01-15-9.jsonl";

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let line = |position: u64, content: &str| {
        format!(
            "{{\"position\":{position},\"at\":1800000000000,\"by\":\"coder\",\"kind\":\"delivery.done\",\"content\":{content}}}\n"
        )
    };
    let three = [
        line(3, "null"),
        line(5, r#""{\"summary\":\"hunter2\"}""#),
        line(9, r#""{\"subject\":\",\\\"content\\\":\"}""#),
    ];
    let twice = [line(3, r#""one""#), line(3, r#""two""#), line(4, "null")];
    let message = include_str!("archived_message.jsonl");
    [three.concat(), twice.concat(), String::new(), message.to_owned()].map(String::into_bytes).into()
}

/// In memory if the machine has such a folder, because redaction syncs.
fn some_folder() -> Result<tempfile::TempDir, String> {
    let shared_memory = Path::new("/dev/shm");
    let made = if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() };
    made.map_err(|error| error.to_string())
}

pub(super) fn archive(input: &[u8]) -> Checked {
    let folder = match FOLDER.with_borrow_mut(Option::take) {
        Some(folder) => folder,
        None => some_folder()?,
    };
    let checked = check_file(folder.path(), input);
    FOLDER.with_borrow_mut(|kept| *kept = Some(folder));
    checked
}

fn check_file(folder: &Path, input: &[u8]) -> Checked {
    let office = Folder::open(folder).and_then(|office| office.make("archive").map(|_| office));
    let archives = Archives::new(&office.map_err(|error| error.to_string())?);
    let path = archives.path(FILE);
    fs::write(&path, input).map_err(|error| error.to_string())?;
    let row = ArchiveRow {
        position: Position(9),
        at: Timestamp::from_ms(1_800_000_000_000),
        file: FILE.to_owned(),
        lines: 3,
        digest: Digest::of(b""),
    };
    let mut lines: Vec<Line> = Vec::new();
    let before = archives.check(&row.file, |line| {
        lines.push(line);
        Ok(())
    });
    let positions = [0, 3, 4, 5, 9, u64::MAX].map(Position);
    let mut ends = Vec::new();
    for position in positions {
        ends.push(match archives.find(&row, position) {
            Ok(found) => {
                must(found.iter().all(|line| line.position == position), || format!("{position}: another's line"))?;
                format!("{} found", found.len().min(3))
            }
            Err(error) => class_of(&error)?,
        });
    }
    redaction_holds(&archives, &row, input, before.is_ok().then_some(&lines))?;
    let whole = match before {
        Ok(written) => format!("{} lines", written.lines.min(4)),
        Err(error) => class_of(&error)?,
    };
    Ok(format!("{whole}; {}", ends.join(", ")))
}

/// Damage must be reported as damage; any other error is our own fault.
fn class_of(error: &Error) -> Checked {
    match error {
        Error::Damaged(why) => Ok(format!("damaged: {}", why.split(" at line").next().unwrap_or_default())),
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => Ok("invalid data".to_owned()),
        other => Err(format!("damage is told as {other:?}")),
    }
}

/// No byte moves, the redacted content is gone, and everything that is not content still matches its digest.
fn redaction_holds(
    archives: &Archives,
    row: &ArchiveRow,
    input: &[u8],
    lines: Option<&Vec<Line>>,
) -> Result<(), String> {
    let redacted = Position(5);
    archives.redact(row, &[redacted]).map_err(|error| format!("redacting failed: {error}"))?;
    let after = fs::read(archives.path(FILE)).map_err(|error| error.to_string())?;
    must(after.len() == input.len(), || "redacting moved bytes".to_owned())?;
    must(archives.files().is_ok_and(|files| files == [FILE]), || "redacting left a file behind".to_owned())?;
    // The rest only holds for files that this program wrote. Files written differently are damaged, and reported as
    // such.
    let Some(lines) = lines.filter(|lines| is_ours(lines, input)) else { return Ok(()) };
    let mut kept = Vec::new();
    let now = archives.check(&row.file, |line| {
        kept.push(line);
        Ok(())
    });
    must(now.is_ok(), || format!("after redacting it does not read: {now:?}"))?;
    for (line, before) in kept.iter().zip(lines) {
        let wanted = if before.position == redacted { &None } else { &before.content };
        must(line.content == *wanted, || format!("{}: content {:?}", line.position, line.content))?;
    }
    Ok(())
}

fn is_ours(lines: &[Line], input: &[u8]) -> bool {
    let written: Vec<u8> =
        lines.iter().flat_map(|line| serde_json::to_vec(line).unwrap_or_default().into_iter().chain(*b"\n")).collect();
    written == input
}
