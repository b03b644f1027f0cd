//! The WAL behind a reader that does not end: bounded, reported, and short again once the reader has ended.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use poste_core::limits::HOUR_MS;
use poste_core::log::{Body, Content, Intent};
use poste_core::office::Settled;
use poste_core::store::Options;
use poste_core::{Error, Office};

use crate::common::*;

const FULL: u64 = 4 * 1024 * 1024;
const SHORT: u64 = 512 * 1024;

fn desk(lock_timeout: Duration) -> Desk {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.place.options = Options { lock_timeout, wal_bytes_full: FULL, ..Options::default() };
    desk.office = desk.place.open().expect("it opens");
    desk
}

fn wal_bytes(desk: &Desk) -> u64 {
    fs::metadata(desk.place.path.join("office.db-wal")).expect("there is a WAL").len()
}

fn send(desk: &mut Desk) -> Result<(), Error> {
    let content = Content { subject: "long".to_owned(), body: Body(vec![b'x'; 40_000]), ..Content::default() };
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(content));
    desk.try_outcome(&proposal).map(|_| ())
}

fn send_until_refused(desk: &mut Desk) -> (usize, Error) {
    for sent in 0..1_000 {
        if let Err(error) = send(desk) {
            return (sent, error);
        }
    }
    panic!("the WAL has {} bytes and no write was refused", wal_bytes(desk));
}

fn begin_reading(reader: &Office) {
    reader.store().conn().execute_batch("BEGIN; SELECT count(*) FROM log").expect("it reads");
}

fn end_reading(reader: &Office) {
    reader.store().conn().execute_batch("COMMIT").expect("it ends");
}

/// Another process that has the database open.
fn opener(desk: &Desk) -> Child {
    let script = "exec sleep 60 < \"$0\"";
    let mut child =
        Command::new("sh").arg("-c").arg(script).arg(desk.place.path.join("office.db")).spawn().expect("sh");
    while !fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name == "sleep\n") {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn behind_a_reader_it_grows_so_far_and_then_writers_hear_who_reads() {
    let mut desk = desk(Duration::ZERO);
    let leased = desk.send("ann", "bob", "directive");
    accepted(desk.claim_for("bob", leased, Some(HOUR_MS)));
    let reader = desk.place.open().expect("a second one opens");
    begin_reading(&reader);
    let mut other = opener(&desk);
    let (sent, error) = send_until_refused(&mut desk);
    other.kill().and_then(|()| other.wait()).expect("it is ended");
    let expected = format!("until pid {} (sleep, for", other.id());
    assert!(matches!(error, Error::WalFull { .. }) && error.to_string().contains(&expected), "{error}");
    assert!(sent > 20, "{sent}");
    let grown = wal_bytes(&desk);
    assert!((FULL..FULL + SHORT).contains(&grown), "{grown}");

    // Views still work, and due items wait.
    desk.clock.pass(2 * HOUR_MS);
    assert_eq!(desk.office.settle().expect("it can be looked at"), Settled::No);
    send(&mut desk).expect_err("still");
    assert_eq!(wal_bytes(&desk), grown);

    end_reading(&reader);
    send(&mut desk).expect("the reader has ended");
    assert!(wal_bytes(&desk) < SHORT, "{}", wal_bytes(&desk));
    desk.verify();
}

#[test]
fn a_writer_waits_for_the_reader_before_it_gives_up() {
    let mut desk = desk(Duration::from_secs(60));
    let reader = desk.place.open().expect("a second one opens");
    begin_reading(&reader);
    while wal_bytes(&desk) < FULL {
        send(&mut desk).expect("there is room");
    }
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        end_reading(&reader);
    });
    send(&mut desk).expect("it waits until the reader has ended");
    reader.join().expect("the reader ended");
    assert!(wal_bytes(&desk) < FULL);
}

#[test]
fn a_large_office_gives_its_readers_more_room() {
    let mut desk = desk(Duration::ZERO);
    while fs::metadata(desk.place.path.join("office.db")).expect("a database").len() < 2 * FULL {
        send(&mut desk).expect("there is no reader");
    }
    let reader = desk.place.open().expect("a second one opens");
    begin_reading(&reader);
    send_until_refused(&mut desk);
    assert!(wal_bytes(&desk) > 2 * FULL, "{}", wal_bytes(&desk));
    end_reading(&reader);
}
