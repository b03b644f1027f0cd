//! Workflows: started, sent step by step, marked, looped, substituted and ended; sometimes out of order or by the wrong
//! agent.

use poste_core::log::{
    Intent, Send, StepAsk, StepMark, StepSpec, WorkflowEnd, WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart,
    WorkflowStep,
};
use poste_core::store::tables::{StepRow, TaskPart, TaskState};
use poste_core::text::{Label, Name};
use poste_core::time::When;
use poste_core::{Digest, limits};

use super::sight::{SeenWorkflow, Sight};
use super::{Draft, Generator};

const KEYS: &[&str] = &["plan", "write", "review", "by-hand", "merge"];

fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

impl Generator {
    pub(super) fn start_workflow(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let count = 1 + self.rng.below(KEYS.len());
        let mut steps: Vec<StepSpec> = Vec::new();
        for (index, key) in KEYS[..count].iter().enumerate() {
            // Sometimes a step needs a later one, which would never end.
            let before = if self.rng.chance(20) { count } else { index };
            let needs = KEYS[..before].iter().filter(|other| *other != key && self.rng.chance(400)).copied();
            let needs = needs.map(label).collect();
            steps.push(StepSpec { key: label(key), needs, again: Vec::new(), max_rounds: 1, instead: None });
        }
        if count > 2 && self.rng.chance(500) {
            steps[2].again = vec![label("write"), label("review")];
            steps[2].max_rounds = 3;
        }
        if count > 3 && self.rng.chance(500) {
            steps[1].instead = Some(label("by-hand"));
        }
        let lead = self.rng.chance(400).then(|| self.somebody(sight));
        let start = WorkflowStart { name: label("ship"), digest: Digest::of(b"a definition"), steps, lead };
        Draft { content: self.content(), ..self.draft(actor, Intent::WorkflowStart(start)) }
    }

    fn workflow_and_step(&mut self, sight: &Sight) -> Option<(SeenWorkflow, StepRow, Name)> {
        let workflow = self.rng.pick_any(&sight.workflows)?.clone();
        let step = self.rng.pick_any(&workflow.steps)?.clone();
        let actor = if self.rng.chance(60) { self.somebody(sight) } else { workflow.row.owner.clone() };
        Some((workflow, step, actor))
    }

    pub(super) fn step(&mut self, sight: &Sight) -> Option<Draft> {
        let (workflow, step, actor) = self.workflow_and_step(sight)?;
        let of = if step.key == "plan" { 2 } else { 1 };
        let item = 1 + u32::try_from(self.rng.below(of as usize)).unwrap_or(0);
        let last = workflow
            .tasks
            .iter()
            .filter(|task| (task.step, task.round, task.item) == (step.ordinal, step.round, item))
            .rfind(|task| task.part == TaskPart::Work);
        let failed = last.is_some_and(|last| last.state == TaskState::Failed);
        let failure = failed && self.rng.chance(300);
        let attempt = match last {
            Some(last) if failure || self.rng.chance(60) => last.attempt,
            Some(last) => last.attempt + 1,
            None => 1,
        };
        let is_asked = failure || step.key == "merge";
        let to = if self.rng.chance(200) { self.address(sight) } else { self.somebody(sight).as_str().parse().ok()? };
        let kind = if is_asked { "question" } else { "directive" };
        let mail = Send {
            workflow: Some(workflow.row.label.clone()),
            step: Some(step.key.clone()),
            conversation: Some(workflow.row.label.clone()).filter(|_| !self.rng.chance(20)),
            ..Send::plain(kind.parse().expect("a type"), vec![to])
        };
        let ask = is_asked.then(|| StepAsk {
            choices: vec!["approve".parse().expect("a word"), "deny".parse().expect("a word")],
            default: None,
            deadline: self.rng.chance(400).then(|| When::InMs(self.rng.between(1, limits::HOUR_MS))),
        });
        let limit = !is_asked && self.rng.chance(400);
        let sent = WorkflowStep {
            workflow: workflow.row.label,
            step: step.key,
            round: if self.rng.chance(40) { step.round + 1 } else { step.round },
            item,
            of,
            attempt,
            failure,
            mail,
            ask,
            time_limit_ms: limit.then(|| self.rng.between(limits::STEP_TIME_MS_MIN, limits::HOUR_MS)),
        };
        Some(Draft { content: self.content(), ..self.draft(actor, Intent::WorkflowStep(sent)) })
    }

    pub(super) fn mark_step(&mut self, sight: &Sight) -> Option<Draft> {
        let (workflow, step, actor) = self.workflow_and_step(sight)?;
        let round = if self.rng.chance(40) { step.round + 1 } else { step.round };
        let what = self.rng.weighted(&[
            (40, StepMark::Done),
            (15, StepMark::Again),
            (15, StepMark::Skipped),
            (20, StepMark::Failed),
            (10, StepMark::Waiting),
        ]);
        let workflow = if self.rng.chance(30) { label("ship-999") } else { workflow.row.label };
        let step = if self.rng.chance(30) { label("nowhere") } else { step.key };
        let mark = WorkflowMark { workflow, step, round, what };
        Some(Draft { content: self.content(), ..self.draft(actor, Intent::WorkflowMark(mark)) })
    }

    pub(super) fn end_workflow(&mut self, sight: &Sight) -> Option<Draft> {
        let (workflow, step, actor) = self.workflow_and_step(sight)?;
        let workflow = workflow.row.label;
        if self.rng.chance(500) {
            let step = self.rng.chance(500).then_some(step.key);
            return Some(self.draft(actor, Intent::WorkflowRetry(WorkflowRetry { workflow, step })));
        }
        let mail = self.rng.chance(300).then(|| {
            let to = vec![self.address(sight)];
            self.send_header(to)
        });
        let how = *self.rng.pick(WorkflowEnding::ALL);
        let end = WorkflowEnd { workflow, how, mail };
        Some(Draft { content: self.content(), ..self.draft(actor, Intent::WorkflowEnd(end)) })
    }

    /// Messages that only say which step they are.
    pub(super) fn numbered_step(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let to = vec![self.address(sight)];
        let step = *self.rng.pick(&["1", "2", "3", "last"]);
        let send = Send {
            workflow: Some(label("by-mail")),
            step: Some(label(step)),
            ..Send::plain("directive".parse().expect("a type"), to)
        };
        Draft { content: self.content(), ..self.draft(actor, Intent::Send(send)) }
    }
}
