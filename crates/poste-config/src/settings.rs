//! This machine's `poste.toml` and the policy in force: compares them, and changes the file.

use std::path::Path;

use poste_core::gates::Source;
use poste_core::log::{Author, Intent, Policy, Via};
use poste_core::office::Rules;
use poste_core::payload::PayloadSchemas;
use poste_core::store::tables::PolicyRow;
use poste_core::store::{Store, host_name};
use poste_core::text::Name;
use poste_core::views::{self, PolicyStanding};
use poste_core::{Error, Office};

use crate::disk::{read_config, replace_config};
use crate::office::{config, config_path, schemas_of};
use crate::trust::{renew, reviewed_programs};
use crate::{Change, ConfigFile, FilePolicy, KeyPath, LOCAL_FILE, NewAgent, Problem, SCHEMA, Value, edit};

/// How the rules of this machine's file relate to those in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They are equal, or no file ever existed.
    InForce,
    /// They differ from what this machine proposed last: the next command that writes proposes them.
    Next,
    /// This machine proposed them, and another machine's policy replaced them.
    Overruled,
}

/// A file compared with the policy in force.
#[derive(Debug)]
pub(crate) struct Weighed {
    pub standing: Standing,
    /// What the file would propose. It replaces the policy version that the file was last known to be based on.
    pub policy: Policy,
    pub in_force: PolicyRow,
}

/// Compares this machine's file with the policy in force. `None` if there is no file and never was one.
pub(crate) fn weigh(store: &Store, file: Option<FilePolicy>) -> Result<Option<Weighed>, Error> {
    if file.is_none() && !views::has_proposed_policy(store)? {
        return Ok(None);
    }
    let PolicyStanding { in_force, proposed, seen } = views::policy_standing(store)?;
    let policy = file.unwrap_or_default().into_policy(store.machine()?.clone(), host_name(), seen);
    let digest = policy.digest();
    let standing = match () {
        () if digest == in_force.digest => Standing::InForce,
        () if proposed == Some(digest) => Standing::Overruled,
        () => Standing::Next,
    };
    Ok(Some(Weighed { standing, policy, in_force }))
}

/// How this machine's file relates to the policy in force.
pub fn standing(office: &Office, file: Option<&ConfigFile>) -> Result<Standing, Error> {
    let weighed = weigh(office.store(), file.map(|file| file.policy.clone()))?;
    Ok(weighed.map_or(Standing::InForce, |weighed| weighed.standing))
}

/// Proposes this machine's `poste.toml` if it differs from what this machine last proposed. Returns the payload schemas
/// that it names, which apply to the next proposals.
///
/// The proposal replaces the policy that the file was last known to be based on. If another machine has set one in the
/// meantime, they conflict, and the error names that machine.
pub fn sync_policy(office: &mut Office) -> Result<PayloadSchemas, Error> {
    loop {
        let mut file = config(office)?;
        let policy = file.as_mut().map(|file| std::mem::take(&mut file.policy));
        if bring_into_force(office, policy)? {
            return schemas_of(office, file);
        }
    }
}

/// Returns whether it is done; if not, the file has to be read again.
fn bring_into_force(office: &mut Office, file: Option<FilePolicy>) -> Result<bool, Error> {
    let Some(Weighed { standing, policy, in_force }) = weigh(office.store(), file)? else { return Ok(true) };
    let (seen, in_force) = (policy.replaces, in_force.version);
    match standing {
        Standing::InForce if seen == in_force => return Ok(true),
        // The file was brought up to date, for example by a pull: later changes of it are based on this version.
        Standing::InForce => return office.see_policy(in_force).map(|()| true),
        Standing::Overruled => return Ok(true), // unchanged here; another machine's policy stands
        Standing::Next => {}
    }
    let Err(error) = propose_policy(office, policy) else {
        // A copy of this folder counts as another machine, but its file is also based on this policy. This machine
        // knows that from its own record, so a failure does not matter.
        let _ = office.see_policy(seen + 1);
        return Ok(true);
    };
    // Another process of this machine proposed this file, or a later state of it, between the comparison and the
    // append. This is not a conflict between machines, so compare again. In each round another process made progress,
    // so the loop ends.
    if views::policy_standing(office.store())?.seen > seen { Ok(false) } else { Err(error) }
}

fn propose_policy(office: &mut Office, policy: Policy) -> Result<(), Error> {
    let author = Author::new(Name::poste(), Via::Unknown);
    let proposal = office.proposal(&author, Intent::Policy(policy), None);
    // Schemas and gates do not apply to a policy.
    office.propose_unless_refused(&proposal, &Rules::none())?.verdict.accepted()?;
    Ok(())
}

/// A file that Poste itself changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// False if it said the same before.
    pub changed: bool,
    /// Whether its commands may run.
    pub trusted: bool,
}

/// Adds an agent to this machine's own file, `.poste/local.toml`. `by` is the person who wants that: for anybody else
/// the file has to be reviewed before the agent can run.
pub fn add_agent(office: &Office, agent: &NewAgent, by: Option<String>) -> Result<Written, Error> {
    let path = office.path()?.join(LOCAL_FILE);
    let _guard = office.lock()?;
    let old = read_config(&path)?;
    let reviewed = reviewed_programs(office, Source::Machine, old.as_deref())?;
    let new = edit::add_agent(old.as_deref().unwrap_or_default(), agent).map_err(|found| unsound(&path, &found))?;
    let Some(new) = new else { return Ok(Written { changed: false, trusted: reviewed.is_some() }) };
    replace_config(&path, old.as_deref(), &new)?;
    let named = agent.run.first();
    Ok(Written { changed: true, trusted: renew(office, Source::Machine, new, reviewed, named, by)? })
}

/// Sets or unsets one key of this machine's `poste.toml`. The file is only written if the result is valid. The change
/// takes effect like any other, with the next [`sync_policy`].
///
/// `by` is the person who wants that: a file that was trusted then stays trusted.
pub fn change_config(
    office: &Office,
    key: &KeyPath,
    value: Option<&Value>,
    by: Option<String>,
) -> Result<(Change, Written), Error> {
    let path = config_path(office)?;
    // Of two concurrent changes one would be lost, so they take the lock of every writer.
    let _guard = office.lock()?;
    let old = read_config(&path)?;
    // A file that cannot be read is not trusted, and this may be what corrects it.
    let reviewed = reviewed_programs(office, Source::Office, old.as_deref()).unwrap_or_default();
    let change =
        edit::change(old.as_deref().unwrap_or_default(), key, value).map_err(|found| unsound(&path, &found))?;
    if let (KeyPath::OfType(kind, known), Some(Value::Schema(source))) = (key, value)
        && known.name == SCHEMA
    {
        let named = PayloadSchemas::new(&path, [(kind.clone(), source.clone())].into());
        if let Some((_, message)) = named.problems().pop() {
            return Err(Error::Config { path, message });
        }
    }
    if old.as_deref().unwrap_or_default() == change.text {
        return Ok((change, Written { changed: false, trusted: reviewed.is_some() }));
    }
    replace_config(&path, old.as_deref(), &change.text)?;
    let trusted = renew(office, Source::Office, change.text.clone(), reviewed, None, by)?;
    Ok((change, Written { changed: true, trusted }))
}

fn unsound(path: &Path, problems: &[Problem]) -> Error {
    let message = problems.first().map_or_else(String::new, ToString::to_string);
    Error::Config { path: path.to_owned(), message }
}
