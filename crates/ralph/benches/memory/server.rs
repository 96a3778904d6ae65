//! A memory server, ralph's or the npm package that it replaces, and a large graph to query.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use ralph_testkit::measure::read_peak_memory;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::RALPH;

/// Installs the package, where that is possible, and returns its program.
pub(crate) fn reference() -> Option<PathBuf> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-memory-reference");
    let output = Command::new(script).output().ok().filter(|output| output.status.success());
    Some(String::from_utf8_lossy(&output?.stdout).trim().into())
}

/// Writes a graph whose things have ten observations and two relations each.
pub(crate) fn write_graph(path: &Path, entities: usize) {
    let mut file = BufWriter::new(File::create(path).expect("created"));
    for number in 0..entities {
        let observation = |at: usize| {
            format!("Observation {at} of thing {number}: the module reads its input in one pass.")
        };
        let mut observations: Vec<String> = (0..9).map(observation).collect();
        observations.push(format!("a needle in {number}"));
        let name = format!("thing {number}");
        let entity = json!({ "type": "entity", "name": name, "entityType": "module", "observations": observations });
        writeln!(file, "{entity}").expect("written");
    }
    for number in 0..2 * entities {
        let (from, to) = (number % entities, (number * 7 + 1) % entities);
        let relation = json!({ "type": "relation", "from": format!("thing {from}"), "to": format!("thing {to}"), "relationType": "uses" });
        writeln!(file, "{relation}").expect("written");
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    pub(crate) fn start(sealed: &Sealed, reference: Option<&Path>, file: &Path) -> Self {
        let mut command = match reference {
            None => {
                let mut command = sealed.build_command(RALPH);
                command.args(["mcp", "memory"]);
                command
            }
            Some(program) => {
                let mut command = sealed.build_command("node");
                command.arg(program);
                command
            }
        };
        command.env("MEMORY_FILE_PATH", file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Self { child, output, next: 0 };
        let introduction = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        });
        server.ask("initialize", &introduction);
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &Value) {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }));
    }

    fn ask(&mut self, method: &str, params: &Value) {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        assert!(line.contains("\"result\"") && !line.contains("isError"), "{line}");
    }

    fn send(&mut self, message: &Value) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(format!("{message}\n").as_bytes()).expect("sent");
    }

    /// Returns the largest memory in KiB that it ever had.
    pub(crate) fn peak(&self) -> u64 {
        read_peak_memory(self.child.id()).unwrap_or_default()
    }

    pub(crate) fn leave(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
    }
}
