//! The changes of a git worktree: what is staged, pushed or committed, as paths from the top of the repository.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use poste_core::pattern::Touched;
use poste_core::store::discover::repository_top;
use poste_verbs::{Error, Kind, Result};

use super::git::{Change, Git, changes, word};
use super::real;

/// A worktree whose changes are checked.
#[derive(Debug)]
pub struct Checkout {
    git: Git,
    /// With links resolved.
    top: PathBuf,
    /// The path of this repository within the outer one, if it is a submodule.
    inside: Vec<u8>,
}

impl Checkout {
    /// The worktree of a folder. Without git, only paths that are named can be checked.
    pub fn of(folder: &Path) -> Self {
        let top = Git::top(folder).unwrap_or_else(|_| folder.to_owned());
        let around = repository_top(&top).unwrap_or_else(|| top.clone());
        let inside = top.strip_prefix(&around).map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default();
        Self { git: Git::in_folder(&top), top: real(&top), inside }
    }

    /// The top of the worktree, with links resolved.
    pub fn top(&self) -> &Path {
        &self.top
    }

    fn touched(&self, changes: impl IntoIterator<Item = Change>) -> Vec<Touched> {
        let distinct: BTreeSet<Change> = changes.into_iter().collect();
        let touched = distinct.into_iter().map(|change| {
            let path = match self.inside.is_empty() {
                true => change.path,
                false => [self.inside.as_slice(), b"/", &change.path].concat(),
            };
            if change.is_module { Touched::folder(&path) } else { Touched::file(&path) }
        });
        touched.collect()
    }

    /// The paths that would be committed. In a merge, only those that differ from every parent: the rest was committed
    /// before.
    pub fn staged(&self) -> Result<Vec<Touched>> {
        let mut parents = vec![self.head()?];
        let merging = self.git.path(&["rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD"])?;
        let merging = fs::read_to_string(merging).unwrap_or_default();
        parents.extend(merging.lines().filter(|line| is_id(line.as_bytes())).map(|line| line.as_bytes().to_vec()));
        let mut common: Option<BTreeSet<Change>> = None;
        for parent in &parents {
            let arguments = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff"].map(OsStr::new);
            let arguments = [&arguments[..], &[word(parent), OsStr::new("--")]].concat();
            let found: BTreeSet<Change> = changes(&self.git.ask(&arguments)?)?.into_iter().collect();
            common = Some(match common {
                Some(common) => common.intersection(&found).cloned().collect(),
                None => found,
            });
        }
        Ok(self.touched(common.unwrap_or_default()))
    }

    /// The commit that changes are compared with; before the first commit, the empty tree.
    fn head(&self) -> Result<Vec<u8>> {
        let head = self.git.ask(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"].map(OsStr::new));
        let id = match head {
            Ok(id) => id,
            Err(_) => self.git.ask(&["hash-object", "-t", "tree", "--stdin"].map(OsStr::new))?,
        };
        Ok(id.trim_ascii().to_vec())
    }

    /// The paths in pushed commits that the remote does not have and that this committer made. Commits of others do not
    /// count: any agent may push the commits of the one that holds a path.
    pub fn pushed(&self, told: impl BufRead, remote: Option<&str>) -> Result<Vec<Touched>> {
        let own = self.committer();
        let is_own = |email: &[u8]| own.as_ref().is_none_or(|own| own.eq_ignore_ascii_case(email));
        let mut commits = BTreeSet::new();
        for line in told.lines() {
            let line =
                line.map_err(|error| Error::new(Kind::Internal, format!("cannot read the pushed refs: {error}")))?;
            let fields: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let [_, local, _, theirs] = fields.as_slice() else { continue };
            // Deleting a branch pushes no commits.
            if !is_id(local) || is_zero(local) {
                continue;
            }
            let mut arguments: Vec<&OsStr> = ["rev-list", "--format=%H %ce"].map(OsStr::new).to_vec();
            arguments.extend([word(local), OsStr::new("--not")]);
            if is_id(theirs) && !is_zero(theirs) && self.has_commit(theirs) {
                arguments.push(word(theirs));
            }
            let known = remote.map(|remote| format!("--remotes={}/*", literal_glob(remote)));
            arguments.extend(known.as_deref().map(OsStr::new));
            arguments.push(OsStr::new("--"));
            // Before each of these lines git always prints another one: `commit` and the id.
            for line in self.git.ask(&arguments)?.split(|byte| *byte == b'\n') {
                let mut words = line.splitn(2, |byte| *byte == b' ');
                let (id, email) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                if is_id(id) && is_own(email) {
                    commits.insert(id.to_vec());
                }
            }
        }
        self.of_commits(&commits)
    }

    /// The committer address of commits made here. Without one, all commits count as this committer's.
    fn committer(&self) -> Option<Vec<u8>> {
        let ident = self.git.ask(&["var", "GIT_COMMITTER_IDENT"].map(OsStr::new)).ok()?;
        let start = ident.iter().rposition(|byte| *byte == b'<')? + 1;
        let length = ident[start..].iter().position(|byte| *byte == b'>')?;
        Some(ident[start..start + length].to_vec())
    }

    fn has_commit(&self, id: &[u8]) -> bool {
        let object = [id, b"^{commit}"].concat();
        self.git.ask(&[OsStr::new("cat-file"), OsStr::new("-e"), word(&object)]).is_ok()
    }

    pub fn commits_of(&self, range: &str) -> Result<Vec<Touched>> {
        let arguments = ["rev-list", "--end-of-options", range, "--"].map(OsStr::new);
        let found = self.git.ask(&arguments).map_err(|error| {
            Error::usage(format!("{} is not a range of commits", poste_core::text::quoted(range))).cause(error.message)
        })?;
        self.of_commits(&found.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
    }

    /// The paths each commit touches; for a merge, those that differ from every parent.
    fn of_commits(&self, commits: &BTreeSet<Vec<u8>>) -> Result<Vec<Touched>> {
        let input: Vec<u8> =
            commits.iter().filter(|id| is_id(id)).flat_map(|id| [id.as_slice(), b"\n"].concat()).collect();
        if input.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = [
            "diff-tree",
            "--stdin",
            "-r",
            "-c",
            "--root",
            "--no-commit-id",
            "--raw",
            "-z",
            "--no-renames",
            "--no-ext-diff",
        ];
        let raw = self.git.ask_with(&arguments.map(OsStr::new), input)?;
        Ok(self.touched(changes(&raw)?))
    }
}

fn is_id(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

fn is_zero(id: &[u8]) -> bool {
    id.iter().all(|byte| *byte == b'0')
}

/// Escapes a remote's name for use in a git pattern.
fn literal_glob(remote: &str) -> String {
    remote.chars().flat_map(|c| matches!(c, '*' | '?' | '[' | '\\').then_some('\\').into_iter().chain([c])).collect()
}
