//! Ticks: the only place where due items take effect.

use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, only_poste};
use super::{approval, context, delivery, handler, reservation, workflow};
use crate::error::Error;
use crate::limits;
use crate::log::{DeliveryNo, Tick};
use crate::store::tables::{Delivery, Due, DueItem, EndReason, Event, State, Tables};

impl Rule for Tick {
    type Plan = Vec<DueItem>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<DueItem>, Stop> {
        only_poste(cx)?;
        let items = tables.due_at(cx.at, limits::TICK_ITEMS_MAX)?;
        if items.is_empty() {
            return Err(refuse(Code::NothingToDo, "nothing is due"));
        }
        Ok(items)
    }

    fn apply(items: Vec<DueItem>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for item in &items {
            match item.what {
                Due::Lease | Due::Ready | Due::Expiry | Due::Response => settle_delivery(tables, cx, *item)?,
                Due::ContextLock => context::settle_lock(tables, *item)?,
                Due::Approval => approval::settle(tables, cx, *item)?,
                Due::Reservation => reservation::expire(tables, cx, *item)?,
                Due::Step => workflow::settle(tables, cx, *item)?,
                Due::Handler => handler::expire(tables, *item)?,
            }
        }
        Ok(Effect::Settled(items.len()))
    }
}

/// Settles one due item of a delivery. An earlier item of the same tick may have settled it already.
fn settle_delivery(tables: &mut Tables<'_>, cx: &Context, item: DueItem) -> Result<(), Error> {
    let Some(before) = &tables.delivery(DeliveryNo(item.subject))? else {
        return Err(Error::Damaged(format!("delivery {} is due but does not exist", item.subject)));
    };
    match (item.what, before.state) {
        (Due::Lease, State::Claimed) if before.lease_until == Some(item.at) => {
            // A lease ends at its own time, however late the tick is.
            delivery::count_attempt(tables, cx, before, Event::LeaseExpired, item.at, None)
        }
        (Due::Ready, State::Pending) if !before.ready => {
            let after = Delivery { ready: true, ready_at: None, ..before.clone() };
            tables.update_delivery(before, &after)?;
            delivery::record_event(tables, cx, &after, Event::Ready, None)
        }
        (Due::Expiry, State::Pending) => {
            delivery::end(tables, cx, before, before.clone(), State::Expired, EndReason::Expired)
        }
        (Due::Response, State::Pending | State::Claimed) if before.is_awaited() && before.reminded_at.is_none() => {
            delivery::remind(tables, cx, before)
        }
        // An earlier item of this tick superseded it and deleted its row. A row that still exists would be due forever:
        // stop instead of ticking without end.
        _ if tables.is_due(item)? => {
            Err(Error::Damaged(format!("delivery {} is {}, but its {} is due", item.subject, before.state, item.what)))
        }
        _ => Ok(()),
    }
}
