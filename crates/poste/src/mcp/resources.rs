//! What a client can put before its model by itself: the inbox, a thread, a shared context, the roster.

use poste_connect::mcp::ErrorData;
use poste_connect::mcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use poste_core::text::ContextName;
use poste_core::views;
use serde_json::Value;

use super::desk::Desk;
use super::render;
use super::{anybody, short};
use crate::context::{Mark, NO_SPEAKER};
use crate::error::{CommandError, Kind};

/// A resource is asked for by a person, so it may be longer than what a tool answers.
const TOKENS_MAX: usize = 10_000;

pub(super) const INBOX: &str = "poste://inbox";
const ROSTER: &str = "poste://roster";
const THREAD: &str = "poste://thread/";
const CONTEXT: &str = "poste://context/";

pub(super) fn list(desk: &Desk) -> Vec<Resource> {
    let text = |uri: &str, name: &str, description: &str| {
        Resource::new(uri, name).with_description(description).with_mime_type("text/plain")
    };
    let mut all = vec![
        text(INBOX, "inbox", "The mail that waits for you"),
        text(ROSTER, "roster", "Who is registered in this office"),
    ];
    // An office that cannot be read has no contexts to list; reading one says why.
    let contexts = desk.with_office(|_, office| Ok(views::contexts(office.store(), None)?)).unwrap_or_default();
    all.extend(contexts.iter().map(|context| {
        let uri = format!("{CONTEXT}{}", context.name);
        text(&uri, context.name.as_str(), "A document that agents share")
    }));
    all
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_description(description).with_mime_type("text/plain")
    };
    vec![
        template("poste://thread/{number}", "thread", "The conversation of a message, by its number"),
        template("poste://context/{name}", "context", "A shared context, by its name"),
    ]
}

/// Whether this names a resource, by its form.
pub(super) fn is_resource(uri: &str) -> bool {
    const CHARS_MAX: usize = 500;
    uri.len() <= CHARS_MAX && command(uri).is_some()
}

/// The command that shows a resource.
fn command(uri: &str) -> Option<Vec<String>> {
    let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect());
    if uri == INBOX {
        return words(&["inbox", "--limit=500"]);
    }
    if uri == ROSTER {
        return words(&["agents"]);
    }
    if let Some(number) = uri.strip_prefix(THREAD).filter(|number| number.parse::<u64>().is_ok()) {
        return words(&["thread", "--", number]);
    }
    let name = uri.strip_prefix(CONTEXT).filter(|name| name.parse::<ContextName>().is_ok())?;
    words(&["context", "show", "--for-model", "--", name])
}

pub(super) fn read(desk: &Desk, uri: &str) -> Result<(ReadResourceResult, Vec<Mark>), ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {}", short(uri)), None);
    let words = command(uri).ok_or_else(unknown)?;
    let failed = |error: CommandError| {
        let text = error.lines(false).join("\n");
        match error.kind {
            Kind::NotFound => ErrorData::resource_not_found(text, None),
            _ => ErrorData::internal_error(text, None),
        }
    };
    let own = anybody(desk);
    let mut called = desk.run(&own, words.clone());
    if let Some(error) = called.error.take() {
        return Err(failed(if error.code == Some(NO_SPEAKER) { super::desk::unnamed() } else { error }));
    }
    let mut marks = called.marks;
    let text = match called.is_fenced {
        true => {
            let (text, is_cut) = render::fenced_within(&called.text, TOKENS_MAX);
            if is_cut {
                marks.clear();
            }
            text
        }
        false if called.text.trim().is_empty() => called.talk.join("\n"),
        false => {
            let cx = desk.cx(&own).map_err(failed)?;
            render::output(&cx, &words.join(" "), &called.text, TOKENS_MAX).0
        }
    };
    Ok((ReadResourceResult::new(vec![ResourceContents::text(text, uri)]), marks))
}

/// What a resource is at the moment, in short: two of them differ if it changed. `None`: there is nothing to see.
pub(super) fn fingerprint(desk: &Desk, uri: &str) -> Option<blake3::Hash> {
    let mut words = command(uri)?;
    // The answer for programs: no fence, which differs each time, and no times that pass.
    words.retain(|word| word != "--for-model");
    let mut answer = desk.run(&anybody(desk), words).answer?;
    if let Value::Object(fields) = &mut answer {
        fields.remove("as_of");
    }
    Some(blake3::hash(answer.to_string().as_bytes()))
}
