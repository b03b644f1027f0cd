//! The bill of materials of the program: every crate that is linked into it, as CycloneDX.
//!
//! It comes from what cargo resolves and from the digests in `Cargo.lock`, and has neither a time nor a random number, so
//! the same sources give the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Result, announce, cargo, root, say, target};

const PROGRAM: &str = "poste";

/// Writes it below `target/dist` and returns its path.
pub fn write() -> Result<PathBuf> {
    announce("bill of materials");
    let bill = make()?;
    let path = target()?.join("dist").join(format!("{PROGRAM}.cdx.json"));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    std::fs::write(&path, format!("{bill:#}\n")).map_err(failed)?;
    say(&format!("{} crates in {}", bill["components"].as_array().map_or(0, Vec::len) + 1, path.display()));
    Ok(path)
}

fn make() -> Result<Value> {
    let metadata = metadata()?;
    let lock = root()?.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    bill(&metadata, &checksums(&lock)).ok_or_else(|| "cargo metadata is not as expected".to_owned())
}

fn metadata() -> Result<Value> {
    let told = cargo().args(["metadata", "--format-version", "1", "--locked"]).output();
    let told = told.map_err(|error| format!("cargo does not start: {error}"))?;
    match told.status.success() {
        true => serde_json::from_slice(&told.stdout).map_err(|error| format!("cargo metadata: {error}")),
        false => Err(format!("cargo metadata: {}", String::from_utf8_lossy(&told.stderr))),
    }
}

/// The SHA-256 of each crate from a registry, by its name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let blocks = lock.split("[[package]]").skip(1);
    let known = |block| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    blocks.filter_map(known).collect()
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let nodes: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, linked(node)?))).collect();
    let members: BTreeSet<&str> = metadata["workspace_members"].as_array()?.iter().filter_map(Value::as_str).collect();
    let program = *members.iter().find(|id| packages.get(*id).is_some_and(|package| package["name"] == PROGRAM))?;

    let mut found = BTreeSet::from([program]);
    let mut next = vec![program];
    while let Some(id) = next.pop() {
        next.extend(nodes.get(id)?.iter().filter(|id| found.insert(id)));
    }
    let component = |id: &str| {
        let package = packages.get(id)?;
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        let mut component = json!({
            "type": if id == program { "application" } else { "library" },
            "bom-ref": purl(package)?,
            "name": name,
            "version": version,
            "purl": purl(package)?,
        });
        if let Some(licence) = package["license"].as_str() {
            // Crates used to separate alternatives with a slash.
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        Some(component)
    };
    let depends = |id: &&str| {
        let mut on: Vec<String> =
            nodes.get(id)?.iter().map(|id| purl(packages.get(id)?)).collect::<Option<Vec<_>>>()?;
        on.sort();
        Some(json!({ "ref": purl(packages.get(id)?)?, "dependsOn": on }))
    };
    let components = found.iter().filter(|id| **id != program).map(|id| component(id)).collect::<Option<Vec<_>>>()?;
    Some(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component(program)? },
        "components": components,
        "dependencies": found.iter().map(depends).collect::<Option<Vec<_>>>()?,
    }))
}

/// The crates that are linked into this one, on any platform. What only builds or tests it is not.
fn linked(node: &Value) -> Option<Vec<&str>> {
    let is_normal =
        |one: &&Value| one["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
    node["deps"].as_array()?.iter().filter(is_normal).map(|one| one["pkg"].as_str()).collect()
}

fn purl(package: &Value) -> Option<String> {
    Some(format!("pkg:cargo/{}@{}", package["name"].as_str()?, package["version"].as_str()?.replace('+', "%2B")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_lists_every_crate_of_the_program() {
        let bill: Value = serde_json::from_str(&make().unwrap().to_string()).unwrap();
        let parts = bill["components"].as_array().unwrap();
        let listed: BTreeSet<String> = parts
            .iter()
            .chain([&bill["metadata"]["component"]])
            .map(|part| format!("{} v{}", part["name"].as_str().unwrap(), part["version"].as_str().unwrap()))
            .collect();
        let tree =
            ["tree", "--locked", "--package", PROGRAM, "--edges", "normal", "--target", "all", "--prefix", "none"];
        let told = cargo().args(tree).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let lines = told.lines().filter(|line| !line.is_empty());
        let linked: BTreeSet<String> =
            lines.map(|line| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        assert!(linked.len() > 100, "{told}");
        let missing: Vec<&String> = linked.difference(&listed).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(!listed.iter().any(|name| name.starts_with("insta ")), "what only tests use is not in it");

        let refs: BTreeSet<&str> =
            bill["dependencies"].as_array().unwrap().iter().map(|one| one["ref"].as_str().unwrap()).collect();
        assert_eq!(refs.len(), parts.len() + 1);
        for part in parts.iter().filter(|part| !part["name"].as_str().unwrap().starts_with("poste-")) {
            assert_eq!(part["hashes"][0]["content"].as_str().map(str::len), Some(64), "{part}");
            assert!(part["licenses"][0]["expression"].is_string(), "{part}");
            assert!(refs.contains(part["bom-ref"].as_str().unwrap()), "{part}");
        }
    }
}
