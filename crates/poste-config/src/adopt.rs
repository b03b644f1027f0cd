//! Offices that this user has adopted. One that arrived with an archive or a clone, that was copied, or that another user
//! made is not opened before a person has adopted it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use poste_core::office::Place;
use poste_core::store::{Options, Store, Unsafe, state};
use poste_core::{Digest, Error, Office, Position, Timestamp, views};
use serde::{Deserialize, Serialize};

use crate::store::UserStore;

const OFFICES: &str = "offices";
const KEY_DIGITS: usize = 32;

/// An office that this user has adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopted {
    /// The office's id. Unknown while it is being made, when there is nothing that could be opened.
    pub office: Option<String>,
    /// Its folder, with all links resolved.
    pub path: PathBuf,
    identity: Identity,
    pub by: String,
    /// In milliseconds.
    pub at: Timestamp,
}

/// What tells a folder from any other that may come to lie at its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    inode: u64,
    /// When it was created, in nanoseconds. An inode is soon given to another folder, so a project that was deleted and
    /// unpacked again may have the same one.
    born: Option<u64>,
    /// Devices are numbered anew at each boot, so it counts only if the file system does not know when a folder was
    /// created.
    device: Option<u64>,
}

impl Identity {
    fn of(meta: &fs::Metadata) -> Self {
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok()).filter(|born| *born > 0);
        Self { inode: meta.ino(), born, device: born.is_none().then(|| meta.dev()) }
    }
}

/// An existing office folder.
pub(crate) struct Found {
    pub path: PathBuf,
    identity: Identity,
}

impl Found {
    /// `None` if there is no folder.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |error| Error::io(path, error);
        match path.canonicalize() {
            Ok(path) => {
                let meta = fs::symlink_metadata(&path).map_err(failed)?;
                Ok(Some(Self { identity: Identity::of(&meta), path }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The name of everything in the store about this folder, wherever it is moved.
    pub(crate) fn key(&self) -> String {
        let Identity { inode, born, device } = &self.identity;
        let mut key = Digest::of(format!("{inode} {born:?} {device:?}").as_bytes()).to_string();
        key.truncate(KEY_DIGITS);
        key
    }

    fn entry(&self) -> String {
        format!("{OFFICES}/{}", self.key())
    }
}

/// The name of what this user's state folder holds about an office, wherever the office is moved.
pub fn key_of(office: &Path) -> Option<String> {
    Found::at(office).ok().flatten().map(|found| found.key())
}

/// Opens an office that this user has adopted. Every surface opens offices with this, or with [`look`].
pub fn open(place: &Place) -> Result<Office, Error> {
    let known = known(place)?;
    let office = place.open()?;
    check_id(place, known.as_ref(), &office)?;
    Ok(office)
}

/// Opens an office without writing to it, also one that is not adopted: for a person who looks at it.
pub fn look(place: &Place) -> Result<Office, Error> {
    match open(place) {
        Err(Error::NotAdopted { .. }) => look_only(place),
        opened => opened,
    }
}

fn look_only(place: &Place) -> Result<Office, Error> {
    let options = Options { read_only: true, ..place.options.clone() };
    Place { options, ..place.clone() }.open()
}

/// Whether this user has adopted the office at a place; an error if not. One that is damaged may have an id that cannot
/// be read, so it is known by its folder alone.
pub fn check(place: &Place) -> Result<(), Error> {
    let known = known(place)?;
    look_only(place).map_or(Ok(()), |office| check_id(place, known.as_ref(), &office))
}

/// What the store says about the folder at a place; an error if it is not adopted. Only reads, as agents in a sandbox
/// cannot write to the store.
fn known(place: &Place) -> Result<Option<Adopted>, Error> {
    let Some(found) = Found::at(&place.path)?.filter(|found| has_database(&found.path)) else {
        return Ok(None); // opening it says why
    };
    let Some(store) = UserStore::of(&place.options) else {
        return Err(not_adopted(place, "this user has no home folder to remember it in"));
    };
    match store.read::<Adopted>(&found.entry())? {
        // If it is no longer where it was, it was renamed.
        Some(known) if known.path == found.path || !is_at(&known.path, &found.identity) => Ok(Some(known)),
        Some(_) => Err(not_adopted(place, "it was adopted at another path, and is there too")),
        None => Err(not_adopted(place, "it is a copy, or somebody else made it")),
    }
}

/// A folder that is known may since have got other content, from an archive or a branch.
fn check_id(place: &Place, known: Option<&Adopted>, office: &Office) -> Result<(), Error> {
    match known.and_then(|known| known.office.as_ref()) {
        Some(id) if *id == office.store().office_id()? => Ok(()),
        Some(_) => Err(not_adopted(place, "another office lies here now")),
        None => Err(not_adopted(place, "it lies where another one was being made")),
    }
}

/// Whether a folder holds an office, or at least a database of one.
fn has_database(office: &Path) -> bool {
    office.join("office.db").symlink_metadata().is_ok_and(|database| database.len() > 0)
}

/// Whether a folder is what lies at a path.
fn is_at(path: &Path, identity: &Identity) -> bool {
    Found::at(path).ok().flatten().is_some_and(|there| there.path == path && there.identity == *identity)
}

fn not_adopted(place: &Place, why: &'static str) -> Error {
    // Without a store, a person adopts it by its id.
    let office = match has_store(&place.options) {
        true => None,
        false => look_only(place).ok().and_then(|office| office.store().office_id().ok()),
    };
    Error::NotAdopted { path: place.path.clone(), why, office }
}

/// Whether this user has ever adopted an office or trusted a file.
pub fn has_store(options: &Options) -> bool {
    let exists = |folder: PathBuf| folder.symlink_metadata().is_ok();
    UserStore::of(options).is_some_and(|store| store.exists()) || state::folder_of_person().is_some_and(exists)
}

pub(crate) fn store_of(options: &Options) -> Result<UserStore, Error> {
    UserStore::of(options).ok_or_else(|| Error::Config {
        path: PathBuf::from("XDG_STATE_HOME"),
        message: "this user has no home folder; name a folder of mode 0700 that belongs to this user".to_owned(),
    })
}

/// Creates an office if it does not exist, and adopts what it made. Returns whether it was created.
pub fn create(place: &Place) -> Result<bool, Error> {
    let store = store_of(&place.options)?;
    // Held to the end, so that a process that comes second finds the office adopted.
    let _held = store.hold()?;
    let at = place.clock.wall();
    let is_new = make_folder(&place.path)?;
    let before = match Found::at(&place.path)? {
        Some(found) => store.read::<Adopted>(&found.entry())?,
        None => None,
    };
    if has_database(&place.path) && !matches!(look_only(place), Err(Error::Unfinished(_))) {
        let made = place.create()?;
        // One that was interrupted at its very end: it is all there, and only the store does not know it yet.
        let is_begun = before.is_some_and(|before| before.office.is_none());
        if is_begun && let Some(id) = id_if_blank(place)? {
            remember(&store, &place.path, Some(id), at)?;
        }
        return Ok(made);
    }
    if !is_new && before.is_none() && !holds_nothing(&place.path)? {
        return Err(Error::NotEmpty(place.path.clone()));
    }
    // Before there is anything in it, so that one that is interrupted can be finished.
    let begun = remember(&store, &place.path, None, at)?;
    let made = place.create().and_then(|made| {
        if made {
            remember(&store, &place.path, Some(id_of(&place.options, &place.path)?), at)?;
        }
        Ok(made)
    });
    if !matches!(made, Ok(true)) {
        let entry = Found { path: begun.path, identity: begun.identity }.entry();
        match before {
            Some(before) => store.write(&entry, &before)?,
            None => drop(store.remove(&entry)?),
        }
    }
    made
}

/// Returns whether there was none. A link is not followed: what it leads to may be anything.
fn make_folder(path: &Path) -> Result<bool, Error> {
    let failed = |error| Error::io(path, error);
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    match fs::symlink_metadata(path).map_err(failed)?.file_type() {
        found if found.is_dir() => Ok(false),
        found if found.is_symlink() => Err(failed(Unsafe::Link.into())),
        _ => Err(Error::NotAnOffice(path.to_owned())),
    }
}

/// Whether a folder holds at most what every creation makes before there is an office: nothing that anybody wrote.
fn holds_nothing(folder: &Path) -> Result<bool, Error> {
    const MADE: [&str; 6] =
        ["office.db", "office.db-wal", "office.db-shm", "office.db-journal", "write.lock", ".gitignore"];
    let look = || -> std::io::Result<bool> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            let is_made = match meta.is_dir() {
                true => fs::read_dir(entry.path())?.next().is_none(),
                false => meta.is_file() && (meta.len() == 0 || MADE.iter().any(|name| entry.file_name() == *name)),
            };
            if !is_made {
                return Ok(false);
            }
        }
        Ok(true)
    };
    look().map_err(|error| Error::io(folder, error))
}

/// The id of an office in which there is nothing besides the record that opens it, also not in its tables alone.
fn id_if_blank(place: &Place) -> Result<Option<String>, Error> {
    let office = look_only(place)?;
    let is_blank = office.head()?.position <= Position(1) && views::verify(office.store(), |_| {})?.problems.is_empty();
    is_blank.then(|| office.store().office_id()).transpose()
}

fn id_of(options: &Options, path: &Path) -> Result<String, Error> {
    Store::open(path, Options { read_only: true, ..options.clone() })?.office_id()
}

/// Calls `make`, which makes an office and puts it in place. It calls the function that it gets with the finished folder,
/// before that is put in place: so the office is adopted at every moment. Nothing is made if the store cannot be written.
pub fn adopt_made<T, E: From<Error>>(
    place: &Place,
    make: impl FnOnce(&mut dyn FnMut(&Path) -> Result<(), Error>) -> Result<T, E>,
) -> Result<T, E> {
    let store = store_of(&place.options)?;
    let _held = store.hold()?;
    let at = place.clock.wall();
    let made = make(&mut |finished| {
        let id = id_of(&place.options, finished)?;
        remember(&store, finished, Some(id), at).map(drop)
    })?;
    remember(&store, &place.path, Some(id_of(&place.options, &place.path)?), at)?;
    Ok(made)
}

/// Adopts an office. A person has to have decided that.
pub fn adopt(office: &Office) -> Result<Adopted, Error> {
    let id = office.store().office_id()?;
    adopt_folder(office.store().options(), office.path()?, Some(id), office.wall())
}

/// Adopts what lies at a path, without opening it: also an office that is damaged.
pub fn adopt_folder(options: &Options, path: &Path, id: Option<String>, at: Timestamp) -> Result<Adopted, Error> {
    let store = store_of(options)?;
    let _held = store.hold()?;
    remember(&store, path, id.or_else(|| id_of(options, path).ok()), at)
}

fn remember(store: &UserStore, path: &Path, office: Option<String>, at: Timestamp) -> Result<Adopted, Error> {
    let found = Found::at(path)?.ok_or_else(|| Error::NoOffice(path.to_owned()))?;
    let entry = found.entry();
    let Found { path, identity } = found;
    let adopted = Adopted { office, path, identity, by: state::user_name(), at };
    store.write(&entry, &adopted)?;
    Ok(adopted)
}
