//! The sections of a list, `[[gate]]` and `[[on]]`: each key by the kind of value it takes. What cannot be read is a problem of
//! the file, never a section that is left out: whoever wrote it counts on it.

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
    /// What several of them are called.
    pub several: &'static str,
    pub max: usize,
    /// The keys that take what keys of sections take too.
    pub values: &'static [Key],
    /// Those that take one text, among them `name`.
    pub texts: &'static [&'static str],
    /// Those that take a text or a list of them.
    pub lists: &'static [&'static str],
    /// What people write when they mean the name of a place.
    pub secrets: &'static [&'static str],
    /// What a command is like, and what stands for something in its words.
    pub command: &'static str,
    pub templates: &'static [&'static str],
}

/// What one section gives.
#[derive(Default)]
pub(crate) struct Fields {
    pub texts: BTreeMap<&'static str, String>,
    pub lists: BTreeMap<&'static str, Vec<String>>,
    pub values: BTreeMap<&'static str, Value>,
    pub command: Option<Vec<String>>,
}

impl Shape {
    /// Reads each section, and hands it on with its line; what comes back is wrong with it.
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
                // What else seems to be missing may be because of that; a name is not.
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
                return Err(Wrong::Key(format!("a secret does not belong into a file; {place}")));
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
        return Err(format!("it is a list of 1 to {ITEMS_MAX} texts"));
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
