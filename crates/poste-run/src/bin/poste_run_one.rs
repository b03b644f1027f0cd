//! Runs one command line with `/bin/sh`, for the test of what a signal to this process does to it.

use poste_run::Task;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line = std::env::args().nth(1).ok_or("which command line?")?;
    let finished = Task::shell(&line).run()?;
    Err(format!("the command ended, and this process lives: {:?}", finished.end).into())
}
