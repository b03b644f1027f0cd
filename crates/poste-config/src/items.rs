//! The sections of a list, `[[gate]]` and `[[on]]`: each key by the kind of value it takes. A section that cannot be
//! read is a problem of the file and is never left out, because its author relies on it.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use crate::gates::{command, text};
use crate::keys::{Key, Value};
use crate::read::{Named, Reader, Wrong, read_value};

const COMMAND: &str = "command";
const NAME: &str = "name";

/// How the sections of one list are read.
pub(crate) struct Shape {
    pub list: &'static str,
    /// The plural for error texts.
    pub several: &'static str,
    pub max: usize,
    /// The keys whose values are also used in plain sections.
    pub values: &'static [Key],
    /// The keys that take one string, among them `name`.
    pub texts: &'static [&'static str],
    /// The keys that take a string or a list of strings.
    pub lists: &'static [&'static str],
    /// Keys that people may write with a secret, where only the name of its place is allowed.
    pub secrets: &'static [&'static str],
    /// An example of a command for error texts, and the templates for its words.
    pub command: &'static str,
    pub templates: &'static [&'static str],
}

/// The keys of one section.
#[derive(Default)]
pub(crate) struct Fields {
    pub texts: BTreeMap<&'static str, String>,
    pub lists: BTreeMap<&'static str, Vec<String>>,
    pub values: BTreeMap<&'static str, Value>,
    pub command: Option<Vec<String>>,
}

impl Shape {
    /// Reads each section and passes it to `take` with its line. `take` returns the problems of the section.
    pub fn each(
        &self,
        reader: &mut Reader<'_>,
        name: &Named<'_>,
        value: &DeValue<'_>,
        mut take: impl FnMut(&mut Reader<'_>, Fields, usize) -> Vec<String>,
    ) {
        let Self { list, several, max, .. } = self;
        let Some(items) = value.as_array() else {
            return reader.say(name.span(), format!("{list} is a list: write [[{list}]]"));
        };
        if items.len() > *max {
            return reader.say(name.span(), format!("more than {max} {several}"));
        }
        for item in items.iter() {
            let Some(given) = item.get_ref().as_table() else {
                reader.say(item.span(), format!("{list} is a list of sections: write [[{list}]]"));
                continue;
            };
            let line = reader.line(item.span().start);
            let before = reader.problems.len();
            let fields = self.fields(reader, given);
            let problems = match reader.problems.len() > before {
                false => take(reader, fields, line),
                // Other keys may seem to be missing because of those problems, but not the name.
                true if given.contains_key(NAME) => Vec::new(),
                true => vec![format!("{list}: it has no name")],
            };
            problems.into_iter().for_each(|problem| reader.say(item.span(), problem));
        }
    }

    fn fields(&self, reader: &mut Reader<'_>, given: &DeTable<'_>) -> Fields {
        let mut fields = Fields::default();
        let known = self.values.iter().map(|key| key.name).chain(self.texts.iter().copied());
        let known: Vec<&str> = known.chain(self.lists.iter().copied()).chain([COMMAND]).collect();
        reader.each(&format!("[[{}]]", self.list), given, &known, |_, name, value| {
            let key = name.get_ref().as_ref();
            let find = |keys: &'static [&'static str]| keys.iter().copied().find(|known| *known == key);
            if let Some(known) = self.values.iter().find(|known| known.name == key) {
                fields.values.insert(known.name, read_value(known.takes, value)?);
            } else if let Some(known) = find(self.texts) {
                fields.texts.insert(known, text(value)?);
            } else if let Some(known) = find(self.lists) {
                fields.lists.insert(known, texts(value)?);
            } else if key == COMMAND {
                fields.command = Some(command(value, self.command, self.templates)?);
            } else if find(self.secrets).is_some() {
                let place = format!("name its place: {key}_env or {key}_file");
                return Err(Wrong::Key(format!("a secret does not belong in a file; {place}")));
            } else {
                return Err(Wrong::Unknown);
            }
            Ok(())
        });
        fields
    }
}

fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    const ITEMS_MAX: usize = 64;
    let DeValue::Array(items) = value else { return text(value).map(|text| vec![text]) };
    if items.is_empty() || items.len() > ITEMS_MAX {
        return Err(format!("must be a list of 1 to {ITEMS_MAX} strings"));
    }
    items.iter().map(|item| text(item.get_ref())).collect()
}

impl Fields {
    pub fn count(&mut self, key: &str) -> Option<u64> {
        self.values.remove(key)?.count()
    }

    pub fn length(&mut self, key: &str) -> Option<i64> {
        self.values.remove(key)?.length()
    }
}
