use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Word;
use poste_verbs::approve;

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;
use crate::draft::read_body;
use crate::ui::{Answer, Ui};

/// Decide what somebody asked: approve it, or another choice it offers
///
/// The first answer counts; it goes to whoever asked. A human may decide what was asked of somebody else.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste approve 12 --as lead\n  poste approve 12 --note 'Only on staging' --as lead\n  \
                        poste approve 15 --choice sqlite --as anna"
)]
pub(crate) struct Args {
    /// The question's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    decision: DecisionArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DecisionArgs {
    /// Another choice than to approve
    #[arg(long, value_name = "WORD")]
    pub choice: Option<Word>,
    /// A word to whoever asked; - for stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,
    #[command(flatten)]
    pub write: WriteArgs,
}

impl Answer for approve::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "#{} {}: {} is told with #{}{again}", self.number, self.choice, self.asker, self.answer)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let DecisionArgs { choice, note, write: WriteArgs { id, secret } } = args.decision;
    cx.call(approve::Input { number: args.number, choice, note: read_body(note)?, id, secrets: secret.secrets() })
}
