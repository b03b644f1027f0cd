use poste_core::log::{Ends, EndsHow, MessageNo};
use poste_core::time::When;
use poste_core::views::{self, MessageView};
use poste_core::vocabulary::Priority;

use super::reply::prefixed;
use super::{ClaimArgs, SecretArgs, send};
use crate::Result;
use crate::context::Cx;
use crate::draft::{Draft, parse_recipients};
use crate::explain::no_message;

/// Pass a message on to somebody else; yours is then done, as forwarded
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste forward 12 lead --note 'Above my pay grade' --priority urgent --as coder")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Who takes over
    to: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Otherwise the priority it had
    #[arg(long)]
    priority: Option<Priority>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let original = views::message(office.store(), args.number)?.ok_or_else(|| no_message(args.number))?;
    let draft = Draft {
        to: parse_recipients(&args.to)?,
        kind: Some(original.kind.clone()),
        priority: Some(args.priority.unwrap_or(original.priority)),
        subject: prefixed("Fwd: ", &original.subject),
        body: forwarded_body(&original, args.note.as_deref()),
        carried: original.artifacts.clone(),
        respond_by: original.respond_by.map(When::At),
        payload: original.payload.clone(),
        workflow: original.workflow.clone(),
        step: original.step.clone(),
        context: original.context.clone(),
        expect: original.expect.clone(),
        references: original.references.clone(),
        metadata: original.metadata.clone(),
        wants_response: Some(original.wants_response),
        ends: Some(Ends { message: args.number, how: EndsHow::Forwarded, token: args.claim.token }),
        id: args.claim.id,
        secret: args.secret,
        ..Draft::default()
    };
    send::send(cx, &mut office, draft, "message")
}

/// The note, then the original byte for byte, with its origin said in words.
fn forwarded_body(original: &MessageView, note: Option<&str>) -> Vec<u8> {
    let note = note.map(|note| format!("{note}\n\n")).unwrap_or_default();
    let origin = format!("{note}Forwarded #{} from {} ({}):\n\n", original.number, original.from, original.trust);
    [origin.as_bytes(), &original.body_bytes].concat()
}
