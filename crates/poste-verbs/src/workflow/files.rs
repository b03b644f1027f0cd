//! Finds definitions: those of this machine in the office, shared ones next to `poste.toml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use poste_core::store::Folder;
use poste_core::store::folder;
use poste_core::text::{Label, nearest};
use poste_core::{Error as CoreError, limits};
use serde::Deserialize;

use super::source::Format;
use crate::{Error, Result};

/// The name of the folders of definitions.
pub const FOLDER: &str = "workflows";

/// The text of a definition, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub name: Label,
    pub path: PathBuf,
    pub format: Format,
    pub text: String,
}

/// A definition that is asked for: one of the office, or one that a surface has read from a file. In JSON it is a name,
/// so that no input can choose a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Given {
    Name(String),
    File(Source),
}

impl From<String> for Given {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl Given {
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::File(source) => source.name.as_str(),
        }
    }

    /// The definition itself.
    pub(crate) fn find(self, office: &Path) -> Result<Source> {
        let name = match self {
            Self::File(source) => return Ok(source),
            Self::Name(name) => name,
        };
        find(office, &name)?.map_or_else(|| Err(unknown(office, &name)), Ok)
    }
}

fn unknown(office: &Path, name: &str) -> Error {
    let error = no_workflow(name);
    let known: Vec<Source> = definitions(office).into_iter().flatten().collect();
    let near = nearest(name, known.iter().map(|source| source.name.as_str()));
    if let Some(near) = near.first() {
        return error.hint(format!("did you mean {near}?"));
    }
    let beside = office.parent().unwrap_or(office);
    let [own, shared] = folders(office).map(|path| path.strip_prefix(beside).unwrap_or(&path).display().to_string());
    error
        .hint(format!("write {shared}/{name}.toml, or {own}/{name}.yaml"))
        .hint(note!("see all definitions: " [workflow list definitions]))
}

/// The error if no definition or workflow has this name.
pub fn no_workflow(name: &str) -> Error {
    let name = poste_core::escape::line(name);
    Error::not_found(format!("there is no workflow {name}")).code("unknown_workflow")
}

/// The folders of definitions, in the order they are searched.
fn folders(office: &Path) -> [PathBuf; 2] {
    [office.join(FOLDER), office.with_file_name(FOLDER)]
}

fn find(office: &Path, name: &str) -> Result<Option<Source>, CoreError> {
    // Anything but a name may lead out of the folders.
    if name.parse::<Label>().is_err() {
        return Ok(None);
    }
    for folder in folders(office) {
        for ending in Format::ENDINGS {
            if let Some(source) = Source::read_by(folder.join(format!("{name}.{ending}")), |path| open(office, path))? {
                return Ok(Some(source));
            }
        }
    }
    Ok(None)
}

/// All definitions by name, or why one cannot be read. The first of a name hides the others.
pub fn definitions(office: &Path) -> Vec<Result<Source, CoreError>> {
    let mut found: BTreeMap<String, Result<Source, CoreError>> = BTreeMap::new();
    for folder in folders(office) {
        for name in names(office, &folder).unwrap_or_default() {
            let path = folder.join(name);
            if Format::of_path(&path).is_none() {
                continue;
            }
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let Some(read) = Source::read_by(path, |path| open(office, path)).transpose() else { continue };
            found.entry(name).or_insert(read);
        }
    }
    found.into_values().collect()
}

/// The files in one of the folders.
fn names(office: &Path, folder: &Path) -> io::Result<Vec<OsString>> {
    let folder = match folder.starts_with(office) {
        true => Folder::open(office)?.below(FOLDER)?,
        false => folder::in_project(folder::parent(office), Path::new(FOLDER))?,
    };
    folder.names()
}

/// Opens a file in one of the folders. An office contains no links, and those of a project must not lead out of it.
fn open(office: &Path, path: &Path) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default();
    let (folder, name) = match path.starts_with(office) {
        true => (Folder::open(office)?.below(FOLDER)?, name.to_owned()),
        false => folder::file_in_project(folder::parent(office), &Path::new(FOLDER).join(name))?,
    };
    folder.open_to_read(name)
}

impl Source {
    /// Whether its name alone finds it in this office.
    pub(super) fn is_of(&self, office: &Path) -> bool {
        folders(office).iter().any(|folder| self.path.parent() == Some(folder))
    }

    /// Reads a definition that a person names; `None` if the file does not exist.
    pub fn read(path: PathBuf) -> Result<Option<Self>, CoreError> {
        Self::read_by(path, |path| {
            let real = path.canonicalize()?;
            Folder::open_other(folder::parent(&real))?.open_to_read(real.file_name().unwrap_or_default())
        })
    }

    fn read_by(path: PathBuf, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<Option<Self>, CoreError> {
        let Some(text) = read_file(&path, open)? else { return Ok(None) };
        let wrong = |message: String| CoreError::Config { path: path.clone(), message };
        let format = Format::of_path(&path).ok_or_else(|| wrong("a workflow is a .toml or .yaml file".to_owned()))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = stem.parse().map_err(|error| wrong(format!("its file name is not a workflow name: {error}")))?;
        Ok(Some(Self { name, format, text, path }))
    }
}

/// Reads a file of reasonable size; `None` if it does not exist.
fn read_file(path: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<Option<String>, CoreError> {
    const BYTES_MAX: u64 = limits::WORKFLOW_BYTES_MAX as u64;
    let wrong = |message: String| CoreError::Config { path: path.to_owned(), message };
    let mut bytes = Vec::new();
    match open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
        Ok(read) if read as u64 > BYTES_MAX => {
            return Err(wrong(format!("a definition has at most {BYTES_MAX} bytes")));
        }
        Ok(_) => {}
    }
    String::from_utf8(bytes).map(Some).map_err(|_| wrong("it is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let office = folder.path().join(".poste");
        std::fs::create_dir_all(folder.path().join(FOLDER)).expect("made");
        std::fs::write(folder.path().join("outside.toml"), "").expect("written");
        std::fs::write(folder.path().join(FOLDER).join("inside.toml"), "").expect("written");
        let asked = |name: &str| Given::from(name.to_owned()).find(&office);
        assert_eq!(asked("inside").expect("found").name.as_str(), "inside");
        let outside = folder.path().join("outside");
        for name in ["../outside", outside.to_str().expect("a path"), "outside", ""] {
            assert_eq!(asked(name).unwrap_err().code, Some("unknown_workflow"), "{name}");
        }
    }
}
