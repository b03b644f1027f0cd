//! The prompt of a program: its name, its mail, fenced as data, and what to do with it.

use std::fmt::Write as _;

use poste_config::{AgentConfig, AnswerBy, Mode};
use poste_core::text::Name;
use poste_core::views::MessageView;

/// The prompt for a batch of messages; with none, to look through the inbox.
pub(crate) fn prompt(
    agent: &Name,
    config: &AgentConfig,
    answer: AnswerBy,
    messages: &[MessageView],
    fenced: impl Fn(&MessageView) -> String,
    answer_file: &str,
) -> String {
    let mut text = String::new();
    let role = config.role.as_ref().map(|role| format!(", {role}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "You are {agent}{role}, an agent of this project. Your mail is kept by Poste (the command `poste`)."
    );
    if let Some(prompt) = &config.prompt {
        let _ = writeln!(text, "\n{}", prompt.trim());
    }
    match messages {
        [] => {
            let _ = writeln!(
                text,
                "\nYou were started to look through your inbox: `poste inbox`. Take what you can do (`poste claim`), and finish each \
                 message (`poste done N --summary TEXT`, `poste reply N TEXT --done`, or `poste fail N --reason TEXT`)."
            );
            return text;
        }
        [_] => text.push_str("\nYou have this message, and nobody else works on it:\n"),
        several => {
            let _ = writeln!(text, "\nYou have these {} messages, and nobody else works on them:", several.len());
        }
    }
    for message in messages {
        let _ = writeln!(text, "\n{}", fenced(message));
    }
    let numbers: Vec<String> = messages.iter().map(|message| message.number.to_string()).collect();
    text.push('\n');
    match answer {
        AnswerBy::Stdout => {
            let whom = senders(messages);
            let _ = writeln!(
                text,
                "Do what it asks, then answer: your last message is sent to {whom} as the response, and ends the work."
            );
        }
        AnswerBy::File => {
            let whom = senders(messages);
            let _ = writeln!(text, "Do what it asks. Your answer goes to {whom}; it is read from {answer_file}.");
        }
        AnswerBy::Poste => {
            let _ = writeln!(
                text,
                "Do what it asks, and finish it yourself, with the tools or the command of Poste: {}.",
                numbers
                    .iter()
                    .map(|number| format!("`poste reply {number} TEXT --done` or `poste done {number} --summary TEXT`"))
                    .collect::<Vec<_>>()
                    .join("; ")
            );
        }
    }
    // A subagent's own name holds no message, so it cannot end one.
    if config.mode == Mode::Subagent {
        text.push_str("If you cannot do it, answer with the reason.\n");
        return text;
    }
    let _ = writeln!(text, "If you cannot do it, say so with `poste fail {} --reason TEXT`.", numbers.join(" or "));
    text
}

fn senders(messages: &[MessageView]) -> String {
    let mut names: Vec<&str> = messages.iter().map(|message| message.from.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
