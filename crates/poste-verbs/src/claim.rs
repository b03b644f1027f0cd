//! Claims messages and runs their gates.

use poste_core::fold::{Claimed, Code, Effect};
use poste_core::gates::{Gates, Report};
use poste_core::log::{Claim, Intent, MessageNo, Position, Release};
use poste_core::text::{RecordId, TypeName};
use poste_core::views::{self, MessageView};
use poste_core::{Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Kind;
use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Error, Mark, Note, Result, Touch, Verb, gates, input};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// The message's number; default: the best pending one
    pub number: Option<MessageNo>,
    /// Maximum number of messages
    pub max: u32,
    /// Only messages of these types
    #[serde(rename = "type")]
    pub types: Vec<TypeName>,
    /// Length of the lease, such as 30m
    #[serde(rename = "lease", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub lease_ms: Option<i64>,
    /// Idempotency key: repeating the call with it returns the same claim
    pub id: Option<RecordId>,
    /// For surfaces that poll: propose nothing unless there is mail to claim, and return a claim of which no message
    /// passed its gates as an answer, not an error.
    #[serde(skip)]
    pub waits: bool,
}

impl Default for Input {
    fn default() -> Self {
        Self { number: None, max: 1, types: Vec::new(), lease_ms: None, id: None, waits: false }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Pass it to done, fail, release and extend.
    pub token: Position,
    /// The messages that were claimed.
    pub claims: Vec<ClaimView>,
    /// Messages that failed their gates and went back to their senders, with the gates' findings.
    pub returned: Vec<Report>,
    /// Messages that were released again, because their gates run commands of a poste.toml that is not trusted here.
    pub released: Vec<MessageNo>,
}

impl Answer {
    /// Messages were claimed, and none passed its gates.
    pub fn nothing_passed(&self) -> bool {
        self.claims.is_empty() && !(self.returned.is_empty() && self.released.is_empty())
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClaimView {
    /// When the lease ends unless it is extended, RFC 3339.
    #[serde(serialize_with = "poste_core::time::rfc3339")]
    pub lease_until: Timestamp,
    /// The whole message.
    pub message: MessageView,
}

impl Verb for Input {
    const NAME: &'static str = "claim";
    const ACCESS: Access = Access::Writes;
    const RUNS_COMMANDS: bool = true;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("wait", Touch::CommandLine), ("waits", Touch::CommandLine)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if !(1..=limits::CLAIM_MAX).contains(&self.max) {
            return Err(Error::usage(format!("claim 1 to {} messages at once", limits::CLAIM_MAX)));
        }
        for kind in &self.types {
            check_filters(desk.office, Some(kind), None)?;
        }
        let is_known = desk.is_known(self.id.as_ref())?;
        if self.waits && !is_known {
            let agent = desk.active_agent()?;
            if !views::has_claimable(desk.office.store(), &agent, &self.types)? {
                return Err(Error::not_found("nothing to claim").code(Code::NothingToClaim.word()));
            }
        }
        // Read before the claim: an unreadable file must not leave messages claimed.
        let gates = poste_config::gates(desk.office)?;
        if !is_known {
            check_trust(desk, &gates, self.number, &self.types)?;
        }
        let claim = Claim { message: self.number, max: self.max, lease_ms: self.lease_ms, types: self.types };
        let proposal = desk.proposal(Intent::Claim(claim), None, self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let Effect::Claimed(claimed) = effect else { return Err(Error::unexpected_effect("the claim")) };
        let (token, numbers) = (claimed.token, claimed.items.iter().map(|item| item.number).collect::<Vec<_>>());
        let gated = match gates::of_claim(desk, &gates, &outcome.id, claimed, self.lease_ms) {
            _ if desk.is_cancelled() => return Err(given_back(desk, &outcome.id, token, &numbers)),
            gated => gated.map_err(|error| ungated(token, error))?,
        };
        for report in &gated.returned {
            desk.warn(format!("#{} went back to its sender: {}", report.number, report.summary()));
        }
        let answer = view(desk, gated).map_err(|error| stands(token, &error))?;
        if answer.nothing_passed() && !self.waits {
            return Err(nothing_left(desk, &answer)?);
        }
        answered(desk, answer)
    }
}

fn answered(desk: &mut Desk<'_>, answer: Answer) -> Result<Answered<Answer>> {
    for number in &answer.released {
        let file = poste_config::FILE;
        desk.warn(note!("#{number} is released again: {file} is not trusted here (" [trust] ")"));
    }
    let numbers: Vec<MessageNo> = answer.claims.iter().map(|claim| claim.message.number).collect();
    let next = answer.claims.first().map(|claim| next_step(desk, &claim.message, answer.token)).transpose()?;
    let mut answered = Answered::new(answer).mark(Mark::Shown(numbers));
    answered.next.extend(next);
    Ok(answered)
}

/// The command that ends this claim.
fn next_step(desk: &Desk<'_>, message: &MessageView, token: Position) -> Result<Note> {
    let number = message.number;
    Ok(match views::ends_by(desk.office.store(), message)? {
        views::EndsBy::Accepting => note!("accept it: " [handoff accept, number = number, token = token]),
        views::EndsBy::Deciding => {
            note!("decide it: " [approve, number = number] ", or " [deny, number = number, reason = "TEXT"])
        }
        views::EndsBy::Agreeing => {
            note!("if you agree: " [agree, number = number] "; otherwise say why: " [reply, number = number, body = "TEXT"])
        }
        views::EndsBy::Finishing => note!("finish it: " [done, number = number, token = token, summary = "TEXT"]),
    })
}

/// Refuses the claim if a gate that may not run here is known to apply.
fn check_trust(desk: &Desk<'_>, gates: &Gates, number: Option<MessageNo>, types: &[TypeName]) -> Result {
    let (what, blocked) = match number {
        Some(number) => {
            let message = views::message(desk.office.store(), number)?;
            let own = message.map(|message| gates.untrusted(&gates.of_message(&message))).unwrap_or_default();
            (format!("message {number} was not claimed"), own)
        }
        None => ("nothing was claimed".to_owned(), gates.untrusted(&gates.of_all(types))),
    };
    if blocked.is_empty() { Ok(()) } else { Err(gates::untrusted(desk.office, &what, &blocked)) }
}

/// The error for a claim of which no message passed its gates.
pub fn nothing_left(desk: &Desk<'_>, answer: &Answer) -> Result<Error> {
    let error = match answer.released.first() {
        Some(number) => {
            let gates = poste_config::gates(desk.office)?;
            let message = views::message(desk.office.store(), *number)?;
            let blocked = message.map(|message| gates.untrusted(&gates.of_message(&message))).unwrap_or_default();
            gates::untrusted(desk.office, &format!("message {number} was claimed and released again"), &blocked)
        }
        None => {
            let numbers: Vec<String> = answer.returned.iter().map(|report| report.number.to_string()).collect();
            let message = match numbers.as_slice() {
                [number] => format!("message {number} did not pass its gates and went back to its sender"),
                numbers => {
                    format!("messages {} did not pass their gates and went back to their senders", numbers.join(", "))
                }
            };
            let error = Error::refused(message).code("gate_failed");
            match answer.returned.first() {
                Some(first) => error.hint(note!("see what they found: " [track, number = first.number])),
                None => error,
            }
        }
    };
    Ok(error.partial(answer))
}

/// Releases a cancelled claim: its caller is no longer waiting and would not work on the messages.
fn given_back(desk: &mut Desk<'_>, claim: &RecordId, token: Position, numbers: &[MessageNo]) -> Error {
    for number in numbers {
        let release = Intent::Release(Release { message: *number, token: Some(token) });
        let id = gates::release_id(claim, *number);
        // Refused for a message that went back to its sender: that one is not held.
        let released = desk.proposal(release, None, Some(id)).and_then(|proposal| Ok(desk.propose(&proposal)?));
        if let Err(error) = released {
            return ungated(token, error);
        }
    }
    gates::cancelled()
}

/// The claim is committed, but its gates could not be completed.
fn ungated(token: Position, error: Error) -> Error {
    error.hint(note!(
        "messages claimed with token {token} stay so until their lease ends; release one: " [release, number = "N"]
    ))
}

/// The claim is committed: a later failure must not read as if it were not.
fn stands(token: Position, error: &Error) -> Error {
    let message = format!("claimed with token {token}, but the messages cannot be shown: {}", error.message);
    Error::new(Kind::UnknownOutcome, message).hint(note!("the claim stands; see it: " [log show, position = token]))
}

fn view(desk: &Desk<'_>, gated: gates::Gated) -> Result<Answer> {
    let Claimed { token, items } = gated.claimed;
    let mut claims = Vec::new();
    for item in items {
        let message = views::message(desk.office.store(), item.number)?
            .ok_or_else(|| Error::internal("a claimed message is missing"))?;
        claims.push(ClaimView { lease_until: item.lease_until, message });
    }
    Ok(Answer { token, claims, returned: gated.returned, released: gated.released })
}
