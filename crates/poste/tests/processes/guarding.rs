//! The guard with real git, real worktrees and real hooks.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A repository with an office in it, and a PATH with `poste`.
struct Repository {
    _folder: tempfile::TempDir,
    root: PathBuf,
    bin: PathBuf,
    top: PathBuf,
}

impl Repository {
    /// With `ann`, who works in the main worktree, and `bob`; one commit.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().unwrap();
        let (bin, top) = (root.join("bin"), root.join("re po"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&top).unwrap();
        symlink(env!("CARGO_BIN_EXE_poste"), bin.join("poste")).unwrap();
        let repository = Self { _folder: folder, root, bin, top };
        repository.git(&["init", "-q", "-b", "main"]);
        repository.poste(&["init"]);
        for name in ["ann", "bob"] {
            repository.poste(&["register", name]);
        }
        fs::write(repository.top.join(".gitignore"), ".poste\nposte.toml\n").unwrap();
        repository.write("src/auth/login.rs", "one");
        repository.write("src/api.rs", "one");
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-qm", "first"]);
        repository
    }

    /// A program run in a folder as an agent, with only the PATH of this process's environment.
    fn command(&self, program: impl AsRef<OsStr>, folder: &Path, agent: Option<&str>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(folder)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .env("HOME", &self.root)
            .env("POSTE_TEST_PERSON", "1")
            .env("XDG_STATE_HOME", poste_testkit::state::home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@example.com")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@example.com")
            .stdin(Stdio::null());
        if let Some(agent) = agent {
            command.env("POSTE_AGENT", agent);
        }
        command
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.top, Some("ann"), arguments).expect_ok()
    }

    fn git_in(&self, folder: &Path, agent: Option<&str>, arguments: &[&str]) -> Ran {
        Ran(self.command("git", folder, agent).args(arguments).output().expect("git runs"))
    }

    fn poste(&self, arguments: &[&str]) -> String {
        self.poste_in(&self.top, arguments).expect_ok()
    }

    fn poste_in(&self, folder: &Path, arguments: &[&str]) -> Ran {
        Ran(self.command("poste", folder, None).args(arguments).output().expect("poste runs"))
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Changes a file, stages it and tries to commit.
    fn commit(&self, agent: Option<&str>, path: &str) -> Ran {
        let was = fs::read_to_string(self.top.join(path)).unwrap_or_default();
        self.write(path, &format!("{was} more"));
        self.git(&["add", "-A"]);
        let ran = self.git_in(&self.top, agent, &["commit", "-qm", "a change"]);
        self.git(&["reset", "-q", "--hard"]);
        ran
    }

    fn hooks(&self) -> PathBuf {
        self.top.join(".git/hooks")
    }

    /// Everything in a folder of hooks: names, modes, bytes, link targets.
    fn picture(&self, folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir(folder) else { return found };
        for entry in entries {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let bytes = match data.is_symlink() {
                true => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
                false => fs::read(&path).unwrap(),
            };
            found.push((path, data.permissions().mode(), bytes));
        }
        found.sort();
        found
    }

    fn hook(&self, name: &str, script: &str) {
        fs::create_dir_all(self.hooks()).unwrap();
        fs::write(self.hooks().join(name), script).unwrap();
        fs::set_permissions(self.hooks().join(name), fs::Permissions::from_mode(0o750)).unwrap();
    }
}

#[derive(Debug)]
struct Ran(Output);

impl Ran {
    fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    fn expect_ok(self) -> String {
        assert!(self.0.status.success(), "{}", self.err());
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// It was stopped, and stderr contains all of these words.
    fn is_stopped(&self, words: &[&str]) {
        let talk = self.err();
        assert!(!self.0.status.success(), "it was let through: {talk}");
        for word in words {
            assert!(talk.contains(word), "{word} is missing: {talk}");
        }
    }

    /// It was let through, and stderr contains all of these words, or is empty if there are none.
    fn is_let_through(&self, words: &[&str]) {
        let talk = self.err();
        assert!(self.0.status.success(), "it was stopped: {talk}");
        for word in words {
            assert!(talk.contains(word), "{word} is missing: {talk}");
        }
        assert!(!words.is_empty() || talk.is_empty(), "unexpected output: {talk}");
    }
}

#[test]
fn a_commit_of_what_another_one_holds_is_stopped_and_everything_else_is_not() {
    let repository = Repository::new();
    repository.poste(&["guard", "install"]);
    repository.commit(Some("bob"), "src/auth/login.rs").is_let_through(&[]);
    repository.poste(&["reserve", "src/auth/**", "--why", "the new login", "--as", "ann"]);
    repository.commit(Some("bob"), "src/auth/login.rs").is_stopped(&[
        "this commit touches paths that another agent has reserved",
        "src/auth/login.rs: ann holds src/auth/**, ends in 1h: \"the new login\"",
        "poste reserve --literal src/auth/login.rs --ask",
        "POSTE_GUARD=off git commit",
    ]);
    repository.commit(Some("bob"), "src/auth/new.rs").is_stopped(&["src/auth/new.rs: ann holds"]);
    repository.commit(Some("bob"), "src/api.rs").is_let_through(&[]);
    repository.commit(Some("ann"), "src/auth/login.rs").is_let_through(&[]);
    repository.commit(None, "src/auth/login.rs").is_stopped(&["the committer is unknown"]);
    // The agent registered with this worktree is known without a variable.
    let here = repository.top.to_str().unwrap();
    repository.poste(&["register", "ann", "--worktree", here, "--update"]);
    repository.commit(None, "src/auth/login.rs").is_let_through(&[]);
    repository.poste(&["register", "bob", "--worktree", here, "--update"]);
    repository.commit(None, "src/auth/login.rs").is_stopped(&["the committer is unknown"]);
    repository.poste(&["release", "all", "--as", "ann"]);
    repository.commit(Some("bob"), "src/auth/login.rs").is_let_through(&[]);
    // A shared reservation stops no commit.
    repository.poste(&["reserve", "src/auth/**", "--shared", "--as", "ann"]);
    repository.commit(Some("bob"), "src/auth/login.rs").is_let_through(&[]);
}

#[test]
fn renames_deletions_and_the_first_commit_are_seen() {
    let repository = Repository::new();
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/auth", "--as", "ann"]);
    let try_it = |arguments: &[&str]| {
        repository.git(arguments);
        let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]);
        repository.git(&["reset", "-q", "--hard"]);
        ran
    };
    try_it(&["mv", "src/auth/login.rs", "src/elsewhere.rs"]).is_stopped(&["src/auth/login.rs: ann holds"]);
    try_it(&["mv", "src/api.rs", "src/auth/api.rs"]).is_stopped(&["src/auth/api.rs: ann holds"]);
    try_it(&["rm", "-q", "src/auth/login.rs"]).is_stopped(&["src/auth/login.rs: ann holds"]);
    try_it(&["mv", "src/api.rs", "src/web.rs"]).is_let_through(&[]);
    // `commit PATH` commits another index than the staged one.
    repository.write("src/auth/login.rs", "two");
    repository.write("README", "two");
    repository.git(&["add", "README"]);
    let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x", "src/auth/login.rs"]);
    ran.is_stopped(&["src/auth/login.rs: ann holds"]);
    repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]).is_let_through(&[]);
    // On a branch without commits.
    repository.git(&["checkout", "-q", "--orphan", "fresh", "-f"]);
    let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]);
    ran.is_stopped(&["src/auth/login.rs: ann holds"]);
    repository.git(&["rm", "-rqf", "src"]);
    repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]).is_let_through(&[]);
}

#[test]
fn a_merge_is_stopped_only_for_what_the_merge_itself_changes() {
    let repository = Repository::new();
    repository.git(&["checkout", "-qb", "side"]);
    repository.write("src/auth/login.rs", "by ann");
    repository.write("src/api.rs", "by ann");
    repository.git(&["commit", "-qam", "ann's work"]);
    repository.git(&["checkout", "-q", "main"]);
    repository.write("src/api.rs", "by bob");
    repository.git(&["commit", "-qam", "bob's work"]);
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/auth/**", "--as", "ann"]);
    let bob = |arguments: &[&str]| repository.git_in(&repository.top, Some("bob"), arguments);
    // api.rs has a conflict; login.rs is merged as ann committed it.
    assert!(!bob(&["merge", "-q", "side"]).0.status.success());
    repository.write("src/api.rs", "by both");
    repository.git(&["add", "-A"]);
    bob(&["commit", "-qm", "merged"]).is_let_through(&[]);
    // Again, with a change of login.rs in the merge itself.
    repository.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert!(!bob(&["merge", "-q", "side"]).0.status.success());
    repository.write("src/api.rs", "by both");
    repository.write("src/auth/login.rs", "by nobody");
    repository.git(&["add", "-A"]);
    bob(&["commit", "-qm", "merged"]).is_stopped(&["src/auth/login.rs: ann holds"]);
}

#[test]
fn the_hooks_work_from_every_worktree_and_know_who_works_there() {
    let repository = Repository::new();
    let (anns, bobs) = (repository.root.join("ann's tree"), repository.root.join("bobs"));
    repository.git(&["worktree", "add", "-q", "-b", "anns", anns.to_str().unwrap()]);
    repository.git(&["worktree", "add", "-q", "-b", "bobs", bobs.to_str().unwrap()]);
    for (name, tree) in [("ann", &anns), ("bob", &bobs)] {
        repository.poste(&["register", name, "--worktree", tree.to_str().unwrap(), "--update"]);
    }
    // Installed from one worktree, for all of them.
    repository.poste_in(&bobs.join("src"), &["guard", "install"]).expect_ok();
    assert!(repository.hooks().join("pre-commit").exists());
    // Reserved in a folder of one worktree, held in all of them.
    repository.poste_in(&anns.join("src"), &["reserve", "auth/*", "--as", "ann"]).expect_ok();
    let commit = |tree: &Path, agent: Option<&str>| {
        fs::write(tree.join("src/auth/login.rs"), "changed").unwrap();
        repository.git_in(tree, agent, &["add", "-A"]).expect_ok();
        let ran = repository.git_in(&tree.join("src"), agent, &["commit", "-qm", "x"]);
        repository.git_in(tree, agent, &["reset", "-q", "--hard", "main"]).expect_ok();
        ran
    };
    commit(&bobs, None).is_stopped(&["src/auth/login.rs: ann holds src/auth/*"]);
    commit(&anns, None).is_let_through(&[]);
    commit(&anns, Some("bob")).is_stopped(&["src/auth/login.rs: ann holds src/auth/*"]);
    repository.poste_in(&anns, &["guard", "uninstall"]).expect_ok();
    commit(&bobs, None).is_let_through(&[]);
}

#[test]
fn uninstalling_leaves_everything_byte_for_byte_as_it_was() {
    let repository = Repository::new();
    let before = repository.picture(&repository.hooks());
    repository.poste(&["guard", "install"]);
    assert_ne!(repository.picture(&repository.hooks()), before);
    let installed = repository.picture(&repository.hooks());
    repository.poste(&["guard", "install"]);
    assert_eq!(repository.picture(&repository.hooks()), installed, "installing again changes nothing");
    repository.poste(&["guard", "uninstall"]);
    assert_eq!(repository.picture(&repository.hooks()), before);
    repository.poste(&["guard", "uninstall"]);
    assert_eq!(repository.picture(&repository.hooks()), before);

    // With existing hooks: a script and a link.
    repository.hook("pre-commit", "#!/bin/sh\r\necho \"\u{fc}ber\" >&2");
    fs::write(repository.root.join("push.sh"), "#!/bin/sh\nexit 0\n").unwrap();
    symlink("../../../push.sh", repository.hooks().join("pre-push")).unwrap();
    let before = repository.picture(&repository.hooks());
    repository.poste(&["guard", "install"]);
    let status: Value = serde_json::from_str(&repository.poste(&["--json", "guard", "status"])).unwrap();
    for hook in status["hooks"].as_array().unwrap() {
        assert_eq!((&hook["state"], &hook["keeps_another"]), (&"installed".into(), &true.into()), "{hook}");
    }
    repository.poste(&["guard", "uninstall"]);
    assert_eq!(repository.picture(&repository.hooks()), before);

    // Without a folder of hooks.
    fs::remove_dir_all(repository.hooks()).unwrap();
    repository.poste(&["guard", "install", "--no-pre-push"]);
    assert!(!repository.hooks().join("pre-push").exists());
    repository.poste(&["guard", "install"]);
    repository.poste(&["guard", "uninstall"]);
    assert!(!repository.hooks().exists(), "a folder made for the guard is removed once it is empty");
}

#[test]
fn a_hook_that_was_there_before_is_run_first_and_finds_itself_in_its_place() {
    let repository = Repository::new();
    let say = "echo \"kept: $0 $(basename \"$0\") $(dirname \"$0\") $#\" >&2";
    repository.hook("pre-commit", &format!("#!/bin/sh\n{say}\n[ ! -e stop ] || exit 3\n"));
    repository.hook("pre-push", "#!/usr/bin/env bash\necho \"kept: $1 $(wc -l)\" >&2\n");
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/auth/**", "--as", "ann"]);
    let ran = repository.commit(Some("bob"), "src/api.rs");
    ran.is_let_through(&["kept: .git/hooks/pre-commit pre-commit .git/hooks 0"]);
    repository.commit(Some("bob"), "src/auth/login.rs").is_stopped(&["kept: ", "ann holds"]);
    // A commit that the kept hook refuses stays refused, whatever the guard decides.
    let ran = repository.commit(Some("bob"), "stop");
    ran.is_stopped(&["kept: "]);
    assert!(!ran.err().contains("ann holds"), "{}", ran.err());
    // Both the kept hook and the guard get the pushed refs.
    let remote = repository.root.join("remote.git");
    repository.git(&["init", "-q", "--bare", remote.to_str().unwrap()]);
    repository.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    let push = || repository.git_in(&repository.top, Some("bob"), &["push", "-q", "origin", "main"]);
    let ran = push();
    ran.is_stopped(&["kept: origin 1", "this push touches", "src/auth/login.rs: ann holds"]);
    // As in git, a hook that is not executable is not run.
    fs::set_permissions(repository.hooks().join("pre-push.before-poste"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(!push().err().contains("kept:"));
    // A hook that is not a shell script is run as it is.
    repository.poste(&["guard", "uninstall"]);
    repository.hook("pre-commit", "#!/usr/bin/env -S sed -n s/^said/said/pw/dev/stderr\nsaid by sed\n");
    repository.poste(&["guard", "install"]);
    repository.commit(Some("bob"), "src/api.rs").is_let_through(&["said by sed"]);
}

#[test]
fn a_push_is_stopped_for_what_the_other_side_does_not_have() {
    let repository = Repository::new();
    let remote = repository.root.join("remote.git");
    repository.git(&["init", "-q", "--bare", remote.to_str().unwrap()]);
    repository.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    repository.git(&["push", "-q", "origin", "main"]);
    repository.write("src/auth/login.rs", "two");
    repository.git(&["commit", "-qam", "before anybody reserved anything"]);
    repository.write("src/auth/login.rs", "one");
    repository.git(&["commit", "-qam", "and back: in the end nothing changed"]);
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/auth/**", "--as", "ann"]);
    let push = |agent: &str, what: &[&str]| {
        repository.git_in(&repository.top, Some(agent), &[&["push", "-q", "origin"], what].concat())
    };
    push("bob", &["main"]).is_stopped(&[
        "this push touches",
        "src/auth/login.rs: ann holds",
        "POSTE_GUARD=off git push",
    ]);
    push("bob", &["HEAD~2:refs/heads/old"]).is_let_through(&[]);
    push("bob", &["HEAD:refs/heads/new"]).is_stopped(&["ann holds"]);
    push("bob", &[":refs/heads/old"]).is_let_through(&[]);
    push("ann", &["main"]).is_let_through(&[]);
    push("bob", &["main:refs/heads/again"]).is_let_through(&[]);
    let range = |range: &str| {
        let range = format!("--range={range}");
        repository.poste_in(&repository.top, &["guard", "check", &range, "--as", "bob"])
    };
    range("HEAD~1..HEAD").is_stopped(&["this change touches"]);
    range("HEAD..HEAD").expect_ok();
    range("--all").is_stopped(&["is not a range of commits"]);
    range("nowhere..HEAD").is_stopped(&["is not a range of commits"]);
}

#[test]
fn what_the_holder_committed_may_be_pushed_by_another_one() {
    let repository = Repository::new();
    let remote = repository.root.join("remote.git");
    repository.git(&["init", "-q", "--bare", remote.to_str().unwrap()]);
    repository.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    repository.git(&["push", "-q", "origin", "main"]);
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/auth/**", "--as", "ann"]);
    let git = |agent: &str, arguments: &[&str]| {
        let mut command = repository.command("git", &repository.top, Some(agent));
        command.env("GIT_COMMITTER_EMAIL", format!("{agent}@example.com"));
        Ran(command.args(arguments).output().expect("git runs"))
    };
    git("ann", &["switch", "-qc", "login"]).expect_ok();
    repository.write("src/auth/login.rs", "two");
    git("ann", &["commit", "-qam", "her own"]).expect_ok();
    git("bob", &["switch", "-q", "main"]).expect_ok();
    repository.write("src/api.rs", "two");
    git("bob", &["commit", "-qam", "his own"]).expect_ok();
    git("bob", &["merge", "-q", "--no-edit", "login"]).expect_ok();
    git("bob", &["push", "-q", "origin", "main"]).is_let_through(&[]);
    // A commit of his own, which bypassed the pre-commit hook, is stopped.
    repository.write("src/auth/login.rs", "three");
    git("bob", &["commit", "-qam", "not his", "--no-verify"]).expect_ok();
    git("bob", &["push", "-q", "origin", "main"]).is_stopped(&["src/auth/login.rs: ann holds"]);
}

#[test]
fn a_check_names_a_few_paths_and_an_agent_that_nobody_knows() {
    let repository = Repository::new();
    repository.poste(&["reserve", "held", "--as", "ann"]);
    for number in 0..30 {
        repository.write(format!("held/{number:02}\nx"), "x");
    }
    repository.git(&["add", "-A"]);
    let check = |more: &[&str]| {
        let mut command = repository.command("poste", &repository.top, Some("bbo"));
        Ran(command.args(["guard", "check"]).args(more).output().expect("poste runs"))
    };
    let ran = check(&[]);
    ran.is_stopped(&["no agent is registered as bbo"]);
    let out = String::from_utf8_lossy(&ran.0.stdout).into_owned();
    assert_eq!(out.lines().count(), 11, "{out}");
    assert!(out.ends_with("and 20 more; --json lists them all\n"), "{out}");
    let all: Value = serde_json::from_slice(&check(&["--json"]).0.stdout).unwrap();
    assert_eq!(all["held"].as_array().unwrap().len(), 30);
}

#[test]
fn names_of_files_may_hold_anything() {
    let repository = Repository::new();
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "held", "--why", "mine", "--as", "ann"]);
    repository.poste(&["reserve", "--literal", "app/[id]/*.tsx", "--as", "ann"]);
    let names: [&[u8]; 6] = [
        b"held/a b",
        b"held/new\nline",
        b"held/\xff\xfe",
        b"held/\x1b[2J",
        b"app/[id]/*.tsx",
        "held/\u{202e}é".as_bytes(),
    ];
    for name in names {
        repository.write(OsStr::from_bytes(name), "x");
        repository.git(&["add", "-A"]);
        let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]);
        repository.git(&["rm", "-rqf", "held", "app", "--ignore-unmatch"]);
        ran.is_stopped(&["ann holds"]);
        assert!(!ran.err().contains("new\nline"), "{:?}", ran.err());
        assert!(!ran.err().contains('\u{1b}') && !ran.err().contains('\u{202e}'), "{:?}", ran.err());
    }
    // A path that would match only as a pattern is not held.
    repository.write("app/i/x.tsx", "x");
    repository.git(&["add", "-A"]);
    repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x"]).is_let_through(&[]);
}

#[test]
fn a_submodule_is_one_path_outside_and_a_folder_of_paths_inside() {
    let repository = Repository::new();
    let library = repository.root.join("library");
    fs::create_dir(&library).unwrap();
    repository.git_in(&library, None, &["init", "-q", "-b", "main"]).expect_ok();
    fs::create_dir(library.join("src")).unwrap();
    fs::write(library.join("src/lib.rs"), "one").unwrap();
    repository.git_in(&library, None, &["add", "-A"]).expect_ok();
    repository.git_in(&library, None, &["commit", "-qm", "first"]).expect_ok();
    let from = library.to_str().unwrap();
    repository.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "vendor/lib"]);
    repository.git(&["commit", "-qm", "a submodule"]);
    let module = repository.top.join("vendor/lib");
    repository.poste(&["guard", "install"]);
    repository.poste_in(&module, &["guard", "install"]).expect_ok();
    // Reserved inside the submodule, recorded as a path of the outer repository.
    repository.poste_in(&module, &["reserve", "src/lib.rs", "--as", "ann"]).expect_ok();
    assert!(repository.poste(&["reservations"]).contains("vendor/lib/src/lib.rs"));

    fs::write(module.join("src/lib.rs"), "two").unwrap();
    let ran = repository.git_in(&module, Some("bob"), &["commit", "-qam", "x"]);
    ran.is_stopped(&["vendor/lib/src/lib.rs: ann holds"]);
    repository.git_in(&module, Some("ann"), &["commit", "-qam", "x"]).is_let_through(&[]);
    repository.git(&["add", "-A"]);
    let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "the newer one"]);
    ran.is_stopped(&["vendor/lib: ann holds vendor/lib/src/lib.rs"]);
}

#[test]
fn nothing_that_is_missing_keeps_anybody_from_working() {
    let repository = Repository::new();
    repository.poste(&["guard", "install"]);
    repository.poste(&["reserve", "src/**", "--as", "ann"]);
    let commit = |set_up: &dyn Fn(&mut Command)| {
        repository.write("src/api.rs", "changed");
        repository.git(&["add", "-A"]);
        let mut command = repository.command("git", &repository.top, Some("bob"));
        set_up(&mut command);
        let ran = Ran(command.args(["commit", "-qm", "x"]).output().unwrap());
        repository.git(&["reset", "-q", "--hard", "HEAD"]);
        if ran.0.status.success() {
            repository.git(&["reset", "-q", "--hard", "HEAD~1"]);
        }
        ran
    };
    commit(&|_| ()).is_stopped(&["ann holds"]);
    let off = |command: &mut Command| {
        command.env("POSTE_GUARD", "off");
    };
    commit(&off).is_let_through(&["poste guard: disabled by POSTE_GUARD; nothing was checked"]);
    let elsewhere = |command: &mut Command| {
        command.env("POSTE_HOME", "/nowhere/.poste");
    };
    commit(&elsewhere).is_let_through(&["poste guard: ", "nothing was checked"]);
    let misnamed = |command: &mut Command| {
        command.env("POSTE_AGENT", "No Such Name");
    };
    commit(&misnamed).is_let_through(&["poste ended with 2, so nothing was checked"]);
    // An older poste without the guard.
    fs::remove_file(repository.bin.join("poste")).unwrap();
    fs::write(repository.bin.join("poste"), "#!/bin/sh\nexit 2\n").unwrap();
    fs::set_permissions(repository.bin.join("poste"), fs::Permissions::from_mode(0o755)).unwrap();
    commit(&|_| ()).is_let_through(&["poste ended with 2, so nothing was checked"]);
    fs::remove_file(repository.bin.join("poste")).unwrap();
    commit(&|_| ()).is_let_through(&["poste guard: poste is not on the PATH, so nothing was checked"]);
}

#[test]
fn hooks_that_were_changed_by_hand_are_not_destroyed() {
    let repository = Repository::new();
    repository.hook("pre-commit", "#!/bin/sh\n# first\n");
    repository.poste(&["guard", "install"]);
    let hook = repository.hooks().join("pre-commit");
    let changed = fs::read_to_string(&hook).unwrap() + "echo mine\n";
    fs::write(&hook, &changed).unwrap();
    let before = repository.picture(&repository.hooks());
    let ran = repository.poste_in(&repository.top, &["guard", "install"]);
    ran.is_stopped(&["was changed by hand"]);
    assert_eq!(repository.picture(&repository.hooks()), before);
    let ran = repository.poste_in(&repository.top, &["guard", "uninstall"]);
    ran.is_stopped(&["was changed by hand and is left as it is", "pre-commit.before-poste"]);
    assert_eq!(fs::read_to_string(&hook).unwrap(), changed);
    assert!(!repository.hooks().join("pre-push").exists(), "the other hook is removed all the same");
    assert!(repository.poste(&["guard", "status"]).contains("changed by hand"));

    // A foreign hook in the place of ours stays, and the kept hook is not overwritten.
    fs::write(&hook, "#!/bin/sh\n# second\n").unwrap();
    let before = repository.picture(&repository.hooks());
    let ran = repository.poste_in(&repository.top, &["guard", "install"]);
    ran.is_stopped(&["is not the guard's", "pre-commit.before-poste keeps an earlier one"]);
    let ran = repository.poste_in(&repository.top, &["guard", "uninstall"]);
    ran.is_stopped(&["is left as it is"]);
    assert_eq!(repository.picture(&repository.hooks()), before);

    // If our hook was deleted, the kept hook is restored.
    fs::remove_file(&hook).unwrap();
    repository.poste(&["guard", "uninstall"]);
    assert_eq!(fs::read_to_string(&hook).unwrap(), "#!/bin/sh\n# first\n");
}

#[test]
fn hooks_stand_where_git_looks_for_them_unless_that_is_everybodys() {
    let repository = Repository::new();
    repository.git(&["config", "core.hooksPath", ".githooks"]);
    let talk = repository.poste_in(&repository.top.join("src"), &["guard", "install"]);
    assert!(talk.err().contains("is part of this worktree"), "{}", talk.err());
    talk.expect_ok();
    assert!(repository.top.join(".githooks/pre-commit").exists());
    repository.poste(&["reserve", "src/**", "--as", "ann"]);
    let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qm", "x", "--allow-empty"]);
    ran.is_let_through(&[]);
    repository.write("src/api.rs", "two");
    let ran = repository.git_in(&repository.top, Some("bob"), &["commit", "-qam", "x"]);
    ran.is_stopped(&["src/api.rs: ann holds"]);
    repository.poste(&["guard", "uninstall"]);
    assert!(!repository.top.join(".githooks").exists());

    let global = repository.root.join("everybody's");
    fs::create_dir(&global).unwrap();
    repository.git(&["config", "--global", "core.hooksPath", global.to_str().unwrap()]);
    repository.git(&["config", "--unset", "core.hooksPath"]);
    for command in ["install", "uninstall", "status"] {
        let ran = repository.poste_in(&repository.top, &["guard", command]);
        ran.is_stopped(&["core.hooksPath is outside the repository", "git config core.hooksPath .git/hooks"]);
    }
    assert_eq!(fs::read_dir(&global).unwrap().count(), 0);
    let ran = repository.poste_in(&repository.root, &["guard", "status"]);
    ran.is_stopped(&["is not in a git worktree"]);
}
