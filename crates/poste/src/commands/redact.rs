use std::io::{self, Write};
use std::path::Path;

use poste_core::log::{MessageNo, Position};
use poste_core::views::RepeatingVersion;
use poste_verbs::redact;

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui, escape};

/// Erase the content of a message everywhere in the office
///
/// Sender, recipients and times are kept. Only the author and humans can redact. It cannot be undone: afterwards no
/// file of the office folder contains the text. Copies elsewhere (snapshots, a model's context, the history of a
/// terminal) are not erased.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste redact 12 --reason 'carried a password' --as anna\n  \
                        poste redact 12 --results --reason 'customer data' --as anna\n  \
                        poste redact --record 40 --reason 'customer data' --as anna")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number, required_unless_present_any = ["record", "finish"])]
    number: Option<MessageNo>,
    /// Also erase the results, reasons and notes of its recipients
    #[arg(long, requires = "number")]
    results: bool,
    /// Erase the content of this log record; may be repeated
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    record: Vec<Position>,
    /// Reason, which is kept
    #[arg(long, value_name = "TEXT", required_unless_present = "finish")]
    reason: Option<String>,
    /// Finish an interrupted erasure, and repeat all earlier ones
    #[arg(long, conflicts_with_all = ["number", "record", "reason"])]
    finish: bool,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for redact::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.finished {
            true => writeln!(out, "everything that was redacted is erased")?,
            false => writeln!(out, "erased the content of {}", ui::count(self.records.len(), "record"))?,
        }
        for blob in &self.kept_blobs {
            writeln!(out, "kept: the copy {blob} also belongs to another message")?;
        }
        for archive in &self.missing_archives {
            writeln!(out, "not erased: archive/{archive} is missing; if it comes back: poste redact --finish")?;
        }
        for path in &self.edited_mirrors {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            writeln!(
                out,
                "not erased: {path} was edited by hand; review it, then run poste context mirror {name} --force"
            )?;
        }
        for path in &self.strange_files {
            writeln!(out, "not erased: {} belongs to no context; review it", escape::line(path))?;
        }
        for RepeatingVersion { context, version, message } in &self.repeating_versions {
            writeln!(
                out,
                "not erased: version {version} of context {context} may repeat it; run poste redact {message}"
            )?;
        }
        let is_version = |number| self.repeating_versions.iter().any(|version| version.message == number);
        for number in self.repeated_in.iter().filter(|number| !is_version(**number)) {
            writeln!(out, "not erased: #{number} repeats it, at least its subject; run poste redact {number}")?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(redact::Input {
        number: args.number,
        results: args.results,
        records: args.record,
        reason: args.reason,
        finish: args.finish,
        id: args.write.id,
        secrets: args.write.secret.secrets(cx)?,
    })
}
