use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::ContextName;
use poste_core::views::{self, AgreementView};
use poste_verbs::{agree, agreement};

use super::WriteArgs;
use super::context_lock::WaitArgs;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// Agree to a proposal, or show who has agreed
///
/// A proposal is a message of type interface_contract. Its sender agrees by sending it. The proposal is agreed when all
/// recipients have agreed. A newer proposal in the same conversation supersedes it. With --context, the last agreement
/// writes the result into the structured part of a shared context.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste agree 3 --as builder-2\n  poste agree 3 --context api-contracts --as builder-2\n  \
                  poste agree 3 --list"
)]
pub(crate) struct Args {
    /// Number of the proposal
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Only show who has agreed
    #[arg(long, conflicts_with_all = ["note", "context", "key", "id"])]
    list: bool,
    /// Note with the agreement, in Markdown
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Context to write the result to, once all parties have agreed
    #[arg(long, value_name = "NAME")]
    context: Option<ContextName>,
    /// With --context: key to write to; otherwise "interface" or "name" of the payload
    #[arg(long, value_name = "KEY", requires = "context")]
    key: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for agree::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let AgreementView { proposal, subject, parties, agreed, superseded_by, written, .. } = &self.agreement;
        let standing = match (agreed, superseded_by) {
            (_, Some(newer)) => format!("superseded by #{newer}"),
            (true, _) => "agreed".to_owned(),
            (false, _) => "not agreed yet".to_owned(),
        };
        writeln!(out, "#{proposal} {}: {standing}", escape::line(subject))?;
        let rows = parties.iter().map(|party| {
            let word = match (&party.agreed_by, party.at, party.message) {
                (Some(_), Some(at), None) => format!("proposed it {}", ui.time(at)),
                (Some(by), Some(at), Some(number)) if by.as_str() == party.party => {
                    format!("agreed {} (#{number})", ui.time(at))
                }
                (Some(by), Some(at), Some(number)) => format!("{by} agreed {} (#{number})", ui.time(at)),
                _ if party.retired => "has not answered, and is retired".to_owned(),
                _ => "has not answered".to_owned(),
            };
            vec![party.party.clone(), word]
        });
        ui.rows(out, &["PARTY", "WORD"], rows.collect())?;
        for written in written {
            let since = if written.stands == Some(false) { "; its data has changed since" } else { "" };
            writeln!(out, "written to context {}, version {}{since}", written.context, written.version)?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.list {
        return cx.call(agreement::Input { number: args.number });
    }
    let mut office = cx.office()?;
    let is_repeat = match &args.write.id {
        Some(id) => views::is_known_id(office.store(), id)?,
        None => false,
    };
    let input = agree::Input {
        number: args.number,
        note: args.note,
        context: args.context.clone(),
        key: args.key,
        // One id for every attempt: waiting for the context must not repeat the agreement.
        id: Some(args.write.id.unwrap_or_else(|| cx.new_id())),
        secrets: args.write.secret.secrets(cx)?,
    };
    let answered = match &args.context {
        Some(name) => {
            args.wait.retry_while_locked(cx, &mut office, name, |office| cx.call_verb(office, input.clone()))?
        }
        None => cx.call_verb(&mut office, input)?,
    };
    cx.ui.now = office.now()?;
    cx.show(&mut office, answered.map(|answer| agree::Answer { repeat: is_repeat && answer.repeat, ..answer }))
}
