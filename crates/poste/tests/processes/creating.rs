use crate::common::{Desk, expect_success, finish};

#[test]
fn sixteen_processes_create_one_office_at_once() {
    for _ in 0..12 {
        let desk = Desk::without_office();
        let outputs = finish((0..16).map(|_| desk.spawn(&["--json", "init"])).collect());
        let mut made = 0;
        for output in &outputs {
            expect_success(&["init"], output);
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            made += u32::from(answer["made"] == true);
        }
        assert_eq!(made, 1, "one process created the office, the others found it");
        desk.verify();
    }
}

#[test]
fn a_creation_that_was_cut_off_is_finished_by_the_next_one() {
    let desk = Desk::without_office();
    // What a process leaves that died right after creating the empty database file.
    std::fs::create_dir(desk.office()).unwrap();
    std::fs::write(desk.office().join("office.db"), "").unwrap();
    for (path, mode) in [(desk.office(), 0o700), (desk.office().join("office.db"), 0o600)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let refused = desk.command(&["agents"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", String::from_utf8_lossy(&refused.stderr));
    desk.run(&["init"]);
    desk.verify();
}
