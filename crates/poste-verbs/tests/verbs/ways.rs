//! The ways to wake an agent, each for real: a terminal, a socket, a server, a program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use poste_core::log::{MessageNo, WakeOutcome, WakeWay};
use poste_core::store::processes;
use poste_verbs::wake::{Attempt, Plan, Ring, Way, ring};

const LIMIT: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(500);

fn a_ring(numbers: &[u64]) -> Ring {
    Ring {
        agent: "coder".parse().expect("a name"),
        numbers: numbers.iter().map(|number| MessageNo(*number)).collect(),
        folder: env::temp_dir(),
        limit: LIMIT,
    }
}

/// Asks in one way. The error is the reason why that was not possible.
fn ask(way: Way, by: &Ring) -> Result<(), String> {
    let plan = Plan { ways: vec![way], why_not: String::new() };
    let attempt = ring(&plan, by, &|| Err("there is no program".to_owned())).remove(0);
    attempt.reason.map_or(Ok(()), Err)
}

#[test]
fn a_ring_is_one_line_of_numbers() {
    assert_eq!(a_ring(&[7]).text(), "poste: 1 message waits (#7); run poste inbox");
    assert_eq!(a_ring(&[7, 9]).text(), "poste: 2 messages wait (#7, #9); run poste inbox");
    let many = a_ring(&[1, 2, 3, 4, 5, 6, 7]).text();
    assert_eq!(many, "poste: 7 messages wait (#1, #2, #3, #4, #5, …); run poste inbox");
}

#[test]
fn ways_are_tried_in_order_until_one_could_be_asked() {
    let nowhere = Way::ClaudeSocket { path: "/nowhere/at/all".into(), token: Some("s3cret".to_owned()) };
    let plan = Plan { ways: vec![nowhere, Way::Rewake, Way::Rewake], why_not: String::new() };
    let no_program = || Err("there is no program".to_owned());
    let attempts = ring(&plan, &a_ring(&[1]), &no_program);
    let told: Vec<(WakeWay, WakeOutcome)> = attempts.iter().map(|attempt| (attempt.how, attempt.outcome)).collect();
    let expected = [(WakeWay::ClaudeSocket, WakeOutcome::Failed), (WakeWay::Rewake, WakeOutcome::Requested)];
    assert_eq!(told, expected);
    let reason = attempts[0].reason.as_deref().expect("a reason");
    assert!(!reason.contains("s3cret"), "{reason}");
    let nothing = ring(&Plan { ways: Vec::new(), why_not: "nobody runs".to_owned() }, &a_ring(&[1]), &no_program);
    let failed =
        |reason: &str| Attempt { how: WakeWay::Nothing, outcome: WakeOutcome::Failed, reason: Some(reason.to_owned()) };
    assert_eq!(nothing, [failed("nobody runs")]);
    let plan = Plan { ways: vec![Way::Spawn, Way::Rewake], why_not: String::new() };
    let told = |attempts: Vec<Attempt>| attempts.into_iter().map(|attempt| attempt.how).collect::<Vec<_>>();
    assert_eq!(told(ring(&plan, &a_ring(&[1]), &no_program)), [WakeWay::Spawn, WakeWay::Rewake]);
    assert_eq!(told(ring(&plan, &a_ring(&[1]), &|| Ok(()))), [WakeWay::Spawn]);
}

/// A script in a folder that records its arguments and then runs `body`.
fn script(folder: &Path, name: &str, body: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}/args'\n{body}\n", folder.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_command_gets_names_and_numbers_and_no_shell() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "notify", "");
    let words = [&program, "{agent}", "#{number} of {count}", "$(reboot); {other}"].map(str::to_owned);
    ask(Way::Command { words: words.into() }, &a_ring(&[12, 14])).unwrap();
    let args = fs::read_to_string(folder.path().join("args")).unwrap();
    assert_eq!(args, "coder\n#12 of 2\n$(reboot); {other}\n");
}

#[test]
fn a_command_that_fails_hangs_or_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let fails = script(folder.path(), "fails", "echo; echo 'no bus' >&2; exit 3");
    let command = |word: &str, ring: &Ring| ask(Way::Command { words: vec![word.to_owned()] }, ring);
    assert_eq!(command(&fails, &a_ring(&[1])), Err(format!("{fails} ended with exit code 3: \"no bus\"")));
    let hangs = script(folder.path(), "hangs", "exec sleep 60");
    let start = Instant::now();
    let ring = Ring { limit: Duration::from_millis(300), ..a_ring(&[1]) };
    let told = command(&hangs, &ring).unwrap_err();
    assert!(told.ends_with("timed out after 0.3 s"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(50));
    let told = command("/nowhere/notify", &a_ring(&[1])).unwrap_err();
    assert!(told.contains("program not found"), "{told}");
}

#[test]
fn a_thread_is_no_option() {
    for bad in ["--help", "", "a b", "x\ny"] {
        let way = Way::CodexQueue { thread: bad.to_owned() };
        assert!(ask(way, &a_ring(&[1])).unwrap_err().contains("thread"), "{bad:?}");
    }
}

/// Asks a server to prompt a session.
fn prompt(url: &str, session: &str, hosts: &[String], limit: Duration) -> Result<(), String> {
    let way = Way::OpenCode { url: url.to_owned(), session: session.to_owned(), hosts: hosts.to_vec() };
    ask(way, &Ring { limit, ..a_ring(&[1]) })
}

/// Answers one request and hands it back.
fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut request = Vec::new();
        let mut part = [0; 1024];
        while !String::from_utf8_lossy(&request).ends_with("}]}") {
            let read = stream.read(&mut part).expect("read");
            assert!(read > 0, "the request has an end");
            request.extend_from_slice(&part[..read]);
        }
        stream.write_all(answer.as_bytes()).expect("answered");
        String::from_utf8(request).expect("text")
    });
    (url, served)
}

#[test]
fn a_session_is_prompted_with_one_request() {
    let (url, served) = serve("HTTP/1.1 204 No Content\r\n\r\n");
    prompt(&format!("{url}/base/"), "ses_1", &[], LIMIT).expect("asked");
    let request = served.join().expect("served");
    assert!(request.starts_with("POST /base/session/ses_1/prompt_async HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
    assert!(
        request.ends_with(r#"{"parts":[{"type":"text","text":"poste: 1 message waits (#1); run poste inbox"}]}"#),
        "{request}"
    );
    let (url, served) = serve("HTTP/1.1 404 Not Found\r\n\r\n");
    let told = prompt(&url, "ses_1", &[], LIMIT).expect_err("it says no");
    assert_eq!(told, "the server answered with HTTP 404");
    served.join().expect("served");
    let (url, served) = serve("hello\n");
    assert!(prompt(&url, "ses_1", &[], LIMIT).expect_err("no HTTP").contains("not HTTP"));
    served.join().expect("served");
}

#[test]
fn a_server_that_says_nothing_or_is_not_there_is_told_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let start = Instant::now();
    let told = prompt(&url, "ses_1", &[], Duration::from_millis(500)).expect_err("it says nothing");
    assert_eq!(told, "the server did not answer in time");
    assert!(start.elapsed() < LIMIT);
    // A fixed port: one that this test had opened and closed could be taken by another test.
    assert!(prompt("http://127.0.0.1:1", "ses_1", &[], LIMIT).expect_err("no server listens").contains("refused"));
}

#[test]
fn only_this_machine_and_hosts_that_were_named_are_asked() {
    let told = prompt("http://192.0.2.1:1", "s", &[], LIMIT).expect_err("elsewhere");
    assert!(told.contains("hosts = [\"192.0.2.1\"]"), "{told}");
    let named = prompt("http://192.0.2.1:1", "s", &["192.0.2.1".to_owned()], Duration::from_millis(50));
    assert!(!named.expect_err("no server listens").contains("hosts"));
    for url in ["https://127.0.0.1:1", "http://", "http://a b:1", "http://h:99999", "http://u@h:1", "file:///etc"] {
        assert!(prompt(url, "s", &[], LIMIT).is_err(), "{url}");
    }
    assert!(prompt("http://127.0.0.1:1", "../x", &[], LIMIT).expect_err("odd").contains("fit in a URL"));
}

/// Writes to the socket of a session.
fn write(path: &Path, token: Option<&str>, limit: Duration) -> Result<(), String> {
    let way = Way::ClaudeSocket { path: path.to_owned(), token: token.map(str::to_owned) };
    ask(way, &Ring { limit, ..a_ring(&[1]) })
}

#[test]
fn the_key_comes_first_and_then_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("inbox");
    let listener = UnixListener::bind(&path).expect("bound");
    write(&path, Some("s3cret"), LIMIT).expect("written");
    write(&path, None, LIMIT).expect("written");
    let lines = |stream: UnixStream| BufReader::new(stream).lines().map(|line| line.expect("a line")).collect();
    let first: Vec<String> = lines(listener.accept().expect("accepted").0);
    assert_eq!(first[0], r#"{"type":"auth","token":"s3cret"}"#);
    let written: serde_json::Value = serde_json::from_str(&first[1]).expect("JSON");
    assert_eq!(written["message"]["content"], "poste: 1 message waits (#1); run poste inbox");
    assert_eq!((&written["type"], &written["priority"]), (&"user".into(), &"next".into()));
    let second: Vec<String> = lines(listener.accept().expect("accepted").0);
    assert_eq!(second.len(), 1, "without a key there is no line for it");
}

#[test]
fn what_is_no_socket_or_takes_nothing_is_told_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("inbox");
    let told = write(&path, None, LIMIT).expect_err("it is not there");
    assert!(told.contains("No such file"), "{told}");
    fs::write(&path, "").expect("written");
    assert!(write(&path, Some("s3cret"), LIMIT).expect_err("a file").contains("not a socket of this user"));
    fs::remove_file(&path).expect("removed");
    drop(UnixListener::bind(&path).expect("bound"));
    let told = write(&path, None, LIMIT).expect_err("no process listens");
    assert!(told.contains("refused"), "{told}");
    fs::remove_file(&path).expect("removed");
    // The listener never accepts, so the queue of connections fills up.
    let _listener = UnixListener::bind(&path).expect("bound");
    let start = Instant::now();
    let told = (0..10_000).find_map(|_| write(&path, None, SHORT).err()).expect("the queue has an end");
    assert!(told.contains("it accepts no connections"), "{told}");
    assert!(start.elapsed() < 2 * LIMIT);
}

/// Types a line into a pane.
fn type_line(socket: &Path, pane: &str, pid: u32, numbers: &[u64]) -> Result<(), String> {
    let way = Way::Tmux { socket: socket.to_owned(), pane: pane.to_owned(), pid };
    ask(way, &a_ring(numbers))
}

/// A tmux server with one pane, in which a program records the typed lines.
struct Server {
    folder: tempfile::TempDir,
}

impl Server {
    fn start(program: &str) -> Self {
        let server = Self { folder: tempfile::tempdir().expect("a folder") };
        let command = program.replace("FOLDER", &server.folder.path().display().to_string());
        server.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &command]);
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(self.socket()).args(arguments).output().expect("tmux runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn pane(&self) -> (String, u32) {
        let told = self.tmux(&["display-message", "-p", "#{pane_id} #{pane_pid}"]);
        let (pane, pid) = told.trim().split_once(' ').expect("two words");
        (pane.to_owned(), pid.parse().expect("a number"))
    }

    fn typed(&self) -> String {
        fs::read_to_string(self.folder.path().join("typed")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").output();
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const READER: &str = "touch FOLDER/typed; while read -r line; do echo \"$line\" >> FOLDER/typed; done";

#[test]
fn a_line_is_typed_and_sent_as_it_is() {
    let server = Server::start(READER);
    let (pane, pid) = server.pane();
    type_line(&server.socket(), &pane, pid, &[1, 2]).expect("typed");
    until("the line", || server.typed() == "poste: 2 messages wait (#1, #2); run poste inbox\n");
}

/// Uses a shell to stop and resume the agent, as a person does with Ctrl-Z and `fg`.
#[test]
fn an_agent_that_was_put_aside_is_not_typed_to() {
    let server = Server::start("exec bash --norc --noprofile -i");
    let (pane, shell) = server.pane();
    let run = |line: &str| server.tmux(&["send-keys", "-t", &pane, line, "Enter"]);
    let folder = server.folder.path().display().to_string();
    let agent = format!("echo $$ > FOLDER/pid; {READER}").replace("FOLDER", &folder);
    fs::write(server.folder.path().join("agent"), agent).expect("written");
    run(&format!("sh {folder}/agent"));
    until("the agent", || server.folder.path().join("typed").exists());
    let agent = fs::read_to_string(server.folder.path().join("pid")).expect("it says so");
    let agent: u32 = agent.trim().parse().expect("a number");
    let type_line = |number: u64| type_line(&server.socket(), &pane, agent, &[number]);
    let line = |number: u64| format!("{}\n", a_ring(&[number]).text());
    type_line(1).expect("it is in front");
    until("the line", || server.typed() == line(1));
    server.tmux(&["send-keys", "-t", &pane, "C-z"]);
    until("the stop", || !processes::is_in_foreground(agent));
    let aside = format!("the agent is not in the foreground of pane {pane}");
    assert_eq!(type_line(2), Err(aside.clone()));
    // The agent continues in the background.
    run("bg");
    until("the shell", || processes::is_in_foreground(shell));
    assert_eq!(type_line(2), Err(aside));
    run("fg");
    until("the agent in front", || processes::is_in_foreground(agent));
    type_line(3).expect("it is in front again");
    until("the line", || server.typed() == line(1) + &line(3));
}

#[test]
fn only_a_pane_that_runs_the_agent_is_typed_into() {
    let server = Server::start(READER);
    let (pane, pid) = server.pane();
    let told = |pane: &str, pid: u32| type_line(&server.socket(), pane, pid, &[1]).expect_err("not there");
    assert_eq!(told(&pane, std::process::id()), format!("pane {pane} runs another program now"));
    assert!(told("%99", pid).contains("pane"), "a missing pane");
    assert!(told("=0.0", pid).contains("not one of tmux"));
    server.tmux(&["copy-mode", "-t", &pane]);
    assert_eq!(told(&pane, pid), format!("pane {pane} is in copy mode"));
    server.tmux(&["send-keys", "-t", &pane, "-X", "cancel"]);
    server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    server.tmux(&["send-keys", "-t", &pane, "C-d"]);
    until("the end of the pane", || {
        server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_dead}"]).starts_with('1')
    });
    assert_eq!(told(&pane, pid), format!("pane {pane} is dead"));
    assert_eq!(server.typed(), "", "nothing was typed");
    let nobody = type_line(Path::new("/nowhere/tmux"), &pane, pid, &[1]).expect_err("no server");
    assert!(nobody.starts_with("the socket of tmux: "), "{nobody}");
}
