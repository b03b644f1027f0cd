//! A git worktree for one agent, so that several can change files of one project at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use poste_core::Foreign;
use poste_core::store::Folder;
use poste_core::store::artifact::Repository;
use poste_core::store::folder::Kind;
use poste_core::text::Name;
use poste_run::{Environment, Finished, Output, StartError, Task};

/// The folder of all worktrees, in the office, with one for each agent.
pub const WORKTREES: &str = "worktrees";
const GIT_LIMIT: Duration = Duration::from_secs(600);

/// Runs a git command under the guard of the run.
pub(crate) type Runs<'a> = &'a mut dyn FnMut(&mut Task) -> Result<Finished, StartError>;

/// The worktree of an agent: the existing one, or a new one on a branch with its name. A new one is made under a
/// temporary name and moved when it is complete, so that a crash leaves nothing that looks like a worktree.
pub(crate) fn of(office: &Path, project: &Path, agent: &Name, runs: Runs<'_>) -> Result<PathBuf, String> {
    let above = office.join(WORKTREES);
    let failed = |failed| format!("{}: {failed}", above.display());
    let folder_above = Folder::open(office).and_then(|office| office.make(WORKTREES)).map_err(failed)?;
    let path = above.join(agent.as_str());
    let folder = path.to_str().ok_or("the path of the office is not UTF-8")?;
    let existing = folder_above.entry(agent.as_str()).map_err(failed)?;
    if existing.as_ref().is_some_and(|existing| existing.kind == Kind::Link) {
        return Err(format!("{} is a link; remove it", path.display()));
    }
    if existing.is_some() && path.join(".git").exists() {
        // If a process was killed right after the move, git does not know the new place and would prune the worktree.
        if Repository::of(&path).is_none() {
            git(project, &["worktree", "repair", folder], runs)?;
        }
        return Ok(path);
    }
    must_run_nothing(project, runs)?;
    let aside = aside(&above, agent);
    let fresh = aside.to_str().ok_or("the path of the office is not UTF-8")?;
    if aside.symlink_metadata().is_ok() {
        // It is locked if git was killed in the middle, and removing that takes `--force` twice.
        let _ = git(project, &["worktree", "remove", "--force", "--force", fresh], runs);
        folder_above.clear(aside.file_name().unwrap_or_default()).map_err(failed)?;
    }
    let _ = git(project, &["worktree", "unlock", fresh], runs);
    // The records of a worktree that was deleted by hand are in the way.
    git(project, &["worktree", "prune"], runs)?;
    let branch = format!("poste/{agent}");
    let has_branch = git(project, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")], runs).is_ok();
    match has_branch {
        true => git(project, &["worktree", "add", fresh, &branch], runs)?,
        false => git(project, &["worktree", "add", "-b", &branch, fresh], runs)?,
    }
    git(project, &["worktree", "move", fresh, folder], runs)?;
    Ok(path)
}

/// No agent can have this name.
fn aside(above: &Path, agent: &Name) -> PathBuf {
    above.join(format!(".{agent}.new"))
}

/// Refuses a repository whose own configuration names programs that a checkout would run: an agent that writes files
/// could have named them.
fn must_run_nothing(project: &Path, runs: Runs<'_>) -> Result<(), String> {
    let mut task = git_task(project, &["config", "--includes", "--name-only", "--get-regexp", "^filter\\."]);
    let mut environment = git_environment();
    environment.set("GIT_CONFIG_GLOBAL", "/dev/null").set("GIT_CONFIG_SYSTEM", "/dev/null");
    match runs(task.environment(environment)) {
        Ok(found) if found.passed() => {
            let names = found.stdout.text();
            let first = Foreign::name(names.lines().next().unwrap_or_default()).to_string();
            Err(format!("the repository sets {first}, which a checkout would run; set it with git config --global"))
        }
        Ok(_) => Ok(()), // none, or no repository: what follows says so
        Err(error) => Err(format!("git config: {error}")),
    }
}

fn git_environment() -> Environment {
    let mut environment = Environment::default();
    environment.set("GIT_NO_LAZY_FETCH", "1");
    environment
}

/// Git without what a repository can make it run.
fn git_task(project: &Path, words: &[&str]) -> Task {
    let safely = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false"];
    let options = safely.iter().flat_map(|option| ["-c", option]);
    let mut task = Task::new("git", options.chain(words.iter().copied()));
    task.apart_from(project).environment(git_environment());
    task.folder(project).limit(GIT_LIMIT).output(Output::Together);
    task
}

fn git(project: &Path, words: &[&str], runs: Runs<'_>) -> Result<(), String> {
    let mut task = git_task(project, words);
    let what = || format!("git {}", words.iter().take(2).copied().collect::<Vec<_>>().join(" "));
    match runs(&mut task) {
        Ok(finished) if finished.passed() => Ok(()),
        Ok(finished) => Err(format!("{}: {}", what(), finished.stdout.text().trim())),
        Err(error) => Err(format!("{}: {error}", what())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sure(project: &Path, words: &[&str]) -> String {
        let ran = std::process::Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@x"])
            .args(words)
            .current_dir(project)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn project() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let office = folder.path().join(".poste");
        fs::create_dir(&office).unwrap();
        sure(folder.path(), &["init", "-q"]);
        fs::write(folder.path().join("file"), "text").unwrap();
        sure(folder.path(), &["add", "file"]);
        sure(folder.path(), &["commit", "-qm", "first"]);
        (folder, office)
    }

    #[test]
    fn a_half_made_worktree_is_made_again() {
        let (folder, office) = project();
        let agent: Name = "coder".parse().unwrap();
        let half = aside(&office.join(WORKTREES), &agent);
        // As git leaves it when it is killed: known, locked, on the branch, and empty.
        let words = ["worktree", "add", "-q", "--lock", "--no-checkout", "-b", "poste/coder", half.to_str().unwrap()];
        sure(folder.path(), &words);
        let made = of(&office, folder.path(), &agent, &mut |task| task.run()).unwrap();
        assert_eq!(fs::read_to_string(made.join("file")).unwrap(), "text");
        assert_eq!(sure(&made, &["status", "--porcelain"]), "");
        assert!(!half.exists() && Repository::of(&made).is_some());
    }

    #[test]
    fn a_worktree_that_only_git_remembers_is_made_again() {
        let (folder, office) = project();
        let agent: Name = "coder".parse().unwrap();
        let half = aside(&office.join(WORKTREES), &agent);
        let words = ["worktree", "add", "-q", "--lock", "-b", "poste/coder", half.to_str().unwrap()];
        sure(folder.path(), &words);
        fs::remove_dir_all(&half).unwrap();
        let made = of(&office, folder.path(), &agent, &mut |task| task.run()).unwrap();
        assert_eq!(sure(&made, &["status", "--porcelain"]), "");
    }

    #[test]
    fn a_moved_worktree_unknown_to_git_is_repaired() {
        let (folder, office) = project();
        let agent: Name = "coder".parse().unwrap();
        let path = office.join(WORKTREES).join("coder");
        let half = aside(&office.join(WORKTREES), &agent);
        sure(folder.path(), &["worktree", "add", "-q", "-b", "poste/coder", half.to_str().unwrap()]);
        fs::rename(&half, &path).unwrap();
        fs::write(path.join("work"), "of hours").unwrap();
        assert!(Repository::of(&path).is_none());
        assert_eq!(of(&office, folder.path(), &agent, &mut |task| task.run()).unwrap(), path);
        sure(folder.path(), &["worktree", "prune"]);
        assert_eq!(sure(&path, &["status", "--porcelain"]), "?? work\n");
    }
}
