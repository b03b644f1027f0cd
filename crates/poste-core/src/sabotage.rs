//! Faults built in on purpose, to prove that the torture test notices them (`cargo xtask torture --bite`).
//!
//! None of this is in an ordinary build: without the feature `sabotage`, [`sabotaged!`] is the constant `false`. With
//! it, `POSTE_SABOTAGE` names the one fault of a process.

/// Whether this process has the fault.
macro_rules! sabotaged {
    ($name:ident) => {{
        #[cfg(feature = "sabotage")]
        let is = crate::sabotage::is(crate::sabotage::Sabotage::$name);
        #[cfg(not(feature = "sabotage"))]
        let is = false;
        is
    }};
}

#[cfg(feature = "sabotage")]
macro_rules! sabotages {
    ($($name:ident = $word:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Sabotage {
            $($name),*
        }

        fn named(word: &str) -> Option<Sabotage> {
            match word {
                $($word => Some(Sabotage::$name),)*
                _ => None,
            }
        }
    };
}

#[cfg(feature = "sabotage")]
sabotages! {
    SynchronousNormal = "synchronous-normal",
    OkBeforeCommit = "ok-before-commit",
    CommitErrorIgnored = "commit-error-ignored",
    NoDedupe = "no-dedupe",
    TokenUnchecked = "token-unchecked",
    ClockInFold = "clock-in-fold",
    OrderOfAMap = "order-of-a-map",
    BlobAfterRecord = "blob-after-record",
    BlobUnsynced = "blob-unsynced",
    BlobFolderUnsynced = "blob-folder-unsynced",
    ArchiveUnsynced = "archive-unsynced",
    WalNotErased = "wal-not-erased",
    BellBeforeCommit = "bell-before-commit",
    LostTick = "lost-tick",
    CursorOutsideTransaction = "cursor-outside-transaction",
    LockNotTaken = "lock-not-taken",
    ContentUnchecked = "content-unchecked",
    TablesUnchecked = "tables-unchecked",
    IdentityUnchecked = "identity-unchecked",
    TimeBackwards = "time-backwards",
    LeapTaken = "leap-taken",
    VersionUnchecked = "version-unchecked",
    MigrationInPieces = "migration-in-pieces",
    NoCheckpoint = "no-checkpoint",
    OfficeMadeAnew = "office-made-anew",
    RoomUnchecked = "room-unchecked",
}

#[cfg(feature = "sabotage")]
pub(crate) fn is(sabotage: Sabotage) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Sabotage>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let word = std::env::var("POSTE_SABOTAGE").ok().filter(|word| !word.is_empty())?;
        // A misspelt fault would look like one that the test does not notice.
        Some(named(&word).unwrap_or_else(|| panic!("unknown sabotage {word}")))
    });
    *chosen == Some(sabotage)
}

/// What a fold that reads the clock would add: a different number on every run.
#[cfg(feature = "sabotage")]
pub(crate) fn clock_in_fold_ms() -> i64 {
    if !is(Sabotage::ClockInFold) {
        return 0;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::from(since.subsec_micros())
}

/// The order in which a map would return these: a different one in every process.
#[cfg(feature = "sabotage")]
pub(crate) fn in_order_of_a_map<T: Eq + std::hash::Hash>(items: Vec<T>) -> Vec<T> {
    if !is(Sabotage::OrderOfAMap) {
        return items;
    }
    items.into_iter().collect::<std::collections::HashSet<_>>().into_iter().collect()
}
