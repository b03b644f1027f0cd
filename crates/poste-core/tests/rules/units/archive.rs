//! The files of archived conversations.

use std::fs;

use poste_core::store::Folder;
use poste_core::store::archive::{Archives, Line, Written};
use poste_core::store::tables::ArchiveRow;
use poste_core::{Position, Timestamp};

fn line(position: u64, content: Option<&str>) -> Line {
    Line {
        position: Position(position),
        at: Timestamp::from_ms(5),
        by: "coder".parse().unwrap(),
        kind: "delivery.done".to_owned(),
        number: None,
        message: None,
        deliveries: Vec::new(),
        events: Vec::new(),
        content: content.map(ToOwned::to_owned),
    }
}

fn row(written: Written) -> ArchiveRow {
    ArchiveRow {
        position: Position(99),
        at: Timestamp::from_ms(5),
        file: "a.jsonl".to_owned(),
        lines: written.lines,
        digest: written.digest,
    }
}

fn archive(lines: &[Line]) -> (tempfile::TempDir, Archives, ArchiveRow) {
    let folder = tempfile::tempdir().unwrap();
    let archives = Archives::new(&Folder::open(folder.path()).unwrap());
    let written = archives.write("a.jsonl", lines).unwrap().unwrap();
    (folder, archives, row(written))
}

#[test]
fn every_line_is_found_by_halving_whatever_its_length() {
    let text = |position: u64| "x".repeat((position * 37 % 211) as usize);
    let lines: Vec<Line> =
        (1..200).filter(|position| position % 3 != 0).map(|position| line(position, Some(&text(position)))).collect();
    let (_folder, archives, row) = archive(&lines);
    for position in 0..205 {
        let found = archives.find(&row, Position(position)).unwrap();
        let expected: Vec<&Line> = lines.iter().filter(|line| line.position.0 == position).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{position}");
    }
}

#[test]
fn lines_of_one_record_come_together() {
    let lines = [line(1, None), line(2, Some("a")), line(2, None), line(2, None), line(3, None)];
    let (_folder, archives, row) = archive(&lines);
    assert_eq!(archives.find(&row, Position(2)).unwrap().len(), 3);
    assert_eq!(archives.find(&row, Position(1)).unwrap().len(), 1);
}

#[test]
fn a_redacted_content_is_gone_and_the_file_still_proves_itself() {
    let secret = r#"a "quoted" ,"content":"hunter2" inside"#;
    let lines = [line(1, Some("first")), line(2, Some(secret)), line(3, Some("third"))];
    let (_folder, archives, row) = archive(&lines);
    let before = fs::read(archives.path("a.jsonl")).unwrap();
    archives.redact(&row, &[Position(2)]).unwrap();
    let after = fs::read(archives.path("a.jsonl")).unwrap();
    assert_eq!(before.len(), after.len());
    assert!(!String::from_utf8_lossy(&after).contains("hunter2"));
    assert_eq!(archives.find(&row, Position(2)).unwrap()[0].content, None);
    assert_eq!(archives.find(&row, Position(3)).unwrap()[0].content.as_deref(), Some("third"));
    let now = archives.check(&row.file, |_| Ok(())).unwrap();
    assert_eq!((now.lines, now.digest), (row.lines, row.digest));
}

#[test]
fn a_changed_header_is_noticed() {
    let (_folder, archives, row) = archive(&[line(1, Some("first"))]);
    let path = archives.path("a.jsonl");
    let text = fs::read_to_string(&path).unwrap().replace("coder", "loder");
    fs::write(&path, text).unwrap();
    assert_ne!(archives.check(&row.file, |_| Ok(())).unwrap().digest, row.digest);
}

#[test]
fn a_name_is_given_once() {
    let (_folder, archives, _) = archive(&[line(1, None)]);
    assert_eq!(archives.write("a.jsonl", &[line(2, None)]).unwrap(), None);
    assert_eq!(archives.files().unwrap(), ["a.jsonl"]);
}
