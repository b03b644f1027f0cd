use std::path::Path;

use poste_config::{ConfigFile, FILE, FilePolicy, KEYS, Key, MACHINE_SECTIONS, TYPES, Value, ValueKind, length_text};
use poste_core::log::Policy;
use poste_core::payload::SchemaSource;
use poste_core::time::parse_duration_ms;
use poste_core::vocabulary::{Priority, Urgency};
use poste_core::{fold, limits};

fn parse(text: &str) -> Result<FilePolicy, String> {
    let file = ConfigFile::parse(text, Path::new("poste.toml")).map_err(|error| error.to_string())?;
    Ok(file.policy)
}

#[test]
fn an_empty_file_is_the_built_in_policy() {
    assert_eq!(parse("").unwrap(), FilePolicy::default());
}

#[test]
fn settings_and_types_are_read() {
    let policy = parse(
        "[delivery]\nmax_attempts = 3\nretry_delay = '1s'\nlease = '5m'\n[retention]\nfinished = '72h'\n\
         [limits]\nmessage_bytes = 1000\nfan_out = 50\n\
         [types.deploy_request]\npriority = 'high'\nwork = true\n[types.alert]\nurgency = 'turn'\n",
    )
    .unwrap();
    assert_eq!(policy.settings.max_attempts, Some(3));
    assert_eq!(policy.settings.lease_ms, Some(300_000));
    assert_eq!(policy.types.len(), 2);
    let alert = &policy.types[0];
    assert_eq!((alert.priority, alert.urgency), (Priority::Urgent, Urgency::Turn));
    assert!(policy.types[1].work);
}

#[test]
fn a_typo_is_an_error_that_names_the_nearest_key() {
    assert!(parse("[delivry]\n").unwrap_err().contains("did you mean delivery?"));
    assert!(parse("[delivery]\nmax_attemps = 3\n").unwrap_err().contains("did you mean max_attempts?"));
    assert!(parse("[types.deploy]\nprioritty = 'low'\n").unwrap_err().contains("did you mean priority?"));
    assert!(parse("[types.deploy]\npriority = 'lowest'\n").is_err());
    assert!(parse("delivery = 3\n").unwrap_err().contains("write [delivery]"));
    assert!(parse("[types.Deploy]\n").is_err());
    assert!(parse("not toml").is_err());
}

#[test]
fn values_out_of_range_are_named() {
    assert!(parse("[delivery]\nmax_attempts = 0\n").unwrap_err().contains("max_attempts"));
    assert!(parse("[delivery]\nlease = '10d'\n").unwrap_err().contains("lease"));
    assert!(parse("[delivery]\nretry_delay = 'soon'\n").unwrap_err().contains("retry_delay"));
}

#[test]
fn a_type_that_wants_a_response_asks_for_work() {
    let policy = parse("[types.sign_off]\nresponse = true\n").unwrap();
    assert!(policy.types[0].work);
}

#[test]
fn every_problem_is_named_with_its_line() {
    let text = "[delivery]\nmax_attemps = 3\nlease = \"2d\"\nretry_delay = 5\n\n[types.Deploy]\n[types.deploy]\n\
                priority = \"top\"\nwork = \"yes\"\n[limts]\n";
    let (_, problems) = ConfigFile::check(text);
    let lines: Vec<usize> = problems.iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 4, 6, 8, 9, 10], "{problems:#?}");
    assert_eq!(problems[1].column, Some(9));
    assert_eq!(problems[1].message, "delivery.lease: must be a duration from \"1s\" to \"24h\"");
}

#[test]
fn what_the_parser_cannot_read_does_not_hide_the_rest() {
    let (file, problems) = ConfigFile::check("[delivery]\nmax_attempts 3\nlease = \"5m\"\n[limits]\nfan_aut = 2\n");
    let lines: Vec<usize> = problems.iter().filter_map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 5], "{problems:#?}");
    assert_eq!(file.policy.settings.lease_ms, Some(300_000));
    for broken in ["[delivery", "= 3", "a = ", "\"", "[delivery]\nlease = '1m'\nlease = '2m'\n", "x = [1,", "\u{0}"] {
        let (_, problems) = ConfigFile::check(broken);
        assert!(!problems.is_empty(), "{broken:?}");
    }
}

#[test]
fn a_schema_is_no_policy() {
    let with = ConfigFile::parse("[types.alert]\nschema = \"a.json\"\n", Path::new(FILE)).unwrap();
    assert_eq!(with.policy, FilePolicy::default());
    assert_eq!(with.schemas.len(), 1);
    let own = ConfigFile::parse("[types.deploy.schema]\ntype = \"object\"\nminProperties = 1\n", Path::new(FILE));
    let own = own.unwrap();
    assert_eq!(own.policy, parse("[types.deploy]\n").unwrap());
    let inline = SchemaSource::Inline(serde_json::json!({ "type": "object", "minProperties": 1 }));
    assert_eq!(own.schemas.values().collect::<Vec<_>>(), [&inline]);
    assert!(parse("[types.deploy]\nschema = 3\n").unwrap_err().contains("JSON Schema"));
    assert!(parse("[types.deploy.schema]\nmaximum = inf\n").unwrap_err().contains("inf"));
}

/// The ranges that the file check reports with a line number are those that the fold enforces for every policy.
#[test]
fn the_ranges_of_the_file_are_those_of_the_fold() {
    for key in KEYS.iter().filter(|key| !MACHINE_SECTIONS.contains(&key.section)) {
        let (low, high, below, above) = match key.takes {
            ValueKind::Count { min, max } => (min.to_string(), max.to_string(), min.wrapping_sub(1), max + 1),
            ValueKind::Length { min, max } => {
                (quote(min), quote(max), (min - 1).cast_unsigned(), (max + 1).cast_unsigned())
            }
            _ => continue,
        };
        let section = if key.section == TYPES { "types.deploy" } else { key.section };
        for value in [low, high] {
            parse(&format!("[{section}]\n{} = {value}\n", key.name)).expect("the ends of a range are in it");
        }
        for outside in [below, above] {
            let policy = policy_with(key, outside);
            assert!(fold::check_policy(&policy).is_err(), "{}.{} = {outside}", key.section, key.name);
        }
    }
}

fn quote(ms: i64) -> String {
    format!("\"{}\"", length_text(ms))
}

fn policy_with(key: &Key, value: u64) -> Policy {
    let mut file = parse("[types.deploy]\n").unwrap();
    let (small, length) = (u32::try_from(value).unwrap_or(u32::MAX), Some(value.cast_signed()));
    match (key.section, key.name) {
        ("delivery", "max_attempts") => file.settings.max_attempts = Some(small),
        ("delivery", "retry_delay") => file.settings.retry_delay_ms = length,
        ("delivery", "lease") => file.settings.lease_ms = length,
        ("retention", "finished") => file.settings.retention_ms = length,
        ("limits", "message_bytes") => file.settings.content_bytes_max = Some(value),
        ("limits", "fan_out") => file.settings.fan_out_max = Some(small),
        (TYPES, "max_attempts") => file.types[0].max_attempts = Some(small),
        (TYPES, "retry_delay") => file.types[0].retry_delay_ms = length,
        (TYPES, "patience") => file.types[0].patience_ms = length,
        other => panic!("a key with a range the test does not know: {other:?}"),
    }
    file.into_policy("here".parse().unwrap(), String::new(), 0)
}

#[test]
fn a_length_that_is_shown_reads_back_as_the_same() {
    for ms in [0, 1, 999, 1_000, 61_001, limits::HOUR_MS, 72 * limits::HOUR_MS, 90_061_001, limits::HORIZON_MS_MAX] {
        assert_eq!(parse_duration_ms(&length_text(ms)), Ok(ms), "{}", length_text(ms));
    }
    assert_eq!(length_text(72 * limits::HOUR_MS), "72h");
    assert_eq!(length_text(90 * limits::MINUTE_MS), "1h 30m");
}

fn takes(name: &str) -> ValueKind {
    KEYS.iter().find(|key| key.section == "delivery" && key.name == name).unwrap().takes
}

#[test]
fn typed_values_are_held_to_their_range() {
    let lease = takes("lease");
    assert_eq!(lease.parse("20m"), Ok(Value::Length(1_200_000)));
    assert_eq!(lease.parse("2d").unwrap_err(), "must be a duration from \"1s\" to \"24h\"");
    let attempts = takes("max_attempts");
    for bad in ["0", "1001", "-1", "3.5", "three", ""] {
        assert!(attempts.parse(bad).is_err(), "{bad}");
    }
    assert_eq!(attempts.parse("1000"), Ok(Value::Count(1_000)));
}
