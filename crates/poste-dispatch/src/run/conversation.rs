//! Which conversation of its program an agent goes on with. A matter of this machine, as the conversations are.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use poste_core::text::Name;
use serde::{Deserialize, Serialize};

use super::folder::{RUNS, RunFolder};

const FOLDER: &str = ".conversations";
/// So many failures in a row, and it is better to begin anew.
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

fn path(office: &Path, agent: &Name) -> PathBuf {
    office.join(RUNS).join(FOLDER).join(format!("{agent}.json"))
}

/// The one to go on with, if it is of this program in this folder.
pub(crate) fn last(office: &Path, agent: &Name, runner: &str, folder: &Path) -> Option<Conversation> {
    let found: Conversation = serde_json::from_slice(&fs::read(path(office, agent)).ok()?).ok()?;
    (found.runner == runner && found.folder == folder).then_some(found)
}

/// Remembers it; where that fails, the next one begins anew, and nothing else is lost.
pub(crate) fn keep(office: &Path, agent: &Name, conversation: &Conversation) {
    let path = path(office, agent);
    if let Some(above) = path.parent() {
        let _ = fs::DirBuilder::new().mode(0o700).create(above);
    }
    let fresh = path.with_extension("new");
    let written = serde_json::to_vec(conversation).map_err(std::io::Error::from);
    if written.and_then(|bytes| RunFolder::write(&fresh, &bytes)).is_ok() {
        let _ = fs::rename(fresh, path);
    }
}

/// A run that went on with it failed: it may be the conversation itself that is gone, or broken.
pub(crate) fn failed(office: &Path, agent: &Name, mut conversation: Conversation, said: &str) {
    let said = said.to_lowercase();
    let is_gone = ["no conversation found", "session not found", "no session", "no rollout found", "invalid session"];
    conversation.failures += 1;
    if conversation.failures >= FAILURES_MAX || is_gone.iter().any(|words| said.contains(words)) {
        let _ = fs::remove_file(path(office, agent));
    } else {
        keep(office, agent, &conversation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_gone_is_forgotten_and_one_of_another_folder_is_not_taken() {
        let office = tempfile::tempdir().unwrap();
        fs::create_dir(office.path().join(RUNS)).unwrap();
        let agent: Name = "coder".parse().unwrap();
        let own = Conversation { id: "c".into(), runner: "claude-code".into(), folder: "/x".into(), failures: 0 };
        let find = |runner: &str, folder: &str| last(office.path(), &agent, runner, Path::new(folder));
        keep(office.path(), &agent, &own);
        assert_eq!(find("claude-code", "/x"), Some(own.clone()));
        assert_eq!((find("codex", "/x"), find("claude-code", "/y")), (None, None));
        failed(office.path(), &agent, own.clone(), "some error");
        let once = find("claude-code", "/x").expect("one failure is nothing");
        failed(office.path(), &agent, once, "some error");
        assert_eq!(find("claude-code", "/x"), None);
        keep(office.path(), &agent, &own);
        failed(office.path(), &agent, own, "No conversation found with session ID: c");
        assert_eq!(find("claude-code", "/x"), None);
    }
}
