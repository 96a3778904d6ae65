//! What the memory server costs, beside the npm package that it stands in for.
//!
//! Start to the first answer beside `/bin/true` and Node, in turns; then `search_nodes` over
//! 100 000 things with a million observations, and a change of such a graph.
//! `cargo bench -p ralph --bench memory` prints the figures; nothing is asserted. The package is
//! installed by `scripts/install-memory-reference`; without npm its figures are left out.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// Starts of Node take a tenth of a second each.
const STARTS: usize = 40;

/// The largest graph that is promised to be bearable.
const ENTITIES: usize = 100_000;

fn main() {
    let sealed = Sealed::new(RALPH);
    let reference = reference();
    let servers = [("ralph", None), ("npm package", reference.as_deref())];
    let servers = servers.iter().filter(|(name, program)| *name == "ralph" || program.is_some());
    let servers: Vec<_> = servers.collect();

    let small = sealed.project().join("small.jsonl");
    let mut nothing = Vec::new();
    let mut starts = vec![Vec::new(); servers.len()];
    for _ in 0..STARTS {
        let begun = Instant::now();
        assert!(Command::new("/bin/true").status().expect("it starts").success());
        nothing.push(begun.elapsed());
        for (times, (_, program)) in starts.iter_mut().zip(&servers) {
            let begun = Instant::now();
            let mut server = Server::start(&sealed, *program, &small);
            server.call("read_graph", &json!({}));
            times.push(begun.elapsed());
            server.leave();
        }
    }
    let nothing = median(nothing);
    println!("{:<44} {:>9.2} ms", "/bin/true", milliseconds(nothing));
    for (times, (name, _)) in starts.into_iter().zip(&servers) {
        tell(&format!("{name}: start to first answer"), median(times), nothing);
    }

    let large = sealed.project().join("large.jsonl");
    write_graph(&large);
    println!("a graph of {} MB", fs::metadata(&large).expect("there").len() / 1_000_000);
    let mut floor = [None; 4];
    for (name, program) in servers {
        let mut server = Server::start(&sealed, *program, &large);
        let first = server.timed("search_nodes", &json!({ "query": "needle in 77" }));
        let mut search = |query: &str| {
            let times = (0..9).map(|_| server.timed("search_nodes", &json!({ "query": query })));
            median(times.collect())
        };
        let (one, many) = (search("Needle IN 77777"), search("Needle IN 77"));
        let about = |text: &str| json!({ "observations": [{ "entityName": "thing 50000", "contents": [text] }] });
        let changes: Vec<Duration> = (0..3)
            .map(|number| server.timed("add_observations", &about(&format!("{name} {number}"))))
            .collect();
        let figures = [
            ("the first search", first),
            ("a search that finds one thing", one),
            ("a search that finds 1 111 things", many),
            ("a change", median(changes)),
        ];
        for ((what, time), floor) in figures.into_iter().zip(&mut floor) {
            tell(&format!("{name}: {what}"), time, *floor.get_or_insert(time));
        }
        println!("{:<44} {:>9} MB", format!("{name}: peak memory"), server.peak());
        server.leave();
    }
}

/// Installs the package and returns its program.
fn reference() -> Option<PathBuf> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-memory-reference");
    let output = Command::new(script).output().ok().filter(|output| output.status.success());
    if output.is_none() {
        println!("LEFT OUT: the npm package cannot be installed here");
    }
    Some(String::from_utf8_lossy(&output?.stdout).trim().into())
}

/// Writes a graph whose things have ten observations and two relations each.
fn write_graph(path: &Path) {
    let mut file = BufWriter::new(File::create(path).expect("created"));
    for number in 0..ENTITIES {
        let observation = |at: usize| {
            format!("Observation {at} of thing {number}: the module reads its input in one pass.")
        };
        let mut observations: Vec<String> = (0..9).map(observation).collect();
        observations.push(format!("a needle in {number}"));
        let name = format!("thing {number}");
        let entity = json!({ "type": "entity", "name": name, "entityType": "module", "observations": observations });
        writeln!(file, "{entity}").expect("written");
    }
    for number in 0..2 * ENTITIES {
        let (from, to) = (number % ENTITIES, (number * 7 + 1) % ENTITIES);
        let relation = json!({ "type": "relation", "from": format!("thing {from}"), "to": format!("thing {to}"), "relationType": "uses" });
        writeln!(file, "{relation}").expect("written");
    }
}

/// A server, and what it says.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(sealed: &Sealed, reference: Option<&Path>, file: &Path) -> Self {
        let mut command = match reference {
            None => {
                let mut command = sealed.command(RALPH);
                command.args(["mcp", "memory"]);
                command
            }
            Some(program) => {
                let mut command = sealed.command("node");
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

    fn timed(&mut self, name: &str, arguments: &Value) -> Duration {
        let begun = Instant::now();
        self.call(name, arguments);
        begun.elapsed()
    }

    fn call(&mut self, name: &str, arguments: &Value) {
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

    /// Returns the largest memory that it ever had, in megabytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
        kilobytes / 1_000
    }

    fn leave(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends");
    }
}

fn tell(what: &str, time: Duration, floor: Duration) {
    let ratio = time.as_secs_f64() / floor.as_secs_f64();
    println!("{what:<44} {:>9.2} ms, ratio {ratio:.2}", milliseconds(time));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
