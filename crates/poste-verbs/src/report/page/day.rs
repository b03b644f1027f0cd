use std::io::{self, Write};

use poste_core::time::length;
use poste_core::views::{ConversationLine, DayReport};

use super::agent::counted;
use super::{Page, Report, broadcast, markdown, write_fact, write_truncated};

impl Report for DayReport {
    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let day = self.since.to_string();
        writeln!(out, "# The office on {}\n", &day[..10])?;
        let (since, until) = (page.moment(self.since), page.moment(self.until));
        write_fact(out, "Time", format!("{since} to {until}"))?;
        write_fact(out, "Messages", counted(self.messages, &self.by_type))?;
        write_fact(out, "Conversations", format!("{} finished, {} open", self.counts.finished, self.counts.open))?;
        write_fact(out, "Broadcasts", self.counts.broadcasts.to_string())?;
        write_fact(out, "Blockers", self.counts.blockers.to_string())?;
        write_fact(out, "Ended badly", self.counts.ended_badly.to_string())?;
        conversations(self, out)?;
        broadcasts(self, page, out)?;
        blockers(self, page, out)?;
        bad_ends(self, page, out)?;
        agents(self, out)?;
        write_truncated(out, self.more)
    }
}

fn conversations(report: &DayReport, out: &mut dyn Write) -> io::Result<()> {
    let row = |line: &ConversationLine| {
        vec![
            markdown::text(line.conversation.as_str()),
            line.messages.to_string(),
            line.status.to_string(),
            markdown::text(&line.subject),
            line.outcome.as_deref().map(markdown::text).unwrap_or_default(),
        ]
    };
    for (title, lines) in [("Finished conversations", &report.finished), ("Open conversations", &report.open)] {
        let rows = lines.iter().map(row).collect();
        section(out, title, &["Conversation", "Messages", "Status", "Subject", "Outcome"], rows)?;
    }
    Ok(())
}

fn broadcasts(report: &DayReport, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.broadcasts.iter().map(|line| {
        vec![
            format!("#{}", line.number),
            page.moment_of(line.at, report.since),
            markdown::text(&line.from),
            format!("`{}`", line.kind),
            markdown::text(&line.subject),
            broadcast::status(line),
        ]
    });
    section(out, "Broadcasts", &["#", "At", "From", "Type", "Subject", "Status"], rows.collect())
}

fn blockers(report: &DayReport, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.blockers.iter().map(|line| {
        vec![
            format!("#{}", line.number),
            markdown::text(&line.reported_by),
            page.moment_of(line.reported_at, report.since),
            line.resolved_at.map(|at| page.moment_of(at, report.since)).unwrap_or_default(),
            line.resolution_ms.map(length).unwrap_or_default(),
            line.status.to_string(),
            markdown::text(&line.subject),
        ]
    });
    section(out, "Blockers", &["#", "By", "Reported", "Resolved", "Took", "Status", "Subject"], rows.collect())
}

fn bad_ends(report: &DayReport, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.ended_badly.iter().map(|ended| {
        vec![
            format!("#{}", ended.number),
            page.moment_of(ended.at, report.since),
            markdown::text(&ended.recipient),
            ended.what.to_string(),
            markdown::text(&ended.subject),
            ended.reason.as_deref().map(markdown::text).unwrap_or_default(),
        ]
    });
    section(out, "Failures and dead letters", &["#", "At", "To", "End", "Subject", "Reason"], rows.collect())
}

fn agents(report: &DayReport, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.agents.iter().map(|agent| {
        let counts =
            [agent.sent, agent.received, agent.claimed, agent.done, agent.failed, agent.acknowledged, agent.answered];
        let counts = counts.into_iter().map(|count| count.to_string());
        std::iter::once(markdown::text(&agent.name)).chain(counts).collect()
    });
    let header = ["Agent", "Sent", "Received", "Claimed", "Done", "Failed", "Acknowledged", "Answered"];
    section(out, "Agents", &header, rows.collect())
}

/// Writes a section with a table. An empty section is left out.
fn section(out: &mut dyn Write, title: &str, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## {title}\n")?;
    markdown::table(out, header, &rows)
}
