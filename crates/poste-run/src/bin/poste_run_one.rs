//! Runs one command line with `/bin/sh`, to test what happens to it when this process is interrupted or killed.
//!
//! `tied …` is the intermediate step of a command that ends with its supervisor, `all MARK LINE` is such a supervisor,
//! and `sleep` and `linger` do nothing for a minute.

use std::io::Write;
use std::time::Duration;

use poste_run::{Keep, Mark, Task, TranscriptFile, adopt_orphans, become_tied};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let first = words.next().ok_or("missing command line")?.into_string().map_err(|_| "not UTF-8")?;
    match first.as_str() {
        "tied" => {
            let (code, why) = become_tied(words);
            writeln!(std::io::stderr(), "{why}")?;
            std::process::exit(code.into());
        }
        "sleep" | "linger" => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        "all" => {
            let mut text = || words.next().and_then(|word| word.into_string().ok()).ok_or("missing argument");
            let (value, line) = (text()?, text()?);
            adopt_orphans()?;
            let mark = Mark {
                variables: vec![("RUN_MARK".to_owned(), value)],
                another: "RUN_ANOTHER".to_owned(),
                another_by: vec!["sleep".to_owned()],
            };
            let path = std::env::current_dir()?.join("transcript");
            let mut task = Task::shell(&line);
            task.tied_by(std::env::current_exe()?, &["tied"]).everything(mark).grace(Duration::from_millis(200));
            task.transcript(TranscriptFile { path, keep: Keep { head: 100, tail: 100 }, max: 100_000 });
            if let Some(limit) = words.next() {
                let limit = limit.to_str().and_then(|limit| limit.parse().ok()).ok_or("invalid limit")?;
                task.limit(Duration::from_millis(limit));
            }
            let finished = task.run()?;
            let out = std::io::stdout();
            writeln!(&out, "{:?} {:?} {:?}", finished.end, finished.stopped, finished.not_ended)?;
            Ok(())
        }
        line => {
            let finished = Task::shell(line).run()?;
            Err(format!("the command ended, but this process is alive: {:?}", finished.end).into())
        }
    }
}
