//! Changing one key leaves everything else in the file as it is.

use poste_config::edit::{add_agent, change};
use poste_config::{Change, ConfigFile, KeyPath, Mode, NewAgent, Value, read_local};
use poste_core::payload::SchemaSource;

fn set(text: &str, key: &str, value: &str) -> Change {
    let key: KeyPath = key.parse().unwrap();
    let takes = match &key {
        KeyPath::Setting(key) | KeyPath::OfType(_, key) => key.takes,
        KeyPath::Type(_) => panic!("a type has no value"),
    };
    change(text, &key, Some(&takes.parse(value).unwrap())).unwrap()
}

fn unset(text: &str, key: &str) -> Change {
    change(text, &key.parse().unwrap(), None).unwrap()
}

const FILE: &str = "# Ours.\n\n[delivery]   # who waits\nlease = '10m'   # short\nmax_attempts=3\n\n\
                    # Deployments.\n[types.deploy]\npriority = \"high\" # always\n\n# The end.\n";

#[test]
fn a_value_changes_and_nothing_else_does() {
    let changed = set(FILE, "delivery.lease", "20m");
    assert_eq!(changed.text, FILE.replace("'10m'", "\"20m\""));
    assert_eq!((changed.before.as_deref(), changed.after.as_deref()), (Some("10m"), Some("20m")));
    assert_eq!(set(FILE, "delivery.max_attempts", "7").text, FILE.replace("=3", "=7"));
    assert_eq!(set(FILE, "types.deploy.priority", "low").text, FILE.replace("\"high\"", "\"low\""));
    let windows = FILE.replace('\n', "\r\n");
    assert_eq!(set(&windows, "delivery.lease", "20m").text, windows.replace("'10m'", "\"20m\""));
}

#[test]
fn a_new_key_goes_into_its_section_and_a_new_section_behind_the_others() {
    let changed = set(FILE, "delivery.retry_delay", "1s");
    assert_eq!(changed.text, FILE.replace("max_attempts=3\n", "max_attempts=3\nretry_delay = \"1s\"\n"));
    assert_eq!(changed.before, None);
    let changed = set(FILE, "limits.fan_out", "50");
    assert!(changed.text.contains("\n\n[limits]\nfan_out = 50\n"), "{}", changed.text);
    assert!(changed.text.starts_with(FILE.split("\n# The end.").next().unwrap()), "{}", changed.text);
    assert!(changed.text.contains("# The end."));
    assert_eq!(set("", "types.deploy.work", "true").text, "[types.deploy]\nwork = true\n");
    let head = set("# Ours.\n# All of it.", "delivery.lease", "1m").text;
    assert_eq!(head, "# Ours.\n# All of it.\n\n[delivery]\nlease = \"1m\"\n");
    let two = set("[types.deploy]\nwork = true\n", "types.alert.urgency", "now").text;
    assert_eq!(two, "[types.deploy]\nwork = true\n\n[types.alert]\nurgency = \"now\"\n");
    let inline = set("delivery = { lease = '1m' }\n", "delivery.lease", "2m").text;
    assert_eq!(inline, "delivery = { lease = \"2m\" }\n");
    assert_eq!(set("delivery.lease = '1m'\n", "delivery.lease", "2m").text, "delivery.lease = \"2m\"\n");
}

#[test]
fn what_is_unset_is_gone_and_the_type_stays() {
    assert_eq!(unset(FILE, "delivery.max_attempts").text, FILE.replace("max_attempts=3\n", ""));
    let changed = unset(FILE, "types.deploy.priority");
    assert!(changed.text.contains("[types.deploy]\n"), "{}", changed.text);
    assert_eq!((changed.before.as_deref(), changed.after), (Some("high"), None));
    assert!(!unset(FILE, "types.deploy").text.contains("deploy]"));
    let nothing = unset(FILE, "limits.fan_out");
    assert_eq!((nothing.text.as_str(), nothing.before), (FILE, None));
}

#[test]
fn a_schema_in_the_file_can_be_replaced_by_a_path() {
    let changed = set("[types.deploy.schema]\ntype = 'object'\n", "types.deploy.schema", "deploy.json");
    let (file, problems) = ConfigFile::check(&changed.text);
    assert!(problems.is_empty(), "{problems:?}\n{}", changed.text);
    assert_eq!(file.schemas.values().next(), Some(&SchemaSource::File("deploy.json".to_owned())));
    assert_eq!(changed.before.as_deref(), Some("(in the file)"));
}

#[test]
fn unknown_keys_and_files_that_stay_wrong_are_refused() {
    let wrong = |key: &str| key.parse::<KeyPath>().unwrap_err();
    assert!(wrong("delivery.leese").contains("did you mean lease?"));
    assert!(wrong("delivry.lease").contains("did you mean delivery?"));
    assert!(wrong("types.deploy.prioritty").contains("did you mean priority?"));
    assert!(wrong("lease").contains("delivery.lease"));
    assert!(wrong("delivery").contains("delivery.max_attempts"));
    for bad in ["", ".", "types", "types.Deploy", "types.a.b.c", "delivery.lease.x", "types..priority"] {
        assert!(bad.parse::<KeyPath>().is_err(), "{bad}");
    }
    let lease: KeyPath = "delivery.lease".parse().unwrap();
    let value = Value::Length(60_000);
    let still_wrong = change("[delivery]\nmax_attemps = 3\n", &lease, Some(&value)).unwrap_err();
    assert_eq!(still_wrong[0].line, Some(2));
    assert!(change("[delivery\n", &lease, Some(&value)).is_err());
    assert!(change("delivery = 3\n", &lease, Some(&value)).is_err());
    assert!(change("[delivery]\nlease = 'soon'\n", &lease, Some(&value)).is_ok(), "the mistake itself can be fixed");
}

fn coder() -> NewAgent {
    NewAgent {
        name: "coder".parse().unwrap(),
        preset: None,
        run: vec!["./agent.sh".to_owned(), "say \"hi\"".to_owned()],
        mode: Some(Mode::Resident),
        role: Some("builder".parse().unwrap()),
        prompt: Some("You write code.\nAll of it.".to_owned()),
        worktree: false,
        resume: false,
    }
}

#[test]
fn an_agent_is_added_once_and_nobody_else_is_touched() {
    let before = "# Ours.\n\n[agent.tester]  # tests\nrun = ['x']\n";
    let after = add_agent(before, &coder()).unwrap().expect("it is new");
    assert!(after.starts_with(before), "{after}");
    let (file, problems) = read_local(&after);
    assert_eq!(problems, []);
    let found = &file.agents[&coder().name];
    assert_eq!((found.run.as_deref(), found.mode), (Some(coder().run.as_slice()), Mode::Resident));
    assert_eq!(found.prompt.as_deref(), Some("You write code.\nAll of it."));
    assert_eq!(add_agent(&after, &coder()).unwrap(), None, "it is there");
    let other = NewAgent { mode: None, ..coder() };
    assert!(add_agent(&after, &other).unwrap_err()[0].message.contains("already exists with other settings"));
    let empty = NewAgent { run: Vec::new(), ..coder() };
    assert!(add_agent("", &empty).unwrap_err()[0].message.contains("neither run nor preset"));
    let only = add_agent("", &NewAgent { prompt: None, role: None, ..coder() }).unwrap().unwrap();
    assert_eq!(only, "[agent.coder]\nrun = [\"./agent.sh\", 'say \"hi\"']\nmode = \"resident\"\n");
    assert!(add_agent("[agent\n", &coder()).is_err());
}
