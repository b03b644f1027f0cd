//! The manifest of a snapshot.

use std::collections::BTreeSet;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Error;
use crate::log::Position;
use crate::store::archive::is_archive_name;
use crate::store::aside;

pub(super) const FILE: &str = "snapshot.json";
pub(super) const DATABASE: &str = "office.db";
pub(super) const BLOBS: &str = "blobs";
pub(super) const ARCHIVE: &str = "archive";

const FORMAT: &str = "poste snapshot";
/// Raised when older programs can no longer restore new snapshots.
const VERSION: u32 = 1;
/// Enough for about two million files.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    pub format: String,
    pub version: u32,
    /// The office's own id, the same for all its copies.
    pub office: String,
    /// The newest record …
    pub position: Position,
    /// … the hash of the chain of records up to it …
    pub chain: Digest,
    /// … and the digest of all tables at that position.
    pub tables: Digest,
    /// The schema version of the database.
    pub schema: u32,
    /// By the clock of the machine that took it, RFC 3339.
    pub taken_at: String,
    pub program: String,
    pub files: Vec<ManifestFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestFile {
    /// Relative to the snapshot's folder.
    pub path: String,
    pub bytes: u64,
    pub digest: Digest,
}

/// Read first, because a manifest of a newer version may have another shape.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Manifest {
    pub(super) fn of(office: String, schema: u32, taken_at: String) -> Self {
        let nothing = Digest::from_bytes([0; 32]);
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            office,
            position: Position(0),
            chain: nothing,
            tables: nothing,
            schema,
            taken_at,
            program: concat!("poste ", env!("CARGO_PKG_VERSION")).to_owned(),
            files: Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| wrong(&path, error.to_string()))?;
        text.push(b'\n');
        aside::write(&path, &text)
    }

    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let text = aside::read_at_most(&path, MANIFEST_BYTES_MAX).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                wrong(folder, format!("this is not a snapshot: it has no {FILE}"))
            }
            _ => Error::io(&path, error),
        })?;
        let shape = |error: serde_json::Error| wrong(&path, format!("it cannot be read: {error}"));
        let head: Head = serde_json::from_slice(&text).map_err(shape)?;
        if head.format != FORMAT {
            return Err(wrong(&path, "it does not describe a snapshot of an office".to_owned()));
        }
        if head.version > VERSION {
            return Err(Error::NeedsUpgrade { what: "restore", needed: head.version, ours: VERSION });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(shape)?;
        manifest.check_paths().map_err(|why| wrong(&path, why))?;
        Ok(manifest)
    }

    /// A manifest may come from anywhere, and restore writes to its paths, so only files of an office are accepted.
    fn check_paths(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for file in &self.files {
            let known = match file.path.split_once('/') {
                None => file.path == DATABASE,
                Some((BLOBS, name)) => name.parse() == Ok(file.digest),
                Some((ARCHIVE, name)) => is_archive_name(name),
                Some(_) => false,
            };
            if !known {
                return Err(format!("it names {}, which is not a file of an office", crate::text::quoted(&file.path)));
            }
            if !seen.insert(&file.path) {
                return Err(format!("it names {} twice", file.path));
            }
        }
        match seen.iter().any(|path| *path == DATABASE) {
            true => Ok(()),
            false => Err("it names no database".to_owned()),
        }
    }
}

pub(super) fn wrong(path: &Path, message: String) -> Error {
    Error::Snapshot { path: path.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_names_of_an_office_are_accepted() {
        let digest = Digest::of(b"content");
        let blob = format!("blobs/{digest}");
        let named = |paths: &[&str]| {
            let mut manifest = Manifest::of("id".to_owned(), 1, String::new());
            let file = |path: &&str| ManifestFile { path: (*path).to_owned(), bytes: 1, digest };
            manifest.files = paths.iter().map(file).collect();
            manifest.check_paths()
        };
        named(&["office.db", &blob, "archive/2026-03-02-7.jsonl"]).unwrap();
        let other = format!("blobs/{}", Digest::of(b"another"));
        for bad in [
            "../office.db",
            "/etc/passwd",
            "blobs/../../x",
            "blobs/short",
            &other,
            "archive/../x.jsonl",
            "archive/.x.jsonl",
            "archive/x.txt",
            "write.lock",
            "office.db-wal",
            "",
            "office.db",
        ] {
            assert!(named(&["office.db", bad]).is_err(), "{bad}");
        }
        assert!(named(&[&blob]).is_err(), "a database is needed");
    }
}
