//! An HTTP server with one endpoint.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How the endpoint answers from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Takes,
    /// Accepts it after a while.
    TakesAfter(Duration),
    /// Answers with this status.
    Refuses(u16),
    /// Accepts it and hangs up without an answer, so that the outcome is unknown.
    TakesInSilence,
    /// Reads it and never answers.
    Hangs,
}

/// One request, however it was answered.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// Names are in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub at: Instant,
    /// Whether it was accepted.
    pub taken: bool,
}

#[derive(Debug)]
pub struct HttpEndpoint {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mood: Mutex<Mood>,
    received: Mutex<Vec<Received>>,
    over: AtomicBool,
}

impl HttpEndpoint {
    pub fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this machine");
        let address = listener.local_addr().expect("an address").to_string();
        let shared =
            Arc::new(Shared { mood: Mutex::new(mood), received: Mutex::default(), over: AtomicBool::new(false) });
        let of_server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_server.over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&of_server);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, mood: Mood) {
        *self.shared.mood.lock().expect("no test panics here") = mood;
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no test panics here").clone()
    }

    /// The accepted requests, in the order they arrived.
    pub fn taken(&self) -> Vec<Received> {
        self.received().into_iter().filter(|received| received.taken).collect()
    }
}

impl Drop for HttpEndpoint {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let Some((path, headers, body)) = read(&stream) else { return };
        let mood = *self.mood.lock().expect("no test panics here");
        let taken = matches!(mood, Mood::Takes | Mood::TakesAfter(_) | Mood::TakesInSilence);
        if let Mood::TakesAfter(length) = mood {
            std::thread::sleep(length);
        }
        let received = Received { path, headers, body, at: Instant::now(), taken };
        self.received.lock().expect("no test panics here").push(received);
        let status = match mood {
            Mood::Takes | Mood::TakesAfter(_) => 200,
            Mood::Refuses(status) => status,
            Mood::TakesInSilence => return,
            Mood::Hangs => {
                // Until the client gives up, or the test ends.
                let _ = (&stream).read(&mut [0]);
                return;
            }
        };
        let _ = (&stream).write_all(
            format!("HTTP/1.1 {status} X\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{{\"ok\":true}}").as_bytes(),
        );
    }
}

fn read(stream: &TcpStream) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length.min(64 * 1024 * 1024)];
    reader.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}
