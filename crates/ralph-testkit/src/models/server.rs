//! A scripted model behind a port on loopback. Each request that offers tools takes the next turn
//! of the script; other requests of a CLI (titles, lists of models, counts of tokens, telemetry)
//! get a harmless answer and take no turn.
//!
//! Not here: the formats of the dialects.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::http::{self, Frame, Request};
use super::turn::{Answer, Refusal, Turn};
use super::{anthropic, gemini, openai};
use crate::sealed::wait_until;

/// The API format of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's messages.
    Anthropic,
    /// `OpenAI`'s responses and chat completions; the path decides which.
    OpenAi,
    /// Google's generated content.
    Gemini,
}

/// How a server treats the JSON Schema of an answer, if its dialect has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schemas {
    /// Refuses what the real API refuses.
    AsReal,
    Refused,
}

/// A request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The path without its query.
    pub path: String,
    /// Null if it is not JSON.
    pub body: Value,
    /// The index of the script's turn that it took; `None` for other requests.
    pub turn: Option<usize>,
}

/// A scripted model server, which ends when this value is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    dialect: Dialect,
    schemas: Schemas,
    script: Mutex<Script>,
    open: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Script {
    left: VecDeque<Turn>,
    taken: usize,
    asked: Vec<Asked>,
}

/// The kind of a request.
pub(super) enum Route {
    /// Takes the next turn of the script.
    Turn(Mode),
    /// Another request, with this answer.
    Beside(Value),
    /// A small request to the model, without tools.
    Aside(Mode),
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Stream,
    Whole,
}

/// A streamed answer.
pub(super) struct Frames {
    pub(super) content: Vec<Frame>,
    /// The events that mark the end.
    pub(super) ending: Vec<Frame>,
}

impl ModelServer {
    /// Starts a server with a script.
    pub fn start(dialect: Dialect, script: impl IntoIterator<Item = Turn>) -> Self {
        Self::start_with(dialect, Schemas::AsReal, script)
    }

    /// Starts a server with a script and a treatment of schemas.
    pub fn start_with(
        dialect: Dialect,
        schemas: Schemas,
        script: impl IntoIterator<Item = Turn>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("a bound port");
        let script = Script { left: script.into_iter().collect(), taken: 0, asked: Vec::new() };
        let shared = Arc::new(Shared {
            dialect,
            schemas,
            script: Mutex::new(script),
            open: Mutex::new(Vec::new()),
            is_over: AtomicBool::new(false),
        });
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Self { address, shared, listener: Some(listener) }
    }

    /// Returns the address in the form that CLIs expect: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests that took a turn, in order.
    pub fn turns(&self) -> Vec<Asked> {
        let script = lock(&self.shared.script);
        script.asked.iter().filter(|asked| asked.turn.is_some()).cloned().collect()
    }

    /// Returns every request, including those that took no turn.
    pub fn requests(&self) -> Vec<Asked> {
        lock(&self.shared.script).asked.clone()
    }

    /// Waits until this many turns were requested.
    #[track_caller]
    pub fn wait_for_turns(&self, count: usize) {
        wait_until(&format!("{count} turns are asked for"), || self.turns().len() >= count);
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for stream in lock(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then sees that it must end.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving = Vec::new();
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            lock(&shared.open).push(copy);
        }
        let shared = Arc::clone(shared);
        // A client that disconnects in the middle is not an error of the server.
        serving.push(thread::spawn(move || drop(serve(stream, &shared))));
    }
    for stream in lock(&shared.open).drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for serving in serving {
        let _ = serving.join();
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let result = answer(&mut stream, shared);
    // The copy in `open` would keep the connection alive.
    stream.shutdown(Shutdown::Both)?;
    result
}

fn answer(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(request) = http::read(&mut reader)? else { return Ok(()) };
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let dialect = shared.dialect;
    let route = dialect.route(&request, &body);
    let mut script = lock(&shared.script);
    if let Some(error) = dialect.refuse_schema(&request, &body, shared.schemas) {
        script.asked.push(Asked { path: request.path.clone(), body, turn: None });
        drop(script);
        return http::reply(stream, 400, &[], &error);
    }
    let turn = match route {
        Route::Turn(_) => {
            script.taken += 1;
            Some(script.taken - 1)
        }
        Route::Beside(_) | Route::Aside(_) => None,
    };
    script.asked.push(Asked { path: request.path.clone(), body: body.clone(), turn });
    let played = match route {
        Route::Beside(value) => {
            drop(script);
            return http::reply(stream, 200, &[], &value);
        }
        Route::Aside(mode) => (mode, Turn::Says(dialect.aside(&body))),
        Route::Turn(mode) => {
            let beyond = || Turn::says("There is nothing more in the script.");
            (mode, script.left.pop_front().unwrap_or_else(beyond))
        }
    };
    drop(script);
    let (mode, turn) = played;
    dialect.play(stream, &request, &body, mode, turn)
}

impl Dialect {
    fn route(self, request: &Request, body: &Value) -> Route {
        if request.method != "POST" {
            return Route::Beside(json!({ "object": "list", "data": [], "models": [] }));
        }
        match self {
            Self::Anthropic => anthropic::route(&request.path, body),
            Self::OpenAi => openai::route(&request.path, body),
            Self::Gemini => gemini::route(&request.path, body),
        }
    }

    /// Returns the error about the schema of a request, if the real API would refuse it.
    fn refuse_schema(self, request: &Request, body: &Value, schemas: Schemas) -> Option<Value> {
        match self {
            Self::OpenAi => openai::refuse_schema(&request.path, body, schemas),
            Self::Anthropic | Self::Gemini => None,
        }
    }

    /// Returns the answer to a CLI's own small request: a title, a summary, a choice.
    fn aside(self, body: &Value) -> Answer {
        let text = match self {
            Self::Anthropic | Self::OpenAi => "ok".to_owned(),
            Self::Gemini => gemini::aside(body),
        };
        Answer { text, tools: Vec::new() }
    }

    fn play(
        self,
        stream: &mut TcpStream,
        request: &Request,
        body: &Value,
        mode: Mode,
        turn: Turn,
    ) -> io::Result<()> {
        match turn {
            Turn::Says(answer) => match mode {
                Mode::Whole => http::reply(stream, 200, &[], &self.whole(request, body, &answer)),
                Mode::Stream => {
                    let frames = self.frames(request, body, &answer);
                    begin(stream, &frames)?;
                    frames.ending.iter().try_for_each(|frame| http::event(stream, frame))?;
                    http::end_events(stream)
                }
            },
            Turn::Refuses(refusal) => {
                let body = self.error(&refusal);
                http::reply(stream, refusal.status, &refusal.headers, &body)
            }
            Turn::Limited { resets_in } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let (headers, body) = self.limit((now + resets_in).as_secs());
                http::reply(stream, 429, &headers, &body)
            }
            Turn::Drops(answer) => begin(stream, &self.frames(request, body, &answer)),
            Turn::EndsEarly(answer) => {
                begin(stream, &self.frames(request, body, &answer))?;
                http::end_events(stream)
            }
            Turn::Hangs => wait_for_the_client(stream),
            Turn::HangsAfter(answer) => {
                begin(stream, &self.frames(request, body, &answer))?;
                wait_for_the_client(stream)
            }
        }
    }

    fn frames(self, request: &Request, body: &Value, answer: &Answer) -> Frames {
        match self {
            Self::Anthropic => anthropic::frames(body, answer),
            Self::OpenAi => openai::frames(&request.path, body, answer),
            Self::Gemini => gemini::frames(answer),
        }
    }

    fn whole(self, request: &Request, body: &Value, answer: &Answer) -> Value {
        match self {
            Self::Anthropic => anthropic::message(body, answer),
            Self::OpenAi => openai::whole(&request.path, body, answer),
            Self::Gemini => gemini::whole(answer),
        }
    }

    fn error(self, refusal: &Refusal) -> Value {
        match self {
            Self::Anthropic => anthropic::error(refusal),
            Self::OpenAi => openai::error(refusal),
            Self::Gemini => gemini::error(refusal),
        }
    }

    fn limit(self, resets_at: u64) -> (Vec<(String, String)>, Value) {
        match self {
            Self::Anthropic => anthropic::limit(resets_at),
            Self::OpenAi => (Vec::new(), openai::limit(resets_at)),
            Self::Gemini => (Vec::new(), gemini::limit()),
        }
    }
}

fn begin(stream: &mut TcpStream, frames: &Frames) -> io::Result<()> {
    http::begin_events(stream, &[])?;
    frames.content.iter().try_for_each(|frame| http::event(stream, frame))
}

/// Sends nothing until the client disconnects, or the server ends.
fn wait_for_the_client(stream: &mut TcpStream) -> io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest)? > 0 {}
    Ok(())
}

/// Returns a unique number, for ids of messages and of calls.
pub(super) fn fresh() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns whether a request offers tools. Only the agent's own turns do.
pub(super) fn offers_tools(body: &Value) -> bool {
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Posts a body and returns the complete response.
    fn post(server: &ModelServer, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).expect("sent");
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        reply
    }

    fn turn_request() -> Value {
        json!({ "model": "m", "stream": true, "tools": [{ "name": "t" }] })
    }

    #[test]
    fn turns_are_played_in_order_and_side_requests_take_none() {
        for (dialect, path) in [
            (Dialect::Anthropic, "/v1/messages?beta=true"),
            (Dialect::OpenAi, "/v1/responses"),
            (Dialect::OpenAi, "/v1/chat/completions"),
            (Dialect::Gemini, "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ] {
            let turns = [
                Turn::calls("shell", json!({ "command": "ls" })),
                Turn::refuses(429, "slow down"),
                Turn::Limited { resets_in: std::time::Duration::from_secs(5) },
                Turn::says("well done"),
            ];
            let server = ModelServer::start(dialect, turns);
            let reply = post(&server, path, &turn_request());
            assert!(reply.contains("shell") && reply.contains("ls"), "{reply}");
            assert!(reply.ends_with("0\r\n\r\n"), "{reply}");
            let aside = post(&server, path, &json!({ "stream": true }));
            assert!(aside.contains("ok"), "{aside}");
            let reply = post(&server, path, &turn_request());
            assert!(reply.starts_with("HTTP/1.1 429") && reply.contains("slow down"), "{reply}");
            assert!(post(&server, path, &turn_request()).starts_with("HTTP/1.1 429"));
            assert!(post(&server, path, &turn_request()).contains("well do"));
            assert!(post(&server, path, &turn_request()).contains("There i"));
            assert_eq!(server.turns().len(), 5);
            assert_eq!(server.requests().len(), 6);
        }
    }

    #[test]
    fn a_broken_stream_lacks_its_end() {
        let answer = Answer { text: "half".to_owned(), tools: Vec::new() };
        let server = ModelServer::start(Dialect::Anthropic, [Turn::Drops(answer)]);
        let reply = post(&server, "/v1/messages", &turn_request());
        assert!(reply.contains("half") && !reply.contains("message_stop"), "{reply}");
        assert!(!reply.ends_with("0\r\n\r\n"), "{reply}");
    }

    #[test]
    fn a_server_that_hangs_ends_with_its_value() {
        let answer = Answer { text: "half".to_owned(), tools: Vec::new() };
        let turns = [Turn::Hangs, Turn::HangsAfter(answer)];
        let server = ModelServer::start(Dialect::OpenAi, turns);
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let mut stream = TcpStream::connect(server.address).expect("it listens");
                let body = turn_request().to_string();
                let head =
                    format!("POST /responses HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).expect("sent");
                stream
            })
            .collect();
        server.wait_for_turns(2);
        drop(server);
        for mut stream in clients {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
    }
}
