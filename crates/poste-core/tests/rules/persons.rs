//! What only a person may do, and what proves that a person does it.

use poste_core::MessageNo;
use poste_core::fold::Code;
use poste_core::log::{
    Agree, ApprovalAnswer, ApprovalAsk, Claim, Cleared, Close, HoldReason, Intent, Proof, Redact, Register, Release,
    Retry, RunHold, RunResume, Send, Unreserve, Unsubscribe,
};
use poste_core::vocabulary::{AgentKind, TrustLabel};

use crate::common::*;

const ALL: [Proof; 4] = [Proof::None, Proof::Terminal, Proof::Word, Proof::Token];

fn office() -> Desk {
    let mut desk = Desk::with(&["lead", "coder", "peer"]);
    desk.register("anna", human());
    desk
}

fn sent(desk: &Desk) -> MessageNo {
    desk.last_message()
}

#[test]
fn mail_in_a_persons_name_is_human_only_with_a_proof() {
    let mut desk = office();
    for proof in ALL {
        for (who, label) in [("anna", TrustLabel::Human), ("coder", TrustLabel::Agent)] {
            accepted(desk.proven(who, proof, Intent::Send(letter("peer", "message"))));
            let expected = if who == "anna" && proof == Proof::None { TrustLabel::Unproven } else { label };
            assert_eq!(desk.message(sent(&desk)).label, expected, "{who} with {proof}");
        }
    }
}

#[test]
fn only_a_person_who_confirms_it_registers_a_person() {
    let mut desk = office();
    for proof in [Proof::None, Proof::Terminal] {
        refused(desk.proven("eve", proof, Intent::Register(human())), Code::NotAPerson);
        refused(desk.proven("coder", proof, Intent::Register(update(human()))), Code::NotAPerson);
        let agent = Register { kind: Some(AgentKind::Agent), ..update(agent()) };
        refused(desk.proven("anna", proof, Intent::Register(agent)), Code::NotAPerson);
    }
    accepted(desk.proven("eve", Proof::Word, Intent::Register(human())));
    accepted(desk.proven("coder", Proof::Token, Intent::Register(update(human()))));
}

#[test]
fn an_agent_changes_what_it_can_do_but_not_who_leads_it_or_which_files_it_may_touch() {
    let mut desk = Desk::new();
    desk.register("lead", agent());
    let first = Register { lead: Some("lead".parse().unwrap()), worktree: Some("/w".to_owned()), ..agent() };
    accepted(desk.unproven("coder", Intent::Register(first.clone())));
    accepted(desk.unproven("coder", Intent::Register(update(with_role("builder")))));
    accepted(desk.unproven("coder", Intent::Register(update(first))));
    desk.register("peer", agent());
    let changes = [
        Register { lead: Some("peer".parse().unwrap()), ..update(agent()) },
        Register { worktree: Some("/".to_owned()), ..update(agent()) },
        Register { clears: vec![Cleared::Lead], ..update(agent()) },
        Register { clears: vec![Cleared::Worktree], ..update(agent()) },
    ];
    for change in changes {
        refused(desk.unproven("coder", Intent::Register(change.clone())), Code::NotAPerson);
        accepted(desk.proven("coder", Proof::Terminal, Intent::Register(change)));
    }
    // What is registered of a person, only that person changes.
    desk.register("anna", human());
    refused(desk.unproven("anna", Intent::Register(update(with_role("lead")))), Code::NotAPerson);
}

#[test]
fn the_name_of_a_person_alone_grants_nothing() {
    let mut desk = office();
    let number = desk.send("lead", "coder", "directive");
    let record = desk.head();
    accepted(desk.claim("coder", number));
    accepted(desk.fail("coder", number));
    let contract = desk.send("lead", "anna", "interface_contract");
    let agree = Agree { message: contract, mail: answer_to(contract) };
    let granted = [
        Intent::Retry(Retry { message: number, recipient: None }),
        Intent::Agree(agree),
        Intent::Close(Close { message: number }),
    ];
    for intent in granted {
        let content = text("because");
        let none = desk.proposal("anna", intent.clone(), Some(content.clone()));
        let none = poste_core::log::Proposal { proof: Proof::None, ..none };
        refused(desk.outcome(&none).verdict.accepted(), Code::NotAPerson);
        accepted(desk.say("anna", intent, Some(content)));
    }
    refused(desk.unproven("anna", Intent::Redact(Redact { records: vec![record] })), Code::NotAPerson);
    let freed = Unreserve { patterns: Vec::new(), holder: Some("coder".parse().unwrap()), mail: None };
    refused(desk.unproven("anna", Intent::Unreserve(freed)), Code::NotAPerson);
}

#[test]
fn only_a_person_who_is_there_decides_in_a_persons_name() {
    let mut desk = office();
    for asked in ["anna", "lead"] {
        let ask = ApprovalAsk {
            mail: letter(asked, "question"),
            choices: vec!["approve".parse().unwrap(), "deny".parse().unwrap()],
            default: None,
            deadline: None,
        };
        accepted(desk.say("coder", Intent::ApprovalAsk(ask), Some(text("May I?"))));
        let question = sent(&desk);
        let mail = Send { reply_to: Some(question), ..Send::plain("response".parse().unwrap(), Vec::new()) };
        let answer = Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: "approve".parse().unwrap() });
        refused(desk.unproven("anna", answer.clone()), Code::NotAPerson);
        accepted(desk.proven("anna", Proof::Terminal, answer));
        assert_eq!(desk.message(sent(&desk)).label, TrustLabel::Human);
    }
}

#[test]
fn a_limit_is_lifted_by_a_person_who_confirms_it_and_other_holds_also_by_the_lead() {
    let mut desk = office();
    desk.register("coder", Register { lead: Some("lead".parse().unwrap()), ..update(agent()) });
    let hold = |why| Intent::RunHold(RunHold { why, message: None, agent: None, until: after(HOUR), mail: None });
    let resume = || Intent::RunResume(RunResume { agent: "coder".parse().unwrap(), message: None, why: None });
    for limit in [HoldReason::Budget, HoldReason::Rate] {
        accepted(desk.ask("coder", hold(limit)));
        for proof in [Proof::None, Proof::Terminal] {
            refused(desk.proven("anna", proof, resume()), Code::NotAPerson);
        }
        for other in ["coder", "peer", "lead"] {
            refused(desk.unproven(other, resume()), Code::NotAllowed);
        }
        accepted(desk.proven("anna", Proof::Word, resume()));
    }
    accepted(desk.ask("coder", hold(HoldReason::Failing)));
    refused(desk.unproven("peer", resume()), Code::NotAllowed);
    accepted(desk.unproven("lead", resume()));
    // With a limit beside it, the lead cannot lift both.
    accepted(desk.ask("coder", hold(HoldReason::Failing)));
    accepted(desk.ask("coder", hold(HoldReason::Budget)));
    refused(desk.unproven("lead", resume()), Code::NotAllowed);
}

#[test]
fn nobody_else_takes_the_mail_of_a_person() {
    let mut desk = office();
    let number = desk.send("peer", "anna", "question");
    accepted(desk.subscribe("anna", "news", None));
    let claim = Intent::Claim(Claim { message: Some(number), max: 1, lease_ms: None, types: Vec::new() });
    refused(desk.unproven("anna", claim.clone()), Code::NotAPerson);
    let topic = "news".parse().unwrap();
    refused(desk.unproven("anna", Intent::Unsubscribe(Unsubscribe { topic })), Code::NotAPerson);
    accepted(desk.proven("anna", Proof::Terminal, claim));
    refused(desk.unproven("anna", Intent::Release(Release { message: number, token: None })), Code::NotAPerson);
}
