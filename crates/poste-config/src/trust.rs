//! Trust in this machine's `poste.toml`: a file that comes with a repository runs no commands until a person trusts it.

use poste_core::text::Name;
use poste_core::{Digest, Error, Office};

use crate::mark::{self, TrustMark};
use crate::office::config_path;
use crate::{Command, ConfigFile, commands, read_config};

/// How this machine's file relates to what was trusted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// There is no file to trust.
    NoFile,
    /// No state of it was ever trusted here.
    Never,
    /// An earlier state of it was trusted.
    Changed(TrustMark),
    Trusted(TrustMark),
}

/// What a person reviews before trusting a file.
#[derive(Debug, Clone)]
pub struct TrustView {
    pub trust: Trust,
    /// Of the file as it is; `None` without one.
    pub digest: Option<Digest>,
    /// Everything in it that would run a command.
    pub commands: Vec<Command>,
}

/// Whether a person on this machine trusts exactly this text of `poste.toml`.
///
/// Takes the text and not the file: a caller must check the text that it read, as the file may have changed since.
pub fn is_trusted(office: &Office, text: &str) -> Result<bool, Error> {
    let mark = mark::read(office.path()?, office.machine()?, &config_path(office)?)?;
    Ok(mark.is_some_and(|mark| mark.digest == Digest::of(text.as_bytes())))
}

/// The file, what it would run, and whether it is trusted.
pub fn trust(office: &Office) -> Result<TrustView, Error> {
    let config = config_path(office)?;
    let mark = mark::read(office.path()?, office.machine()?, &config)?;
    let Some(text) = read_config(&config)? else {
        return Ok(TrustView { trust: Trust::NoFile, digest: None, commands: Vec::new() });
    };
    let commands = commands(&ConfigFile::parse(&text, &config)?);
    let digest = Digest::of(text.as_bytes());
    let trust = match mark {
        None => Trust::Never,
        Some(mark) if mark.digest == digest => Trust::Trusted(mark),
        Some(mark) => Trust::Changed(mark),
    };
    Ok(TrustView { trust, digest: Some(digest), commands })
}

/// Trusts the file if it is still what the person saw.
pub fn trust_config(office: &Office, seen: &Digest, by: Name) -> Result<(), Error> {
    let config = config_path(office)?;
    let _guard = office.lock()?;
    let text = read_config(&config)?;
    if text.is_none_or(|text| Digest::of(text.as_bytes()) != *seen) {
        let message = "it changed while you reviewed it; review it again".to_owned();
        return Err(Error::Config { path: config, message });
    }
    let mark = TrustMark::new(*seen, by, office.wall(), office.machine()?.clone(), &config);
    mark::write(office.path()?, &mark)
}

/// Revokes the trust here. Returns whether there was any.
pub fn revoke_trust(office: &Office) -> Result<bool, Error> {
    let _guard = office.lock()?;
    mark::forget(office.path()?)
}
