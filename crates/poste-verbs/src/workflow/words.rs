//! `{{inputs.topic}}` in a text, and conditions such as `steps.review.verdict == "approved"`.

use std::fmt;

/// A value that a text or a condition refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Input(String),
    Step {
        key: String,
        field: Field,
    },
    /// For a step with a list: the item, its index, and the number of items.
    Item,
    Index,
    Items,
    Round,
    Attempt,
    /// Why the attempt before this one failed.
    Failure,
    Workflow,
    Name,
}

/// A property of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    Result,
    /// For a list: every result, as a JSON list.
    Results,
    Summary,
    /// The first word of the result, in lower case.
    Verdict,
    Choice,
    State,
    /// The numbers of its messages.
    Message,
    Files,
    /// A value of the payload, by its path.
    Payload(Vec<String>),
}

const FIELDS: &str = "result, results, summary, verdict, choice, state, message, files, payload";
const WORDS: &str = "inputs.NAME, steps.KEY.FIELD, item, index, items, round, attempt, failure, workflow, name";

impl std::str::FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        Ok(match parts.as_slice() {
            ["item"] => Self::Item,
            ["index"] => Self::Index,
            ["items"] => Self::Items,
            ["round"] => Self::Round,
            ["attempt"] => Self::Attempt,
            ["failure"] => Self::Failure,
            ["workflow"] => Self::Workflow,
            ["name"] => Self::Name,
            ["inputs", name] if !name.is_empty() => Self::Input((*name).to_owned()),
            ["steps", key, field, rest @ ..] if !key.is_empty() => {
                Self::Step { key: (*key).to_owned(), field: field_of(field, rest)? }
            }
            ["steps", ..] => return Err(format!("name a field of the step: steps.KEY.FIELD, FIELD one of {FIELDS}")),
            _ => return Err(format!("{text} is not a known value; use one of {WORDS}")),
        })
    }
}

fn field_of(field: &str, rest: &[&str]) -> Result<Field, String> {
    let plain = match field {
        "result" => Field::Result,
        "results" => Field::Results,
        "summary" => Field::Summary,
        "verdict" => Field::Verdict,
        "choice" => Field::Choice,
        "state" => Field::State,
        "message" => Field::Message,
        "files" => Field::Files,
        "payload" => return Ok(Field::Payload(rest.iter().map(|part| (*part).to_owned()).collect())),
        _ => return Err(format!("a step has no field {field}; use one of {FIELDS}")),
    };
    match rest {
        [] => Ok(plain),
        _ => Err(format!("{field} of a step has no parts; only payload has")),
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(name) => write!(f, "inputs.{name}"),
            Self::Step { key, field } => match field {
                Field::Payload(path) => {
                    write!(f, "steps.{key}.payload")?;
                    path.iter().try_for_each(|part| write!(f, ".{part}"))
                }
                field => write!(f, "steps.{key}.{}", format!("{field:?}").to_lowercase()),
            },
            Self::Item => f.write_str("item"),
            Self::Index => f.write_str("index"),
            Self::Items => f.write_str("items"),
            Self::Round => f.write_str("round"),
            Self::Attempt => f.write_str("attempt"),
            Self::Failure => f.write_str("failure"),
            Self::Workflow => f.write_str("workflow"),
            Self::Name => f.write_str("name"),
        }
    }
}

/// A text with values to fill in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Reference),
}

impl Template {
    /// Parses a template. Each error is the wrong piece of text, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<(String, String)>> {
        let mut pieces = Vec::new();
        let mut wrong = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            let (before, after) = (&rest[..open], &rest[open + 2..]);
            pieces.push(Piece::Text(before.to_owned()));
            let Some(close) = after.find("}}") else {
                let shown: String = rest[open..].lines().next().unwrap_or_default().chars().take(40).collect();
                wrong.push((shown.clone(), format!("{shown} has no closing }}}}")));
                rest = "";
                break;
            };
            match after[..close].trim().parse() {
                Ok(reference) => pieces.push(Piece::Value(reference)),
                Err(why) => wrong.push((format!("{{{{{}}}}}", &after[..close]), why)),
            }
            rest = &after[close + 2..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        if wrong.is_empty() { Ok(Self(pieces)) } else { Err(wrong) }
    }

    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Value(reference) => Some(reference),
            Piece::Text(_) => None,
        })
    }

    pub fn fill(&self, value: &dyn Fn(&Reference) -> String) -> String {
        let filled = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(reference) => value(reference),
        });
        filled.collect()
    }
}

/// `A and B or C`: comparisons, of which `and` binds tighter than `or`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition(Vec<Vec<Test>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    not: bool,
    left: Operand,
    /// Without a comparison: whether the left side is not empty, `false`, `no` or `0`.
    compared: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Text(String),
    Value(Reference),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Is,
    IsNot,
    Contains,
    Begins,
}

impl Condition {
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = split(text)?;
        let mut any = Vec::new();
        for part in words.split(|word| *word == Word::Bare("or".to_owned())) {
            let mut all = Vec::new();
            for test in part.split(|word| *word == Word::Bare("and".to_owned())) {
                all.push(test_of(test)?);
            }
            any.push(all);
        }
        Ok(Self(any))
    }

    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        let operands = self
            .0
            .iter()
            .flatten()
            .flat_map(|test| std::iter::once(&test.left).chain(test.compared.iter().map(|(_, right)| right)));
        operands.filter_map(|operand| match operand {
            Operand::Value(reference) => Some(reference),
            Operand::Text(_) => None,
        })
    }

    pub fn holds(&self, value: &dyn Fn(&Reference) -> String) -> bool {
        self.0.iter().any(|all| all.iter().all(|test| test.holds(value)))
    }
}

impl Test {
    fn holds(&self, value: &dyn Fn(&Reference) -> String) -> bool {
        let text = |operand: &Operand| match operand {
            Operand::Text(text) => text.trim().to_owned(),
            Operand::Value(reference) => value(reference).trim().to_owned(),
        };
        let left = text(&self.left);
        let holds = match &self.compared {
            None => !matches!(left.as_str(), "" | "false" | "no" | "0"),
            Some((comparison, right)) => {
                let right = text(right);
                match comparison {
                    Comparison::Is => left == right,
                    Comparison::IsNot => left != right,
                    Comparison::Contains => left.contains(&right),
                    Comparison::Begins => left.starts_with(&right),
                }
            }
        };
        holds != self.not
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Bare(String),
    Quoted(String),
}

fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if matches!(first, '"' | '\'') {
            let end = rest[1..].find(first).ok_or_else(|| format!("{rest} has no closing quote"))?;
            words.push(Word::Quoted(rest[1..=end].to_owned()));
            rest = rest[end + 2..].trim_start();
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(rest.len());
        words.push(Word::Bare(rest[..end].to_owned()));
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

const HOW: &str = "write steps.KEY.verdict == \"approved\", with ==, !=, contains or begins; join several with and, or";

fn test_of(words: &[Word]) -> Result<Test, String> {
    let (not, words) = match words {
        [Word::Bare(not), rest @ ..] if not == "not" => (true, rest),
        words => (false, words),
    };
    let operand = |word: &Word| match word {
        Word::Quoted(text) => Ok(Operand::Text(text.clone())),
        Word::Bare(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Operand::Text(number.clone())),
        Word::Bare(bare) => {
            let inner = bare.strip_prefix("{{").and_then(|bare| bare.strip_suffix("}}")).unwrap_or(bare);
            inner.parse().map(Operand::Value)
        }
    };
    match words {
        [left] => Ok(Test { not, left: operand(left)?, compared: None }),
        [left, Word::Bare(comparison), right] => {
            let comparison = match comparison.as_str() {
                "==" => Comparison::Is,
                "!=" => Comparison::IsNot,
                "contains" => Comparison::Contains,
                "begins" => Comparison::Begins,
                other => return Err(format!("{other} is not a comparison: {HOW}")),
            };
            Ok(Test { not, left: operand(left)?, compared: Some((comparison, operand(right)?)) })
        }
        _ => Err(format!("it is not a condition: {HOW}")),
    }
}

/// The first word as a verdict: in lower case, without surrounding punctuation.
pub fn verdict(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    first.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

/// The items of a list: JSON, or one item per line, with or without a bullet.
pub fn items(text: &str) -> Vec<String> {
    if let Ok(list) = serde_json::from_str::<Vec<serde_json::Value>>(text) {
        let shown = list.into_iter().map(|item| match item {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        });
        return shown.collect();
    }
    let bare = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line);
        line.trim().to_owned()
    };
    text.lines().map(bare).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(reference: &Reference) -> String {
        match reference {
            Reference::Input(name) => format!("<{name}>"),
            Reference::Step { key, field: Field::Verdict } => key.clone(),
            Reference::Step { .. } => "two\nlines".to_owned(),
            _ => "3".to_owned(),
        }
    }

    #[test]
    fn a_template_is_filled_and_reports_errors() {
        let template = Template::parse("Look into {{ inputs.topic }}: {{steps.a.result}}{{round}}.").unwrap();
        assert_eq!(template.fill(&value), "Look into <topic>: two\nlines3.");
        assert_eq!(template.references().count(), 3);
        let wrong = Template::parse("{{topic}} {{steps.a}} {{steps.a.colour}} {{oh").unwrap_err();
        assert_eq!(wrong.len(), 4);
        assert_eq!(wrong[0].0, "{{topic}}");
        // Inserted text is not expanded again.
        assert_eq!(Template::parse("{{inputs.a}}").unwrap().fill(&|_| "{{round}}".to_owned()), "{{round}}");
    }

    #[test]
    fn conditions_hold_or_do_not() {
        for (text, expected) in [
            ("steps.approved.verdict == \"approved\"", true),
            ("steps.approved.verdict != 'approved'", false),
            ("not steps.no.verdict", true),
            ("inputs.a contains \"a\" and round == 3", true),
            ("inputs.a contains \"b\" or round == 3", true),
            ("inputs.a contains \"b\" and round == 3 or round == 4", false),
            ("inputs.a begins '<'", true),
        ] {
            let condition = Condition::parse(text).unwrap();
            assert_eq!(condition.holds(&value), expected, "{text}");
        }
        for wrong in ["", "round ==", "round = 3", "colour == 'red'", "round == 'three", "round == 3 4"] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_verdict_is_the_first_word() {
        assert_eq!(verdict("**Approved**, with thanks"), "approved");
        assert_eq!(verdict("Not approved"), "not");
        assert_eq!(verdict("\n APPROVED.\n"), "approved");
        assert_eq!(verdict(""), "");
    }

    #[test]
    fn a_list_is_json_or_lines() {
        assert_eq!(items("[\"a b\", 2]"), ["a b", "2"]);
        assert_eq!(items("- a\n\n* b\nc\n"), ["a", "b", "c"]);
        assert!(items(" \n").is_empty());
    }

    #[test]
    fn references_are_written_as_they_are_read() {
        for text in ["inputs.a", "steps.a.result", "steps.a.payload.b.c", "item", "failure"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }
}
