//! Reads a strace recording as changes to one folder on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::disk::Op;
use crate::rig::Result;

/// Every call that can change a file, a name, or what is synced, and the calls needed to know which file it was.
pub(crate) const TRACED: &str = "trace=open,openat,openat2,creat,close,dup,dup2,dup3,fcntl,lseek,read,write,writev,\
    pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,sync_file_range,\
    msync,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir";

const STDOUT: i64 = 1;

#[derive(Debug, Clone)]
struct Open {
    path: PathBuf,
    offset: usize,
}

/// Turns the trace of one single-threaded process into what it did to `folder`. Failed calls and files elsewhere are
/// left out. An unknown call is an error, because the model would be wrong.
pub(crate) fn read(trace: &str, folder: &Path) -> Result<Vec<Op>> {
    let mut reader = Reader { folder, open: BTreeMap::new(), ops: Vec::new() };
    for line in trace.lines() {
        let Some(call) = Call::parse(line) else { continue };
        if call.result >= 0 {
            reader.take(&call).map_err(|why| format!("{why}: {}", line.chars().take(200).collect::<String>()))?;
        }
    }
    Ok(reader.ops)
}

struct Reader<'a> {
    folder: &'a Path,
    open: BTreeMap<i64, Open>,
    ops: Vec<Op>,
}

impl Reader<'_> {
    /// The paths of a call, each relative to the folder if it is inside. A name may be relative to an open folder.
    fn paths(&self, call: &Call<'_>) -> Vec<Option<PathBuf>> {
        let at = |folder: i64, name: &Path| self.open.get(&folder).map(|open| open.path.join(name));
        let inside = |path: &Path| self.folder.join(path).strip_prefix(self.folder).ok().map(Path::to_owned);
        let paths = call.paths().map(|(folder, path)| match folder {
            Some(folder) if path.is_relative() => at(folder, &path),
            _ => inside(&path),
        });
        paths.collect()
    }

    fn first_path(&self, call: &Call<'_>) -> Option<PathBuf> {
        self.paths(call).into_iter().next().flatten()
    }

    fn take(&mut self, call: &Call<'_>) -> Result {
        match call.name {
            "open" | "openat" | "openat2" => self.open_at(call),
            "close" => {
                self.open.remove(&call.number(0)?);
                Ok(())
            }
            "read" => {
                if let Some(open) = self.open.get_mut(&call.number(0)?) {
                    open.offset += usize::try_from(call.result).unwrap_or(0);
                }
                Ok(())
            }
            "lseek" => {
                if let Some(open) = self.open.get_mut(&call.number(0)?) {
                    open.offset = usize::try_from(call.result).unwrap_or(0);
                }
                Ok(())
            }
            "write" => self.write(call),
            "pwrite64" => self.write_at(call),
            "ftruncate" => self.truncate(call),
            "fallocate" => self.allocate(call),
            "fsync" | "fdatasync" => {
                if let Some(open) = self.open.get(&call.number(0)?) {
                    self.ops.push(Op::Sync(open.path.clone()));
                }
                Ok(())
            }
            "rename" | "renameat" | "renameat2" => self.rename(call),
            "link" | "linkat" => self.link(call),
            "unlink" | "unlinkat" => self.one_path(call, Op::Unlink),
            "mkdir" | "mkdirat" => self.one_path(call, Op::MakeFolder),
            "fcntl" if !call.args.contains("F_DUPFD") => Ok(()),
            "fcntl" => self.duplicate(call),
            "msync" | "sync_file_range" => Ok(()),
            _ if self.concerns_us(call) => Err(format!("the model does not know {}", call.name)),
            _ => Ok(()),
        }
    }

    fn concerns_us(&self, call: &Call<'_>) -> bool {
        let by_descriptor = call.number(0).is_ok_and(|fd| self.open.contains_key(&fd));
        by_descriptor || self.paths(call).iter().any(Option::is_some)
    }

    fn open_at(&mut self, call: &Call<'_>) -> Result {
        // A descriptor number is reused, so its old meaning ends here.
        self.open.remove(&call.result);
        let Some(path) = self.first_path(call) else { return Ok(()) };
        let flags = call.args.rsplit_once('"').map_or("", |(_, flags)| flags);
        let is_folder = flags.contains("O_DIRECTORY") || path.as_os_str().is_empty() || self.is_folder(&path);
        if flags.contains("O_CREAT") || (flags.contains("O_RDWR") || flags.contains("O_WRONLY")) && !is_folder {
            self.ops.push(Op::Open(path.clone()));
        }
        if flags.contains("O_TRUNC") {
            self.ops.push(Op::Truncate { path: path.clone(), length: 0 });
        }
        self.open.insert(call.result, Open { path, offset: 0 });
        Ok(())
    }

    /// Only of folders, which have no offset that both descriptors would share.
    fn duplicate(&mut self, call: &Call<'_>) -> Result {
        self.open.remove(&call.result);
        let Some(open) = self.open.get(&call.number(0)?).cloned() else { return Ok(()) };
        if open.offset > 0 || self.ops.iter().any(|op| matches!(op, Op::Open(path) if *path == open.path)) {
            return Err(format!("the model does not know a second descriptor of {}", open.path.display()));
        }
        self.open.insert(call.result, open);
        Ok(())
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.folder.join(path).is_dir()
    }

    fn write(&mut self, call: &Call<'_>) -> Result {
        let descriptor = call.number(0)?;
        let written = usize::try_from(call.result).unwrap_or(0);
        if let Some(open) = self.open.get_mut(&descriptor) {
            let mut bytes = call.bytes()?;
            bytes.truncate(written);
            self.ops.push(Op::Write { path: open.path.clone(), at: open.offset, bytes });
            open.offset += written;
        } else if descriptor == STDOUT {
            self.ops.push(Op::Answer);
        }
        Ok(())
    }

    fn write_at(&mut self, call: &Call<'_>) -> Result {
        let Some(open) = self.open.get(&call.number(0)?) else { return Ok(()) };
        let mut bytes = call.bytes()?;
        bytes.truncate(usize::try_from(call.result).unwrap_or(0));
        let at = usize::try_from(call.last_number()?).map_err(|error| error.to_string())?;
        self.ops.push(Op::Write { path: open.path.clone(), at, bytes });
        Ok(())
    }

    fn truncate(&mut self, call: &Call<'_>) -> Result {
        let Some(open) = self.open.get(&call.number(0)?) else { return Ok(()) };
        let length = usize::try_from(call.last_number()?).map_err(|error| error.to_string())?;
        self.ops.push(Op::Truncate { path: open.path.clone(), length });
        Ok(())
    }

    /// Only allowed for the shared memory, which the model leaves out.
    fn allocate(&self, call: &Call<'_>) -> Result {
        match self.open.get(&call.number(0)?) {
            Some(open) if !open.path.to_string_lossy().ends_with("-shm") => {
                Err(format!("the model does not know how to allocate {}", open.path.display()))
            }
            _ => Ok(()),
        }
    }

    fn rename(&mut self, call: &Call<'_>) -> Result {
        if let Some((from, to)) = self.two_paths(call)? {
            for open in self.open.values_mut().filter(|open| open.path == from) {
                open.path = to.clone();
            }
            self.ops.push(Op::Rename(from, to));
        }
        Ok(())
    }

    fn link(&mut self, call: &Call<'_>) -> Result {
        if let Some((from, to)) = self.two_paths(call)? {
            self.ops.push(Op::Link(from, to));
        }
        Ok(())
    }

    /// Both names of a call, if they are inside the folder.
    fn two_paths(&self, call: &Call<'_>) -> Result<Option<(PathBuf, PathBuf)>> {
        let paths: [Option<PathBuf>; 2] =
            self.paths(call).try_into().map_err(|_| format!("{} of not two names", call.name))?;
        match paths.into() {
            (Some(from), Some(to)) => Ok(Some((from, to))),
            (None, None) => Ok(None),
            _ => Err(format!("{} into or out of the folder", call.name)),
        }
    }

    fn one_path(&mut self, call: &Call<'_>, op: fn(PathBuf) -> Op) -> Result {
        if let Some(path) = self.first_path(call) {
            self.ops.push(op(path));
        }
        Ok(())
    }
}

/// `123 name(args) = result`, with every string in hexadecimal.
struct Call<'a> {
    name: &'a str,
    args: &'a str,
    result: i64,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(' ')?;
        let (call, result) = rest.rsplit_once(" = ")?;
        let (name, args) = call.trim().split_once('(')?;
        let result = result.split([' ', '<']).next()?.parse().ok()?;
        Some(Self { name, args: args.trim_end().strip_suffix(')')?, result })
    }

    fn number(&self, argument: usize) -> Result<i64> {
        let text = self.args.split(", ").nth(argument).unwrap_or_default();
        text.parse().map_err(|_| format!("{text} is not a number"))
    }

    fn last_number(&self) -> Result<i64> {
        let text = self.args.rsplit(", ").next().unwrap_or_default();
        text.parse().map_err(|_| format!("{text} is not a number"))
    }

    fn strings(&self) -> impl Iterator<Item = &'a str> {
        self.args.split('"').skip(1).step_by(2)
    }

    /// Its paths, each with the descriptor of the folder it is relative to.
    fn paths(&self) -> impl Iterator<Item = (Option<i64>, PathBuf)> {
        use std::os::unix::ffi::OsStringExt;
        let mut before = "";
        self.args.split(", ").filter_map(move |argument| {
            let folder = std::mem::replace(&mut before, argument).parse().ok();
            let bytes = unhex(argument.strip_prefix('"')?.strip_suffix('"')?).ok()?;
            Some((folder, std::ffi::OsString::from_vec(bytes).into()))
        })
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        if self.args.contains("\"...") {
            return Err("a write was not recorded whole".to_owned());
        }
        unhex(self.strings().next().unwrap_or_default())
    }
}

/// Decodes `\x61\x62` to bytes.
fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<&str> = text.split("\\x").skip(1).collect();
    let bytes = digits.iter().map(|digits| u8::from_str_radix(digits, 16));
    bytes.collect::<std::result::Result<_, _>>().map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    #[test]
    fn a_trace_becomes_what_was_done_to_the_folder() {
        let trace = format!(
            "7 openat(AT_FDCWD, \"{}\", O_RDONLY|O_CLOEXEC) = 3\n7 read(3, \"\\x7f\", 832) = 832\n7 close(3) = 0\n\
             7 openat(AT_FDCWD, \"{}\", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 3\n\
             7 write(3, \"\\x61\\x62\", 2) = 2\n7 write(3, \"\\x63\", 1) = 1\n\
             7 pwrite64(3, \"\\x64\", 1, 9) = 1\n7 fsync(3)     = 0\n\
             7 rename(\"{}\", \"{}\") = 0\n7 unlink(\"{}\") = -1 ENOENT (No such file or directory)\n\
             7 write(1, \"\\x7b\", 1) = 1\n7 +++ exited with 0 +++\n",
            hex("/lib/libc.so"),
            hex("/f/tmp"),
            hex("/f/tmp"),
            hex("/f/blob"),
            hex("/f/other"),
        );
        let (tmp, blob) = (PathBuf::from("tmp"), PathBuf::from("blob"));
        assert_eq!(
            read(&trace, Path::new("/f")).unwrap(),
            [
                Op::Open(tmp.clone()),
                Op::Write { path: tmp.clone(), at: 0, bytes: b"ab".to_vec() },
                Op::Write { path: tmp.clone(), at: 2, bytes: b"c".to_vec() },
                Op::Write { path: tmp.clone(), at: 9, bytes: b"d".to_vec() },
                Op::Sync(tmp.clone()),
                Op::Rename(tmp, blob),
                Op::Answer,
            ]
        );
    }

    #[test]
    fn a_name_is_relative_to_an_open_folder() {
        let trace = format!(
            "7 openat(AT_FDCWD, \"{}\", O_RDONLY|O_DIRECTORY) = 3\n7 fcntl(3, F_DUPFD_CLOEXEC, 3) = 6\n\
             7 openat(3, \"{}\", O_WRONLY|O_CREAT, 0600) = 4\n7 write(4, \"\\x61\", 1) = 1\n\
             7 renameat(3, \"{}\", 6, \"{}\") = 0\n7 unlinkat(9, \"{}\", 0) = 0\n7 fsync(6) = 0\n",
            hex("/f"),
            hex("tmp"),
            hex("tmp"),
            hex("blob"),
            hex("elsewhere"),
        );
        let (tmp, blob) = (PathBuf::from("tmp"), PathBuf::from("blob"));
        assert_eq!(
            read(&trace, Path::new("/f")).unwrap(),
            [
                Op::Open(tmp.clone()),
                Op::Write { path: tmp.clone(), at: 0, bytes: b"a".to_vec() },
                Op::Rename(tmp, blob),
                Op::Sync(PathBuf::new()),
            ]
        );
    }

    #[test]
    fn what_the_model_does_not_know_is_not_passed_over() {
        let trace = format!("7 symlink(\"{}\", \"{}\") = 0\n", hex("/f/a"), hex("/f/b"));
        assert!(read(&trace, Path::new("/f")).is_err());
        assert_eq!(read(&trace, Path::new("/elsewhere")).unwrap(), []);
    }
}
