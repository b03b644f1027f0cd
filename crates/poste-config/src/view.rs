//! The settings in force, each with its source.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use poste_core::Error;
use poste_core::log::{PolicyType, Settings};
use poste_core::store::Store;
use poste_core::store::tables::PolicyRow;
use poste_core::text::TypeName;
use poste_core::views;

use crate::keys::keys_of;
use crate::read::policy_type;
use crate::{ConfigFile, KEYS, Key, LocalFile, MACHINE_SECTIONS, SCHEMA, TYPES, Value};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    BuiltIn,
    /// This machine's `poste.toml`.
    File,
    /// This machine's `.poste/local.toml`.
    LocalFile,
    /// The policy of another machine.
    OtherMachine,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Setting {
    /// Its full name: `delivery.lease`.
    pub key: String,
    /// Value in force; null if there is neither a setting nor a default, or if the type is not known yet.
    pub value: Option<Value>,
    pub source: Source,
    /// Value in this machine's poste.toml, if it is not in force.
    pub file_value: Option<Value>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyView {
    /// 0 is the built-in policy.
    pub version: u64,
    /// Host that set it; null for the built-in policy.
    pub host: Option<String>,
    pub settings: Vec<Setting>,
}

/// The settings of an office in force, and what this machine's file says.
pub fn settings(store: &Store, file: Option<&ConfigFile>, local: &LocalFile) -> Result<PolicyView, Error> {
    store.read(|_| {
        let policy = views::policy_standing(store)?.in_force;
        let none = ConfigFile::default();
        let file = file.unwrap_or(&none);
        let ours = file.policy.digest() == policy.digest || store.machine()?.as_str() == policy.machine;
        let view = View { policy: &policy, file, local, ours };
        let mut settings: Vec<Setting> =
            KEYS.iter().filter(|key| key.section != TYPES).map(|key| view.office_wide(key)).collect();
        let own = views::own_types(store)?;
        let mut names: BTreeSet<TypeName> = own.iter().map(|kind| kind.name.clone()).collect();
        names.extend(file.policy.types.iter().map(|kind| kind.name.clone()));
        names.extend(file.schemas.keys().cloned());
        for name in names {
            let held = own.iter().find(|kind| kind.name == name);
            settings.extend(keys_of(TYPES).filter_map(|key| view.of_type(key, &name, held)));
        }
        let host = (policy.version > 0).then(|| policy.host.clone());
        Ok(PolicyView { version: policy.version, host, settings })
    })
}

struct View<'a> {
    policy: &'a PolicyRow,
    file: &'a ConfigFile,
    local: &'a LocalFile,
    /// Whether the policy in force is this machine's.
    ours: bool,
}

impl View<'_> {
    fn office_wide(&self, key: &Key) -> Setting {
        let name = format!("{}.{}", key.section, key.name);
        if MACHINE_SECTIONS.contains(&key.section) {
            let value = self.file.machine_value(self.local, key.section, key.name);
            let in_file = self.file.given.get(&name).map(|given| given.value.clone());
            let source = match (self.local.given.contains_key(&name), &in_file) {
                (true, _) => Source::LocalFile,
                (false, Some(_)) => Source::File,
                (false, None) => Source::BuiltIn,
            };
            let file_value = in_file.filter(|in_file| Some(in_file) != value.as_ref());
            return Setting { key: name, value, source, file_value };
        }
        let set = setting(&self.policy.settings, key);
        let source = match (&set, self.ours) {
            (None, _) => Source::BuiltIn,
            (Some(_), true) => Source::File,
            (Some(_), false) => Source::OtherMachine,
        };
        let value = set.or_else(|| key.built_in.clone());
        let says = setting(&self.file.policy.settings, key).or_else(|| key.built_in.clone());
        let file_value = if says == value { None } else { says };
        Setting { key: name, value, source, file_value }
    }

    /// A key of a type, if it is set in the file or in force.
    fn of_type(&self, key: &Key, name: &TypeName, held: Option<&PolicyType>) -> Option<Setting> {
        let full = format!("{TYPES}.{name}.{}", key.name);
        if key.name == SCHEMA {
            let value = Value::Schema(self.file.schemas.get(name)?.clone());
            return Some(Setting { key: full, value: Some(value), source: Source::File, file_value: None });
        }
        let in_file = self.file.policy.types.iter().find(|kind| kind.name == *name);
        let says = in_file.and_then(|kind| of_kind(kind, key));
        let value = held.and_then(|kind| of_kind(kind, key));
        if value.is_none() && says.is_none() {
            return None;
        }
        let given = self.file.given.contains_key(&full);
        let source = match (self.ours, &value) {
            (true, Some(_)) if given => Source::File,
            (false, Some(value))
                if of_kind(&policy_type(name.clone(), &BTreeMap::new()), key).as_ref() != Some(value) =>
            {
                Source::OtherMachine
            }
            _ => Source::BuiltIn,
        };
        let file_value = if says == value { None } else { says };
        Some(Setting { key: full, value, source, file_value })
    }
}

fn setting(settings: &Settings, key: &Key) -> Option<Value> {
    match (key.section, key.name) {
        ("delivery", "max_attempts") => settings.max_attempts.map(|count| Value::Count(count.into())),
        ("delivery", "retry_delay") => settings.retry_delay_ms.map(Value::Length),
        ("delivery", "lease") => settings.lease_ms.map(Value::Length),
        ("retention", "finished") => settings.retention_ms.map(Value::Length),
        ("limits", "message_bytes") => settings.content_bytes_max.map(Value::Count),
        ("limits", "fan_out") => settings.fan_out_max.map(|count| Value::Count(count.into())),
        _ => None,
    }
}

fn of_kind(kind: &PolicyType, key: &Key) -> Option<Value> {
    match key.name {
        "priority" => Some(Value::Priority(kind.priority)),
        "urgency" => Some(Value::Urgency(kind.urgency)),
        "work" => Some(Value::Flag(kind.work)),
        "response" => Some(Value::Flag(kind.response)),
        "max_attempts" => kind.max_attempts.map(|count| Value::Count(count.into())),
        "retry_delay" => kind.retry_delay_ms.map(Value::Length),
        "patience" => kind.patience_ms.map(Value::Length),
        "default_approve" => kind.default_approve.then_some(Value::Flag(true)),
        _ => None,
    }
}
