use poste_config::{ConfigFile, check_local};
use poste_core::gates::{Gate, Program, Source};
use poste_core::limits;

use super::problems;

fn gates(text: &str) -> Vec<Gate> {
    let (file, problems) = ConfigFile::check(text);
    assert!(problems.is_empty(), "{problems:?}");
    file.gates
}

const DRAFT: &str = "[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\n";

#[test]
fn a_gate_is_read_whole() {
    let text = format!(
        "{DRAFT}exists = true\nnot_empty = true\ndigest = true\nsize_min = 10\nsize_max = 1000\nname_matches = \"*.md\"\n\
         command = [\"./check.sh\", \"--file={{artifact}}\", \"\"]\ntimeout = \"5s\"\n\n\
         [[gate]]\nname = \"step\"\nworkflow = \"blog\"\nstep = \"edit\"\nshell = \"test -s \\\"$POSTE_ARTIFACT\\\"\"\n\
         payload_schema = \"p.json\"\nartifact_schema = {{ type = \"object\" }}\n"
    );
    let gates = gates(&text);
    let [draft, step] = gates.as_slice() else { panic!("{gates:?}") };
    assert!(draft.exists && draft.not_empty && draft.digest);
    assert_eq!((draft.size_min, draft.size_max, draft.timeout_ms), (Some(10), Some(1000), 5_000));
    assert_eq!(draft.program.as_ref().map(Program::text).as_deref(), Some("./check.sh --file={artifact} ''"));
    assert_eq!((draft.source, draft.line, step.line), (Source::Office, 1, 13));
    assert_eq!(step.timeout_ms, limits::GATE_TIMEOUT_MS_DEFAULT);
    assert!(step.kind.is_none() && step.payload_schema.is_some() && step.artifact_schema.is_some());
    assert!(matches!(&step.program, Some(Program::Shell(_))));
}

#[test]
fn every_mistake_is_named_with_its_line() {
    for (lines, expected) in [
        ("exists = true\nexits = true\n", "line 5: [[gate]]: unknown key \"exits\"; did you mean exists?"),
        ("exists = \"yes\"\n", "line 4: gate.exists: must be true or false, not a TOML string"),
        ("", "gate draft: it checks nothing"),
        ("exists = false\n", "gate draft: it checks nothing"),
        ("command = \"a b\"\n", "line 4: gate.command: must be a list of words"),
        ("command = []\n", "gate.command: it has no word"),
        ("command = [\"\"]\n", "gate.command: it is empty"),
        ("command = [\"a\", 3]\n", "must be a string, not a TOML integer"),
        ("command = [\"a\", \"{artefact}\"]\n", "unknown placeholder \"{artefact}\"; did you mean {artifact}?"),
        ("command = [\"a\"]\nshell = \"b\"\n", "use only one"),
        ("shell = \"check {artifact}\"\n", "write \"$POSTE_ARTIFACT\", not {artifact}"),
        ("exists = true\ntimeout = \"5s\"\n", "timeout needs command"),
        ("command = [\"a\"]\ntimeout = \"2h\"\n", "gate.timeout: must be a duration from \"1s\" to \"1h\""),
        ("size_min = 5\nsize_max = 4\n", "size_min is larger than size_max"),
        ("size_min = -1\n", "gate.size_min: must be a number from 0"),
        ("name_matches = \"[a\"\n", "name_matches is not a valid pattern"),
        ("exists = true\nstep = \"edit\"\n", "step needs workflow"),
        ("exists = true\nstep = \"a b\"\n", "gate.step: "),
    ] {
        let found = problems(&format!("{DRAFT}{lines}"));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{lines:?}: {found:?}");
    }
    let twice = format!("{DRAFT}exists = true\n{DRAFT}exists = true\n");
    assert_eq!(problems(&twice), ["line 5: gate draft: the name is taken by another gate"]);
    for (text, expected) in [
        ("[[gate]]\ntype = \"alert\"\nexists = true\n", "line 1: gate: it has no name"),
        ("[[gate]]\nname = \"a\"\nexists = true\n", "line 1: gate a: it has neither type nor workflow"),
        ("[gate]\nname = \"a\"\n", "line 1: gate is a list: write [[gate]]"),
        ("gate = [1]\n", "line 1: gate is a list of sections: write [[gate]]"),
        ("[[gates]]\nname = \"a\"\n", "line 1: unknown section \"gates\"; did you mean gate?"),
        (
            "[[gate]]\nname = \"a\"\ntype = \"draft_redy\"\nexists = true\n",
            "there is no type draft_redy; did you mean draft_ready?",
        ),
    ] {
        let found = problems(text);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{text:?}: {found:?}");
    }
    assert!(problems("[types.mine]\n[[gate]]\nname = \"a\"\ntype = \"mine\"\nexists = true\n").is_empty());
}

#[test]
fn braces_that_are_no_template_are_let_be() {
    for word in ["{}", "{\"a\": 1}", "a{1,2}", "${HOME}", "{", "{artifact", "}{artifact}"] {
        let text = format!("{DRAFT}command = ['./check', '{word}']\n");
        assert!(problems(&text).is_empty(), "{word}: {:?}", problems(&text));
    }
}

#[test]
fn what_would_run_is_listed_for_whoever_is_asked_to_trust_it() {
    let text = format!(
        "{DRAFT}command = [\"./a b.sh\", \"{{artifact}}\"]\n[[gate]]\nname = \"b\"\ntype = \"alert\"\nexists = true\n"
    );
    let (file, _) = ConfigFile::check(&text);
    let commands = poste_config::commands(&file);
    let [command] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((command.key.as_str(), command.line), ("gate.draft.command", 1));
    assert_eq!(command.command, "'./a b.sh' {artifact}");
}

#[test]
fn the_machine_has_gates_of_its_own() {
    assert!(check_local(&format!("{DRAFT}exists = true\n")).is_empty());
    let wrong: Vec<String> = check_local("[[gate]]\nname = \"a\"\n").iter().map(ToString::to_string).collect();
    assert!(wrong.iter().any(|problem| problem.contains("it checks nothing")), "{wrong:?}");
    assert!(check_local("[delivery]\n")[0].message.contains("belongs in poste.toml"));
}
