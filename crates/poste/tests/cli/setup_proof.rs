//! `poste setup` where everything works: the proof runs the real server and hooks.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::Desk;

#[test]
fn what_was_written_works_in_every_program_and_scope() {
    for scope in ["project", "user"] {
        for agent in ["", " --agent coder"] {
            let mut desk = Desk::with(&["coder"]);
            fs::create_dir(desk.root().join("bin")).unwrap();
            symlink(env!("CARGO_BIN_EXE_poste"), desk.root().join("bin/poste")).unwrap();
            let log = desk.peek("poste log show --json").ok();
            let path = format!("PATH={}/bin:/usr/bin:/bin", desk.root().display());
            let answer = desk.peek(&format!("{path} poste setup all --scope {scope}{agent} --json")).ok().json();
            let programs = answer["programs"].as_array().unwrap();
            assert_eq!(programs.len(), 5);
            for program in programs {
                let proof = program["proof"].as_array().unwrap();
                let whats: Vec<&str> = proof.iter().map(|line| line["what"].as_str().unwrap()).collect();
                assert_eq!(whats, ["listed", "tools", "mid-turn delivery", "stop guard", "idle wake"]);
                for line in proof {
                    let state = line["state"].as_str().unwrap();
                    let is_wake = line["what"] == "idle wake" && program["program"] != "claude-code";
                    let wanted: &[&str] = if is_wake { &["unavailable"] } else { &["works", "needs_trust"] };
                    assert!(wanted.contains(&state), "{scope}{agent}: {program:#}");
                }
            }
            // The proof never touches the user's office.
            assert_eq!(desk.peek("poste log show --json").ok().out, log.out);
        }
    }
}
