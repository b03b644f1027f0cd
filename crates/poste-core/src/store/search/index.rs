//! The file `search.db`: what is in it, how it is opened, and when it is discarded.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use super::super::folder::Kind;
use super::super::lock::{WriteGuard, WriteLock};
use super::super::schema::{get_meta, set_meta};
use super::super::tables::Tables;
use super::query::{Words, apart};
use crate::address::Address;
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::{Folder, Store};
use crate::text::{Label, Name, TypeName};

/// "POSS": distinguishes a search index from any other SQLite file.
const APPLICATION_ID: i32 = 0x504f_5353;
/// Increased whenever what is indexed, or how, changes. An index of another format is rebuilt.
const FORMAT: u32 = 2;
/// Case and accents are ignored; everything except letters and digits separates words.
pub(super) const TOKENIZER: &str = "unicode61 remove_diacritics 2";
/// How long a search waits for another one's chunk before it answers from what is there.
const CHUNK_PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits for a process that opens, creates or deletes the index.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);
pub const DAMAGED: &str = "it is damaged";
const FILES: [&str; 3] = ["search.db", "search.db-wal", "search.db-shm"];

const SCHEMA: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    -- Which records said something about a message that came before them.
    CREATE TABLE said (
      message INTEGER NOT NULL,
      position INTEGER NOT NULL,
      PRIMARY KEY (message, position)
    ) STRICT, WITHOUT ROWID;
    -- Messages that are to be indexed, or indexed again.
    CREATE TABLE waiting (number INTEGER PRIMARY KEY) STRICT;
    -- Those of which not everything could be read: every search tries them again, and says so.
    CREATE TABLE unreadable (number INTEGER PRIMARY KEY) STRICT;
    -- The body comes first because most tokens are in it and the first column costs least.
    CREATE VIRTUAL TABLE texts USING fts5 (
      body, subject, tags,
      content = '', contentless_delete = 1, tokenize = 'TOKENIZER'
    );
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);
";

/// One message, as it is indexed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    pub subject: String,
    pub body: String,
    /// Built with [`Document::tag`].
    pub(super) tags: String,
}

/// What a tag says. A token in the tags column is this letter followed by the name in hexadecimal, so that the
/// tokenizer does not split it and no two names become the same token.
#[derive(Debug, Clone, Copy)]
enum Tag {
    From = b'f' as isize,
    To = b't' as isize,
    By = b'b' as isize,
    Kind = b'k' as isize,
    Conversation = b'c' as isize,
}

impl Tag {
    fn token(self, name: &str) -> String {
        let letter = char::from(self as u8);
        let mut token = String::with_capacity(1 + 2 * name.len());
        token.push(letter);
        for byte in name.bytes() {
            let _ = write!(token, "{byte:02x}");
        }
        token
    }
}

impl Document {
    fn tag(&mut self, tag: Tag, name: &str) {
        self.tags.push_str(&tag.token(name));
        self.tags.push(' ');
    }

    pub fn from(&mut self, sender: &Name) {
        self.tag(Tag::From, sender.as_str());
    }

    pub fn to(&mut self, address: &Address) {
        self.tag(Tag::To, &address.to_string());
    }

    /// Tags an agent that said something about the message.
    pub fn by(&mut self, actor: &Name) {
        self.tag(Tag::By, actor.as_str());
    }

    pub fn kind(&mut self, kind: &TypeName) {
        self.tag(Tag::Kind, kind.as_str());
    }

    pub fn conversation(&mut self, conversation: &Label) {
        self.tag(Tag::Conversation, conversation.as_str());
    }

    /// Adds a separate text, on a line of its own.
    pub fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.body.is_empty() {
            self.body.push('\n');
        }
        self.body.push_str(text);
    }

    pub fn bytes(&self) -> usize {
        self.subject.len() + self.body.len() + self.tags.len()
    }
}

/// Filters that the index itself answers.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    pub from: Option<Name>,
    pub to: Option<Address>,
    /// An agent that sent it, received it, or said something about it.
    pub agent: Option<Name>,
    pub kind: Option<TypeName>,
    pub conversation: Option<Label>,
}

impl Filters {
    pub fn any(&self) -> bool {
        let by_agent = self.from.is_some() || self.to.is_some() || self.agent.is_some();
        by_agent || self.kind.is_some() || self.conversation.is_some()
    }

    fn expression(&self, words: &Words) -> String {
        let mut tags = Vec::new();
        tags.extend(self.from.as_ref().map(|name| Tag::From.token(name.as_str())));
        tags.extend(self.to.as_ref().map(|address| Tag::To.token(&address.to_string())));
        tags.extend(self.agent.as_ref().map(|name| {
            let any = [Tag::From, Tag::To, Tag::By].map(|tag| tag.token(name.as_str()));
            format!("({})", any.join(" OR "))
        }));
        tags.extend(self.kind.as_ref().map(|kind| Tag::Kind.token(kind.as_str())));
        tags.extend(self.conversation.as_ref().map(|label| Tag::Conversation.token(label.as_str())));
        let words = words.expression();
        match tags.is_empty() {
            true => words,
            false => format!("(tags : ({})) AND ({words})", tags.join(" AND ")),
        }
    }
}

/// Messages from `low` up to, but not including, `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub low: MessageNo,
    pub high: MessageNo,
}

/// How an index was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Found,
    New,
    /// There was one, and it was discarded for this reason.
    Rebuilt(String),
    /// The folder is read-only: a temporary index for this one search.
    Borrowed,
}

/// The open index of one office.
#[derive(Debug)]
pub struct Index {
    conn: Connection,
    /// Its folder, and its device and inode when it was opened. `None` for a temporary index.
    place: Option<(Folder, (u64, u64))>,
}

impl Index {
    /// Opens the index of an office, or creates an empty one. Anything odd about an existing index is reason enough to
    /// discard it.
    pub fn open(store: &Store) -> Result<(Self, Start), Error> {
        let office: String = get_meta(store.conn(), "office")?.unwrap_or_default();
        let Some(folder) = store.folder().filter(|_| !store.is_read_only()) else {
            let index = Self { conn: Connection::open("")?, place: None };
            index.begin_empty(&office)?;
            return Ok((index, Start::Borrowed));
        };
        // Files are only created, opened and deleted under this lock, so a `-wal` of another index is never used or
        // removed.
        let _guard = lock(folder)?;
        let start = match Self::open_file(folder)? {
            None => Start::New,
            Some(Err(why)) => Start::Rebuilt(why),
            Some(Ok(index)) => match index.odd(store, &office) {
                Ok(None) => return Ok((index, Start::Found)),
                Ok(Some(why)) => Start::Rebuilt(why.to_owned()),
                Err(error) => Start::Rebuilt(damage(error)?),
            },
        };
        remove_files(folder)?;
        folder.create(FILES[0]).map_err(|error| failed(folder, FILES[0], error))?;
        let place = folder.identity_of(FILES[0]).map(|identity| (folder.clone(), identity));
        let index = Self { conn: connect(folder)?, place };
        index.conn.pragma_update(None, "journal_mode", "wal")?;
        index.begin_empty(&office)?;
        Ok((index, start))
    }

    fn open_file(folder: &Folder) -> Result<Option<Result<Self, String>>, Error> {
        let Some(entry) = folder.entry(FILES[0]).map_err(|error| failed(folder, FILES[0], error))? else {
            return Ok(None);
        };
        let identity = folder.identity_of(FILES[0]).filter(|_| entry.kind == Kind::File);
        let Some(identity) = identity else { return Ok(Some(Err("it is not a regular file".to_owned()))) };
        Ok(Some(match connect(folder) {
            Ok(conn) => Ok(Self { conn, place: Some((folder.clone(), identity)) }),
            Err(error) => Err(damage(error)?),
        }))
    }

    fn begin_empty(&self, office: &str) -> Result<(), Error> {
        prepare(&self.conn)?;
        let transaction = self.conn.unchecked_transaction()?;
        transaction.execute_batch(&SCHEMA.replace("TOKENIZER", TOKENIZER))?;
        set_meta(&transaction, "office", office)?;
        set_meta(&transaction, "position", Position(0))?;
        set_meta(&transaction, "chain", [0_u8; 32])?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
        Ok(())
    }

    /// Why this index cannot belong to this office, if that is so.
    fn odd(&self, store: &Store, office: &str) -> Result<Option<&'static str>, Error> {
        let application: i32 = self.conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if application != APPLICATION_ID {
            return Ok(Some("it is not a search index"));
        }
        let format: u32 = self.conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format != FORMAT {
            return Ok(Some("it has another format"));
        }
        if get_meta::<String>(&self.conn, "office")?.as_deref() != Some(office) {
            return Ok(Some("it belongs to another office"));
        }
        let (position, chain) = self.stands_at()?;
        if position != Position(0) && store.tables()?.chain_at(position)? != Some(chain) {
            return Ok(Some("it was made from another log"));
        }
        Ok(None)
    }

    /// The last record that was read, and the hash of the log up to it.
    fn stands_at(&self) -> Result<(Position, Digest), Error> {
        let missing = || Error::Damaged("the search index has no position".to_owned());
        let position = get_meta(&self.conn, "position")?.ok_or_else(missing)?;
        let chain = get_meta(&self.conn, "chain")?.ok_or_else(missing)?;
        Ok((position, Digest::from_bytes(chain)))
    }

    pub fn position(&self) -> Result<Position, Error> {
        Ok(self.stands_at()?.0)
    }

    /// How many known messages are not indexed yet.
    pub fn waiting(&self) -> Result<u64, Error> {
        Ok(self.conn.prepare_cached("SELECT count(*) FROM waiting")?.query_row([], |row| row.get(0))?)
    }

    pub fn has_unreadable(&self) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM unreadable)";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Whether the file still has its name. The index may have been deleted on purpose.
    pub fn is_current(&self) -> bool {
        self.place.as_ref().is_none_or(|(folder, opened)| folder.identity_of(FILES[0]) == Some(*opened))
    }

    /// The records that said something about a message.
    pub fn said(&self, message: MessageNo) -> Result<Vec<Position>, Error> {
        Ok(self
            .conn
            .prepare_cached("SELECT position FROM said WHERE message = ?1 ORDER BY position")?
            .query_map([message], |row| row.get(0))?
            .collect::<Result<_, _>>()?)
    }

    /// Begins to write. `None` if another search is writing and does not finish in time.
    pub fn begin(&self) -> Result<Option<Chunk<'_>>, Error> {
        match Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate) {
            Ok(transaction) => Ok(Some(Chunk { index: self, transaction })),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves the WAL into the file after many writes, so that the next open is cheap.
    pub fn settle(&self) {
        let _ = self.conn.busy_timeout(Duration::ZERO);
        let _ = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.conn.busy_timeout(CHUNK_PATIENCE);
    }

    /// Visits the matches, newest first, until `take` has enough.
    pub fn newest(
        &self,
        words: &Words,
        filters: &Filters,
        range: Range,
        mut take: impl FnMut(MessageNo) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(
            "SELECT rowid FROM texts WHERE texts MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid DESC",
        )?;
        let mut rows = statement.query(params![filters.expression(words), range.low, range.high])?;
        while let Some(row) = rows.next()? {
            if !take(row.get(0)?)? {
                break;
            }
        }
        Ok(())
    }

    /// The newest `limit` matches, most relevant first. A word in the subject weighs as much as four in the body.
    pub fn ranked(
        &self,
        words: &Words,
        filters: &Filters,
        range: Range,
        limit: usize,
    ) -> Result<Vec<MessageNo>, Error> {
        let mut statement = self.conn.prepare_cached(
            "SELECT number FROM
               (SELECT rowid AS number, bm25(texts, 1.0, 4.0, 0.0) AS score FROM texts
                WHERE texts MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid DESC LIMIT ?4)
             ORDER BY score, number DESC",
        )?;
        let parameters = params![filters.expression(words), range.low, range.high, limit];
        Ok(statement.query_map(parameters, |row| row.get(0))?.collect::<Result<_, _>>()?)
    }
}

/// A short transaction on the index. Dropping it without a commit changes nothing.
#[derive(Debug)]
pub struct Chunk<'index> {
    index: &'index Index,
    transaction: Transaction<'index>,
}

impl Chunk<'_> {
    /// The last record that was read. Queried inside the transaction, because another search may have advanced it.
    pub fn position(&self) -> Result<Position, Error> {
        self.index.position()
    }

    /// Notes that the log was read up to here.
    pub fn advance(&mut self, tables: &Tables<'_>, position: Position) -> Result<(), Error> {
        let chain =
            tables.chain_at(position)?.ok_or_else(|| Error::Damaged(format!("record {position} is not in the log")))?;
        set_meta(&self.transaction, "position", position)?;
        set_meta(&self.transaction, "chain", chain.as_bytes())
    }

    pub fn add_said(&mut self, message: MessageNo, position: Position) -> Result<(), Error> {
        self.transaction
            .prepare_cached("INSERT OR IGNORE INTO said (message, position) VALUES (?1, ?2)")?
            .execute(params![message, position])?;
        self.add_waiting(message)
    }

    pub fn add_waiting(&mut self, number: MessageNo) -> Result<(), Error> {
        self.transaction.prepare_cached("INSERT OR IGNORE INTO waiting (number) VALUES (?1)")?.execute([number])?;
        Ok(())
    }

    pub fn add_unreadable(&mut self, number: MessageNo) -> Result<(), Error> {
        self.transaction.prepare_cached("INSERT OR IGNORE INTO unreadable (number) VALUES (?1)")?.execute([number])?;
        Ok(())
    }

    /// Makes unreadable messages wait again, since they may have been repaired.
    pub fn try_unreadable_again(&mut self) -> Result<(), Error> {
        self.transaction.execute("INSERT OR IGNORE INTO waiting SELECT number FROM unreadable", [])?;
        self.transaction.execute("DELETE FROM unreadable", [])?;
        Ok(())
    }

    /// Some of the newest waiting messages, in ascending order, because FTS5 wants ascending keys within a transaction.
    pub fn newest_waiting(&self, limit: usize) -> Result<Vec<MessageNo>, Error> {
        let sql = "SELECT number FROM (SELECT number FROM waiting ORDER BY number DESC LIMIT ?1) ORDER BY number";
        Ok(self.transaction.prepare_cached(sql)?.query_map([limit], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Replaces the document of a message, which then no longer waits.
    pub fn put(&mut self, number: MessageNo, document: &Document) -> Result<(), Error> {
        self.transaction
            .prepare_cached("INSERT OR REPLACE INTO texts (rowid, body, subject, tags) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![number, apart(&document.body), apart(&document.subject), document.tags])?;
        self.skip(number)
    }

    /// For a message with nothing to index, which then no longer waits.
    pub fn skip(&mut self, number: MessageNo) -> Result<(), Error> {
        self.transaction.prepare_cached("DELETE FROM waiting WHERE number = ?1")?.execute([number])?;
        Ok(())
    }

    pub fn said(&self, message: MessageNo) -> Result<Vec<Position>, Error> {
        self.index.said(message)
    }

    pub fn commit(self) -> Result<(), Error> {
        self.transaction.commit()?;
        Ok(())
    }
}

/// Deletes the index of an office and returns whether there was one. A running search continues with its open file,
/// which disappears with it.
pub fn forget(folder: &Folder) -> Result<bool, Error> {
    if FILES.iter().all(|name| folder.identity_of(name).is_none()) {
        return Ok(false);
    }
    let _guard = lock(folder)?;
    remove_files(folder)?;
    folder.sync().map_err(|error| Error::io(folder.path(), error))?;
    Ok(true)
}

fn failed(folder: &Folder, name: &str, error: std::io::Error) -> Error {
    Error::io(&folder.path().join(name), error)
}

fn lock(folder: &Folder) -> Result<WriteGuard, Error> {
    WriteLock::named(folder, "search.lock", "poste search").acquire(OPEN_PATIENCE)
}

fn remove_files(folder: &Folder) -> Result<(), Error> {
    FILES.iter().try_for_each(|name| folder.remove(name).map(drop).map_err(|error| failed(folder, name, error)))
}

/// Whether the file is at fault. A full disk or a missing permission is no reason to delete it.
pub fn is_damage(error: &Error) -> bool {
    use rusqlite::Error as Sqlite;
    match error {
        Error::Damaged(_) | Error::DatabaseDamaged(_) => true,
        // A table or column is missing.
        Error::Sqlite(Sqlite::SqliteFailure(inner, _)) => inner.code == ErrorCode::Unknown,
        Error::Sqlite(error) => matches!(
            error,
            Sqlite::InvalidColumnType(..) | Sqlite::FromSqlConversionFailure(..) | Sqlite::IntegralValueOutOfRange(..)
        ),
        _ => false,
    }
}

fn damage(error: Error) -> Result<String, Error> {
    if is_damage(&error) { Ok(DAMAGED.to_owned()) } else { Err(error) }
}

fn connect(folder: &Folder) -> Result<Connection, Error> {
    let real = folder.real_path().map_err(|error| Error::io(folder.path(), error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(real.join(FILES[0]), flags)?;
    prepare(&conn)?;
    Ok(conn)
}

fn prepare(conn: &Connection) -> Result<(), Error> {
    conn.busy_timeout(CHUNK_PATIENCE)?;
    // On close, SQLite would remove the WAL by name, which could be the WAL of another index by then.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A power loss may lose the last chunks, but never corrupts the file.
    conn.pragma_update(None, "synchronous", "normal")?;
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_token_and_no_two_names_share_one() {
        assert_eq!(Tag::From.token("ann"), "f616e6e");
        assert_ne!(Tag::From.token("Ann"), Tag::From.token("ann"));
        assert_ne!(Tag::To.token("role:a"), Tag::To.token("role-a"));
        assert!(Tag::Conversation.token("a.b:c-d_e").chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
