//! What a client can show its model without a tool call: the inbox, a thread, a shared context, the roster.

use poste_core::log::MessageNo;
use poste_core::text::ContextName;
use poste_core::views;
use poste_verbs::context::show;
use poste_verbs::session::Identity;
use poste_verbs::{Kind, Mark, Result, Verb, agents, inbox, thread};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::connection::Connection;
use super::poste::{identity_or_none, short};
use super::render;
use super::tools::{self, Called};

/// A person asks for a resource, so it may be longer than the answer of a tool.
const TOKENS_MAX: usize = 10_000;

pub(super) const INBOX: &str = "poste://inbox";
const ROSTER: &str = "poste://roster";
const THREAD: &str = "poste://thread/";
const CONTEXT: &str = "poste://context/";

pub(super) fn list(connection: &Connection) -> Vec<Resource> {
    let text = |uri: &str, name: &str, description: &str| {
        Resource::new(uri, name).with_description(description).with_mime_type("text/plain")
    };
    let mut all =
        vec![text(INBOX, "inbox", "Your pending mail"), text(ROSTER, "roster", "Agents registered in this office")];
    // An office that cannot be read has no contexts to list; reading one says why.
    let contexts = connection.with_office(|open| Ok(views::contexts(open.office.store(), None)?)).unwrap_or_default();
    all.extend(contexts.iter().map(|context| {
        let uri = format!("{CONTEXT}{}", context.name);
        text(&uri, context.name.as_str(), "A document shared by agents")
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

/// Whether a URI has the form of a resource.
pub(super) fn is_resource(uri: &str) -> bool {
    const CHARS_MAX: usize = 500;
    uri.len() <= CHARS_MAX && Shown::parse(uri).is_some()
}

/// What a resource shows.
enum Shown {
    Inbox,
    Roster,
    Thread(MessageNo),
    Context(ContextName),
}

impl Shown {
    fn parse(uri: &str) -> Option<Self> {
        match uri {
            INBOX => return Some(Self::Inbox),
            ROSTER => return Some(Self::Roster),
            _ => {}
        }
        if let Some(number) = uri.strip_prefix(THREAD) {
            return number.parse().ok().map(|number| Self::Thread(MessageNo(number)));
        }
        uri.strip_prefix(CONTEXT)?.parse().ok().map(Self::Context)
    }

    fn call(&self, connection: &Connection, own: &Identity) -> Result<Called> {
        const LINES_MAX: u16 = 500;
        let input = match self {
            Self::Inbox => json!({ "limit": LINES_MAX }),
            Self::Roster => json!({}),
            Self::Thread(number) => json!({ "conversation": number.to_string() }),
            Self::Context(name) => return tools::show_context(connection, own, json!({ "name": name })),
        };
        connection.show(own, self.verb(), input, None)
    }

    fn verb(&self) -> &'static str {
        match self {
            Self::Inbox => inbox::Input::NAME,
            Self::Roster => agents::Input::NAME,
            Self::Thread(_) => thread::Input::NAME,
            Self::Context(_) => show::Input::NAME,
        }
    }
}

pub(super) fn read(connection: &Connection, uri: &str) -> Result<(ReadResourceResult, Vec<Mark>), ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {}", short(uri)), None);
    let shown = Shown::parse(uri).ok_or_else(unknown)?;
    let called = shown.call(connection, &identity_or_none(connection)).map_err(|error| {
        let text = connection.error_text(&error);
        match error.kind {
            Kind::NotFound => ErrorData::resource_not_found(text, None),
            _ => ErrorData::internal_error(text, None),
        }
    })?;
    let (text, is_cut) = match called.is_fenced {
        true => render::fenced_within(&called.text, TOKENS_MAX),
        false if called.text.trim().is_empty() => (called.next.join("\n"), false),
        false => render::output(connection.ids(), shown.verb(), &called.text, TOKENS_MAX),
    };
    let marks = if is_cut { Vec::new() } else { called.marks };
    Ok((ReadResourceResult::new(vec![ResourceContents::text(text, uri)]), marks))
}

/// A hash of the current content of a resource, which differs if it changed. `None`: it cannot be read.
pub(super) fn fingerprint(connection: &Connection, uri: &str) -> Option<blake3::Hash> {
    // The JSON answer has no fence, which differs each time, and no relative times.
    let mut answer = Shown::parse(uri)?.call(connection, &identity_or_none(connection)).ok()?.answer;
    if let Value::Object(fields) = &mut answer {
        fields.remove("as_of");
    }
    Some(blake3::hash(answer.to_string().as_bytes()))
}
