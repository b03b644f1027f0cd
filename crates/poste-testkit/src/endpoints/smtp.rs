//! A mail server that keeps everything it receives, in plain text.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One accepted mail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// Headers and body, without the dots doubled in transit.
    pub text: String,
    /// The argument of `AUTH PLAIN`, as received.
    pub auth: Option<String>,
}

#[derive(Debug)]
pub struct SmtpSink {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    mails: Mutex<Vec<Mail>>,
    /// How many more mails are refused for now.
    refusals: AtomicU32,
    over: AtomicBool,
}

impl SmtpSink {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this machine");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared::default());
        let of_server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_server.over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&of_server);
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared }
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Refuses the next mails, like a server that is too busy.
    pub fn refuse(&self, mails: u32) {
        self.shared.refusals.store(mails, Ordering::Relaxed);
    }

    pub fn mails(&self) -> Vec<Mail> {
        self.shared.mails.lock().expect("no test panics here").clone()
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    /// Serves a client until it is gone, or until reading or writing fails.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        let mut reader = BufReader::new(stream);
        let say = |line: &str| { stream }.write_all(format!("{line}\r\n").as_bytes()).ok();
        say("220 sink")?;
        let mut mail = Mail::default();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match word.as_str() {
                "EHLO" => say("250-sink\r\n250-8BITMIME\r\n250 AUTH PLAIN")?,
                "AUTH" => {
                    mail.auth = line.rsplit(' ').next().map(ToOwned::to_owned);
                    say("235 welcome")?;
                }
                "MAIL" if self.is_refusing() => say("451 try again later")?,
                "MAIL" => {
                    mail.from = address_of(line);
                    say("250 ok")?;
                }
                "RCPT" => {
                    mail.to.push(address_of(line));
                    say("250 ok")?;
                }
                "DATA" => {
                    say("354 go ahead")?;
                    mail.text = data(&mut reader)?;
                    self.mails.lock().expect("no test panics here").push(std::mem::take(&mut mail));
                    say("250 taken")?;
                }
                "QUIT" => return say("221 bye"),
                _ => say("250 ok")?,
            }
        }
    }

    fn is_refusing(&self) -> bool {
        self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn address_of(line: &str) -> String {
    line.split(['<', '>']).nth(1).unwrap_or_default().to_owned()
}

fn data(reader: &mut impl BufRead) -> Option<String> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.as_str() {
            ".\r\n" => return Some(text),
            line => text.push_str(line.strip_prefix('.').unwrap_or(line)),
        }
    }
}
