//! One message per line on stdin and stdout.
//!
//! Separate threads read and write, so that neither a client that sends without end nor one that never reads can stop a
//! call from being cancelled. The work after an answer is done once the answer was written and flushed.

use std::io::{self, BufRead, Write};
use std::sync::mpsc as blocking;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt};
use tokio::sync::{mpsc, oneshot, watch};

use super::server::{Due, Server};
use super::table::Table;

/// Maximum length of a line: a message of the maximum size, and room for its JSON.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages in the queue; a client that sends more waits. Each may be as long as a line may be.
const QUEUE_MAX: usize = 8;

/// Timeout for writing the last answers after the client has hung up.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves one client until it hangs up. Returns once everything that could be written was written, and the work after
/// it was done.
pub fn serve_stdio<T: Table>(
    table: T,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let server = Server::new(table).with_after();
    let (lines, lines_in) = mpsc::channel(QUEUE_MAX);
    let (answers, answers_out) = blocking::channel();
    let (broken, is_broken) = watch::channel(false);
    let (written, all_written) = blocking::channel::<()>();
    std::thread::spawn(move || read(input, &lines));
    std::thread::spawn(move || {
        let _written = written; // dropping it signals the end
        write(output, &answers_out, &broken);
    });
    let carrier = Stdio { server: server.clone(), lines: lines_in, answers: Some(answers), is_broken, is_begun: false };
    runtime.block_on(async {
        // A client that leaves before its first message ends the server like any other.
        if let Ok(running) = server.clone().serve(carrier).await {
            let _ = running.waiting().await;
        }
    });
    server.hang_up();
    let _ = all_written.recv_timeout(FLUSH_TIMEOUT);
    // A thread that still waits must not keep the process alive.
    runtime.shutdown_background();
    Ok(())
}

enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads lines until the client has hung up, or the receiver is dropped.
fn read(mut input: impl BufRead, lines: &mpsc::Sender<Line>) {
    while let Some(line) = read_line(&mut input, FRAME_BYTES_MAX) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Reads one line without ever keeping more of it than allowed. An unfinished line at the end is dropped.
fn read_line(input: &mut impl BufRead, max: usize) -> Option<Line> {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if available.is_empty() {
            return None;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = &available[..end.unwrap_or(available.len())];
        is_too_long |= line.len() + taken.len() > max;
        match is_too_long {
            true => line = Vec::new(),
            false => line.extend_from_slice(taken),
        }
        let used = taken.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Some(if is_too_long { Line::TooLong } else { Line::Text(line) });
        }
    }
}

struct Outgoing {
    line: Vec<u8>,
    due: Option<Due>,
    sent: oneshot::Sender<io::Result<()>>,
}

/// Writes answers one after the other. The work after an answer that was not written is dropped.
fn write(mut output: impl Write, answers: &blocking::Receiver<Outgoing>, broken: &watch::Sender<bool>) {
    for Outgoing { line, due, sent } in answers {
        let written = output.write_all(&line).and_then(|()| output.flush());
        let failed = written.is_err();
        let _ = sent.send(written);
        if failed {
            broken.send_replace(true);
            return;
        }
        if let Some(due) = due {
            due.run();
        }
    }
}

struct Stdio<T> {
    server: Server<T>,
    lines: mpsc::Receiver<Line>,
    answers: Option<blocking::Sender<Outgoing>>,
    is_broken: watch::Receiver<bool>,
    /// Whether the client has sent a request: before that, no other message counts.
    is_begun: bool,
}

impl<T: Table> Stdio<T> {
    fn queue(&self, message: &ServerJsonRpcMessage) -> Result<oneshot::Receiver<io::Result<()>>, io::Error> {
        let answers = self.answers.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let due = id.and_then(|id| self.server.take_due(id));
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let (sent, is_sent) = oneshot::channel();
        answers.send(Outgoing { line, due, sent }).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(is_sent)
    }

    /// Parses the message of a line. If it is none, refuses it where that helps the client.
    fn parse(&mut self, line: Line) -> Option<ClientJsonRpcMessage> {
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong => {
                let message = format!("message exceeds {} MiB", FRAME_BYTES_MAX / 1024 / 1024);
                self.refuse(None, ErrorCode::INVALID_REQUEST, message);
                return None;
            }
        };
        match serde_json::from_slice::<ClientJsonRpcMessage>(&text) {
            Ok(message @ JsonRpcMessage::Request(_)) => {
                self.is_begun = true;
                Some(message)
            }
            Ok(message) => self.is_begun.then_some(message),
            Err(_) => {
                // A line that is not JSON is skipped: there is no request to answer.
                let value = serde_json::from_slice::<serde_json::Value>(&text).ok()?;
                let is_notification = value.get("method").is_some() && value.get("id").is_none();
                if !is_notification {
                    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
                    self.refuse(id, ErrorCode::INVALID_REQUEST, "this is not a valid request".to_owned());
                }
                None
            }
        }
    }

    fn refuse(&self, id: Option<RequestId>, code: ErrorCode, message: String) {
        // If this fails, the client has hung up, which is noticed elsewhere.
        let _ = self.queue(&ServerJsonRpcMessage::error(ErrorData::new(code, message, None), id));
    }
}

impl<T: Table> Transport<RoleServer> for Stdio<T> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let queued = self.queue(&message);
        async move { queued?.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))? }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                line = self.lines.recv() => line,
                _ = self.is_broken.wait_for(|broken| *broken) => None,
            };
            let Some(line) = line else {
                self.server.hang_up();
                return None;
            };
            if let Some(message) = self.parse(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.answers = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_kept_beyond_its_limit() {
        let mut input = io::BufReader::with_capacity(3, &b"ab\n\nabcdefgh\nlast\nhalf"[..]);
        let mut next = || match read_line(&mut input, 5) {
            Some(Line::Text(text)) => Some(String::from_utf8(text).unwrap()),
            Some(Line::TooLong) => Some("too long".to_owned()),
            None => None,
        };
        assert_eq!(next().as_deref(), Some("ab"));
        assert_eq!(next().as_deref(), Some(""));
        assert_eq!(next().as_deref(), Some("too long"));
        assert_eq!(next().as_deref(), Some("last"));
        assert_eq!(next(), None, "an unfinished line is not a message");
    }
}
