//! The network path out of a sandbox: the relay inside that connects to the proxy outside.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use expect_test::expect;
use ralph_core::sandbox::allowlist::NetworkAllowlist;
use ralph_io::sandbox::proxy::{Handover, Proxy, ProxyLimits, Resolve};
use ralph_model::sandbox::{NetworkMode, NetworkPolicy};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A server that answers each connection with its first bytes in capitals.
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
        packages: None,
    };
    let resolve: Resolve = Arc::new(|_| Ok(vec![Ipv4Addr::LOCALHOST.into()]));
    let reach = NetworkAllowlist::from_policy(&policy, &[]).expect("rules");
    Proxy::with_resolver(reach, resolve, ProxyLimits::default())
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
    // A refused client does not read it.
    let _ = input.write_all(b"SSH-2.0-hello");
    drop(input);
    child.wait_with_output().expect("ended")
}

#[test]
fn connect_moves_bytes_through_the_proxy_or_says_why_not() {
    let port = origin();
    let proxy = proxy(port);
    let (_service, at) = proxy.listen_on_loopback().expect("a listener");
    let address = format!("http://127.0.0.1:{at}");
    let good = connect(&address, "good.test", port);
    assert_eq!(String::from_utf8_lossy(&good.stdout), "SSH-2.0-HELLO");
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
    let bad = connect(&address, "evil.test", 22);
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(2), 0));
    let message = String::from_utf8_lossy(&bad.stderr);
    assert!(message.contains("add \"evil.test:22\" to `sandbox.network.allow`"), "{message}");
    let gone = connect("http://127.0.0.1:1", "good.test", port);
    let message = String::from_utf8_lossy(&gone.stderr);
    assert!(message.contains("Cannot reach the proxy at 127.0.0.1:1"), "{message}");
}

/// Creates a listener in an empty network namespace, passes it on, and tries ways out.
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
    // The launcher has ended, so there is nothing left to serve.
    let deadline = Instant::now() + Duration::from_secs(30);
    while proxy.open_connections() > 0 {
        assert!(Instant::now() < deadline, "its connections have ended");
        thread::yield_now();
    }
}
