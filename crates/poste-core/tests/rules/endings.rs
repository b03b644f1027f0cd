//! Helpers to close, drop, archive and redact, and to search every file of the folder.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use poste_core::fold::{Effect, Rejection};
use poste_core::log::{Ack, Archive, Close, Content, Drop, Intent, Redact, Register, Send};
use poste_core::office::Rules;
use poste_core::views::{self, ArchiveBatch};
use poste_core::{MessageNo, Position};
use serde_json::{Value, json};

use crate::common::*;

impl Desk {
    /// Closes the conversation of a message, with an outcome.
    pub fn close(&mut self, who: &str, message: MessageNo) -> Answer<usize> {
        self.say(who, Intent::Close(Close { message }), Some(text("that is that"))).map(touched)
    }

    pub fn drop_bad(&mut self, who: &str, message: MessageNo) -> Answer<usize> {
        let dropped = Drop { message, recipient: None };
        self.say(who, Intent::Drop(dropped), Some(text("never mind"))).map(touched)
    }

    pub fn redact(&mut self, who: &str, records: &[Position]) -> Answer<usize> {
        let redact = Redact { records: records.to_vec() };
        self.say(who, Intent::Redact(redact), Some(text("it should not have been said"))).map(touched)
    }

    /// Redacts the content of a message.
    pub fn redact_message(&mut self, who: &str, message: MessageNo) {
        let position = self.position(message);
        accepted(self.redact(who, &[position]));
    }

    /// The position of a message in the log, archived or not.
    pub fn position(&self, message: MessageNo) -> Position {
        let tables = self.office.store().tables().expect("the tables load");
        tables.position_of(message).expect("messages can be read").expect("the message is there")
    }

    /// All conversations that are finished now.
    pub fn finished(&self) -> ArchiveBatch {
        views::finished(self.office.store(), self.now(), MessageNo(1)).expect("conversations can be read")
    }

    /// Writes the finished conversations to a file, without its record.
    pub fn write_archive(&self) -> Archive {
        self.office.write_archive(&self.finished()).expect("the archive is written")
    }

    pub fn propose_archive(&mut self, who: &str, archive: &Archive) -> Answer<usize> {
        self.ask(who, Intent::Archive(archive.clone())).map(touched)
    }

    /// Archives all finished conversations.
    pub fn archive(&mut self, who: &str) -> Archive {
        let archive = self.write_archive();
        accepted(self.propose_archive(who, &archive));
        archive
    }

    /// Sends, and acknowledges at once: a finished conversation.
    pub fn send_and_ack(&mut self, from: &str, to: &str, content: Content) -> MessageNo {
        let number = self.send_saying(from, letter(to, "message"), content);
        accepted(self.ack(to, number));
        number
    }

    /// Many finished conversations in one commit; their numbers. Faster, because the tables are not compared in
    /// between.
    pub fn send_and_ack_many(
        &mut self,
        from: &str,
        to: &str,
        letters: impl IntoIterator<Item = (Send, Content)>,
    ) -> Vec<MessageNo> {
        let mut number = self.last_message();
        let mut numbers = Vec::new();
        let mut proposals = Vec::new();
        for (letter, content) in letters {
            number = number.next();
            numbers.push(number);
            proposals.push(self.proposal(from, Intent::Send(letter), Some(content)));
            proposals.push(self.proposal(to, Intent::Ack(Ack { message: number }), Some(text("noted"))));
        }
        for outcome in self.office.submit(&proposals, &Rules::none()).expect("the office answers") {
            accepted(outcome.verdict.accepted());
        }
        numbers
    }

    pub fn send_saying(&mut self, from: &str, letter: Send, content: Content) -> MessageNo {
        match accepted(self.say(from, Intent::Send(letter), Some(content))) {
            Effect::Sent(sent) => sent.number,
            other => panic!("unexpected effect: {other:?}"),
        }
    }

    pub fn register_with_lead(&mut self, name: &str, lead: &str) {
        self.register(name, Register { lead: Some(lead.parse().expect("a name")), ..agent() });
    }

    /// The output of every view of these messages, except for where they are kept and as of when.
    pub fn all_views(&self, numbers: impl IntoIterator<Item = MessageNo>) -> Value {
        let store = self.office.store();
        let messages: Vec<Value> = numbers
            .into_iter()
            .map(|number| {
                let message = views::message(store, number).expect("it can be read").expect("it is there");
                let body_bytes = message.body_bytes.clone();
                let track = views::track(store, number, self.now()).expect("it can be tracked").expect("it is there");
                let why = views::why_message(store, number).expect("it can be explained").expect("it is there");
                let replies = views::replies(store, number).expect("replies can be read").expect("it is there");
                let mut why = json!(why);
                why["lines"]
                    .as_array_mut()
                    .expect("lines")
                    .retain(|line| !line["what"].as_str().expect("a sentence").starts_with("archived in "));
                json!([
                    without(json!(message), &["archive"]),
                    body_bytes,
                    without(json!(track), &["archive", "as_of"]),
                    why,
                    without(json!(replies), &["as_of"]),
                ])
            })
            .collect();
        json!(messages)
    }

    /// The timeline of the log up to a record.
    pub fn timeline_to(&self, last: Position) -> Value {
        let count = usize::try_from(last.0).expect("a small log");
        json!(views::timeline(self.office.store(), Position(0), count).expect("the timeline can be read"))
    }

    /// Files of the office folder that contain a marker, in any of the encodings in which content is written.
    pub fn files_with(&self, marker: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for file in all_files(&self.place.path) {
            let bytes = fs::read(&file).expect("files of the office can be read");
            let text = String::from_utf8_lossy(&bytes);
            if forms_of(marker).iter().any(|form| text.contains(form.as_str())) {
                found.push(file);
            }
        }
        found
    }

    #[track_caller]
    pub fn assert_nowhere(&self, marker: &str) {
        assert_eq!(self.files_with(marker), Vec::<PathBuf>::new(), "{marker} is still in a file");
    }

    pub fn archive_path(&self, file: &str) -> PathBuf {
        self.place.path.join("archive").join(file)
    }
}

fn touched(effect: Effect) -> usize {
    match effect {
        Effect::Touched(count) => count,
        other => panic!("expected a count, got {other:?}"),
    }
}

fn without(mut value: Value, fields: &[&str]) -> Value {
    for field in fields {
        assert!(value.as_object_mut().expect("an object").remove(*field).is_some(), "no field {field}");
    }
    value
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(all_files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort_unstable();
    files
}

/// As text, as UTF-16, and as base64 at each of its three alignments. Each form is ASCII.
fn forms_of(marker: &str) -> Vec<String> {
    let wide = marker.chars().flat_map(|char| [char, '\0']).collect();
    let mut forms = vec![marker.to_owned(), wide];
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(marker.as_bytes());
        let encoded = BASE64.encode(&bytes);
        // The first and the last group also depend on the bytes around the marker.
        let start = if before == 0 { 0 } else { 4 };
        forms.push(encoded[start..encoded.len() - 4].to_owned());
    }
    forms
}

/// Asserts that two answers of the views are equal, and shows the lines that differ.
#[track_caller]
pub fn assert_same(before: &Value, after: &Value) {
    if before != after {
        let (before, after) = (lines_of(before), lines_of(after));
        let parts: Vec<_> = before.iter().zip(&after).filter(|(one, other)| one != other).take(6).collect();
        panic!("the views differ ({} and {} lines): {parts:#?}", before.len(), after.len());
    }
}

fn lines_of(value: &Value) -> Vec<String> {
    serde_json::to_string_pretty(value).expect("JSON").lines().map(ToOwned::to_owned).collect()
}

pub fn code_of<T: std::fmt::Debug>(answer: Answer<T>) -> poste_core::fold::Code {
    match answer {
        Err(Rejection { code, .. }) => code,
        Ok(effect) => panic!("it was accepted: {effect:?}"),
    }
}

#[test]
fn the_search_finds_every_form_in_every_folder() {
    let desk = Desk::new();
    let marker = "needle-in-the-haystack-7";
    desk.assert_nowhere(marker);
    let forms: Vec<Vec<u8>> = vec![
        format!("x{marker}y").into_bytes(),
        marker.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        BASE64.encode(format!("\u{7f}{marker} and more")).into_bytes(),
        BASE64.encode(format!("..{marker} and more")).into_bytes(),
        BASE64.encode(format!("...{marker}")).into_bytes(),
    ];
    for (count, form) in forms.into_iter().enumerate() {
        let file = desk.place.path.join("blobs").join(format!("found-{count}"));
        fs::write(&file, form).expect("the file is written");
        assert_eq!(desk.files_with(marker), std::slice::from_ref(&file), "form {count}");
        fs::remove_file(file).expect("the file is removed");
    }
}
