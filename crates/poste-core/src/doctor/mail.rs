//! Agents that do not respond, mail that no agent can take, and claims that do not end.

use serde_json::json;

use super::fix::Fix;
use super::{Finding, Opened, Scene};
use crate::error::Error;
use crate::store::processes::Presence;
use crate::time::length;
use crate::views::{self, HeldClaim, SilentAgent, Unreachable};
use crate::vocabulary::AgentKind;

/// A claim held for longer than this many of its leases is suspicious.
const LEASES_HELD_MAX: i64 = 6;

pub(super) fn agents(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    for mail in views::unreachable_mail(&opened.store)? {
        scene.add(unreachable(&mail));
    }
    for agent in views::silent_agents(&opened.store, opened.now, scene.request.patience_ms)? {
        let for_ms = opened.now.since_ms(agent.waits_since);
        scene.add(silent(&agent, for_ms));
    }
    Ok(())
}

fn unreachable(mail: &Unreachable) -> Finding {
    let Unreachable { address, open, oldest, .. } = mail;
    let open = super::folder::files(usize::try_from(*open).unwrap_or(usize::MAX), "open message");
    let found = |what: String, meaning: &str| Finding::problem("unreachable", what, meaning);
    match mail.why {
        "no_member" => Finding::warning(
            "unreachable",
            format!("{open} for {address}, but that group has no active member; the oldest is #{oldest}"),
            "It waits until an agent with that role or capability registers.",
        )
        .advice("register an agent that can take it, or let the sender forward it")
        .verb("track", json!({ "number": oldest })),
        "retired" => found(
            format!("{open} for {address}, which is retired; the oldest is #{oldest}"),
            "Retiring returns all mail, so no command can cause this: the tables may be damaged.",
        )
        .advice("revive the agent and take the mail")
        .verb("register", json!({ "name": address, "update": true })),
        _ => found(
            format!("{open} for {address}, which is not registered; the oldest is #{oldest}"),
            "Mail to an unknown name is refused, so no command can cause this: the tables may be damaged.",
        )
        .advice("register the name and take the mail")
        .verb("register", json!({ "name": address })),
    }
}

fn silent(agent: &SilentAgent, for_ms: i64) -> Finding {
    let name = &agent.name;
    let pending = match agent.pending {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let what = format!("{name} has done nothing while #{}{pending} waited for {}", agent.oldest, length(for_ms));
    match agent.kind {
        // People sleep.
        AgentKind::Human => Finding::note("silent", what, "A person has mail they have not looked at."),
        _ => Finding::warning("silent", what, "It may have ended, or it does not check its mail."),
    }
    .advice("restart it, or retire it to return its mail to the senders")
    .verb("inbox", json!({ "as": name }))
}

/// Sessions that count as running although their process has provably ended.
pub(super) fn sessions(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    for session in opened.store.tables()?.live_sessions()? {
        if opened.store.presence(&session.machine, session.process.as_ref())? != Presence::Gone {
            continue;
        }
        let pid = session.process.as_ref().map_or(0, |process| process.pid);
        let (id, agent) = (&session.id, &session.agent);
        let for_ms = opened.now.since_ms(session.at);
        let what =
            format!("the process of session {id} of {agent}, started {} ago, has ended (pid {pid})", length(for_ms));
        let meaning = "It ended without closing its session. Its claims end when the leases expire.";
        scene.add(
            Finding::warning("session", what, meaning)
                .advice("restart it, which takes the session over, or close it")
                .verb("session close", json!({ "session_id": id, "as": agent })),
        );
    }
    Ok(())
}

pub(super) fn claims(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let claims = views::held_claims(&opened.store)?;
    let over = |claim: &HeldClaim| claim.lease_until.is_some_and(|until| until <= opened.now);
    for claim in claims.iter().filter(|claim| over(claim)) {
        let late_ms = claim.lease_until.map_or(0, |until| opened.now.since_ms(until));
        let finding = Finding::warning(
            "claim",
            format!("the lease of #{}, held by {}, ended {} ago", claim.message, claim.holder, length(late_ms)),
            "No command has run since, so this is not recorded yet and no other agent can claim it.",
        )
        .verb("agents", json!({}));
        // Settling an office that follows a log takes the sequencer of that log.
        scene.add(if opened.store.follows()? { finding } else { finding.with_fix(Fix::Settle) });
    }
    for claim in claims.iter().filter(|claim| !over(claim)) {
        let held_ms = opened.now.since_ms(claim.since);
        if !claim.holder_active {
            scene.add(
                Finding::problem(
                    "claim",
                    format!("#{} is held by {}, which is not active", claim.message, claim.holder),
                    "Retiring releases all claims, so no command can cause this: the tables may be damaged.",
                )
                .verb("track", json!({ "number": claim.message })),
            );
        } else if held_ms > claim.lease_ms.saturating_mul(LEASES_HELD_MAX) {
            scene.add(long_held(claim, held_ms));
        }
    }
    Ok(())
}

fn long_held(claim: &HeldClaim, held_ms: i64) -> Finding {
    let HeldClaim { message, holder, token, .. } = claim;
    let session = claim.session.as_ref().map(|session| format!(" in session {session}")).unwrap_or_default();
    let times = match claim.extended {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    Finding::warning(
        "claim",
        format!("{holder} has held #{message}{session} for {} and extended it {times}", length(held_ms)),
        "It may be long work, or a loop that only extends the lease. No other agent can take it.",
    )
    .advice("if it is stuck, release it; that does not count as an attempt")
    .verb("release", json!({ "number": message, "token": token, "as": holder }))
}
