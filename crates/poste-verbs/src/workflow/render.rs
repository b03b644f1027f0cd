//! A workflow for people: a page of its state, and a picture of its steps.

use std::fmt::Write as _;

use poste_core::escape;
use poste_core::store::tables::{StepState, TaskPart, TaskState, WorkflowState};
use poste_core::views::{StepView, TaskView, WorkflowView};

use super::definition::{Definition, OnFail, Target};

/// The state of a step, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Pending,
    Running,
    /// It waits for a decision.
    Asked,
    /// It cannot be sent, or waits for an earlier step.
    Held,
    Done,
    Skipped,
    Failed,
}

impl Look {
    pub fn of(step: &StepView) -> Self {
        match step.state {
            StepState::Done => Self::Done,
            StepState::Skipped => Self::Skipped,
            StepState::Failed => Self::Failed,
            StepState::Waiting => Self::Held,
            StepState::Open => {
                let open: Vec<&TaskView> = step.current().filter(|task| task.state == TaskState::Open).collect();
                match open.as_slice() {
                    [] => Self::Pending,
                    open if open.iter().any(|task| !task.choices.is_empty()) => Self::Asked,
                    open if open.iter().all(|task| task.held_by.is_some()) => Self::Held,
                    _ => Self::Running,
                }
            }
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Asked => "asked",
            Self::Held => "held",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// The colours of its box: fill, stroke and text.
    fn colours(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Pending => ("#f6f8fa", "#d0d7de", "#57606a"),
            Self::Running => ("#ddf4ff", "#54aeff", "#0550ae"),
            Self::Asked => ("#fbefff", "#c297ff", "#6639ba"),
            Self::Held => ("#fff8c5", "#d4a72c", "#7d4e00"),
            Self::Done => ("#dafbe1", "#4ac26b", "#116329"),
            Self::Skipped => ("#f6f8fa", "#afb8c1", "#6e7781"),
            Self::Failed => ("#ffebe9", "#ff8182", "#a40e26"),
        }
    }

    const ALL: [Self; 7] =
        [Self::Pending, Self::Running, Self::Asked, Self::Held, Self::Done, Self::Skipped, Self::Failed];
}

/// Text from agents in a page, quoted so that no line becomes a heading.
fn quoted(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("> {line}\n")).collect()
}

/// One line, whatever the text contains.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The results of the steps so far, each under its key.
pub fn results(view: &WorkflowView) -> String {
    let mut page = String::new();
    for step in &view.steps {
        let done: Vec<&TaskView> =
            step.tasks.iter().filter(|task| task.part == TaskPart::Work && task.state == TaskState::Done).collect();
        let round = done.iter().map(|task| task.round).max();
        for task in done.into_iter().filter(|task| Some(task.round) == round) {
            let item = if task.of > 1 { format!(" ({} of {})", task.item, task.of) } else { String::new() };
            let _ = writeln!(page, "### {}{item}\n", step.key);
            match &task.result {
                Some(result) if result.redacted => page.push_str("> (redacted)\n"),
                Some(result) if !result.text.trim().is_empty() => {
                    page.push_str(&quoted(&part(&result.text, page.len(), task)));
                }
                _ => match &task.choice {
                    Some(choice) => {
                        let _ = writeln!(page, "> {choice}");
                    }
                    None => page.push_str("> (no result)\n"),
                },
            }
            let files = task.result.iter().flat_map(|result| &result.files);
            for file in files {
                let _ = writeln!(page, "- `{}`", plain(&file.path).replace('`', "'"));
            }
            page.push('\n');
        }
    }
    page
}

/// A result, truncated to a readable length. The message has all of it.
fn part<'t>(text: &'t str, before: usize, task: &TaskView) -> std::borrow::Cow<'t, str> {
    const EACH_CHARS_MAX: usize = 60_000;
    const ALL_BYTES_MAX: usize = 512 * 1024;
    let max = if before > ALL_BYTES_MAX { 200 } else { EACH_CHARS_MAX };
    match text.char_indices().nth(max) {
        None => text.into(),
        Some((end, _)) => format!("{}\n\n(truncated; full text: poste track {})", &text[..end], task.message).into(),
    }
}

/// The page `workflow-state.md`: the steps and their results.
pub fn page(view: &WorkflowView) -> String {
    let settled = view.settled();
    let current = if view.is_open() { (settled + 1).min(view.steps.len()) } else { settled };
    let mut page = format!("---\nworkflow_id: {}\nstatus: {}\n", view.workflow, view.state);
    let _ = writeln!(page, "current_step: {current}\ntotal_steps: {}", view.steps.len());
    let _ = writeln!(page, "started: {}", view.started_at);
    if let Some(ended) = view.ended_at {
        let _ = writeln!(page, "ended: {ended}");
    }
    page.push_str("---\n\n## Steps\n\n");
    for (index, step) in view.steps.iter().enumerate() {
        let _ = writeln!(page, "{}. {}", index + 1, line(step));
    }
    if let Some(reason) = &view.reason {
        let _ = writeln!(page, "\n{}", plain(reason));
    }
    if view.state == WorkflowState::Failed && view.owner.is_some() {
        let _ = writeln!(page, "\nRetry failed steps: poste workflow retry {}", view.workflow);
    }
    let results = results(view);
    page.push_str("\n## Accumulated Results\n\n");
    page.push_str(if results.is_empty() { "Nothing yet.\n" } else { &results });
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// `[x] review: done by carol, round 2`.
fn line(step: &StepView) -> String {
    let look = Look::of(step);
    let mark = match look {
        Look::Done => "x",
        Look::Skipped => "-",
        Look::Failed => "!",
        _ => " ",
    };
    let mut line = format!("[{mark}] {}: {}", step.key, look.word());
    let current: Vec<&TaskView> = step.current().collect();
    let mut names: Vec<String> = Vec::new();
    for task in &current {
        let who = task.by.as_ref().map(ToString::to_string).or_else(|| task.to.clone());
        if let Some(who) = who.filter(|who| !names.contains(who)) {
            names.push(who);
        }
    }
    if !names.is_empty() {
        let _ = write!(line, ", {}", names.join(", "));
    }
    if step.max_rounds > 1 {
        let _ = write!(line, ", round {}", step.round);
    }
    if let Some(of) = current.first().map(|task| task.of).filter(|of| *of > 1) {
        let done = current.iter().filter(|task| task.part == TaskPart::Work && task.state == TaskState::Done).count();
        let _ = write!(line, ", {done} of {of}");
    }
    let numbers: Vec<String> = current.iter().map(|task| format!("#{}", task.message)).collect();
    if !numbers.is_empty() && numbers.len() <= 5 {
        let _ = write!(line, " ({})", numbers.join(" "));
    }
    for task in current.iter().filter(|task| !task.choices.is_empty()) {
        let choices: Vec<&str> = task.choices.iter().map(|choice| choice.as_str()).collect();
        let _ = write!(line, ": {}?", choices.join(" or "));
    }
    if let Some(held) = current.iter().find_map(|task| task.held_by) {
        let _ = write!(line, ": after #{held}");
    }
    if look == Look::Pending && !current.is_empty() {
        line.push_str(": ended, but the workflow was not advanced yet");
    }
    if let Some(reason) = step.reason.as_ref().filter(|_| look != Look::Done) {
        let _ = write!(line, ": {}", plain(reason));
    }
    line
}

/// A box of a picture, and the boxes it is connected to.
#[derive(Debug, Clone)]
struct Drawn {
    key: String,
    who: String,
    look: Look,
    needs: Vec<usize>,
    instead: Option<usize>,
    /// Where its loop begins.
    again: Option<usize>,
    note: String,
}

/// An arrow from one box to another, and the free rows it passes, by column.
struct Arrow {
    from: usize,
    to: usize,
    fails: bool,
    lanes: Vec<(usize, usize)>,
}

/// What is drawn: a definition alone, or the state of a run.
#[derive(Debug)]
pub struct Picture {
    title: String,
    boxes: Vec<Drawn>,
    /// Whether the boxes show the state of their steps.
    stands: bool,
}

impl Picture {
    pub fn of_definition(definition: &Definition) -> Self {
        let boxes = definition.steps.iter().map(|step| {
            let who = match &step.to {
                Target::Address(address) => address.to_string(),
                Target::Lead => "lead".to_owned(),
            };
            let mut notes = Vec::new();
            if step.ask.is_some() {
                notes.push("decides");
            }
            if step.for_each.is_some() {
                notes.push("for each");
            }
            if step.when.is_some() {
                notes.push("if");
            }
            Drawn {
                key: step.key.to_string(),
                who,
                look: Look::Pending,
                needs: step.needs.iter().filter_map(|(need, _)| definition.index(need)).collect(),
                instead: match &step.on_fail {
                    OnFail::Instead(other) => definition.index(other),
                    _ => None,
                },
                again: step.body.first().and_then(|first| definition.index(first)),
                note: notes.join(", "),
            }
        });
        Self { title: definition.title.clone(), boxes: boxes.collect(), stands: false }
    }

    pub fn of_run(view: &WorkflowView) -> Self {
        let index = |key: &poste_core::text::Label| view.steps.iter().position(|step| step.key == *key);
        let boxes = view.steps.iter().enumerate().map(|(at, step)| {
            let task = step.current().last();
            let who = task.and_then(|task| task.by.as_ref().map(ToString::to_string).or_else(|| task.to.clone()));
            let mut needs: Vec<usize> = step.needs.iter().filter_map(index).collect();
            // Messages that only have step numbers come one after the other.
            if view.name.is_none() && at > 0 {
                needs.push(at - 1);
            }
            let look = Look::of(step);
            let mut note = look.word().to_owned();
            if step.max_rounds > 1 {
                let _ = write!(note, ", round {}", step.round);
            }
            if let Some(of) = task.map(|task| task.of).filter(|of| *of > 1) {
                let done = step.current().filter(|task| task.state == TaskState::Done).count();
                let _ = write!(note, ", {done}/{of}");
            }
            Drawn {
                key: step.key.to_string(),
                who: who.unwrap_or_default(),
                look,
                needs,
                instead: step.instead.as_ref().and_then(index),
                again: step.again.first().and_then(index),
                note,
            }
        });
        Self { title: view.workflow.to_string(), boxes: boxes.collect(), stands: true }
    }

    /// The picture as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let mut chart = String::from("flowchart LR\n");
        for (index, drawn) in self.boxes.iter().enumerate() {
            let who =
                if drawn.who.is_empty() { String::new() } else { format!("<br/>{}", escape::mermaid(&drawn.who)) };
            let note =
                if drawn.note.is_empty() { String::new() } else { format!("<br/>{}", escape::mermaid(&drawn.note)) };
            let class = drawn.look.word();
            let _ = writeln!(chart, "  s{index}[\"{}{who}{note}\"]:::{class}", escape::mermaid(&drawn.key));
        }
        for (index, drawn) in self.boxes.iter().enumerate() {
            for need in &drawn.needs {
                let _ = writeln!(chart, "  s{need} --> s{index}");
            }
            if let Some(other) = drawn.instead {
                let _ = writeln!(chart, "  s{index} -. fails .-> s{other}");
            }
            if let Some(first) = drawn.again {
                let _ = writeln!(chart, "  s{index} -. again .-> s{first}");
            }
        }
        for look in Look::ALL {
            let (fill, stroke, text) = look.colours();
            let _ = writeln!(chart, "  classDef {} fill:{fill},stroke:{stroke},color:{text}", look.word());
        }
        chart
    }

    /// The column of each box: to the right of everything it waits for.
    fn columns(&self) -> Vec<usize> {
        let mut columns = vec![0; self.boxes.len()];
        // No step waits for itself, so this many passes are enough.
        for _ in 0..self.boxes.len() {
            for (index, drawn) in self.boxes.iter().enumerate() {
                let before = drawn.needs.iter().map(|need| columns[*need] + 1).max().unwrap_or(0);
                columns[index] = columns[index].max(before);
                if let Some(other) = drawn.instead {
                    columns[other] = columns[other].max(columns[index] + 1).min(self.boxes.len());
                }
            }
        }
        columns
    }

    /// The picture as a self-contained SVG image: it loads and runs nothing.
    pub fn svg(&self) -> String {
        const WIDTH: usize = 176;
        const HEIGHT: usize = 64;
        const GAP_X: usize = 72;
        const GAP_Y: usize = 32;
        const EDGE: usize = 28;
        const TOP: usize = 64;
        let columns = self.columns();
        let mut rows = vec![0; self.boxes.len()];
        let mut used: Vec<usize> = vec![0; columns.iter().max().map_or(0, |max| max + 1)];
        for (index, column) in columns.iter().enumerate() {
            rows[index] = used[*column];
            used[*column] += 1;
        }
        // A long arrow goes between the boxes of the columns it passes: each column leaves a row free for it.
        let mut arrows: Vec<Arrow> = Vec::new();
        for (index, drawn) in self.boxes.iter().enumerate() {
            let needs = drawn.needs.iter().map(|need| (*need, index, false));
            for (from, to, fails) in needs.chain(drawn.instead.map(|other| (index, other, true))) {
                let passed = (columns[from] + 1)..columns[to].max(columns[from] + 1);
                let lanes = passed.map(|column| {
                    used[column] += 1;
                    (column, used[column] - 1)
                });
                let lanes = lanes.collect();
                arrows.push(Arrow { from, to, fails, lanes });
            }
        }
        let tallest = used.iter().copied().max().unwrap_or(1).max(1);
        let loops = self.boxes.iter().any(|drawn| drawn.again.is_some());
        let total_height = TOP + tallest * (HEIGHT + GAP_Y) - GAP_Y + EDGE + if loops { 44 } else { 0 };
        let total_width = 2 * EDGE + used.len().max(1) * (WIDTH + GAP_X) - GAP_X;
        let at = |column: usize, row: usize| {
            let spare = (tallest - used[column]) * (HEIGHT + GAP_Y) / 2;
            (EDGE + column * (WIDTH + GAP_X), TOP + spare + row * (HEIGHT + GAP_Y))
        };
        let place = |index: usize| at(columns[index], rows[index]);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total_width}\" height=\"{total_height}\" \
             viewBox=\"0 0 {total_width} {total_height}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\">\n"
        );
        let title = xml(&self.title);
        let _ = writeln!(svg, "  <title>{title}</title>");
        svg.push_str("  <defs>\n");
        for (id, colour) in [("then", "#8c959f"), ("else", "#cf222e"), ("again", "#8250df")] {
            let _ = writeln!(
                svg,
                "    <marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" \
                 orient=\"auto\"><path d=\"M0 1 L9 5 L0 9 z\" fill=\"{colour}\"/></marker>"
            );
        }
        svg.push_str("  </defs>\n");
        let _ = writeln!(svg, "  <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
        let _ = writeln!(
            svg,
            "  <text x=\"{EDGE}\" y=\"36\" font-size=\"16\" font-weight=\"600\" fill=\"#1f2328\">{}</text>",
            xml(&short(&self.title, total_width.saturating_sub(2 * EDGE) / 9))
        );
        for arrow in &arrows {
            let (from, to) = (place(arrow.from), place(arrow.to));
            let mut path = format!("M{} {}", from.0 + WIDTH, from.1 + HEIGHT / 2);
            let (mut x, mut y) = (from.0 + WIDTH, from.1 + HEIGHT / 2);
            let mut bend_to = |path: &mut String, next: (usize, usize)| {
                let bend = (next.0.saturating_sub(x) / 2).max(24);
                let _ =
                    write!(path, " C{} {y} {} {} {} {}", x + bend, next.0.saturating_sub(bend), next.1, next.0, next.1);
                (x, y) = next;
            };
            for (column, row) in &arrow.lanes {
                let lane = at(*column, *row);
                bend_to(&mut path, (lane.0, lane.1 + HEIGHT / 2));
                bend_to(&mut path, (lane.0 + WIDTH, lane.1 + HEIGHT / 2));
            }
            bend_to(&mut path, (to.0.saturating_sub(2), to.1 + HEIGHT / 2));
            let (id, colour, dash) = match arrow.fails {
                true => ("else", "#cf222e", " stroke-dasharray=\"5 4\""),
                false => ("then", "#8c959f", ""),
            };
            let _ = writeln!(
                svg,
                "  <path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash} marker-end=\"url(#{id})\"/>"
            );
        }
        for (index, drawn) in self.boxes.iter().enumerate() {
            let Some(first) = drawn.again else { continue };
            // Under the boxes, back to where it begins.
            let (from, to) = (place(index), place(first));
            let (x1, x2) = (from.0 + WIDTH / 2 + 18, to.0 + WIDTH / 2 - if first == index { 18 } else { 0 });
            let (y1, y2) = (from.1 + HEIGHT, to.1 + HEIGHT + 2);
            let low = y1.max(y2) + 36;
            let _ = writeln!(
                svg,
                "  <path d=\"M{x1} {y1} C{x1} {low} {x2} {low} {x2} {y2}\" fill=\"none\" stroke=\"#8250df\" \
                 stroke-width=\"1.6\" stroke-dasharray=\"5 4\" marker-end=\"url(#again)\"/>"
            );
        }
        for (index, drawn) in self.boxes.iter().enumerate() {
            let (x, y) = place(index);
            let (fill, stroke, ink) = drawn.look.colours();
            let dash = if drawn.look == Look::Skipped { " stroke-dasharray=\"4 3\"" } else { "" };
            let _ = writeln!(
                svg,
                "  <g><title>{}: {}</title>",
                xml(&drawn.key),
                xml(if self.stands { drawn.look.word() } else { &drawn.note })
            );
            let _ = writeln!(
                svg,
                "    <rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"{fill}\" \
                 stroke=\"{stroke}\" stroke-width=\"1.5\"{dash}/>"
            );
            let middle = x + WIDTH / 2;
            let lines = [
                (drawn.key.as_str(), 14, 600, 20),
                (drawn.who.as_str(), 12, 400, 22),
                (drawn.note.as_str(), 11, 400, 26),
            ];
            let below: Vec<_> = lines.into_iter().filter(|(text, ..)| !text.is_empty()).collect();
            let gap = HEIGHT / (below.len() + 1);
            for (place, (text, size, weight, chars)) in below.iter().enumerate() {
                let at = y + gap * (place + 1) + size / 3;
                let _ = writeln!(
                    svg,
                    "    <text x=\"{middle}\" y=\"{at}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{ink}\" \
                     text-anchor=\"middle\">{}</text>",
                    xml(&short(text, *chars))
                );
            }
            svg.push_str("  </g>\n");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Truncates a text to a number of characters, with an ellipsis.
fn short(text: &str, chars: usize) -> String {
    match text.chars().count() <= chars {
        true => text.to_owned(),
        false => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
