//! The server over real sockets: what it shows, what it rejects, and how it handles hostile
//! clients.

use std::io::{Read as _, Write as _};
use std::sync::mpsc::{self, Receiver, Sender};

use jiff::tz::TimeZone;
use ralph_model::units::Timestamp;

use super::*;

const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// Runs that a test changes.
struct Stage {
    now: Arc<Mutex<Option<PageContent>>>,
    requests: Mutex<Sender<(String, ControlRequest)>>,
    opened: Arc<AtomicUsize>,
}

struct Actor {
    key: String,
    now: Arc<Mutex<Option<PageContent>>>,
    requests: Sender<(String, ControlRequest)>,
}

impl FollowedRun for Actor {
    fn refresh(&mut self) -> Result<Option<PageContent>, String> {
        Ok(lock_mutex(&self.now).clone())
    }

    fn send_request(&mut self, request: &ControlRequest) -> Result<(), String> {
        if self.key == "run-over" {
            return Err("No run is active.".into());
        }
        self.requests.send((self.key.clone(), request.clone())).map_err(|error| error.to_string())
    }
}

impl ServedRuns for Stage {
    fn list_runs(&self) -> Vec<ListedRun> {
        Vec::new()
    }

    fn read_stats(&self) -> Vec<ChartedRun> {
        Vec::new()
    }

    fn open_run(&self, key: &str) -> Option<Box<dyn FollowedRun>> {
        if !key.starts_with("run") {
            return None;
        }
        self.opened.fetch_add(1, Ordering::SeqCst);
        let (key, now) = (key.to_owned(), Arc::clone(&self.now));
        Some(Box::new(Actor { key, now, requests: lock_mutex(&self.requests).clone() }))
    }
}

struct Scene {
    port: u16,
    now: Arc<Mutex<Option<PageContent>>>,
    requests: Receiver<(String, ControlRequest)>,
    opened: Arc<AtomicUsize>,
    ticket: String,
}

fn shown(html: &str) -> PageContent {
    PageContent {
        title: "title".into(),
        parts: vec![
            PagePart { id: "outcome", html: html.into() },
            PagePart { id: "notes", html: "same".into() },
        ],
        controls: Controls {
            is_active: true,
            is_paused: false,
            why: "why".into(),
            tasks: vec![("T\"1".into(), "</script>".into())],
        },
    }
}

fn scene() -> Scene {
    scene_at(|| Timestamp(0))
}

/// A server that was started at a moment.
fn scene_at(began: fn() -> Timestamp) -> Scene {
    let now = Arc::new(Mutex::new(Some(shown("first"))));
    let (tx, requests) = mpsc::channel();
    let opened = Arc::<AtomicUsize>::default();
    let stage =
        Stage { now: Arc::clone(&now), requests: Mutex::new(tx), opened: Arc::clone(&opened) };
    let clock = WallClock { zone: TimeZone::UTC, now: began };
    let server = Server::bind(0, TOKEN.into(), Box::new(stage), clock).expect("a port");
    let port = server.port();
    assert_eq!(server.url(), format!("http://127.0.0.1:{port}/{TOKEN}/"));
    let ticket = server.create_ticket_url("abc".into());
    thread::spawn(move || server.serve_forever());
    Scene { port, now, requests, opened, ticket }
}

impl Scene {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }

    /// Sends bytes and returns all that comes back.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may answer and close before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.ask("GET", path, "", "")
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        self.raw(self.text(method, path, headers, body).as_bytes())
    }

    fn text(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let path = path.replace("TOKEN", TOKEN);
        let (port, length) = (self.port, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
    }

    fn request_control(&self, run: &str, body: &str) -> String {
        let headers = format!(
            "Origin: http://127.0.0.1:{}\r\nX-Ralph-Token: {TOKEN}\r\nContent-Type: application/json\r\n",
            self.port
        );
        self.ask("POST", &format!("/TOKEN/run/{run}/request"), &headers, body)
    }
}

#[track_caller]
fn check_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer:.300}");
    assert!(!answer.contains("Access-Control-"), "no other site is let in");
}

#[test]
fn a_page_is_served_with_a_strict_policy() {
    let scene = scene();
    let page = scene.get("/TOKEN/run/run-1/");
    check_status(&page, 200);
    for header in [
        "Content-Security-Policy: default-src 'none';",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Cross-Origin-Opener-Policy: same-origin",
        "Connection: close",
    ] {
        assert!(page.contains(header), "{header}");
    }
    assert!(page.contains("<section id=\"outcome\">first</section>"), "{page}");
    assert!(page.contains("T\\&quot;1") && !page.contains("</script>\"]"), "{page}");
    check_status(&scene.get("/TOKEN/"), 200);
    check_status(&scene.get("/TOKEN/style.css"), 200);
    check_status(&scene.get("/TOKEN/live.js"), 200);
    check_status(&scene.get("/TOKEN/run/none/"), 404);
    *lock_mutex(&scene.now) = None;
    check_status(&scene.get("/TOKEN/run/run-2/"), 404);
}

#[test]
fn requests_without_token_learn_nothing() {
    let scene = scene();
    for (path, status) in [("/", 403), ("/wrong/", 403), ("/TOKEN/nothing", 404)] {
        check_status(&scene.get(path), status);
    }
    check_status(&scene.ask("GET", "/TOKEN/", "Origin: http://evil.example\r\n", ""), 403);
    check_status(&scene.ask("PUT", "/TOKEN/", "", ""), 405);
    let rebound = format!("GET /{TOKEN}/ HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n", scene.port);
    check_status(&scene.raw(rebound.as_bytes()), 421);
}

#[test]
fn malformed_requests_are_rejected_and_closed() {
    let scene = scene();
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(1 << 20));
    check_status(&scene.raw(long.as_bytes()), 431);
    check_status(&scene.raw(b"\x16\x03\x01junk\r\n\r\n"), 400);
    check_status(&scene.raw(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    let body = scene.text("POST", "/TOKEN/run/run-1/request", "", &"x".repeat(40_000));
    check_status(&scene.raw(body.as_bytes()), 413);
    check_status(&scene.raw(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"), 400);
    // A second request behind the first is never read.
    let first = scene.text("GET", "/TOKEN/", "", "");
    let answer = scene.raw(format!("{first}{first}GET junk").as_bytes());
    check_status(&answer, 200);
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    check_status(&scene.get("/TOKEN/"), 200);
}

#[test]
fn slow_clients_are_dropped_and_others_are_served_meanwhile() {
    let scene = scene();
    let mut slow = scene.connect();
    slow.write_all(b"GET / HT").expect("sent");
    let mut body = scene.connect();
    let text = scene.text("POST", "/TOKEN/run/run-1/request", "", "0123456789");
    body.write_all(&text.as_bytes()[..text.len() - 5]).expect("sent");
    let silent = scene.connect();
    check_status(&scene.get("/TOKEN/"), 200);
    for mut stream in [slow, body, silent] {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        check_status(&answer, 408);
    }
}

#[test]
fn connections_without_a_request_give_way_to_others() {
    let scene = scene();
    let idle: Vec<TcpStream> = (0..3 * MOST_WAITING)
        .map(|number| {
            let mut stream = scene.connect();
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n");
            }
            stream
        })
        .collect();
    check_status(&scene.get("/TOKEN/"), 200);
    let mut answers = Vec::new();
    for mut stream in idle {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answers.push(answer);
    }
    // The oldest were dropped, unless they had taken too long.
    assert!(answers.iter().any(String::is_empty), "{answers:?}");
    assert!(
        answers.iter().all(|it| it.is_empty() || it.starts_with("HTTP/1.1 408")),
        "{answers:?}"
    );
    check_status(&scene.get("/TOKEN/"), 200);
}

#[test]
fn connections_with_the_token_are_limited_and_released() {
    let scene = scene();
    let crowd: Vec<TcpStream> = (0..MOST_CONNECTIONS + 8)
        .map(|_| {
            let mut stream = scene.connect();
            let request = scene.text("GET", "/TOKEN/run/run-1/events", "", "");
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    drop(crowd);
    check_status(&scene.get("/TOKEN/"), 200);
}

#[test]
fn control_requests_reach_the_run_or_report_why_not() {
    let scene = scene();
    check_status(&scene.request_control("run-1", r#"{"wish":"pause"}"#), 200);
    assert_eq!(scene.requests.recv().expect("a request"), ("run-1".into(), ControlRequest::Pause));
    let answer = scene.request_control("run-over", r#"{"wish":"stop"}"#);
    check_status(&answer, 409);
    assert!(answer.ends_with("No run is active.\n"), "{answer}");
    let forged = scene.ask("POST", "/TOKEN/run/run-1/request", "", r#"{"wish":"stop"}"#);
    check_status(&forged, 403);
    assert!(scene.requests.try_recv().is_err(), "nothing else arrived");
    check_status(&scene.request_control("none", r#"{"wish":"stop"}"#), 404);
}

#[test]
fn a_run_is_opened_once_for_its_pages_and_all_requests() {
    let scene = scene();
    check_status(&scene.get("/TOKEN/run/run-1/"), 200);
    for _ in 0..5 {
        check_status(&scene.request_control("run-1", r#"{"wish":"pause"}"#), 200);
        check_status(&scene.get("/TOKEN/run/run-1/"), 200);
    }
    assert_eq!(scene.opened.load(Ordering::SeqCst), 1);
}

#[test]
fn a_page_that_reconnects_to_another_server_gets_everything() {
    let (before, after) = (scene_at(|| Timestamp(7)), scene_at(|| Timestamp(8)));
    let since = |page: &str| {
        let rest = page.split("data-since=\"").nth(1).and_then(|rest| rest.split('"').next());
        rest.expect("it says what it shows").to_owned()
    };
    let known = since(&before.get("/TOKEN/run/run-1/"));
    *lock_mutex(&after.now) = Some(shown("second"));
    assert_ne!(known, since(&after.get("/TOKEN/run/run-1/")), "each counts by itself");
    let mut stream = after.connect();
    let headers = format!("Last-Event-ID: {known}\r\n");
    let ask = after.text("GET", "/TOKEN/run/run-1/events", &headers, "");
    stream.write_all(ask.as_bytes()).expect("sent");
    let news = read_until(&mut stream, "\"title\"");
    assert!(news.contains("\"second\"") && news.contains("\"same\""), "{news}");
}

/// Reads a stream up to a text.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut received = String::new();
    let mut piece = [0; 4096];
    while !received.contains(text) {
        let count = stream.read(&mut piece).expect("more data");
        assert!(count > 0, "it ended before {text:?}: {received}");
        received.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    received
}

#[test]
fn changes_are_pushed_and_a_reconnect_resumes() {
    let scene = scene();
    let page = scene.get("/TOKEN/run/run-1/");
    let since = page.split("data-since=\"").nth(1).and_then(|rest| rest.split('"').next());
    let since = since.expect("it says what it shows").to_owned();
    let mut stream = scene.connect();
    let ask = scene.text("GET", &format!("/TOKEN/run/run-1/events?since={since}"), "", "");
    stream.write_all(ask.as_bytes()).expect("sent");
    let begin = read_until(&mut stream, "retry: ");
    assert!(begin.contains("Content-Type: text/event-stream"), "{begin}");
    assert!(!begin.contains("event: news"), "what the page shows is no news");
    *lock_mutex(&scene.now) = Some(shown("second"));
    let news = read_until(&mut stream, "\n\n");
    let news = if news.contains("data:") { news } else { read_until(&mut stream, "}}") };
    assert!(news.contains("\"outcome\":\"second\"") && !news.contains("\"same\""), "{news}");
    drop(stream);
    *lock_mutex(&scene.now) = Some(shown("third"));
    let mut again = scene.connect();
    let headers = format!("Last-Event-ID: {since}\r\n");
    let ask = scene.text("GET", "/TOKEN/run/run-1/events?since=0-0", &headers, "");
    again.write_all(ask.as_bytes()).expect("sent");
    let news = read_until(&mut again, "\"third\"");
    assert!(!news.contains("\"same\""), "only what changed since: {news}");
}

#[test]
fn a_ticket_is_good_for_one_visit() {
    let scene = scene();
    let path = scene.ticket.split_once(&format!(":{}", scene.port)).expect("a path").1;
    let answer = scene.get(path);
    check_status(&answer, 303);
    assert!(answer.contains(&format!("\r\nLocation: /{TOKEN}/\r\n")), "{answer}");
    check_status(&scene.get(path), 403);
}

#[test]
fn a_port_is_taken_by_one() {
    let scene = scene();
    let (tx, _) = mpsc::channel();
    let stage = Stage { now: Arc::default(), requests: Mutex::new(tx), opened: Arc::default() };
    let clock = WallClock { zone: TimeZone::UTC, now: || Timestamp(0) };
    let error = Server::bind(scene.port, TOKEN.into(), Box::new(stage), clock).err();
    assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
}

proptest::proptest! {
    #[test]
    fn no_request_is_admitted_without_host_and_token(
        text in "(GET|POST) /(0123456789abcdef0123456789abcdef)?(/run/|/events|/request|\\?token=|%2e|[ -~]){0,6} HTTP/1.1\r\n(Host: 127.0.0.1:4711\r\n)?(Origin: |X-Ralph-Token: |0123456789abcdef0123456789abcdef|Content-Type: application/json|\r\n){0,6}\r\n\r\n"
    ) {
        use admission::ServeRoute;

        let Some(request) = http::parse_whole_request(text.as_bytes()) else { return Ok(()) };
        let token = "0123456789abcdef0123456789abcdef";
        let Ok(route) = admission::admit_request(&request, 4711, token) else { return Ok(()) };
        let host = request.header("host");
        assert!(
            matches!(host, Some("127.0.0.1:4711" | "localhost:4711")),
            "{host:?} is a foreign host"
        );
        let is_open = matches!(route, ServeRoute::Open { .. });
        assert!(
            is_open || request.path.starts_with(&format!("/{token}/")),
            "{route:?} without a token"
        );
        if let ServeRoute::Run { key }
        | ServeRoute::Events { key, .. }
        | ServeRoute::Control { key, .. } = &route
        {
            assert!(!key.contains(['/', '.', '%', '\0']), "{key:?} is not a key");
        }
        if let ServeRoute::Control { .. } = route {
            assert_eq!(
                request.header("x-ralph-token"),
                Some(token),
                "a control request needs the token"
            );
        }
    }
}
