//! Adds a note to a session. It is kept at the root, so every session below sees it.

use poste_core::log::{Intent, NoteKind, Position, SessionNote};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chosen;
use crate::draft::said;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What to note
    pub text: String,
    /// Kind of note; default: answer if question is set, agent if agent is set, otherwise note
    pub what: Option<NoteKind>,
    /// For an answer: number of the question
    pub question: Option<u32>,
    /// For kind agent: the agent that was invoked
    pub agent: Option<Name>,
    /// Session to note in; default: the caller's
    #[serde(rename = "in")]
    pub session: Option<Session>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Root session, where the note is kept.
    pub session: Session,
    /// Kind of the note.
    pub what: NoteKind,
    /// Number of the question, or of the one that is answered.
    pub question: Option<u32>,
    /// Position of the record in the log.
    pub position: Option<Position>,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// The note was already added under this id.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "session note";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let session = chosen(desk, self.session)?;
        let what = match (self.what, self.question, &self.agent) {
            (None, Some(_), _) => NoteKind::Answer,
            (None, None, Some(_)) => NoteKind::Agent,
            (None, None, None) => NoteKind::Note,
            (Some(NoteKind::Answer), None, _) => {
                return Err(Error::usage("an answer needs the number of its question"));
            }
            (Some(NoteKind::Agent), _, None) => return Err(Error::usage("an agent note needs the name of the agent")),
            (Some(what), ..) => what,
        };
        let content = self.secrets.text("note", said("text", &self.text)?)?;
        let header = SessionNote { session: session.id.clone(), what, question: self.question, agent: self.agent };
        let proposal = desk.proposal(Intent::SessionNote(header), Some(content), self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        let store = desk.office.store();
        // The root may have been taken over in the meantime.
        let root = views::session_row(store, &session.id)?.map_or(session.root, |session| session.root);
        let question = match outcome.position {
            Some(position) => views::question_at(store, &root, position)?,
            None => None,
        };
        let (position, id, repeat) = (outcome.position, outcome.id, outcome.repeat);
        Ok(Answered::new(Answer { session: root, what, question, position, id, repeat }))
    }
}
