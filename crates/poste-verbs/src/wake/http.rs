//! An OpenCode server: one request over plain HTTP to this machine, or to a host the user named.
//!
//! Written by hand, since it is one fixed request and only the status of the response counts.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde_json::json;

pub(super) fn prompt(url: &str, session: &str, hosts: &[String], text: &str, limit: Duration) -> Result<(), String> {
    let until = Instant::now() + limit;
    let Server { host, port, prefix } = server(url)?;
    if !is_loopback(host) && !hosts.iter().any(|known| known == host) {
        return Err(format!(
            "the server is not on this machine; allow it in .poste/local.toml: [wake] hosts = [\"{host}\"]"
        ));
    }
    if !super::is_plain(session) {
        return Err("the session id does not fit in a URL".to_owned());
    }
    let body = json!({ "parts": [{ "type": "text", "text": text }] }).to_string();
    let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let request = format!(
        "POST {prefix}/session/{session}/prompt_async HTTP/1.1\r\nHost: {shown}:{port}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let status = status_of(host, port, &request, until).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "the server did not answer in time".to_owned(),
        _ => format!("the server: {error}"),
    })?;
    match status {
        Some(200..=299) => Ok(()),
        Some(status) => Err(format!("the server answered with HTTP {status}")),
        None => Err("the response is not HTTP".to_owned()),
    }
}

/// Whether this is the address of another machine that the user has named.
pub(super) fn is_remote(url: &str, hosts: &[String]) -> bool {
    server(url).is_ok_and(|server| !is_loopback(server.host) && hosts.iter().any(|known| known == server.host))
}

fn is_loopback(host: &str) -> bool {
    ["127.0.0.1", "localhost", "::1"].contains(&host)
}

struct Server<'u> {
    host: &'u str,
    port: u16,
    prefix: &'u str,
}

fn server(url: &str) -> Result<Server<'_>, String> {
    let wrong = || "its address is not of the form http://HOST:PORT".to_owned();
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (place, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (host, port) = match place.strip_prefix('[') {
        Some(six) => six.split_once("]:").ok_or_else(wrong)?,
        None => place.rsplit_once(':').unwrap_or((place, "80")),
    };
    let fits = |text: &str, signs: &str| text.chars().all(|sign| sign.is_ascii_alphanumeric() || signs.contains(sign));
    if host.is_empty() || !fits(host, "-.:") || !fits(prefix, "-._/") || url.len() > 512 {
        return Err(wrong());
    }
    Ok(Server { host, port: port.parse().map_err(|_| wrong())?, prefix: prefix.trim_end_matches('/') })
}

/// The status of the response; `None` if it is not HTTP.
fn status_of(host: &str, port: u16, request: &str, until: Instant) -> std::io::Result<Option<u16>> {
    let left = || Some(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
    let mut tried = Err(std::io::ErrorKind::AddrNotAvailable.into());
    for address in (host, port).to_socket_addrs()? {
        tried = TcpStream::connect_timeout(&address, left().unwrap_or_default());
        if tried.is_ok() {
            break;
        }
    }
    let mut stream = tried?;
    stream.set_write_timeout(left())?;
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0; 1];
    while line.len() < 64 && !line.ends_with(b"\n") {
        // A slow response must still arrive in time.
        stream.set_read_timeout(left())?;
        if Instant::now() >= until || stream.read(&mut byte)? == 0 {
            break;
        }
        line.push(byte[0]);
    }
    if line.is_empty() && Instant::now() >= until {
        return Err(std::io::ErrorKind::TimedOut.into());
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    Ok(line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|status| status.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_stands_in_brackets() {
        let six = server("http://[::1]:4096/x/").expect("an address");
        assert_eq!((six.host, six.port, six.prefix), ("::1", 4096, "/x"));
    }
}
