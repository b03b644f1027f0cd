//! Ctrl-C reaches poste but not the command, which has its own process group. So poste must end the command, and then
//! itself.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static HANDLERS: LazyLock<Result<Handlers, io::Error>> = LazyLock::new(Handlers::install);
static RUNNING: Mutex<usize> = Mutex::new(0);
static HANDLED_BY_PROCESS: AtomicBool = AtomicBool::new(false);

/// Declares that this process itself handles the signals that would end it: they then end neither its commands nor this
/// process. Call it before the first command runs, and stop commands through their watcher.
pub fn mark_signals_handled() {
    HANDLED_BY_PROCESS.store(true, Ordering::SeqCst);
}

#[derive(Debug)]
struct Handlers {
    /// No command is running: a signal has its default effect.
    idle: Arc<AtomicBool>,
    received: Arc<AtomicUsize>,
}

impl Handlers {
    fn install() -> Result<Self, io::Error> {
        let idle = Arc::new(AtomicBool::new(true));
        let received = Arc::new(AtomicUsize::new(0));
        for signal in ending_signals() {
            // The order matters: an idle process is ended before it can record the signal.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&idle))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize)?;
        }
        Ok(Self { idle, received })
    }
}

/// The signals that would end this process, without those it was started to ignore (`nohup`, a background job of a
/// script): those must stay ignored.
fn ending_signals() -> Vec<i32> {
    match std::fs::read_to_string("/proc/self/status").ok().as_deref().and_then(ignored) {
        Some(ignored) => {
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
        }
        // The mask is unknown, and SIGHUP is the one that is often ignored.
        None => vec![SIGINT, SIGTERM],
    }
}

/// The mask of ignored signals in `/proc/self/status`.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// While one of these exists, a signal that would end this process is held back.
#[derive(Debug)]
pub struct HeldBack {
    /// `None`: the process handles signals itself.
    handlers: Option<&'static Handlers>,
}

impl HeldBack {
    pub fn new() -> io::Result<Self> {
        if HANDLED_BY_PROCESS.load(Ordering::SeqCst) {
            return Ok(Self { handlers: None });
        }
        let handlers = HANDLERS.as_ref().map_err(|failed| io::Error::new(failed.kind(), failed.to_string()))?;
        let mut running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *running += 1;
        handlers.idle.store(false, Ordering::SeqCst);
        Ok(Self { handlers: Some(handlers) })
    }

    /// The signal received since, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.handlers?.received.load(Ordering::SeqCst) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

impl Drop for HeldBack {
    /// Dropping the last one delivers the signal that was held back.
    fn drop(&mut self) {
        let Some(handlers) = self.handlers else { return };
        let mut running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *running -= 1;
        if *running > 0 {
            return;
        }
        handlers.idle.store(true, Ordering::SeqCst);
        if let Some(signal) = self.signal() {
            handlers.received.store(0, Ordering::SeqCst);
            // If this fails, the run's result still says that it was interrupted.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("Name:\tposte\nSigIgn:\t0000000000001003\n"), Some(0x1003));
        assert_eq!(ignored("Name:\tposte\n"), None);
    }
}
