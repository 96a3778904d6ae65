//! The way out of a sandbox: what runs inside and reaches the proxy outside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use expect_test::expect;
use ralph_core::sandbox::reach::{Reach, Reason, Refusal};
use ralph_core::sandbox::{NetworkMode, NetworkPolicy, Policy};
use ralph_io::process::{Captured, Limits, Spawn, Stdin, Watch, capture};
use ralph_io::sandbox::boundary::{Boundary, Place};
use ralph_io::sandbox::container::{Container, Engine, container_name};
use ralph_io::sandbox::proxy::{Handover, Limits as ProxyLimits, Proxy, Resolve};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A server that answers each connection with the first that it heard, in capitals.
fn origin() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 1000];
                let read = stream.read(&mut buffer).unwrap_or_default();
                buffer.make_ascii_uppercase();
                let _ = stream.write_all(&buffer[..read]);
            });
        }
    });
    port
}

/// A proxy that allows `good.test` on a port, and that port of this machine.
fn proxy(port: u16) -> Proxy {
    let policy = NetworkPolicy {
        mode: NetworkMode::Proxy,
        allow: vec![format!("good.test:{port}"), format!("localhost:{port}")],
        deny: Vec::new(),
        allow_private: vec!["127.0.0.1".into()],
    };
    let resolve: Resolve = Arc::new(|_| Ok(vec![Ipv4Addr::LOCALHOST.into()]));
    let reach = Reach::read(&policy, &[]).expect("rules");
    Proxy::with(reach, resolve, ProxyLimits::default())
}

fn connect(proxy: &str, host: &str, port: u16) -> Output {
    let mut child = Command::new(RALPH)
        .args(["__connect", host, &port.to_string()])
        .env_clear()
        .env("HTTPS_PROXY", proxy)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("its input");
    // One that is refused does not read it.
    let _ = input.write_all(b"SSH-2.0-hello");
    drop(input);
    child.wait_with_output().expect("ended")
}

#[test]
fn connect_moves_bytes_through_the_proxy_or_says_why_not() {
    let port = origin();
    let proxy = proxy(port);
    let (_service, at) = proxy.listen().expect("a listener");
    let address = format!("http://127.0.0.1:{at}");
    let good = connect(&address, "good.test", port);
    assert_eq!(String::from_utf8_lossy(&good.stdout), "SSH-2.0-HELLO");
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
    let bad = connect(&address, "evil.test", 22);
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(2), 0));
    let said = String::from_utf8_lossy(&bad.stderr);
    assert!(said.contains("add \"evil.test:22\" to `sandbox.network.allow`"), "{said}");
    let gone = connect("http://127.0.0.1:1", "good.test", port);
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(said.contains("Cannot reach the proxy at 127.0.0.1:1"), "{said}");
}

#[test]
fn a_bridge_without_a_network_passes_words_streams_and_exit_codes_on() {
    for (words, code, expect) in [
        (vec!["sh", "-c", "cat; exit 7"], Some(7), "input"),
        (vec!["sh", "-c", "echo \"$@\"", "x", "--", "-q", "--help"], Some(0), "-- -q --help\n"),
        (vec!["sh", "-c", "kill -9 $$"], Some(137), ""),
        // What it leaves behind is collected; it does not end with that.
        (vec!["sh", "-c", "(sleep 0 &) ; sleep 0; echo end"], Some(0), "end\n"),
        (vec!["no-such-program"], Some(2), ""),
    ] {
        let mut child = Command::new(RALPH)
            .args(["__bridge", "none"])
            .args(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let _ = child.stdin.take().expect("its input").write_all(b"input");
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), code, "{words:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{words:?}");
    }
}

/// Makes an image of some programs of this machine; nothing, where no engine takes it.
fn image(engine: &Engine, env: &[(String, String)]) -> Option<String> {
    let root = tempfile::tempdir().expect("a directory");
    let put = |file: &Path| {
        let to = root.path().join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(to.parent().expect("a directory")).expect("made");
        fs::copy(file, to).expect("copied");
    };
    for program in ["sh", "cat", "touch", "ls", "id", "curl"] {
        let found = ["/usr/bin", "/bin"].map(|it| Path::new(it).join(program));
        let file = found.iter().find(|it| it.exists())?;
        put(file);
        let libraries = Command::new("ldd").arg(file).output().ok()?;
        for word in String::from_utf8_lossy(&libraries.stdout).split_whitespace() {
            if word.starts_with('/') {
                put(Path::new(word));
            }
        }
    }
    let libraries = Command::new("ldd").arg(RALPH).output().ok()?;
    for word in String::from_utf8_lossy(&libraries.stdout).split_whitespace() {
        if word.starts_with('/') {
            put(Path::new(word));
        }
    }
    let name = "ralph-test:network".to_owned();
    let archive = root.path().with_extension("tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(root.path()).arg(".");
    let is_packed = tar.status().is_ok_and(|it| it.success());
    let imported = Command::new(&engine.program)
        .args(["import", "--change", "ENV PATH=/usr/bin:/bin"])
        .arg(&archive)
        .arg(&name)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .output();
    let _ = fs::remove_file(&archive);
    let imported = imported.ok().filter(|it| it.status.success());
    (is_packed && imported.is_some()).then_some(name)
}

/// Removes the image when the test is over.
struct Leftover(Container);

impl Drop for Leftover {
    fn drop(&mut self) {
        let Container { engine, image, env, .. } = &self.0;
        let mut removal = Command::new(&engine.program);
        removal.args(["rmi", "--force", image]).env_clear().envs(env.iter().cloned());
        let _ = removal.output();
    }
}

struct Scene {
    container: Container,
    boundary: Boundary,
    sockets: PathBuf,
}

impl Scene {
    fn run(&self, number: u64, script: &str) -> (String, String) {
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: self.boundary.project.clone(),
            env: vec![("WORD".into(), "secret-word".into())],
            stdin: Stdin::Bytes(b"prompt".to_vec()),
            limits: Limits { hard: Some(Duration::from_secs(60)), ..Limits::default() },
        };
        let name = container_name(&format!("test-{}", std::process::id()), number);
        let launched = self.container.launch(spawn, &self.boundary, Some(&self.sockets), &name);
        let Captured { end, stdout, stderr, .. } = capture(&launched, &Watch::detached(), 1 << 16);
        capture(&self.container.removal(&name), &Watch::detached(), 1 << 16);
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        (end.ending.to_string(), said)
    }
}

#[test]
fn a_real_container_reaches_the_project_the_proxy_and_nothing_else() {
    let env: Vec<(String, String)> = std::env::vars().collect();
    let client: Vec<_> = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let skip = |why: &str| {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no container was run: {why}");
    };
    let engine = match Engine::find(&client, &Watch::detached()) {
        Ok(engine) => engine,
        Err(error) => return skip(&error.to_string()),
    };
    let Some(image) = image(&engine, &env) else {
        return skip("the engine does not take an image of this machine's programs");
    };
    let home = tempfile::tempdir().expect("a directory");
    let project = home.path().join("project");
    fs::create_dir_all(project.join(".ralph")).expect("made");
    fs::write(project.join("secret.txt"), "hidden").expect("written");
    let sockets = tempfile::tempdir().expect("a directory");
    let port = origin();
    let proxy = proxy(port);
    let _services = proxy.listen_in(sockets.path()).expect("listening");
    let boundary = Boundary {
        project: project.clone(),
        home: home.path().to_owned(),
        places: vec![
            Place::Writable(project.clone()),
            Place::ReadOnly(project.join(".ralph")),
            Place::HiddenFile(project.join("secret.txt")),
        ],
        network: NetworkMode::Proxy,
        bounds: Policy::default().limits,
    };
    let container = Container { engine, image, ralph: RALPH.into(), env: client };
    let _image = Leftover(container.clone());
    let scene = Scene { container, boundary, sockets: sockets.path().to_owned() };

    let (end, said) = scene.run(1, "cat; echo \" $WORD $RALPH_SANDBOX\"; exit 7");
    if end == "exit code 126" || end == "exit code 125" {
        return skip(&said);
    }
    assert_eq!((end.as_str(), said.as_str()), ("exit code 7", "prompt secret-word container\n"));

    let script = format!(
        "echo made > made.txt; touch .ralph/x; cat secret.txt; touch /usr/x; ls {}; \
         curl -s --http0.9 http://good.test:{port}/; curl -s --http0.9 http://localhost:{port}/direct; \
         curl -s --http0.9 http://evil.test/; curl -s --noproxy '*' http://127.0.0.1:1/ || echo none",
        home.path().display()
    );
    let (_, said) = scene.run(2, &script);
    assert!(said.contains(".ralph/x': Read-only file system"), "{said}");
    assert!(said.contains("/usr/x': Read-only file system"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
    assert!(said.contains("GET / HTTP/1.1\r\nHOST: GOOD.TEST"), "{said}");
    assert!(said.contains("GET /DIRECT HTTP/1.1"), "{said}");
    assert!(said.contains("ralph's sandbox refused a connection to evil.test:80"), "{said}");
    assert!(said.contains("none\n"), "{said}");
    assert_eq!(fs::read_to_string(project.join("made.txt")).expect("made"), "made\n");
    let host = "evil.test".to_owned();
    let refusal = Refusal { host, port: 80, reason: Reason::NotListed, times: 1 };
    assert_eq!(proxy.refusals(), [refusal]);
}

/// Makes a listener in an empty network namespace, hands it over, and tries ways out.
const INSIDE: &str = r#"
import fcntl, socket, struct, sys
handover, port = sys.argv[1], int(sys.argv[2])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(link, 0x8914, struct.pack("16sh14x", b"lo", 1))
caller = socket.socket(socket.AF_UNIX)
caller.connect(handover)
listener = socket.create_server(("127.0.0.1", 3128))
socket.send_fds(caller, [b"proxy\n"], [listener.fileno()])
print("handed over:", caller.recv(100).decode().strip())
listener.close()
def ask(request):
    client = socket.create_connection(("127.0.0.1", 3128), 20)
    client.sendall(request.encode())
    answer = b""
    while piece := client.recv(1000):
        answer += piece
    return answer.decode().splitlines()[0]
print("allowed:", ask(f"GET http://good.test:{port}/ HTTP/1.1\r\n\r\n"))
print("refused:", ask("CONNECT evil.test:443 HTTP/1.1\r\n\r\n"))
try:
    socket.create_connection(("127.0.0.1", port), 20)
    print("direct: connected")
except OSError as error:
    print("direct:", error.strerror)
"#;

#[test]
fn a_listener_from_an_empty_network_leads_to_the_proxy_and_nowhere_else() {
    let port = origin();
    let proxy = proxy(port);
    let directory = tempfile::tempdir().expect("a directory");
    let handover = Handover::open(&proxy, &directory.path().join("proxy.sock")).expect("open");
    let inside = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "python3", "-c", INSIDE])
        .arg(handover.path())
        .arg(port.to_string())
        .output();
    let output = match inside {
        Ok(output) if output.status.success() => output,
        other => {
            let why = format!("SKIPPED: no network namespace was made: {other:?}");
            let _ = writeln!(std::io::stderr(), "{why}");
            return;
        }
    };
    expect![[r"
        handed over: ok
        allowed: GET / HTTP/1.1
        refused: HTTP/1.1 403 Refused by the sandbox of ralph
        direct: Connection refused
    "]]
    .assert_eq(&String::from_utf8_lossy(&output.stdout));
    // The launcher has ended, so nothing of it is left to be served.
    let deadline = Instant::now() + Duration::from_secs(30);
    while proxy.connections() > 0 {
        assert!(Instant::now() < deadline, "its connections have ended");
        thread::yield_now();
    }
}
