//! A future program: it knows one schema step more.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(poste_testkit::next::schema_from_environment())
}
