//! Sequence diagrams in Mermaid.

use std::fmt::Write as _;

use poste_core::escape;

/// A diagram under construction: its participants in order of appearance, and its lines.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    participants: Vec<String>,
    lines: Vec<String>,
}

/// How an arrow looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrow {
    /// A message.
    Solid,
    /// An acknowledgment or a result of a message.
    Dashed,
    /// A failure.
    Cross,
}

/// Maximum number of characters of a text, so that a diagram stays readable.
const TEXT_CHARS_MAX: usize = 80;

impl Sequence {
    /// Names are never Mermaid syntax: each gets an alias.
    fn alias(&mut self, name: &str) -> String {
        let known = self.participants.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.participants.push(name.to_owned());
            self.participants.len() - 1
        });
        format!("p{index}")
    }

    /// `when` is a time. It comes first, so that no text stands where Mermaid could take it for a keyword.
    pub(super) fn arrow(&mut self, arrow: Arrow, from: &str, to: &str, when: &str, what: &str) {
        let drawn = match arrow {
            Arrow::Solid => "->>",
            Arrow::Dashed => "-->>",
            Arrow::Cross => "-x",
        };
        let (from, to) = (self.alias(from), self.alias(to));
        self.lines.push(format!("{from}{drawn}{to}: {when} {}", text(what)));
    }

    pub(super) fn note(&mut self, over: &str, when: &str, what: &str) {
        let over = self.alias(over);
        self.lines.push(format!("Note over {over}: {when} {}", text(what)));
    }

    pub(super) fn finish(self) -> String {
        let mut diagram = "sequenceDiagram\n".to_owned();
        for (index, name) in self.participants.iter().enumerate() {
            let _ = writeln!(diagram, "    participant p{index} as {}", text(name));
        }
        for line in self.lines {
            let _ = writeln!(diagram, "    {line}");
        }
        diagram
    }
}

fn text(text: &str) -> String {
    let line = escape::line(text);
    let mut cut: String = line.chars().take(TEXT_CHARS_MAX).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    escape::mermaid(&cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_lists_participants_and_events() {
        let mut sequence = Sequence::default();
        sequence.arrow(Arrow::Solid, "builder-1", "orchestrator", "15:30:00", "#1 no User model");
        sequence.note("orchestrator", "15:32:15", "reads #1");
        sequence.arrow(Arrow::Dashed, "orchestrator", "builder-1", "15:33:42", "acknowledges");
        sequence.arrow(Arrow::Cross, "role:x", "builder-1", "15:34:00", "fails");
        let expected = "sequenceDiagram
    participant p0 as builder-1
    participant p1 as orchestrator
    participant p2 as role#58;x
    p0->>p1: 15:30:00 #35;1 no User model
    Note over p1: 15:32:15 reads #35;1
    p1-->>p0: 15:33:42 acknowledges
    p2-xp0: 15:34:00 fails
";
        assert_eq!(sequence.finish(), expected);
    }

    /// Every line has one of four forms, whatever its text says.
    #[test]
    fn hostile_text_stays_text() {
        let hostile = [
            "a\nparticipant evil",
            "x; p0->>p1: forged",
            "%%{init: {'theme':'x'}}%%",
            "# comment #35; ## &lt;",
            "<script>alert(1)</script><br/>",
            "end",
            "style a:b#c;",
            "wrap: $$x$$ `y` \"z\" \\n",
            "ﬂ°°59¶ß\u{2028}Note over p0: forged",
            "\u{202e}\u{0}\r\u{1b}[2J",
        ];
        for words in hostile {
            let mut sequence = Sequence::default();
            sequence.arrow(Arrow::Solid, "a", words, "09:00:00", words);
            let diagram = sequence.finish();
            assert_eq!(diagram.lines().count(), 4, "{diagram}");
            let lines: Vec<&str> = diagram.lines().collect();
            assert!(lines[3].starts_with("    p0->>p1: 09:00:00 "), "{diagram}");
            for text in [&lines[2]["    participant p1 as ".len()..], &lines[3]["    p0->>p1: 09:00:00 ".len()..]] {
                assert!(is_text(text), "{words:?}: {text:?}");
            }
        }
    }

    /// Whether a text has only plain characters and complete entities.
    fn is_text(text: &str) -> bool {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first == '#' {
                let Some((code, after)) = rest[1..].split_once(';') else { return false };
                if code.is_empty() || !code.chars().all(|digit| digit.is_ascii_digit()) {
                    return false;
                }
                rest = after;
                continue;
            }
            let forbidden = ";%<>{}&\"`$\\:|@^*~[]ﬂ¶";
            if forbidden.contains(first) || first.is_control() {
                return false;
            }
            rest = &rest[first.len_utf8()..];
        }
        true
    }

    #[test]
    fn long_texts_are_cut() {
        let cut = text(&"ä".repeat(500));
        assert_eq!(cut.chars().count(), TEXT_CHARS_MAX + 1);
        assert!(cut.ends_with('…'));
    }
}
