//! `poste config`, payload schemas, and how `types` shows the types of poste.toml.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn everything_that_is_wrong_with_the_file_is_said_with_its_line() {
    let mut desk = Desk::staffed();
    desk.play("poste config check");
    desk.file(
        "poste.toml",
        "# our rules\n[delivery]\nlease = '2d'\nmax_attemps = 3\nretry_delay 5\n\n[limts]\nfan_out = 3\n\n\
         [types.deploy]\npriority = 'top'\nschema = 'gone.json'\n\n[types.audit]\nschema = { type = 'objekt' }\n",
    );
    desk.file(".poste/local.toml", "[delivery]\nlease = '1m'\n");
    desk.play("poste config check");
    let _ = desk.ask("poste config check --json").exits(2);
    desk.note("mended");
    desk.file("poste.toml", "[delivery]\nlease = '20m'\n");
    std::fs::remove_file(desk.path(".poste/local.toml")).unwrap();
    desk.play("poste config check");
    desk.note("a file that is not the office's, and one that is not there");
    desk.file("other.toml", "[delivery]\nleese = 3\n");
    desk.play(
        "
        poste config check other.toml
        poste config check nowhere.toml
        ",
    );
    desk.note("it is a folder");
    std::fs::remove_file(desk.path("poste.toml")).unwrap();
    std::fs::create_dir(desk.path("poste.toml")).unwrap();
    desk.play("poste config check");
    assert_transcript!(desk);
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let mut desk = Desk::staffed();
    desk.play("poste config show");
    desk.file("poste.toml", "[delivery]\nlease = '30m'\n\n[types.deploy]\npriority = 'high'\nmax_attempts = 2\n");
    desk.note("the file is written, and nobody has written to the office since");
    desk.play(
        "
        poste config show
        poste config show types
        poste types --as lead
        ",
    );
    desk.quietly("poste send coder 'Now it holds' --as lead");
    desk.play(
        "
        poste config show delivery
        poste config show types.deploy
        poste config show colours
        ",
    );
    // Not recorded: the answer names the host.
    let shown = desk.peek("poste config show delivery.lease --json").json();
    assert_eq!((&shown["version"], &shown["standing"]), (&1.into(), &"in_force".into()));
    let setting =
        serde_json::json!([{ "key": "delivery.lease", "value": "30m", "source": "file", "file_value": null }]);
    assert_eq!(shown["settings"], setting);
    assert_transcript!(desk);
}

#[test]
fn a_key_is_set_and_unset_in_place_and_holds_at_once() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste config set delivery.lease 20m
        poste config set types.deploy.priority high
        poste config set types.deploy.priority high
        poste send coder 'Deploy 4' --type deploy --as lead
        poste config show delivery.lease
        ",
    );
    let text = "# How we work.\n[delivery]\nlease = '20m' # long enough\n\n# Deployments.\n[types.deploy]\npriority = 'high'\n";
    desk.file("poste.toml", text);
    desk.play(
        "
        poste config set delivery.lease 1h
        poste config set types.deploy.priority --unset
        poste config set retention.finished 72h
        poste config set retention.finished --unset --json
        poste config set types.deploy --unset
        ",
    );
    let written = std::fs::read_to_string(desk.path("poste.toml")).unwrap();
    assert_eq!(written, "# How we work.\n[delivery]\nlease = \"1h\" # long enough\n\n[retention]\n");
    desk.note("nothing of this is written");
    desk.play(
        "
        poste config set delivery.lease 2d
        poste config set delivery.max_attempts 0
        poste config set delivery.leese 2m
        poste config set types.deploy.priority top
        poste config set types.Deploy.priority high
        poste config set types.deploy high
        poste config set lease 2m
        poste config set delivery.lease
        poste config set types.deploy.schema ../outside.json
        ",
    );
    assert_eq!(std::fs::read_to_string(desk.path("poste.toml")).unwrap(), written);
    desk.file("poste.toml", "[delivery]\nmax_attemps = 3\n");
    desk.play("poste config set delivery.lease 2m");
    assert_eq!(std::fs::read_to_string(desk.path("poste.toml")).unwrap(), "[delivery]\nmax_attemps = 3\n");
    assert_transcript!(desk);
}

const DEPLOY: &str = r##"{
  "type": "object",
  "required": ["env"],
  "properties": {
    "env": { "enum": ["staging", "production"] },
    "steps": { "type": "array", "items": { "$ref": "#/$defs/step" } }
  },
  "$defs": { "step": { "type": "string", "pattern": "^[a-z]+$" } },
  "additionalProperties": false
}"##;

#[test]
fn a_payload_fits_the_schema_of_its_type_or_is_refused_before_the_append() {
    let mut desk = Desk::staffed();
    desk.file("schemas/deploy.json", DEPLOY);
    desk.file("poste.toml", "[types.deploy]\npriority = 'high'\nschema = 'schemas/deploy.json'\n");
    desk.file(
        "lines.jsonl",
        "{\"to\":\"coder\",\"subject\":\"one\",\"type\":\"deploy\",\"payload\":{\"env\":\"staging\"}}\n\
         {\"to\":\"coder\",\"subject\":\"two\",\"type\":\"deploy\",\"payload\":{\"env\":7}}\n\
         {\"to\":\"coder\",\"subject\":\"three\"}\n",
    );
    desk.play(
        r#"
        poste send coder 'No payload' --type deploy --as lead
        poste send coder 'Wrong' --type deploy --payload '{"env":"prod","steps":["build","1"],"more":1}' --as lead
        poste send coder 'Right' --type deploy --payload '{"env":"staging","steps":["build"]}' --as lead
        poste reply 1 'Wrong' --type deploy --payload '[]' --as coder
        poste broadcast 'Wrong' --type deploy --payload 1e999 --as lead
        poste send --batch lines.jsonl --as lead
        poste schema deploy --payload
        poste schema question --payload
        poste schema deplay --payload
        "#,
    );
    let types = desk.peek("poste types").ok();
    let deploy: Vec<&str> = types.out().lines().filter(|line| line.starts_with("deploy")).collect();
    assert_eq!(deploy, ["deploy  high  turn  -  own  schema  a type of this office"]);
    let line: serde_json::Value = serde_json::from_str(desk.peek("poste schema deploy").ok().out()).unwrap();
    assert_eq!(line["properties"]["payload"]["$id"], "urn:poste:type:deploy");
    assert!(line["required"].as_array().unwrap().contains(&"payload".into()));
    desk.note("forwarding keeps type and payload; a schema that changed since holds for it, too");
    desk.file("schemas/deploy.json", DEPLOY.replace("staging", "test"));
    desk.play("poste forward 1 reviewer --as coder");
    desk.note("a schema that is gone stops what it is for, and nothing else");
    std::fs::remove_file(desk.path("schemas/deploy.json")).unwrap();
    desk.play(
        r#"
        poste send coder 'Right' --type deploy --payload '{"env":"staging"}' --as lead
        poste send coder 'Plain' --as lead
        poste log verify
        "#,
    );
    assert_transcript!(desk);
}
