//! A git worktree for one agent, so that several can change files of one project at once.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use poste_core::text::Name;
use poste_run::{Output, Task};

/// Below the office, one for each agent.
pub const WORKTREES: &str = "worktrees";
const GIT_LIMIT: Duration = Duration::from_secs(120);

/// The worktree of an agent: the one it has, or a new one on a branch of its name.
pub(crate) fn of(office: &Path, project: &Path, agent: &Name) -> Result<PathBuf, String> {
    let path = office.join(WORKTREES).join(agent.as_str());
    if path.join(".git").exists() {
        return Ok(path);
    }
    let above = office.join(WORKTREES);
    match std::fs::DirBuilder::new().mode(0o700).create(&above) {
        Err(failed) if failed.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(format!("{}: {failed}", above.display()));
        }
        _ => {}
    }
    let branch = format!("poste/{agent}");
    // What a worktree that somebody deleted by hand has left behind is in the way.
    git(project, &["worktree", "prune"])?;
    let has_branch = git(project, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).is_ok();
    let folder = path.to_str().ok_or("the path of the office is no UTF-8")?;
    match has_branch {
        true => git(project, &["worktree", "add", folder, &branch])?,
        false => git(project, &["worktree", "add", "-b", &branch, folder])?,
    }
    Ok(path)
}

fn git(project: &Path, words: &[&str]) -> Result<(), String> {
    let mut task = Task::new("git", words);
    task.folder(project).limit(GIT_LIMIT).output(Output::Together);
    let what = || format!("git {}", words.iter().take(2).copied().collect::<Vec<_>>().join(" "));
    match task.run() {
        Ok(finished) if finished.passed() => Ok(()),
        Ok(finished) => Err(format!("{}: {}", what(), finished.stdout.text().trim())),
        Err(error) => Err(format!("{}: {error}", what())),
    }
}
