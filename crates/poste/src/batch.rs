//! `send --batch`: messages as lines of JSON, many per transaction.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use poste_core::limits;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_verbs::{batch, send};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Ui};
use crate::{Result, notes};

/// Lines that share one transaction.
const CHUNK_LINES: usize = 100;
/// Maximum size of a chunk, which is held in memory.
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// JSON escapes take space, so a line may be larger than the message it holds.
const LINE_BYTES_MAX: u64 = 2 * limits::CONTENT_BYTES_MAX as u64;

/// The outcome of a batch.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct BatchAnswer {
    pub sent: usize,
    /// Lines whose id was sent before; they had no effect.
    pub repeats: usize,
    pub first_number: Option<MessageNo>,
    pub last_number: Option<MessageNo>,
    pub refused: Vec<RefusedLine>,
    /// The last line that was decided before an interruption.
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

pub(crate) fn run(cx: &mut Cx, source: &str, id: Option<RecordId>, secret: SecretArgs) -> Result {
    let mut office = cx.open_to_write()?;
    cx.agent(&mut office)?; // report a missing sender once, not for every line
    let (reader, bytes): (Box<dyn Read>, Option<u64>) = if source == "-" {
        (Box::new(std::io::stdin()), None)
    } else {
        let file =
            File::open(Path::new(source)).map_err(|error| CommandError::not_found(format!("{source}: {error}")))?;
        let bytes = file.metadata().ok().map(|meta| meta.len());
        (Box::new(file), bytes)
    };
    let progress = progress_bar(cx, bytes);
    let mut answer = BatchAnswer::default();
    let lines = Lines { id, secret };
    let ran = send_lines(cx, &mut office, &mut BufReader::new(reader), &lines, &progress, &mut answer);
    progress.finish_and_clear();
    answer.refused.sort_by_key(|refused| refused.line);
    if answer.sent > 0 {
        cx.note_stored(answer.sent_text());
    }
    // Also after an interruption: the caller needs to know which lines are stored to resume after them.
    cx.ui.answer(&answer)?;
    for refused in &answer.refused {
        let hints: String = refused.hints.iter().map(|hint| format!(" ({hint})")).collect();
        cx.ui.say(format!("line {}: {}{hints}", refused.line, refused.reason));
    }
    if let Err(error) = ran {
        let done = answer.lines_done;
        return Err(error.hint(format!("lines up to {done} were decided, as counted above; resume after them")));
    }
    if answer.refused.is_empty() {
        return Ok(());
    }
    Err(CommandError::new(Kind::Refused, format!("refused {}", ui::count(answer.refused.len(), "line")))
        .hint("the other lines were sent; fix these and send only them"))
}

/// Options that apply to every line.
struct Lines {
    id: Option<RecordId>,
    secret: SecretArgs,
}

fn send_lines(
    cx: &Cx,
    office: &mut Office,
    reader: &mut impl BufRead,
    lines: &Lines,
    progress: &ProgressBar,
    answer: &mut BatchAnswer,
) -> Result {
    let mut chunk: Vec<(u64, send::Input)> = Vec::new();
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
        match lines.message(cx, &line, number) {
            Ok(message) => {
                chunk_bytes += line.len();
                chunk.push((number, message));
            }
            Err(error) => answer.refused.push(RefusedLine { line: number, reason: error.text(), hints: error.hints() }),
        }
        if chunk.len() == CHUNK_LINES || chunk_bytes > CHUNK_BYTES_MAX {
            submit(cx, office, &mut chunk, answer)?;
            chunk_bytes = 0;
            answer.lines_done = number;
        }
    }
    submit(cx, office, &mut chunk, answer)
}

/// Reads one line of any length and returns the number of bytes read. Bytes beyond the limit are skipped, so that the
/// next call starts at the next line.
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

pub(crate) fn parse_line(line: &[u8]) -> Result<send::Input> {
    if line.len() as u64 >= LINE_BYTES_MAX {
        return Err(CommandError::usage(format!("the line has more than {LINE_BYTES_MAX} bytes")));
    }
    // serde also accepts an array of the fields in order, which the schema does not describe.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(CommandError::usage("a line must be a JSON object; see poste schema batch"));
    }
    serde_json::from_slice(line).map_err(|error| {
        // Every line is line 1 to the parser.
        CommandError::usage(error.to_string().replace("at line 1 column", "at column"))
    })
}

impl Lines {
    fn message(&self, cx: &Cx, line: &[u8], number: u64) -> Result<send::Input> {
        let mut input = parse_line(line)?;
        // The line number in the file, not in the chunk: the id must be the same when the batch is repeated.
        batch::set_id(&mut input, self.id.as_ref(), number);
        let message = &mut input.message;
        message.secrets = self.secret.secrets(cx)?;
        for paths in [&mut message.artifacts, &mut message.attach, &mut message.artifact_later] {
            *paths = cx.paths(std::mem::take(paths));
        }
        Ok(input)
    }
}

fn submit(cx: &Cx, office: &mut Office, chunk: &mut Vec<(u64, send::Input)>, answer: &mut BatchAnswer) -> Result {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, messages): (Vec<u64>, Vec<send::Input>) = chunk.drain(..).unzip();
    let decided = cx.call_verb(office, batch::Input { messages, id: None })?;
    notes::say(&cx.ui, &decided);
    // The caller reports the count of stored messages instead of each one.
    cx.forget_stored();
    for (line, became) in numbers.into_iter().zip(decided.answer.lines) {
        match became {
            batch::Line::Sent { number } => {
                answer.sent += 1;
                answer.first_number.get_or_insert(number);
                answer.last_number = Some(number);
            }
            batch::Line::Repeat => answer.repeats += 1,
            batch::Line::Refused { reason, hints } => {
                let hints = hints.iter().map(notes::plain).collect();
                answer.refused.push(RefusedLine { line, reason, hints });
            }
        }
    }
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
