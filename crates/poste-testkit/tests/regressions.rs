//! Faults that random histories and simulations found, each as the smallest history that shows it.

use poste_core::fold::{Code, Effect, Outcome, Verdict};
use poste_core::log::{
    Ack, Claim, Done, Fail, Intent, Proof, Proposal, Register, Retry, Send, Subscribe, Tick, TopicPattern, Via,
};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::text::Name;
use poste_core::time::When;
use poste_core::vocabulary::AgentKind;
use poste_core::{Error, MessageNo, Office, Position, Timestamp};
use poste_testkit::clock::SimClock;
use poste_testkit::sim::{Faults, Sequencer};

/// An office with agents over a log that keeps refusals, without faults.
struct Desk {
    office: Office,
    clock: std::sync::Arc<SimClock>,
    proposed: u64,
}

impl Desk {
    fn new() -> Self {
        let clock = SimClock::new();
        let (office, _) = Sequencer::new(clock.clone()).replica(0, 0, Faults::NONE).unwrap();
        let mut desk = Self { office, clock, proposed: 0 };
        for (name, kind) in [("ann", AgentKind::Human), ("bob", AgentKind::Agent), ("cy", AgentKind::Agent)] {
            let role = (kind == AgentKind::Agent).then(|| "coder".parse().unwrap());
            let register = Register {
                kind: Some(kind),
                role,
                capabilities: None,
                worktree: None,
                lead: None,
                clears: Vec::new(),
                update: false,
            };
            desk.accepted(name, None, Intent::Register(register));
        }
        desk
    }

    fn propose(&mut self, actor: &str, session: Option<&str>, intent: Intent) -> Outcome {
        self.proposed += 1;
        let id = format!("r{}", self.proposed);
        self.propose_as(&id, actor, session, intent)
    }

    fn propose_as(&mut self, id: &str, actor: &str, session: Option<&str>, intent: Intent) -> Outcome {
        let proposal = Proposal {
            id: id.parse().unwrap(),
            actor: if actor == "poste" { Name::poste() } else { actor.parse().unwrap() },
            session: session.map(|session| session.parse().unwrap()),
            via: Via::Cli,
            proof: Proof::Word,
            sent_at: Timestamp::ZERO,
            intent,
            content: None,
        };
        self.office.propose(&proposal, &Rules::none()).unwrap()
    }

    fn accepted(&mut self, actor: &str, session: Option<&str>, intent: Intent) -> Effect {
        self.propose(actor, session, intent).verdict.accepted().unwrap()
    }

    fn send(&mut self, kind: &str, to: &str) -> MessageNo {
        match self.accepted("ann", None, Intent::Send(send(kind, to))) {
            Effect::Sent(sent) => sent.number,
            other => panic!("{other:?}"),
        }
    }

    fn claim(&mut self, actor: &str, session: Option<&str>, message: MessageNo) -> Position {
        let claim = Claim { message: Some(message), max: 1, lease_ms: Some(10_000), types: Vec::new() };
        match self.accepted(actor, session, Intent::Claim(claim)) {
            Effect::Claimed(claimed) => claimed.token,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a lease has expired and the delivery is ready again.
    fn lease_runs_out(&mut self) {
        for _ in 0..2 {
            self.clock.advance(11_000);
            self.accepted_tick();
        }
    }

    fn accepted_tick(&mut self) {
        // Proposing anything settles what is due first; this one is refused because nothing is left to do.
        let outcome = self.propose("poste", None, Intent::Tick(Tick {}));
        assert!(matches!(outcome.verdict, Verdict::Rejected(_)));
    }
}

fn send(kind: &str, to: &str) -> Send {
    Send::plain(kind.parse().unwrap(), vec![to.parse().unwrap()])
}

fn done(message: MessageNo, token: Option<Position>) -> Intent {
    Intent::Done(Done { message, token, artifacts: Vec::new() })
}

#[test]
fn a_result_is_late_when_somebody_else_acknowledged_what_was_lost() {
    let mut desk = Desk::new();
    let message = desk.send("message", "role:coder");
    let lost = desk.claim("bob", None, message);
    desk.lease_runs_out();
    desk.accepted("cy", None, Intent::Ack(Ack { message }));
    let effect = desk.propose("bob", None, done(message, Some(lost))).verdict;
    assert!(matches!(effect, Verdict::Accepted(Effect::Late(_))), "{effect:?}");
}

#[test]
fn a_session_that_gave_up_in_one_record_has_lost_nothing() {
    let mut desk = Desk::new();
    let message = desk.send("directive", "role:coder");
    // Claimed and failed in one record: the claim was given up, not lost.
    desk.accepted("bob", Some("b1"), Intent::Fail(Fail { message, token: None, retry: false, delay_ms: None }));
    desk.accepted("ann", None, Intent::Retry(Retry { message, recipient: None }));
    desk.claim("cy", None, message);
    desk.lease_runs_out();
    let effect = desk.accepted("bob", Some("b1"), done(message, None));
    assert_eq!(effect, Effect::Noted, "cy lost the lease, not bob");
}

#[test]
fn an_answer_about_a_kept_record_names_its_position() {
    let mut desk = Desk::new();
    desk.propose_as("once", "ann", None, Intent::Send(send("message", "bob")));
    let conflict = desk.propose_as("once", "ann", None, Intent::Send(send("message", "cy")));
    assert!(matches!(&conflict.verdict, Verdict::Rejected(rejection) if rejection.code == Code::IdConflict));
    assert!(conflict.position.is_some(), "the log keeps refusals, so it has a position");
}

#[test]
fn late_subscribers_get_publications_no_sooner_and_no_later_than_others() {
    let mut desk = Desk::new();
    let topic = TopicPattern::One("builds".parse().unwrap());
    let not_yet = Send { not_before: Some(When::InMs(60_000)), ..send("directive", "topic:builds") };
    desk.accepted("ann", None, Intent::Send(not_yet));
    let brief = Send { expires: Some(When::InMs(1_000)), ..send("directive", "topic:builds") };
    desk.accepted("ann", None, Intent::Send(brief));
    desk.clock.advance(2_000);
    desk.accepted("bob", None, Intent::Subscribe(Subscribe { topic, from: Some(Position(0)) }));
    let claim = Claim { message: None, max: 5, lease_ms: None, types: Vec::new() };
    let claimed = desk.propose("bob", None, Intent::Claim(claim)).verdict;
    assert!(
        matches!(&claimed, Verdict::Rejected(rejection) if rejection.code == Code::NothingToClaim),
        "one is not ready yet, the other has expired: {claimed:?}"
    );
}

#[test]
fn a_repeated_extend_is_told_its_lease_again() {
    let mut desk = Desk::new();
    let message = desk.send("directive", "bob");
    let token = desk.claim("bob", None, message);
    let extend = || Intent::Extend(poste_core::log::Extend { message, token: Some(token), lease_ms: Some(60_000) });
    let first = desk.propose_as("more", "bob", None, extend());
    let again = desk.propose_as("more", "bob", None, extend());
    assert!(again.repeat);
    assert_eq!(again.verdict, first.verdict);
}

#[test]
fn an_office_without_agents_gets_over_a_leap_of_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SimClock::new();
    let place = Place { path: folder.path().join(".poste"), clock: clock.clone(), options: Options::default() };
    place.create().unwrap();
    let mut office = place.open().unwrap();
    clock.step_wall(2 * poste_core::limits::DAY_MS);
    let register = Proposal {
        id: "first".parse().unwrap(),
        actor: "ann".parse().unwrap(),
        session: None,
        via: Via::Cli,
        proof: Proof::Word,
        sent_at: Timestamp::ZERO,
        intent: Intent::Register(Register {
            kind: Some(AgentKind::Human),
            role: None,
            capabilities: None,
            worktree: None,
            lead: None,
            clears: Vec::new(),
            update: false,
        }),
        content: None,
    };
    assert!(matches!(office.propose(&register, &Rules::none()), Err(Error::ClockLeap { .. })));
    let accepted = office.accept_clock(&"ann".parse().unwrap());
    assert!(!matches!(accepted, Err(Error::Damaged(_))), "nothing is damaged: {accepted:?}");
    office.propose(&register, &Rules::none()).expect("an agent can still register");
}
