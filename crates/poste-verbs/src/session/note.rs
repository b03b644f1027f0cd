//! Notes something for everybody in a session: it is kept at its root.

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
    /// What is noted
    pub text: String,
    /// Otherwise it is a plain note, or what the fields below make it
    pub what: Option<NoteKind>,
    /// Of an answer: the number of the question
    pub question: Option<u32>,
    /// The agent that was invoked
    pub agent: Option<Name>,
    /// Another session than the caller's
    #[serde(rename = "in")]
    pub session: Option<Session>,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The root, where it is kept.
    pub session: Session,
    pub what: NoteKind,
    /// The number of a question, or of the one that is answered.
    pub question: Option<u32>,
    pub position: Option<Position>,
    pub id: RecordId,
    /// It was noted before under this id.
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
            (Some(NoteKind::Answer), None, _) => return Err(Error::usage("which question does it answer?")),
            (Some(NoteKind::Agent), _, None) => return Err(Error::usage("which agent was invoked?")),
            (Some(what), ..) => what,
        };
        let content = self.secrets.text("note", said("text", &self.text)?)?;
        let header = SessionNote { session: session.id.clone(), what, question: self.question, agent: self.agent };
        let proposal = desk.proposal(Intent::SessionNote(header), Some(content), self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        let store = desk.office.store();
        // Somebody may have taken over the root meanwhile.
        let root = views::session_row(store, &session.id)?.map_or(session.root, |session| session.root);
        let question = match outcome.position {
            Some(position) => views::question_at(store, &root, position)?,
            None => None,
        };
        let (position, id, repeat) = (outcome.position, outcome.id, outcome.repeat);
        Ok(Answered::new(Answer { session: root, what, question, position, id, repeat }))
    }
}
