//! Parsers and printers that handle untrusted input, exposed for tests of other crates. Not an API.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};
use poste_core::log::{Content, MessageNo, Position, Send};
use poste_core::views::MessageView;
use poste_core::{Address, Timestamp};

use crate::cli::{self, Cli};
use crate::ui::time::TimeStyle;
use crate::ui::{escape, fence};
use crate::{CommandError, batch, draft};

pub fn escape_line(text: &str) -> String {
    escape::line(text).into_owned()
}

pub fn escape_block(text: &str) -> String {
    escape::block(text).into_owned()
}

pub fn escape_json(text: &str) -> String {
    escape::json(text).into_owned()
}

pub fn escape_json_line(text: &str) -> String {
    escape::json_line(text).into_owned()
}

/// The command these arguments call, or the error as it would be printed: as text and as JSON.
pub fn arguments(arguments: &[OsString]) -> Result<&'static str, [String; 2]> {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(cli.command.name()),
        Err(error) if !error.use_stderr() => Ok("help"),
        Err(error) => Err(printed(&cli::usage_error(&error))),
    }
}

/// Every command with its arguments.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// A line of a batch as header and content, without reading its files.
pub fn batch_line(line: &[u8]) -> Result<(Send, Content), [String; 2]> {
    let line = batch::parse_line(line).map_err(|error| printed(&error))?;
    line.without_files().map_err(|error| printed(&error.into()))
}

pub fn recipients(text: &str) -> Result<Vec<Address>, [String; 2]> {
    draft::parse_recipients(text).map_err(|error| printed(&error))
}

pub fn payload(json: &str) -> Result<Content, [String; 2]> {
    let payload =
        Some(poste_verbs::draft::parse_json("payload", json.to_owned()).map_err(|error| printed(&error.into()))?);
    Ok(Content { subject: "payload".to_owned(), payload, ..Content::default() })
}

pub fn number(text: &str) -> Result<MessageNo, String> {
    cli::number(text)
}

pub fn position(text: &str) -> Result<Position, String> {
    cli::position(text)
}

/// A time in every style.
pub fn moment(at: Timestamp, now: Timestamp) -> Vec<String> {
    [TimeStyle::Relative, TimeStyle::Iso, TimeStyle::Unix]
        .into_iter()
        .flat_map(|style| [style.format(at, now), style.since(at, now)])
        .collect()
}

/// A message fenced for a model, and the nonce of the fence.
pub fn fenced(message: &MessageView, fresh: impl FnMut() -> String) -> (String, String) {
    let nonce = fence::nonce_for(message, fresh);
    (fence::fenced(message, &nonce), nonce)
}

fn printed(error: &CommandError) -> [String; 2] {
    [error.lines(false).join("\n"), error.lines(true).join("\n")]
}
