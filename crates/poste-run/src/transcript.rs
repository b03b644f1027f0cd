//! The output of a command, in a file that can be read at any time and never grows beyond a limit.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::capture::{Captured, Keep};
use crate::files;

/// Where output goes, and how much of it is kept: all of it at first; once there is too much, its beginning and its
/// end.
#[derive(Debug, Clone)]
pub struct TranscriptFile {
    pub path: PathBuf,
    pub keep: Keep,
    /// The file never grows larger than this plus what is kept.
    pub max: usize,
}

#[derive(Debug)]
pub(crate) struct Transcript {
    to: TranscriptFile,
    file: Option<File>,
    length: usize,
    captured: Captured,
    failed: Option<io::Error>,
}

impl Transcript {
    pub(crate) fn create(to: &TranscriptFile) -> io::Result<Self> {
        let file = files::create(&to.path)?;
        Ok(Self { to: to.clone(), file: Some(file), length: 0, captured: Captured::default(), failed: None })
    }

    /// A write error, for example on a full disk, does not stop the command.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.captured.push(self.to.keep, bytes);
        let Some(file) = &mut self.file else { return };
        let written = if self.length + bytes.len() <= self.to.max {
            file.write_all(bytes).map(|()| self.length + bytes.len())
        } else {
            self.rewrite()
        };
        match written {
            Ok(length) => self.length = length,
            Err(failed) => {
                self.failed = Some(failed);
                self.file = None;
            }
        }
    }

    /// Replaces the file's content with the beginning and the end of the output.
    fn rewrite(&mut self) -> io::Result<usize> {
        let fresh = self.to.path.with_extension("new");
        let text = self.captured.with_gap();
        let mut file = files::create(&fresh)?;
        file.write_all(&text)?;
        files::replace(&fresh, &self.to.path)?;
        self.file = Some(file);
        Ok(text.len())
    }

    pub(crate) fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_end_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let to = TranscriptFile { path: folder.path().join("output"), keep: Keep { head: 10, tail: 20 }, max: 200 };
        let mut transcript = Transcript::create(&to).unwrap();
        let mut largest = 0;
        for number in 0..2_000 {
            transcript.push(format!("{number:04} ").as_bytes());
            largest = largest.max(std::fs::metadata(&to.path).unwrap().len());
        }
        assert!(largest <= 200, "{largest}");
        let text = std::fs::read_to_string(&to.path).unwrap();
        assert!(text.starts_with("0000 0001 \n[… ") && text.ends_with("1998 1999 "), "{text}");
        assert!(transcript.failed().is_none());
    }

    #[test]
    fn a_write_error_does_not_stop_the_command() {
        let to = TranscriptFile { path: PathBuf::from("never-opened"), keep: Keep::default(), max: 1 << 20 };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut transcript =
            Transcript { to, file: Some(full), length: 0, captured: Captured::default(), failed: None };
        transcript.push(b"one");
        transcript.push(b"two");
        assert_eq!(transcript.failed().map(|failed| failed.kind()), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn a_pipe_or_folder_in_its_place_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let to = TranscriptFile { path: folder.path().join("output"), keep: Keep { head: 10, tail: 20 }, max: 100 };
        let mut transcript = Transcript::create(&to).unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("output.new")).status().unwrap();
        assert!(made.success());
        std::fs::remove_file(&to.path).unwrap();
        std::fs::create_dir(&to.path).unwrap();
        for _ in 0..40 {
            transcript.push(b"0123456789");
        }
        assert!(transcript.failed().is_none());
        assert!(std::fs::metadata(&to.path).unwrap().is_file());
    }
}
