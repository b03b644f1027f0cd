//! The hooks of the guard: put beside what is there, and taken away as if they had never been.
//!
//! A hook that was there before is kept under another name and run first. It is moved as the file it is, so its bytes,
//! its mode and, if it is a link, where it points stay what they are.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use poste_verbs::{Error, Kind, Result};

pub const PRE_COMMIT: &str = "pre-commit";
pub const PRE_PUSH: &str = "pre-push";
pub const ALL: [&str; 2] = [PRE_COMMIT, PRE_PUSH];

const MARK: &str = "# Put here by `poste guard install`; `poste guard uninstall` puts back what was here before.";
const SUM: &str = "# sum ";
const FOLDER_MADE: &str = "# The folder was made for it.\n";

/// How one hook stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The guard's, as it was installed.
    Installed,
    /// There is none, or only somebody else's.
    NotInstalled,
    /// The guard's, and changed by hand since.
    Changed,
    /// Somebody else's took the place of the guard's, which had kept another one.
    Replaced,
    /// None, but one that was kept: an installation broke off, or somebody deleted the guard's.
    Lost,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HookView {
    pub name: String,
    pub state: State,
    /// A hook that was there before is kept, and run first.
    pub keeps_another: bool,
    pub path: String,
}

/// One hook in its folder.
#[derive(Debug)]
pub struct Hook {
    name: &'static str,
    path: PathBuf,
    kept: PathBuf,
}

impl Hook {
    pub fn new(folder: &Path, name: &'static str) -> Self {
        Self { name, path: folder.join(name), kept: folder.join(format!("{name}.before-poste")) }
    }

    pub fn view(&self) -> Result<HookView> {
        Ok(HookView {
            name: self.name.to_owned(),
            state: self.state()?,
            keeps_another: exists(&self.kept),
            path: self.path.display().to_string(),
        })
    }

    pub fn state(&self) -> Result<State> {
        if !exists(&self.path) {
            return Ok(if exists(&self.kept) { State::Lost } else { State::NotInstalled });
        }
        let text = fs::read(&self.path).unwrap_or_default();
        Ok(match String::from_utf8(text) {
            Ok(text) if is_whole(&text) => State::Installed,
            Ok(text) if text.contains(MARK) => State::Changed,
            _ if exists(&self.kept) => State::Replaced,
            _ => State::NotInstalled,
        })
    }

    /// Why it cannot be installed, if it cannot.
    pub fn check_install(&self) -> Result {
        let is_folder = self.path.is_dir();
        let why = match self.state()? {
            State::Changed => "was changed by hand since the guard was installed".to_owned(),
            State::Replaced => format!("is not the guard's, and {} is kept from before", self.kept.display()),
            State::NotInstalled if is_folder => "is a folder".to_owned(),
            State::Installed | State::NotInstalled | State::Lost => return Ok(()),
        };
        Err(Error::new(Kind::Conflict, format!("{} {why}; nothing was installed", self.path.display()))
            .code("hook_changed")
            .hint("look at both and leave the one you want under the hook's own name"))
    }

    /// Puts the guard's hook in place; says whether that changed anything.
    pub fn install(&self, folder_made: bool) -> Result<bool> {
        let state = self.state()?;
        let before = fs::read_to_string(&self.path).unwrap_or_default();
        // An older program's hook is brought up to date; what it knows of the folder stays known.
        let folder_made = folder_made || (state == State::Installed && before.contains(FOLDER_MADE));
        let script = script(self.name, folder_made);
        if state == State::Installed && before == script {
            return Ok(false);
        }
        if state == State::NotInstalled && exists(&self.path) {
            // A second name first, so that there is a hook at every moment.
            fs::hard_link(&self.path, &self.kept)
                .or_else(|_| fs::rename(&self.path, &self.kept))
                .map_err(|error| failed(&self.kept, &error))?;
        }
        self.write(&script).map_err(|error| failed(&self.path, &error))?;
        Ok(true)
    }

    fn write(&self, script: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".poste-").tempfile_in(folder)?;
        file.write_all(script.as_bytes())?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Takes the guard's hook away and puts back what was there; says whether it did.
    pub fn uninstall(&self) -> Result<bool> {
        match self.state()? {
            State::Installed | State::Lost if exists(&self.kept) => {
                fs::rename(&self.kept, &self.path).map_err(|error| failed(&self.path, &error))?;
                Ok(true)
            }
            State::Installed => {
                fs::remove_file(&self.path).map_err(|error| failed(&self.path, &error))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// What was not taken away, and why.
    pub fn check_uninstalled(&self) -> Result {
        let path = self.path.display();
        let kept = self.kept.display();
        let error = |what: String| Error::new(Kind::Conflict, what).code("hook_changed");
        match self.state()? {
            State::Changed if exists(&self.kept) => {
                Err(error(format!("{path} was changed by hand and is left as it is"))
                    .hint(format!("take out what is yours, then: mv {kept} {path}")))
            }
            State::Changed => Err(error(format!("{path} was changed by hand and is left as it is"))
                .hint(format!("take out what is yours, then: rm {path}"))),
            State::Replaced => Err(error(format!("{path} is not the guard's any more and is left as it is"))
                .hint(format!("what was there before the guard is kept: {kept}"))),
            State::Installed | State::NotInstalled | State::Lost => Ok(()),
        }
    }

    /// Whether the guard made the folder for its hooks.
    pub fn made_folder(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| is_whole(&text) && text.contains(FOLDER_MADE))
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::new(Kind::Refused, format!("{}: {error}", path.display()))
}

/// Whether it is a hook of the guard, of whatever version, as it was written.
fn is_whole(text: &str) -> bool {
    let Some(line) = text.lines().find(|line| line.starts_with(SUM)) else { return false };
    text.contains(MARK) && line[SUM.len()..] == sum(&text.replacen(&format!("{line}\n"), "", 1))
}

fn sum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn script(name: &str, folder_made: bool) -> String {
    let made = if folder_made { FOLDER_MADE } else { "" };
    let (read, feed) = match name == PRE_PUSH {
        // Both hooks are told on stdin what is pushed.
        true => ("refs=$(cat)\ntell_refs() {\n  [ -z \"$refs\" ] || printf '%s\\n' \"$refs\"\n}\n", "tell_refs | "),
        false => ("", ""),
    };
    let body = format!(
        r#"#!/bin/sh
{MARK}
{made}folder=$(dirname "$0")
kept=$folder/{name}.before-poste
{read}
# The hook that was here before. A shell script finds the name and place it always had in $0.
run_kept() {{
  first=
  IFS= read -r first 2>/dev/null <"$kept"
  case $first in
    '#!/bin/sh' | '#! /bin/sh' | '#!/usr/bin/env sh') shell=sh ;;
    '#!/bin/bash' | '#! /bin/bash' | '#!/usr/bin/env bash') shell=bash ;;
    *)
      "$kept" "$@"
      return
      ;;
  esac
  "$shell" -c 'kept=$1; shift; . "$kept"' "$folder/{name}" "$kept" "$@"
}}

if [ -x "$kept" ]; then
  {feed}run_kept "$@" || exit $?
fi
if ! command -v poste >/dev/null 2>&1; then
  echo "poste guard: poste is not on the PATH, so nothing was checked" >&2
  exit 0
fi
{feed}poste guard check --hook {name} -- "$@"
status=$?
case $status in
  0 | 5) exit $status ;;
esac
echo "poste guard: poste ended with $status, so nothing was checked" >&2
exit 0
"#
    );
    body.replacen(&format!("{MARK}\n"), &format!("{MARK}\n{SUM}{}\n", sum(&body)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_knows_whether_it_was_changed() {
        for name in ALL {
            for made in [true, false] {
                let text = script(name, made);
                assert!(is_whole(&text), "{name}");
                assert!(!is_whole(&text.replace("exit 0", "exit 1")));
                assert!(!is_whole(&format!("{text}\n")));
            }
        }
        assert!(!is_whole("#!/bin/sh\n"));
    }
}
