//! Edits a TOML file in place: Poste's table is appended, and cut out again. The rest is not rewritten, so it stays
//! byte for byte, including line endings.

use serde_json::Value;
use toml_edit::DocumentMut;

use super::Fault;
use super::json::SERVER;
use super::lines;
use super::ours::{self, Own};

/// Poste's server, below the table where the program keeps its servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    pub group: &'static str,
    /// An object of texts, numbers, lists of texts and objects of texts.
    pub value: Value,
}

/// As a TOML value: texts, numbers, lists of texts and objects of texts.
fn of_plain(value: &Value) -> toml_edit::Value {
    written(value).parse().unwrap_or_else(|_| value.to_string().into())
}

fn parse(text: &str) -> Result<DocumentMut, Fault> {
    text.parse::<DocumentMut>().map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        Fault::malformed(format!("is not valid TOML: {} in line {line}", error.message()))
    })
}

/// The entry under Poste's name, even if Poste did not write it.
fn entry(document: &DocumentMut, group: &str) -> Option<Value> {
    Some(plain(document.get(group)?.get(SERVER)?))
}

/// As JSON, for comparison.
fn plain(item: &toml_edit::Item) -> Value {
    use toml_edit::Value as Toml;
    fn of_value(value: &Toml) -> Value {
        match value {
            Toml::String(text) => text.value().as_str().into(),
            Toml::Integer(number) => (*number.value()).into(),
            Toml::Float(number) => serde_json::Number::from_f64(*number.value()).map_or(Value::Null, Value::Number),
            Toml::Boolean(value) => (*value.value()).into(),
            Toml::Datetime(moment) => moment.value().to_string().into(),
            Toml::Array(list) => list.iter().map(of_value).collect(),
            Toml::InlineTable(table) => table.iter().map(|(key, value)| (key.to_owned(), of_value(value))).collect(),
        }
    }
    match item {
        toml_edit::Item::None => Value::Null,
        toml_edit::Item::Value(value) => of_value(value),
        toml_edit::Item::Table(table) => table.iter().map(|(key, item)| (key.to_owned(), plain(item))).collect(),
        toml_edit::Item::ArrayOfTables(list) => list
            .iter()
            .map(|table| table.iter().map(|(key, item)| (key.to_owned(), plain(item))).collect::<Value>())
            .collect(),
    }
}

/// Parses the whole file.
pub fn value(text: &str) -> Result<Value, Fault> {
    Ok(plain(parse(text)?.as_item()))
}

/// Appends the table, or updates the existing one, which keeps what the user added to it.
pub fn apply(text: &str, edit: &Edit) -> Result<String, Fault> {
    let document = parse(text)?;
    if let Some(found) = entry(&document, edit.group) {
        return update_server(text, document, &found, edit);
    }
    let before = plain(document.as_item());
    let end = lines::end_of(text);
    let mut after = text.to_owned();
    if !after.is_empty() && !after.ends_with('\n') {
        after.push_str(end);
    }
    if !after.is_empty() {
        after.push_str(end);
    }
    after.push_str(&lines::with_end(&table(edit), end));
    // A group that is written in one line cannot be extended by a table.
    let is_closed = || {
        Fault::malformed(format!("has a {} that cannot be extended at the end of the file", edit.group))
            .hint(format!("write it as tables: [{}.NAME]", edit.group))
    };
    let written = parse(&after).map_err(|_| is_closed())?;
    match entry(&written, edit.group).as_ref() == Some(&edit.value)
        && without(&written, edit.group) == value_without(before, edit.group)
    {
        true => Ok(after),
        false => Err(is_closed()),
    }
}

fn update_server(text: &str, mut document: DocumentMut, found: &Value, edit: &Edit) -> Result<String, Fault> {
    let wanted = ours::merged(found, &edit.value);
    if !ours::is_server(found) {
        return Err(Fault::foreign(edit.group, found));
    }
    if wanted == *found {
        return Ok(text.to_owned());
    }
    let rest = without(&document, edit.group);
    if let Some(entry) = document.get_mut(edit.group).and_then(|group| group.get_mut(SERVER)) {
        set(entry, &wanted);
    }
    let after = lines::with_end(&document.to_string().replace("\r\n", "\n"), lines::end_of(text));
    let is_right = |after: &DocumentMut| entry(after, edit.group) == Some(wanted) && without(after, edit.group) == rest;
    match parse(&after).is_ok_and(|after| is_right(&after)) {
        true => Ok(after),
        false => Err(Fault::malformed(format!("has a {}.{SERVER} that cannot be changed", edit.group))
            .hint("remove that entry, and set up again")),
    }
}

/// Changes only what differs, so that the rest keeps its layout and its comments.
fn set(item: &mut toml_edit::Item, wanted: &Value) {
    let (Some(table), Some(wanted)) = (item.as_table_like_mut(), wanted.as_object()) else { return };
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names.iter().filter(|name| !wanted.contains_key(*name)) {
        table.remove(name);
    }
    for (name, value) in wanted {
        match table.get_mut(name) {
            Some(item) if plain(item) == *value => {}
            Some(item) if item.is_table_like() && value.is_object() => set(item, value),
            Some(item) => {
                let decor = item.as_value().map(|value| value.decor().clone());
                *item = toml_edit::value(of_plain(value));
                if let (Some(value), Some(decor)) = (item.as_value_mut(), decor) {
                    *value.decor_mut() = decor;
                }
            }
            None => drop(table.insert(name, toml_edit::value(of_plain(value)))),
        }
    }
}

/// The rest of the file. A group that holds only Poste's entry does not count.
fn without(document: &DocumentMut, group: &str) -> Value {
    value_without(plain(document.as_item()), group)
}

fn value_without(mut value: Value, group: &str) -> Value {
    let Some(all) = value.as_object_mut() else { return value };
    if let Some(servers) = all.get_mut(group).and_then(Value::as_object_mut) {
        servers.shift_remove(SERVER);
        if servers.is_empty() {
            all.shift_remove(group);
        }
    }
    value
}

/// Removes the table and the empty line before it.
pub fn take_out(text: &str, edit: &Edit, own: Own) -> Result<String, Fault> {
    let document = parse(text)?;
    let is_ours = |found: &Value| ours::is_server(found) && !own.has_server(edit.group, found, &edit.value);
    let Some(found) = entry(&document, edit.group).filter(is_ours) else { return Ok(text.to_owned()) };
    let rest = without(&document, edit.group);
    let is_right =
        |cut: &str| parse(cut).is_ok_and(|cut| entry(&cut, edit.group).is_none() && without(&cut, edit.group) == rest);
    if let Some(cut) = cut(text, edit.group).filter(|cut| is_right(cut)) {
        return Ok(cut);
    }
    // It is not written the way Poste writes it.
    let mut document = document;
    if let Some(servers) = document.get_mut(edit.group).and_then(toml_edit::Item::as_table_like_mut) {
        servers.remove(SERVER);
    }
    let after = document.to_string();
    match is_right(&after) {
        true => Ok(after),
        false => Err(Fault::foreign(edit.group, &found)),
    }
}

fn cut(text: &str, group: &str) -> Option<String> {
    let header = format!("[{group}.{SERVER}]");
    let below = format!("[{group}.{SERVER}.");
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let first = all.iter().position(|line| line.trim() == header)?;
    let is_next = |line: &&str| line.trim_start().starts_with('[') && !line.trim_start().starts_with(&below);
    let next = all[first + 1..].iter().position(is_next).map_or(all.len(), |position| first + 1 + position);
    // Comments before the next table belong to that one.
    let is_ours = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let last = first + all[first..next].iter().rposition(is_ours)?;
    let first = if first > 0 && all[first - 1].trim().is_empty() { first - 1 } else { first };
    Some(all[..first].iter().chain(&all[last + 1..]).copied().collect())
}

fn table(edit: &Edit) -> String {
    let mut text = format!("[{}.{SERVER}]\n", edit.group);
    for (key, value) in edit.value.as_object().into_iter().flatten() {
        text.push_str(&format!("{key} = {}\n", written(value)));
    }
    text
}

fn written(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key} = {}", written(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::String(text) => toml_edit::Value::from(text.as_str()).to_string(),
        other => other.to_string(),
    }
}
