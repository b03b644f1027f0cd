//! Parses a page into text and commands, and writes it back.

use std::path::Path;

/// One command and its answer.
pub(crate) struct Step {
    /// The line of the command, counted from 1.
    pub line: usize,
    /// What to type, without the prompts.
    pub command: String,
    pub answer: Vec<String>,
    /// The command as the page has it.
    shown: Vec<String>,
    /// The fence that ends its block: longer than usual around answers that contain fences.
    fence: String,
    /// Empty lines before the next command.
    blanks: usize,
}

enum Part {
    Text(String),
    Step(Step),
}

pub(crate) struct Page {
    parts: Vec<Part>,
}

impl Page {
    pub(crate) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut parts = Vec::new();
        let mut console: Option<&str> = None;
        for (index, line) in text.split('\n').enumerate() {
            let Some(fence) = console.filter(|fence| line.trim_end() != *fence) else {
                let opens = line.trim_end().strip_suffix("console").filter(|_| console.is_none());
                console = opens.filter(|fence| fence.len() >= 3 && fence.chars().all(|c| c == '`'));
                parts.push(Part::Text(line.to_owned()));
                continue;
            };
            if let Some(command) = line.strip_prefix("$ ") {
                parts.push(Part::Step(Step {
                    line: index + 1,
                    command: command.to_owned(),
                    answer: Vec::new(),
                    shown: vec![line.to_owned()],
                    fence: fence.to_owned(),
                    blanks: 0,
                }));
            } else {
                let Some(Part::Step(step)) = parts.last_mut() else {
                    panic!("{}:{}: an answer before any command", file.display(), index + 1);
                };
                match line.strip_prefix('>') {
                    Some(more) if step.answer.is_empty() => {
                        step.command += "\n";
                        step.command += more.strip_prefix(' ').unwrap_or(more);
                        step.shown.push(line.to_owned());
                    }
                    _ => step.answer.push(line.to_owned()),
                }
            }
        }
        assert!(console.is_none(), "{}: the last console block is not closed", file.display());
        let mut page = Self { parts };
        for step in page.steps_mut() {
            while step.answer.pop_if(|line| line.is_empty()).is_some() {
                step.blanks += 1;
            }
        }
        page
    }

    /// Writes the page with its current answers.
    pub(crate) fn write(&self, file: &Path) {
        let mut lines: Vec<&str> = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(line) => lines.push(line),
                Part::Step(step) => {
                    let readable = step.answer.first().is_none_or(|line| !line.starts_with('>'))
                        && !step.answer.iter().any(|line| line.starts_with("$ ") || *line == step.fence);
                    assert!(readable, "{}:{}: the answer looks like a command", file.display(), step.line);
                    lines.extend(step.shown.iter().chain(&step.answer).map(String::as_str));
                    lines.extend(std::iter::repeat_n("", step.blanks));
                }
            }
        }
        std::fs::write(file, lines.join("\n")).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.iter().filter_map(|part| match part {
            Part::Step(step) => Some(step),
            Part::Text(_) => None,
        })
    }

    pub(crate) fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Step(step) => Some(step),
            Part::Text(_) => None,
        })
    }

    pub(crate) fn has_transcripts(&self) -> bool {
        self.steps().next().is_some()
    }

    /// Its `bash` blocks.
    pub(crate) fn scripts(&self) -> Vec<String> {
        let mut scripts = Vec::new();
        let mut open = None;
        for part in &self.parts {
            let Part::Text(line) = part else { continue };
            match (&mut open, line.trim_end()) {
                (None, "```bash") => open = Some(String::new()),
                (None, _) => {}
                (Some(_), "```") => scripts.extend(open.take()),
                (Some(script), _) => {
                    *script += line;
                    *script += "\n";
                }
            }
        }
        scripts
    }

    /// Whether a command or script of the page calls this program.
    pub(crate) fn uses(&self, program: &str) -> bool {
        let calls = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == program);
        self.steps().any(|step| calls(&step.command)) || self.scripts().iter().any(|script| calls(script))
    }
}
