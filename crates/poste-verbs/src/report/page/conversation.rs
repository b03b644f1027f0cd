use std::io::{self, Write};

use poste_core::time::length;
use poste_core::views::{ConversationReport, ConversationStatus, Happening, WorkResult};

use super::{Page, Report, at_least, markdown, timeline, write_fact, write_truncated};

impl Report for ConversationReport {
    fn timeline(&self) -> &[Happening] {
        &self.timeline
    }

    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let (name, subject) = (markdown::text(self.conversation.as_str()), markdown::text(&self.subject));
        writeln!(out, "# Conversation {name}: {subject}\n")?;
        let participants: Vec<String> = self.participants.iter().map(|name| markdown::text(name)).collect();
        write_fact(out, "Participants", participants.join(", "))?;
        write_fact(out, "Messages", self.messages.count.to_string())?;
        write_fact(out, "Began at", page.moment(self.began_at))?;
        write_fact(out, "Duration", length(self.duration_ms))?;
        write_fact(out, "Status", status(self))?;
        if let Some(outcome) = &self.outcome {
            let when = page.moment_of(outcome.at, self.began_at);
            writeln!(out, "\n## Outcome\n\nBy {} at {when}:\n", markdown::text(&outcome.by))?;
            markdown::block(out, &outcome.text)?;
        }
        if !self.results.is_empty() {
            writeln!(out, "\n## Results\n")?;
            let rows: Vec<Vec<String>> = self.results.iter().map(|result| row(page, self, result)).collect();
            markdown::table(out, &["#", "Work", "By", "Ended", "At", "Result"], &rows)?;
        }
        timeline::print(page, out, &self.timeline)?;
        write_truncated(out, self.more)
    }
}

fn status(report: &ConversationReport) -> String {
    let open = match report.status {
        ConversationStatus::Open => format!(", {}", at_least(report.open, "delivery")),
        _ => String::new(),
    };
    let archived = if report.archived { ", archived" } else { "" };
    format!("**{}**{open}{archived}", report.status)
}

fn row(page: &Page, report: &ConversationReport, result: &WorkResult) -> Vec<String> {
    let said = &result.result;
    let words = match &said.summary {
        Some(summary) => summary,
        None => said.text.trim_end(),
    };
    let mut text = if said.content_gone { "(no longer here)".to_owned() } else { markdown::text(words) };
    let mut add = |more: String| {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&more);
    };
    if let Some(recommend) = &said.recommend {
        add(format!("next: {}", markdown::text(recommend)));
    }
    for file in &said.files {
        add(format!("file: {}", markdown::text(&file.path)));
    }
    vec![
        format!("#{}", result.number),
        markdown::text(&result.subject),
        markdown::text(&said.by),
        result.state.to_string(),
        page.moment_of(result.at, report.began_at),
        text,
    ]
}
