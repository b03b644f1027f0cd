//! The policy in force, and the one this machine proposed.

use crate::digest::Digest;
use crate::error::Error;
use crate::log::PolicyType;
use crate::store::Store;
use crate::store::tables::PolicyRow;
use crate::text::TypeName;

/// The policy in force as this machine knows it.
#[derive(Debug)]
pub struct PolicyStanding {
    pub in_force: PolicyRow,
    /// The last policy that this machine proposed.
    pub proposed: Option<Digest>,
    /// The newest version this machine knew of when it last looked at its file.
    pub seen: u64,
}

pub fn policy_standing(store: &Store) -> Result<PolicyStanding, Error> {
    let (tables, machine) = (store.tables()?, store.machine()?);
    // This machine has seen its own proposals, even if it died before it could store that.
    let seen = store.policy_seen()?.max(tables.policy_version_of(machine)?);
    Ok(PolicyStanding { in_force: tables.policy()?, proposed: tables.policy_last_proposed(machine)?, seen })
}

/// Whether this machine ever proposed a policy.
pub fn has_proposed_policy(store: &Store) -> Result<bool, Error> {
    Ok(store.tables()?.policy_last_proposed(store.machine()?)?.is_some())
}

/// Whether the policy lets a question of a type be approved by default.
pub fn allows_approving_default(store: &Store, kind: &TypeName) -> Result<bool, Error> {
    Ok(store.tables()?.type_defaults(kind)?.is_some_and(|defaults| defaults.default_approve))
}

/// The types that the policy in force sets, by name.
pub fn own_types(store: &Store) -> Result<Vec<PolicyType>, Error> {
    let tables = store.tables()?;
    let types = tables.own_types()?.into_iter().map(|name| tables.own_type(&name).transpose());
    types.flatten().collect()
}
