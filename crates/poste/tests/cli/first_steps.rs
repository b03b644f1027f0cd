//! First steps: creating an office, registering agents, choosing the sender.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_office_is_made_once_and_agents_are_registered_in_it() {
    let mut desk = Desk::new();
    desk.play(
        "
        poste init
        poste init
        poste agents
        poste register lead --role coordinator
        poste register coder --role builder --capability typescript --capability rust --capability rust
        poste register anna --kind human
        poste agents
        # the same again is harmless, another one needs --update
        poste register coder --role builder --capability rust --capability typescript
        poste register coder --role reviewer
        poste register coder --role reviewer --update
        poste agents --json
        poste whoami --as coder
        poste whoami --as coder --session run-7 --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn before_there_is_an_office_every_command_says_how_to_make_one() {
    let mut desk = Desk::new();
    desk.play(
        "
        poste agents
        poste send coder hello --as lead
        poste inbox --as lead --json
        poste log verify
        poste agents --office nowhere/.poste
        ",
    );
    assert_transcript!(desk);
    // The built-in types are available without an office.
    assert!(desk.peek("poste types").ok().out().contains("\nquestion  "));
    assert!(desk.peek("poste schema question").ok().out().contains("asks for an answer"));
    for command in ["agents", "topics", "read 1", "track 1", "tail --for 0s", "log show", "log why 1"] {
        assert!(desk.peek(&format!("poste {command}")).exits(3).err().contains("hint: make one: poste init"));
    }
}

#[test]
fn who_speaks_is_as_then_poste_agent_and_never_a_guess() {
    let mut desk = Desk::with(&["lead", "coder"]);
    desk.play(
        "
        poste whoami
        poste whoami --as coder
        POSTE_AGENT=lead poste whoami
        POSTE_AGENT=lead poste whoami --as coder
        poste whoami --as codr
        POSTE_AGENT=nobody-here poste whoami
        poste send coder hello
        poste whoami --json
        # a name that is none, wherever it comes from
        POSTE_AGENT=No poste agents
        poste agents --as 'Anna B.'
        # looking at the whole office needs no speaker, and register speaks as the new name
        poste agents
        poste register new
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_retired_name_stays_taken_until_it_is_revived() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Fix the login' --type directive --as lead
        poste send coder 'Read the minutes' --as lead
        poste send role:builder 'Anybody' --type directive --as anna
        poste subscribe Releases --as coder
        poste claim 3 --as coder
        poste retire coder --as lead
        # what was his is back with its senders, what was a group's is open again
        poste track 1
        poste track 3
        poste inbox --as lead
        poste read 4 --as lead
        poste log why 1
        poste topics
        poste agents
        poste agents --all
        poste send coder 'Still there?' --as lead
        poste inbox --as coder
        poste send lead 'I am' --as coder
        poste retire coder --as lead
        poste register coder
        poste register coder --role builder --update
        poste retry 1 --as lead
        poste inbox --as coder
        poste retire nobody --as lead
        ",
    );
    assert_transcript!(desk);
}
