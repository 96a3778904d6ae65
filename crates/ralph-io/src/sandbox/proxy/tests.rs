//! The proxy on real sockets: what gets through, what does not, and how clients are treated that
//! are slow, many, or gone.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ralph_core::sandbox::addresses::AddressClass;
use ralph_core::sandbox::allowlist::{ConnectionRefusal, NetworkAllowlist, RefusalReason};
use ralph_model::sandbox::{NetworkMode, NetworkPolicy};

use super::*;

/// Longer than anything here takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on this machine.
struct Origin {
    listener: TcpListener,
    port: u16,
}

impl Origin {
    fn new() -> Self {
        Self::at(Ipv4Addr::LOCALHOST, 0).expect("a listener")
    }

    fn at(address: Ipv4Addr, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((address, port))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Accepts one connection and handles it in another thread.
    fn once<T: Send + 'static>(
        &self,
        act: impl FnOnce(TcpStream) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let listener = self.listener.try_clone().expect("a listener");
        thread::spawn(move || act(patient(listener.accept().expect("a connection").0)))
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Rules that allow these hosts, and this machine's first address but no other.
fn reach(allow: &[String]) -> NetworkAllowlist {
    let policy = NetworkPolicy {
        mode: NetworkMode::Proxy,
        allow: allow.to_vec(),
        deny: vec!["denied.test".into()],
        allow_private: vec!["127.0.0.1".into()],
        packages: None,
    };
    NetworkAllowlist::from_policy(&policy, &[]).expect("rules")
}

/// `x.near` leads to an address that is not allowed, others lead to one that is.
fn resolver() -> Resolve {
    Arc::new(|name| match name {
        "nowhere.test" => Err(io::Error::other("no such name")),
        "empty.test" => Ok(Vec::new()),
        "x.near" => Ok(vec![[127, 0, 0, 9].into()]),
        _ => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
    })
}

fn proxy(allow: &[String], limits: ProxyLimits) -> (Proxy, ProxyService, u16) {
    let proxy = Proxy::with_resolver(reach(allow), resolver(), limits);
    let (service, port) = proxy.listen_on_loopback().expect("a listener");
    (proxy, service, port)
}

/// Sends a request and returns the connection, with what was read of the answer's head.
fn ask(port: u16, request: &str) -> (TcpStream, String) {
    let mut stream = patient(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected"));
    stream.write_all(request.as_bytes()).expect("written");
    let head = read_head(&mut stream);
    (stream, head)
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("read") == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

fn tunnel(port: u16, target: &str) -> (TcpStream, String) {
    ask(port, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"))
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("read");
    text
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

#[test]
fn a_tunnel_moves_bytes_both_ways_and_passes_ends_on() {
    let origin = Origin::new();
    let (_, _service, port) =
        proxy(&[format!("good.test:{}", origin.port)], ProxyLimits::default());
    let served = origin.once(|mut stream| {
        let mut question = String::new();
        stream.read_to_string(&mut question).expect("read to the end that was passed on");
        stream.write_all(question.to_uppercase().as_bytes()).expect("written");
    });
    let target = format!("Good.Test.:{}", origin.port);
    // What follows the head at once belongs to the server.
    let request = format!("CONNECT {target} HTTP/1.1\r\n\r\nearly ");
    let (mut stream, head) = ask(port, &request);
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    stream.write_all(b"and late").expect("written");
    stream.shutdown(Shutdown::Write).expect("ended");
    assert_eq!(rest(stream), "EARLY AND LATE");
    served.join().expect("served");
}

#[test]
fn plain_requests_go_to_the_checked_server() {
    let origin = Origin::new();
    let (_, _service, port) =
        proxy(&[format!("good.test:{}", origin.port)], ProxyLimits::default());
    let served = origin.once(|mut stream| {
        let head = read_head(&mut stream);
        let mut body = [0; 4];
        stream.read_exact(&mut body).expect("a body");
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").expect("written");
        (head, body)
    });
    let request = format!(
        "POST http://good.test:{}/x HTTP/1.1\r\nHost: other.test\r\nContent-Length: 4\r\n\r\nbody",
        origin.port
    );
    let (stream, head) = ask(port, &request);
    assert_eq!(head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    assert_eq!(rest(stream), "hello");
    let (head, body) = served.join().expect("served");
    let expect = format!(
        "POST /x HTTP/1.1\r\nHost: good.test:{}\r\nContent-Length: 4\r\nConnection: close\r\n\r\n",
        origin.port
    );
    assert_eq!((head, &body), (expect, b"body"));
}

#[test]
fn disallowed_hosts_are_refused_and_counted() {
    let allow = ["good.test", "*.wide.test", "x.near", "denied.test", "10.0.0.1", "localhost:7"];
    let allow = allow.map(str::to_owned);
    let (proxy, _service, port) = proxy(&allow, ProxyLimits::default());
    let near = |address: [u8; 4], what| RefusalReason::Nearby { address: address.into(), what };
    let cases = [
        ("evil.test:443", "evil.test", 443, RefusalReason::NotListed),
        ("good.test:22", "good.test", 22, RefusalReason::Port),
        ("good.test.evil.test:443", "good.test.evil.test", 443, RefusalReason::NotListed),
        ("evilgood.test:443", "evilgood.test", 443, RefusalReason::NotListed),
        ("wide.test:443", "wide.test", 443, RefusalReason::NotListed),
        ("notwide.test:443", "notwide.test", 443, RefusalReason::NotListed),
        (
            "denied.test:443",
            "denied.test",
            443,
            RefusalReason::Denied { pattern: "denied.test".into() },
        ),
        ("x.near:443", "x.near", 443, near([127, 0, 0, 9], AddressClass::Loopback)),
        ("10.0.0.1:443", "10.0.0.1", 443, near([10, 0, 0, 1], AddressClass::Private)),
        ("10.0.0.2:443", "10.0.0.2", 443, RefusalReason::NotListed),
        ("127.0.0.1:22", "127.0.0.1", 22, RefusalReason::NotListed),
        ("localhost:22", "localhost", 22, RefusalReason::Port),
        ("[::1]:443", "[::1]", 443, RefusalReason::NotListed),
        ("[::ffff:127.0.0.1]:443", "127.0.0.1", 443, RefusalReason::NotListed),
        ("169.254.169.254:80", "169.254.169.254", 80, RefusalReason::NotListed),
        ("0x7f000001:443", "0x7f000001:443", 0, RefusalReason::Malformed),
        ("127.1:443", "127.1:443", 0, RefusalReason::Malformed),
        ("good.test", "good.test", 0, RefusalReason::Malformed),
    ];
    let mut expected = Vec::new();
    for (target, host, to, reason) in cases {
        let (stream, head) = tunnel(port, target);
        let header = format!("X-Proxy-Error: {} {host}:{to}\r\n", reason.code());
        assert!(head.starts_with("HTTP/1.1 403 ") && head.contains(&header), "{target}: {head}");
        let body = rest(stream);
        assert!(body.contains(&format!("{host}:{to}: {reason}.")), "{target}: {body}");
        expected.push(ConnectionRefusal { host: host.into(), port: to, reason, times: 1 });
    }
    // The same rules apply to plain HTTP.
    let (_, head) = ask(port, "GET http://evil.test:443/ HTTP/1.1\r\n\r\n");
    assert!(head.contains("X-Proxy-Error: host-not-allowed evil.test:443"), "{head}");
    expected[0].times = 2;
    expected.sort_by(|a, b| (&a.host, a.port, &a.reason).cmp(&(&b.host, b.port, &b.reason)));
    assert_eq!(proxy.take_refusals(), expected);
    assert_eq!(proxy.take_refusals(), Vec::new());
}

#[test]
fn bad_requests_and_unreachable_hosts_get_a_response() {
    let closed = Origin::new().port;
    let allow = ["nowhere.test".to_owned(), "empty.test".into(), format!("good.test:{closed}")];
    let (proxy, _service, port) = proxy(&allow, ProxyLimits::default());
    for (request, status, body) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400", "this is a proxy"),
        ("\x16\x03\x01 hello\r\n\r\n".into(), "400", "this is not HTTP/1"),
        ("CONNECT nowhere.test:443 HTTP/1.1\r\n\r\n".into(), "502", "no such name"),
        ("CONNECT empty.test:443 HTTP/1.1\r\n\r\n".into(), "502", "the name has no address"),
        (format!("CONNECT good.test:{closed} HTTP/1.1\r\n\r\n"), "502", "refused"),
    ] {
        let (stream, head) = ask(port, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
        let response = rest(stream);
        assert!(response.contains(body), "{request}: {response}");
    }
    assert_eq!(proxy.take_refusals(), Vec::new());
}

#[test]
fn a_name_is_looked_up_once_and_only_an_address_that_passed_is_dialed() {
    // Both addresses have a server; the first answer of the resolver has both of them, in the
    // order that would do harm, and later ones only what is not allowed.
    let origin = Origin::new();
    let near = Origin::at(Ipv4Addr::new(127, 0, 0, 9), origin.port).expect("the same port");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let resolve: Resolve = Arc::new(move |_| {
        let near: IpAddr = [127, 0, 0, 9].into();
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(vec![near, Ipv4Addr::LOCALHOST.into()]),
            _ => Ok(vec![near]),
        }
    });
    let rules = reach(&[format!("good.test:{}", origin.port)]);
    let proxy = Proxy::with_resolver(rules, resolve, ProxyLimits::default());
    let (_service, port) = proxy.listen_on_loopback().expect("a listener");
    let served = origin.once(|mut stream| stream.write_all(b"the right one").expect("written"));
    let target = format!("good.test:{}", origin.port);
    let (stream, _) = tunnel(port, &target);
    assert_eq!(rest(stream), "the right one");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    served.join().expect("served");
    let (_, head) = tunnel(port, &target);
    assert!(head.contains("X-Proxy-Error: address-not-allowed"), "{head}");
    near.listener.set_nonblocking(true).expect("set");
    let error = near.listener.accept().expect_err("no connection");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_client_that_sends_its_head_too_slowly_is_disconnected() {
    let limits = ProxyLimits { head: Duration::from_millis(300), ..ProxyLimits::default() };
    let (proxy, _service, port) = proxy(&[], limits);
    let begun = Instant::now();
    let mut stream = patient(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected"));
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let mut first = [0; 12];
    loop {
        let _ = stream.write_all(b"x");
        match stream.read_exact(&mut first) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("no answer: {error}"),
        }
        assert!(begun.elapsed() < PATIENCE, "cut off");
    }
    assert_eq!(&first, b"HTTP/1.1 408");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    drop(stream);
    wait_until("its slot is free", || proxy.open_connections() == 0);
}

#[test]
fn long_heads_pass_and_endless_ones_do_not() {
    let origin = Origin::new();
    let (_, _service, port) =
        proxy(&[format!("good.test:{}", origin.port)], ProxyLimits::default());
    for (length, expect) in [(10_000, "HTTP/1.1 200 "), (100_000, "HTTP/1.1 431 ")] {
        let filler = "x".repeat(length);
        let target = format!("good.test:{}", origin.port);
        let (_, head) = ask(port, &format!("CONNECT {target} HTTP/1.1\r\nX: {filler}\r\n\r\n"));
        assert!(head.starts_with(expect), "{length}: {head}");
    }
}

#[test]
fn the_number_of_open_connections_is_limited() {
    const MOST: usize = 40;
    let origin = Origin::new();
    let limits = ProxyLimits { connections: MOST, ..ProxyLimits::default() };
    let (proxy, _service, port) = proxy(&[format!("good.test:{}", origin.port)], limits);
    let target = format!("good.test:{}", origin.port);
    let all: Vec<(TcpStream, String)> = (0..200).map(|_| tunnel(port, &target)).collect();
    let count = |status: &str| all.iter().filter(|(_, head)| head.contains(status)).count();
    assert_eq!((count(" 200 "), count(" 503 ")), (MOST, 200 - MOST));
    assert_eq!(proxy.open_connections(), MOST);
    drop(all);
    // The server's ends are closed with its listener.
    drop(origin);
    wait_until("all slots are free", || proxy.open_connections() == 0);
}

#[test]
fn a_large_upload_to_a_slow_server_is_not_buffered_in_memory() {
    const LENGTH: usize = 64 << 20;
    let origin = Origin::new();
    let (_, _service, port) =
        proxy(&[format!("good.test:{}", origin.port)], ProxyLimits::default());
    let (mut stream, _) = tunnel(port, &format!("good.test:{}", origin.port));
    let server = patient(origin.listener.accept().expect("a connection").0);
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let block: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
    // The server does not read yet: only the buffers of four sockets take data.
    let mut sent = 0;
    while let Ok(written) = stream.write(&block[sent % block.len()..]) {
        sent += written;
        assert!(sent < 32 << 20, "the proxy does not hold what the server does not take");
    }
    let read = thread::spawn(move || {
        let (mut server, mut buffer) = (server, vec![0; 1 << 16]);
        let (mut length, mut is_right) = (0, true);
        loop {
            let read = server.read(&mut buffer).expect("read");
            if read == 0 {
                return (length, is_right);
            }
            for (at, byte) in buffer[..read].iter().enumerate() {
                is_right &= usize::from(*byte) == (length + at) % 256;
            }
            length += read;
        }
    });
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    while sent < LENGTH {
        let from = sent % block.len();
        let upto = block.len().min(from + LENGTH - sent);
        // A signal may come in between.
        match stream.write(&block[from..upto]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => sent += written.expect("written"),
        }
    }
    stream.shutdown(Shutdown::Write).expect("ended");
    assert_eq!(read.join().expect("read"), (LENGTH, true));
}

#[test]
fn connections_end_with_their_service_and_when_idle() {
    let origin = Origin::new();
    let allow = [format!("good.test:{}", origin.port)];
    let target = format!("good.test:{}", origin.port);
    let (all, service, port) = proxy(&allow, ProxyLimits::default());
    let (stream, _) = tunnel(port, &target);
    drop(service);
    assert_eq!(rest(stream), "");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "the port is closed");
    wait_until("its slot is free", || all.open_connections() == 0);

    let silence = Duration::from_millis(50);
    let (all, _service, port) = proxy(&allow, ProxyLimits { silence, ..ProxyLimits::default() });
    let (stream, head) = tunnel(port, &target);
    assert!(head.contains(" 200 "), "{head}");
    assert_eq!(rest(stream), "");
    wait_until("its slot is free", || all.open_connections() == 0);
}

/// Hands over a new listener, and returns its address.
fn offer(caller: &UnixStream, purpose: ListenerPurpose) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    hand_over_listener(caller, purpose, &listener)?;
    listener.local_addr()
}

/// Makes the test below act as a launcher that connects to this path.
const LAUNCHER: &str = "RALPH_TEST_PROXY_SOCKET";

#[test]
fn listeners_that_are_handed_over_live_as_long_as_their_launcher() {
    if let Some(path) = std::env::var_os(LAUNCHER) {
        let caller = connect_to_proxy(Path::new(&path)).expect("called");
        let address = offer(&caller, ListenerPurpose::Proxy).expect("handed over");
        // The listener must be served until the process ends, even without the connection.
        drop(caller);
        writeln!(io::stdout(), "\nserved at {address}").expect("printed");
        io::stdin().read_to_end(&mut Vec::new()).expect("stdin closed");
        return;
    }
    let origin = Origin::new();
    let target = format!("good.test:{}", origin.port);
    let rules = reach(std::slice::from_ref(&target));
    let proxy = Proxy::with_resolver(rules, resolver(), ProxyLimits::default());
    let directory = tempfile::tempdir().expect("a directory");
    // Deeper than the address of a socket is long.
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).expect("a directory");
    let handover = Handover::open(&proxy, &deep.join("proxy.sock")).expect("open");
    let start = || {
        let name =
            "sandbox::proxy::tests::listeners_that_are_handed_over_live_as_long_as_their_launcher";
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--nocapture"])
            .env(LAUNCHER, handover.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut output = lines.map(|line| line.expect("a line"));
        let address = output.find_map(|it| it.strip_prefix("served at ").map(str::to_owned));
        let address: SocketAddr = address.expect("a line").parse().expect("an address");
        (child, address, output)
    };
    let ((mut first, ours, _first_output), (mut second, theirs, _second_output)) =
        (start(), start());
    let (stream, head) = tunnel(ours.port(), &target);
    assert!(head.contains(" 200 "), "{head}");
    drop(first.stdin.take());
    first.wait().expect("ended");
    assert_eq!(rest(stream), "", "the tunnel ended with its launcher");
    wait_until("the listener is closed", || TcpStream::connect(ours).is_err());
    assert!(tunnel(theirs.port(), &target).1.contains(" 200 "), "the other is still there");
    drop(handover);
    assert!(TcpStream::connect(theirs).is_err(), "all ends with the handover");
    assert!(!deep.join("proxy.sock").exists());
    wait_until("all slots are free", || proxy.open_connections() == 0);
    drop(second.stdin.take());
    second.wait().expect("ended");
}

#[test]
fn ports_of_this_machine_are_forwarded_only_if_they_are_allowed() {
    let origin = Origin::new();
    let served = origin.once(|mut stream| stream.write_all(b"a local model").expect("written"));
    let allow = [format!("localhost:{}", origin.port)];
    let proxy = Proxy::with_resolver(reach(&allow), resolver(), ProxyLimits::default());
    let directory = tempfile::tempdir().expect("a directory");
    let handover = Handover::open(&proxy, &directory.path().join("s")).expect("open");
    let caller = connect_to_proxy(handover.path()).expect("called");
    let refused = offer(&caller, ListenerPurpose::Forward(1)).expect_err("refused");
    let expect = "the proxy answered `no: port 1 of this machine is not allowed`";
    assert_eq!(refused.to_string(), expect);
    let wide = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a listener");
    let refused = hand_over_listener(&caller, ListenerPurpose::Proxy, &wide).expect_err("refused");
    let expect = "the proxy answered `no: this is not a listener on a loopback`";
    assert_eq!(refused.to_string(), expect);
    let inside = offer(&caller, ListenerPurpose::Forward(origin.port)).expect("handed over");
    assert_eq!(rest(patient(TcpStream::connect(inside).expect("connected"))), "a local model");
    served.join().expect("served");
    // Clients that use the proxy for it reach it as well.
    let served = origin.once(|mut stream| stream.write_all(b"again").expect("written"));
    let by_proxy = offer(&caller, ListenerPurpose::Proxy).expect("handed over");
    let (stream, _) = tunnel(by_proxy.port(), &format!("127.0.0.1:{}", origin.port));
    assert_eq!(rest(stream), "again");
    served.join().expect("served");
}
