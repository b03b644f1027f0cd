//! Sessions: starting, noting, closing, and doing so in sessions that ended or belong to another agent.

use poste_core::log::{Intent, NoteKind, SessionClose, SessionNote, SessionProcess, SessionStart};
use poste_core::store::tables::SessionRow;
use poste_core::text::Name;

use super::sight::Sight;
use super::words::{name, session};
use super::{Draft, Generator};

impl Generator {
    /// One of the sessions that its agent also works in, so that closing it finds claims.
    pub(super) fn start_session(&mut self, sight: &Sight) -> Draft {
        let actor = self.somebody(sight);
        let live = sight.sessions.iter().find(|known| known.agent == actor && known.is_live());
        let takes_over = live.map(|live| live.id.clone()).filter(|_| self.rng.chance(600));
        let ended: Vec<&SessionRow> =
            sight.sessions.iter().filter(|known| known.agent == actor && !known.is_live()).collect();
        let resumed = self.rng.pick_any(&ended).map(|ended| ended.id.clone()).filter(|_| self.rng.chance(250));
        // Sometimes a resumed session is not marked as resumed, or one that never existed is.
        let resumes = if resumed.is_some() { self.rng.chance(800) } else { self.rng.chance(20) };
        let id = match resumed {
            Some(resumed) => resumed,
            None if self.rng.chance(300) => session(&actor, *self.rng.pick(&[1, 2])),
            None => {
                self.files_made += 1;
                format!("{actor}-run-{}", self.files_made).parse().expect("a session")
            }
        };
        let place = if self.rng.chance(500) { "this boot" } else { "" }.to_owned();
        let process = SessionProcess { pid: 7, started_ms: self.rng.chance(800).then_some(11), place };
        let header = SessionStart {
            id,
            process: self.rng.chance(800).then_some(process),
            host: "desk".to_owned(),
            program: if self.rng.chance(30) { "two\nlines" } else { "codex" }.to_owned(),
            worktree: None,
            parent: self
                .mostly_live(sight)
                .map(|known| known.id)
                .filter(|_| self.rng.chance(if resumes { 50 } else { 600 })),
            takes_over,
            resumes,
        };
        Draft { content: self.content(), ..self.draft(actor, Intent::SessionStart(header)) }
    }

    pub(super) fn note(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.mostly_live(sight)?;
        let actor = self.runner(sight, &seen);
        let what = match self.rng.chance(400) {
            true => *self.rng.pick(&[NoteKind::Question, NoteKind::Answer]),
            false => *self.rng.pick(NoteKind::ALL),
        };
        let question = match (what, seen.questions) {
            (NoteKind::Answer, 0) => Some(1),
            (NoteKind::Answer, asked) => Some(u32::try_from(self.rng.below(asked as usize)).unwrap_or(0) + 1),
            _ => None,
        };
        let agent = (what == NoteKind::Agent).then(|| name("explore"));
        // Sometimes it names a session that never existed, or a question that was never asked.
        let session = if self.rng.chance(60) { "nowhere".parse().expect("a session") } else { seen.id };
        let question = if self.rng.chance(60) { question.map(|number| number + 7) } else { question };
        let intent = Intent::SessionNote(SessionNote { session, what, question, agent });
        Some(Draft { content: self.content(), ..self.draft(actor, intent) })
    }

    pub(super) fn close_session(&mut self, sight: &Sight) -> Option<Draft> {
        let seen = self.mostly_live(sight)?;
        let actor = self.runner(sight, &seen);
        let mail = self.rng.chance(300).then(|| {
            let to = vec![self.address(sight)];
            self.send_header(to)
        });
        let header = SessionClose { session: seen.id, keep_claims: self.rng.chance(300), mail };
        Some(Draft { content: self.content(), ..self.draft(actor, Intent::SessionClose(header)) })
    }

    /// Mostly the session's agent; sometimes another one.
    fn runner(&mut self, sight: &Sight, seen: &SessionRow) -> Name {
        if self.rng.chance(100) { self.somebody(sight) } else { seen.agent.clone() }
    }

    fn mostly_live(&mut self, sight: &Sight) -> Option<SessionRow> {
        let live: Vec<&SessionRow> = sight.sessions.iter().filter(|known| known.is_live()).collect();
        match self.rng.pick_any(&live) {
            Some(live) if self.rng.chance(850) => Some((*live).clone()),
            _ => self.rng.pick_any(&sight.sessions).cloned(),
        }
    }
}
