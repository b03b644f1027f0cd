//! Time: expired leases and messages, passed deadlines, clock jumps.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn a_lease_that_runs_out_costs_an_attempt_and_a_late_result_is_kept() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send can:rust 'Fix the login' --type directive --as lead
        poste claim 1 --lease 10m --as coder
        ",
    );
    desk.later("10m");
    desk.play(
        "
        poste track 1
        poste log why 1
        # reviewer takes it when the delay is over; coder comes too late
        poste claim 1 --as reviewer
        ",
    );
    desk.later("10s");
    desk.play(
        "
        poste claim 1 --as reviewer
        poste done 1 --token 7 --summary 'Fixed after all' --as coder
        poste track 1
        poste log why 1
        poste inbox --as lead
        poste read 2 --as lead
        poste inbox --as reviewer
        poste done 1 --token 7 --summary 'Fixed after all, JSON' --as coder --json
        # what is not the result itself is only refused
        poste fail 1 --token 7 --reason 'Late' --as coder
        poste release 1 --token 7 --as coder
        poste extend 1 --token 7 --as coder
        poste reply 1 Late --done --token 7 --as coder
        poste done 1 --token 999 --as coder
        # the holder is not disturbed
        poste done 1 --summary 'Fixed' --token 11 --as reviewer
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_session_proves_its_own_claim_and_no_other_one() {
    let mut desk = Desk::staffed();
    desk.play("poste send coder 'Fix it' --type directive --as lead");
    desk.play("POSTE_SESSION=run-1 poste claim 1 --lease 1m --as coder");
    desk.later("1m");
    desk.play(
        "
        POSTE_SESSION=run-2 poste claim 1 --as coder
        POSTE_SESSION=run-1 poste done 1 --summary 'The first run' --as coder
        poste done 1 --summary 'No session' --as coder
        ",
    );
    desk.later("10s");
    desk.play(
        "
        POSTE_SESSION=run-2 poste claim 1 --as coder
        POSTE_SESSION=run-1 poste done 1 --summary 'The first run' --as coder
        poste done 1 --summary 'No session' --as coder
        POSTE_SESSION=run-2 poste done 1 --summary 'The second run' --as coder
        poste track 1 --history
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_message_nobody_takes_in_time_expires_and_its_sender_is_told() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Lunch?' --expires 1h --as lead
        poste send reviewer 'Dinner?' --expires 1h --as lead
        poste send coder 'Yesterday' --expires 2026-03-01T09:00:00Z --as lead
        poste send coder 'In a hundred years' --expires 2126-03-01T09:00:00Z --as lead
        poste send coder 'Gone before it comes' --expires 1h --not-before 2h --as lead
        poste claim 2 --lease 5h --as reviewer
        ",
    );
    desk.later("59m");
    desk.play("poste inbox --as coder");
    desk.later("1m");
    desk.play(
        "
        poste inbox --as coder
        poste track 1
        poste log why 1
        poste done 1 --as coder
        poste inbox --as lead
        poste read 3 --as lead
        # what is claimed does not expire
        poste track 2
        poste inbox --all --as coder
        poste retry 1 --as lead
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_not_ready_waits_and_then_is_there() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Deploy at ten' --type directive --not-before 2026-03-02T10:00:00Z --as lead");
    desk.play(
        "
        poste inbox --as coder
        poste claim 1 --as coder
        poste claim --as coder
        poste done 1 --as coder
        poste wait --timeout 0s --as coder
        poste track 1
        ",
    );
    desk.later("1h");
    desk.play(
        "
        poste wait --timeout 0s --as coder
        poste claim 1 --as coder
        poste log why 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_deadline_for_an_answer_passes_and_everybody_can_see_it() {
    let mut desk = Desk::staffed();
    desk.play("poste send coder 'Which one?' --respond-by 30m --as lead");
    desk.later("10m");
    desk.play("poste inbox --as coder");
    desk.play("poste track 1");
    desk.later("1h");
    desk.play(
        "
        poste inbox --as coder
        poste read 1 --as coder
        poste track 1
        poste wait --replies 1 --as lead
        poste reply 1 'The left one' --as coder
        poste wait --replies 1 --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_clock_set_back_does_not_stop_time() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Before' --type directive --as lead
        poste claim 1 --lease 10m --as coder
        ",
    );
    desk.set_clock_back("1h");
    desk.later("4m");
    desk.play("poste send coder 'After' --as lead");
    desk.play("poste read 2 --json --as anna");
    desk.later("7m");
    desk.play(
        "
        poste track 1
        poste log show --after 6 --time iso
        poste log verify
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_clock_set_three_hours_ahead_takes_the_leases_along() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Before' --type directive --as lead
        poste claim 1 --lease 10m --as coder
        ",
    );
    desk.set_clock_ahead("3h");
    desk.later("1m");
    desk.play(
        "
        poste track 1
        poste send coder 'After' --as lead
        poste track 1
        poste log why 1
        poste tail --log --after 6 --for 0s
        poste done 1 --summary 'In time' --as coder
        poste log verify
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_clock_set_two_days_ahead_stops_writing_until_somebody_accepts_it() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste clock accept --as anna
        poste send coder 'Before' --type directive --as lead
        poste claim 1 --lease 10m --as coder
        ",
    );
    desk.set_clock_ahead("2d");
    desk.later("1m");
    desk.play(
        "
        poste send coder 'After' --as lead
        poste send coder 'After' --as lead --json
        # looking goes on, at the time that was expected
        poste track 1
        poste inbox --as coder
        poste clock accept
        poste clock accept --as anna
        poste send coder 'After' --as lead
        poste track 1
        poste clock accept --as anna --json
        poste log verify
        ",
    );
    assert_transcript!(desk);
}
