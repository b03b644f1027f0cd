//! Recorded processes are recognized again.

use std::process::{Command, Stdio};

use poste_core::log::SessionProcess;
use poste_core::store::processes::{Presence, program, written_down};

#[test]
#[cfg(target_os = "linux")]
fn a_process_is_known_again_and_its_number_alone_is_not_enough() {
    let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let written = written_down(child.id());
    while program(child.id()).as_deref() != Some("sleep") {
        std::thread::yield_now(); // the program's name is known a moment after the start
    }
    assert_eq!(Presence::of(Some(&written)), Presence::Running);
    let earlier = SessionProcess { started_ms: written.started_ms.map(|ms| ms - 10), ..written.clone() };
    assert_eq!(Presence::of(Some(&earlier)), Presence::Gone, "another process has that pid now");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(Presence::of(Some(&written)), Presence::Gone);
    let elsewhere = SessionProcess { place: "another boot".to_owned(), ..written };
    assert_eq!(Presence::of(Some(&elsewhere)), Presence::Unknown);
    assert_eq!(Presence::of(None), Presence::Unknown);
}
