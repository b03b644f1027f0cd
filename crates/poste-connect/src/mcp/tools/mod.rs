//! The tools: verbs under common names, with the fields a model fills in. A model may see nothing else of Poste.

mod answers;
mod mail;
mod name;
mod offer;
mod schema;
mod shared;

use std::sync::{LazyLock, OnceLock};

use poste_verbs::{
    Verb as _, ack, agents, agree, approvals, approve, ask, claim, context, deny, done, extend, fail, handoff, inbox,
    read, register, release, reply, reservation, search, send, session, status, thread, track, wait, whoami,
};

pub(super) use self::offer::{Called, Tool};
use self::offer::{Calls, Effect, Offer, Own, Shows};
pub(super) use self::shared::show_context;

/// Which tools are offered: those for daily work, or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Ten tools
    #[default]
    Core,
    /// These, and tools for decisions, reservations and agreements
    Full,
}

pub(super) fn of(profile: Profile) -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| tool.is_core || profile == Profile::Full).collect()
}

/// The tool that offers a verb, and the offer.
pub(super) fn offering(verb: &str) -> Option<(&'static Tool, &'static Offer)> {
    TOOLS.iter().find_map(|tool| Some((tool, tool.offers.iter().find(|offer| offer.verb == verb)?)))
}

/// The verbs whose answers are shown as text, by tools and by resources.
pub fn verbs_with_text() -> Vec<&'static str> {
    let offers = TOOLS.iter().flat_map(|tool| &tool.offers).filter(|offer| offer.has_text());
    let mut verbs: Vec<&str> = offers.map(|offer| offer.verb).collect();
    verbs.extend([inbox::Input::NAME, register::Input::NAME]);
    verbs.sort_unstable();
    verbs.dedup();
    verbs
}

macro_rules! tools {
    ($($name:ident $(by $choice:ident)?: $effect:ident, $core:literal, $own:expr, $description:literal,
        [$($offer:expr),+ $(,)?];)+) => {
        static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| vec![$(Tool {
            name: stringify!($name),
            description: $description,
            effect: Effect::$effect,
            is_core: $core,
            choice: concat!($(stringify!($choice))?),
            offers: vec![$($offer),+],
            own: $own,
            takes: OnceLock::new(),
        }),+]);
    };
}

tools! {
    send_message: Adds, true, None,
        "Send mail to another agent, a role or everyone. It is kept until handled; type question asks for an answer, directive for work.",
        [Offer::of::<send::Input>(
            "",
            &["to", "subject", "body", "type", "priority", "wants_response", "respond_by", "files=artifacts", "id"],
            Shows::Own,
        )];
    check_inbox: Reads, true, Some(Own { takes: &[mail::MAX_TOKENS], run: mail::check_inbox }),
        "List your pending mail, most urgent first: numbers, senders, subjects. Marks nothing as read.",
        [Offer::silent::<inbox::Input>(&["unread", "type", "from"])];
    read_message: Settles, true, Some(Own { takes: &[("offset", "Characters of the body to skip"), mail::MAX_TOKENS], run: mail::read_message }),
        "Read one message in full, and mark it as shown to you.",
        [Offer::silent::<read::Input>(&["number"])];
    claim_work: Adds, true, Some(Own { takes: &[mail::MAX_TOKENS], run: mail::claim_work }),
        "Claim a message before you work on it, so that no other agent does. It stays yours while you call tools; end it with finish_work.",
        [Offer::silent::<claim::Input>(&["number", "type", "lease"])];
    finish_work by outcome: Settles, true, None,
        "End a claim: done with a summary, fail with the reason, release to give it back, extend to keep it longer.",
        [
            Offer::of::<done::Input>("done", &["number", "summary", "result", "files"], Shows::Own),
            Offer::of::<fail::Input>("fail", &["number", "summary=reason", "retry"], Shows::Own),
            Offer::of::<release::Input>("release", &["number"], Shows::Own),
            Offer::of::<extend::Input>("extend", &["number", "lease"], Shows::Own),
        ];
    reply: Adds, true, None,
        "Answer a message; its sender gets the answer, and is woken if it waits for it.",
        [Offer::of::<reply::Input>("", &["number", "body", "done", "wants_response", "files=artifacts"], Shows::Own)];
    wait_for_mail: Settles, true, Some(Own { takes: &[("seconds", "Default: 45"), mail::MAX_TOKENS], run: mail::wait_for_mail }),
        "Wait for new mail, and read it. Returns at once if there is some.",
        [Offer::silent::<wait::Input>(&["type", "from"])];
    context by action: Adds, true, None,
        "Read and write the documents that agents of this project share, such as decisions and contracts. Versions are kept; replace needs the version it is based on.",
        [
            Offer::of::<context::list::Input>("list", &[], Shows::Others),
            Offer::with::<context::show::Input>("show", &["name"], Shows::Others, |connection, own, input, _| {
                show_context(connection, own, input)
            }),
            Offer::of::<context::since::Input>("since", &["name"], Shows::Others),
            Offer::of::<context::append::Input>("append", &["name", "text", "title"], Shows::Own),
            Offer::of::<context::replace::Input>("replace", &["name", "text", "version=if_version"], Shows::Own),
            Offer::of::<context::create::Input>("create", &["name", "text"], Shows::Own),
        ];
    handoff by action: Adds, true, None,
        "Hand work over to another agent with its files, what is done and what to check; or see, accept or reject one.",
        [
            Offer::of::<handoff::create::Input>(
                "create",
                &["to", "task", "completed", "files=artifacts", "checks", "text=background"],
                Shows::Own,
            ),
            Offer::of::<handoff::show::Input>("show", &["number"], Shows::Others),
            Offer::of::<handoff::accept::Input>("accept", &["number", "checks", "text=notes"], Shows::Others),
            Offer::of::<handoff::reject::Input>("reject", &["number", "text=reason"], Shows::Others),
            Offer::of::<handoff::list::Input>("list", &[], Shows::Others),
        ];
    office by action: Adds, true, None,
        "Take a name, list agents, track or search messages, write a note to your session or close it.",
        [
            Offer::taking::<name::Input>(
                register::Input::NAME,
                "register",
                &["name", "role", "capabilities", "own_name", "take_over"],
                Shows::Own,
                Calls::With(name::register),
            ),
            Offer::of::<whoami::Input>("whoami", &[], Shows::Others),
            Offer::of::<agents::Input>("agents", &[], Shows::Others),
            Offer::of::<status::Input>("status", &[], Shows::Others),
            Offer::of::<track::Input>("track", &["number"], Shows::Others),
            Offer::of::<thread::Input>("thread", &["number=conversation"], Shows::Others),
            Offer::of::<search::Input>("search", &["words", "from", "type"], Shows::Others),
            Offer::of::<ack::Input>("ack", &["number"], Shows::Own),
            Offer::of::<session::note::Input>("note", &["text"], Shows::Own),
            Offer::of::<session::close::Input>("close", &["text=summary"], Shows::Others),
        ];
    ask: Adds, false, None,
        "Ask for a decision with choices and a deadline.",
        [Offer::of::<ask::Input>("", &["to", "question=subject", "body", "choices", "deadline=by", "default"], Shows::Others)];
    approvals: Reads, false, None,
        "List the decisions asked for.",
        [Offer::of::<approvals::Input>("", &["mine", "asked", "all"], Shows::Others)];
    decide by decision: Settles, false, None,
        "Decide a question you were asked: approve, with a choice if it has its own, or deny.",
        [
            Offer::of::<approve::Input>("approve", &["number", "choice", "reason=note"], Shows::Others),
            Offer::of::<deny::Input>("deny", &["number", "reason"], Shows::Others),
        ];
    reserve by action: Adds, false, None,
        "Reserve paths you work on, so that no other agent changes them, or free them.",
        [
            Offer::of::<reservation::reserve::Input>("reserve", &["patterns", "reason=why"], Shows::Others),
            Offer::of::<reservation::release::Input>("release", &["patterns"], Shows::Others),
            Offer::of::<reservation::list::Input>("list", &[], Shows::Others),
        ];
    agree: Adds, false, None,
        "Agree to a proposal that several agents have to agree on.",
        [Offer::of::<agree::Input>("", &["number", "note", "context"], Shows::Others)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_a_tool_offers_is_one_of_its_verb() {
        for tool in TOOLS.iter() {
            let takes = tool.definition().input_schema;
            assert!(takes.get("properties").is_some(), "{}", tool.name);
            for offer in &tool.offers {
                offer.check();
            }
        }
    }

    #[test]
    fn no_field_of_a_tool_touches_anything_outside_the_worktree() {
        let offers = TOOLS.iter().flat_map(|tool| &tool.offers);
        let touches: Vec<_> = offers.flat_map(|offer| offer.touches().map(move |touch| (offer.verb, touch))).collect();
        assert!(!touches.is_empty() && touches.iter().all(|(_, (_, touch))| touch.is_open()), "{touches:?}");
    }
}
