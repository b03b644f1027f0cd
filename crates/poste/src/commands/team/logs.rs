use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use poste_core::office::Office;
use poste_core::store::tables::Concern;
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_dispatch::run::RunFolder;
use schemars::JsonSchema;
use serde::Serialize;

use super::current_run;
use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::explain::unknown_agent;
use crate::ui::{Answer, Ui, escape};

/// Print what the program of a teammate printed, in the run that is under way or the last one
///
/// Both of its streams, as they came. A long output is kept from its beginning and its end. What a program prints is data:
/// signs that a terminal would obey are shown as text.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team logs coder\n  poste team logs coder -f")]
pub(crate) struct Args {
    /// Whose
    name: Name,
    /// Go on until the run is over
    #[arg(short, long)]
    follow: bool,
    /// Of this run instead
    #[arg(long)]
    run: Option<Session>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogsAnswer {
    pub agent: Name,
    pub run: Session,
    /// Whether the run is over.
    pub over: bool,
    pub text: String,
}

impl Answer for LogsAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write_text(out, &self.text)
    }
}

fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", escape::block(text.strip_suffix('\n').unwrap_or(text)))
}

/// What is read at once, and the most that is printed of one file.
const BYTES_MAX: u64 = 8 * 1024 * 1024;
const PERIOD: Duration = Duration::from_millis(200);

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.follow && cx.ui.json {
        return Err(CommandError::usage("--follow prints text as it comes, which is no JSON"));
    }
    let mut office = cx.open()?;
    if office.agent(&args.name)?.is_none() && !poste_config::runners(&office)?.agents.contains_key(&args.name) {
        return Err(unknown_agent(&office, &args.name)?);
    }
    let run = match args.run {
        Some(run) => run,
        None => match current_run(&office, &args.name)? {
            Some(run) => run,
            None if office.agent(&args.name)?.is_none() => return Err(unknown_agent(&office, &args.name)?),
            None => {
                let message = format!("{} was never run here", args.name);
                return Err(CommandError::not_found(message).hint("see what it does: poste team status"));
            }
        },
    };
    let view = views::run(office.store(), &run)?.filter(|view| view.agent == args.name);
    let view = view.ok_or_else(|| CommandError::not_found(format!("{} had no run {run}", args.name)))?;
    let folder = RunFolder::of(office.path()?, &run);
    if !folder.path().is_dir() {
        let message = format!("the files of run {run} are gone, or on {}", view.host);
        return Err(CommandError::not_found(message).hint("what it printed last is in the log: poste log show"));
    }
    let path = folder.output();
    if args.follow {
        return follow(cx, &mut office, &view.agent, &run, &path);
    }
    let (bytes, _) = read_from(&path, 0)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    cx.ui.answer(&LogsAnswer { agent: args.name, run, over: view.ended_at.is_some(), text })
}

fn follow(cx: &Cx, office: &mut Office, agent: &Name, run: &Session, path: &Path) -> Result {
    let (mut at, mut rest) = (0, Vec::new());
    loop {
        // Asked before the look: what was printed before the end is then there.
        let is_over = views::run(office.store(), run)?.is_none_or(|view| view.ended_at.is_some());
        let (bytes, next) = read_from(path, at)?;
        at = next;
        rest.extend(bytes);
        // Whole lines; half a sign would be shown as damage.
        let end =
            if is_over { rest.len() } else { rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1) };
        let whole: Vec<u8> = rest.drain(..end).collect();
        let mut out = cx.ui.out();
        write_text(&mut out, &String::from_utf8_lossy(&whole))?;
        out.flush()?;
        drop(out);
        if is_over {
            return Ok(());
        }
        cx.wait_for(office, &Concern::Agent(agent.clone()).into(), Some(PERIOD), |_| Ok(None::<()>))?;
    }
}

/// What is there from a place on, and the place behind it. A file that became shorter is read anew.
fn read_from(path: &Path, at: u64) -> Result<(Vec<u8>, u64)> {
    let failed = |error: io::Error| CommandError::not_found(format!("{}: {error}", path.display()));
    let mut file = match File::open(path) {
        Ok(file) => file,
        // Nothing was printed yet.
        Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), at)),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    let at = if length < at { 0 } else { at };
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let next = at + bytes.len() as u64;
    Ok((bytes, next))
}
