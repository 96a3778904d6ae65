//! Measures the memory server, compared with the npm package that it replaces.
//!
//! Start to the first answer compared with `/bin/true` and Node, in turns; then `search_nodes` over
//! 100 000 things with a million observations, and a change of such a graph.
//! `cargo bench -p ralph --bench memory` prints the figures; nothing is asserted. The package is
//! installed by `scripts/install-memory-reference`; without npm its figures are skipped.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "memory/server.rs"]
mod server;

use std::fs;
use std::process::Command;
use std::time::Duration;

use ralph_testkit::measure::{Times, calculate_ratio, measure_time, time_command, to_milliseconds};
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use server::{Server, reference, write_graph};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// Starts of Node take a tenth of a second each.
const STARTS: usize = 40;

/// The largest graph that is promised to be bearable.
const ENTITIES: usize = 100_000;

fn main() {
    let sealed = Sealed::new(RALPH);
    let reference = reference();
    if reference.is_none() {
        println!("LEFT OUT: the npm package cannot be installed here");
    }
    let servers = [("ralph", None), ("npm package", reference.as_deref())];
    let servers = servers.iter().filter(|(name, program)| *name == "ralph" || program.is_some());
    let servers: Vec<_> = servers.collect();

    let small = sealed.project_dir().join("small.jsonl");
    let mut nothing = Vec::new();
    let mut starts = vec![Vec::new(); servers.len()];
    for _ in 0..STARTS {
        nothing.push(time_command(&mut Command::new("/bin/true")));
        for (times, (_, program)) in starts.iter_mut().zip(&servers) {
            let (took, server) = measure_time(|| {
                let mut server = Server::start(&sealed, *program, &small);
                server.call("read_graph", &json!({}));
                server
            });
            times.push(took);
            server.leave();
        }
    }
    let nothing = Times::from(nothing).median();
    println!("{:<44} {:>9.2} ms", "/bin/true", to_milliseconds(nothing));
    for (times, (name, _)) in starts.into_iter().zip(&servers) {
        print_time(&format!("{name}: start to first answer"), Times::from(times).median(), nothing);
    }

    let large = sealed.project_dir().join("large.jsonl");
    write_graph(&large, ENTITIES);
    println!("a graph of {} MB", fs::metadata(&large).expect("there").len() / 1_000_000);
    let mut floor = [None; 4];
    for (name, program) in servers {
        let mut server = Server::start(&sealed, *program, &large);
        let mut ask =
            |name: &str, arguments: &Value| measure_time(|| server.call(name, arguments)).0;
        let first = ask("search_nodes", &json!({ "query": "needle in 77" }));
        let mut search = |query: &str| {
            let times = (0..9).map(|_| ask("search_nodes", &json!({ "query": query })));
            Times::from(times.collect::<Vec<_>>()).median()
        };
        let (one, many) = (search("Needle IN 77777"), search("Needle IN 77"));
        let about = |text: &str| json!({ "observations": [{ "entityName": "thing 50000", "contents": [text] }] });
        let changes: Vec<Duration> = (0..3)
            .map(|number| ask("add_observations", &about(&format!("{name} {number}"))))
            .collect();
        let figures = [
            ("the first search", first),
            ("a search that finds one thing", one),
            ("a search that finds 1 111 things", many),
            ("a change", Times::from(changes).median()),
        ];
        for ((what, time), floor) in figures.into_iter().zip(&mut floor) {
            print_time(&format!("{name}: {what}"), time, *floor.get_or_insert(time));
        }
        println!("{:<44} {:>9} MB", format!("{name}: peak memory"), server.peak() / 1_000);
        server.leave();
    }
}

fn print_time(what: &str, time: Duration, floor: Duration) {
    println!(
        "{what:<44} {:>9.2} ms, ratio {:.2}",
        to_milliseconds(time),
        calculate_ratio(time, floor)
    );
}
