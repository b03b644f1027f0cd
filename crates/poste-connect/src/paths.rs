//! Converts typed paths, relative or absolute, into paths and patterns relative to the top of the worktree.

use std::path::{Path, PathBuf};

use poste_core::office::Office;
use poste_core::pattern::{Pattern, escaped, has_wildcards};
use poste_core::store::discover::repository_top;
use poste_verbs::{Error, Result};

/// The top of the worktree. A path relative to it means the same in every worktree of a repository.
#[derive(Debug)]
pub struct Top {
    root: PathBuf,
    cwd: PathBuf,
}

impl Top {
    /// The git worktree of `cwd` or, without git, the folder that holds the office.
    pub fn find(cwd: PathBuf, office: &Office) -> Result<Self> {
        let beside_office =
            || office.path().ok()?.parent().filter(|folder| cwd.starts_with(folder)).map(Path::to_owned);
        let Some(root) = repository_top(&cwd).or_else(beside_office) else {
            return Err(Error::not_found(format!(
                "{} is neither in a git worktree nor below the folder of the office, so its paths are relative to \
                 nothing",
                cwd.display()
            ))
            .hint("run this in the worktree that the paths belong to"));
        };
        Ok(Self { root, cwd })
    }

    /// Typed paths as patterns relative to the top. With `literal`, wildcards are ordinary characters.
    pub fn patterns(&self, typed: &[String], literal: bool) -> Result<Vec<Pattern>> {
        typed.iter().map(|typed| self.pattern(typed, literal)).collect()
    }

    fn pattern(&self, typed: &str, literal: bool) -> Result<Pattern> {
        let text = match literal {
            true => escaped(typed.trim_end_matches('/')),
            false => typed.to_owned(),
        };
        if typed.is_empty() {
            return Err(Error::usage("a path is empty"));
        }
        let joined = match typed.starts_with('/') {
            true => self.below_root(typed, &text)?,
            false => match self.folder()? {
                folder if folder.is_empty() => text,
                folder => format!("{}/{text}", escaped(&folder)),
            },
        };
        Ok(without_dots(typed, &joined)?.parse::<Pattern>()?)
    }

    /// Typed paths, relative to the top.
    pub fn paths(&self, typed: &[String]) -> Result<Vec<String>> {
        typed.iter().map(|typed| self.path(typed)).collect()
    }

    fn path(&self, typed: &str) -> Result<String> {
        let relative = match typed.starts_with('/') {
            true => self.below_root(typed, typed)?,
            false => match self.folder()? {
                folder if folder.is_empty() => typed.to_owned(),
                folder => format!("{folder}/{typed}"),
            },
        };
        without_dots(typed, &relative)
    }

    /// Whether a file or folder has exactly this name, wildcards included.
    pub fn has(&self, typed: &str) -> bool {
        has_wildcards(typed) && self.cwd.join(typed).symlink_metadata().is_ok()
    }

    /// The current folder, relative to the top.
    fn folder(&self) -> Result<String> {
        let below = self.cwd.strip_prefix(&self.root).unwrap_or(Path::new(""));
        below
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::usage("the path of the current folder is not valid UTF-8"))
    }

    fn below_root(&self, typed: &str, text: &str) -> Result<String> {
        let real = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        for root in [&self.root, &real].into_iter().filter_map(|root| root.to_str()) {
            for root in [root.to_owned(), escaped(root)] {
                match text.strip_prefix(&root) {
                    Some("") => return Ok(".".to_owned()),
                    Some(rest) if rest.starts_with('/') => return Ok(rest.trim_start_matches('/').to_owned()),
                    _ => {}
                }
            }
        }
        let typed = poste_core::text::quoted(typed);
        Err(Error::usage(format!("{typed} is not below the top folder {}", self.root.display())))
    }
}

/// Resolves `.` and `..`. Refuses paths that leave the worktree, and `..` after a wildcard, which is ambiguous.
fn without_dots(typed: &str, joined: &str) -> Result<String> {
    let typed = || poste_core::text::quoted(typed);
    let mut steps: Vec<&str> = Vec::new();
    for step in joined.split('/') {
        // A trailing / is significant; other empty steps are not.
        if steps.last().is_some_and(|last| last.is_empty()) {
            steps.pop();
        }
        match step {
            ".." => match steps.pop() {
                None => return Err(Error::usage(format!("{} leads out of the worktree", typed()))),
                Some(before) if has_wildcards(before) => {
                    return Err(Error::usage(format!("{} has .. after a wildcard", typed())));
                }
                Some(_) => {}
            },
            "." => {}
            step => steps.push(step),
        }
    }
    match steps.as_slice() {
        [] | [""] => Ok(".".to_owned()),
        steps => Ok(steps.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(cwd: &str) -> Top {
        Top { root: "/tree/a b".into(), cwd: cwd.into() }
    }

    fn pattern(cwd: &str, typed: &str) -> std::result::Result<String, String> {
        top(cwd).pattern(typed, false).map(|pattern| pattern.to_string()).map_err(|error| error.message)
    }

    #[test]
    fn typed_paths_become_relative_to_the_top() {
        assert_eq!(pattern("/tree/a b", "src/**").unwrap(), "src/**");
        assert_eq!(pattern("/tree/a b/src", "*.rs").unwrap(), "src/*.rs");
        assert_eq!(pattern("/tree/a b/src", "../docs/").unwrap(), "docs");
        assert_eq!(pattern("/tree/a b/src", ".").unwrap(), "src");
        assert_eq!(pattern("/tree/a b", ".").unwrap(), "**");
        assert_eq!(pattern("/tree/a b/src", "..").unwrap(), "**");
        assert_eq!(pattern("/tree/a b/[id]", "x?").unwrap(), "\\[id\\]/x?");
        assert_eq!(pattern("/tree/a b/src", "/tree/a b/docs/*").unwrap(), "docs/*");
        assert_eq!(pattern("/tree/a b/src", "/tree/a b").unwrap(), "**");
        assert_eq!(pattern("/tree/a b", "./12").unwrap(), "12");
        assert_eq!(pattern("/tree/a b", "src//a/").unwrap(), "src/a");
        assert_eq!(pattern("/tree/a b", "src/*/").unwrap(), "src/*/**");
    }

    #[test]
    fn paths_outside_the_worktree_are_refused() {
        for (typed, why) in [
            ("../x", "leads out of the worktree"),
            ("a/../../x", "leads out of the worktree"),
            ("/etc/passwd", "is not below"),
            ("/tree/a bc", "is not below"),
            ("**/../x", "has .. after a wildcard"),
            ("", "empty"),
        ] {
            let error = pattern("/tree/a b", typed).unwrap_err();
            assert!(error.contains(why), "{typed}: {error}");
        }
    }

    #[test]
    fn wildcards_in_a_literal_are_escaped() {
        let literal = |typed: &str| top("/tree/a b").pattern(typed, true).unwrap().to_string();
        assert_eq!(literal("app/[id]/page.tsx"), "app/\\[id\\]/page.tsx");
        assert_eq!(literal("app/[id]/"), "app/\\[id\\]");
        assert_eq!(literal("/tree/a b/x*"), "x\\*");
    }
}
