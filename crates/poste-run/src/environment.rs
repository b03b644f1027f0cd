//! The environment of a command: only variables that are named.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that every command gets, if they are set. A trailing `*` matches any ending. The list has no tokens,
/// no keys and none of Poste's own variables: if a command needs one of those, it is set by name and value.
pub const ALLOWED: &[&str] =
    &["PATH", "HOME", "XDG_STATE_HOME", "LANG", "LC_*", "TZ", "TMPDIR", "USER", "SHELL", "TERM"];

/// What no command gets, whoever names it: with a person's token it could speak as that person.
const NEVER: &str = "POSTE_TOKEN_FILE";

/// The environment of one command.
#[derive(Debug, Clone)]
pub struct Environment {
    allowed: Vec<String>,
    never: Vec<String>,
    set: BTreeMap<OsString, OsString>,
}

impl Default for Environment {
    fn default() -> Self {
        Self { allowed: ALLOWED.iter().map(|name| (*name).to_owned()).collect(), ..Self::empty() }
    }
}

impl Environment {
    /// Only the variables that are set explicitly.
    pub fn empty() -> Self {
        Self { allowed: Vec::new(), never: Vec::new(), set: BTreeMap::new() }
    }

    /// Also passes this variable on, if it is set. `NAME*` passes on all variables with that prefix.
    pub fn allow(&mut self, name: &str) -> &mut Self {
        self.allowed.push(name.to_owned());
        self
    }

    /// Never passes this variable on, even if it is allowed elsewhere.
    pub fn never(&mut self, name: &str) -> &mut Self {
        self.never.push(name.to_owned());
        self
    }

    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.set.insert(name.into(), value.into());
        self
    }

    fn allows(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        let is_allowed = self.allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == allowed,
        });
        is_allowed && !self.never.iter().any(|never| never == name)
    }

    /// The variables of `ours` that the command gets, and those set for it.
    pub(crate) fn of(&self, ours: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<OsString, OsString> = ours.filter(|(name, _)| self.allows(name)).collect();
        all.extend(self.set.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.remove(OsStr::new(NEVER));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(environment: &Environment, ours: &[(&str, &str)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let pairs = environment.of(ours).into_iter();
        pairs.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn only_what_is_named_is_passed_on() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOMEWORK", "none"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("GITHUB_TOKEN", "x"),
            ("POSTE_HOME", "/elsewhere"),
            ("LD_PRELOAD", "evil.so"),
        ];
        assert_eq!(names(&Environment::default(), &ours), ["LC_ALL=C", "PATH=/bin"]);
        assert!(names(&Environment::empty(), &ours).is_empty());
        let mut some = Environment::default();
        some.allow("HOMEWORK").set("POSTE_HOME", "/office");
        assert_eq!(names(&some, &ours), ["HOMEWORK=none", "LC_ALL=C", "PATH=/bin", "POSTE_HOME=/office"]);
        some.allow("POSTE_*").set("POSTE_TOKEN_FILE", "/set");
        let with_token = [("POSTE_TOKEN_FILE", "/inherited"), ("POSTE_HOME", "/elsewhere")];
        assert_eq!(names(&some, &with_token), ["POSTE_HOME=/office"]);
        some.allow("GITHUB_*").never("GITHUB_TOKEN");
        assert_eq!(names(&some, &ours), ["HOMEWORK=none", "LC_ALL=C", "PATH=/bin", "POSTE_HOME=/office"]);
    }
}
