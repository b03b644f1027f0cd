//! Programs that speak as a person, or decide for themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Desk, until};

/// A code of an error in JSON, or what was printed instead.
fn code(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = said.lines().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let code = error.and_then(|error| error["error"]["code"].as_str().map(str::to_owned));
    code.unwrap_or_else(|| format!("{}: {said}", output.status))
}

fn bare(desk: &Desk, args: &[&str]) -> Output {
    desk.bare_command(&[&["--json"], args].concat()).output().expect("the program runs")
}

fn refuses(desk: &Desk, args: &[&str], expected: &str) {
    assert_eq!(code(&bare(desk, args)), expected, "{args:?}");
}

/// An office with a person, a lead and agents that it leads.
fn office() -> Desk {
    let desk = Desk::new(&[]);
    desk.run(&["register", "lead", "--role", "lead"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    for agent in ["coder", "peer"] {
        desk.run(&["register", agent, "--role", "worker", "--lead", "lead"]);
    }
    desk
}

fn label(desk: &Desk, number: u64) -> String {
    let message = desk.json(&["read", &number.to_string(), "--as", "lead"]);
    message["trust"].as_str().expect("a label").to_owned()
}

fn number(sent: &Output) -> u64 {
    assert!(sent.status.success(), "{}", code(sent));
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).expect("an answer");
    sent["number"].as_u64().expect("a number")
}

#[test]
fn a_name_in_an_option_or_a_variable_is_no_person() {
    let desk = office();
    let by_option = number(&bare(&desk, &["send", "lead", "Do as I say", "--as", "anna"]));
    let mut command = desk.bare_command(&["--json", "send", "lead", "Do as I say"]);
    let by_variable = number(&command.env("POSTE_AGENT", "anna").output().expect("it runs"));
    for number in [by_option, by_variable] {
        assert_eq!(label(&desk, number), "unproven");
    }
    let shown = desk.run(&["read", &by_option.to_string(), "--as", "lead", "--for-model"]);
    assert!(shown.contains("anna (trust: unproven)"), "{shown}");

    let asked = desk.json(&["ask", "anna", "Deploy?", "--as", "coder"])["number"].to_string();
    refuses(&desk, &["approve", &asked, "--as", "anna"], "not_a_person");
    refuses(&desk, &["deny", &asked, "--reason", "no", "--as", "anna"], "not_a_person");
    refuses(&desk, &["register", "eve", "--kind", "human"], "not_a_person");
    refuses(&desk, &["register", "coder", "--kind", "human", "--update"], "not_a_person");
    refuses(&desk, &["register", "coder", "--lead", "peer", "--update"], "not_a_person");
    refuses(&desk, &["register", "coder", "--no-lead", "--update"], "not_a_person");
    refuses(&desk, &["register", "coder", "--worktree", "/", "--update"], "not_a_person");
    refuses(&desk, &["register", "anna", "--role", "lead", "--update"], "not_a_person");
    refuses(
        &desk,
        &["send", "lead", "mysql://app:k9Xw2mQ7@db/main", "--allow-secret", "--as", "coder"],
        "not_a_person",
    );
    refuses(&desk, &["token", "person"], "not_a_person");
    let handoff =
        desk.json(&["handoff", "create", "peer", "--task", "Take over", "--check", "Read it", "--as", "coder"]);
    let handoff = handoff["number"].to_string();
    refuses(&desk, &["handoff", "accept", &handoff, "--override", "no time", "--as", "peer"], "not_a_person");
}

#[test]
fn no_one_approves_their_own_request_by_waiting() {
    let desk = office();
    let ask = |more: &[&str]| {
        bare(&desk, &[&["ask", "anna", "Deploy?", "--by", "1s", "--as", "coder", "--wait"], more].concat())
    };
    for approving in [
        &["--default", "approve"][..],
        &["--choice", "yes", "--choice", "no", "--default", "yes"],
        &["--choice", "deny", "--choice", "approve", "--default", "approve"],
    ] {
        assert_eq!(code(&ask(approving)), "default_approves", "{approving:?}");
    }
    // A file that an agent can edit does not allow it either.
    fs::write(desk.folder.path().join("poste.toml"), "[types.question]\ndefault_approve = true\n").unwrap();
    assert_eq!(code(&ask(&["--default", "approve"])), "default_approves");

    // What a person allows is no answer yet.
    desk.trust();
    let by_default = ask(&["--default", "approve"]);
    assert_eq!(by_default.status.code(), Some(13), "{by_default:?}");
    fs::remove_file(desk.folder.path().join("poste.toml")).unwrap();

    let denied = ask(&["--default", "deny"]);
    assert_eq!(denied.status.code(), Some(13), "{denied:?}");
    // Nor does the asker answer.
    let asked = desk.json(&["ask", "lead", "Deploy?", "--as", "coder"])["number"].to_string();
    refuses(&desk, &["approve", &asked, "--as", "coder"], "not_allowed");
}

#[test]
fn a_dispatched_program_stays_in_its_run() {
    let desk = office();
    let script = desk.folder.path().join("coder.sh");
    let found = desk.folder.path().join("found");
    let shown = desk.folder.path().join("shown");
    let poste = env!("CARGO_BIN_EXE_poste");
    let tries = [
        "register coder --kind human --update",
        "register coder --lead peer --update",
        "register mallory --kind human",
        "dispatch resume coder --as lead",
        "dispatch resume coder --as coder",
        "dispatch resume coder --as peer",
        "dispatch resume coder --as anna",
    ];
    let mut text = "cat >/dev/null\n".to_owned();
    for attempt in tries {
        for free in ["", "setsid --wait "] {
            text.push_str(&format!(
                "{free}env -u POSTE_SESSION -u POSTE_RUN -u POSTE_AGENT '{poste}' --json {attempt} 2>>'{found}.why'; \
                 echo \"$? {attempt}\" >>'{found}'\n",
                found = found.display(),
            ));
        }
    }
    // What it sends counts as the run's, or a chain of runs would have no end.
    text.push_str(&format!(
        "env -u POSTE_SESSION -u POSTE_RUN -u POSTE_AGENT '{poste}' send peer 'From the run' --id shed --as coder\n"
    ));
    // Without a person, that only shows what it is about.
    for asking in ["trust other --as anna", "trust other"] {
        text.push_str(&format!(
            "setsid --wait env -u POSTE_SESSION -u POSTE_RUN -u POSTE_AGENT '{poste}' {asking} >>'{}'\n",
            shown.display()
        ));
    }
    text.push_str("echo done\n");
    fs::write(&script, text).unwrap();
    let flows = desk.folder.path().join("workflows");
    fs::create_dir(&flows).unwrap();
    let local = format!("[agent.coder]\nrun = [\"sh\", \"{}\"]\n", script.display());
    let file = desk.office().join("local.toml");
    fs::write(&file, local).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    desk.run(&["send", "coder", "Go on", "--type", "directive", "--as", "lead"]);
    desk.trust();
    let flow = "[[step]]\nkey = \"a\"\nagent = \"coder\"\nrequest = \"Obey\"\n";
    fs::write(flows.join("other.toml"), flow).unwrap();
    let dispatched = desk.bare_command(&["dispatch", "--once"]).env("PATH", "/usr/bin:/bin").output().expect("it runs");
    let why = fs::read_to_string(found.with_extension("why")).unwrap_or_default();
    let found = fs::read_to_string(&found).unwrap_or_else(|_| panic!("it did not run: {dispatched:?}"));
    assert_eq!(found.lines().count(), 2 * tries.len(), "{found}");
    for line in found.lines() {
        assert!(line.starts_with("4 "), "{line}\n{why}");
    }
    // Not merely because there was nothing to do.
    for refusal in why.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let code = refusal["error"]["code"].as_str().unwrap_or_default();
        assert!(["not_a_person", "not_allowed"].contains(&code), "{refusal}");
    }
    let records = desk.json(&["log", "show"]);
    let shed = |record: &&serde_json::Value| record["id"] == "shed";
    let found = records["records"].as_array().and_then(|records| records.iter().find(shed)).cloned();
    let runs = desk.json(&["dispatch", "runs", "coder"]);
    let found = found.unwrap_or_else(|| panic!("{records}\n{why}"));
    assert!(found["session"].is_string() && found["session"] == runs["runs"][0]["run"], "{found}\n{runs}");
    let shown = fs::read_to_string(shown).unwrap();
    assert_eq!(shown.matches("not trusted").count(), 2, "{shown}\n{why}");
    let trusted = desk.json(&["trust", "--list"]);
    assert!(!trusted.to_string().contains("other.toml"), "{trusted}");
}

/// A real terminal, whose programs have no agent above them: the server of tmux leaves its parents.
struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(self.folder.path().join("socket")).args(arguments).output();
        let output = output.expect("tmux is missing; cargo xtask test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command line in an empty environment and in a folder; `end` is the file with its exit code.
    fn start(desk: &Desk, line: &str) -> (Self, PathBuf) {
        let terminal = Self { folder: tempfile::tempdir().expect("a folder") };
        let (home, end) = (desk.folder.path().display(), terminal.folder.path().join("end"));
        let line = format!(
            "cd '{home}'; env -i HOME='{home}' XDG_STATE_HOME='{state}' PATH=/usr/bin:/bin TERM=screen {line}; \
             echo $? >'{0}.new'; mv '{0}.new' '{0}'; cat",
            end.display(),
            state = poste_testkit::state::home().display(),
        );
        terminal.run(&["-f", "/dev/null", "new-session", "-d", "-x", "160", "-y", "40", &line]);
        (terminal, end)
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn asks(&self, word: &str) {
        until("the question", || self.screen().contains(&format!("type {word} to confirm")));
    }

    fn types(&self, text: &str) {
        self.run(&["send-keys", text, "Enter"]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.folder.path().join("socket")).arg("kill-server").output();
    }
}

fn ended(end: &Path) -> i32 {
    until("the command to end", || end.exists());
    fs::read_to_string(end).expect("a code").trim().parse().expect("a number")
}

#[test]
fn a_person_at_a_terminal_types_a_word_and_is_believed() {
    let desk = office();
    let poste = env!("CARGO_BIN_EXE_poste");
    let (terminal, end) = Terminal::start(&desk, &format!("'{poste}' register eve --kind human"));
    terminal.asks("eve");
    terminal.types("eve");
    assert_eq!(ended(&end), 0, "{}", terminal.screen());

    let (terminal, end) = Terminal::start(&desk, &format!("'{poste}' register mallory --kind human"));
    terminal.asks("mallory");
    terminal.types("yes");
    assert_eq!(ended(&end), 4, "{}", terminal.screen());

    // Approving and writing ask for nothing more than the terminal.
    let asked = desk.json(&["ask", "eve", "Deploy?", "--as", "coder"])["number"].to_string();
    let (terminal, end) = Terminal::start(&desk, &format!("'{poste}' approve {asked} --as eve"));
    assert_eq!(ended(&end), 0, "{}", terminal.screen());
    let (terminal, end) = Terminal::start(&desk, &format!("'{poste}' send lead 'Well done' --as eve"));
    assert_eq!(ended(&end), 0, "{}", terminal.screen());
    let page = desk.json(&["inbox", "--as", "lead", "--all"]);
    assert!(page.to_string().contains("\"human\""), "{page}");
}

#[test]
fn an_agent_with_a_terminal_is_no_person() {
    let desk = office();
    let poste = env!("CARGO_BIN_EXE_poste");
    let claude = desk.folder.path().join("claude");
    fs::copy("/bin/sh", &claude).expect("a copy of the shell");
    let register = format!("'{poste}' register eve --kind human");
    let (terminal, end) = Terminal::start(&desk, &format!("'{}' -c \"{register}; exit \\$?\"", claude.display()));
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    assert!(terminal.screen().contains("claude started this command"), "{}", terminal.screen());

    // However many shells are in between.
    let script = |level: usize| desk.folder.path().join(format!("{level}.sh"));
    fs::write(script(0), format!("{register}\nexit $?\n")).unwrap();
    for level in 1..=20 {
        fs::write(script(level), format!("sh '{}'\nexit $?\n", script(level - 1).display())).unwrap();
    }
    let (terminal, end) = Terminal::start(&desk, &format!("'{}' '{}'", claude.display(), script(20).display()));
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    assert!(terminal.screen().contains("claude started this command"), "{}", terminal.screen());

    // In the background of the terminal, with and without a session of its own, and below the session of an agent.
    let asked = desk.json(&["ask", "anna", "Deploy?", "--as", "coder"])["number"].to_string();
    let background = format!("sh -mc \"'{poste}' approve {asked} --as anna & wait \\$!\"");
    let (terminal, end) = Terminal::start(&desk, &background);
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    assert!(terminal.screen().contains("nothing proves that anna"), "{}", terminal.screen());
    let (terminal, end) = Terminal::start(&desk, &format!("setsid --wait '{poste}' register eve --kind human"));
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    let session =
        format!("sh -c \"'{poste}' session start --as coder; '{poste}' register eve --kind human; exit \\$?\"");
    let (terminal, end) = Terminal::start(&desk, &session);
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    assert!(terminal.screen().contains("of coder"), "{}", terminal.screen());
}

#[test]
fn a_token_speaks_for_a_person_and_no_agent_gets_it() {
    let desk = office();
    let folder = tempfile::tempdir().expect("a folder for tokens");
    let with = |mut command: Command, file: Option<&Path>| {
        command.envs(file.map(|file| ("POSTE_TOKEN_FILE", file)));
        command.output().expect("it runs")
    };
    let made = with(desk.command(&["--json", "token", "person"]), None);
    assert!(made.status.success(), "{}", code(&made));
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let file = folder.path().join("token");
    fs::write(&file, made["token"].as_str().unwrap()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    let asked = || desk.json(&["ask", "anna", "Deploy?", "--as", "coder"])["number"].to_string();
    let approve =
        |number: &str, file: &Path| with(desk.bare_command(&["--json", "approve", number, "--as", "anna"]), Some(file));
    assert!(approve(&asked(), &file).status.success());
    let registered = with(desk.bare_command(&["register", "eve", "--kind", "human"]), Some(&file));
    assert!(registered.status.success(), "{registered:?}");

    // Also where nobody's name is given.
    fs::write(desk.office().join("local.toml"), "[wake]\ncommand = ['true']\n").unwrap();
    let trust = |file| String::from_utf8(with(desk.bare_command(&["trust"]), file).stdout).expect("text");
    assert!(trust(None).contains("not trusted"));
    let trusted = trust(Some(&file));
    assert!(trusted.contains("trusted by") && !trusted.contains("not trusted"), "{trusted}");

    // A token that others can read, a link to one, another text, a revoked one.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(code(&approve(&asked(), &file)), "not_a_person");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(code(&approve(&asked(), &link)), "not_a_person");
    let other = folder.path().join("other");
    fs::write(&other, "poste-person-0000").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(code(&approve(&asked(), &other)), "not_a_person");
    for folder in [desk.folder.path().to_owned(), desk.office()] {
        let inside = folder.join("token");
        fs::copy(&file, &inside).unwrap();
        assert_eq!(code(&approve(&asked(), &inside)), "not_a_person");
        fs::remove_file(inside).unwrap();
    }
    let listed = with(desk.bare_command(&["--json", "token", "list"]), None);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(made["token"].as_str().unwrap()));
    let id = made["id"].as_str().unwrap();
    assert!(with(desk.bare_command(&["token", "revoke", id]), None).status.success());
    assert_eq!(code(&approve(&asked(), &file)), "not_a_person");
    fs::write(desk.office().join("local.toml"), "[wake]\ncommand = ['false']\n").unwrap();
    assert!(trust(Some(&file)).contains("not trusted"));
}

/// The shell of a person's terminal leads its session, so a process that no longer has it above was left behind.
#[test]
fn what_an_agent_leaves_behind_at_a_terminal_is_no_person() {
    let desk = office();
    let poste = env!("CARGO_BIN_EXE_poste");
    let asked = desk.json(&["ask", "anna", "Deploy?", "--as", "coder"])["number"].to_string();
    let at = |name: &str| desk.folder.path().join(name);
    fs::copy("/bin/sh", at("claude")).expect("a copy of the shell");
    let (said, left) = (at("said"), at("left"));
    let approve = format!("'{poste}' approve {asked} --as anna 2>'{}'; echo $? >'{}'", said.display(), left.display());
    // The tool ends before what it started, which waits until it has no agent above it.
    let orphan = format!("(while kill -0 $tool; do sleep 0.05; done 2>/dev/null; {approve}) &\n");
    fs::write(at("tool.sh"), format!("tool=$$\n{orphan}")).unwrap();
    let session =
        format!("sh '{}'; while ! test -s '{}'; do sleep 0.05; done; true", at("tool.sh").display(), left.display());
    fs::write(at("session.sh"), session).unwrap();
    let line = format!("'{}' '{}'", at("claude").display(), at("session.sh").display());
    let (terminal, end) = Terminal::start(&desk, &line);
    assert_eq!(ended(&end), 0, "{}", terminal.screen());
    assert_eq!(ended(&left), 4, "{}", fs::read_to_string(said).unwrap());
}

#[test]
fn an_agent_that_closes_its_session_does_not_become_a_person() {
    let desk = office();
    let poste = env!("CARGO_BIN_EXE_poste");
    let asked = desk.json(&["ask", "anna", "Deploy?", "--as", "coder"])["number"].to_string();
    let script = desk.folder.path().join("agent.sh");
    let session = "--session 5e55-1 --as coder";
    fs::write(
        &script,
        format!(
            "'{poste}' session start {session} >/dev/null || exit 90\n'{poste}' session close {session} >/dev/null || exit 91\n\
             '{poste}' approve {asked} --as anna\nexit $?\n"
        ),
    )
    .unwrap();
    let (terminal, end) = Terminal::start(&desk, &format!("sh '{}'", script.display()));
    assert_eq!(ended(&end), 4, "{}", terminal.screen());
    assert!(terminal.screen().contains("nothing proves that anna"), "{}", terminal.screen());
}

#[test]
fn nothing_of_a_person_is_ended_or_taken_in_their_name_alone() {
    let desk = office();
    let alert = desk.json(&["send", "anna", "Disk full", "--type", "alert", "--as", "coder"])["number"].to_string();
    refuses(&desk, &["ack", &alert, "--as", "anna"], "not_a_person");
    refuses(&desk, &["done", &alert, "--as", "anna"], "not_a_person");
    refuses(&desk, &["reply", &alert, "Ignore it", "--done", "--as", "anna"], "not_a_person");
    let handoff = desk.json(&["handoff", "create", "anna", "--task", "Decide", "--as", "coder"])["number"].to_string();
    refuses(&desk, &["handoff", "accept", &handoff, "--as", "anna"], "not_a_person");
    refuses(&desk, &["retire", "anna", "--as", "coder"], "not_allowed");
    refuses(&desk, &["retire", "anna", "--as", "anna"], "not_a_person");
}

#[test]
fn a_list_says_whose_name_is_not_proven() {
    let desk = office();
    let sent = bare(&desk, &["send", "lead", "Delete the branch", "--type", "alert", "--as", "anna"]);
    assert!(sent.status.success());
    let shown = desk.run(&["inbox", "--as", "lead"]);
    assert!(shown.contains("anna (unproven)"), "{shown}");
    let mut hook = desk.bare_command(&["hook", "session-start", "--program", "claude-code"]);
    hook.env("POSTE_AGENT", "lead").stdin(std::process::Stdio::piped());
    let mut hook = hook.spawn().expect("the hook starts");
    let event = serde_json::json!({ "session_id": "s-1", "cwd": desk.folder.path(), "source": "startup" });
    std::io::Write::write_all(&mut hook.stdin.take().unwrap(), event.to_string().as_bytes()).unwrap();
    let said = String::from_utf8(hook.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("from anna (unproven)"), "{said}");
}
