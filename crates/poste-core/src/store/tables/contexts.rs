//! Shared contexts, their versions, and which agent has read which version.

use rusqlite::{Row, params};

use super::rows::Selected;
use super::{Due, DueItem, Tables};
use crate::error::Error;
use crate::log::{Lines, MessageNo, Position};
use crate::text::{ContextName, Name, Session, Word};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// What a version did to the text.
    TextPart { None = 0 "none", Whole = 1 "whole", Section = 2 "section" }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The record that created it.
    pub number: Position,
    pub name: ContextName,
    pub kind: Word,
    pub has_schema: bool,
    pub created_at: Timestamp,
    pub created_by: Name,
    pub version: u64,
    pub updated_at: Timestamp,
    pub updated_by: Name,
    pub lock: Option<Lock>,
}

/// The agent that alone may write for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The record that took it.
    pub token: Position,
    pub holder: Name,
    pub session: Option<Session>,
    pub until: Timestamp,
}

impl Context {
    /// The row of `due` for this context.
    fn due(&self) -> Option<DueItem> {
        let lock = self.lock.as_ref()?;
        Some(DueItem { at: lock.until, what: Due::ContextLock, subject: self.number.0 })
    }
}

/// One version, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub context: Position,
    pub version: u64,
    /// Its record, which has the content.
    pub position: Position,
    pub at: Timestamp,
    pub agent: Name,
    pub text: TextPart,
    pub data: bool,
    pub lines: Lines,
    /// The message that subscribers were sent.
    pub message: MessageNo,
    /// The proposal that this version records, after all parties had agreed.
    pub agreement: Option<MessageNo>,
}

impl Selected for Context {
    const SELECT: &'static str = "SELECT number, name, kind, schema, created_at, created_by, version, updated_at, \
         updated_by, token, holder, session, locked_until FROM contexts";
}

impl TryFrom<&Row<'_>> for Context {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let lock = match row.get(9)? {
            None => None,
            Some(token) => Some(Lock { token, holder: row.get(10)?, session: row.get(11)?, until: row.get(12)? }),
        };
        Ok(Self {
            number: row.get(0)?,
            name: row.get(1)?,
            kind: row.get(2)?,
            has_schema: row.get(3)?,
            created_at: row.get(4)?,
            created_by: row.get(5)?,
            version: row.get(6)?,
            updated_at: row.get(7)?,
            updated_by: row.get(8)?,
            lock,
        })
    }
}

impl Selected for Version {
    const SELECT: &'static str = "SELECT context, version, position, at, agent, text, data, added, removed, message, \
         agreement FROM context_versions";
}

impl TryFrom<&Row<'_>> for Version {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            context: row.get(0)?,
            version: row.get(1)?,
            position: row.get(2)?,
            at: row.get(3)?,
            agent: row.get(4)?,
            text: row.get(5)?,
            data: row.get(6)?,
            lines: Lines { added: row.get(7)?, removed: row.get(8)? },
            message: row.get(9)?,
            agreement: row.get(10)?,
        })
    }
}

impl Tables<'_> {
    pub fn context(&self, name: &ContextName) -> Result<Option<Context>, Error> {
        self.one(select!(Context, "WHERE name = ?1"), [name])
    }

    pub fn context_by_number(&self, number: Position) -> Result<Option<Context>, Error> {
        self.one(select!(Context, "WHERE number = ?1"), [number])
    }

    /// Every context, by name.
    pub fn contexts(&self) -> Result<Vec<Context>, Error> {
        self.all(select!(Context, "ORDER BY name"), [])
    }

    /// Locked contexts of one agent or of all, by number.
    pub fn locked_contexts(&self, holder: Option<&Name>) -> Result<Vec<Context>, Error> {
        let sql = select!(Context, "WHERE holder IS NOT NULL AND (?1 IS NULL OR holder = ?1) ORDER BY number");
        self.all(sql, [holder])
    }

    pub fn insert_context(&mut self, context: &Context) -> Result<(), Error> {
        self.execute(
            "INSERT INTO contexts
                   (number, name, kind, schema, created_at, created_by, version, updated_at, updated_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                context.number,
                context.name,
                context.kind,
                context.has_schema,
                context.created_at,
                context.created_by,
                context.version,
                context.updated_at,
                context.updated_by
            ],
        )
    }

    /// Sets or clears the lock, and updates its row in `due`.
    pub fn set_lock(&mut self, before: &Context, lock: Option<Lock>) -> Result<(), Error> {
        let after = Context { lock, ..before.clone() };
        let lock = after.lock.as_ref();
        self.execute(
            "UPDATE contexts SET token = ?2, holder = ?3, session = ?4, locked_until = ?5 WHERE number = ?1",
            params![
                after.number,
                lock.map(|lock| lock.token),
                lock.map(|lock| &lock.holder),
                lock.and_then(|lock| lock.session.as_ref()),
                lock.map(|lock| lock.until)
            ],
        )?;
        self.context_changed(after.number, false)?;
        self.move_due(before.due(), after.due())
    }

    /// Stores the next version of a context.
    pub fn insert_version(&mut self, version: &Version) -> Result<(), Error> {
        self.execute(
            "INSERT INTO context_versions
                   (context, version, position, at, agent, text, data, added, removed, message, agreement)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                version.context,
                version.version,
                version.position,
                version.at,
                version.agent,
                version.text,
                version.data,
                version.lines.added,
                version.lines.removed,
                version.message,
                version.agreement
            ],
        )?;
        self.execute(
            "UPDATE contexts SET version = ?2, updated_at = ?3, updated_by = ?4 WHERE number = ?1",
            params![version.context, version.version, version.at, version.agent],
        )?;
        self.execute(
            "INSERT INTO context_contributors (context, agent, versions, last_at) VALUES (?1, ?2, 1, ?3)
                 ON CONFLICT (context, agent) DO UPDATE SET versions = versions + 1, last_at = ?3",
            params![version.context, version.agent, version.at],
        )?;
        self.context_changed(version.context, true)
    }

    pub fn version(&self, context: Position, version: u64) -> Result<Option<Version>, Error> {
        let Ok(version) = i64::try_from(version) else { return Ok(None) };
        self.one(select!(Version, "WHERE context = ?1 AND version = ?2"), params![context, version])
    }

    /// The version that a record created, if any.
    pub fn version_at(&self, position: Position) -> Result<Option<Version>, Error> {
        self.one(select!(Version, "WHERE position = ?1"), [position])
    }

    /// Versions `from` to `to`, both included, oldest first.
    pub fn versions(&self, context: Position, from: u64, to: u64) -> Result<Vec<Version>, Error> {
        let bound = |version: u64| i64::try_from(version).unwrap_or(i64::MAX);
        let sql = select!(Version, "WHERE context = ?1 AND version BETWEEN ?2 AND ?3 ORDER BY version");
        self.all(sql, params![context, bound(from), bound(to)])
    }

    /// The newest version, up to this one, with a whole text.
    pub fn whole_text_up_to(&self, context: Position, version: u64) -> Result<Option<u64>, Error> {
        self.newest_version("text = 1", context, version)
    }

    /// The newest version, up to this one, with data.
    pub fn data_up_to(&self, context: Position, version: u64) -> Result<Option<u64>, Error> {
        self.newest_version("data = 1", context, version)
    }

    fn newest_version(&self, which: &str, context: Position, version: u64) -> Result<Option<u64>, Error> {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        self.value(
            &format!("SELECT max(version) FROM context_versions WHERE context = ?1 AND version <= ?2 AND {which}"),
            params![context, version],
        )
    }

    /// The agents that wrote versions of a context, by name.
    pub fn contributors(&self, context: Position) -> Result<Vec<Name>, Error> {
        self.names("SELECT agent FROM context_contributors WHERE context = ?1 ORDER BY agent", [context])
    }

    /// The agents that wrote it up to a version, by name.
    pub fn contributors_up_to(&self, context: &Context, version: u64) -> Result<Vec<Name>, Error> {
        if version >= context.version {
            return self.contributors(context.number);
        }
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let sql = "SELECT DISTINCT agent FROM context_versions WHERE context = ?1 AND version <= ?2 ORDER BY agent";
        self.names(sql, params![context.number, version])
    }

    /// The newest version that an agent has read.
    pub fn version_read(&self, agent: &Name, context: Position) -> Result<Option<u64>, Error> {
        self.maybe("SELECT version FROM context_reads WHERE agent = ?1 AND context = ?2", params![agent, context])
    }

    pub fn put_version_read(
        &mut self,
        agent: &Name,
        context: Position,
        version: u64,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.execute(
            "INSERT INTO context_reads (agent, context, version, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (agent, context) DO UPDATE SET version = ?3, at = ?4",
            params![agent, context, version, at],
        )
    }

    /// Contexts that an agent has read only in an older version, by name, with the version it has read.
    pub fn stale_contexts(&self, agent: &Name, limit: usize) -> Result<Vec<(Context, u64)>, Error> {
        let sql = format!(
            "SELECT c.*, r.version FROM ({}) c JOIN context_reads r ON c.number = r.context
             WHERE r.agent = ?1 AND r.version < c.version ORDER BY c.name LIMIT ?2",
            Context::SELECT
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let found = statement.query_map(params![agent, limit], |row| Ok((Context::try_from(row)?, row.get(13)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    }
}
