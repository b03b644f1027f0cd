//! Asking git, whose answers are bytes: a path may hold anything but NUL.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::error::{CommandError, Kind};

/// git in a folder. The environment stays: in a hook, git says by it which repository and which index is meant.
#[derive(Debug)]
pub(crate) struct Git {
    folder: PathBuf,
}

impl Git {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// What git prints.
    pub(crate) fn ask(&self, arguments: &[&OsStr]) -> Result<Vec<u8>> {
        self.ask_with(arguments, Vec::new())
    }

    /// What git prints after reading this.
    pub(crate) fn ask_with(&self, arguments: &[&OsStr], input: Vec<u8>) -> Result<Vec<u8>> {
        let failed = |why: &dyn std::fmt::Display| {
            let command = arguments.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            CommandError::new(Kind::Internal, format!("git {command}: {why}"))
        };
        let mut child = Command::new("git")
            .arg("-C")
            .arg(&self.folder)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => CommandError::not_found("git is not on the PATH"),
                _ => failed(&error),
            })?;
        // Both at once: git may answer before it has read everything.
        let stdin = child.stdin.take();
        let writer = std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&input)));
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        let _ = writer.join();
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(failed(&String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// One path, or none if git says that there is none.
    pub(crate) fn path(&self, arguments: &[&str]) -> Result<PathBuf> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut answer = self.ask(&arguments)?;
        if answer.last() == Some(&b'\n') {
            answer.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(answer)))
    }

    pub(crate) fn top(folder: &Path) -> Result<PathBuf> {
        let found = Self::in_folder(folder).path(&["rev-parse", "--show-toplevel"]);
        found.map_err(|error| match error.kind {
            Kind::Internal => {
                CommandError::not_found(format!("{} is in no git worktree", folder.display())).cause(error.text())
            }
            _ => error,
        })
    }
}

/// A change of one path, as `--raw -z` tells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub path: Vec<u8>,
    /// Another repository stands, or stood, in this place.
    pub is_module: bool,
}

const MODULE: &str = "160000";

/// Reads `:MODE MODE ID ID STATUS NUL PATH NUL …`; of a merge there is a colon, a mode and an id more for each parent.
pub(crate) fn changes(raw: &[u8]) -> Result<Vec<Change>> {
    let odd = || CommandError::new(Kind::Internal, "git told of changes in a way that is not known");
    let mut parts = raw.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let Some(head) = parts.next() {
        if head.is_empty() {
            continue;
        }
        let head = std::str::from_utf8(head).map_err(|_| odd())?;
        let parents = head.bytes().take_while(|byte| *byte == b':').count();
        if parents == 0 {
            return Err(odd());
        }
        let is_module = head[parents..].split(' ').take(parents + 1).any(|mode| mode == MODULE);
        let path = parts.next().ok_or_else(odd)?.to_vec();
        found.push(Change { path, is_module });
    }
    Ok(found)
}

/// A word for git that is made of bytes.
pub(crate) fn word(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_whatever_their_paths_hold() {
        let raw = b":100644 100644 aa bb M\0a b\nc\0:000000 160000 00 cc A\0vendor/\xff\0::100644 100644 100644 a b c MM\0m\0";
        let found = changes(raw).unwrap();
        let expected: [(&[u8], bool); 3] = [(b"a b\nc", false), (b"vendor/\xff", true), (b"m", false)];
        assert_eq!(found, expected.map(|(path, is_module)| Change { path: path.to_vec(), is_module }));
        assert!(changes(b"").unwrap().is_empty());
        assert!(changes(b"100644 M\0a\0").is_err());
        assert!(changes(b":100644 100644 aa bb M\0").is_ok_and(|found| found[0].path.is_empty()));
    }
}
