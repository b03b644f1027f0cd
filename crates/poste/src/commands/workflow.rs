use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use poste_config::Problem;
use poste_core::log::{Intent, MessageNo, WorkflowEnd, WorkflowEnding, WorkflowRetry};
use poste_core::office::Office;
use poste_core::store::tables::{Concern, TaskState, WorkflowState};
use poste_core::text::{Label, RecordId, Word, nearest};
use poste_core::views::{self, WorkflowLine, WorkflowView};
use poste_verbs::workflow::{self, Advanced, Anybody, Format, Known, Registered, Source, StartError, render};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SecretArgs, approve, said};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Run steps in their order, each a message to an agent
///
/// What a step comes to goes into those after it. A definition is NAME.toml or NAME.yaml in .poste/workflows or in workflows beside poste.toml. What is running lives in
/// the log: whoever finishes a step goes on with it, and so does poste dispatch, or run --wait.
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
    /// Start one, and wait for it if asked to
    #[command(after_help = "Examples:\n  poste workflow run review --input task='Fix the login' --as lead\n  \
                      poste workflow run ./flows/digest.yaml --input files=@list.txt --wait --timeout 1h --as lead")]
    Run(RunArgs),
    /// List what runs; --all also what is over
    #[command(after_help = "Examples:\n  poste workflow list\n  poste workflow list --all --json\n  \
                      poste workflow list --definitions")]
    List(ListArgs),
    /// Show one as workflow-state.md: checked steps, and what they came to
    #[command(after_help = "Examples:\n  poste workflow show review-1\n  poste workflow show review-1 --json")]
    Show(ShowArgs),
    /// Go on with whatever is over, for an office that nobody dispatches
    #[command(
        after_help = "Examples:\n  poste workflow advance\n  * * * * * poste workflow advance --office ~/project/.poste >/dev/null"
    )]
    Advance,
    /// Decide what a step waits for
    #[command(after_help = "Examples:\n  poste workflow approve review-1 --as lead\n  \
                      poste workflow approve review-1 publish --choice deny --note 'Not on a Friday' --as lead")]
    Approve(ApproveArgs),
    /// Let what failed try again, and go on
    #[command(after_help = "Examples:\n  poste workflow retry review-1 --as lead\n  \
                      poste workflow retry review-1 build --reason 'The disk has room now' --as lead")]
    Retry(RetryArgs),
    /// End one; what is open of it goes back
    #[command(after_help = "Example:\n  poste workflow cancel review-1 --reason 'Not needed any more' --as lead")]
    Cancel(CancelArgs),
    /// Draw one: a definition, or how a run of it stands
    #[command(after_help = "Examples:\n  poste workflow graph review\n  \
                      poste workflow graph review-1 --format svg --out review.svg")]
    Graph(GraphArgs),
    /// Say everything that is wrong with definitions, with line numbers
    #[command(after_help = "Examples:\n  poste workflow lint\n  poste workflow lint review\n  \
                      poste workflow lint examples/workflows/review.toml")]
    Lint(LintArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The name of the definition, or its file
    name: String,
    /// What it is given: NAME=TEXT, or NAME=@FILE; the same name again is one line more
    #[arg(long, value_name = "NAME=TEXT")]
    input: Vec<String>,
    /// Block until it is over
    #[arg(long)]
    wait: bool,
    /// With --wait: give up after this; the workflow goes on
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// An id of your own: starting it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Also those that are over
    #[arg(long, conflicts_with = "definitions")]
    all: bool,
    /// What can be started, instead
    #[arg(long)]
    definitions: bool,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// What it is called, for example review-1; or the label that messages carry
    workflow: Label,
}

#[derive(Debug, clap::Args)]
struct ApproveArgs {
    /// What it is called, for example review-1
    workflow: Label,
    /// The step, if more than one waits
    step: Option<Label>,
    #[command(flatten)]
    decision: approve::DecisionArgs,
}

#[derive(Debug, clap::Args)]
struct RetryArgs {
    /// What it is called, for example review-1
    workflow: Label,
    /// Only this step; otherwise every one that failed
    step: Option<Label>,
    #[command(flatten)]
    why: WhyArgs,
}

#[derive(Debug, clap::Args)]
struct CancelArgs {
    /// What it is called, for example review-1
    workflow: Label,
    #[command(flatten)]
    why: WhyArgs,
}

#[derive(Debug, clap::Args)]
struct WhyArgs {
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Picture {
    Mermaid,
    Svg,
}

#[derive(Debug, clap::Args)]
struct GraphArgs {
    /// A definition or its file, or a workflow that was started
    name: String,
    /// For Mermaid, or an image
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Picture,
    /// Into this file instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct LintArgs {
    /// Definitions or their files; otherwise all there are
    names: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunAnswer {
    pub id: RecordId,
    /// It was started before under this id; there is no second one.
    pub repeat: bool,
    #[serde(flatten)]
    pub view: WorkflowView,
    #[serde(skip)]
    waited: bool,
}

impl Answer for RunAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.waited {
            true => write!(out, "{}", escape::block(&render::page(&self.view))),
            // A script wants the name and nothing else.
            false => writeln!(out, "{}", self.view.workflow),
        }
    }
}

impl Answer for WorkflowView {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", escape::block(&render::page(self)))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListAnswer {
    pub workflows: Vec<WorkflowLine>,
}

impl Answer for ListAnswer {
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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionsAnswer {
    pub definitions: Vec<DefinitionLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionLine {
    pub name: Label,
    pub file: String,
    pub title: Option<String>,
    pub steps: usize,
    /// What it must be given, and what it may be given.
    pub inputs: Vec<InputLine>,
    /// How much is wrong with it: `poste workflow lint` says what.
    pub problems: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InputLine {
    pub name: String,
    pub about: Option<String>,
    pub default: Option<String>,
}

impl Answer for DefinitionsAnswer {
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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangeAnswer {
    pub workflow: Label,
    pub state: WorkflowState,
    pub id: RecordId,
    /// It was done before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for ChangeAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "{} {}{again}", self.workflow, self.state)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AdvanceAnswer {
    /// How much was said to the log.
    pub records: usize,
    /// Workflows that are not over.
    pub open: usize,
    /// The messages of steps that were sent.
    pub sent: Vec<MessageNo>,
    /// What cannot be gone on with, and why.
    pub waiting: Vec<String>,
}

impl Answer for AdvanceAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let sent = ui::count(self.sent.len(), "message");
        writeln!(out, "{} open, {sent} sent", ui::count(self.open, "workflow"))?;
        self.waiting.iter().try_for_each(|why| writeln!(out, "{}", escape::line(why)))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GraphAnswer {
    pub name: String,
    pub format: &'static str,
    pub picture: String,
}

impl Answer for GraphAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", escape::block(&self.picture))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintAnswer {
    /// The definitions that were read.
    pub files: Vec<String>,
    pub problems: Vec<LintProblem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintProblem {
    pub file: String,
    #[serde(flatten)]
    pub problem: Problem,
}

impl Answer for LintAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for LintProblem { file, problem } in &self.problems {
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
        WorkflowCommand::List(args) if args.definitions => list_definitions(cx),
        WorkflowCommand::List(args) => list(cx, &args),
        WorkflowCommand::Show(args) => show(cx, &args),
        WorkflowCommand::Advance => advance(cx),
        WorkflowCommand::Approve(args) => approve_step(cx, args),
        WorkflowCommand::Retry(args) => retry(cx, args),
        WorkflowCommand::Cancel(args) => cancel(cx, args),
        WorkflowCommand::Graph(args) => graph(cx, &args),
        WorkflowCommand::Lint(args) => lint(cx, &args),
    }
}

/// Goes on with a workflow, and carries out what that asks for.
fn go_on(cx: &Cx, office: &mut Office, label: &Label) -> std::result::Result<Advanced, poste_core::Error> {
    let mut advanced = Advanced::default();
    workflow::advance_one(office, label, &mut advanced)?;
    cx.carry_out(office);
    Ok(advanced)
}

/// Goes on with every workflow of which something is over: whoever ended it may have died before it went on.
fn go_on_with_news(cx: &Cx, office: &mut Office) {
    match workflow::advance_news(office) {
        Ok(advanced) => advanced.waiting.iter().for_each(|why| cx.ui.warn(why)),
        // Who may only read leaves it to others.
        Err(poste_core::Error::ReadOnly(_)) => {}
        Err(error) => cx.ui.warn(format!("workflows are not gone on with now: {error}")),
    }
    cx.carry_out(office);
}

fn find(cx: &Cx, folder: &Path, name: &str) -> Result<Source> {
    if let Some(source) = workflow::find(folder, name)? {
        return Ok(source);
    }
    let error =
        CommandError::not_found(format!("there is no workflow {}", escape::line(name))).code("unknown_workflow");
    if is_file(name) {
        return Err(error.hint("it is taken for a file, and there is none of that name"));
    }
    let known: Vec<Source> = workflow::definitions(folder).into_iter().flatten().collect();
    let near = nearest(name, known.iter().map(|source| source.name.as_str()));
    if let Some(near) = near.first() {
        return Err(error.hint(format!("did you mean {near}?")));
    }
    let [own, shared] = workflow::folders(folder);
    let cwd = cx.cwd().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&cwd).unwrap_or(path).display().to_string();
    Err(error
        .hint(format!("write {}/{name}.toml, or {}/{name}.yaml", shown(&shared), shown(&own)))
        .hint("see which there are: poste workflow list --definitions"))
}

/// What can be read of `NAME=TEXT` and `NAME=@FILE`.
fn inputs(given: &[String]) -> Result<BTreeMap<String, String>> {
    let mut inputs: BTreeMap<String, String> = BTreeMap::new();
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
    let inputs = inputs(&args.input)?;
    let mut office = cx.open_to_write()?;
    let owner = cx.active_agent(&office)?.name;
    let source = find(cx, office.path()?, &args.name)?;
    let id = args.id.unwrap_or_else(|| cx.new_id());
    let started = workflow::start(&mut office, (&owner, cx.session(), cx.via()), id.clone(), &source, &inputs);
    let started = started.map_err(|error| start_error(&source, error))?;
    let label = started.workflow;
    cx.note_stored(format!("workflow {label}, id {id}"));
    let advanced = go_on(cx, &mut office, &label)?;
    advanced.waiting.iter().for_each(|why| cx.ui.warn(why));
    let see = |office: &Office| -> Result<WorkflowView> { found(office, &label) };
    if !args.wait {
        let view = see(&office)?;
        cx.ui.answer(&RunAnswer { id, repeat: started.repeat, view, waited: false })?;
        cx.ui.say(format!("see how it goes: poste workflow show {label}"));
        tell_who_starts(cx, &office)?;
        return Ok(());
    }
    cx.ui.say(format!("started {label}; waiting. Killed meanwhile, go on with: --wait --id {id}"));
    tell_who_starts(cx, &office)?;
    let over = cx.wait_for(&mut office, &Concern::Workflow(label.clone()).into(), args.timeout, |office| {
        let advanced = go_on(cx, office, &label)?;
        Ok((advanced.open == 0).then_some(()))
    })?;
    let view = see(&office)?;
    let state = view.state;
    cx.ui.answer(&RunAnswer { id, repeat: started.repeat, view, waited: true })?;
    match (over, state) {
        (None, _) => Err(CommandError::new(Kind::TimedOut, format!("workflow {label} is not over"))
            .hint(format!("see how it goes: poste workflow show {label}"))),
        (Some(()), WorkflowState::Finished) => Ok(()),
        (Some(()), state) => Err(CommandError::new(Kind::Refused, format!("workflow {label} is {state}"))
            .code("workflow_over")
            .hint(format!("let it try again: poste workflow retry {label}"))),
    }
}

/// A workflow only sends: that its agents are started is somebody else's, and without runs it looks as if nobody does so.
fn tell_who_starts(cx: &Cx, office: &Office) -> Result {
    let runners = poste_config::runners(office)?;
    if !runners.agents.is_empty() && views::all_running(office.store())?.is_empty() {
        cx.ui.say("no agent runs now; if no dispatcher is there to start them: poste dispatch");
    }
    Ok(())
}

fn start_error(source: &Source, error: StartError) -> CommandError {
    let name = &source.name;
    match error {
        StartError::Core(error) => error.into(),
        StartError::Refused(rejection) => rejection.into(),
        StartError::Inputs(why) => {
            CommandError::usage(why).hint(format!("poste workflow run {name} --input NAME=TEXT"))
        }
        StartError::Unfit(problems) => {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            let more = problems.len().saturating_sub(1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let file = source.path.display();
            CommandError::usage(format!("{file}: {first}{more}"))
                .hint(format!("see everything that is wrong: poste workflow lint {file}"))
        }
    }
}

/// The workflow of a name, or what is wrong with the name.
fn found(office: &Office, label: &Label) -> Result<WorkflowView> {
    if let Some(view) = views::workflow(office.store(), label)? {
        return Ok(view);
    }
    let known = views::workflows(office.store(), true, 1_000)?;
    let error = CommandError::not_found(format!("there is no workflow {label}")).code("unknown_workflow");
    let near = nearest(label.as_str(), known.iter().map(|line| line.workflow.as_str()));
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("see which there are: poste workflow list --all"),
    })
}

fn list(cx: &mut Cx, args: &ListArgs) -> Result {
    let mut office = cx.open()?;
    go_on_with_news(cx, &mut office);
    let workflows = views::workflows(office.store(), args.all, args.limit.into())?;
    if workflows.is_empty() {
        let more = if args.all { "" } else { "; see those that are over: poste workflow list --all" };
        cx.ui.say(format!("no workflow runs{more}"));
    }
    cx.ui.answer(&ListAnswer { workflows })
}

fn list_definitions(cx: &mut Cx) -> Result {
    let office = cx.open()?;
    let mut definitions = Vec::new();
    for source in workflow::definitions(office.path()?) {
        let source = match source {
            Ok(source) => source,
            Err(error) => {
                cx.ui.warn(error.to_string());
                continue;
            }
        };
        let (definition, problems) = workflow::lint(&source.text, source.format, &source.name, &Registered(&office));
        let inputs = definition.iter().flat_map(|definition| &definition.inputs).map(|input| InputLine {
            name: input.name.clone(),
            about: input.about.clone(),
            default: input.default.clone(),
        });
        definitions.push(DefinitionLine {
            inputs: inputs.collect(),
            title: definition.as_ref().map(|definition| definition.title.clone()),
            steps: definition.as_ref().map_or(0, |definition| definition.steps.len()),
            name: source.name,
            file: source.path.display().to_string(),
            problems: problems.len(),
        });
    }
    if definitions.is_empty() {
        cx.ui.say("nothing is defined; write workflows/NAME.toml beside poste.toml");
    }
    cx.ui.answer(&DefinitionsAnswer { definitions })
}

fn show(cx: &mut Cx, args: &ShowArgs) -> Result {
    let mut office = cx.open()?;
    go_on_with_news(cx, &mut office);
    let view = found(&office, &args.workflow)?;
    cx.ui.answer(&view)
}

fn advance(cx: &mut Cx) -> Result {
    let mut office = cx.open()?;
    let Advanced { records, open, sent, waiting } = workflow::advance(&mut office)?;
    cx.carry_out(&mut office);
    cx.ui.answer(&AdvanceAnswer { records, open, sent, waiting })
}

fn approve_step(cx: &mut Cx, args: ApproveArgs) -> Result {
    let office = cx.open()?;
    let view = found(&office, &args.workflow)?;
    let mut asked: Vec<(&Label, MessageNo, &[Word])> = Vec::new();
    for step in &view.steps {
        let open = step.tasks.iter().filter(|task| task.state == TaskState::Open && !task.choices.is_empty());
        asked.extend(open.map(|task| (&step.key, task.message, task.choices.as_slice())));
    }
    if let Some(step) = &args.step {
        asked.retain(|(key, ..)| *key == step);
    }
    let label = &view.workflow;
    let (number, choices) = match asked.as_slice() {
        [(_, number, choices)] => (*number, choices.to_vec()),
        [] => {
            let error = CommandError::new(Kind::Refused, format!("nothing of that waits for a decision in {label}"));
            let error = error.code("nothing_to_do").hint(format!("see how it stands: poste workflow show {label}"));
            let has_failed = view.state == WorkflowState::Failed;
            return Err(match has_failed {
                true => error.hint(format!("let what failed try again: poste workflow retry {label}")),
                false => error,
            });
        }
        several => {
            let keys: Vec<String> = several.iter().map(|(key, number, _)| format!("{key} (#{number})")).collect();
            let error = CommandError::usage(format!("several wait for a decision: {}", keys.join(", ")));
            return Err(error.hint(format!("name the step: poste workflow approve {label} STEP, or: poste approve N")));
        }
    };
    let Some(first) = choices.first().cloned() else {
        return Err(CommandError::new(Kind::Internal, "a question without choices"));
    };
    drop(office);
    args.decision.decide(cx, number, Some(first))
}

fn retry(cx: &mut Cx, args: RetryArgs) -> Result {
    let intent = Intent::WorkflowRetry(WorkflowRetry { workflow: args.workflow.clone(), step: args.step });
    change(cx, &args.workflow, intent, args.why)
}

fn cancel(cx: &mut Cx, args: CancelArgs) -> Result {
    let workflow = args.workflow.clone();
    let intent = Intent::WorkflowEnd(WorkflowEnd { workflow, how: WorkflowEnding::Cancelled, mail: None });
    change(cx, &args.workflow, intent, args.why)
}

fn change(cx: &mut Cx, label: &Label, intent: Intent, why: WhyArgs) -> Result {
    let content = why.reason.map(|reason| why.secret.text("reason", said("--reason", &reason)?)).transpose()?;
    let mut office = cx.open_to_write()?;
    let before = found(&office, label)?;
    if before.name.is_none() {
        let error = CommandError::new(Kind::Refused, format!("{label} is only a label that messages carry"));
        return Err(error.code("unknown_workflow").hint("retry, drop or close the messages themselves"));
    }
    let proposal = cx.proposal(&office, intent, content, why.id)?;
    let (outcome, _) = cx.decide(&mut office, &proposal)?;
    let advanced = go_on(cx, &mut office, label)?;
    advanced.waiting.iter().for_each(|why| cx.ui.warn(why));
    let state = found(&office, label)?.state;
    cx.ui.answer(&ChangeAnswer { workflow: label.clone(), state, id: outcome.id, repeat: outcome.repeat })
}

fn graph(cx: &mut Cx, args: &GraphArgs) -> Result {
    let picture = match is_file(&args.name) {
        true => of_definition(&find(cx, Path::new(".poste"), &args.name)?, &Anybody)?,
        false => {
            let office = cx.open()?;
            let label = args.name.parse::<Label>().ok();
            let run = label.map(|label| views::workflow(office.store(), &label)).transpose()?.flatten();
            match run {
                Some(view) => render::Picture::of_run(&view),
                None => of_definition(&find(cx, office.path()?, &args.name)?, &Registered(&office))?,
            }
        }
    };
    let (format, picture) = match args.format {
        Picture::Mermaid => ("mermaid", picture.mermaid()),
        Picture::Svg => ("svg", picture.svg()),
    };
    if let Some(path) = &args.out {
        std::fs::write(path, &picture)
            .map_err(|error| CommandError::new(Kind::Internal, format!("{}: {error}", path.display())))?;
        cx.ui.say(format!("wrote {}", path.display()));
        return Ok(());
    }
    cx.ui.answer(&GraphAnswer { name: args.name.clone(), format, picture })
}

fn is_file(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    name.contains('/') || ending.is_some_and(|ending| Format::of_ending(ending).is_some())
}

fn of_definition(source: &Source, known: &dyn Known) -> Result<render::Picture> {
    let (definition, problems) = workflow::lint(&source.text, source.format, &source.name, known);
    match definition {
        Some(definition) => Ok(render::Picture::of_definition(&definition)),
        None => Err(start_error(source, StartError::Unfit(problems))),
    }
}

fn lint(cx: &mut Cx, args: &LintArgs) -> Result {
    // Files need no office: agents are then whoever they say.
    let office = match cx.open() {
        Ok(office) => Some(office),
        Err(_) if !args.names.is_empty() && args.names.iter().all(|name| is_file(name)) => None,
        Err(error) => return Err(error),
    };
    let folder = match &office {
        Some(office) => office.path()?.to_owned(),
        None => PathBuf::from(".poste"),
    };
    let sources: Vec<std::result::Result<Source, poste_core::Error>> = match args.names.is_empty() {
        true => workflow::definitions(&folder),
        false => args.names.iter().map(|name| find(cx, &folder, name).map(Ok)).collect::<Result<_>>()?,
    };
    if sources.is_empty() {
        cx.ui.say("nothing is defined; write workflows/NAME.toml beside poste.toml");
    }
    let mut answer = LintAnswer { files: Vec::new(), problems: Vec::new() };
    for source in sources {
        let source = match source {
            Ok(source) => source,
            Err(poste_core::Error::Config { path, message }) => {
                let problem = Problem { line: None, column: None, message };
                answer.problems.push(LintProblem { file: path.display().to_string(), problem });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let file = source.path.display().to_string();
        let registered = office.as_ref().map(Registered);
        let known: &dyn Known = registered.as_ref().map_or(&Anybody, |registered| registered);
        let (_, problems) = workflow::lint(&source.text, source.format, &source.name, known);
        answer.problems.extend(problems.into_iter().map(|problem| LintProblem { file: file.clone(), problem }));
        answer.files.push(file);
    }
    let problems = answer.problems.len();
    cx.ui.answer(&answer)?;
    match problems {
        0 => Ok(()),
        problems => Err(CommandError::usage(format!("{} found", ui::count(problems, "problem")))),
    }
}
