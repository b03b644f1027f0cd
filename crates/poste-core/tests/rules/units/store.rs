//! A new office folder.

use std::fs;

use crate::common::make_private;
use poste_core::Error;
use poste_core::store::{Options, Store, schema};
use rusqlite::Connection;

/// There is one SQLite per process, and 3.51.3 fixed a race between processes in WAL mode.
#[test]
fn the_bundled_sqlite_is_new_enough() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn a_new_office_is_the_sum_of_all_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".poste");
    assert!(Store::create(&path, &Options::default(), |_| Ok(())).unwrap());
    assert!(!Store::create(&path, &Options::default(), |_| Ok(())).unwrap());
    let made = Store::open(&path, Options::default()).unwrap();
    let summed = Store::in_memory().unwrap();
    let shape = |store: &Store| -> Vec<(String, Option<String>)> {
        let mut statement = store.conn().prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(shape(&made), shape(&summed));
    assert_eq!(made.version().unwrap().schema, schema::CURRENT.version());
}

#[test]
fn an_office_is_private_and_ignores_itself_in_git() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".poste");
    Store::create(&path, &Options::default(), |_| Ok(())).unwrap();
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("."), 0o700);
    for file in ["office.db", "bell", "write.lock"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    assert_eq!(fs::read_to_string(path.join(".gitignore")).unwrap(), "*\n");
}

#[test]
fn a_foreign_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".poste");
    fs::create_dir(&path).unwrap();
    Connection::open(path.join("office.db")).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    make_private(&path);
    make_private(&path.join("office.db"));
    assert!(matches!(Store::create(&path, &Options::default(), |_| Ok(())), Err(Error::NotAnOffice(_))));
    assert!(matches!(Store::open(&path, Options::default()), Err(Error::Unfinished(_))));
}
