//! The ways in which a recipient is rung.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use poste_verbs::live::Reach;
use serde_json::json;

use super::scene::Scene;
use super::server::Server;
use crate::common::{Reaped, until_all_wait};
use crate::hooking::Session;

pub(super) struct Way {
    /// The name that `track` shows.
    pub(super) name: &'static str,
    /// Whether an attempt is recorded.
    pub(super) is_recorded: bool,
    /// Prepares the office.
    pub(super) open: fn(&Scene) -> Begin,
}

/// Starts the session of a recipient that can be rung only in this way.
pub(super) type Begin = Box<dyn Fn(&Scene, &'static str) -> Heard>;

/// Whether the recipient has been rung.
pub(super) type Heard = Box<dyn FnMut() -> bool>;

pub(super) const COMMAND: Way = Way {
    name: "command",
    is_recorded: true,
    open: |scene| {
        let rung = scene.desk.folder.path().join("rung-for-{agent}").display().to_string();
        scene.configure(&format!("[wake]\ncommand = [\"touch\", \"{rung}\"]\n"));
        Box::new(|scene, who| {
            scene.sleeps(who, scene.program.0.id(), Reach::default());
            let rung = scene.desk.folder.path().join(format!("rung-for-{who}"));
            Box::new(move || rung.exists())
        })
    },
};

pub(super) const CLAUDE_SOCKET: Way = Way {
    name: "claude-socket",
    is_recorded: true,
    open: |_| {
        // Paths of sockets must be short.
        let folder = tempfile::tempdir().expect("a folder");
        Box::new(move |scene, who| {
            let socket = folder.path().join(who);
            let listener = UnixListener::bind(&socket).expect("bound");
            scene.sleeps(who, scene.program.0.id(), Reach { socket: Some(socket), ..Reach::default() });
            heard_once(move || {
                let (mut stream, _) = listener.accept().expect("a ring");
                let mut said = String::new();
                stream.read_to_string(&mut said).expect("a line");
                said.contains("run poste inbox")
            })
        })
    },
};

pub(super) const CODEX_QUEUE: Way = Way {
    name: "codex-queue",
    is_recorded: true,
    open: |scene| {
        let folder = scene.desk.folder.path().display();
        let script = scene.desk.programs().join("codex");
        fs::write(&script, format!("#!/bin/sh\ntouch \"{folder}/queued-$3\"\n")).expect("written");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("set");
        Box::new(|scene, who| {
            scene.sleeps(who, scene.program.0.id(), Reach { codex_thread: Some(who.to_owned()), ..Reach::default() });
            let queued = scene.desk.folder.path().join(format!("queued-{who}"));
            Box::new(move || queued.exists())
        })
    },
};

pub(super) const OPENCODE: Way = Way {
    name: "opencode",
    is_recorded: true,
    open: |_| {
        Box::new(|scene, who| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let (opencode_url, opencode_session) = (Some(url), Some(who.to_owned()));
            scene.sleeps(who, scene.program.0.id(), Reach { opencode_url, opencode_session, ..Reach::default() });
            heard_once(move || {
                let (mut stream, _) = listener.accept().expect("a request");
                let (mut request, mut part) = (String::new(), [0; 1024]);
                while !request.ends_with("}]}") {
                    let read = stream.read(&mut part).expect("read");
                    request += &String::from_utf8_lossy(&part[..read]);
                }
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("answered");
                request.contains(&format!("POST /session/{who}/"))
            })
        })
    },
};

/// Listens in the background for one ring.
fn heard_once(listen: impl FnOnce() -> bool + Send + 'static) -> Heard {
    let (rung, heard): (_, Receiver<bool>) = channel();
    std::thread::spawn(move || rung.send(listen()));
    Box::new(move || heard.try_recv().is_ok_and(|is_right| is_right))
}

pub(super) const TMUX: Way = Way {
    name: "tmux",
    is_recorded: true,
    open: |_| {
        let tmux = Tmux(tempfile::tempdir().expect("a folder"));
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sleep 600"]);
        Box::new(move |scene, who| {
            let typed = tmux.0.path().join(who);
            let agent = format!("while read -r line; do echo \"$line\" >> '{}'; done", typed.display());
            let made = tmux.run(&["new-window", "-P", "-F", "#{pane_id} #{pane_pid}", &agent]);
            let (pane, pid) = made.split_once(' ').expect("two words");
            let server = Some(format!("{},1,0", tmux.socket().display()));
            let reach = Reach { tmux: server, tmux_pane: Some(pane.to_owned()), ..Reach::default() };
            scene.sleeps(who, pid.parse().expect("a number"), reach);
            Box::new(move || fs::read_to_string(&typed).is_ok_and(|text| text.contains("run poste inbox")))
        })
    },
};

/// A tmux server with one window for each recipient, where input is written to a file.
struct Tmux(tempfile::TempDir);

impl Tmux {
    fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(self.socket()).args(arguments).output();
        let output = output.expect("tmux is missing; cargo xtask test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").status();
    }
}

pub(super) const REWAKE: Way = Way {
    name: "rewake",
    is_recorded: true,
    open: |_| {
        Box::new(|scene, who| {
            let of = format!("run-{who}");
            let session = Session { agent: Some(who), ..Session::new(&scene.desk, &of, "claude-code") };
            session.hook("session-start");
            let waiter = session.start("wait", &json!({}));
            until_all_wait(&scene.desk, std::slice::from_ref(&waiter));
            let mut waiter = Reaped(waiter);
            // It exits with 2 to wake its session.
            Box::new(move || {
                waiter.ended(Duration::from_millis(10)) && waiter.0.wait().is_ok_and(|status| status.code() == Some(2))
            })
        })
    },
};

/// The recipient's MCP server watches the bell itself and pushes new mail.
pub(super) const CHANNEL: Way = Way {
    name: "channel",
    is_recorded: false,
    open: |_| {
        Box::new(|scene, who| {
            let mut server = Server::start(scene, who, &["--channel"]);
            Box::new(move || server.has_notified("notifications/claude/channel"))
        })
    },
};
