//! The folders that a caller may read, whatever a record names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use poste_core::store::artifact::{Files, Worktree};

/// A repository `main` with a linked worktree `linked`, and a folder `outside` of both.
struct Site {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for made in ["main/.poste/blobs", "main/src", "outside"] {
        fs::create_dir_all(root.join(made)).unwrap();
    }
    let site = Site { _folder: folder, root };
    for name in ["main/a.txt", "main/src/a.txt", "outside/a.txt"] {
        fs::write(site.path(name), name).unwrap();
    }
    site.git("main", &["init", "-q"]);
    site.git("main", &["add", "a.txt"]);
    site.git("main", &["commit", "-qm", "first"]);
    site.git("main", &["worktree", "add", "-q", "../linked"]);
    site
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn git(&self, folder: &str, words: &[&str]) {
        let ran = Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@x"])
            .args(words)
            .current_dir(self.path(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git is needed for this test");
        assert!(ran.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn files(&self, name: &str) -> Files {
        Files::open(&self.path(name), &self.path("main/.poste")).unwrap()
    }

    fn is_open(&self, files: &Files, name: &str) -> bool {
        let found = files.folder(&self.path(name));
        found.inspect(|tree| assert_eq!(tree.root(), self.path(name))).is_some()
    }
}

#[test]
fn the_worktrees_of_a_repository_are_open_to_each_other() {
    let site = site();
    site.git("main", &["worktree", "add", "-q", "../other"]);
    for own in ["main", "linked"] {
        let files = site.files(own);
        for name in ["main", "linked", "other"] {
            assert!(site.is_open(&files, name), "{name} from {own}");
        }
        assert!(!site.is_open(&files, "outside") && !site.is_open(&files, ""), "from {own}");
    }
    // A worktree that is added later is found, and a removed one is no longer open.
    let files = site.files("main");
    site.git("main", &["worktree", "add", "-q", "../late"]);
    site.git("main", &["worktree", "remove", "../other"]);
    fs::create_dir(site.path("other")).unwrap();
    assert!(site.is_open(&files, "late") && !site.is_open(&files, "other"));
}

#[test]
fn a_folder_below_the_worktree_is_open_by_its_own_name_only() {
    let site = site();
    let files = site.files("main");
    symlink(site.path("outside"), site.path("main/out")).unwrap();
    symlink("src", site.path("main/link")).unwrap();
    symlink(".poste", site.path("main/office")).unwrap();
    assert!(site.is_open(&files, "main/src"));
    let closed = ["main/out", "main/link", "main/a.txt", "main/missing", "main/.poste", "main/.poste/blobs"];
    let tricks = ["main/office/blobs", "main/../outside", "main/src/../.poste", "linked/src"];
    for name in closed.into_iter().chain(tricks) {
        assert!(files.folder(&site.path(name)).is_none(), "{name}");
    }
    for name in ["", ".", "main", "/"] {
        assert!(files.folder(Path::new(name)).is_none(), "{name}");
    }
    assert!(Files::none().folder(&site.path("main")).is_none());
}

#[test]
fn a_folder_cannot_claim_to_belong_to_a_repository() {
    let site = site();
    let link = fs::read_to_string(site.path("linked/.git")).unwrap();
    // The folder claims to be a worktree of the repository, but the repository names another folder.
    fs::write(site.path("outside/.git"), &link).unwrap();
    let files = site.files("outside");
    assert!(!site.is_open(&files, "main") && !site.is_open(&files, "linked"));
    fs::remove_file(site.path("outside/.git")).unwrap();
    symlink(site.path("main/.git"), site.path("outside/.git")).unwrap();
    let files = site.files("outside");
    assert!(site.is_open(&files, "outside") && !site.is_open(&files, "main"));
    fs::remove_file(site.path("outside/.git")).unwrap();
    // The reverse: the repository names a folder that does not refer to it.
    let forged = site.path("main/.git/worktrees/forged");
    fs::create_dir(&forged).unwrap();
    fs::write(forged.join("gitdir"), format!("{}\n", site.path("outside/.git").display())).unwrap();
    for git in [None, Some(link.as_str())] {
        git.inspect(|text| fs::write(site.path("outside/.git"), text).unwrap());
        assert!(!site.is_open(&site.files("main"), "outside"), "{git:?}");
    }
}

#[test]
fn a_submodule_shares_the_worktrees_around_it() {
    let site = site();
    fs::create_dir_all(site.path("main/.git/modules/lib")).unwrap();
    fs::create_dir(site.path("main/lib")).unwrap();
    fs::write(site.path("main/lib/.git"), "gitdir: ../.git/modules/lib\n").unwrap();
    let files = site.files("main/lib");
    for name in ["main/lib", "main", "linked"] {
        assert!(site.is_open(&files, name), "{name}");
    }
    assert!(site.is_open(&site.files("main"), "main/lib"));
}

#[test]
fn an_open_folder_stays_what_it_was_whatever_takes_its_name() {
    let site = site();
    let tree = Worktree::open(&site.path("main")).unwrap();
    fs::rename(site.path("main"), site.path("moved")).unwrap();
    symlink(site.path("outside"), site.path("main")).unwrap();
    let seen = tree.look(Path::new("a.txt"), false).unwrap();
    assert_eq!(seen.size, "main/a.txt".len() as u64, "not the file of the same name in outside");
    assert!(tree.present(tree.root(), Path::new("a.txt")).is_err(), "its name points to another folder now");
}
