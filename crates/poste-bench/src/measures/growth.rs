//! What an operation costs in an office with a long history. It should cost the same as in a small one.

use std::path::{Path, PathBuf};

use poste_core::fold::{Effect, Verdict};
use poste_core::log::{Claim, Intent, MessageNo};
use poste_core::office::Office;
use poste_core::views::{self, InboxQuery};

use crate::office::{Cache, History, READER, WRITER, done, fill, mail_to_reader, place, proposal, submit};
use crate::report::{Aim, Line, Point, Report, quantity};
use crate::sample::{Action, Sample, in_turns, timed};
use crate::{Bench, Result, succeed};

const GROUP: &str = "With a long history, against 1 000 messages";

/// A command that a person runs. `N` stands for the number of a message in the middle of the history.
struct Whole {
    name: &'static str,
    arguments: &'static [&'static str],
}

/// Run as whole programs. A command that the program does not have yet is left out until it has it.
const COMMANDS: &[Whole] = &[
    Whole { name: "inbox", arguments: &["inbox", "--limit", "20"] },
    Whole { name: "track", arguments: &["track", "N"] },
    Whole { name: "thread", arguments: &["thread", "N"] },
    Whole { name: "claim", arguments: &["claim"] },
];

/// The same work through the library, in an office that stays open, so that the start of a program does not hide the
/// growth.
type Work = fn(&mut Open) -> Result;
const WORK: &[(&str, Work)] = &[("inbox", inbox), ("track", track), ("claim", claim), ("send", send)];

/// An office with a history.
struct Measured {
    path: PathBuf,
    history: History,
    messages: u64,
}

struct Open {
    office: Office,
    middle: MessageNo,
    /// Claimed during a measurement, to be finished outside of it.
    taken: Vec<MessageNo>,
}

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let sizes: &[u64] = if bench.short { &[1_000, 2_000] } else { &[1_000, 10_000, 100_000, 1_000_000] };
    let cache = Cache::new(&bench.cache)?;
    // The baseline for everything. It is created for each run, so that earlier runs have left nothing in it.
    let small = folder.join("small");
    fill(&small, History::Pending, 1_000)?;
    let mut offices = vec![Measured { path: small, history: History::Pending, messages: 1_000 }];
    for history in History::ALL {
        for messages in sizes {
            if *messages > 1_000 {
                offices.push(Measured { path: cache.office(history, *messages)?, history, messages: *messages });
            }
        }
    }
    whole_programs(bench, &offices, report)?;
    through_the_library(bench, &offices, report)
}

fn whole_programs(bench: &Bench, offices: &[Measured], report: &mut Report) -> Result {
    for command in COMMANDS {
        if succeed(&mut bench.poste(&offices[0].path, READER, &[command.name, "--help"])).is_err() {
            report.leave_out(format!("{}: the program has no such command yet", command.name));
            continue;
        }
        let largest = offices.iter().map(|office| office.messages).max().unwrap_or(0);
        let compared: Vec<&Measured> =
            offices.iter().filter(|office| office.messages == largest || office.messages == 1_000).collect();
        let mut actions: Vec<Action<'_>> = Vec::new();
        for office in &compared {
            let middle = (office.messages / 2).to_string();
            let arguments: Vec<String> = command
                .arguments
                .iter()
                .map(|word| if *word == "N" { middle.clone() } else { (*word).to_owned() })
                .collect();
            actions.push(Box::new(move || {
                let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                timed(|| succeed(&mut bench.poste(&office.path, READER, &words)))
            }));
        }
        let samples = in_turns(bench.rounds(100), &mut actions)?;
        drop(actions);
        compare(report, "whole program", command.name, &compared, &samples, Some(Aim::AtMost(1.2)));
        if command.name == "claim" {
            for office in &compared {
                replace_claimed(&mut place(&office.path).open()?, bench.rounds(100) as u64 + 20)?;
            }
        }
    }
    Ok(())
}

fn through_the_library(bench: &Bench, offices: &[Measured], report: &mut Report) -> Result {
    for (name, work) in WORK {
        let mut open = offices.iter().map(Open::new).collect::<Result<Vec<_>>>()?;
        let mut actions: Vec<Action<'_>> =
            open.iter_mut().map(|office| Box::new(move || timed(|| work(office))) as Action<'_>).collect();
        let samples = in_turns(bench.rounds(200), &mut actions)?;
        drop(actions);
        let all: Vec<&Measured> = offices.iter().collect();
        for (office, sample) in all.iter().zip(&samples) {
            // The small office is the first point of every line.
            let histories = if office.messages == 1_000 { &History::ALL[..] } else { &[office.history][..] };
            report.points.extend(histories.iter().map(|history| Point {
                history: history.name(),
                operation: name,
                messages: office.messages,
                median_us: sample.median_us(),
            }));
        }
        compare(report, "library, office open", name, &all, &samples, None);
        for office in &mut open {
            office.settle()?;
        }
    }
    report.points.sort_by(|a, b| (a.history, a.messages).cmp(&(b.history, b.messages)));
    Ok(())
}

/// Compares the offices of the largest size with the first, small one.
fn compare(report: &mut Report, how: &str, name: &str, offices: &[&Measured], samples: &[Sample], aim: Option<Aim>) {
    let largest = offices.iter().map(|office| office.messages).max().unwrap_or(0);
    let small_us = samples[0].median_us();
    for (office, sample) in offices.iter().zip(samples).filter(|(office, _)| office.messages == largest) {
        let what = format!("{name} ({how}), {largest} {}", office.history.title());
        let mut line = Line::new(GROUP, what, sample.median_us() / small_us, "×").detail(format!(
            "{} against {}",
            quantity(sample.median_us(), "µs"),
            quantity(small_us, "µs")
        ));
        if let Some(aim) = aim {
            line = line.aim(aim);
        }
        report.add(line);
    }
}

impl Open {
    fn new(measured: &Measured) -> Result<Self> {
        Ok(Self { office: place(&measured.path).open()?, middle: MessageNo(measured.messages / 2), taken: Vec::new() })
    }

    /// Finishes what was claimed and replaces it, so that the next run finds what this one found.
    fn settle(&mut self) -> Result {
        let taken = std::mem::take(&mut self.taken);
        for message in &taken {
            submit(&mut self.office, &[done(READER, *message)])?;
        }
        let fresh: Vec<_> = (0..taken.len() as u64).map(mail_to_reader).collect();
        if !fresh.is_empty() {
            submit(&mut self.office, &fresh)?;
        }
        Ok(())
    }
}

/// Finishes and replaces what whole programs claimed.
fn replace_claimed(office: &mut Office, at_most: u64) -> Result {
    let held = office.store().tables()?.held_by(&READER.parse()?)?;
    let finished: Vec<_> = held.iter().take(at_most as usize).map(|held| done(READER, held.message)).collect();
    if finished.is_empty() {
        return Ok(());
    }
    submit(office, &finished)?;
    let fresh: Vec<_> = (0..finished.len() as u64).map(mail_to_reader).collect();
    submit(office, &fresh).map(|_| ())
}

fn inbox(open: &mut Open) -> Result {
    let agent = open.office.agent(&READER.parse()?)?.ok_or("the reader is registered")?;
    let query = InboxQuery { limit: 20, ..InboxQuery::default() };
    let page = views::inbox(open.office.store(), &agent, &query, open.office.now()?)?;
    if page.messages.len() == 20 { Ok(()) } else { Err("the page is not full".into()) }
}

fn track(open: &mut Open) -> Result {
    views::track(open.office.store(), open.middle, open.office.now()?)?.ok_or("the message is there")?;
    Ok(())
}

fn claim(open: &mut Open) -> Result {
    let intent = Intent::Claim(Claim { message: None, max: 1, lease_ms: None, types: Vec::new() });
    let outcome = submit(&mut open.office, &[proposal(READER, intent, None)])?.pop();
    match outcome.map(|outcome| outcome.verdict) {
        Some(Verdict::Accepted(Effect::Claimed(claimed))) => {
            open.taken.extend(claimed.items.iter().map(|item| item.number));
            Ok(())
        }
        other => Err(format!("a claim was answered with {other:?}").into()),
    }
}

fn send(open: &mut Open) -> Result {
    submit(&mut open.office, &[crate::office::mail(crate::office::to(WRITER), 1)]).map(|_| ())
}
