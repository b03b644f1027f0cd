//! The files of an office, and everything else that touches the machine.
//!
//! ```text
//! .poste/
//!   office.db  (-wal, -shm)   log and tables, one SQLite file
//!   write.lock                held by the one writer; names its process
//!   bell                      the newest record, written after each commit
//!   waiters/                  a FIFO per waiter; its name says which commits wake it
//!   live/                     how to reach the sessions of this machine, and what they were notified of
//!   blobs/                    content over 64 KiB and attachments, named by BLAKE3
//!   archive/                  finished conversations, one line per record
//!   search.db  (-wal, -shm)   the search index, a cache that can be deleted at any time
//!   search.lock               held while the index is opened, created or deleted
//! ```

pub mod archive;
pub mod artifact;
pub(crate) mod aside;
pub(crate) mod bell;
pub mod blobs;
pub mod clock;
pub mod discover;
mod erase;
pub(crate) mod file_system;
mod files;
pub mod folder;
mod follow;
mod interest;
mod local;
mod lock;
mod machine;
pub mod mirror;
pub mod package;
pub mod processes;
mod room;
pub mod run_folders;
pub mod schema;
pub mod search;
pub mod session_pages;
pub mod state;
pub mod table_digest;
pub mod tables;
pub(crate) mod waiters;
mod wal;

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

pub use bell::last_rung;
pub use erase::Erased;
pub(crate) use files::OfficeFiles;
pub use folder::{Folder, Unsafe, sync_folder};
pub(crate) use follow::Follower;
pub use interest::Interest;
pub(crate) use local::LocalLog;
pub(crate) use local::fresh_id;
pub(crate) use lock::LockState;
pub use lock::{Locked, WriteGuard, WriteLock};
pub use waiters::{Interrupt, wake};
pub(crate) use wal::WAL_BYTES_MAX;
use wal::WAL_BYTES_MAX_STAYING;

use crate::error::Error;
use crate::fold::Refusals;
use crate::log::SessionProcess;
use archive::Archives;
use blobs::Blobs;
use folder::{Entry, GITIGNORE, IGNORE_ALL, Kind};
use processes::Presence;
use schema::{FileVersion, Schema};
use tables::Tables;

use crate::text::Label;

/// SQLite's own timeout, behind the write lock. It matters only when a foreign program holds the database.
pub(crate) const BUSY_TIMEOUT_MS: u32 = 10_000;
/// How long a command waits for the write lock before it names the holder.
pub const LOCK_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// Page size of in-memory tables that a whole log is folded into.
const REFOLD_PAGE_BYTES: u32 = 16 * 1024;

/// How to open an office.
#[derive(Debug, Clone)]
pub struct Options {
    pub schema: Schema,
    /// What the lock file says about this process, besides its id.
    pub program: String,
    pub lock_timeout: Duration,
    /// Identifies this machine. A folder copied to a machine with another mark counts as another machine's office.
    pub machine_mark: String,
    /// How many bytes the WAL may hold behind a reader before writes are refused. It may always hold as many as the
    /// database does.
    pub wal_bytes_full: u64,
    /// Where this user keeps what belongs to no office: [`state::folder`]. `None` if there is no such place.
    pub state: Option<PathBuf>,
    /// Write nothing, for an office that its user has not adopted.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: schema::CURRENT,
            program: "poste".to_owned(),
            lock_timeout: Duration::from_millis(LOCK_TIMEOUT_MS_DEFAULT),
            machine_mark: machine::mark().to_owned(),
            wal_bytes_full: wal::WAL_BYTES_FULL_DEFAULT,
            state: state::folder().map(Path::to_owned),
            read_only: false,
        }
    }
}

/// One open office file: a connection and the folder around it.
#[derive(Debug)]
pub struct Store {
    conn: Connection,
    home: Option<Home>,
    options: Options,
    read_only: bool,
    machine: OnceCell<Label>,
}

/// The folder of an open office.
#[derive(Debug)]
struct Home {
    folder: Folder,
    blobs: Blobs,
    archives: Archives,
    identity: Identity,
}

impl Home {
    fn new(folder: Folder, identity: Identity) -> Self {
        Self { blobs: Blobs::new(&folder), archives: Archives::new(&folder), folder, identity }
    }
}

/// Device and inode of the database, its WAL and its shared memory when they were opened, so that a replaced or deleted
/// file is noticed before anything is written. Each of the three matters: records in an unlinked WAL are lost to every
/// other process, and two shared memories let two writers overwrite each other's frames. SQLite keeps all three files
/// for the life of the office, because closing a connection does not checkpoint here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity([Option<(u64, u64)>; 3]);

impl Identity {
    const FILES: [&str; 3] = ["office.db", "office.db-wal", "office.db-shm"];

    fn of(folder: &Folder) -> Self {
        Self(Self::FILES.map(|name| folder.identity_of(name)))
    }

    /// The files that a path leads to now.
    fn at(path: &Path) -> Self {
        Self(Self::FILES.map(|name| rustix::fs::lstat(path.join(name)).ok().as_ref().map(folder::identity)))
    }

    /// Refuses an office that another user could have prepared or could access, before any of it is read.
    fn of_own(folder: &Folder) -> Result<Self, Error> {
        // Without a database it is no office, which is reported when it is opened.
        if folder.identity_of(DATABASE).is_some() {
            folder.check_private().map_err(|error| Error::io(folder.path(), error))?;
        }
        let mut found = [None; 3];
        for (name, found) in Self::FILES.iter().zip(&mut found) {
            let stat = folder.check_private_file(name);
            *found = stat.map_err(|error| Error::io(&folder.path().join(name), error))?.as_ref().map(folder::identity);
        }
        Ok(Self(found))
    }

    /// Opening needs a database, so its identity is always known. A WAL or shared memory that did not exist at that
    /// time was created later, by the first process that needed it.
    fn is_still(&self, now: &Self) -> bool {
        let same = self.0.iter().zip(&now.0).all(|(then, now)| then.is_none() || then == now);
        same && self.0[0].is_some()
    }
}

impl Store {
    /// Opens an existing office. Never creates one: a missing file is an error, not an empty office.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        if sabotaged!(OfficeMadeAnew) {
            Self::create(path, &options, |_| Ok(()))?;
        }
        let folder = office_folder(path, Folder::open(path))?;
        let before = Identity::of_own(&folder)?;
        Self::open_and_migrate(folder, before.clone(), options).map_err(|error| match before.0[0].is_some() {
            // The office was deleted or replaced while it was being opened, whatever error SQLite reported for that.
            true if !before.is_still(&Identity::at(path)) => Error::Replaced(path.to_owned()),
            _ => error,
        })
    }

    fn open_and_migrate(folder: Folder, identity: Identity, options: Options) -> Result<Self, Error> {
        let mut store = Self::open_in(folder, identity, options)?;
        let version = store.version()?;
        store.remember_identity();
        // SQLite opens files by path, so what it opened is compared with what was checked.
        store.check_identity()?;
        version.may_read(store.options.schema.version())?;
        if version.schema < store.options.schema.version() {
            store.migrate()?;
        }
        Ok(store)
    }

    /// Opens the file without checking its owner or version and without migrating it, so that even a broken one can be
    /// examined.
    pub(crate) fn open_as_is(path: &Path, options: Options) -> Result<Self, Error> {
        let folder = office_folder(path, Folder::open_as_is(path))?;
        // Taken before SQLite opens the file, so that a deletion or replacement from here on is noticed.
        let identity = Identity::of(&folder);
        Self::open_in(folder, identity, options)
    }

    fn open_in(folder: Folder, identity: Identity, options: Options) -> Result<Self, Error> {
        let path = folder.path();
        let database = path.join(DATABASE);
        match folder.entry(DATABASE).map_err(|error| Error::io(&database, error))? {
            None => return Err(Error::NoOffice(path.to_owned())),
            Some(entry) if entry.kind == Kind::Link => return Err(Error::io(&database, Unsafe::Link.into())),
            Some(entry) if entry.kind != Kind::File => return Err(Error::NotAnOffice(database)),
            Some(entry) if entry.bytes == 0 => check_never_used(&folder)?,
            Some(_) => {}
        }
        file_system::check(path)?;
        room::check(path)?;
        // Without write permission the office can still be read. Any other error is reported as it is.
        let may_write = |name| folder.may_write(name).map_err(|error| Error::io(&path.join(name), error));
        let read_only = options.read_only || !may_write(".")? || !may_write(DATABASE)?;
        let access = if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
        let conn = connect(&folder, access)?;
        Ok(Self::new(conn, Some(Home::new(folder, identity)), options, read_only))
    }

    /// Creates an office unless it already exists. Any number of processes may do so at once.
    ///
    /// Returns whether this call created it. `first` runs inside the creating transaction.
    pub fn create(
        path: &Path,
        options: &Options,
        first: impl FnOnce(&Connection) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        make_private_folder(path)?;
        check_own_folder(&office_folder(path, Folder::open_as_is(path))?)?;
        let folder = office_folder(path, Folder::open(path))?;
        Identity::of_own(&folder)?;
        file_system::check(path)?;
        room::check(path)?;
        let _lock = WriteLock::new(&folder, &options.program).acquire(options.lock_timeout)?;
        let database = path.join(DATABASE);
        if folder.bytes_of(DATABASE) == 0 {
            check_never_used(&folder)?;
        }
        let failed = |error| Error::io(path, error);
        folder.create_if_missing(DATABASE).map_err(failed)?;
        let mut conn = connect(&folder, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version = FileVersion::read(&conn)?;
        if version.application_id == schema::APPLICATION_ID {
            return Ok(false);
        }
        let tables: u32 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if version.application_id != 0 || tables != 0 {
            return Err(Error::NotAnOffice(database));
        }
        // An interrupted creation leaves an empty database, and the next process finishes it here. The WAL may hold
        // pages that were never committed, so a WAL that is not empty proves nothing.
        check_no_mail(&folder)?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        folder.make_missing().map_err(failed)?;
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        options.schema.migrate(&transaction, 0)?;
        first(&transaction)?;
        transaction.commit()?;
        folder.sync().map_err(failed)?;
        sync_folder(folder::parent(path))?;
        Ok(true)
    }

    /// In-memory tables for simulations and refolds: the same SQLite, without a file.
    pub fn in_memory() -> Result<Self, Error> {
        Self::in_memory_of(schema::CURRENT)
    }

    fn in_memory_of(schema: Schema) -> Result<Self, Error> {
        Self::in_memory_as(schema, Connection::open_in_memory()?)
    }

    /// Like [`in_memory`](Self::in_memory), for a log that keeps refusals.
    pub fn in_memory_following() -> Result<Self, Error> {
        let store = Self::in_memory()?;
        schema::set_follows(&store.conn)?;
        Ok(store)
    }

    /// In-memory tables that a whole log is about to fill.
    fn in_memory_to_refold(schema: Schema, refusals: Refusals) -> Result<Self, Error> {
        let conn = Connection::open_in_memory()?;
        // Larger pages mean fewer levels to each row and fewer allocations.
        conn.pragma_update(None, "page_size", REFOLD_PAGE_BYTES)?;
        let store = Self::in_memory_as(schema, conn)?;
        if refusals == Refusals::Kept {
            schema::set_follows(&store.conn)?;
        }
        Ok(store)
    }

    fn in_memory_as(schema: Schema, conn: Connection) -> Result<Self, Error> {
        prepare(&conn)?;
        schema.migrate(&conn, 0)?;
        Ok(Self::new(conn, None, Options { schema, ..Options::default() }, false))
    }

    /// Opens a single-file copy for reading.
    pub(crate) fn open_copy(database: &Path) -> Result<Self, Error> {
        let real = database.canonicalize().map_err(|error| Error::io(database, error))?;
        Ok(Self::new(connect_to(&real, OpenFlags::SQLITE_OPEN_READ_ONLY)?, None, Options::default(), true))
    }

    /// Opens another office, or a copy of one, to compare with. `path` is its folder or its database file. Nothing in
    /// it changes; it is not even migrated to this program's schema.
    pub fn open_other(path: &Path) -> Result<Self, Error> {
        let database = if path.is_dir() { path.join(DATABASE) } else { path.to_owned() };
        if !fs::metadata(&database).is_ok_and(|meta| meta.is_file()) {
            return Err(Error::NoOffice(path.to_owned()));
        }
        file_system::check(path)?;
        let foreign = |error| match error {
            Error::Damaged(_) | Error::DatabaseDamaged(_) => Error::NotAnOffice(path.to_owned()),
            other => other,
        };
        let store = Self::open_copy(&database).map_err(foreign)?;
        let version = FileVersion::read(&store.conn).map_err(foreign)?;
        if version.application_id != schema::APPLICATION_ID {
            return Err(Error::NotAnOffice(path.to_owned()));
        }
        let ours = store.options.schema.version();
        match version.schema == ours {
            true => Ok(store),
            false => Err(Error::NeedsUpgrade { what: "compare", needed: version.schema, ours }),
        }
    }

    /// Opens a copy of an office and its blobs for reading. It may lie on a file system that no office may live on.
    pub(crate) fn open_copy_of_office(path: &Path, options: Options) -> Result<Self, Error> {
        let folder = office_folder(path, Folder::open_as_is(path))?;
        let identity = Identity::of(&folder);
        if identity.0[0].is_none() {
            return Err(Error::NoOffice(path.to_owned()));
        }
        let conn = connect(&folder, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self::new(conn, Some(Home::new(folder, identity)), options, true))
    }

    fn new(conn: Connection, home: Option<Home>, options: Options, read_only: bool) -> Self {
        Self { conn, home, options, read_only, machine: OnceCell::new() }
    }

    pub fn conn(&self) -> &Connection {
        &self.conn
    }

    pub fn tables(&self) -> Result<Tables<'_>, Error> {
        Tables::load(&self.conn)
    }

    /// Runs a view inside one transaction, so that everything it reads is from the same position.
    pub fn read<T>(&self, view: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let transaction = self.conn.unchecked_transaction()?;
        let answer = view(&transaction)?;
        transaction.finish()?;
        Ok(answer)
    }

    /// The same, from the tables.
    pub(crate) fn view<T>(&self, view: impl FnOnce(&Tables<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.read(|conn| view(&Tables::load(conn)?))
    }

    /// Whether the end of the file is missing. SQLite reads a truncated page as if zeros followed, so a page that lacks
    /// only zeros at its end looks intact.
    pub(crate) fn ends_within_a_page(&self) -> bool {
        const PAGE_BYTES: u64 = 4096;
        self.folder().is_some_and(|folder| folder.bytes_of(DATABASE) % PAGE_BYTES != 0)
    }

    /// The folder of the office, as the path it was opened by; in-memory tables have none.
    pub fn path(&self) -> Option<&Path> {
        self.folder().map(Folder::path)
    }

    pub fn folder(&self) -> Option<&Folder> {
        self.home.as_ref().map(|home| &home.folder)
    }

    pub fn blobs(&self) -> Option<&Blobs> {
        self.home.as_ref().map(|home| &home.blobs)
    }

    pub fn archives(&self) -> Option<&Archives> {
        self.home.as_ref().map(|home| &home.archives)
    }

    /// The newest record that the bell was rung for. This office must have had it once.
    pub(crate) fn last_rung(&self) -> Option<crate::log::Position> {
        bell::last_rung(self.folder()?)
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Changes whenever another connection commits. Costs about a microsecond.
    pub fn data_version(&self) -> Result<i64, Error> {
        Ok(self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
    }

    /// The newest schema this program knows.
    pub fn schema_version(&self) -> u32 {
        self.options.schema.version()
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn schema(&self) -> Schema {
        self.options.schema
    }

    /// Turns a verified copy into an office of this machine. It gets a machine name that no office had before, which
    /// distinguishes its policies from those of the original, and it forgets the clocks of the other machine. When this
    /// returns, everything is in the database file itself, synced.
    pub(crate) fn settle_in(self, at: crate::Timestamp, manifest: &crate::backup::Manifest) -> Result<(), Error> {
        let from = format!("record {} of {}, at {at}", manifest.position, manifest.taken_at);
        let transaction = self.conn.unchecked_transaction()?;
        // `policy_seen` stays: the restored poste.toml is still based on the policy that the copied machine had seen.
        transaction
            .execute("UPDATE machine SET boot_id = '', boot_ms = 0, at = 0, name = ?1", [machine::fresh_name()])?;
        transaction.execute("DELETE FROM answers", [])?;
        schema::set_meta(&transaction, "restored", from)?;
        transaction.commit()?;
        // A copy is in rollback mode. Switching to WAL is the last commit of that mode, so it is synced, and the WAL is
        // empty.
        self.conn.pragma_update(None, "journal_mode", "wal")?;
        Ok(())
    }

    /// Whether another engine orders the log, for several machines.
    pub fn follows(&self) -> Result<bool, Error> {
        schema::follows(&self.conn)
    }

    /// Whether the log of this office keeps refused proposals. A log that another engine orders does.
    pub fn refusals(&self) -> Result<Refusals, Error> {
        Ok(if self.follows()? { Refusals::Kept } else { Refusals::Dropped })
    }

    /// The id of this machine in this office.
    pub fn machine(&self) -> Result<&Label, Error> {
        if let Some(known) = self.machine.get() {
            return Ok(known);
        }
        let id = machine::id(&self.conn, self.path(), &self.options.machine_mark)?;
        Ok(self.machine.get_or_init(|| id))
    }

    /// Whether a process that a machine recorded is still running. This is only known for processes of this machine: a
    /// copied office names processes of the office it was copied from.
    pub fn presence(&self, machine: &Label, process: Option<&SessionProcess>) -> Result<Presence, Error> {
        let is_own = *self.machine()? == *machine;
        Ok(if is_own { Presence::of(process) } else { Presence::Unknown })
    }

    /// The id that this office has kept since it was created, also as a copy.
    pub fn office_id(&self) -> Result<String, Error> {
        let id = schema::get_meta(&self.conn, schema::OFFICE)?;
        id.ok_or_else(|| Error::Damaged("the office has no id".to_owned()))
    }

    /// The policy version that this machine's `poste.toml` is known to be based on.
    pub fn policy_seen(&self) -> Result<u64, Error> {
        Ok(self.conn.query_row("SELECT policy_seen FROM machine WHERE one = 1", [], |row| row.get(0))?)
    }

    /// The newest redaction whose content may still be in some file of this folder.
    pub fn unerased(&self) -> Result<Option<crate::log::Position>, Error> {
        let newest = "SELECT max(redacted_by) FROM redactions WHERE redacted_by > ?1";
        Ok(self.conn.query_row(newest, [self.erased_to()?], |row| row.get(0))?)
    }

    /// The newest redaction whose content is no longer in any file of this folder.
    fn erased_to(&self) -> Result<crate::log::Position, Error> {
        Ok(self.conn.query_row("SELECT coalesce(max(erased_to), 0) FROM machine", [], |row| row.get(0))?)
    }

    pub fn version(&self) -> Result<FileVersion, Error> {
        let version = FileVersion::read(&self.conn)?;
        let path = self.path().unwrap_or(Path::new("memory")).to_owned();
        match version.application_id {
            schema::APPLICATION_ID => Ok(version),
            0 => Err(Error::Unfinished(path)),
            _ => Err(Error::NotAnOffice(path)),
        }
    }

    /// Migrates an older file to this program's schema, under the lock, after copying it to `before-schema-N.db`.
    fn migrate(&mut self) -> Result<(), Error> {
        let Some(folder) = self.folder().cloned() else { return Ok(()) };
        if self.read_only {
            return Err(Error::ReadOnly(folder.path().to_owned()));
        }
        let _lock = WriteLock::new(&folder, &self.options.program).acquire(self.options.lock_timeout)?;
        let from = self.version()?;
        let ours = self.options.schema.version();
        from.may_write(ours)?;
        if from.schema >= ours {
            return Ok(()); // another process migrated it first
        }
        let copy = format!("before-schema-{}.db", from.schema + 1);
        let failed = |error| Error::io(&folder.path().join(&copy), error);
        if folder.entry(&copy).map_err(failed)?.is_none() {
            let unfinished = format!("before-schema-{}.tmp", from.schema + 1);
            folder.remove(&unfinished).map_err(failed)?;
            self.copy_into(&folder.real_path().map_err(failed)?.join(&unfinished))?;
            folder.rename(&unfinished, &copy).and_then(|()| folder.sync()).map_err(failed)?;
        }
        if sabotaged!(MigrationInPieces) {
            return self.options.schema.migrate(&self.conn, from.schema);
        }
        let transaction = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.options.schema.migrate(&transaction, from.schema)?;
        transaction.commit()?;
        Ok(())
    }

    /// Called after the first read, which made SQLite open the WAL and the shared memory. The database's own identity
    /// was taken before that read, so a replacement in between is still noticed.
    fn remember_identity(&mut self) {
        if let Some(home) = &mut self.home {
            let now = Identity::of(&home.folder);
            home.identity = Identity([home.identity.0[0], now.0[1], now.0[2]]);
        }
    }

    /// Copies log and tables, at one position, into a new file that only its owner can read.
    pub(crate) fn copy_into(&self, file: &Path) -> Result<(), Error> {
        // SQLite would create the file readable for everyone, but it accepts an existing empty one.
        aside::new_file(file)?;
        self.conn.execute("VACUUM INTO ?1", [path_text(file)?])?;
        Ok(())
    }

    /// Fails if the files are no longer the ones that were opened.
    pub fn check_identity(&self) -> Result<(), Error> {
        let Some(home) = &self.home else { return Ok(()) };
        let path = home.folder.path();
        if home.identity.is_still(&Identity::at(path)) || sabotaged!(IdentityUnchecked) {
            return Ok(());
        }
        Err(Error::Replaced(path.to_owned()))
    }

    /// Fails unless there is room for a write to touch more of the shared memory.
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        self.path().map_or(Ok(()), room::check)
    }
}

/// Refuses an empty database next to files that only a used office leaves behind. Such a database lost its records, and
/// using it would silently continue in an empty office. Runs before SQLite opens the database, because SQLite deletes
/// the WAL of an empty one. Creating an office never trips this check: its database has a page before there is a WAL.
fn check_never_used(office: &Folder) -> Result<(), Error> {
    check_no_mail(office)?;
    match office.bytes_of("office.db-wal") {
        0 => Ok(()),
        _ => Err(emptied(office, "office.db-wal is not empty")),
    }
}

/// The same check without the WAL, for a database that is not empty but has no tables yet.
pub(crate) fn check_no_mail(office: &Folder) -> Result<(), Error> {
    if let Some(rung) = bell::last_rung(office).filter(|rung| rung.0 > 0) {
        return Err(emptied(office, &format!("the bell was rung for record {rung}")));
    }
    for name in ["blobs", "archive"] {
        if !office.entries_of(name).map_err(|error| Error::io(&office.path().join(name), error))?.is_empty() {
            return Err(emptied(office, &format!("{name}/ is not empty")));
        }
    }
    Ok(())
}

fn emptied(office: &Folder, sign: &str) -> Error {
    Error::Emptied { path: office.path().to_owned(), sign: sign.to_owned() }
}

fn office_folder(path: &Path, opened: io::Result<Folder>) -> Result<Folder, Error> {
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoOffice(path.to_owned()),
        io::ErrorKind::NotADirectory => Error::NotAnOffice(path.to_owned()),
        _ => Error::io(path, error),
    })
}

fn connect(office: &Folder, access: OpenFlags) -> Result<Connection, Error> {
    let real = office.real_path().map_err(|error| Error::io(office.path(), error))?;
    connect_to(&real.join(DATABASE), access)
}

/// Opens a database by a path without links.
fn connect_to(database: &Path, access: OpenFlags) -> Result<Connection, Error> {
    let access = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(database, access)?;
    prepare(&conn)?;
    Ok(conn)
}

fn prepare(conn: &Connection) -> Result<(), Error> {
    conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS.into()))?;
    conn.set_prepared_statement_cache_capacity(256);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // One plan per statement, whatever its parameters. Otherwise SQLite would look at them and prepare the statement
    // again for each.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "synchronous", if sabotaged!(SynchronousNormal) { "normal" } else { "full" })?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    // The fold decides; SQLite only stores.
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

/// An office needs a folder of its own. Before the first office is created there, the folder may only hold what an
/// interrupted creation left behind. Other files belong to something else.
fn check_own_folder(folder: &Folder) -> Result<(), Error> {
    let path = folder.path();
    let failed = |error| Error::io(path, error);
    let is_ours = |entry: &Entry| match entry.name.as_str() {
        GITIGNORE => folder.read(GITIGNORE, 16).is_ok_and(|text| IGNORE_ALL.as_bytes().starts_with(&text)),
        "bell"
        | "write.lock"
        | "blobs"
        | "archive"
        | "contexts"
        | "sessions"
        | "live"
        | "runs"
        | "waiters"
        | "watch"
        | "worktrees"
        | discover::LOCAL_CONFIG_FILE => true,
        name => [DATABASE, "search.", "before-schema-"].iter().any(|ours| name.starts_with(ours)),
    };
    let entries = folder.entries().map_err(failed)?;
    if entries.iter().any(|entry| entry.name == DATABASE) {
        return Ok(());
    }
    if !entries.iter().all(is_ours) {
        return Err(Error::NotEmpty(path.to_owned()));
    }
    // An existing folder may be open to everyone. Opening it reports if its mode cannot be changed.
    let _ = folder.set_own_mode(0o700);
    Ok(())
}

const DATABASE: &str = "office.db";

fn make_private_folder(path: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

pub(crate) fn path_text(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::Config { path: path.to_owned(), message: "the path is not UTF-8".to_owned() })
}

pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| c.is_ascii_graphic()).take(crate::limits::LABEL_BYTES_MAX).collect()
}
