//! Rows 31 and 32: an artifact is a regular, non-empty file of the worktree that does not change while it is read, or
//! it is refused.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::desk::{Desk, write_file};

#[test]
fn what_is_no_file_of_the_worktree_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    write_file(&outside.path().join("secret"), b"secret");
    let desk = Desk::new();
    write_file(&desk.path("here"), b"here");
    write_file(&desk.path("empty"), b"");
    std::fs::create_dir(desk.path("folder")).unwrap();
    symlink(outside.path().join("secret"), desk.path("leaf")).unwrap();
    symlink(outside.path(), desk.path("out")).unwrap();
    symlink("/proc/self/environ", desk.path("proc")).unwrap();
    symlink("/dev/zero", desk.path("device")).unwrap();
    symlink("loop-b", desk.path("loop-a")).unwrap();
    symlink("loop-a", desk.path("loop-b")).unwrap();
    symlink(".poste/office.db", desk.path("database")).unwrap();
    std::fs::hard_link(desk.path(".poste/office.db"), desk.path("database-too")).unwrap();
    let _socket = UnixListener::bind(desk.path("socket")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, desk.path("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let secret = outside.path().join("secret").display().to_string();
    let long = "a/".repeat(3_000) + "b";
    let deep = "../".repeat(300) + "etc/passwd";
    for path in [
        "",
        ".",
        "..",
        "/",
        "here/x",
        "missing",
        "empty",
        "folder",
        "../secret",
        "folder/../../secret",
        &deep,
        "leaf",
        "out/secret",
        "out/../here/../leaf",
        "proc",
        "device",
        "loop-a",
        "socket",
        "pipe",
        &secret,
        &long,
        "/etc/passwd",
        "/dev/null",
        "/dev/zero",
        "/dev/stdin",
        "/dev/tty",
        "/proc/self/fd/0",
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/cwd/leaf",
        "/proc/self/cwd/../secret",
        // Its own database: closing it again would drop the locks of this very process.
        ".poste/office.db",
        ".poste/office.db-wal",
        ".poste/office.db-shm",
        ".poste/write.lock",
        "database",
        "database-too",
        "\u{1b}[31m",
        "\u{202e}gnp.exe",
        "a\nb",
    ] {
        for option in ["--artifact", "--attach"] {
            let words = ["send", "coder", "A file", "--as", "lead", &format!("{option}={path}")];
            let ran = desk.call(&words, &mut std::io::empty(), None);
            assert_eq!(ran.code, if path.is_empty() && ran.code == 2 { 2 } else { 4 }, "{words:?}: {}", ran.err);
        }
    }
    let mut not_text = b"--artifact=caf".to_vec();
    not_text.push(0xe9);
    let words = ["send", "coder", "A file", "--as", "lead"].map(OsStr::new);
    desk.refuses(4, &[words.as_slice(), &[OsStr::from_bytes(&not_text)]].concat());
    // A hard link is a file of the worktree like any other: it is recorded, whoever shares it.
    std::fs::hard_link(desk.path("here"), desk.path("hard-link")).unwrap();
    desk.accepts(&["send", "coder", "A file", "--as", "lead", "--artifact", "hard-link"]);
    // A link to a file of the worktree is recorded as that file, not as the link.
    symlink(desk.path("here"), desk.path("link")).unwrap();
    for path in ["/proc/self/cwd/here", "link"] {
        let sent = desk.accepts(&["send", "coder", "A file", "--as", "lead", "--json", "--artifact", path]).json();
        let read = desk.accepts(&["read", &sent["number"].to_string(), "--json"]).json();
        assert_eq!(read["artifacts"][0]["path"], "here", "{path}");
    }
    let numbers = desk.accepts(&["inbox", "--as", "coder", "--json"]).json();
    assert_eq!(numbers["messages"].as_array().map(Vec::len), Some(3), "{numbers}");
}

#[test]
fn a_name_nobody_can_see_is_shown_escaped() {
    let desk = Desk::new();
    let name = "\u{1b}[31m\u{202e}gnp\n\u{200b}.exe";
    write_file(&desk.path(name), b"something");
    desk.accepts(&["send", "coder", "A file", "--as", "lead", "--artifact", name]);
    desk.accepts(&["read", "1"]);
    desk.accepts(&["read", "1", "--for-model"]);
    assert_eq!(desk.accepts(&["read", "1", "--json"]).json()["artifacts"][0]["path"], name);
}

#[test]
fn a_file_that_is_written_to_while_it_is_read_is_refused() {
    let desk = Desk::new();
    let path = desk.path("growing");
    // Large enough to take longer to read than the writer waits between two writes.
    std::fs::File::create(&path).unwrap().set_len(300 * 1024 * 1024).unwrap();
    let stop = AtomicBool::new(false);
    let (grows, in_place) = std::thread::scope(|scope| {
        let writing = |append: bool| {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let mut file = std::fs::File::options().write(true).append(append).open(path).unwrap();
                while !stop.load(SeqCst) {
                    file.write_all(b"x").unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            })
        };
        let send = ["send", "coder", "A file", "--as", "lead", "--artifact", "growing"];
        let writer = writing(true);
        let grows = desk.refuses(4, &send);
        stop.store(true, SeqCst);
        writer.join().unwrap();
        stop.store(false, SeqCst);
        let writer = writing(false);
        let in_place = desk.refuses(4, &send);
        stop.store(true, SeqCst);
        writer.join().unwrap();
        (grows, in_place)
    });
    for ran in [grows, in_place] {
        assert!(ran.err.contains("it changed while it was read"), "{}", ran.err);
    }
    desk.accepts(&["send", "coder", "A file", "--as", "lead", "--artifact", "growing"]);
}
