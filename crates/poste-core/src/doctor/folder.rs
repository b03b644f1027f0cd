//! The folder: whether it exists and is private, missing and leftover files, and the disk it is on.

use serde_json::json;

use super::fix::Fix;
use super::{Finding, Scene, quoted};
use crate::backup;
use crate::error::Error;
use crate::limits::MINUTE_MS;
use crate::office::Place;
use crate::store::Folder;
use crate::store::archive::UNFINISHED;
use crate::store::file_system::{self, Room};
use crate::store::folder::{self, Entry, Kind};
use crate::text::size;
use crate::time::length;

/// Temporary files that have not been written to for this long are abandoned.
pub(super) const LEFTOVER_AGE_MS_MIN: i64 = 10 * MINUTE_MS;

/// Opens the folder. `None`: there is something else at its path.
pub(super) fn open(place: &Place, findings: &mut Vec<Finding>) -> Result<Option<Folder>, Error> {
    let path = &place.path;
    let entry = folder::entry(path)?.ok_or_else(|| Error::NoOffice(path.clone()))?;
    let not_an_office = |what: &str| {
        Finding::problem(
            "not_an_office",
            format!("{} {what}", path.display()),
            "It cannot be an office, and Poste does not look for one further up.",
        )
    };
    findings.push(match entry.kind {
        Kind::Link if folder::is_folder(path) => not_an_office("is a link")
            .advice("replace it with the folder it leads to")
            .command(format!("ls -l {}", quoted(path))),
        kind if kind != Kind::Folder => {
            not_an_office(if kind == Kind::Link { "is a dangling link" } else { "is not a folder" })
                .advice("check what it is and move it away; then create an office, or restore a snapshot")
                .verb("init", json!({}))
        }
        _ => match Folder::open_as_is(path) {
            Ok(folder) => return Ok(Some(folder)),
            Err(error) => Finding::problem(
                "permissions",
                format!("{} cannot be opened: {error}", path.display()),
                "No command can use this office.",
            )
            .command(format!("ls -ld {}", quoted(path))),
        },
    });
    Ok(None)
}

/// Only the owner may access the folder and everything in it that contains mail.
pub(super) fn permissions(scene: &mut Scene<'_>) -> Result<(), Error> {
    let place = scene.place;
    let Some(office) = folder::entry(&place.path)? else { return Ok(()) };
    owner(scene, &office);
    if office.mode & 0o077 != 0 {
        scene.add(
            Finding::problem(
                "permissions",
                format!("others can access {} (mode {:04o})", place.path.display(), office.mode),
                "Other users of this machine may be able to read or change the mail. No command uses the office.",
            )
            .command(format!("chmod 700 {}", quoted(&place.path)))
            .with_fix(Fix::Mode(place.path.clone(), 0o700)),
        );
    }
    if office.mode & 0o700 != 0o700 {
        scene.add(
            Finding::warning(
                "permissions",
                format!("{} is not writable by its owner (mode {:04o})", place.path.display(), office.mode),
                "Commands that read still work; commands that write are refused.",
            )
            .advice("if this is not intended, make it writable")
            .command(format!("chmod 700 {}", quoted(&place.path))),
        );
    }
    let mut inside = scene.entries()?;
    for folder in ["blobs", "archive", "contexts", "sessions", "live", "runs", "watch"] {
        // A link in its place is among the others.
        inside.extend(scene.entries_of(folder).unwrap_or_default());
    }
    let open = inside.iter().filter(|entry| entry.name != ".gitignore" && entry.mode & 0o077 != 0);
    let open: Vec<&Entry> = open.filter(|entry| matches!(entry.kind, Kind::File | Kind::Folder)).collect();
    for entry in open.iter().take(SHOWN_MAX) {
        let mode = if entry.kind == Kind::Folder { 0o700 } else { 0o600 };
        scene.add(
            Finding::warning(
                "permissions",
                format!("{} has mode {:04o}", entry.path.display(), entry.mode),
                "Only the permissions of the folder keep others from reading it.",
            )
            .command(format!("chmod {mode:o} {}", quoted(&entry.path)))
            .with_fix(Fix::Mode(entry.path.clone(), mode)),
        );
    }
    if open.len() > SHOWN_MAX {
        let modes = open[SHOWN_MAX..]
            .iter()
            .map(|entry| (entry.path.clone(), if entry.kind == Kind::Folder { 0o700 } else { 0o600 }));
        scene.add(
            Finding::warning(
                "permissions",
                format!("{} more files have such modes", open.len() - SHOWN_MAX),
                "Only the permissions of the folder keep others from reading them.",
            )
            .with_fix(Fix::Modes(modes.collect())),
        );
    }
    for entry in inside.iter().filter(|entry| entry.kind == Kind::Link) {
        scene.add(
            Finding::warning(
                "link",
                format!("{} is a link", entry.path.display()),
                "An office contains no links, and Poste follows none. What needs this file or folder fails.",
            )
            .advice(match entry.name.as_str() {
                "bell" => "remove it: it is not used; poste doctor --fix creates a new bell",
                "waiters" => "remove it: it is not used; the next waiter creates the folder",
                _ => "stop all processes that use the office, then replace the link with its target",
            })
            .command(match entry.name.as_str() {
                "bell" | "waiters" => format!("rm {}", quoted(&entry.path)),
                _ => format!("ls -l {}", quoted(&entry.path)),
            }),
        );
    }
    let strangers: Vec<&Entry> = inside.iter().filter(|entry| entry.owner != office.owner).collect();
    if let Some(first) = strangers.first() {
        let more = if strangers.len() > 1 { format!(" and {} more", strangers.len() - 1) } else { String::new() };
        scene.add(
            Finding::problem(
                "owner",
                format!("{}{more} belongs to user {}, not to {}", first.path.display(), first.owner, office.owner),
                "A command was run as another user, perhaps with sudo. The owner may not be able to write.",
            )
            .command(format!("sudo chown -R {} {}", office.owner, quoted(&place.path))),
        );
    }
    Ok(())
}

/// More findings of one kind are counted, not listed.
const SHOWN_MAX: usize = 8;

fn owner(scene: &mut Scene<'_>, office: &Entry) {
    let me = folder::me();
    if office.owner == me {
        return;
    }
    scene.add(
        Finding::warning(
            "owner",
            format!("the office belongs to user {}, and you are user {me}", office.owner),
            "An office is for one user. Files that you write may be inaccessible to its owner.",
        )
        .advice("run poste as its owner"),
    );
}

/// Files that every office has besides its database, which is opened later.
pub(super) fn missing(scene: &mut Scene<'_>) -> Result<(), Error> {
    let parts = [
        ("bell", "A loss of the newest records would not be noticed."),
        ("blobs", "Messages over 64 KiB and attachments cannot be stored."),
        (".gitignore", "Git may see the office and commit the mail in it."),
    ];
    for (name, meaning) in parts {
        if scene.entry(name)?.is_some() {
            continue;
        }
        // A folder without a database is not an office, or no longer one: there is nothing to complete.
        if scene.entry("office.db")?.is_none() {
            return Ok(());
        }
        let what = format!("{name} is missing");
        scene.add(Finding::warning("missing", what, meaning).with_fix(Fix::MakeMissing));
    }
    Ok(())
}

/// Names that are taken by another kind of file than an office has there.
pub(super) fn shapes(scene: &mut Scene<'_>) -> Result<(), Error> {
    let shapes = [
        ("bell", Kind::File, "A loss of the newest records would not be noticed."),
        ("waiters", Kind::Folder, "Waiters are not woken; they poll 25 times a second instead."),
        ("write.lock", Kind::File, "Nothing can be written."),
        ("blobs", Kind::Folder, "Messages over 64 KiB and attachments cannot be stored or read."),
        ("archive", Kind::Folder, "Nothing can be archived, and existing archives cannot be read."),
        ("contexts", Kind::Folder, "Shared contexts are not mirrored to files."),
        ("sessions", Kind::Folder, "The pages of closed sessions cannot be written."),
        ("runs", Kind::Folder, "No agent can be started."),
    ];
    for (name, wanted, meaning) in shapes {
        let Some(entry) = scene.entry(name)? else { continue };
        if entry.kind == wanted || entry.kind == Kind::Link {
            continue; // links are reported with the permissions
        }
        let noun = |kind| match kind {
            Kind::File => "a file",
            Kind::Folder => "a folder",
            Kind::Link => "a link",
            Kind::Other => "a pipe, a socket or a device",
        };
        let what = format!("{name} is {}, not {}", noun(entry.kind), noun(wanted));
        let aside = entry.path.with_file_name(format!("{name}.aside"));
        let finding = if matches!(name, "bell" | "waiters") { Finding::warning } else { Finding::problem };
        scene.add(
            finding("shape", what, meaning)
                .advice("move it away while the office is not in use; poste or poste doctor --fix recreates it")
                .command(format!("mv {} {}", quoted(&entry.path), quoted(&aside))),
        );
    }
    Ok(())
}

/// What interrupted commands left behind, and copies that may have been forgotten.
pub(super) fn leftovers(scene: &mut Scene<'_>) -> Result<(), Error> {
    let place = scene.place;
    for entry in scene.entries()? {
        if entry.name.starts_with("before-schema-") && entry.name.ends_with(".tmp") {
            scene.add(
                Finding::warning(
                    "leftover",
                    format!("{} ({}) is an unfinished copy", entry.name, size(entry.bytes)),
                    "An upgrade was interrupted while it made a copy. The next one starts over.",
                )
                .with_fix(Fix::RemoveUnderLock(entry.path)),
            );
        } else if entry.name.starts_with("before-schema-") && entry.name.ends_with(".db") {
            scene.add(
                Finding::note(
                    "copy",
                    format!("{} ({}) is from {} ago", entry.name, size(entry.bytes), length(entry.age_ms())),
                    "It was made before an upgrade and contains the mail of that time.",
                )
                .advice("delete it when you no longer need it")
                .command(format!("rm {}", quoted(&entry.path))),
            );
        } else if entry.name == "search.db" && scene.request.verbose {
            scene.add(Finding::note(
                "search",
                format!("the search index has {}", size(entry.bytes)),
                "It is a cache without data of its own; if you delete it, it is rebuilt.",
            ));
        }
    }
    let meaning = "A command was interrupted while it stored large content. No message names these files.";
    unfinished_files(scene, "blobs", meaning)?;
    let meaning = "Archiving or erasing was interrupted. The content is also in the database or in another archive.";
    unfinished_files(scene, "archive", meaning)?;
    let meaning = "Closing a session was interrupted. To write the page again: poste session show ID --page.";
    unfinished_files(scene, "sessions", meaning)?;
    beside(scene, place)
}

fn unfinished_files(scene: &mut Scene<'_>, inside: &'static str, meaning: &str) -> Result<(), Error> {
    let unfinished = scene.entries_of(inside)?;
    let left = |entry: &Entry| entry.name.starts_with(UNFINISHED) && entry.age_ms() >= LEFTOVER_AGE_MS_MIN;
    let left: Vec<Entry> = unfinished.into_iter().filter(left).collect();
    if left.is_empty() {
        return Ok(());
    }
    let bytes = left.iter().map(|entry| entry.bytes).sum();
    scene.add(
        Finding::warning(
            "leftover",
            format!("{} in {inside}/ with {}", files(left.len(), "unfinished file"), size(bytes)),
            meaning,
        )
        .with_fix(Fix::RemoveOld(inside, left.into_iter().map(|entry| entry.path).collect())),
    );
    Ok(())
}

/// Folders that restores leave beside the office.
fn beside(scene: &mut Scene<'_>, place: &Place) -> Result<(), Error> {
    let Some(name) = place.path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let (restoring, kept) = (backup::restoring_prefix(name), backup::kept_prefix(name));
    for entry in folder::entries(folder::parent(&place.path))? {
        if entry.name.starts_with(&restoring) && crate::store::aside::is_abandoned(&entry.path) {
            scene.add(
                Finding::warning(
                    "leftover",
                    format!("{} is an unfinished restore", entry.path.display()),
                    "A restore was interrupted. It changed nothing, and the next one removes this folder.",
                )
                .command(format!("rm -r {}", quoted(&entry.path)))
                .with_fix(Fix::RemoveAbandoned(entry.path)),
            );
        } else if entry.name.starts_with(&kept) {
            scene.add(
                Finding::note(
                    "copy",
                    format!("{} is an office that was replaced", entry.path.display()),
                    "It is the complete office from before a restore.",
                )
                .advice("delete it when you no longer need it")
                .command(format!("rm -r {}", quoted(&entry.path))),
            );
        }
    }
    Ok(())
}

pub(super) fn file_system(scene: &mut Scene<'_>) -> Result<(), Error> {
    match file_system::check(&scene.place.path) {
        Err(Error::UnsafeFileSystem { path, kind }) => {
            scene.add(unsafe_file_system(&path, kind));
            Ok(())
        }
        other => other,
    }
}

fn unsafe_file_system(path: &std::path::Path, kind: &str) -> Finding {
    Finding::problem(
        "file_system",
        format!("{} is on a {kind} file system", path.display()),
        "SQLite's locks and shared memory are unreliable there: two writers could corrupt it. No command opens it.",
    )
    .advice("move the office to a local disk and point POSTE_HOME to it")
}

const ROOM_BYTES_PROBLEM: u64 = 32 * 1024 * 1024;
const ROOM_BYTES_WARNING: u64 = 512 * 1024 * 1024;

pub(super) fn room(scene: &mut Scene<'_>) -> Result<(), Error> {
    let found = low_room(file_system::room(&scene.place.path)?);
    scene.findings.extend(found);
    Ok(())
}

fn low_room(room: Room) -> Option<Finding> {
    let advice = "free some space";
    if room.files == Some(0) {
        let meaning = "No files can be created: large messages and attachments cannot be stored.";
        return Some(Finding::problem("disk", "the disk can hold no more files", meaning).advice(advice));
    }
    let what = format!("{} free on the disk", size(room.bytes));
    match room.bytes {
        ..ROOM_BYTES_PROBLEM => {
            let meaning = "Soon nothing can be stored. Mail that cannot be stored is refused; stored mail is safe.";
            Some(Finding::problem("disk", what, meaning).advice(advice))
        }
        ROOM_BYTES_PROBLEM..ROOM_BYTES_WARNING => {
            Some(Finding::warning("disk", what, "That is little for mail with attachments.").advice(advice))
        }
        _ => None,
    }
}

pub(super) fn files(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn low_disk_space_is_reported_before_it_runs_out() {
        let severity = |bytes, files| low_room(Room { bytes, files }).map(|finding| finding.severity);
        assert_eq!(severity(u64::MAX, None), None);
        assert_eq!(severity(ROOM_BYTES_WARNING, Some(5)), None);
        assert_eq!(severity(ROOM_BYTES_WARNING - 1, Some(5)), Some(Severity::Warning));
        assert_eq!(severity(0, Some(5)), Some(Severity::Problem));
        assert_eq!(severity(u64::MAX, Some(0)), Some(Severity::Problem));
    }

    #[test]
    fn an_unsafe_file_system_is_a_problem_that_names_it() {
        let finding = unsafe_file_system(std::path::Path::new("/mnt/office"), "NFS");
        assert_eq!(finding.severity, Severity::Problem);
        assert!(finding.what.contains("NFS"));
    }
}
