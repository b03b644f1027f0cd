use crate::common::{Desk, expect_success};

#[test]
fn the_demo_plays_the_whole_conversation_and_leaves_a_sound_office() {
    let desk = Desk::without_office();
    let args = ["demo", "--in", ".", "--pace", "0s"];
    let output = desk.command(&args).output().unwrap();
    expect_success(&args, &output);
    let text = String::from_utf8(output.stdout).unwrap();
    let arrows = [
        "lead → coder  #1 directive: Implement token refresh",
        "coder → reviewer  #2 question: Review token refresh",
        "reviewer → coder  #3 response: Found issues",
        "coder → reviewer  #4 question: Fixed: review again",
        "reviewer → coder  #5 response: Approved",
        "coder → lead  #6 task_completed: Task done: token refresh",
    ];
    let places: Vec<usize> = arrows.iter().map(|arrow| text.find(arrow).expect(arrow)).collect();
    assert!(places.is_sorted(), "the timeline is in order");
    assert!(text.contains("Try next"));
    desk.verify();
    for agent in ["lead", "coder", "reviewer"] {
        assert_eq!(desk.pending(agent), 0, "{agent} has handled everything");
    }
    // A second demo does not touch the first one's office.
    assert_eq!(desk.command(&args).output().unwrap().status.code(), Some(4));
}
