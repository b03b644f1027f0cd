//! The program as it is, under a name that the version tests can find.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(poste_core::store::schema::CURRENT)
}
