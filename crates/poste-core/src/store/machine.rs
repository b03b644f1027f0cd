//! The identity of this machine in this office.
//!
//! Host names repeat, and folders are copied. So a machine's id is made from a name that each office draws when it is
//! created or restored, from an id of the machine itself, and from the database file. The office keeps its id for life,
//! and every copy of the folder, on this machine or another, has a different one.

use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, OptionalExtension};

use crate::digest::Digest;
use crate::error::Error;
use crate::text::Label;

const ID_HEX_DIGITS: usize = 16;

/// The file that identifies a machine whose system has no id.
const FINGERPRINT: &str = "machine";

/// Identifies this machine: the id its system got when it was installed, or else one that this user keeps. Empty if
/// there is neither; the other parts of a machine's id still distinguish copies.
pub(super) fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let given = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().filter_map(read);
        // Container images ship with an empty file.
        given.into_iter().find(|id| !id.is_empty() && id != "uninitialized").or_else(kept_by_user).unwrap_or_default()
    })
}

/// For systems without an id of their own: macOS, some containers.
fn kept_by_user() -> Option<String> {
    fingerprint(super::state::folder()?).ok()
}

/// A random id in a folder, drawn by the first process that asks for it.
fn fingerprint(folder: &Path) -> io::Result<String> {
    let file = folder.join(FINGERPRINT);
    let read = || fs::read_to_string(&file).map(|text| text.trim().to_owned());
    if let Ok(known) = read() {
        return Ok(known);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let drawn = fresh_name();
    let unfinished = folder.join(format!("{FINGERPRINT}-{drawn}"));
    let mut draft = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    draft.write_all(drawn.as_bytes())?;
    draft.sync_all()?;
    // A link never replaces an id that another process drew at the same moment, and its content is complete from the
    // start.
    let linked = fs::hard_link(&unfinished, &file);
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(),
    }
}

/// A name that no office had before.
pub(super) fn fresh_name() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Inserts the machine row into a new database.
pub(super) fn insert(conn: &Connection, name: &str) -> Result<(), Error> {
    conn.execute(
        "INSERT INTO machine (one, name, boot_id, boot_ms, at, policy_seen, erased_to) VALUES (1, ?1, '', 0, 0, 0, 0)",
        [name],
    )?;
    Ok(())
}

/// The id of a machine with this mark. In-memory tables have no folder, so their machine's id is the name they were
/// given.
pub(super) fn id(conn: &Connection, folder: Option<&Path>, mark: &str) -> Result<Label, Error> {
    let name: Option<String> =
        conn.query_row("SELECT name FROM machine WHERE one = 1", [], |row| row.get(0)).optional()?;
    let name = name.unwrap_or_default();
    let Some(folder) = folder else { return label(&name) };
    let file = folder.join("office.db");
    let meta = fs::metadata(&file).map_err(|error| Error::io(&file, error))?;
    label(&digest(&name, mark, meta.ino(), born_ns(&meta)))
}

/// When a file was created, if its file system knows. A copy on a fresh file system may get the same inode, but not the
/// same creation time.
fn born_ns(meta: &Metadata) -> u128 {
    let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    born.map_or(0, |since| since.as_nanos())
}

fn digest(name: &str, mark: &str, inode: u64, born_ns: u128) -> String {
    let mut id = Digest::of(format!("{name}\n{mark}\n{inode}\n{born_ns}").as_bytes()).to_string();
    id.truncate(ID_HEX_DIGITS);
    id
}

fn label(id: &str) -> Result<Label, Error> {
    id.parse().map_err(|_| Error::Damaged("the name of this machine is missing from the database".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_id_makes_another_machine() {
        let ids = [
            digest("name", "mark", 7, 1),
            digest("other", "mark", 7, 1),
            digest("name", "other", 7, 1),
            digest("name", "mark", 8, 1),
            digest("name", "mark", 7, 2),
        ];
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    }

    #[test]
    fn a_file_made_later_was_born_later() {
        let folder = tempfile::tempdir().unwrap();
        let born = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "x").unwrap();
            fs::metadata(&path).unwrap()
        };
        let first = born("first");
        if first.created().is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(born_ns(&born("second")) > born_ns(&first));
        } else {
            assert_eq!(born_ns(&first), 0);
        }
    }

    #[test]
    fn a_fingerprint_is_drawn_once_in_each_folder() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("state/poste");
        let drawn = fingerprint(&here).unwrap();
        assert_eq!(fingerprint(&here).unwrap(), drawn);
        assert_ne!(fingerprint(&folder.path().join("elsewhere")).unwrap(), drawn);
        assert_eq!(fs::read_dir(&here).unwrap().count(), 1, "nothing else is left there");
    }
}
