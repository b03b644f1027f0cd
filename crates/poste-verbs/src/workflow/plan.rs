//! Plans what is next in a workflow: a function of its definition, its inputs and its history alone.
//!
//! A process that submits the acts may die at any point, or run twice at once: the log accepts each act once, and the
//! next plan starts from the log.

use std::collections::BTreeMap;

use poste_core::limits;
use poste_core::log::{Artifact, MessageNo, StepMark, WorkflowEnding};
use poste_core::store::tables::{StepState, TaskPart, TaskState};
use poste_core::text::Label;
use poste_core::views::{StepView, TaskView, WorkflowView};

use super::definition::{Definition, ForEach, OnFail, Step};
use super::words::{Field, Reference, items, verdict};

/// One record to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Send(Box<Task>),
    Mark { step: Label, round: u32, what: StepMark, why: Option<String> },
    End { how: WorkflowEnding, why: Option<String> },
}

/// A message of a step, with its texts filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub step: Label,
    pub round: u32,
    pub item: u32,
    pub of: u32,
    pub attempt: u32,
    /// Why the attempt failed, if the lead is asked what to do about it.
    pub failure: Option<String>,
    pub subject: String,
    pub body: String,
    pub expect: Option<String>,
    pub files: Vec<Artifact>,
    /// The messages it builds on.
    pub references: Vec<MessageNo>,
}

/// The choices after a failure.
pub const RETRY: &str = "retry";
pub const SKIP: &str = "skip";
pub const FAIL: &str = "fail";

/// A value that is filled into a text is truncated to this. The message it comes from has all of it.
const VALUE_CHARS_MAX: usize = 60_000;

pub type Inputs = BTreeMap<String, String>;

/// Whether there may be anything to do, judged by states alone. It reads no content, so it is cheap enough for every
/// record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pending {
    None,
    /// A step that could not be sent may be tried again.
    Waiting,
    Ready,
}

impl Pending {
    pub fn of(view: &WorkflowView) -> Self {
        let order = Order(view);
        let doomed = order.doomed().is_some();
        let mut pending = Pending::None;
        for step in view.steps.iter().filter(|step| !step.is_settled() && order.may_begin(step)) {
            let found = match order.is_wanted(step) {
                None => Pending::None,
                Some(false) => Pending::Ready,
                Some(true) if step.current().next().is_none() && doomed => Pending::None,
                Some(true) if !is_idle(step) => Pending::None,
                Some(true) if step.state == StepState::Waiting => Pending::Waiting,
                Some(true) => Pending::Ready,
            };
            pending = pending.max(found);
        }
        let is_over = match doomed {
            true => !view.steps.iter().any(StepView::is_running),
            false => view.steps.iter().all(|step| order.is_satisfied(step)),
        };
        if is_over { Pending::Ready } else { pending }
    }
}

/// Whether no item is in progress, or one is neither in progress nor done.
fn is_idle(step: &StepView) -> bool {
    let (mut busy, mut done) = (0, 0);
    let of = step.current().next().map_or(1, |task| task.of);
    let mut last: BTreeMap<u32, &TaskView> = BTreeMap::new();
    for task in step.current() {
        last.insert(task.item, task); // in order of attempts, and a question after the work it is about
    }
    for task in last.values() {
        match (task.state, task.part) {
            (TaskState::Open, _) => busy += 1,
            (TaskState::Done, TaskPart::Work) => done += 1,
            _ => {}
        }
    }
    busy == 0 || busy + done < of
}

/// Which steps may begin and which have ended, judged by their states.
struct Order<'a>(&'a WorkflowView);

impl<'a> Order<'a> {
    /// A step that has failed and that no replacement can make up for.
    fn doomed(&self) -> Option<&'a StepView> {
        self.0.steps.iter().find(|step| step.state == StepState::Failed && self.is_final(step))
    }

    fn stand_in(&self, step: &StepView) -> Option<&'a StepView> {
        step.instead.as_ref().and_then(|other| self.0.step(other.as_str()))
    }

    /// Whether the steps that need it may begin.
    fn is_satisfied(&self, step: &StepView) -> bool {
        match step.state {
            StepState::Done | StepState::Skipped => true,
            StepState::Failed => self.stand_in(step).is_some_and(|other| self.is_satisfied(other)),
            StepState::Open | StepState::Waiting => false,
        }
    }

    /// Whether a failed step has no replacement left.
    fn is_final(&self, step: &StepView) -> bool {
        match self.stand_in(step) {
            None => true,
            Some(other) => other.state == StepState::Failed && self.is_final(other),
        }
    }

    fn may_begin(&self, step: &StepView) -> bool {
        step.needs.iter().all(|need| self.0.step(need.as_str()).is_some_and(|need| self.is_satisfied(need)))
    }

    /// The steps that a step replaces.
    fn replaced<'s>(&'s self, step: &'s StepView) -> impl Iterator<Item = &'a StepView> + 's {
        self.0.steps.iter().filter(|other| other.instead.as_ref() == Some(&step.key))
    }

    /// A replacement runs if one of the steps it replaces failed; `None`: it is not known yet.
    fn is_wanted(&self, step: &StepView) -> Option<bool> {
        if self.replaced(step).next().is_none() || self.replaced(step).any(|other| other.state == StepState::Failed) {
            return Some(true);
        }
        self.replaced(step).all(StepView::is_settled).then_some(false)
    }
}

/// All acts that are possible now. Empty: the workflow waits for an agent, or has ended.
pub fn plan(definition: &Definition, inputs: &Inputs, view: &WorkflowView) -> Vec<Act> {
    if !view.is_open() {
        return Vec::new();
    }
    let look = Look { definition, inputs, view, order: Order(view) };
    let doomed = look.order.doomed();
    let mut acts = Vec::new();
    for step in &definition.steps {
        let Some(seen) = view.step(step.key.as_str()) else { continue };
        if !seen.is_settled() && look.order.may_begin(seen) {
            acts.extend(look.step(step, seen, doomed.is_some()));
        }
    }
    if !acts.is_empty() {
        return acts;
    }
    if let Some(failed) = doomed {
        // Running steps finish; nothing new begins.
        let runs = view.steps.iter().any(StepView::is_running);
        let why = failed.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let why = Some(format!("step {} failed{why}", failed.key));
        return if runs { Vec::new() } else { vec![Act::End { how: WorkflowEnding::Failed, why }] };
    }
    if view.steps.iter().all(|step| look.order.is_satisfied(step)) {
        return vec![Act::End { how: WorkflowEnding::Finished, why: None }];
    }
    Vec::new()
}

struct Look<'a> {
    definition: &'a Definition,
    inputs: &'a Inputs,
    view: &'a WorkflowView,
    order: Order<'a>,
}

/// The state of one item of a step.
enum Item<'a> {
    Next(u32),
    Ask(&'a TaskView),
    Running,
    Done,
    Skipped(String),
    Failed(String),
}

impl Look<'_> {
    fn step(&self, step: &Step, seen: &StepView, doomed: bool) -> Vec<Act> {
        let mark = |what, why: Option<String>| vec![Act::Mark { step: step.key.clone(), round: seen.round, what, why }];
        match self.order.is_wanted(seen) {
            Some(true) => {}
            Some(false) => return mark(StepMark::Skipped, Some("no step failed that it replaces".to_owned())),
            None => return Vec::new(),
        }
        let has_begun = seen.current().next().is_some();
        if !has_begun && doomed {
            return Vec::new();
        }
        let values = Values { look: self, step, seen, item: None, attempt: 1, failure: "" };
        if !has_begun && step.when.as_ref().is_some_and(|(when, _)| !when.holds(&|reference| values.whole(reference))) {
            return mark(StepMark::Skipped, Some("its condition is false".to_owned()));
        }
        let list = match self.items(step, seen, &values) {
            Ok(list) => list,
            Err(why) => return mark(StepMark::Failed, Some(why)),
        };
        if list.is_empty() {
            return mark(StepMark::Skipped, Some("its list is empty".to_owned()));
        }
        self.items_of(step, seen, &list, doomed)
    }

    /// The items of a step; one unnamed item for a step without a list.
    fn items(&self, step: &Step, seen: &StepView, values: &Values<'_>) -> Result<Vec<String>, String> {
        let list = match &step.for_each {
            None => return Ok(vec![String::new()]),
            Some((ForEach::List(list), _)) => list.clone(),
            Some((ForEach::Value(reference), _)) => items(&values.whole(reference)),
        };
        if list.len() > limits::WORKFLOW_ITEMS_MAX as usize {
            return Err(format!("its list has {} items; the maximum is {}", list.len(), limits::WORKFLOW_ITEMS_MAX));
        }
        // Its list may have been erased since. The first task recorded the number of items.
        match seen.current().next() {
            Some(first) if first.of as usize != list.len() => {
                let mut list = list;
                list.resize(first.of as usize, String::new());
                Ok(list)
            }
            _ => Ok(list),
        }
    }

    fn items_of(&self, step: &Step, seen: &StepView, list: &[String], doomed: bool) -> Vec<Act> {
        let of = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let mut acts = Vec::new();
        let (mut runs, mut failed, mut skipped) = (false, None, None);
        for (number, item) in (1..=of).zip(list) {
            let tasks: Vec<&TaskView> = seen.current().filter(|task| task.item == number).collect();
            let task = |attempt, failure: Option<String>| {
                let task = self.task(step, seen, (number, of, item), attempt, &tasks, failure);
                Act::Send(Box::new(task))
            };
            match item_state(step, seen, &tasks) {
                // A retry by hand is wanted even though another step failed for good.
                Item::Next(_) if doomed && seen.granted == 0 => {
                    failed = failed.or(Some("it was not retried".to_owned()));
                }
                Item::Next(attempt) => acts.push(task(attempt, None)),
                Item::Ask(last) => acts.push(task(last.attempt, Some(failure_of(last)))),
                Item::Running => runs = true,
                Item::Done => {}
                Item::Skipped(why) => skipped = skipped.or(Some(why)),
                Item::Failed(why) => failed = failed.or(Some(why)),
            }
        }
        if runs || !acts.is_empty() {
            return acts;
        }
        let mark = |what, why| vec![Act::Mark { step: step.key.clone(), round: seen.round, what, why }];
        match (failed, skipped) {
            (Some(why), _) if step.on_fail == OnFail::Skip => mark(StepMark::Skipped, Some(why)),
            (Some(why), _) => mark(StepMark::Failed, Some(why)),
            (None, Some(why)) => mark(StepMark::Skipped, Some(why)),
            (None, None) => self.all_done(step, seen, doomed),
        }
    }

    fn all_done(&self, step: &Step, seen: &StepView, doomed: bool) -> Vec<Act> {
        let mark = |what, why| vec![Act::Mark { step: step.key.clone(), round: seen.round, what, why }];
        let values = Values { look: self, step, seen, item: None, attempt: 1, failure: "" };
        let Some((until, _)) = &step.until else { return mark(StepMark::Done, None) };
        if until.holds(&|reference| values.whole(reference)) {
            return mark(StepMark::Done, None);
        }
        if seen.round < seen.max_rounds.saturating_add(seen.granted) && !doomed {
            return mark(StepMark::Again, None);
        }
        let why = Some(format!("until is still false after {} rounds", seen.round));
        match step.on_fail {
            OnFail::Skip => mark(StepMark::Skipped, why),
            _ => mark(StepMark::Failed, why),
        }
    }

    fn task(
        &self,
        step: &Step,
        seen: &StepView,
        (item, of, name): (u32, u32, &str),
        attempt: u32,
        before: &[&TaskView],
        failure: Option<String>,
    ) -> Task {
        let failed = before.iter().rev().find(|task| task.part == TaskPart::Work && task.state == TaskState::Failed);
        // A replacement needs to know why the step it replaces failed.
        let replaced = || self.order.replaced(seen).find(|other| other.state == StepState::Failed);
        let last_failure = failed.map(|task| failure_of(task));
        let last_failure = last_failure.or_else(|| replaced()?.reason.clone()).unwrap_or_default();
        let item_value = step.for_each.is_some().then_some((name, item, of));
        let values = Values { look: self, step, seen, item: item_value, attempt, failure: &last_failure };
        let fill = |reference: &Reference| values.of(reference);
        let named = if of > 1 { format!(" ({item} of {of})") } else { String::new() };
        let title = step.title.as_ref().map(|title| title.fill(&fill));
        let title = title.unwrap_or_else(|| format!("{}: {}{named}", self.definition.title, step.key));
        let (subject, body, expect) = match &failure {
            None => (title, step.request.fill(&fill), step.expect.as_ref().map(|expect| expect.fill(&fill))),
            Some(why) => {
                let workflow = &self.view.workflow;
                let subject = format!("Step {} of {workflow} failed{named}: {RETRY}, {SKIP} or {FAIL}?", step.key);
                let numbers = numbers(before.iter().copied());
                let body =
                    format!("{why}\n\nIts messages: {numbers}. What it was asked:\n\n{}", step.request.fill(&fill));
                (subject, body, None)
            }
        };
        let mut files: Vec<Artifact> = Vec::new();
        let mut references = Vec::new();
        for need in &seen.needs {
            let Some(need) = self.view.step(need.as_str()) else { continue };
            for task in self.results(need) {
                references.push(task.result.as_ref().and_then(|result| result.message).unwrap_or(task.message));
                let found = task.result.iter().flat_map(|result| &result.files);
                for file in found {
                    if !files.contains(file) {
                        files.push(file.clone());
                    }
                }
            }
        }
        files.truncate(limits::ARTIFACTS_MAX);
        references.truncate(limits::REFERENCES_MAX);
        Task {
            step: step.key.clone(),
            round: seen.round,
            item,
            of,
            attempt,
            failure,
            subject: one_line(&subject),
            body,
            expect,
            files,
            references,
        }
    }

    /// The finished tasks of a step, by item, of the newest round that has any. A replacement speaks for a failed step.
    fn results<'s>(&'s self, step: &'s StepView) -> Vec<&'s TaskView> {
        if step.state == StepState::Failed
            && let Some(other) = self.order.stand_in(step)
        {
            return self.results(other);
        }
        let done = |task: &&TaskView| task.part == TaskPart::Work && task.state == TaskState::Done;
        let round = step.tasks.iter().filter(done).map(|task| task.round).max();
        step.tasks.iter().filter(done).filter(|task| Some(task.round) == round).collect()
    }
}

/// Decides the state of one item.
fn item_state<'a>(step: &Step, seen: &StepView, tasks: &[&'a TaskView]) -> Item<'a> {
    let Some(last) = tasks.iter().rev().find(|task| task.part == TaskPart::Work) else { return Item::Next(1) };
    match last.state {
        TaskState::Open => return Item::Running,
        TaskState::Done => return Item::Done,
        TaskState::Failed => {}
    }
    let question = tasks.iter().find(|task| task.part == TaskPart::Question && task.attempt == last.attempt);
    // Each retry that was chosen adds one, and so does each that was granted since, whatever was chosen before that.
    let is_retry = |task: &&&TaskView| {
        task.part == TaskPart::Question && task.choice.as_ref().is_some_and(|choice| choice.as_str() == RETRY)
    };
    let chosen = tasks.iter().filter(is_retry).count();
    let tries = step.retries.saturating_add(seen.granted).saturating_add(u32::try_from(chosen).unwrap_or(u32::MAX));
    match question.map(|question| (question.state, question.choice.as_ref().map(|choice| choice.as_str()))) {
        Some((TaskState::Open, _)) => Item::Running,
        Some((_, Some(RETRY))) => Item::Next(last.attempt + 1),
        Some((_, Some(SKIP))) => Item::Skipped(failure_of(last)),
        _ if last.attempt <= tries => Item::Next(last.attempt + 1),
        Some(_) => Item::Failed(failure_of(last)),
        None if step.on_fail == OnFail::Ask => Item::Ask(last),
        None => Item::Failed(failure_of(last)),
    }
}

/// Why a task failed, for people.
fn failure_of(task: &TaskView) -> String {
    let said = task.result.as_ref().map(|result| match result.redacted {
        true => "(redacted)".to_owned(),
        false => result.summary.clone().unwrap_or_else(|| result.text.clone()),
    });
    let said = said.filter(|said| !said.trim().is_empty()).map(|said| format!(": {}", one_line(&said)));
    let said = said.unwrap_or_default();
    let number = task.message;
    match (&task.choice, &task.by) {
        (Some(choice), _) => format!("#{number} was decided: {choice}{said}"),
        (None, Some(by)) if task.why.is_some() => {
            let why = task.why.map(|why| why.word().replace('_', " ")).unwrap_or_default();
            format!("#{number} of {by} ended ({why}){said}")
        }
        _ => format!("#{number} ended ({}){said}", task.why.map_or("open", |why| why.word()).replace('_', " ")),
    }
}

fn numbers<'a>(tasks: impl Iterator<Item = &'a TaskView>) -> String {
    tasks.map(|task| format!("#{}", task.message)).collect::<Vec<_>>().join(" ")
}

fn one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.len() <= limits::SUBJECT_BYTES_MAX {
        true => line,
        false => {
            let mut cut: String = line.chars().take(limits::SUBJECT_BYTES_MAX / 4 - 1).collect();
            cut.push('…');
            cut
        }
    }
}

/// The values that texts of a step can refer to.
struct Values<'a> {
    look: &'a Look<'a>,
    step: &'a Step,
    seen: &'a StepView,
    item: Option<(&'a str, u32, u32)>,
    attempt: u32,
    failure: &'a str,
}

impl Values<'_> {
    /// A value for a text, truncated so that the text stays readable.
    fn of(&self, reference: &Reference) -> String {
        let value = self.whole(reference);
        match reference {
            Reference::Input(name) => cut(value, || format!("input {name}")),
            Reference::Step { key, .. } => match self.look.view.step(key) {
                Some(step) => cut(value, || numbers(step.tasks.iter())),
                None => value,
            },
            Reference::Item => cut(value, || "its list".to_owned()),
            _ => value,
        }
    }

    /// A whole value, for lists and conditions: a truncated one would change their result.
    fn whole(&self, reference: &Reference) -> String {
        let view = self.look.view;
        match reference {
            Reference::Input(name) => self.input(name),
            Reference::Step { key, field } => view.step(key).map(|step| self.field(step, field)).unwrap_or_default(),
            Reference::Item => self.item.map(|(name, ..)| name.to_owned()).unwrap_or_default(),
            Reference::Index => self.item.map_or(1, |(_, index, _)| index).to_string(),
            Reference::Items => self.item.map_or(1, |(.., of)| of).to_string(),
            Reference::Round => self.seen.round.to_string(),
            Reference::Attempt => self.attempt.to_string(),
            Reference::Failure => self.failure.to_owned(),
            Reference::Workflow => view.workflow.to_string(),
            Reference::Name => self.look.definition.name.to_string(),
        }
    }

    fn input(&self, name: &str) -> String {
        let given = self.look.inputs.get(name).cloned();
        let declared = self.look.definition.inputs.iter().find(|input| input.name == name);
        given.or_else(|| declared.and_then(|input| input.default.clone())).unwrap_or_default()
    }

    fn field(&self, step: &StepView, field: &Field) -> String {
        let done = match step.key == self.step.key {
            // Its own results, for its `until`: those of this round.
            true => self.seen.current().filter(|task| task.state == TaskState::Done).collect(),
            false => self.look.results(step),
        };
        let text = |task: &&TaskView| match &task.result {
            Some(result) if result.redacted => "(redacted)".to_owned(),
            Some(result) => result.text.clone(),
            None => task.choice.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        let texts: Vec<String> = done.iter().map(text).collect();
        let first = texts.first().cloned().unwrap_or_default();
        match field {
            Field::Result if texts.len() > 1 => {
                let parts = texts.iter().enumerate().map(|(index, text)| format!("## {}\n\n{text}", index + 1));
                parts.collect::<Vec<_>>().join("\n\n")
            }
            Field::Result => first,
            Field::Results => serde_json::to_string(&texts).unwrap_or_default(),
            Field::Summary => {
                let summary = |task: &&TaskView| task.result.as_ref().and_then(|result| result.summary.clone());
                done.iter().filter_map(summary).collect::<Vec<_>>().join("\n")
            }
            // Several items have one verdict only if all agree.
            Field::Verdict => {
                let mut verdicts: Vec<String> = texts.iter().map(|text| verdict(text)).collect();
                verdicts.dedup();
                verdicts.join(" ")
            }
            Field::Choice => {
                let asked = step.tasks.iter().rev().find(|task| task.part == TaskPart::Work && task.choice.is_some());
                asked.and_then(|task| task.choice.as_ref()).map(ToString::to_string).unwrap_or_default()
            }
            Field::State => step.state.to_string(),
            Field::Message => numbers(done.into_iter()),
            Field::Files => {
                let files = done.iter().filter_map(|task| task.result.as_ref()).flat_map(|result| &result.files);
                files.map(|file| file.path.clone()).collect::<Vec<_>>().join("\n")
            }
            Field::Payload(path) => {
                let payload = done.first().and_then(|task| task.result.as_ref()?.payload.as_ref());
                payload.map(|payload| at_path(payload, path)).unwrap_or_default()
            }
        }
    }
}

fn at_path(json: &str, path: &[String]) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(json) else { return String::new() };
    for part in path {
        let next = match part.parse::<usize>() {
            Ok(index) if value.is_array() => value.get_mut(index),
            _ => value.get_mut(part),
        };
        value = next.map(serde_json::Value::take).unwrap_or_default();
    }
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

fn cut(text: String, whole_in: impl Fn() -> String) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}\n\n(truncated; the full text is in {})", &text[..end], whole_in()),
    }
}
