//! Workflows against a real office: lint reports wrong definitions, and correct ones are advanced whatever crashes,
//! however often, and whoever else advances them at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use poste_core::fold::Verdict;
use poste_core::log::{
    ApprovalAnswer, Artifact, ArtifactState, Author, Body, Content, Ends, EndsHow, Fail, Intent, MessageNo, Proof,
    Proposal, Register, Retire, Send, Via, WorkflowRetry,
};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::{Boot, Clock};
use poste_core::store::tables::{StepState, TaskState, WorkflowState};
use poste_core::text::{Label, Name};
use poste_core::views::{self, WorkflowView};
use poste_core::vocabulary::AgentKind;
use poste_core::{Office, Timestamp};
use poste_verbs::workflow::{self, AnyAddress, Format, Inputs, Pending, Registered, Source, lint, render};

#[derive(Debug)]
struct Hands(Mutex<i64>);

impl Clock for Hands {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(1_800_000_000_000 + *self.0.lock().unwrap())
    }

    fn boot(&self) -> Boot {
        Boot { id: "boot".to_owned(), ms: 5_000 + *self.0.lock().unwrap() }
    }
}

struct Desk {
    office: Office,
    place: Place,
    hands: Arc<Hands>,
    ids: u32,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hands = Arc::new(Hands(Mutex::new(0)));
        let clock = Arc::clone(&hands) as _;
        let place = Place { path: folder.path().join(".poste"), clock, options: Options::default() };
        place.create().unwrap();
        let mut desk = Self { office: place.open().unwrap(), place, hands, ids: 0, folder };
        desk.register("ann", Register { kind: Some(AgentKind::Human), ..Register::default() });
        for name in ["writer", "reviewer", "helper"] {
            desk.register(name, Register { role: Some("worker".parse().unwrap()), ..Register::default() });
        }
        desk
    }

    fn register(&mut self, name: &str, register: Register) {
        self.say(name, Intent::Register(register), None);
    }

    fn try_say(&mut self, who: &str, intent: Intent, text: Option<&str>) -> Verdict {
        self.ids += 1;
        let content = text.map(|text| Content { body: Body::from(text), ..Content::default() });
        let proposal = Proposal {
            id: format!("desk {}", self.ids).parse().unwrap(),
            actor: who.parse().unwrap(),
            session: None,
            via: Via::Cli,
            proof: Proof::Word,
            sent_at: self.office.wall(),
            intent,
            content,
        };
        self.office.propose(&proposal, &Rules::none()).unwrap().verdict
    }

    fn say(&mut self, who: &str, intent: Intent, text: Option<&str>) {
        let verdict = self.try_say(who, intent, text);
        assert!(matches!(verdict, Verdict::Accepted(_)), "{verdict:?}");
    }

    fn start(&mut self, text: &str, inputs: &[(&str, &str)]) -> Label {
        let source = Source {
            name: "flow".parse().unwrap(),
            path: "flow.toml".into(),
            format: Format::Toml,
            text: text.to_owned(),
        };
        let inputs: Inputs = inputs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.ids += 1;
        let id = format!("start {}", self.ids).parse().unwrap();
        let owner: Name = "ann".parse().unwrap();
        workflow::start(&mut self.office, &Author::new(owner, Via::Cli), id, &source, &inputs).unwrap().workflow
    }

    fn advance(&mut self) -> workflow::Advanced {
        workflow::advance(&mut self.office, Via::Cli).unwrap()
    }

    fn see(&self, label: &Label) -> WorkflowView {
        views::workflow(self.office.store(), label).unwrap().unwrap()
    }

    fn open(&self, label: &Label) -> Vec<(Label, MessageNo)> {
        let seen = self.see(label);
        let open = seen.steps.iter().flat_map(|step| {
            let tasks = step.tasks.iter().filter(|task| task.state == TaskState::Open);
            tasks.map(|task| (step.key.clone(), task.message)).collect::<Vec<_>>()
        });
        open.collect()
    }

    fn recipient(&self, message: MessageNo) -> String {
        let tables = self.office.store().tables().unwrap();
        let to = tables.deliveries_of(message).unwrap()[0].address.to_string();
        if to.starts_with("role:") { "helper".to_owned() } else { to }
    }

    /// The recipient answers it.
    fn answer(&mut self, message: MessageNo, text: &str) {
        let who = self.recipient(message);
        let ends = Some(Ends { message, how: EndsHow::Replied, token: None });
        let send = Send { reply_to: Some(message), ends, ..Send::plain("response".parse().unwrap(), Vec::new()) };
        self.say(&who, Intent::Send(send), Some(text));
    }

    fn fail(&mut self, message: MessageNo, text: &str) {
        let who = self.recipient(message);
        self.say(&who, Intent::Fail(Fail { message, token: None, retry: false, delay_ms: None }), Some(text));
    }

    fn decide(&mut self, message: MessageNo, choice: &str) {
        let mail = Send { reply_to: Some(message), ..Send::plain("response".parse().unwrap(), Vec::new()) };
        let answer = ApprovalAnswer { mail, choice: choice.parse().unwrap() };
        self.say("ann", Intent::ApprovalAnswer(answer), None);
    }

    fn body(&self, message: MessageNo) -> String {
        views::message(self.office.store(), message).unwrap().unwrap().body
    }

    fn only(&self, label: &Label, key: &str) -> MessageNo {
        let open: Vec<MessageNo> =
            self.open(label).into_iter().filter(|(step, _)| step == key).map(|(_, message)| message).collect();
        assert_eq!(open.len(), 1, "one message of step {key} is open: {:?}", self.see(label));
        open[0]
    }
}

fn problems(text: &str, format: Format) -> Vec<(usize, String)> {
    let (definition, problems) = lint(text, format, &"flow".parse().unwrap(), &AnyAddress);
    assert_eq!(definition.is_none(), !problems.is_empty());
    problems.into_iter().map(|problem| (problem.line.unwrap_or(0), problem.message)).collect()
}

fn wrong(text: &str) -> (usize, String) {
    let found = problems(text, Format::Toml);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

const REVIEW: &str = r#"
title = "Write until approved"
[inputs.task]
about = "what to write"
[inputs.deep]
default = "no"

[[step]]
key = "write"
agent = "writer"
request = "Write {{inputs.task}}, round {{round}}. {{steps.review.result}}"
retries = 1

[[step]]
key = "review"
agent = "reviewer"
needs = ["write"]
request = "Review:\n{{steps.write.result}}"
until = 'steps.review.verdict == "approved"'
again = "write"
max_rounds = 3

[[step]]
key = "polish"
agent = "helper"
needs = ["review"]
when = 'inputs.deep == "yes"'
request = "Polish"

[[step]]
key = "publish"
approval = "lead"
needs = ["polish"]
request = "Publish {{steps.write.result}}?"
"#;

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let step = |more: &str| format!("[[step]]\nkey = \"a\"\nagent = \"x\"\nrequest = \"do\"\n{more}\n");
    assert_eq!(problems(&step(""), Format::Toml), []);
    let (line, what) = wrong(&step("needs = [\"b\"]"));
    assert!(line == 5 && what.contains("needs b, which is not a step"), "{line} {what}");
    let two = "[[step]]\nkey = \"a\"\nagent = \"x\"\nneeds = [\"b\"]\nrequest = \"do\"\n\
               [[step]]\nkey = \"b\"\nagent = \"x\"\nneeds = [\"a\"]\nrequest = \"do\"\n";
    let (line, what) = wrong(two);
    assert!(line == 4 && what.contains("wait for each other"), "{line} {what}");
    let (line, what) = wrong(&step("colour = 1"));
    assert!(line == 5 && what.contains("colour"), "{line} {what}");
    let (line, what) =
        wrong("[[step]]\nkey = \"a\"\nagent = \"x\"\nrequest = \"\"\"\nLook\ninto {{inputs.topic}}\n\"\"\"\n");
    assert!(line == 6 && what.contains("no input topic"), "{line} {what}");
    let (line, what) = wrong(&step("when = 'steps.b.result'"));
    assert!(line == 5 && what.contains("no step b"), "{line} {what}");
    let (line, what) = wrong(&step("when = '\"a\" == \"b\"'"));
    assert!(line == 5 && what.contains("never"), "{line} {what}");
    let (line, what) = wrong(&step("on_fail = \"hlep\""));
    assert!(line == 5 && what.contains("hlep") || what.contains("on_fail"), "{line} {what}");
    let (line, what) = wrong("[[step]]\nkey = \"a\"\nrequest = \"do\"\n");
    assert!(line == 1 && what.contains("agent, role, can or approval"), "{line} {what}");
    let (line, what) = wrong(&step("title = \"{{item}}\""));
    assert!(what.contains("for_each"), "{line} {what}");
    let (line, what) = wrong(&step("time_limit = \"soon\""));
    assert!(line == 5, "{what}");
    let yaml = "steps:\n  - key: a\n    agent: x\n    request: do\n    nedes: [b]\n";
    let found = problems(yaml, Format::Yaml);
    assert!(found[0].0 == 5 && found[0].1.contains("did you mean needs?"), "{found:?}");
}

#[test]
fn a_definition_is_the_same_in_both_ways_of_writing() {
    let toml = "title = \"A\"\n[inputs]\nfiles = [\"a\", \"b\"]\n[[step]]\nkey = \"read\"\nrole = \"worker\"\n\
                for_each = \"inputs.files\"\nrequest = \"Read {{item}}\"\nretries = 2\n";
    let yaml = "title: A\ninputs:\n  files: [a, b]\nsteps:\n  - key: read\n    role: worker\n    \
                for_each: inputs.files\n    request: Read {{item}}\n    retries: 2\n";
    let name: Label = "flow".parse().unwrap();
    let (toml, _) = lint(toml, Format::Toml, &name, &AnyAddress);
    let (yaml, problems) = lint(yaml, Format::Yaml, &name, &AnyAddress);
    let (toml, yaml) = (toml.unwrap(), yaml.unwrap_or_else(|| panic!("{problems:?}")));
    assert_eq!(toml.inputs[0].default, yaml.inputs[0].default);
    assert_eq!(
        (&toml.steps[0].to, &toml.steps[0].request, toml.steps[0].retries),
        (&yaml.steps[0].to, &yaml.steps[0].request, 2)
    );
}

#[test]
fn who_is_not_there_is_said_before_it_starts() {
    let desk = Desk::new();
    let text = "[[step]]\nkey = \"a\"\nagent = \"writr\"\nrequest = \"do\"\n\n[[step]]\nkey = \"b\"\ncan = \"rust\"\nrequest = \"do\"\n";
    let (_, problems) = lint(text, Format::Toml, &"flow".parse().unwrap(), &Registered(&desk.office));
    let lines: Vec<(Option<usize>, &str)> = problems.iter().map(|one| (one.line, one.message.as_str())).collect();
    assert_eq!(
        lines,
        [
            (Some(3), "step a: no agent is registered as writr; did you mean writer?"),
            (Some(8), "step b: no agent has the capability rust")
        ]
    );
}

#[test]
fn a_review_goes_round_until_it_is_approved() {
    let mut desk = Desk::new();
    let flow = desk.start(REVIEW, &[("task", "a poem")]);
    assert_eq!(flow.as_str(), "flow-1");
    assert_eq!(desk.advance().records, 1);
    assert_eq!(desk.advance().records, 0);
    let first = desk.only(&flow, "write");
    assert_eq!(desk.body(first), "Write a poem, round 1. ");
    desk.fail(first, "no idea");
    desk.advance();
    let again = desk.only(&flow, "write");
    assert_ne!(first, again);
    desk.answer(again, "Roses are red");
    desk.advance();
    let review = desk.only(&flow, "review");
    assert_eq!(desk.body(review), "Review:\nRoses are red");
    desk.answer(review, "Not yet: violets are missing");
    desk.advance();
    let second = desk.only(&flow, "write");
    assert_eq!(desk.body(second), "Write a poem, round 2. Not yet: violets are missing");
    desk.answer(second, "Violets are blue");
    desk.advance();
    let review = desk.only(&flow, "review");
    desk.answer(review, "**Approved**");
    desk.advance();
    assert_eq!(desk.see(&flow).step("polish").unwrap().state, StepState::Skipped);
    let publish = desk.only(&flow, "publish");
    assert_eq!(desk.body(publish), "Publish Violets are blue?");
    desk.decide(publish, "approve");
    desk.advance();
    let seen = desk.see(&flow);
    assert_eq!(seen.state, WorkflowState::Finished);
    let page = render::page(&seen);
    assert!(page.contains("workflow_id: flow-1\nstatus: finished\ncurrent_step: 4\ntotal_steps: 4\n"), "{page}");
    assert!(page.contains("2. [x] review: done, reviewer, round 2"), "{page}");
    assert!(page.contains("3. [-] polish: skipped: its condition is false"), "{page}");
    assert!(page.contains("### write\n\n> Violets are blue\n"), "{page}");
}

#[test]
fn a_loop_has_an_end() {
    let mut desk = Desk::new();
    let flow = desk.start(REVIEW, &[("task", "a poem")]);
    for _ in 0..3 {
        desk.advance();
        let write = desk.only(&flow, "write");
        desk.answer(write, "words");
        desk.advance();
        let review = desk.only(&flow, "review");
        desk.answer(review, "No");
    }
    desk.advance();
    let seen = desk.see(&flow);
    assert_eq!((seen.state, seen.step("review").unwrap().state), (WorkflowState::Failed, StepState::Failed));
    assert_eq!(seen.step("polish").unwrap().tasks.len(), 0);
    assert_eq!(seen.reason.as_deref(), Some("step review failed: until is still false after 3 rounds"));
    // A retry allows one more round.
    desk.say("ann", Intent::WorkflowRetry(WorkflowRetry { workflow: flow.clone(), step: None }), None);
    desk.advance();
    assert_eq!(desk.open(&flow).len(), 1);
    assert_eq!(desk.see(&flow).step("write").unwrap().round, 4);
}

#[test]
fn a_list_fans_out_and_comes_together() {
    let mut desk = Desk::new();
    let text = r#"
[inputs.files]
[[step]]
key = "read"
role = "worker"
for_each = "inputs.files"
request = "Read {{item}} ({{index}} of {{items}})"
[[step]]
key = "sum"
agent = "writer"
needs = ["read"]
request = "{{steps.read.results}}\n{{steps.read.result}}"
"#;
    let flow = desk.start(text, &[("files", "a.rs\n- b.rs\nc.rs")]);
    desk.advance();
    let open = desk.open(&flow);
    assert_eq!(open.len(), 3);
    assert_eq!(desk.body(open[1].1), "Read b.rs (2 of 3)");
    for (index, (_, message)) in open.iter().enumerate() {
        assert_eq!(desk.see(&flow).step("sum").unwrap().tasks.len(), 0);
        desk.answer(*message, &format!("result {}", index + 1));
        desk.advance();
    }
    let sum = desk.only(&flow, "sum");
    let expected = "[\"result 1\",\"result 2\",\"result 3\"]\n## 1\n\nresult 1\n\n## 2\n\nresult 2\n\n## 3\n\nresult 3";
    assert_eq!(desk.body(sum), expected);
    let empty = desk.start(text, &[("files", "")]);
    desk.advance();
    assert_eq!(desk.see(&empty).step("read").unwrap().state, StepState::Skipped);
}

#[test]
fn a_failure_is_asked_about_skipped_or_stood_in_for() {
    let mut desk = Desk::new();
    let text = r#"
[[step]]
key = "ask"
agent = "writer"
request = "do"
on_fail = "ask"
[[step]]
key = "skip"
agent = "writer"
request = "do"
on_fail = "skip"
[[step]]
key = "else"
agent = "writer"
request = "do"
on_fail = "by-hand"
[[step]]
key = "by-hand"
agent = "helper"
request = "do it by hand"
[[step]]
key = "end"
agent = "reviewer"
needs = ["ask", "skip", "else"]
request = "{{steps.else.result}}"
"#;
    let flow = desk.start(text, &[]);
    desk.advance();
    for key in ["ask", "skip", "else"] {
        let message = desk.only(&flow, key);
        desk.fail(message, "it broke");
    }
    desk.advance();
    assert_eq!(desk.see(&flow).step("skip").unwrap().state, StepState::Skipped);
    assert_eq!(desk.see(&flow).step("else").unwrap().state, StepState::Failed);
    let by_hand = desk.only(&flow, "by-hand");
    desk.answer(by_hand, "done by hand");
    let question = desk.only(&flow, "ask");
    assert!(desk.body(question).contains("it broke"), "{}", desk.body(question));
    desk.decide(question, "retry");
    desk.advance();
    let second = desk.only(&flow, "ask");
    desk.fail(second, "again");
    desk.advance();
    let question = desk.only(&flow, "ask");
    desk.decide(question, "skip");
    desk.advance();
    let end = desk.only(&flow, "end");
    assert_eq!(desk.body(end), "done by hand");
    desk.answer(end, "well");
    desk.advance();
    assert_eq!(desk.see(&flow).state, WorkflowState::Finished);
}

#[test]
fn what_nobody_can_take_waits_and_goes_on_when_somebody_can() {
    let mut desk = Desk::new();
    let text = "[[step]]\nkey = \"a\"\nagent = \"writer\"\nrequest = \"do\"\n\
                [[step]]\nkey = \"b\"\nagent = \"helper\"\nneeds = [\"a\"]\nrequest = \"do\"\n";
    let flow = desk.start(text, &[]);
    desk.advance();
    desk.say("ann", Intent::Retire(poste_core::log::Retire { name: "helper".parse().unwrap() }), None);
    let first = desk.only(&flow, "a");
    desk.answer(first, "well");
    let advanced = desk.advance();
    assert_eq!(advanced.waiting, ["flow-1 step b: helper is retired"]);
    let head = poste_core::office::head(desk.office.store()).unwrap();
    desk.advance();
    assert_eq!(poste_core::office::head(desk.office.store()).unwrap(), head, "it is recorded once");
    assert_eq!(desk.see(&flow).step("b").unwrap().reason.as_deref(), Some("helper is retired"));
    desk.register("helper", Register { update: true, ..Register::default() });
    desk.advance();
    desk.only(&flow, "b");
}

#[test]
fn an_erased_definition_ends_its_workflow_where_it_would_go_on() {
    let mut desk = Desk::new();
    let flow = desk.start(REVIEW, &[("task", "x")]);
    desk.advance();
    let position = desk.office.store().tables().unwrap().workflow(&flow).unwrap().unwrap().position;
    let redact = Intent::Redact(poste_core::log::Redact { records: vec![position] });
    desk.say("ann", redact, Some("a secret"));
    desk.office.erase().unwrap();
    desk.advance();
    assert!(desk.see(&flow).is_open(), "a step that was sent before the erasure may be answered");
    desk.answer(desk.open(&flow)[0].1, "done");
    desk.advance();
    assert_eq!(desk.see(&flow).state, WorkflowState::Failed);
    assert_eq!(desk.open(&flow), []);
}

#[test]
fn pictures_show_every_step_and_escape_what_others_wrote() {
    let mut desk = Desk::new();
    let text = REVIEW.replace("Write until approved", "<script>alert(1)</script> & more");
    let flow = desk.start(&text, &[("task", "x")]);
    desk.advance();
    let (definition, _) = lint(&text, Format::Toml, &"flow".parse().unwrap(), &AnyAddress);
    let seen = desk.see(&flow);
    for picture in [render::Picture::of_definition(&definition.unwrap()), render::Picture::of_run(&seen)] {
        let (svg, mermaid) = (picture.svg(), picture.mermaid());
        for key in ["write", "review", "polish", "publish"] {
            assert!(
                svg.contains(&format!(">{key}</text>")) && mermaid.contains(&format!("[\"{key}")),
                "{svg}{mermaid}"
            );
        }
        assert!(!svg.contains("<script>") && !mermaid.contains("<script>"));
        assert_eq!(svg.matches("marker-end").count(), 4);
    }
    assert!(render::Picture::of_run(&seen).mermaid().contains("s0[\"write<br/>writer<br/>running\"]:::running"));
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, max: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % max as u64).unwrap()
    }
}

const EVERYTHING: &str = r#"
[inputs.files]
default = ["a", "b", "c"]
[[step]]
key = "list"
agent = "writer"
request = "list"
retries = 2
on_fail = "skip"
[[step]]
key = "read"
role = "worker"
needs = ["list"]
for_each = "inputs.files"
request = "read {{item}}"
retries = 3
time_limit = "1h"
on_fail = "ask"
[[step]]
key = "write"
agent = "writer"
needs = ["read"]
request = "write {{steps.read.result}}"
on_fail = "by-hand"
[[step]]
key = "by-hand"
agent = "helper"
request = "write it by hand"
retries = 5
[[step]]
key = "review"
agent = "reviewer"
needs = ["write"]
request = "review {{steps.write.result}}"
until = 'steps.review.verdict == "approved"'
again = "write"
max_rounds = 4
retries = 5
on_fail = "skip"
[[step]]
key = "go"
approval = "lead"
needs = ["review"]
request = "go?"
on_fail = "skip"
[[step]]
key = "end"
agent = "helper"
needs = ["go", "list"]
request = "{{steps.review.result}} {{steps.go.choice}}"
retries = 9
"#;

/// One process dies after some of the due records, another writes all of them from an old view, agents answer, fail and
/// take their time. Still, each step is sent once and in order, and the workflow ends.
#[test]
fn it_goes_on_whoever_dies_and_whoever_else_is_at_it() {
    for seed in 1..=12_u64 {
        let mut desk = Desk::new();
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let flow = desk.start(EVERYTHING, &[]);
        let mut other = desk.place.open().unwrap();
        let mut old: Option<WorkflowView> = None;
        for turn in 0.. {
            assert!(turn < 5_000, "seed {seed}: it never ends: {:?}", desk.see(&flow));
            let seen = desk.see(&flow);
            if !seen.is_open() {
                break;
            }
            let outline = views::open_workflows(desk.office.store(), Some(&flow)).unwrap().remove(0);
            let (definition, inputs) = workflow::began(&desk.office, &outline).unwrap().unwrap();
            let acts = [&seen, &outline].map(|view| workflow::plan(&definition, &inputs, view).len());
            assert_eq!(acts[0] == 0, acts[1] == 0, "seed {seed}: the outline is enough to know what is due");
            assert!(
                acts[0] == 0 || Pending::of(&outline) != Pending::None,
                "seed {seed}: due records, but nothing is pending: {seen:?}"
            );
            match rng.below(10) {
                0 => drop(workflow::advance(&mut desk.office, Via::Cli).unwrap()),
                1 => drop(workflow::advance(&mut other, Via::Cli).unwrap()),
                2 => old = Some(seen),
                // Killed half way, or working from an outdated view.
                3..=5 => {
                    let view = if rng.below(3) == 0 { old.clone().unwrap_or(seen) } else { seen };
                    let (definition, inputs) = workflow::began(&desk.office, &view).unwrap().unwrap();
                    let mut acts = workflow::plan(&definition, &inputs, &view);
                    acts.truncate(rng.below(acts.len() + 1));
                    let proposals: Vec<Proposal> = acts
                        .iter()
                        .filter_map(|act| {
                            workflow::proposal_of(&desk.office, Via::Cli, &view, &definition, act).unwrap()
                        })
                        .collect();
                    if !proposals.is_empty() {
                        desk.office.submit(&proposals, &Rules::none()).unwrap();
                    }
                }
                6 => {
                    *desk.hands.0.lock().unwrap() += 1_000 * i64::try_from(rng.below(2_000)).unwrap();
                    desk.office.settle().unwrap();
                }
                _ => {
                    let open = desk.open(&flow);
                    let Some((_, message)) = open.get(rng.below(open.len().max(1))).cloned() else { continue };
                    let tables = desk.office.store().tables().unwrap();
                    let asked = tables.approval(message).unwrap();
                    drop(tables);
                    match asked {
                        Some(asked) => {
                            let choice = asked.choices[rng.below(asked.choices.len())].to_string();
                            desk.decide(message, &choice);
                        }
                        None if rng.below(4) == 0 => desk.fail(message, "it broke"),
                        None => {
                            let text = ["approved", "not yet", "[\"x\", \"y\"]"][rng.below(3)];
                            desk.answer(message, text);
                        }
                    }
                }
            }
        }
        check_order(&desk, &flow, seed);
    }
}

/// By the log alone: each step is sent once, and only after the steps it needs were marked.
fn check_order(desk: &Desk, flow: &Label, seed: u64) {
    let mut sent = BTreeSet::new();
    let mut settled: BTreeMap<(String, u32), u64> = BTreeMap::new();
    let seen = desk.see(flow);
    let needs: BTreeMap<String, Vec<String>> = seen
        .steps
        .iter()
        .map(|step| (step.key.to_string(), step.needs.iter().map(ToString::to_string).collect()))
        .collect();
    for position in 1..=poste_core::office::head(desk.office.store()).unwrap().0 {
        let tables = desk.office.store().tables().unwrap();
        let Some(record) = tables.record(poste_core::Position(position)).unwrap() else { continue };
        match record.sealed.intent().unwrap().unwrap() {
            Intent::WorkflowStep(step) => {
                let key = (step.step.to_string(), step.round, step.item, step.attempt, step.failure);
                assert!(sent.insert(key.clone()), "seed {seed}: {key:?} was sent twice");
                for need in &needs[step.step.as_str()] {
                    let is_over = settled.keys().any(|(key, _)| key == need);
                    assert!(is_over, "seed {seed}: {key:?} was sent before {need} ended");
                }
                let own = (step.step.to_string(), step.round);
                assert!(!settled.contains_key(&own), "seed {seed}: {own:?} had ended and was sent again");
            }
            Intent::WorkflowMark(mark) if mark.what.word() != "waiting" => {
                let own = (mark.step.to_string(), mark.round);
                assert!(settled.insert(own.clone(), position).is_none(), "seed {seed}: {own:?} was marked twice");
            }
            _ => {}
        }
    }
    assert!(seen.steps.iter().all(|step| step.is_settled() || seen.state != WorkflowState::Finished), "seed {seed}");
    assert!(desk.open(flow).is_empty(), "seed {seed}: something is left open");
    assert!(desk.folder.path().exists());
}

/// A result so large that a text with it exceeds the maximum size of a message.
fn large(word: &str) -> String {
    format!("{word}\n{}", "x".repeat(5_000_000))
}

#[test]
fn results_too_large_for_one_message_neither_stop_the_end_nor_anybody_else() {
    let mut desk = Desk::new();
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\n\
                [[step]]\nkey = 'b'\nagent = 'reviewer'\nrequest = 'B'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    for (_, message) in desk.open(&label) {
        desk.answer(message, &large("done"));
    }
    desk.advance();
    assert_eq!(desk.see(&label).state, WorkflowState::Finished);
}

#[test]
fn a_large_input_is_cut_in_a_text_and_whole_in_a_condition() {
    let mut desk = Desk::new();
    let text = "[inputs]\nlong = ''\n[[step]]\nkey = 'a'\nagent = 'writer'\n\
                when = \"inputs.long contains 'NEEDLE'\"\nrequest = '{{inputs.long}} {{inputs.long}}'\n";
    let long = format!("{} NEEDLE", large("first"));
    let label = desk.start(text, &[("long", &long)]);
    desk.advance();
    let [(_, message)] = desk.open(&label)[..] else { panic!("it was sent: {:?}", desk.see(&label)) };
    assert!(desk.body(message).contains("(truncated; the full text is in input long)"));
}

#[test]
fn a_list_of_long_results_keeps_its_items() {
    let mut desk = Desk::new();
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nfor_each = ['1', '2']\nrequest = 'A'\n\
                [[step]]\nkey = 'b'\nneeds = ['a']\nagent = 'reviewer'\nfor_each = 'steps.a.results'\nrequest = '{{item}}'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    for (_, message) in desk.open(&label) {
        desk.answer(message, &"word ".repeat(8_000));
    }
    desk.advance();
    let open = desk.open(&label);
    assert_eq!(open.len(), 2);
    assert!(open.iter().all(|(_, message)| desk.body(*message).starts_with("word word")));
}

#[test]
fn what_was_let_fail_or_failed_beside_another_is_tried_again_when_asked_to() {
    let mut desk = Desk::new();
    let retry = |label: &Label, step: &str| {
        Intent::WorkflowRetry(WorkflowRetry { workflow: label.clone(), step: Some(step.parse().unwrap()) })
    };
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\non_fail = 'ask'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    for choice in ["retry", "fail"] {
        desk.fail(desk.open(&label)[0].1, "no");
        desk.advance();
        desk.decide(desk.open(&label)[0].1, choice);
        desk.advance();
    }
    assert_eq!(desk.see(&label).state, WorkflowState::Failed);
    desk.say("ann", retry(&label, "a"), None);
    desk.advance();
    assert_eq!(desk.open(&label).len(), 1, "it is retried");

    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\n\
                [[step]]\nkey = 'b'\nagent = 'reviewer'\nrequest = 'B'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    for (_, message) in desk.open(&label) {
        desk.fail(message, "no");
    }
    desk.advance();
    assert_eq!(desk.see(&label).state, WorkflowState::Failed);
    desk.say("ann", retry(&label, "a"), None);
    desk.advance();
    assert_eq!(desk.open(&label).len(), 1);
}

#[test]
fn the_answer_to_a_step_starts_nobody() {
    let mut desk = Desk::new();
    let label = desk.start("[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\n", &[]);
    desk.advance();
    let [(_, step)] = desk.open(&label)[..] else { panic!("one step") };
    let plain = Send::plain("question".parse().unwrap(), vec!["writer".parse().unwrap()]);
    desk.say("ann", Intent::Send(plain), Some("And you?"));
    let question = MessageNo(step.0 + 1);
    desk.answer(step, "done");
    desk.answer(question, "fine");
    let ann = desk.office.agent(&"ann".parse().unwrap()).unwrap().unwrap();
    let found = views::startable(desk.office.store(), &ann, desk.office.now().unwrap(), 10).unwrap();
    let from: Vec<_> = found.iter().map(|mail| mail.message).collect();
    assert_eq!(from, [MessageNo(question.0 + 2)], "only mail that the workflow does not handle");
}

#[test]
fn more_files_than_a_message_names_make_a_step_wait_and_say_so() {
    let mut desk = Desk::new();
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nfor_each = ['1', '2']\nrequest = 'A'\n\
                [[step]]\nkey = 'b'\nneeds = ['a']\nagent = 'reviewer'\nrequest = 'B'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    for (_, message) in desk.open(&label) {
        let path = |index: u32| format!("{message}/{}/{index}", "long".repeat(900));
        let state = ArtifactState::Later;
        let file = |index| Artifact { path: path(index), worktree: None, state, size: None, digest: None };
        let ends = Some(Ends { message, how: EndsHow::Replied, token: None });
        let mail = Send::plain("response".parse().unwrap(), Vec::new());
        let mail = Send { reply_to: Some(message), ends, artifacts: (0..50).map(file).collect(), ..mail };
        desk.say("writer", Intent::Send(mail), Some("See there."));
    }
    let waiting = desk.advance().waiting;
    assert!(waiting[0].starts_with("flow-1 step b: the envelope has"), "{waiting:?}");
    let seen = desk.see(&label);
    assert_eq!(seen.steps[1].state, StepState::Waiting);
    assert!(seen.steps[1].reason.as_ref().unwrap().contains("bytes"), "{:?}", seen.steps[1].reason);
}

#[test]
fn what_goes_wrong_with_one_workflow_stops_no_other() {
    let mut desk = Desk::new();
    let text = "[inputs]\nlong = ''\n[[step]]\nkey = 'a'\nagent = 'writer'\n\
                request = '{{inputs.long}} {{inputs.long}}'\n";
    let long = desk.start(text, &[("long", &"word ".repeat(10_000))]);
    let short = desk.start(text, &[]);
    // Long texts can no longer be stored.
    let blobs = desk.place.path.join("blobs");
    std::fs::remove_dir_all(&blobs).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let advanced = desk.advance();
    assert_eq!((advanced.open, advanced.records), (2, 1), "{advanced:?}");
    assert!(advanced.waiting[0].starts_with("could not advance flow-1: "), "{advanced:?}");
    assert_eq!((desk.open(&long).len(), desk.open(&short).len()), (0, 1));
}

#[test]
fn who_stands_in_is_told_why() {
    let mut desk = Desk::new();
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\non_fail = 'b'\n\
                [[step]]\nkey = 'b'\nagent = 'reviewer'\nrequest = 'Instead, as {{failure}}'\n";
    let label = desk.start(text, &[]);
    desk.advance();
    desk.fail(desk.open(&label)[0].1, "no room");
    desk.advance();
    let (_, message) = desk.open(&label)[0];
    assert_eq!(desk.body(message), "Instead, as #1 of writer ended (failed): no room");
}

#[test]
fn a_step_that_is_over_and_nobody_has_gone_on_with_says_so() {
    let mut desk = Desk::new();
    let label = desk.start("[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\n", &[]);
    desk.advance();
    desk.answer(desk.open(&label)[0].1, "done");
    let page = render::page(&desk.see(&label));
    assert!(page.contains("1. [ ] a: pending, writer (#1): ended, but the workflow was not advanced yet\n"), "{page}");
}

#[test]
fn a_step_that_waits_is_tried_again_by_who_sees_to_all_of_it() {
    let mut desk = Desk::new();
    let label = desk.start("[[step]]\nkey = 'a'\nagent = 'writer'\nrequest = 'A'\n", &[]);
    desk.say("writer", Intent::Retire(Retire { name: "writer".parse().unwrap() }), None);
    assert_eq!(desk.advance().waiting.len(), 1);
    desk.register("writer", Register { update: true, ..Register::default() });
    assert_eq!(workflow::advance_news(&mut desk.office, Via::Cli).unwrap().records, 0);
    assert_eq!(desk.advance().records, 1);
    assert_eq!(desk.open(&label).len(), 1);
}

#[test]
fn lint_says_in_one_pass_what_is_written_wrong_and_what_is_not_there() {
    let text = "[[step]]\nkey = 'a'\nagent = 'writer'\nneeds = ['b']\nrequest = '{{inputs.none}}'\n\
                [[step]]\nkey = 'b'\nagent = 'writer'\nneeds = ['a']\ncolour = 'red'\nrequest = '{{steps.no.result}}'\n";
    let (_, problems) = lint(text, Format::Toml, &"flow".parse().unwrap(), &AnyAddress);
    let found: Vec<Option<usize>> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(found, [Some(4), Some(5), Some(10), Some(11)], "{problems:?}");
}

#[test]
fn what_is_wrong_with_yaml_has_its_line_once() {
    let (_, problems) = lint("steps:\n  - key: [", Format::Yaml, &"flow".parse().unwrap(), &AnyAddress);
    assert!(problems[0].line.is_some() && !problems[0].message.starts_with("line "), "{problems:?}");
}
