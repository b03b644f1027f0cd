//! Texts of shared contexts: comparing two of them, and merging two changes of one.
//!
//! Comparing line by line takes quadratic time in the lines that differ, so it is limited. A larger difference is shown
//! as removed and added as a whole, and is not merged.

use std::collections::BTreeMap;

use diffy::{ConflictStyle, DiffOptions, MergeOptions};

use crate::log::Lines;

/// Maximum number of lines to compare, in both texts together, without their common beginning and end.
const COMPARED_MAX: usize = 8_000;

/// Number of lines added and removed.
pub fn count(before: &str, after: &str) -> Lines {
    let (before, after) = middles(before, after);
    let all = |text: &str| lines(text).count();
    if all(before) + all(after) > COMPARED_MAX {
        return Lines { added: small(all(after)), removed: small(all(before)) };
    }
    let patch = diffy::create_patch(before, after);
    let mut counted = Lines::default();
    for line in patch.hunks().iter().flat_map(|hunk| hunk.lines()) {
        match line {
            diffy::Line::Insert(_) => counted.added = counted.added.saturating_add(1),
            diffy::Line::Delete(_) => counted.removed = counted.removed.saturating_add(1),
            diffy::Line::Context(_) => {}
        }
    }
    counted
}

/// The line count of a text that is added as a whole.
pub fn count_all(text: &str) -> Lines {
    Lines { added: small(lines(text).count()), removed: 0 }
}

/// A unified diff; empty if nothing differs. `names` are the file names of the two texts.
pub fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    if before == after {
        return String::new();
    }
    if compared(before, after) > COMPARED_MAX {
        return whole(before, after, names);
    }
    let mut options = DiffOptions::new();
    options.set_original_filename(names.0.to_owned()).set_modified_filename(names.1.to_owned());
    options.create_patch(before, after).to_string()
}

/// Merges two changes of one text. `Err`: they touch the same lines; the text has both versions, between markers.
pub fn merge(base: &str, mine: &str, theirs: &str) -> Result<String, String> {
    if mine == theirs || theirs == base {
        return Ok(mine.to_owned());
    }
    if mine == base {
        return Ok(theirs.to_owned());
    }
    if compared(base, mine).max(compared(base, theirs)) > COMPARED_MAX {
        return Err(marked(mine, theirs));
    }
    let merged = MergeOptions::new().set_conflict_style(ConflictStyle::Merge).merge(base, mine, theirs);
    // A safety net for the algorithm: unless every added line is in the result, a person chooses between the whole
    // texts.
    let (Ok(result) | Err(result)) = &merged;
    match keeps_every_line(base, mine, theirs, result) {
        true => merged,
        false => Err(marked(mine, theirs)),
    }
}

/// Whether every line that one side added is in the result as often as required, minus what the other side removed.
fn keeps_every_line(base: &str, mine: &str, theirs: &str, merged: &str) -> bool {
    let mut counts: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
    for (index, text) in [base, mine, theirs, merged].into_iter().enumerate() {
        for line in text.lines() {
            counts.entry(line).or_default()[index] += 1;
        }
    }
    counts.values().all(|[base, mine, theirs, merged]| {
        let added = (mine - base).max(theirs - base).max(0);
        let removed = (base - mine).max(0) + (base - theirs).max(0);
        *merged >= base + added - removed
    })
}

/// Both texts, one after the other, for a person to choose from.
fn marked(mine: &str, theirs: &str) -> String {
    format!("<<<<<<< ours\n{}=======\n{}>>>>>>> theirs\n", ended(mine), ended(theirs))
}

fn whole(before: &str, after: &str, names: (&str, &str)) -> String {
    let mut text = format!("--- {}\n+++ {}\n", names.0, names.1);
    let range = |text: &str| match lines(text).count() {
        0 => "0,0".to_owned(),
        count => format!("1,{count}"),
    };
    text.push_str(&format!("@@ -{} +{} @@\n", range(before), range(after)));
    for (sign, side) in [('-', before), ('+', after)] {
        for line in lines(side) {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

/// The text with a final line end, unless it is empty.
pub fn ended(text: &str) -> String {
    match text.is_empty() || text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    }
}

fn compared(before: &str, after: &str) -> usize {
    let (before, after) = middles(before, after);
    lines(before).count() + lines(after).count()
}

/// Two texts without their common first lines and common last lines.
fn middles<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str) {
    let same: usize =
        lines(before).zip(lines(after)).take_while(|(one, other)| one == other).map(|(one, _)| one.len()).sum();
    let (before, after) = (&before[same..], &after[same..]);
    let from_end = before.split_inclusive('\n').rev().zip(after.split_inclusive('\n').rev());
    let same: usize = from_end.take_while(|(one, other)| one == other).map(|(one, _)| one.len()).sum();
    (&before[..before.len() - same], &after[..after.len() - same])
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
