//! Shared contexts: written, read, compared, merged, locked, mirrored.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn a_context_is_made_appended_to_and_read() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste context list
        poste subscribe context.decisions --as reviewer
        poste context create decisions --kind decisions '# Decisions' --as lead
        ",
    );
    desk.later("2m");
    desk.play(
        "
        poste context append decisions 'We sign tokens with RS256.' --as coder
        ",
    );
    let _ = desk.ask_with("poste context append decisions - --title 'Token format' --as lead", b"A header,\na body.\n");
    desk.play(
        "
        poste context show decisions --as reviewer
        poste context show decisions --at 2 --text
        poste context append decisions '- a list may begin so' --summary 'One more' --id mine --as coder
        poste context append decisions '- a list may begin so' --summary 'One more' --id mine --as coder
        poste inbox --as reviewer
        poste context list --as reviewer
        poste context since decisions --as reviewer
        poste context since decisions --as reviewer
        poste context history decisions
        poste context diff decisions 1..2
        poste context diff decisions 2..2
        poste context list --as reviewer --json
        poste read 2 --as reviewer
        poste search RS256
        poste log show --limit 4
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_change_made_from_an_old_version_is_refused_or_merged() {
    let mut desk = Desk::staffed();
    desk.quietly("poste context create plan 'one' --as lead");
    desk.file("base.md", "head\n\na\nb\nc\n\ntail\n");
    desk.file("now.md", "HEAD\n\na\nb\nc\n\nTAIL\n");
    desk.file("mine.md", "HEAD\n\na\nb\nc\n\ntail\n");
    desk.file("other.md", "head\n\na\nb\nc\n\nTAIL\n");
    desk.play(
        "
        poste context replace plan --file base.md --as lead
        poste context replace plan --file base.md --if-version 1 --as lead
        poste context replace plan --file other.md --if-version 2 --summary 'Louder' --as coder
        poste context replace plan --file mine.md --if-version 2 --as lead
        poste context replace plan --file mine.md --if-version 2 --merge --id merged --as lead
        poste context replace plan --file other.md --if-version 2 --merge --id merged --as lead
        poste context replace plan --file mine.md --if-version 2 --merge --id merged --as lead
        poste context show plan --text
        poste context replace plan --file now.md --if-version 4 --as lead
        poste context replace plan --file mine.md --if-version 9 --as lead
        poste context replace plna --file mine.md --if-version 1 --as lead
        poste context show plan --at 7
        poste context replace plan --file nowhere.md --if-version 1 --as lead
        poste context create plan 'again' --as coder
        poste context create ../plan 'again' --as coder
        poste context append plan ' ' --as coder
        poste context append plan --titel x --as coder
        poste context diff plan 2-3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn lines_that_both_changed_are_marked_and_nothing_is_lost() {
    let mut desk = Desk::staffed();
    desk.quietly("poste context create plan 'a' --as lead");
    desk.quietly("poste context replace plan 'theirs' --if-version 1 --as coder");
    let refused = desk.peek("poste context replace plan 'ours' --if-version 1 --merge --as lead").exits(5);
    assert!(refused.err().contains("both changed the same lines"), "{}", refused.err());
    assert!(refused.err().contains("<<<<<<< ours\n"), "{}", refused.err());
    let kept: Vec<_> = std::fs::read_dir(desk.root().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [kept] = kept.as_slice() else { panic!("expected one kept file: {kept:?}") };
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n");
    assert!(refused.err().contains(&format!("--file {} --if-version 2", kept.display())), "{}", refused.err());
    // A text with unresolved conflicts is not stored.
    let marked = format!("poste context replace plan --file {} --if-version 2 --as lead", kept.display());
    assert!(desk.peek(&marked).exits(2).err().contains("conflict markers"));
    std::fs::write(kept, "ours and theirs\n").unwrap();
    let _ = desk.peek(&marked).ok();
    assert_eq!(desk.peek("poste context show plan --text").ok().out(), "ours and theirs\n");
}

#[test]
fn an_editor_edits_a_copy_and_what_was_typed_is_never_lost() {
    let mut desk = Desk::staffed();
    desk.quietly("poste context create plan 'one' --as lead");
    desk.file("add.sh", "echo two >> \"$1\"\n");
    desk.file("late.sh", "echo mine > \"$1\"; POSTE_TEST_SEED=999 \"$POSTE\" context append plan 'from another desk' --as coder >/dev/null\n");
    desk.play(
        "
        EDITOR='sh add.sh' poste context edit plan --as lead
        poste context show plan --text
        VISUAL=true EDITOR='sh add.sh' poste context edit plan --as lead
        EDITOR='sh no-such-script.sh' poste context edit plan --as lead
        EDITOR=no-such-editor poste context edit plan --as lead
        EDITOR='truncate -s 0' poste context edit plan --as lead
        VISUAL= EDITOR= poste context edit plan --as lead
        ",
    );
    let program = env!("CARGO_BIN_EXE_poste");
    let edit = format!("POSTE={program} EDITOR='sh late.sh' poste context edit plan --as lead");
    let refused = desk.peek(&edit).exits(5);
    assert!(refused.err().contains("appended by coder (+1 −0): \"from another desk\""), "{}", refused.err());
    let kept: Vec<_> = std::fs::read_dir(desk.root().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [kept] = kept.as_slice() else { panic!("expected one kept file: {kept:?}") };
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "mine\n");
    assert!(refused.err().contains(&format!("--file {} --if-version 2 --merge", kept.display())), "{}", refused.err());
    std::fs::remove_file(kept).unwrap();
    // An editor that fails after writing, and one that writes invalid UTF-8.
    desk.file("fails.sh", "echo typed > \"$1\"; exit 3\n");
    desk.file("bytes.sh", "printf '\\377\\n' > \"$1\"\n");
    for (script, code) in [("fails.sh", 4), ("bytes.sh", 2)] {
        let refused = desk.peek(&format!("EDITOR='sh {script}' poste context edit plan --as lead")).exits(code);
        let talk = refused.err().to_owned();
        let path = talk.split("your text is kept in ").nth(1).unwrap_or_else(|| panic!("{talk}")).trim();
        assert!(!std::fs::read(path).unwrap().is_empty(), "{talk}");
    }
    assert_transcript!(desk);
}

#[test]
fn whoever_edits_has_seen_the_version_they_edit() {
    let mut desk = Desk::staffed();
    desk.quietly("poste context create plan 'one' --as lead");
    desk.quietly("EDITOR=true poste context edit plan --as coder");
    let listed = desk.peek("poste context list --as coder --json").json();
    assert_eq!(listed["contexts"][0]["seen"], 1, "{listed}");
}

#[test]
fn a_lock_keeps_others_out_and_can_be_broken() {
    let mut desk = Desk::staffed();
    desk.quietly("poste context create plan 'one' --as lead");
    desk.play(
        "
        poste context lock plan --for 2m --as lead
        poste context append plan 'two' --wait 0 --as coder
        poste context lock plan --wait 50ms --as coder
        poste context unlock plan --as coder
        poste context show plan
        poste context list
        poste context append plan 'by its holder' --as lead
        poste context unlock plan --force --as anna
        poste context unlock plan --force --reason 'It is stuck' --id broken --as anna
        poste context unlock plan --force --reason 'It is stuck' --id broken --as anna
        poste context unlock plan --force --reason 'It is stuck' --as anna
        poste inbox --as lead
        poste read 3 --as lead
        poste context append plan 'three' --as coder
        poste context lock plan --for 2d --as lead
        poste context lock plan --for 30s --as lead
        ",
    );
    desk.later("31s");
    desk.play(
        "
        poste context append plan 'its time is over' --wait 0 --as coder
        poste context lock plan --for 1m --json --as coder
        poste retire coder --as anna
        poste context append plan 'freed' --wait 0 --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn the_structured_part_fits_its_schema() {
    let mut desk = Desk::staffed();
    desk.file("schema.json", r#"{"type":"object","additionalProperties":{"type":"object","required":["methods"]}}"#);
    desk.file("no-schema.json", r#"{"type":"nonsense"}"#);
    desk.file("data.json", "{\"IUserService\": {\"methods\": [\"findById\"]}}\n");
    desk.play(
        "
        poste context create api --kind api-contracts --schema no-schema.json --as lead
        poste context create api --kind api-contracts --schema schema.json '# Interfaces' --as lead
        poste context show api --data
        poste context set api --data '{\"IUserService\":{}}' --if-version 1 --as coder
        poste context set api --data '[1]' --if-version 1 --as coder
        poste context set api --data '{' --if-version 1 --as coder
        poste context set api --data @data.json --if-version 1 --as coder
        poste context set api --data '{}' --if-version 1 --as lead
        poste context show api --data
        poste context show api --as lead
        poste context diff api 1..2
        poste context show api --json
        poste context history api
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_edit_of_the_mirror_is_noticed_taken_over_or_dropped() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "one\n\nin between\n\nlast\n");
    desk.quietly("poste context create plan --file plan.md --as lead");
    let mirror = desk.path(".poste/contexts/plan.md");
    let edit = |desk: &Desk, from: &str, to: &str| {
        let text = std::fs::read_to_string(&mirror).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(desk.path(".poste/contexts/plan.md"), text.replace(from, to)).unwrap();
    };
    edit(&desk, "one\n", "one, by hand\n");
    desk.play(
        "
        poste context append plan 'two' --as coder
        poste doctor
        poste context mirror plan
        poste context replace plan --file .poste/contexts/plan.md --merge --as lead
        poste context show plan --text
        poste doctor --quick
        ",
    );
    // Edits around the text belong to no version: the file stays as it is, and the command says so.
    edit(&desk, "one, by hand\n", "one, by hand again\n");
    edit(&desk, "## Update history\n", "A word below the text.\n\n## Update history\n");
    desk.play("poste context replace plan --file .poste/contexts/plan.md --as lead");
    edit(&desk, "A word below the text.\n", "A word below the text, which stays.\n");
    desk.play("poste context mirror plan --force");
    edit(&desk, "one, by hand again\n", "nobody wants this\n");
    desk.play(
        "
        poste context mirror plan --force
        poste context mirror plan
        poste context mirror none
        ",
    );
    std::fs::remove_file(desk.path(".poste/contexts/plan.md")).unwrap();
    desk.play(
        "
        poste doctor --quick
        poste doctor --quick --fix
        ",
    );
    assert_eq!(std::fs::read_to_string(&mirror).unwrap(), desk.peek("poste context show plan").ok().out());
    assert_transcript!(desk);
}

#[test]
fn redacted_words_of_a_context_are_gone_and_it_says_so() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste context create plan '# Plan' --as lead
        poste context append plan 'the password is hunter2secret' --summary 'a note' --allow-secret --as coder
        poste context append plan 'harmless' --as lead
        poste context replace plan 'the password was hunter3secret' --if-version 3 --allow-secret --as coder
        poste redact 2 --reason 'carried a password' --as coder
        poste context show plan
        poste doctor --quick
        poste context history plan
        poste context append plan 'token ghp_0123456789abcdefghijABCDEFGHIJ012345' --as coder
        ",
    );
    let mirror = std::fs::read_to_string(desk.path(".poste/contexts/plan.md")).unwrap();
    assert!(!mirror.contains("hunter2secret"), "{mirror}");
    assert_transcript!(desk);
}

#[test]
fn a_text_does_not_outgrow_its_limit_by_appending() {
    let mut desk = Desk::staffed();
    desk.file("half.md", "half of what there may be\n".repeat(24_000));
    desk.quietly("poste context create plan --file half.md --as lead");
    let refused = desk.peek("poste context append plan --file half.md --as coder").exits(4);
    assert!(refused.err().contains("would exceed"), "{}", refused.err());
    desk.quietly("poste context append plan 'a line' --as coder");
}
