//! Wake attempts as `track` and `log why` show them, and why a message was not seen.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn an_attempt_and_its_reason_stand_on_the_ladder() {
    let mut desk = Desk::with(&["lead", "coder --role builder", "helper --role builder"]);
    desk.play(
        "
        poste send coder 'Fire' --type alert --as lead
        poste wake 1 --as lead
        poste wake coder --as lead --json
        poste track 1
        poste track 1 --history
        poste log why 1
        poste tail --log --after 5 --for 0s
        ",
    );
    desk.later("5m");
    desk.play(
        "
        poste track 1
        poste read 1 --as coder
        poste track 1
        # a group: none of them runs
        poste send role:builder 'Who can?' --type blocker_notification --as lead
        poste wake 2 --as lead
        ",
    );
    desk.later("5m");
    desk.play(
        "
        poste track 2
        poste done 1 --as coder
        poste wake 1 --as lead
        poste wake coder --unseen --as lead
        poste wake nobody --as lead
        poste wake coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn how_long_a_type_may_wait_unseen_is_the_offices_to_say() {
    let mut desk = Desk::with(&["lead", "coder"]);
    desk.play(
        "
        poste config set types.draft_ready.patience 10m
        poste config set types.draft_ready.patience 1ms
        poste send coder 'Draft' --type draft_ready --as lead
        poste send coder 'Note' --type milestone_reached --as lead
        ",
    );
    desk.later("1h");
    desk.play(
        "
        poste track 1
        poste track 2
        poste config show
        ",
    );
    assert_transcript!(desk);
}
