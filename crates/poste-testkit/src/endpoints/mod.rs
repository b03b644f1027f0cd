//! Local servers that notifiers talk to: they accept, refuse, hang and lie as a test tells them to.

mod http;
mod smtp;

pub use http::{HttpEndpoint, Mood, Received};
pub use smtp::{Mail, SmtpSink};
