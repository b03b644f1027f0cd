//! The office's policy: settings and types proposed from a `poste.toml`.

use rusqlite::params;

use super::{Concern, Optional as _, Tables};
use crate::digest::Digest;
use crate::error::Error;
use crate::limits;
use crate::log::{Policy, PolicyType, Position, Settings};
use crate::text::{Label, TypeName};
use crate::time::Timestamp;
use crate::vocabulary::{self, Priority, Urgency};

/// The newest policy and the machine it is from. Version 0 is the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRow {
    pub version: u64,
    pub machine: String,
    pub host: String,
    pub digest: Digest,
    pub settings: Settings,
}

impl Default for PolicyRow {
    fn default() -> Self {
        // Cached, because every send in an office without a poste.toml asks for it.
        static BUILT_IN: std::sync::OnceLock<Digest> = std::sync::OnceLock::new();
        let digest = *BUILT_IN.get_or_init(|| Policy::digest_of(&Settings::default(), &[]));
        Self { version: 0, machine: String::new(), host: String::new(), digest, settings: Settings::default() }
    }
}

/// What a type implies under the office's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDefaults {
    pub priority: Priority,
    pub urgency: Urgency,
    pub work: bool,
    pub response: bool,
    pub max_attempts: u32,
    pub retry_delay_ms: i64,
    /// How long it may wait unseen; `None` means forever.
    pub patience_ms: Option<i64>,
    /// Whether a question may be approved by its default.
    pub default_approve: bool,
}

stored!(PolicyType in "types": name, priority, urgency, work, response, max_attempts, retry_delay_ms, patience_ms,
    default_approve);

impl Tables<'_> {
    pub fn policy(&self) -> Result<PolicyRow, Error> {
        if let Some(known) = &self.cache.borrow().policy {
            return Ok(known.clone());
        }
        let policy = self.read_policy()?;
        self.cache.borrow_mut().policy = Some(policy.clone());
        Ok(policy)
    }

    fn read_policy(&self) -> Result<PolicyRow, Error> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT version, machine, host, max_attempts, retry_delay_ms, lease_ms, retention_ms,
                 content_bytes_max, fan_out_max, digest FROM policies ORDER BY version DESC LIMIT 1",
            )?
            .query_row([], |row| {
                Ok(PolicyRow {
                    version: row.get(0)?,
                    machine: row.get(1)?,
                    host: row.get(2)?,
                    digest: row.get(9)?,
                    settings: Settings {
                        max_attempts: row.get(3)?,
                        retry_delay_ms: row.get(4)?,
                        lease_ms: row.get(5)?,
                        retention_ms: row.get(6)?,
                        content_bytes_max: row.get(7)?,
                        fan_out_max: row.get(8)?,
                    },
                })
            })
            .optional()?
            .unwrap_or_default())
    }

    /// The digest of the policy that this machine last proposed.
    pub fn policy_last_proposed(&self, machine: &Label) -> Result<Option<Digest>, Error> {
        self.maybe("SELECT digest FROM policies WHERE machine = ?1 ORDER BY version DESC LIMIT 1", [machine])
    }

    /// The newest version that this machine proposed, or 0.
    pub fn policy_version_of(&self, machine: &Label) -> Result<u64, Error> {
        self.value("SELECT coalesce(max(version), 0) FROM policies WHERE machine = ?1", [machine])
    }

    pub fn insert_policy(&mut self, policy: &Policy, position: Position, at: Timestamp) -> Result<(), Error> {
        let cache = self.cache.get_mut();
        cache.policy = None;
        cache.types.clear();
        let settings = &policy.settings;
        self.execute(
            "INSERT INTO policies (version, position, at, machine, host, digest, max_attempts, retry_delay_ms,
                 lease_ms, retention_ms, content_bytes_max, fan_out_max)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                policy.replaces + 1,
                position,
                at,
                policy.machine,
                policy.host,
                policy.digest(),
                settings.max_attempts,
                settings.retry_delay_ms,
                settings.lease_ms,
                settings.retention_ms,
                settings.content_bytes_max,
                settings.fan_out_max
            ],
        )?;
        self.concern(|| Concern::Policy);
        self.conn.execute("DELETE FROM types", [])?;
        self.insert_all(&policy.types)
    }

    /// Defaults of a type: the office's own, or else the built-in ones. `None` if the type is unknown.
    pub fn type_defaults(&self, name: &TypeName) -> Result<Option<TypeDefaults>, Error> {
        if let Some(known) = self.cache.borrow().types.get(name) {
            return Ok(Some(known.clone()));
        }
        let defaults = self.read_type_defaults(name)?;
        // Unknown names are not cached, because there is no limit to them.
        if let Some(defaults) = &defaults {
            self.cache.borrow_mut().types.insert(name.clone(), defaults.clone());
        }
        Ok(defaults)
    }

    fn read_type_defaults(&self, name: &TypeName) -> Result<Option<TypeDefaults>, Error> {
        let settings = self.policy()?.settings;
        let max_attempts = settings.max_attempts.unwrap_or(limits::ATTEMPTS_MAX_DEFAULT);
        let retry_delay_ms = settings.retry_delay_ms.unwrap_or(limits::RETRY_DELAY_MS_DEFAULT);
        let own = self.own_type(name)?.map(|own| TypeDefaults {
            priority: own.priority,
            urgency: own.urgency,
            work: own.work,
            response: own.response,
            max_attempts: own.max_attempts.unwrap_or(max_attempts),
            retry_delay_ms: own.retry_delay_ms.unwrap_or(retry_delay_ms),
            patience_ms: own.patience_ms.or(own.urgency.patience_ms()),
            default_approve: own.default_approve,
        });
        Ok(own.or_else(|| {
            vocabulary::built_in(name.as_str()).map(|word| TypeDefaults {
                priority: word.priority,
                urgency: word.urgency,
                work: word.work,
                response: word.response,
                max_attempts,
                retry_delay_ms,
                patience_ms: word.urgency.patience_ms(),
                default_approve: false,
            })
        }))
    }

    /// What the current policy says about a type, if anything.
    pub fn own_type(&self, name: &TypeName) -> Result<Option<PolicyType>, Error> {
        self.one(select!(PolicyType, "WHERE name = ?1"), [name])
    }

    /// Names of the office's own types, in order.
    pub fn own_types(&self) -> Result<Vec<TypeName>, Error> {
        self.column("SELECT name FROM types ORDER BY name", [])
    }
}
