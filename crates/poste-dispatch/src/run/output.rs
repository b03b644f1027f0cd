//! The output of a run, as kept in its folder.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use poste_core::Error;
use poste_core::office::Office;
use poste_core::text::Session;
use poste_core::views;

use super::folder::RunFolder;

/// Maximum number of bytes read at once.
const BYTES_MAX: u64 = 16 << 20;

/// Both streams, from their beginning or from where the last call ended.
#[derive(Debug)]
pub struct Output {
    folder: RunFolder,
    at: u64,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

impl Output {
    pub fn of(office: &Office, run: &Session) -> Result<Self, Error> {
        Ok(Self { folder: RunFolder::of(office.path()?, run), at: 0, rest: Vec::new() })
    }

    /// All of it.
    pub fn text(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.folder.open_output()?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The lines since the last call, and whether the run has ended.
    pub fn follow(&mut self, office: &Office) -> Result<(String, bool), Error> {
        // Checked before reading, so that everything printed before the end is read.
        let is_over = views::run(office.store(), &self.folder.run)?.is_none_or(|run| run.how.is_some());
        self.read_on().map_err(|error| Error::io(&self.folder.output(), error))?;
        // Half a character would be shown as invalid.
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let end = if is_over { self.rest.len() } else { whole };
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        Ok((String::from_utf8_lossy(&lines).into_owned(), is_over))
    }

    fn read_on(&mut self) -> io::Result<()> {
        let mut file = match self.folder.open_output() {
            Ok(file) => file,
            // Nothing was printed yet.
            Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // A file that became shorter is read from its beginning.
        if file.metadata()?.len() < self.at {
            self.at = 0;
        }
        file.seek(SeekFrom::Start(self.at))?;
        self.at += file.take(BYTES_MAX).read_to_end(&mut self.rest)? as u64;
        Ok(())
    }
}
