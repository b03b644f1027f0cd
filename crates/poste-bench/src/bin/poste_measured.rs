//! The `poste` program, for measuring it in tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(poste_core::store::schema::CURRENT)
}
