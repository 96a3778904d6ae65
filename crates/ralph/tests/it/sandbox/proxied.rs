//! The only way out of a sandbox's network: a listener that is passed to the proxy outside.

use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use ralph_io::process::{Captured, ProcessLimits, Spawn, StdinSource, Watch, capture_output};
use ralph_io::sandbox::{
    BackendConfig, DetectionContext, HandedFiles, ProbeResult, ProxyEndpoint, SandboxLauncher,
    SandboxPaths, probe_backend,
};
use ralph_model::sandbox::{GitAccess, SandboxPolicy};
use ralph_testkit::sealed::Sealed;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::sealed;

/// What a program inside does: it uses the proxy, and finds nothing else to connect to.
const PROGRAM: &str = "
import os, socket, sys
host, port = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')
with socket.create_connection((host, int(port)), timeout=5) as proxy:
    sys.stdout.write(proxy.recv(64).decode())
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=2)
    sys.exit(3)
except OSError:
    pass
";

fn places(sealed: &Sealed) -> SandboxPaths {
    let state = sealed.state_dir().join("project");
    std::fs::create_dir_all(state.join("run")).expect("a directory");
    SandboxPaths {
        project: sealed.project_dir(),
        work_tree: sealed.project_dir(),
        history: Vec::new(),
        borrowed: Vec::new(),
        run: state.join("run"),
        state,
        agent_state: Vec::new(),
        programs: Vec::new(),
        home: Some(sealed.root().join("home")),
        path: "/usr/bin".into(),
        executable: env!("CARGO_BIN_EXE_ralph").into(),
        git_files: Vec::new(),
        opened: Vec::new(),
        variables: Vec::new(),
        outputs: Vec::new(),
    }
}

fn run(
    sealed: &Sealed,
    wall: BackendConfig,
    door: Option<ProxyEndpoint>,
    words: &[&str],
) -> Captured {
    let policy = SandboxPolicy { git: GitAccess::Ro, ..SandboxPolicy::default() };
    let launcher = SandboxLauncher::new(wall, policy, places(sealed), door);
    let spawn = Spawn {
        program: "/usr/bin/python3".into(),
        args: words.iter().map(Into::into).collect(),
        cwd: sealed.project_dir(),
        env: Vec::new(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    };
    let spawn = launcher.wrap_spawn(spawn, &HandedFiles::default()).expect("launched");
    capture_output(&spawn, &Watch::new_detached(), 4096)
}

/// Returns the backends that work here.
fn walls(sealed: &Sealed) -> Vec<BackendConfig> {
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let ralph = Path::new(env!("CARGO_BIN_EXE_ralph"));
    let around = DetectionContext::for_kernel_backends(ralph, &sealed.project_dir(), env);
    let kinds = super::backends();
    ralph_model::sandbox::Backend::ALL
        .into_iter()
        .filter(|backend| kinds.contains(&backend.name()))
        .filter_map(|it| match probe_backend(it, &around) {
            ProbeResult::Works((wall, _)) => Some(wall),
            ProbeResult::Fails { .. } => None,
        })
        .collect()
}

/// Waits for a listener to be passed, and greets each client that connects through it.
fn greet(handover: &UnixListener) {
    let (stream, _) = handover.accept().expect("a call");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut output_text = [0; 64];
    let mut pieces = [std::io::IoSliceMut::new(&mut output_text)];
    let got = recvmsg(&stream, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC);
    assert_eq!(&output_text[..got.expect("a message").bytes], b"proxy\n");
    let handed = control.drain().find_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut files) = message { files.next() } else { None }
    });
    (&stream).write_all(b"ok\n").expect("answered");
    let (mut inside, _) =
        TcpListener::from(handed.expect("a listener")).accept().expect("a connection");
    inside.write_all(b"hello").expect("said");
    // The connection lasts as long as the sandbox, and carries nothing else.
    assert_eq!((&stream).read(&mut [0; 1]).expect("the end"), 0);
}

#[test]
fn the_proxy_takes_over_a_listener_and_is_all_that_can_be_reached() {
    let sealed = sealed();
    sealed.write_file("talk.py", PROGRAM);
    let host = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let host = host.local_addr().expect("an address").port().to_string();
    for (number, wall) in walls(&sealed).into_iter().enumerate() {
        let path = sealed.root().join(format!("handover-{number}"));
        let handover = UnixListener::bind(&path).expect("a socket");
        let proxy = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = proxy.local_addr().expect("an address").port();
        let greeter = match wall {
            BackendConfig::Native | BackendConfig::Bwrap { .. } => {
                thread::spawn(move || greet(&handover))
            }
            BackendConfig::Container(_) | BackendConfig::Sbx(_) => {
                panic!("these are not the kernel's")
            }
            BackendConfig::Landlock => thread::spawn(move || {
                let (mut inside, _): (TcpStream, _) = proxy.accept().expect("a connection");
                inside.write_all(b"hello").expect("said");
            }),
        };
        let door = ProxyEndpoint { handover: path, forwards: Vec::new(), port };
        let ran = run(&sealed, wall.clone(), Some(door), &["talk.py", &host]);
        let output_text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.end.ending.is_success(), "{wall:?}: {}: {output_text}", ran.end.ending);
        assert_eq!(ran.stdout, b"hello", "{wall:?}");
        greeter.join().expect("greeted");
    }
}

#[test]
fn missing_proxy_is_reported() {
    let sealed = sealed();
    for wall in walls(&sealed).into_iter().filter(|wall| *wall != BackendConfig::Landlock) {
        let door =
            ProxyEndpoint { handover: sealed.root().join("absent"), forwards: Vec::new(), port: 1 };
        let ran = run(&sealed, wall.clone(), Some(door), &["-c", "pass"]);
        let output_text = String::from_utf8_lossy(&ran.stderr).into_owned();
        let reason =
            ralph_io::sandbox::find_setup_failure("python3", &ran.end.ending, &output_text);
        let reason = reason.expect("it was not started").to_string();
        assert!(reason.contains("cannot reach the proxy at"), "{wall:?}: {reason}");
    }
}

/// A server of the project on the usual port of a proxy does not meet ralph's.
#[test]
fn the_usual_port_of_a_proxy_is_free_inside() {
    const SERVER: &str = "import os, socket; socket.create_server((\"127.0.0.1\", 3128)); \
        print(os.environ[\"HTTPS_PROXY\"])";
    for backend in super::backends().into_iter().filter(|it| *it != "landlock") {
        let sealed = crate::sealed();
        let words = ["sandbox", "exec", "--backend", backend, "--network", "proxy", "--"];
        let end = sealed.run_ralph(&[&words[..], &["python3", "-c", SERVER]].concat());
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        assert_eq!(end.stdout, "http://127.0.0.1:61128\n", "{backend}");
    }
}
