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

use super::http::{self, EventFrame, ScriptedRequest};
use super::turn::{ModelAnswer, ModelRefusal, ModelTurn};
use super::{anthropic, gemini, openai};
use crate::sealed::wait_until;

/// The API format of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelDialect {
    /// Anthropic's messages.
    Anthropic,
    /// `OpenAI`'s responses and chat completions; the path decides which.
    OpenAi,
    /// Google's generated content.
    Gemini,
}

/// How a server treats the JSON Schema of an answer, if its dialect has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaTreatment {
    /// Refuses what the real API refuses.
    AsReal,
    Refused,
}

/// A request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
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
    shared: Arc<ServerState>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ServerState {
    dialect: ModelDialect,
    schemas: SchemaTreatment,
    script: Mutex<TurnScript>,
    open: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct TurnScript {
    left: VecDeque<ModelTurn>,
    taken: usize,
    requests: Vec<ModelRequest>,
}

/// The kind of a request.
pub(super) enum RequestRoute {
    /// Takes the next turn of the script.
    Turn(AnswerMode),
    /// Another request, with this answer.
    Direct(Value),
    /// A small request to the model, without tools.
    SideRequest(AnswerMode),
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerMode {
    Stream,
    Complete,
}

/// A streamed answer.
pub(super) struct AnswerFrames {
    pub(super) content: Vec<EventFrame>,
    /// The events that mark the end.
    pub(super) ending: Vec<EventFrame>,
}

impl ModelServer {
    /// Starts a server with a script.
    pub fn start_server(
        dialect: ModelDialect,
        script: impl IntoIterator<Item = ModelTurn>,
    ) -> Self {
        Self::start_with(dialect, SchemaTreatment::AsReal, script)
    }

    /// Starts a server with a script and a treatment of schemas.
    pub fn start_with(
        dialect: ModelDialect,
        schemas: SchemaTreatment,
        script: impl IntoIterator<Item = ModelTurn>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("a bound port");
        let script =
            TurnScript { left: script.into_iter().collect(), taken: 0, requests: Vec::new() };
        let shared = Arc::new(ServerState {
            dialect,
            schemas,
            script: Mutex::new(script),
            open: Mutex::new(Vec::new()),
            is_over: AtomicBool::new(false),
        });
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept_connections(&listener, &shared)
        });
        Self { address, shared, listener: Some(listener) }
    }

    /// Returns the address in the form that CLIs expect: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests that took a turn, in order.
    pub fn turn_requests(&self) -> Vec<ModelRequest> {
        let script = lock_mutex(&self.shared.script);
        script.requests.iter().filter(|asked| asked.turn.is_some()).cloned().collect()
    }

    /// Returns every request, including those that took no turn.
    pub fn requests(&self) -> Vec<ModelRequest> {
        lock_mutex(&self.shared.script).requests.clone()
    }

    /// Waits until this many turns were requested.
    #[track_caller]
    pub fn wait_for_turns(&self, count: usize) {
        wait_until(&format!("{count} turns are asked for"), || self.turn_requests().len() >= count);
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for stream in lock_mutex(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then sees that it must end.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept_connections(listener: &TcpListener, shared: &Arc<ServerState>) {
    let mut serving = Vec::new();
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            lock_mutex(&shared.open).push(copy);
        }
        let shared = Arc::clone(shared);
        // A client that disconnects in the middle is not an error of the server.
        serving.push(thread::spawn(move || drop(serve_connection(stream, &shared))));
    }
    for stream in lock_mutex(&shared.open).drain(..) {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for serving in serving {
        let _ = serving.join();
    }
}

fn serve_connection(mut stream: TcpStream, shared: &ServerState) -> io::Result<()> {
    let result = answer_request(&mut stream, shared);
    // The copy in `open` would keep the connection alive.
    stream.shutdown(Shutdown::Both)?;
    result
}

fn answer_request(stream: &mut TcpStream, shared: &ServerState) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(request) = http::read_request(&mut reader)? else { return Ok(()) };
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let dialect = shared.dialect;
    let route = dialect.classify_request(&request, &body);
    let mut script = lock_mutex(&shared.script);
    if let Some(error) = dialect.check_schema(&request, &body, shared.schemas) {
        script.requests.push(ModelRequest { path: request.path().to_owned(), body, turn: None });
        drop(script);
        return http::send_json(stream, 400, &[], &error);
    }
    let turn = match route {
        RequestRoute::Turn(_) => {
            script.taken += 1;
            Some(script.taken - 1)
        }
        RequestRoute::Direct(_) | RequestRoute::SideRequest(_) => None,
    };
    script.requests.push(ModelRequest {
        path: request.path().to_owned(),
        body: body.clone(),
        turn,
    });
    let played = match route {
        RequestRoute::Direct(value) => {
            drop(script);
            return http::send_json(stream, 200, &[], &value);
        }
        RequestRoute::SideRequest(mode) => {
            (mode, ModelTurn::Answer(dialect.answer_side_request(&body)))
        }
        RequestRoute::Turn(mode) => {
            let beyond = || ModelTurn::from_text("There is nothing more in the script.");
            let turn = script.left.pop_front().unwrap_or_else(beyond);
            (mode, turn.with_token(&body))
        }
    };
    drop(script);
    let (mode, turn) = played;
    dialect.play_turn(stream, &request, &body, mode, turn)
}

impl ModelDialect {
    fn classify_request(self, request: &ScriptedRequest, body: &Value) -> RequestRoute {
        if request.method != "POST" {
            return RequestRoute::Direct(json!({ "object": "list", "data": [], "models": [] }));
        }
        match self {
            Self::Anthropic => anthropic::classify_request(request.path(), body),
            Self::OpenAi => openai::classify_request(request.path(), body),
            Self::Gemini => gemini::classify_request(request.path(), body),
        }
    }

    /// Returns the error about the schema of a request, if the real API would refuse it.
    fn check_schema(
        self,
        request: &ScriptedRequest,
        body: &Value,
        schemas: SchemaTreatment,
    ) -> Option<Value> {
        match self {
            Self::OpenAi => openai::check_schema(request.path(), body, schemas),
            Self::Anthropic | Self::Gemini => None,
        }
    }

    /// Returns the answer to a CLI's own small request: a title, a summary, a choice.
    fn answer_side_request(self, body: &Value) -> ModelAnswer {
        let text = match self {
            Self::Anthropic | Self::OpenAi => "ok".to_owned(),
            Self::Gemini => gemini::answer_side_request(body),
        };
        ModelAnswer { text, tools: Vec::new() }
    }

    fn play_turn(
        self,
        stream: &mut TcpStream,
        request: &ScriptedRequest,
        body: &Value,
        mode: AnswerMode,
        turn: ModelTurn,
    ) -> io::Result<()> {
        match turn {
            ModelTurn::Answer(answer) => match mode {
                AnswerMode::Complete => {
                    http::send_json(stream, 200, &[], &self.build_message(request, body, &answer))
                }
                AnswerMode::Stream => {
                    let frames = self.build_frames(request, body, &answer);
                    send_content(stream, &frames)?;
                    frames.ending.iter().try_for_each(|frame| http::send_event(stream, frame))?;
                    http::end_events(stream)
                }
            },
            ModelTurn::Refuse(refusal) => {
                let body = self.build_error(&refusal);
                http::send_json(stream, refusal.status, &refusal.headers, &body)
            }
            ModelTurn::Limited { resets_in } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let (headers, body) = self.build_limit((now + resets_in).as_secs());
                http::send_json(stream, 429, &headers, &body)
            }
            ModelTurn::Drop(answer) => {
                send_content(stream, &self.build_frames(request, body, &answer))
            }
            ModelTurn::EndEarly(answer) => {
                send_content(stream, &self.build_frames(request, body, &answer))?;
                http::end_events(stream)
            }
            ModelTurn::Hang => wait_for_disconnect(stream),
            ModelTurn::HangAfter(answer) => {
                send_content(stream, &self.build_frames(request, body, &answer))?;
                wait_for_disconnect(stream)
            }
        }
    }

    fn build_frames(
        self,
        request: &ScriptedRequest,
        body: &Value,
        answer: &ModelAnswer,
    ) -> AnswerFrames {
        match self {
            Self::Anthropic => anthropic::build_frames(body, answer),
            Self::OpenAi => openai::build_frames(request.path(), body, answer),
            Self::Gemini => gemini::build_frames(answer),
        }
    }

    fn build_message(self, request: &ScriptedRequest, body: &Value, answer: &ModelAnswer) -> Value {
        match self {
            Self::Anthropic => anthropic::build_message(body, answer),
            Self::OpenAi => openai::build_message(request.path(), body, answer),
            Self::Gemini => gemini::build_message(answer),
        }
    }

    fn build_error(self, refusal: &ModelRefusal) -> Value {
        match self {
            Self::Anthropic => anthropic::build_error(refusal),
            Self::OpenAi => openai::build_error(refusal),
            Self::Gemini => gemini::build_error(refusal),
        }
    }

    fn build_limit(self, resets_at: u64) -> (Vec<(String, String)>, Value) {
        match self {
            Self::Anthropic => anthropic::build_limit(resets_at),
            Self::OpenAi => (Vec::new(), openai::build_limit(resets_at)),
            Self::Gemini => (Vec::new(), gemini::build_limit()),
        }
    }
}

fn send_content(stream: &mut TcpStream, frames: &AnswerFrames) -> io::Result<()> {
    http::begin_events(stream, &[])?;
    frames.content.iter().try_for_each(|frame| http::send_event(stream, frame))
}

/// Sends nothing until the client disconnects, or the server ends.
fn wait_for_disconnect(stream: &mut TcpStream) -> io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest)? > 0 {}
    Ok(())
}

/// Returns a unique number, for ids of messages and of calls.
pub(super) fn take_next_id() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns whether a request offers tools. Only the agent's own turns do.
pub(super) fn has_tools(body: &Value) -> bool {
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
            (ModelDialect::Anthropic, "/v1/messages?beta=true"),
            (ModelDialect::OpenAi, "/v1/responses"),
            (ModelDialect::OpenAi, "/v1/chat/completions"),
            (ModelDialect::Gemini, "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ] {
            let turns = [
                ModelTurn::from_tool_call("shell", json!({ "command": "ls" })),
                ModelTurn::from_refusal(429, "slow down"),
                ModelTurn::Limited { resets_in: std::time::Duration::from_secs(5) },
                ModelTurn::from_text("well done"),
            ];
            let server = ModelServer::start_server(dialect, turns);
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
            assert_eq!(server.turn_requests().len(), 5);
            assert_eq!(server.requests().len(), 6);
        }
    }

    #[test]
    fn a_broken_stream_lacks_its_end() {
        let answer = ModelAnswer { text: "half".to_owned(), tools: Vec::new() };
        let server = ModelServer::start_server(ModelDialect::Anthropic, [ModelTurn::Drop(answer)]);
        let reply = post(&server, "/v1/messages", &turn_request());
        assert!(reply.contains("half") && !reply.contains("message_stop"), "{reply}");
        assert!(!reply.ends_with("0\r\n\r\n"), "{reply}");
    }

    #[test]
    fn a_server_that_hangs_ends_with_its_value() {
        let answer = ModelAnswer { text: "half".to_owned(), tools: Vec::new() };
        let turns = [ModelTurn::Hang, ModelTurn::HangAfter(answer)];
        let server = ModelServer::start_server(ModelDialect::OpenAi, turns);
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
