//! The program with one defect, named by `POSTE_SABOTAGE`. The tests that prove that nothing is lost must notice it.
//! `POSTE_SABOTAGED_AS=next` makes it the future program.

use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(match std::env::var("POSTE_SABOTAGED_AS").as_deref() {
        Ok("next") => poste_testkit::next::schema_from_environment(),
        _ => poste_core::store::schema::CURRENT,
    })
}
