//! The folder of a handoff: complete or absent, and nothing outside of it is ever touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::artifact::FileProblem;
use super::aside::{self, Aside};
use super::blobs::{Blobs, Stored};
use super::folder;
use super::{make_private_folder, sync_folder};
use crate::error::Error;
use crate::log::Artifact;
use crate::progress::Progress;
use crate::text::is_path_below;

const UNFINISHED: &str = ".unfinished-";
const ARTIFACTS: &str = "artifacts";

/// Writes the texts and the copies of a package into a new folder.
pub fn export(
    into: &Path,
    office: &Path,
    texts: &[(&str, String)],
    artifacts: &[Artifact],
    blobs: &Blobs,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let refused = |message: &str| Error::Artifact { path: into.display().to_string(), message: message.to_owned() };
    let name = into.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| refused("a package needs a folder with a name of its own, in UTF-8"))?;
    let parent = folder::parent(into);
    if folder::entry(into)?.is_some() {
        return Err(Error::Occupied(into.to_owned()));
    }
    if !folder::is_folder(parent) {
        return Err(refused("there is no folder to put it in"));
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
            problems.push(FileProblem { path: artifact.path.clone(), what: what.to_owned() });
        }
    }
    if !problems.is_empty() {
        return Err(Error::Artifacts(problems));
    }
    // Files are synced as they are written; the names of folders below others are not.
    made.iter().try_for_each(|folder| sync_folder(folder))
}

/// Copies one file, and compares what was copied with what was handed over.
fn copy_file(
    top: &Path,
    artifact: &Artifact,
    blobs: &Blobs,
    made: &mut BTreeSet<PathBuf>,
    moved: impl FnMut(u64),
) -> Result<Result<(), &'static str>, Error> {
    // The fold has refused any other path; what is written to disk does not rely on it.
    if !is_path_below(&artifact.path) {
        return Ok(Err("its path leads out of the package"));
    }
    let (Some(digest), Some(size)) = (artifact.digest, artifact.size) else { return Ok(Err("there is no copy of it")) };
    let to = top.join(&artifact.path);
    let mut folder = top.to_owned();
    let above = Path::new(&artifact.path).parent().into_iter().flat_map(Path::components);
    for name in above {
        folder.push(name);
        if made.insert(folder.clone()) {
            make_private_folder(&folder)?;
        }
    }
    Ok(match aside::copy(&blobs.path(&digest), &to, moved)? {
        Some(copied) if copied == (Stored { digest, size }) => Ok(()),
        Some(_) => Err("its copy is damaged"),
        None => Err("its copy is missing"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ArtifactState;
    use std::fs;

    struct Fixture {
        folder: tempfile::TempDir,
        blobs: Blobs,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("blobs")).unwrap();
        Fixture { blobs: Blobs::new(folder.path().join("blobs")), folder }
    }

    impl Fixture {
        fn file(&self, path: &str, text: &str) -> Artifact {
            let Stored { digest, size } = self.blobs.put(text.as_bytes()).unwrap();
            Artifact {
                path: path.to_owned(),
                worktree: None,
                state: ArtifactState::Attached,
                size: Some(size),
                digest: Some(digest),
            }
        }

        fn export(&self, artifacts: &[Artifact]) -> Result<(), Error> {
            let texts = [("HANDOFF.md", "# Handoff\n".to_owned())];
            let office = self.folder.path().join("blobs");
            export(&self.folder.path().join("out"), &office, &texts, artifacts, &self.blobs, &mut |_| {})
        }

        /// Everything beside the blobs.
        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = fs::read_dir(self.folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name != "blobs")
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_package_has_its_texts_and_its_files_under_their_paths() {
        let fixture = fixture();
        let files =
            [fixture.file("src/deep/a.rs", "fn a() {}"), fixture.file("b.txt", "b"), fixture.file("src/b", "b")];
        fixture.export(&files).unwrap();
        let read = |path: &str| fs::read_to_string(fixture.folder.path().join("out").join(path)).unwrap();
        assert_eq!(read("HANDOFF.md"), "# Handoff\n");
        assert_eq!(read("artifacts/src/deep/a.rs"), "fn a() {}");
        assert_eq!(read("artifacts/b.txt"), "b");
        assert_eq!(fixture.names(), ["out"]);
        assert!(matches!(fixture.export(&files), Err(Error::Occupied(_))), "what is there is not replaced");
    }

    #[test]
    fn a_path_that_leads_out_writes_nothing_anywhere() {
        for path in ["/tmp/poste-escaped", "../escaped", "a/../../../escaped", "", ".", "a//b"] {
            let fixture = fixture();
            let answer = fixture.export(&[fixture.file("good", "x"), fixture.file(path, "evil")]);
            assert!(matches!(&answer, Err(Error::Artifacts(problems)) if problems.len() == 1), "{path}: {answer:?}");
            assert_eq!(fixture.names(), [""; 0], "{path}");
        }
        assert!(!Path::new("/tmp/poste-escaped").exists());
    }

    #[test]
    fn a_package_with_a_copy_that_is_gone_or_damaged_is_absent() {
        let fixture = fixture();
        let files = [fixture.file("a", "aaa"), fixture.file("b", "bbb"), fixture.file("c", "ccc")];
        fs::write(fixture.blobs.path(&files[0].digest.unwrap()), "AAA").unwrap();
        fs::remove_file(fixture.blobs.path(&files[1].digest.unwrap())).unwrap();
        let Err(Error::Artifacts(problems)) = fixture.export(&files) else { panic!("it was exported") };
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["a: its copy is damaged", "b: its copy is missing"]);
        assert_eq!(fixture.names(), [""; 0]);
    }

    #[test]
    fn a_file_and_a_folder_of_one_name_leave_nothing_behind() {
        let fixture = fixture();
        let files = [fixture.file("a", "a file"), fixture.file("a/b", "below it")];
        assert!(fixture.export(&files).is_err());
        assert_eq!(fixture.names(), [""; 0]);
    }
}
