use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use poste_config::{Budget, BudgetTime, ConfigFile, Quiet};
use poste_core::Timestamp;
use poste_core::log::{HoldReason, MessageNo, Position};
use poste_core::store::tables::Spent;
use poste_core::text::Name;
use poste_core::views::{HoldView, Startable};
use poste_core::vocabulary::{Priority, Urgency};
use poste_dispatch::engine::{AgentFacts, Choice, Facts, Failures, Hold, Start, Wait, WaitReason, choose};

const MINUTE: i64 = 60_000;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000 + ms)
}

fn agent(who: &str, lines: &str, mail: Vec<Startable>) -> AgentFacts {
    let (file, problems) = ConfigFile::check(&format!("[agent.{who}]\nrun = [\"true\"]\n{lines}"));
    assert_eq!(problems, []);
    let mut config = file.agents.into_values().next().expect("an agent");
    config.trusted = true;
    AgentFacts {
        name: name(who),
        config,
        mail,
        running: 0,
        last_started: None,
        clock_due: false,
        clock_next: None,
        lately: Vec::new(),
        spent: Spent::default(),
        failures: Failures::default(),
        held: None,
        let_go: Vec::new(),
        rests_until: None,
        later: Vec::new(),
        restarts: false,
    }
}

fn mail(number: u64, priority: Priority) -> Startable {
    Startable {
        message: MessageNo(number),
        sender: name("lead"),
        address: "coder".parse().expect("an address"),
        priority,
        urgency: Urgency::Turn,
        stored_at: at(0),
        attempts: 0,
        hops: 0,
    }
}

fn some(numbers: &[u64]) -> Vec<Startable> {
    numbers.iter().map(|number| mail(*number, Priority::Normal)).collect()
}

fn facts(places: usize, agents: Vec<AgentFacts>) -> Facts {
    Facts { now: at(100_000), zone: TimeZone::UTC, places, taken: 0, agents }
}

fn told(choice: &Choice) -> Vec<(String, Vec<u64>)> {
    let told = |start: &Start| (start.agent.to_string(), start.messages.iter().map(|number| number.0).collect());
    choice.starts.iter().map(told).collect()
}

fn starts(expected: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>)> {
    expected.iter().map(|(who, numbers)| ((*who).to_owned(), numbers.to_vec())).collect()
}

fn held(facts: &Facts) -> Hold {
    let mut choice = choose(facts);
    assert_eq!(told(&choice), []);
    assert_eq!(choice.holds.len(), 1, "{:?}", choice.holds);
    choice.holds.remove(0)
}

#[test]
fn the_most_urgent_comes_first_and_then_each_in_turn() {
    let busy = "concurrency = 4";
    let mut urgent = some(&[9]);
    urgent[0].priority = Priority::Urgent;
    let agents = vec![agent("a", busy, some(&[1, 2, 3])), agent("b", busy, some(&[4, 5])), agent("c", "", urgent)];
    let choice = choose(&facts(5, agents.clone()));
    let expected = starts(&[("c", &[9]), ("a", &[1]), ("b", &[4]), ("a", &[2]), ("b", &[5])]);
    assert_eq!(told(&choice), expected);
    assert_eq!(choice.waits, [Wait { agent: name("a"), why: WaitReason::NoPlace, messages: 1, until: None }]);
    let mut lately = agents;
    lately[0].last_started = Some(at(50));
    lately[1].last_started = Some(at(40));
    assert_eq!(told(&choose(&facts(2, lately))), starts(&[("c", &[9]), ("b", &[4])]));
}

#[test]
fn no_more_than_it_may_and_all_may_run_at_once() {
    let mut agents = vec![agent("a", "concurrency = 3", some(&[1, 2, 3])), agent("b", "", some(&[4, 5]))];
    agents[0].running = 2;
    let all = Facts { taken: 2, ..facts(8, agents) };
    let choice = choose(&all);
    assert_eq!(told(&choice), starts(&[("a", &[1]), ("b", &[4])]));
    assert!(choice.waits.iter().all(|wait| wait.why == WaitReason::Busy));
    assert_eq!(told(&choose(&Facts { taken: 8, ..all })), []);
}

#[test]
fn a_batch_is_one_start() {
    let choice = choose(&facts(8, vec![agent("a", "batch = 3\nconcurrency = 2", some(&[1, 2, 3, 4]))]));
    assert_eq!(told(&choice), starts(&[("a", &[1, 2, 3]), ("a", &[4])]));
    let choice = choose(&facts(8, vec![agent("a", "mode = \"subagent\"", some(&[1, 2]))]));
    assert_eq!(told(&choice), starts(&[("a", &[1])]));
}

#[test]
fn what_waits_at_two_addresses_is_one_message() {
    let choice = choose(&facts(8, vec![agent("a", "concurrency = 2", some(&[1, 1]))]));
    assert_eq!(told(&choice), starts(&[("a", &[1])]));
}

#[test]
fn in_quiet_hours_only_what_cannot_wait_starts_somebody() {
    let mut one = agent("a", "concurrency = 2", some(&[1, 2]));
    one.config.quiet = Some(Quiet { from: 0, to: 24 * 60 - 1 });
    one.mail[1].urgency = Urgency::Now;
    one.clock_due = true;
    let choice = choose(&facts(8, vec![one.clone()]));
    assert_eq!(told(&choice), starts(&[("a", &[2])]));
    assert_eq!((choice.waits[0].why, choice.waits[0].messages), (WaitReason::Quiet, 1));
    assert_eq!(choice.look_again, choice.waits[0].until);
    one.mail.clear();
    assert_eq!(told(&choose(&facts(8, vec![one]))), []);
}

#[test]
fn the_clock_starts_it_once_with_or_without_mail() {
    let mut one = agent("a", "", Vec::new());
    (one.clock_due, one.clock_next) = (true, Some(at(200_000)));
    let choice = choose(&facts(8, vec![one.clone()]));
    assert_eq!(told(&choice), starts(&[("a", &[])]));
    assert_eq!(choice.look_again, one.clock_next);
    one.mail = some(&[3]);
    assert_eq!(told(&choose(&facts(8, vec![one.clone()]))), starts(&[("a", &[3])]));
    one.mail.clear();
    one.clock_due = false;
    assert_eq!(told(&choose(&facts(8, vec![one]))), []);
}

#[test]
fn who_is_kept_running_is_rung_and_takes_nobodys_place() {
    let mut one = agent("a", "mode = \"resident\"", Vec::new());
    assert_eq!(told(&choose(&facts(0, vec![one.clone()]))), starts(&[("a", &[])]));
    one.running = 1;
    one.mail = some(&[5]);
    let choice = choose(&facts(8, vec![one]));
    assert_eq!(told(&choice), []);
    assert_eq!(choice.rings, [Start { agent: name("a"), messages: vec![MessageNo(5)] }]);
}

#[test]
fn a_chain_that_is_too_long_is_held_until_somebody_lets_it_go() {
    let mut one = agent("a", "max_hops = 2", some(&[1, 2]));
    one.mail[0].hops = 3;
    one.mail[1].hops = 2;
    let choice = choose(&facts(8, vec![one.clone()]));
    assert_eq!(told(&choice), starts(&[("a", &[2])]));
    let [hold] = &choice.holds[..] else { panic!("{:?}", choice.holds) };
    assert_eq!((hold.message, hold.why, hold.until), (Some(MessageNo(1)), HoldReason::Hops, None));
    assert_eq!(hold.senders, [name("lead")]);
    one.let_go = vec![MessageNo(1)];
    assert_eq!(told(&choose(&facts(8, vec![one]))), starts(&[("a", &[1])]));
}

#[test]
fn a_budget_that_is_used_up_stops_it_until_its_time_is_over() {
    let mut one = agent("a", "concurrency = 9", some(&[1, 2, 3]));
    let budget = Budget { runs: Some(10), minutes: Some(5), cost_micros: Some(2_500_000), per: BudgetTime::Hour };
    one.config.budget = Some(budget);
    one.spent = Spent { runs: 8, took_ms: 299_999, cost_micros: 2_499_999 };
    assert_eq!(told(&choose(&facts(8, vec![one.clone()]))).len(), 2, "two runs are left");
    for (spent, said) in [
        (Spent { runs: 10, ..Spent::default() }, "10 of 10 runs this hour"),
        (Spent { took_ms: 300_000, ..Spent::default() }, "5 of 5 minutes this hour"),
        (Spent { cost_micros: 2_510_000, ..Spent::default() }, "2.51 of 2.50 dollars this hour"),
    ] {
        one.spent = spent;
        let now = facts(8, vec![one.clone()]);
        let hold = held(&now);
        assert_eq!((hold.why, hold.message), (HoldReason::Budget, None));
        assert!(hold.text.ends_with(said), "{}", hold.text);
        assert!(hold.until.is_some_and(|until| until > now.now && until.since_ms(now.now) <= 3_600_000));
    }
    one.mail.clear();
    assert_eq!(choose(&facts(8, vec![one])), Choice::default(), "no mail waits, so nothing is held");
}

#[test]
fn too_many_starts_failures_and_strange_files_stop_it() {
    let mut fast = agent("a", "starts_per_minute = 2\nconcurrency = 9", some(&[1, 2]));
    fast.lately = vec![at(60_000)];
    assert_eq!(told(&choose(&facts(8, vec![fast.clone()]))).len(), 1);
    fast.lately.push(at(70_000));
    let hold = held(&facts(8, vec![fast]));
    assert_eq!((hold.why, hold.until), (HoldReason::Rate, Some(at(120_000))));

    let mut failing = agent("a", "", some(&[1]));
    failing.failures = Failures { runs: 5, messages: 2 };
    assert_eq!(told(&choose(&facts(8, vec![failing.clone()]))).len(), 1, "the messages may be at fault");
    failing.failures.messages += 1;
    let hold = held(&facts(8, vec![failing]));
    assert_eq!((hold.why, hold.until), (HoldReason::Failing, Some(at(100_000 + 10 * MINUTE))));

    let mut strange = agent("a", "", some(&[1]));
    strange.config.trusted = false;
    let hold = held(&facts(8, vec![strange]));
    assert_eq!((hold.why, hold.until), (HoldReason::Misconfigured, None));
}

#[test]
fn what_is_held_waits_and_goes_on_when_a_person_changed_the_reason() {
    let view = |why| HoldView {
        agent: name("a"),
        message: None,
        why,
        position: Position(7),
        since: at(0),
        until: None,
        let_go_at: None,
    };
    let mut one = agent("a", "", some(&[1]));
    one.held = Some(view(HoldReason::Failing));
    let choice = choose(&facts(8, vec![one.clone()]));
    assert_eq!((told(&choice), choice.resumes.len(), choice.waits[0].why), (vec![], 0, WaitReason::Held));
    for why in [HoldReason::Misconfigured, HoldReason::Budget] {
        one.held = Some(view(why));
        assert_eq!(choose(&facts(8, vec![one.clone()])).resumes, [(name("a"), why)], "{why:?}");
    }
}

#[test]
fn after_a_start_that_came_to_nothing_it_rests() {
    let mut one = agent("a", "", some(&[1]));
    one.rests_until = Some(at(100_500));
    let choice = choose(&facts(8, vec![one.clone()]));
    assert_eq!((told(&choice), choice.look_again), (vec![], Some(at(100_500))));
    one.rests_until = Some(at(100_000));
    assert_eq!(told(&choose(&facts(8, vec![one]))).len(), 1);
}

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// An office of random agents and mail that is simulated, with every rule checked in each step.
struct Simulation {
    facts: Facts,
    /// When each run ends.
    running: Vec<(Name, Timestamp)>,
    started: BTreeMap<MessageNo, usize>,
    held: BTreeSet<MessageNo>,
    messages: BTreeSet<MessageNo>,
}

impl Simulation {
    fn new(numbers: &mut Numbers) -> Self {
        let mut next = 0;
        let mut messages = BTreeSet::new();
        let agents = (0..1 + numbers.below(8)).map(|index| {
            let lines = format!(
                "concurrency = {}\nbatch = {}\nmax_hops = 3\nstarts_per_minute = {}",
                1 + numbers.below(4),
                1 + numbers.below(3),
                2 + numbers.below(20)
            );
            let mail = (0..numbers.below(30))
                .map(|_| {
                    next += 1;
                    messages.insert(MessageNo(next));
                    let priority = [Priority::Low, Priority::Normal, Priority::High, Priority::Urgent];
                    let mut mail = mail(next, priority[numbers.below(4) as usize]);
                    mail.hops = numbers.below(5) as u32;
                    mail
                })
                .collect();
            agent(&format!("a{index}"), &lines, mail)
        });
        let agents = agents.collect();
        let mut facts = facts(1 + numbers.below(8) as usize, agents);
        for agent in &mut facts.agents {
            agent.mail.sort_by_key(|mail| (Reverse(mail.priority), mail.message));
        }
        Self { facts, running: Vec::new(), started: BTreeMap::new(), held: BTreeSet::new(), messages }
    }

    fn step(&mut self, numbers: &mut Numbers) -> bool {
        let now = self.facts.now;
        self.running.retain(|(_, until)| *until > now);
        let running = self.running.clone();
        self.facts.taken = running.len();
        for agent in &mut self.facts.agents {
            agent.running = running.iter().filter(|(name, _)| *name == agent.name).count();
            agent.lately.retain(|at| now.since_ms(*at) < MINUTE);
            agent.held = agent.held.take().filter(|held| held.until.is_none_or(|until| until > now));
        }
        let choice = choose(&self.facts);
        self.check_turns(&choice);
        for start in &choice.starts {
            let until = now.plus_ms(1 + numbers.below(5_000) as i64);
            self.running.push((start.agent.clone(), until));
            let agent = self.facts.agents.iter_mut().find(|agent| agent.name == start.agent).expect("known");
            assert!(agent.held.is_none() && !start.messages.is_empty());
            assert!(start.messages.len() <= agent.config.batch as usize);
            agent.mail.retain(|mail| !start.messages.contains(&mail.message));
            agent.lately.push(now);
            agent.last_started = Some(now);
            assert!(agent.lately.len() <= agent.config.starts_per_minute as usize, "more starts than the limit");
            start.messages.iter().for_each(|message| *self.started.entry(*message).or_default() += 1);
        }
        for hold in &choice.holds {
            let agent = self.facts.agents.iter_mut().find(|agent| agent.name == hold.agent).expect("known");
            match hold.message {
                Some(message) => {
                    assert!(self.held.insert(message), "held twice");
                    agent.mail.retain(|mail| mail.message != message);
                }
                None => {
                    assert_eq!(hold.why, HoldReason::Rate);
                    agent.held = Some(HoldView {
                        agent: hold.agent.clone(),
                        message: None,
                        why: hold.why,
                        position: Position(1),
                        since: now,
                        until: hold.until,
                        let_go_at: None,
                    });
                }
            }
        }
        assert!(self.running.len() <= self.facts.places, "more runs than the limit");
        for agent in &self.facts.agents {
            let own = self.running.iter().filter(|(name, _)| *name == agent.name).count();
            assert!(own <= agent.config.concurrency as usize, "more runs than its concurrency");
            // Mail that is not started has a visible reason.
            let is_told = choice.waits.iter().any(|wait| wait.agent == agent.name);
            assert!(agent.mail.is_empty() || is_told || agent.held.is_some(), "{} waits without a reason", agent.name);
        }
        let ends = self.running.iter().map(|(_, until)| *until).chain(choice.look_again);
        match ends.filter(|at| *at > now).min() {
            Some(at) => self.facts.now = at,
            None => return false,
        }
        true
    }

    /// No agent is started twice while another free one waits with mail that is as urgent.
    fn check_turns(&self, choice: &Choice) {
        let best = |start: &Start| {
            let agent = self.facts.agents.iter().find(|agent| agent.name == start.agent).expect("known");
            let of = |message: &MessageNo| agent.mail.iter().find(|mail| mail.message == *message);
            start.messages.iter().filter_map(of).map(|mail| mail.priority).max().expect("a message")
        };
        let waiting: Vec<&Name> =
            choice.waits.iter().filter(|wait| wait.why == WaitReason::NoPlace).map(|wait| &wait.agent).collect();
        for (index, start) in choice.starts.iter().enumerate() {
            let again = choice.starts[..index].iter().any(|before| before.agent == start.agent);
            for other in self.facts.agents.iter().filter(|agent| again && waiting.contains(&&agent.name)) {
                let got_one = choice.starts[..index].iter().any(|before| before.agent == other.name);
                let waits = other.mail.iter().filter(|mail| mail.hops <= 3).map(|mail| mail.priority).max();
                assert!(got_one || waits < Some(best(start)), "{} had to wait for {}", other.name, start.agent);
            }
        }
    }
}

#[test]
fn nothing_is_over_a_limit_nobody_starves_and_nothing_waits_in_silence() {
    for seed in 1..=300 {
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut simulation = Simulation::new(&mut numbers);
        let mut steps = 0;
        while simulation.step(&mut numbers) {
            steps += 1;
            assert!(steps < 10_000, "seed {seed} never ends");
        }
        let Simulation { started, held, messages, .. } = simulation;
        assert!(started.values().all(|times| *times == 1), "seed {seed}: something was started twice");
        let seen: BTreeSet<MessageNo> = started.into_keys().chain(held).collect();
        assert_eq!(seen, messages, "seed {seed}: something was neither started nor held");
    }
}
