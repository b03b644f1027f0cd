//! Programs from npm, at fixed versions, below `target/tools`, so that they belong to this project and are deleted with
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Result, announce, ensure, target};

/// Newer than what some systems have; the protocol tests need at least 22.
pub const NODE: Package = Package { folder: "node-24", name: "node", version: "24.21.0" };

const MACHINE_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Below `target/tools`.
    pub folder: &'static str,
    pub name: &'static str,
    pub version: &'static str,
}

impl Package {
    pub fn modules(self) -> Result<PathBuf> {
        Ok(tools()?.join(self.folder).join("node_modules"))
    }

    fn is_there(self) -> Result<bool> {
        let manifest = fs::read_to_string(self.modules()?.join(self.name).join("package.json")).unwrap_or_default();
        // Written by npm, in its own layout.
        let version = format!("\"version\": \"{}\"", self.version);
        // An interrupted first install has no such file.
        Ok(manifest.contains(&version) && self.modules()?.join("../.whole").exists())
    }

    fn install(self) -> Result<Child> {
        let folder = tools()?.join(self.folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let quiet = ["--no-fund", "--no-audit", "--no-save", "--no-package-lock", "--loglevel", "error"];
        let mut npm = Command::new("npm");
        // Node has its own list of trusted certificates; add the machine's.
        if std::env::var_os("NODE_EXTRA_CA_CERTS").is_none() && Path::new(MACHINE_CERTIFICATES).exists() {
            npm.env("NODE_EXTRA_CA_CERTS", MACHINE_CERTIFICATES);
        }
        npm.arg("install")
            .arg("--prefix")
            .arg(&folder)
            .args(quiet)
            .arg(format!("{}@{}", self.name, self.version))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("npm does not start: {error}"))
    }
}

pub fn tools() -> Result<PathBuf> {
    Ok(target()?.join("tools"))
}

/// Installs the missing packages, all at once, because most of the time is spent waiting.
pub fn install(packages: &[Package]) -> Result {
    let mut missing = Vec::new();
    for package in packages {
        if !package.is_there()? {
            missing.push(*package);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    ensure("npm", "npm")?;
    let names: Vec<String> = missing.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
    announce(&format!("installing {} (once)", names.join(", ")));
    let mut installing = Vec::new();
    for package in missing {
        installing.push((package, package.install()?));
    }
    // Waits for every one of them, whether or not the others failed.
    let ended: Vec<Result> = installing.into_iter().map(|(package, child)| finish(package, child)).collect();
    ended.into_iter().collect()
}

fn finish(package: Package, mut child: Child) -> Result {
    let status = child.wait().map_err(|error| error.to_string())?;
    let whole = tools()?.join(package.folder).join(".whole");
    let marked = fs::write(&whole, "").map_err(|error| format!("{}: {error}", whole.display()));
    match marked {
        Ok(()) if status.success() && package.is_there()? => Ok(()),
        Ok(()) => Err(format!("{} {} could not be installed: {status}", package.name, package.version)),
        Err(error) => Err(error),
    }
}
