//! A program of the future: it knows one schema step more. Which programs its step still lets in is set by
//! `POSTE_NEXT_LETS_IN`: `readers` (the default), `writers` or `nobody`.

use std::process::ExitCode;

use poste_core::store::schema::{CURRENT, Schema, Step};

const STEP: &str = "CREATE TABLE of_the_future (key INTEGER PRIMARY KEY) STRICT;";
const NOW: Step = CURRENT.steps[0];

const LETS_IN_READERS: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 2, min_reader: 1 }] };
const LETS_IN_WRITERS: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 1, min_reader: 1 }] };
const LETS_IN_NOBODY: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 2, min_reader: 2 }] };

// A real second step makes the one above the third.
const _: () = assert!(CURRENT.steps.len() == 1);

fn main() -> ExitCode {
    poste::main(match std::env::var("POSTE_NEXT_LETS_IN").as_deref() {
        Ok("writers") => LETS_IN_WRITERS,
        Ok("nobody") => LETS_IN_NOBODY,
        _ => LETS_IN_READERS,
    })
}
