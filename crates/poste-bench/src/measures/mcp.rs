//! A call of a tool over pipes, from the request's last byte to the answer's.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Sample, timed};
use crate::{Bench, Result};

const GROUP: &str = "Tools";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("office");
    drop(create(&path, [READER, WRITER])?);
    let mut client = Client::start(&mut bench.poste(&path, WRITER, &["mcp"]))?;
    const LOOK: &str = r#"{"name":"check_inbox","arguments":{}}"#;
    const SEND: &str = r#"{"name":"send_message","arguments":{"to":"coder","subject":"Measured"}}"#;
    let mut raw = OpenOptions::new().create(true).append(true).open(folder.join("raw"))?;
    let (mut look, mut send, mut sync) = (Sample::default(), Sample::default(), Sample::default());
    // In turns, so that whatever else the machine does falls on all alike.
    for _ in 0..bench.rounds(500) {
        look.push(timed(|| client.request("tools/call", LOOK))?);
        send.push(timed(|| client.request("tools/call", SEND))?);
        sync.push(timed(|| {
            raw.write_all(&[0; 1_000])?;
            Ok(raw.sync_data()?)
        })?);
    }
    client.finish()?;
    let told = |sample: &Sample| {
        let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| quantity(sample.percentile_us(percent), "µs"));
        format!("p50 {p50} p95 {p95} p99 {p99}")
    };
    let line = Line::new(GROUP, "looking into an inbox with a tool, p50", look.median_us(), "µs");
    report.add(line.aim(Aim::AtMost(1_000.0)).detail(told(&look)));
    let above = send.median_us() - sync.median_us();
    let line = Line::new(GROUP, "sending with a tool, p50 beyond one synced append", above, "µs");
    let detail = format!("{}; the append {}", told(&send), told(&sync));
    report.add(line.aim(Aim::AtMost(1_000.0)).detail(detail));
    Ok(())
}

/// A client of the server, over pipes.
pub(super) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    pub(super) fn start(server: &mut Command) -> Result<Self> {
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("the server has a stdin")?;
        let output = BufReader::new(child.stdout.take().ok_or("the server has a stdout")?);
        let mut client = Self { child, input, output, id: 0 };
        client.request(
            "initialize",
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
        )?;
        Ok(client)
    }

    pub(super) fn finish(self) -> Result {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait()?;
        Ok(())
    }

    fn request(&mut self, method: &str, params: &str) -> Result {
        self.ask(method, params)?;
        self.answer(method)
    }

    pub(super) fn ask(&mut self, method: &str, params: &str) -> Result {
        self.id += 1;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n", self.id);
        Ok(self.input.write_all(line.as_bytes())?)
    }

    pub(super) fn answer(&mut self, method: &str) -> Result {
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        let is_fine = answer.contains("\"result\"") && !answer.contains("\"isError\":true");
        if is_fine { Ok(()) } else { Err(format!("{method}: {answer}").into()) }
    }
}
