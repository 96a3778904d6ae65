//! The head of an HTTP/1 request: request line and headers, for the live page, the sandbox proxy
//! and the scripted servers of the tests.
//!
//! `httparse` reads it; what it tolerates and another server could read differently is refused
//! here: lines that end without a carriage return, empty lines in front, repeated headers that say
//! where the request goes or ends. Not here: bodies, and which requests are allowed.

use memchr::memmem;

/// More headers than any browser or agent sends.
pub const MOST_HEADERS: usize = 64;

/// Ends every head.
const END: &[u8] = b"\r\n\r\n";

/// Headers that make a request ambiguous if they are repeated.
const SINGLE_HEADERS: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHead<'a> {
    pub method: &'a str,
    pub target: &'a str,
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: &'static str,
    /// Names as they were sent, and values without the spaces around them.
    pub headers: Vec<(&'a str, &'a str)>,
}

/// Why bytes are not the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpHeadError {
    #[error("the head of the request is too long")]
    TooLong,
    #[error("this is not HTTP/1")]
    NotHttp,
    #[error("a header cannot be read")]
    Header,
}

/// Returns where the head ends, after its empty line; `None` if more bytes are needed.
pub fn find_head_end(bytes: &[u8], longest: usize) -> Result<Option<usize>, HttpHeadError> {
    match memmem::find(bytes, END).map(|at| at + END.len()) {
        Some(end) if end <= longest => Ok(Some(end)),
        None if bytes.len() < longest => Ok(None),
        Some(_) | None => Err(HttpHeadError::TooLong),
    }
}

impl<'a> HttpHead<'a> {
    /// Parses a head, from its first byte to the empty line that ends it.
    pub fn parse(head: &'a [u8]) -> Result<Self, HttpHeadError> {
        // `httparse` skips empty lines before the request.
        if !head.first().is_some_and(u8::is_ascii_alphabetic) {
            return Err(HttpHeadError::NotHttp);
        }
        let text = str::from_utf8(head).map_err(|_| HttpHeadError::Header)?;
        // `httparse` accepts lines that end with a line feed alone.
        let is_clean = |line: &str| line.chars().all(|it| it == '\t' || !it.is_control());
        if !text.split("\r\n").all(is_clean) {
            return Err(HttpHeadError::Header);
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(head).map_err(|error| match error {
            httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::NewLine
            | httparse::Error::TooManyHeaders => HttpHeadError::Header,
            httparse::Error::Status | httparse::Error::Token | httparse::Error::Version => {
                HttpHeadError::NotHttp
            }
        })?;
        let (Some(method), Some(target), Some(minor)) =
            (request.method, request.path, request.version)
        else {
            return Err(HttpHeadError::NotHttp);
        };
        if parsed != httparse::Status::Complete(head.len()) {
            return Err(HttpHeadError::NotHttp);
        }
        let headers = request.headers.iter().map(|header| {
            let value = str::from_utf8(header.value).map_err(|_| HttpHeadError::Header)?;
            Ok((header.name, value))
        });
        let version = if minor == 0 { "HTTP/1.0" } else { "HTTP/1.1" };
        let head = Self { method, target, version, headers: headers.collect::<Result<_, _>>()? };
        if head.repeats_any(&SINGLE_HEADERS) { Err(HttpHeadError::Header) } else { Ok(head) }
    }

    /// Returns the first header with this name.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let is_named = |(known, _): &&(&str, &str)| known.eq_ignore_ascii_case(name);
        self.headers.iter().find(is_named).map(|(_, value)| *value)
    }

    /// Returns whether one of these headers occurs more than once.
    pub fn repeats_any(&self, names: &[&str]) -> bool {
        let count = |name: &str| {
            self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count()
        };
        names.iter().any(|name| count(name) > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let bytes = b"POST http://a/b?c HTTP/1.0\r\nHost: x:1\r\nX-A:  b\xc3\xa9 \r\nx-a:\r\n\r\n";
        let head = HttpHead {
            method: "POST",
            target: "http://a/b?c",
            version: "HTTP/1.0",
            headers: vec![("Host", "x:1"), ("X-A", "bé"), ("x-a", "")],
        };
        assert_eq!(HttpHead::parse(bytes).as_ref(), Ok(&head));
        assert_eq!((head.header("x-A"), head.header("x-b")), (Some("bé"), None));
        assert!(head.repeats_any(&["x-b", "X-a"]) && !head.repeats_any(&["host"]));
    }

    #[test]
    fn what_servers_could_read_differently_is_refused() {
        let many = format!("GET / HTTP/1.1{}", "\r\nA: b".repeat(MOST_HEADERS + 1));
        for (head, expect) in [
            ("", HttpHeadError::NotHttp),
            ("GET", HttpHeadError::NotHttp),
            ("GET /", HttpHeadError::NotHttp),
            ("\r\nGET / HTTP/1.1", HttpHeadError::NotHttp),
            ("\nGET / HTTP/1.1", HttpHeadError::NotHttp),
            ("GET / HTTP/2", HttpHeadError::NotHttp),
            ("GET  / HTTP/1.1", HttpHeadError::NotHttp),
            ("GET / b HTTP/1.1", HttpHeadError::NotHttp),
            ("GET / HTTP/1.1 ", HttpHeadError::Header),
            ("\u{16}\u{3}\u{1}\u{2}", HttpHeadError::NotHttp),
            ("GET /\n HTTP/1.1", HttpHeadError::Header),
            ("GET /\r HTTP/1.1", HttpHeadError::Header),
            ("GET / HTTP/1.1\nHost: x", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA: b\nX: c", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA: b\rX: c", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA: \0", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA: \u{85}", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nno colon", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\n: x", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA : b", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\n folded: x", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nA: b\r\n c", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nHost: a\r\nhost: a", HttpHeadError::Header),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1", HttpHeadError::Header),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: a\r\ntransfer-encoding: b",
                HttpHeadError::Header,
            ),
            (many.as_str(), HttpHeadError::Header),
        ] {
            let head = format!("{head}\r\n\r\n");
            assert_eq!(HttpHead::parse(head.as_bytes()), Err(expect), "{head:?}");
        }
        let not_utf8 = HttpHead::parse(b"GET / HTTP/1.1\r\nA: \xff\r\n\r\n");
        assert_eq!(not_utf8, Err(HttpHeadError::Header));
        let further = HttpHead::parse(b"GET / HTTP/1.1\r\n\r\nA: b\r\n\r\n");
        assert_eq!(further, Err(HttpHeadError::NotHttp));
    }

    #[test]
    fn a_head_has_an_end_within_its_limit() {
        for (bytes, expect) in [
            ("", Ok(None)),
            ("GET\r\n", Ok(None)),
            ("a\r\n\r\n\r\n\r\n", Ok(Some(5))),
            ("1234\r\n\r\n", Ok(Some(8))),
            ("12345\r\n\r\n", Err(HttpHeadError::TooLong)),
            ("12345678", Err(HttpHeadError::TooLong)),
        ] {
            assert_eq!(find_head_end(bytes.as_bytes(), 8), expect, "{bytes:?}");
        }
    }
}
