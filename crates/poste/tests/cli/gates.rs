//! Gates: a claimed message has passed them, or it is returned to its sender.

use std::os::unix::fs::PermissionsExt;

use crate::assert_transcript;
use crate::common::{Desk, git};

const DRAFTS: &str = "\
[[gate]]
name = \"draft\"
type = \"draft_ready\"
exists = true
not_empty = true

[[gate]]
name = \"quality\"
type = \"draft_ready\"
command = [\"./quality-gate.sh\", \"{artifact}\"]
";

const QUALITY: &str = "#!/bin/sh\ngrep -q '^# ' \"$1\" && exit 0\necho 'no headline'\nexit 1\n";

fn script(desk: &Desk, name: &str, text: &str) {
    let path = desk.file(name, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A writer, an editor and a person, with these gates trusted.
fn newsroom(gates: &str) -> Desk {
    let desk = Desk::with(&["writer", "editor", "anna --kind human"]);
    desk.file("poste.toml", gates);
    desk.trust();
    desk
}

/// A newsroom whose drafts pass through this script.
fn with_quality(text: &str) -> Desk {
    let desk = newsroom("");
    script(&desk, "quality-gate.sh", text);
    desk.file("poste.toml", DRAFTS);
    desk.trust();
    desk
}

fn draft(desk: &mut Desk, name: &str, text: &str) {
    desk.file(name, text);
    let sent = format!("poste send editor 'A draft' --type draft_ready --artifact '{name}' --as writer");
    desk.quietly(&sent);
}

fn state(desk: &mut Desk, number: u64) -> String {
    let track = desk.peek(&format!("poste track {number} --json")).json();
    let delivery = &track["deliveries"][0];
    let reason = delivery["reason"].as_str().map(|reason| format!(", {reason}")).unwrap_or_default();
    format!("{}{reason}", delivery["state"].as_str().unwrap())
}

#[test]
fn a_draft_that_passes_is_claimed_and_one_that_does_not_goes_back() {
    let mut desk = with_quality(QUALITY);
    draft(&mut desk, "drafts/good.md", "# A headline\n");
    draft(&mut desk, "drafts/bad.md", "no headline here\n");
    draft(&mut desk, "drafts/empty.md", "something\n");
    desk.note("the third draft is cut to 0 bytes after it was sent");
    desk.file("drafts/empty.md", "");
    desk.play(
        "
        poste claim 1 --as editor
        poste done 1 --summary Published --as editor
        poste claim 2 --as editor
        poste claim 3 --as editor
        poste track 3
        poste track 1 --history
        poste dead list --as writer
        poste inbox --as writer
        poste read 4 --as writer
        poste log why 2
        poste search headline
        poste tail --log --after 11 --for 1ms
        ",
    );
    desk.note("the writer mends it and gives it another chance");
    desk.file("drafts/empty.md", "# Now with words\n");
    desk.play(
        "
        poste retry 3 --as writer
        poste claim --as editor
        poste done 3 --as editor --token 18
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn nothing_runs_before_it_is_trusted_and_nothing_is_claimed_for_it() {
    let mut desk = Desk::with(&["writer", "editor", "anna --kind human"]);
    desk.file("poste.toml", DRAFTS);
    script(&desk, "quality-gate.sh", "#!/bin/sh\ntouch ran\n");
    draft(&mut desk, "a.md", "# A\n");
    desk.quietly("poste send editor 'A word' --as writer");
    desk.play(
        "
        POSTE_TEST_PERSON=0 poste trust
        poste claim 1 --as editor
        poste claim --type draft_ready --as editor
        # of several one may not be run: it is claimed and released again
        poste claim --as editor
        poste claim --max 2 --as editor
        poste verify 1
        poste done 1 --as editor
        poste track 1 --history
        ",
    );
    assert!(!desk.path("ran").exists());
    assert_eq!(state(&mut desk, 1), "pending");
    desk.trust();
    desk.quietly("poste claim 1 --as editor");
    assert!(desk.path("ran").exists());
    assert_transcript!(desk);
}

#[test]
fn a_changed_file_is_not_trusted_any_more() {
    let mut desk = with_quality("#!/bin/sh\n");
    draft(&mut desk, "a.md", "# A\n");
    desk.file("poste.toml", format!("{DRAFTS}timeout = \"5s\"\n"));
    let refused = desk.peek("poste claim 1 --as editor --json").exits(4).error_json();
    assert_eq!(refused["code"], "untrusted");
    assert_eq!(state(&mut desk, 1), "pending");
}

#[test]
fn this_machines_own_gates_need_trust_too() {
    let mut desk = Desk::with(&["writer", "editor"]);
    desk.file(
        ".poste/local.toml",
        "[[gate]]\nname = \"mine\"\ntype = \"draft_ready\"\nshell = 'touch ran; test -s \"$POSTE_ARTIFACT\"'\n",
    );
    draft(&mut desk, "a b $(x).md", "# A\n");
    let _ = desk.peek("poste claim 1 --as editor").exits(4);
    desk.trust();
    desk.quietly("poste claim 1 --as editor");
    assert!(desk.path("ran").exists());
    desk.file(".poste/local.toml", "[[gate]]\nname = \"mine\"\ntype = \"draft_redy\"\nexists = true\n");
    desk.file("a.md", "x");
    desk.quietly("poste send editor 'A draft' --type draft_ready --artifact a.md --as writer");
    desk.play(
        "
        poste claim 2 --as editor
        poste done 2 --as editor
        poste config check
        ",
    );
    desk.file(".poste/local.toml", "[[gate]]\nname = \"mine\"\nexits = true\n");
    desk.play(
        "
        poste claim 2 --as editor
        poste config check
        ",
    );
    assert_eq!(state(&mut desk, 2), "pending");
    assert_transcript!(desk);
}

#[test]
fn there_is_no_way_around_a_gate() {
    let mut desk = newsroom(
        "[types.news]\nwork = false\n[[gate]]\nname = \"there\"\ntype = \"news\"\nexists = true\n\
         [[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\nnot_empty = true\n",
    );
    draft(&mut desk, "a.md", "# A\n");
    desk.file("news.md", "old");
    desk.quietly("poste send editor 'News' --type news --artifact news.md --as writer");
    std::fs::remove_file(desk.path("news.md")).unwrap();
    desk.file("a.md", "");
    desk.play(
        "
        poste done 1 --as editor
        poste reply 1 'Published' --done --as editor
        poste ack 2 --as editor
        # an ack of what asks for work is a mark
        poste ack 1 --as editor
        # whoever passes it on has accepted nothing: the next one meets the same gate
        poste forward 1 anna --as editor
        poste done 3 --as anna
        poste fail 2 --reason 'Not mine' --as editor
        ",
    );
    desk.note("a gate that came after the claim");
    desk.file("b.md", "x");
    desk.quietly("poste send editor 'Look' --type directive --artifact b.md --as writer");
    desk.quietly("poste claim 5 --as editor");
    desk.file("poste.toml", "[[gate]]\nname = \"small\"\ntype = \"directive\"\nsize_max = 1\n");
    desk.play(
        "
        poste done 5 --as editor
        poste release 5 --as editor
        poste claim 5 --as editor
        poste done 5 --as editor --token 16
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn every_check_says_why() {
    let mut desk = newsroom("");
    for (gate, reason) in [
        ("exists = true", None),
        ("digest = true", None),
        ("size_min = 6", Some("size_min of sub/a.json: it has 5 bytes")),
        ("size_max = 4", Some("size_max of sub/a.json: it has 5 bytes")),
        ("size_min = 5\nsize_max = 5", None),
        ("name_matches = \"*.json\"", None),
        ("name_matches = \"sub/*\"", None),
        ("name_matches = \"*.md\"", Some("name_matches of sub/a.json: it does not match *.md")),
        (
            "artifact_schema = { type = \"object\" }",
            Some("artifact_schema of sub/a.json: at the top, it is not of type"),
        ),
        ("artifact_schema = { type = \"array\" }", None),
        ("artifact_schema = \"none.json\"", Some("there is no such file")),
        ("payload_schema = { required = [\"score\"] }", None),
        ("payload_schema = { required = [\"words\"] }", Some("\"words\" is a required property")),
        ("command = [\"true\"]", None),
        ("command = [\"false\"]", Some("command: it ended with exit code 1")),
        ("command = [\"poste-no-such-program\"]", Some("command: program not found: poste-no-such-program")),
        ("command = [\"sleep\", \"60\"]\ntimeout = \"1s\"", Some("command: timed out after 1s")),
        ("shell = \"kill -9 $$\"", Some("shell: it was killed by signal 9")),
        ("shell = 'echo \"$POSTE_NUMBER $POSTE_AGENT $POSTE_HOME\"; test -z \"$POSTE_TEST_SEED\"'", None),
        ("command = [\"test\", \"-s\", \"{artifact}\"]", None),
        ("command = [\"test\", \"{number}\", \"=\", \"1\"]", None),
        ("command = [\"test\", \"-f\", \"{worktree}/sub/a.json\"]", None),
    ] {
        let mut desk = std::mem::replace(&mut desk, newsroom(""));
        desk.file("poste.toml", format!("[[gate]]\nname = \"it\"\ntype = \"draft_ready\"\n{gate}\n"));
        desk.file("sub/a.json", "[1,2]");
        desk.trust();
        desk.quietly(
            "poste send editor 'A draft' --type draft_ready --artifact sub/a.json --payload '{\"score\":1}' --as writer",
        );
        let (verified, claimed) = (desk.peek("poste verify 1"), desk.peek("poste claim 1 --as editor"));
        match reason {
            None => {
                assert_eq!(verified.code, 0, "{gate}: {}{}", verified.out(), verified.err());
                assert_eq!(claimed.code, 0, "{gate}: {}", claimed.err());
                assert_eq!(state(&mut desk, 1), "claimed", "{gate}");
            }
            Some(reason) => {
                assert_eq!((verified.code, claimed.code), (4, 4), "{gate}");
                assert!(verified.out().contains(reason), "{gate}: {}", verified.out());
                assert!(claimed.err().contains(reason), "{gate}: {}", claimed.err());
                assert_eq!(state(&mut desk, 1), "returned, gate_failed", "{gate}");
            }
        }
    }
}

#[test]
fn what_a_message_has_not_cannot_pass() {
    let mut desk = newsroom(
        "[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\ndigest = true\npayload_schema = { type = \"object\" }\n",
    );
    desk.quietly("poste send editor 'No draft' --type draft_ready --as writer");
    desk.quietly("poste send editor 'To come' --type draft_ready --artifact-later later.md --as writer");
    desk.file("later.md", "here now");
    desk.file("kept.md", "kept");
    desk.quietly("poste send editor 'Kept' --type draft_ready --attach kept.md --payload '{}' --as writer");
    std::fs::remove_file(desk.path("kept.md")).unwrap();
    desk.play(
        "
        poste verify 1
        poste verify 2
        # a copy is what was sent, whatever became of the file
        poste verify 3
        poste claim --max 3 --as editor
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_file_that_was_swapped_is_noticed_by_name() {
    use std::os::unix::fs::symlink;
    let mut desk = newsroom("[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\ndigest = true\nnot_empty = true\n");
    std::fs::write(desk.root().join("secret.txt"), "a draft").unwrap();
    draft(&mut desk, "a.md", "a draft");
    let path = desk.path("a.md");
    let secret = desk.root().join("secret.txt");
    let fifo = |path: &std::path::Path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    type Sabotage<'a> = &'a dyn Fn();
    let sabotages: [(&str, Sabotage<'_>); 8] = [
        ("exists of a.md: there is no such file", &|| {}),
        ("not_empty of a.md: it is empty (0 bytes)", &|| std::fs::write(&path, "").unwrap()),
        ("digest of a.md: it changed after it was sent: 7 bytes then, 8 now", &|| {
            std::fs::write(&path, "a draft!").unwrap();
        }),
        ("digest of a.md: it changed after it was sent: same size, different content", &|| {
            std::fs::write(&path, "A draft").unwrap();
        }),
        ("exists of a.md: it is outside the worktree", &|| symlink(&secret, &path).unwrap()),
        ("exists of a.md: it is not a regular file", &|| fifo(&path)),
        ("exists of a.md: it is not a regular file", &|| std::fs::create_dir(&path).unwrap()),
        ("exists of a.md: it is a file of the office itself", &|| std::fs::hard_link(desk_db(&path), &path).unwrap()),
    ];
    for (reason, sabotage) in sabotages {
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        sabotage();
        let verified = desk.peek("poste verify 1").exits(4);
        assert!(verified.out().contains(reason), "{reason}: {}", verified.out());
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a draft").unwrap();
    let _ = desk.peek("poste verify 1").ok();
}

#[test]
fn a_folder_that_a_message_names_is_looked_at_only_where_it_is_open() {
    let mut desk = newsroom("[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\ndigest = true\n");
    let send = "poste send editor 'A draft' --office ../project/.poste --type draft_ready --as writer";
    desk.cd("elsewhere");
    desk.file("a.md", "a draft");
    desk.quietly(&format!("{send} --artifact a.md"));
    desk.quietly(&format!("{send} --attach a.md"));
    desk.cd("project");
    let not_open = format!("its folder {} is not open here", desk.root().join("elsewhere").display());
    let verified = desk.peek("poste verify 1").exits(4);
    assert!(verified.out().contains(&format!("exists of a.md: {not_open}; attach a copy")), "{}", verified.out());
    let claimed = desk.peek("poste claim 1 --as editor").exits(4);
    assert!(claimed.err().contains(&not_open), "{}", claimed.err());
    let _ = desk.peek("poste verify 2").ok();
    // From inside that folder the file is still checked.
    desk.cd("elsewhere");
    let _ = desk.peek("poste verify 1 --office ../project/.poste").ok();
    // A command does not get its path either, since it would open it.
    desk.cd("project");
    for (gate, passes) in [
        ("command = [\"test\", \"-e\", \"{worktree}\"]", false),
        ("shell = 'test -e \"$POSTE_WORKTREE\"'", false),
        ("command = [\"sh\", \"-c\", \"test -z \\\"$POSTE_WORKTREE\\\"\"]", true),
    ] {
        desk.file("poste.toml", format!("[[gate]]\nname = \"it\"\ntype = \"draft_ready\"\n{gate}\n"));
        desk.trust();
        let verified = desk.peek("poste verify 2");
        assert_eq!(verified.code, if passes { 0 } else { 4 }, "{gate}: {}", verified.out());
        assert_eq!(verified.out().contains(&not_open), !passes, "{gate}: {}", verified.out());
    }
}

#[test]
fn every_worktree_of_a_repository_is_open_to_gates() {
    let mut desk = newsroom("[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\ndigest = true\n");
    let (main, linked) = (desk.path(""), desk.root().join("linked"));
    git(&desk, &main, &["init", "--quiet"]);
    git(&desk, &main, &["add", "poste.toml"]);
    git(&desk, &main, &["commit", "--quiet", "--message=first"]);
    git(&desk, &main, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    draft(&mut desk, "main.md", "a draft");
    desk.cd("linked/src");
    draft(&mut desk, "linked.md", "a draft");
    for folder in ["project", "linked"] {
        desk.cd(folder);
        for number in [1, 2] {
            let _ = desk.peek(&format!("poste verify {number}")).ok();
        }
    }
}

/// The database of the office next to a file.
fn desk_db(path: &std::path::Path) -> std::path::PathBuf {
    path.with_file_name(".poste").join("office.db")
}

#[test]
fn of_several_each_is_gated_and_what_failed_is_told() {
    let mut desk = with_quality(QUALITY);
    draft(&mut desk, "a.md", "# A\n");
    draft(&mut desk, "b.md", "b\n");
    desk.quietly("poste send editor 'A word' --as writer");
    let ran = desk.peek("poste claim --max 9 --json --as editor");
    let answer = ran.json();
    let numbers: Vec<_> =
        answer["claims"].as_array().unwrap().iter().map(|claim| &claim["message"]["number"]).collect();
    assert_eq!(numbers, [&1, &3]);
    let returned = &answer["returned"][0];
    assert_eq!((&returned["number"], &returned["passed"]), (&2.into(), &false.into()));
    let command = &returned["gates"][1]["checks"][0];
    assert_eq!(command["reason"], "it ended with exit code 1");
    assert_eq!(command["output"], "no headline\n");
    assert!(ran.err().contains("#2 went back to its sender: quality: command of b.md: it ended with exit code 1"));

    draft(&mut desk, "c.md", "c\n");
    let nothing = desk.peek("poste claim --type draft_ready --json --as editor").exits(4);
    assert_eq!(nothing.error_json()["code"], "gate_failed");
    let answer: serde_json::Value = serde_json::from_str(nothing.out()).unwrap();
    assert_eq!(answer["claims"], serde_json::json!([]));
    assert_eq!(answer["returned"][0]["number"], 5);
}

#[test]
fn a_repeated_claim_runs_what_was_not_run_and_nothing_twice() {
    let mut desk = newsroom("[[gate]]\nname = \"count\"\ntype = \"draft_ready\"\nshell = \"echo run >> runs\"\n");
    draft(&mut desk, "a.md", "# A\n");
    for _ in 0..2 {
        let answer = desk.peek("poste claim 1 --id once --json --as editor").json();
        assert_eq!(answer["claims"][0]["message"]["number"], 1);
        assert_eq!(std::fs::read_to_string(desk.path("runs")).unwrap(), "run\n");
    }
    let history = desk.peek("poste track 1 --json").json()["deliveries"][0]["history"].clone();
    let events: Vec<_> = history.as_array().unwrap().iter().map(|step| step["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["claimed", "gate_passed", "shown"]);
}

#[test]
fn without_gates_verify_tells_whether_it_is_still_what_was_sent() {
    let mut desk = newsroom("");
    desk.file("same.md", "same");
    desk.file("other.md", "before");
    desk.file("gone.md", "gone");
    desk.quietly(
        "poste send editor 'Three files' --artifact same.md --artifact other.md --artifact gone.md --artifact-later to-come.md --as writer",
    );
    desk.quietly("poste send editor 'A word' --as writer");
    desk.play("poste verify 1\nposte verify 2");
    desk.file("other.md", "after!");
    std::fs::remove_file(desk.path("gone.md")).unwrap();
    desk.file("to-come.md", "");
    desk.play("poste verify 1\nposte verify 99");
    let answer = desk.peek("poste verify 1 --json").exits(4);
    let answer: serde_json::Value = serde_json::from_str(answer.out()).unwrap();
    assert_eq!((&answer["gated"], &answer["passed"], &answer["number"]), (&false.into(), &false.into(), &1.into()));
    assert_transcript!(desk);
}

#[test]
fn verify_changes_nothing_and_shows_no_control_characters() {
    let mut desk = newsroom(
        "[[gate]]\nname = \"loud\"\ntype = \"draft_ready\"\nshell = 'printf \"\\033[31mred\\007\\n\"; exit 3'\n",
    );
    draft(&mut desk, "a.md", "# A\n");
    let before = desk.peek("poste log show --json").json()["records"].as_array().unwrap().len();
    let shown = desk.peek("poste verify 1").exits(4);
    assert!(shown.out().contains("| \\u{1b}[31mred"), "{}", shown.out());
    let after = desk.peek("poste log show --json").json()["records"].as_array().unwrap().len();
    assert_eq!((before, state(&mut desk, 1).as_str()), (after, "pending"));
    let _ = desk.peek("poste claim 1 --as editor").exits(4);
    let _ = desk.peek("poste track 1").ok();
    let _ = desk.peek("poste read 2 --as writer").ok();
}

#[test]
fn what_looks_like_a_secret_does_not_go_into_the_log() {
    let mut desk = newsroom(
        "[[gate]]\nname = \"leak\"\ntype = \"draft_ready\"\nshell = \"echo token=ghp_0123456789abcdefghijABCDEFGHIJ012345; exit 1\"\n",
    );
    draft(&mut desk, "a.md", "# A\n");
    let _ = desk.peek("poste claim 1 --as editor").exits(4);
    let track = desk.peek("poste track 1 --json").ok();
    assert!(!track.out().contains("ghp_") && track.out().contains("it ended with exit code 1"), "{}", track.out());
}
