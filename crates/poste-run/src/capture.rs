//! Output in bounded memory: its beginning, its end, and its total length.

use std::collections::VecDeque;

/// How much of each stream is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    pub head: usize,
    pub tail: usize,
}

impl Default for Keep {
    /// Enough for a person to read about a failed check.
    fn default() -> Self {
        Self { head: 16 * 1024, tail: 48 * 1024 }
    }
}

/// The kept part of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Number of bytes written, kept or not.
    pub total: u64,
}

impl Captured {
    pub(crate) fn push(&mut self, keep: Keep, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = keep.head - self.head.len().min(keep.head);
        let first = bytes.len().min(room);
        self.head.extend_from_slice(&bytes[..first]);
        bytes = &bytes[first..];
        if bytes.len() >= keep.tail {
            self.tail.clear();
            bytes = &bytes[bytes.len() - keep.tail..];
        }
        let excess = (self.tail.len() + bytes.len()).saturating_sub(keep.tail);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    /// Number of bytes between beginning and end that were not kept.
    pub fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The kept bytes, without a mark for what was left out.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        bytes.extend(&self.tail);
        bytes
    }

    /// The kept bytes, with a line in place of what was left out.
    pub(crate) fn with_gap(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.left_out() > 0 {
            bytes.extend(format!("\n[… {} bytes left out …]\n", self.left_out()).as_bytes());
        }
        bytes.extend(&self.tail);
        bytes
    }

    /// For people: invalid UTF-8 becomes a replacement character, and a line stands in place of what was left out.
    pub fn text(&self) -> String {
        if self.left_out() == 0 {
            return String::from_utf8_lossy(&self.bytes()).into_owned();
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        format!(
            "{}\n[… {} bytes left out …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.left_out(),
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Keep = Keep { head: 3, tail: 4 };

    fn captured(pieces: &[&[u8]]) -> Captured {
        let mut captured = Captured::default();
        for piece in pieces {
            captured.push(KEEP, piece);
            assert!(captured.head.len() <= KEEP.head && captured.tail.len() <= KEEP.tail);
        }
        captured
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let all = captured(&[b"ab", b"cdef", b"g"]);
        assert_eq!((all.bytes(), all.left_out()), (b"abcdefg".to_vec(), 0));
        assert_eq!(all.text(), "abcdefg");
    }

    #[test]
    fn beginning_and_end_are_kept_for_any_chunk_size() {
        let whole: Vec<u8> = (b'a'..=b'z').collect();
        for step in 1..=whole.len() {
            let pieces: Vec<&[u8]> = whole.chunks(step).collect();
            let some = captured(&pieces);
            assert_eq!((some.bytes(), some.total, some.left_out()), (b"abcwxyz".to_vec(), 26, 19), "{step} at a time");
        }
        assert_eq!(captured(&[&whole]).text(), "abc\n[… 19 bytes left out …]\nwxyz");
    }

    #[test]
    fn invalid_utf8_is_kept() {
        let raw = captured(&[b"\xff\x00", b"\xc3"]);
        assert_eq!(raw.bytes(), b"\xff\x00\xc3");
        assert_eq!(raw.text(), "\u{fffd}\0\u{fffd}");
    }
}
