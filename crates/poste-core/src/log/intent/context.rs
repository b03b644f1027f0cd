//! Shared contexts: documents that several agents write, one version after another.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::address::Address;
use crate::log::MessageNo;
use crate::text::{ContextName, Label, Topic, TypeName, Word};

/// How many lines a change added and took away, as its writer counted them: the fold sees no text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    pub added: u32,
    pub removed: u32,
}

/// A context begins, at version 1. The content holds its first text, its first data and the schema of its data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextCreate {
    pub name: ContextName,
    pub kind: Word,
    pub lines: Lines,
    /// It begins with data.
    #[serde(default, skip_serializing_if = "is_false")]
    pub data: bool,
    /// Its data must fit a schema.
    #[serde(default, skip_serializing_if = "is_false")]
    pub schema: bool,
    pub mail: Send,
}

/// A section at the end. It fits whatever came before it, so it names no version.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextAppend {
    pub name: ContextName,
    pub lines: Lines,
    pub mail: Send,
}

/// Another text, other data, or both, in place of those of a version.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextReplace {
    pub name: ContextName,
    /// The version it was made from. Any other one since then, and it is refused.
    pub if_version: u64,
    pub lines: Lines,
    #[serde(default, skip_serializing_if = "is_false")]
    pub text: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub data: bool,
    /// The proposal it writes down, on which everybody asked has agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<MessageNo>,
    pub mail: Send,
}

/// Nobody else writes for a while. By its holder, it is prolonged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextLock {
    pub name: ContextName,
    pub for_ms: i64,
}

/// The holder lets go; or somebody breaks the lock, and the mail tells the holder why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextUnlock {
    pub name: ContextName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// The agent has seen this version.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextRead {
    pub name: ContextName,
    pub version: u64,
}

/// The topic the changes of a context are published to.
pub fn context_topic(name: &ContextName) -> Topic {
    format!("context.{name}").parse().expect("a context's name is short enough to be part of a topic")
}

/// The conversation of everything that is published of a context.
pub fn context_conversation(name: &ContextName) -> Label {
    format!("context:{name}").parse().expect("a context's name is short enough to be part of a label")
}

/// What tells subscribers of a change. Every version is published like this, and in no other way.
pub fn context_mail(name: &ContextName) -> Send {
    let mut mail = Send::plain(context_updated(), vec![Address::Topic(context_topic(name))]);
    mail.conversation = Some(context_conversation(name));
    mail
}

fn context_updated() -> TypeName {
    "context_updated".parse().expect("context_updated is a built-in type")
}
