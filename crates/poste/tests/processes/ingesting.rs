//! Ingesting mail, webhooks and text with real processes.

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::Duration;

use poste_core::store::{Folder, WriteLock};
use poste_dispatch::notify::sign;
use serde_json::Value;

use crate::common::{Desk, expect_success};

const MAIL: &str = "Received: from x by y; Mon, 16 Nov 2026 10:00:00 +0100\r\nFrom: Monitor <monitor@example.org>\r\n\
    To: ops@example.org\r\nMessage-ID: <disk-1@example.org>\r\nSubject: Disk full on db1\r\n\r\nOnly 2 % are left.\r\n";

fn pipe(desk: &Desk, args: &[&str], input: &[u8]) -> Output {
    let mut child =
        desk.command(args).env("HOOK", "s3cret-of-the-hook").stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn taken_in(desk: &Desk, args: &[&str], input: &[u8]) -> Value {
    let output = pipe(desk, &[&["--json"], args].concat(), input);
    expect_success(args, &output);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_mail_becomes_one_alert_however_often_it_comes() {
    let desk = Desk::new(&["ops"]);
    let children: Vec<_> = (0..8)
        .map(|round| {
            // Each hop adds its own header.
            let mail = format!("Received: by hop {round}\r\n{MAIL}");
            let mut child = desk.command(&["--json", "ingest", "email", "ops"]).stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(mail.as_bytes()).unwrap();
            child
        })
        .collect();
    let mut stored = 0;
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        expect_success(&["ingest", "email"], &output);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["number"], 1);
        stored += usize::from(answer["repeat"] == false);
    }
    assert_eq!(stored, 1);
    let message = desk.json(&["read", "1", "--as", "ops"]);
    assert_eq!(
        (&message["type"], &message["trust"], &message["from"]),
        (&"alert".into(), &"outside".into(), &"ingest".into())
    );
    assert_eq!((&message["subject"], &message["body"]), (&"Disk full on db1".into(), &"Only 2 % are left.".into()));
    assert_eq!(message["metadata"]["mail_from"], "monitor@example.org");
    assert_eq!(message["metadata"]["source"], "email");
    desk.verify();
}

#[test]
fn its_files_are_kept_when_somebody_wants_them() {
    let desk = Desk::new(&["ops"]);
    let mail = "From: a@b\nMessage-ID: <f@b>\nSubject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=q\n\n\
        --q\nContent-Type: text/plain\n\nsee the file\n--q\nContent-Type: text/plain\n\
        Content-Disposition: attachment; filename=\"../../../home/.bashrc\"\n\nevil\n--q--\n";
    taken_in(&desk, &["ingest", "email", "ops", "--attach"], mail.as_bytes());
    let message = desk.json(&["read", "1", "--as", "ops"]);
    assert_eq!(message["artifacts"][0]["path"], "bashrc");
    assert_eq!(message["artifacts"][0]["state"], "attached");
    assert!(message["body"].as_str().unwrap().contains("Attachments: bashrc"), "{message}");
    desk.verify();
}

#[test]
fn an_office_that_is_busy_lets_the_mail_server_keep_the_mail() {
    let desk = Desk::new(&["ops"]);
    let args = ["ingest", "email", "ops", "--lock-timeout", "100ms", "--json"];
    let lock = WriteLock::new(&Folder::open(&desk.office()).unwrap(), "a long snapshot");
    let held = lock.acquire(Duration::from_secs(5)).unwrap();
    let busy = pipe(&desk, &args, MAIL.as_bytes());
    let said: Value = serde_json::from_slice(&busy.stderr).expect("JSON");
    assert_eq!((busy.status.code(), &said["error"]["kind"]), (Some(75), &"busy".into()), "{said}");
    assert_eq!(said["error"]["exit_code"], 75);
    // An invalid mail is refused for good.
    assert_eq!(pipe(&desk, &args, b"no mail").status.code(), Some(4));
    drop(held);
    std::fs::write(desk.office().parent().unwrap().join("poste.toml"), "half = [").unwrap();
    assert_eq!(pipe(&desk, &args, MAIL.as_bytes()).status.code(), Some(75), "poste.toml is just being written");
    std::fs::remove_file(desk.office().parent().unwrap().join("poste.toml")).unwrap();
    assert_eq!(taken_in(&desk, &["ingest", "email", "ops"], MAIL.as_bytes())["repeat"], false);
}

#[test]
fn a_webhook_is_taken_when_it_is_signed() {
    let desk = Desk::new(&["ops"]);
    let body = br#"{"title":"Build broke","message":"main is red","n":1}"#;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let signature = sign::Key::new("s3cret-of-the-hook").unwrap().sign("evt-7", now, body);
    let headers = [
        "webhook-id: evt-7".to_owned(),
        format!("webhook-timestamp: {now}"),
        format!("Webhook-Signature: {signature}"),
    ];
    let mut args = vec!["ingest", "webhook", "ops", "--secret-env", "HOOK"];
    headers.iter().for_each(|header| args.extend(["--header", header]));
    assert_eq!(taken_in(&desk, &args, body)["repeat"], false);
    assert_eq!(taken_in(&desk, &args, body)["repeat"], true);
    for (body, args) in [
        (&b"{\"title\":\"forged\"}"[..], args.as_slice()),
        (&body[..], &["ingest", "webhook", "ops", "--secret-env", "HOOK"]),
    ] {
        let refused = pipe(&desk, args, body);
        assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
        assert!(!String::from_utf8_lossy(&refused.stderr).contains("s3cret"));
    }
    let undecided = pipe(&desk, &["ingest", "webhook", "ops"], body);
    assert_eq!(undecided.status.code(), Some(2));
    let message = desk.json(&["read", "1", "--as", "ops"]);
    assert_eq!((&message["subject"], &message["payload"]["n"]), (&"Build broke".into(), &1.into()));
    assert_eq!(message["metadata"]["signed"], "yes");
    assert_eq!(desk.pending("ops"), 1);
}

#[test]
fn a_text_is_known_by_the_key_it_is_given() {
    let desk = Desk::new(&["ops"]);
    let args = ["ingest", "stdin", "ops", "--key", "disk"];
    assert_eq!(taken_in(&desk, &args, b"Disk full\n90 %\n")["repeat"], false);
    assert_eq!(taken_in(&desk, &args, b"Disk full\n95 %\n")["repeat"], true);
    assert_eq!(taken_in(&desk, &["ingest", "stdin", "ops"], b"Disk full\n")["number"], 2);
    assert_eq!(desk.json(&["read", "1", "--as", "ops"])["subject"], "Disk full");
    // Outside content cannot be stored under an agent's own name.
    let refused = pipe(&desk, &["ingest", "stdin", "ops", "--as", "ops"], b"x");
    assert_eq!(refused.status.code(), Some(4));
    let empty = pipe(&desk, &["ingest", "stdin", "ops"], b"");
    assert_eq!(empty.status.code(), Some(4));
}

#[test]
fn nothing_is_taken_for_something_else() {
    let desk = Desk::new(&["ops", "dev"]);
    let stored = |args: &[&str], input: &[u8]| taken_in(&desk, args, input)["repeat"] == false;
    assert!(stored(&["ingest", "email", "ops"], MAIL.as_bytes()));
    assert!(stored(&["ingest", "email", "dev"], MAIL.as_bytes()), "the same mail for another recipient");
    assert!(!stored(&["ingest", "email", "dev"], MAIL.as_bytes()));
    assert!(stored(&["ingest", "email", "ops"], MAIL.replace("2 %", "0 %").as_bytes()), "another body");
    assert_eq!((desk.pending("ops"), desk.pending("dev")), (2, 1));
    let nobody = pipe(&desk, &["ingest", "email", "nobody"], MAIL.as_bytes());
    assert_eq!(nobody.status.code(), Some(3), "{}", String::from_utf8_lossy(&nobody.stderr));

    // Unsigned input must not block the mail of others by using its id first.
    let unsigned = |id: &str| stored(&["ingest", "webhook", "ops", "--unsigned", "--header", id], b"{\"title\":\"x\"}");
    assert!(unsigned("webhook-id: message-id 77@x"));
    assert!(stored(&["ingest", "email", "ops"], b"From: a@b\nMessage-ID: <77@x>\nSubject: y\n\nz"));
    assert!(unsigned("webhook-id: evt-9"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let signature = sign::Key::new("s3cret-of-the-hook").unwrap().sign("evt-9", now, b"{\"title\":\"real\"}");
    let (at, signature) = (format!("webhook-timestamp: {now}"), format!("webhook-signature: {signature}"));
    let signed = ["ingest", "webhook", "ops", "--secret-env", "HOOK", "--header", "webhook-id: evt-9"];
    assert!(stored(&[&signed[..], &["--header", &at, "--header", &signature]].concat(), b"{\"title\":\"real\"}"));

    // An empty key is no key.
    assert!(unsigned("webhook-id: ") && unsigned("webhook-id: "));
    let empty = pipe(&desk, &["ingest", "stdin", "ops", "--key", ""], b"x");
    assert_eq!(empty.status.code(), Some(2), "{}", String::from_utf8_lossy(&empty.stderr));
    desk.verify();
}
