//! Determines the outcome of a run and records it.

use poste_config::{AgentConfig, AnswerBy, Preset};
use poste_core::Error;
use poste_core::fold::{Claimed, Verdict};
use poste_core::log::{Content, Intent, MessageNo, Proposal, Release, Retire, RunEnd, RunOutcome};
use poste_core::text::{Name, Session};
use poste_core::views::{self, Holder, Standing};
use poste_run::{End, Finished, Stopped};

use super::{END_PATIENCE, Run, RunError, Supervisor, patiently};
use crate::run::answer;
use crate::run::folder::RunFolder;
use crate::run::outcome::{self, ProgramResult};

impl Supervisor<'_> {
    /// Records the outcome of the messages and the end of the run in one transaction. If an answer is refused, records
    /// the next best outcome.
    pub(super) fn finish(&mut self, run: &Run, mut result: ProgramResult) -> Result<ProgramResult, RunError> {
        let agent = self.request.agent.clone();
        let holder = self.holder(run);
        let standing = patiently(END_PATIENCE, || self.standing(&holder, &run.claimed))?;
        let (mut proposals, mut otherwise) = (Vec::new(), Vec::new());
        for (number, attempts) in standing {
            let Some(message) = run.messages.iter().find(|message| message.number == number) else {
                // The run failed before its gates ran.
                let why = result.problem.as_deref().unwrap_or("it could not be started");
                let again = outcome::of_unread(Some(&self.config), number, attempts, run.claimed.token, why);
                proposals.push(self.proposal(&agent, &run.run, again.0, again.1));
                otherwise.push(Vec::new());
                continue;
            };
            let own =
                outcome::of_message(&result, &self.config, message, attempts, run.claimed.token, run.run.as_str());
            let mut own = own.into_iter().map(|(intent, content)| self.proposal(&agent, &run.run, intent, content));
            proposals.extend(own.next());
            otherwise.push(own.collect::<Vec<_>>());
        }
        if run.name != agent {
            proposals.push(self.proposal(&run.name, &run.run, Intent::Retire(Retire { name: run.name.clone() }), None));
        }
        if let Some(why) = proposals.iter().find_map(left_undone).filter(|_| result.code == Some(0)) {
            result = ProgramResult { how: RunOutcome::Unanswered, code: None, problem: Some(why), ..result };
        }
        let end = RunEnd {
            run: run.run.clone(),
            how: result.how,
            code: result.code,
            took_ms: result.took_ms(),
            cost_micros: result.cost_micros,
        };
        let content = outcome::end_content(&result, run.run.as_str());
        proposals.push(self.proposal(&agent, &run.run, Intent::RunEnd(end.clone()), Some(content)));
        let mut outcomes = self.store(END_PATIENCE, &proposals)?;
        let ended = outcomes.pop().map(|outcome| outcome.verdict);
        for (outcome, others) in outcomes.into_iter().zip(otherwise) {
            let mut verdict = outcome.verdict;
            for other in others {
                match verdict {
                    Verdict::Rejected(_) => verdict = self.next_best(&other)?,
                    Verdict::Accepted(_) => break,
                }
            }
        }
        self.let_go(run, &holder)?;
        match ended {
            Some(Verdict::Accepted(_)) => {}
            _ => self.end_plainly(&agent, &run.run, end)?,
        }
        Ok(result)
    }

    /// Releases messages that are still held because every outcome was refused: from here on nothing renews their
    /// leases.
    fn let_go(&mut self, run: &Run, holder: &Holder) -> Result<(), RunError> {
        for (number, _) in patiently(END_PATIENCE, || self.standing(holder, &run.claimed))? {
            let release = Intent::Release(Release { message: number, token: Some(run.claimed.token) });
            let proposal = self.proposal(&holder.agent, &run.run, release, None);
            if let Verdict::Rejected(why) = self.next_best(&proposal)? {
                return Err(RunError::Refused(format!("could not release message {number}: {why}")));
            }
        }
        Ok(())
    }

    /// Records the end without content, which may have been the reason for a refusal. Without an end the run would
    /// count as active for ever.
    fn end_plainly(&mut self, agent: &Name, run: &Session, end: RunEnd) -> Result<(), RunError> {
        let proposal = self.proposal(agent, run, Intent::RunEnd(end), Some(Content::default()));
        let Verdict::Rejected(why) = self.next_best(&proposal)? else { return Ok(()) };
        let row = patiently(END_PATIENCE, || views::run_row(self.office.store(), run))?;
        // A sweep took this run for dead and recorded its end.
        if row.is_some_and(|row| !row.is_running()) {
            return Ok(());
        }
        Err(RunError::Refused(format!("could not record the end of run {run}: {why}")))
    }

    fn next_best(&mut self, proposal: &Proposal) -> Result<Verdict, RunError> {
        let outcome = self.store(END_PATIENCE, std::slice::from_ref(proposal))?.pop();
        let outcome = outcome.ok_or_else(|| Error::Damaged("the log returned no outcome".to_owned()))?;
        Ok(outcome.verdict)
    }

    /// The messages still held, and the number of attempts before.
    fn standing(&self, holder: &Holder, claimed: &Claimed) -> Result<Vec<(MessageNo, u32)>, Error> {
        let mut held = Vec::new();
        for item in &claimed.items {
            if holder.standing(self.office.store(), item.number)? == Standing::Held {
                let delivery = holder.delivery(self.office.store(), item.number)?;
                held.push((item.number, delivery.map_or(0, |delivery| delivery.attempts)));
            }
        }
        Ok(held)
    }
}

/// Why a message of a run failed, if it did.
fn left_undone(proposal: &Proposal) -> Option<String> {
    let content = proposal.content.as_ref().filter(|_| matches!(proposal.intent, Intent::Fail(_)))?;
    Some(content.body.text().into_owned())
}

/// The result of a program that ran.
pub(super) fn result(
    finished: &Finished,
    why: Option<String>,
    config: &AgentConfig,
    answer: AnswerBy,
    folder: &RunFolder,
    limit_ms: i64,
) -> ProgramResult {
    let stdout = finished.stdout.text();
    let said = answer::read(config.preset, &stdout);
    let code = |number: i32| u8::try_from(number & 0xff).ok();
    let (how, code, problem) = match (finished.stopped, finished.end) {
        (Some(Stopped::TimedOut), _) => {
            let limit = poste_config::length_text(limit_ms);
            (RunOutcome::TimedOut, None, Some(format!("it timed out after {limit}")))
        }
        (Some(Stopped::ByWatcher), _) => {
            (RunOutcome::LeaseLost, None, Some(why.unwrap_or_else(|| "the lease was lost".to_owned())))
        }
        (Some(Stopped::Interrupted(_)), _) => (RunOutcome::Stopped, None, None),
        (None, End::Exit(0)) => (RunOutcome::Exited, Some(0), said.failed.clone()),
        (None, End::Exit(number)) => {
            let told = said.failed.clone().map(|failed| format!(": {failed}")).unwrap_or_default();
            (RunOutcome::Exited, code(number), Some(format!("it ended with exit code {number}{told}")))
        }
        (None, End::Signal(number)) => {
            (RunOutcome::Signalled, code(number), Some(format!("it was killed by signal {number}")))
        }
    };
    let mut problem = problem;
    if !finished.not_ended.is_empty() {
        let left = format!("{} of its processes could not be ended", finished.not_ended.len());
        problem = Some(problem.map_or(left.clone(), |problem| format!("{problem}; {left}")));
    }
    let answer = match answer {
        AnswerBy::Poste => String::new(),
        AnswerBy::Stdout => said.text,
        AnswerBy::File => match (answer_file(folder, config.preset), config.preset) {
            (text, _) if !text.is_empty() => text,
            // Its output has the answer, too.
            (_, Preset::Codex | Preset::Aider) => said.text,
            (text, _) => text,
        },
    };
    ProgramResult {
        how,
        code,
        took: finished.duration,
        answer,
        problem,
        printed: printed(&stdout, &finished.stderr.text()),
        cost_micros: said.cost_micros,
        conversation: said.conversation,
        gives_back: false,
    }
}

fn printed(stdout: &str, stderr: &str) -> String {
    match (stdout.trim_end(), stderr.trim_end()) {
        (stdout, "") => stdout.to_owned(),
        ("", stderr) => stderr.to_owned(),
        (stdout, stderr) => format!("{stdout}\n{stderr}"),
    }
}

/// The content of the answer file. The program may have put anything there, even something that never ends.
fn answer_file(folder: &RunFolder, preset: Preset) -> String {
    const MAX: u64 = 4 * 1024 * 1024;
    let bytes = folder.read_own_answer(MAX, preset == Preset::Aider);
    answer::in_file(preset, String::from_utf8_lossy(&bytes.unwrap_or_default()).trim().to_owned())
}
