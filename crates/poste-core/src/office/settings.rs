//! This machine's `poste.toml` and the policy in force: how they stand to each other, and how the file is changed.

use std::path::PathBuf;

use super::Office;
use crate::config::{self, Change, ConfigFile, FilePolicy, KeyPath, NewAgent, Value};
use crate::error::Error;
use crate::log::{Author, Intent, Policy, Via};
use crate::payload::PayloadSchemas;
use crate::store::{Store, host_name, read_config, replace_config};
use crate::text::Name;

/// How the rules of this machine's file stand to those in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They are the same; or there is no file, and never was.
    InForce,
    /// They differ from what this machine proposed last: the next command that writes proposes them.
    Next,
    /// This machine proposed them, and another machine's policy came after.
    Overruled,
}

/// A file weighed against the log.
#[derive(Debug)]
pub(crate) struct Weighed {
    pub standing: Standing,
    pub policy: Policy,
    /// The policy version the file was last known to stand on, and the one in force.
    pub seen: u64,
    pub in_force: u64,
}

/// This machine's file against the policy in force. `None`: there is no file, and never was.
pub(crate) fn weigh_file(store: &Store) -> Result<Option<Weighed>, Error> {
    let office = store.path().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))?;
    let path = office.with_file_name(config::FILE);
    let file = read_config(&path)?.map(|text| ConfigFile::parse(&text, &path)).transpose()?;
    weigh(store, file.map(|file| file.policy))
}

fn weigh(store: &Store, file: Option<FilePolicy>) -> Result<Option<Weighed>, Error> {
    let tables = store.tables()?;
    let machine = store.machine()?;
    let last = tables.policy_last_proposed(machine)?;
    if file.is_none() && last.is_none() {
        return Ok(None);
    }
    let in_force = tables.policy()?;
    // What this machine proposed itself it has seen, whether or not it lived to remember it.
    let seen = store.policy_seen()?.max(tables.policy_version_of(machine)?);
    let policy = file.unwrap_or_default().into_policy(machine.clone(), host_name(), seen);
    let digest = policy.digest();
    let standing = match () {
        () if digest == in_force.digest => Standing::InForce,
        () if last == Some(digest) => Standing::Overruled,
        () => Standing::Next,
    };
    Ok(Some(Weighed { standing, policy, seen, in_force: in_force.version }))
}

impl Office {
    /// Where this office's `poste.toml` is, or would be.
    pub fn config_path(&self) -> Result<PathBuf, Error> {
        Ok(self.path()?.with_file_name(config::FILE))
    }

    /// This machine's file, if there is one.
    pub fn config(&self) -> Result<Option<ConfigFile>, Error> {
        let path = self.config_path()?;
        read_config(&path)?.map(|text| ConfigFile::parse(&text, &path)).transpose()
    }

    /// How this machine's file stands to the policy in force.
    pub fn standing(&self, file: Option<&ConfigFile>) -> Result<Standing, Error> {
        Ok(weigh(self.store(), file.map(|file| file.policy.clone()))?
            .map_or(Standing::InForce, |weighed| weighed.standing))
    }

    /// Proposes this machine's `poste.toml` if it differs from what this machine last proposed.
    ///
    /// It replaces the policy the file was last known to stand on. If another machine set one meanwhile, that is a
    /// clash, and the error names that machine.
    pub fn sync_policy(&mut self) -> Result<(), Error> {
        loop {
            let file = self.config()?;
            self.take_schemas(file.as_ref())?;
            let Some(weighed) = weigh(self.store(), file.map(|file| file.policy))? else { return Ok(()) };
            match weighed.standing {
                Standing::InForce if weighed.seen == weighed.in_force => return Ok(()),
                // The file came to agree, for example by a pull: a later change of it stands on this version.
                Standing::InForce => return self.files_mut().see_policy(weighed.in_force),
                Standing::Overruled => return Ok(()), // unchanged here; another machine's policy stands
                Standing::Next => {}
            }
            let seen = weighed.seen;
            let Err(error) = self.propose_policy(weighed.policy) else {
                // For a copy of this folder, which is another machine, and whose file stands on this policy all the same.
                // This machine knows by its own record, so it does not matter here whether that fails.
                let _ = self.files_mut().see_policy(seen + 1);
                return Ok(());
            };
            // Another process of this machine proposed this file, or a later state of it, between the look and the
            // append. That is no clash of machines: look again. Each round somebody else got further, so it ends.
            let machine = self.store().machine()?;
            if self.store().tables()?.policy_version_of(machine)? <= seen {
                return Err(error);
            }
        }
    }

    fn take_schemas(&mut self, file: Option<&ConfigFile>) -> Result<(), Error> {
        let sources = file.map(|file| file.schemas.clone()).unwrap_or_default();
        match &mut self.schemas {
            Some(known) => known.update(sources),
            None => self.schemas = Some(PayloadSchemas::new(&self.config_path()?, sources)),
        }
        Ok(())
    }

    /// The payload schemas of this machine's file.
    pub fn payload_schemas(&self) -> Result<PayloadSchemas, Error> {
        self.named_schemas()
    }

    fn propose_policy(&mut self, policy: Policy) -> Result<(), Error> {
        let author = Author::new(Name::poste(), Via::Unknown);
        let proposal = self.proposal(&author, Intent::Policy(policy), None);
        self.propose(&proposal)?.verdict.accepted()?;
        Ok(())
    }

    /// Adds an agent to this machine's own file, `.poste/local.toml`. Says whether it was not there.
    pub fn add_agent(&mut self, agent: &NewAgent) -> Result<bool, Error> {
        let path = self.path()?.join(config::LOCAL_FILE);
        let _guard = self.files().hold()?;
        let old = read_config(&path)?;
        let new = config::add_agent(old.as_deref().unwrap_or_default(), agent).map_err(|problems| {
            let message = problems.first().map_or_else(String::new, ToString::to_string);
            Error::Config { path: path.clone(), message }
        })?;
        let Some(new) = new else { return Ok(false) };
        replace_config(&path, old.as_deref(), &new)?;
        Ok(true)
    }

    /// Sets one key of this machine's `poste.toml`, or unsets it. The file is only written if it is then sound; it
    /// takes effect like any other change of it, with the next [`sync_policy`](Self::sync_policy).
    pub fn change_config(&mut self, key: &KeyPath, value: Option<&Value>) -> Result<Change, Error> {
        let path = self.config_path()?;
        // Two changes at once would each lose the other's; the lock every writer takes keeps them apart.
        let _guard = self.files().hold()?;
        let old = read_config(&path)?;
        let change = config::change(old.as_deref().unwrap_or_default(), key, value).map_err(|problems| {
            let message = problems.first().map_or_else(String::new, ToString::to_string);
            Error::Config { path: path.clone(), message }
        })?;
        if let (KeyPath::OfType(kind, known), Some(Value::Schema(source))) = (key, value)
            && known.name == config::SCHEMA
        {
            let named = PayloadSchemas::new(&path, [(kind.clone(), source.clone())].into());
            if let Some((_, message)) = named.problems().pop() {
                return Err(Error::Config { path, message });
            }
        }
        if old.as_deref().unwrap_or_default() != change.text {
            replace_config(&path, old.as_deref(), &change.text)?;
        }
        Ok(change)
    }
}
