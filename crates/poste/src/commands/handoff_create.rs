//! `poste handoff create`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::text::Label;
use poste_core::time::{When, parse_when};
use poste_core::vocabulary::Priority;
use poste_verbs::handoff::create::{self, Commands};

use super::WriteArgs;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::read_text;
use crate::ui::{self, Answer, Ui};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recipient: a name, role:ROLE or can:CAPABILITY
    to: Address,
    /// Task to be done; - for stdin
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// Work that is already done; may be repeated, as may those below
    #[arg(long, value_name = "TEXT")]
    completed: Vec<String>,
    /// Background for the recipient
    #[arg(long, value_name = "TEXT")]
    background: Option<String>,
    /// File to hand over, or folder with all files below it; copied into the office
    #[arg(long, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// Shared context to read
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// Next step
    #[arg(long, value_name = "TEXT")]
    next: Vec<String>,
    /// Known issue
    #[arg(long, value_name = "TEXT")]
    issue: Vec<String>,
    /// Open question
    #[arg(long, value_name = "TEXT")]
    question: Vec<String>,
    /// Check that the recipient must make before accepting
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    /// Command that must succeed in the recipient's worktree; split into words, run without a shell
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// Like --verify, but run by a shell
    #[arg(long, value_name = "LINE")]
    verify_shell: Vec<String>,
    /// How long each command may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    verify_timeout: Duration,
    /// Allow empty files
    #[arg(long)]
    allow_empty: bool,
    /// Deadline for the answer: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = parse_when)]
    respond_by: When,
    /// When the handoff expires unless it is taken: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    expires: Option<When>,
    /// Priority: low, normal, high or urgent; otherwise that of the type
    #[arg(long)]
    priority: Option<Priority>,
    /// Conversation to join; otherwise that of the answered message, or a new one
    #[arg(long, value_name = "LABEL")]
    conversation: Option<Label>,
    /// Message that this one replies to
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for create::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already offered under this id)" } else { "" };
        let files = match self.artifacts.len() {
            0 => String::new(),
            count => format!(" with {}, {}", ui::count(count, "file"), poste_core::text::size(self.bytes)),
        };
        writeln!(out, "#{} offered to {}{files}{again}", self.number, self.to)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let input = create::Input {
        to: args.to,
        task: read_text(args.task, "the task")?,
        completed: args.completed,
        background: args.background,
        artifacts: cx.paths(args.artifact),
        contexts: args.context,
        next: args.next,
        issues: args.issue,
        questions: args.question,
        checks: args.check,
        allow_empty: args.allow_empty,
        respond_by: Some(args.respond_by),
        expires: args.expires,
        priority: args.priority,
        conversation: args.conversation,
        reply_to: args.reply_to,
        id: args.write.id,
        verify: Commands {
            words: args.verify,
            shell: args.verify_shell,
            timeout_ms: u64::try_from(args.verify_timeout.as_millis()).unwrap_or(u64::MAX),
        },
        secrets: args.write.secret.secrets(cx)?,
    };
    cx.call(input)
}
