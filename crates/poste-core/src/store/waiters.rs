//! A bell per waiter: a FIFO in the office's folder `waiters/`, whose name says what wakes it.
//!
//! After a commit, the writer reads the names and writes a byte into the FIFO of every waiter that the commit concerns.
//! No other waiter wakes, and a hundred of them cost the writer one directory listing.
//!
//! A ring is a shortcut, not a guarantee: a writer may die between commit and ring. So every waiter also checks
//! `data_version` now and then. Nothing here is state, and the folder may be deleted at any time.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Folder;
use super::interest::Touched;
use super::tables::{Concern, Concerns};

/// The folder of the waiters.
pub(crate) const FOLDER: &str = "waiters";

/// How often a waiter with a FIFO looks anyway. A lost ring delays news by at most this long.
const BACKSTOP_PERIOD: Duration = Duration::from_millis(BACKSTOP_MS.unsigned_abs());
pub(crate) const BACKSTOP_MS: i64 = 5_000;
/// How often a waiter without a FIFO looks.
const POLL_PERIOD: Duration = Duration::from_millis(40);

/// No more names than this are read: a full folder delays waiters, never a writer.
const NAMES_MAX: usize = 4_096;
/// A FIFO gets its final name once it has a reader. One without it is abandoned after this time.
const UNNAMED_AGE_MAX: Duration = Duration::from_secs(60);

/// Separates the parts of a name: `ID.INTEREST`.
const DOT: u8 = b'.';
/// Suffix of a FIFO that has no reader yet.
const UNNAMED: &str = ".new";

const OPEN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Wakes waiters without a commit, after a change outside the log that ends their wait.
pub fn wake(office: &Path, concern: Concern) {
    if let Ok(office) = Folder::open(office) {
        ring(&office, &[concern].into_iter().collect(), 0);
    }
}

/// Wakes the waiters that are concerned. This neither fails nor blocks, whatever is in the folder.
///
/// `turn` selects one of the other FIFOs to check as well: a killed waiter leaves its FIFO behind, and the event it
/// waited for may never happen.
pub(super) fn ring(office: &Folder, concerns: &Concerns, turn: u64) {
    let Ok(folder) = office.below(FOLDER) else { return };
    let Ok(listing) = Dir::read_from(&folder) else { return };
    let touched = Touched::by(concerns);
    let mut others = Vec::new();
    for entry in listing.take(NAMES_MAX).flatten() {
        // Some file systems do not report the type; opening the file then shows what it is.
        if !matches!(entry.file_type(), FileType::Fifo | FileType::Unknown) {
            continue;
        }
        let name = entry.file_name();
        let interest = name.to_bytes().splitn(2, |byte| *byte == DOT).nth(1);
        if interest.is_some_and(|interest| touched.meets(interest)) {
            ring_one(&folder, name);
        } else {
            others.push(name.to_owned());
        }
    }
    if let Some(other) = usize::try_from(turn).ok().and_then(|turn| others.get(turn.checked_rem(others.len())?)) {
        clear_if_dead(&folder, other);
    }
}

fn ring_one(folder: &Folder, name: &std::ffi::CStr) {
    match rustix::fs::openat(folder, name, OFlags::WRONLY | OPEN, Mode::empty()) {
        // A full FIFO was rung often enough. If the waiter has just died, the next writer removes its FIFO.
        Ok(fifo) if rustix::fs::fstat(&fifo).is_ok_and(|stat| is_ours(&stat)) => {
            let _ = rustix::io::write(&fifo, b"!");
        }
        Err(Errno::NXIO) => clear(folder, name),
        _ => {}
    }
}

fn clear_if_dead(folder: &Folder, name: &std::ffi::CStr) {
    if let Err(Errno::NXIO) = rustix::fs::openat(folder, name, OFlags::WRONLY | OPEN, Mode::empty()) {
        clear(folder, name);
    }
}

/// Removes a FIFO without a reader. Unless it is new, its only reader has ended.
fn clear(folder: &Folder, name: &std::ffi::CStr) {
    let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_new = name.to_bytes().ends_with(UNNAMED.as_bytes()) && !is_old(&stat);
    if is_ours(&stat) && !is_new {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

fn is_ours(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Fifo && stat.st_uid == rustix::process::geteuid().as_raw()
}

/// By the machine's clock. A time in the future counts as old, because such a FIFO would otherwise never be removed.
fn is_old(stat: &Stat) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    #[allow(clippy::useless_conversion, reason = "its type depends on the system")]
    let age = i64::try_from(stat.st_mtime).map_or(i64::MAX, |made| now.saturating_sub(made));
    !(0..=UNNAMED_AGE_MAX.as_secs().cast_signed()).contains(&age)
}

/// One waiter of an office. It must listen before it first looks, or it misses the first event.
#[derive(Debug)]
pub(crate) struct Waiter {
    office: Folder,
    /// `None` if it cannot be rung, in which case it polls.
    fifo: Option<Fifo>,
}

impl Waiter {
    pub(crate) fn new(office: &Folder) -> Self {
        Self { office: office.clone(), fifo: None }
    }

    /// From here on it is rung for this interest. The caller must look after this call to see earlier commits.
    pub(crate) fn listen(&mut self, interest: &str) {
        if let Some(fifo) = self.fifo.as_mut().filter(|fifo| !fifo.is_gone())
            && fifo.rename(interest).is_ok()
        {
            return;
        }
        // The old FIFO goes first: a waiter with two would be rung twice.
        self.fifo = None;
        self.fifo = Fifo::make(&self.office, interest).ok();
    }

    /// Whether its FIFO was removed, so that it has to listen again.
    pub(crate) fn is_deaf(&self) -> bool {
        self.fifo.as_ref().is_some_and(Fifo::is_gone)
    }

    /// Returns when it is rung or interrupted, when it is time to look anyway, or after `at_most`.
    pub(crate) fn pause(&self, at_most: Duration, interrupt: Option<&Interrupt>) {
        let fifo = self.fifo.as_ref().map(|fifo| fifo.reader.as_fd());
        let interrupted = interrupt.and_then(Interrupt::fd);
        let is_told = fifo.is_some() && (interrupt.is_none() || interrupted.is_some());
        let period = if is_told { BACKSTOP_PERIOD } else { POLL_PERIOD };
        // Several rings are one reason to look.
        if wait(fifo, interrupted, at_most.min(period))
            && let Some(fifo) = fifo
        {
            let mut rings = [0_u8; 4_096];
            while rustix::io::read(fifo, &mut rings).is_ok_and(|bytes| bytes == rings.len()) {}
        }
    }
}

/// Waits for one of two descriptors and returns whether the first one is ready.
fn wait(first: Option<BorrowedFd<'_>>, second: Option<BorrowedFd<'_>>, at_most: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    let mut polled: Vec<PollFd<'_>> =
        [first, second].into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let is_ready = poll(&mut polled, Some(&timeout)).is_ok();
    is_ready && first.is_some() && polled[0].revents().contains(PollFlags::IN)
}

/// The FIFO of a waiter. Dropping it removes its name.
#[derive(Debug)]
struct Fifo {
    folder: Folder,
    id: String,
    name: String,
    reader: OwnedFd,
    /// Keeps a writer open, because otherwise `poll` would keep reporting that the last writer has closed.
    _writer: OwnedFd,
}

impl Fifo {
    /// The final name appears once there is a reader, so a FIFO with such a name and no reader belongs to a dead
    /// waiter.
    #[cfg(target_os = "linux")]
    fn make(office: &Folder, interest: &str) -> io::Result<Self> {
        let folder = office.make(FOLDER)?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{id}{UNNAMED}");
        rustix::fs::mkfifoat(&folder, &name, Mode::RUSR | Mode::WUSR)?;
        let open = |access| rustix::fs::openat(&folder, &name, access | OPEN, Mode::empty());
        let ends = open(OFlags::RDONLY).and_then(|reader| Ok((reader, open(OFlags::WRONLY)?)));
        let (reader, writer) = match ends {
            Ok(ends) => ends,
            Err(error) => {
                let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
                return Err(error.into());
            }
        };
        let mut fifo = Self { folder, id, name, reader, _writer: writer };
        fifo.rename(interest)?;
        Ok(fifo)
    }

    #[cfg(not(target_os = "linux"))]
    fn make(_: &Folder, _: &str) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&mut self, interest: &str) -> rustix::io::Result<()> {
        let name = format!("{}.{interest}", self.id);
        if name != self.name {
            rustix::fs::renameat(&self.folder, &self.name, &self.folder, &name)?;
            self.name = name;
        }
        Ok(())
    }

    fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.reader).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Ends a wait from another thread. Once raised, it stays raised.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Raised>);

#[derive(Debug)]
struct Raised {
    is_raised: AtomicBool,
    /// Readable once it is raised. `None` if the system has no descriptors left, in which case waiters poll.
    ends: Option<(PipeReader, PipeWriter)>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self(Arc::new(Raised { is_raised: AtomicBool::new(false), ends: io::pipe().ok() }))
    }
}

impl Interrupt {
    pub fn raise(&self) {
        if !self.0.is_raised.swap(true, Ordering::SeqCst)
            && let Some((_, writer)) = &self.0.ends
        {
            let mut writer = writer;
            let _ = writer.write(b"!");
        }
    }

    pub fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::SeqCst)
    }

    /// For code that polls whether to continue.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.is_raised
    }

    /// Sleeps until it is raised, or for `at_most`.
    pub fn sleep(&self, at_most: Duration) {
        match self.fd() {
            Some(fd) => {
                wait(Some(fd), None, at_most);
            }
            None if self.is_raised() => {}
            None => {
                wait(None, None, at_most.min(POLL_PERIOD));
            }
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.ends.as_ref().map(|(reader, _)| reader.as_fd())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Instant;

    use super::*;
    use crate::log::MessageNo;
    use crate::store::interest::Interest;

    struct Office(tempfile::TempDir);

    impl Office {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn open(&self) -> Folder {
            Folder::open(self.path()).unwrap()
        }

        fn folder(&self) -> std::path::PathBuf {
            self.path().join(FOLDER)
        }

        fn waiter(&self, concern: Concern) -> Waiter {
            let mut waiter = Waiter::new(&self.open());
            waiter.listen(&word(concern));
            assert!(waiter.fifo.is_some());
            waiter
        }

        fn names(&self) -> BTreeSet<String> {
            let names = fs::read_dir(self.folder()).into_iter().flatten().flatten();
            names.map(|entry| entry.file_name().into_string().unwrap()).collect()
        }

        /// A FIFO without a reader.
        fn fifo(&self, name: &str) {
            let folder = self.open().make(FOLDER).unwrap();
            rustix::fs::mkfifoat(&folder, name, Mode::RUSR | Mode::WUSR).unwrap();
        }
    }

    fn word(concern: Concern) -> String {
        Interest::from(concern).word([])
    }

    fn message(number: u64) -> Concern {
        Concern::Message(MessageNo(number))
    }

    fn is_rung(waiter: &Waiter) -> bool {
        wait(Some(waiter.fifo.as_ref().unwrap().reader.as_fd()), None, Duration::ZERO)
    }

    #[test]
    fn only_whoever_is_concerned_is_rung() {
        let office = Office::new();
        let (one, two) = (office.waiter(message(1)), office.waiter(message(2)));
        let mut all = Waiter::new(&office.open());
        all.listen(&Interest::everything().word([]));
        wake(office.path(), message(1));
        assert!(is_rung(&one) && !is_rung(&two) && is_rung(&all));
        one.pause(Duration::MAX, None);
        all.pause(Duration::MAX, None);
        assert!(!is_rung(&one) && !is_rung(&all), "one look answers it");
        ring(&office.open(), &Concerns::everything(), 0);
        assert!(is_rung(&one) && is_rung(&two) && is_rung(&all));
    }

    #[test]
    fn an_interest_that_changes_keeps_the_waiter_and_its_rings() {
        let office = Office::new();
        let mut waiter = office.waiter(message(1));
        wake(office.path(), message(1));
        waiter.listen(&word(message(2)));
        assert!(is_rung(&waiter), "what it was rung for before");
        waiter.pause(Duration::MAX, None);
        wake(office.path(), message(1));
        assert!(!is_rung(&waiter));
        wake(office.path(), message(2));
        assert!(is_rung(&waiter));
        assert_eq!(office.names().len(), 1);
        drop(waiter);
        assert_eq!(office.names().len(), 0);
    }

    #[test]
    fn folder_and_fifo_are_their_owner_s_alone() {
        let office = Office::new();
        let _waiter = office.waiter(message(1));
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&office.folder()), 0o700);
        let name = office.names().pop_first().unwrap();
        assert_eq!(mode(&office.folder().join(name)), 0o600);
    }

    #[test]
    fn whoever_would_ring_a_dead_waiter_clears_it_away() {
        let office = Office::new();
        office.fifo(&format!("dead.{}", word(message(1))));
        let live = office.waiter(message(2));
        wake(office.path(), message(1));
        assert_eq!(office.names().len(), 1);
        assert!(!is_rung(&live));
    }

    #[test]
    fn dead_waiters_are_cleared_away_in_turn_also_if_nobody_would_ring_them() {
        let office = Office::new();
        for nth in 0..20 {
            office.fifo(&format!("dead{nth}.{}", word(message(nth))));
        }
        let live: Vec<Waiter> = (0..5).map(|nth| office.waiter(message(100 + nth))).collect();
        (0..200).for_each(|turn| ring(&office.open(), &[Concern::Policy].into_iter().collect(), turn));
        assert_eq!(office.names().len(), live.len());
        assert!(live.iter().all(|waiter| !is_rung(waiter) && !waiter.is_deaf()));
    }

    #[test]
    fn a_fifo_without_a_reader_yet_is_left_alone_for_a_while() {
        let office = Office::new();
        office.fifo("young.new");
        office.fifo("old.new");
        let hour = Duration::from_secs(3_600);
        let then = std::time::SystemTime::now() - hour;
        let times = then.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let stamp = Timespec { tv_sec: times.as_secs().cast_signed(), tv_nsec: 0 };
        let stamps = rustix::fs::Timestamps { last_access: stamp, last_modification: stamp };
        let folder = office.open().below(FOLDER).unwrap();
        rustix::fs::utimensat(&folder, "old.new", &stamps, AtFlags::empty()).unwrap();
        (0..4).for_each(|turn| ring(&office.open(), &Concerns::everything(), turn));
        (0..4).for_each(|turn| ring(&office.open(), &Concerns::default(), turn));
        assert_eq!(office.names(), ["young.new".to_owned()].into());
    }

    #[test]
    fn nothing_that_lies_in_the_folder_stops_or_misleads_a_writer() {
        let office = Office::new();
        let waiter = office.waiter(message(1));
        let folder = office.folder();
        let aim = office.path().join("aim");
        fs::write(&aim, "mail").unwrap();
        let pipe = office.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let named = |kind: &str| folder.join(format!("{kind}.{}", word(message(1))));
        fs::write(named("file"), "mine").unwrap();
        fs::create_dir(named("folder")).unwrap();
        symlink(&aim, named("link")).unwrap();
        symlink(&pipe, named("piped")).unwrap();
        symlink(folder.join("nowhere"), named("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(named("socket")).unwrap();
        fs::write(folder.join("no-dot"), "").unwrap();
        let before = office.names();
        for turn in 0..50 {
            wake(office.path(), message(1));
            ring(&office.open(), &Concerns::everything(), turn);
        }
        assert!(is_rung(&waiter));
        assert_eq!(office.names(), before);
        assert_eq!(fs::read_to_string(named("file")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(&aim).unwrap(), "mail");
    }

    #[test]
    fn a_crowded_folder_costs_a_writer_a_bounded_look() {
        let office = Office::new();
        let waiter = office.waiter(Concern::Policy);
        for nth in 0..2 * NAMES_MAX {
            fs::write(office.folder().join(format!("{nth}.{}", word(message(1)))), "").unwrap();
        }
        wake(office.path(), message(1));
        ring(&office.open(), &Concerns::everything(), 7);
        assert_eq!(office.names().len(), 2 * NAMES_MAX + 1);
        assert!(!waiter.is_deaf());
    }

    #[test]
    fn a_waiter_that_never_looks_does_not_stop_a_writer() {
        let office = Office::new();
        let waiter = office.waiter(message(1));
        // More than a FIFO can hold.
        let full = vec![b'!'; 1 << 20];
        let writer = rustix::fs::open(
            office.folder().join(office.names().pop_first().unwrap()),
            OFlags::WRONLY | OPEN,
            Mode::empty(),
        );
        let writer = writer.unwrap();
        while rustix::io::write(&writer, &full).is_ok() {}
        wake(office.path(), message(1));
        assert!(is_rung(&waiter));
        waiter.pause(Duration::MAX, None);
        assert!(!is_rung(&waiter));
    }

    #[test]
    fn a_folder_that_is_none_makes_waiters_look_often() {
        for make in [
            |path: &Path| fs::write(path, "").unwrap(),
            |path: &Path| symlink(std::env::temp_dir(), path).unwrap(),
            |path: &Path| symlink("nowhere", path).unwrap(),
        ] {
            let office = Office::new();
            make(&office.folder());
            let mut waiter = Waiter::new(&office.open());
            waiter.listen(&word(message(1)));
            assert!(waiter.fifo.is_none() && !waiter.is_deaf());
            wake(office.path(), message(1));
            let started = Instant::now();
            waiter.pause(Duration::MAX, None);
            assert!(started.elapsed() >= POLL_PERIOD);
        }
    }

    #[test]
    fn a_waiter_whose_fifo_was_removed_knows_it_and_gets_another() {
        let office = Office::new();
        let mut waiter = office.waiter(message(1));
        assert!(!waiter.is_deaf());
        fs::remove_dir_all(office.folder()).unwrap();
        assert!(waiter.is_deaf());
        waiter.listen(&word(message(1)));
        assert!(!waiter.is_deaf());
        wake(office.path(), message(1));
        assert!(is_rung(&waiter));
    }

    #[test]
    fn an_interrupt_ends_a_pause_also_if_it_was_raised_before() {
        let office = Office::new();
        let waiter = office.waiter(message(1));
        let interrupt = Interrupt::default();
        let other = interrupt.clone();
        let raiser = std::thread::spawn(move || other.raise());
        while !interrupt.is_raised() {
            waiter.pause(Duration::MAX, Some(&interrupt));
        }
        raiser.join().unwrap();
        waiter.pause(Duration::MAX, Some(&interrupt));
        interrupt.sleep(Duration::MAX);
        interrupt.raise();
        assert!(interrupt.is_raised() && !is_rung(&waiter));
    }
}
