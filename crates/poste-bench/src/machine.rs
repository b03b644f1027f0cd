//! The machine that a number was measured on. Without it, a number means nothing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::Result;
use crate::sample::{Action, in_turns, timed};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_mb: u64,
    pub kernel: String,
    pub file_system: String,
    /// Half of all 512-byte appends with fdatasync took no longer than this.
    pub fdatasync_p50_us: f64,
    pub load_before: String,
    pub load_after: String,
}

impl Machine {
    pub(crate) fn look(folder: &Path) -> Result<Self> {
        let uname = rustix::system::uname();
        let field = |file: &str, name: &str| -> Option<String> {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory_kb: u64 = field("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .unwrap_or(0);
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            memory_mb: memory_kb / 1024,
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            file_system: file_system(folder),
            fdatasync_p50_us: fdatasync_p50_us(folder)?,
            load_before: load(),
            load_after: String::new(),
        })
    }
}

/// The load averages over 1, 5 and 15 minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The file system type of a folder's mount.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let on = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.nth(1)?, words.next()?))
        })
        .filter(|(mount, _)| folder.starts_with(mount))
        .max_by_key(|(mount, _)| mount.len());
    on.map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn fdatasync_p50_us(folder: &Path) -> Result<f64> {
    let path = folder.join("fdatasync.bin");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let append: Action<'_> = Box::new(|| {
        timed(|| {
            file.write_all(&[b'x'; 512])?;
            Ok(file.sync_data()?)
        })
    });
    let sample = in_turns(200, &mut [append])?;
    fs::remove_file(&path)?;
    Ok(sample[0].median_us())
}
