//! Runs one command and returns, whatever the command does.
//!
//! A command gets no shell unless asked for, only named environment variables, bounded output, a time limit, and its
//! own process group, so that the processes it started end with it. A grandchild that keeps the pipes open never blocks
//! the caller.
//!
//! A command can escape by leaving the group (`setsid`). It is then neither waited for nor killed, and
//! [`Finished::left_behind`] reports it if it still holds an end of the output. A process that does nothing but
//! supervise the command can prevent this: [`Task::everything`] ends escaped processes with the command, and
//! [`Task::tied_by`] ends the command with the supervisor.

mod capture;
mod environment;
pub mod files;
mod group;
mod interrupt;
mod run;
mod search;
mod tie;
mod transcript;
mod tree;

pub use capture::{Captured, Keep};
pub use environment::{ALLOWED, Environment};
pub use interrupt::{HeldBack, mark_signals_handled};
pub use run::{End, Finished, Output, StartError, Stopped, Task, Watch, Watcher};
pub use search::{find_outside, find_program};
pub use tie::become_tied;
pub use transcript::TranscriptFile;
pub use tree::{Mark, adopt_orphans, end_marked, end_process, with_mark};

/// Splits a command line into words like a shell, but without one: quotes and backslashes count, nothing is expanded,
/// and a word that begins with `#` begins a comment. `None` if a quote is never closed or there is no word.
pub fn words(line: &str) -> Option<Vec<String>> {
    shlex::split(line).filter(|words| !words.is_empty())
}

/// One command line that [`words`] splits into the same words, for people to read and copy.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = words.into_iter().map(|word| match shlex::try_quote(word) {
        Ok(quoted) => quoted.into_owned(),
        // A word with a NUL can be neither quoted nor run.
        Err(_) => word.replace('\0', "\u{fffd}"),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
