//! The exported folder of a handoff: complete or absent, and nothing outside of it is ever touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::artifact::FileProblem;
use super::aside::{self, Aside};
use super::blobs::{Blobs, Stored};
use super::folder;
use super::sync_folder;
use crate::error::Error;
use crate::log::Artifact;
use crate::progress::Progress;
use crate::text::is_path_below;

const UNFINISHED: &str = ".unfinished-";
const ARTIFACTS: &str = "artifacts";

/// Writes the texts and file copies of a package into a new folder.
pub fn export(
    into: &Path,
    office: &Path,
    texts: &[(&str, String)],
    artifacts: &[Artifact],
    blobs: &Blobs,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let refused = |message: &str| Error::Artifact { path: into.display().to_string(), fault: message.into() };
    let name = into.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| refused("a package needs a folder name, in UTF-8"))?;
    let parent = folder::parent(into);
    if folder::entry(into)?.is_some() {
        return Err(Error::Occupied(into.to_owned()));
    }
    if !folder::is_folder(parent) {
        return Err(refused("its parent folder does not exist"));
    }
    if aside::is_within(parent, office)? {
        return Err(refused("a package cannot be inside the office"));
    }
    let aside = Aside::begin(parent, &format!(".{name}{UNFINISHED}"))?;
    for (name, text) in texts {
        aside::write(&aside.path().join(name), text.as_bytes())?;
    }
    copy_files(&aside, artifacts, blobs, progress)?;
    aside.place(into)
}

fn copy_files(
    aside: &Aside,
    artifacts: &[Artifact],
    blobs: &Blobs,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let top = aside.folder(ARTIFACTS)?;
    let of = artifacts.iter().filter_map(|artifact| artifact.size).sum();
    let mut done = 0;
    let mut made = BTreeSet::new();
    let mut problems = Vec::new();
    for artifact in artifacts {
        let moved = |bytes| {
            done += bytes;
            progress(Progress { what: "copying files", done, of });
        };
        if let Err(what) = copy_file(&top, artifact, blobs, &mut made, moved)? {
            problems.push(FileProblem { path: artifact.path.clone(), what: what.into() });
        }
    }
    if !problems.is_empty() {
        return Err(Error::Artifacts(problems));
    }
    // Files are synced as they are written, but the names of nested folders are not.
    made.iter().try_for_each(|folder| sync_folder(folder))
}

/// Copies one file and compares the copy with what was handed over.
fn copy_file(
    top: &Path,
    artifact: &Artifact,
    blobs: &Blobs,
    made: &mut BTreeSet<PathBuf>,
    moved: impl FnMut(u64),
) -> Result<Result<(), &'static str>, Error> {
    // The fold refuses any other path, but writing to disk must not rely on that.
    if !is_path_below(&artifact.path) {
        return Ok(Err("its path leads out of the package"));
    }
    let (Some(digest), Some(size)) = (artifact.digest, artifact.size) else { return Ok(Err("it has no copy")) };
    let to = top.join(&artifact.path);
    let mut folder = top.to_owned();
    let above = Path::new(&artifact.path).parent().into_iter().flat_map(Path::components);
    for name in above {
        folder.push(name);
        if made.insert(folder.clone()) {
            aside::new_folder(&folder)?;
        }
    }
    let Some(source) = blobs.open(&digest)? else { return Ok(Err("its copy is missing")) };
    Ok(match aside::copy(source, &to, moved)? == (Stored { digest, size }) {
        true => Ok(()),
        false => Err("its copy is damaged"),
    })
}
