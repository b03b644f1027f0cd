//! `poste watch` and `poste ingest`: what they print.

use crate::assert_transcript;
use crate::common::Desk;

const RULES: &str = "[[on]]\nname = \"lines\"\ntype = \"alert\"\nhandler = \"log\"\n\n\
    [[on]]\nname = \"hook\"\npriority = \"urgent\"\nhandler = \"webhook\"\nurl = \"http://127.0.0.1:9/hook\"\nsecret_env = \"HOOK\"\n\
    attempts = 2\nbackoff = \"10ms\"\n";

#[test]
fn rules_are_listed_and_seen_to_once_they_are_trusted() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste watch
        poste watch list
        poste watch status
        ",
    );
    desk.file("poste.toml", RULES);
    desk.play(
        "
        poste watch list
        poste watch test hook
        poste watch test hok
        poste watch --once --rule nothing
        POSTE_TEST_PERSON=0 poste trust
        poste watch --once --rule lines
        poste send coder 'Disk full' --type alert --as lead
        poste watch --once --rule lines
        poste watch status
        poste watch dead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_could_not_be_told_is_listed_with_the_reason_and_dropped() {
    let mut desk = Desk::staffed();
    desk.file(".poste/local.toml", RULES.replace("\n\n[[on]]\nname = \"hook\"", "\n[[on]]\nname = \"hook\""));
    desk.trust();
    desk.quietly("poste watch --once --rule hook");
    desk.play(
        "
        poste send coder 'Disk full' --type alert --as lead
        poste watch --once --rule hook
        poste watch dead
        poste send coder 'Disk fuller' --type alert --as lead
        poste watch --once --rule hook
        poste watch dead --limit 1
        poste watch dead --limit 1 --json
        poste inbox --as anna
        poste watch retry hook 99
        poste watch drop hook 1
        poste watch drop hook 1 --as anna
        poste watch drop hook 1 --as anna
        poste watch dead hook
        poste log show --limit 3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_mistake_in_a_rule_is_named_with_its_line_and_without_its_secret() {
    let mut desk = Desk::staffed();
    desk.file(
        "poste.toml",
        "[[on]]\nname = \"x\"\ntype = \"alert\"\nhandler = \"telegram\"\ntoken = \"123:hunter2\"\n",
    );
    desk.play(
        "
        poste config check
        poste watch --once
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_comes_in_says_where_it_went() {
    let mut desk = Desk::staffed();
    let mail = "From: monitor@example.org\nMessage-ID: <1@example.org>\nSubject: Disk full\n\nOnly 2 % are left.\n";
    desk.file("alert.eml", mail);
    desk.file("not.eml", "no mail at all");
    desk.file("secret.eml", "From: a@b.c\nSubject: x\n\npassword=hunter2Abc9\n");
    desk.play(
        "
        poste ingest email coder --file alert.eml
        poste ingest email coder --file alert.eml
        poste ingest email coder --file not.eml
        poste ingest email coder --file secret.eml
        poste ingest email nobody-here --file alert.eml --key other
        poste ingest email coder --file missing.eml
        poste ingest webhook coder --file alert.eml
        poste ingest webhook coder --file alert.eml --secret-env NOT_SET
        poste ingest stdin coder --subject Hello --as lead
        POSTE_AGENT=lead poste ingest stdin coder --subject Hello
        poste read 1 --as coder
        ",
    );
    assert_transcript!(desk);
}
