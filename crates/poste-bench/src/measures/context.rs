//! A section appended to a shared context, with and without its file, and reading a context of many sections.

use std::path::Path;

use poste_core::log::{Content, ContextAppend, ContextCreate, Document, Intent, Lines, Proposal, context_mail};
use poste_core::text::ContextName;
use poste_core::views;

use crate::office::{READER, WRITER, create, mail_to_reader, proposal, submit, submit_all};
use crate::report::{Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result};

const GROUP: &str = "Shared contexts";
const SECTIONS: u64 = 1_000;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let name: ContextName = "plan".parse()?;
    let mut office = create(&folder.join("appended"), [READER, WRITER])?;
    submit(&mut office, &[begin(&name)])?;
    let mut plain = create(&folder.join("sent"), [READER, WRITER])?;
    let (mut nth, mut nth_sent) = (0, 0);
    let samples = {
        let send: Action<'_> = Box::new(|| {
            nth_sent += 1;
            let proposal = mail_to_reader(nth_sent);
            timed(|| submit(&mut plain, &[proposal]).map(|_| ()))
        });
        let append: Action<'_> = Box::new(|| {
            nth += 1;
            let proposal = section(&name, nth);
            timed(|| submit(&mut office, &[proposal]).map(|_| ()))
        });
        in_turns(bench.rounds(500), &mut [send, append])?
    };
    let [send, append] = samples.as_slice() else { return Err("two were measured".into()) };
    report.add(
        Line::new(GROUP, "a durable append, p50", append.median_us(), "µs")
            .detail(format!("p95 {}", quantity(append.percentile_us(95.0), "µs")))
            .detail(format!("a plain send {}", quantity(send.median_us(), "µs"))),
    );

    let sections = if bench.short { 20 } else { SECTIONS };
    let mut office = create(&folder.join("many"), [READER, WRITER])?;
    submit(&mut office, &[begin(&name)])?;
    submit_all(&mut office, (0..sections).map(|nth| section(&name, nth)))?;
    let samples = {
        let show: Action<'_> = Box::new(|| {
            timed(|| {
                let view = views::context(office.store(), &name, None)?.ok_or("the context is there")?;
                std::hint::black_box(views::context_markdown(&view));
                Ok(())
            })
        });
        in_turns(bench.rounds(100), &mut [show])?
    };
    report.add(Line::new(GROUP, format!("show of {sections} sections, p50"), samples[0].median_us(), "µs"));
    let samples = {
        let mut nth = sections;
        let mirrored: Action<'_> = Box::new(|| {
            nth += 1;
            let proposal = section(&name, nth);
            timed(|| {
                submit(&mut office, &[proposal])?;
                office.mirror(&name, false)?;
                Ok(())
            })
        });
        in_turns(bench.rounds(50), &mut [mirrored])?
    };
    let what = format!("append to {sections} sections, with the file, p50");
    report.add(Line::new(GROUP, what, samples[0].median_us(), "µs"));
    Ok(())
}

fn begin(name: &ContextName) -> Proposal {
    let header = ContextCreate {
        name: name.clone(),
        kind: "decisions".parse().expect("a word"),
        lines: Lines { added: 1, removed: 0 },
        data: false,
        schema: false,
        mail: context_mail(name),
    };
    proposal(WRITER, Intent::ContextCreate(header), content("# Plan\n".to_owned()))
}

fn section(name: &ContextName, nth: u64) -> Proposal {
    let text = format!("Section {nth}: {}\n", "some words that a person wrote. ".repeat(8));
    let header = ContextAppend { name: name.clone(), lines: Lines { added: 1, removed: 0 }, mail: context_mail(name) };
    proposal(WRITER, Intent::ContextAppend(header), content(text))
}

fn content(text: String) -> Option<Content> {
    let document = Some(Document { text: Some(text), ..Document::default() });
    Some(Content { subject: "plan: a change".to_owned(), document, ..Content::default() })
}
