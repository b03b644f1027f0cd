//! Installs and removes the git hooks of the guard.
//!
//! An existing hook is kept under another name and runs first. The file itself is moved, so its bytes, its mode and,
//! for a link, its target stay the same.

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

/// The state of one hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The guard's hook, as it was installed.
    Installed,
    /// No hook, or one that is not the guard's.
    NotInstalled,
    /// The guard's hook, changed by hand.
    Changed,
    /// Another hook replaced the guard's, which had kept an earlier one.
    Replaced,
    /// No hook, but a kept one: an installation was interrupted, or the guard's hook was deleted.
    Lost,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HookView {
    pub name: String,
    pub state: State,
    /// An earlier hook is kept, and runs first.
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

    /// Fails if the hook cannot be installed.
    pub fn check_install(&self) -> Result {
        let is_folder = self.path.is_dir();
        let why = match self.state()? {
            State::Changed => "was changed by hand since the guard was installed".to_owned(),
            State::Replaced => format!("is not the guard's hook, and {} keeps an earlier one", self.kept.display()),
            State::NotInstalled if is_folder => "is a folder".to_owned(),
            State::Installed | State::NotInstalled | State::Lost => return Ok(()),
        };
        Err(Error::new(Kind::Conflict, format!("{} {why}; nothing was installed", self.path.display()))
            .code("hook_changed")
            .hint("compare both, and keep the one you want under the hook's own name"))
    }

    /// Installs the guard's hook; returns whether anything changed.
    pub fn install(&self, folder_made: bool) -> Result<bool> {
        let state = self.state()?;
        let before = fs::read_to_string(&self.path).unwrap_or_default();
        // A hook of an older version is updated; its note about the folder is kept.
        let folder_made = folder_made || (state == State::Installed && before.contains(FOLDER_MADE));
        let script = script(self.name, folder_made);
        if state == State::Installed && before == script {
            return Ok(false);
        }
        if state == State::NotInstalled && exists(&self.path) {
            // Link it first, so that a hook is in place at every moment.
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

    /// Removes the guard's hook and restores the earlier one; returns whether anything changed.
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

    /// Fails if the hook was not removed, and says why.
    pub fn check_uninstalled(&self) -> Result {
        let path = self.path.display();
        let kept = self.kept.display();
        let error = |what: String| Error::new(Kind::Conflict, what).code("hook_changed");
        match self.state()? {
            State::Changed if exists(&self.kept) => {
                Err(error(format!("{path} was changed by hand and is left as it is"))
                    .hint(format!("save your changes elsewhere, then: mv {kept} {path}")))
            }
            State::Changed => Err(error(format!("{path} was changed by hand and is left as it is"))
                .hint(format!("save your changes elsewhere, then: rm {path}"))),
            State::Replaced => Err(error(format!("{path} is no longer the guard's hook and is left as it is"))
                .hint(format!("the hook from before the guard is kept: {kept}"))),
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

/// Whether it is an unchanged hook of the guard, of any version.
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
        // git passes the pushed refs on stdin, and both hooks read them.
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
    fn a_changed_hook_is_detected() {
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
