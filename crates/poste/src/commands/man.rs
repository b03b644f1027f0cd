use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::cli::Cli;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Ui, escape};

/// Print the manual page, or write one for every command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste man > poste.1 && man -l poste.1\n  poste man log verify | man -l -\n  \
                        poste man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Command to document; otherwise poste itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ManAnswer {
    /// Names of the pages: `poste.1`, `poste-send.1` …
    pub pages: Vec<String>,
    /// The folder they were written to; null when the page was printed.
    pub dir: Option<String>,
    /// The page itself, in roff; null when it was written.
    pub roff: Option<String>,
}

impl Answer for ManAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match (&self.roff, &self.dir) {
            (Some(roff), _) => out.write_all(roff.as_bytes()),
            (None, dir) => {
                let dir = dir.as_deref().unwrap_or_default();
                writeln!(out, "{} in {}", ui::count(self.pages.len(), "page"), escape::line(dir))
            }
        }
    }
}

/// A command and its page's name without the section: `poste-log-verify`.
struct Page {
    name: String,
    command: clap::Command,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut pages = Vec::new();
    collect("poste", Cli::command(), &mut pages);
    if let Some(dir) = args.dir {
        return write_all(cx, &dir, &pages);
    }
    let name = ["poste"].into_iter().chain(args.command.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let Some(page) = pages.iter().find(|page| page.name == name) else {
        let typed = args.command.join(" ");
        let error = CommandError::not_found(format!("there is no command {}", poste_core::text::quoted(&typed)));
        return Err(error.hint("see them all: poste --help"));
    };
    let roff = render(page)?;
    cx.ui.answer(&ManAnswer { pages: vec![file_name(page)], dir: None, roff: Some(roff) })
}

/// Collects this command and its subcommands. Global options are on the first page only.
fn collect(name: &str, command: clap::Command, pages: &mut Vec<Page>) {
    let inner: Vec<clap::Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    pages.push(Page { name: name.to_owned(), command: command.display_name(name.to_owned()) });
    for inner in inner {
        let name = format!("{name}-{}", inner.get_name());
        collect(&name, inner, pages);
    }
}

fn file_name(page: &Page) -> String {
    format!("{}.1", page.name)
}

fn render(page: &Page) -> Result<String> {
    let bin_name = page.name.replacen('-', " ", usize::MAX);
    let command = page.command.clone().name(page.name.clone()).bin_name(bin_name).version(env!("CARGO_PKG_VERSION"));
    let mut roff = Vec::new();
    clap_mangen::Man::new(command).render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

fn write_all(cx: &Cx, dir: &Path, pages: &[Page]) -> Result {
    let failed = |error: io::Error| CommandError::new(Kind::Refused, format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    for page in pages {
        std::fs::write(dir.join(file_name(page)), render(page)?).map_err(failed)?;
    }
    let pages = pages.iter().map(file_name).collect();
    cx.ui.answer(&ManAnswer { pages, dir: Some(dir.display().to_string()), roff: None })
}
