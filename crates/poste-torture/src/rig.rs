//! What every harness works with: the programs, the folders, the seed, and the tally of findings.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use poste_testkit::rng::Rng;

pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A sample, for every test run.
    Short,
    /// Everything.
    Full,
}

/// One program and its environment.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub path: PathBuf,
    pub env: Vec<(&'static str, String)>,
}

/// The programs of one kind: all sound, or all with the same sabotage.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub poste: Program,
    /// Knows one schema step more.
    pub next: Program,
}

impl Programs {
    /// From the folder that this program was built into: one build made them all.
    pub(crate) fn sound(folder: &Path) -> Self {
        let program = |name: &str| Program { path: folder.join(name), env: Vec::new() };
        Self { poste: program("poste"), next: program("poste-next") }
    }

    pub(crate) fn sabotaged(folder: &Path, sabotage: &str) -> Self {
        let program = |role: &str| Program {
            path: folder.join("poste-sabotaged"),
            env: vec![("POSTE_SABOTAGE", sabotage.to_owned()), ("POSTE_SABOTAGED_AS", role.to_owned())],
        };
        Self { poste: program("now"), next: program("next") }
    }
}

#[derive(Debug)]
pub(crate) struct Rig {
    /// Creates the offices that are tortured.
    pub sound: Programs,
    /// The programs that are tortured. They are the same, unless a sabotage is to be caught.
    pub tortured: Programs,
    /// Stop at the first violation, because a sabotage only has to be caught once.
    pub stops_early: bool,
    pub form: Form,
    pub seed: u64,
    /// For thousands of small folders: in memory, if the system has such a place.
    pub memory: PathBuf,
    /// For what needs a real disk.
    pub disk: PathBuf,
}

impl Rig {
    pub(crate) fn is_short(&self) -> bool {
        self.form == Form::Short
    }

    /// The first value in the short form, the second in the full one.
    pub(crate) fn pick<T>(&self, short: T, full: T) -> T {
        if self.is_short() { short } else { full }
    }

    /// A separate stream per harness, so that one does not shift another's choices.
    pub(crate) fn rng(&self, harness: &str) -> Rng {
        let name = blake3::hash(harness.as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&name.as_bytes()[..8]);
        Rng::new(self.seed ^ u64::from_le_bytes(bytes))
    }

    /// A sample of at most `most` items, in their order.
    pub(crate) fn sample<T>(rng: &mut Rng, mut items: Vec<T>, most: usize) -> Vec<T> {
        while items.len() > most {
            items.remove(rng.below(items.len()));
        }
        items
    }
}

/// What a harness did and found.
#[derive(Debug)]
pub(crate) struct Tally {
    pub points: AtomicU64,
    pub images: AtomicU64,
    violations: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
    stops_early: bool,
    bar: ProgressBar,
}

impl Tally {
    pub(crate) fn new(harness: &'static str, stops_early: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix:12} {pos} of {len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(harness);
        Self {
            points: AtomicU64::new(0),
            images: AtomicU64::new(0),
            violations: Mutex::default(),
            notes: Mutex::default(),
            stops_early,
            bar,
        }
    }

    /// Announces this many more points.
    pub(crate) fn expect(&self, points: usize) {
        self.bar.set_length(self.bar.length().unwrap_or(0) + points as u64);
    }

    pub(crate) fn point(&self) {
        self.points.fetch_add(1, Relaxed);
        self.bar.inc(1);
    }

    pub(crate) fn image(&self) {
        self.images.fetch_add(1, Relaxed);
        self.bar.inc(1);
    }

    pub(crate) fn violation(&self, text: String) {
        lock(&self.violations).push(text);
    }

    /// Adds a violation unless the condition holds.
    pub(crate) fn check(&self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violation(text());
        }
    }

    /// Adds a measured number to the report.
    pub(crate) fn note(&self, text: String) {
        lock(&self.notes).push(text);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }

    /// Whether there is no need to continue.
    pub(crate) fn is_enough(&self) -> bool {
        self.stops_early && !lock(&self.violations).is_empty()
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Does the work for every item, on several cores. A harness that cannot run at all is an error, not a violation.
pub(crate) fn on_every_core<T: Sync>(items: &[T], tally: &Tally, work: impl Fn(usize, &T) -> Result + Sync) -> Result {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().min(4));
    let next = AtomicUsize::new(0);
    let run = |core: usize| -> Result {
        while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
            if tally.is_enough() {
                break;
            }
            work(core, item)?;
        }
        Ok(())
    };
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || run(core))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err("a worker of the harness panicked".to_owned()),
        })
    })
}
