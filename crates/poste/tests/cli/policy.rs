//! `poste.toml`: the office's own types and limits.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_office_adds_its_own_types_and_changes_what_decides() {
    let mut desk = Desk::staffed();
    desk.file(
        "poste.toml",
        "[delivery]\nmax_attempts = 1\nlease = '2m'\n\n[limits]\nmessage_bytes = 60\nfan_out = 2\n\n\
         [types.deploy_request]\npriority = 'urgent'\nurgency = 'now'\nresponse = true\n\n[types.alert]\npriority = 'high'\n",
    );
    desk.play(
        "
        poste send coder 'Deploy 4' --type deploy_request --as lead
        poste track 1
        poste send coder 'Too long' 'A body that is too long for this small office.' --as lead
        poste broadcast 'To three' --as lead
        poste claim 1 --as coder
        poste fail 1 --reason 'No' --retry --as coder
        poste track 1
        poste tail --log --after 5 --for 0s
        ",
    );
    let schema = desk.peek("poste schema deploy_request").ok();
    let schema: serde_json::Value = serde_json::from_str(schema.out()).unwrap();
    assert_eq!(schema["properties"]["priority"]["default"], "urgent");
    let types = desk.peek("poste types").ok();
    let own: Vec<&str> = types.out().lines().filter(|line| line.contains("  own")).collect();
    assert_eq!(
        own,
        [
            "alert  high  now  -  own  -  something is wrong now",
            "deploy_request  urgent  now  work+response  own  -  a type of this office"
        ]
    );
    std::fs::remove_file(desk.path("poste.toml")).unwrap();
    desk.play(
        "
        # without the file the built-in rules are back
        poste send coder 'Deploy 5' --type deploy_request --as lead
        poste broadcast 'To three' --as lead
        poste log verify
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_typo_in_the_file_is_an_error_that_names_the_nearest_key_and_nothing_is_written() {
    let mut desk = Desk::staffed();
    for text in [
        "[delivery]\nmax_attemps = 3\n",
        "[delivry]\nmax_attempts = 3\n",
        "[types.deploy]\nprioritty = 'low'\n",
        "[types.deploy]\npriority = 'lowest'\n",
        "[types.Deploy]\n",
        "[delivery]\nmax_attempts = 0\n",
        "[delivery]\nlease = 'soon'\n",
        "[colours]\nbackground = 'red'\n",
        "delivery = 3\n",
        "not toml",
    ] {
        desk.file("poste.toml", text);
        desk.note(&format!("poste.toml: {}", text.trim_end().replace('\n', " ")));
        let _ = desk.ask("poste send coder 'Fix it' --as lead").exits(2);
    }
    desk.file("poste.toml", b"[delivery]\nlease = '\xff'\n");
    desk.note("poste.toml is not valid UTF-8");
    desk.play("poste send coder 'Fix it' --as lead");
    desk.note("whoever only looks is not stopped by it");
    desk.play("poste inbox --as coder");
    assert_transcript!(desk);
}
