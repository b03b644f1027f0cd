//! Reserves paths.

use std::collections::BTreeSet;

use poste_core::fold::{Code, Outcome, Verdict};
use poste_core::log::{Intent, MessageNo, Reserve};
use poste_core::pattern::Pattern;
use poste_core::text::{Name, RecordId};
use poste_core::views::{self, ReservationConflict};
use poste_core::{Address, limits};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{HeldAnswer, conflict_note, shortened};
use crate::draft::{Heading, Message, one_line, said};
use crate::error::Kind;
use crate::explain::explain;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb, input, send};

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Paths from the top of the worktree; *, ?, [a-z], {a,b} and ** are wildcards
    pub patterns: Vec<Pattern>,
    /// How long to hold them, such as 1h
    #[serde(default, rename = "for", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub for_ms: Option<i64>,
    /// Let other agents share them; only exclusive reservations conflict
    #[serde(default)]
    pub shared: bool,
    /// Reason, shown to agents that want the same
    pub why: Option<String>,
    /// If other agents hold them, ask those with a message
    #[serde(default)]
    pub ask: bool,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    /// Do not propose it while another agent is in the way: an id cannot be reused after a refusal.
    #[serde(skip)]
    pub only_if_free: bool,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "reserve";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("wait", Touch::CommandLine)];
    type Answer = HeldAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<HeldAnswer>> {
        let content = match &self.why {
            Some(why) => Some(self.secrets.text("reason", said("why", why)?)?),
            None => None,
        };
        let for_ms = self.for_ms.unwrap_or(limits::RESERVATION_MS_DEFAULT);
        let reserve = Reserve { patterns: self.patterns, for_ms, shared: self.shared };
        let proposal = desk.proposal(Intent::Reserve(reserve.clone()), content, self.id)?;
        let is_held_back = self.only_if_free && {
            desk.agent()?;
            desk.recorded(&proposal.id)?.is_none() && !conflicts(desk, &reserve)?.is_empty()
        };
        let tried = if is_held_back { None } else { Some(desk.propose(&proposal)?) };
        let Some(outcome) = tried.filter(|outcome| !is_in_the_way(outcome)) else {
            let conflicts = conflicts(desk, &reserve)?;
            let asked = if self.ask { ask(desk, &reserve, self.why.as_deref(), &conflicts)? } else { None };
            return Err(refusal(&conflicts, asked));
        };
        match outcome.verdict.clone() {
            Verdict::Accepted(effect) => Ok(Answered::new(HeldAnswer::of(outcome, effect)?)),
            Verdict::Rejected(rejection) => Err(explain(desk.office, &proposal, rejection.into())?),
        }
    }
}

fn is_in_the_way(outcome: &Outcome) -> bool {
    matches!(&outcome.verdict, Verdict::Rejected(rejection) if rejection.code == Code::Reserved)
}

fn conflicts(desk: &Desk<'_>, reserve: &Reserve) -> Result<Vec<ReservationConflict>> {
    let store = desk.office.store();
    Ok(views::reservation_conflicts(store, &desk.speaker()?, &reserve.patterns, reserve.shared)?)
}

/// Maximum number of conflicts that are listed.
pub const SHOWN_MAX: usize = 10;

/// The error for conflicts: who holds what, why and until when, and what to do about it.
fn refusal(conflicts: &[ReservationConflict], asked: Option<Asked>) -> Error {
    let mut error = match conflicts {
        // Freed between the refusal and the query.
        [] => Error::conflict("the paths were held a moment ago; try again"),
        [one] => Error::worded(Kind::Conflict, conflict_note(one)),
        many => Error::conflict(format!("{} reservations are in the way", many.len())),
    }
    .code(Code::Reserved.word());
    if conflicts.len() > 1 {
        error = conflicts.iter().take(SHOWN_MAX).fold(error, |error, conflict| error.cause(conflict_note(conflict)));
        if let more @ 1.. = conflicts.len().saturating_sub(SHOWN_MAX) {
            error = error.cause(note!("and {more} more: "[reservations]));
        }
    }
    match asked {
        Some(Asked { number, before: false }) => {
            error.hint(note!("asked with #{number}: " [wait replies, number = number]))
        }
        Some(Asked { number, before: true }) => {
            error.hint(note!("asked before, with #{number}: " [track, number = number]))
        }
        None => error.hint(note!("ask for it: " {ask = true})).hint(note!("wait for it: " {wait = "10m"})),
    }
}

/// A message that asks the holders.
#[derive(Debug)]
struct Asked {
    number: MessageNo,
    /// It was sent before, for the same request.
    before: bool,
}

/// Asks the holders once: the same request against the same reservations always has the same id.
fn ask(
    desk: &mut Desk<'_>,
    reserve: &Reserve,
    why: Option<&str>,
    conflicts: &[ReservationConflict],
) -> Result<Option<Asked>> {
    if conflicts.is_empty() {
        return Ok(None);
    }
    let speaker = desk.speaker()?;
    let id = ask_id(&speaker, reserve, conflicts)?;
    if let Some(number) = views::why_id(desk.office.store(), &id)?.number {
        return Ok(Some(Asked { number, before: true }));
    }
    let holders: BTreeSet<&Name> = conflicts.iter().map(|conflict| &conflict.held.holder).collect();
    let wanted: Vec<String> = reserve.patterns.iter().map(|pattern| one_line(pattern.as_str())).collect();
    let message = Message {
        kind: Some("resource_conflict".parse()?),
        body: body(&speaker, &wanted, why, conflicts).into_bytes(),
        id: Some(id),
        // What is quoted here was stored before, or is stored with the reservation.
        secrets: Secrets::unchecked(),
        ..Message::default()
    };
    let heading = Heading {
        to: holders.into_iter().cloned().map(Address::Agent).take(limits::ADDRESSES_MAX).collect(),
        subject: shortened(&format!("{speaker} needs {}", wanted.join(" "))),
        ..Heading::default()
    };
    let sent = send::send(desk, message, heading)?.answer;
    Ok(Some(Asked { number: sent.sent.number, before: false }))
}

fn body(speaker: &Name, wanted: &[String], why: Option<&str>, conflicts: &[ReservationConflict]) -> String {
    let mut text = format!("{speaker} wants to reserve:\n\n");
    text.extend(wanted.iter().map(|pattern| format!("    {pattern}\n")));
    text.extend(why.map(|why| format!("\nReason: {why}\n")));
    text.push_str("\nAlready reserved:\n\n");
    for conflict in conflicts.iter().take(SHOWN_MAX) {
        let held = &conflict.held;
        text.push_str(&format!("    {} by {} until {}\n", one_line(held.pattern.as_str()), held.holder, held.until));
    }
    if conflicts.len() > SHOWN_MAX {
        text.push_str(&format!("    and {} more\n", conflicts.len() - SHOWN_MAX));
    }
    text.push_str("\nFree it with `poste release PATTERN` when you can, and reply with the expected time.\n");
    text
}

fn ask_id(speaker: &Name, reserve: &Reserve, conflicts: &[ReservationConflict]) -> Result<RecordId> {
    let numbers: BTreeSet<u64> = conflicts.iter().map(|conflict| conflict.held.number.0).collect();
    let patterns: BTreeSet<&Pattern> = reserve.patterns.iter().collect();
    let wish = serde_json::json!([speaker, reserve.shared, patterns, numbers]).to_string();
    Ok(format!("ask-{}", &blake3::hash(wish.as_bytes()).to_hex()[..32]).parse()?)
}
