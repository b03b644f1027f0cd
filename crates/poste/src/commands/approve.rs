use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Word;
use poste_verbs::approve;

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;
use crate::ui::{Answer, Ui};

/// Approve a question, or choose another answer
///
/// The first answer counts and goes to the asker. A human may decide a question that was put to another agent.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste approve 12 --as lead\n  poste approve 12 --note 'Only on staging' --as lead\n  \
                        poste approve 15 --choice sqlite --as anna"
)]
pub(crate) struct Args {
    /// Number of the question
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    decision: DecisionArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecisionArgs {
    /// Choice other than approve
    #[arg(long, value_name = "WORD")]
    pub choice: Option<Word>,
    /// Note to the asker; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,
    #[command(flatten)]
    pub write: WriteArgs,
}

impl Answer for approve::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already decided under this id)" } else { "" };
        writeln!(out, "#{} {}: {} notified with #{}{again}", self.number, self.choice, self.asker, self.answer)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let DecisionArgs { choice, note, write: WriteArgs { id, secret } } = args.decision;
    cx.call(approve::Input { number: args.number, choice, note: read_body(note)?, id, secrets: secret.secrets(cx)? })
}
