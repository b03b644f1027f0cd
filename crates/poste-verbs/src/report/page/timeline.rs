//! A timeline, as sentences and as a diagram.

use std::io::{self, Write};

use poste_core::views::{Happened, Happening};

use super::mermaid::{Arrow, Sequence};
use super::{Page, markdown};

/// Prints one line per event. Times on the day of the first event have no date.
pub(super) fn print(page: &Page, out: &mut dyn Write, timeline: &[Happening]) -> io::Result<()> {
    let Some(first) = timeline.first() else { return Ok(()) };
    writeln!(out, "\n## Timeline from {}\n", page.moment(first.at))?;
    for happening in timeline {
        let when = page.moment_of(happening.at, first.at);
        let said = happening.text.as_deref().filter(|text| !text.is_empty());
        let said = said.map(|text| format!(": {}", markdown::text(text))).unwrap_or_default();
        let linked = if happening.linked { " (from another conversation)" } else { "" };
        writeln!(out, "- {when} {}{linked}{said}", sentence(happening))?;
    }
    Ok(())
}

/// Who did what, without the text of the event.
fn sentence(happening: &Happening) -> String {
    let Happening { number, reply_to, .. } = happening;
    let by = markdown::text(&happening.by);
    let recipient = markdown::text(happening.recipient.as_deref().unwrap_or("nobody"));
    let to = recipients(happening);
    let kind = happening.kind.as_ref().map(|kind| format!("`{kind}` ")).unwrap_or_default();
    let earlier = |number: Option<poste_core::MessageNo>| number.map(|number| format!("#{number}")).unwrap_or_default();
    match happening.what {
        Happened::Sent => format!("{by} sent {kind}#{number}{to}"),
        Happened::Reported => format!("{by} reported the blocker, #{number}{to}"),
        Happened::Resolved => format!("{by} reported the blocker as resolved, #{number}{to}"),
        Happened::Answered => format!("{by} answered {} with {kind}#{number}{to}", earlier(*reply_to)),
        Happened::Forwarded => format!("{by} forwarded {} as {kind}#{number}{to}", earlier(happening.forward_of)),
        Happened::Acknowledged => match (happening.kind.is_some(), reply_to) {
            (true, Some(earlier)) => format!("{by} acknowledged #{earlier} with {kind}#{number}{to}"),
            (true, None) => format!("{by} sent {kind}#{number}{to}"),
            (false, _) => format!("{by} acknowledged #{number}"),
        },
        Happened::Shown => format!("{by} was shown #{number}"),
        Happened::Claimed => format!("{by} claimed #{number}"),
        Happened::Released => format!("{by} released #{number}"),
        Happened::LeaseExpired => format!("the lease of #{number} to {recipient} expired"),
        Happened::AttemptFailed => format!("{by} failed at #{number}, to be retried"),
        Happened::Done => format!("{by} finished #{number}"),
        Happened::Failed => format!("{by} failed #{number}"),
        Happened::Dead => format!("#{number} to {recipient} is dead, every attempt failed"),
        Happened::Expired => format!("#{number} to {recipient} expired"),
        Happened::Returned => format!("#{number} to {recipient} was returned"),
        Happened::Retried => format!("{by} retried #{number} to {recipient}"),
        Happened::Late => format!("{by} finished #{number} after the lease was lost"),
        Happened::Delivered => format!("#{number} was delivered to {recipient} on subscribing"),
        Happened::Reminded => format!("#{number} was not answered by {recipient} in time"),
        Happened::Dropped => format!("{by} dropped #{number} to {recipient}"),
        Happened::Closed => format!("{by} closed the conversation"),
        Happened::Decided => format!("{by} decided {} with {kind}#{number}{to}", earlier(*reply_to)),
        Happened::Defaulted => format!("#{number} was not decided in time"),
        Happened::Unanswered => format!("#{number} was not decided in time, and it has no default"),
        Happened::Withdrawn => format!("#{number} to {recipient} was withdrawn"),
    }
}

/// ` to a, b and 3 more`.
fn recipients(happening: &Happening) -> String {
    let named = happening.to.len() as u64;
    let names: Vec<String> = happening.to.iter().map(|name| markdown::text(name)).collect();
    match happening.recipients.unwrap_or(named) {
        // The recipients of an unreadable message are unknown.
        0 if happening.recipients.is_none() => String::new(),
        0 if names.is_empty() => " to nobody".to_owned(),
        all if all > named => format!(" to {} and {} more", names.join(", "), all - named),
        _ => format!(" to {}", names.join(", ")),
    }
}

/// Messages and answers are arrows. Everything else is a note over the agent it concerns.
pub(super) fn diagram(page: &Page, timeline: &[Happening]) -> String {
    let mut sequence = Sequence::default();
    let Some(first) = timeline.first() else { return sequence.finish() };
    for happening in timeline {
        let when = page.moment_of(happening.at, first.at);
        draw(&mut sequence, happening, &when);
    }
    sequence.finish()
}

fn draw(sequence: &mut Sequence, happening: &Happening, when: &str) {
    let Happening { number, by, .. } = happening;
    let said = happening.text.as_deref().filter(|text| !text.is_empty());
    let said = said.map(|text| format!(": {text}")).unwrap_or_default();
    if let Some(kind) = &happening.kind {
        let what = format!("#{number} {kind}{said}");
        for to in &happening.to {
            sequence.arrow(Arrow::Solid, by, to, when, &what);
        }
        let others = happening.recipients.unwrap_or_default().saturating_sub(happening.to.len() as u64);
        match (happening.to.is_empty(), others) {
            (true, _) if happening.recipients.is_none() => sequence.note(by, when, &what),
            (true, _) => sequence.note(by, when, &format!("{what} (to nobody)")),
            (false, 0) => {}
            (false, others) => sequence.note(by, when, &format!("#{number} also to {others} more")),
        }
        return;
    }
    let sender = happening.to.first().map(String::as_str);
    let word = happening.what.word().replace('_', " ");
    let drawn_as = match happening.what {
        Happened::Acknowledged | Happened::Done => Some(Arrow::Dashed),
        Happened::Failed | Happened::AttemptFailed => Some(Arrow::Cross),
        _ => None,
    };
    match (drawn_as, sender) {
        (Some(arrow), Some(sender)) => sequence.arrow(arrow, by, sender, when, &format!("{word} #{number}{said}")),
        _ if happening.what == Happened::Closed => sequence.note(by, when, &format!("closes the conversation{said}")),
        _ => sequence.note(happens_to(happening), when, &format!("{word} #{number}{said}")),
    }
}

/// The agent that a note is drawn over: the one that acted on its delivery, else the recipient.
fn happens_to(happening: &Happening) -> &str {
    match happening.what {
        Happened::Shown | Happened::Claimed | Happened::Released | Happened::Late => &happening.by,
        _ => happening.recipient.as_deref().unwrap_or(&happening.by),
    }
}
