//! Workflows: each step is sent as a message exactly once, in order, and its outcome is recorded once.
//!
//! The fold knows the order of the steps but not their content. The workflow's owner evaluates conditions and records
//! the result as marks. So any number of engines may work on one workflow: the second one to record the same thing is
//! refused.

use std::collections::BTreeSet;

use super::delivery;
use super::outcome::{Code, Effect, Sent, Stop, refuse};
use super::{Context, Rule, active_agent, approval, message, notice, run, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{
    ApprovalAsk, DeliveryNo, Intent, MessageNo, Proof, Send, StepMark, StepSpec, WorkflowEnd, WorkflowEnding,
    WorkflowMark, WorkflowRetry, WorkflowStart, WorkflowStep,
};
use crate::store::tables::{
    Agent, Delivery, DueItem, EndReason, Message, Notice, State, StepRow, StepState, Tables, TaskPart, TaskRow,
    TaskState, WorkflowRow, WorkflowState,
};
use crate::text::{Label, Name};
use crate::vocabulary::AgentKind;

impl Rule for WorkflowStart {
    type Plan = (WorkflowRow, Vec<StepRow>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let owner = speaker(tables, cx)?;
        if cx.content_bytes == 0 {
            return Err(refuse(Code::Malformed, "a workflow must start with its definition"));
        }
        if let Some(lead) = &self.lead {
            active_agent(tables, lead)?;
        }
        let number = tables.next_workflow()?;
        let label = format!("{}-{number}", self.name)
            .parse()
            .map_err(|_| refuse(Code::TooLarge, format!("the name {} is too long for a workflow", self.name)))?;
        let steps = step_rows(number, &self.steps)?;
        let workflow = WorkflowRow {
            number,
            label,
            name: self.name.clone(),
            position: cx.position,
            at: cx.at,
            owner: owner.name,
            lead: self.lead.clone(),
            digest: self.digest,
            state: WorkflowState::Open,
            ended_at: None,
            ended_by: None,
            hops: run::hops(tables, cx.session.as_ref())?,
        };
        Ok((workflow, steps))
    }

    fn apply((workflow, steps): Self::Plan, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.insert_workflow(&workflow, &steps)?;
        Ok(Effect::Began(workflow.label))
    }
}

/// Step rows keyed by ordinal. Refuses steps that could never end.
fn step_rows(workflow: u64, specs: &[StepSpec]) -> Result<Vec<StepRow>, Stop> {
    let max = limits::WORKFLOW_STEPS_MAX;
    if specs.is_empty() || specs.len() > max {
        return Err(refuse(Code::Malformed, format!("a workflow has 1 to {max} steps")));
    }
    let mut rows = Vec::with_capacity(specs.len());
    for (ordinal, spec) in specs.iter().enumerate() {
        if specs[..ordinal].iter().any(|other| other.key == spec.key) {
            return Err(refuse(Code::Malformed, format!("two steps are named {}", spec.key)));
        }
        let of = |key: &Label| {
            let found = specs.iter().position(|other| other.key == *key).and_then(|found| u32::try_from(found).ok());
            found.ok_or_else(|| refuse(Code::Malformed, format!("step {} names {key}, which is not a step", spec.key)))
        };
        let all = |keys: &[Label]| {
            let found: Vec<u32> = keys.iter().map(of).collect::<Result<_, _>>()?;
            match found.iter().collect::<BTreeSet<_>>().len() == found.len() {
                true => Ok(found),
                false => Err(refuse(Code::Malformed, format!("step {} names a step twice", spec.key))),
            }
        };
        let again = all(&spec.again)?;
        let loops = spec.max_rounds != 1;
        if !(1..=limits::WORKFLOW_ROUNDS_MAX).contains(&spec.max_rounds) || loops == again.is_empty() {
            let max = limits::WORKFLOW_ROUNDS_MAX;
            return Err(refuse(Code::Malformed, format!("the loop of step {} runs 2 to {max} times", spec.key)));
        }
        let ordinal = u32::try_from(ordinal).unwrap_or(u32::MAX);
        if loops && !again.contains(&ordinal) {
            return Err(refuse(Code::Malformed, format!("step {} is not in the loop it ends", spec.key)));
        }
        rows.push(StepRow {
            workflow,
            ordinal,
            key: spec.key.clone(),
            needs: all(&spec.needs)?,
            again,
            max_rounds: spec.max_rounds,
            instead: spec.instead.as_ref().map(of).transpose()?,
            state: StepState::Open,
            round: 1,
            granted: 0,
            marked_at: None,
            marked_by: None,
        });
    }
    must_end(&rows)?;
    Ok(rows)
}

/// A step that waits for itself, through its needs or as a stand-in for another step, would wait forever.
fn must_end(rows: &[StepRow]) -> Result<(), Stop> {
    let mut left: Vec<&StepRow> = rows.iter().collect();
    let mut over = BTreeSet::new();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|row| {
            let stands_in_for = rows.iter().filter(|other| other.instead == Some(row.ordinal));
            let waits_for = row.needs.iter().copied().chain(stands_in_for.map(|other| other.ordinal));
            let is_next = waits_for.into_iter().all(|other| over.contains(&other));
            if is_next {
                over.insert(row.ordinal);
            }
            !is_next
        });
        if left.len() == before {
            return Err(refuse(Code::Malformed, format!("step {} waits for itself", left[0].key)));
        }
    }
    Ok(())
}

/// Whether an actor owns the workflow that an intent advances.
pub(super) fn is_owner(tables: &Tables<'_>, intent: &Intent, actor: &Name) -> Result<bool, Error> {
    let label = match intent {
        Intent::WorkflowStep(step) => &step.workflow,
        Intent::WorkflowMark(mark) => &mark.workflow,
        Intent::WorkflowEnd(end) => &end.workflow,
        _ => return Ok(false),
    };
    Ok(tables.workflow(label)?.is_some_and(|workflow| workflow.owner == *actor))
}

/// An open workflow that the actor owns.
fn own_workflow(tables: &Tables<'_>, cx: &Context, label: &Label) -> Result<WorkflowRow, Stop> {
    speaker(tables, cx)?;
    let workflow = known(tables, label)?;
    if workflow.owner != cx.actor {
        return Err(refuse(Code::NotAllowed, format!("only {} may advance workflow {label}", workflow.owner)));
    }
    must_be_open(&workflow)?;
    Ok(workflow)
}

/// Any process may advance a workflow in its owner's name. Its mail is the owner's own words if the owner started it.
fn proof_of_start(tables: &Tables<'_>, workflow: &WorkflowRow) -> Result<Proof, Error> {
    Ok(tables.record(workflow.position)?.map_or(Proof::None, |start| start.sealed.envelope.proof))
}

fn known(tables: &Tables<'_>, label: &Label) -> Result<WorkflowRow, Stop> {
    tables.workflow(label)?.ok_or_else(|| refuse(Code::UnknownWorkflow, format!("there is no workflow {label}")))
}

fn must_be_open(workflow: &WorkflowRow) -> Result<(), Stop> {
    match workflow.is_open() {
        true => Ok(()),
        false => Err(refuse(Code::Ended, format!("workflow {} is already {}", workflow.label, workflow.state))),
    }
}

/// Allows the owner of a workflow, in whose name any process advances it, its lead or a human.
fn must_have_a_say(tables: &Tables<'_>, cx: &Context, workflow: &WorkflowRow) -> Result<Agent, Stop> {
    let agent = speaker(tables, cx)?;
    let is_its_own = agent.name == workflow.owner || Some(&agent.name) == workflow.lead.as_ref();
    if is_its_own || cx.speaks_as_person(&agent) {
        return Ok(agent);
    }
    let why = format!("only {} or a human may decide about workflow {}", workflow.owner, workflow.label);
    Err(cx.only_person(&agent, why))
}

/// The steps of a workflow, and what may be done with them now.
struct Steps(Vec<StepRow>);

impl Steps {
    fn of(tables: &Tables<'_>, workflow: &WorkflowRow) -> Result<Self, Error> {
        Ok(Self(tables.steps_of_workflow(workflow.number)?))
    }

    fn named(&self, workflow: &WorkflowRow, key: &Label) -> Result<StepRow, Stop> {
        let found = self.0.iter().find(|row| row.key == *key).cloned();
        let why = || format!("workflow {} has no step {key}", workflow.label);
        found.ok_or_else(|| refuse(Code::UnknownStep, why()))
    }

    /// Whether later steps may begin: the step is done, was skipped, or its stand-in is satisfied.
    fn is_satisfied(&self, ordinal: u32) -> bool {
        // At most as many hops as there are steps: `must_end` made sure that the chain ends.
        let mut row = self.0.iter().find(|row| row.ordinal == ordinal);
        for _ in 0..=self.0.len() {
            match row {
                Some(StepRow { state: StepState::Done | StepState::Skipped, .. }) => return true,
                Some(StepRow { state: StepState::Failed, instead: Some(other), .. }) => {
                    row = self.0.iter().find(|row| row.ordinal == *other);
                }
                _ => return false,
            }
        }
        false
    }

    /// Requires that everything the step needs has ended.
    fn must_be_next(&self, row: &StepRow) -> Result<(), Stop> {
        match row.needs.iter().find(|need| !self.is_satisfied(**need)) {
            None => Ok(()),
            Some(need) => {
                let need = self.0.iter().find(|other| other.ordinal == *need).map_or("", |other| other.key.as_str());
                Err(refuse(Code::OutOfOrder, format!("step {} comes after {need}, which is not done", row.key)))
            }
        }
    }

    /// A stand-in is sent only after a step it stands in for has failed.
    fn must_be_wanted(&self, row: &StepRow) -> Result<(), Stop> {
        let mut stands_in_for = self.0.iter().filter(|other| other.instead == Some(row.ordinal)).peekable();
        if stands_in_for.peek().is_none() || stands_in_for.any(|other| other.state == StepState::Failed) {
            return Ok(());
        }
        Err(refuse(Code::OutOfOrder, format!("no step failed that step {} replaces", row.key)))
    }
}

/// A step that has ended in this round cannot change again.
fn must_be_unsettled(row: &StepRow, round: u32) -> Result<(), Stop> {
    if row.is_settled() {
        return Err(refuse(Code::StepTaken, format!("step {} is already {}", row.key, row.state)));
    }
    if round < row.round {
        return Err(refuse(Code::StepTaken, format!("step {} is already in round {}", row.key, row.round)));
    }
    if round > row.round {
        return Err(refuse(Code::OutOfOrder, format!("step {} is in round {}", row.key, row.round)));
    }
    Ok(())
}

pub(crate) enum MailPlan {
    Plain(message::Plan),
    Ask(approval::AskPlan),
}

pub(crate) struct StepPlan {
    mail: MailPlan,
    /// Its message number is not known yet.
    task: TaskRow,
    step: StepRow,
    /// The earlier attempts, which failed. They are no longer dead letters.
    before: Vec<TaskRow>,
}

impl Rule for WorkflowStep {
    type Plan = StepPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<StepPlan, Stop> {
        let workflow = own_workflow(tables, cx, &self.workflow)?;
        let steps = Steps::of(tables, &workflow)?;
        let step = steps.named(&workflow, &self.step)?;
        self.check(&workflow)?;
        must_be_unsettled(&step, self.round)?;
        let mut tasks = tables.tasks_of_step(workflow.number, step.ordinal, self.round)?;
        let part = if self.failure { TaskPart::Question } else { TaskPart::Work };
        if let Some(taken) =
            tasks.iter().find(|task| (task.item, task.attempt, task.part) == (self.item, self.attempt, part))
        {
            let why = format!("step {} was already sent, as message {}", step.key, taken.message);
            return Err(refuse(Code::StepTaken, why));
        }
        steps.must_be_next(&step)?;
        steps.must_be_wanted(&step)?;
        if tasks.iter().any(|task| task.of != self.of) {
            return Err(refuse(Code::Malformed, format!("step {} has another number of items", step.key)));
        }
        tasks.retain(|task| task.item == self.item && task.part == TaskPart::Work);
        self.must_follow(&step, tasks.last())?;
        let deadline = self.time_limit_ms.map(|limit| cx.at.plus_ms(limit));
        let proof = proof_of_start(tables, &workflow)?;
        let mail = match &self.ask {
            None => MailPlan::Plain(self.mail.decide(tables, cx)?.after_hops(workflow.hops).proven_by(proof)),
            Some(ask) => {
                let (choices, default) = (ask.choices.clone(), ask.default.clone());
                let ask = ApprovalAsk { mail: self.mail.clone(), choices, default, deadline: ask.deadline };
                // The workflow is the asker, so it may also ask its own owner.
                MailPlan::Ask(approval::plan(&ask, tables, cx, true)?.after_hops(workflow.hops).proven_by(proof))
            }
        };
        // Whoever subscribes later would get a published step again, when it has long ended.
        let (recipients, is_published) = match &mail {
            MailPlan::Plain(plan) => (plan.recipients(), plan.is_published()),
            MailPlan::Ask(plan) => (plan.recipients(), false),
        };
        if recipients.len() != 1 || is_published {
            return Err(refuse(Code::Malformed, "a step goes to one agent or group"));
        }
        let task = TaskRow {
            workflow: workflow.number,
            step: step.ordinal,
            round: self.round,
            item: self.item,
            attempt: self.attempt,
            part,
            of: self.of,
            message: MessageNo(0),
            position: cx.position,
            at: cx.at,
            deadline,
            state: TaskState::Open,
            ended_at: None,
            ended_by: None,
        };
        Ok(StepPlan { mail, task, step, before: tasks })
    }

    fn apply(plan: StepPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let effect = match plan.mail {
            MailPlan::Plain(mail) => Send::apply(mail, tables, cx)?,
            MailPlan::Ask(ask) => ApprovalAsk::apply(ask, tables, cx)?,
        };
        let Effect::Sent(Sent { number, .. }) = &effect else {
            return Err(Error::Damaged(format!("sending a step resulted in {effect:?}")));
        };
        tables.insert_task(&TaskRow { message: *number, ..plan.task })?;
        for before in &plan.before {
            forget(tables, cx, before)?;
        }
        if plan.step.state == StepState::Waiting {
            tables.update_step(&StepRow {
                state: StepState::Open,
                marked_at: Some(cx.at),
                marked_by: Some(cx.position),
                ..plan.step
            })?;
        }
        Ok(effect)
    }
}

impl WorkflowStep {
    fn check(&self, workflow: &WorkflowRow) -> Result<(), Stop> {
        let mail = &self.mail;
        let is_of = mail.workflow.as_ref() == Some(&self.workflow)
            && mail.step.as_ref() == Some(&self.step)
            && mail.conversation.as_ref() == Some(&workflow.label);
        if !is_of {
            return Err(refuse(Code::Malformed, "the message of a step must name its workflow"));
        }
        let is_plain = mail.reply_to.is_none() && mail.ends.is_none() && mail.expires.is_none();
        let is_timed = self.time_limit_ms.is_some() && self.ask.is_some();
        if mail.to.len() != 1 || !is_plain || is_timed || (self.failure && self.ask.is_none()) {
            return Err(refuse(Code::Malformed, "a step is new mail to one recipient, with at most one time"));
        }
        let within = |number: u32, max: u32| (1..=max).contains(&number);
        if !within(self.of, limits::WORKFLOW_ITEMS_MAX) || !within(self.item, self.of) {
            let max = limits::WORKFLOW_ITEMS_MAX;
            return Err(refuse(Code::Malformed, format!("a step has 1 to {max} items, and this is not one of them")));
        }
        if !within(self.attempt, limits::WORKFLOW_ATTEMPTS_MAX) {
            return Err(refuse(Code::TooLarge, "a step cannot have that many attempts"));
        }
        let times = limits::STEP_TIME_MS_MIN..=limits::STEP_TIME_MS_MAX;
        match self.time_limit_ms {
            Some(limit) if !times.contains(&limit) => {
                Err(refuse(Code::TimeOutOfRange, "a step takes between one second and 30 days"))
            }
            _ => Ok(()),
        }
    }

    /// An attempt follows a failed one; a question is about the newest attempt.
    fn must_follow(&self, step: &StepRow, last: Option<&TaskRow>) -> Result<(), Stop> {
        let tried = last.map_or(0, |task| task.attempt);
        match last.map(|task| task.state) {
            Some(TaskState::Done) => Err(refuse(Code::StepTaken, format!("step {} is done for this item", step.key))),
            Some(TaskState::Open) => {
                Err(refuse(Code::OutOfOrder, format!("step {} is in progress for this item", step.key)))
            }
            Some(TaskState::Failed) if self.failure && self.attempt == tried => Ok(()),
            None | Some(TaskState::Failed) if !self.failure && self.attempt == tried + 1 => Ok(()),
            _ => Err(refuse(Code::OutOfOrder, format!("step {} was attempted {tried} times for this item", step.key))),
        }
    }
}

pub(crate) struct MarkPlan {
    steps: Vec<StepRow>,
    tasks: Vec<TaskRow>,
}

impl Rule for WorkflowMark {
    type Plan = MarkPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<MarkPlan, Stop> {
        let workflow = own_workflow(tables, cx, &self.workflow)?;
        let steps = Steps::of(tables, &workflow)?;
        let step = steps.named(&workflow, &self.step)?;
        must_be_unsettled(&step, self.round)?;
        steps.must_be_next(&step)?;
        let tasks = tables.tasks_of_step(workflow.number, step.ordinal, step.round)?;
        if let Some(open) = tasks.iter().find(|task| task.is_open()) {
            let why = format!("step {} has not ended: message {} is open", step.key, open.message);
            return Err(refuse(Code::OutOfOrder, why));
        }
        let after = |step: &StepRow, state, round| StepRow {
            state,
            round,
            marked_at: Some(cx.at),
            marked_by: Some(cx.position),
            ..step.clone()
        };
        let same = |state| Ok(vec![after(&step, state, step.round)]);
        let steps = match self.what {
            StepMark::Waiting if step.state == StepState::Waiting => {
                Err(refuse(Code::StepTaken, format!("step {} is already waiting", step.key)))
            }
            StepMark::Waiting => same(StepState::Waiting),
            StepMark::Skipped => same(StepState::Skipped),
            StepMark::Failed => same(StepState::Failed),
            StepMark::Done => must_be_complete(&step, &tasks).and_then(|()| same(StepState::Done)),
            StepMark::Again => {
                must_be_complete(&step, &tasks)?;
                if step.again.is_empty() || step.round >= step.max_rounds.saturating_add(step.granted) {
                    let why = format!("step {} ran {} rounds, its maximum", step.key, step.round);
                    return Err(refuse(Code::OutOfOrder, why));
                }
                let body = steps.0.iter().filter(|other| step.again.contains(&other.ordinal));
                Ok(body.map(|other| after(other, StepState::Open, other.round.saturating_add(1))).collect())
            }
        }?;
        Ok(MarkPlan { steps, tasks })
    }

    fn apply(plan: MarkPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for step in &plan.steps {
            tables.update_step(step)?;
        }
        for task in &plan.tasks {
            forget(tables, cx, task)?;
        }
        Ok(Effect::Touched(plan.steps.len()))
    }
}

/// Requires that every item of the step is done.
fn must_be_complete(step: &StepRow, tasks: &[TaskRow]) -> Result<(), Stop> {
    let done = tasks.iter().filter(|task| task.part == TaskPart::Work && task.state == TaskState::Done).count();
    let wanted = tasks.first().map_or(1, |task| task.of);
    match u32::try_from(done) == Ok(wanted) {
        true => Ok(()),
        false => Err(refuse(Code::OutOfOrder, format!("step {} is done for {done} of {wanted} items", step.key))),
    }
}

pub(crate) struct EndPlan {
    workflow: WorkflowRow,
    mail: Option<message::Plan>,
}

impl Rule for WorkflowEnd {
    type Plan = EndPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<EndPlan, Stop> {
        let workflow = known(tables, &self.workflow)?;
        let agent = must_have_a_say(tables, cx, &workflow)?;
        if self.how == WorkflowEnding::Cancelled {
            cx.require_proof(&agent)?;
        }
        must_be_open(&workflow)?;
        let state = match self.how {
            WorkflowEnding::Finished => {
                let steps = Steps::of(tables, &workflow)?;
                if let Some(row) = steps.0.iter().find(|row| !steps.is_satisfied(row.ordinal)) {
                    return Err(refuse(Code::OutOfOrder, format!("step {} is not done", row.key)));
                }
                WorkflowState::Finished
            }
            WorkflowEnding::Failed => WorkflowState::Failed,
            WorkflowEnding::Cancelled => WorkflowState::Cancelled,
        };
        if self.mail.as_ref().is_some_and(|mail| mail.ends.is_some() || mail.reply_to.is_some()) {
            return Err(refuse(Code::Malformed, "the end of a workflow cannot answer or end a message"));
        }
        let mail = self.mail.as_ref().map(|mail| mail.decide(tables, cx)).transpose()?;
        let mail = mail.map(|mail| mail.after_hops(workflow.hops));
        let workflow = WorkflowRow { state, ended_at: Some(cx.at), ended_by: Some(cx.position), ..workflow };
        Ok(EndPlan { workflow, mail })
    }

    fn apply(plan: EndPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let told = plan.mail.map(|mail| Send::apply(mail, tables, cx)).transpose()?;
        let returned = close(tables, cx, &plan.workflow)?;
        Ok(told.unwrap_or(Effect::Touched(returned)))
    }
}

/// Ends a workflow, together with all of its open tasks.
fn close(tables: &mut Tables<'_>, cx: &Context, after: &WorkflowRow) -> Result<usize, Error> {
    tables.update_workflow(after)?;
    let mut returned = 0;
    for task in tables.tasks_of_workflow(after.number)? {
        if task.is_open() {
            approval::close_one(tables, cx, task.message)?;
            returned += stop(tables, cx, &task, State::Returned, EndReason::Cancelled)?;
        }
        forget(tables, cx, &task)?;
    }
    Ok(returned)
}

/// Ends the open deliveries of a task and notifies their holders.
fn stop(
    tables: &mut Tables<'_>,
    cx: &Context,
    task: &TaskRow,
    state: State,
    reason: EndReason,
) -> Result<usize, Error> {
    let mut open = tables.deliveries_of(task.message)?;
    open.retain(|delivery| delivery.state.is_open());
    for before in &open {
        delivery::end(tables, cx, before, before.clone(), state, reason)?;
        if let Some(holder) = delivery::holder(before).filter(|holder| *holder != cx.actor) {
            let message = delivery::expect_message(tables, before.message)?;
            notice::tell(tables, cx, Address::Agent(holder), Notice::StepOver, &message, before)?;
        }
    }
    Ok(open.len())
}

/// The workflow has handled a bad end, so it is not a dead letter.
fn forget(tables: &mut Tables<'_>, cx: &Context, task: &TaskRow) -> Result<(), Error> {
    for bad in tables.deliveries_of(task.message)? {
        if bad.state.is_bad_end() && bad.dropped_at.is_none() {
            delivery::drop_along(tables, cx, &bad)?;
        }
    }
    Ok(())
}

pub(crate) struct RetryPlan {
    workflow: WorkflowRow,
    steps: Vec<StepRow>,
}

impl Rule for WorkflowRetry {
    type Plan = RetryPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<RetryPlan, Stop> {
        let workflow = known(tables, &self.workflow)?;
        let agent = must_have_a_say(tables, cx, &workflow)?;
        cx.require_proof(&agent)?;
        if matches!(workflow.state, WorkflowState::Finished | WorkflowState::Cancelled) {
            must_be_open(&workflow)?;
        }
        active_agent(tables, &workflow.owner)?;
        let steps = Steps::of(tables, &workflow)?;
        let named = self.step.as_ref().map(|key| steps.named(&workflow, key)).transpose()?;
        let is_asked = |row: &StepRow| named.as_ref().is_none_or(|named| named.ordinal == row.ordinal);
        // A stand-in already took its place, and the workflow continued with it.
        let is_replaced = |row: &StepRow| row.instead.is_some_and(|other| steps.is_satisfied(other));
        let failed = |row: &&StepRow| row.state == StepState::Failed && is_asked(row) && !is_replaced(row);
        let again: Vec<StepRow> = steps.0.iter().filter(failed).cloned().collect();
        if again.is_empty() {
            let why = format!("no such step failed in workflow {}", workflow.label);
            return Err(refuse(Code::NothingToDo, why));
        }
        let again = again.into_iter().map(|row| StepRow {
            state: StepState::Open,
            granted: row.granted.saturating_add(1),
            marked_at: Some(cx.at),
            marked_by: Some(cx.position),
            ..row
        });
        let steps = again.collect();
        // A run that keeps retrying its own workflow is a loop too.
        let hops = workflow.hops.max(run::hops(tables, cx.session.as_ref())?);
        let workflow = WorkflowRow { state: WorkflowState::Open, ended_at: None, ended_by: None, hops, ..workflow };
        Ok(RetryPlan { workflow, steps })
    }

    fn apply(plan: RetryPlan, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.update_workflow(&plan.workflow)?;
        for step in &plan.steps {
            tables.update_step(step)?;
        }
        Ok(Effect::Touched(plan.steps.len()))
    }
}

/// If the delivery belonged to a step, ends its task. Once done, it no longer blocks later steps.
pub(crate) fn delivery_ended(tables: &mut Tables<'_>, cx: &Context, after: &Delivery) -> Result<(), Error> {
    if after.state == State::Done {
        tables.delete_numbered(after.number)?;
    }
    let Some(task) = tables.task(after.message)?.filter(TaskRow::is_open) else { return Ok(()) };
    // A question decided by any choice but the first was not approved.
    let denied = match task.part {
        TaskPart::Question => false,
        TaskPart::Work => {
            tables.approval(task.message)?.is_some_and(|asked| asked.choice.as_ref() != asked.choices.first())
        }
    };
    let state = if after.state == State::Done && !denied { TaskState::Done } else { TaskState::Failed };
    tables.end_task(&task, state, cx.at, cx.position)
}

/// The workflow reads the answer to a step from the log, so the owner's delivery of it ends. The owner hears about the
/// end of the workflow.
pub(crate) fn settle_answer(tables: &mut Tables<'_>, cx: &Context, answer: &Message) -> Result<(), Error> {
    let step = answer.reply_to.map(|number| tables.task(number)).transpose()?.flatten();
    let Some(task) = step.filter(|task| task.is_open() && !answer.wants_response) else { return Ok(()) };
    let owner = tables.workflow_numbered(task.workflow)?.map(|workflow| Address::Agent(workflow.owner));
    for before in tables.deliveries_of(answer.number)? {
        if before.state == State::Pending && Some(&before.address) == owner.as_ref() {
            delivery::end(tables, cx, &before, before.clone(), State::Done, EndReason::Settled)?;
        }
    }
    Ok(())
}

/// Ends a step whose time is up, even if an agent is working on it.
pub(crate) fn settle(tables: &mut Tables<'_>, cx: &Context, item: DueItem) -> Result<(), Error> {
    let number = MessageNo(item.subject);
    let Some(task) = tables.task(number)?.filter(TaskRow::is_open) else {
        // The item that ended it in this tick also deleted its row.
        return match tables.is_due(item)? {
            true => Err(Error::Damaged(format!("the time of step message {number} is due, but it has ended"))),
            false => Ok(()),
        };
    };
    stop(tables, cx, &task, State::Expired, EndReason::TimedOut)?;
    Ok(())
}

/// Extends step deadlines by a clock leap, because no agent had that time.
pub(crate) fn move_limits(tables: &mut Tables<'_>, leap_ms: i64) -> Result<usize, Error> {
    tables.move_step_deadlines(leap_ms)
}

/// A retiring owner leaves its workflows to their leads. Without an active lead, no one could advance them, so they are
/// cancelled.
pub(crate) fn retire_of(tables: &mut Tables<'_>, cx: &Context, name: &Name) -> Result<(), Error> {
    for workflow in tables.open_workflows_of(name)? {
        let heir = workflow.lead.clone().filter(|lead| lead != name);
        let heir = heir.map(|lead| tables.agent(lead.as_str())).transpose()?.flatten();
        match heir.filter(crate::store::tables::Agent::is_active) {
            Some(heir) => tables.update_workflow(&WorkflowRow { owner: heir.name, ..workflow })?,
            None => {
                let state = WorkflowState::Cancelled;
                let over = WorkflowRow { state, ended_at: Some(cx.at), ended_by: Some(cx.position), ..workflow };
                close(tables, cx, &over)?;
                tell_humans(tables, cx, &over)?;
            }
        }
    }
    Ok(())
}

/// Notifies humans that a workflow ended with its owner; no one else would be told.
fn tell_humans(tables: &mut Tables<'_>, cx: &Context, over: &WorkflowRow) -> Result<(), Error> {
    // A notice cannot be about an archived message.
    let mut last = None;
    for task in tables.tasks_of_workflow(over.number)? {
        last = last.max(tables.message(task.message)?.map(|message| message.number));
    }
    let Some(number) = last else { return Ok(()) };
    let message = delivery::expect_message(tables, number)?;
    let deliveries = tables.deliveries_of(message.number)?;
    for name in tables.active_agents()? {
        let is_human = tables.agent(name.as_str())?.is_some_and(|agent| agent.kind == AgentKind::Human);
        if let Some(about) = deliveries.first().filter(|_| is_human) {
            notice::tell(tables, cx, Address::Agent(name), Notice::Orphaned, &message, about)?;
        }
    }
    Ok(())
}

/// The workflow itself retries a failed step, as a new message.
pub(crate) fn refuse_second_life(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    match of_message(tables, number)? {
        None => Ok(()),
        Some(label) => {
            let why = format!("message {number} is a step of workflow {label}, which retries it automatically");
            Err(refuse(Code::NotAllowed, why))
        }
    }
}

/// A forwarded step would count as done before the work is.
pub(crate) fn refuse_forward(tables: &Tables<'_>, number: MessageNo) -> Result<(), Stop> {
    match of_message(tables, number)? {
        None => Ok(()),
        Some(label) => {
            let why = format!("message {number} is a step of workflow {label}: its holder must finish or fail it");
            Err(refuse(Code::NotAllowed, why))
        }
    }
}

/// The workflow that a message is a step of.
pub(crate) fn of_message(tables: &Tables<'_>, number: MessageNo) -> Result<Option<Label>, Error> {
    let Some(task) = tables.task(number)? else { return Ok(None) };
    Ok(tables.workflow_numbered(task.workflow)?.map(|workflow| workflow.label))
}

/// The workflow and step number that a message names, if it asks for work.
fn numbered(message: &Message) -> Option<(&Label, u32)> {
    let step = message.step.as_ref().filter(|_| message.notice.is_none() && message.work)?;
    let number = step.as_str().parse().ok().filter(|_| step.as_str().bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((message.workflow.as_ref()?, number))
}

/// From now on, the delivery of a numbered step blocks later steps. A workflow with a definition has its own order.
pub(crate) fn number_delivery(tables: &mut Tables<'_>, message: &Message, delivery: DeliveryNo) -> Result<(), Error> {
    let Some((workflow, step)) = numbered(message) else { return Ok(()) };
    match tables.workflow(workflow)? {
        Some(_) => Ok(()),
        None => tables.insert_numbered(workflow, step, delivery),
    }
}

/// Refuses to start a step while an earlier one of its workflow is not done.
pub(crate) fn must_be_in_order(tables: &Tables<'_>, own: &Delivery) -> Result<(), Stop> {
    let Some(earlier) = tables.held_up_by(own.number)? else { return Ok(()) };
    let message = tables.delivery(earlier)?.map_or(MessageNo(0), |delivery| delivery.message);
    let why = format!("message {} comes after message {message}, an earlier step that is not done", own.message);
    Err(refuse(Code::OutOfOrder, why))
}
