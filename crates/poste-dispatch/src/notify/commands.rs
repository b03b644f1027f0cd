//! Commands about rules: retry failed notifications, and send a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use poste_core::fold::Code;
use poste_core::log::{HandlerSettle, Intent, MessageNo, Settling};
use poste_core::office::Place;
use poste_core::store::tables::Concern;
use poste_core::store::{Interest, Interrupt};
use poste_core::text::Label;
use poste_core::views::{self, MessageView};
use poste_verbs::actions::Carrier;
use poste_verbs::note;
use poste_verbs::watch::{drop::Answer, runnable};
use poste_verbs::{Error, Kind, Result};

use super::channels::{self, Failure};
use super::held::{Folders, HeldRule, take};
use super::post::Post;
use super::watcher::Setting;
use crate::mark::office_id;
use crate::speaker;

/// Maximum number of dead letters that one retry reads.
const RETRIED_MAX: usize = 10_000;

/// The outcome of retrying a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Retried {
    pub rule: Label,
    pub message: MessageNo,
    pub told: bool,
    /// Why it failed again.
    pub error: Option<String>,
}

/// Retries failed notifications of a rule, each once. Without numbers, all of them.
pub fn retry(
    place: &Place,
    carrier: &Carrier,
    name: &Label,
    numbers: &[MessageNo],
    patience: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Retried>> {
    let mut office = poste_config::open(place)?;
    poste_config::sync_policy(&mut office)?;
    let rules = poste_config::on_rules(&office)?;
    let rule = runnable(&office, &rules, name)?;
    let speaker = speaker(&mut office, carrier.caller.clone())?;
    carrier.carry_out(&mut office);
    for number in numbers {
        if !views::is_untold(office.store(), name, *number)? {
            let error = Error::not_found(format!("rule {name} has not failed on message {number}"));
            return Err(error.hint(note!("list them: " [watch dead, rule = name])));
        }
    }
    let setting = Setting {
        place: place.clone(),
        speaker,
        stop: Interrupt::default(),
        carrier: carrier.clone(),
        report: Arc::new(|_| {}),
        pace: None,
    };
    let freed = Interest::from(Concern::Handler(name.clone()));
    let handling =
        office.wait_for(&freed, Some(patience), |office| take(office, &setting, rule))?.ok_or_else(|| {
            Error::new(Kind::Busy, format!("another process is handling rule {name}"))
                .code(Code::RuleHeld.word())
                .hint(note!("see which: " [watch status]))
        })?;
    let id = office_id(&office)?;
    let folders = Folders::of(place);
    let mut held = HeldRule::new(&mut office, &setting, rule, handling);
    let mut retried = Vec::new();
    for (message, attempts) in views::untold_attempts(held.office.store(), name, RETRIED_MAX)? {
        if !numbers.is_empty() && !numbers.contains(&message) {
            continue;
        }
        if stop.load(Ordering::Relaxed) || !held.keep_for_attempt()? {
            break;
        }
        let sent = match views::message(held.office.store(), message)? {
            None => Err(Failure::from("the message no longer exists".to_owned())),
            Some(found) => {
                let context = folders.context(rule, held.office.wall(), stop);
                channels::send(&rule.handler, &Post::of(held.office, &id, name, found)?, context)
            }
        };
        if sent.is_err() && stop.load(Ordering::Relaxed) {
            break;
        }
        let error = sent.as_ref().err().map(|failure| failure.why.clone());
        retried.push(Retried { rule: name.clone(), message, told: sent.is_ok(), error });
        match sent {
            Ok(()) => {
                let (how, token) = (Settling::Sent, Some(held.token));
                let settle = HandlerSettle { rule: name.clone(), message, how, token };
                held.submit(vec![(Intent::HandlerSettle(settle), None)])?;
            }
            Err(failure) => drop(held.give_up(message, attempts.saturating_add(1), &failure, None)?),
        }
    }
    held.finish(None)?;
    Ok(retried)
}

/// Sends a test by a rule. Nothing is recorded.
pub fn test(place: &Place, name: &Label) -> Result<Answer> {
    let office = poste_config::open(place)?;
    let rules = poste_config::on_rules(&office)?;
    let rule = runnable(&office, &rules, name)?;
    let now = office.wall();
    let message = MessageView {
        subject: format!("a test of rule {name}"),
        body: "This is a test. There is nothing to do.".to_owned(),
        ..MessageView::blank("message".parse().expect("a built-in type"), now)
    };
    let post = Post {
        key: format!("poste-test-{}", uuid::Uuid::now_v7()),
        ..Post::of(&office, &office_id(&office)?, name, message)?
    };
    match channels::send(&rule.handler, &post, Folders::of(place).context(rule, now, &AtomicBool::new(false))) {
        Ok(()) => Ok(Answer { rule: name.clone(), message: None, what: "sent" }),
        Err(failure) => Err(Error::new(Kind::Unhealthy, format!("rule {name}: {}", failure.why)).code("untold")),
    }
}
