//! Checks whether a definition can run: steps that wait for each other, unknown names, values that are not available.

use std::collections::BTreeSet;

use poste_config::Problem;
use poste_core::Address;
use poste_core::text::{Label, nearest};

use super::definition::{Definition, ForEach, OnFail, Step, Target, line_of};
use super::source::{Format, problem};
use super::words::Reference;

/// Which addresses a step can be sent to: registered agents, and groups with members.
pub trait Known {
    /// Why no agent would get it; `None` if one would.
    fn missing(&self, address: &Address) -> Option<String>;
}

/// For a definition without an office: every address may exist.
#[derive(Debug, Clone, Copy)]
pub struct AnyAddress;

impl Known for AnyAddress {
    fn missing(&self, _: &Address) -> Option<String> {
        None
    }
}

/// Reads and checks a definition. Returns it if it can run, and all problems from top to bottom.
pub fn lint(text: &str, format: Format, name: &Label, known: &dyn Known) -> (Option<Definition>, Vec<Problem>) {
    let (definition, mut problems) = Definition::read(text, format, name);
    let Some(mut definition) = definition else { return (None, problems) };
    let mut lint = Lint { text, problems: Vec::new() };
    lint.names(&definition);
    lint.order(&definition);
    // If a name or the order is wrong, it is unknown which step comes first, and that is reported only once.
    let in_order = problems.is_empty() && lint.problems.is_empty();
    if in_order {
        lint.loops(&mut definition);
    }
    lint.values(&definition, in_order);
    lint.recipients(&definition, known);
    problems.append(&mut lint.problems);
    problems.sort();
    problems.dedup();
    (problems.is_empty().then_some(definition), problems)
}

struct Lint<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl Lint<'_> {
    fn say(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(problem(Some(line), message));
    }

    fn unknown(&mut self, definition: &Definition, line: usize, what: &str, key: &Label) {
        let near = nearest(key.as_str(), definition.steps.iter().map(|step| step.key.as_str()));
        let hint = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        self.say(line, format!("{what} {key}, which is not a step{hint}"));
    }

    /// Reports unknown and duplicate steps.
    fn names(&mut self, definition: &Definition) {
        for (index, step) in definition.steps.iter().enumerate() {
            if let Some(first) = definition.steps[..index].iter().find(|other| other.key == step.key) {
                self.say(step.line, format!("step {} is already defined on line {}", step.key, first.line));
            }
            for (need, line) in &step.needs {
                if definition.index(need).is_none() {
                    self.unknown(definition, *line, &format!("step {} needs", step.key), need);
                }
            }
            if let OnFail::Instead(other) = &step.on_fail {
                let line = step.on_fail_line;
                if definition.index(other).is_none() {
                    let what = format!("on_fail of step {} must be fail, skip, ask or a step, but is", step.key);
                    self.unknown(definition, line, &what, other);
                } else if *other == step.key {
                    self.say(line, format!("step {other} cannot replace itself; to retry it, use retries = N"));
                }
            }
            if let Some((again, line)) = &step.again
                && definition.index(again).is_none()
            {
                self.unknown(definition, *line, &format!("the loop of step {} begins with", step.key), again);
            }
        }
    }

    /// Reports steps that wait for each other, and steps that are never reached.
    fn order(&mut self, definition: &Definition) {
        let graph = Graph::of(definition);
        let mut reported = BTreeSet::new();
        for index in 0..definition.steps.len() {
            let Some(cycle) = graph.cycle(index) else { continue };
            // A cycle is reported once, at its first step.
            if cycle.iter().any(|step| reported.contains(step)) {
                continue;
            }
            reported.extend(cycle.iter().copied());
            let keys: Vec<&str> = cycle.iter().map(|step| definition.steps[*step].key.as_str()).collect();
            let first = &definition.steps[index];
            let line = first.needs.first().map_or(first.line, |(_, line)| *line);
            self.say(line, format!("these steps wait for each other: {} → {}", keys.join(" → "), keys[0]));
        }
        for step in &definition.steps {
            if let Some((when, line)) = &step.when
                && when.references().next().is_none()
                && !when.holds(&|_| String::new())
            {
                self.say(*line, format!("step {} is never reached: its condition is always false", step.key));
            }
        }
    }

    /// Finds the steps of each loop, and reports steps that depend on the middle of one.
    fn loops(&mut self, definition: &mut Definition) {
        let graph = Graph::of(definition);
        let mut taken: Vec<Option<usize>> = vec![None; definition.steps.len()];
        for end in 0..definition.steps.len() {
            let step = &definition.steps[end];
            if step.until.is_none() {
                continue;
            }
            let (key, until_line) = (step.key.clone(), step.until.as_ref().map_or(step.line, |(_, line)| *line));
            let (first, line) = match &step.again {
                Some((again, line)) => (definition.index(again).unwrap_or(end), *line),
                None => (end, until_line),
            };
            if first != end && !graph.is_before(first, end) {
                let first = definition.steps[first].key.clone();
                self.say(line, format!("the loop of step {key} begins with {first}, which does not come before it"));
                continue;
            }
            let mut body: Vec<usize> = (0..definition.steps.len())
                .filter(|index| {
                    let after = *index == first || graph.is_before(first, *index);
                    let before = *index == end || graph.is_before(*index, end);
                    after && before
                })
                .collect();
            // A replacement for a step of the loop is in the loop too.
            let instead = |index: &usize| match &definition.steps[*index].on_fail {
                OnFail::Instead(other) => definition.index(other),
                _ => None,
            };
            let stand_ins: Vec<usize> = body.iter().filter_map(instead).collect();
            body.extend(stand_ins.into_iter().filter(|index| !body.contains(index)).collect::<Vec<_>>());
            body.sort_unstable();
            for index in &body {
                if let Some(other) = taken[*index].replace(end) {
                    let (shared, other) = (definition.steps[*index].key.clone(), definition.steps[other].key.clone());
                    self.say(line, format!("step {shared} is in the loops of {other} and {key}; only one is allowed"));
                }
            }
            for outside in (0..definition.steps.len()).filter(|index| !body.contains(index)) {
                for (need, line) in definition.steps[outside].needs.clone() {
                    let needed = definition.index(&need).unwrap_or(end);
                    if needed != end && body.contains(&needed) {
                        let outside = &definition.steps[outside].key;
                        let why = format!("step {outside} needs {need}, which may run again: it can only need {key}");
                        self.say(line, why);
                    }
                }
            }
            let body = body.iter().map(|index| definition.steps[*index].key.clone()).collect();
            definition.steps[end].body = body;
        }
    }

    /// Reports values that are not available to the text or condition that uses them.
    fn values(&mut self, definition: &Definition, in_order: bool) {
        let graph = in_order.then(|| Graph::of(definition));
        for (index, step) in definition.steps.iter().enumerate() {
            let mut used: Vec<(&'static str, usize, Reference, bool)> = Vec::new();
            let texts = [("title", &step.title), ("expect", &step.expect)];
            for (what, template) in texts {
                used.extend(template.iter().flat_map(|template| {
                    template.references().map(move |reference| (what, step.line, reference.clone(), false))
                }));
            }
            let request = step.request.references();
            used.extend(request.map(|reference| ("request", step.request_line, reference.clone(), false)));
            for (what, condition, own) in [("when", &step.when, false), ("until", &step.until, true)] {
                used.extend(condition.iter().flat_map(|(condition, line)| {
                    condition.references().map(move |reference| (what, *line, reference.clone(), own))
                }));
            }
            if let Some((ForEach::Value(reference), line)) = &step.for_each {
                used.push(("for_each", *line, reference.clone(), false));
            }
            for (what, line, reference, own) in used {
                if let Some(why) = self.missing(definition, graph.as_ref(), index, what, &reference, own) {
                    let line = line_of(self.text, line, &reference.to_string());
                    self.say(line, format!("step {}, {what}: {why}", step.key));
                }
            }
        }
    }

    fn missing(
        &self,
        definition: &Definition,
        graph: Option<&Graph>,
        index: usize,
        what: &str,
        reference: &Reference,
        own: bool,
    ) -> Option<String> {
        let step = &definition.steps[index];
        match reference {
            Reference::Input(name) => {
                if definition.inputs.iter().any(|input| input.name == *name) {
                    return None;
                }
                let near = nearest(name, definition.inputs.iter().map(|input| input.name.as_str()));
                let hint = near.first().map(|near| format!("; did you mean inputs.{near}?"));
                let hint = hint.unwrap_or_else(|| format!("; declare it under [inputs.{name}]"));
                Some(format!("there is no input {name}{hint}"))
            }
            Reference::Step { key, .. } => {
                let Some(other) = definition.steps.iter().position(|step| step.key.as_str() == key) else {
                    let near = nearest(key, definition.steps.iter().map(|step| step.key.as_str()));
                    let hint = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                    return Some(format!("there is no step {key}{hint}"));
                };
                let graph = graph?;
                let same_loop = definition
                    .steps
                    .iter()
                    .any(|end| end.body.contains(&step.key) && end.body.contains(&definition.steps[other].key));
                let is_there = graph.is_before(other, index) || (own && other == index) || same_loop;
                (!is_there).then(|| {
                    format!(
                        "step {key} does not come before {}: add it to needs, directly or through other steps",
                        step.key
                    )
                })
            }
            Reference::Item | Reference::Index if step.for_each.is_none() || what == "for_each" || what == "when" => {
                Some(format!("{reference} is only available in texts of a step with for_each"))
            }
            Reference::Item | Reference::Index if own => Some(format!("{reference} is for one item, until for all")),
            _ => None,
        }
    }

    /// Reports addresses that no agent would get mail for.
    fn recipients(&mut self, definition: &Definition, known: &dyn Known) {
        for Step { key, to, to_line, .. } in &definition.steps {
            let Target::Address(address) = to else { continue };
            if let Some(why) = known.missing(address) {
                self.say(*to_line, format!("step {key}: {why}"));
            }
        }
        if let Some(lead) = &definition.lead
            && let Some(why) = known.missing(&Address::Agent(lead.clone()))
        {
            let line = line_of(self.text, 1, "lead");
            self.say(line, format!("lead: {why}"));
        }
    }
}

/// Which steps each step waits for: those it needs, and those it replaces.
struct Graph(Vec<Vec<usize>>);

impl Graph {
    fn of(definition: &Definition) -> Self {
        let mut waits: Vec<Vec<usize>> = Vec::new();
        for step in &definition.steps {
            waits.push(step.needs.iter().filter_map(|(need, _)| definition.index(need)).collect());
        }
        for (index, step) in definition.steps.iter().enumerate() {
            if let OnFail::Instead(other) = &step.on_fail
                && let Some(other) = definition.index(other)
            {
                waits[other].push(index);
            }
        }
        Self(waits)
    }

    /// Whether a step ends before another one begins.
    fn is_before(&self, earlier: usize, later: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut left = self.0[later].clone();
        while let Some(index) = left.pop() {
            if index == earlier {
                return true;
            }
            if seen.insert(index) {
                left.extend(&self.0[index]);
            }
        }
        false
    }

    /// The path from a step back to itself, if there is one.
    fn cycle(&self, start: usize) -> Option<Vec<usize>> {
        let mut from = vec![None; self.0.len()];
        let mut left = vec![start];
        let mut seen = BTreeSet::new();
        while let Some(index) = left.pop() {
            for next in &self.0[index] {
                if *next == start {
                    let mut way = vec![index];
                    let mut at = index;
                    while let Some(before) = from[at].filter(|_| at != start) {
                        way.push(before);
                        at = before;
                    }
                    way.reverse();
                    return Some(way);
                }
                if seen.insert(*next) {
                    from[*next] = Some(index);
                    left.push(*next);
                }
            }
        }
        None
    }
}
