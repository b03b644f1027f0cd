//! Errors of an office. A refused proposal is not one of them; it is an [`Outcome`](crate::fold::Outcome).

use std::io;
use std::path::{Path, PathBuf};

use crate::fold::Rejection;
use crate::foreign::Foreign;
use crate::log::Malformed;
use crate::store::Unsafe;
use crate::text::RecordId;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no office at {}", Foreign::path(.0))]
    NoOffice(PathBuf),
    #[error("{} is not an office", Foreign::path(.0))]
    NotAnOffice(PathBuf),
    #[error("{} is not empty and is not an office", Foreign::path(.0))]
    NotEmpty(PathBuf),
    #[error("creation of the office at {} was interrupted", Foreign::path(.0))]
    Unfinished(PathBuf),
    #[error(
        "the database of the office at {} is empty or missing, but there was mail in it: {sign}",
        Foreign::path(path)
    )]
    Emptied { path: PathBuf, sign: String },
    #[error("the office at {} is not adopted: {why}", Foreign::path(path))]
    NotAdopted { path: PathBuf, why: &'static str, office: Option<String> },
    #[error(
        "{} is on a {kind} file system, where SQLite's locks and shared memory cannot be trusted",
        Foreign::path(path)
    )]
    UnsafeFileSystem { path: PathBuf, kind: &'static str },
    /// Another user could have prepared it, or could change it.
    #[error("{} is not used: {why}", Foreign::path(path))]
    Unsafe { path: PathBuf, why: Unsafe },
    #[error("the office at {} was deleted or replaced while it was open", Foreign::path(.0))]
    Replaced(PathBuf),
    #[error("the newest records are missing: record {stored} was stored, but the log ends at {end}")]
    Lost { stored: u64, end: u64 },
    #[error("this office needs a newer poste to {what} it: it requires version {needed}, this poste has {ours}")]
    NeedsUpgrade { what: &'static str, needed: u32, ours: u32 },
    #[error(
        "record {position} is of kind {kind} ({}) version {version}, which this poste does not know",
        Foreign::name(name)
    )]
    UnknownKind { position: u64, kind: u16, name: String, version: u16 },
    #[error("the office is busy: {holder} has held the write lock for more than {waited_ms} ms")]
    Busy { holder: String, waited_ms: u64 },
    #[error("the office is busy: {} wait in office.db-wal until {readers} has read to the end", crate::text::size(*.bytes))]
    WalFull { bytes: u64, readers: String },
    #[error("the engine that orders the log cannot be reached: {cause}")]
    Unreachable { cause: String },
    #[error("whether it was stored is unknown: {cause}")]
    Unknown { ids: Vec<RecordId>, cause: String },
    #[error("the disk is full: {cause}")]
    DiskFull { ids: Vec<RecordId>, cause: String },
    #[error("the wall clock jumped ahead by {}, more than a day, while this machine was running", crate::time::length(*.leap_ms))]
    ClockLeap { leap_ms: i64 },
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Rejected(#[from] Rejection),
    #[error("the office is damaged: {0}")]
    Damaged(String),
    /// The database itself is damaged, or its disk fails to read, which looks the same. Unlike a damaged record,
    /// archive or blob, a listing may not skip this: what else the database holds is unknown.
    #[error("the office is damaged: {0}")]
    DatabaseDamaged(String),
    #[error("{}: {message}", Foreign::path(path))]
    Config { path: PathBuf, message: String },
    #[error("{}: {message}", Foreign::path(path))]
    Snapshot { path: PathBuf, message: String },
    #[error("{} already exists", Foreign::path(.0))]
    Occupied(PathBuf),
    #[error("{}: {fault}", Foreign::name(path))]
    Artifact { path: String, fault: crate::store::artifact::FileFault },
    #[error("{} cannot be handed over", crate::text::count(.0.len(), "file"))]
    Artifacts(Vec<crate::store::artifact::FileProblem>),
    #[error("this looks like a secret: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Secrets(Vec<crate::secrets::Finding>),
    #[error("the office at {} is read-only here", Foreign::path(.0))]
    ReadOnly(PathBuf),
    #[error("{}: {source}", Foreign::path(path))]
    Io { path: PathBuf, source: io::Error },
    #[error("database error: {0}")]
    Sqlite(rusqlite::Error),
}

impl Error {
    pub fn io(path: &Path, source: io::Error) -> Self {
        if is_disk_full(&source) {
            return Self::DiskFull { ids: Vec::new(), cause: format!("{}: {source}", Foreign::path(path)) };
        }
        match source.get_ref().and_then(|inner| inner.downcast_ref::<Unsafe>()) {
            Some(why) => Self::Unsafe { path: path.to_owned(), why: *why },
            None => Self::Io { path: path.to_owned(), source },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match error.sqlite_error_code() {
            // The shared memory of the WAL is a file too; when it cannot grow, the disk is full.
            _ if error
                .sqlite_error()
                .is_some_and(|inner| inner.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) =>
            {
                Self::DiskFull { ids: Vec::new(), cause: error.to_string() }
            }
            Some(ErrorCode::DiskFull) => Self::DiskFull { ids: Vec::new(), cause: error.to_string() },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::DatabaseDamaged(error.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { holder: "another program".to_owned(), waited_ms: crate::store::BUSY_TIMEOUT_MS.into() }
            }
            _ => Self::Sqlite(error),
        }
    }
}

pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
