//! Accepts a handoff once all of its checks have passed.

use std::path::Path;

use poste_core::Foreign;
use poste_core::handoff::{HandoffAnswer, Package};
use poste_core::log::{Intent, MessageNo, Position};
use poste_core::store::artifact::{FileProblem, damaged_copies};
use poste_core::store::tables::HandoffState;
use poste_core::text::{RecordId, count};
use poste_core::views::{self, HandoffView};
use schemars::JsonSchema;
use serde::Deserialize;

use super::verify::take_anyway;
use super::{Decided, answer_mail, find, verify};
use crate::draft::{prefixed, said};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The handoff's number
    pub number: MessageNo,
    /// Numbers of the checks that were made, or all
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Refuse if a file changed since, even if the copies are intact
    #[serde(default)]
    pub strict: bool,
    /// Notes for the sender
    pub notes: Option<String>,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    /// Run the handoff's commands in the worktree. Another agent wrote them, so only the command line can set this.
    #[serde(skip)]
    pub verify: bool,
    /// The reason to accept it although a check, a command or a gate is missing or failed.
    #[serde(skip)]
    pub overridden: Option<String>,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// The number of a check that was made, or all
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Check {
    One(u32),
    All(All),
}

/// A number may be a JSON string, as it is on a command line.
impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        match text.parse() {
            Ok(number) => Ok(Self::One(number)),
            Err(_) if text == "all" => Ok(Self::All(All::All)),
            Err(_) => Err(D::Error::custom("a check must be a number or all")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum All {
    All,
}

impl Verb for Input {
    const NAME: &'static str = "handoff accept";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("verify", Touch::RunsCommand), ("override", Touch::LiftsCheck), ("overridden", Touch::LiftsCheck)];
    const RUNS_COMMANDS: bool = true;
    type Answer = Decided;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Decided>> {
        if let Some(before) = before(desk, &self)? {
            return Ok(Answered::new(before));
        }
        let number = self.number;
        let view = find(desk.office, number)?;
        may_answer(desk, &view)?;
        let package = whole_package(&view)?;
        check_copies(desk, &view)?;
        let changed = changed_files(desk, &view, self.strict)?;
        let overridden = self.overridden.as_deref().map(|reason| said("override", reason)).transpose()?;
        let checked = marks(&self.checks, &package)?;
        check_marks(&view, &package, &checked, overridden)?;
        let verified = verify::commands(desk, &view, &package, self.verify, overridden)?;
        let gates = verify::own_gates(desk, number, overridden)?;
        let answer = HandoffAnswer {
            handoff: number,
            notes: self.notes,
            checked,
            verified,
            gates,
            changed,
            overridden: overridden.map(ToOwned::to_owned),
        };
        let mail = answer_mail(number, self.token, "handoff_accepted")?;
        let (header, content) = answer.accept(mail, &package, prefixed("Accepted: ", &view.subject));
        self.secrets.check_as(&content, "answer")?;
        let proposal = desk.proposal(Intent::HandoffAccept(header), Some(content), self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let answered = Answered::new(Decided::new(number, HandoffState::Accepted, &outcome, &effect));
        Ok(match view.artifacts.is_empty() {
            true => answered,
            false => answered.next(note!("get the files: " [handoff export, number = number, folder = "DIR"])),
        })
    }
}

/// The decision made with this id, if any, so that nothing runs twice.
fn before(desk: &Desk<'_>, input: &Input) -> Result<Option<Decided>> {
    let Some(id) = &input.id else { return Ok(None) };
    let number = input.number;
    let Some((position, Intent::HandoffAccept(accept))) = desk.recorded(id)? else { return Ok(None) };
    let is_same = accept.mail.reply_to == Some(number);
    let stored = find(desk.office, number)?.decision.filter(|_| is_same).and_then(|decision| decision.answer);
    // Erased text cannot be compared.
    if let Some(stored) = stored
        && (stored.notes != input.notes || stored.overridden != input.overridden)
    {
        return Err(Error::conflict(format!("handoff {number} was accepted with the id {id} and other notes"))
            .code("id_conflict")
            .hint(note!("an id is for one write only; see the stored answer: " [handoff show, number = number])));
    }
    Ok(match is_same {
        false => None,
        true => Some(Decided {
            number,
            state: HandoffState::Accepted,
            message: views::message_of_id(desk.office.store(), id)?,
            position: Some(position),
            repeat: true,
        }),
    })
}

/// Refuses agents that cannot answer before any command runs. The fold checks this again.
fn may_answer(desk: &Desk<'_>, view: &HandoffView) -> Result {
    let number = view.number;
    if view.state != HandoffState::Pending {
        let by = view.decision.as_ref().map(|decision| format!(" by {}", decision.by)).unwrap_or_default();
        let error = Error::conflict(format!("handoff {number} is already {}{by}", view.state));
        return Err(error.code("ended").hint(note!("see the outcome: " [handoff show, number = number])));
    }
    let agent = desk.active_agent()?;
    if view.from == agent.name.as_str() {
        let error = Error::refused("you cannot accept your own handoff").code("not_allowed");
        return Err(error.hint(note!("take it back: " [handoff withdraw, number = number])));
    }
    if !views::is_addressed_to(desk.office.store(), &agent, number)? {
        let error = Error::refused(format!("message {number} is not addressed to {}", agent.name));
        return Err(error.code("not_recipient").hint(note!("see its recipients: " [handoff show, number = number])));
    }
    Ok(())
}

fn whole_package(view: &HandoffView) -> Result<Package> {
    let number = view.number;
    let why = match &view.package {
        None => view.missing_words(),
        Some(package)
            if package.checks.len() != view.checks as usize || package.verify.len() != view.verifies as usize =>
        {
            "its content and its record do not name the same checks and commands".to_owned()
        }
        Some(package) => return Ok(package.clone()),
    };
    let error = Error::refused(format!("handoff {number} cannot be accepted: {why}"));
    Err(error.hint(note!("tell its sender: " [handoff reject, number = number, reason = "TEXT"])))
}

fn check_copies(desk: &mut Desk<'_>, view: &HandoffView) -> Result {
    let number = view.number;
    let (office, mut watched) = desk.watched_office();
    let Some(blobs) = office.store().blobs() else { return Ok(()) };
    let problems = damaged_copies(blobs, &view.artifacts, &mut watched)?;
    if problems.is_empty() {
        return Ok(());
    }
    let error = Error::refused(format!("handoff {number} is damaged: {}", count(problems.len(), "file")));
    Err(named(error.code("damaged"), &problems)
        .hint(note!("the files that were handed over cannot be verified any more; check the office: " [log verify]))
        .hint(note!("ask for a new one: " [handoff reject, number = number, reason = "TEXT"])))
}

fn named(error: Error, problems: &[FileProblem]) -> Error {
    problems.iter().fold(error, |error, problem| error.cause(problem.to_string()))
}

/// The original files that changed since. The copies are what is handed over, but the recipient should know.
fn changed_files(desk: &mut Desk<'_>, view: &HandoffView, strict: bool) -> Result<Vec<FileProblem>> {
    let Some(root) = view.worktree.as_deref().filter(|_| !view.artifacts.is_empty()) else { return Ok(Vec::new()) };
    let Some(tree) = desk.caller.files.folder(Path::new(root)) else {
        desk.say(format!(
            "only the copies were checked: the folder of {} is not available here ({}); \
             to compare its files, accept in a worktree of that repository",
            view.from,
            Foreign::name(root)
        ));
        return Ok(Vec::new());
    };
    let changed = tree.changes(&view.artifacts);
    if strict && !changed.is_empty() {
        let files = count(changed.len(), "file");
        let error = Error::refused(format!("{files} of handoff {} changed since it was made", view.number));
        return Err(named(error.code("changed"), &changed));
    }
    for problem in &changed {
        desk.warn(format!("{problem}; the copy in the package is unchanged"));
    }
    Ok(changed)
}

fn marks(checks: &[Check], package: &Package) -> Result<Vec<u32>> {
    let all = u32::try_from(package.checks.len()).unwrap_or(u32::MAX);
    let mut checked: Vec<u32> = Vec::new();
    for check in checks {
        match check {
            Check::All(All::All) => checked.extend(1..=all),
            Check::One(number) if (1..=all).contains(number) => checked.push(*number),
            Check::One(number) => {
                return Err(Error::usage(format!("there is no check {number}; the handoff has {all}")));
            }
        }
    }
    checked.sort_unstable();
    checked.dedup();
    Ok(checked)
}

fn check_marks(view: &HandoffView, package: &Package, checked: &[u32], overridden: Option<&str>) -> Result {
    let open = (1..).zip(&package.checks).filter(|(number, _)| !checked.contains(number));
    let open: Vec<String> =
        open.map(|(number, check)| format!("check {number}: {}", Foreign::words(check.trim_end()))).collect();
    if open.is_empty() || overridden.is_some() {
        return Ok(());
    }
    let error = Error::refused(format!("{} of handoff {} not made", count(open.len(), "check"), view.number));
    let error = open.into_iter().fold(error.code("unverified"), Error::cause);
    Err(error.hint(note!("make them, then name them: " {checks = "1,2"} " or " {checks = "all"})).hint(take_anyway()))
}
