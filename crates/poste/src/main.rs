use std::process::ExitCode;

fn main() -> ExitCode {
    poste::main(poste_core::store::schema::CURRENT)
}
