//! Prepares everything before a program starts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use poste_config::{Input, Mode};
use poste_core::Error;
use poste_core::fold::{Claimed, Verdict};
use poste_core::gates::Source;
use poste_core::log::{Intent, Register, Via};
use poste_core::text::Name;
use poste_core::views;
use poste_run::{Environment, Output, Task, TranscriptFile, Watcher as _};
use poste_verbs::model::fence;
use poste_verbs::{Caller, Desk, Files, gates};

use super::{
    Run, START_PATIENCE, STDOUT, Supervisor, TRANSCRIPT, TRANSCRIPT_BYTES_MAX, WORD_BYTES_MAX, length, subagent_name,
};
use crate::run::conversation::{self, Conversation};
use crate::run::preset::{self, Templates, Ways};
use crate::run::{RUN_CHILD, SUPERVISES, mark, prompt, worktree};

pub(super) struct Prepared {
    pub task: Task,
    pub ways: Ways,
    pub folder: PathBuf,
    pub last: Option<Conversation>,
}

impl Supervisor<'_> {
    /// Runs the gates of the claimed messages, and returns those that passed.
    fn pass_gates(&mut self, run: &Run) -> Result<Claimed, String> {
        let acting = Caller::acting_for(self.request.agent.clone(), Some(run.run.clone()), Via::Dispatch);
        let caller = Caller { files: self.files(), ..acting };
        let gates = poste_config::gates(&self.office).map_err(|error| error.to_string())?;
        let mut desk = Desk::new(&mut self.office, &caller, self.host);
        let gated = gates::of_claim(&mut desk, &gates, &run.record, run.claimed.clone(), None);
        self.carrier.carry_out(&mut self.office);
        gated.map(|gated| gated.claimed).map_err(|error| error.message)
    }

    /// Gates check the project of this office, wherever its agents work.
    fn files(&self) -> Files {
        let office = self.office.path().ok();
        let opened = office.and_then(|office| Files::open(office.parent()?, office).ok());
        opened.unwrap_or_default()
    }

    /// Does everything that can fail before the program starts, and returns the task to start.
    pub(super) fn prepare(&mut self, run: &mut Run) -> Result<Prepared, String> {
        let said = |error: Error| error.to_string();
        for item in &run.claimed.items {
            run.messages.extend(views::message(self.office.store(), item.number).map_err(said)?);
        }
        let had_messages = !run.messages.is_empty();
        run.claimed = self.pass_gates(run)?;
        run.messages.retain(|message| run.claimed.items.iter().any(|item| item.number == message.number));
        if had_messages && run.messages.is_empty() {
            return Err("its messages did not pass their gates".to_owned());
        }
        if self.config.mode == Mode::Subagent {
            run.name = self.register_subagent(run)?;
        }
        let office = self.office.path().map_err(said)?.to_owned();
        let folder = self.working_folder(run, &office)?;
        let mut ways = preset::ways(&self.config);
        // Two concurrent runs cannot resume the same conversation.
        let may_resume = self.config.resume && self.config.concurrency == 1;
        let last =
            may_resume.then(|| conversation::last(&office, &self.request.agent, &run.about.runner, &folder)).flatten();
        preset::resumed(&self.config, &mut ways.words, last.as_ref().map(|last| last.id.as_str()));
        let answer_file = run.folder.own_answer();
        let prompt = prompt::prompt(
            &run.name,
            &self.config,
            ways.answer,
            &run.messages,
            |message| fence::fenced(message, &fence::nonce_for(message, || self.host.ids.nonce())),
            &answer_file.display().to_string(),
        );
        run.folder.write_prompt(&prompt).map_err(|failed| failed.to_string())?;
        let task = self.task(run, &ways, &office, &folder, &prompt, last.as_ref()).inspect_err(|_| {
            // The conversation itself may be the cause, and would then prevent every start.
            if last.is_some() {
                conversation::forget(&office, &self.request.agent);
            }
        })?;
        Ok(Prepared { task, ways, folder, last })
    }

    /// Registers a name for this run alone, with the asking agent as its lead.
    fn register_subagent(&mut self, run: &Run) -> Result<Name, String> {
        let said = |error: Error| error.to_string();
        let name = subagent_name(&self.request.agent, &run.run).ok_or("no valid name for the subagent")?;
        let requester = run.messages.first().and_then(|message| message.from.parse::<Name>().ok());
        let is_active =
            |name: &Name| self.office.agent(name).is_ok_and(|agent| agent.is_some_and(|agent| agent.is_active()));
        let lead = requester.filter(is_active);
        let role = self.config.role.as_ref().and_then(|role| role.as_str().parse().ok());
        let register = Intent::Register(Register { role, lead, ..Register::default() });
        let proposal = self.proposal(&name, &run.run, register, None);
        let outcome = self.store(START_PATIENCE, &[proposal]).map_err(said)?.pop();
        match outcome.map(|outcome| outcome.verdict) {
            Some(Verdict::Rejected(why)) => Err(format!("could not register {name}: {why}")),
            _ => Ok(name),
        }
    }

    fn working_folder(&mut self, run: &Run, office: &Path) -> Result<PathBuf, String> {
        let project = office.parent().unwrap_or(office);
        if self.config.worktree {
            return self.worktree(run, office, project);
        }
        let folder = self.config.folder.as_ref().map_or_else(|| project.to_owned(), |folder| project.join(folder));
        if !folder.is_dir() {
            return Err(format!("working folder not found: {}", folder.display()));
        }
        // A poste.toml that comes with a repository may name folders of the project only, and in the project a link may
        // lead anywhere.
        let may_leave = self.config.source == Source::Machine && self.config.leaves_project();
        if !may_leave && !is_within(&folder, project) {
            return Err(format!("working folder is outside the project: {}", folder.display()));
        }
        Ok(folder)
    }

    /// Git can take long in a large project, so the lease is renewed in the meantime. Everything it starts ends with
    /// this process.
    fn worktree(&mut self, run: &Run, office: &Path, project: &Path) -> Result<PathBuf, String> {
        let program = self.request.program.clone();
        let agent = self.request.agent.clone();
        let mark = mark(self.office.machine().map_err(|error| error.to_string())?, &run.run);
        let mut guard = self.guard(run);
        let every = guard.look_every();
        let made = worktree::of(office, project, &agent, &mut |task: &mut Task| {
            task.tied_by(&program, &[RUN_CHILD]).everything(mark.clone()).watch_every(every);
            task.run_watched(&mut |running_for| guard.look(running_for))
        });
        match guard.why.take() {
            Some(why) => Err(why),
            None => made,
        }
    }

    fn task(
        &self,
        run: &Run,
        ways: &Ways,
        office: &Path,
        folder: &Path,
        prompt: &str,
        last: Option<&Conversation>,
    ) -> Result<Task, String> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("the path of the office is not UTF-8");
        let numbers: Vec<String> = run.messages.iter().map(|message| message.number.to_string()).collect();
        let templates = Templates {
            agent: run.name.to_string(),
            number: numbers.first().cloned().unwrap_or_default(),
            run: run.run.as_str().to_owned(),
            office: text(office)?,
            folder: text(folder)?,
            message: prompt.to_owned(),
            prompt_file: text(&run.folder.prompt())?,
            answer_file: text(&run.folder.own_answer())?,
            conversation: last.map(|last| last.id.clone()),
        };
        let mut words = templates.fill(&ways.words);
        let names = |template: &str| ways.words.iter().any(|word| word.contains(template));
        match ways.input {
            Input::Argument if !names("{message}") => words.push(prompt.to_owned()),
            Input::File if !names("{prompt_file}") => words.push(templates.prompt_file),
            _ => {}
        }
        if words.iter().any(|word| word.len() > WORD_BYTES_MAX)
            || (ways.input == Input::Environment && prompt.len() > WORD_BYTES_MAX)
        {
            return Err("the message is too long for an argument or a variable; use stdin or a file".to_owned());
        }
        let mut words = words.into_iter();
        let program = words.next().ok_or("no program to run")?;
        let mut task = Task::new(program, words);
        if ways.input == Input::Stdin {
            task.stdin(prompt.as_bytes());
        }
        let mark = mark(self.office.machine().map_err(|error| error.to_string())?, &run.run);
        task.folder(folder).environment(self.environment(run, ways, office, &numbers, prompt)).everything(mark);
        if self.config.mode != Mode::Resident {
            task.limit(length(self.config.time_limit_ms));
        }
        task.grace(length(self.config.grace_ms)).output(Output::Apart).keep(STDOUT);
        task.transcript(TranscriptFile { path: run.folder.output(), keep: TRANSCRIPT, max: TRANSCRIPT_BYTES_MAX });
        task.tied_by(&self.request.program, &[RUN_CHILD]);
        Ok(task)
    }

    fn environment(&self, run: &Run, ways: &Ways, office: &Path, numbers: &[String], prompt: &str) -> Environment {
        let mut environment = Environment::default();
        let network = preset::network(self.config.preset);
        for name in ways.environment.iter().chain(network) {
            environment.allow(name);
        }
        for name in &self.config.environment {
            environment.allow(name);
        }
        environment.never(SUPERVISES);
        environment.set("PATH", path_with(&self.request.program));
        environment.set("POSTE_HOME", office);
        environment.set("POSTE_AGENT", run.name.as_str());
        environment.set("POSTE_SESSION", run.run.as_str());
        environment.set("POSTE_MESSAGE", numbers.first().map(String::as_str).unwrap_or_default());
        environment.set("POSTE_MESSAGES", numbers.join(","));
        environment.set("POSTE_PROMPT_FILE", run.folder.prompt());
        environment.set("POSTE_ANSWER_FILE", run.folder.own_answer());
        if ways.input == Input::Environment {
            environment.set("POSTE_PROMPT", prompt);
        }
        environment
    }
}

/// Adds the folder of this poste at the end, so that the program finds it.
fn path_with(program: &Path) -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&own).chain(program.parent().map(Path::to_owned));
    std::env::join_paths(folders).unwrap_or(own)
}

/// Whether a folder is inside the project once links are resolved.
fn is_within(folder: &Path, project: &Path) -> bool {
    matches!((folder.canonicalize(), project.canonicalize()), (Ok(folder), Ok(project)) if folder.starts_with(&project))
}
