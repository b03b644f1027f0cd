//! Edits a JSON file in place. What is not Poste's stays byte for byte: comments, order, layout, line endings.

use std::collections::BTreeSet;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::Fault;
use super::ours::{self, Own};

/// An entry of Poste's in a JSON file.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// The server, below the property that holds the program's servers.
    Server { group: &'static str, value: Value },
    /// A hook: one more element in the list of an event.
    Hook { event: &'static str, value: Value },
    /// A property that such a file must have; an existing value stays.
    Default { key: &'static str, value: Value },
}

impl Edit {
    fn event(&self) -> Option<&str> {
        match self {
            Self::Hook { event, .. } => Some(event),
            Self::Server { .. } | Self::Default { .. } => None,
        }
    }

    fn hooks(&self) -> Vec<&Value> {
        match self {
            Self::Hook { value, .. } => ours::hooks_in(value),
            Self::Server { .. } | Self::Default { .. } => Vec::new(),
        }
    }
}

/// The name of Poste's server, everywhere.
pub const SERVER: &str = "poste";
const HOOKS: &str = "hooks";

/// The path of a property that was created.
pub type Path = Vec<String>;

/// Comments and trailing commas are allowed: these programs accept them, or at least people write them.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// A parsed file, whose root is an object.
struct File {
    root: CstRootNode,
    object: CstObject,
}

impl File {
    fn parse(text: &str) -> Result<Self, Fault> {
        let root = CstRootNode::parse(text, &options())
            .map_err(|error| Fault::malformed(format!("is not valid JSON: {error}")))?;
        let object = match root.value() {
            // An empty file.
            None => root.object_value_or_set(),
            Some(_) => root.object_value().ok_or_else(|| Fault::malformed("is JSON, but not an object"))?,
        };
        unique(&object.clone().into(), "")?;
        Ok(Self { root, object })
    }

    fn text(&self) -> String {
        self.root.to_string()
    }
}

/// Refuses a file in which an object has two properties of one name: programs differ in which one counts, so what Poste
/// would check is not what they run.
fn unique(node: &CstNode, place: &str) -> Result<(), Fault> {
    if let Some(object) = node.as_object() {
        let mut names = BTreeSet::new();
        for one in object.properties() {
            let name = one.decoded_name().unwrap_or_default();
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            if !names.insert(name) {
                let hint = "programs differ in which of the two counts: remove one of them, and set up again";
                return Err(Fault::malformed(format!("has {} twice", place.escape_debug())).hint(hint));
            }
            one.value().map_or(Ok(()), |value| unique(&value, &place))?;
        }
    }
    let elements = node.as_array().map(|list| list.elements()).unwrap_or_default();
    elements.iter().enumerate().try_for_each(|(at, element)| unique(element, &format!("{place}[{at}]")))
}

fn property(object: &CstObject, name: &str) -> Option<CstNode> {
    object.properties().into_iter().find(|one| one.decoded_name().as_deref() == Some(name))?.value()
}

fn object_in(object: &CstObject, name: &str, place: &str) -> Result<Option<CstObject>, Fault> {
    match property(object, name) {
        None => Ok(None),
        Some(value) => {
            value.as_object().map(Some).ok_or_else(|| Fault::malformed(format!("has a {place} that is not an object")))
        }
    }
}

fn array_in(object: &CstObject, name: &str, place: &str) -> Result<Option<CstArray>, Fault> {
    match property(object, name) {
        None => Ok(None),
        Some(value) => {
            value.as_array().map(Some).ok_or_else(|| Fault::malformed(format!("has a {place} that is not a list")))
        }
    }
}

/// An edited file, and the properties that were created for the edits.
#[derive(Debug)]
pub struct Edited {
    pub text: String,
    pub made: Vec<Path>,
}

fn server(file: &File, group: &str) -> Result<Option<CstNode>, Fault> {
    match object_in(&file.object, group, group)? {
        Some(servers) => Ok(property(&servers, SERVER)),
        None => Ok(None),
    }
}

fn hook_list(file: &File, event: &str) -> Result<Option<CstArray>, Fault> {
    match object_in(&file.object, HOOKS, HOOKS)? {
        Some(hooks) => array_in(&hooks, event, &format!("{HOOKS}.{event}")),
        None => Ok(None),
    }
}

/// Adds the entries. Existing entries of Poste's are updated, and keep what the user added to them.
pub fn apply(text: &str, edits: &[Edit]) -> Result<Edited, Fault> {
    let file = File::parse(&without_spare_hooks(text, edits)?)?;
    let mut made = Vec::new();
    for edit in edits {
        match edit {
            Edit::Server { group, value } => {
                if let Some(found) = server(&file, group)? {
                    update_server(&found, group, value)?;
                    continue;
                }
                let servers = match object_in(&file.object, group, group)? {
                    Some(servers) => servers,
                    None => {
                        made.push(vec![(*group).to_owned()]);
                        file.object.object_value_or_set(group)
                    }
                };
                servers.append(SERVER, input(value));
            }
            Edit::Hook { event, value } => {
                let list = hook_list(&file, event)?;
                let Some(value) = missing_hooks(list.as_ref(), value) else { continue };
                let hooks = match object_in(&file.object, HOOKS, HOOKS)? {
                    Some(hooks) => hooks,
                    None => {
                        made.push(vec![HOOKS.to_owned()]);
                        file.object.object_value_or_set(HOOKS)
                    }
                };
                let list = match list {
                    Some(list) => list,
                    None => {
                        made.push(vec![HOOKS.to_owned(), (*event).to_owned()]);
                        hooks.array_value_or_set(event)
                    }
                };
                list.append(input(&value));
            }
            Edit::Default { key, value } => {
                if property(&file.object, key).is_none() {
                    made.push(vec![(*key).to_owned()]);
                    file.object.append(key, input(value));
                }
            }
        }
    }
    Ok(Edited { text: file.text(), made })
}

fn update_server(found: &CstNode, group: &str, wanted: &Value) -> Result<(), Fault> {
    let value = found.to_serde_value().unwrap_or_default();
    match found.as_object() {
        Some(entry) if ours::is_server(&value) => {
            set(&entry, &ours::merged(&value, wanted));
            Ok(())
        }
        _ => Err(Fault::foreign(group, &value)),
    }
}

/// Changes only what differs, so that the rest keeps its layout and its comments.
fn set(object: &CstObject, wanted: &Value) {
    let wanted = wanted.as_object().into_iter().flatten();
    let names: BTreeSet<&str> = wanted.clone().map(|(name, _)| name.as_str()).collect();
    for one in object.properties() {
        if !one.decoded_name().is_some_and(|name| names.contains(name.as_str())) {
            one.remove();
        }
    }
    for (name, value) in wanted {
        match object.get(name) {
            None => drop(object.append(name, input(value))),
            Some(one) if one.to_serde_value_of().as_ref() == Some(value) => {}
            Some(one) => match one.object_value() {
                Some(inner) if value.is_object() => set(&inner, value),
                _ => one.set_value(input(value)),
            },
        }
    }
}

/// Updates the hooks of Poste's that are in the list. Returns those that have to be added.
fn missing_hooks(list: Option<&CstArray>, wanted: &Value) -> Option<Value> {
    let mut missing = Vec::new();
    for hook in ours::hooks_in(wanted) {
        match list.and_then(|list| hooks_of(list).into_iter().find(|(_, found)| is_for_the_same(found, hook))) {
            Some((object, found)) => set(&object, &ours::merged(&found, hook)),
            None => missing.push(hook.clone()),
        }
    }
    match wanted.get(HOOKS) {
        _ if missing.is_empty() => None,
        Some(_) => {
            let mut group = wanted.clone();
            group[HOOKS] = missing.into();
            Some(group)
        }
        None => Some(wanted.clone()),
    }
}

fn is_for_the_same(one: &Value, other: &Value) -> bool {
    ours::hook_word(one) == ours::hook_word(other)
}

/// The hooks in one element of an event's list, if it is a group.
fn group_in(element: &CstNode) -> Option<CstArray> {
    element.as_object()?.array_value(HOOKS)
}

fn hooks_in(element: &CstNode) -> Vec<CstNode> {
    group_in(element).map_or_else(|| vec![element.clone()], |group| group.elements())
}

/// Poste's hooks in the list of an event.
fn hooks_of(list: &CstArray) -> Vec<(CstObject, Value)> {
    let elements = list.elements();
    let hooks = elements.iter().flat_map(hooks_in).filter_map(|hook| Some((hook.as_object()?, hook.to_serde_value()?)));
    hooks.filter(|(_, value)| ours::is_hook(value)).collect()
}

/// Removes hooks of Poste's that are duplicates or at the wrong event.
fn without_spare_hooks(text: &str, edits: &[Edit]) -> Result<String, Fault> {
    let file = File::parse(text)?;
    let Some(hooks) = object_in(&file.object, HOOKS, HOOKS)? else { return Ok(text.to_owned()) };
    let mut cut = Cut::default();
    for event in hooks.properties() {
        let Some(list) = event.array_value() else { continue };
        let name = event.decoded_name().unwrap_or_default();
        let mut wanted: Vec<&Value> =
            edits.iter().filter(|edit| edit.event() == Some(&name)).flat_map(Edit::hooks).collect();
        cut.skip_hooks(&list, |found| match wanted.iter().position(|wanted| is_for_the_same(wanted, found)) {
            Some(at) => {
                wanted.remove(at);
                false
            }
            None => true,
        });
    }
    Ok(if cut.skipped.is_empty() { text.to_owned() } else { cut.print(&file.root) })
}

/// A new file that holds only these entries.
pub fn fresh(edits: &[Edit]) -> Result<Edited, Fault> {
    let Edited { text, made } = apply("{}", edits)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Fault::malformed(error.to_string()))?;
    let text = serde_json::to_string_pretty(&value).map_err(|error| Fault::malformed(error.to_string()))?;
    Ok(Edited { text: format!("{text}\n"), made })
}

/// Removes Poste's entries, except for those that are the user's own, and the properties created for them that are
/// empty now. If it is not known which were created (`made` is `None`), removes all that became empty.
pub fn take_out(text: &str, edits: &[Edit], made: Option<&[Path]>, own: Own) -> Result<String, Fault> {
    let file = File::parse(text)?;
    let mut cut = Cut::default();
    let mut removed = BTreeSet::new();
    let was_made = |path: &[&str]| made.is_none_or(|made| made.iter().any(|made| made.iter().eq(path)));
    for edit in edits {
        let Edit::Server { group, value: wanted } = edit else { continue };
        let Some(servers) = object_in(&file.object, group, group)? else { continue };
        let of_poste = |one: &CstObjectProp| {
            let is_ours = |value: &Value| ours::is_server(value) && !own.has_server(group, value, wanted);
            one.decoded_name().as_deref() == Some(SERVER) && one.to_serde_value_of().as_ref().is_some_and(is_ours)
        };
        let found: BTreeSet<usize> =
            servers.properties().iter().filter(|one| of_poste(one)).map(CstObjectProp::child_index).collect();
        if cut.skip_children(&servers.into(), &found) && was_made(&[group]) {
            removed.extend(file.object.get(group).filter(has_no_comment).map(|one| one.child_index()));
        }
    }
    if let Some(hooks) = object_in(&file.object, HOOKS, HOOKS)? {
        let mut events = BTreeSet::new();
        for event in hooks.properties() {
            let Some(list) = event.array_value() else { continue };
            let name = event.decoded_name().unwrap_or_default();
            let is_bare = cut.skip_hooks(&list, |hook| !own.has_hook(&name, hook, edits.iter().flat_map(Edit::hooks)));
            if is_bare && was_made(&[HOOKS, &name]) && has_no_comment(&event) {
                events.insert(event.child_index());
            }
        }
        if cut.skip_children(&hooks.into(), &events) && was_made(&[HOOKS]) {
            removed.extend(file.object.get(HOOKS).filter(has_no_comment).map(|one| one.child_index()));
        }
    }
    if cut.skipped.is_empty() {
        return Ok(text.to_owned());
    }
    // Default properties are removed only if nothing else is left.
    let defaults = edits.iter().filter_map(|edit| match edit {
        Edit::Default { key, value } if was_made(&[key]) => {
            file.object.get(key).filter(|one| one.to_serde_value_of().as_ref() == Some(value))
        }
        _ => None,
    });
    let defaults: BTreeSet<usize> = defaults.map(|one| one.child_index()).collect();
    if file.object.properties().len() == removed.len() + defaults.len() {
        removed.extend(defaults);
    }
    cut.skip_children(&file.object.clone().into(), &removed);
    Ok(cut.print(&file.root))
}

/// Whether there is no comment between its name and its value.
fn has_no_comment(property: &CstObjectProp) -> bool {
    !property.children().iter().any(CstNode::is_comment)
}

trait PropertyValue {
    fn to_serde_value_of(&self) -> Option<Value>;
}

impl PropertyValue for CstObjectProp {
    fn to_serde_value_of(&self) -> Option<Value> {
        self.value()?.to_serde_value()
    }
}

/// What to skip when a file is printed. The parser's own way to remove something takes comments with it.
#[derive(Debug, Default)]
struct Cut {
    /// Paths from the root, as indexes of children.
    skipped: BTreeSet<Vec<usize>>,
}

impl Cut {
    /// Skips children of an object or a list, with their commas and the space before them. Returns whether that leaves
    /// nothing at all, not even a comment.
    fn skip_children(&mut self, container: &CstNode, removed: &BTreeSet<usize>) -> bool {
        if removed.is_empty() {
            return false;
        }
        let path = path_to(container);
        let children = container.children();
        let is_blank = |child: &CstNode| child.is_whitespace() || child.is_newline();
        let is_element = |child: &CstNode| !child.is_trivia() && !child.is_token();
        let elements: Vec<usize> = (0..children.len()).filter(|&at| is_element(&children[at])).collect();
        let comma_after = |at: usize| {
            let next = children.iter().enumerate().skip(at + 1).find(|(_, child)| !child.is_trivia())?;
            Some(next).filter(|(_, child)| child.is_comma()).map(|(at, _)| at)
        };
        let mut skipped = removed.clone();
        for &at in removed {
            skipped.extend(comma_after(at));
            let before = (0..at).rev().take_while(|&at| is_blank(&children[at]));
            let before: Vec<usize> = before.collect();
            let first = before.last().copied().unwrap_or(at);
            // A line comment needs its line ending.
            let needed = first.checked_sub(1).is_some_and(|at| is_line_comment(&children[at]));
            skipped.extend(before.into_iter().filter(|&at| !(needed && at == first)));
        }
        let left: Vec<usize> = elements.iter().copied().filter(|at| !removed.contains(at)).collect();
        match (left.last(), elements.last()) {
            // The last element had no comma, so the new last one gets none either.
            (Some(&left), Some(last)) if removed.contains(last) && comma_after(*last).is_none() => {
                skipped.extend(comma_after(left));
            }
            _ => {}
        }
        let is_bare = left.is_empty() && !children.iter().any(CstNode::is_comment);
        if is_bare {
            skipped.extend((0..children.len()).filter(|&at| is_blank(&children[at])));
        }
        let paths = skipped.into_iter().map(|at| path.iter().copied().chain([at]).collect());
        self.skipped.extend(paths);
        is_bare
    }

    /// Skips the hooks of Poste's for which `is_out` is true. Returns whether the list is bare then.
    fn skip_hooks(&mut self, list: &CstArray, mut is_out: impl FnMut(&Value) -> bool) -> bool {
        let mut removed = BTreeSet::new();
        for element in list.elements() {
            let hooks = hooks_in(&element);
            let mut is_out =
                |hook: &CstNode| hook.to_serde_value().is_some_and(|hook| ours::is_hook(&hook) && is_out(&hook));
            let out: BTreeSet<usize> = hooks.iter().filter(|hook| is_out(hook)).map(CstNode::child_index).collect();
            match group_in(&element) {
                _ if out.is_empty() => {}
                // The user put another command beside Poste's.
                Some(group) if hooks.len() > out.len() => drop(self.skip_children(&group.into(), &out)),
                _ => drop(removed.insert(element.child_index())),
            }
        }
        self.skip_children(&list.clone().into(), &removed)
    }

    fn print(&self, root: &CstRootNode) -> String {
        let mut text = String::new();
        let mut path = Vec::new();
        self.print_children(&root.children(), &mut path, &mut text);
        text
    }

    fn print_children(&self, children: &[CstNode], path: &mut Vec<usize>, text: &mut String) {
        for (at, child) in children.iter().enumerate() {
            path.push(at);
            if !self.skipped.contains(path) {
                match self.skipped.range(path.clone()..).next().is_some_and(|next| next.starts_with(path)) {
                    true => self.print_children(&child.children(), path, text),
                    false => text.push_str(&child.to_string()),
                }
            }
            path.pop();
        }
    }
}

fn path_to(node: &CstNode) -> Vec<usize> {
    let ancestors =
        node.ancestors().filter(|ancestor| !ancestor.is_root()).map(|ancestor| CstNode::from(ancestor).child_index());
    let mut path: Vec<usize> = [node.child_index()].into_iter().chain(ancestors).collect();
    path.reverse();
    path
}

fn is_line_comment(node: &CstNode) -> bool {
    node.as_comment().is_some_and(|comment| comment.is_line_comment())
}

/// Whether nothing is left but an empty object.
pub fn is_empty(text: &str) -> bool {
    let Ok(file) = File::parse(text) else { return false };
    let bare = |node: &CstNode| !node.is_comment();
    file.object.children_exclude_trivia_and_tokens().is_empty()
        && file.object.children().iter().all(bare)
        && file.root.children().iter().all(bare)
}

/// Parses the whole file.
pub fn value(text: &str) -> Result<Value, Fault> {
    Ok(File::parse(text)?.root.to_serde_value().unwrap_or_default())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(values) => {
            CstInputValue::Object(values.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
