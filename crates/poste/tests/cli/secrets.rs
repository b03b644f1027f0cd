//! Text that looks like a secret is refused before it reaches the log.

use crate::assert_transcript;
use crate::common::Desk;

/// Built from parts, so that secret scanners do not flag this file.
fn token() -> String {
    format!("gh{}_{}", 'p', "2ZKeDFFxmxs7Wk6XggpnXx5k164369mA91kg")
}

#[test]
fn a_secret_is_refused_wherever_it_stands_and_never_printed() {
    let mut desk = Desk::staffed();
    desk.file("body.md", format!("Deploy with\n\n    {}\n", token()));
    desk.quietly("poste send coder 'Do it' --type directive --as lead");
    desk.quietly("poste send coder 'Do it' --type directive --as lead");
    let body = std::fs::read(desk.path("body.md")).unwrap();
    let before = desk.peek("poste log verify").ok().out().to_owned();
    let tries = [
        "send coder Deploy - --as lead".to_owned(),
        format!("send coder 'Use {}' --as lead", token()),
        format!("send coder Deploy --payload '{{\"a\":[\"{}\"]}}' --as lead", token()),
        format!("send coder Deploy --meta key={} --as lead", token()),
        format!("send coder Deploy --context 'with {}' --as lead", token()),
        "broadcast Deploy - --as lead".to_owned(),
        "publish Deploys Deploy - --as lead".to_owned(),
        "reply 1 - --as coder".to_owned(),
        "done 1 --result - --as coder".to_owned(),
        format!("done 1 --summary 'password=Tr0ub4dor&3 {}' --as coder", token()),
        format!("fail 1 --reason {} --as coder", token()),
        format!("ack 1 --note {} --as coder", token()),
        format!("forward 1 reviewer --note {} --as coder", token()),
        format!("thread close 1 --outcome {} --as lead", token()),
        format!("dead drop 1 --reason {} --as lead", token()),
        format!("redact 1 --reason {} --as lead", token()),
        format!("team stop coder --reason {} --as lead", token()),
    ];
    for line in &tries {
        let ran = desk.ask_with(&format!("poste {line}"), &body).exits(4);
        assert!(!ran.err().contains(&token()[4..]) && !ran.err().contains("Tr0ub"), "{}", ran.err());
        let error = desk.ask_with(&format!("poste {line} --json"), &body).exits(4).error_json();
        assert_eq!(error["code"], "looks_secret", "{line}");
    }
    assert_eq!(desk.peek("poste log verify").ok().out(), before, "nothing was stored");
    for line in tries.iter().take(8) {
        let _ = desk.ask_with(&format!("poste {line} --allow-secret"), &body).ok();
    }
    let sent = desk.peek("poste send coder 'Do it' --type directive --as lead --json").ok().json();
    let number = sent["number"].clone();
    for line in ["fail N --reason T --as coder", "dead drop N --reason T --as lead", "redact N --reason T --as lead"] {
        let line = line.replace('N', &number.to_string()).replace('T', &token());
        let _ = desk.ask(&format!("poste {line} --allow-secret")).ok();
    }
    let _ = desk.ask(&format!("poste thread close {number} --outcome {} --allow-secret --as lead", token())).ok();
    let said = desk.transcript().to_string().replace(&token(), "gh…").replace("Tr0ub4dor&3", "…");
    // The typed commands contain the token; the answers must not.
    let answers: Vec<&str> = said.lines().filter(|line| line.starts_with('!')).collect();
    assert!(answers.iter().all(|line| !line.contains("gh…")), "{answers:#?}");
}

#[test]
fn a_refusal_says_what_kind_and_where() {
    let mut desk = Desk::staffed();
    let body = format!("Deploy with\n\n    {}\nand postgres://app:k9Xw2mQ7@db/main\n", token());
    desk.note("stdin holds a token in line 3 and an address with a password in line 4");
    let _ = desk.ask_with("poste send coder Deploy - --as lead", body.as_bytes());
    let lines = format!(
        "{{\"to\":\"coder\",\"subject\":\"one\"}}\n{{\"to\":\"coder\",\"subject\":\"two\",\"body\":\"{}\"}}\n",
        token()
    );
    desk.note("a batch, with a token in its second line");
    let _ = desk.ask_with("poste send --batch - --as lead", lines.as_bytes());
    let _ = desk.ask_with("poste send --batch - --allow-secret --as lead", lines.as_bytes());
    desk.note("what was let through is stopped again when it is passed on");
    desk.play(
        "
        poste forward 3 reviewer --as coder
        poste forward 3 reviewer --allow-secret --as coder
        ",
    );
    assert_transcript!(desk);
}
