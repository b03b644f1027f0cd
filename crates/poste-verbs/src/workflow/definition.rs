//! Reads a definition, and reports every problem in how it is written.

use std::fmt::Display;
use std::str::FromStr;

use poste_config::Problem;
use poste_core::Address;
use poste_core::limits;
use poste_core::text::{Label, Name, TypeName, Word, nearest, quoted};
use poste_core::time::parse_duration_ms;
use poste_core::vocabulary::Priority;

use super::source::{self, Format, Node, Value, problem};
use super::words::{Condition, Reference, Template};

/// A workflow as its file defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub name: Label,
    pub title: String,
    /// The agent that is asked and notified; default: the one that starts the workflow.
    pub lead: Option<Name>,
    pub inputs: Vec<Input>,
    pub steps: Vec<Step>,
}

/// A value that is given when the workflow starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub name: String,
    pub about: Option<String>,
    /// Without a default the input is required.
    pub default: Option<String>,
    pub line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub key: Label,
    pub line: usize,
    pub to: Target,
    pub to_line: usize,
    pub title: Option<Template>,
    pub request: Template,
    pub request_line: usize,
    pub expect: Option<Template>,
    pub needs: Vec<(Label, usize)>,
    pub when: Option<(Condition, usize)>,
    pub for_each: Option<(ForEach, usize)>,
    pub until: Option<(Condition, usize)>,
    /// The step its loop begins with; default: this step.
    pub again: Option<(Label, usize)>,
    /// The steps of its loop, found by `check`.
    pub body: Vec<Label>,
    pub max_rounds: u32,
    pub retries: u32,
    pub time_limit_ms: Option<i64>,
    pub on_fail: OnFail,
    pub on_fail_line: usize,
    pub kind: TypeName,
    pub priority: Option<Priority>,
    /// Whether its message wants a response.
    pub answer: bool,
    pub ask: Option<Ask>,
}

/// Who does a step, or approves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Address(Address),
    /// The lead of the workflow.
    Lead,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForEach {
    List(Vec<String>),
    Value(Reference),
}

/// What to do when a step has failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFail {
    Fail,
    Skip,
    Ask,
    Instead(Label),
}

/// The approval of a step that is decided instead of done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub choices: Vec<Word>,
    pub default: Option<Word>,
    pub deadline_ms: Option<i64>,
    pub plan: bool,
}

const STEP_KEYS: &[&str] = &[
    "key",
    "title",
    "agent",
    "role",
    "can",
    "approval",
    "request",
    "expect",
    "needs",
    "when",
    "for_each",
    "until",
    "again",
    "max_rounds",
    "retries",
    "time_limit",
    "on_fail",
    "type",
    "priority",
    "answer",
    "choices",
    "default",
    "deadline",
    "plan",
];
const TOP_KEYS: &[&str] = &["name", "title", "lead", "inputs", "step", "steps"];
const INPUT_KEYS: &[&str] = &["about", "default"];

/// The default of `max_rounds`.
const ROUNDS_DEFAULT: u32 = 5;

impl Definition {
    /// Reads a definition; `name` is the name of its file. Reports all problems at once, and returns what could be
    /// read, for later checks.
    pub fn read(text: &str, format: Format, name: &Label) -> (Option<Self>, Vec<Problem>) {
        if text.len() > limits::WORKFLOW_BYTES_MAX {
            let why = format!("a definition has at most {} bytes", limits::WORKFLOW_BYTES_MAX);
            return (None, vec![problem(None, why)]);
        }
        let root = match source::read(text, format) {
            Ok(root) => root,
            Err(problem) => return (None, vec![problem]),
        };
        let mut reader = Reader { text, problems: Vec::new() };
        let definition = reader.definition(&root, name);
        (definition, reader.problems)
    }

    pub fn step(&self, key: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.key == key)
    }

    pub fn index(&self, key: &Label) -> Option<usize> {
        self.steps.iter().position(|step| step.key == *key)
    }
}

struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

/// The fields of a table.
struct Fields<'n>(&'n [(String, usize, Node)]);

impl<'n> Fields<'n> {
    fn get(&self, key: &str) -> Option<&'n Node> {
        self.0.iter().find(|(name, ..)| name == key).map(|(.., node)| node)
    }
}

impl Reader<'_> {
    fn say(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(problem(Some(line), message));
    }

    /// Returns what was read, or reports what is wrong with it.
    fn check<T>(&mut self, line: usize, what: &str, read: Result<T, impl Display>) -> Option<T> {
        read.map_err(|why| self.say(line, format!("{what}: {why}"))).ok()
    }

    fn table<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let Value::Table(entries) = &node.value else {
            self.say(node.line, format!("{what} must be a table, not {}", node.value.kind()));
            return None;
        };
        for (key, line, _) in entries {
            if !known.is_empty() && !known.contains(&key.as_str()) {
                let near = nearest(key, known.iter().copied());
                let hint = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                self.say(*line, format!("{what} has no key {}{hint}", quoted(key)));
            }
        }
        Some(Fields(entries))
    }

    fn definition(&mut self, root: &Node, name: &Label) -> Option<Definition> {
        let fields = self.table(root, "a workflow", TOP_KEYS)?;
        let name = fields.get("name").and_then(|node| self.parsed(node, "name")).unwrap_or_else(|| name.clone());
        let title = fields.get("title").and_then(|node| self.text(node, "title"));
        let lead = fields.get("lead").and_then(|node| self.parsed(node, "lead"));
        let inputs = fields.get("inputs").map(|node| self.inputs(node)).unwrap_or_default();
        let mut steps = Vec::new();
        for key in ["step", "steps"] {
            let Some(node) = fields.get(key) else { continue };
            let Value::List(list) = &node.value else {
                self.say(node.line, format!("{key} must be a list of steps, not {}", node.value.kind()));
                continue;
            };
            for item in list {
                steps.extend(self.step(item));
            }
        }
        if steps.is_empty() && self.problems.is_empty() {
            self.say(1, "a workflow needs at least one step; begin it with [[step]]");
        }
        if steps.len() > limits::WORKFLOW_STEPS_MAX {
            self.say(1, format!("a workflow has at most {} steps", limits::WORKFLOW_STEPS_MAX));
        }
        Some(Definition { title: title.unwrap_or_else(|| name.to_string()), name, lead, inputs, steps })
    }

    fn inputs(&mut self, node: &Node) -> Vec<Input> {
        let Some(fields) = self.table(node, "inputs", &[]) else { return Vec::new() };
        let mut inputs = Vec::new();
        for (name, line, node) in fields.0 {
            let line = *line;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
                self.say(line, format!("{} is not a valid input name: use letters, digits, _ and -", quoted(name)));
                continue;
            }
            let (about, default) = match &node.value {
                // `topic = "testing"` is short for a default.
                Value::Text(_) | Value::Whole(_) | Value::Flag(_) | Value::List(_) => (None, self.input_text(node)),
                Value::Table(_) => match self.table(node, "an input", INPUT_KEYS) {
                    Some(fields) => {
                        let about = fields.get("about").and_then(|node| self.text(node, "about"));
                        (about, fields.get("default").and_then(|node| self.input_text(node)))
                    }
                    None => continue,
                },
                Value::Other => (None, None),
            };
            inputs.push(Input { name: name.clone(), about, default, line });
        }
        inputs
    }

    /// The value of an input as a text; a list as JSON.
    fn input_text(&mut self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Whole(number) => Some(number.to_string()),
            Value::Flag(flag) => Some(flag.to_string()),
            Value::List(list) => {
                let texts: Vec<String> = list.iter().filter_map(|item| self.text(item, "an item")).collect();
                serde_json::to_string(&texts).ok()
            }
            Value::Table(_) | Value::Other => {
                self.say(node.line, "an input must be a string, a number, true, false, or a list of strings");
                None
            }
        }
    }

    fn step(&mut self, node: &Node) -> Option<Step> {
        let fields = self.table(node, "a step", STEP_KEYS)?;
        let Some(key_node) = fields.get("key") else {
            self.say(node.line, "a step has no key");
            return None;
        };
        let key: Label = self.parsed(key_node, "key")?;
        if key.as_str().contains(['.', ':']) {
            self.say(key_node.line, format!("the key {key} has a dot or a colon, so texts cannot refer to it"));
        }
        let shown = format!("step {key}");
        let ask = self.ask(&fields, &shown);
        let (to, to_line) = self.target(&fields, node.line, &shown)?;
        let request = self.template(&fields, "request");
        let request_line = fields.get("request").map_or(node.line, |node| node.line);
        if request.is_none() && fields.get("request").is_none() {
            self.say(node.line, format!("{shown} has no request, the task for {to_name}", to_name = name_of(&to)));
        }
        let until = self.condition(&fields, "until");
        let again = fields.get("again").and_then(|node| Some((self.parsed(node, "again")?, node.line)));
        if let Some((_, line)) = again.as_ref().filter(|_| until.is_none()) {
            self.say(*line, format!("{shown} has again but no until"));
        }
        let rounds = self.count(&fields, "max_rounds", 2, limits::WORKFLOW_ROUNDS_MAX);
        if let (Some(node), None) = (fields.get("max_rounds"), &until) {
            self.say(node.line, format!("{shown} has max_rounds but no until"));
        }
        let time_limit = self.length(&fields, "time_limit", limits::STEP_TIME_MS_MIN, limits::STEP_TIME_MS_MAX);
        if let (Some(node), true) = (fields.get("time_limit"), ask.is_some()) {
            self.say(node.line, format!("{shown} is an approval: use deadline instead of time_limit"));
        }
        let kind = match (&ask, fields.get("type")) {
            (Some(_), Some(node)) => {
                self.say(node.line, format!("{shown} is an approval and cannot have a type"));
                None
            }
            (Some(ask), None) => Some(if ask.plan { "plan_approval_request" } else { "question" }.to_owned()),
            (None, Some(node)) => self.text(node, "type"),
            (None, None) => Some("directive".to_owned()),
        };
        let kind = kind.and_then(|kind| self.check(node.line, "type", kind.parse()));
        let (on_fail, on_fail_line) = match fields.get("on_fail") {
            None => (OnFail::Fail, node.line),
            Some(node) => (self.on_fail(node), node.line),
        };
        Some(Step {
            line: node.line,
            to,
            to_line,
            title: self.template(&fields, "title"),
            request: request.unwrap_or_default(),
            request_line,
            expect: self.template(&fields, "expect"),
            needs: self.labels(&fields, "needs"),
            when: self.condition(&fields, "when"),
            for_each: self.for_each(&fields),
            max_rounds: if until.is_some() { rounds.unwrap_or(ROUNDS_DEFAULT) } else { 1 },
            until,
            again,
            body: Vec::new(),
            retries: self.count(&fields, "retries", 0, limits::WORKFLOW_ATTEMPTS_MAX / 2).unwrap_or(0),
            time_limit_ms: time_limit,
            on_fail,
            on_fail_line,
            kind: kind.unwrap_or_else(|| "directive".parse().expect("directive is a built-in type")),
            priority: fields.get("priority").and_then(|node| self.parsed(node, "priority")),
            answer: fields.get("answer").is_none_or(|node| self.flag(node, "answer").unwrap_or(true)),
            ask,
            key,
        })
    }

    fn target(&mut self, fields: &Fields<'_>, line: usize, shown: &str) -> Option<(Target, usize)> {
        let given: Vec<(&str, &Node)> = ["agent", "role", "can", "approval"]
            .into_iter()
            .filter_map(|key| fields.get(key).map(|node| (key, node)))
            .collect();
        let [(key, node)] = given.as_slice() else {
            self.say(line, format!("{shown} needs exactly one of agent, role, can or approval"));
            return None;
        };
        let text = self.text(node, key)?;
        let address = match *key {
            "approval" if text == "lead" => return Some((Target::Lead, node.line)),
            "agent" if text.contains(':') => Err(format!("{} is a group: use role or can", quoted(&text))),
            "agent" | "approval" => text.parse::<Address>().map_err(|error| error.to_string()),
            group => format!("{group}:{text}").parse::<Address>().map_err(|error| error.to_string()),
        };
        match self.check(node.line, key, address)? {
            address @ (Address::Agent(_) | Address::Role(_) | Address::Can(_)) => {
                Some((Target::Address(address), node.line))
            }
            _ => {
                self.say(node.line, format!("{shown} must go to one agent, or to a group of which one takes it"));
                None
            }
        }
    }

    fn ask(&mut self, fields: &Fields<'_>, shown: &str) -> Option<Ask> {
        if fields.get("approval").is_none() {
            for key in ["choices", "default", "deadline", "plan"] {
                if let Some(node) = fields.get(key) {
                    self.say(node.line, format!("{shown} has {key} but no approval"));
                }
            }
            return None;
        }
        let mut choices: Vec<Word> = Vec::new();
        for (text, line) in self.texts(fields, "choices") {
            match self.check(line, "choices", text.parse()) {
                Some(choice) if choices.contains(&choice) => self.say(line, format!("{choice} is offered twice")),
                choice => choices.extend(choice),
            }
        }
        if choices.is_empty() {
            choices = ["approve", "deny"].map(|word| word.parse().expect("a word")).to_vec();
        }
        let default: Option<Word> = fields.get("default").and_then(|node| self.parsed(node, "default"));
        let deadline_ms = self.length(fields, "deadline", limits::SECOND_MS, limits::HORIZON_MS_MAX);
        if let (Some(default), Some(node)) = (&default, fields.get("default")) {
            if !choices.contains(default) {
                self.say(node.line, format!("the default {default} is not one of the choices"));
            }
            if fields.get("deadline").is_none() {
                self.say(node.line, "a default needs a deadline");
            }
        }
        let plan = fields.get("plan").and_then(|node| self.flag(node, "plan")).unwrap_or(false);
        Some(Ask { choices, default, deadline_ms, plan })
    }

    fn on_fail(&mut self, node: &Node) -> OnFail {
        match self.text(node, "on_fail").as_deref() {
            None | Some("fail") => OnFail::Fail,
            Some("skip") => OnFail::Skip,
            Some("ask") => OnFail::Ask,
            Some(_) => self.parsed(node, "on_fail").map_or(OnFail::Fail, OnFail::Instead),
        }
    }

    fn for_each(&mut self, fields: &Fields<'_>) -> Option<(ForEach, usize)> {
        let node = fields.get("for_each")?;
        let each = match &node.value {
            Value::List(_) => ForEach::List(self.texts(fields, "for_each").into_iter().map(|(text, _)| text).collect()),
            _ => {
                let text = self.text(node, "for_each")?;
                let inner = text.trim();
                let inner = inner.strip_prefix("{{").and_then(|inner| inner.strip_suffix("}}")).unwrap_or(inner);
                ForEach::Value(self.check(node.line, "for_each", inner.trim().parse())?)
            }
        };
        Some((each, node.line))
    }

    fn condition(&mut self, fields: &Fields<'_>, key: &str) -> Option<(Condition, usize)> {
        let node = fields.get(key)?;
        let text = self.text(node, key)?;
        Some((self.check(node.line, key, Condition::parse(&text))?, node.line))
    }

    fn template(&mut self, fields: &Fields<'_>, key: &str) -> Option<Template> {
        let node = fields.get(key)?;
        let text = self.text(node, key)?;
        match Template::parse(&text) {
            Ok(template) => Some(template),
            Err(wrong) => {
                for (words, why) in wrong {
                    let line = line_of(self.text, node.line, &words);
                    self.say(line, format!("{key}: {why}"));
                }
                None
            }
        }
    }

    fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            // YAML reads a bare 2 as a number and true as a flag.
            Value::Whole(number) => Some(number.to_string()),
            Value::Flag(flag) => Some(flag.to_string()),
            other => {
                self.say(node.line, format!("{what} must be a string, not {}", other.kind()));
                None
            }
        }
    }

    fn flag(&mut self, node: &Node, what: &str) -> Option<bool> {
        match &node.value {
            Value::Flag(flag) => Some(*flag),
            other => {
                self.say(node.line, format!("{what} must be true or false, not {}", other.kind()));
                None
            }
        }
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, node: &Node, what: &str) -> Option<T> {
        let text = self.text(node, what)?;
        self.check(node.line, what, text.parse())
    }

    fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Vec<(String, usize)> {
        let Some(node) = fields.get(key) else { return Vec::new() };
        match &node.value {
            Value::List(list) => list.iter().filter_map(|item| Some((self.text(item, key)?, item.line))).collect(),
            // A single one needs no list.
            _ => self.text(node, key).map(|text| (text, node.line)).into_iter().collect(),
        }
    }

    fn labels(&mut self, fields: &Fields<'_>, key: &str) -> Vec<(Label, usize)> {
        let mut labels: Vec<(Label, usize)> = Vec::new();
        for (text, line) in self.texts(fields, key) {
            match self.check(line, key, text.parse()) {
                Some(label) if labels.iter().any(|(other, _)| *other == label) => {
                    self.say(line, format!("{key} names {label} twice"));
                }
                label => labels.extend(label.map(|label| (label, line))),
            }
        }
        labels
    }

    fn count(&mut self, fields: &Fields<'_>, key: &str, min: u32, max: u32) -> Option<u32> {
        let node = fields.get(key)?;
        let count = match &node.value {
            Value::Whole(number) => u32::try_from(*number).ok().filter(|count| (min..=max).contains(count)),
            _ => None,
        };
        if count.is_none() {
            self.say(node.line, format!("{key} must be a number from {min} to {max}"));
        }
        count
    }

    fn length(&mut self, fields: &Fields<'_>, key: &str, min: i64, max: i64) -> Option<i64> {
        let node = fields.get(key)?;
        let text = self.text(node, key)?;
        let ms = self.check(node.line, key, parse_duration_ms(&text))?;
        if !(min..=max).contains(&ms) {
            self.say(node.line, format!("{key} is too short or too long"));
            return None;
        }
        Some(ms)
    }
}

fn name_of(target: &Target) -> String {
    match target {
        Target::Address(address) => address.to_string(),
        Target::Lead => "the lead".to_owned(),
    }
}

/// The line that contains `words`, searched from where their value begins.
pub(super) fn line_of(text: &str, from: usize, words: &str) -> usize {
    let after = text.lines().enumerate().skip(from.saturating_sub(1));
    after.into_iter().find(|(_, line)| line.contains(words)).map_or(from, |(index, _)| index + 1)
}
