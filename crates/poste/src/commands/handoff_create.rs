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
    /// Who it is for: a name, role:ROLE or can:CAPABILITY
    to: Address,
    /// What is to be done; - for stdin
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// Something that is done already; may be repeated, as those below
    #[arg(long, value_name = "TEXT")]
    completed: Vec<String>,
    /// What the receiver should know
    #[arg(long, value_name = "TEXT")]
    background: Option<String>,
    /// A file to hand over, or a folder with all files below it: copied into the office
    #[arg(long, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// A shared context to read
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// A next step
    #[arg(long, value_name = "TEXT")]
    next: Vec<String>,
    /// Something that is known to be wrong
    #[arg(long, value_name = "TEXT")]
    issue: Vec<String>,
    /// A question
    #[arg(long, value_name = "TEXT")]
    question: Vec<String>,
    /// Something the receiver has to check before it can accept
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    /// A command that has to succeed in the receiver's worktree; words as in a shell, and no shell
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// As --verify, for a shell
    #[arg(long, value_name = "LINE")]
    verify_shell: Vec<String>,
    /// How long each command may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    verify_timeout: Duration,
    /// Take empty files along
    #[arg(long)]
    allow_empty: bool,
    /// Until when an answer is wanted: 30m, 2h, or a moment
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = parse_when)]
    respond_by: When,
    /// Expires if nobody took it until then
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    expires: Option<When>,
    /// low, normal, high or urgent; otherwise the type's
    #[arg(long)]
    priority: Option<Priority>,
    /// The conversation to join; otherwise the answered one, or a new one
    #[arg(long, value_name = "LABEL")]
    conversation: Option<Label>,
    /// The message it answers
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for create::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
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
        secrets: args.write.secret.secrets(),
    };
    cx.call(input)
}
