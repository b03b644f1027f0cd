//! The real agent programs against a scripted model.

use std::process::Command;

use crate::npm::{self, NODE, Package};
use crate::{Result, cargo, ensure, python, step, target};

/// The versions are also in `crates/poste-agents/src/programs.rs`, which looks for these folders.
const PROGRAMS: [(&str, Package); 4] = [
    (
        "claude-code",
        Package { folder: "agents/claude-code-2.1.325", name: "@anthropic-ai/claude-code", version: "2.1.325" },
    ),
    ("codex", Package { folder: "agents/codex-0.166.0", name: "@openai/codex", version: "0.166.0" }),
    ("gemini", Package { folder: "agents/gemini-0.61.0", name: "@google/gemini-cli", version: "0.61.0" }),
    ("opencode", Package { folder: "agents/opencode-1.18.33", name: "opencode-ai", version: "1.18.33" }),
];

/// Its name, its folder, its version.
const AIDER: (&str, &str, &str) = ("aider", "agents/aider-0.86.2", "0.86.2");

pub fn run(arguments: &[&str]) -> Result {
    for (program, package) in [("git", "git"), ("tmux", "tmux")] {
        ensure(program, package)?;
    }
    let named = |word: &str| arguments.contains(&word);
    let some = named(AIDER.0) || PROGRAMS.iter().any(|(word, _)| named(word));
    let wanted = PROGRAMS.iter().filter(|(word, _)| !some || named(word)).map(|(_, package)| *package);
    npm::install(&[NODE].into_iter().chain(wanted).collect::<Vec<_>>())?;
    if !some || named(AIDER.0) {
        python::install(AIDER.1, "aider-chat", AIDER.2)?;
    }
    let build = ["build", "--locked", "--package", "poste", "--package", "poste-agents"];
    step("building the programs", cargo().args(build))?;
    let program = target()?.join("debug/poste-agents");
    step("agents", Command::new(program).arg("--tools").arg(npm::tools()?).args(arguments))
}
