//! The tools: what a model fills in, and the command it becomes. Names that people know; a model may see nothing else.

mod answers;
mod command_line;
mod inputs;
mod mail;
mod more;
mod schema;
mod shared;
mod words;

use poste_connect::mcp::Call;
use poste_connect::mcp::model::{JsonObject, Tool, ToolAnnotations};

use self::command_line::poste;
use self::inputs::*;
use self::mail::*;
use self::more::*;
use self::schema::{filled, schema};
use self::shared::*;
use super::desk::Desk;
use super::render::Reply;
use crate::Result;

/// One tool: how it is told of, and what it does.
pub(super) struct Spec {
    pub name: &'static str,
    description: &'static str,
    input: fn() -> JsonObject,
    output: fn() -> JsonObject,
    effect: Effect,
    run: fn(&Desk, JsonObject, &Call) -> Result<Reply>,
    is_core: bool,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a tool may do to the office. Nothing it does reaches beyond it.
#[derive(Debug, Clone, Copy)]
enum Effect {
    Reads,
    Adds,
    /// Doing it again changes nothing.
    Settles,
    /// What it does depends on what is asked of it.
    Any,
}

impl Spec {
    pub(super) fn tool(&self) -> Tool {
        let annotations = ToolAnnotations::new().open_world(false);
        let annotations = match self.effect {
            Effect::Reads => annotations.read_only(true),
            Effect::Adds => annotations.read_only(false).destructive(false).idempotent(false),
            Effect::Settles => annotations.read_only(false).destructive(false).idempotent(true),
            Effect::Any => annotations.read_only(false).destructive(true).idempotent(false),
        };
        let mut tool = Tool::new(self.name, self.description, (self.input)());
        tool.output_schema = Some((self.output)().into());
        tool.annotations = Some(annotations);
        tool
    }

    pub(super) fn run(&self, desk: &Desk, arguments: JsonObject, call: &Call) -> Result<Reply> {
        let reply = (self.run)(desk, arguments, call)?;
        Ok(match desk.another() {
            Some(warning) => reply.warned(&warning),
            None => reply,
        })
    }
}

/// What is offered: few tools that do the daily work and one for the rest, or all there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Ten tools
    #[default]
    Core,
    /// Those and a tool for each of the other frequent commands
    Full,
}

pub(super) fn of(profile: Profile) -> Vec<&'static Spec> {
    SPECS.iter().filter(|spec| spec.is_core || profile == Profile::Full).collect()
}

macro_rules! specs {
    ($($name:ident: $input:ty => $output:ty, $effect:ident, $core:literal, $description:literal;)+) => {
        static SPECS: &[Spec] = &[$(Spec {
            name: stringify!($name),
            description: $description,
            input: schema::<$input>,
            output: schema::<$output>,
            effect: Effect::$effect,
            run: |desk, arguments, call| $name(desk, filled::<$input>(stringify!($name), arguments)?, call),
            is_core: $core,
        }),+];
    };
}

specs! {
    send_message: Send => Said, Adds, true, "Send mail to another agent, a role or everybody. It is kept until they deal with it; type question or directive asks for something.";
    check_inbox: CheckInbox => Mail, Reads, true, "List the mail that waits for you, most urgent first: numbers, senders, subjects. Marks nothing as read.";
    read_message: ReadMessage => Mail, Settles, true, "Read one message whole, and have it marked as shown to you.";
    claim_work: ClaimWork => Mail, Adds, true, "Take a message to work on before you start, so that nobody else does. It stays yours while you call tools; end it with finish_work.";
    finish_work: FinishWork => Said, Settles, true, "End what you claimed: done with a summary, fail with the reason, release to give it back, extend to keep it longer.";
    reply: Reply_ => Said, Adds, true, "Answer a message; its sender gets it, and whoever waits for the answer is woken.";
    wait_for_mail: WaitForMail => Mail, Settles, true, "Wait until new mail comes, and read it. Returns at once if there is some.";
    context: Context => Said, Adds, true, "Read and write the documents that agents of this project share, such as decisions and contracts. Versions are kept; replace needs the version it was made from.";
    handoff: Handoff => Said, Adds, true, "Hand work over to another agent with its files, what is done and what to check; or see, accept or reject one.";
    poste: Poste => Said, Any, true, "Any other poste command by its words: [\"register\",\"NAME\"], [\"agents\"], [\"track\",\"12\"], [\"search\",\"login\"], [\"reserve\",\"src/**\"], [\"ask\",…], [\"help\"], [\"help\",\"reserve\"].";
    track: Number => Said, Reads, false, "What became of a message: each recipient's state with times.";
    search: Search => Said, Reads, false, "Find messages by their words.";
    thread: Number => Said, Reads, false, "The conversation a message belongs to.";
    list_agents: Nothing => Said, Reads, false, "Who is registered, with roles and waiting mail.";
    status: Nothing => Said, Reads, false, "The office at a glance.";
    acknowledge: Number => Said, Settles, false, "Say that you took note of a message that asks for no work.";
    ask: Ask => Said, Adds, false, "Ask for a decision with choices and a deadline.";
    approvals: Approvals => Said, Reads, false, "Decisions that are asked for; with a number, one of them.";
    decide: Decide => Said, Settles, false, "Decide a question you were asked.";
    reserve: Reserve => Said, Adds, false, "Reserve paths you work on, or free them.";
    agree: Agree => Said, Adds, false, "Propose something that several agents have to agree on, or see one.";
    session: SessionTool => Said, Adds, false, "Note something in your session, show or close it.";
}
