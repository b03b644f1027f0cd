//! Shared contexts: documents that several agents edit, in consecutive versions.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::address::Address;
use crate::log::MessageNo;
use crate::text::{ContextName, Label, Topic, TypeName, Word};

/// Number of lines a change added and removed, as counted by its writer: the fold does not see text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    pub added: u32,
    pub removed: u32,
}

/// Creates a context at version 1. The content holds its first text, its first data and the schema of its data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextCreate {
    pub name: ContextName,
    pub kind: Word,
    pub lines: Lines,
    /// The first version has data.
    #[serde(default, skip_serializing_if = "is_false")]
    pub data: bool,
    /// The context's data must fit a schema.
    #[serde(default, skip_serializing_if = "is_false")]
    pub schema: bool,
    pub mail: Send,
}

/// Appends a section. It fits any earlier version, so it does not name one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextAppend {
    pub name: ContextName,
    pub lines: Lines,
    pub mail: Send,
}

/// Replaces the text, the data, or both.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextReplace {
    pub name: ContextName,
    /// The version it was made from. Refused if there is a newer one.
    pub if_version: u64,
    pub lines: Lines,
    #[serde(default, skip_serializing_if = "is_false")]
    pub text: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub data: bool,
    /// The proposal that this version writes down. All of its parties must have agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<MessageNo>,
    pub mail: Send,
}

/// Keeps other agents from writing for a while. The holder extends its lock this way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextLock {
    pub name: ContextName,
    pub for_ms: i64,
}

/// The holder releases the lock, or another agent breaks it and the mail tells the holder why.
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

/// The topic that changes of a context are published to.
pub fn context_topic(name: &ContextName) -> Topic {
    format!("context.{name}").parse().expect("a context's name is short enough to be part of a topic")
}

/// The conversation of everything published about a context.
pub fn context_conversation(name: &ContextName) -> Label {
    format!("context:{name}").parse().expect("a context's name is short enough to be part of a label")
}

/// The message that announces a change to subscribers. Every version is published in exactly this form.
pub fn context_mail(name: &ContextName) -> Send {
    let mut mail = Send::plain(context_updated(), vec![Address::Topic(context_topic(name))]);
    mail.conversation = Some(context_conversation(name));
    mail
}

fn context_updated() -> TypeName {
    "context_updated".parse().expect("context_updated is a built-in type")
}
