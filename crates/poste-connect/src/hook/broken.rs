//! Reports an office that cannot be used: once per session, and without harming the session.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use poste_core::{Foreign, escape};
use poste_verbs::{Error, Kind};

use super::serve::Call;
use super::{Moment, Reply, takes_context};

pub(super) fn tell(call: &Call, error: &Error, hint: Option<&str>) {
    // What somebody else made must not reach the model, not even by the name of a folder.
    if error.kind == Kind::NotAdopted {
        if call.moment == Moment::SessionStart {
            call.print_for_people("poste: there is an office here that you have not adopted: poste adopt");
        }
        return;
    }
    // Busy: the next hook tries again.
    let passes = error.kind == Kind::Busy || call.has_printed();
    if passes || !takes_context(call.program, call.moment) || !is_first_time(call) {
        return;
    }
    let hint = hint.map(|hint| format!(" ({})", escape::line(hint))).unwrap_or_default();
    let text = format!(
        "Poste: this session cannot use the mail of this project: {}{hint}. The office is {}. \
         To find out why: poste doctor. This is said once.",
        escape::line(&error.message),
        Foreign::path(&call.office)
    );
    let _ = call.say(&Reply::Context(text));
}

/// Remembered in the user's runtime folder, because the office itself is broken.
fn is_first_time(call: &Call) -> bool {
    match remember(call) {
        Ok(is_first) => is_first,
        // If that cannot be remembered, only the session's start reports it.
        Err(_) => call.moment == Moment::SessionStart,
    }
}

fn remember(call: &Call) -> io::Result<bool> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(call.session.as_str().as_bytes());
    hasher.update(&[0]);
    hasher.update(call.office.as_os_str().as_encoded_bytes());
    let path = folder()?.join(&hasher.finalize().to_hex()[..32]);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Only a private folder of this user: in a shared one, another user may have created that name.
fn folder() -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let path = runtime.unwrap_or_else(env::temp_dir).join(format!("poste-hooks-{uid}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&path)?;
    match found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0 {
        true => Ok(path),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}
