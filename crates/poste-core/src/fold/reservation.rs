//! Reservations: which agent holds which paths, and which of them overlap.

use super::outcome::{Code, Effect, Reserved, Stop, refuse};
use super::{Context, Rule, active_agent, message, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::limits;
use crate::log::{Position, Prolong, ReservationNo, Reserve, Send, Unreserve};
use crate::pattern::{Effort, Pattern};
use crate::store::tables::{Agent, DueItem, PastReservation, Reservation, ReservationEnd, Tables};
use crate::text::Name;

pub(crate) struct Taken {
    /// Each pattern once, with the agent's existing reservation of it.
    patterns: Vec<(Pattern, Option<Reservation>)>,
    for_ms: i64,
    shared: bool,
}

impl Rule for Reserve {
    type Plan = Taken;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Taken, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        check_time(self.for_ms)?;
        let patterns = distinct(&self.patterns);
        if patterns.is_empty() || patterns.len() > limits::RESERVE_MAX {
            return Err(refuse(
                Code::Malformed,
                format!("one reservation takes 1 to {} patterns", limits::RESERVE_MAX),
            ));
        }
        let mut taken = Vec::with_capacity(patterns.len());
        for pattern in &patterns {
            taken.push((pattern.clone(), tables.reservation_of(&agent.name, pattern)?));
        }
        let fresh = taken.iter().filter(|(_, held)| held.is_none()).count();
        if tables.count_reservations_of(&agent.name)? + fresh > limits::RESERVATIONS_MAX {
            let max = limits::RESERVATIONS_MAX;
            return Err(refuse(Code::TooLarge, format!("{} would hold more than {max} patterns", agent.name)));
        }
        let found = conflicts(tables, &agent.name, &patterns, self.shared)?;
        match found.is_empty() {
            true => Ok(Taken { patterns: taken, for_ms: self.for_ms, shared: self.shared }),
            false => Err(refuse(Code::Reserved, explain(&found))),
        }
    }

    fn apply(taken: Taken, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let until = cx.at.plus_ms(taken.for_ms);
        let mut reserved = Vec::with_capacity(taken.patterns.len());
        for (pattern, held) in taken.patterns {
            let number = match &held {
                Some(held) => held.number,
                None => tables.next_reservation()?,
            };
            let after = Reservation {
                number,
                position: cx.position,
                at: cx.at,
                agent: cx.actor.clone(),
                pattern,
                shared: taken.shared,
                until,
                renewed: None,
            };
            match &held {
                // Reserved again: the time starts over, and the newest record says what for.
                Some(before) => tables.update_reservation(before, &after)?,
                None => tables.insert_reservation(&after)?,
            }
            reserved.push(seen(&after));
        }
        Ok(Effect::Reserved(reserved))
    }
}

/// A wanted pattern, and another agent's reservation that conflicts with it.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub wanted: Pattern,
    pub held: Reservation,
}

/// All reservations of other agents that overlap. Shared reservations do not conflict with each other, and an agent
/// never conflicts with itself.
pub(crate) fn conflicts(
    tables: &Tables<'_>,
    agent: &Name,
    patterns: &[Pattern],
    shared: bool,
) -> Result<Vec<Conflict>, Stop> {
    let mut effort = Effort::new(limits::OVERLAP_STEPS_MAX);
    let mut found = Vec::new();
    for wanted in patterns {
        for held in tables.reservations_near(&wanted.prefix())? {
            if held.agent == *agent || (shared && held.shared) || !wanted.overlaps(&held.pattern, &mut effort) {
                continue;
            }
            // Once the effort is spent, "overlaps" is a guess. Only a holder that is known to be in the way is named.
            if effort.is_spent() {
                let what = "comparing this with all reservations takes too long; reserve fewer or simpler patterns";
                return Err(refuse(Code::TooLarge, what));
            }
            found.push(Conflict { wanted: wanted.clone(), held });
        }
    }
    Ok(found)
}

fn explain(conflicts: &[Conflict]) -> String {
    const NAMED_MAX: usize = 3;
    let mut text: Vec<String> = conflicts
        .iter()
        .take(NAMED_MAX)
        .map(|Conflict { wanted, held }| {
            let how = if held.shared { "shares" } else { "holds" };
            let name = |pattern: &Pattern| Foreign::name(pattern.as_str()).to_string();
            let which = match held.pattern == *wanted {
                true => String::new(),
                false => format!(", which overlaps {}", name(wanted)),
            };
            format!("{} {how} {} until {}{which}", held.agent, name(&held.pattern), held.until)
        })
        .collect();
    if conflicts.len() > NAMED_MAX {
        text.push(format!("and {} more", conflicts.len() - NAMED_MAX));
    }
    text.join("; ")
}

impl Rule for Unreserve {
    type Plan = (Vec<Reservation>, Option<message::Plan>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let holder = match &self.holder {
            Some(holder) => active_agent(tables, holder)?,
            None => agent.clone(),
        };
        if !may_free(cx, &agent, &holder) {
            let who = match &holder.lead {
                Some(lead) => format!("{}, its lead {lead} or a human", holder.name),
                None => format!("{} or a human", holder.name),
            };
            return Err(cx.only_person(&agent, format!("only {who} may release what {} reserved", holder.name)));
        }
        let freed = named(tables, &holder.name, &self.patterns)?;
        let mail = match &self.mail {
            None if holder.name == agent.name => None,
            Some(mail) if holder.name != agent.name && is_for(mail, &holder.name) => Some(mail.decide(tables, cx)?),
            _ => {
                return Err(refuse(Code::Malformed, "releasing for another agent must notify that agent alone"));
            }
        };
        Ok((freed, mail))
    }

    fn apply((freed, mail): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let released = freed.iter().map(seen).collect();
        for held in freed {
            end(tables, cx, held, ReservationEnd::Released)?;
        }
        let Some(mail) = mail else { return Ok(Effect::Reserved(released)) };
        let told = Send::apply(mail, tables, cx)?.message();
        let message = told.ok_or_else(|| Error::Damaged(format!("record {} notified no agent", cx.position)))?;
        Ok(Effect::Freed { released, message })
    }
}

fn is_for(mail: &Send, holder: &Name) -> bool {
    mail.to == [Address::Agent(holder.clone())] && mail.reply_to.is_none() && mail.ends.is_none()
}

/// An absent holder must not block everyone: its lead or a human may release in its place.
fn may_free(cx: &Context, agent: &Agent, holder: &Agent) -> bool {
    agent.name == holder.name || cx.speaks_as_person(agent) || holder.lead.as_ref() == Some(&agent.name)
}

impl Rule for Prolong {
    type Plan = (Vec<Reservation>, i64);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        check_time(self.for_ms)?;
        Ok((named(tables, &agent.name, &self.patterns)?, self.for_ms))
    }

    fn apply((held, for_ms): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let mut kept = Vec::with_capacity(held.len());
        for before in held {
            // Longer, never shorter, as with a lease.
            let until = cx.at.plus_ms(for_ms).max(before.until);
            let after = Reservation { until, renewed: Some(cx.position), ..before.clone() };
            tables.update_reservation(&before, &after)?;
            kept.push(seen(&after));
        }
        Ok(Effect::Reserved(kept))
    }
}

/// The agent's reservations of these patterns; it must hold each of them. No pattern means all of its reservations.
fn named(tables: &Tables<'_>, agent: &Name, patterns: &[Pattern]) -> Result<Vec<Reservation>, Stop> {
    if patterns.len() > limits::RESERVE_MAX {
        return Err(refuse(Code::Malformed, format!("one record names up to {} patterns", limits::RESERVE_MAX)));
    }
    if patterns.is_empty() {
        let all = tables.reservations_of(agent)?;
        return match all.is_empty() {
            true => Err(refuse(Code::NotReserved, format!("{agent} has reserved nothing"))),
            false => Ok(all),
        };
    }
    let mut found = Vec::with_capacity(patterns.len());
    for pattern in distinct(patterns) {
        let held = tables.reservation_of(agent, &pattern)?;
        found.push(held.ok_or_else(|| {
            refuse(Code::NotReserved, format!("{agent} has not reserved {}", Foreign::name(pattern.as_str())))
        })?);
    }
    Ok(found)
}

fn distinct(patterns: &[Pattern]) -> Vec<Pattern> {
    let mut patterns = patterns.to_vec();
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

fn check_time(for_ms: i64) -> Result<(), Stop> {
    if (limits::LEASE_MS_MIN..=limits::RESERVATION_MS_MAX).contains(&for_ms) {
        return Ok(());
    }
    Err(refuse(Code::TimeOutOfRange, "a reservation lasts between one second and seven days"))
}

fn seen(held: &Reservation) -> Reserved {
    Reserved { number: held.number, pattern: held.pattern.clone(), shared: held.shared, until: held.until }
}

fn end(tables: &mut Tables<'_>, cx: &Context, held: Reservation, reason: ReservationEnd) -> Result<(), Error> {
    tables.end_reservation(&PastReservation { reservation: held, ended_at: cx.at, ended_by: cx.position, reason })
}

pub(crate) fn end_all_of(tables: &mut Tables<'_>, cx: &Context, agent: &Name) -> Result<(), Error> {
    for held in tables.reservations_of(agent)? {
        end(tables, cx, held, ReservationEnd::Retired)?;
    }
    Ok(())
}

/// Ends a reservation whose time is up.
pub(crate) fn expire(tables: &mut Tables<'_>, cx: &Context, item: DueItem) -> Result<(), Error> {
    match tables.reservation(ReservationNo(item.subject))? {
        Some(held) if held.until == item.at => end(tables, cx, held, ReservationEnd::Expired),
        _ => Err(Error::Damaged(format!("reservation {} is due but not held until then", item.subject))),
    }
}

/// Extends all reservations by a clock leap, so that no agent loses one to a clock.
pub(crate) fn move_all(tables: &mut Tables<'_>, leap_ms: i64) -> Result<(), Error> {
    for before in tables.reservations()? {
        let after = Reservation { until: before.until.plus_ms(leap_ms), ..before.clone() };
        tables.update_reservation(&before, &after)?;
    }
    Ok(())
}

/// The answer to a repeated `reserve` or `extend`: which of the patterns the agent still holds.
pub(crate) fn still_held(tables: &Tables<'_>, agent: &Name, patterns: &[Pattern]) -> Result<Effect, Error> {
    if patterns.is_empty() {
        return Ok(Effect::Reserved(tables.reservations_of(agent)?.iter().map(seen).collect()));
    }
    let mut held = Vec::new();
    for pattern in distinct(patterns) {
        held.extend(tables.reservation_of(agent, &pattern)?.as_ref().map(seen));
    }
    Ok(Effect::Reserved(held))
}

/// The answer to a repeated `release`: what it released.
pub(crate) fn released_before(tables: &Tables<'_>, position: Position) -> Result<Vec<Reserved>, Error> {
    let past = tables.reservations_ended_by(position)?;
    Ok(past.iter().map(|past| seen(&past.reservation)).collect())
}
