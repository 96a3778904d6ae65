//! Posts to local test servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::*;

/// Answers one connection after the other, and returns the requests.
fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving =
        thread::spawn(move || answers.iter().map(|answer| answer_one(&listener, answer)).collect());
    (format!("http://127.0.0.1:{port}/hook/secret"), serving)
}

fn answer_one(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    // A client that does not read to the end is no error.
    let _ = stream.write_all(answer.as_bytes());
    head + &String::from_utf8(body).expect("text")
}

fn says(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn terms(reach: HttpReach) -> PostTerms {
    let (timeout, backoff) = (Duration::from_secs(5), Duration::from_millis(10));
    PostTerms { reach, timeout, retries: 3, backoff, roots: Roots::BuiltIn }
}

/// Posts, and returns the result and the requested pauses.
fn post(url: &str, reach: HttpReach) -> (Result<HttpAnswer, PostError>, Vec<Duration>) {
    let mut pauses = Vec::new();
    let result = Poster::new(url, terms(reach)).post(
        b"{}",
        &|| vec![("x-mine".to_owned(), "yes".to_owned())],
        &mut |pause| {
            pauses.push(pause);
            PauseEnd::Elapsed
        },
    );
    (result, pauses)
}

#[test]
fn a_server_that_fails_is_asked_again_after_longer_and_longer_pauses() {
    let failing = || says("503 Busy", "", "");
    let (url, serving) = server(vec![failing(), failing(), says("204 Good", "", "")]);
    let (result, pauses) = post(&url, HttpReach::Private);
    assert_eq!(result.map(|answer| answer.status), Ok(204));
    assert_eq!(pauses, [10, 20].map(Duration::from_millis));
    let asked = serving.join().expect("it served");
    assert_eq!(asked.len(), 3);
    let first = asked[0].to_lowercase();
    assert!(first.starts_with("post /hook/secret http/1.1\r\n"), "{first}");
    for part in ["x-mine: yes", "content-type: application/json", "user-agent: ralph/", "\r\n{}"] {
        assert!(first.contains(part), "{part}: {first}");
    }
}

#[test]
fn a_post_that_a_retry_cannot_fix_is_not_tried_again() {
    for (answer, reach, expect) in [
        (
            says("404 No", "", "no such\nhook"),
            HttpReach::Private,
            "HOST answered 404: no such hook",
        ),
        (
            says("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            HttpReach::Private,
            "HOST answered 302, and redirects are not followed",
        ),
        (
            says("307 Again", "location: http://127.0.0.1:1/\r\n", ""),
            HttpReach::Private,
            "HOST answered 307, and redirects are not followed",
        ),
        (says("429 Slow", "retry-after: 3600\r\n", ""), HttpReach::Private, "HOST answered 429"),
    ] {
        let (url, serving) = server(vec![answer]);
        let (result, pauses) = post(&url, reach);
        let error = result.expect_err("it fails").to_string();
        let host = parse_host(&url);
        assert_eq!(error.replace(&host, "HOST"), expect);
        assert!(!error.contains("secret"), "the path of a URL must not be shown: {error}");
        assert_eq!(pauses, []);
        assert_eq!(serving.join().expect("it served").len(), 1);
    }
}

#[test]
fn a_server_can_set_the_pause() {
    let (url, serving) = server(vec![
        says("429 Slow", "retry-after: 2\r\n", ""),
        says("200 Good", "", &"x".repeat(100_000)),
    ]);
    let (result, pauses) = post(&url, HttpReach::Private);
    assert_eq!(result.map(|answer| answer.body.len()), Ok(4096), "no more is read");
    assert_eq!(pauses, [Duration::from_secs(2)]);
    drop(serving);
}

#[test]
fn the_end_of_patience_is_the_end() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", closed.local_addr().expect("an address"));
    drop(closed);
    let poster = Poster::new(url, terms(HttpReach::Private));
    let mut asked = 0;
    let result = poster.post(b"", &Vec::new, &mut |_| {
        asked += 1;
        PauseEnd::OutOfTime
    });
    assert!(matches!(result, Err(PostError::Unreachable { .. })), "{result:?}");
    assert_eq!(asked, 1);
}

#[test]
fn a_private_address_needs_to_be_allowed() {
    let (result, pauses) = post("http://127.0.0.1:9/", HttpReach::Public);
    assert_eq!(
        result.expect_err("it is refused").to_string(),
        "127.0.0.1 leads to 127.0.0.1: a loopback address, which needs `allowPrivate`"
    );
    assert_eq!(pauses, []);
    let (result, _) = post("http://169.254.169.254/latest", HttpReach::Private);
    let error = result.expect_err("it is refused").to_string();
    assert!(error.ends_with("the address of a metadata service"), "{error}");
    let (result, _) = post("http://1.1.1.1/", HttpReach::Private);
    let error = result.expect_err("it is refused").to_string();
    assert!(error.ends_with("a public address, and only https:// goes there"), "{error}");
}

#[test]
fn allowed_addresses_are_a_table() {
    use HttpEncryption::{Plain, Tls};
    for (reach, kind, encryption, is_allowed) in [
        (HttpReach::Public, None, Tls, true),
        (HttpReach::Public, None, Plain, false),
        (HttpReach::Public, Some(AddressClass::Loopback), Tls, false),
        (HttpReach::Public, Some(AddressClass::Private), Tls, false),
        (HttpReach::Private, Some(AddressClass::Private), Plain, true),
        (HttpReach::Private, Some(AddressClass::LinkLocal), Tls, false),
        (HttpReach::Private, Some(AddressClass::Metadata), Tls, false),
        (HttpReach::Private, None, Tls, true),
        (HttpReach::Any, None, Plain, true),
        (HttpReach::Any, Some(AddressClass::LinkLocal), Plain, true),
    ] {
        let found = check_address(reach, kind, encryption);
        assert_eq!(found.is_none(), is_allowed, "{reach:?} {kind:?} {encryption:?}: {found:?}");
    }
}

#[test]
fn an_invalid_url_is_reported_without_it() {
    for url in ["", "https://", "not a url secret", "https://a b/secret"] {
        let (result, _) = post(url, HttpReach::Any);
        let error = result.expect_err("it fails").to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
