//! Which conversation of its program an agent resumes. Local to this machine, like the conversations.

use std::path::{Path, PathBuf};

use poste_core::text::Name;
use serde::{Deserialize, Serialize};

use super::folder;

const FOLDER: &str = ".conversations";
const ID_BYTES_MAX: usize = 128;
const BYTES_MAX: u64 = 64 * 1024;
/// After this many failures in a row, the next run starts a new conversation.
const FAILURES_MAX: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub id: String,
    pub runner: String,
    /// Programs keep their conversations by folder.
    pub folder: PathBuf,
    #[serde(default)]
    pub failures: u32,
}

/// An id becomes an argument, so it must be short and must not look like an option or a path.
pub(crate) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    text.len() <= ID_BYTES_MAX
        && text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Makes the next run start a new conversation.
pub(crate) fn forget(office: &Path, agent: &Name) {
    let _ = folder::existing(office, FOLDER).and_then(|folder| folder.clear(file(agent)));
}

fn file(agent: &Name) -> String {
    format!("{agent}.json")
}

/// The conversation to resume, if it is of this program in this folder.
pub(crate) fn last(office: &Path, agent: &Name, runner: &str, works_in: &Path) -> Option<Conversation> {
    let bytes = folder::existing(office, FOLDER).and_then(|folder| folder.read(file(agent), BYTES_MAX)).ok()?;
    let found: Conversation = serde_json::from_slice(&bytes).ok()?;
    (found.runner == runner && found.folder == works_in && is_id(&found.id)).then_some(found)
}

/// Remembers it. If that fails, the next run starts a new conversation, and nothing else is lost.
pub(crate) fn keep(office: &Path, agent: &Name, conversation: &Conversation) {
    if let Ok(bytes) = serde_json::to_vec(conversation) {
        let _ = folder::make(office, FOLDER).and_then(|folder| folder.replace_unsynced(file(agent), &bytes));
    }
}

/// A run that resumed it failed: the conversation itself may be missing or broken.
pub(crate) fn failed(office: &Path, agent: &Name, mut conversation: Conversation, said: &str) {
    let said = said.to_lowercase();
    let is_gone = ["no conversation found", "session not found", "no session", "no rollout found", "invalid session"];
    conversation.failures += 1;
    if conversation.failures >= FAILURES_MAX || is_gone.iter().any(|words| said.contains(words)) {
        forget(office, agent);
    } else {
        keep(office, agent, &conversation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_conversation_is_forgotten_and_another_folders_is_not_resumed() {
        let office = tempfile::tempdir().unwrap();
        let agent: Name = "coder".parse().unwrap();
        let own = Conversation { id: "c".into(), runner: "claude-code".into(), folder: "/x".into(), failures: 0 };
        let find = |runner: &str, folder: &str| last(office.path(), &agent, runner, Path::new(folder));
        keep(office.path(), &agent, &own);
        assert_eq!(find("claude-code", "/x"), Some(own.clone()));
        assert_eq!((find("codex", "/x"), find("claude-code", "/y")), (None, None));
        failed(office.path(), &agent, own.clone(), "some error");
        let once = find("claude-code", "/x").expect("kept after one failure");
        failed(office.path(), &agent, once, "some error");
        assert_eq!(find("claude-code", "/x"), None);
        keep(office.path(), &agent, &own);
        failed(office.path(), &agent, own, "No conversation found with session ID: c");
        assert_eq!(find("claude-code", "/x"), None);
    }

    #[test]
    fn only_a_plain_word_is_an_id() {
        for id in ["0a1b-2c", "ses_01H:x.y", "folder"] {
            assert!(is_id(id), "{id}");
        }
        for odd in ["", "--dangerously-skip-permissions", "-r", ".hidden", "a b", "a/b", "ü", &"x".repeat(129)] {
            assert!(!is_id(odd), "{odd}");
        }
    }
}
