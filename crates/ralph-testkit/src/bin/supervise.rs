//! Runs `supervise` on a description from the command line, for tests from outside.
//!
//! Signals, orphans and cleanup affect a whole process, so each test needs one of its own. Not
//! here: the tests themselves (`tests/it/process.rs`).

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ralph_core::child::{ChildEnd, NotStarted};
use ralph_io::process::{
    Chunk, Companion, Heard, Limits, Line, Lines, Spawn, Stdin, Warden, Watch, supervise, warden,
};
use serde::{Deserialize, Serialize};

/// What to run. Times are in milliseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Request {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    stdin_bytes: Option<usize>,
    soft: Option<u64>,
    hard: Option<u64>,
    idle: Option<u64>,
    grace: Option<u64>,
    drain: Option<u64>,
    linger: Option<u64>,
    /// The run id for which to start a warden.
    warden: Option<String>,
    /// A file that gets one line per stage.
    stages: Option<PathBuf>,
    /// How often to run it; the last end is reported.
    times: Option<u32>,
    /// A second request, run at the same time.
    #[serde(rename = "beside")]
    beside: Option<Box<Request>>,
    /// A file that is written when the second request is over.
    #[serde(rename = "beside_over")]
    beside_over: Option<PathBuf>,
    /// Seconds for a `sleep` that runs as a companion.
    companion: Option<String>,
}

/// The result.
#[derive(Debug, Serialize)]
struct Report {
    end: ChildEnd,
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// The first hundred lines of standard output.
    lines: Vec<String>,
    peak_rss_kib: u64,
    took_ms: u128,
    /// Children that this process still has, dead or alive.
    children_left: usize,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [word, run_id] if word == "__warden" => Ok(warden::main(run_id)),
        [request] => {
            let report = run(serde_json::from_str(request)?)?;
            writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: supervise REQUEST".into()),
    }
}

fn run(mut request: Request) -> Result<Report, Box<dyn Error>> {
    let stages = request.stages.clone();
    let watch = Watch::install(move |stage| {
        if let Some(file) = &stages {
            let mut log = fs::read_to_string(file).unwrap_or_default();
            log = format!("{log}{stage:?}\n");
            // The test notices a missing line; there is no other way to report it.
            let _ = fs::write(file, log);
        }
    })?;
    let own = std::env::current_exe()?;
    let warden = match &request.warden {
        Some(run_id) => Some(Warden::start(&own, &["__warden"], run_id)?),
        None => None,
    };
    let times = request.times.unwrap_or(1);
    let companion = request.companion.as_ref().map(|seconds| companion(&request, seconds));
    let second = request.beside.take().map(|second| start_beside(*second, &watch));
    let over = request.beside_over.take();
    let spawn = spawn(request)?;
    let mut splitter = Lines::default();
    let (mut stdout_bytes, mut stderr_bytes) = (0, 0);
    let mut lines = Vec::new();
    let mut end = None;
    let start = Instant::now();
    let second = thread::spawn(move || {
        let end = second.map(thread::JoinHandle::join);
        end.zip(over).map(|(_, file)| fs::write(file, ""))
    });
    for _ in 0..times {
        end = Some(supervise(&spawn, &watch, &mut |chunk| match chunk {
            Chunk::Stdout(bytes) => {
                stdout_bytes += bytes.len() as u64;
                let mut activity = Heard::Noise;
                splitter.feed(bytes, |line| activity = judge(&line, activity, &mut lines));
                activity
            }
            Chunk::Stderr(bytes) => {
                stderr_bytes += bytes.len() as u64;
                Heard::Noise
            }
        }));
    }
    let took = start.elapsed();
    splitter.finish(|line| {
        judge(&line, Heard::Noise, &mut lines);
    });
    second.join().map_err(|_| "the second request panicked")?.transpose()?;
    drop(companion.transpose().map_err(|reason| reason.to_string())?);
    if let Some(warden) = warden {
        warden.release();
    }
    Ok(Report {
        end: end.ok_or("`times` is zero")?,
        stdout_bytes,
        stderr_bytes,
        lines,
        peak_rss_kib: peak_rss_kib()?,
        took_ms: took.as_millis(),
        children_left: children_left()?,
    })
}

fn start_beside(request: Request, watch: &Watch) -> thread::JoinHandle<io::Result<ChildEnd>> {
    let watch = watch.clone();
    thread::spawn(move || Ok(supervise(&spawn(request)?, &watch, &mut |_| Heard::Noise)))
}

fn companion(request: &Request, seconds: &str) -> Result<Companion, NotStarted> {
    Companion::start(&Spawn {
        program: "sleep".into(),
        args: vec![seconds.into()],
        cwd: "/".into(),
        env: request.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        stdin: Stdin::Null,
        limits: Limits::default(),
    })
}

/// Keeps a line; its text decides what it means for the limits.
fn judge(line: &Line<'_>, before: Heard, kept: &mut Vec<String>) -> Heard {
    let text = match line {
        Line::Whole(text) => text.to_string(),
        Line::TooLong { bytes, .. } => format!("too long: {bytes}"),
    };
    let activity = match text.as_str() {
        "final" => Heard::Final,
        "useful" => Heard::Useful,
        _ => before,
    };
    if kept.len() < 100 {
        kept.push(text);
    }
    activity
}

fn spawn(request: Request) -> io::Result<Spawn> {
    let span = |millis: Option<u64>| millis.map(Duration::from_millis);
    let default = Limits::default();
    Ok(Spawn {
        program: request.program.into(),
        args: request.args.into_iter().map(Into::into).collect(),
        cwd: match request.cwd {
            Some(cwd) => cwd,
            None => std::env::current_dir()?,
        },
        env: request.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        stdin: match request.stdin_bytes {
            Some(bytes) => Stdin::Bytes(vec![b'x'; bytes]),
            None => Stdin::Null,
        },
        limits: Limits {
            soft: span(request.soft),
            hard: span(request.hard),
            idle: span(request.idle),
            grace: span(request.grace).unwrap_or(default.grace),
            drain: span(request.drain).unwrap_or(default.drain),
            linger: span(request.linger),
            output: None,
            space: None,
        },
    })
}

fn children_left() -> io::Result<usize> {
    let mut count = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        count += list.split_whitespace().count();
    }
    Ok(count)
}

fn peak_rss_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}
