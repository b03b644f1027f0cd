//! A call of a tool over pipes, from the request's last byte to the answer's.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Sample, timed};
use crate::{Bench, Result};

const GROUP: &str = "Tools";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("office");
    drop(create(&path, [READER, WRITER])?);
    let mut child = bench.poste(&path, WRITER, &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or("the server has a stdin")?;
    let output = BufReader::new(child.stdout.take().ok_or("the server has a stdout")?);
    let mut client = Client { input, output, id: 0 };
    client.request(
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
    )?;
    let tools = [
        ("looking into an inbox", r#"{"name":"check_inbox","arguments":{}}"#, 1_000.0),
        ("sending", r#"{"name":"send_message","arguments":{"to":"coder","subject":"Measured"}}"#, 3_000.0),
    ];
    for (what, params, aim_us) in tools {
        let mut sample = Sample::default();
        for _ in 0..bench.rounds(500) {
            sample.push(timed(|| client.request("tools/call", params))?);
        }
        let line = Line::new(GROUP, format!("{what} with a tool, p50"), sample.median_us(), "µs");
        let rest = format!(
            "p95 {} p99 {}; sending has an fsync in it",
            quantity(sample.percentile_us(95.0), "µs"),
            quantity(sample.percentile_us(99.0), "µs")
        );
        report.add(line.aim(Aim::AtMost(aim_us)).detail(rest));
    }
    drop(client);
    child.wait()?;
    Ok(())
}

struct Client {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    fn request(&mut self, method: &str, params: &str) -> Result {
        self.id += 1;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n", self.id);
        self.input.write_all(line.as_bytes())?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        let is_fine = answer.contains("\"result\"") && !answer.contains("\"isError\":true");
        if is_fine { Ok(()) } else { Err(format!("{method}: {answer}").into()) }
    }
}
