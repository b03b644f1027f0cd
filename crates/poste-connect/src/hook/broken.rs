//! An office that cannot be used must not harm the session, and must not be a secret either: it is said once.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use poste_core::escape;
use poste_verbs::{Error, Kind};

use super::serve::Call;
use super::{Moment, Reply, takes_context};

pub(super) fn tell(call: &Call, error: &Error, hint: Option<&str>) {
    // Busy: the next hook tells what this one could not.
    let passes = error.kind == Kind::Busy || call.has_printed();
    if passes || !takes_context(call.program, call.moment) || !is_first_time(call) {
        return;
    }
    let hint = hint.map(|hint| format!(" ({})", escape::line(hint))).unwrap_or_default();
    let text = format!(
        "Poste: the mail of this project cannot be looked after in this session: {}{hint}. The office is {}. \
         What is wrong with it: poste doctor. This is said once.",
        escape::line(&error.message),
        escape::line(&call.office.display().to_string())
    );
    let _ = call.say(&Reply::Context(text));
}

/// Remembered beside the office, which is broken: in the folder of this user for what lives as long as this boot.
fn is_first_time(call: &Call) -> bool {
    match remember(call) {
        Ok(is_first) => is_first,
        // Where nothing can be remembered, it is said at the beginning only.
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

/// Only ever a folder of this user: in a shared one anybody may have made something of that name.
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
