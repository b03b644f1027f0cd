//! Policy: the part of `poste.toml` that decides, in versions.

use std::collections::BTreeSet;

use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, only_poste};
use crate::error::Error;
use crate::limits;
use crate::log::Policy;
use crate::store::tables::Tables;

impl Rule for Policy {
    type Plan = Policy;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Policy, Stop> {
        only_poste(cx)?;
        let current = tables.policy()?;
        if current.version != self.replaces {
            return Err(refuse(
                Code::PolicyClash,
                format!(
                    "this machine's poste.toml would replace policy {}, but policy {} is in force, set by {}",
                    self.replaces, current.version, current.host
                ),
            ));
        }
        check_ranges(self).map_err(|why| refuse(Code::Malformed, why))?;
        Ok(self.clone())
    }

    fn apply(policy: Policy, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.insert_policy(&policy, cx.position, cx.at)?;
        Ok(Effect::Noted)
    }
}

/// Also called before the append, so that the error can name the path of a bad file.
pub fn check_ranges(policy: &Policy) -> Result<(), String> {
    let settings = &policy.settings;
    let attempts = |value: Option<u32>| value.is_none_or(|value| (1..=limits::ATTEMPTS_MAX_MAX).contains(&value));
    let delay = |value: Option<i64>| value.is_none_or(|value| (0..=limits::RETRY_DELAY_MS_MAX).contains(&value));
    let lease = |value: i64| (limits::LEASE_MS_MIN..=limits::LEASE_MS_MAX).contains(&value);
    if !attempts(settings.max_attempts) || !policy.types.iter().all(|kind| attempts(kind.max_attempts)) {
        return Err(format!("max_attempts must be between 1 and {}", limits::ATTEMPTS_MAX_MAX));
    }
    if !delay(settings.retry_delay_ms) || !policy.types.iter().all(|kind| delay(kind.retry_delay_ms)) {
        return Err("retry_delay must be between 0 and 1 hour".to_owned());
    }
    let patience = limits::PATIENCE_MS_MIN..=limits::PATIENCE_MS_MAX;
    if !policy.types.iter().all(|kind| kind.patience_ms.is_none_or(|value| patience.contains(&value))) {
        return Err("patience must be between 1 second and 30 days".to_owned());
    }
    if !settings.lease_ms.is_none_or(lease) {
        return Err("lease must be between 1 second and 24 hours".to_owned());
    }
    if !settings.retention_ms.is_none_or(|value| (0..=limits::HORIZON_MS_MAX).contains(&value)) {
        return Err("retention must be between 0 and 10 years".to_owned());
    }
    if !settings.content_bytes_max.is_none_or(|value| (1..=limits::CONTENT_BYTES_MAX as u64).contains(&value)) {
        return Err(format!("message_bytes must be between 1 and {}", limits::CONTENT_BYTES_MAX));
    }
    if !settings.fan_out_max.is_none_or(|value| (1..=limits::FAN_OUT_MAX as u32).contains(&value)) {
        return Err(format!("fan_out must be between 1 and {}", limits::FAN_OUT_MAX));
    }
    if policy.types.len() > limits::POLICY_TYPES_MAX {
        return Err(format!("more than {} types", limits::POLICY_TYPES_MAX));
    }
    let names: BTreeSet<_> = policy.types.iter().map(|kind| &kind.name).collect();
    if names.len() != policy.types.len() {
        return Err("a type is named twice".to_owned());
    }
    if policy.host.len() > limits::LABEL_BYTES_MAX {
        return Err("the host name is too long".to_owned());
    }
    Ok(())
}
