//! `send --batch`: messages as lines of JSON, many to a transaction.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use poste_core::Address;
use poste_core::fold::{Effect, Verdict};
use poste_core::limits;
use poste_core::log::{Intent, MessageNo, Proposal};
use poste_core::office::Office;
use poste_core::text::{Label, RecordId, TypeName};
use poste_core::time::{When, parse_when};
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Result;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::draft::{Draft, parse_payload};
use crate::error::{CommandError, Kind};
use crate::explain::explain;
use crate::ui::{self, Answer, Ui};

/// Lines that share one transaction.
const CHUNK_LINES: usize = 100;
/// And at most so many bytes: a chunk is held in memory.
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A line is JSON and escapes cost: somewhat more than a message may hold.
const LINE_BYTES_MAX: u64 = 2 * limits::CONTENT_BYTES_MAX as u64;

/// One message of a batch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchLine {
    /// One address or several
    to: OneOrMany,
    subject: String,
    #[serde(default)]
    body: String,
    #[serde(default, rename = "type")]
    kind: Option<TypeName>,
    #[serde(default)]
    priority: Option<Priority>,
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// Files it speaks of; size and digest are recorded
    #[serde(default)]
    artifacts: Vec<PathBuf>,
    /// Files to copy into the office
    #[serde(default)]
    attach: Vec<PathBuf>,
    /// Files that will come; nothing is checked
    #[serde(default)]
    artifact_later: Vec<PathBuf>,
    #[serde(default)]
    reply_to: Option<MessageNo>,
    #[serde(default)]
    conversation: Option<Label>,
    #[serde(default)]
    wants_response: Option<bool>,
    /// 30m, 2h, or a moment
    #[serde(default)]
    respond_by: Option<String>,
    #[serde(default)]
    expires: Option<String>,
    #[serde(default)]
    not_before: Option<String>,
    #[serde(default)]
    workflow: Option<Label>,
    #[serde(default)]
    step: Option<Label>,
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    expect: Option<String>,
    #[serde(default)]
    references: Vec<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    /// With an id of its own a line can be sent again without a second effect
    #[serde(default)]
    id: Option<RecordId>,
}

/// One address, or a list of them.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "the shapes stand for the schema; reading makes the second")]
enum OneOrMany {
    One(Address),
    Many(Vec<Address>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let addresses = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(one) => vec![one.parse().map_err(D::Error::custom)?],
            many @ serde_json::Value::Array(_) => serde_json::from_value(many).map_err(D::Error::custom)?,
            _ => return Err(D::Error::custom("to is an address or a list of addresses")),
        };
        Ok(Self::Many(addresses))
    }
}

impl BatchLine {
    fn into_draft(self) -> Result<Draft> {
        let when = |text: Option<String>| -> Result<Option<When>> {
            text.map(|text| parse_when(&text).map_err(CommandError::usage)).transpose()
        };
        Ok(Draft {
            to: match self.to {
                OneOrMany::One(address) => vec![address],
                OneOrMany::Many(addresses) => addresses,
            },
            kind: self.kind,
            priority: self.priority,
            subject: self.subject,
            body: self.body.into_bytes(),
            payload: self.payload.map(|payload| parse_payload(payload.get().to_owned())).transpose()?,
            present: self.artifacts,
            attached: self.attach,
            later: self.artifact_later,
            reply_to: self.reply_to,
            conversation: self.conversation,
            wants_response: self.wants_response,
            respond_by: when(self.respond_by)?,
            expires: when(self.expires)?,
            not_before: when(self.not_before)?,
            workflow: self.workflow,
            step: self.step,
            context: self.context,
            expect: self.expect,
            references: self.references,
            metadata: self.metadata,
            id: self.id,
            ..Draft::default()
        })
    }
}

/// What became of a batch.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct BatchAnswer {
    pub sent: usize,
    /// Lines whose id was sent before: no second effect.
    pub repeats: usize,
    pub first_number: Option<MessageNo>,
    pub last_number: Option<MessageNo>,
    pub refused: Vec<RefusedLine>,
    /// Lines up to here were decided when it broke off.
    #[serde(skip)]
    lines_done: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RefusedLine {
    pub line: u64,
    pub reason: String,
    pub hints: Vec<String>,
}

impl BatchAnswer {
    fn sent_text(&self) -> String {
        let numbers = match (self.first_number, self.last_number) {
            (Some(first), Some(last)) if first != last => format!(" (#{first}..#{last})"),
            (Some(first), _) => format!(" (#{first})"),
            _ => String::new(),
        };
        format!("{}{numbers}", ui::count(self.sent, "message"))
    }
}

impl Answer for BatchAnswer {
    fn print(&self, _: &Ui, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        writeln!(out, "sent {}", self.sent_text())?;
        if self.repeats > 0 {
            writeln!(out, "{} sent before", ui::count(self.repeats, "line"))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, source: &str, secret: SecretArgs) -> Result {
    let mut office = cx.open_to_write()?;
    cx.agent(&office)?; // a batch without a sender is one mistake, not one a line
    let (reader, bytes): (Box<dyn Read>, Option<u64>) = if source == "-" {
        (Box::new(cx.stdin()?), None)
    } else {
        let file =
            File::open(Path::new(source)).map_err(|error| CommandError::not_found(format!("{source}: {error}")))?;
        let bytes = file.metadata().ok().map(|meta| meta.len());
        (Box::new(file), bytes)
    };
    let progress = progress_bar(cx, bytes);
    let mut answer = BatchAnswer::default();
    let ran = send_lines(cx, &mut office, &mut BufReader::new(reader), secret, &progress, &mut answer);
    progress.finish_and_clear();
    answer.refused.sort_by_key(|refused| refused.line);
    if answer.sent > 0 {
        cx.note_stored(answer.sent_text());
    }
    // Also when it broke off: what is stored is stored, and whoever goes on must know up to where.
    cx.ui.answer(&answer)?;
    for refused in &answer.refused {
        let hints: String = refused.hints.iter().map(|hint| format!(" ({hint})")).collect();
        cx.ui.say(format!("line {}: {}{hints}", refused.line, refused.reason));
    }
    if let Err(error) = ran {
        let done = answer.lines_done;
        return Err(error.hint(format!("the lines up to {done} are decided, as counted above; go on after them")));
    }
    if answer.refused.is_empty() {
        return Ok(());
    }
    Err(CommandError::new(Kind::Refused, format!("refused {}", ui::count(answer.refused.len(), "line")))
        .hint("the other lines are sent; mend these and send them alone"))
}

fn send_lines(
    cx: &Cx,
    office: &mut Office,
    reader: &mut impl BufRead,
    secret: SecretArgs,
    progress: &ProgressBar,
    answer: &mut BatchAnswer,
) -> Result {
    let mut chunk: Vec<(u64, Proposal)> = Vec::new();
    let mut chunk_bytes = 0;
    for number in 1.. {
        let mut line = Vec::new();
        let read = read_line(reader, &mut line)
            .map_err(|error| CommandError::new(Kind::Internal, format!("reading line {number}: {error}")))?;
        if read == 0 {
            break;
        }
        progress.inc(read as u64);
        if line.trim_ascii().is_empty() {
            continue;
        }
        match proposal(cx, office, &line, secret) {
            Ok(proposal) => {
                chunk_bytes += line.len();
                chunk.push((number, proposal));
            }
            Err(error) => answer.refused.push(refused(number, &error)),
        }
        if chunk.len() == CHUNK_LINES || chunk_bytes > CHUNK_BYTES_MAX {
            submit(cx, office, &mut chunk, answer)?;
            chunk_bytes = 0;
            answer.lines_done = number;
        }
    }
    submit(cx, office, &mut chunk, answer)
}

/// One line, however long: what is beyond the limit is passed over, so that the next line is the next line.
/// Returns how many bytes that was.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    while line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        let mut rest = Vec::new();
        let more = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut rest)?;
        read += more;
        if more == 0 || rest.last() == Some(&b'\n') {
            break;
        }
    }
    Ok(read)
}

fn refused(line: u64, error: &CommandError) -> RefusedLine {
    RefusedLine { line, reason: error.message.clone(), hints: error.hints().to_vec() }
}

pub(crate) fn parse_line(line: &[u8]) -> Result<Draft> {
    if line.len() as u64 >= LINE_BYTES_MAX {
        return Err(CommandError::usage(format!("the line has more than {LINE_BYTES_MAX} bytes")));
    }
    // serde would read a list as the fields in their order: a second way to write a line, which no schema tells of.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(CommandError::usage("a line is a JSON object; see poste schema batch"));
    }
    let line: BatchLine = serde_json::from_slice(line).map_err(|error| {
        // Every line is line 1 to the parser.
        CommandError::usage(error.to_string().replace("at line 1 column", "at column"))
    })?;
    line.into_draft()
}

fn proposal(cx: &Cx, office: &Office, line: &[u8], secret: SecretArgs) -> Result<Proposal> {
    let mut draft = Draft { secret, ..parse_line(line)? };
    let id = draft.id.take();
    let (header, content) = draft.seal(cx, office, "message")?;
    let proposal = cx.proposal(office, Intent::Send(header), Some(content), id)?;
    // Sealed here once, so that a line over a limit is refused alone and not with its chunk.
    poste_core::log::Sealed::seal(&proposal).map_err(poste_core::Error::from)?;
    Ok(proposal)
}

fn submit(cx: &Cx, office: &mut Office, chunk: &mut Vec<(u64, Proposal)>, answer: &mut BatchAnswer) -> Result {
    if chunk.is_empty() {
        return Ok(());
    }
    let (lines, proposals): (Vec<u64>, Vec<Proposal>) = chunk.drain(..).unzip();
    let outcomes = office.submit(&proposals)?;
    let mut sent_now = Vec::new();
    for ((line, proposal), outcome) in lines.into_iter().zip(&proposals).zip(outcomes) {
        match outcome.verdict {
            Verdict::Rejected(rejection) => {
                let error = explain(office, proposal, rejection.into())?;
                answer.refused.push(refused(line, &error));
            }
            Verdict::Accepted(_) if outcome.repeat => answer.repeats += 1,
            Verdict::Accepted(effect) => {
                answer.sent += 1;
                if let Effect::Sent(sent) = effect {
                    answer.first_number.get_or_insert(sent.number);
                    answer.last_number = Some(sent.number);
                    sent_now.push(sent.number);
                }
            }
        }
    }
    crate::wake::after_send(cx, office, &sent_now);
    Ok(())
}

fn progress_bar(cx: &Cx, bytes: Option<u64>) -> ProgressBar {
    if cx.ui.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let Some(bytes) = bytes else { return ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{bar:30} {percent}% {bytes}/{total_bytes} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
