//! The part of HTTP that one page needs: reading a request within limits, writing a response, and
//! an event stream.
//!
//! Every connection serves one request. Not here: which requests are allowed.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use ralph_core::http_head::{HttpHead, HttpHeadError, find_head_end};

/// A browser's request line and headers take about a thousand bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// A control request with the longest note, escaped.
const LONGEST_BODY: usize = 32 * 1024;

/// On loopback a request arrives at once; this leaves room for a loaded machine.
const REQUEST_TIME: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// The time for a whole response, also to a client that reads one byte at a time.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long the rest of the client's data is read, so that the client gets the response.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Request headers that admission relies on; a repeated one would be ambiguous.
const SINGLE_HEADERS: [&str; 3] = ["origin", "content-type", "x-ralph-token"];

/// Headers of every response.
const COMMON_HEADERS: &str = "Connection: close\r\nCache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
Cross-Origin-Embedder-Policy: require-corp\r\n\
Permissions-Policy: camera=(), microphone=(), geolocation=()\r\n\
Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; \
connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServeRequest {
    pub(super) method: ServeMethod,
    pub(super) path: String,
    pub(super) query: Option<String>,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServeMethod {
    Get,
    Post,
    Other,
}

impl ServeRequest {
    /// Returns a header. Security-relevant headers occur at most once: parsing rejects duplicates.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why a request could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServeRequestError {
    /// The client disconnected, or sent nothing.
    Gone,
    Slow,
    LongHead,
    LongBody,
    /// Not HTTP as browsers send it.
    Malformed,
}

impl From<HttpHeadError> for ServeRequestError {
    fn from(error: HttpHeadError) -> Self {
        match error {
            HttpHeadError::TooLong => Self::LongHead,
            HttpHeadError::NotHttp | HttpHeadError::Header => Self::Malformed,
        }
    }
}

impl ServeRequestError {
    /// Returns the response, or `None` if the client has gone.
    pub(super) fn to_response(self) -> Option<ServeResponse> {
        let (status, text) = match self {
            Self::Gone => return None,
            Self::Slow => (408, "The request took too long."),
            Self::LongHead => (431, "The request is too long."),
            Self::LongBody => (413, "The request body is too long."),
            Self::Malformed => (400, "The request is malformed."),
        };
        Some(ServeResponse::from_message(status, text))
    }
}

/// Reads one request, within a deadline for all of it.
pub(super) fn read_request(mut stream: &TcpStream) -> Result<ServeRequest, ServeRequestError> {
    let deadline = Instant::now() + REQUEST_TIME;
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>| {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ServeRequestError::Slow);
        }
        stream.set_read_timeout(Some(left)).map_err(|_| ServeRequestError::Gone)?;
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => Err(ServeRequestError::Gone),
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if is_timeout(&error) => Err(ServeRequestError::Slow),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(ServeRequestError::Gone),
        }
    };
    let end = loop {
        if let Some(end) = find_head_end(&bytes, LONGEST_HEAD)? {
            break end;
        }
        more(&mut bytes)?;
    };
    let mut request = parse_head(&bytes[..end])?;
    let length = match request.header("content-length") {
        None => 0,
        Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) && digits.len() < 10 => {
            digits.parse().map_err(|_| ServeRequestError::Malformed)?
        }
        Some(_) => return Err(ServeRequestError::Malformed),
    };
    if length > LONGEST_BODY {
        return Err(ServeRequestError::LongBody);
    }
    let mut body = bytes.split_off(end);
    while body.len() < length {
        more(&mut body)?;
    }
    // Only one request is served, so further data is ignored.
    body.truncate(length);
    request.body = body;
    Ok(request)
}

/// Parses a complete request.
#[cfg(test)]
pub(super) fn parse_whole_request(bytes: &[u8]) -> Option<ServeRequest> {
    let end = find_head_end(bytes, LONGEST_HEAD).ok()??;
    let request = parse_head(&bytes[..end]).ok()?;
    Some(ServeRequest { body: bytes[end..].to_vec(), ..request })
}

/// Parses request line and headers. `Transfer-Encoding` is not supported.
fn parse_head(bytes: &[u8]) -> Result<ServeRequest, ServeRequestError> {
    let head = HttpHead::parse(bytes)?;
    let is_ours = bytes.is_ascii()
        && head.target.starts_with('/')
        && head.header("transfer-encoding").is_none()
        && !head.repeats_any(&SINGLE_HEADERS);
    if !is_ours {
        return Err(ServeRequestError::Malformed);
    }
    let (path, query) = head
        .target
        .split_once('?')
        .map_or((head.target, None), |(path, query)| (path, Some(query.to_owned())));
    let method = match head.method {
        "GET" => ServeMethod::Get,
        "POST" => ServeMethod::Post,
        _ => ServeMethod::Other,
    };
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
    let headers = headers.collect();
    Ok(ServeRequest { method, path: path.to_owned(), query, headers, body: Vec::new() })
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServeResponse {
    pub(super) status: u16,
    kind: &'static str,
    location: Option<String>,
    body: String,
}

impl ServeResponse {
    pub(super) fn from_html(body: String) -> Self {
        Self::from_text("text/html; charset=utf-8", body)
    }

    pub(super) fn from_text(kind: &'static str, body: String) -> Self {
        Self { status: 200, kind, location: None, body }
    }

    /// Returns a plain-text response with this status.
    pub(super) fn from_message(status: u16, text: &str) -> Self {
        let body = format!("{}\n", crate::sanitize::sanitize_line(text, 500, "…"));
        Self { status, ..Self::from_text("text/plain; charset=utf-8", body) }
    }

    pub(super) fn redirect_to(location: &str) -> Self {
        Self {
            status: 303,
            location: Some(location.to_owned()),
            ..Self::from_message(303, "Redirecting.")
        }
    }

    fn format_head(&self) -> String {
        let mut head =
            format!("HTTP/1.1 {} {}\r\n{COMMON_HEADERS}", self.status, choose_reason(self.status));
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

fn choose_reason(status: u16) -> &'static str {
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
pub(super) fn write_response(stream: &TcpStream, response: &ServeResponse) -> io::Result<()> {
    write_text(stream, &format!("{}{}", response.format_head(), response.body))?;
    // Closing a connection with unread bytes resets it, and the response is lost.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN_TIME))?;
    let (mut rest, mut reader, until) = ([0; 4096], stream, Instant::now() + DRAIN_TIME);
    while Instant::now() < until && matches!(reader.read(&mut rest), Ok(count) if count > 0) {}
    Ok(())
}

/// Rejects a connection without reading or blocking.
pub(super) fn reject_connection(stream: &TcpStream) {
    let response = ServeResponse::from_message(503, "Too many connections.");
    let _ = stream.set_nonblocking(true);
    let mut writer = stream;
    let _ = writer.write(format!("{}{}", response.format_head(), response.body).as_bytes());
}

/// Starts an event stream.
pub(super) fn start_stream(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    write_text(
        stream,
        &format!(
            "HTTP/1.1 200 OK\r\n{COMMON_HEADERS}Content-Type: text/event-stream\r\n\r\nretry: 2000\n\n"
        ),
    )
}

/// Writes a whole text within the time for a response.
pub(super) fn write_text(mut stream: &TcpStream, text: &str) -> io::Result<()> {
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
        let parse = |head: &str| parse_head(format!("{head}\r\n\r\n").as_bytes());
        let request =
            parse("GET /a/b?since=1-2 HTTP/1.1\r\nHost: x:1\r\nX-A:  b \r\nX-A: c").expect("fine");
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
            "GET / HTTP/1.1\r\nX-A: \u{e9}",
            "GET / HTTP/1.1\nHost: x",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b",
            "GET / HTTP/1.1\r\nOrigin: a\r\norigin: a",
            "POST / HTTP/1.1\r\nContent-Type: a\r\ncontent-type: a",
            "POST / HTTP/1.1\r\nX-Ralph-Token: a\r\nx-ralph-token: a",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
            "\u{16}\u{3}\u{1}\u{2}",
        ] {
            assert_eq!(parse(head), Err(ServeRequestError::Malformed), "{head:?}");
        }
    }

    #[test]
    fn a_refusal_cannot_split_the_answer() {
        let head = ServeResponse::from_message(409, "a\r\nSet-Cookie: x").format_head();
        assert!(!head.contains("Set-Cookie"), "{head}");
        assert!(ServeResponse::redirect_to("/t/").format_head().contains("\r\nLocation: /t/\r\n"));
    }
}
