//! Offices to measure in: created through the library, in batches, and kept for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use poste_core::address::Address;
use poste_core::fold::{Effect, Outcome, Verdict};
use poste_core::log::{Body, Content, Done, Intent, MessageNo, Proof, Proposal, Register, Send, Via};
use poste_core::office::{Office, Place, Rules};
use poste_core::store::clock::{Clock, SystemClock};
use poste_core::store::{Options, schema};

use crate::Result;

/// The agent whose inbox is read.
pub(crate) const READER: &str = "coder";
/// The agent that sends everything.
pub(crate) const WRITER: &str = "lead";
/// A word that is in every second message, and one that is in a single message, for searches.
pub(crate) const COMMON_WORD: &str = "harbour";
pub(crate) const RARE_WORD: &str = "needlework";

const BATCH: usize = 1_000;
/// How many other agents share the mail that is not for the reader.
const OTHERS: u64 = 50;
/// How many messages wait for the reader in every office, whatever its history.
pub(crate) const WAITING: u64 = 1_000;

pub(crate) fn place(path: &Path) -> Place {
    let options = Options { program: "poste-bench".to_owned(), ..poste_testkit::state::options() };
    Place { path: path.to_owned(), clock: Arc::new(SystemClock), options }
}

/// A new office with these agents.
pub(crate) fn create<'a>(path: &Path, agents: impl IntoIterator<Item = &'a str>) -> Result<Office> {
    let place = place(path);
    place.create()?;
    poste_testkit::state::adopt(path);
    let mut office = place.open()?;
    let register = Register {
        kind: None,
        role: None,
        capabilities: None,
        worktree: None,
        lead: None,
        clears: Vec::new(),
        update: false,
    };
    submit_all(&mut office, agents.into_iter().map(|name| proposal(name, Intent::Register(register.clone()), None)))?;
    Ok(office)
}

pub(crate) fn proposal(actor: &str, intent: Intent, content: Option<Content>) -> Proposal {
    Proposal {
        id: uuid::Uuid::now_v7().to_string().parse().expect("a UUID is an id"),
        actor: actor.parse().expect("a name of this benchmark"),
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: SystemClock.wall(),
        intent,
        content,
    }
}

/// An ordinary message: a subject and a paragraph.
pub(crate) fn mail(to: Address, nth: u64) -> Proposal {
    let word = if nth.is_multiple_of(2) { COMMON_WORD } else { "mountain" };
    let rare = if nth == 777 { RARE_WORD } else { "handwork" };
    let body = format!(
        "Step {nth} of the migration is ready. The {word} tests pass on both machines; the {rare} that is left is \
         in the second part. Please look at the changed interface first, then at the notes beside it."
    );
    let content = Content {
        subject: format!("Step {nth} of the migration is ready"),
        body: Body::from(body.as_str()),
        ..Content::default()
    };
    let kind = "message".parse().expect("a built-in type");
    proposal(WRITER, Intent::Send(Send::plain(kind, vec![to])), Some(content))
}

pub(crate) fn to(name: &str) -> Address {
    name.parse().expect("a name of this benchmark")
}

pub(crate) fn mail_to_reader(nth: u64) -> Proposal {
    mail(to(READER), nth)
}

/// Proposes, and expects everything to be accepted.
pub(crate) fn submit(office: &mut Office, proposals: &[Proposal]) -> Result<Vec<Outcome>> {
    let outcomes = office.submit(proposals, &Rules::none())?;
    if let Some(refused) = outcomes.iter().find(|outcome| !matches!(outcome.verdict, Verdict::Accepted(_))) {
        return Err(format!("the office refused: {:?}", refused.verdict).into());
    }
    Ok(outcomes)
}

pub(crate) fn submit_all(office: &mut Office, proposals: impl Iterator<Item = Proposal>) -> Result<Vec<MessageNo>> {
    let mut numbers = Vec::new();
    let mut proposals = proposals.peekable();
    while proposals.peek().is_some() {
        let batch: Vec<Proposal> = proposals.by_ref().take(BATCH).collect();
        numbers.extend(submit(office, &batch)?.into_iter().filter_map(|outcome| match outcome.verdict {
            Verdict::Accepted(Effect::Sent(sent)) => Some(sent.number),
            _ => None,
        }));
    }
    Ok(numbers)
}

/// What the history of an office consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum History {
    Pending,
    Done,
    Others,
}

impl History {
    pub(crate) const ALL: [Self; 3] = [Self::Pending, Self::Done, Self::Others];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Others => "others",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pending => "pending in this inbox",
            Self::Done => "done in this inbox",
            Self::Others => "of others",
        }
    }
}

/// Offices with long histories, created once per schema.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let shape: String = schema::CURRENT.steps.iter().map(|step| step.sql).collect();
        let key = poste_core::digest::Digest::of(shape.as_bytes()).short();
        let folder = root.join(format!("offices-{key}"));
        // Offices with another schema are no longer of use.
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("offices-") && entry.path() != folder {
                fs::remove_dir_all(entry.path())?;
            }
        }
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// An office with `WAITING` messages for the reader and a history of `count` messages.
    pub(crate) fn office(&self, history: History, count: u64) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}-{count}", history.name()));
        if path.exists() {
            return Ok(path);
        }
        crate::say(&format!("  making an office: {count} {}", history.title()));
        let unfinished = path.with_extension("building");
        let _ = fs::remove_dir_all(&unfinished);
        fill(&unfinished, history, count)?;
        fs::rename(&unfinished, &path)?;
        Ok(path)
    }
}

/// Creates an office with a history.
pub(crate) fn fill(path: &Path, history: History, count: u64) -> Result {
    let others: Vec<String> = (0..OTHERS).map(|nth| format!("other-{nth}")).collect();
    let mut office = create(path, [READER, WRITER].into_iter().chain(others.iter().map(String::as_str)))?;
    let mut made = 0;
    while made < count {
        let upto = (made + BATCH as u64).min(count);
        let recipient = |nth: u64| match history {
            History::Pending | History::Done => to(READER),
            History::Others => to(&others[(nth % OTHERS) as usize]),
        };
        let numbers = submit_all(&mut office, (made..upto).map(|nth| mail(recipient(nth), nth)))?;
        if history == History::Done {
            let done = numbers.into_iter().map(|message| done(READER, message));
            submit_all(&mut office, done)?;
        }
        made = upto;
    }
    if history != History::Pending {
        submit_all(&mut office, (0..WAITING).map(mail_to_reader))?;
    }
    Ok(())
}

pub(crate) fn done(actor: &str, message: MessageNo) -> Proposal {
    proposal(actor, Intent::Done(Done { message, token: None, artifacts: Vec::new() }), None)
}

/// The size of an office's database and WAL, in bytes.
pub(crate) fn file_bytes(path: &Path) -> u64 {
    ["office.db", "office.db-wal"].iter().map(|name| fs::metadata(path.join(name)).map_or(0, |meta| meta.len())).sum()
}
