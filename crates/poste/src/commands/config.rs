use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::config::{self, ConfigFile, KeyPath, LocalFile, Problem};
use poste_core::gates;
use poste_core::office::{Office, Standing, gate_schema_problems};
use poste_core::payload::PayloadSchemas;
use poste_core::store::read_config;
use poste_core::views::{self, PolicyView, Setting, Source};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{self, Answer, Ui, escape};

/// Check, show and change the rules of the office: poste.toml
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
    /// Say everything that is wrong with poste.toml, with line numbers
    #[command(after_help = "Examples:\n  poste config check\n  poste config check ci/poste.toml")]
    Check(CheckArgs),
    /// Show the settings in force, each with where it comes from
    #[command(
        after_help = "Examples:\n  poste config show\n  poste config show types.deploy\n  poste config show --json"
    )]
    Show(ShowArgs),
    /// Set one key of poste.toml, or unset it; comments and layout stay
    #[command(after_help = "Examples:\n  poste config set delivery.lease 20m\n  \
                            poste config set types.deploy.priority high\n  \
                            poste config set types.deploy.schema schemas/deploy.json\n  \
                            poste config set delivery.lease --unset")]
    Set(SetArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// This file instead of the office's; needs no office
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Only keys that begin like this
    key: Option<String>,
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// SECTION.KEY or types.NAME.KEY; with --unset also types.NAME
    #[arg(value_parser = |text: &str| text.parse::<KeyPath>())]
    key: KeyPath,
    /// The value as in the file, without quotes
    #[arg(required_unless_present = "unset")]
    value: Option<String>,
    /// Take the key out, so that the built-in value holds
    #[arg(long, conflicts_with = "value")]
    unset: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckAnswer {
    /// The files that were read; one that is not there is none.
    pub files: Vec<String>,
    pub problems: Vec<FileProblem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileProblem {
    pub file: String,
    #[serde(flatten)]
    pub problem: Problem,
}

impl Answer for CheckAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for FileProblem { file, problem } in &self.problems {
            let place = match (problem.line, problem.column) {
                (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
                _ => file.clone(),
            };
            writeln!(out, "{}: {}", escape::line(&place), escape::line(&problem.message))?;
        }
        match (self.problems.is_empty(), self.files.as_slice()) {
            (true, []) => writeln!(out, "there is no {}; the built-in rules hold", config::FILE),
            (true, files) => files.iter().try_for_each(|file| writeln!(out, "{}: fine", escape::line(file))),
            (false, _) => Ok(()),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShowAnswer {
    /// This machine's poste.toml; null without one.
    pub file: Option<String>,
    /// How the rules in it stand to those in force: `in_force`, `next` or `overruled`.
    pub standing: &'static str,
    #[serde(flatten)]
    pub policy: PolicyView,
}

impl Answer for ShowAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.policy.settings.iter().map(|setting| self.row(setting)).collect();
        ui.rows(out, &["KEY", "VALUE", "FROM"], rows)
    }
}

impl ShowAnswer {
    fn row(&self, setting: &Setting) -> Vec<String> {
        let from = match setting.source {
            Source::BuiltIn => "built in".to_owned(),
            Source::File => config::FILE.to_owned(),
            Source::LocalFile => format!(".poste/{}", config::LOCAL_FILE),
            Source::OtherMachine => {
                format!(
                    "policy {} of {}",
                    self.policy.version,
                    self.policy.host.as_deref().unwrap_or("another machine")
                )
            }
        };
        let says = setting.file_value.as_ref().map(|value| format!("{} says {}", config::FILE, value.text()));
        let (value, from) = match (&setting.value, says) {
            (Some(value), Some(says)) => (value.text(), format!("{from}; {says}")),
            (Some(value), None) => (value.text(), from),
            (None, says) => ("-".to_owned(), says.unwrap_or(from)),
        };
        vec![setting.key.clone(), escape::line(&value).into_owned(), escape::line(&from).into_owned()]
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SetAnswer {
    pub file: String,
    pub key: String,
    /// As it is written in the file; null when it is not set there.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Whether the file changed.
    pub changed: bool,
}

impl Answer for SetAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let text = |value: &Option<String>| match value {
            Some(value) => escape::line(value).into_owned(),
            None => "not set".to_owned(),
        };
        if self.changed {
            writeln!(out, "{}: {} → {}", self.key, text(&self.before), text(&self.after))
        } else {
            writeln!(out, "{}: {} already", self.key, text(&self.after))
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ConfigCommand::Check(args) => check(cx, args),
        ConfigCommand::Show(args) => show(cx, args),
        ConfigCommand::Set(args) => set(cx, args),
    }
}

fn check(cx: &Cx, args: CheckArgs) -> Result {
    let (main, local) = match args.file {
        Some(file) if !file.exists() => {
            return Err(CommandError::not_found(format!("there is no file {}", file.display())));
        }
        Some(file) => (cx.cwd()?.join(file), None),
        None => {
            let office = cx.place()?.path;
            (office.with_file_name(config::FILE), Some(office.join(config::LOCAL_FILE)))
        }
    };
    let mut answer = CheckAnswer { files: Vec::new(), problems: Vec::new() };
    let (mut of_schemas, mut of_gates) = (0, 0);
    answer.read(main.clone(), |text| {
        let (file, mut problems) = ConfigFile::check(text);
        let schemas = schema_problems(&main, &file);
        let gates = gate_schema_problems(&main, &file.gates, gates::Source::Office);
        (of_schemas, of_gates) = (schemas.len(), gates.len());
        problems.extend(schemas.into_iter().chain(gates));
        problems
    })?;
    let of_rules = answer.problems.len() - of_schemas - of_gates;
    if let Some(local) = local {
        let mut own_gates = 0;
        answer.read(local, |text| {
            let (local, mut problems) = config::read_local(text);
            let gates = gate_schema_problems(&main, &local.gates, gates::Source::Machine);
            own_gates = gates.len();
            problems.extend(gates);
            problems
        })?;
        of_gates += own_gates;
        answer.add_what_stops_gates(cx)?;
    }
    cx.ui.answer(&answer)?;
    let count = answer.problems.len();
    if count == 0 {
        return Ok(());
    }
    let mut error = CommandError::usage(format!("{} found", ui::count(count, "problem")));
    if of_rules > 0 {
        error = error.hint(format!("until {} is mended, commands that write are stopped", config::FILE));
    }
    if of_schemas > 0 {
        error = error.hint("messages of a type whose schema cannot be used are refused; all others are not");
    }
    if of_gates > 0 {
        error = error.hint("a gate whose schema cannot be used is not passed by anything");
    }
    if count > of_rules + of_schemas + of_gates {
        error = error.hint(format!("until {} is mended, nothing is claimed or finished", config::LOCAL_FILE));
    }
    Err(error)
}

/// Schemas that are not there or are none, with the line that names them.
fn schema_problems(path: &std::path::Path, file: &ConfigFile) -> Vec<Problem> {
    let schemas = PayloadSchemas::new(path, file.schemas.clone());
    let problems = schemas.problems().into_iter().map(|(kind, message)| {
        let given = file.given.get(&format!("{}.{kind}.{}", config::TYPES, config::SCHEMA));
        Problem { line: given.map(|given| given.line), column: given.map(|_| 1), message }
    });
    problems.collect()
}

impl CheckAnswer {
    /// What one file alone cannot tell: a gate of a type there is not, or with a name the other file has.
    fn add_what_stops_gates(&mut self, cx: &Cx) -> Result {
        if !self.problems.is_empty() {
            return Ok(());
        }
        // Whatever else is wrong with the office is no problem of these files.
        let Ok(office) = cx.place()?.open() else { return Ok(()) };
        if let Err(poste_core::Error::Config { path, message }) = office.gates() {
            let problem = Problem { line: None, column: None, message };
            self.problems.push(FileProblem { file: path.display().to_string(), problem });
        }
        Ok(())
    }

    fn read(&mut self, path: PathBuf, check: impl FnOnce(&str) -> Vec<Problem>) -> Result {
        let problems = match read_config(&path) {
            Ok(None) => return Ok(()),
            Ok(Some(text)) => check(&text),
            Err(poste_core::Error::Config { message, .. }) => vec![Problem { line: None, column: None, message }],
            Err(error) => return Err(error.into()),
        };
        let file = path.display().to_string();
        self.files.push(file.clone());
        let mut problems = problems;
        problems.sort();
        self.problems.extend(problems.into_iter().map(|problem| FileProblem { file: file.clone(), problem }));
        Ok(())
    }
}

fn show(cx: &mut Cx, args: ShowArgs) -> Result {
    let office = cx.open()?;
    let file = office.config()?;
    let standing = office.standing(file.as_ref())?;
    let mut policy = views::settings(office.store(), file.as_ref(), &office.local_config()?)?;
    if let Some(prefix) = &args.key {
        policy.settings.retain(|setting| setting.key.starts_with(prefix.as_str()));
        if policy.settings.is_empty() {
            let error = CommandError::not_found(format!("no setting begins with {}", poste_core::text::quoted(prefix)));
            return Err(error.hint("see all of them: poste config show"));
        }
    }
    let path = file.is_some().then(|| office.config_path()).transpose()?;
    let answer =
        ShowAnswer { file: path.map(|path| path.display().to_string()), standing: standing_word(standing), policy };
    cx.ui.answer(&answer)?;
    say_standing(cx, &office, standing)
}

pub(crate) fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::InForce => "in_force",
        Standing::Next => "next",
        Standing::Overruled => "overruled",
    }
}

/// Says that the file is not what holds.
pub(crate) fn say_standing(cx: &Cx, office: &Office, standing: Standing) -> Result {
    match standing {
        Standing::InForce => {}
        Standing::Next => {
            cx.ui.say(format!("{} has changed: it takes effect with the next command that writes", config::FILE));
        }
        Standing::Overruled => {
            let policy = views::settings(office.store(), None, &LocalFile::default())?;
            let host = policy.host.as_deref().unwrap_or("another machine");
            cx.ui.say(format!("policy {} of {host} came after this machine's {}", policy.version, config::FILE));
        }
    }
    Ok(())
}

fn set(cx: &mut Cx, args: SetArgs) -> Result {
    let key = &args.key;
    let value = match (key, &args.value) {
        (KeyPath::Type(kind), Some(_)) => {
            return Err(CommandError::usage(format!("{key} is a type, not a key"))
                .hint(format!("for example: poste config set types.{kind}.priority high")));
        }
        (KeyPath::Setting(known) | KeyPath::OfType(_, known), Some(text)) => {
            let value = known.takes.parse(text);
            Some(value.map_err(|why| CommandError::usage(format!("{key}: {why}")))?)
        }
        (_, None) => None,
    };
    let mut office = cx.place()?.open()?;
    let unwritten = |error| CommandError::from(error).hint("nothing was written");
    let change = office.change_config(key, value.as_ref()).map_err(unwritten)?;
    let answer = SetAnswer {
        file: office.config_path()?.display().to_string(),
        key: key.to_string(),
        changed: change.before != change.after,
        before: change.before,
        after: change.after,
    };
    if answer.changed {
        cx.note_stored(format!("{key} in {}", answer.file));
    }
    cx.ui.answer(&answer)?;
    // Whoever sets something means it now. The file is written in any case; what stands in its way is an error of its own.
    let written = |error| CommandError::from(error).hint("the file is written; its rules are not in force yet");
    office.sync_policy().map_err(written)?;
    let standing = office.standing(office.config()?.as_ref())?;
    say_standing(cx, &office, standing)
}
