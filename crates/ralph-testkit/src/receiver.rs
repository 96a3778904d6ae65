//! A server on loopback that records its requests and gives scripted answers: good, bad, a
//! redirect, too much, or none.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use crate::models::http::read_request;

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverAnswer {
    /// With this status, these further header lines and this body.
    Respond {
        status: u16,
        /// Header lines, each with its end.
        headers: String,
        body: String,
    },
    /// Never: the connection stays open.
    Hang,
}

impl ReceiverAnswer {
    /// Returns an answer without a body.
    pub fn with_status(status: u16) -> Self {
        Self::Respond { status, headers: String::new(), body: String::new() }
    }
}

/// A request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl ReceivedRequest {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn to_json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a body of JSON")
    }
}

/// A server on loopback.
#[derive(Debug)]
pub struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Receiver {
    /// Starts a server that gives these answers one after the other, and then repeats the last
    /// one.
    pub fn start_server(answers: Vec<ReceiverAnswer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&requests);
        thread::spawn(move || {
            let mut answers = answers.into_iter().peekable();
            let mut last = ReceiverAnswer::with_status(200);
            // Connections that hang stay open as long as the test.
            let mut open = Vec::new();
            for stream in listener.incoming().flatten() {
                if let Some(next) = answers.next() {
                    last = next;
                }
                if let Ok(stream) = serve_request(stream, &last, &theirs) {
                    open.extend(stream);
                }
            }
        });
        Self { port, requests }
    }

    /// Returns a URL of the server.
    pub fn build_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        lock_requests(&self.requests).clone()
    }
}

fn lock_requests(requests: &Mutex<Vec<ReceivedRequest>>) -> MutexGuard<'_, Vec<ReceivedRequest>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one request and answers it; returns the connection if it must stay open.
fn serve_request(
    mut stream: TcpStream,
    answer: &ReceiverAnswer,
    requests: &Mutex<Vec<ReceivedRequest>>,
) -> io::Result<Option<TcpStream>> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(request) = read_request(&mut reader)? else { return Ok(None) };
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let (path, headers) = (request.target, request.headers);
    lock_requests(requests).push(ReceivedRequest { path, headers, body });
    match answer {
        ReceiverAnswer::Hang => Ok(Some(stream)),
        ReceiverAnswer::Respond { status, headers, body } => {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
            )?;
            Ok(None)
        }
    }
}
