//! Path patterns, for reservations.
//!
//! A pattern is a path below the top of a worktree that may contain `*`, `?`, `[…]`, `{a,b}` and `**`, with the
//! semantics of the crate `globset` when `*` and `?` stop at `/`. Two patterns overlap if some path matches both. This
//! is decided exactly, by walking both patterns at once. No list of files is consulted, so it holds for files that do
//! not exist yet.
//!
//! A pattern is split twice: into alternatives (its braces expanded), and each of those into steps, one per folder.
//! `**` means "any number of steps" just as `*` means "any number of characters", so one function decides both.

use std::fmt;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits;
use crate::text::{InvalidText, quoted};

/// A checked pattern in canonical form: no empty step, no `.` and no `..`, no `/` at either end.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    alternatives: Vec<Path>,
}

/// One alternative, or a plain path: the steps from the top.
type Path = Vec<Item<Step>>;
/// The name of a file or folder, or a pattern for it.
type Step = Vec<Item<Symbol>>;

/// One place in a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item<T> {
    One(T),
    /// Any number of arbitrary elements, including none.
    Many,
}

/// What one character of a name may be. Characters are numbers here; bytes that are not UTF-8 are numbered above all of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Symbol {
    Any,
    Exactly(u32),
    /// In one of these ranges, which are sorted and disjoint.
    In(Vec<(u32, u32)>),
}

const NO_UTF8: u32 = 0x11_0000;
const SLASH: u32 = '/' as u32;
/// The last byte that is not UTF-8: the largest symbol.
const LAST: u32 = NO_UTF8 + 0xff;

/// A budget for comparing. It depends on the patterns alone, so every machine stops at the same point.
#[derive(Debug, Clone)]
pub struct Effort(u64);

impl Effort {
    pub fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// The budget ran out: the last answer is "overlaps" only to be safe.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps as u64);
    }
}

impl Pattern {
    /// The pattern that covers a path, whatever characters it contains.
    pub fn of_path(path: &str) -> Result<Self, InvalidText> {
        escaped(path).parse()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some path is covered by both. Returns true when the effort is spent.
    pub fn overlaps(&self, other: &Self, effort: &mut Effort) -> bool {
        self.meets(&other.alternatives, effort)
    }

    /// Whether the pattern covers a path or, if that is a folder, anything below it.
    pub fn touches(&self, touched: &Touched) -> bool {
        self.meets(std::slice::from_ref(&touched.path), &mut Effort::new(u64::MAX))
    }

    fn meets(&self, others: &[Path], effort: &mut Effort) -> bool {
        let found = self.alternatives.iter().any(|own| others.iter().any(|other| paths_meet(own, other, effort)));
        found || effort.is_spent()
    }

    /// The common prefix of all covered paths. If two patterns overlap, one prefix is a prefix of the other.
    pub fn prefix(&self) -> Vec<u8> {
        let mut prefixes = self.alternatives.iter().map(literal_prefix);
        let first = prefixes.next().unwrap_or_default();
        prefixes.fold(first, |common, next| {
            let length = common.iter().zip(&next).take_while(|(one, other)| one == other).count();
            common[..length].to_vec()
        })
    }
}

/// A path touched by a change, as bytes: a file name need not be UTF-8.
#[derive(Debug, Clone)]
pub struct Touched {
    bytes: Vec<u8>,
    path: Path,
}

impl Touched {
    pub fn file(path: &[u8]) -> Self {
        Self { bytes: path.to_vec(), path: steps_of(path) }
    }

    /// A folder with everything below it, for example when another repository takes its place.
    pub fn folder(path: &[u8]) -> Self {
        let mut touched = Self::file(path);
        touched.path.push(Item::Many);
        touched
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn steps_of(path: &[u8]) -> Path {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(|name| Item::One(symbols_of(name))).collect()
}

fn symbols_of(name: &[u8]) -> Step {
    let mut step = Vec::new();
    for chunk in name.utf8_chunks() {
        step.extend(chunk.valid().chars().map(|c| Item::One(Symbol::Exactly(c.into()))));
        let broken = chunk.invalid().iter().map(|byte| NO_UTF8 + u32::from(*byte));
        step.extend(broken.map(|symbol| Item::One(Symbol::Exactly(symbol))));
    }
    step
}

fn paths_meet(one: &Path, other: &Path, effort: &mut Effort) -> bool {
    sequences_meet(one, other, effort, |one, other, effort| sequences_meet(one, other, effort, symbols_meet))
}

/// Whether some sequence matches both. Walks both at once: `reached` marks the places of `other` that can be reached
/// together with the current place of `one`.
fn sequences_meet<T>(
    one: &[Item<T>],
    other: &[Item<T>],
    effort: &mut Effort,
    items_meet: impl Fn(&T, &T, &mut Effort) -> bool,
) -> bool {
    let mut reached = vec![false; other.len() + 1];
    reached[0] = true;
    for place in 0..=one.len() {
        let mut next = vec![false; other.len() + 1];
        for beside in 0..=other.len() {
            if !reached[beside] {
                continue;
            }
            effort.spend(1);
            if effort.is_spent() {
                return true;
            }
            match (one.get(place), other.get(beside)) {
                (None, None) => return true,
                (Some(Item::One(item)), Some(Item::One(against))) => {
                    next[beside + 1] |= items_meet(item, against, effort);
                }
                // "Many" consumes whatever the other side has here, or ends.
                (Some(Item::Many), against) => {
                    next[beside] = true;
                    if against.is_some() {
                        reached[beside + 1] = true;
                    }
                }
                (item, Some(Item::Many)) => {
                    reached[beside + 1] = true;
                    if item.is_some() {
                        next[beside] = true;
                    }
                }
                (None, Some(Item::One(_))) | (Some(Item::One(_)), None) => {}
            }
        }
        if !next.contains(&true) && place < one.len() {
            return false;
        }
        reached = next;
    }
    false
}

fn symbols_meet(one: &Symbol, other: &Symbol, effort: &mut Effort) -> bool {
    if let (Symbol::In(one), Symbol::In(other)) = (one, other) {
        effort.spend(one.len() * other.len());
    }
    match (one, other) {
        (Symbol::Any, Symbol::In(ranges)) | (Symbol::In(ranges), Symbol::Any) => !ranges.is_empty(),
        (Symbol::Any, _) | (_, Symbol::Any) => true,
        (Symbol::Exactly(one), Symbol::Exactly(other)) => one == other,
        (Symbol::Exactly(symbol), Symbol::In(ranges)) | (Symbol::In(ranges), Symbol::Exactly(symbol)) => {
            ranges.iter().any(|(low, high)| (low..=high).contains(&symbol))
        }
        (Symbol::In(one), Symbol::In(other)) => {
            one.iter().any(|(low, high)| other.iter().any(|(from, to)| low <= to && from <= high))
        }
    }
}

fn literal_prefix(path: &Path) -> Vec<u8> {
    let mut prefix = String::new();
    for (index, item) in path.iter().enumerate() {
        let follows = path[index..].iter().any(|item| matches!(item, Item::One(_)));
        if index > 0 && follows {
            prefix.push('/');
        }
        let Item::One(step) = item else { break };
        let literal = step.iter().map_while(|item| match item {
            Item::One(Symbol::Exactly(symbol)) => char::from_u32(*symbol),
            _ => None,
        });
        let before = prefix.chars().count();
        prefix.extend(literal);
        if prefix.chars().count() < before + step.len() {
            break;
        }
    }
    prefix.into_bytes()
}

/// Escapes every character that has a meaning in a pattern.
pub fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Whether a text contains pattern syntax.
pub fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// A token of a pattern's text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Slash,
    Symbol(Symbol),
    Star,
    Open,
    Comma,
    Close,
}

/// A token, and where its text ends.
type Spanned = (Token, usize);

/// Splits text into tokens. A comma is a token of its own only inside braces.
fn tokens(text: &str) -> Result<Vec<Spanned>, String> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        let token = match c {
            '\0' => return Err("it contains a NUL".to_owned()),
            '/' => Token::Slash,
            '*' => Token::Star,
            '?' => Token::Symbol(Symbol::Any),
            '[' => Token::Symbol(class(&mut chars)?),
            '{' => {
                depth += 1;
                if depth > limits::PATTERN_BRACES_DEPTH_MAX {
                    return Err(format!("braces nested in more than {} others", limits::PATTERN_BRACES_DEPTH_MAX - 1));
                }
                Token::Open
            }
            ',' if depth > 0 => Token::Comma,
            '}' => {
                depth = depth.checked_sub(1).ok_or("unmatched }; write \\} for the character")?;
                Token::Close
            }
            '\\' => match chars.next() {
                Some((_, '/')) => Token::Slash,
                Some((_, '\0')) => return Err("it contains a NUL".to_owned()),
                Some((_, escaped)) => Token::Symbol(Symbol::Exactly(escaped.into())),
                None => return Err("it ends with a \\, which must escape a character".to_owned()),
            },
            c => Token::Symbol(Symbol::Exactly(c.into())),
        };
        let end = chars.peek().map_or(text.len(), |(at, _)| *at);
        found.push((token, end));
    }
    match depth {
        0 => Ok(found),
        _ => Err("a { is not closed; write \\{ for the character".to_owned()),
    }
}

/// The part between `[` and `]`: characters and ranges; a leading `!` or `^` negates them. A `]` right at the
/// beginning, a `-` at either end, and a backslash stand for themselves.
fn class(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>) -> Result<Symbol, String> {
    let is_negated = chars.next_if(|(_, c)| matches!(c, '!' | '^')).is_some();
    let mut listed: Vec<(u32, u32)> = Vec::new();
    let (mut is_first, mut in_range) = (true, false);
    loop {
        let Some((_, c)) = chars.next() else {
            return Err("a [ is not closed; write \\[ for the character".to_owned());
        };
        match c {
            '/' => return Err("[…] stands for one character of a name and cannot contain a /".to_owned()),
            '\0' => return Err("it contains a NUL".to_owned()),
            ']' if !is_first => break,
            '-' if !is_first && !in_range => in_range = true,
            c if in_range => {
                let last = listed.last_mut().filter(|last| last.0 <= c.into());
                let Some(last) = last else {
                    return Err(format!("the range in […] that ends with {c} runs backwards"));
                };
                last.1 = c.into();
                in_range = false;
            }
            c => listed.push((c.into(), c.into())),
        }
        is_first = false;
    }
    if in_range {
        listed.push(('-'.into(), '-'.into()));
    }
    // Neither NUL nor `/` is ever part of a name.
    match is_negated {
        true => listed.extend([(0, 0), (SLASH, SLASH)]),
        false => listed = others(&[others(&listed), vec![(0, 0), (SLASH, SLASH)]].concat()),
    }
    Ok(Symbol::In(if is_negated { others(&listed) } else { listed }))
}

/// The complement of these ranges, as sorted and disjoint ranges.
fn others(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut found = Vec::new();
    let mut next = 0;
    for (low, high) in sorted {
        if low > next {
            found.push((next, low - 1));
        }
        next = next.max(high + 1);
    }
    if next <= LAST {
        found.push((next, LAST));
    }
    found
}

/// A piece of a pattern: a token, or braces with their branches.
enum Piece<'a> {
    Token(&'a Token),
    Braces(Vec<Vec<Piece<'a>>>),
}

/// Reads up to the end, or to the comma or brace that ends this branch, which is not consumed. `tokens` made sure that
/// braces are balanced and not too deep.
fn pieces<'a>(tokens: &mut std::iter::Peekable<std::slice::Iter<'a, Spanned>>) -> Vec<Piece<'a>> {
    let mut found = Vec::new();
    while let Some((token, _)) = tokens.next_if(|(token, _)| !matches!(token, Token::Comma | Token::Close)) {
        if *token != Token::Open {
            found.push(Piece::Token(token));
            continue;
        }
        let mut branches = vec![pieces(tokens)];
        while tokens.next().is_some_and(|(token, _)| *token == Token::Comma) {
            branches.push(pieces(tokens));
        }
        found.push(Piece::Braces(branches));
    }
    found
}

/// Number of alternatives that the braces expand to.
fn count(pieces: &[Piece<'_>]) -> usize {
    pieces.iter().fold(1, |product: usize, piece| match piece {
        Piece::Token(_) => product,
        Piece::Braces(branches) => {
            let sum = branches.iter().fold(0, |sum: usize, branch| sum.saturating_add(count(branch)));
            product.saturating_mul(sum)
        }
    })
}

/// Expands braces, as a shell does.
fn written_out<'a>(pieces: &[Piece<'a>]) -> Vec<Vec<&'a Token>> {
    let mut found = vec![Vec::new()];
    for piece in pieces {
        match piece {
            Piece::Token(token) => found.iter_mut().for_each(|tokens| tokens.push(*token)),
            Piece::Braces(branches) => {
                let branches: Vec<Vec<&Token>> = branches.iter().flat_map(|branch| written_out(branch)).collect();
                found = found
                    .iter()
                    .flat_map(|before| branches.iter().map(|branch| [before.as_slice(), branch].concat()))
                    .collect();
            }
        }
    }
    found
}

/// The steps of one alternative. Without wildcards it is a path: a file, or a folder with everything below it.
fn path(tokens: &[&Token]) -> Result<Path, String> {
    let names = tokens.split(|token| **token == Token::Slash).filter(|name| !name.is_empty() && !is_dots(name, 1));
    let mut path = Path::new();
    let mut is_literal = true;
    for name in names {
        if is_dots(name, 2) {
            return Err("it contains ..".to_owned());
        }
        let item = match name {
            [Token::Star, Token::Star] => Item::Many,
            name => Item::One(step(name)),
        };
        is_literal &= name.iter().all(|token| matches!(token, Token::Symbol(Symbol::Exactly(_))));
        path.push(item);
    }
    match path.last() {
        // Everything, or everything below: at least one name.
        None | Some(Item::Many) => {
            path.pop();
            path.extend([Item::One(vec![Item::Many]), Item::Many]);
        }
        Some(Item::One(_)) if is_literal => path.push(Item::Many),
        Some(Item::One(_)) => {}
    }
    Ok(path)
}

fn step(name: &[&Token]) -> Step {
    let items = name.iter().filter_map(|token| match token {
        Token::Symbol(symbol) => Some(Item::One(symbol.clone())),
        Token::Star => Some(Item::Many),
        Token::Slash | Token::Open | Token::Comma | Token::Close => None, // already consumed
    });
    items.collect()
}

fn is_dots(name: &[&Token], count: usize) -> bool {
    let dot = Token::Symbol(Symbol::Exactly('.'.into()));
    name.len() == count && name.iter().all(|token| **token == dot)
}

/// The canonical form of a pattern: removes `./` and `//`, and makes the meaning of a final `/` explicit.
fn canonical(text: &str, tokens: &[Spanned]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let (mut depth, mut from, mut to) = (0_usize, 0, 0);
    for (token, end) in tokens {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            Token::Slash if depth == 0 => {
                names.push(&text[from..to]);
                from = *end;
            }
            _ => {}
        }
        to = *end;
    }
    names.push(&text[from..]);
    let is_folder = names.last().is_some_and(|name| name.is_empty());
    names.retain(|name| !name.is_empty() && *name != ".");
    if names.is_empty() || (is_folder && names.iter().any(|name| has_wildcards(name)) && names.last() != Some(&"**")) {
        names.push("**");
    }
    names.join("/")
}

impl FromStr for Pattern {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        parse(text).map_err(|why| InvalidText { what: "the pattern", shown: quoted(text), why })
    }
}

fn parse(text: &str) -> Result<Pattern, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > limits::PATTERN_BYTES_MAX {
        return Err(format!("it has {} bytes, at most {} are allowed", text.len(), limits::PATTERN_BYTES_MAX));
    }
    if text.starts_with('/') {
        return Err("it begins with a /; paths are relative to the top of the repository".to_owned());
    }
    let text = canonical(text, &tokens(text)?);
    let tokens = tokens(&text)?;
    let pieces = pieces(&mut tokens.iter().peekable());
    if count(&pieces) > limits::PATTERN_ALTERNATIVES_MAX {
        let max = limits::PATTERN_ALTERNATIVES_MAX;
        return Err(format!("its braces expand to more than {max} alternatives; reserve several patterns"));
    }
    let written_out = written_out(&pieces);
    if written_out.iter().map(Vec::len).sum::<usize>() > limits::PATTERN_ITEMS_MAX {
        return Err("its braces expand to too many characters; reserve several patterns".to_owned());
    }
    let alternatives = written_out.iter().map(|tokens| path(tokens)).collect::<Result<_, _>>()?;
    Ok(Pattern { text, alternatives })
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    /// Accepts only the canonical form, so that a record has one way to write a pattern.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pattern: Self = text.parse().map_err(serde::de::Error::custom)?;
        match pattern.text == text {
            true => Ok(pattern),
            false => Err(serde::de::Error::custom(format!("the pattern {} must be written {pattern}", quoted(&text)))),
        }
    }
}

impl ToSql for Pattern {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.text.to_sql()
    }
}

impl FromSql for Pattern {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pattern".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "paths below the top of the repository, as a glob"})
    }
}
