use std::io::{self, Write};

use poste_core::Timestamp;
use poste_core::time::length;
use poste_core::views::{AgentReport, OpenMail, Taken, TypeCount};

use super::{Page, Report, markdown, write_fact};

impl Report for AgentReport {
    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# Agent {}\n", markdown::text(&self.name))?;
        let (since, until) = (page.moment(self.since), page.moment(self.until));
        write_fact(out, "Time", format!("{since} to {until}"))?;
        let role = self.role.as_ref().map(|role| format!(", role {}", markdown::text(role))).unwrap_or_default();
        let retired = if self.retired { ", retired" } else { "" };
        write_fact(out, "Registered as", format!("{}{role}{retired}", self.kind))?;
        write_fact(out, "Sent", counted(self.sent, &self.sent_by_type))?;
        write_fact(out, "Received", self.received.to_string())?;
        write_fact(out, "Shown", self.shown.to_string())?;
        write_fact(out, "Acknowledged", self.acknowledged.to_string())?;
        write_fact(out, "Claimed", self.claimed.to_string())?;
        write_fact(out, "Done", taken(self.done, &self.finished))?;
        write_fact(out, "Answered", taken(self.answered.count, &self.answered))?;
        write_fact(out, "Failed", self.failed.to_string())?;
        write_fact(out, "Attempts lost", self.attempts_lost.to_string())?;
        write_fact(out, "Dead", self.dead.to_string())?;
        let plus = if self.open.at_least { "+" } else { "" };
        write_fact(out, "Open now", format!("{}{plus}", self.open.count))?;
        write_fact(out, "Overdue now", self.overdue.len().to_string())?;
        for (title, mail) in [("Open now", &self.open_mail), ("Overdue now", &self.overdue)] {
            if !mail.is_empty() {
                writeln!(out, "\n## {title}\n")?;
                open_mail(page, out, self.until, mail)?;
            }
        }
        Ok(())
    }
}

/// A total, and the count of each type.
pub(super) fn counted(all: u64, types: &[TypeCount]) -> String {
    let each: Vec<String> = types.iter().map(|kind| format!("{} `{}`", kind.count, kind.kind)).collect();
    if each.is_empty() { all.to_string() } else { format!("{all} ({})", each.join(", ")) }
}

fn taken(all: u64, taken: &Taken) -> String {
    match (taken.median_ms, taken.p95_ms) {
        (Some(median), Some(p95)) => format!("{all}, median {}, p95 {}", length(median), length(p95)),
        _ => all.to_string(),
    }
}

/// A table of open mail.
pub(super) fn open_mail(page: &Page, out: &mut dyn Write, day: Timestamp, mail: &[OpenMail]) -> io::Result<()> {
    let row = |mail: &OpenMail| {
        let holder = mail.holder.as_ref().filter(|holder| **holder != mail.recipient && mail.state.is_open());
        let holder = holder.map(|holder| format!(" by {}", markdown::text(holder))).unwrap_or_default();
        let due = match mail.respond_by {
            Some(by) if mail.overdue => format!("{}, overdue", page.moment_of(by, day)),
            Some(by) => page.moment_of(by, day),
            None => String::new(),
        };
        vec![
            format!("#{}", mail.number),
            markdown::text(&mail.from),
            markdown::text(&mail.recipient),
            format!("`{}`", mail.kind),
            format!("{}{holder}", mail.state),
            page.moment_of(mail.stored_at, day),
            due,
            markdown::text(&mail.subject),
        ]
    };
    let rows: Vec<Vec<String>> = mail.iter().map(row).collect();
    markdown::table(out, &["#", "From", "To", "Type", "State", "Stored", "Response by", "Subject"], &rows)
}
