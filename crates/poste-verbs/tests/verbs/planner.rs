//! The ways to wake an agent, chosen by what is known about it.

use poste_core::log::SessionProcess;
use poste_core::store::processes::Presence;
use poste_core::views::LiveSession;
use poste_verbs::live::Reach;
use poste_verbs::wake::planner::WAYS_MAX;
use poste_verbs::wake::{Known, Way, plan};

fn session(presence: Presence, has_process: bool) -> LiveSession {
    let process = SessionProcess { pid: 7, started_ms: Some(1), place: "here".to_owned() };
    LiveSession {
        id: "s1".parse().expect("a session"),
        process: has_process.then_some(process),
        presence,
        program: "claude".to_owned(),
        host: "desk".to_owned(),
        elsewhere: false,
    }
}

fn everything() -> Reach {
    Reach {
        socket: Some("/run/s".into()),
        socket_token: Some("s3cret".to_owned()),
        tmux: Some("/tmp/tmux,odd/default,12,0".to_owned()),
        tmux_pane: Some("%3".to_owned()),
        codex_thread: Some("t1".to_owned()),
        opencode_url: Some("http://127.0.0.1:4096".to_owned()),
        opencode_session: Some("o1".to_owned()),
    }
}

#[test]
fn the_ways_are_chosen_by_what_is_known() {
    use Presence::{Gone, Running, Unknown};
    let all = everything();
    let none = Reach::default();
    let half = Reach { tmux: Some("/t,1,2".to_owned()), opencode_url: all.opencode_url.clone(), ..Reach::default() };
    let pane = Reach { tmux: all.tmux.clone(), tmux_pane: all.tmux_pane.clone(), ..Reach::default() };
    let nonsense = Reach { tmux: Some("no path".to_owned()), ..pane.clone() };
    let words = ["notify".to_owned()];
    let in_session = ["claude-socket", "codex-queue", "opencode", "tmux"];
    // The session, a waiter, the reach, a command: the ways, and the reason if there is none.
    type Row<'r> = (Option<(Presence, bool)>, bool, &'r Reach, bool, &'r [&'r str], &'r str);
    let rows: &[Row<'_>] = &[
        (None, false, &none, false, &[], "it has no live session"),
        (None, false, &all, true, &["command"], "it has no live session"),
        (Some((Running, true)), false, &all, false, &in_session, "reports no way"),
        (
            Some((Running, true)),
            false,
            &all,
            true,
            &["claude-socket", "codex-queue", "opencode", "tmux", "command"],
            "",
        ),
        (Some((Running, true)), false, &none, false, &[], "reports no way"),
        (Some((Running, true)), false, &none, true, &["command"], "reports no way"),
        (Some((Running, true)), true, &all, true, &["rewake"], "reports no way"),
        (Some((Running, true)), false, &half, false, &[], "reports no way"),
        (Some((Running, true)), false, &pane, true, &["tmux", "command"], "reports no way"),
        (Some((Running, true)), false, &nonsense, false, &[], "reports no way"),
        (Some((Gone, true)), true, &all, false, &[], "has ended"),
        (Some((Gone, true)), false, &all, true, &["command"], "has ended"),
        (Some((Unknown, true)), true, &all, false, &[], "runs elsewhere (desk)"),
        (Some((Unknown, false)), false, &all, false, &in_session[..3], "reports no way"),
        (Some((Unknown, false)), true, &none, true, &["rewake"], "reports no way"),
    ];
    for (at, (row, waiter, reach, command, expected, why)) in rows.iter().enumerate() {
        let session = row.map(|(presence, has_process)| session(presence, has_process));
        let known = Known {
            session: session.as_ref(),
            waiter: *waiter,
            reach,
            spawn: false,
            command: command.then_some(&words),
            hosts: &[],
            remote: false,
        };
        let spawned = plan(&Known { spawn: true, ..known });
        let plan = plan(&known);
        // Only an agent without a live session gets a new one, before anything else is tried.
        let has_none = row.is_none_or(|(presence, _)| presence == Gone);
        assert_eq!(spawned.ways.contains(&Way::Spawn), has_none, "row {at}");
        let others: Vec<Way> = spawned.ways.iter().filter(|way| **way != Way::Spawn).cloned().collect();
        assert_eq!(others, plan.ways, "row {at}");
        let found: Vec<&str> = plan.ways.iter().map(|way| way.word().word()).collect();
        assert_eq!(found, *expected, "row {at}");
        assert!(found.len() <= WAYS_MAX as usize);
        assert!(plan.why_not.contains(why), "row {at}: {}", plan.why_not);
        assert!(!format!("{plan:?}").contains("s3cret"), "a printed plan contains no key");
    }
}

#[test]
fn a_session_of_another_machine_is_rung_there() {
    let elsewhere = LiveSession { elsewhere: true, ..session(Presence::Unknown, false) };
    let (reach, words) = (everything(), ["notify".to_owned()]);
    let known = Known {
        session: Some(&elsewhere),
        waiter: true,
        reach: &reach,
        spawn: true,
        command: Some(&words),
        hosts: &[],
        remote: true,
    };
    let plan = plan(&known);
    assert_eq!(plan.ways, []);
    assert!(plan.why_not.contains("another machine (desk)"), "{}", plan.why_not);
}

#[test]
fn a_server_on_another_host_is_asked_by_dispatchers_only() {
    let here = session(Presence::Running, true);
    let (url, session) = (Some("http://10.0.0.7:4096".to_owned()), Some("o1".to_owned()));
    let reach = Reach { opencode_url: url, opencode_session: session, ..Reach::default() };
    let hosts = ["10.0.0.7".to_owned()];
    let known = Known {
        session: Some(&here),
        waiter: false,
        reach: &reach,
        spawn: false,
        command: None,
        hosts: &hosts,
        remote: false,
    };
    let left = plan(&known);
    assert_eq!(left.ways, []);
    assert!(left.why_not.contains("a dispatcher asks it"), "{}", left.why_not);
    let ways = |known: &Known<'_>| plan(known).ways.iter().map(|way| way.word().word()).collect::<Vec<_>>();
    assert_eq!(ways(&Known { remote: true, ..known }), ["opencode"]);
    // An unnamed host stays in the plan: the attempt asks no server, but explains how to name the host.
    assert_eq!(ways(&Known { hosts: &[], ..known }), ["opencode"]);
}

#[test]
fn a_path_with_commas_is_still_the_socket() {
    let here = session(Presence::Running, true);
    let ways = |tmux: &str| {
        let reach = Reach { tmux: Some(tmux.to_owned()), tmux_pane: Some("%3".to_owned()), ..Reach::default() };
        plan(&Known {
            session: Some(&here),
            waiter: false,
            reach: &reach,
            spawn: false,
            command: None,
            hosts: &[],
            remote: false,
        })
        .ways
    };
    let found = ways("/tmp/tmux,odd/default,12,0");
    assert!(
        matches!(&found[..], [Way::Tmux { socket, .. }] if socket.as_os_str() == "/tmp/tmux,odd/default"),
        "{found:?}"
    );
    assert_eq!(ways("relative,1,2"), []);
    assert_eq!(ways("/tmp/x"), []);
}
