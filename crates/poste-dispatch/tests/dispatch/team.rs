use poste_config::Mode;
use poste_core::log::{HoldReason, MessageNo, RunOutcome};
use poste_core::store::processes::Presence;
use poste_core::{Position, Timestamp};
use poste_dispatch::team::{Facts, Failures, HoldFacts, LeaseFacts, RunFacts, SessionFacts, State, Trouble, shown};

const PATIENCE: i64 = 60_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn ready(mode: Option<Mode>) -> Facts {
    Facts {
        mode,
        person: false,
        trusted: true,
        hold: None,
        runs: Vec::new(),
        session: None,
        failures: None,
        restarts: false,
        last_end: None,
    }
}

fn run() -> RunFacts {
    RunFacts {
        run: "r1".parse().unwrap(),
        messages: vec![MessageNo(4)],
        started_at: at(1_000),
        supervisor: Presence::Running,
        has_program: true,
        last_output: Some(at(2_000)),
        output_mark: 7,
        leases: vec![LeaseFacts { message: MessageNo(4), until: at(600_000), length_ms: 600_000 }],
    }
}

fn with(run: RunFacts) -> Facts {
    Facts { runs: vec![run], ..ready(Some(Mode::Session)) }
}

fn held(why: HoldReason) -> Option<HoldFacts> {
    Some(HoldFacts { why, since: at(500), position: Position(3) })
}

fn failing(times: usize) -> Option<Failures> {
    let (first, last) = (Some("r1".parse().unwrap()), "r3".parse().unwrap());
    Some(Failures { how: RunOutcome::Exited, code: Some(1), times, first, last, last_at: at(900) })
}

fn session(process: Presence, holds: usize) -> Option<SessionFacts> {
    Some(SessionFacts { id: "s1".parse().unwrap(), started_at: at(1), process, holds })
}

#[test]
fn a_state_is_what_is_true() {
    use State::*;
    let idle_resident = RunFacts { leases: Vec::new(), messages: Vec::new(), last_output: None, ..run() };
    let starting = RunFacts { has_program: false, last_output: None, ..run() };
    let gone = RunFacts { supervisor: Presence::Gone, ..run() };
    let elsewhere = RunFacts { supervisor: Presence::Unknown, ..run() };
    let old = LeaseFacts { message: MessageNo(4), until: at(12_000), length_ms: 600_000 };
    let unrenewed = RunFacts { leases: vec![old], ..run() };
    let mailless = RunFacts { leases: Vec::new(), last_output: Some(at(0)), ..run() };
    let base = || ready(Some(Mode::Session));
    let stopped = || Facts { hold: held(HoldReason::Stopped), ..base() };
    let table: Vec<(&str, Facts, i64, State, &str)> = vec![
        ("nothing is known", ready(None), 10_000, Stopped, "no runner here"),
        ("a person", Facts { person: true, ..ready(None) }, 10_000, Idle, "a person"),
        ("ready", base(), 10_000, Idle, ""),
        ("a subagent is ready", ready(Some(Mode::Subagent)), 10_000, Idle, ""),
        ("resident, and not there", ready(Some(Mode::Resident)), 10_000, Stopped, "its program is not running"),
        ("between two", Facts { restarts: true, ..ready(Some(Mode::Resident)) }, 10_000, Starting, "being restarted"),
        ("untrusted", Facts { trusted: false, ..base() }, 10_000, Stopped, "not trusted"),
        ("over budget", Facts { hold: held(HoldReason::Budget), ..base() }, 10_000, Idle, "held: budget"),
        ("unfit", Facts { hold: held(HoldReason::Misconfigured), ..base() }, 10_000, Stuck, "held: misconfigured"),
        ("stopped", stopped(), 10_000, Stopped, "asked to stop"),
        ("starting", with(starting), 10_000, Starting, ""),
        ("works", with(run()), 10_000, Working, ""),
        ("works elsewhere", with(elsewhere), 10_000, Working, ""),
        ("silent", with(run()), 62_000, Stuck, "no output for 1m"),
        ("about to be silent", with(run()), 61_999, Working, ""),
        ("never said a word", with(RunFacts { last_output: None, ..run() }), 61_000, Stuck, "no output"),
        ("not renewed", with(unrenewed), 10_000, Stuck, "its claim of #4 is not renewed"),
        ("unwatched", with(gone.clone()), 10_000, Stuck, "its supervisor has died"),
        ("unwatched and stopped", Facts { runs: vec![gone], ..stopped() }, 10_000, Stopped, "asked to stop"),
        ("kept running", with(idle_resident), 900_000, Idle, ""),
        ("finished its mail and is quiet", with(mailless), 900_000, Idle, ""),
        ("to stop", Facts { runs: vec![run()], ..stopped() }, 10_000, Working, "asked to stop"),
        ("failed twice", Facts { failures: failing(2), ..base() }, 10_000, Idle, ""),
        ("failed thrice", Facts { failures: failing(3), ..base() }, 10_000, Stuck, "each ended with exit code 1"),
        ("tries once more", Facts { failures: failing(3), ..with(run()) }, 10_000, Working, ""),
        ("failed and stopped", Facts { failures: failing(3), ..stopped() }, 10_000, Stopped, "asked to stop"),
        ("somebody's own", Facts { session: session(Presence::Running, 0), ..ready(None) }, 10, Idle, "in session s1"),
        ("at work", Facts { session: session(Presence::Unknown, 2), ..ready(None) }, 10, Working, "in session s1"),
        ("left", Facts { session: session(Presence::Gone, 2), ..ready(None) }, 10, Stopped, "no runner"),
    ];
    for (name, facts, now, state, why) in table {
        let found = shown(&facts, at(now), PATIENCE);
        assert_eq!(found.state, state, "{name}: {found:?}");
        let said = found.why.as_deref().unwrap_or_default();
        assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{name}: {found:?}");
    }
    assert_eq!(shown(&stopped(), at(10), PATIENCE).since, Some(at(500)));
}

#[test]
fn an_occurrence_has_one_name() {
    let silent = |mark: u64, since: i64| Trouble::Silent { run: "r1".parse().unwrap(), since: at(since), mark }.id();
    assert_eq!(silent(5, 100), silent(5, 101));
    assert_ne!(silent(5, 100), silent(6, 100), "it was active and has gone silent again");
    let lease = |until: i64| {
        let run = "r1".parse().unwrap();
        Trouble::LeaseNearlyOut { run, message: MessageNo(4), until: at(until) }.id()
    };
    assert_eq!(lease(5), lease(6));
    let long = Trouble::Unwatched { run: "r".repeat(128).parse().unwrap() };
    assert!(long.id().is_some(), "a name too long for an id");
    let mut failures = failing(200).unwrap();
    failures.first = None;
    assert_eq!(Trouble::Failing(failures).id(), None, "it was notified at the start");
}
