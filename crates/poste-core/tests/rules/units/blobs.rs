//! Blobs: complete or absent.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use poste_core::store::Folder;
use poste_core::store::blobs::Blobs;
use poste_core::{Digest, Error};

fn blobs_in(office: &Path) -> Blobs {
    let office = Folder::open(office).unwrap();
    office.make("blobs").unwrap();
    Blobs::new(&office)
}

#[test]
fn blobs_are_kept_once_checked_on_reading_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs_in(folder.path());
    let first = blobs.put(b"content").unwrap();
    assert_eq!(blobs.put(b"content").unwrap(), first);
    assert_eq!(blobs.get(&first.digest).unwrap().unwrap(), b"content");
    assert_eq!(fs::read_dir(folder.path().join("blobs")).unwrap().count(), 1);
    assert_eq!(blobs.get(&Digest::of(b"other")).unwrap(), None);
    fs::write(blobs.path(&first.digest), b"tampered").unwrap();
    assert!(matches!(blobs.get(&first.digest), Err(Error::Damaged(_))));
}

#[test]
fn a_source_that_breaks_leaves_no_blob() {
    struct Breaks;
    impl Read for Breaks {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs_in(folder.path());
    assert!(blobs.put_from(b"some".chain(Breaks)).is_err());
    assert_eq!(fs::read_dir(folder.path().join("blobs")).unwrap().count(), 0);
}
