//! The folder of a handoff.

use std::fs;
use std::path::Path;

use poste_core::Error;
use poste_core::log::{Artifact, ArtifactState};
use poste_core::store::Folder;
use poste_core::store::blobs::{Blobs, Stored};
use poste_core::store::package::export;

struct Fixture {
    folder: tempfile::TempDir,
    blobs: Blobs,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("blobs")).unwrap();
    Fixture { blobs: Blobs::new(&Folder::open(folder.path()).unwrap()), folder }
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

    /// Everything next to the blobs.
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
    let files = [fixture.file("src/deep/a.rs", "fn a() {}"), fixture.file("b.txt", "b"), fixture.file("src/b", "b")];
    fixture.export(&files).unwrap();
    let read = |path: &str| fs::read_to_string(fixture.folder.path().join("out").join(path)).unwrap();
    assert_eq!(read("HANDOFF.md"), "# Handoff\n");
    assert_eq!(read("artifacts/src/deep/a.rs"), "fn a() {}");
    assert_eq!(read("artifacts/b.txt"), "b");
    assert_eq!(fixture.names(), ["out"]);
    assert!(matches!(fixture.export(&files), Err(Error::Occupied(_))), "an existing package is not replaced");
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
