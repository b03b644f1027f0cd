//! The meaning of SQLite errors.

use poste_core::Error;

#[test]
fn shared_memory_that_cannot_grow_is_a_full_disk() {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
    let error = Error::from(rusqlite::Error::SqliteFailure(code, None));
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    let other = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
    assert!(matches!(Error::from(rusqlite::Error::SqliteFailure(other, None)), Error::Sqlite(_)));
}
