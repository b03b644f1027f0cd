//! Shows what changed between two versions.

use poste_core::document;
use poste_core::office::Office;
use poste_core::text::ContextName;
use poste_core::views::{self, ContextView, VersionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{follow_mirror, view};
use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// The version to compare from; 0: the empty context
    pub from: u64,
    /// The version to compare to; default: the newest
    pub to: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The context's name.
    pub name: ContextName,
    /// The version compared from; 0: the empty context.
    pub from: u64,
    /// The version compared to.
    pub to: u64,
    /// Number of added lines of text.
    pub added: u32,
    /// Number of removed lines of text.
    pub removed: u32,
    /// Unified diff of the text; empty if it did not change.
    pub diff: String,
    /// Unified diff of the formatted structured part.
    pub data_diff: String,
    /// The versions in between, newest first.
    pub versions: Vec<VersionView>,
}

impl Verb for Input {
    const NAME: &'static str = "context diff";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("versions", Touch::CommandLine)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let answer = difference(desk.office, &self.name, self.from, self.to)?;
        if answer.diff.is_empty() && answer.data_diff.is_empty() {
            desk.say(format!("version {} has the same content as version {}", answer.to, answer.from));
        }
        follow_mirror(desk, &self.name);
        Ok(Answered::new(answer))
    }
}

/// What changed from one version to another. Version 0 is empty.
pub(super) fn difference(office: &Office, name: &ContextName, from: u64, to: Option<u64>) -> Result<Answer> {
    let after = view(office, name, to)?;
    let before = match from {
        0 => None,
        from => Some(view(office, name, Some(from))?),
    };
    let to = after.version;
    let names = (format!("{name} version {from}"), format!("{name} version {to}"));
    let text = before.as_ref().map(|before| before.text.as_str()).unwrap_or_default();
    let data = |view: Option<&ContextView>| {
        let data = view.and_then(|view| view.data.as_ref());
        data.map(|data| laid_out(data.get())).unwrap_or_default()
    };
    let data_names = (format!("{} data", names.0), format!("{} data", names.1));
    let lines = document::count(text, &after.text);
    let (mut versions, _) = views::context_history(office.store(), name, from.min(to), usize::MAX)?.unwrap_or_default();
    versions.retain(|version| version.version <= to);
    Ok(Answer {
        name: name.clone(),
        from,
        to,
        added: lines.added,
        removed: lines.removed,
        diff: document::unified(text, &after.text, (&names.0, &names.1)),
        data_diff: document::unified(&data(before.as_ref()), &data(Some(&after)), (&data_names.0, &data_names.1)),
        versions,
    })
}

/// Formats JSON with one value per line for the diff. JSON that does not parse is compared as it is.
fn laid_out(json: &str) -> String {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(json);
    let text = parsed.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    document::ended(&text.unwrap_or_else(|| json.to_owned()))
}
