//! Programs from PyPI, at fixed versions, below `target/tools`.

use std::fs;
use std::process::{Command, Stdio};

use crate::{Result, announce, npm};

/// Not every package supports the newest Python.
const PYTHONS: [&str; 4] = ["python3", "python3.12", "python3.11", "python3.10"];

/// Installs it in an environment of its own, unless it is there.
pub fn install(folder: &str, package: &str, version: &str) -> Result {
    let folder = npm::tools()?.join(folder);
    let whole = folder.join(".whole");
    if whole.exists() {
        return Ok(());
    }
    announce(&format!("installing {package} {version} (once)"));
    let run = |command: &mut Command| match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    let wanted = format!("{package}=={version}");
    let install = |python: &str| {
        run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).arg(&wanted))
    };
    let tried = install(PYTHONS[0]);
    PYTHONS[1..].iter().fold(tried, |tried, python| tried.or_else(|first| install(python).map_err(|_| first)))?;
    fs::write(&whole, "").map_err(|error| format!("{}: {error}", whole.display()))
}
