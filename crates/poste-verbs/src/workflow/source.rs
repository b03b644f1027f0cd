//! TOML and YAML as one tree, each value with its line.

use std::fmt;
use std::path::Path;

use poste_config::Problem;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

/// Maximum nesting depth of a definition. A real one needs five levels.
const DEPTH_MAX: usize = 16;

/// A value and its line, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Whole(i64),
    Flag(bool),
    List(Vec<Node>),
    /// In the order they are written, each key with its line.
    Table(Vec<(String, usize, Node)>),
    /// A date, a fraction or null, which no definition has.
    Other,
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Whole(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other => "something else",
        }
    }
}

/// The format of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Toml,
    Yaml,
}

impl Format {
    pub const ENDINGS: [&'static str; 3] = ["toml", "yaml", "yml"];

    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    pub fn of_path(path: &Path) -> Option<Self> {
        path.extension().and_then(|ending| ending.to_str()).and_then(Self::of_ending)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Yaml => "yaml",
        }
    }
}

pub(super) fn problem(line: Option<usize>, message: impl Into<String>) -> Problem {
    Problem { line, column: None, message: message.into() }
}

/// Reads a definition as a tree.
pub fn read(text: &str, format: Format) -> Result<Node, Problem> {
    match format {
        Format::Toml => read_toml(text),
        Format::Yaml => read_yaml(text),
    }
}

fn read_toml(text: &str) -> Result<Node, Problem> {
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line = |at: usize| starts.partition_point(|start| *start <= at);
    // A key of a hundred thousand parts would be a table as deep.
    if let Some(deep) = text.lines().position(|line| line.matches('.').count() > 200) {
        return Err(problem(Some(deep + 1), "a line has too many dots for a definition"));
    }
    let table = DeTable::parse(text).map_err(|error| {
        problem(error.span().map(|span| line(span.start)), error.message().lines().collect::<Vec<_>>().join(" "))
    })?;
    let value = of_table(table.get_ref(), &line, 0)?;
    Ok(Node { line: 1, value })
}

fn of_table(table: &DeTable<'_>, line: &impl Fn(usize) -> usize, depth: usize) -> Result<Value, Problem> {
    if depth > DEPTH_MAX {
        return Err(problem(None, "it is nested too deeply"));
    }
    let mut entries = Vec::new();
    for (key, value) in table {
        let at = line(key.span().start);
        let node = of_value(value.get_ref(), line(value.span().start), line, depth + 1)?;
        entries.push((key.get_ref().clone().into_owned(), at, node));
    }
    entries.sort_by_key(|(_, at, _)| *at);
    Ok(Value::Table(entries))
}

fn of_value(value: &DeValue<'_>, at: usize, line: &impl Fn(usize) -> usize, depth: usize) -> Result<Node, Problem> {
    let value = match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_or(Value::Other, Value::Whole)
        }
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(list) => {
            let items = list.iter().map(|item| of_value(item.get_ref(), line(item.span().start), line, depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => of_table(table, line, depth)?,
        DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
    };
    Ok(Node { line: at, value })
}

fn read_yaml(text: &str) -> Result<Node, Problem> {
    match serde_saphyr::from_str::<serde_saphyr::Spanned<Loose>>(text) {
        Ok(root) => Ok(node(root)),
        Err(error) => {
            let line = error.location().map(|location| usize::try_from(location.line()).unwrap_or(1));
            let whole = error.to_string();
            let first = whole.lines().next().unwrap_or("it is not valid YAML");
            // The message begins with its position, which the problem has as well.
            let where_from = error.location().map(|at| format!("line {} column {}: ", at.line(), at.column()));
            let first = where_from.and_then(|place| first.strip_prefix(&place)).unwrap_or(first);
            Err(problem(line, first.to_owned()))
        }
    }
}

fn node(spanned: serde_saphyr::Spanned<Loose>) -> Node {
    let line = usize::try_from(spanned.referenced.line()).unwrap_or(1).max(1);
    Node { line, value: spanned.value.0 }
}

/// Any value of YAML.
struct Loose(Value);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Self)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a definition")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Other, Value::Whole))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<serde_saphyr::Spanned<Loose>>()? {
            list.push(node(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = node(entries.next_value::<serde_saphyr::Spanned<Loose>>()?);
            table.push((key, value.line, value));
        }
        Ok(Value::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(node: &Node) -> Vec<(String, usize)> {
        let Value::Table(entries) = &node.value else { panic!("a table") };
        entries.iter().map(|(key, line, _)| (key.clone(), *line)).collect()
    }

    #[test]
    fn both_formats_keep_their_lines() {
        let toml =
            read("title = \"a\"\n\n[inputs.x]\nabout = \"b\"\n\n[[step]]\nkey = \"one\"\n", Format::Toml).unwrap();
        assert_eq!(lines(&toml), [("title".to_owned(), 1), ("inputs".to_owned(), 3), ("step".to_owned(), 6)]);
        let yaml = read("title: a\nsteps:\n  - key: one\n    needs: [a, b]\n    retries: 2\n", Format::Yaml).unwrap();
        let Value::Table(entries) = &yaml.value else { panic!("a table") };
        let Value::List(steps) = &entries[1].2.value else { panic!("a list") };
        assert_eq!(lines(&steps[0]), [("key".to_owned(), 3), ("needs".to_owned(), 4), ("retries".to_owned(), 5)]);
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        assert_eq!(read("a = 1\nb = [\n", Format::Toml).unwrap_err().line, Some(2));
        assert!(read("a: 1\nb: [1, 2\n", Format::Yaml).unwrap_err().line.is_some());
        assert!(read(&"a.".repeat(500), Format::Toml).is_err());
        assert!(read(&format!("a: {}1{}", "[".repeat(5_000), "]".repeat(5_000)), Format::Yaml).is_err());
    }
}
