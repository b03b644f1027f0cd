//! A whole `poste send` process, compared with the `sqlite3` program inserting one row as durably.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result, succeed};

const GROUP: &str = "The whole program";
const BODY: &str = "The harbour tests pass on both machines. Please look at the changed interface first.";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let office = folder.join("office");
    create(&office, [READER, WRITER])?;
    let database = folder.join("rows.db");
    let has_sqlite =
        Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    if has_sqlite {
        let make = "PRAGMA journal_mode=WAL; CREATE TABLE mail (id INTEGER PRIMARY KEY, subject TEXT, body TEXT);";
        succeed(sqlite(&database).arg(make))?;
    } else {
        report.leave_out("`sqlite3` is not installed: the whole program has nothing to be compared with");
    }

    let insert = format!("PRAGMA synchronous=FULL; INSERT INTO mail (subject, body) VALUES ('Step 1', '{BODY}');");
    // Like Poste, it leaves the WAL as it is when the program ends.
    let keep = [".dbconfig no_ckpt_on_close on", &insert];
    let mut actions: Vec<Action<'_>> = vec![
        Box::new(|| timed(|| succeed(&mut bench.poste(&office, WRITER, &["send", READER, "Step 1", BODY])))),
        Box::new(|| timed(|| succeed(&mut bench.poste(&office, WRITER, &["--version"])))),
        Box::new(|| timed(|| succeed(Command::new("true").stdin(Stdio::null())))),
    ];
    if has_sqlite {
        actions.push(Box::new(|| timed(|| succeed(sqlite(&database).arg(&insert)))));
        actions.push(Box::new(|| timed(|| succeed(sqlite(&database).args(keep)))));
    }
    let samples = in_turns(bench.rounds(300), &mut actions)?;
    drop(actions);

    let behind = format!(
        "send p50 {} p95 {}; `poste --version` p50 {}, `true` p50 {}",
        quantity(samples[0].median_us(), "µs"),
        quantity(samples[0].percentile_us(95.0), "µs"),
        quantity(samples[1].median_us(), "µs"),
        quantity(samples[2].median_us(), "µs")
    );
    if let [send, _, _, plain, kept] = samples.as_slice() {
        report.add(
            Line::new(
                GROUP,
                "`poste send`, of the time of `sqlite3` inserting one row",
                send.median_us() / plain.median_us(),
                "×",
            )
            .aim(Aim::AtMost(1.3))
            .detail(format!("{behind}; sqlite3 p50 {}", quantity(plain.median_us(), "µs"))),
        );
        report.add(
            Line::new(
                GROUP,
                "the same, `sqlite3` told not to checkpoint on close",
                send.median_us() / kept.median_us(),
                "×",
            )
            .detail(format!("sqlite3 p50 {}", quantity(kept.median_us(), "µs"))),
        );
    } else {
        report.add(Line::new(GROUP, "`poste send`", samples[0].median_us(), "µs").detail(behind));
    }
    Ok(())
}

fn sqlite(database: &Path) -> Command {
    let mut command = Command::new("sqlite3");
    // Ignores any ~/.sqliterc.
    command
        .args(["-init", "/dev/null", "-batch"])
        .arg(database)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
