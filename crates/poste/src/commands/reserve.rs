use std::io::{self, Write};
use std::time::Duration;

use poste_connect::paths::Top;
use poste_connect::shell;
use poste_core::fold::Code;
use poste_core::office::Office;
use poste_core::store::tables::Concern;
use poste_core::views;
use poste_verbs::Answered;
use poste_verbs::reservation::reserve::{Input, SHOWN_MAX};
use poste_verbs::reservation::{HeldAnswer, conflict_note};

use super::WriteArgs;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui, escape};
use crate::{Result, notes};

/// Reserve paths so that no other agent works on them
///
/// A pattern is a path that can contain *, ?, [a-z], {a,b} and **; quote it, or the shell expands it. Without any of
/// these it is a file, or a folder with everything below it. While another agent has reserved an overlapping pattern,
/// the command fails with the holder, the reason and the time left. Several agents can share paths with --shared.
/// Reserving the same pattern again restarts its time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reserve 'src/auth/**' --for 1h --why 'the new login' --as coder\n  \
                        poste reserve docs README.md --shared\n  poste reserve 'src/**' --ask --wait 10m\n  \
                        poste reserve --literal 'app/[id]/page.tsx'")]
pub(crate) struct Args {
    /// Paths or patterns, relative to the current folder
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// How long to hold them
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    length: Duration,
    /// Allow other agents to share them; none can reserve them exclusively
    #[arg(long)]
    shared: bool,
    /// Reason, shown to agents that want the same paths
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// If another agent is in the way, ask it with a message of type resource_conflict
    #[arg(long)]
    ask: bool,
    /// If another agent is in the way, wait up to this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// Take every character literally: these are paths, not patterns
    #[arg(long)]
    literal: bool,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for HeldAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already reserved under this id)" } else { "" };
        if self.reserved.is_empty() {
            return writeln!(out, "already reserved under this id; none of it is held any more");
        }
        for held in &self.reserved {
            let how = if held.shared { "shared" } else { "reserved" };
            let pattern = escape::line(held.pattern.as_str());
            writeln!(out, "{how} {pattern}, ends {}{again}", ui.time(held.until))?;
        }
        Ok(())
    }
}

/// A duration in milliseconds, as records store it.
pub(crate) fn ms(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.office()?;
    let top = Top::find(cx.cwd()?, &office)?;
    let patterns = top.patterns(&args.patterns, args.literal)?;
    if !args.literal {
        for typed in args.patterns.iter().filter(|typed| top.has(typed)) {
            cx.ui.say(format!("{typed} is both a file name and a pattern; to reserve only the file: --literal"));
        }
    }
    let input = Input {
        patterns,
        for_ms: Some(ms(args.length)),
        shared: args.shared,
        why: args.why,
        ask: args.ask,
        id: args.write.id,
        // A refused attempt must not use up the id while the command waits.
        only_if_free: args.wait.is_some(),
        secrets: args.write.secret.secrets(cx)?,
    };
    cx.ui.now = office.now()?;
    let answered = match args.wait {
        Some(length) => when_free(cx, &mut office, input, length)?,
        None => cx.call_verb(&mut office, input)?,
    };
    cx.ui.now = office.now()?;
    let until = answered.answer.reserved.first().map(|held| held.until);
    cx.show(&mut office, answered)?;
    if let Some(until) = until {
        let again = release_arguments(&args.patterns, args.literal);
        cx.ui.say(format!("held until {until}; free it sooner: poste release {again}"));
    }
    Ok(())
}

/// Retries whenever nothing is in the way any more; another agent may still be faster. Each attempt has its own id;
/// with the caller's id there is only one.
fn when_free(cx: &mut Cx, office: &mut Office, mut input: Input, length: Duration) -> Result<Answered<HeldAnswer>> {
    let is_in_the_way = |error: &CommandError| error.code == Some(Code::Reserved.word());
    match cx.call_verb(office, input.clone()) {
        Err(error) if is_in_the_way(&error) => {}
        tried => return tried,
    }
    // Ask the holders only once.
    input.ask = false;
    let speaker = cx.speaker()?;
    let conflicts =
        |office: &Office| views::reservation_conflicts(office.store(), &speaker, &input.patterns, input.shared);
    let found = cx.wait(office, &Concern::Reservations.into(), Some(length), |office| {
        if !conflicts(office)?.is_empty() {
            return Ok(None);
        }
        match cx.call_verb(office, input.clone()) {
            Err(error) if is_in_the_way(&error) && input.id.is_none() => Ok(None),
            tried => tried.map(Some),
        }
    })?;
    if let Some(answered) = found {
        return Ok(answered);
    }
    cx.ui.now = office.now()?;
    let error = CommandError::new(Kind::TimedOut, "timed out: the paths are still reserved");
    let conflicts = conflicts(office)?;
    let causes = conflicts.iter().take(SHOWN_MAX).map(|conflict| notes::text(&cx.ui, &conflict_note(conflict)));
    Err(causes.fold(error, CommandError::cause))
}

/// The arguments for `release`, which takes a bare number for a message.
fn release_arguments(patterns: &[String], literal: bool) -> String {
    let words = patterns.iter().map(|typed| match crate::cli::number(typed).is_ok() || typed == "all" {
        true => shell::word(&format!("./{typed}")),
        false => shell::word(typed),
    });
    let literal = literal.then(|| "--literal".to_owned());
    // After `--`, a pattern that begins with `-` is not an option.
    let dashes = patterns.iter().any(|typed| typed.starts_with('-')).then(|| "--".to_owned());
    literal.into_iter().chain(dashes).chain(words).collect::<Vec<_>>().join(" ")
}

/// `ends in 42m`.
pub(crate) fn left(ui: &Ui, held: &views::ReservationView) -> String {
    format!("ends {}", ui.time(held.until))
}
