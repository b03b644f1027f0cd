//! Proposals that Poste makes automatically, each time it looks, are published once: a log that keeps refusals must not
//! grow while nothing happens.

use std::fs;

use poste_core::Office;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Author, HandlerTake, Intent, Proof, Register, Retire, Via};
use poste_core::store::tables::StepState;
use poste_core::text::Name;
use poste_core::{MessageNo, views};
use poste_verbs::answer::Mark;
use poste_verbs::caller::Ids;
use poste_verbs::workflow::{self, Format, Inputs, Source};
use poste_verbs::{Caller, Desk, Files, Host};

use crate::world::{World, accepted, refused};

/// Looks several times; the number of new records.
fn published(world: &World, mut look: impl FnMut()) -> u64 {
    let before = world.sequencer.last();
    (0..5).for_each(|_| look());
    world.sequencer.last().0 - before.0
}

#[test]
fn a_step_that_waits_for_an_agent_is_not_published_at_each_look() {
    let (mut world, mut one, mut two) = World::with(&["ann"]);
    let builder = Intent::Register(Register { role: Some("builder".parse().unwrap()), ..Register::default() });
    accepted(world.propose(&mut one, "bob", builder.clone()));
    let text = "title = \"Ship\"\n[[step]]\nkey = \"build\"\nrole = \"builder\"\nrequest = \"Build it.\"\n";
    let (name, path) = ("ship".parse().unwrap(), "ship.toml".into());
    let source = Source { name, path, format: Format::Toml, text: text.to_owned() };
    let owner: (Name, _) = ("ann".parse().unwrap(), "start".parse().unwrap());
    let started =
        workflow::start(&mut one, &Author::new(owner.0.clone(), Via::Cli), owner.1, &source, &Inputs::new()).unwrap();
    accepted(world.propose(&mut one, "bob", Intent::Retire(Retire { name: "bob".parse().unwrap() })));
    let state = |office: &Office| views::workflow(office.store(), &started.workflow).unwrap().unwrap().steps[0].state;

    let first = world.sequencer.last();
    let waiting = workflow::advance(&mut one, Via::Cli).unwrap().waiting;
    assert!(waiting[0].contains("builder"), "{waiting:?}");
    assert_eq!(world.sequencer.last(), first.next(), "only the wait is recorded");
    assert_eq!(state(&one), StepState::Waiting);
    for office in [&mut one, &mut two] {
        office.follow().unwrap();
        let look = || assert_eq!(workflow::advance(office, Via::Cli).unwrap().waiting, waiting);
        assert_eq!(published(&world, look), 0);
    }

    accepted(world.propose(&mut one, "cid", builder));
    two.follow().unwrap();
    assert_eq!(workflow::advance(&mut two, Via::Cli).unwrap().sent, [MessageNo(1)]);
}

#[test]
fn a_policy_clash_is_not_published() {
    let (world, mut one, mut two) = World::with(&["ann"]);
    for (machine, attempts) in [("one", 2), ("two", 3)] {
        let config = format!("[delivery]\nmax_attempts = {attempts}\n");
        fs::write(world.path(machine).with_file_name("poste.toml"), config).unwrap();
    }
    poste_config::sync_policy(&mut one).unwrap();
    two.follow().unwrap();
    let look = || {
        let clash = poste_config::sync_policy(&mut two).unwrap_err();
        assert!(matches!(&clash, poste_core::Error::Rejected(rejection) if rejection.code == Code::PolicyClash));
    };
    assert_eq!(published(&world, look), 0);
}

#[test]
fn a_rule_that_another_watcher_holds_is_not_asked_for_in_the_log() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    let take =
        Intent::HandlerTake(HandlerTake { rule: "phone".parse().unwrap(), lease_ms: 60_000, token: None, from: None });
    accepted(world.propose(&mut one, "ann", take.clone()));
    let proposals: Vec<_> = (0..5).map(|_| world.proposal("bob", take.clone())).collect();
    let before = world.sequencer.last();
    for proposal in &proposals {
        assert_eq!(refused(&poste_config::propose(&mut two, proposal).unwrap()), Code::RuleHeld);
    }
    assert_eq!(world.sequencer.last(), before);
    // The first look after the lease has ended settles it, and takes the rule.
    world.clock.advance(60_000);
    assert!(matches!(poste_config::propose(&mut two, &proposals[0]).unwrap().verdict, Verdict::Accepted(_)));
}

#[test]
fn what_was_shown_is_marked_once() {
    let (mut world, mut one, _) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let caller = Caller {
        actor: Some("bob".parse().unwrap()),
        session: None,
        via: Via::Cli,
        proof: Proof::Word,
        files: Files::none(),
    };
    let host = Host { ids: Ids::default(), program: None, run: None };
    let mut show = || Desk::new(&mut one, &caller, &host).confirm(vec![Mark::Shown(vec![MessageNo(1)])]).unwrap();
    let before = world.sequencer.last();
    show();
    assert_eq!(world.sequencer.last(), before.next());
    assert_eq!(published(&world, show), 0);
}
