//! Whole commands: the demo, the memory server, reading a long history, the binary and its build.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ralph_testkit::measure::{Times, measure_alternating, measure_time, time_command};
use ralph_testkit::sealed::{Running, Sealed};
use serde_json::{Value, json};

use crate::RALPH;
use crate::gaps::{Landing, Place, Walls};
use crate::row::{Bar, Figure, Row};
use crate::server::{Server, reference, write_graph};

/// Things in the graph that both memory servers are asked about.
const ENTITIES: usize = 10_000;

/// The demo at normal speed, and the size of the binary.
pub(crate) fn demo(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::new(RALPH);
    let mut command = sealed.build_command(RALPH);
    let took = time_command(command.arg("demo").stdout(Stdio::null()).stderr(Stdio::null()));
    let [least, most] = [5, 15].map(|seconds| Figure::Time(Duration::from_secs(seconds)));
    report(Row::single("`ralph demo`", Figure::Time(took), [Bar::Between(least, most)]));
    let size = fs::metadata(RALPH).expect("it is there").len();
    let bars = [Bar::Below(Figure::Size(20_000_000))];
    report(Row::single("the binary, stripped", Figure::Size(size), bars));
}

/// Builds everything from scratch, in a directory that is removed afterwards.
pub(crate) fn cold_build() -> Row {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = tempfile::tempdir_in(root.join("target")).expect("a directory");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--locked", "-p", "ralph"]).current_dir(&root);
    command.env("CARGO_TARGET_DIR", target.path()).stderr(Stdio::null());
    let bars = [Bar::Below(Figure::Time(Duration::from_secs(240)))];
    Row::single("cold build, two cores", Figure::Time(time_command(&mut command)), bars)
}

/// The memory server, compared with the npm package that it replaces.
pub(crate) fn server(report: &mut dyn FnMut(Row)) {
    let what = "`ralph mcp memory`: start to the first answer";
    let Some(program) = reference() else {
        return report(Row::skipped(what, "the npm package cannot be installed here"));
    };
    let name = "the npm package";
    let sealed = Sealed::new(RALPH);
    let small = sealed.project_dir().join("small.jsonl");
    let start = |program: Option<&Path>| {
        let mut server = Server::start(&sealed, program, &small);
        server.call("read_graph", &json!({}));
        server.leave();
    };
    let [ours, theirs] =
        measure_alternating(15, [&mut || start(None), &mut || start(Some(&program))])
            .map(|times| Figure::Time(times.median()));
    report(Row::compared(what, ours, (theirs, name), []));

    let large = sealed.project_dir().join("large.jsonl");
    write_graph(&large, ENTITIES);
    let mut servers = [None, Some(program.as_path())].map(|program| {
        let mut server = Server::start(&sealed, program, &large);
        server.call("search_nodes", &json!({ "query": "Needle IN 7777" }));
        server
    });
    let [ours, theirs] = &mut servers;
    let search =
        |server: &mut Server| server.call("search_nodes", &json!({ "query": "Needle IN 7777" }));
    let [found, theirs_found] =
        measure_alternating(15, [&mut || search(ours), &mut || search(theirs)])
            .map(|times| Figure::Time(times.median()));
    let what = format!("`search_nodes` among {ENTITIES} things");
    report(Row::compared(what, found, (theirs_found, name), []));
    let [ours, theirs] = servers.map(|server| {
        let peak = Figure::Size(server.peak() * 1024);
        server.leave();
        peak
    });
    report(Row::compared("peak memory of the same", ours, (theirs, name), []));
}

/// Commands that read a long history, compared with a short one and with jq.
pub(crate) fn reading(long: &Sealed, report: &mut dyn FnMut(Row)) {
    let short = Place::with_files(Landing::Nothing, Walls::None, 0);
    short.ralph(10);
    let short = &short.sealed;
    let journal = long.runs().pop().expect("a run").join("journal.jsonl");
    let size = fs::metadata(&journal).expect("there").len() / 1_000_000;
    for words in [["status"].as_slice(), &["log", "--iteration", "5"], &["report"]] {
        let ask = |sealed: &Sealed| {
            let mut command = sealed.build_command(RALPH);
            time_command(command.args(words).stdout(Stdio::null()).stderr(Stdio::null()));
        };
        let [ours, few] = measure_alternating(9, [&mut || ask(long), &mut || ask(short)])
            .map(|times| Figure::Time(times.median()));
        let what = format!("`ralph {}` after 10 000 iterations ({size} MB)", words.join(" "));
        report(Row::compared(what, ours, (few, "10 iterations"), []));
    }
    let mut page = || {
        let mut command = long.build_command(RALPH);
        time_command(
            command.args(["report", "--html", "-"]).stdout(Stdio::null()).stderr(Stdio::null()),
        );
    };
    let mut count = || {
        let filter = "reduce (inputs | .event.type) as $type ({}; .[$type] += 1)";
        let mut command = long.build_command("jq");
        time_command(command.args(["-n", filter]).arg(&journal).stdout(Stdio::null()));
    };
    let what = "`ralph report --html` of 10 000 iterations";
    if crate::starts::has_program("jq") {
        let [ours, jq] = measure_alternating(5, [&mut page, &mut count])
            .map(|times| Figure::Time(times.median()));
        report(Row::compared(what, ours, (jq, "jq, counting the events"), [Bar::Times(1.0)]));
    }
    let [ours, few] = [long, short].map(first_page);
    let what = "`ralph serve`: from its start to the whole page of that run";
    report(Row::compared(what, ours, (few, "10 iterations"), []));
}

/// Returns how long it takes from the start of the server to the end of a run's page.
fn first_page(sealed: &Sealed) -> Figure {
    let times = (0..5).map(|_| {
        let (took, server) = measure_time(|| {
            let mut command = sealed.build_command(RALPH);
            command.args(["serve", "--json"]);
            let mut server = Running::start_command(command);
            let about: Value = serde_json::from_str(&server.read_line()).expect("JSON");
            let port = about["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            let port = port.expect("a port");
            let url = about["url"].as_str().expect("an address");
            let token = url.split('/').nth(3).expect("a token");
            let list = get(port, &format!("/{token}/"));
            let key = list.split("href=\"run/").nth(1).and_then(|rest| rest.split('/').next());
            let page = get(port, &format!("/{token}/run/{}/", key.expect("a run")));
            assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<h1>"), "{page}");
            server
        });
        drop(server);
        took
    });
    Figure::Time(Times::from(times.collect::<Vec<_>>()).median())
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
