use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::views::MessageView;
use poste_verbs::read;

use super::approvals;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape, fence};

/// Read a message and mark it as shown if it is yours
///
/// Shown is not handled: finish the message with ack, done, fail, reply --done or forward.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste read 12 --as coder\n  poste read 12 --for-model")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Print it fenced as data, for a model's context
    #[arg(long)]
    for_model: bool,
}

impl Answer for MessageView {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_message(ui, self, out)
    }
}

/// Prints a message for a person.
pub(crate) fn print_message(ui: &Ui, message: &MessageView, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("#{}  {}", message.number, escape::line(&message.subject));
    writeln!(out, "{}", ui.paint(Paint::Strong, &title))?;
    let mut field = |name: &str, value: String| writeln!(out, "{name:<13} {value}");
    field("from", format!("{} ({})", message.from, message.trust))?;
    field("to", if message.to.is_empty() { "nobody".to_owned() } else { message.to.join(", ") })?;
    field("type", format!("{}, {}", message.kind, message.priority))?;
    field("sent", ui.time(message.at))?;
    field("conversation", message.conversation.to_string())?;
    if let Some(number) = message.reply_to {
        field("in reply to", format!("#{number}"))?;
    }
    if let Some(number) = message.forward_of {
        field("forwards", format!("#{number}"))?;
    }
    if let Some(topic) = &message.topic {
        field("topic", topic.to_string())?;
    }
    match &message.approval {
        Some(approval) => {
            field("choices", fence::choices(approval))?;
            field("decision", approvals::standing(ui, approval))?;
        }
        None if message.wants_response => field("answer", answer_text(ui, message.respond_by))?,
        None => {}
    }
    if let Some(at) = message.not_before {
        field("not before", ui.time(at))?;
    }
    if let Some(at) = message.expires_at {
        field("expires", ui.time(at))?;
    }
    if let Some(workflow) = &message.workflow {
        let step = message.step.as_ref().map(|step| format!(", step {step}")).unwrap_or_default();
        field("workflow", format!("{workflow}{step}"))?;
    }
    if let Some(context) = &message.context {
        field("context", escape::line(context).into_owned())?;
    }
    for artifact in &message.artifacts {
        field("artifact", fence::artifact_line(artifact, message.redacted.is_some()))?;
    }
    for reference in &message.references {
        field("reference", escape::line(reference).into_owned())?;
    }
    for (name, value) in &message.metadata {
        field("meta", format!("{}={}", escape::line(name), escape::line(value)))?;
    }
    if let Some(file) = &message.archive {
        field("archived in", format!("archive/{file}"))?;
    }
    match &message.redacted {
        Some(redaction) => {
            let reason = escape::line(&redaction.reason);
            writeln!(out, "\n(redacted by {} {}: {reason})", redaction.by, ui.time(redaction.at))?;
        }
        None if message.content_gone => writeln!(out, "\n(the content is no longer here)")?,
        None => {}
    }
    if !message.body.is_empty() {
        writeln!(out, "\n{}", escape::block(message.body.trim_end_matches('\n')))?;
    }
    if message.body_base64.is_some() {
        writeln!(out, "(not UTF-8; the bytes are in --json as body_base64)")?;
    }
    if let Some(payload) = &message.payload {
        writeln!(out, "\npayload\n{}", escape::json(payload.get()))?;
    }
    if let Some(expect) = &message.expect {
        writeln!(out, "\nexpected output\n{}", escape::block(expect))?;
    }
    Ok(())
}

/// When a wanted answer is due.
pub(crate) fn answer_text(ui: &Ui, respond_by: Option<poste_core::Timestamp>) -> String {
    match respond_by {
        None => "wanted".to_owned(),
        Some(at) if at <= ui.now => format!("was due {}", ui.time(at)),
        Some(at) => format!("due {}", ui.time(at)),
    }
}

pub(crate) fn fenced(cx: &Cx, message: &MessageView) -> String {
    let nonce = fence::nonce_for(message, || cx.new_nonce());
    fence::fenced(message, &nonce)
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let (mut office, answered) = cx.call_verb_here(read::Input { number: args.number })?;
    if cx.is_for_model(args.for_model, &office) {
        return cx.show_as(&mut office, answered, |message| cx.ui.fenced(&fenced(cx, message)));
    }
    cx.show(&mut office, answered)
}
