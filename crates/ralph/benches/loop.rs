//! What ralph itself costs: start-up, the gap between two iterations, memory under a flood.
//!
//! Every figure stands beside a baseline measured in the same run, because absolute times say
//! more about the machine than about ralph. `cargo bench` prints them all; nothing is asserted.
//! The agent is this very program, started again, so that nothing but ralph is measured.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use ralph_testkit::sealed::Sealed;
use serde_json::json;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("agent") => return agent(Path::new(&words[2])),
        Some("flood") => return flood(words[2].parse().expect("a number of bytes")),
        Some(_) | None => {}
    }
    start_up();
    gap(Landing::Nothing, 60);
    gap(Landing::Commit, 60);
    long_history();
    memory();
}

/// An agent that notes when it began and ended, and changes a file in between.
fn agent(times: &Path) {
    let begun = now();
    fs::write("work.txt", begun.to_string()).expect("written");
    println!("working");
    let mut file = fs::OpenOptions::new().create(true).append(true).open(times).expect("opened");
    writeln!(file, "{begun} {}", now()).expect("written");
}

/// An agent that prints lines of text without end, or nearly so.
fn flood(bytes: usize) {
    let line = format!("{}\n", "all work and no play makes a dull line of output ".repeat(4));
    let mut out = std::io::stdout().lock();
    let mut left = bytes;
    while left > 0 {
        if out.write_all(line.as_bytes()).is_err() {
            return;
        }
        left = left.saturating_sub(line.len());
    }
    let _ = out.write_all(b"<response>DONE</response>\n");
}

fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch").as_nanos()
}

fn start_up() {
    let mut ralph = Vec::new();
    let mut nothing = Vec::new();
    for _ in 0..200 {
        nothing.push(timed(Command::new("/bin/true").stdout(Stdio::null())));
        ralph.push(timed(Command::new(RALPH).arg("--version").stdout(Stdio::null())));
    }
    let (ralph, nothing) = (median(ralph), median(nothing));
    println!(
        "start-up: `ralph --version` {ralph:.2?}, `/bin/true` {nothing:.2?}, ratio {:.2}",
        ratio(ralph, nothing)
    );
}

fn timed(command: &mut Command) -> Duration {
    let begun = Instant::now();
    assert!(command.status().expect("it starts").success());
    begun.elapsed()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landing {
    Nothing,
    Commit,
}

/// The time from one agent's end to the next one's start, against the git commands that the
/// same work needs when they are run by hand.
fn gap(landing: Landing, iterations: u32) {
    let sealed = Sealed::with_repository(RALPH);
    let gaps = gaps(&sealed, landing, iterations);
    let ours = median(gaps);
    let mut bare = Vec::new();
    for count in 0..iterations {
        sealed.write("work.txt", &format!("by hand {count}"));
        let begun = Instant::now();
        match landing {
            Landing::Nothing => {
                sealed.git(&["rev-parse", "HEAD"]);
            }
            Landing::Commit => {
                sealed.git(&["rev-parse", "HEAD"]);
                sealed.git(&["add", "-A"]);
                sealed.git(&["write-tree"]);
                sealed.git(&["diff-index", "--cached", "HEAD"]);
                sealed.git(&["commit", "-qm", "by hand"]);
            }
        }
        // Any loop has to start its agent as well.
        timed(Command::new("/bin/true").stdout(Stdio::null()));
        bare.push(begun.elapsed());
    }
    let bare = median(bare);
    let what = match landing {
        Landing::Nothing => "gap, nothing committed",
        Landing::Commit => "gap, each iteration committed",
    };
    println!(
        "{what}: ralph {ours:.2?}, bare git and a start {bare:.2?}, ratio {:.2}",
        ratio(ours, bare)
    );
}

/// Whether an iteration costs the same after a long history.
fn long_history() {
    let sealed = Sealed::with_repository(RALPH);
    let gaps = gaps(&sealed, Landing::Nothing, 10_000);
    let early = median(gaps[..1_000].to_vec());
    let late = median(gaps[gaps.len() - 1_000..].to_vec());
    println!(
        "gap, last 1 000 of 10 000 iterations: {late:.2?}, first 1 000: {early:.2?}, ratio {:.2}",
        ratio(late, early)
    );
}

fn gaps(sealed: &Sealed, landing: Landing, iterations: u32) -> Vec<Duration> {
    let times = sealed.root().join("times");
    let settings = json!({
        "agent": { "command": own(), "kind": "text", "flags": ["agent", times] },
        "maximumIterations": iterations,
        "preventSleep": false,
        "commit": match landing { Landing::Nothing => "none", Landing::Commit => "ralph" },
    });
    sealed.write(".ralph/settings.json", &settings.to_string());
    sealed.write(".gitignore", "/.ralph/\n");
    sealed.git(&["add", "-A"]);
    sealed.git(&["commit", "-qm", "settings"]);
    let mut command = sealed.command(RALPH);
    command.args(["run", "--quiet", "-p", "work"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it runs");
    let text = fs::read_to_string(&times).expect("the agent noted its times");
    let moments: Vec<(u128, u128)> = text
        .lines()
        .filter_map(|line| {
            let (begun, ended) = line.split_once(' ')?;
            Some((begun.parse().ok()?, ended.parse().ok()?))
        })
        .collect();
    assert_eq!(moments.len(), iterations as usize);
    moments
        .windows(2)
        .map(|pair| Duration::from_nanos(u64::try_from(pair[1].0 - pair[0].1).unwrap_or(0)))
        .collect()
}

/// The most memory that ralph holds while an agent prints a gibibyte.
fn memory() {
    for bytes in [16_usize << 20, 1 << 30] {
        let sealed = Sealed::new(RALPH);
        let settings = json!({
            "agent": { "command": own(), "kind": "text", "flags": ["flood", bytes.to_string()] },
            "preventSleep": false,
        });
        sealed.write(".ralph/settings.json", &settings.to_string());
        let mut command = sealed.command(RALPH);
        command.args(["run", "-m", "1", "-p", "work"]).stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("it starts");
        let mut peak = 0;
        while child.try_wait().expect("it can be waited for").is_none() {
            peak = peak.max(peak_memory(child.id()).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(2));
        }
        let mebibytes = bytes >> 20;
        println!(
            "memory: {:.1} MiB at most while the agent prints {mebibytes} MiB (in {:.1?})",
            f64::from(u32::try_from(peak).unwrap_or(u32::MAX)) / 1024.0,
            begun.elapsed()
        );
    }
}

/// Returns the peak resident memory of a process in KiB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn own() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
