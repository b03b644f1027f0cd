//! Fuzzing: gives every parser, every printer of foreign text, and the fold what no honest program would.
//!
//! A [`Target`] takes bytes and returns an outcome, or what does not hold. The [`engine`] derives the bytes from valid
//! inputs ([`mutate`]) and keeps those with an outcome that no other had: outcomes steer it.
//!
//! Why not libFuzzer: it runs on the stable toolchain (`-Cpasses=sancov-module` and friends), but needs a C++ compiler,
//! a second build of every dependency and several minutes before the first input. This fuzzer is built with everything
//! else, a seed replays it, and its short form is a test. The targets are plain functions, so a coverage-guided fuzzer
//! can use them at any time; `poste-fuzz --seeds DIR` writes the inputs to start it from.

mod archives;
mod asking;
pub mod engine;
mod folding;
pub mod mutate;
mod records;
mod surfaces;
mod words;

/// Ok: the outcome, in words that do not depend on the details of the input. Err: what should hold and does not.
pub type Checked = Result<String, String>;

/// Something that accepts foreign input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// What it is given, and what must hold.
    pub about: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// May keep state between calls to be fast, but one input must never affect the outcome of another.
    pub check: fn(&[u8]) -> Checked,
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "record",
        about: "bytes of a log, with their own and with a right checksum: a record that is kept byte for byte, or a reason",
        seeds: records::record_seeds,
        check: records::record,
    },
    Target {
        name: "content",
        about: "stored content: decodes to something that encodes to itself, or a reason",
        seeds: records::content_seeds,
        check: records::content,
    },
    Target {
        name: "fold",
        about: "records with a right checksum behind a busy history: decided or halted, invariants, refold, no second effect",
        seeds: folding::seeds,
        check: folding::fold_lines,
    },
    Target {
        name: "words",
        about: "names, addresses, topics, labels, ids, sessions: one grammar everywhere, and errors that are safe to print",
        seeds: words::seeds,
        check: words::words,
    },
    Target {
        name: "times",
        about: "lengths and moments: in range, printable in every style, equal after a trip through a record",
        seeds: words::time_seeds,
        check: words::times,
    },
    Target {
        name: "config",
        about: "poste.toml and local.toml: the fold accepts what they accept; setting a key keeps everything else",
        seeds: words::config_seeds,
        check: words::config,
    },
    Target {
        name: "archive",
        about: "a damaged archive file: found, checked and redacted without a panic, and redacted content is erased",
        seeds: archives::seeds,
        check: archives::archive,
    },
    Target {
        name: "batch",
        about: "lines of a batch and payloads: a message that can be stored and read again, or a reason that is safe to print",
        seeds: surfaces::batch_seeds,
        check: surfaces::batch,
    },
    Target {
        name: "search",
        about: "search texts: found or refused, and never syntax to SQLite",
        seeds: asking::search_seeds,
        check: asking::search,
    },
    Target {
        name: "schema",
        about: "payload schemas and payloads: fits, refused, or a schema that cannot be used",
        seeds: asking::schema_seeds,
        check: asking::schema,
    },
    Target {
        name: "arguments",
        about: "the command line: a command, or a usage error that is safe to print",
        seeds: surfaces::argument_seeds,
        check: surfaces::arguments,
    },
    Target {
        name: "escape",
        about: "text for a terminal: nothing it obeys or hides comes through, and JSON means the same",
        seeds: surfaces::escape_seeds,
        check: surfaces::escape,
    },
    Target {
        name: "fence",
        about: "a message for a model: its content cannot close the fence, nor forge the lines of the office",
        seeds: surfaces::fence_seeds,
        check: surfaces::fence,
    },
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Turns a condition into a [`Checked`] error.
fn must(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
