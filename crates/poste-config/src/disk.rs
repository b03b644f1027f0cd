//! Reading and replacing `poste.toml` and `local.toml`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use poste_core::Error;
use poste_core::store::sync_folder;

/// The text of a configuration file, if it exists. It comes with a repository, so it may be anything: a pipe without a
/// writer, a link to a device, a gigabyte.
pub fn read_config(path: &Path) -> Result<Option<String>, Error> {
    // Ten times the size of the largest valid file. Collecting mistakes costs memory and time for each byte.
    const CONFIG_BYTES_MAX: u64 = 256 * 1024;
    let wrong = |message: String| Error::Config { path: path.to_owned(), message };
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(wrong(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| wrong("it is not valid UTF-8".to_owned()))
}

/// Replaces a configuration file atomically: after a crash it is the old one or the new one. It keeps its mode.
///
/// `old` is the text that the new one was made from. Editors do not take our lock, so the file is compared once more;
/// a change between that and the rename could still be lost, which no file system call can rule out.
pub(crate) fn replace_config(path: &Path, old: Option<&str>, new: &str) -> Result<(), Error> {
    // A link stays a link: its target is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let failed = |error| Error::io(&target, error);
    let folder = target.parent().unwrap_or(Path::new("/"));
    let (unfinished, mut file) = begin_beside(&target)?;
    let written = file.write_all(new.as_bytes()).and_then(|()| file.sync_all());
    let renamed = written.map_err(failed).and_then(|()| {
        if read_config(path)?.as_deref() != old {
            let message = "it was changed by another process at the same time; nothing was written".to_owned();
            return Err(Error::Config { path: path.to_owned(), message });
        }
        fs::rename(&unfinished, &target).map_err(failed)
    });
    if renamed.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    renamed?;
    sync_folder(folder)
}

/// Creates a new file next to the one it is to replace, with its mode. Other users may write into that folder, or it
/// came with a repository, so the name cannot be guessed, and an existing file or link of that name is never opened.
fn begin_beside(target: &Path) -> Result<(PathBuf, fs::File), Error> {
    let unfinished = target.with_extension(format!("toml.{}.tmp", uuid::Uuid::new_v4().simple()));
    let failed = |error| Error::io(&unfinished, error);
    let permissions = fs::metadata(target).ok().map(|meta| meta.permissions());
    // Until it has the mode of the old file, only its owner may open it. This machine's own file stays that way.
    let is_own = target.file_name().is_some_and(|name| name == crate::LOCAL_FILE);
    let permissions = permissions.filter(|_| !is_own);
    let mode = if permissions.is_some() || is_own { 0o600 } else { 0o666 };
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished).map_err(failed)?;
    if let Some(Err(error)) = permissions.map(|permissions| file.set_permissions(permissions)) {
        let _ = fs::remove_file(&unfinished);
        return Err(failed(error));
    }
    Ok((unfinished, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real.toml");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("poste.toml");
        symlink("real.toml", &link).unwrap();
        replace_config(&link, Some("old"), "new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no leftovers");
    }

    #[test]
    fn a_link_under_the_name_of_the_unfinished_file_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("poste.toml"), "old").unwrap();
        fs::write(path("victim"), "precious").unwrap();
        symlink("victim", path(&format!("poste.toml.{}.tmp", std::process::id()))).unwrap();
        replace_config(&path("poste.toml"), Some("old"), "new").unwrap();
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(path("poste.toml")).unwrap(), "new");
        assert!(!fs::symlink_metadata(path("poste.toml")).unwrap().is_symlink());
        let (first, second) = (begin_beside(&path("poste.toml")).unwrap(), begin_beside(&path("poste.toml")).unwrap());
        assert_ne!(first.0, second.0, "the name cannot be guessed");
    }

    #[test]
    fn a_file_that_was_changed_in_the_meantime_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("poste.toml");
        replace_config(&path, None, "mine").unwrap();
        assert!(matches!(replace_config(&path, None, "again"), Err(Error::Config { .. })));
        assert!(matches!(replace_config(&path, Some("theirs"), "again"), Err(Error::Config { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no leftovers");
    }
}
