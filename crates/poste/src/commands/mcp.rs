use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use poste_connect::mcp::{self, AnswerText, PosteTable, VerbText};
use poste_verbs::{
    Answered, Desk, Error, Verb, ack, agents, agree, approvals, approve, ask, context, deny, done, extend, fail,
    handoff, inbox, register, release, reply, reservation, search, send, session, status, thread, track, whoami,
};
use serde_json::Value;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Serve tools, resources and prompts over MCP on stdin/stdout
///
/// Agent programs start it once it is in their settings (`poste setup`). It acts as the agent in POSTE_AGENT, or as the
/// agent of the session of the program that started it, or as none until the tool `office` registers a name. It ends
/// when stdin ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste mcp\n  POSTE_AGENT=coder poste mcp --profile full")]
pub(crate) struct Args {
    /// Set of tools to offer
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Push new mail into the session of a program that supports it (Claude Code channels, a preview)
    #[arg(long)]
    channel: bool,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Profile {
    /// Ten tools
    #[default]
    Core,
    /// Also tools for decisions, reservations and agreements
    Full,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let profile = match args.profile {
        Profile::Core => mcp::Profile::Core,
        Profile::Full => mcp::Profile::Full,
    };
    let table = PosteTable::new(cx.station().clone(), TEXTS, profile, args.channel);
    let failed = |error: io::Error| CommandError::new(Kind::Internal, format!("the server failed: {error}"));
    let (input, output) = take_stdio().map_err(failed)?;
    mcp::serve_stdio(table, io::BufReader::new(input), output).map_err(failed)
}

/// Reserves stdin and stdout for the protocol, so that neither a command that reads `-` nor one that a gate starts can
/// use them.
fn take_stdio() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// The verbs whose answers tools print as their commands do.
const TEXTS: &[VerbText] = &[
    text_of::<ack::Input>(),
    text_of::<agents::Input>(),
    text_of::<agree::Input>(),
    text_of::<approvals::Input>(),
    text_of::<approve::Input>(),
    text_of::<ask::Input>(),
    text_of::<context::append::Input>(),
    text_of::<context::create::Input>(),
    text_of::<context::list::Input>(),
    text_of::<context::replace::Input>(),
    text_of::<context::since::Input>(),
    text_of::<deny::Input>(),
    text_of::<done::Input>(),
    text_of::<extend::Input>(),
    text_of::<fail::Input>(),
    text_of::<reservation::release::Input>(),
    text_of::<handoff::accept::Input>(),
    text_of::<handoff::create::Input>(),
    text_of::<handoff::list::Input>(),
    text_of::<handoff::reject::Input>(),
    text_of::<handoff::show::Input>(),
    text_of::<inbox::Input>(),
    text_of::<register::Input>(),
    text_of::<release::Input>(),
    text_of::<reply::Input>(),
    text_of::<reservation::list::Input>(),
    text_of::<reservation::reserve::Input>(),
    text_of::<search::Input>(),
    text_of::<send::Input>(),
    text_of::<session::close::Input>(),
    text_of::<session::note::Input>(),
    text_of::<status::Input>(),
    text_of::<thread::Input>(),
    text_of::<track::Input>(),
    text_of::<whoami::Input>(),
];

const fn text_of<V: Verb<Answer: Answer>>() -> VerbText {
    VerbText { verb: V::NAME, call: call::<V> }
}

fn call<V: Verb<Answer: Answer>>(desk: &mut Desk<'_>, input: Value) -> poste_verbs::Result<Answered<AnswerText>> {
    let input: V = serde_json::from_value(input).map_err(|error| Error::usage(error.to_string()))?;
    let answered = desk.call(input)?;
    let answer = text(&Ui::plain(desk.now()?), &answered.answer);
    let answer = answer.map_err(|error| {
        poste_verbs::desk::stored_but_not_shown(&answered.stored, Error::internal(error.to_string()))
    })?;
    Ok(answered.map(|_| answer))
}

fn text(ui: &Ui, answer: &impl Answer) -> io::Result<AnswerText> {
    let mut text = Vec::new();
    answer.print(ui, &mut text)?;
    Ok(AnswerText { value: serde_json::to_value(answer)?, text: String::from_utf8_lossy(&text).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_verbs_that_tools_print_have_a_text() {
        let mut texts: Vec<&str> = TEXTS.iter().map(|text| text.verb).collect();
        texts.sort_unstable();
        assert_eq!(texts, mcp::verbs_with_text());
    }
}
