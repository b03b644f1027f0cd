use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use poste_core::store::tables::{Concern, WorkflowState};
use poste_core::text::{Label, RecordId};
use poste_core::views::WorkflowView;
use poste_verbs::workflow::{
    self, AnyAddress, Changed, Format, Given, Inputs, Source, advance, approve, cancel, definitions, graph, lint, list,
    render, retry, run, show,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::approve::DecisionArgs;
use super::{SecretArgs, WriteArgs};
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::read_body;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Run workflows: steps in order, each a message to an agent
///
/// The result of a step is available to later ones. A definition is NAME.toml or NAME.yaml in .poste/workflows, or in
/// workflows next to poste.toml. Progress is kept in the log: the command that ends a step also advances the workflow,
/// and so do poste dispatch and run --wait.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste workflow lint\n  poste workflow run review --input task='Fix the login' --as lead\n  \
                        poste workflow show review-1\n  poste workflow approve review-1 --as lead"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: WorkflowCommand,
}

#[derive(Debug, clap::Subcommand)]
enum WorkflowCommand {
    /// Start a workflow
    #[command(after_help = "Examples:\n  poste workflow run review --input task='Fix the login' --as lead\n  \
                      poste workflow run ./flows/digest.yaml --input files=@list.txt --wait --timeout 1h --as lead")]
    Run(RunArgs),
    /// List open workflows
    #[command(after_help = "Examples:\n  poste workflow list\n  poste workflow list --all --json\n  \
                      poste workflow list --definitions")]
    List(ListArgs),
    /// Show the steps of a workflow and their results
    #[command(after_help = "Examples:\n  poste workflow show review-1\n  poste workflow show review-1 --json")]
    Show(ShowArgs),
    /// Advance workflows when no dispatcher is running
    #[command(
        after_help = "Examples:\n  poste workflow advance\n  * * * * * poste workflow advance --office ~/project/.poste >/dev/null"
    )]
    Advance,
    /// Decide a pending approval of a workflow
    #[command(after_help = "Examples:\n  poste workflow approve review-1 --as lead\n  \
                      poste workflow approve review-1 publish --choice deny --note 'Not on a Friday' --as lead")]
    Approve(ApproveArgs),
    /// Retry failed steps
    #[command(after_help = "Examples:\n  poste workflow retry review-1 --as lead\n  \
                      poste workflow retry review-1 build --reason 'The disk has room now' --as lead")]
    Retry(RetryArgs),
    /// Cancel a workflow and return its open deliveries
    #[command(after_help = "Example:\n  poste workflow cancel review-1 --reason 'Not needed any more' --as lead")]
    Cancel(CancelArgs),
    /// Draw a definition, or the state of a workflow
    #[command(after_help = "Examples:\n  poste workflow graph review\n  \
                      poste workflow graph review-1 --format svg --out review.svg")]
    Graph(GraphArgs),
    /// Report all problems of definitions with line numbers
    #[command(after_help = "Examples:\n  poste workflow lint\n  poste workflow lint review\n  \
                      poste workflow lint examples/workflows/review.toml")]
    Lint(LintArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Name of the definition, or its file
    name: String,
    /// Input as NAME=TEXT or NAME=@FILE; the same name again adds a line
    #[arg(long = "input", value_name = "NAME=TEXT")]
    inputs: Vec<String>,
    /// Wait until the workflow has ended
    #[arg(long)]
    wait: bool,
    /// With --wait: give up after this time; the workflow continues
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Include workflows that have ended
    #[arg(long, conflicts_with = "definitions")]
    all: bool,
    /// List definitions that can be started instead
    #[arg(long)]
    definitions: bool,
    /// Maximum number of workflows
    #[arg(long, default_value_t = list::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(list::LIMIT_MAX)))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Name of the workflow, for example review-1, or the label of its messages
    workflow: Label,
}

#[derive(Debug, clap::Args)]
struct ApproveArgs {
    /// Name of the workflow, for example review-1
    workflow: Label,
    /// Step to decide, if more than one is pending
    step: Option<Label>,
    #[command(flatten)]
    decision: DecisionArgs,
}

#[derive(Debug, clap::Args)]
struct RetryArgs {
    /// Name of the workflow, for example review-1
    workflow: Label,
    /// Step to retry; otherwise every step that failed
    step: Option<Label>,
    #[command(flatten)]
    why: WhyArgs,
}

#[derive(Debug, clap::Args)]
struct CancelArgs {
    /// Name of the workflow, for example review-1
    workflow: Label,
    #[command(flatten)]
    why: WhyArgs,
}

#[derive(Debug, clap::Args)]
struct WhyArgs {
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Picture {
    Mermaid,
    Svg,
}

#[derive(Debug, clap::Args)]
struct GraphArgs {
    /// Name of a definition, its file, or the name of a workflow
    name: String,
    /// Format of the drawing
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Picture,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct LintArgs {
    /// Names of definitions, or their files; otherwise all of them
    names: Vec<String>,
}

/// With --wait the workflow is shown at its end; without it, a script wants only the name of the new workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
struct Waited(run::Answer);

impl Answer for Waited {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        self.0.view.print(ui, out)
    }
}

impl Answer for run::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.view.workflow)
    }
}

impl Answer for WorkflowView {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", escape::block(&render::page(self)))
    }
}

impl Answer for list::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.workflows.iter().map(|line| {
            let paint = match line.state {
                WorkflowState::Finished => Paint::Good,
                WorkflowState::Open => Paint::Attention,
                WorkflowState::Failed | WorkflowState::Cancelled => Paint::Bad,
            };
            let now: Vec<&str> = line.now.iter().map(Label::as_str).collect();
            vec![
                line.workflow.to_string(),
                ui.paint(paint, line.state.word()),
                format!("{}/{}", line.settled, line.steps),
                line.owner.as_ref().map_or("by label", |owner| owner.as_str()).to_owned(),
                ui.time(line.ended_at.unwrap_or(line.started_at)),
                now.join(", "),
            ]
        });
        ui.lines(out, &["WORKFLOW", "STATE", "STEPS", "BY", "SINCE", "NOW"], rows.collect())
    }
}

impl Answer for definitions::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.definitions.iter().map(|line| {
            let inputs: Vec<String> = line
                .inputs
                .iter()
                .map(|input| if input.default.is_some() { format!("[{}]", input.name) } else { input.name.clone() })
                .collect();
            let state = match line.problems {
                0 => format!("{} steps", line.steps),
                problems => ui.paint(Paint::Bad, &ui::count(problems, "problem")),
            };
            let title = escape::line(line.title.as_deref().unwrap_or_default()).into_owned();
            vec![line.name.to_string(), state, inputs.join(" "), title, escape::line(&line.file).into_owned()]
        });
        ui.lines(out, &["NAME", "", "INPUTS", "TITLE", "FILE"], rows.collect())
    }
}

impl Answer for Changed {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already done under this id)" } else { "" };
        writeln!(out, "{} {}{again}", self.workflow, self.state)
    }
}

impl Answer for advance::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let sent = ui::count(self.sent.len(), "message");
        writeln!(out, "{} open, {sent} sent", ui::count(self.open, "workflow"))?;
        self.waiting.iter().try_for_each(|why| writeln!(out, "{}", escape::line(why)))
    }
}

impl Answer for graph::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", escape::block(&self.picture))
    }
}

impl Answer for lint::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for lint::FileProblem { file, problem } in &self.problems {
            let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
            writeln!(out, "{}{line}: {}", escape::line(file), escape::line(&problem.message))?;
        }
        let is_fine = |file: &&String| !self.problems.iter().any(|problem| problem.file == **file);
        self.files.iter().filter(is_fine).try_for_each(|file| writeln!(out, "{}: fine", escape::line(file)))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        WorkflowCommand::Run(args) => start(cx, args),
        WorkflowCommand::List(args) if args.definitions => cx.call(definitions::Input {}),
        WorkflowCommand::List(args) => cx.call(list::Input { all: args.all, limit: args.limit }),
        WorkflowCommand::Show(args) => cx.call(show::Input { workflow: args.workflow }),
        WorkflowCommand::Advance => cx.call(advance::Input { workflow: None }),
        WorkflowCommand::Approve(ApproveArgs { workflow, step, decision }) => {
            let DecisionArgs { choice, note, write: WriteArgs { id, secret } } = decision;
            let (note, secrets) = (read_body(note)?, secret.secrets(cx)?);
            cx.call(approve::Input { workflow, step, choice, note, id, secrets })
        }
        WorkflowCommand::Retry(RetryArgs {
            workflow,
            step,
            why: WhyArgs { reason, write: WriteArgs { id, secret } },
        }) => cx.call(retry::Input { workflow, step, reason, id, secrets: secret.secrets(cx)? }),
        WorkflowCommand::Cancel(CancelArgs { workflow, why: WhyArgs { reason, write: WriteArgs { id, secret } } }) => {
            cx.call(cancel::Input { workflow, reason, id, secrets: secret.secrets(cx)? })
        }
        WorkflowCommand::Graph(args) => draw(cx, args),
        WorkflowCommand::Lint(args) => check(cx, args.names),
    }
}

/// A definition as it was typed: the name of one, or a file.
pub(super) fn given(name: String) -> Result<Given> {
    let path = PathBuf::from(&name);
    if !name.contains('/') && Format::of_path(&path).is_none() {
        return Ok(Given::Name(name));
    }
    let no_file = || workflow::no_workflow(&name).hint("it looks like a file, and there is no such file");
    Ok(Given::File(Source::read(path)?.ok_or_else(no_file)?))
}

/// The inputs given as `NAME=TEXT` and `NAME=@FILE`.
fn inputs(given: &[String]) -> Result<Inputs> {
    let mut inputs = Inputs::new();
    for input in given {
        let Some((name, text)) = input.split_once('=') else {
            return Err(CommandError::usage(format!("--input {input} has no =")).hint("write --input NAME=TEXT"));
        };
        let text = match text.strip_prefix('@') {
            None => text.to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| CommandError::usage(format!("--input {name}: {path}: {error}")))?,
        };
        match inputs.get_mut(name) {
            Some(before) => {
                before.push('\n');
                before.push_str(&text);
            }
            None => drop(inputs.insert(name.to_owned(), text)),
        }
    }
    Ok(inputs)
}

fn start(cx: &mut Cx, args: RunArgs) -> Result {
    let (inputs, secrets) = (inputs(&args.inputs)?, args.secret.secrets(cx)?);
    let (mut office, started) =
        cx.call_verb_here(run::Input { name: given(args.name)?, inputs, id: args.id, secrets })?;
    if !args.wait {
        return cx.show(&mut office, started);
    }
    let (id, label) = (&started.answer.id, started.answer.view.workflow.clone());
    cx.ui.say(format!("started {label}; waiting. If interrupted, resume with: --wait --id {id}"));
    notes::say(&cx.ui, &started);
    let over = cx.wait(&mut office, &Concern::Workflow(label.clone()).into(), args.timeout, |office| {
        let advanced = cx.call_verb(office, advance::Input { workflow: Some(label.clone()) })?;
        Ok((advanced.answer.open == 0).then_some(()))
    })?;
    let view = cx.call_verb(&mut office, show::Input { workflow: label.clone() })?.answer;
    let state = view.state;
    cx.ui.answer(&Waited(run::Answer { view, ..started.answer }))?;
    match (over, state) {
        (None, _) => Err(CommandError::new(Kind::TimedOut, format!("timed out: workflow {label} has not ended"))
            .hint(format!("see its progress: poste workflow show {label}"))),
        (Some(()), WorkflowState::Finished) => Ok(()),
        (Some(()), state) => Err(CommandError::new(Kind::Refused, format!("workflow {label} is {state}"))
            .code("workflow_over")
            .hint(format!("retry failed steps: poste workflow retry {label}"))),
    }
}

fn draw(cx: &mut Cx, args: GraphArgs) -> Result {
    let format = match args.format {
        Picture::Mermaid => graph::Format::Mermaid,
        Picture::Svg => graph::Format::Svg,
    };
    // A file needs no office.
    let drawn = match given(args.name.clone())? {
        Given::File(source) => graph::of_file(args.name, &source, format)?,
        name => cx.call_verb_here(graph::Input { name, format })?.1,
    };
    let Some(path) = args.out else { return cx.print_answer(drawn) };
    std::fs::write(&path, &drawn.answer.picture)
        .map_err(|error| CommandError::new(Kind::Internal, format!("{}: {error}", path.display())))?;
    cx.ui.say(format!("wrote {}", path.display()));
    Ok(())
}

fn check(cx: &mut Cx, names: Vec<String>) -> Result {
    let names = names.into_iter().map(given).collect::<Result<Vec<_>>>()?;
    let files = || {
        names.iter().filter_map(|name| match name {
            Given::File(source) => Some(source.clone()),
            Given::Name(_) => None,
        })
    };
    // Files need no office: without one, any agent that they name is accepted.
    if !names.is_empty() && files().count() == names.len() && cx.open().is_err() {
        return cx.print_answer(lint::of_sources(files().map(Ok).collect(), &AnyAddress)?);
    }
    cx.call(lint::Input { names })
}
