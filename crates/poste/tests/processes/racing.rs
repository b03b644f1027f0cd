use crate::common::{Desk, finish};

#[test]
fn fifty_processes_race_for_one_claim_and_one_wins() {
    const ROUNDS: usize = 8;
    const RACERS: usize = 50;
    let names: Vec<String> = (0..RACERS).map(|number| format!("racer-{number}")).collect();
    let mut agents = vec!["lead"];
    agents.extend(names.iter().map(String::as_str));
    let desk = Desk::new(&agents);
    for round in 1..=ROUNDS {
        desk.run(&["send", "role:worker", "take it", "--type", "directive", "--as", "lead"]);
        let number = round.to_string();
        let children = names.iter().map(|name| desk.spawn(&["claim", &number, "--as", name])).collect();
        let outputs = finish(children);
        let winners = outputs.iter().filter(|output| output.status.success()).count();
        assert_eq!(winners, 1, "round {round}");
        for loser in outputs.iter().filter(|output| !output.status.success()) {
            let talk = String::from_utf8_lossy(&loser.stderr);
            assert_eq!(loser.status.code(), Some(5), "{talk}");
            assert!(talk.contains("is held by racer-"), "the error names the holder: {talk}");
        }
    }
    desk.verify();
}

#[test]
fn many_claimers_share_the_work_without_overlap() {
    let desk = Desk::new(&["lead", "a", "b", "c", "d"]);
    let lines: String =
        (0..60).map(|n| format!("{{\"to\":\"role:worker\",\"subject\":\"{n}\",\"type\":\"directive\"}}\n")).collect();
    let file = desk.folder.path().join("work.jsonl");
    std::fs::write(&file, lines).unwrap();
    desk.run(&["send", "--batch", "work.jsonl", "--as", "lead"]);
    let children: Vec<_> =
        (0..60).map(|n| desk.spawn(&["--json", "claim", "--as", ["a", "b", "c", "d"][n % 4]])).collect();
    let mut taken = std::collections::BTreeSet::new();
    for output in finish(children) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = answer["claims"][0]["message"]["number"].as_u64().unwrap();
        assert!(taken.insert(number), "#{number} was given twice");
    }
    assert_eq!(taken.len(), 60);
    desk.verify();
}
