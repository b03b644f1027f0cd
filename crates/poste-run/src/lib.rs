//! Runs one command and comes back, whatever the command does.
//!
//! No shell unless asked, nothing of the environment that was not named, at most so much output kept, a time
//! limit, and a process group of its own, so that what the command started ends with it. The caller is never
//! held up by a grandchild that keeps the pipes open.
//!
//! What a command can do against this: leave the group (`setsid`). It is then not waited for, not killed, and
//! [`Finished::left_behind`] says so if it still holds an end of the output. Unless this process has nothing else to do than to
//! watch over it: then [`Task::everything`] is ended with it, and [`Task::tied_by`] ends it with this process.

mod capture;
mod environment;
pub mod files;
mod group;
mod interrupt;
mod run;
mod tie;
mod transcript;
mod tree;

pub use capture::{Captured, Keep};
pub use environment::{ALLOWED, Environment};
pub use interrupt::{HeldBack, signals_are_seen_to};
pub use run::{End, Finished, Output, StartError, Stopped, Task, Watch, Watcher};
pub use tie::become_tied;
pub use transcript::TranscriptFile;
pub use tree::{Mark, adopt_orphans, end_marked, end_process, with_mark};

/// Splits a command line into words as a shell would, without one: quotes and backslashes count, nothing is
/// expanded, and a word that begins with `#` begins a comment. `None`: a quote is never closed, or there is no word at
/// all.
pub fn words(line: &str) -> Option<Vec<String>> {
    shlex::split(line).filter(|words| !words.is_empty())
}

/// One command line that [`words`] splits into these words again: for people to read and to copy.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = words.into_iter().map(|word| match shlex::try_quote(word) {
        Ok(quoted) => quoted.into_owned(),
        // A word with a NUL can be neither quoted nor run.
        Err(_) => word.replace('\0', "\u{fffd}"),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
