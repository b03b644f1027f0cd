//! Where the words of a query are in a text. The index keeps no text, so the few texts that are shown are indexed once
//! more, in memory, with the same tokenizer: what is marked is what was found.

use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::index::TOKENIZER;
use super::query::{BREAK, apart};
use super::{Document, Words};
use crate::error::Error;

/// A part of a shown text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Piece {
    pub text: String,
    /// It is what was looked for.
    pub matched: bool,
}

/// The marked subject of a message and the part of its text with the most matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    pub subject: Vec<Piece>,
    pub text: Vec<Piece>,
}

/// Enclose a match. They are removed from texts first, so that no message can forge a mark.
const OPENS: char = '\u{2}';
const CLOSES: char = '\u{3}';
/// How many tokens of a text are shown.
const SNIPPET_TOKENS: u32 = 20;
/// Only this much of a text is searched for the best part to show.
const TEXT_BYTES_MAX: usize = 256 * 1024;

impl Words {
    /// Marks each of these documents.
    pub fn mark(&self, documents: &[Document]) -> Result<Vec<Marks>, Error> {
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let conn = Connection::open_in_memory()?;
        conn.execute_batch(&format!(
            "CREATE VIRTUAL TABLE texts USING fts5 (body, subject, tokenize = '{TOKENIZER}')"
        ))?;
        let mut insert = conn.prepare("INSERT INTO texts (rowid, body, subject) VALUES (?1, ?2, ?3)")?;
        for (number, document) in documents.iter().enumerate() {
            insert.execute(params![number, shown(&document.body), shown(&document.subject)])?;
        }
        let mut marked = conn.prepare(
            "SELECT highlight(texts, 1, ?3, ?4), snippet(texts, 0, ?3, ?4, '…', ?5) FROM texts
             WHERE texts MATCH ?2 AND rowid = ?1",
        )?;
        let expression = self.expression();
        let mut all = Vec::with_capacity(documents.len());
        for (number, document) in documents.iter().enumerate() {
            let parameters = params![number, expression, OPENS.to_string(), CLOSES.to_string(), SNIPPET_TOKENS];
            let mut rows = marked.query(parameters)?;
            all.push(match rows.next()? {
                Some(row) => {
                    let (subject, text): (String, String) = (row.get(0)?, row.get(1)?);
                    Marks { subject: pieces(&subject), text: cut(pieces(&text)) }
                }
                // The matches are beyond the part that is searched.
                None => Marks { subject: plain(&document.subject), text: plain(&start_of(&document.body)) },
            });
        }
        Ok(all)
    }
}

impl Document {
    /// Truncates the text to the part that is searched for a snippet.
    pub fn cut(&mut self) {
        self.body.truncate(self.body.floor_char_boundary(TEXT_BYTES_MAX));
        self.body.shrink_to_fit();
    }
}

/// A text as it is indexed here: without marks of its own, on one line.
fn shown(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    apart(line.trim()).into_owned()
}

fn start_of(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let line: String = text.chars().take(CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

fn plain(text: &str) -> Vec<Piece> {
    match text.is_empty() {
        true => Vec::new(),
        false => vec![Piece { text: text.to_owned(), matched: false }],
    }
}

fn pieces(marked: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, part) in marked.split([OPENS, CLOSES]).enumerate() {
        let text = part.replace(BREAK, "");
        // Marks alternate, so every second part is a match.
        let matched = index % 2 == 1;
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.matched == matched => last.text.push_str(&text),
            _ => pieces.push(Piece { text, matched }),
        }
    }
    pieces
}

/// Shortens the pieces of a snippet, because a word may be as long as a file. The text next to a match is kept.
fn cut(pieces: Vec<Piece>) -> Vec<Piece> {
    const BESIDE_CHARS_MAX: usize = 120;
    let last = pieces.len().saturating_sub(1);
    let cut_one = |(index, piece): (usize, Piece)| {
        let chars: Vec<char> = piece.text.chars().collect();
        if chars.len() <= BESIDE_CHARS_MAX {
            return piece;
        }
        let half = BESIDE_CHARS_MAX / 2;
        let text: String = match index {
            _ if piece.matched => chars[..half].iter().chain(&['…']).collect(),
            0 if index != last => std::iter::once(&'…').chain(&chars[chars.len() - half..]).collect(),
            _ if index == last => chars[..half].iter().chain(&['…']).collect(),
            _ => chars[..half / 2].iter().chain(&['…']).chain(&chars[chars.len() - half / 2..]).collect(),
        };
        Piece { text, matched: piece.matched }
    };
    pieces.into_iter().enumerate().map(cut_one).collect()
}
