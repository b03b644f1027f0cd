//! Which machine this is, in this office.
//!
//! Host names repeat, and folders are copied. So the id of a machine is made of a name that each office draws when it is
//! made or restored, of what tells this machine from others, and of the database file itself: the office keeps its id
//! for its life, and every copy of the folder, on this machine or another, has one of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rusqlite::{Connection, OptionalExtension};

use super::host_name;
use crate::digest::Digest;
use crate::error::Error;
use crate::text::Label;

const ID_HEX_DIGITS: usize = 16;

/// What tells this machine from others: the id its system was given when it was installed, else its host name.
pub(super) fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let given = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().filter_map(read);
        // Images of containers come with an empty one.
        given.into_iter().find(|id| !id.is_empty() && id != "uninitialized").unwrap_or_else(host_name)
    })
}

/// A name that no office had before.
pub(super) fn fresh_name() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Gives a new database the row of its machine.
pub(super) fn insert(conn: &Connection, name: &str) -> Result<(), Error> {
    conn.execute(
        "INSERT INTO machine (one, name, boot_id, boot_ms, at, policy_seen, erased_to) VALUES (1, ?1, '', 0, 0, 0, 0)",
        [name],
    )?;
    Ok(())
}

/// The id of a machine with this mark. Tables in memory have no folder: their machine is called what they were told.
pub(super) fn id(conn: &Connection, folder: Option<&Path>, mark: &str) -> Result<Label, Error> {
    let name: Option<String> =
        conn.query_row("SELECT name FROM machine WHERE one = 1", [], |row| row.get(0)).optional()?;
    let name = name.unwrap_or_default();
    let Some(folder) = folder else { return label(&name) };
    let file = folder.join("office.db");
    let inode = fs::metadata(&file).map_err(|error| Error::io(&file, error))?.ino();
    let mut id = Digest::of(format!("{name}\n{mark}\n{inode}").as_bytes()).to_string();
    id.truncate(ID_HEX_DIGITS);
    label(&id)
}

fn label(id: &str) -> Result<Label, Error> {
    id.parse().map_err(|_| Error::Damaged("the name of this machine is gone from the database".to_owned()))
}
