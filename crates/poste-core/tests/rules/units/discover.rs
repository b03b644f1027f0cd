//! Which folders count as git worktrees.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use poste_core::store::artifact::Repository;
use poste_core::store::discover::{find, git_top, place, repository_top};

/// Another user, whoever runs the tests.
const OTHER: u32 = 65534;

fn project() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("work/deep")).unwrap();
    (folder, root)
}

#[test]
fn a_git_that_is_neither_file_nor_folder_counts_for_nothing_and_holds_nothing_up() {
    let (_folder, root) = project();
    let git = root.join("work/.git");
    let expect_none = |what: &str| {
        assert_eq!(git_top(&root.join("work/deep")), None, "{what}");
        assert_eq!(repository_top(&root.join("work/deep")), None, "{what}");
        assert_eq!(place(&root.join("work/deep")), root.join("work/deep/.poste"), "{what}");
        assert!(find(&root.join("work")).is_none() && Repository::of(&root.join("work")).is_none(), "{what}");
        fs::remove_file(&git).unwrap();
    };
    rustix::fs::mknodat(rustix::fs::CWD, &git, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    expect_none("a pipe");
    symlink("/dev/zero", &git).unwrap();
    expect_none("a link to a device");
}

#[test]
fn a_git_file_is_read_only_as_far_as_it_can_be_a_path() {
    let (_folder, root) = project();
    fs::create_dir(root.join(".git")).unwrap();
    let git = root.join("work/.git");
    fs::write(&git, "gitdir: ../.git/modules/work\n").unwrap();
    assert_eq!(repository_top(&root.join("work")).as_deref(), Some(root.as_path()));
    fs::write(&git, format!("gitdir: ../.git/modules/{}", "x".repeat(10_000))).unwrap();
    assert_eq!(repository_top(&root.join("work")), Some(root.join("work")));
    // A link to a file is not one that git wrote.
    fs::rename(&git, root.join("named")).unwrap();
    fs::write(root.join("named"), "gitdir: ../.git/modules/work\n").unwrap();
    symlink("../named", &git).unwrap();
    assert_eq!(repository_top(&root.join("work")), Some(root.join("work")));
}

fn give(path: &Path) {
    chown(path, Some(OTHER), None).unwrap();
}

#[test]
fn a_worktree_of_another_user_is_none() {
    if !rustix::process::geteuid().is_root() {
        return; // nobody else can give files away
    }
    let (_folder, root) = project();
    let from = root.join("work/deep");
    for planted in ["folder", "file", "link"] {
        fs::set_permissions(&root, fs::Permissions::from_mode(0o1777)).unwrap();
        let git = root.join(".git");
        match planted {
            "folder" => fs::create_dir(&git).unwrap(),
            "file" => fs::write(&git, "gitdir: elsewhere").unwrap(),
            _ => symlink("work", &git).unwrap(),
        }
        assert_eq!(git_top(&from).as_deref(), Some(root.as_path()), "{planted}");
        std::os::unix::fs::lchown(&git, Some(OTHER), None).unwrap();
        assert_eq!(git_top(&from), None, "{planted}");
        assert_eq!(place(&from), from.join(".poste"), "{planted}");
        std::os::unix::fs::lchown(&git, Some(0), None).unwrap();
        give(&root);
        assert_eq!(git_top(&from), None, "{planted}: the folder is another user's");
        chown(&root, Some(0), None).unwrap();
        if git.symlink_metadata().unwrap().is_dir() { fs::remove_dir(git) } else { fs::remove_file(git) }.unwrap();
    }
}

#[test]
fn a_repository_of_another_user_has_no_office_for_this_one() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_folder, root) = project();
    let linked = root.join("main/.git/worktrees/work");
    fs::create_dir_all(&linked).unwrap();
    fs::create_dir(root.join("main/.poste")).unwrap();
    fs::write(linked.join("gitdir"), format!("{}\n", root.join("work/.git").display())).unwrap();
    fs::write(root.join("work/.git"), format!("gitdir: {}\n", linked.display())).unwrap();
    assert_eq!(find(&root.join("work/deep")), Some(root.join("main/.poste")));
    give(&root.join("main"));
    assert_eq!(find(&root.join("work/deep")), None);
}
