//! Progress of long work, for display.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in a few words.
    pub what: &'static str,
    pub done: u64,
    /// 0: the total is unknown.
    pub of: u64,
}

impl Progress {
    pub fn begin(what: &'static str) -> Self {
        Self { what, done: 0, of: 0 }
    }
}
