use std::io::{self, Write};

use poste_core::views::{BroadcastLine, BroadcastReport, Happening, Receipt};

use super::{Page, Report, markdown, write_fact};

impl Report for BroadcastReport {
    fn timeline(&self) -> &[Happening] {
        &self.timeline
    }

    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let line = &self.line;
        writeln!(out, "# Broadcast #{}: {}\n", line.number, markdown::text(&line.subject))?;
        write_fact(out, "Announced by", format!("{} ({})", markdown::text(&line.from), self.trust))?;
        write_fact(out, "Announced at", page.moment(line.at))?;
        write_fact(out, "Type", format!("`{}`", line.kind))?;
        if let Some(topic) = &line.topic {
            write_fact(out, "Topic", markdown::text(topic.as_str()))?;
        }
        write_fact(out, "Conversation", markdown::text(self.conversation.as_str()))?;
        if !self.references.is_empty() {
            let references: Vec<String> = self.references.iter().map(|text| markdown::text(text)).collect();
            write_fact(out, "References", references.join(", "))?;
        }
        if let Some(by) = self.respond_by {
            write_fact(out, "Response wanted by", page.moment(by))?;
        }
        if let Some(archive) = &self.archive {
            write_fact(out, "Archived in", markdown::text(archive))?;
        }
        write_fact(out, "Recipients", line.recipients.to_string())?;
        write_fact(out, "Status", status(line))?;
        if !self.receipts.is_empty() {
            writeln!(out)?;
            let rows: Vec<Vec<String>> = self.receipts.iter().map(|receipt| row(page, line, receipt)).collect();
            markdown::table(out, &["Recipient", "Received", "Response", "At", "Note"], &rows)?;
        }
        Ok(())
    }
}

/// Maximum number of missing recipients that are named.
const NAMED_MAX: usize = 20;

/// `**acknowledged 2/3**, not yet: builder-2`.
pub(super) fn status(line: &BroadcastLine) -> String {
    if line.recipients == 0 {
        return "**no recipients**".to_owned();
    }
    let named: Vec<String> = line.missing.iter().take(NAMED_MAX).map(|name| markdown::text(name)).collect();
    let missing = match line.recipients - line.acknowledged {
        0 => String::new(),
        all if all > named.len() as u64 => {
            format!(", not yet: {} and {} more", named.join(", "), all - named.len() as u64)
        }
        _ => format!(", not yet: {}", named.join(", ")),
    };
    format!("**acknowledged {}/{}**{missing}", line.acknowledged, line.recipients)
}

fn row(page: &Page, line: &BroadcastLine, receipt: &Receipt) -> Vec<String> {
    let time = |at: Option<_>| at.map(|at| page.moment_of(at, line.at));
    let response = match (receipt.response, receipt.answer) {
        (Some(response), Some(number)) => format!("{response} (#{number})"),
        (Some(response), None) => response.to_string(),
        (None, _) => format!("none, {}", receipt.state),
    };
    let taken_by = receipt.taken_by.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    vec![
        markdown::text(&format!("{}{taken_by}", receipt.recipient)),
        time(receipt.received_at).unwrap_or_else(|| "not shown".to_owned()),
        response,
        time(receipt.responded_at).unwrap_or_default(),
        receipt.note.as_deref().map(markdown::text).unwrap_or_default(),
    ]
}
