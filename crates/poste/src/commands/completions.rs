use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::cli::Cli;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste completions bash > ~/.local/share/bash-completion/completions/poste\n  \
                        poste completions zsh > ~/.zfunc/_poste\n  \
                        poste completions fish > ~/.config/fish/completions/poste.fish")]
pub(crate) struct Args {
    /// Shell to print completions for
    shell: Shell,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompletionsAnswer {
    pub shell: String,
    pub script: String,
}

impl Answer for CompletionsAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.script.as_bytes())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "poste", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    cx.ui.answer(&CompletionsAnswer { shell: args.shell.to_string(), script })
}
