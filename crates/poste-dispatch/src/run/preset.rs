//! What each program needs: its arguments, its input, where its answer is, and how to resume a conversation.

use poste_config::{AgentConfig, AnswerBy, Input, Preset};

/// The values of the placeholders in a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    pub agent: String,
    pub number: String,
    pub run: String,
    pub office: String,
    pub folder: String,
    /// The prompt itself.
    pub message: String,
    pub prompt_file: String,
    pub answer_file: String,
    pub conversation: Option<String>,
}

impl Templates {
    /// The arguments with their placeholders filled in. An argument with `{conversation}` is left out when there is
    /// none, and so is an option right before it.
    pub(crate) fn fill(&self, words: &[String]) -> Vec<String> {
        let mut filled: Vec<String> = Vec::new();
        for word in words {
            if word.contains(CONVERSATION) && self.conversation.is_none() {
                if word == CONVERSATION && filled.last().is_some_and(|before| before.starts_with('-')) {
                    filled.pop();
                }
                continue;
            }
            filled.push(self.fill_word(word));
        }
        filled
    }

    /// In one pass: filled-in text is never scanned again, so a message cannot use a placeholder.
    fn fill_word(&self, word: &str) -> String {
        let named = |name: &str| {
            Some(match name {
                "agent" => &self.agent,
                "number" => &self.number,
                "run" => &self.run,
                "office" => &self.office,
                "folder" => &self.folder,
                "message" => &self.message,
                "prompt_file" => &self.prompt_file,
                "answer_file" => &self.answer_file,
                "conversation" => self.conversation.as_ref()?,
                _ => return None,
            })
        };
        let mut text = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            match after.split_once('}').and_then(|(name, rest)| Some((named(name)?, rest))) {
                Some((value, left)) => {
                    text.push_str(value);
                    rest = left;
                }
                None => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text + rest
    }
}

const CONVERSATION: &str = "{conversation}";

/// How one agent is run: its configuration, with the defaults of its preset.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    pub words: Vec<String>,
    pub input: Input,
    pub answer: AnswerBy,
    /// Variables the program cannot do without.
    pub environment: &'static [&'static str],
}

/// What every program that asks a model over the network may need.
const NETWORK: [&str; 8] = [
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
];

pub(crate) fn ways(config: &AgentConfig) -> Ways {
    let (arguments, input, answer) = known(config.preset);
    let program = config.preset.program().into_iter();
    let of_preset = || program.chain(arguments.iter().copied()).map(str::to_owned).collect();
    let mut words: Vec<String> = config.run.clone().unwrap_or_else(of_preset);
    if let (Some(program), Some(copy)) = (words.first_mut(), &config.copy) {
        program.clone_from(copy);
    }
    let environment = config.preset.environment();
    Ways { words, input: config.input.unwrap_or(input), answer: config.answer.unwrap_or(answer), environment }
}

pub(crate) fn network(preset: Preset) -> &'static [&'static str] {
    if preset == Preset::Command { &[] } else { &NETWORK }
}

/// Its arguments, its input, and where its answer is.
fn known(preset: Preset) -> (&'static [&'static str], Input, AnswerBy) {
    match preset {
        Preset::ClaudeCode => {
            (&["-p", "--output-format", "json", "--resume", "{conversation}"], Input::Stdin, AnswerBy::Stdout)
        }
        // `resume` and its id are separate arguments, which `resumed` inserts.
        Preset::Codex => (
            &["exec", "--json", "--skip-git-repo-check", "--output-last-message", "{answer_file}", "-"],
            Input::Stdin,
            AnswerBy::File,
        ),
        Preset::Gemini => {
            (&["--output-format", "json", "--resume", "{conversation}", "-p", ""], Input::Stdin, AnswerBy::Stdout)
        }
        Preset::OpenCode => {
            (&["run", "--format", "json", "--session", "{conversation}"], Input::Stdin, AnswerBy::Stdout)
        }
        Preset::Aider => (
            &[
                "--yes-always",
                "--no-pretty",
                "--no-stream",
                "--no-check-update",
                // It confirms every question, so it would open web pages and fetch URLs that a message names.
                "--no-show-release-notes",
                "--no-show-model-warnings",
                "--no-detect-urls",
                "--no-analytics",
                "--llm-history-file",
                "{answer_file}",
                "--message-file",
                "{prompt_file}",
            ],
            Input::File,
            AnswerBy::File,
        ),
        Preset::Command => (&[], Input::Stdin, AnswerBy::Stdout),
    }
}

/// Inserts the arguments that resume a conversation, where an option is not enough.
pub(crate) fn resumed(config: &AgentConfig, words: &mut Vec<String>, conversation: Option<&str>) {
    let Some(conversation) = conversation.filter(|_| config.run.is_none()) else { return };
    match config.preset {
        Preset::Codex => {
            // `codex exec resume ID … -`: the id comes before the prompt.
            words.insert(2, "resume".to_owned());
            let at = words.len() - 1;
            words.insert(at, conversation.to_owned());
        }
        // aider has one history per folder and no ids.
        Preset::Aider => words.insert(1, "--restore-chat-history".to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn templates_are_filled_once_and_never_in_filled_in_text() {
        let templates = Templates {
            agent: "coder".to_owned(),
            message: "{agent} {number}".to_owned(),
            conversation: Some("abc".to_owned()),
            ..Templates::default()
        };
        let filled = templates.fill(&words(&["x", "--as={agent}", "{message}", "{what}", "{", "-r", "{conversation}"]));
        assert_eq!(filled, ["x", "--as=coder", "{agent} {number}", "{what}", "{", "-r", "abc"]);
    }

    #[test]
    fn without_a_conversation_its_arguments_are_left_out() {
        let templates = Templates::default();
        let filled = templates.fill(&words(&["claude", "-p", "--resume", "{conversation}", "--x={conversation}", "y"]));
        assert_eq!(filled, ["claude", "-p", "y"]);
    }
}
