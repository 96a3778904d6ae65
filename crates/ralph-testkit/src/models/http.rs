//! As much of HTTP/1.1 as a scripted server needs: one request per connection, answers as JSON or
//! as a stream of events.
//!
//! Not here: persistent connections, compression, and everything else that a client can do
//! without.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use ralph_core::http_head::{HttpHead, find_head_end};
use serde_json::Value;

/// The longest body that is read. A request of an agent has some hundred kilobytes.
const LONGEST_BODY: u64 = 64 << 20;

/// The longest head that is read. Tokens in headers have some kilobytes.
const LONGEST_HEAD: usize = 64 << 10;

/// A request as received.
#[derive(Debug)]
pub(crate) struct ScriptedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl ScriptedRequest {
    /// Returns the path without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventFrame {
    /// The event's name, in dialects that name events.
    pub(super) name: Option<&'static str>,
    pub(super) data: String,
}

/// Reads a request; `None` if the client disconnected without one.
pub(crate) fn read_request(
    stream: &mut BufReader<TcpStream>,
) -> io::Result<Option<ScriptedRequest>> {
    let mut bytes = Vec::new();
    while find_head_end(&bytes, LONGEST_HEAD).map_err(io::Error::other)?.is_none() {
        let mut line = stream.by_ref().take(LONGEST_HEAD as u64);
        if line.read_until(b'\n', &mut bytes)? == 0 {
            return if bytes.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            };
        }
    }
    let head = HttpHead::parse(&bytes).map_err(io::Error::other)?;
    let is_chunked = |it: &str| it.eq_ignore_ascii_case("chunked");
    let body = if head.header("transfer-encoding").is_some_and(is_chunked) {
        read_chunks(stream)?
    } else {
        let length = head.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        read_exactly(stream, length)?
    };
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
    Ok(Some(ScriptedRequest {
        method: head.method.to_owned(),
        target: head.target.to_owned(),
        headers: headers.collect(),
        body,
    }))
}

fn read_exactly(stream: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    stream.take(length.min(LONGEST_BODY)).read_to_end(&mut body)?;
    Ok(body)
}

fn read_chunks(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let size = line.trim().split(';').next().unwrap_or("0");
        let size = u64::from_str_radix(size, 16).unwrap_or(0);
        body.extend(read_exactly(stream, size)?);
        stream.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Answers with JSON.
pub(super) fn send_json(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    let mut head = format_head(status, "application/json", headers);
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Begins a stream of events.
pub(super) fn begin_events(stream: &mut TcpStream, headers: &[(String, String)]) -> io::Result<()> {
    let mut head = format_head(200, "text/event-stream", headers);
    head.push_str("cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())
}

/// Sends one event.
pub(super) fn send_event(stream: &mut TcpStream, frame: &EventFrame) -> io::Result<()> {
    let name = frame.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    let text = format!("{name}data: {}\n\n", frame.data);
    // A single write: clients that read a chunk byte by byte are not tested here.
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
}

/// Ends a stream of events. Without it the client notices that something is missing.
pub(super) fn end_events(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

fn format_head(status: u16, kind: &str, headers: &[(String, String)]) -> String {
    let mut head =
        format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}
