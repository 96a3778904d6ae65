//! All figures with limits, in one table, each with its baseline.
//!
//! `cargo bench -p ralph --bench table` takes some minutes. Baselines are
//! measured in turns with ralph; nothing is asserted, and a row over its limit is marked. Words after `--`
//! name the parts to measure; `--build` measures a cold build as well, and `--markdown FILE` puts
//! the table where FILE has the marks for it, or writes FILE.
//!
//! Not here: the further figures of one subject, which the other benchmarks print.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]

#[path = "sandbox/cells.rs"]
mod cells;
#[path = "loop/flood.rs"]
mod flood;
#[path = "loop/gaps.rs"]
mod gaps;
#[path = "hook/inputs.rs"]
mod inputs;
#[path = "stream/listening.rs"]
mod listening;
#[path = "table/loops.rs"]
mod loops;
#[path = "table/machine.rs"]
mod machine;
#[path = "table/parallel.rs"]
mod parallel;
#[path = "table/row.rs"]
mod row;
#[path = "stream/samples.rs"]
mod samples;
#[path = "memory/server.rs"]
mod server;
#[path = "table/starts.rs"]
mod starts;
#[path = "table/streams.rs"]
mod streams;
#[path = "stream/typed.rs"]
mod typed;
#[path = "table/whole.rs"]
mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use row::Row;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// Measures some rows and reports each.
type Part = fn(&mut dyn FnMut(Row));

/// What is measured together. What is about small files comes first: file systems are slow to make
/// new ones where many were removed a moment ago, as every part does at its end.
const PARTS: [(&str, Part); 16] = [
    ("gap", loops::gap),
    ("native", loops::native),
    ("first", loops::first),
    ("tasks", loops::tasks),
    ("bash", loops::bash),
    ("history", loops::history),
    ("start", starts::start),
    ("monitor", starts::monitor),
    ("guard", starts::guard),
    ("sandbox", starts::sandbox),
    ("stream", streams::stream),
    ("flood", streams::flood),
    ("server", whole::server),
    ("demo", whole::demo),
    ("parallel", parallel::parallel),
    ("files", loops::files),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["agent", ..] => return gaps::agent(),
        ["print-flood", bytes, ..] => {
            return flood::flood(bytes.parse().expect("a number of bytes"));
        }
        ["print-stream", megabytes, ..] => {
            return streams::print(megabytes.parse().expect("megabytes"));
        }
        _ => {}
    }
    let markdown = words.windows(2).find(|pair| pair[0] == "--markdown").map(|pair| pair[1]);
    let is_wanted = |part: &str| {
        let mut named = PARTS.iter().filter(|(name, _)| words.contains(name)).peekable();
        named.peek().is_none() || words.contains(&part)
    };
    let machine = machine::describe();
    eprintln!("{machine}");
    let begun = Instant::now();
    let mut rows = Vec::new();
    let mut report = |row: Row| {
        eprintln!("{}", row.line());
        rows.push(row);
    };
    for (_, measure) in PARTS.iter().filter(|(name, _)| is_wanted(name)) {
        settle();
        measure(&mut report);
    }
    if words.contains(&"--build") {
        report(whole::cold_build());
    }
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let text = format!(
        "{machine} Times are medians. It took {minutes:.1} minutes.\n\n{}",
        row::table(&rows)
    );
    println!("{text}");
    if let Some(file) = markdown {
        write_between_marks(&from_the_root(file), &text);
    }
}

/// Waits until all earlier writes are on disk: a sync during a measurement would wait for them too.
fn settle() {
    // Ignored if the program is missing.
    let _ = Command::new("sync").status();
    thread::sleep(Duration::from_secs(2));
}

/// cargo starts benchmarks in the directory of their crate.
fn from_the_root(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

/// Replaces the text between two marks in a file; a file without marks is replaced completely.
fn write_between_marks(path: &Path, text: &str) {
    const MARKS: [&str; 2] = ["<!-- table -->\n", "<!-- end of the table -->"];
    let old = fs::read_to_string(path).unwrap_or_default();
    let parts = old.split_once(MARKS[0]).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(MARKS[1])?;
        Some((before, after))
    });
    let new = match parts {
        Some((before, after)) => format!("{before}{}{text}{}{after}", MARKS[0], MARKS[1]),
        None => text.to_owned(),
    };
    fs::write(path, new).expect("the table is written");
}
