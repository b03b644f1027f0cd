use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use poste_connect::mcp;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::mcp::{PosteTable, Profile};

/// Serve an agent program: tools, resources and prompts over MCP, on stdin and stdout
///
/// Programs start it themselves once it is written in their settings. It speaks for the agent in POSTE_AGENT, else for the session
/// of the program that started it, else for nobody until the tool `office` registers a name. It ends when stdin ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste mcp\n  POSTE_AGENT=coder poste mcp --profile full")]
pub(crate) struct Args {
    /// Which tools are offered
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Push new mail into the session of a program that listens for it (Claude Code: channels, a preview)
    #[arg(long)]
    channel: bool,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let table = PosteTable::new(cx, args.profile, args.channel);
    let failed = |error: io::Error| CommandError::new(Kind::Internal, format!("the server failed: {error}"));
    let (input, output) = take_stdio().map_err(failed)?;
    mcp::serve_stdio(table, io::BufReader::new(input), output).map_err(failed)
}

/// The protocol has stdin and stdout for itself: neither a command that reads a file called - nor one that a gate starts
/// can come between.
fn take_stdio() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}
