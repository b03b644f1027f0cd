//! Signals as a shell in the foreground would hand them on.
//!
//! A process that was started in the background of a script ignores SIGINT, one below `nohup` SIGHUP, and so does everything
//! they start. A test that interrupts a program of its own must not depend on how the test was started.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Whatever this process starts from now on ignores none of these, while this process itself goes on as it was: a signal that
/// has a handler is back at its default in a new program, one that is ignored stays ignored.
///
/// # Panics
/// If the system refuses a handler.
pub fn ignored_by_nobody_started() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
        let ignored = u64::from_str_radix(mask.trim(), 16).unwrap_or(0);
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
            if ignored >> (signal - 1) & 1 == 1 {
                let came = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(signal, came).expect("a handler for a signal");
            }
        }
    });
}
