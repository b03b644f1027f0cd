//! Links, owners and modes in an office folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::Desk;

/// Another user of this machine.
const OTHER: u32 = 54_321;

/// A folder and a file of the attacker's choice, which no command may touch.
struct Outside {
    folder: tempfile::TempDir,
    before: BTreeMap<PathBuf, (u32, i64, Vec<u8>)>,
}

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        for name in ["file", "folder/file.md", "folder/tmp-1", "folder/a.lock"] {
            fs::write(folder.path().join(name), format!("{name} is precious\n").repeat(20)).unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o640)).unwrap();
        }
        let before = seen(folder.path());
        Self { folder, before }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[track_caller]
    fn is_untouched(&self, by: &str) {
        assert_eq!(seen(self.folder.path()), self.before, "{by}");
    }
}

/// Everything below a folder: modes, times and content.
fn seen(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            found.extend(seen(&path));
        }
        found.insert(path, (meta.mode(), meta.mtime_nsec(), bytes));
    }
    found
}

fn run(desk: &Desk, args: &[&str]) -> Output {
    desk.command(args).output().expect("the program runs")
}

/// Every kind of command that reads or writes something in the folder.
const COMMANDS: &[&[&str]] = &[
    &["send", "bob", "small", "body", "--as", "anna"],
    &["context", "create", "large", "--file", "large.txt", "--as", "anna"],
    &["send", "bob", "with a file", "body", "--attach", "small.txt", "--as", "anna"],
    &["inbox", "--as", "bob"],
    &["read", "1", "--as", "bob"],
    &["claim", "1", "--as", "bob"],
    &["done", "1", "--as", "bob", "--summary", "done"],
    &["context", "append", "plan", "more", "--as", "anna"],
    &["context", "mirror", "plan", "--force"],
    &["session", "start", "--as", "anna", "--name", "another", "--own-name"],
    &["session", "close", "work", "--as", "anna", "--summary", "done"],
    &["session", "show", "work", "--page"],
    &["search", "body"],
    &["archive", "--older", "0s", "--as", "anna"],
    &["redact", "1", "--reason", "a test", "--as", "anna"],
    &["redact", "--finish", "--as", "anna"],
    &["team", "add", "helper", "--", "true"],
    &["config", "set", "delivery.lease", "20m"],
    &["watch", "--once"],
    &["dispatch", "--once"],
    &["wait", "--as", "bob", "--timeout", "10ms"],
    &["snapshot", "snapshot"],
    &["doctor"],
    &["doctor", "--fix"],
    &["log", "verify"],
];

fn desk() -> Desk {
    let desk = Desk::new(&["anna", "bob"]);
    let path = |name: &str| desk.folder.path().join(name);
    fs::write(path("large.txt"), "large ".repeat(30_000)).unwrap();
    fs::write(path("small.txt"), "small").unwrap();
    fs::write(path("poste.toml"), "[[on]]\nname = \"lines\"\nfrom = \"anna\"\nsince = \"start\"\nhandler = \"log\"\n")
        .unwrap();
    desk.run(&["send", "bob", "first", "body", "--as", "anna"]);
    desk.run(&["context", "create", "plan", "text", "--as", "anna"]);
    desk.run(&["session", "start", "--as", "anna", "--name", "work"]);
    desk
}

/// Runs every command, and returns what they said.
fn all(desk: &Desk, outside: &Outside, link: &str) -> String {
    let mut said = String::new();
    // Without its file, a rule tries again and again: that has a test of its own.
    let commands =
        COMMANDS.iter().filter(|args| !["watch", "dispatch"].contains(&args[0]) || !link.starts_with("watch"));
    for args in commands {
        let output = run(desk, args);
        outside.is_untouched(&format!("{args:?} with {link}"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code < 100), "{args:?} with {link}: {stderr}");
        said += &stderr;
        said += &String::from_utf8_lossy(&output.stdout);
    }
    let _ = fs::remove_dir_all(desk.folder.path().join("snapshot"));
    said
}

/// Puts links in the place of something in the office, to a folder, to a file and to nothing, and runs every command.
fn with_links(name: &str) -> Vec<String> {
    let mut said = Vec::new();
    for target in ["folder", "file", "new"] {
        let (desk, outside) = (desk(), Outside::new());
        let path = desk.office().join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            let _ = fs::remove_file(&path);
        }
        symlink(outside.path(target), &path).unwrap();
        said.push(all(&desk, &outside, &format!("{name} → {target}")));
    }
    said
}

const IS_LINK: &str = "it is a link";

#[track_caller]
fn all_say_link(name: &str) {
    for said in with_links(name) {
        assert!(said.contains(IS_LINK), "{name}: {said}");
    }
}

#[test]
fn a_linked_write_lock_is_not_written_through() {
    all_say_link("write.lock");
}

#[test]
fn a_linked_search_index_is_not_written_through() {
    all_say_link("search.lock");
    with_links("search.db");
    with_links("search.db-wal");
}

#[test]
fn a_linked_bell_is_not_rung() {
    with_links("bell");
    with_links("waiters");
}

#[test]
fn linked_folders_of_mail_are_not_used() {
    all_say_link("blobs");
    all_say_link("archive");
}

#[test]
fn linked_folders_of_pages_are_not_used() {
    all_say_link("contexts");
    all_say_link("sessions");
}

#[test]
fn linked_folders_of_programs_are_not_used() {
    with_links("live");
    with_links("runs");
    with_links("worktrees");
    with_links("watch");
}

#[test]
fn a_rule_appends_nothing_through_a_link() {
    for (name, target) in [("watch", "folder"), ("watch", "file"), ("watch", "new"), ("watch/lines.jsonl", "file")] {
        let (desk, outside) = (desk(), Outside::new());
        let path = desk.office().join(name);
        if name != "watch" {
            fs::create_dir(desk.office().join("watch")).unwrap();
        }
        symlink(outside.path(target), &path).unwrap();
        // It tries again and again.
        let mut watch = Command::new("timeout");
        watch.args(["-s", "KILL", "3", env!("CARGO_BIN_EXE_poste"), "watch", "--once"]).current_dir(desk.folder.path());
        watch.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", desk.folder.path().join("home"));
        watch.env("XDG_STATE_HOME", poste_testkit::state::home());
        assert!(!watch.stdout(Stdio::null()).status().expect("timeout runs").success(), "{name}");
        outside.is_untouched(name);
    }
}

#[test]
fn a_linked_configuration_is_neither_read_nor_written_through() {
    all_say_link("local.toml");
    with_links(".gitignore");
}

#[test]
fn a_linked_database_is_not_opened() {
    all_say_link("office.db");
    all_say_link("office.db-wal");
    all_say_link("office.db-shm");
}

#[test]
fn an_office_that_is_a_link_is_not_opened() {
    let (real, outside) = (desk(), Outside::new());
    for (target, says) in [(real.office(), IS_LINK), (outside.path("folder"), IS_LINK), (outside.path("file"), IS_LINK)]
    {
        let before = seen(&real.office());
        let linked = Desk::without_office();
        symlink(&target, linked.office()).unwrap();
        let said = all(&linked, &outside, &target.display().to_string());
        assert!(said.contains(says), "{said}");
        let init = run(&linked, &["init"]);
        assert!(!init.status.success(), "{}", String::from_utf8_lossy(&init.stdout));
        outside.is_untouched("init");
        assert_eq!(seen(&real.office()), before, "{}", target.display());
        // With a slash at its end, the system would follow the link.
        let named = format!("{}/", linked.office().display());
        assert!(!run(&linked, &["--office", &named, "agents"]).status.success());
    }
}

#[test]
fn a_link_beside_the_office_leads_nowhere_else() {
    let (desk, outside) = (desk(), Outside::new());
    fs::remove_file(desk.folder.path().join("poste.toml")).unwrap();
    symlink(outside.path("file"), desk.folder.path().join("poste.toml")).unwrap();
    let set = run(&desk, &["config", "set", "delivery.lease", "20m"]);
    assert!(String::from_utf8_lossy(&set.stderr).contains("leads out of the project"));
    outside.is_untouched("config set");
    // A link within the project is followed.
    fs::remove_file(desk.folder.path().join("poste.toml")).unwrap();
    fs::create_dir(desk.folder.path().join("conf")).unwrap();
    fs::write(desk.folder.path().join("conf/poste.toml"), "[delivery]\nlease = \"30m\"\n").unwrap();
    symlink("conf/poste.toml", desk.folder.path().join("poste.toml")).unwrap();
    desk.run(&["config", "set", "delivery.lease", "20m"]);
    assert!(fs::read_to_string(desk.folder.path().join("conf/poste.toml")).unwrap().contains("20m"));
}

// ── Owners and modes ─────────────────────────────────────────────────────────────────────────────────────────

#[allow(clippy::print_stderr, reason = "what could not be checked must be seen")]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("NOT CHECKED: only root can make files of another user");
    }
    is_root
}

#[track_caller]
fn is_refused(output: &Output, says: &str) {
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an error in JSON");
    let error = &error["error"];
    assert_eq!((&error["kind"], &error["code"]), (&"refused".into(), &"unsafe_office".into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    assert!(!error["hints"].as_array().unwrap().is_empty(), "{error}");
    assert_eq!(output.status.code(), Some(4));
}

const USES: &[&[&str]] = &[
    &["--json", "inbox", "--as", "bob"],
    &["--json", "send", "bob", "subject", "body", "--as", "anna"],
    &["--json", "init"],
    &["--json", "search", "body"],
    &["--json", "log", "verify"],
];

#[test]
fn an_office_of_another_user_is_refused_root_included() {
    if !is_root() {
        return;
    }
    for name in ["", "office.db", "office.db-wal", "office.db-shm"] {
        let desk = desk();
        chown(desk.office().join(name), Some(OTHER), None).unwrap();
        let before = seen(&desk.office());
        for args in USES {
            is_refused(&run(&desk, args), "belongs to user 54321");
        }
        assert_eq!(seen(&desk.office()), before, "{name}");
        assert!(String::from_utf8_lossy(&run(&desk, &["doctor"]).stdout).contains("54321"), "doctor still looks");
    }
}

#[test]
fn an_office_made_by_root_takes_no_mail_of_another_user() {
    if !is_root() {
        return;
    }
    let desk = desk();
    // As in a shared folder, where anybody may make an office.
    fs::set_permissions(desk.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(desk.office(), fs::Permissions::from_mode(0o777)).unwrap();
    for entry in fs::read_dir(desk.office()).unwrap() {
        let path = entry.unwrap().path();
        let mode = if path.is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // Even a user who has adopted it does not use it.
    let others = tempfile::tempdir().unwrap();
    fs::set_permissions(others.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let state = others.path().join("state");
    poste_testkit::state::adopt_in(&state, &desk.office());
    assert!(Command::new("chown").args(["-R", "54321:54321"]).arg(&state).status().unwrap().success());
    // The program itself may lie where only root can read it.
    let program = desk.folder.path().join("poste");
    fs::copy(env!("CARGO_BIN_EXE_poste"), &program).unwrap();
    let as_other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "54321", "--regid", "54321", "--clear-groups", "--"]).arg(&program).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").current_dir(desk.folder.path());
        command.env("XDG_STATE_HOME", &state);
        command.stdin(Stdio::null()).output().expect("setpriv runs")
    };
    for args in USES {
        is_refused(&as_other(args), "belongs to user 0, and you are user 54321");
    }
}

#[test]
fn an_office_that_others_can_open_is_refused_until_it_is_closed() {
    for (name, mode) in
        [("", 0o755), ("", 0o701), ("office.db", 0o640), ("office.db-wal", 0o604), ("office.db-shm", 0o660)]
    {
        let desk = desk();
        fs::set_permissions(desk.office().join(name), fs::Permissions::from_mode(mode)).unwrap();
        for args in USES {
            is_refused(&run(&desk, args), "other users can access it");
        }
        run(&desk, &["doctor", "--fix"]);
        desk.run(USES[0]);
    }
}

#[test]
fn everything_in_an_office_is_private_under_any_umask() {
    let desk = Desk::without_office();
    let open = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_poste")]).args(args);
        command.current_dir(desk.folder.path()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", desk.folder.path().join("home")).env("XDG_STATE_HOME", poste_testkit::state::home());
        command.output().expect("the program runs")
    };
    open(&["init"]);
    for agent in ["anna", "bob"] {
        open(&["register", agent, "--role", "worker"]);
    }
    fs::write(desk.folder.path().join("large.txt"), "large ".repeat(30_000)).unwrap();
    fs::write(desk.folder.path().join("small.txt"), "small").unwrap();
    open(&["context", "create", "plan", "text", "--as", "anna"]);
    open(&["session", "start", "--as", "anna", "--name", "work"]);
    for args in COMMANDS {
        open(args);
    }
    let is_open = |(path, (mode, ..)): &(PathBuf, (u32, i64, Vec<u8>))| {
        mode & 0o077 != 0 && !path.symlink_metadata().unwrap().is_symlink()
    };
    let found: Vec<_> = seen(&desk.office()).into_iter().filter(is_open).map(|(path, _)| path).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(["blobs", "contexts", "sessions", "archive"].iter().all(|name| desk.office().join(name).exists()));
}

// ── Where an office and a worktree are found ─────────────────────────────────────────────────────────────────

#[test]
fn a_forged_git_file_leads_to_no_other_office() {
    let victim = desk();
    let git = |folder: &Path, args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=n", "-c", "user.email=e@x"]).args(args).current_dir(folder);
        assert!(command.output().unwrap().status.success(), "{args:?}");
    };
    git(victim.folder.path(), &["init", "-q"]);
    git(victim.folder.path(), &["commit", "-q", "--allow-empty", "-m", "start"]);
    let linked = tempfile::tempdir().unwrap();
    let worktree = linked.path().join("worktree");
    git(victim.folder.path(), &["worktree", "add", "-q", worktree.to_str().unwrap()]);
    let at = |folder: &Path| {
        let mut command = victim.command(&["agents"]);
        command.current_dir(folder).output().unwrap()
    };
    assert!(at(&worktree).status.success(), "git's own worktree leads to the office");

    let shared = victim.folder.path().join(".git").canonicalize().unwrap();
    let archive = tempfile::tempdir().unwrap();
    let forged = archive.path().join("forged");
    fs::create_dir_all(forged.join("git/worktrees/x")).unwrap();
    fs::write(forged.join("git/worktrees/x/commondir"), shared.to_str().unwrap()).unwrap();
    fs::write(forged.join("git/worktrees/x/gitdir"), forged.join(".git").to_str().unwrap()).unwrap();
    for gitdir in [forged.join("git/worktrees/x"), shared.join("worktrees/worktree"), shared.clone()] {
        fs::write(forged.join(".git"), format!("gitdir: {}\n", gitdir.display())).unwrap();
        let output = at(&forged);
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn home_and_root_are_no_worktree() {
    let desk = desk();
    let home = desk.folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("id_ed25519"), "secret").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "text").unwrap();
    let office = desk.office();
    let attach = |folder: &Path, file: &str| {
        let args = ["--json", "send", "bob", "subject", "body", "--attach", file, "--as", "anna"];
        desk.command(&args).current_dir(folder).env("POSTE_HOME", &office).output().unwrap()
    };
    let output = attach(Path::new("/"), "etc/hostname");
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an error in JSON");
    assert_eq!(error["error"]["code"], "no_files", "{error}");
    assert!(attach(elsewhere.path(), "file").status.success(), "a command works in the folder it was started in");
    // An office in the home folder does not make that a worktree either.
    let at_home = desk.command(&["init", "--in", "home"]).output().unwrap();
    assert!(at_home.status.success());
    desk.run(&["--office", "home/.poste", "register", "anna", "--role", "worker"]);
    let args = ["--json", "send", "anna", "subject", "body", "--attach", "id_ed25519", "--as", "anna"];
    let output = desk.command(&args).current_dir(&home).output().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an error in JSON");
    assert_eq!(error["error"]["code"], "no_files", "{error}");
}

#[test]
fn nothing_in_an_office_can_be_attached() {
    let desk = desk();
    desk.run(&["context", "create", "large", "--file", "large.txt", "--as", "anna"]);
    fs::create_dir_all(desk.office().join("live")).unwrap();
    fs::write(desk.office().join("live/session.json"), "{\"token\": \"secret\"}").unwrap();
    let blob = fs::read_dir(desk.office().join("blobs")).unwrap().next().unwrap().unwrap().file_name();
    let blob = format!(".poste/blobs/{}", blob.to_str().unwrap());
    symlink(".poste/live", desk.folder.path().join("linked")).unwrap();
    fs::create_dir_all(desk.folder.path().join("other/.poste/live")).unwrap();
    fs::write(desk.folder.path().join("other/.poste/live/x"), "of another office").unwrap();
    let paths = [
        ".poste/live/session.json",
        &blob,
        ".poste/office.db",
        "linked/session.json",
        ".poste/bell",
        "other/.poste/live/x",
    ];
    for path in paths {
        for option in ["--attach", "--artifact", "--artifact-later"] {
            let send = ["send", "bob", "subject", "body", option, path, "--as", "anna"];
            let output = run(&desk, &send);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{option} {path}: {said}");
            assert!(said.contains("a file of the office itself"), "{option} {path}: {said}");
        }
        let context = run(&desk, &["handoff", "create", "bob", "--as", "anna", "--artifact", path]);
        assert!(!context.status.success(), "{path}");
    }
}
