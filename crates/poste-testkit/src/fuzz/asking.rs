//! Search queries, and payloads against their schemas.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use poste_core::log::{Body, Content, Intent, Proof, Proposal, Register, Send, Via};
use poste_core::office::{Place, Rules};
use poste_core::payload::SchemaSource;
use poste_core::payload::{PayloadSchemas, Validators};
use poste_core::store::Options;
use poste_core::store::search::{InvalidQuery, Words};
use poste_core::views::{self, SearchQuery};
use poste_core::{Error, Office, Timestamp};
use serde_json::Value;

use super::{Checked, must};
use crate::clock::SimClock;
use crate::corpus;

thread_local! {
    /// An office with something to find, and its temporary folder.
    static LIBRARY: RefCell<Option<(Office, tempfile::TempDir)>> = const { RefCell::new(None) };
}

pub(super) fn search_seeds() -> Vec<Vec<u8>> {
    let honest = [
        "login",
        "\"fix the login\"",
        "log*",
        "login -password",
        "src/auth.rs",
        "ISSUE-12",
        "-a -b",
        "*",
        "\"",
        "a\"b\"c*",
        "\u{6f22}\u{5b57}",
        "NEAR(a b)",
        "body : x",
        "a AND b OR NOT c",
        "^a + b",
        "{body} : x",
        "--force",
    ];
    honest.iter().chain(corpus::TEXTS).map(|text| text.as_bytes().to_vec()).collect()
}

fn library() -> Result<(Office, tempfile::TempDir), Error> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = made.map_err(|source| Error::Io { path: memory.to_owned(), source })?;
    let place = Place { path: folder.path().join(".poste"), clock: SimClock::new(), options: Options::default() };
    place.create()?;
    let mut office = place.open()?;
    let register = Register {
        kind: None,
        role: None,
        capabilities: None,
        worktree: None,
        lead: None,
        clears: Vec::new(),
        update: false,
    };
    office.propose(&proposal("ann", Intent::Register(register), None), &Rules::none())?;
    for (text, number) in corpus::TEXTS.iter().zip(0..) {
        let content = Content { subject: "Fix the login".to_owned(), body: Body::from(*text), ..Content::default() };
        let send =
            Intent::Send(Send::plain("message".parse().expect("a type"), vec!["ann".parse().expect("an address")]));
        office.propose(&proposal(&format!("text-{number}"), send, Some(content)), &Rules::none())?;
    }
    Ok((office, folder))
}

fn proposal(id: &str, intent: Intent, content: Option<Content>) -> Proposal {
    let (id, actor) = (id.parse().expect("an id"), "ann".parse().expect("a name"));
    Proposal { id, actor, session: None, via: Via::Cli, proof: Proof::None, sent_at: Timestamp::ZERO, intent, content }
}

pub(super) fn search(input: &[u8]) -> Checked {
    let text = String::from_utf8_lossy(input);
    let words: Words = match text.parse() {
        Ok(words) => words,
        Err(error) => {
            let error: InvalidQuery = error;
            let unsafe_to_print = error.to_string().chars().any(corpus::is_unfit);
            must(!unsafe_to_print, || format!("the error is not safe to print: {error:?}"))?;
            return Ok(error.to_string());
        }
    };
    let (office, folder) = match LIBRARY.with_borrow_mut(Option::take) {
        Some(library) => library,
        None => library().map_err(|error| error.to_string())?,
    };
    let mut found = Vec::new();
    for rank in [false, true] {
        let query = SearchQuery { rank, ..SearchQuery::new(words.clone()) };
        // Nothing typed is SQLite syntax, so no search can fail.
        let (page, refreshed) = views::search(office.store(), &query, |_| ()).map_err(|error| error.to_string())?;
        must(refreshed.rebuilt.is_none(), || format!("the index was thrown away: {:?}", refreshed.rebuilt))?;
        found.push(page.hits.len());
    }
    LIBRARY.with_borrow_mut(|kept| *kept = Some((office, folder)));
    must(found[0] == found[1], || format!("{found:?} hits, by time and by rank"))?;
    Ok(format!("found {}", &"||||||||||||||||||||"[..found[0].min(20)]))
}

pub(super) fn schema_seeds() -> Vec<Vec<u8>> {
    let pairs = [
        (r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1}}}"#, r#"{"a":3}"#),
        (r##"{"$ref":"#"}"##, "1"),
        (r##"{"$defs":{"n":{"items":{"$ref":"#/$defs/n"}}},"$ref":"#/$defs/n"}"##, "[[[[]]]]"),
        (r##"{"allOf":[{"$ref":"#"}]}"##, "{}"),
        (r#"{"$ref":"http://example.org/schema.json"}"#, "{}"),
        (r#"{"pattern":"^(a+)+$"}"#, r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab""#),
        (r#"{"patternProperties":{"^x":{"format":"email"}},"additionalProperties":false}"#, r#"{"xa":"a@b","y":1}"#),
        (r#"{"multipleOf":1e-300}"#, "1e300"),
        (r#"{"uniqueItems":true,"contains":{"const":1},"maxContains":2}"#, "[1,1,1]"),
        (r#"{"if":{"type":"string"},"then":{"maxLength":3},"else":{"enum":[1,2,null]}}"#, "\"abcd\""),
    ];
    pairs.iter().map(|(schema, payload)| format!("{schema}\n{payload}").into_bytes()).collect()
}

/// The first line is a schema, the second a payload.
pub(super) fn schema(input: &[u8]) -> Checked {
    let text = String::from_utf8_lossy(input);
    let (schema, payload) = text.split_once('\n').unwrap_or((&text, "null"));
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Ok("no schema".to_owned()) };
    let Ok(payload) = serde_json::value::RawValue::from_string(payload.to_owned()) else {
        return Ok("no payload".to_owned());
    };
    let kind: poste_core::text::TypeName = "report".parse().expect("a type");
    let sources = [(kind.clone(), SchemaSource::Inline(schema))].into();
    let schemas = PayloadSchemas::new(&PathBuf::from("/nowhere/poste.toml"), sources);
    let broken = !schemas.problems().is_empty();
    let content = Content { subject: "s".to_owned(), payload: Some(payload), ..Content::default() };
    if content.check().is_err() {
        return Ok("no content".to_owned());
    }
    let send = Intent::Send(Send::plain(kind, vec!["ann".parse().expect("an address")]));
    match schemas.check(&proposal("payload", send, Some(content)), &mut Validators::default()) {
        Ok(None) => must(!broken, || "a broken schema lets a payload through".to_owned()).map(|()| "fits".to_owned()),
        Ok(Some(rejection)) => Ok(format!("refused {}", rejection.reason)),
        Err(Error::Config { message, .. }) => {
            must(broken, || format!("no problem and yet: {message}")).map(|()| message)
        }
        Err(other) => Err(format!("a schema fails as {other:?}")),
    }
}
