//! Advances workflows by writing their next records. It keeps no state in memory or in a file: it may be killed at any
//! point, or run twice.

use std::collections::BTreeMap;

use poste_config::{AgentConfig, Problem};
use poste_core::fold::{Code, Effect, Rejection, Verdict};
use poste_core::log::{
    Author, Body, Content, Intent, Proposal, Sealed, Send, StepAsk, StepMark, StepSpec, Via, WorkflowEnd,
    WorkflowEnding, WorkflowMark, WorkflowStart, WorkflowStep,
};
use poste_core::office::Office;
use poste_core::text::{Label, Name, RecordId, TypeName, Word};
use poste_core::time::When;
use poste_core::views::{self, Began, WorkflowView};
use poste_core::vocabulary::Priority;
use poste_core::{Address, Digest, Error, Foreign, MessageNo};
use serde_json::value::RawValue;

use super::check::{Known, lint};
use super::definition::{Definition, OnFail, Step, Target};
use super::files::Source;
use super::plan::{Act, FAIL, Inputs, Pending, RETRY, SKIP, Task, plan};
use super::source::Format;
use crate::approval::check_default;
use crate::register;

/// The outcome of an advance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advanced {
    /// Number of records that were accepted.
    pub records: usize,
    /// Number of workflows that are still open.
    pub open: usize,
    /// Messages that were sent for steps, for the caller to ring.
    pub sent: Vec<MessageNo>,
    /// What could not be advanced, and why.
    pub waiting: Vec<String>,
}

/// A workflow that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub workflow: Label,
    /// It was already started under this id.
    pub repeat: bool,
}

/// The agents registered in an office.
#[derive(Debug)]
pub struct Registered<'o>(pub &'o Office);

impl Known for Registered<'_> {
    fn missing(&self, address: &Address) -> Option<String> {
        let is_empty = || views::members(self.0.store(), address).is_ok_and(|members| members.is_empty());
        // Starting the workflow registers them, as a dispatcher would.
        let is_registered = |name: &Name| self.0.agent(name).is_ok_and(|found| found.is_some());
        let runners = poste_config::runners(self.0).unwrap_or_default();
        if runners.agents.iter().any(|(name, agent)| !is_registered(name) && is_run_as(name, agent, address)) {
            return None;
        }
        match address {
            Address::Agent(name) => match self.0.agent(name).ok()? {
                Some(agent) if agent.is_active() => None,
                Some(_) => Some(format!("{name} is retired")),
                None => {
                    let near = views::nearest_agents(self.0.store(), name.as_str()).unwrap_or_default();
                    let hint = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    Some(format!("no agent is registered as {name}{hint}"))
                }
            },
            Address::Role(role) if is_empty() => Some(format!("no agent has the role {role}")),
            Address::Can(word) if is_empty() => Some(format!("no agent has the capability {word}")),
            _ => None,
        }
    }
}

/// Whether mail to this address goes to an agent of `poste.toml`, once it is registered.
fn is_run_as(name: &Name, agent: &AgentConfig, address: &Address) -> bool {
    let is_meant = match address {
        Address::Agent(meant) => meant == name,
        Address::Role(role) => agent.role.as_ref().is_some_and(|own| own.as_str() == role.as_str()),
        _ => false,
    };
    is_meant && agent.trusted
}

/// Registers agents that a definition names and only `poste.toml` knows yet.
fn register_agents(office: &mut Office, via: Via, definition: &Definition) -> Result<(), Error> {
    let runners = poste_config::runners(office).unwrap_or_default();
    for (name, agent) in &runners.agents {
        let is_named = definition.steps.iter().any(|step| match &step.to {
            Target::Address(address) => is_run_as(name, agent, address),
            _ => false,
        });
        if is_named && office.agent(name)?.is_none() {
            register::configured(office, &runners, name, via)?;
        }
    }
    Ok(())
}

/// Starts a workflow in the name of an agent. In the session of a run, it counts as a consequence of that run.
pub fn start(
    office: &mut Office,
    author: &Author,
    id: RecordId,
    source: &Source,
    inputs: &Inputs,
) -> crate::Result<Started> {
    let (definition, problems) = lint(&source.text, source.format, &source.name, &Registered(office));
    let Some(definition) = definition else { return Err(unfit(source, &problems)) };
    check_inputs(&definition, inputs).map_err(|why| {
        crate::Error::usage(why).hint(note!([workflow run, name = source.name, inputs = "NAME=TEXT"]))
    })?;
    let owner = &author.actor;
    for ask in definition.steps.iter().filter_map(|step| step.ask.as_ref()) {
        let kind = if ask.plan { "plan_approval_request" } else { "question" };
        check_default(office, &kind.parse()?, &ask.choices, ask.default.as_ref())?;
    }
    register_agents(office, author.via, &definition)?;
    let inputs = serde_json::to_string(&serde_json::json!({ "inputs": inputs })).unwrap_or_default();
    let content = Content {
        subject: definition.title.clone(),
        body: Body::from(source.text.as_str()),
        payload: RawValue::from_string(inputs).ok(),
        metadata: [("format".to_owned(), source.format.word().to_owned())].into(),
        ..Content::default()
    };
    let intent = Intent::WorkflowStart(WorkflowStart {
        name: definition.name.clone(),
        digest: Digest::of(source.text.as_bytes()),
        steps: definition.steps.iter().map(spec).collect(),
        lead: definition.lead.clone().filter(|lead| lead != owner),
    });
    let proposal = Proposal { id, ..office.proposal(author, intent, Some(content)) };
    let outcome = poste_config::propose(office, &proposal)?;
    match outcome.verdict {
        Verdict::Accepted(Effect::Began(workflow)) => Ok(Started { workflow, repeat: outcome.repeat }),
        Verdict::Accepted(_) => Err(crate::Error::unexpected_effect("a workflow")),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

/// Why a definition cannot be run, in one line.
pub(super) fn unfit(source: &Source, problems: &[Problem]) -> crate::Error {
    let first = problems.first().map(ToString::to_string).unwrap_or_default();
    let more = problems.len().saturating_sub(1);
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let file = source.path.display().to_string();
    crate::Error::usage(format!("{file}: {first}{more}"))
        .hint(note!("see all problems: " [workflow lint, names = file]))
}

fn check_inputs(definition: &Definition, inputs: &Inputs) -> Result<(), String> {
    let known = || definition.inputs.iter().map(|input| input.name.as_str());
    for name in inputs.keys() {
        if !known().any(|known| known == name) {
            let near = poste_core::text::nearest(name, known());
            let hint = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(format!("workflow {} takes no input {name}{hint}", definition.name));
        }
    }
    match definition.inputs.iter().find(|input| input.default.is_none() && !inputs.contains_key(&input.name)) {
        None => Ok(()),
        Some(input) => {
            let about =
                input.about.as_ref().map(|about| format!(" ({})", Foreign::words(&**about))).unwrap_or_default();
            Err(format!("input {} is missing{about}; it is declared on line {}", input.name, input.line))
        }
    }
}

fn spec(step: &Step) -> StepSpec {
    StepSpec {
        key: step.key.clone(),
        needs: step.needs.iter().map(|(need, _)| need.clone()).collect(),
        again: step.body.clone(),
        max_rounds: step.max_rounds,
        instead: match &step.on_fail {
            OnFail::Instead(other) => Some(other.clone()),
            _ => None,
        },
    }
}

/// What a workflow was started with.
pub fn began(office: &Office, view: &WorkflowView) -> Result<Option<(Definition, Inputs)>, Error> {
    let Began::With(content) = views::workflow_began(office.store(), view)? else { return Ok(None) };
    let format = content.metadata.get("format").and_then(|ending| Format::of_ending(ending));
    let Some((format, name)) = format.zip(view.name.as_ref()) else { return Ok(None) };
    let (definition, _) = lint(&content.body.text(), format, name, &super::check::AnyAddress);
    #[derive(serde::Deserialize)]
    struct Given {
        inputs: Inputs,
    }
    let given = content.payload.as_ref().and_then(|json| serde_json::from_str::<Given>(json.get()).ok());
    Ok(definition.zip(given.map(|given| given.inputs)))
}

/// Advances every open workflow as far as possible now.
pub fn advance(office: &mut Office, via: Via) -> Result<Advanced, Error> {
    advance_from(office, via, Pending::Waiting)
}

/// Like [`advance`], but does not retry steps that could not be sent before.
pub fn advance_news(office: &mut Office, via: Via) -> Result<Advanced, Error> {
    advance_from(office, via, Pending::Ready)
}

/// Like [`advance_news`], for one workflow.
pub fn advance_news_of(office: &mut Office, via: Via, label: &Label) -> Result<Advanced, Error> {
    let outlines = views::open_workflows(office.store(), Some(label))?;
    advance_outlined(office, via, outlines, Pending::Ready)
}

fn advance_from(office: &mut Office, via: Via, least: Pending) -> Result<Advanced, Error> {
    let outlines = views::open_workflows(office.store(), None)?;
    advance_outlined(office, via, outlines, least)
}

fn advance_outlined(
    office: &mut Office,
    via: Via,
    outlines: Vec<WorkflowView>,
    least: Pending,
) -> Result<Advanced, Error> {
    let mut advanced = Advanced::default();
    for outline in outlines {
        if Pending::of(&outline) < least {
            advanced.open += 1;
            continue;
        }
        let label = &outline.workflow;
        match advance_one(office, via, label, &mut advanced) {
            Err(error) if is_of_workflow(&error) => {
                advanced.open += 1;
                advanced.waiting.push(format!("could not advance {label}: {error}"));
            }
            other => other?,
        }
    }
    Ok(advanced)
}

/// Whether an error concerns only this workflow and not the office, so that others may still advance.
fn is_of_workflow(error: &Error) -> bool {
    use Error::{Artifact, Artifacts, Damaged, Io, Malformed, Rejected, UnknownKind};
    matches!(
        error,
        Artifact { .. } | Artifacts(_) | Damaged(_) | Io { .. } | Malformed(_) | Rejected(_) | UnknownKind { .. }
    )
}

/// Like [`advance`], for one workflow.
pub fn advance_one(office: &mut Office, via: Via, label: &Label, advanced: &mut Advanced) -> Result<(), Error> {
    // Each pass writes everything that is due, so it ends with a pass that finds nothing new. Loops in definitions are
    // bounded but may be long, and the caller has other things to do too.
    const PASSES_MAX: usize = 50;
    let mut began_with = None;
    for _ in 0..PASSES_MAX {
        // Results are read only when there is something to do with them.
        let Some(outline) = views::open_workflows(office.store(), Some(label))?.pop() else { return Ok(()) };
        if Pending::of(&outline) == Pending::None {
            break;
        }
        let known = match &began_with {
            Some(known) => known,
            None => began_with.insert(began(office, &outline)?),
        };
        if known.as_ref().is_some_and(|(definition, inputs)| plan(definition, inputs, &outline).is_empty()) {
            break;
        }
        let Some(view) = views::workflow(office.store(), label)?.filter(WorkflowView::is_open) else { return Ok(()) };
        let Some(owner) = view.owner.clone() else { return Ok(()) };
        let (definition, acts) = match known {
            Some((definition, inputs)) => (Some(definition), plan(definition, inputs, &view)),
            None => {
                let why = Some("its definition was erased, or cannot be read".to_owned());
                (None, vec![Act::End { how: WorkflowEnding::Failed, why }])
            }
        };
        let by = Author::new(owner, via);
        let taken = carry_out(office, &by, &view, definition, acts, advanced)?;
        if taken == 0 {
            break;
        }
        advanced.records += taken;
    }
    advanced.open += 1;
    Ok(())
}

/// Carries out acts, and marks each step that cannot be sent as waiting. Returns the number of accepted records.
fn carry_out(
    office: &mut Office,
    by: &Author,
    view: &WorkflowView,
    definition: Option<&Definition>,
    acts: Vec<Act>,
    advanced: &mut Advanced,
) -> Result<usize, Error> {
    let mut proposals = Vec::new();
    let mut submitted = Vec::new();
    let mut taken = 0;
    for act in acts {
        let (intent, content) = intent_of(view, definition, &act);
        let proposal = proposal(office, by, intent, content)?;
        // A proposal that cannot be sealed would stop everything that is submitted along with it.
        if let Err(why) = Sealed::seal(&proposal, office.machine()?) {
            match &act {
                Act::End { how, why: reason } => {
                    advanced.waiting.push(format!("{} has ended without a notification: {why}", view.workflow));
                    taken += end_quietly(office, by, view, *how, reason.as_deref())?;
                }
                _ => wait(office, by, view, &act, &why.to_string(), advanced)?,
            }
            continue;
        }
        // The acts do not depend on each other.
        if let Some(rejection) = office.foresee(&proposal)? {
            taken += refused(office, by, view, &act, rejection, advanced)?;
            continue;
        }
        proposals.push(proposal);
        submitted.push(act);
    }
    if proposals.is_empty() {
        return Ok(taken);
    }
    for (outcome, act) in poste_config::submit(office, &proposals)?.into_iter().zip(submitted) {
        match outcome.verdict {
            Verdict::Rejected(rejection) => taken += refused(office, by, view, &act, rejection, advanced)?,
            Verdict::Accepted(effect) => {
                taken += 1;
                advanced.sent.extend(effect.message());
            }
        }
    }
    Ok(taken)
}

/// Handles a refusal. Returns the number of records that were accepted instead.
fn refused(
    office: &mut Office,
    by: &Author,
    view: &WorkflowView,
    act: &Act,
    rejection: Rejection,
    advanced: &mut Advanced,
) -> Result<usize, Error> {
    match (rejection.code, act) {
        // Another process was faster, or the view was old: the next pass knows more.
        (
            Code::IdConflict
            | Code::ReservedId
            | Code::StepTaken
            | Code::Ended
            | Code::OutOfOrder
            | Code::UnknownWorkflow,
            _,
        ) => {}
        (_, Act::Send(_)) => wait(office, by, view, act, &rejection.reason, advanced)?,
        (_, Act::End { how, why }) => return end_quietly(office, by, view, *how, why.as_deref()),
        (code, Act::Mark { step, .. }) => {
            advanced.waiting.push(format!("{} step {step}: {} ({code})", view.workflow, rejection.reason));
        }
    }
    Ok(0)
}

/// Marks a step that cannot be sent as waiting.
fn wait(
    office: &mut Office,
    by: &Author,
    view: &WorkflowView,
    act: &Act,
    why: &str,
    advanced: &mut Advanced,
) -> Result<(), Error> {
    let Act::Send(task) = act else { return Ok(()) };
    advanced.waiting.push(format!("{} step {}: {why}", view.workflow, task.step));
    let mark = WorkflowMark {
        workflow: view.workflow.clone(),
        step: task.step.clone(),
        round: task.round,
        what: StepMark::Waiting,
    };
    let content = Content { body: Body::from(why), ..Content::default() };
    let proposal = proposal(office, by, Intent::WorkflowMark(mark), Some(content))?;
    // Accepted now or before: either way nothing more can be done for it now, and it does not count as progress.
    poste_config::propose(office, &proposal).map(drop)
}

/// Ends a workflow without notifying an agent.
fn end_quietly(
    office: &mut Office,
    by: &Author,
    view: &WorkflowView,
    how: WorkflowEnding,
    why: Option<&str>,
) -> Result<usize, Error> {
    let intent = Intent::WorkflowEnd(WorkflowEnd { workflow: view.workflow.clone(), how, mail: None });
    let content = why.map(|why| Content { body: Body::from(why), ..Content::default() });
    let proposal = proposal(office, by, intent, content)?;
    let outcome = poste_config::propose(office, &proposal)?;
    Ok(usize::from(matches!(outcome.verdict, Verdict::Accepted(_))))
}

/// The proposal for an act, in the name of the owner of the workflow.
pub fn proposal_of(
    office: &Office,
    via: Via,
    view: &WorkflowView,
    definition: &Definition,
    act: &Act,
) -> Result<Option<Proposal>, Error> {
    let (intent, content) = intent_of(view, Some(definition), act);
    let by = view.owner.clone().map(|owner| Author::new(owner, via));
    by.map(|by| proposal(office, &by, intent, content)).transpose()
}

fn proposal(office: &Office, by: &Author, intent: Intent, content: Option<Content>) -> Result<Proposal, Error> {
    let id = office.advance_id(&intent)?;
    Ok(Proposal { id, ..office.proposal(by, intent, content) })
}

fn intent_of(view: &WorkflowView, definition: Option<&Definition>, act: &Act) -> (Intent, Option<Content>) {
    match act {
        Act::Send(task) => {
            let step = definition.and_then(|definition| definition.step(task.step.as_str()));
            let (step, content) = step_of(view, step, task);
            (Intent::WorkflowStep(step), Some(content))
        }
        Act::Mark { step, round, what, why } => {
            let content = why.as_ref().map(|why| Content { body: Body::from(why.as_str()), ..Content::default() });
            let (workflow, step) = (view.workflow.clone(), step.clone());
            (Intent::WorkflowMark(WorkflowMark { workflow, step, round: *round, what: *what }), content)
        }
        Act::End { how, why } => {
            let notified = view.lead.clone().or_else(|| view.owner.clone());
            let kind = if *how == WorkflowEnding::Finished { "task_completed" } else { "alert" };
            let mail = notified.map(|notified| Send {
                workflow: Some(view.workflow.clone()),
                conversation: Some(view.workflow.clone()),
                ..Send::plain(kind.parse().expect("a built-in type"), vec![Address::Agent(notified)])
            });
            let subject = format!("Workflow {} {}", view.workflow, how.word());
            let mut reason = why.as_ref().map(|why| format!("{why}\n\n")).unwrap_or_default();
            if *how == WorkflowEnding::Failed && definition.is_some() {
                reason.push_str(&format!("Retry failed steps: poste workflow retry {}\n\n", view.workflow));
            }
            let body = format!("{reason}{}", super::render::results(view));
            let end = WorkflowEnd { workflow: view.workflow.clone(), how: *how, mail };
            let body = Body::from(body.trim_end());
            let content = Content { subject, summary: why.clone(), body, ..Content::default() };
            (Intent::WorkflowEnd(end), Some(content))
        }
    }
}

fn step_of(view: &WorkflowView, step: Option<&Step>, task: &Task) -> (WorkflowStep, Content) {
    let lead = || view.lead.clone().or_else(|| view.owner.clone()).map(Address::Agent);
    let to = match step.map(|step| &step.to) {
        Some(Target::Address(address)) if task.failure.is_none() => Some(address.clone()),
        _ => lead(),
    };
    let question: TypeName = "question".parse().expect("a built-in type");
    let kind = step.filter(|_| task.failure.is_none()).map_or(question, |step| step.kind.clone());
    let ask = match (&task.failure, step.and_then(|step| step.ask.as_ref())) {
        (Some(_), _) => {
            let choices = [RETRY, SKIP, FAIL].map(|word| word.parse::<Word>().expect("a word")).to_vec();
            Some(StepAsk { choices, default: None, deadline: None })
        }
        (None, Some(ask)) => Some(StepAsk {
            choices: ask.choices.clone(),
            default: ask.default.clone(),
            deadline: ask.deadline_ms.map(When::InMs),
        }),
        (None, None) => None,
    };
    let wants_response = step.filter(|_| ask.is_none()).map(|step| step.answer);
    let mail = Send {
        // An approval must stand out from other mail.
        priority: step.and_then(|step| step.priority).max(ask.as_ref().map(|_| Priority::High)),
        wants_response,
        workflow: Some(view.workflow.clone()),
        step: Some(task.step.clone()),
        conversation: Some(view.workflow.clone()),
        artifacts: task.files.clone(),
        ..Send::plain(kind, to.into_iter().collect())
    };
    let sent = WorkflowStep {
        workflow: view.workflow.clone(),
        step: task.step.clone(),
        round: task.round,
        item: task.item,
        of: task.of,
        attempt: task.attempt,
        failure: task.failure.is_some(),
        mail,
        time_limit_ms: step.filter(|_| ask.is_none()).and_then(|step| step.time_limit_ms),
        ask,
    };
    let mut metadata: BTreeMap<String, String> = BTreeMap::new();
    let mut note = |key: &str, number: u32, of: u32| {
        if of > 1 {
            metadata.insert(key.to_owned(), number.to_string());
        }
    };
    note("round", task.round, task.round);
    note("item", task.item, task.of);
    note("items", task.of, task.of);
    note("attempt", task.attempt, task.attempt);
    let content = Content {
        subject: task.subject.clone(),
        body: Body::from(task.body.as_str()),
        expect: task.expect.clone(),
        references: task.references.iter().map(|number| format!("#{number}")).collect(),
        metadata,
        ..Content::default()
    };
    (sent, content)
}
