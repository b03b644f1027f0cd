//! The program with one thing wrong with it, named by `POSTE_SABOTAGE`: whoever proves that nothing is lost must
//! notice. `POSTE_SABOTAGED_AS=next` makes it the program of the future.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(match std::env::var("POSTE_SABOTAGED_AS").as_deref() {
        Ok("next") => poste_testkit::next::schema_from_environment(),
        _ => poste_core::store::schema::CURRENT,
    })
}
