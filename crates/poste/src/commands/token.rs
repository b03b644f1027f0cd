use std::io::{self, Write};

use poste_config::token;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Make, list and revoke tokens of a person
///
/// Some commands are reserved for people: registering one, trusting files, approving, lifting holds. At a terminal they
/// ask for a typed word, if for anything. Where there is none, as in CI, a token proves that a person is behind the
/// command. Keep it in a file that only you can read, outside every project, and name that file in POSTE_TOKEN_FILE. No
/// agent gets that variable.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste token person > ~/poste-token && chmod 600 ~/poste-token\n  \
                        POSTE_TOKEN_FILE=~/poste-token poste approve 12 --as anna\n  poste token list\n  \
                        poste token revoke 5f3a9c01")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Make a token and print it once
    #[command(after_help = "Example:\n  poste token person > ~/poste-token && chmod 600 ~/poste-token")]
    Person,
    /// List the tokens that are valid
    #[command(after_help = "Example:\n  poste token list")]
    List,
    /// Revoke a token
    #[command(after_help = "Example:\n  poste token revoke 5f3a9c01")]
    Revoke {
        /// Id of the token
        id: String,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Made {
    /// Its name in `poste token list`.
    pub id: String,
    /// The token. It cannot be shown again.
    pub token: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tokens {
    pub tokens: Vec<TokenView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenView {
    pub id: String,
    #[serde(serialize_with = "poste_core::time::rfc3339")]
    pub made_at: poste_core::Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Revoked {
    pub id: String,
}

impl Answer for Made {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.token)
    }
}

impl Answer for Tokens {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.tokens.iter().map(|token| vec![token.id.clone(), ui.time(token.made_at)]);
        ui.lines(out, &["TOKEN", "MADE"], rows.collect())
    }
}

impl Answer for Revoked {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "revoked {}", self.id)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        TokenCommand::Person => {
            cx.confirm("make a token that speaks as a person", "person")?;
            let (made, text) = token::make(cx.wall())?;
            let id = made.id;
            cx.ui.answer(&Made { id: id.clone(), token: text })?;
            cx.ui.say(format!("keep it in a file that only you can read; revoke it: poste token revoke {id}"));
            Ok(())
        }
        TokenCommand::List => {
            let tokens: Vec<TokenView> =
                token::list()?.into_iter().map(|token| TokenView { id: token.id, made_at: token.made_at }).collect();
            if tokens.is_empty() {
                cx.ui.say("no tokens; make one: poste token person");
            }
            cx.ui.answer(&Tokens { tokens })
        }
        TokenCommand::Revoke { id } => match token::revoke(&id)? {
            true => cx.ui.answer(&Revoked { id }),
            false => Err(CommandError::not_found(format!("there is no token {}", poste_core::text::quoted(&id)))
                .hint("list them: poste token list")),
        },
    }
}
