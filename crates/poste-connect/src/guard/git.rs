//! Runs git. Its output is bytes, because a path may contain anything but NUL.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use poste_verbs::{Error, Kind, Result};

/// git in a folder. The environment is kept: in a hook, it names the repository and the index.
#[derive(Debug)]
pub struct Git {
    folder: PathBuf,
}

impl Git {
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns what git prints.
    pub fn ask(&self, arguments: &[&OsStr]) -> Result<Vec<u8>> {
        self.ask_with(arguments, Vec::new())
    }

    /// Returns what git prints for this input.
    pub fn ask_with(&self, arguments: &[&OsStr], input: Vec<u8>) -> Result<Vec<u8>> {
        let failed = |why: &dyn std::fmt::Display| {
            let command = arguments.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            Error::new(Kind::Internal, format!("git {command}: {why}"))
        };
        let missing = || Error::not_found("git is not on the PATH");
        let mut child = Command::new(poste_run::find_outside("git", &self.folder).ok_or_else(missing)?)
            .arg("-C")
            .arg(&self.folder)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => missing(),
                _ => failed(&error),
            })?;
        // Write in a thread: git may print before it has read everything.
        let stdin = child.stdin.take();
        let writer = std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&input)));
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        let _ = writer.join();
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(failed(&String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// The path that git prints.
    pub fn path(&self, arguments: &[&str]) -> Result<PathBuf> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut answer = self.ask(&arguments)?;
        if answer.last() == Some(&b'\n') {
            answer.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(answer)))
    }

    pub fn top(folder: &Path) -> Result<PathBuf> {
        let found = Self::in_folder(folder).path(&["rev-parse", "--show-toplevel"]);
        found.map_err(|error| match error.kind {
            Kind::Internal => {
                Error::not_found(format!("{} is not in a git worktree", folder.display())).cause(error.message)
            }
            _ => error,
        })
    }
}

/// A change of one path, as printed by `--raw -z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub path: Vec<u8>,
    /// The path is, or was, a submodule.
    pub is_module: bool,
}

const MODULE: &str = "160000";

/// Parses `:MODE MODE ID ID STATUS NUL PATH NUL …`; a merge has one more colon, mode and id for each parent.
pub fn changes(raw: &[u8]) -> Result<Vec<Change>> {
    let odd = || Error::new(Kind::Internal, "git printed changes in an unknown format");
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

/// An argument for git, from bytes.
pub fn word(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_any_bytes_in_their_paths_are_parsed() {
        let raw = b":100644 100644 aa bb M\0a b\nc\0:000000 160000 00 cc A\0vendor/\xff\0::100644 100644 100644 a b c MM\0m\0";
        let found = changes(raw).unwrap();
        let expected: [(&[u8], bool); 3] = [(b"a b\nc", false), (b"vendor/\xff", true), (b"m", false)];
        assert_eq!(found, expected.map(|(path, is_module)| Change { path: path.to_vec(), is_module }));
        assert!(changes(b"").unwrap().is_empty());
        assert!(changes(b"100644 M\0a\0").is_err());
        assert!(changes(b":100644 100644 aa bb M\0").is_ok_and(|found| found[0].path.is_empty()));
    }
}
