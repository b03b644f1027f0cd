//! The OpenCode plugin, run by a real Node, calls the hooks as they expect.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Desk, expect_success, without_inheritance};

/// Simulates OpenCode with one session and a subagent. A blocked stop becomes a new prompt, as in OpenCode.
const OPEN_CODE: &str = r#"
import { Poste } from "./poste.mjs"

const prompts = []
const client = {
  session: {
    get: async ({ path }) => ({ data: path.id === "helper" ? { id: path.id, parentID: "main" } : { id: path.id } }),
    promptAsync: async ({ body }) => void prompts.push(body.parts[0].text),
  },
}
const hooks = await Poste({ client, directory: process.cwd(), serverUrl: new URL("http://127.0.0.1:1") })
const told = async (sessionID, text) => {
  const output = { message: { id: "msg_1" }, parts: [{ type: "text", text }] }
  await hooks["chat.message"]({ sessionID }, output)
  return output.parts.slice(1).map((part) => part.text).join("\n")
}
const turns = async (sessionID, text) => {
  const held = []
  await told(sessionID, text)
  for (let turn = 0; turn < 10; turn++) {
    await hooks.event({ event: { type: "session.idle", properties: { sessionID } } })
    const prompt = prompts.pop()
    if (!prompt) break
    held.push(prompt)
    await told(sessionID, prompt)
  }
  return held
}
const first = await turns("main", "Go on")
const helper = await told("helper", "Look around")
const tool = { output: "ran" }
await hooks["tool.execute.after"]({ sessionID: "helper", tool: "bash" }, tool)
const second = await turns("main", "Once more")
console.log(JSON.stringify({ first, helper, tool: tool.output, second }))
"#;

fn play(desk: &Desk) -> Value {
    desk.run(&["setup", "opencode", "--scope", "project", "--agent", "coder", "--no-proof"]);
    let folder = desk.folder.path();
    fs::copy(folder.join(".opencode/plugins/poste.js"), folder.join("poste.mjs")).unwrap();
    fs::write(folder.join("opencode.mjs"), OPEN_CODE).unwrap();
    let mut node = without_inheritance(Command::new("node"), folder);
    let output = node.arg("opencode.mjs").current_dir(folder).output().expect("node runs");
    expect_success(&["opencode.mjs"], &output);
    serde_json::from_slice(&output.stdout).expect("the outcome as JSON")
}

#[test]
fn a_session_of_opencode_is_held_so_often_and_its_helpers_are_left_alone() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "The disk is full", "--type", "alert", "--as", "lead"]);
    let played = play(&desk);
    for turns in ["first", "second"] {
        let held: Vec<&str> = played[turns].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(held.len(), 3, "{turns}: {held:?}");
        for (nth, reason) in held.iter().enumerate() {
            assert!(reason.contains(&format!("(reminder {} of 3)", nth + 1)), "{turns}: {reason}");
        }
    }
    assert_eq!((&played["helper"], &played["tool"]), (&json!(""), &json!("ran")), "a subagent gets no text");
    let sessions = desk.json(&["session", "list", "--all"])["sessions"].clone();
    let named: Vec<&str> = sessions.as_array().unwrap().iter().filter_map(|row| row["id"].as_str()).collect();
    assert_eq!(named, ["main"], "and has no session");
    desk.verify();
}
