//! The write lock.

use std::time::Duration;

use poste_core::store::{Folder, WriteLock};

#[test]
fn the_one_who_waits_in_vain_is_told_who_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let held = WriteLock::new(&Folder::open(folder.path()).unwrap(), "first").acquire(Duration::ZERO).unwrap();
    let error =
        WriteLock::new(&Folder::open(folder.path()).unwrap(), "second").acquire(Duration::from_millis(20)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("pid {} (first)", std::process::id())), "{text}");
    drop(held);
    WriteLock::new(&Folder::open(folder.path()).unwrap(), "third").acquire(Duration::from_secs(5)).unwrap();
}

#[test]
fn giving_up_does_not_keep_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let held = WriteLock::new(&Folder::open(folder.path()).unwrap(), "first").acquire(Duration::ZERO).unwrap();
    for _ in 0..5 {
        WriteLock::new(&Folder::open(folder.path()).unwrap(), "impatient")
            .acquire(Duration::from_millis(5))
            .unwrap_err();
    }
    drop(held);
    WriteLock::new(&Folder::open(folder.path()).unwrap(), "patient").acquire(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_long_program_name_is_cut_and_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    WriteLock::new(&Folder::open(folder.path()).unwrap(), &"ä".repeat(500)).acquire(Duration::ZERO).unwrap();
}
