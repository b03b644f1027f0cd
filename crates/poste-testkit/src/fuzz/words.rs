//! Words, times, and `poste.toml`.

use std::path::Path;
use std::str::FromStr;

use poste::probe;
use poste_config::edit::change;
use poste_config::{ConfigFile, FilePolicy, KeyPath, check_local};
use poste_core::fold::{Refusals, fold};
use poste_core::log::{Intent, Proof, Proposal, Record, Sealed, TopicPattern, Via};
use poste_core::store::Store;
use poste_core::text::{InvalidText, Label, Name, RecordId, Session, Topic, TypeName, Word, nearest, quoted};
use poste_core::time::{When, length, parse_duration_ms, parse_when};
use poste_core::vocabulary::{AgentKind, Priority, Urgency};
use poste_core::{Address, Digest, Position, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Checked, must};
use crate::corpus;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let honest = [
        "coder",
        "builder-1",
        "7zip_agent",
        "role:reviewer",
        "can:typescript",
        "every:role:reviewer",
        "every:can:go",
        "everyone",
        "topic:TaskCompleted",
        "conv_auth_contracts_001",
        "blog-writer-1709468234-x7k2",
        "progress_update",
        "urgent",
        "critical",
        "human",
        "#12",
        "18446744073709551615",
        "a,b , role:c",
        "0000000000000000000000000000000000000000000000000000000000000000",
    ];
    honest.iter().chain(corpus::NAMES).map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn words(input: &[u8]) -> Checked {
    let Ok(text) = std::str::from_utf8(input) else { return Ok("no UTF-8".to_owned()) };
    let mut taken = Vec::new();
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let word = |c: char| lower(c) || c == '-' || c == '_';
    taken.extend(one::<Name>("name", text, 64, word)?);
    taken.extend(one::<Word>("word", text, 64, word)?);
    taken.extend(one::<TypeName>("type", text, 64, |c| lower(c) || c == '_')?);
    taken.extend(one::<Topic>("topic", text, 64, |c| c.is_ascii_alphanumeric() || "-_.".contains(c))?);
    taken.extend(one::<TopicPattern>("pattern", text, 64, |c| c.is_ascii_alphanumeric() || "-_.*".contains(c))?);
    taken.extend(one::<Label>("label", text, 128, |c| c.is_ascii_alphanumeric() || "-_.:".contains(c))?);
    taken.extend(one::<Session>("session", text, 128, |c| c.is_ascii_graphic())?);
    taken.extend(one::<RecordId>("id", text, 128, |c| c.is_ascii_graphic() || c == ' ')?);
    taken.extend(one::<Address>("address", text, 80, |c| c.is_ascii_alphanumeric() || "-_.:".contains(c))?);
    if let Ok(address) = text.parse::<Address>() {
        must(address.to_string() == text, || format!("the address {text:?} prints as {address}"))?;
    }
    for name in ["poste", "everyone"] {
        must(text != name || !taken.contains(&"name"), || format!("{text} is a name"))?;
    }
    must(is_safe(&quoted(text)), || format!("quoted, {text:?} is not safe to print"))?;
    let _ = nearest(text, corpus::NAMES.iter().copied());
    let more = [
        ("digest", text.parse::<Digest>().is_ok()),
        ("priority", text.parse::<Priority>().is_ok()),
        ("urgency", text.parse::<Urgency>().is_ok()),
        ("agent kind", text.parse::<AgentKind>().is_ok()),
        ("number", probe::number(text).is_ok()),
        ("position", probe::position(text).is_ok()),
    ];
    taken.extend(more.iter().filter(|(_, is)| *is).map(|(what, _)| *what));
    match probe::recipients(text) {
        Ok(_) => taken.push("recipients"),
        Err(told) => must(told.iter().all(|text| is_safe(text)), || format!("an error has {told:?}"))?,
    }
    Ok(taken.join(" "))
}

/// Text and JSON accept the same values, which are those that the documentation promises.
fn one<T>(
    what: &'static str,
    text: &str,
    chars_max: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<Option<&'static str>, String>
where
    T: FromStr<Err = InvalidText> + Serialize + DeserializeOwned,
{
    let parsed = text.parse::<T>();
    let json = serde_json::Value::from(text);
    let in_json = serde_json::from_value::<T>(json.clone());
    must(parsed.is_ok() == in_json.is_ok(), || format!("{text:?} as {what} differs between text and JSON"))?;
    match parsed {
        Ok(value) => {
            // Nothing that looks like an option, a hidden file or a prefix; sessions and ids are never part of a path.
            let may_begin = |c: char| c.is_ascii_alphanumeric() || c == '*' || ["session", "id"].contains(&what);
            let fits = text.starts_with(may_begin) && text.len() <= chars_max && text.chars().all(allowed);
            must(fits, || format!("{text:?} is not a {what}"))?;
            let back = serde_json::to_value(&value).map_err(|error| error.to_string())?;
            must(back == json, || format!("the {what} {text:?} is written as {back}"))?;
            Ok(Some(what))
        }
        Err(error) => {
            must(is_safe(&error.to_string()), || format!("the error about {text:?} is not safe to print: {error}"))?;
            Ok(None)
        }
    }
}

/// Whether it contains nothing that a terminal obeys, except line ends.
fn is_safe(text: &str) -> bool {
    !text.chars().any(|character| corpus::is_unfit(character) && character != '\n')
}

pub(super) fn time_seeds() -> Vec<Vec<u8>> {
    [
        "10m",
        "1h 30m",
        "2 days",
        "2 weeks",
        "250ms",
        "1d",
        "PT1H",
        "P1D",
        "1y 2mo",
        "-5m",
        "1e9h",
        "0s",
        "1.5h",
        "12:30:45",
        "99999999999999999999h",
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00+02:00",
        "9999-12-31T23:59:59.999Z",
        "-009999-01-01T00:00:00Z",
        "2026-01-31 12:00Z",
        "2016-12-31T23:59:60Z",
        "2026-01-31T12:00:00[Europe/Berlin]",
        "9223372036854775807ms",
        "292471208677y",
        "175307616h",
        "631107417600s",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

pub(super) fn times(input: &[u8]) -> Checked {
    let Ok(text) = std::str::from_utf8(input) else { return Ok("no UTF-8".to_owned()) };
    let duration = parse_duration_ms(text);
    if let Ok(ms) = duration {
        must(ms >= 0, || format!("{text:?} is {ms} ms"))?;
        let _ = length(ms);
    }
    let outcome = match parse_when(text) {
        Ok(when) => {
            let json = serde_json::to_string(&when).map_err(|error| error.to_string())?;
            let back: When = serde_json::from_str(&json).map_err(|error| error.to_string())?;
            must(back == when, || format!("{text:?} changes on its way through {json}"))?;
            for from in [Timestamp::ZERO, Timestamp::from_ms(1_800_000_000_000), Timestamp::MAX] {
                let at = when.resolve(from);
                must((Timestamp::ZERO..=Timestamp::MAX).contains(&at), || format!("{text:?} is beyond time"))?;
                let shown = [probe::moment(at, from), probe::moment(from, at)].concat();
                must(shown.iter().all(|text| is_safe(text)), || format!("{shown:?}"))?;
            }
            if let (When::InMs(ms), Ok(same)) = (when, &duration) {
                must(ms == *same, || format!("{text:?} is {ms} and {same} ms"))?;
            }
            format!("{} digits", json.len())
        }
        Err(error) => {
            must(duration.is_err(), || format!("{text:?} is a length and no time"))?;
            must(is_safe(&error), || format!("the error is not safe to print: {error:?}"))?;
            error
        }
    };
    Ok(format!("{}: {outcome}", duration.map_or_else(|why| why, |_| "a length".to_owned())))
}

pub(super) fn config_seeds() -> Vec<Vec<u8>> {
    let honest = [
        "",
        "[delivery]\nmax_attempts = 3\nretry_delay = \"30s\"\nlease = \"10m\"\n[retention]\nfinished = \"72h\"\n\
         [limits]\nmessage_bytes = 1048576\nfan_out = 500\n[types.question]\nresponse = false\n\
         [types.build_failed]\npriority = \"high\"\nurgency = \"now\"\nwork = true\nmax_attempts = 2\nretry_delay = \"1m\"\n",
        "delivery.lease = \"1h\"\ntypes.x = { priority = \"critical\" }\n",
        "[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\nexists = true\nnot_empty = true\ndigest = true\nsize_min = 1\n\
         size_max = 10\nname_matches = \"*.md\"\ncommand = [\"./check.sh\", \"{artifact}\"]\ntimeout = \"5s\"\n[[gate]]\n\
         name = \"b\"\nworkflow = \"blog\"\nstep = \"edit\"\nshell = \"test -s $POSTE_ARTIFACT\"\n\
         payload_schema = \"a.json\"\nartifact_schema = { type = \"object\" }\n",
        "[wake]\ncommand = [\"notify\", \"{agent}\", \"{number} {count}\"]\nhosts = [\"10.0.0.7\"]\n[types.deploy]\npatience = \"1m\"\n",
        "# Ours\n[types.deploy]\nschema = \"deploy.json\" # checked\n[types.report]\nschema = { type = \"object\", required = [\"a\"] }\n",
    ];
    honest.iter().chain(corpus::TOML_TEXTS).map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn config(input: &[u8]) -> Checked {
    let Ok(text) = std::str::from_utf8(input) else { return Ok("no UTF-8".to_owned()) };
    let local = check_local(text);
    let (_, mut problems) = ConfigFile::check(text);
    for problem in problems.iter().chain(&local) {
        let shown = probe::escape_block(&problem.to_string());
        must(is_safe(&shown.replace('\t', " ")), || format!("a problem is not safe to print: {shown:?}"))?;
        must(shown.len() < 2_000, || format!("a problem of {} bytes", shown.len()))?;
        let lines = text.matches('\n').count() + 1;
        must(problem.line.is_none_or(|line| (1..=lines).contains(&line)), || format!("no such line: {problem:?}"))?;
    }
    set_and_unset(text)?;
    let file = match ConfigFile::parse(text, Path::new("poste.toml")) {
        Ok(file) if problems.is_empty() => file,
        Ok(_) => return Err(format!("it is taken with problems: {problems:?}")),
        Err(_) => {
            must(!problems.is_empty(), || "it is refused without a problem".to_owned())?;
            // Sections and types are named before the last colon, and are chosen by the author of the file.
            let last = problems.pop().map(|problem| problem.message).unwrap_or_default();
            return Ok(last.rsplit(": ").next().unwrap_or_default().to_owned());
        }
    };
    for given in file.given.values() {
        must(text.lines().nth(given.line - 1).is_some(), || format!("no line {}", given.line))?;
    }
    let types = file.policy.types.len();
    folds(file.policy)?;
    Ok(format!("a policy with {} schemas {} types", "s".repeat(file.schemas.len().min(3)), "t".repeat(types.min(9))))
}

/// Setting a key leaves a valid file with that value, and the key can be unset again.
fn set_and_unset(text: &str) -> Result<(), String> {
    for (path, value) in [("delivery.lease", "15m"), ("types.zebra.priority", "high")] {
        let path: KeyPath = path.parse().map_err(|error| format!("{path}: {error}"))?;
        let (KeyPath::Setting(key) | KeyPath::OfType(_, key)) = &path else { continue };
        let value = key.takes.parse(value).map_err(|error| format!("{value}: {error}"))?;
        let Ok(set) = change(text, &path, Some(&value)) else { continue };
        let (file, problems) = ConfigFile::check(&set.text);
        must(problems.is_empty(), || format!("setting {path} leaves {problems:?}"))?;
        let given = file.given.get(&path.to_string()).map(|given| &given.value);
        must(given == Some(&value), || format!("{path} was set and is {given:?}"))?;
        let unset = change(&set.text, &path, None).map_err(|problems| format!("unsetting {path}: {problems:?}"))?;
        let (file, _) = ConfigFile::check(&unset.text);
        must(!file.given.contains_key(&path.to_string()), || format!("{path} was unset and is there"))?;
    }
    Ok(())
}

/// What the parser accepts, the fold accepts too.
fn folds(file: FilePolicy) -> Result<(), String> {
    let digest = file.digest();
    let policy = file.into_policy("machine".parse().expect("a label"), "host".to_owned(), 0);
    must(policy.digest() == digest, || "a policy's digest depends on the machine".to_owned())?;
    let proposal = Proposal {
        id: "policy".parse().expect("an id"),
        actor: Name::poste(),
        session: None,
        via: Via::Cli,
        proof: Proof::None,
        sent_at: Timestamp::ZERO,
        intent: Intent::Policy(policy),
        content: None,
    };
    let sealed = Sealed::seal(&proposal, &"machine".parse().expect("a label"))
        .map_err(|error| format!("a policy that does not seal: {error}"))?;
    let store = Store::in_memory().map_err(|error| error.to_string())?;
    let mut tables = store.tables().map_err(|error| error.to_string())?;
    let record = Record { position: Position(1), at: Timestamp::from_ms(1), sealed };
    let outcome = fold(&mut tables, &record, Refusals::Kept).map_err(|error| error.to_string())?;
    outcome
        .verdict
        .accepted()
        .map(drop)
        .map_err(|rejection| format!("the file is taken and the fold refuses it: {rejection}"))
}
