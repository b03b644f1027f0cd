//! The program is started for its mail, as a dispatcher starts it, without any set-up of its own. Its answer goes to
//! the sender, and the next message arrives in the same conversation.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use poste_agents::{Rule, Say};

use crate::rig::{Rig, SENDER, WORKER};
use crate::{Check, Result};

const RUN_MAX: Duration = Duration::from_secs(120);
const FIRST: &str = "a question of avocets";
const SECOND: &str = "a question of bitterns";
const FIRST_ANSWER: &str = "There are eleven avocets.";
const SECOND_ANSWER: &str = "There are four bitterns.";

pub fn all(rig: &Rig, tell: &mut dyn FnMut(&Check)) -> Vec<Check> {
    let mut done = Vec::new();
    let mut add = |what: &'static str, check: &dyn Fn() -> Result<String>| {
        let since = Instant::now();
        let check = Check { program: rig.program, what, outcome: check(), took: since.elapsed() };
        tell(&check);
        done.push(check);
    };
    add("a run of its preset answers who asked", &|| {
        configure(rig)?;
        asked_and_answered(rig, FIRST, FIRST_ANSWER)
    });
    add("the message is in its request, fenced", &|| {
        let asked = rig.model().asked();
        let text = asked.first().ok_or("it never asked the model")?.text();
        match text.contains("<poste-message-") && text.contains(FIRST) {
            true => Ok(format!("the first request has the fence and {FIRST:?}")),
            false => Err(format!("neither fence nor {FIRST:?} in it")),
        }
    });
    add("the next run resumes the conversation", &|| {
        let before = rig.model().asked().len();
        let evidence = asked_and_answered(rig, SECOND, SECOND_ANSWER)?;
        let asked = rig.model().asked();
        let text = asked.get(before).ok_or("it never asked the model again")?.text();
        match [FIRST, FIRST_ANSWER, SECOND].iter().find(|words| !text.contains(**words)) {
            None => Ok(format!("{evidence}; request {} also has {FIRST_ANSWER:?}", before + 1)),
            Some(missing) => Err(format!("request {} has no {missing:?}", before + 1)),
        }
    });
    add("nothing is left of the runs", &|| match rig.left_behind().as_slice() {
        [] => Ok("no process".to_owned()),
        left => Err(left.join("\n")),
    });
    done
}

fn configure(rig: &Rig) -> Result {
    let config = format!(
        "[agent.{WORKER}]\npreset = \"{}\"\nresume = true\ntime_limit = \"2m\"\n\
         environment = [\"SCRIPTED_KEY\", \"CLAUDE_CODE_DISABLE_*\", \"DISABLE_AUTOUPDATER\"]\n",
        rig.program.word()
    );
    let file = rig.project().join(".poste/local.toml");
    fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    // Only a build for tests takes this for a person.
    let output = rig.command(&[rig.poste().into(), "trust".into()]).env("POSTE_TEST_PERSON", "1").output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        other => Err(format!("poste trust: {other:?}")),
    }
}

fn asked_and_answered(rig: &Rig, question: &str, answer: &str) -> Result<String> {
    rig.model().then([Rule::next(Say::text(answer))]);
    let number = rig.send(WORKER, question, &["--type", "question"])?;
    let mut running = rig.spawn("run", &supervisor(rig, number)?)?;
    let status = running.end_within(RUN_MAX)?;
    let track = rig.poste_as(Some(SENDER), &["track", &number.to_string()])?;
    let Some(reply) = track["deliveries"][0]["answer"].as_u64() else {
        return Err(format!("no answer ({status}): {track}\n{}", running.tail()));
    };
    let read = rig.poste_as(Some(SENDER), &["read", &reply.to_string()])?;
    match read["body"].as_str() {
        Some(body) if body == answer => Ok(format!("#{reply}: {body:?}")),
        _ => Err(format!("#{reply} is {read}")),
    }
}

/// With the program where its preset finds it.
fn supervisor(rig: &Rig, number: u64) -> Result<Vec<OsString>> {
    let own = rig.program.environment(rig).into_iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path);
    let folder = rig.program.folder(rig);
    let folders = std::iter::once(folder).chain(own.iter().flat_map(std::env::split_paths));
    let mut path = OsString::from("PATH=");
    path.push(std::env::join_paths(folders).map_err(|error| error.to_string())?);
    Ok(vec![
        "/usr/bin/env".into(),
        path,
        rig.poste().into(),
        "run-agent".into(),
        WORKER.into(),
        number.to_string().into(),
    ])
}
