//! Servers on this machine that notifiers talk to: they take, refuse, hang and lie as a test says.

mod http;
mod smtp;

pub use http::{HttpEndpoint, Mood, Received};
pub use smtp::{Mail, SmtpSink};
