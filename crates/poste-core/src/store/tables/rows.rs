//! Reading and writing rows.

use rusqlite::types::FromSql;
use rusqlite::{Params, Row, Statement};

use super::{Optional as _, Tables};
use crate::error::Error;

/// Anything read from a row: a tuple of columns, or a type that declares its columns.
pub(crate) trait FromRow: for<'row> TryFrom<&'row Row<'row>, Error = rusqlite::Error> {}

impl<T: for<'row> TryFrom<&'row Row<'row>, Error = rusqlite::Error>> FromRow for T {}

/// A type that is read from the rows of one table.
pub(super) trait Selected: FromRow {
    const SELECT: &'static str;
}

/// A type whose fields are the columns of one table. Implemented by [`stored!`].
pub(crate) trait Stored: FromRow {
    const COLUMNS: &'static str;
    const INSERT: &'static str;

    /// Runs `INSERT`, or a statement with the same parameters.
    fn write(&self, statement: &mut Statement<'_>) -> rusqlite::Result<usize>;
}

/// Declares the columns that hold the fields of a type: `field`, `field as column` if the names differ, and `field with
/// module` if the module's `get` and `put` convert between them.
macro_rules! stored {
    ($row:ident in $table:literal: $first:ident, $($field:ident $(as $column:ident)? $(with $with:ident)?),+ $(,)?) => {
        impl $crate::store::tables::rows::Stored for $row {
            const COLUMNS: &'static str = concat!(stringify!($first) $(, ", ", column!($field $($column)?))+);
            const INSERT: &'static str = concat!(
                "INSERT INTO ", $table, " (", stringify!($first) $(, ", ", column!($field $($column)?))+,
                ") VALUES (?" $(, column!(place $field))+, ")"
            );

            fn write(&self, statement: &mut rusqlite::Statement<'_>) -> rusqlite::Result<usize> {
                statement.execute(rusqlite::params![self.$first, $(column!(put self.$field $(, $with)?)),+])
            }
        }

        impl $crate::store::tables::rows::Selected for $row {
            const SELECT: &'static str =
                concat!("SELECT ", stringify!($first) $(, ", ", column!($field $($column)?))+, " FROM ", $table);
        }

        impl TryFrom<&rusqlite::Row<'_>> for $row {
            type Error = rusqlite::Error;

            fn try_from(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                let mut column = 0;
                let $first = row.get(column)?;
                $(
                    column += 1;
                    let $field = column!(get row, column $(, $with)?)?;
                )+
                Ok(Self { $first, $($field),+ })
            }
        }
    };
}

/// One column of [`stored!`].
macro_rules! column {
    (place $field:ident) => {
        ", ?"
    };
    (get $row:ident, $column:ident) => {
        $row.get($column)
    };
    (get $row:ident, $column:ident, $with:ident) => {
        $with::get($row, $column)
    };
    (put $value:expr) => {
        $value
    };
    (put $value:expr, $with:ident) => {
        $with::put(&$value)
    };
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $column:ident) => {
        stringify!($column)
    };
}

/// The text of a query, assembled once: `select!(Handoff, "WHERE number = ?1")`.
macro_rules! select {
    ($row:ty, $rest:literal) => {{
        static SQL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
            format!(concat!("{} ", $rest), <$row as $crate::store::tables::rows::Selected>::SELECT)
        });
        SQL.as_str()
    }};
}

/// Updates fields of an existing row: `update!(self, handoff, "handoffs" SET state, answer WHERE number)`.
macro_rules! update {
    ($tables:expr, $row:expr, $table:literal SET $first:ident $(, $field:ident)* WHERE $key:ident $(AND $other:ident)?) => {
        $tables.execute(
            concat!(
                "UPDATE ", $table, " SET ", stringify!($first), " = ?" $(, ", ", stringify!($field), " = ?")*,
                " WHERE ", stringify!($key), " = ?" $(, " AND ", stringify!($other), " = ?")?
            ),
            rusqlite::params![$row.$first, $($row.$field,)* $row.$key, $($row.$other)?],
        )
    };
}

impl Tables<'_> {
    /// One row, or none.
    pub(crate) fn one<T: FromRow>(&self, sql: &str, params: impl Params) -> Result<Option<T>, Error> {
        self.conn.prepare_cached(sql)?.query_row(params, |row| T::try_from(row)).optional()
    }

    /// Every row.
    pub(crate) fn all<T: FromRow>(&self, sql: &str, params: impl Params) -> Result<Vec<T>, Error> {
        Ok(self.conn.prepare_cached(sql)?.query_map(params, |row| T::try_from(row))?.collect::<Result<_, _>>()?)
    }

    /// The first column of the only row.
    pub(crate) fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Result<T, Error> {
        Ok(self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
    }

    /// The first column of one row, or none.
    pub(crate) fn maybe<T: FromSql>(&self, sql: &str, params: impl Params) -> Result<Option<T>, Error> {
        self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()
    }

    /// The first column of every row.
    pub(crate) fn column<T: FromSql, C: FromIterator<T>>(&self, sql: &str, params: impl Params) -> Result<C, Error> {
        Ok(self.conn.prepare_cached(sql)?.query_map(params, |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Stores a new row.
    pub(super) fn insert(&mut self, row: &impl Stored) -> Result<(), Error> {
        self.insert_all(std::slice::from_ref(row))
    }

    /// Stores new rows.
    pub(super) fn insert_all<T: Stored>(&mut self, rows: &[T]) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(T::INSERT)?;
        rows.iter().try_for_each(|row| row.write(&mut statement).map(drop))?;
        Ok(())
    }

    /// Inserts, updates or deletes rows.
    pub(super) fn execute(&mut self, sql: &str, params: impl Params) -> Result<(), Error> {
        self.conn.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}
