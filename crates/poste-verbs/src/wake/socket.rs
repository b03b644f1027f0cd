//! The inbox socket of a Claude Code session. It takes lines of JSON and sends nothing back, so success only means that
//! they were written.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::json;

pub(super) fn write(path: &Path, token: Option<&str>, text: &str, limit: Duration) -> Result<(), String> {
    let until = Instant::now() + limit;
    let failure = |error: &dyn std::fmt::Display| format!("the session's socket: {error}");
    // The token is for the session alone.
    check_own(path).map_err(|error| failure(&error))?;
    let mut stream = connect_until(path, until).map_err(|error| failure(&error))?;
    let mut lines = String::new();
    if let Some(token) = token {
        lines = format!("{}\n", json!({ "type": "auth", "token": token }));
    }
    let message = json!({ "role": "user", "content": text });
    lines += &format!("{}\n", json!({ "type": "user", "message": message, "priority": "next" }));
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_write_timeout(Some(left)).map_err(|error| failure(&error))?;
    stream.write_all(lines.as_bytes()).and_then(|()| stream.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => failure(&"no program reads it"),
        _ => failure(&error),
    })
}

/// Fails unless a socket belongs to this user and no other user can put another one in its place.
pub(super) fn check_own(path: &Path) -> Result<(), String> {
    let me = rustix::process::geteuid().as_raw();
    let socket = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !socket.file_type().is_socket() || socket.uid() != me {
        return Err("it is not a socket of this user".to_owned());
    }
    let folder = path.parent().map(fs::metadata).transpose().map_err(|error| error.to_string())?;
    let is_safe = folder.is_some_and(|folder| {
        // In a sticky folder such as /tmp, others cannot replace it.
        let others_may_replace = folder.mode() & 0o022 != 0 && folder.mode() & 0o1000 == 0;
        (folder.uid() == me || folder.uid() == 0) && !others_may_replace
    });
    if is_safe { Ok(()) } else { Err("other users can replace it".to_owned()) }
}

/// A program that no longer accepts connections would block a plain `connect` forever.
fn connect_until(path: &Path, until: Instant) -> Result<UnixStream, String> {
    let address = SocketAddrUnix::new(path).map_err(|error| error.to_string())?;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|it| it.to_string())?;
        match connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false).map_err(|error| error.to_string())?;
                return Ok(stream);
            }
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(Errno::AGAIN) => return Err("it accepts no connections".to_owned()),
            Err(error) => return Err(std::io::Error::from(error).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_others_could_replace_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let with_mode = |mode| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            check_own(&path)
        };
        assert_eq!([0o700, 0o755, 0o1777].map(|mode| with_mode(mode).is_ok()), [true; 3]);
        assert_eq!([0o777, 0o775].map(|mode| with_mode(mode).is_ok()), [false; 2]);
        with_mode(0o700).unwrap();
        symlink("socket", folder.path().join("link")).unwrap();
        assert!(check_own(&folder.path().join("link")).is_err());
        assert!(check_own(&folder.path().join("missing")).is_err());
    }
}
