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
    let found = fs::symlink_metadata(path).map_err(|error| failure(&error))?;
    // The token is for the session alone.
    if !found.file_type().is_socket() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(failure(&"it is not a socket of this user"));
    }
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
