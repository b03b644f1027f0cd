//! A progress bar for long work: on stderr, only on a terminal, and not with --json.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use poste_core::progress::Progress;
use poste_verbs::{Note, Watcher};

use super::Ui;
use crate::notes;

#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(crate) fn new(ui: &Ui) -> Self {
        if ui.json || !io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(0);
        bar.set_style(style("{msg} {wide_bar} {percent}%"));
        Self { bar }
    }

    pub(crate) fn show(&mut self, progress: Progress) {
        if self.bar.message() != progress.what {
            let known = if progress.of > 0 { "{msg} {wide_bar} {percent}%" } else { "{msg} …" };
            self.bar.set_style(style(known));
            self.bar.set_message(progress.what);
        }
        self.bar.set_length(progress.of.max(1));
        self.bar.set_position(progress.done);
    }
}

impl Drop for Bar {
    /// Removes the bar from the terminal, however the work ended.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Shows a person the progress of a verb.
#[derive(Debug)]
pub(crate) struct Screen<'a> {
    ui: &'a Ui,
    bar: Option<Bar>,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(ui: &'a Ui) -> Self {
        Self { ui, bar: None }
    }
}

impl Watcher for Screen<'_> {
    fn progress(&mut self, progress: Progress) {
        self.bar.get_or_insert_with(|| Bar::new(self.ui)).show(progress);
    }

    fn begins(&mut self, what: &Note) {
        self.bar = None;
        self.ui.say(notes::text(self.ui, what));
    }
}
