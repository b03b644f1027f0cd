//! Notification rules, processed by real processes and sent to real servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use poste_dispatch::notify::sign;
use poste_testkit::endpoints::{HttpEndpoint, Mood, Received, SmtpSink};
use poste_testkit::rng::Rng;
use serde_json::Value;

use crate::common::{Desk, expect_success, until};

/// A text that does not occur by chance.
const SECRET: &str = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0LTQ3MTE=";

/// An office with these rules in this machine's own file, which needs no trust.
fn desk(rules: &str) -> Desk {
    let desk = Desk::new(&["ops", "monitor"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    std::fs::write(desk.office().join("local.toml"), rules).expect("a file");
    desk.trust();
    desk
}

fn webhook(name: &str, url: &str, more: &str) -> String {
    format!(
        "[[on]]\nname = \"{name}\"\ntype = \"alert\"\nhandler = \"webhook\"\nurl = \"{url}/hook\"\nsecret_env = \"HOOK\"\n\
         timeout = \"1s\"\nbackoff = \"20ms\"\nattempts = 100\n{more}\n"
    )
}

fn with_secrets(mut command: Command) -> Command {
    command.env("HOOK", SECRET).env("TOKEN", "123:telegram-token-4711").env("PASSWORD", "pass-4711");
    command
}

/// A watcher that is killed when the test ends, even if it fails.
struct Watching(Child);

impl Watching {
    fn start(desk: &Desk) -> Self {
        Self(with_secrets(desk.command(&["watch", "--json"])).spawn().expect("the program starts"))
    }

    fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Interrupts it, as Ctrl-C does, and returns what it printed.
    fn interrupt(mut self) -> Vec<Value> {
        let id = self.0.id().to_string();
        let asked = Command::new("kill").args(["-INT", &id]).status().expect("kill runs");
        assert!(asked.success());
        let lines = BufReader::new(self.0.stdout.take().expect("its output")).lines();
        let lines = lines.map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect();
        assert!(self.0.wait().expect("it ends").success());
        lines
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until every rule has begun: a rule covers only mail sent after it was first processed.
fn until_begun(desk: &Desk, rules: usize) {
    until("every rule to begin", || {
        let status = desk.json(&["watch", "status"]);
        let all = status["rules"].as_array().expect("rules");
        all.iter().filter(|rule| !rule["seen_to"].is_null()).count() == rules
    });
}

fn alert(desk: &Desk, subject: &str) -> u64 {
    let sent = desk.json(&["send", "ops", subject, "It is full.", "--type", "alert", "--as", "monitor"]);
    sent["number"].as_u64().expect("a number")
}

fn number_of(received: &Received) -> u64 {
    let body: Value = serde_json::from_slice(&received.body).expect("JSON");
    body["data"]["message"]["number"].as_u64().expect("a number")
}

/// The messages a receiver sees that ignores repeated keys. No key stands for two messages.
fn effective(taken: &[Received]) -> Vec<u64> {
    let mut keys: BTreeMap<String, u64> = BTreeMap::new();
    let mut order = Vec::new();
    for received in taken {
        let (key, number) = (received.headers["idempotency-key"].clone(), number_of(received));
        match keys.insert(key.clone(), number) {
            None => order.push(number),
            Some(before) => assert_eq!(before, number, "{key} stands for one message"),
        }
    }
    order
}

fn check_signature(received: &Received) {
    let header = |name: &str| received.headers[name].as_str();
    let at = header("webhook-timestamp");
    let now = at.parse().expect("a number");
    let signed = sign::Key::new(SECRET).unwrap().verify(
        header("webhook-id"),
        at,
        header("webhook-signature"),
        &received.body,
        now,
    );
    assert_eq!(signed, Ok(()));
    assert_eq!(header("webhook-id"), header("idempotency-key"));
}

#[test]
fn an_endpoint_that_fails_hangs_and_comes_back_gets_each_alert_once() {
    let endpoint = HttpEndpoint::start(Mood::Refuses(503));
    let desk = desk(&webhook("pager", &endpoint.url(), ""));
    let watching = Watching::start(&desk);
    until_begun(&desk, 1);
    let mut sent = vec![alert(&desk, "one"), alert(&desk, "two")];
    desk.run(&["send", "ops", "No alert", "--as", "monitor"]);
    until("three refusals", || endpoint.received().len() >= 3);
    endpoint.set(Mood::Hangs);
    sent.push(alert(&desk, "three"));
    let before = endpoint.received().len();
    until("a request that hangs", || endpoint.received().len() > before);
    endpoint.set(Mood::TakesInSilence);
    until("a request that was taken without an answer", || endpoint.taken().len() >= 2);
    endpoint.set(Mood::Takes);
    sent.push(alert(&desk, "four"));
    until("every alert to arrive", || effective(&endpoint.taken()).len() == sent.len());
    assert_eq!(effective(&endpoint.taken()), sent, "in order");
    until("every rule to be released", || desk.json(&["watch", "status"])["rules"][0]["seen_to"]["holder"].is_null());
    let lines = watching.interrupt();
    assert!(lines.iter().any(|line| line["what"] == "failed" && line["why"] == "the server answered with HTTP 503"));
    assert!(lines.iter().any(|line| line["what"] == "failed" && line["why"] == "the server did not answer in time"));
    endpoint.received().iter().for_each(check_signature);
    let status = desk.json(&["watch", "status"]);
    assert_eq!(
        (&status["rules"][0]["seen_to"]["dead"], &status["rules"][0]["seen_to"]["behind"]),
        (&0.into(), &0.into())
    );
    desk.verify();
}

#[test]
fn watchers_that_are_killed_beside_each_other_lose_nothing() {
    let endpoint = HttpEndpoint::start(Mood::TakesAfter(Duration::from_millis(30)));
    let desk = desk(&webhook("pager", &endpoint.url(), ""));
    let mut watching = [Some(Watching::start(&desk)), Some(Watching::start(&desk))];
    until_begun(&desk, 1);
    const KILLS: usize = 13;
    let mut rng = Rng::new(4711);
    let mut sent = Vec::new();
    for round in 0..10 {
        for each in 0..3 {
            sent.push(alert(&desk, &format!("round {round} alert {each}")));
        }
        std::thread::sleep(Duration::from_millis(rng.below(80) as u64));
        let one = rng.below(2);
        watching[one].take().expect("it runs").kill();
        if round % 4 == 1 {
            // For a while there is no watcher; then a new one catches up.
            watching[1 - one].take().expect("it runs").kill();
            sent.push(alert(&desk, &format!("round {round}, while nobody watches")));
            watching[1 - one] = Some(Watching::start(&desk));
        }
        watching[one] = Some(Watching::start(&desk));
    }
    until("every alert to arrive", || effective(&endpoint.taken()).len() == sent.len());
    let arrived: BTreeSet<u64> = effective(&endpoint.taken()).into_iter().collect();
    assert_eq!(arrived, sent.iter().copied().collect());
    // A message is sent twice only if a watcher died between sending and recording it.
    let twice = endpoint.taken().len() - sent.len();
    assert!(twice <= KILLS, "{twice} were sent twice after {KILLS} kills");
    drop(watching);
    desk.verify();
}

#[test]
fn two_watchers_side_by_side_tell_each_alert_once() {
    let endpoint = HttpEndpoint::start(Mood::Takes);
    let desk = desk(&webhook("pager", &endpoint.url(), ""));
    let watching = [Watching::start(&desk), Watching::start(&desk), Watching::start(&desk)];
    until_begun(&desk, 1);
    let sent: Vec<u64> = (0..20).map(|round| alert(&desk, &format!("alert {round}"))).collect();
    until("every alert to arrive", || endpoint.taken().len() >= sent.len());
    until("every rule to be released", || desk.json(&["watch", "status"])["rules"][0]["seen_to"]["holder"].is_null());
    let lines: Vec<Value> = watching.into_iter().flat_map(Watching::interrupt).collect();
    assert_eq!(endpoint.taken().iter().map(number_of).collect::<Vec<_>>(), sent, "each once, and in order");
    assert_eq!(lines.iter().filter(|line| line["what"] == "told").count(), sent.len());
}

#[test]
fn what_cannot_be_told_is_a_dead_letter_and_somebody_is_alerted() {
    let (broken, fine) = (HttpEndpoint::start(Mood::Refuses(500)), HttpEndpoint::start(Mood::Takes));
    let rules = webhook("pager", &broken.url(), "").replace("attempts = 100", "attempts = 2")
        + &webhook("second", &fine.url(), "");
    let desk = desk(&rules);
    let once = |expected: bool| {
        let output = with_secrets(desk.command(&["watch", "--once"])).output().expect("the program runs");
        assert_eq!(output.status.success(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    };
    once(true);
    let first = alert(&desk, "Disk full");
    let second = alert(&desk, "Disk very full");
    once(false);
    let dead = desk.json(&["watch", "dead", "pager"]);
    let numbers: Vec<u64> =
        dead["letters"].as_array().unwrap().iter().map(|letter| letter["message"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [first, second]);
    assert_eq!(dead["letters"][0]["attempts"], 2);
    assert!(dead["letters"][0]["error"].as_str().unwrap().starts_with("the server answered with HTTP 500"), "{dead}");
    assert_eq!(desk.pending("anna"), 1, "one alert for consecutive failures");
    once(true);
    // The other rule notifies of the alert, the broken one does not notify of itself.
    let told: Vec<u64> = fine.taken().iter().map(number_of).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(broken.received().len(), 4);
    broken.set(Mood::Takes);
    let retried = with_secrets(desk.command(&["watch", "retry", "pager"])).output().expect("the program runs");
    expect_success(&["watch", "retry"], &retried);
    assert_eq!(effective(&broken.taken()), [first, second]);
    assert_eq!(desk.json(&["watch", "dead"])["letters"], Value::Array(Vec::new()));
    let keys: BTreeSet<String> =
        broken.received().iter().map(|received| received.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys.len(), 2, "a retry keeps its key");
    desk.verify();
}

#[test]
fn chats_get_plain_text_and_nobody_gets_a_secret() {
    let endpoint = HttpEndpoint::start(Mood::Refuses(401));
    let rules = format!(
        "[[on]]\nname = \"telegram\"\ntype = \"alert\"\nhandler = \"telegram\"\ntoken_env = \"TOKEN\"\nchat = \"-100\"\nurl = \"{0}\"\n\
         attempts = 2\nbackoff = \"10ms\"\n\
         [[on]]\nname = \"slack\"\ntype = \"alert\"\nhandler = \"slack\"\nurl_env = \"SLACK\"\nattempts = 2\nbackoff = \"10ms\"\n",
        endpoint.url()
    );
    let desk = desk(&rules);
    let slack = format!("{}/services/slack-secret-4711", endpoint.url());
    let run = |args: &[&str]| {
        let output = with_secrets(desk.command(args)).env("SLACK", &slack).output().expect("the program runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    run(&["watch", "--once"]);
    let subject = "<!channel> *bold* & _more_";
    desk.run(&["send", "ops", subject, "\u{1b}[31m\u{202e}line", "--type", "alert", "--as", "monitor"]);
    let mut said = run(&["watch", "--once"]);
    endpoint.set(Mood::Takes);
    for rule in ["telegram", "slack"] {
        said += &run(&["watch", "retry", rule]);
        said += &run(&["watch", "test", rule]);
    }
    said += &run(&["watch", "dead", "--json"]);
    let bodies: BTreeMap<String, Value> = endpoint
        .taken()
        .iter()
        .rev()
        .map(|received| (received.path.clone(), serde_json::from_slice(&received.body).expect("JSON")))
        .collect();
    let telegram = &bodies["/bot123:telegram-token-4711/sendMessage"];
    assert!(telegram.get("parse_mode").is_none());
    let text = telegram["text"].as_str().unwrap();
    assert!(text.contains(subject) && !text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let slack_text = bodies["/services/slack-secret-4711"]["text"].as_str().unwrap();
    assert!(slack_text.contains("&lt;!channel&gt; *bold* &amp; _more_"), "{slack_text}");
    assert_eq!(bodies["/services/slack-secret-4711"]["mrkdwn"], false);
    for secret in ["telegram-token-4711", "slack-secret-4711"] {
        assert!(!said.contains(secret), "{said}");
        assert!(!found_in(&desk, secret), "{secret} is in a file of the office");
    }
    assert!(said.contains("HTTP 401"), "{said}");
}

/// Whether any file of the office contains this text.
fn found_in(desk: &Desk, text: &str) -> bool {
    let searched = Command::new("grep").args(["-rqF", "--", text]).arg(desk.office()).status().expect("grep runs");
    searched.success()
}

#[test]
fn a_mail_arrives_with_a_name_of_its_own() {
    let sink = SmtpSink::start();
    sink.refuse(2);
    let rules = format!(
        "[[on]]\nname = \"mail\"\ntype = \"alert\"\nhandler = \"email\"\nserver = \"{}\"\ntls = \"none\"\nuser = \"poste\"\n\
         password_env = \"PASSWORD\"\nsender = \"poste@example.org\"\nrecipients = [\"a@example.org\", \"b@example.org\"]\n\
         backoff = \"10ms\"\n",
        sink.address()
    );
    let desk = desk(&rules);
    let once = || {
        let output = with_secrets(desk.command(&["watch", "--once"])).output().expect("the program runs");
        expect_success(&["watch", "--once"], &output);
    };
    once();
    let subject = "Plätze\u{2028}voll";
    desk.run(&["send", "ops", subject, ".dot\n..dots\nÜbel", "--type", "alert", "--as", "monitor"]);
    once();
    let mails = sink.mails();
    assert_eq!(mails.len(), 1, "{mails:#?}");
    let mail = &mails[0];
    assert_eq!((mail.from.as_str(), mail.to.len()), ("poste@example.org", 2));
    let read = mail_of(&mail.text);
    assert!(read["message-id"].starts_with("<poste-") && read["message-id"].ends_with("@example.org>"));
    assert!(read["content-type"].starts_with("text/plain"), "{read:?}");
    assert_eq!(read["auto-submitted"], "auto-generated");
    assert!(mail.auth.is_some());
    let incoming = poste_dispatch::ingest::email(mail.text.as_bytes()).expect("a mail");
    assert!(incoming.subject.starts_with("[urgent] alert #"), "{}", incoming.subject);
    assert!(incoming.body.contains(".dot\n..dots\nÜbel"), "{}", incoming.body);
    assert!(!found_in(&desk, "pass-4711"));
}

/// Pipes a mail in, as a mail server does.
fn taken_in(desk: &Desk, mail: &str) -> Value {
    use std::io::Write as _;
    let mut child =
        desk.command(&["--json", "ingest", "email", "ops"]).stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(mail.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    expect_success(&["ingest", "email"], &output);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_a_rule_mails_to_its_own_office_rings_once() {
    let sink = SmtpSink::start();
    let rule = format!(
        "[[on]]\nname = \"mail\"\ntype = \"alert\"\nhandler = \"email\"\nserver = \"{}\"\ntls = \"none\"\n\
         sender = \"poste@example.org\"\nrecipients = [\"ops@example.org\"]\n",
        sink.address()
    );
    let desk = desk(&rule);
    let watching = Watching::start(&desk);
    until_begun(&desk, 1);
    alert(&desk, "one");
    until("the first mail", || sink.mails().len() == 1);
    let mail = sink.mails()[0].text.clone();
    let id = mail_of(&mail)["message-id"].clone();
    let away = format!(
        "From: ops@example.org\nAuto-Submitted: auto-replied\nIn-Reply-To: {id}\nMessage-ID: <a@b>\nSubject: Away\n\nI am."
    );
    let returned = format!(
        "From: MAILER-DAEMON@b\nMessage-ID: <r@b>\nSubject: Undelivered\nContent-Type: multipart/report; boundary=q\n\n\
         --q\n\nno such user\n--q\nContent-Type: message/rfc822\n\n{mail}\n--q--\n"
    );
    for caused in [&mail, &away] {
        let answer = taken_in(&desk, caused);
        assert_eq!((&answer["echo"], &answer["number"]), (&true.into(), &Value::Null), "{caused}");
    }
    assert_eq!(desk.pending("ops"), 1);
    // A returned mail is stored, but not as an alert, which would be mailed again.
    let back = taken_in(&desk, &returned);
    let back = desk.json(&["read", &back["number"].to_string(), "--as", "ops"]);
    assert_eq!((&back["type"], &back["subject"]), (&"message".into(), &"Undelivered".into()), "{back}");
    // A person's answer is stored, and so is the mail of another office.
    let answered = away.replace("Auto-Submitted: auto-replied\n", "").replace("<a@b>", "<h@b>");
    assert_eq!(taken_in(&desk, &answered)["echo"], false);
    until("the second mail", || sink.mails().len() == 2);
    let other = self::desk("");
    assert_eq!(taken_in(&other, &mail)["echo"], false);
    watching.interrupt();
}

#[test]
fn a_webhook_of_another_office_is_read_and_one_of_its_own_is_not() {
    let endpoint = HttpEndpoint::start(Mood::Takes);
    let (desk, other) = (desk(&webhook("pager", &endpoint.url(), "since = \"start\"")), self::desk(""));
    let number = alert(&desk, "Disk full");
    let told = with_secrets(desk.command(&["watch", "--once"])).output().expect("the program runs");
    expect_success(&["watch", "--once"], &told);
    let received = &endpoint.taken()[0];
    let body = desk.folder.path().join("body.json");
    std::fs::write(&body, &received.body).expect("a file");
    let mut args =
        ["ingest", "webhook", "ops", "--secret-env", "HOOK", "--json", "--file", body.to_str().expect("a path")]
            .map(ToOwned::to_owned)
            .to_vec();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        args.extend(["--header".to_owned(), format!("{name}: {}", received.headers[name])]);
    }
    let take_in = |desk: &Desk| -> Value {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = with_secrets(desk.command(&args)).output().expect("the program runs");
        expect_success(&args, &output);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    assert_eq!(take_in(&desk)["echo"], true);
    assert_eq!(desk.pending("ops"), 1);
    let stored = take_in(&other)["number"].to_string();
    let message = other.json(&["read", &stored, "--as", "ops"]);
    assert_eq!((&message["subject"], &message["body"]), (&"Disk full".into(), &"It is full.".into()));
    assert_eq!(message["payload"]["data"]["message"]["number"], number);
}

#[test]
fn a_rule_stops_at_so_many_messages_within_a_minute() {
    let desk = desk("[[on]]\nname = \"lines\"\ntype = \"alert\"\nhandler = \"log\"\nper_minute = 3\n");
    let watching = Watching::start(&desk);
    until_begun(&desk, 1);
    for nth in 0..5 {
        alert(&desk, &format!("alert {nth}"));
    }
    let told = || std::fs::read_to_string(desk.office().join("watch/lines.jsonl")).unwrap_or_default().lines().count();
    until("three notifications", || told() == 3);
    std::thread::sleep(Duration::from_millis(500));
    let lines = watching.interrupt();
    assert_eq!(told(), 3);
    let problems: Vec<&str> =
        lines.iter().filter(|line| line["what"] == "problem").filter_map(|line| line["why"].as_str()).collect();
    assert_eq!(problems.len(), 1, "{lines:?}");
    assert!(problems[0].starts_with("reported 3 messages within a minute and pauses for"), "{problems:?}");
    // Nothing is lost: the next watcher continues.
    desk.run(&["watch", "--once"]);
    assert_eq!(told(), 5);
}

#[test]
fn rules_that_all_fail_have_no_dead_letters_about_each_other() {
    let endpoint = HttpEndpoint::start(Mood::Refuses(500));
    const RULES: usize = 4;
    let rules: String =
        (0..RULES).map(|nth| webhook(&format!("r{nth}"), &endpoint.url(), "").replace("100", "2")).collect();
    let desk = desk(&rules);
    let watching = Watching::start(&desk);
    until_begun(&desk, RULES);
    let letters = || desk.json(&["watch", "dead"])["letters"].as_array().expect("letters").len();
    let settle = || {
        std::thread::sleep(Duration::from_secs(2));
        until("every rule to be released", || {
            let status = desk.json(&["watch", "status"]);
            status["rules"].as_array().expect("rules").iter().all(|rule| rule["seen_to"]["holder"].is_null())
        });
    };
    alert(&desk, "one");
    until("each rule to give up", || letters() >= RULES);
    settle();
    assert_eq!((letters(), desk.pending("anna")), (RULES, RULES as u64), "{}", desk.json(&["watch", "dead"]));
    alert(&desk, "two");
    until("each rule to give up again", || letters() >= 2 * RULES);
    settle();
    assert_eq!((letters(), desk.pending("anna")), (2 * RULES, RULES as u64), "no alert while each keeps failing");
    watching.interrupt();
}

fn mail_of(text: &str) -> BTreeMap<String, String> {
    let headers = text.lines().take_while(|line| !line.is_empty());
    headers
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect()
}

#[test]
fn what_comes_with_a_repository_reaches_out_only_when_it_is_trusted() {
    let desk = desk("");
    let script = "#!/bin/sh\ncat > told.json\necho \"$POSTE_IDEMPOTENCY_KEY $1 $HOOK\" > key.txt\n";
    write_program(&desk.folder.path().join("tell.sh"), script);
    let rules = "[[on]]\nname = \"run\"\ntype = \"alert\"\nhandler = \"exec\"\ncommand = [\"./tell.sh\", \"{number}\"]\n\
                 [[on]]\nname = \"lines\"\ntype = \"alert\"\nhandler = \"log\"\n";
    std::fs::write(desk.folder.path().join("poste.toml"), rules).expect("a file");
    let once = || {
        let output = with_secrets(desk.command(&["watch", "--once", "--json"])).output().expect("the program runs");
        expect_success(&["watch", "--once"], &output);
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(once().contains("\"untrusted\""));
    let first = alert(&desk, "before anybody trusted it");
    once();
    assert!(!desk.folder.path().join("told.json").exists());
    let lines = std::fs::read_to_string(desk.office().join("watch/lines.jsonl")).expect("a file of lines");
    assert_eq!(lines.lines().count(), 1);
    assert!(!lines.contains("before anybody"), "content would outlive its redaction there: {lines}");
    desk.trust();
    let begun = once();
    assert!(begun.contains("\"begun\"") && begun.contains("since = "), "earlier mail causes no notification: {begun}");
    let second = alert(&desk, "after that");
    assert!(second > first);
    once();
    let told: Value = serde_json::from_slice(&std::fs::read(desk.folder.path().join("told.json")).unwrap()).unwrap();
    assert_eq!(told["message"]["number"], second);
    let key = std::fs::read_to_string(desk.folder.path().join("key.txt")).unwrap();
    assert_eq!(key.trim(), format!("{} {second}", told["idempotency_key"].as_str().unwrap()), "without the secret");
}

#[test]
fn a_desktop_is_told_by_its_own_program() {
    let desk = desk("[[on]]\nname = \"desk\"\ntype = \"alert\"\nhandler = \"desktop\"\n");
    let bin = desk.programs();
    let shown = desk.folder.path().join("shown.txt");
    write_program(&bin.join("notify-send"), &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", shown.display()));
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let once = || {
        let output = desk.command(&["watch", "--once"]).env("PATH", &path).output().expect("the program runs");
        expect_success(&["watch", "--once"], &output);
    };
    once();
    desk.run(&["send", "ops", "<b>low</b> & more", "x", "--type", "alert", "--as", "monitor"]);
    once();
    let shown = std::fs::read_to_string(shown).expect("it was shown");
    assert!(shown.contains("--urgency\ncritical\n--\n"), "{shown}");
    assert!(shown.contains("&lt;b&gt;low&lt;/b&gt; &amp; more"), "{shown}");
}

/// Sends a process this signal and returns its exit code.
fn end(child: &mut Child, signal: &str) -> Option<i32> {
    let asked = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(asked.success());
    child.wait().expect("it ends").code()
}

#[test]
fn whoever_ran_a_command_for_a_rule_still_ends_in_order() {
    let rule = |name: &str, command: &str| {
        format!(
            "[[on]]\nname = \"{name}\"\ntype = \"alert\"\nhandler = \"exec\"\ncommand = [\"sh\", \"-c\", \"{command}\"]\ntimeout = \"2m\"\n"
        )
    };
    let quick = rule("quick", "echo $POSTE_NUMBER >> told.txt");
    let agent = "[agent.slow]\nrun = [\"sh\", \"-c\", \"touch begun.txt; sleep 2; touch ended.txt\"]\n";
    let desk = desk(&format!("{quick}{agent}"));
    let in_folder = |name: &str| desk.folder.path().join(name);
    desk.run(&["register", "slow"]);
    let mut command = desk.command(&["dispatch"]);
    let mut dispatching = Watching(command.env("PATH", "/usr/bin:/bin").spawn().expect("the program starts"));
    until_begun(&desk, 1);
    alert(&desk, "one");
    until("the first notification", || in_folder("told.txt").exists());
    desk.run(&["send", "slow", "Work", "--type", "directive", "--as", "monitor"]);
    until("the agent to run", || in_folder("begun.txt").exists());
    assert_eq!(end(&mut dispatching.0, "-TERM"), Some(0));
    assert!(in_folder("ended.txt").exists(), "the dispatcher waited for the run");

    std::fs::write(desk.office().join("local.toml"), quick + &rule("long", "touch long.txt; sleep 100"))
        .expect("a file");
    desk.trust();
    let mut watching = Watching::start(&desk);
    until_begun(&desk, 2);
    alert(&desk, "two");
    until("a command to run", || in_folder("long.txt").exists());
    let started = std::time::Instant::now();
    assert_eq!(end(&mut watching.0, "-TERM"), Some(0));
    assert!(started.elapsed() < Duration::from_secs(60), "the watcher does not wait for the command");
    let status = desk.json(&["watch", "status"]);
    let rules = status["rules"].as_array().expect("rules");
    assert!(rules.iter().all(|rule| rule["seen_to"]["holder"].is_null()), "{status}");
    assert_eq!(desk.json(&["watch", "dead"])["letters"], Value::Array(Vec::new()), "the next watcher sends it");
}

/// A server that repeats the requested path, as received and with escapes.
fn echoing_server() -> String {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a connection")).lines();
            let asked = lines.next().expect("a request").expect("text");
            let path = asked.split(' ').nth(1).expect("a path").to_owned();
            let body = serde_json::json!({ "error": format!("Cannot POST {path} nor {}", path.replace('-', "%2D")) });
            let body = body.to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn a_server_that_repeats_the_address_tells_nobody_the_secret_in_it() {
    let server = echoing_server();
    let desk = desk(&format!(
        "[[on]]\nname = \"slack\"\ntype = \"alert\"\nhandler = \"slack\"\nurl_env = \"SLACK\"\nattempts = 1\n\
         [[on]]\nname = \"telegram\"\ntype = \"alert\"\nhandler = \"telegram\"\ntoken_env = \"TOKEN\"\nchat = \"1\"\nurl = \"{server}\"\n\
         attempts = 1\n"
    ));
    let run = |args: &[&str]| {
        let slack = format!("{server}/services/T0/slack-secret-4711");
        let output = with_secrets(desk.command(args)).env("SLACK", slack).output().expect("the program runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    run(&["watch", "--once"]);
    alert(&desk, "one");
    let said = run(&["watch", "--once"]) + &run(&["watch", "dead", "--json"]) + &run(&["watch", "test", "slack"]);
    assert!(said.contains("HTTP 404"), "{said}");
    for secret in ["slack-secret-4711", "slack%2Dsecret%2D4711", "telegram-token-4711", "telegram%2Dtoken%2D4711"] {
        assert!(!said.contains(secret), "{said}");
        assert!(!found_in(&desk, secret), "{secret} is in a file of the office");
    }
}

/// A server that sends whoever asks to this address, and counts them.
fn redirecting_server(to: String) -> (String, Arc<AtomicUsize>) {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let lines = BufReader::new(stream.try_clone().expect("a connection")).lines();
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            count.fetch_add(1, Ordering::SeqCst);
            let _ = write!(
                stream,
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            );
        }
    });
    (url, asked)
}

#[test]
fn a_server_that_redirects_passes_no_mail_on() {
    let (elsewhere, reached) = redirecting_server("http://127.0.0.1:9/".to_owned());
    for to in [elsewhere, "file:///etc/passwd".to_owned()] {
        let (server, asked) = redirecting_server(to);
        let desk = desk(&webhook("hook", &server, "").replace("attempts = 100", "attempts = 1"));
        let run = |args: &[&str]| with_secrets(desk.command(args)).output().expect("the program runs");
        run(&["watch", "--once"]);
        alert(&desk, "one");
        run(&["watch", "--once"]);
        let said = String::from_utf8_lossy(&run(&["watch", "dead", "--json"]).stdout).into_owned();
        assert!(asked.load(Ordering::SeqCst) > 0 && said.contains("HTTP 307"), "{said}");
        assert_eq!(reached.load(Ordering::SeqCst), 0, "another server got the message");
    }
}

#[test]
fn no_variable_and_no_metadata_hides_mail_from_a_rule() {
    let desk = desk("[[on]]\nname = \"alerts\"\ntype = \"alert\"\nsince = \"start\"\nhandler = \"log\"\n");
    let send = ["send", "ops", "Down", "--type", "alert", "--as", "monitor", "--meta", "poste_rule=alerts"];
    let sent = desk.command(&send).env("POSTE_RULE", "alerts").output().expect("the program runs");
    expect_success(&send, &sent);
    let lines = desk.run(&["--json", "watch", "--once"]);
    assert_eq!(lines.matches("\"told\"").count(), 1, "{lines}");
}

#[test]
fn a_rule_that_is_mended_or_removed_is_no_longer_told_as_it_was() {
    let rule = |command: &str| {
        format!(
            "[[on]]\nname = \"x\"\ntype = \"alert\"\nhandler = \"exec\"\nattempts = 100\nbackoff = \"50ms\"\n\
             command = [\"sh\", \"-c\", \"{command}\"]\n"
        )
    };
    let desk = desk(&rule("touch failed.txt; exit 1"));
    let write = |text: &str| {
        std::fs::write(desk.office().join("local.toml"), text).expect("a file");
        desk.trust();
    };
    let lines_of = |name: &str| std::fs::read_to_string(desk.folder.path().join(name)).unwrap_or_default();
    let watching = Watching::start(&desk);
    until_begun(&desk, 1);
    let sent = [alert(&desk, "one"), alert(&desk, "two"), alert(&desk, "three")];
    until("a failure", || desk.folder.path().join("failed.txt").exists());
    write(&rule("echo $POSTE_NUMBER >> told.txt"));
    until("the fixed rule to send them all", || lines_of("told.txt").lines().count() == sent.len());
    write(&rule("echo x >> tries.txt; exit 1"));
    until("an attempt", || {
        alert(&desk, "four");
        !lines_of("tries.txt").is_empty()
    });
    write("");
    until("the rule's release", || desk.json(&["watch", "status"])["rules"][0]["seen_to"]["holder"].is_null());
    let tries = lines_of("tries.txt");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(lines_of("tries.txt"), tries);
    watching.interrupt();
}

#[test]
fn a_dispatcher_sees_to_rules_that_come_later_and_goes_on_after_a_refusal() {
    let desk = desk("[agent.slow]\nrun = [\"true\"]\n");
    let dispatching = Watching(desk.command(&["dispatch"]).spawn().expect("the program starts"));
    std::thread::sleep(Duration::from_millis(500));
    let rule = "[agent.slow]\nrun = [\"true\"]\n[[on]]\nname = \"lines\"\ntype = \"alert\"\nhandler = \"log\"\n";
    std::fs::write(desk.office().join("local.toml"), rule).expect("a file");
    desk.trust();
    until_begun(&desk, 1);
    let told = || std::fs::read_to_string(desk.office().join("watch/lines.jsonl")).unwrap_or_default().lines().count();
    alert(&desk, "one");
    until("the notification", || told() == 1);
    // A rule that is still held when its holder retires waits for the end of that lease.
    until("the rule to be released", || desk.json(&["watch", "status"])["rules"][0]["seen_to"]["holder"].is_null());
    desk.run(&["retire", "dispatcher", "--as", "anna"]);
    alert(&desk, "two");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(told(), 1, "a retired agent writes nothing");
    desk.run(&["register", "dispatcher", "--kind", "service", "--update"]);
    until("the dispatcher to continue", || told() == 2);
    drop(dispatching);
}

#[test]
fn an_old_dead_letter_silences_nobody() {
    let endpoint = HttpEndpoint::start(Mood::Refuses(400));
    let desk = desk(&webhook("pager", &endpoint.url(), ""));
    let once = || drop(with_secrets(desk.command(&["watch", "--once"])).output().expect("the program runs"));
    once();
    let fail = |count: usize| {
        endpoint.set(Mood::Refuses(400));
        for nth in 0..count {
            alert(&desk, &format!("alert {nth}"));
        }
        once();
    };
    fail(2);
    assert_eq!(desk.pending("anna"), 1);
    fail(1);
    assert_eq!(desk.pending("anna"), 1, "it keeps failing, without another alert");
    endpoint.set(Mood::Takes);
    alert(&desk, "told");
    once();
    fail(2);
    assert_eq!(desk.pending("anna"), 2, "a new failure after a success");
}

#[test]
fn another_message_of_the_same_number_has_another_key() {
    let endpoint = HttpEndpoint::start(Mood::Takes);
    let desk = desk(&webhook("pager", &endpoint.url(), ""));
    let once = || {
        let output = with_secrets(desk.command(&["watch", "--once"])).output().expect("the program runs");
        expect_success(&["watch", "--once"], &output);
    };
    once();
    let snapshot = desk.folder.path().join("snapshot");
    let snapshot = snapshot.to_str().expect("a path");
    desk.run(&["snapshot", snapshot]);
    let first = alert(&desk, "one");
    once();
    desk.run(&["restore", snapshot, "--replace"]);
    std::fs::write(desk.office().join("local.toml"), webhook("pager", &endpoint.url(), "")).expect("a file");
    desk.trust();
    assert_eq!(alert(&desk, "another"), first);
    once();
    assert_eq!(effective_keys(&endpoint.taken()).len(), 2);
}

fn effective_keys(taken: &[Received]) -> BTreeSet<String> {
    taken.iter().map(|received| received.headers["idempotency-key"].clone()).collect()
}

fn write_program(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a program");
}
