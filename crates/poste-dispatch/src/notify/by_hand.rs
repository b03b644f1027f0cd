//! What a person does about a rule: trying again what it could not tell, and testing whether it gets through.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poste_core::fold::Code;
use poste_core::log::MessageNo;
use poste_core::office::Place;
use poste_core::text::Label;
use poste_core::views;
use poste_verbs::actions::Carrier;
use poste_verbs::note;
use poste_verbs::watch::{drop::Answer, runnable};
use poste_verbs::{Error, Kind, Result};

use super::{Matcher, Retried};
use crate::speaker;

/// Tries messages that a rule could not tell of once more; none named, all of them.
pub fn retry(
    place: &Place,
    carrier: &Carrier,
    rule: &Label,
    numbers: &[MessageNo],
    patience: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Retried>> {
    let mut office = place.open()?;
    poste_config::sync_policy(&mut office)?;
    let rules = poste_config::on_rules(&office)?;
    let matcher = Matcher::new(runnable(&rules, rule)?.clone())?;
    let speaker = speaker(&mut office, carrier.caller.clone())?;
    carrier.carry_out(&mut office);
    for number in numbers {
        if !views::is_untold(office.store(), rule, *number)? {
            let error = Error::not_found(format!("rule {rule} does not wait to tell of message {number}"));
            return Err(error.hint(note!("what waits: " [watch dead, rule = rule])));
        }
    }
    drop(office);
    let retried = super::retry(place, carrier, &speaker, &matcher, numbers, patience, stop)?;
    retried.ok_or_else(|| {
        Error::new(Kind::Busy, format!("somebody else sees to rule {rule} just now"))
            .code(Code::RuleHeld.word())
            .hint(note!("see who: " [watch status]))
    })
}

/// Sends a message that is none by a rule. Nothing is written down.
pub fn test(place: &Place, rule: &Label) -> Result<Answer> {
    let rules = poste_config::on_rules(&place.open()?)?;
    match super::test(place, runnable(&rules, rule)?)? {
        Ok(()) => Ok(Answer { rule: rule.clone(), message: None, what: "sent" }),
        Err(failure) => Err(Error::new(Kind::Unhealthy, format!("rule {rule}: {}", failure.why)).code("untold")),
    }
}
