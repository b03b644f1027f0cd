//! Agreements: every party must agree, a newer proposal replaces an older one, and only an agreed proposal can be
//! written to a context.

use poste_core::fold::{AgreedOn, Code, Effect};
use poste_core::log::{
    Agree, Close, Content, ContextCreate, ContextReplace, Document, Ends, EndsHow, Intent, Lines, Send, context_mail,
};
use poste_core::store::tables::State;
use poste_core::views::{self, AgreementView};
use poste_core::{Address, MessageNo};
use serde_json::value::RawValue;

use crate::common::*;

fn agree(message: MessageNo) -> Agree {
    Agree { message, mail: answer_and_finish(message) }
}

impl Desk {
    /// A proposal in the conversation `api`.
    fn propose(&mut self, from: &str, to: &str) -> MessageNo {
        let letter = Send { conversation: Some("api".parse().unwrap()), ..letter(to, "interface_contract") };
        accepted(self.post(from, letter)).number
    }

    fn agree(&mut self, who: &str, message: MessageNo) -> Answer<AgreedOn> {
        self.agree_by(who, agree(message))
    }

    fn agree_by(&mut self, who: &str, agree: Agree) -> Answer<AgreedOn> {
        self.say(who, Intent::Agree(agree), Some(text("yes"))).map(|effect| match effect {
            Effect::Agreed(agreed) => agreed,
            other => panic!("unexpected effect: {other:?}"),
        })
    }

    fn agreement(&self, proposal: MessageNo) -> AgreementView {
        views::agreement(self.office.store(), proposal).unwrap().expect("the proposal is there")
    }

    fn write_down(&mut self, who: &str, if_version: u64, proposal: MessageNo) -> Answer {
        let name = "api".parse().unwrap();
        let (mail, lines) = (context_mail(&name), Lines::default());
        let agreement = Some(proposal);
        let header = ContextReplace { name, if_version, lines, text: false, data: true, agreement, mail };
        let data = RawValue::from_string(r#"{"IUserService":{}}"#.to_owned()).unwrap();
        let document = Some(Document { data: Some(data), ..Document::default() });
        let content = Content { subject: "as agreed".to_owned(), document, ..Content::default() };
        self.say(who, Intent::ContextReplace(header), Some(content))
    }

    fn make_api(&mut self, who: &str) {
        let name = "api".parse().unwrap();
        let mail = context_mail(&name);
        let kind = "api-contracts".parse().unwrap();
        let header = ContextCreate { name, kind, lines: Lines::default(), data: false, schema: false, mail };
        accepted(self.say(who, Intent::ContextCreate(header), Some(text("begins"))));
    }
}

fn desk() -> Desk {
    let mut desk = Desk::with(&["bob", "cy"]);
    desk.register("dot", with_role("reviewer"));
    desk.register("eve", with_role("reviewer"));
    desk.register("ann", human());
    desk
}

#[test]
fn a_proposal_is_agreed_when_everybody_who_was_asked_has_agreed() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy role:reviewer");
    assert!(!desk.agreement(proposal).agreed);
    let first = accepted(desk.agree("cy", proposal));
    assert_eq!(first.missing, ["role:reviewer".parse::<Address>().unwrap()]);
    assert!(!desk.agreement(proposal).agreed);
    assert_eq!(desk.states(proposal)[0], ("cy".to_owned(), State::Done), "agreeing ends the party's delivery");
    let last = accepted(desk.agree("dot", proposal));
    assert!(last.missing.is_empty());
    let view = desk.agreement(proposal);
    assert!(view.agreed);
    let parties: Vec<_> =
        view.parties.iter().map(|p| (p.party.as_str(), p.agreed_by.as_ref().unwrap().as_str())).collect();
    assert_eq!(parties, [("bob", "bob"), ("cy", "cy"), ("role:reviewer", "dot")]);
    assert_eq!(view.parties[0].message, None, "the proposer has agreed by proposing");
    assert_eq!(desk.states(first.message), [("bob".to_owned(), State::Pending)], "the proposer gets the answer");
}

#[test]
fn only_who_was_asked_agrees_and_each_once() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy");
    let question = desk.send("bob", "cy", "question");
    refused(desk.agree("eve", proposal), Code::NotRecipient);
    let why = refused(desk.agree("bob", proposal), Code::NothingToDo);
    assert!(why.contains("by proposing it"), "{why}");
    refused(desk.agree("cy", question), Code::NotAllowed);
    refused(desk.agree("cy", MessageNo(99)), Code::UnknownMessage);
    accepted(desk.agree("cy", proposal));
    refused(desk.agree("cy", proposal), Code::NothingToDo);
    // A group is one party, and the proposer cannot agree for it.
    let to_group = desk.propose("dot", "role:reviewer");
    refused(desk.agree("dot", to_group), Code::NothingToDo);
    accepted(desk.agree("eve", to_group));
    assert!(desk.agreement(to_group).agreed);
}

#[test]
fn the_word_goes_to_the_proposer_in_reply_to_the_proposal() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy eve");
    let elsewhere = Agree { message: proposal, mail: Send { to: vec!["eve".parse().unwrap()], ..answer_to(proposal) } };
    refused(desk.agree_by("cy", elsewhere), Code::Malformed);
    let unrelated = Agree { message: proposal, mail: letter("bob", "response") };
    refused(desk.agree_by("cy", unrelated), Code::Malformed);
    let to_all = ["bob", "eve"].map(|name| name.parse().unwrap()).to_vec();
    let said =
        accepted(desk.agree_by("cy", Agree { message: proposal, mail: Send { to: to_all, ..answer_to(proposal) } }));
    assert_eq!(desk.states(said.message).len(), 2);
}

#[test]
fn a_newer_proposal_takes_the_place_of_an_older_one() {
    let mut desk = desk();
    desk.make_api("bob");
    let older = desk.propose("bob", "cy");
    accepted(desk.agree("cy", older));
    let newer = desk.propose("cy", "bob");
    let why = refused(desk.write_down("bob", 1, older), Code::Superseded);
    assert!(why.contains(&format!("message {newer} is a newer proposal")), "{why}");
    assert!(!desk.agreement(older).agreed);
    assert_eq!(desk.agreement(older).superseded_by, Some(newer));
    refused(desk.agree("cy", older), Code::Superseded);
    accepted(desk.agree("bob", newer));
    accepted(desk.write_down("bob", 1, newer));
    assert_eq!(desk.agreement(newer).written.len(), 1);
}

#[test]
fn only_a_party_proposes_anew_and_passing_on_proposes_nothing() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy");
    // Another proposal in the same conversation, to an agent that is no party to the first.
    desk.propose("dot", "eve");
    let ends = Ends { message: proposal, how: EndsHow::Forwarded, token: None };
    let forward = accepted(desk.post("cy", Send { ends: Some(ends), ..letter("eve", "interface_contract") })).number;
    assert_eq!(desk.agreement(proposal).superseded_by, None);
    let why = refused(desk.agree("eve", forward), Code::NotAllowed);
    assert!(why.contains(&format!("forwards message {proposal}")), "{why}");
    accepted(desk.agree_by("cy", Agree { message: proposal, mail: answer_to(proposal) }));
    assert!(desk.agreement(proposal).agreed);
}

#[test]
fn whoever_gave_it_up_is_not_asked_and_a_word_opens_nothing() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy eve");
    accepted(desk.claim("cy", proposal));
    accepted(desk.fail("cy", proposal));
    let word = Agree { message: proposal, mail: answer_to(proposal) };
    refused(desk.agree_by("cy", word), Code::Ended);
    accepted(desk.agree("eve", proposal));
    let other = accepted(desk.post("bob", letter("cy", "interface_contract"))).number;
    accepted(desk.done("cy", other));
    accepted(desk.say("ann", Intent::Close(Close { message: other }), Some(text("settled"))));
    let why = refused(desk.agree_by("cy", Agree { message: other, mail: answer_to(other) }), Code::Ended);
    assert!(why.contains("ann closed the conversation"), "{why}");
}

#[test]
fn nobody_writes_down_what_was_not_agreed() {
    let mut desk = desk();
    desk.make_api("bob");
    let proposal = desk.propose("bob", "cy eve");
    refused(desk.write_down("bob", 1, proposal), Code::NotAgreed);
    accepted(desk.agree("cy", proposal));
    let why = refused(desk.write_down("bob", 1, proposal), Code::NotAgreed);
    assert!(why.contains("eve has not agreed"), "{why}");
    refused(desk.write_down("bob", 1, MessageNo(99)), Code::UnknownMessage);
    accepted(desk.agree("eve", proposal));
    accepted(desk.write_down("eve", 1, proposal));
    let view = views::context(desk.office.store(), &"api".parse().unwrap(), None).unwrap().unwrap();
    assert_eq!(view.history[0].agreement, Some(proposal));
    assert_eq!(view.history[0].agreed_by, ["bob", "cy", "eve"]);
}

#[test]
fn a_repeated_word_is_one_word() {
    let mut desk = desk();
    let proposal = desk.propose("bob", "cy");
    let said = desk.proposal("cy", Intent::Agree(agree(proposal)), Some(text("yes")));
    let first = desk.outcome(&said);
    let again = desk.outcome(&said);
    assert_eq!((again.repeat, &again.verdict), (true, &first.verdict));
}

#[test]
fn an_agreement_outlives_its_conversation() {
    let mut desk = desk();
    desk.make_api("bob");
    let proposal = desk.propose("bob", "cy");
    let said = accepted(desk.agree("cy", proposal));
    let finish = Ends { message: said.message, how: EndsHow::Replied, token: None };
    accepted(desk.post("bob", Send { ends: Some(finish), ..answer_to(said.message) }));
    accepted(desk.write_down("bob", 1, proposal));
    accepted(desk.say("ann", Intent::Close(Close { message: proposal }), Some(text("settled"))));
    let _ = desk.ack("cy", desk.last_message());
    for notice in desk.notices() {
        let _ = desk.ack(&notice.to, notice.number);
    }
    desk.archive("ann");
    let view = desk.agreement(proposal);
    assert!(view.agreed && view.written.len() == 1);
    assert_eq!(view.parties.len(), 2);
    refused(desk.agree("cy", proposal), Code::Archived);
    refused(desk.write_down("bob", 2, proposal), Code::Archived);
}
