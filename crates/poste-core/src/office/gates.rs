//! The gates of this machine's files, and that nobody gets past them by another way than the claim.

use std::path::Path;

use super::Office;
use crate::config::{self, ConfigFile, LocalFile, Problem, Runners, Value, WakeConfig};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{self, Code, Rejection};
use crate::gates::{self, Gates, Source};
use crate::limits;
use crate::log::{EndsHow, Intent, MessageNo, Position, Proposal};
use crate::store::tables::Tables;
use crate::store::{read_config, trust};
use crate::vocabulary::AgentKind;

/// What the own file of this machine says; an error if it cannot be used.
pub(crate) fn local_config(folder: &Path) -> Result<LocalFile, Error> {
    let path = folder.join(config::LOCAL_FILE);
    let Some(text) = read_config(&path)? else { return Ok(LocalFile::default()) };
    let (file, problems) = config::read_local(&text);
    if let Some(problem) = problems.first() {
        return Err(Error::Config { path, message: problem.to_string() });
    }
    // One rule for everything it runs. It is an error and no omission: a gate that is left out would let all through.
    match file.runs_something().then(|| trust::foreign(&path)).transpose()?.flatten() {
        Some(message) => Err(Error::Config { path, message }),
        None => Ok(file),
    }
}

impl Office {
    /// Every gate of `poste.toml` and `.poste/local.toml`, as these are now. One that cannot be read is an error: it
    /// must not be left out.
    pub fn gates(&self) -> Result<Gates, Error> {
        let Some(folder) = self.store().path() else { return Ok(Gates::default()) };
        let mut found = Gates::default();
        let config = folder.with_file_name(config::FILE);
        if let Some(text) = read_config(&config)? {
            found.gates = ConfigFile::parse(&text, &config)?.gates;
            // Asked of the text that was read, not of what the file may have become since.
            if found.gates.iter().any(|gate| gate.program.is_some()) {
                let mark = trust::read(folder, self.machine()?, &config)?;
                found.trusted = mark.is_some_and(|mark| mark.digest == Digest::of(text.as_bytes()));
            }
        }
        let wrong = |message: String| Err(Error::Config { path: folder.join(config::LOCAL_FILE), message });
        let tables = self.store().tables()?;
        for gate in self.local_config()?.gates {
            let known = gate.kind.as_ref().map(|kind| tables.type_defaults(kind)).transpose()?.flatten();
            if let Some(why) = config::unknown_type(&gate, |_| known.is_some()) {
                return wrong(format!("line {}: {why}", gate.line));
            }
            if found.gates.iter().any(|other| other.name == gate.name) {
                let name = &gate.name;
                return wrong(format!("line {}: gate {name}: the name is taken in {}", gate.line, config::FILE));
            }
            // What they say becomes one record, which holds so many.
            if found.gates.len() >= limits::GATES_MAX {
                let (max, shared) = (limits::GATES_MAX, config::FILE);
                return wrong(format!("line {}: with {shared} there are more than {max} gates", gate.line));
            }
            found.gates.push(gate);
        }
        Ok(found)
    }

    /// What this machine's own file says.
    pub fn local_config(&self) -> Result<LocalFile, Error> {
        self.store().path().map_or_else(|| Ok(LocalFile::default()), local_config)
    }

    /// How agents are woken by this machine's files: its own command, else that of `poste.toml` if a person trusts it.
    pub fn wake_config(&self) -> Result<WakeConfig, Error> {
        let Some(folder) = self.store().path() else { return Ok(WakeConfig::default()) };
        let mut found = self.local_config()?.wake;
        let config = folder.with_file_name(config::FILE);
        if found.command.is_none()
            && let Some(text) = read_config(&config)?
            && let Some(command) = ConfigFile::parse(&text, &config)?.wake.command
        {
            let mark = trust::read(folder, self.machine()?, &config)?;
            found.command = mark.filter(|mark| mark.digest == Digest::of(text.as_bytes())).map(|_| command);
            found.untrusted = found.command.is_none();
        }
        Ok(found)
    }

    /// What is run for agents by this machine's files: by its own, else by `poste.toml`, whether or not a person trusts that.
    pub fn runners(&self) -> Result<Runners, Error> {
        let Some(folder) = self.store().path() else { return Ok(Runners::default()) };
        let local = self.local_config()?;
        let config = folder.with_file_name(config::FILE);
        let mut file = ConfigFile::default();
        if let Some(text) = read_config(&config)? {
            file = ConfigFile::parse(&text, &config)?;
            let mark = trust::read(folder, self.machine()?, &config)?;
            // Asked of the text that was read, not of what the file may have become since.
            let trusted = mark.is_some_and(|mark| mark.digest == Digest::of(text.as_bytes()));
            file.agents.values_mut().for_each(|agent| agent.trusted = trusted);
        }
        let concurrency = match file.machine_value(&local, "dispatch", "concurrency") {
            Some(Value::Count(count)) => u32::try_from(count).unwrap_or(u32::MAX),
            _ => 1,
        };
        let mut agents = file.agents;
        agents.extend(local.agents);
        let tables = self.store().tables()?;
        for (name, agent) in &agents {
            // Its answers would be theirs, and a person's word decides what others' does not.
            if let Some(kind @ (AgentKind::Human | AgentKind::Outside)) =
                tables.agent(name.as_str())?.map(|known| known.kind)
            {
                let message = format!(
                    "[agent.{name}]: {name} is registered as {kind}, and no program speaks for one; give it another name"
                );
                let path = if agent.source == Source::Machine { folder.join(config::LOCAL_FILE) } else { config };
                return Err(Error::Config { path, message });
            }
        }
        Ok(Runners { agents, team: file.team, concurrency })
    }

    /// For each proposal, why it may not end a delivery that has gates to pass. The fold cannot say so, since gates are
    /// in no record; so it is said here, for every surface.
    pub(super) fn ungated(&self, proposals: &[Proposal]) -> Result<Vec<Option<Rejection>>, Error> {
        let mut refused = vec![None; proposals.len()];
        if !proposals.iter().any(|proposal| ending(&proposal.intent).is_some()) {
            return Ok(refused);
        }
        let gates = self.gates()?;
        if gates.gates.is_empty() {
            return Ok(refused);
        }
        let tables = self.store().tables()?;
        for (proposal, refused) in proposals.iter().zip(&mut refused) {
            *refused = unpassed(&tables, &gates, proposal)?;
        }
        Ok(refused)
    }
}

/// What a record would end well: the message, and the claim it names. A forward ends nothing here: it goes on as a
/// message of the same type, with the same gates. A failure says itself that nothing was accepted.
fn ending(intent: &Intent) -> Option<(MessageNo, Option<Position>)> {
    match intent {
        Intent::Done(done) => Some((done.message, done.token)),
        Intent::Ack(ack) => Some((ack.message, None)),
        // Whoever agrees accepts it, also when the word leaves the delivery as it is.
        Intent::Agree(agree) => Some((agree.message, agree.mail.ends.as_ref().and_then(|ends| ends.token))),
        // A rejection accepts nothing. Whoever overrides says why, and that is recorded.
        Intent::HandoffReject(_) => None,
        Intent::HandoffAccept(accept) if accept.overridden => None,
        // Whichever way it decides: what did not pass its gates is not to be judged at all.
        Intent::ApprovalAnswer(answer) => Some((answer.mail.reply_to?, None)),
        other => {
            let ends = other.mail()?.ends.as_ref().filter(|ends| ends.how == EndsHow::Replied)?;
            Some((ends.message, ends.token))
        }
    }
}

fn unpassed(tables: &Tables<'_>, gates: &Gates, proposal: &Proposal) -> Result<Option<Rejection>, Error> {
    let Some((number, token)) = ending(&proposal.intent) else { return Ok(None) };
    let Some(message) = tables.message(number)?.filter(|message| message.notice.is_none()) else { return Ok(None) };
    // Of what asks for work an ack is a mark, no end.
    if matches!(proposal.intent, Intent::Ack(_)) && message.work {
        return Ok(None);
    }
    let own = gates.of(&message.kind, message.workflow.as_ref(), message.step.as_ref());
    // What was stored before under this id is a repeat, whatever gates there are by now.
    if own.is_empty() || tables.id(&proposal.id)?.is_some() {
        return Ok(None);
    }
    // The receiver of a handoff runs its gates when it accepts; the fold refuses what they did not let through.
    if matches!(&proposal.intent, Intent::HandoffAccept(accept) if accept.gates.len() >= own.len()) {
        return Ok(None);
    }
    let names: Vec<&str> = own.iter().map(|gate| gate.name.as_str()).collect();
    let names = names.join(", ");
    let unpassed = match &proposal.intent {
        Intent::ApprovalAnswer(_) => fold::gates_passed_to_decide(tables, &proposal.actor, &message)?,
        _ => fold::gates_passed(tables, &proposal.actor, &message, token)?,
    };
    Ok(unpassed.map(|unpassed| {
        let reason = match unpassed {
            fold::Unpassed::Unclaimed => {
                format!("message {number} has gates to pass ({names}), which are run when it is claimed")
            }
            fold::Unpassed::Claimed => format!("message {number} has not passed its gates ({names}) under this claim"),
            fold::Unpassed::Elsewhere => format!(
                "message {number} has gates to pass ({names}), which are run when whoever it was sent to claims it"
            ),
        };
        Rejection { code: Code::GateNotPassed, reason }
    }))
}

/// What is wrong with the schemas of gates of one file, with the line of the gate.
pub fn gate_schema_problems(config: &Path, gates: &[gates::Gate], source: Source) -> Vec<Problem> {
    let problems = gates::schema_problems(config, gates).into_iter().filter(|(of, ..)| *of == source);
    problems.map(|(_, line, message)| Problem { line: Some(line), column: Some(1), message }).collect()
}
