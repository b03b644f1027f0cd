use std::io::{self, Write};
use std::path::PathBuf;

use poste_config::{KeyPath, PolicyView, Setting, Source};
use poste_verbs::config::check::{self, FileProblem};
use poste_verbs::config::{set, show};

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui, escape};

/// Check, show and change the settings in poste.toml
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste config check\n  poste config show delivery\n  poste config set delivery.lease 20m"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Report all problems in poste.toml, with line numbers
    #[command(after_help = "Examples:\n  poste config check\n  poste config check ci/poste.toml")]
    Check(CheckArgs),
    /// Show the settings in force and where each comes from
    #[command(
        after_help = "Examples:\n  poste config show\n  poste config show types.deploy\n  poste config show --json"
    )]
    Show(ShowArgs),
    /// Set or unset a key of poste.toml
    ///
    /// Comments and layout are kept.
    #[command(after_help = "Examples:\n  poste config set delivery.lease 20m\n  \
                            poste config set types.deploy.priority high\n  \
                            poste config set types.deploy.schema schemas/deploy.json\n  \
                            poste config set delivery.lease --unset")]
    Set(SetArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// File to check instead of the office's; needs no office
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Only keys with this prefix
    key: Option<String>,
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Key: SECTION.KEY or types.NAME.KEY; with --unset also types.NAME
    #[arg(value_parser = |text: &str| text.parse::<KeyPath>())]
    key: KeyPath,
    /// Value as in the file, without quotes
    #[arg(required_unless_present = "unset")]
    value: Option<String>,
    /// Remove the key, so that the built-in value applies
    #[arg(long, conflicts_with = "value")]
    unset: bool,
}

impl Answer for check::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for FileProblem { file, problem } in &self.problems {
            let place = match (problem.line, problem.column) {
                (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
                _ => file.clone(),
            };
            writeln!(out, "{}: {}", escape::line(&place), escape::line(&problem.message))?;
        }
        match (self.problems.is_empty(), self.files.as_slice()) {
            (true, []) => writeln!(out, "no {}: the built-in settings apply", poste_config::FILE),
            (true, files) => files.iter().try_for_each(|file| writeln!(out, "{}: fine", escape::line(file))),
            (false, _) => Ok(()),
        }
    }
}

impl Answer for show::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.policy.settings.iter().map(|setting| row(&self.policy, setting)).collect();
        ui.rows(out, &["KEY", "VALUE", "FROM"], rows)
    }
}

fn row(policy: &PolicyView, setting: &Setting) -> Vec<String> {
    let from = match setting.source {
        Source::BuiltIn => "built in".to_owned(),
        Source::File => poste_config::FILE.to_owned(),
        Source::LocalFile => format!(".poste/{}", poste_config::LOCAL_FILE),
        Source::OtherMachine => {
            format!("policy {} of {}", policy.version, policy.host.as_deref().unwrap_or("another machine"))
        }
    };
    let says = setting.file_value.as_ref().map(|value| format!("{} says {}", poste_config::FILE, value.text()));
    let (value, from) = match (&setting.value, says) {
        (Some(value), Some(says)) => (value.text(), format!("{from}; {says}")),
        (Some(value), None) => (value.text(), from),
        (None, says) => ("-".to_owned(), says.unwrap_or(from)),
    };
    vec![setting.key.clone(), escape::line(&value).into_owned(), escape::line(&from).into_owned()]
}

impl Answer for set::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let text = |value: &Option<String>| match value {
            Some(value) => escape::line(value).into_owned(),
            None => "not set".to_owned(),
        };
        if self.changed {
            writeln!(out, "{}: {} → {}", self.key, text(&self.before), text(&self.after))
        } else {
            writeln!(out, "{}: already {}", self.key, text(&self.after))
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ConfigCommand::Check(CheckArgs { file: Some(file) }) if !file.exists() => {
            Err(CommandError::not_found(format!("file {} does not exist", file.display())))
        }
        ConfigCommand::Check(CheckArgs { file }) => {
            let file = file.map(|file| Ok::<_, CommandError>(cx.cwd()?.join(file))).transpose()?;
            let checked = check::check(|| cx.station().place(), &check::Input { file });
            cx.print_answer(checked?)
        }
        ConfigCommand::Show(args) => cx.call(show::Input { key: args.key }),
        ConfigCommand::Set(args) => cx.call(set::Input { key: args.key.to_string(), value: args.value }),
    }
}
