//! The `poste` program, for measurements in the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(poste_core::store::schema::CURRENT)
}
