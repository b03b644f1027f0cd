//! Reading and replacing `poste.toml` and `local.toml`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use poste_core::Error;
use poste_core::store::folder;
use poste_core::store::{Folder, Unsafe};

/// The text of a configuration file, if it exists. It comes with a repository, so it may be anything: a pipe without a
/// writer, a link to a device, a gigabyte.
pub fn read_config(path: &Path) -> Result<Option<String>, Error> {
    // Ten times the size of the largest valid file. Collecting mistakes costs memory and time for each byte.
    const CONFIG_BYTES_MAX: u64 = 256 * 1024;
    let wrong = |message: String| Error::Config { path: path.to_owned(), message };
    let file = match place(path).and_then(|(folder, name)| owned(folder.open_to_read(name)?)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(wrong(error.to_string())),
        Err(error) => return Err(Error::io(path, error)),
    };
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| Error::io(path, error))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(wrong(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| wrong("it is not valid UTF-8".to_owned()))
}

/// Anybody can put a file into a folder that users share.
fn owned(file: File) -> io::Result<File> {
    let owner = file.metadata()?.uid();
    if owner == rustix::process::geteuid().as_raw() { Ok(file) } else { Err(Unsafe::Owner(owner).into()) }
}

/// Replaces a configuration file atomically: after a crash it is the old one or the new one. `poste.toml` keeps its
/// mode, and if it is a link, its target is replaced.
///
/// `old` is the text that the new one was made from. Editors do not take our lock, so the file is compared once more;
/// a change between that and the rename could still be lost, which no file system call can rule out.
pub(crate) fn replace_config(path: &Path, old: Option<&str>, new: &str) -> Result<(), Error> {
    let is_as_before = || matches!(read_config(path), Ok(now) if now.as_deref() == old);
    let replaced = place(path)
        .and_then(|(folder, name)| folder.replace_if(name, new.as_bytes(), is_own(path), is_as_before))
        .map_err(|error| Error::io(path, error))?;
    if !replaced {
        let message = "it was changed by another process at the same time; nothing was written".to_owned();
        return Err(Error::Config { path: path.to_owned(), message });
    }
    Ok(())
}

/// Whether it is this machine's own file, in the office.
fn is_own(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new(crate::LOCAL_FILE))
}

/// The folder of a configuration file, and its name there. An office contains no links, and `poste.toml` beside it may
/// be a link to a file of its project only.
fn place(path: &Path) -> io::Result<(Folder, OsString)> {
    let (folder, name) = (folder::parent(path), path.file_name().unwrap_or_default());
    match is_own(path) {
        true => Ok((Folder::open(folder)?, name.to_owned())),
        false => folder::file_in_project(folder, Path::new(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_link_out_of_the_project_is_neither_read_nor_written_through() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("victim"), "precious").unwrap();
        let project = tempfile::tempdir().unwrap();
        let office = project.path().join(".poste");
        fs::create_dir(&office).unwrap();
        fs::set_permissions(&office, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(project.path().join("inside"), "inside").unwrap();
        for (path, target) in [
            (project.path().join("poste.toml"), outside.path().join("victim")),
            (office.join("local.toml"), outside.path().join("victim")),
            (office.join("local.toml"), project.path().join("inside")),
        ] {
            symlink(target, &path).unwrap();
            assert!(read_config(&path).unwrap_err().to_string().contains("link"), "{}", path.display());
            assert!(replace_config(&path, Some("precious"), "new").is_err());
            assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(project.path().join("inside")).unwrap(), "inside");
        assert_eq!(fs::read_dir(&office).unwrap().count(), 0, "no leftovers");
    }

    #[test]
    fn a_file_of_another_user_is_not_read() {
        if !rustix::process::geteuid().is_root() {
            return; // nobody else can give files away
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("poste.toml");
        fs::write(&path, "theirs").unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert!(matches!(read_config(&path), Err(Error::Unsafe { why: Unsafe::Owner(65534), .. })));
        assert!(replace_config(&path, Some("theirs"), "new").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn only_its_owner_can_open_this_machine_s_own_file() {
        let office = tempfile::tempdir().unwrap();
        let path = office.path().join("local.toml");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace_config(&path, Some("old"), "new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
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
