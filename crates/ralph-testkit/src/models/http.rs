//! As much of HTTP/1.1 as a scripted server needs: one request per connection, answers as JSON or
//! as a stream of events.
//!
//! Not here: persistent connections, compression, and everything else that a client can do
//! without.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// The longest body that is read. A request of an agent has some hundred kilobytes.
const LONGEST_BODY: u64 = 64 << 20;

/// A request as received.
#[derive(Debug)]
pub(super) struct ModelHttpRequest {
    pub(super) method: String,
    /// The path without its query.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventFrame {
    /// The event's name, in dialects that name events.
    pub(super) name: Option<&'static str>,
    pub(super) data: String,
}

/// Reads a request; `None` if the client disconnected without one.
pub(super) fn read_request(
    stream: &mut BufReader<TcpStream>,
) -> io::Result<Option<ModelHttpRequest>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut parts = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (parts.next(), parts.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut header = String::new();
        if stream.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let body = if is_chunked { read_chunks(stream)? } else { read_exactly(stream, length)? };
    let path = target.split('?').next().unwrap_or(&target).to_owned();
    Ok(Some(ModelHttpRequest { method, path, body }))
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
