//! Secrets: read for each use, and never shown.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use poste_config::{HandlerConfig, SecretPlace};
use poste_core::store::state;
use rustix::fs::OFlags;

use super::sign::Key;

/// Maximum size of a secret file.
const BYTES_MAX: u64 = 16 * 1024;

/// A secret that is never printed.
#[derive(Clone)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub fn get(&self) -> &str {
        &self.0
    }

    /// As the key of signatures.
    pub fn key(&self, place: &SecretPlace) -> Result<Key, String> {
        Key::new(&self.0).map_err(|weak| format!("{place} cannot sign: {weak}"))
    }

    /// Replaces the secret in a text.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "…") }
    }
}

/// Reads a secret. `folder` is that of `poste.toml`.
pub fn read(place: &SecretPlace, folder: &Path) -> Result<Secret, String> {
    let secret = match place {
        SecretPlace::Env(name) => {
            let value = std::env::var(name).map_err(|_| format!("the variable {name} is not set"))?;
            Secret::new(&value)
        }
        SecretPlace::File(path) => read_file(path, folder)?,
    };
    match secret.get().is_empty() || secret.get().contains(['\r', '\n', '\0']) {
        true => Err(format!("{place} does not hold a secret of one line")),
        false => Ok(secret),
    }
}

fn read_file(path: &str, folder: &Path) -> Result<Secret, String> {
    let place = match path.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().unwrap_or_else(|| PathBuf::from("/")).join(rest),
        None => folder.join(path),
    };
    let real = place.canonicalize().map_err(|error| format!("the file {path}: {error}"))?;
    // An agent that writes there could send the mail elsewhere.
    if state::is_in_project(&place) || state::is_in_project(&real) {
        return Err(format!("the file {path} must not be in a project, where agents can read and change it"));
    }
    // Opening a pipe would block, and a link that is made now could lead into a project.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(real);
    let mut file = opened.map_err(|error| format!("the file {path}: {error}"))?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(format!("{path} is not a regular file"));
    }
    let mut text = String::new();
    let read = (&mut file).take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| format!("the file {path}: {error}"))?;
    Ok(Secret::new(&text))
}

/// Reads a secret that signs.
pub fn read_key(place: &SecretPlace, folder: &Path) -> Result<Key, String> {
    read(place, folder)?.key(place)
}

/// Why a secret that a handler needs cannot be used.
pub fn unusable(handler: &HandlerConfig, folder: &Path) -> Option<String> {
    let place = match handler {
        HandlerConfig::Telegram { token, .. } => token,
        HandlerConfig::Slack { url } => url,
        HandlerConfig::Webhook { secret, .. } => return read_key(secret, folder).err(),
        HandlerConfig::Email(email) => email.password.as_ref()?,
        HandlerConfig::Desktop | HandlerConfig::Exec { .. } | HandlerConfig::Log => return None,
    };
    read(place, folder).err()
}
