//! Dead letters: listing, retrying and dropping them.

use crate::assert_transcript;
use crate::common::Desk;

/// Four dead letters: one failed, one expired, one returned, one dead.
fn morgue() -> Desk {
    let mut desk = Desk::with(&["lead", "coder", "temp", "anna --kind human"]);
    desk.file("poste.toml", "[delivery]\nmax_attempts = 1\n");
    desk.quietly("poste send coder 'Migrate the database' --type directive --as lead");
    desk.quietly("poste fail 1 --reason 'No access' --as coder");
    desk.later("1m");
    desk.quietly("poste send coder 'Today only' --type directive --expires 1m --as lead");
    desk.quietly("poste send temp 'For the temp' --type directive --as anna");
    desk.later("2m");
    desk.quietly("poste retire temp --as lead");
    desk.quietly("poste send coder 'Call the service' --type directive --as lead");
    desk.quietly("poste claim --as coder --lease 1m");
    desk.later("2m");
    desk
}

#[test]
fn what_ended_badly_is_listed_the_newest_first_with_its_reason() {
    let mut desk = morgue();
    desk.play(
        "
        poste dead list
        poste dead list --limit 2
        poste dead list --state expired
        poste dead list --from anna
        poste dead list --from anna --state failed
        poste dead list --dropped
        poste dead list --limit 1 --json
        poste dead list --from anna --state failed --json
        poste dead show 1
        poste dead show 7
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_dead_letter_is_retried_or_dropped_and_leaves_the_list() {
    let mut desk = morgue();
    desk.play(
        "
        poste dead retry 1 --as lead
        poste dead drop 7 --reason 'The service is gone' --as lead
        poste dead list
        poste dead list --dropped
        ",
    );
    desk.later("1h");
    desk.play(
        "
        # dead since it died, not since somebody dropped it
        poste dead show 7
        poste log why 7
        poste dead drop 7 --as lead
        # dropped is not lost
        poste dead retry 7 --as anna --json
        poste dead list --dropped
        poste dead drop 4 --as anna --id drop-4 --json
        poste dead drop 4 --as anna --id drop-4 --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn one_recipients_end_is_dealt_with_by_itself() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder,reviewer 'Both of you' --type directive --as lead");
    desk.quietly("poste fail 1 --reason 'Busy' --as coder");
    desk.quietly("poste fail 1 --reason 'Away' --as reviewer");
    desk.play(
        "
        poste dead list
        poste dead drop 1 --to coder --as lead
        poste dead list
        poste dead drop 1 --to anna --as lead
        poste dead retry 1 --to reviewer --as lead
        poste dead list
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_cannot_be_dealt_with_is_an_error_with_a_way_out() {
    let mut desk = morgue();
    desk.quietly("poste send coder 'Alive' --as lead");
    desk.play(
        "
        poste dead
        poste dead list --state pending
        poste dead list --state pending --json
        poste dead list --state gone
        poste dead list --from nobody
        poste dead list --limit 0
        poste dead show 99
        poste dead retry 99 --as lead
        poste dead drop 99 --as lead
        poste dead drop 9 --as lead
        # neither who was to do it nor a stranger decides; the sender does, or a person
        poste dead drop 1 --as coder
        poste dead drop 4 --as lead
        poste dead drop 1
        poste dead drop 1 --as ledd
        poste dead drop 1 --as coder --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_office_without_dead_letters_says_so() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste dead list
        poste dead list --state dead
        poste dead list --dropped
        poste dead list --json
        ",
    );
    assert_transcript!(desk);
}
