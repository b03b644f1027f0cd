//! The inbox socket of a Claude Code session: lines of JSON, nothing comes back. That it was written is all that is known.

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
    let told = |error: &dyn std::fmt::Display| format!("the session's socket: {error}");
    let found = fs::symlink_metadata(path).map_err(|error| told(&error))?;
    // The key is for the session alone.
    if !found.file_type().is_socket() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(told(&"it is no socket of this user"));
    }
    let mut stream = connect_until(path, until).map_err(|error| told(&error))?;
    let mut lines = String::new();
    if let Some(token) = token {
        lines = format!("{}\n", json!({ "type": "auth", "token": token }));
    }
    let message = json!({ "role": "user", "content": text });
    lines += &format!("{}\n", json!({ "type": "user", "message": message, "priority": "next" }));
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_write_timeout(Some(left)).map_err(|error| told(&error))?;
    stream.write_all(lines.as_bytes()).and_then(|()| stream.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => told(&"nobody reads it"),
        _ => told(&error),
    })
}

/// A program that takes no connections any more would hold up a plain `connect` for ever.
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
            Err(Errno::AGAIN) => return Err("nobody takes connections".to_owned()),
            Err(error) => return Err(std::io::Error::from(error).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    const LIMIT: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(500);

    #[test]
    fn the_key_comes_first_and_then_the_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("inbox");
        let listener = UnixListener::bind(&path).expect("bound");
        write(&path, Some("s3cret"), "poste: 1 message waits", LIMIT).expect("written");
        write(&path, None, "poste: again", LIMIT).expect("written");
        let lines = |stream: UnixStream| BufReader::new(stream).lines().map(|line| line.expect("a line")).collect();
        let first: Vec<String> = lines(listener.accept().expect("accepted").0);
        assert_eq!(first[0], r#"{"type":"auth","token":"s3cret"}"#);
        let written: serde_json::Value = serde_json::from_str(&first[1]).expect("JSON");
        assert_eq!(written["message"]["content"], "poste: 1 message waits");
        assert_eq!((&written["type"], &written["priority"]), (&"user".into(), &"next".into()));
        let second: Vec<String> = lines(listener.accept().expect("accepted").0);
        assert_eq!(second.len(), 1, "without a key there is no line for it");
    }

    #[test]
    fn what_is_no_socket_or_takes_nothing_is_told_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("inbox");
        let told = write(&path, None, "x", LIMIT).expect_err("it is not there");
        assert!(told.contains("No such file"), "{told}");
        fs::write(&path, "").expect("written");
        assert!(write(&path, Some("s3cret"), "x", LIMIT).expect_err("a file").contains("no socket of this user"));
        fs::remove_file(&path).expect("removed");
        drop(UnixListener::bind(&path).expect("bound"));
        let told = write(&path, None, "x", LIMIT).expect_err("nobody listens");
        assert!(told.contains("refused"), "{told}");
        fs::remove_file(&path).expect("removed");
        // Nobody accepts: the queue of connections fills up.
        let _listener = UnixListener::bind(&path).expect("bound");
        let start = Instant::now();
        let mut held = Vec::new();
        let told = loop {
            match connect_until(&path, Instant::now() + SHORT) {
                Ok(stream) => held.push(stream),
                Err(_) => break write(&path, None, "x", SHORT).expect_err("it is full"),
            }
            assert!(held.len() < 10_000, "the queue has an end");
        };
        assert!(told.contains("nobody takes connections"), "{told}");
        assert!(start.elapsed() < 2 * LIMIT);
    }
}
