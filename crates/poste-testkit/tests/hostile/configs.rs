//! Row 33: `poste.toml` comes with a repository and may contain anything.

use std::os::unix::fs::symlink;
use std::path::Path;

use poste_config::ConfigFile;
use poste_testkit::corpus;

use crate::desk::{Desk, write_file};

const SEND: [&str; 5] = ["send", "coder", "s", "--as", "lead"];

#[test]
fn a_wrong_file_is_a_usage_error_and_nothing_is_sent() {
    let desk = Desk::new();
    let mut refused = 0;
    for text in corpus::TOML_TEXTS {
        if ConfigFile::parse(text, Path::new("poste.toml")).is_ok() {
            continue;
        }
        write_file(&desk.path("poste.toml"), text.as_bytes());
        let ran = desk.refuses(2, &SEND);
        assert!(ran.err.contains("poste.toml"), "{}", ran.err);
        refused += 1;
    }
    assert!(refused > 20, "{refused}");
    std::fs::remove_file(desk.path("poste.toml")).unwrap();
    desk.accepts(&SEND);
}

/// A debug build of the program maps 70 MiB itself; a hostile file gets the rest.
const MEMORY_KIB: u64 = 128 * 1024;

#[test]
fn deep_huge_and_odd_files_are_refused_quickly() {
    let desk = Desk::new();
    let file = desk.path("poste.toml");
    let started = std::time::Instant::now();
    for text in [
        format!("x = {}", "[".repeat(200_000)),
        format!("x = {}", "{a=".repeat(80_000)),
        format!("[{}b]", "a.".repeat(120_000)),
        format!("{}b = 1", "a.".repeat(120_000)),
        format!("[delivery]\n{} = 1", "x".repeat(250_000)),
        format!("[types.{}]", "x".repeat(250_000)),
        (0..15_000).map(|number| format!("[types.t{number}]\n")).collect(),
        (0..28_000).map(|number| format!("x{number}=1\n")).collect(),
        format!("[delivery]\n{}", (0..28_000).map(|number| format!("x{number}=1\n")).collect::<String>()),
        (0..8_000).map(|number| format!("[types.t{number}]\npriority=\"low\"\n")).collect(),
        format!("delivery = {{ {} }}", (0..24_000).map(|number| format!("x{number}=1, ")).collect::<String>()),
        "[\n".repeat(130_000),
        format!("[delivery]\nlease = \"{}m\"", "9".repeat(250_000)),
        "#".repeat(2_000_000),
        "\0".repeat(1_000),
    ] {
        write_file(&file, text.as_bytes());
        let ran = desk.refuses_input(2, &SEND, &mut std::io::empty(), Some(MEMORY_KIB));
        assert!(ran.err.len() < 2_000, "{} bytes of reasons: {:.300}", ran.err.len(), ran.err);
    }
    write_file(&file, b"[delivery]\nlease = \"caf\xe9\"");
    desk.refuses(2, &SEND);
    std::fs::remove_file(&file).unwrap();
    // A link out of the project is refused before anything behind it is looked at.
    for target in ["/dev/zero", "/dev/null", "/", "/proc/self/mem"] {
        symlink(target, &file).unwrap();
        desk.refuses(2, &SEND);
        std::fs::remove_file(&file).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    desk.refuses(2, &SEND);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
