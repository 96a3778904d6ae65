//! The part of HTTP that one page needs: reading a request within limits, writing a response, and
//! an event stream.
//!
//! Every connection serves one request. Not here: which requests are allowed.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A browser's request line and headers take about a thousand bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// More headers than any browser sends.
const MOST_HEADERS: usize = 64;

/// A control request with the longest note, escaped.
const LONGEST_BODY: usize = 32 * 1024;

/// On loopback a request arrives at once; this leaves room for a loaded machine.
const REQUEST_TIME: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// The time for a whole response, also to a client that reads one byte at a time.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long the rest of the client's data is read, so that the client gets the response.
const FAREWELL: Duration = Duration::from_millis(200);

/// Headers of every response.
const ALWAYS: &str = "Connection: close\r\nCache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
Cross-Origin-Embedder-Policy: require-corp\r\n\
Permissions-Policy: camera=(), microphone=(), geolocation=()\r\n\
Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; \
connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Other,
}

impl Request {
    /// Returns a header. Security-relevant headers occur at most once: parsing rejects duplicates.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why a request could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The client disconnected, or sent nothing.
    Gone,
    Slow,
    LongHead,
    LongBody,
    /// Not HTTP as browsers send it.
    Malformed,
}

impl Refusal {
    /// Returns the response, or `None` if the client has gone.
    pub(super) fn response(self) -> Option<Response> {
        match self {
            Self::Gone => None,
            Self::Slow => Some(Response::plain(408, "The request took too long.")),
            Self::LongHead => Some(Response::plain(431, "The request is too long.")),
            Self::LongBody => Some(Response::plain(413, "The request body is too long.")),
            Self::Malformed => Some(Response::plain(400, "The request is malformed.")),
        }
    }
}

/// Reads one request, within a deadline for all of it.
pub(super) fn read(mut stream: &TcpStream) -> Result<Request, Refusal> {
    let deadline = Instant::now() + REQUEST_TIME;
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>| {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Slow);
        }
        stream.set_read_timeout(Some(left)).map_err(|_| Refusal::Gone)?;
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => Err(Refusal::Gone),
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if is_timeout(&error) => Err(Refusal::Slow),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(Refusal::Gone),
        }
    };
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > LONGEST_HEAD {
            return Err(Refusal::LongHead);
        }
        more(&mut bytes)?;
    };
    if end > LONGEST_HEAD {
        return Err(Refusal::LongHead);
    }
    let mut request = parse(&bytes[..end])?;
    let length = match request.header("content-length") {
        None => 0,
        Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) && digits.len() < 10 => {
            digits.parse().map_err(|_| Refusal::Malformed)?
        }
        Some(_) => return Err(Refusal::Malformed),
    };
    if length > LONGEST_BODY {
        return Err(Refusal::LongBody);
    }
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        more(&mut body)?;
    }
    // Only one request is served, so further data is ignored.
    body.truncate(length);
    request.body = body;
    Ok(request)
}

/// Parses a complete request, for fuzzing.
pub(super) fn read_whole(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let request = parse(&bytes[..end]).ok()?;
    Some(Request { body: bytes[end + 4..].to_vec(), ..request })
}

/// Parses request line and headers.
fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let text = str::from_utf8(head).map_err(|_| Refusal::Malformed)?;
    let is_plain =
        |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t');
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let fields: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = fields.as_slice() else { return Err(Refusal::Malformed) };
    let is_http = matches!(*version, "HTTP/1.1" | "HTTP/1.0");
    if !is_http || !target.starts_with('/') || !is_plain(line) {
        return Err(Refusal::Malformed);
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Refusal::Malformed)?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_name || !is_plain(value) || headers.len() == MOST_HEADERS {
            return Err(Refusal::Malformed);
        }
        let name = name.to_ascii_lowercase();
        // Duplicates of these make a request ambiguous; `transfer-encoding` is not supported.
        let matters = ["host", "origin", "content-length", "content-type", "x-ralph-token"];
        let is_double =
            matters.contains(&name.as_str()) && headers.iter().any(|(known, _)| *known == name);
        if is_double || name == "transfer-encoding" {
            return Err(Refusal::Malformed);
        }
        headers.push((name, value.trim().to_owned()));
    }
    let (path, query) = target
        .split_once('?')
        .map_or((*target, None), |(path, query)| (path, Some(query.to_owned())));
    let method = match *method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        _ => Method::Other,
    };
    Ok(Request { method, path: path.to_owned(), query, headers, body: Vec::new() })
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    kind: &'static str,
    location: Option<String>,
    body: String,
}

impl Response {
    pub(super) fn html(body: String) -> Self {
        Self::text("text/html; charset=utf-8", body)
    }

    pub(super) fn text(kind: &'static str, body: String) -> Self {
        Self { status: 200, kind, location: None, body }
    }

    /// Returns a plain-text response with this status.
    pub(super) fn plain(status: u16, text: &str) -> Self {
        let body = format!("{}\n", crate::safe::one_line(text, 500, "…"));
        Self { status, ..Self::text("text/plain; charset=utf-8", body) }
    }

    pub(super) fn elsewhere(location: &str) -> Self {
        Self {
            status: 303,
            location: Some(location.to_owned()),
            ..Self::plain(303, "Redirecting.")
        }
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n{ALWAYS}", self.status, reason(self.status));
        let _ =
            write!(head, "Content-Type: {}\r\nContent-Length: {}\r\n", self.kind, self.body.len());
        if let Some(location) = &self.location {
            let _ = write!(head, "Location: {location}\r\n");
        }
        if self.status == 405 {
            head.push_str("Allow: GET\r\n");
        }
        head.push_str("\r\n");
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Writes a response and closes the connection.
pub(super) fn write(stream: &TcpStream, response: &Response) -> io::Result<()> {
    say(stream, &format!("{}{}", response.head(), response.body))?;
    // Closing a connection with unread bytes resets it, and the response is lost.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(FAREWELL))?;
    let (mut rest, mut reader, until) = ([0; 4096], stream, Instant::now() + FAREWELL);
    while Instant::now() < until && matches!(reader.read(&mut rest), Ok(count) if count > 0) {}
    Ok(())
}

/// Rejects a connection without reading or blocking.
pub(super) fn turn_away(stream: &TcpStream) {
    let response = Response::plain(503, "Too many connections.");
    let _ = stream.set_nonblocking(true);
    let mut writer = stream;
    let _ = writer.write(format!("{}{}", response.head(), response.body).as_bytes());
}

/// Starts an event stream.
pub(super) fn begin_stream(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    say(
        stream,
        &format!(
            "HTTP/1.1 200 OK\r\n{ALWAYS}Content-Type: text/event-stream\r\n\r\nretry: 2000\n\n"
        ),
    )
}

/// Writes a whole text within the time for a response.
pub(super) fn say(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_TIME;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for a while. Returns true early if the client disconnects or sends something during the
/// stream.
pub(super) fn is_gone_within(stream: &TcpStream, span: Duration) -> bool {
    if stream.set_read_timeout(Some(span)).is_err() {
        return true;
    }
    match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => !is_timeout(&error) && error.kind() != io::ErrorKind::Interrupted,
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_browsers_are_read() {
        let request =
            parse(b"GET /a/b?since=1-2 HTTP/1.1\r\nHost: x:1\r\nX-A:  b \r\nX-A: c").expect("fine");
        assert_eq!((request.path.as_str(), request.query.as_deref()), ("/a/b", Some("since=1-2")));
        assert_eq!((request.header("host"), request.header("x-a")), (Some("x:1"), Some("b")));
        for head in [
            "",
            "GET",
            "GET / HTTP/2",
            "GET  / HTTP/1.1",
            "GET http://evil.example/ HTTP/1.1",
            "GET /\u{e9} HTTP/1.1",
            "GET /\t HTTP/1.1\r\nHost: \u{1}",
            "GET / HTTP/1.1\r\nno colon",
            "GET / HTTP/1.1\r\n folded: x",
            "GET / HTTP/1.1\r\nHost : x",
            "GET / HTTP/1.1\nHost: x",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
            "\u{16}\u{3}\u{1}\u{2}",
        ] {
            assert_eq!(parse(head.as_bytes()), Err(Refusal::Malformed), "{head:?}");
        }
        let many = format!("GET / HTTP/1.1{}", "\r\nA: b".repeat(MOST_HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), Err(Refusal::Malformed));
    }

    #[test]
    fn a_refusal_cannot_split_the_answer() {
        let head = Response::plain(409, "a\r\nSet-Cookie: x").head();
        assert!(!head.contains("Set-Cookie"), "{head}");
        assert!(Response::elsewhere("/t/").head().contains("\r\nLocation: /t/\r\n"));
    }
}
