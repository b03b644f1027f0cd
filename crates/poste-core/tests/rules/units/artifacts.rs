//! Files of a worktree: which can be sent, and which changes are noticed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use poste_core::log::{Artifact, ArtifactState};
use poste_core::store::Folder;
use poste_core::store::artifact::{Listed, Worktree, damaged_copies};
use poste_core::store::blobs::Blobs;
use poste_core::{Digest, Error, limits};

fn fixture() -> (tempfile::TempDir, Worktree) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/a.txt"), "hello").unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::write(folder.path().join("secret"), "outside").unwrap();
    let worktree = Worktree::open(&root).unwrap();
    (folder, worktree)
}

#[test]
fn a_regular_file_below_the_root_is_recorded_as_it_is() {
    let (_folder, tree) = fixture();
    let artifact = tree.present(&tree.root().join("src"), Path::new("a.txt")).unwrap();
    assert_eq!(artifact.path, "src/a.txt");
    assert_eq!(artifact.size, Some(5));
    assert_eq!(artifact.digest, Some(Digest::of(b"hello")));
    let again = tree.present(tree.root(), &tree.root().join("src/a.txt")).unwrap();
    assert_eq!(again, artifact);
}

#[test]
fn a_file_is_recorded_by_its_own_name_whatever_it_is_called_by() {
    let (folder, tree) = fixture();
    symlink("a.txt", tree.root().join("src/inside")).unwrap();
    symlink("src", tree.root().join("sources")).unwrap();
    symlink(tree.root(), folder.path().join("into")).unwrap();
    symlink(folder.path(), tree.root().join("out")).unwrap();
    let into = folder.path().join("into/src/a.txt");
    let names = ["src/inside", "sources/a.txt", "sources/inside", "sources/../src/a.txt", "out/tree/src/a.txt"];
    for name in names.map(Path::new).into_iter().chain([into.as_path()]) {
        assert_eq!(tree.present(tree.root(), name).unwrap().path, "src/a.txt", "{}", name.display());
    }
    // `..` after a link leaves the folder that the link points to, not the one it is in.
    assert!(tree.present(tree.root(), Path::new("out/../src/a.txt")).is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_through_a_process_is_the_file_it_leads_to() {
    use std::os::fd::AsRawFd;
    let (_folder, tree) = fixture();
    let inside = fs::File::open(tree.root().join("src")).unwrap();
    let through = |file: &fs::File| format!("/proc/self/fd/{}", file.as_raw_fd());
    let named = format!("{}/a.txt", through(&inside));
    assert_eq!(tree.present(tree.root(), Path::new(&named)).unwrap().path, "src/a.txt");
    let outside = fs::File::open(tree.root().parent().unwrap()).unwrap();
    assert!(tree.present(tree.root(), Path::new(&format!("{}/secret", through(&outside)))).is_err());
}

#[test]
fn everything_else_is_refused_by_name() {
    let (folder, tree) = fixture();
    symlink(folder.path().join("secret"), tree.root().join("leaf")).unwrap();
    symlink(folder.path(), tree.root().join("dir")).unwrap();
    symlink("../secret", tree.root().join("relative-leaf")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.root().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for path in [
        "missing",
        "empty",
        "src",
        "leaf",
        "dir/secret",
        "relative-leaf",
        "pipe",
        "../secret",
        "/etc/passwd",
        "/dev/null",
        "/proc/self/environ",
        "src/../../secret",
        "",
    ] {
        let error = tree.present(tree.root(), Path::new(path)).expect_err(path);
        assert!(matches!(error, Error::Artifact { .. }), "{path}: {error}");
    }
}

#[test]
fn the_files_of_the_office_are_no_artifacts_under_any_name() {
    let (_folder, tree) = fixture();
    let office = tree.root().join(".poste");
    fs::create_dir(&office).unwrap();
    fs::write(office.join("office.db"), "a database").unwrap();
    symlink(".poste/office.db", tree.root().join("link")).unwrap();
    fs::hard_link(office.join("office.db"), tree.root().join("hard-link")).unwrap();
    let tree = tree.apart_from(&office);
    for path in [".poste/office.db", "src/../.poste/office.db", "link", "hard-link"] {
        let error = tree.present(tree.root(), Path::new(path)).expect_err(path);
        assert!(error.to_string().ends_with("it is a file of the office itself"), "{error}");
    }
    assert!(tree.present(tree.root(), Path::new("src/a.txt")).is_ok());
}

#[test]
fn what_comes_later_is_not_looked_at_but_still_stays_inside() {
    let (_folder, tree) = fixture();
    let artifact = tree.later(tree.root(), Path::new("src/not-yet.txt")).unwrap();
    assert_eq!((artifact.state, artifact.size), (ArtifactState::Later, None));
    assert!(tree.later(tree.root(), Path::new("../elsewhere")).is_err());
    symlink("src", tree.root().join("sources")).unwrap();
    let artifact = tree.later(tree.root(), Path::new("sources/new/not-yet.txt")).unwrap();
    assert_eq!(artifact.path, "src/new/not-yet.txt");
    symlink("../elsewhere", tree.root().join("nowhere")).unwrap();
    symlink("..", tree.root().join("up")).unwrap();
    for path in ["nowhere", "nowhere/x", "up/not-yet.txt", "new/../../x"] {
        assert!(tree.later(tree.root(), Path::new(path)).is_err(), "{path}");
    }
}

// ── Many files at once ───────────────────────────────────────────────────────────────────────────────────────

struct Fixture {
    folder: tempfile::TempDir,
    tree: Worktree,
    blobs: Blobs,
}

fn project() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    for made in [".poste/blobs", ".git", "src/deep"] {
        fs::create_dir_all(root.join(made)).unwrap();
    }
    for (path, text) in [
        ("src/a.rs", "fn a() {}"),
        ("src/b.rs", "fn b() {}"),
        ("src/deep/c.rs", "fn c() {}"),
        (".git/config", "not mine"),
        (".poste/office.db", "not mine"),
        (".poste/blobs/x", "not mine"),
    ] {
        fs::write(root.join(path), text).unwrap();
    }
    fs::write(folder.path().join("secret"), "outside").unwrap();
    let tree = Worktree::open(&root).unwrap().apart_from(&root.join(".poste"));
    fs::create_dir(folder.path().join("blobs")).unwrap();
    let blobs = Blobs::new(&Folder::open(folder.path()).unwrap());
    Fixture { tree, blobs, folder }
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        self.tree.root().join(name)
    }

    fn list(&self, names: &[&str]) -> Result<Listed, Error> {
        let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        self.tree.list(self.tree.root(), &paths, false)
    }

    fn copy(&self, listed: &Listed) -> Result<Vec<Artifact>, Error> {
        self.tree.copy(listed, &self.blobs, false, &mut |_| {})
    }

    fn stored(&self) -> usize {
        fs::read_dir(self.folder.path().join("blobs")).unwrap().count()
    }
}

fn problems<T: std::fmt::Debug>(answer: Result<T, Error>) -> Vec<String> {
    match answer {
        Err(Error::Artifacts(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("expected problems, got {other:?}"),
    }
}

#[test]
fn a_folder_is_the_files_below_it_each_once() {
    let fixture = project();
    symlink("a.rs", fixture.path("src/inside")).unwrap();
    let listed = fixture.list(&["src/b.rs", ".", "src"]).unwrap();
    assert_eq!(listed.folders, [(".".to_owned(), 2), ("src".to_owned(), 0)]);
    let artifacts = fixture.copy(&listed).unwrap();
    let paths: Vec<&str> = artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
    assert_eq!(paths, ["src/a.rs", "src/b.rs", "src/deep/c.rs"], "files of git and of the office are left out");
    assert!(damaged_copies(&fixture.blobs, &artifacts, &mut |_| {}).unwrap().is_empty());
    assert!(fixture.tree.changes(&artifacts).is_empty());
}

#[test]
fn everything_that_is_wrong_is_told_at_once_and_nothing_is_written() {
    let fixture = project();
    fs::write(fixture.path("src/empty"), "").unwrap();
    symlink("../../secret", fixture.path("src/out")).unwrap();
    symlink("deep", fixture.path("src/link")).unwrap();
    let (here, fifo) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(here, fixture.path("src/pipe"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let told = problems(fixture.list(&["src", "missing", "../secret", ".poste/office.db", ".poste/blobs/x"]));
    let expected = [
        "src/empty: it is empty",
        "src/link: it is a link to a folder; name that folder instead",
        "src/out: it is outside the worktree",
        "src/pipe: it is not a regular file",
        "missing: there is no such file",
        "../secret: it is outside the worktree",
        ".poste/office.db: it is a file of the office itself",
        ".poste/blobs/x: it is a file of the office itself",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told} does not start with {expected}");
    }
    assert_eq!(fixture.stored(), 0);
}

#[test]
fn git_s_own_files_and_links_to_folders_are_refused_by_name_too() {
    let fixture = project();
    fs::create_dir_all(fixture.path(".git")).unwrap();
    fs::write(fixture.path(".git/config"), "token").unwrap();
    symlink("../.git/config", fixture.path("src/config")).unwrap();
    symlink("deep", fixture.path("src/link")).unwrap();
    for name in [".git", ".git/config", "src/config"] {
        assert_eq!(problems(fixture.list(&[name])), [format!("{name}: it belongs to git and may contain credentials")]);
    }
    for name in ["src/link", "src/link/"] {
        assert_eq!(
            problems(fixture.list(&[name])),
            [format!("{name}: it is a link to a folder; name that folder instead")]
        );
    }
    assert_eq!(fixture.list(&["src/deep/"]).unwrap().len(), 1);
}

#[test]
fn an_empty_file_is_taken_when_that_is_wanted() {
    let fixture = project();
    fs::write(fixture.path("src/__init__.py"), "").unwrap();
    let listed = fixture.tree.list(fixture.tree.root(), &["src".into()], true).unwrap();
    let artifacts = fixture.copy(&listed).unwrap();
    assert_eq!((artifacts[0].path.as_str(), artifacts[0].size), ("src/__init__.py", Some(0)));
}

#[test]
fn what_happens_between_listing_and_copying_is_seen() {
    type Sabotage = fn(&Path);
    let cases: [(&str, Sabotage, &str); 6] = [
        ("truncated", |path| fs::write(path, "fn").unwrap(), "it changed while"),
        ("removed", |path| fs::remove_file(path).unwrap(), "there is no such file"),
        ("grown", |path| fs::write(path, "fn a() { grown() }").unwrap(), "it changed while"),
        (
            "replaced",
            |path| {
                fs::write(path.with_extension("new"), "fn a() {}").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
            "it was replaced",
        ),
        (
            "swapped for a link inside",
            |path| {
                fs::remove_file(path).unwrap();
                symlink("b.rs", path).unwrap();
            },
            "it was replaced",
        ),
        (
            "swapped for a link outside",
            |path| {
                fs::remove_file(path).unwrap();
                symlink("../../secret", path).unwrap();
            },
            "it cannot be read, or it leads out of the worktree",
        ),
    ];
    for (name, sabotage, expected) in cases {
        let fixture = project();
        let listed = fixture.list(&["src"]).unwrap();
        sabotage(&fixture.path("src/a.rs"));
        let told = problems(fixture.copy(&listed));
        let [told] = told.as_slice() else { panic!("{name}: {told:?}") };
        assert!(told.starts_with(&format!("src/a.rs: {expected}")), "{name}: {told}");
    }
}

#[test]
fn a_file_that_is_replaced_after_it_was_copied_is_seen_too() {
    let fixture = project();
    let listed = fixture.list(&["src"]).unwrap();
    let mut copied = 0;
    let answer = fixture.tree.copy(&listed, &fixture.blobs, true, &mut |progress| {
        if copied == 0 && progress.done > 9 {
            fs::write(fixture.path("src/a.rs"), "fn other() {}").unwrap();
        }
        copied = progress.done.saturating_sub(9);
    });
    assert_eq!(problems(answer), ["src/a.rs: it changed while it was handed over"]);
}

#[test]
fn copies_and_files_that_changed_since_are_told_by_name() {
    let fixture = project();
    let artifacts = fixture.copy(&fixture.list(&["src"]).unwrap()).unwrap();
    fs::write(fixture.blobs.path(&artifacts[0].digest.unwrap()), "tampered").unwrap();
    fs::remove_file(fixture.blobs.path(&artifacts[1].digest.unwrap())).unwrap();
    let told = damaged_copies(&fixture.blobs, &artifacts, &mut |_| {}).unwrap();
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["src/a.rs: its copy is damaged", "src/b.rs: its copy is missing"]);
    fs::write(fixture.path("src/a.rs"), "fn other() {}").unwrap();
    fs::remove_file(fixture.path("src/b.rs")).unwrap();
    let told: Vec<String> = fixture.tree.changes(&artifacts).iter().map(ToString::to_string).collect();
    let changed = "src/a.rs: it has changed since (9 bytes then, 13 now)";
    assert_eq!(told, [changed, "src/b.rs: there is no such file"]);
}

#[test]
fn more_files_than_a_handoff_holds_are_refused_before_one_is_copied() {
    let fixture = project();
    for number in 0..=limits::HANDOFF_ARTIFACTS_MAX {
        fs::write(fixture.path(&format!("src/deep/{number}")), "x").unwrap();
    }
    let error = fixture.list(&["src"]).unwrap_err().to_string();
    assert!(error.contains("more than 1000 files"), "{error}");
}
