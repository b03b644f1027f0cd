//! The schema of a future program: one step more than today's. The three variants differ in which older programs they
//! still let in.

use poste_core::store::schema::{CURRENT, Schema, Step};

const STEP: &str = "CREATE TABLE of_the_future (key INTEGER PRIMARY KEY) STRICT;";
const NOW: Step = CURRENT.steps[0];

pub const LETS_IN_READERS: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 2, min_reader: 1 }] };
pub const LETS_IN_WRITERS: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 1, min_reader: 1 }] };
pub const LETS_IN_NOBODY: Schema = Schema { steps: &[NOW, Step { sql: STEP, min_writer: 2, min_reader: 2 }] };

// A real second step would make the one above the third.
const _: () = assert!(CURRENT.steps.len() == 1);

/// The variant that `POSTE_NEXT_LETS_IN` names: `readers` (the default), `writers` or `nobody`.
pub fn schema_from_environment() -> Schema {
    match std::env::var("POSTE_NEXT_LETS_IN").as_deref() {
        Ok("writers") => LETS_IN_WRITERS,
        Ok("nobody") => LETS_IN_NOBODY,
        _ => LETS_IN_READERS,
    }
}
