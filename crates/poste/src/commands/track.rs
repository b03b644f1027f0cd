use std::io::{self, Write};

use poste_core::log::{HoldReason, MessageNo, WakeWay};
use poste_core::store::tables::{EndReason, Event, State};
use poste_core::views::{DeliveryView, HoldView, Origin, Track, WakeView};
use poste_verbs::model::sender;
use poste_verbs::track;
use schemars::JsonSchema;
use serde::Serialize;

use super::{dispatch_runs, read};
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape, fence};

/// Show the state of a message for each recipient
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste track 12\n  poste track 12 --history")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Show every step of every delivery
    #[arg(long)]
    history: bool,
}

impl Args {
    pub(super) fn with_history(number: MessageNo) -> Self {
        Self { number, history: true }
    }
}

/// The state of a message. JSON always has the history; people see it with --history.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Ladder {
    answer: track::Answer,
    #[serde(skip)]
    history: bool,
}

impl Ladder {
    /// The state at some time in the past.
    pub(super) fn past(track: Track) -> Self {
        Self { answer: track::Answer { track, holds: Vec::new(), failed_run: None }, history: true }
    }
}

impl Answer for Ladder {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_track(ui, &self.answer, self.history, out)
    }
}

impl Answer for track::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_track(ui, self, false, out)
    }
}

fn print_track(ui: &Ui, answer: &track::Answer, history: bool, out: &mut dyn Write) -> io::Result<()> {
    let track::Answer { track, holds, failed_run } = answer;
    let title = format!("#{}  {}", track.number, escape::line(&track.subject));
    writeln!(out, "{}", ui.paint(Paint::Strong, &title))?;
    let (origin, stored) = (origin_text(track.origin.as_ref()), ui.time(track.stored_at));
    writeln!(
        out,
        "{}, {}, from {}{origin}, stored {stored}",
        track.kind,
        track.priority,
        sender::named(&track.from, track.trust)
    )?;
    if track.wants_response {
        writeln!(out, "answer {}", read::answer_text(ui, track.respond_by))?;
    }
    if let Some(file) = &track.archive {
        writeln!(out, "archived in archive/{file}")?;
    }
    if track.deliveries.is_empty() {
        writeln!(out, "delivered to 0")?;
    }
    for delivery in &track.deliveries {
        print_delivery(ui, delivery, track, out)?;
        for hold in holds.iter().filter(|hold| delivery.recipient == hold.agent.as_str()) {
            writeln!(out, "  {}", ui.paint(Paint::Bad, &held_text(ui, hold)))?;
        }
        if let Some(run) = failed_run.as_ref().filter(|run| delivery.recipient == run.agent.as_str()) {
            let said = dispatch_runs::why_failed(run).map(|why| format!(": {}", escape::line(&why)));
            let said = said.unwrap_or_default();
            let how = dispatch_runs::outcome(ui, run);
            writeln!(out, "  last run {how}{said}; its output: poste dispatch logs {}", track.number)?;
        }
        if history {
            print_history(ui, delivery, out)?;
        }
    }
    Ok(())
}

/// Why the agent is not started, and what to do about it.
pub(super) fn held_text(ui: &Ui, hold: &HoldView) -> String {
    let until = hold.until.map(|until| format!(", ends {}", ui.time(until))).unwrap_or_default();
    let what = hold.message.map(|number| format!(" {number}")).unwrap_or_default();
    let what_to_do = match hold.why {
        HoldReason::Misconfigured => "review poste.toml, then: poste trust".to_owned(),
        _ => format!("lift the hold: poste dispatch resume {}{what}", hold.agent),
    };
    format!(
        "{} is not started{}: held ({}{until}); {what_to_do}",
        hold.agent,
        if what.is_empty() { "" } else { " for it" },
        hold.why
    )
}

fn print_history(ui: &Ui, delivery: &DeliveryView, out: &mut dyn Write) -> io::Result<()> {
    for step in &delivery.history {
        let text = step.text.as_ref().map(|text| format!(": {}", escape::line(text))).unwrap_or_default();
        let (at, by, origin) = (ui.time(step.at), &step.by, origin_text(step.origin.as_ref()));
        writeln!(out, "  {:>6}  {at}  {} by {by}{origin}{text}", step.position, step.event)?;
    }
    Ok(())
}

fn origin_text(origin: Option<&Origin>) -> String {
    origin.map(Origin::text).unwrap_or_default()
}

fn print_delivery(ui: &Ui, delivery: &DeliveryView, track: &Track, out: &mut dyn Write) -> io::Result<()> {
    let paint = match delivery.state {
        State::Done => Paint::Good,
        State::Pending | State::Claimed => Paint::Attention,
        State::Failed | State::Dead | State::Expired | State::Returned => Paint::Bad,
    };
    let state = ui.paint(paint, delivery.state.word());
    let unconfirmed = if delivery.unconfirmed { ", unconfirmed: something is due" } else { "" };
    writeln!(out, "\n{}: {state} {}{unconfirmed}", delivery.recipient, detail(ui, delivery))?;
    writeln!(out, "  {}", ladder(ui, delivery, track))?;
    if let Some(wake) = delivery.wakes.last() {
        writeln!(out, "  {}", wake_text(ui, delivery, wake))?;
    }
    if let Some(unseen) = &delivery.unseen {
        let text = format!("not seen {}: {}", ui.since(unseen.since), escape::line(&unseen.why));
        writeln!(out, "  {}", ui.paint(Paint::Bad, &text))?;
    }
    if let Some(at) = delivery.reminded_at {
        writeln!(out, "  no answer in time: reminder sent {}", ui.time(at))?;
    }
    if let Some(at) = delivery.dropped_at {
        writeln!(out, "  dropped {}: nothing more will be done", ui.time(at))?;
    }
    if let Some(result) = &delivery.result {
        if result.content_gone {
            writeln!(out, "  | (the content is no longer here)")?;
        }
        for text in [result.summary.as_deref(), Some(result.text.as_str())].into_iter().flatten() {
            print_quoted(text, out)?;
        }
        for file in &result.files {
            writeln!(out, "  file {}", fence::artifact_line(file, result.content_gone))?;
        }
        if let Some(recommend) = &result.recommend {
            writeln!(out, "  next: {}", escape::line(recommend))?;
        }
    }
    for late in &delivery.late {
        let text = late.summary.as_deref().unwrap_or(&late.text);
        writeln!(out, "  late result by {}: {}", late.by, escape::line(text))?;
    }
    Ok(())
}

/// The latest attempt to wake an agent for the message, and its outcome.
fn wake_text(ui: &Ui, delivery: &DeliveryView, wake: &WakeView) -> String {
    // The recipient may be a group; otherwise its name says it already.
    let who = if delivery.recipient == wake.agent.as_str() { String::new() } else { format!(" of {}", wake.agent) };
    let reason = wake.reason.as_ref().map(|reason| format!(": {}", escape::line(reason))).unwrap_or_default();
    let times = match delivery.wakes.len() {
        1 => String::new(),
        count => format!(" ({count} attempts)"),
    };
    let seen = match delivery.shown_at.filter(|shown| *shown >= wake.at) {
        Some(at) => format!("; shown {}", ui.time(at)),
        None => String::new(),
    };
    let outcome = wake.outcome.word();
    let how = if wake.how == WakeWay::Nothing { String::new() } else { format!(" via {}", wake.how) };
    format!("wake{who} {outcome} {} by {}{how}{times}{reason}{seen}", ui.time(wake.at), wake.by)
}

/// The beginning of a text; all of it is in the JSON.
fn print_quoted(text: &str, out: &mut dyn Write) -> io::Result<()> {
    const LINES_MAX: usize = 20;
    const CHARS_MAX: usize = 400;
    for line in text.lines().take(LINES_MAX) {
        let cut: String = line.chars().take(CHARS_MAX).collect();
        let more = if cut.len() < line.len() { "…" } else { "" };
        writeln!(out, "  | {}{more}", escape::line(&cut))?;
    }
    if text.lines().nth(LINES_MAX).is_some() {
        writeln!(out, "  | … (all of it: --json)")?;
    }
    Ok(())
}

/// The details of a state: who, until when, why.
fn detail(ui: &Ui, delivery: &DeliveryView) -> String {
    let since = ui.time(delivery.since);
    let holder = delivery.holder.as_deref().unwrap_or("nobody");
    let attempts = match delivery.attempts {
        0 => String::new(),
        failed => format!(", {failed} of {} attempts failed", delivery.max_attempts),
    };
    match delivery.state {
        State::Pending => match delivery.ready_at.filter(|_| !delivery.ready) {
            Some(at) => format!("and cannot be claimed before {} ({}){attempts}", at, ui.time(at)),
            None => format!("{}{attempts}", ui.since(delivery.since)),
        },
        State::Claimed => {
            let until = delivery.lease_until.map(|until| ui.time(until)).unwrap_or_default();
            let token = delivery.token.map(|token| format!(", token {token}")).unwrap_or_default();
            format!("by {holder} {since}{token}, lease ends {until}{attempts}")
        }
        State::Done => {
            // The recipient may be a group; otherwise its name says it already.
            let who = delivery.holder.as_ref().filter(|holder| **holder != delivery.recipient);
            let who = who.map(|holder| format!("by {holder} ")).unwrap_or_default();
            let how = match delivery.reason {
                None | Some(EndReason::Done) => String::new(),
                Some(EndReason::Defaulted) => " (not answered in time: the default was applied)".to_owned(),
                Some(EndReason::Settled) => " (settled: it needs no more work)".to_owned(),
                Some(how) => format!(" ({how})"),
            };
            // The holder did not end it.
            let is_automatic = matches!(delivery.reason, Some(EndReason::Defaulted | EndReason::Settled));
            let who = if is_automatic { String::new() } else { who };
            format!("{who}{since}{how}")
        }
        State::Expired if delivery.reason == Some(EndReason::Unanswered) => format!("{since}: not answered in time"),
        State::Failed | State::Expired => since,
        State::Dead => format!("{since}{attempts}"),
        State::Returned => {
            let why = delivery.reason.map(|reason| reason.to_string().replace('_', " ")).unwrap_or_default();
            format!("{since}: {why}")
        }
    }
}

/// stored → shown → claimed → …, with times; steps that were not reached are left out.
fn ladder(ui: &Ui, delivery: &DeliveryView, track: &Track) -> String {
    // In the order of the log: the first showing, the newest claim, the end.
    let first = |event: Event| delivery.history.iter().position(|step| step.event == event);
    let newest = |event: Event| delivery.history.iter().rposition(|step| step.event == event);
    let mut reached = vec![
        (first(Event::Shown), "shown", delivery.shown_at),
        (newest(Event::Claimed), "claimed", delivery.claimed_at),
        (first(Event::Acked), "acked", delivery.acked_at),
        (first(Event::Answered), "answered", delivery.answered_at),
        (Some(delivery.history.len()), delivery.state.word(), delivery.ended_at),
    ];
    reached.sort_by_key(|(place, ..)| *place);
    let mut rungs = vec![format!("stored {}", ui.time(track.stored_at))];
    rungs.extend(reached.into_iter().filter_map(|(_, name, at)| Some(format!("{name} {}", ui.time(at?)))));
    if delivery.shown_at.is_none() && delivery.state.is_open() {
        rungs.push("not shown yet".to_owned());
    }
    rungs.join(" → ")
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let (mut office, answered) = cx.call_verb_here(track::Input { number: args.number })?;
    cx.show(&mut office, answered.map(|answer| Ladder { answer, history: args.history }))
}
