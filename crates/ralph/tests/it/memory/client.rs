//! A small MCP client: sends a line, waits for the line with its id. Not here: the requests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A client with its own server.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    /// Notifications of the server.
    pub(crate) notifications: Vec<Value>,
}

impl Client {
    /// Starts a server and initializes it. Its stderr goes to `stderr`.
    pub(crate) fn start(mut command: Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut client = Self { child, input, output, next: 0, notifications: Vec::new() };
        let introduction = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask("initialize", introduction);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    /// Sends a request and returns the whole response.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request.to_string());
        loop {
            let answer = self.receive().expect("an answer");
            if answer["id"] == id {
                return answer;
            }
            self.notifications.push(answer);
        }
    }

    /// Calls a tool and returns its result.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": name, "arguments": arguments }));
        answer["result"].clone()
    }

    /// Creates an entity.
    #[track_caller]
    pub(crate) fn create(&mut self, name: &str) -> Value {
        let entity = json!({ "name": name, "entityType": "thing", "observations": [] });
        self.call("create_entities", json!({ "entities": [entity] }))
    }

    /// Returns the names of all entities.
    #[track_caller]
    pub(crate) fn names(&mut self) -> Vec<String> {
        let graph = self.call("read_graph", json!({}));
        let entities = graph["structuredContent"]["entities"].as_array().cloned();
        let names = entities.into_iter().flatten().map(|it| it["name"].as_str().map(str::to_owned));
        names.collect::<Option<_>>().expect("names")
    }

    /// Sends a line as it is.
    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the server listens");
        input.write_all(format!("{line}\n").as_bytes()).expect("sent");
    }

    /// Returns the next line of the server.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).expect("read");
        (length > 0).then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Closes the connection and returns the rest of the server's output, and its exit code.
    pub(crate) fn leave(mut self) -> (Vec<Value>, Option<i32>) {
        self.input = None;
        let rest = std::iter::from_fn(|| self.receive()).collect();
        (rest, self.child.wait().expect("ended").code())
    }
}
