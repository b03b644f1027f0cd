//! Signals as a shell passes them on in the foreground.
//!
//! A process started in the background of a script ignores SIGINT, one below `nohup` ignores SIGHUP, and so does
//! everything they start. A test that interrupts its own program must not depend on how the test was started.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Whatever this process starts from now on ignores none of these signals, while this process itself is unaffected: a
/// handled signal is reset to its default in a new program, but an ignored one stays ignored.
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
