use std::io::{self, Write};

use poste_core::time::length;
use poste_core::views::{BlockerLine, BlockerReport, Happening};

use super::agent::open_mail;
use super::{Page, Report, markdown, timeline, write_fact, write_truncated};

impl Report for BlockerReport {
    fn timeline(&self) -> &[Happening] {
        &self.timeline
    }

    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let line = &self.line;
        writeln!(out, "# Blocker #{}: {}\n", line.number, markdown::text(&line.subject))?;
        write_fact(out, "Reported by", markdown::text(&line.reported_by))?;
        write_fact(out, "Reported at", page.moment(line.reported_at))?;
        if let Some(blocker_type) = &self.blocker_type {
            write_fact(out, "Blocker type", markdown::text(blocker_type))?;
        }
        if let Some(topic) = &self.topic {
            write_fact(out, "Topic", markdown::text(topic.as_str()))?;
        }
        write_fact(out, "Conversation", markdown::text(line.conversation.as_str()))?;
        write_fact(out, "Status", status(page, line))?;
        if let Some(ms) = line.resolution_ms {
            write_fact(out, "Resolution time", length(ms))?;
        }
        timeline::print(page, out, &self.timeline)?;
        if !self.waiting.is_empty() {
            writeln!(out, "\n## Still open\n")?;
            open_mail(page, out, line.reported_at, &self.waiting)?;
        }
        write_truncated(out, self.more)
    }
}

/// `**resolved** by builder-1: Partial interface received`.
pub(super) fn status(page: &Page, line: &BlockerLine) -> String {
    let Some(by) = &line.resolved_by else {
        return format!("**{}** for {}", line.status, length(page.now.since_ms(line.reported_at).max(0)));
    };
    let said = line.resolution.as_deref().map(|text| format!(": {}", markdown::text(text))).unwrap_or_default();
    format!("**{}** by {}{said}", line.status, markdown::text(by))
}
