//! Counts how much work it is to check a payload against a schema, before doing it.
//!
//! A few lines of schema can require more checks than any machine can do: each level of `anyOf` with two references
//! doubles them, and so does a reference back to the root with each level of a payload. The validator has no limit of
//! its own, so its path is walked beforehand as if every branch were taken, up to a maximum number of steps. A schema
//! may refer to itself as long as the reference leads deeper into the payload.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Maximum number of checks for one payload. The largest possible payload needs half of it with a plain schema.
pub(super) const STEPS_MAX: u64 = 20_000_000;
/// Maximum number of checks for one value, with all its alternatives and references. Also the maximum for which all
/// failures are collected for an error message, at about a kilobyte each.
pub(super) const STEPS_EACH_MAX: u64 = 100_000;
/// Maximum nesting of references and alternatives, down to the deepest value of a payload, because the validator
/// recurses.
const DEPTH_MAX: usize = 1_000;

/// The maximum number of steps to check a payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) all: u64,
    /// The maximum below one `anyOf` or `oneOf`. If it fails, every failure in it is collected.
    pub(super) in_one_choice: u64,
}

/// The subschemas of a schema, and how they apply each other.
#[derive(Debug)]
pub(super) struct Work {
    nodes: Vec<Node>,
    /// For each node, the steps for a value that contains no others.
    each: Vec<u64>,
}

#[derive(Debug, Default)]
struct Node {
    weight: u64,
    /// `unevaluatedProperties` and the like run everything else again to find out what it evaluated.
    passes: u64,
    is_choice: bool,
    has_pattern: bool,
    /// Applied to the same value.
    in_place: Vec<usize>,
    names: Vec<usize>,
    properties: BTreeMap<String, usize>,
    patterns: Vec<usize>,
    other_properties: Vec<usize>,
    first_items: Vec<usize>,
    other_items: Vec<usize>,
    all_items: Vec<usize>,
}

impl Work {
    /// An error if the work has no bound, or none that can be computed.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut reader = Reader::new(schema)?;
        let mut nodes = Vec::new();
        while let Some(next) = reader.found.get(nodes.len()).copied() {
            nodes.push(reader.read(next)?);
        }
        let mut work = Self { each: vec![0; nodes.len()], nodes };
        let mut open = vec![false; work.nodes.len()];
        for node in 0..work.nodes.len() {
            work.count_each(node, 0, &mut open)?;
        }
        Ok(work)
    }

    fn count_each(&mut self, node: usize, depth: usize, open: &mut [bool]) -> Result<u64, String> {
        if self.each[node] > 0 {
            return Ok(self.each[node]);
        }
        if open[node] {
            return Err("it refers to itself without going deeper into the payload".to_owned());
        }
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} references or alternatives are nested inside each other"));
        }
        open[node] = true;
        let mut sum = 0_u64;
        for next in 0..self.nodes[node].in_place.len() {
            sum = sum.saturating_add(self.count_each(self.nodes[node].in_place[next], depth + 1, open)?);
        }
        open[node] = false;
        let Node { passes, weight, .. } = self.nodes[node];
        let steps = sum.saturating_mul(passes).saturating_add(weight);
        if steps > STEPS_EACH_MAX {
            return Err(format!(
                "with all references, one value would have to be checked more than {STEPS_EACH_MAX} times"
            ));
        }
        self.each[node] = steps;
        Ok(steps)
    }

    /// `None` if there are too many.
    pub(super) fn steps(&self, payload: &Value) -> Option<Steps> {
        let mut walk = Walk { work: self, steps: Steps::default(), in_choice: false };
        walk.node(0, payload, 0).then_some(walk.steps)
    }
}

/// Walks every path the validator might take. Each method returns whether the limits are still met.
struct Walk<'a> {
    work: &'a Work,
    steps: Steps,
    in_choice: bool,
}

impl Walk<'_> {
    fn node(&mut self, node: usize, value: &Value, depth: usize) -> bool {
        let node = &self.work.nodes[node];
        let begun_at = self.steps.all;
        let is_outermost = node.is_choice && !self.in_choice;
        self.in_choice |= is_outermost;
        let text_steps = value.as_str().filter(|_| node.has_pattern).map_or(0, |text| text.len() as u64 / 64);
        let has_room = self.add(node.weight + text_steps)
            && depth <= DEPTH_MAX
            && (0..node.passes).all(|_| self.all(&node.in_place, value, depth) && self.inside(node, value, depth));
        if is_outermost {
            self.in_choice = false;
            self.steps.in_one_choice = self.steps.in_one_choice.max(self.steps.all - begun_at);
        }
        has_room
    }

    fn add(&mut self, steps: u64) -> bool {
        self.steps.all += steps;
        self.steps.all <= STEPS_MAX
    }

    fn all(&mut self, nodes: &[usize], value: &Value, depth: usize) -> bool {
        nodes.iter().all(|node| self.node(*node, value, depth + 1))
    }

    fn inside(&mut self, node: &Node, value: &Value, depth: usize) -> bool {
        match value {
            Value::Object(members) => members.iter().all(|(name, value)| self.member(node, name, value, depth)),
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                let here = match node.first_items.get(index) {
                    Some(first) => std::slice::from_ref(first),
                    None => &node.other_items,
                };
                self.all(here, item, depth) && self.all(&node.all_items, item, depth)
            }),
            _ => true,
        }
    }

    fn member(&mut self, node: &Node, name: &str, value: &Value, depth: usize) -> bool {
        let names: u64 = node.names.iter().map(|names| self.work.each[*names]).sum();
        let here = match node.properties.get(name) {
            Some(known) => std::slice::from_ref(known),
            None => &node.other_properties,
        };
        self.add(names + node.patterns.len() as u64)
            && self.all(here, value, depth)
            && self.all(&node.patterns, value, depth)
    }
}

struct Reader<'a> {
    root: &'a Value,
    anchors: BTreeMap<&'a str, &'a Value>,
    /// Subschemas in the order in which they were found, and the index of each.
    found: Vec<&'a Value>,
    known: BTreeMap<*const Value, usize>,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Value) -> Result<Self, String> {
        let mut reader = Self { root, anchors: BTreeMap::new(), found: Vec::new(), known: BTreeMap::new() };
        reader.look_for_names(root, true)?;
        reader.place(root);
        Ok(reader)
    }

    /// Collects anchors, and refuses what would change the meaning of references.
    fn look_for_names(&mut self, value: &'a Value, is_root: bool) -> Result<(), String> {
        let below: Vec<&Value> = match value {
            Value::Object(members) => members.values().collect(),
            Value::Array(items) => items.iter().collect(),
            _ => return Ok(()),
        };
        if let Some(key) = ["$id", "$schema"].into_iter().find(|key| !is_root && value[key].is_string()) {
            return Err(format!("only the root may have {key}, but a subschema has one"));
        }
        let is_draft_4 = self.root["$schema"].as_str().is_some_and(|draft| draft.contains("draft-04"));
        if !is_root && is_draft_4 && value["id"].is_string() {
            return Err("only the root may have an id, but a subschema has one".to_owned());
        }
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(|key| value[key].as_str()) {
            let other = self.anchors.insert(anchor, value);
            if other.is_some_and(|other| !std::ptr::eq(other, value)) {
                return Err(format!("two subschemas have the anchor {anchor:?}"));
            }
        }
        below.into_iter().try_for_each(|value| self.look_for_names(value, false))
    }

    fn place(&mut self, schema: &'a Value) -> usize {
        let next = self.found.len();
        let place = *self.known.entry(std::ptr::from_ref(schema)).or_insert(next);
        if place == next {
            self.found.push(schema);
        }
        place
    }

    fn one(&mut self, schema: &'a Map<String, Value>, key: &str) -> Option<usize> {
        schema.get(key).filter(|value| value.is_object() || value.is_boolean()).map(|value| self.place(value))
    }

    fn list(&mut self, schema: &'a Map<String, Value>, key: &str) -> Vec<usize> {
        let items = schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| self.place(item)).collect()
    }

    fn named(&mut self, schema: &'a Map<String, Value>, key: &str) -> Vec<(&'a str, usize)> {
        let members = schema.get(key).and_then(Value::as_object).into_iter().flatten();
        members.map(|(name, value)| (name.as_str(), self.place(value))).collect()
    }

    /// Skips what is malformed: the validator reports it.
    fn read(&mut self, schema: &'a Value) -> Result<Node, String> {
        let mut node = Node { weight: 1, passes: 1, ..Node::default() };
        let Value::Object(schema) = schema else { return Ok(node) };
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = schema.get(key).and_then(Value::as_str) {
                let target = self.target(reference).ok_or_else(|| OUTSIDE.to_owned())?;
                node.in_place.push(self.place(target));
            }
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            node.in_place.extend(self.list(schema, key));
        }
        for key in ["not", "if", "then", "else"] {
            node.in_place.extend(self.one(schema, key));
        }
        for key in ["dependentSchemas", "dependencies"] {
            node.in_place.extend(self.named(schema, key).into_iter().map(|(_, node)| node));
        }
        node.names.extend(self.one(schema, "propertyNames"));
        node.properties =
            self.named(schema, "properties").into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
        node.patterns.extend(self.named(schema, "patternProperties").into_iter().map(|(_, node)| node));
        for key in ["additionalProperties", "unevaluatedProperties"] {
            node.other_properties.extend(self.one(schema, key));
        }
        node.first_items = [self.list(schema, "prefixItems"), self.list(schema, "items")].concat();
        for key in ["items", "additionalItems"] {
            node.other_items.extend(self.one(schema, key));
        }
        for key in ["contains", "unevaluatedItems"] {
            node.all_items.extend(self.one(schema, key));
        }
        let values = ["enum", "const", "required"].into_iter().filter_map(|key| schema.get(key));
        node.weight += values.map(size).sum::<u64>();
        node.is_choice = schema.contains_key("anyOf") || schema.contains_key("oneOf");
        node.has_pattern = schema.contains_key("pattern");
        if schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems") {
            // One to check, one to find out what was evaluated, and one for what that evaluates in turn.
            node.passes = 3;
        }
        Ok(node)
    }

    /// The subschema a reference points to. Subschemas have no ids of their own, so all references start at the root.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let id = self.root["$id"].as_str().or(self.root["id"].as_str()).unwrap_or_default().trim_end_matches('#');
        let own = if reference.starts_with('#') { reference } else { reference.strip_prefix(id).unwrap_or(reference) };
        let fragment = if own.is_empty() { own } else { own.strip_prefix('#')? };
        let fragment = percent_decoded(fragment)?;
        match fragment.is_empty() || fragment.starts_with('/') {
            true => self.root.pointer(&fragment),
            false => self.anchors.get(fragment.as_str()).copied(),
        }
    }
}

pub(super) const OUTSIDE: &str = "it refers to something outside the schema; put that under $defs";

/// The number of values in a value, including itself.
fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Object(members) => members.values().map(size).sum(),
        Value::Array(items) => items.iter().map(size).sum(),
        _ => 0,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok().filter(|digits| !digits.contains('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(schema: Value) -> String {
        Work::of(&schema).expect_err("it is refused")
    }

    fn steps(schema: Value, payload: Value) -> Option<u64> {
        Work::of(&schema).unwrap().steps(&payload).map(|steps| steps.all)
    }

    #[test]
    fn every_part_that_applies_to_a_value_is_counted() {
        let cases = [
            (json!(true), json!([1, 2]), 1),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}), json!(1), 2),
            (json!({"anyOf": [true, {"not": {}}], "if": {}, "then": {}, "else": false}), json!(1), 7),
            (json!({"dependentSchemas": {"a": {}}, "dependencies": {"b": {}, "c": ["d"]}}), json!({}), 4),
            (json!({"properties": {"a": {}, "b": {"items": {}}}}), json!({"a": 1, "b": [1, 2], "c": 1}), 5),
            (json!({"properties": {"a": {}}, "additionalProperties": {"allOf": [{}]}}), json!({"a": 1, "c": 1}), 4),
            (json!({"patternProperties": {"x": {}}, "propertyNames": {"enum": [1, 2]}}), json!({"a": 1}), 7),
            (json!({"prefixItems": [{}], "items": {"not": {}}, "contains": {}}), json!([1, 2]), 6),
            (json!({"items": [{}], "additionalItems": {}}), json!([1, 2]), 3),
            (json!({"allOf": [{}], "unevaluatedProperties": false}), json!({"a": 1}), 7),
            (json!({"enum": ["a", {"b": [1]}], "required": ["c"]}), json!(1), 8),
            (json!({"pattern": "a"}), json!("a".repeat(640)), 11),
        ];
        for (schema, payload, expected) in cases {
            assert_eq!(steps(schema.clone(), payload), Some(expected), "{schema}");
        }
    }

    #[test]
    fn references_lead_into_the_whole_by_pointer_anchor_or_its_own_name() {
        let schema = json!({
            "$id": "https://example.com/mail.json",
            "$defs": {"a b/c": {"$anchor": "there", "enum": [1, 2, 3]}},
        });
        for reference in ["#/$defs/a%20b~1c", "#there", "https://example.com/mail.json#there"] {
            let mut schema = schema.clone();
            schema["$ref"] = reference.into();
            assert_eq!(steps(schema, json!(1)), Some(6), "{reference}");
        }
        for reference in ["#/$defs/missing", "#nowhere", "other.json", "https://example.com/", "#/%", "#/%+1", ""] {
            let mut schema = schema.clone();
            schema["properties"] = json!({"a": {"$ref": reference}});
            assert_eq!(Work::of(&schema).is_ok(), reference.is_empty(), "{reference}");
        }
    }

    #[test]
    fn what_would_change_the_meaning_of_references_is_refused() {
        assert!(refused(json!({"$defs": {"a": {"$id": "b.json"}}})).contains("$id"));
        assert!(refused(json!({"items": {"$schema": "http://json-schema.org/draft-04/schema#"}})).contains("$schema"));
        let draft = "http://json-schema.org/draft-04/schema#";
        assert!(refused(json!({"$schema": draft, "items": {"id": "b.json"}})).contains("an id"));
        assert!(
            refused(json!({"items": {"$anchor": "a"}, "not": {"$dynamicAnchor": "a"}})).contains("two subschemas have")
        );
        Work::of(&json!({"properties": {"$id": {}, "id": {"const": {"id": "1"}}}})).unwrap();
    }

    #[test]
    fn what_has_no_bound_is_refused() {
        assert!(refused(json!({"$ref": "#"})).contains("without going deeper"));
        assert!(refused(json!({"anyOf": [{"not": {"$ref": "#/anyOf/0"}}]})).contains("without going deeper"));
        let mut chain = json!({"$ref": "#/$defs/0", "$defs": {}});
        for level in 0..5_000 {
            chain["$defs"][level.to_string()] = json!({"$ref": format!("#/$defs/{}", level + 1)});
        }
        chain["$defs"]["5000"] = json!({});
        assert!(refused(chain).contains("inside each other"));
    }

    #[test]
    fn steps_below_one_choice_are_those_of_the_largest() {
        let schema = json!({"items": {"anyOf": [{"items": {"oneOf": [{}, {}]}}]}});
        let steps = Work::of(&schema).unwrap().steps(&json!([[1, 2], [1], 1])).unwrap();
        assert_eq!(steps, Steps { all: 16, in_one_choice: 8 });
    }
}
