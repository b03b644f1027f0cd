//! Handing over a thousand files: it should take as long as copying, syncing and hashing them, in bounded memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use poste_core::store::artifact::Worktree;

use crate::children::peak_kb;
use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report};
use crate::{Bench, Result, succeed};

const GROUP: &str = "Handoffs";
const FILES: usize = 1_000;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let file_bytes = if bench.short { 4 * 1024 } else { 1024 * 1024 + 49 * 1024 };
    let tree = folder.join("tree");
    write_tree(&tree, file_bytes)?;
    let office = folder.join(".poste");
    drop(create(&office, [WRITER, READER])?);
    let tree_text = tree.to_str().ok_or("the folder has no UTF-8 name")?;
    let offer = ["handoff", "create", READER, "--task", "Take it over", "--artifact", tree_text];
    // In turns, so that both find the disk in the same condition.
    let (mut copied, mut handed) = (Vec::new(), Vec::new());
    for round in 0..if bench.short { 1 } else { 3 } {
        copied.push(copy_and_hash(&tree, &folder.join(format!("copy-{round}")))?);
        handed.push(timed(|| succeed(bench.poste(&office, WRITER, &offer).current_dir(folder)))?);
    }
    let (copied, handed) = (median(copied), median(handed));
    let bytes = FILES * file_bytes;
    report.add(
        Line::new(GROUP, format!("{FILES} files, against cp -r, sync and hash"), handed / copied, "×")
            .aim(Aim::AtMost(2.0))
            .detail(format!("{handed:.2} s, and {copied:.2} s for the same {} MiB", bytes / (1024 * 1024))),
    );
    let peak = peak_kb(bench.poste(&office, WRITER, &offer).current_dir(folder))? as f64 / 1024.0;
    report.add(
        Line::new(GROUP, "the peak of handing them over", peak, "MB")
            .aim(Aim::AtMost(40.0))
            .detail(format!("{FILES} files of {} KiB", file_bytes / 1024)),
    );
    Ok(())
}

/// Distinct files, in folders of a hundred, with content that cannot be compressed.
fn write_tree(tree: &Path, file_bytes: usize) -> Result {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0_u8; file_bytes];
    for number in 0..FILES {
        for chunk in bytes.chunks_mut(8) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        let folder = tree.join(format!("part-{}", number / 100));
        fs::create_dir_all(&folder)?;
        File::create(folder.join(format!("file-{number}.bin")))?.write_all(&bytes)?;
    }
    rustix::fs::syncfs(File::open(tree)?)?;
    Ok(())
}

/// What people would do by hand to get a durable copy with known content.
fn copy_and_hash(tree: &Path, copy: &Path) -> Result<f64> {
    let took = timed(|| {
        succeed(Command::new("cp").arg("-r").arg(tree).arg(copy))?;
        rustix::fs::syncfs(File::open(copy)?)?;
        let copied = Worktree::open(copy)?;
        for number in 0..FILES {
            let path = format!("part-{}/file-{number}.bin", number / 100);
            copied.present(copied.root(), Path::new(&path))?;
        }
        Ok(())
    })?;
    fs::remove_dir_all(copy)?;
    Ok(took)
}

fn timed(work: impl FnOnce() -> Result) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(Duration::as_secs_f64(&started.elapsed()))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
