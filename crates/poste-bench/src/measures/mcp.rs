//! A tool call over pipes, from the last byte of the request to the last byte of the answer.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::office::{READER, WRITER, create, mail_to_reader, submit_all};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, Sample, in_turns, timed};
use crate::{Bench, Result};

const GROUP: &str = "Tools";
const LOOK: &str = r#"{"name":"check_inbox","arguments":{}}"#;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    look_and_send(bench, folder, report)?;
    with_much_waiting(bench, folder, report)
}

fn look_and_send(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("office");
    drop(create(&path, [READER, WRITER])?);
    let mut client = Client::start(&mut bench.poste(&path, WRITER, &["mcp"]))?;
    const SEND: &str = r#"{"name":"send_message","arguments":{"to":"coder","subject":"Measured"}}"#;
    let mut raw = OpenOptions::new().create(true).append(true).open(folder.join("raw"))?;
    let (mut look, mut send, mut sync) = (Sample::default(), Sample::default(), Sample::default());
    // In turns, so that other load on the machine affects all of them equally.
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
    report.add(line.aim(Aim::AtMost(700.0)).detail(detail));
    let line = Line::new(GROUP, "sends with a tool, one after the other", send.rate(), "/s");
    report.add(line.aim(Aim::AtLeast(1_100.0)));
    Ok(())
}

/// A model reads as much of a full inbox as of a small one, so it should wait equally long.
fn with_much_waiting(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let sizes = if bench.short { [10, 1_000] } else { [10, 500_000] };
    let mut clients = Vec::new();
    for size in sizes {
        let path = folder.join(format!("waiting-{size}"));
        submit_all(&mut create(&path, [READER, WRITER])?, (0..size).map(mail_to_reader))?;
        clients.push(Client::start(&mut bench.poste(&path, READER, &["mcp"]))?);
    }
    let look = |client| -> Action<'_> {
        let client: &mut Client = client;
        Box::new(move || timed(|| client.request("tools/call", LOOK)))
    };
    let mut actions: Vec<Action<'_>> = clients.iter_mut().map(look).collect();
    let samples = in_turns(bench.rounds(300), &mut actions)?;
    drop(actions);
    clients.into_iter().try_for_each(Client::finish)?;
    let [few, many] = [&samples[0], &samples[1]].map(Sample::median_us);
    let what = format!("looking into an inbox of {} messages, of the time with {}", sizes[1], sizes[0]);
    let detail = format!("{} against {}, p50", quantity(many, "µs"), quantity(few, "µs"));
    report.add(Line::new(GROUP, what, many / few, "×").aim(Aim::AtMost(1.3)).detail(detail));
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
