//! Names and other validated texts, from literals.

use poste_core::log::{Artifact, ArtifactState};
use poste_core::text::{Name, Session, TypeName, Word};

pub(super) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(super) fn word(text: &str) -> Word {
    text.parse().expect("a word")
}

pub(super) fn type_name(text: &str) -> TypeName {
    text.parse().expect("a type")
}

pub(super) fn session(actor: &Name, run: u32) -> Session {
    format!("{actor}-{run}").parse().expect("a session")
}

pub(super) fn artifact(path: &str) -> Artifact {
    Artifact { path: path.to_owned(), worktree: None, state: ArtifactState::Later, size: None, digest: None }
}
