//! Envelopes: sealing, opening, and detecting damage.

use poste_core::log::{Body, Content, Intent, Malformed, Proof, Proposal, Sealed, Subscribe, TopicPattern, Via};
use poste_core::{Digest, Timestamp, limits};

fn proposal() -> Proposal {
    Proposal {
        id: "id-1".parse().unwrap(),
        actor: "coder".parse().unwrap(),
        session: Some("s1".parse().unwrap()),
        via: Via::Cli,
        proof: Proof::None,
        sent_at: Timestamp::from_ms(5),
        intent: Intent::Subscribe(Subscribe { topic: TopicPattern::All, from: None }),
        content: Some(Content { subject: "hello".into(), ..Content::default() }),
    }
}

fn seal(proposal: &Proposal) -> Result<Sealed, Malformed> {
    Sealed::seal(proposal, &"m1".parse().unwrap())
}

#[test]
fn what_is_sealed_opens_again_and_stays_valid_json() {
    let sealed = seal(&proposal()).unwrap();
    let opened = Sealed::open(sealed.bytes().to_vec()).unwrap();
    assert_eq!(opened.envelope.id, "id-1");
    assert_eq!(opened.envelope.content, sealed.envelope.content);
    let json: serde_json::Value = serde_json::from_slice(sealed.bytes()).unwrap();
    assert_eq!(json["name"], "topic.subscribe");
}

#[test]
fn every_single_flipped_bit_is_noticed() {
    let sealed = seal(&proposal()).unwrap();
    for byte in 0..sealed.bytes().len() {
        for bit in 0..8 {
            let mut damaged = sealed.bytes().to_vec();
            damaged[byte] ^= 1 << bit;
            assert!(Sealed::open(damaged).is_err(), "byte {byte} bit {bit}");
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    let sealed = seal(&proposal()).unwrap();
    for length in 0..sealed.bytes().len() {
        assert!(Sealed::open(sealed.bytes()[..length].to_vec()).is_err());
    }
}

#[test]
fn a_surface_this_program_does_not_know_is_no_reason_to_stop() {
    let sealed = seal(&proposal()).unwrap();
    let covered = String::from_utf8(sealed.bytes().to_vec()).unwrap().replace("\"via\":1", "\"via\":200");
    let covered = covered.split(",\"checksum\"").next().unwrap().to_owned();
    let checksum = &Digest::of(covered.as_bytes()).to_string()[..16];
    let opened = Sealed::open(format!("{covered},\"checksum\":\"{checksum}\"}}").into_bytes()).unwrap();
    assert_eq!(opened.envelope.via, Via::Unknown);
    assert_eq!(opened.envelope.machine, "m1");
}

#[test]
fn the_fingerprint_ignores_clock_session_machine_and_surface_and_nothing_else() {
    let print = |proposal: &Proposal| seal(proposal).unwrap().envelope.fingerprint();
    let original = print(&proposal());
    let mut again = proposal();
    again.sent_at = Timestamp::from_ms(99);
    again.session = None;
    again.via = Via::Mcp;
    assert_eq!(print(&again), original);
    let elsewhere = Sealed::seal(&again, &"m2".parse().unwrap()).unwrap();
    assert_eq!(elsewhere.envelope.fingerprint(), original);
    let mut other_actor = proposal();
    other_actor.actor = "lead".parse().unwrap();
    assert_ne!(print(&other_actor), original);
    let mut other_text = proposal();
    other_text.content.as_mut().unwrap().subject = "hallo".into();
    assert_ne!(print(&other_text), original);
    let mut other_header = proposal();
    other_header.intent = Intent::Subscribe(Subscribe { topic: TopicPattern::One("T".parse().unwrap()), from: None });
    assert_ne!(print(&other_header), original);
}

#[test]
fn too_much_content_is_refused_before_anything_is_written() {
    let mut large = proposal();
    large.content.as_mut().unwrap().body = Body(vec![b'x'; limits::CONTENT_BYTES_MAX + 1]);
    assert!(matches!(seal(&large), Err(Malformed::Content(_))));
}

#[test]
fn kind_numbers_and_names_are_unique() {
    let mut numbers: Vec<u16> = poste_core::log::KINDS.iter().map(|kind| kind.number).collect();
    let mut names: Vec<&str> = poste_core::log::KINDS.iter().map(|kind| kind.name).collect();
    numbers.sort_unstable();
    numbers.dedup();
    names.sort_unstable();
    names.dedup();
    assert_eq!(numbers.len(), poste_core::log::KINDS.len());
    assert_eq!(names.len(), poste_core::log::KINDS.len());
    assert!(!numbers.contains(&0), "0 is never assigned");
}
