//! Runs a set-up, from writing the files to testing them, or removes it again.

use poste_core::text::count;
use poste_verbs::program::Program;
use poste_verbs::{Answered, Error, Kind, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::Scope;
use super::files::{Change, FileFault, Outcome, Plan};
use super::site::{Job, ProgramView, Site};
use crate::shell;

/// The options of a set-up.
#[derive(Debug, Clone, Default)]
pub struct Work {
    /// `None`: those that are found.
    pub programs: Option<Vec<Program>>,
    /// Remove the set-up.
    pub remove: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// Test what was written.
    pub proof: bool,
    /// An office was named, which `--scope user` ignores.
    pub is_office_named: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SetupAnswer {
    /// `project` or `user`.
    pub scope: String,
    pub dry_run: bool,
    /// Whether a file was, or would be, changed.
    pub changed: bool,
    pub programs: Vec<ProgramView>,
    pub files: Vec<FileView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileView {
    pub path: String,
    /// created, changed, unchanged, restored, removed, taken_out, kept or left
    pub outcome: String,
    /// With --dry-run: what would change.
    pub diff: Option<String>,
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Changed => "changed",
        Outcome::Unchanged => "unchanged",
        Outcome::Restored => "restored",
        Outcome::Removed => "removed",
        Outcome::TakenOut => "taken_out",
        Outcome::Kept => "kept",
        Outcome::Left => "left",
    }
}

impl From<FileFault> for Error {
    fn from(fault: FileFault) -> Self {
        let (kind, code) = match fault.fault.is_conflict {
            true => (Kind::Conflict, "not_ours"),
            false => (Kind::Refused, "unusable_file"),
        };
        let left: Vec<String> = fault.left.iter().map(|path| path.display().to_string()).collect();
        let error = match left.is_empty() {
            true => Self::new(kind, format!("{fault}; nothing was changed")),
            false => Self::new(kind, format!("{fault}; not all files changed before that could be restored"))
                .cause(format!("still changed: {}", left.join(", ")))
                .hint("remove the set-up: poste setup --remove"),
        };
        fault.fault.hint.into_iter().fold(error.code(code), Error::hint)
    }
}

impl Site {
    /// Writes or removes the entries of the programs, and reports the outcome.
    pub fn set_up(&self, work: &Work) -> Result<Answered<SetupAnswer>> {
        let programs = self.programs(work.programs.clone())?;
        let jobs: Vec<Job> = programs.into_iter().map(|program| self.job(program)).collect();
        let memory = self.memory();
        let lock = if work.dry_run { None } else { Some(memory.lock()?) };
        let mut plan = Plan::new(memory);
        for job in &jobs {
            for target in &job.targets {
                match work.remove {
                    true => plan.remove(job.program, target)?,
                    false => plan.set_up(job.program, target)?,
                }
            }
        }
        let changes: Vec<Change> = plan.changes().into_iter().filter(|change| !change.is_nothing()).collect();
        let changed = changes.iter().any(Change::is_change);
        if !work.dry_run {
            plan.carry_out()?;
        }
        drop(lock);

        let is_tried = work.proof && !(work.dry_run || work.remove || self.plugin.is_some());
        let mut answered = Answered::new(SetupAnswer {
            scope: self.scope.word().to_owned(),
            dry_run: work.dry_run,
            changed,
            programs: jobs.iter().map(|job| self.view(job, work.remove, is_tried)).collect(),
            files: changes.iter().map(|change| file_view(change, work.dry_run)).collect(),
        });
        if changed && !work.dry_run {
            answered = answered.stored(if work.remove { "the removal of the set-up" } else { "the set-up" });
        }
        answered = of_files(work, &changes, answered);
        answered = self.besides(work, &jobs, answered);
        let failed = if work.remove { left(&changes) } else { None }.or_else(|| fails(&answered.answer));
        Ok(match failed {
            Some(error) => answered.with_error(error),
            None => answered,
        })
    }
}

fn file_view(change: &Change, dry_run: bool) -> FileView {
    let path = change.path.display().to_string();
    let diff = (dry_run && change.is_change()).then(|| {
        let (old, new) = (change.before.as_deref().unwrap_or(""), change.after.as_deref().unwrap_or(""));
        let name = |there: bool| if there { path.clone() } else { "/dev/null".to_owned() };
        let mut options = diffy::DiffOptions::new();
        options.set_original_filename(name(change.before.is_some()));
        options.set_modified_filename(name(change.after.is_some()));
        options.create_patch(old, new).to_string()
    });
    FileView { path, outcome: outcome_word(change.outcome).to_owned(), diff }
}

/// Adds notes and warnings about the files.
fn of_files(work: &Work, changes: &[Change], mut answered: Answered<SetupAnswer>) -> Answered<SetupAnswer> {
    let is_quiet = |change: &Change| change.outcome == Outcome::Unchanged && !change.keeps_own;
    if changes.iter().all(is_quiet) {
        answered = answered.next(match work.remove {
            true => "there are no entries of Poste's; nothing changed",
            false => "already set up; nothing changed",
        });
    }
    let is_unrecorded = |change: &&Change| work.remove && change.is_change() && !change.is_recorded;
    let unrecorded: Vec<&Change> = changes.iter().filter(is_unrecorded).collect();
    if let Some(first) = unrecorded.first() {
        let which = match unrecorded.len() {
            1 => first.path.display().to_string(),
            many => count(many, "file"),
        };
        answered = answered.next(format!(
            "there is no record of the original content of {which}; only entries exactly as Poste writes them were removed"
        ));
    }
    for change in changes {
        let path = change.path.display();
        if change.keeps_own {
            answered = answered
                .warn(format!("{path} still starts Poste: that entry was written or changed by hand, and is kept"));
        }
        answered = match change.outcome {
            Outcome::TakenOut if change.is_recorded => {
                answered.next(format!("{path} was changed since; only Poste's entries were removed"))
            }
            Outcome::Left if !work.remove => answered.warn(format!(
                "Poste's part of {path} was changed by hand and is left as it is; to get the original back, delete that \
                 part and set up again"
            )),
            Outcome::Kept => answered.next(format!("{path} is kept for the other programs that are set up")),
            _ => answered,
        };
    }
    answered
}

impl Site {
    /// Adds the other notes and warnings.
    fn besides(&self, work: &Work, jobs: &[Job], mut answered: Answered<SetupAnswer>) -> Answered<SetupAnswer> {
        if self.scope == Scope::User && self.plugin.is_none() && work.is_office_named {
            answered = answered
                .warn("--scope user ignores --office and POSTE_HOME: each session finds the office of its project");
        }
        for job in jobs {
            answered = self.of_the_other_scope(work, job, answered);
        }
        if work.remove {
            return answered;
        }
        for Job { program, kept_agent, .. } in jobs {
            if let Some(agent) = kept_agent {
                let scope = if self.scope == Scope::User { " --scope user" } else { "" };
                answered = answered.next(format!(
                    "{program} still acts as {agent}; to change that, pass --agent NAME, or first run: poste setup \
                     {program}{scope} --remove"
                ));
            }
        }
        if self.poste.poste != "poste" && self.scope == Scope::Project {
            let why = match &self.other_poste {
                Some(other) => format!("the poste on the PATH is a different one ({})", other.display()),
                None => "poste is not on the PATH".to_owned(),
            };
            let poste = &self.poste.poste;
            answered = answered.next(format!("{why}, so the files name {poste}; others may have it elsewhere"));
        }
        let unproven = answered.answer.programs.iter().filter(|program| program.proof.is_empty());
        let trust = unproven.filter_map(|program| Some(format!("{}: {}", program.program, program.trust.as_ref()?)));
        let plugin = self.plugin.as_ref().map(|folder| shell::word(&folder.display().to_string()));
        let tried = plugin.map(|folder| format!("try it: claude --plugin-dir {folder}"));
        trust.chain(tried).collect::<Vec<_>>().into_iter().fold(answered, Answered::next)
    }

    /// Programs read both scopes, so both count.
    fn of_the_other_scope(&self, work: &Work, job: &Job, answered: Answered<SetupAnswer>) -> Answered<SetupAnswer> {
        let other = match self.scope {
            Scope::Project => Scope::User,
            Scope::User => Scope::Project,
        };
        if self.plugin.is_some() || !self.is_set_up(job, other) {
            return answered;
        }
        let (program, other) = (job.program, other.word());
        let remove = format!("poste setup {program} --scope {other} --remove");
        match work.remove {
            false => answered.warn(format!(
                "{program} is also set up with --scope {other}, so its hooks may run twice; remove one of them: {remove}"
            )),
            true if !answered.answer.changed => {
                answered.next(format!("{program} is set up with --scope {other}: {remove}"))
            }
            true => answered,
        }
    }
}

/// Reports files that were changed by hand: they are not deleted, and may still run Poste.
fn left(changes: &[Change]) -> Option<Error> {
    let left: Vec<&Change> = changes.iter().filter(|change| change.outcome == Outcome::Left).collect();
    let paths: Vec<String> = left.iter().map(|change| shell::word(&change.path.display().to_string())).collect();
    let message = match left.as_slice() {
        [] => return None,
        [one] => format!("{} was changed by hand and is left as it is", one.path.display()),
        many => format!("{} were changed by hand and are left as they are", count(many.len(), "file")),
    };
    let error = Error::conflict(format!("{message}; everything else of Poste's was removed")).code("not_ours");
    Some(error.hint(format!("if you no longer need it: rm {}", paths.join(" "))))
}

fn fails(answer: &SetupAnswer) -> Option<Error> {
    let proofs = answer.programs.iter().flat_map(|program| &program.proof);
    let what = match proofs.filter(|proof| proof.state == "fails").count() {
        0 => return None,
        1 => "one feature does".to_owned(),
        many => format!("{} do", count(many, "feature")),
    };
    let error = Error::new(Kind::Unhealthy, format!("the files are written, but {what} not work")).code("set_up_fails");
    Some(error.hint("remove the set-up: poste setup --remove; check the office: poste doctor"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::setup::Fault;

    #[test]
    fn an_error_names_files_that_stay_changed() {
        let fault = |left: Vec<PathBuf>| FileFault { path: "b.json".into(), fault: Fault::malformed("is full"), left };
        let told = |left| Error::from(fault(left)).lines(|note| Some(note.to_string())).join("\n");
        let (whole, partly) = (told(Vec::new()), told(vec!["a.json".into()]));
        assert!(whole.contains("b.json is full; nothing was changed"), "{whole}");
        assert!(partly.contains("still changed: a.json") && !partly.contains("nothing was changed"), "{partly}");
    }
}
