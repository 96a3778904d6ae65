//! Runs `supervise` on a description from the command line, for tests from outside.
//!
//! Signals, orphans and cleanup affect a whole process, so each test needs one of its own. Not
//! here: the tests themselves (`tests/it/process.rs`).

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, thread};

use ralph_io::process::{
    Chunk, Companion, OutputActivity, OutputLine, OutputLines, ProcessLimits, Spawn, StdinSource,
    Warden, Watch, supervise, warden,
};
use ralph_model::child::{ChildEnd, NotStarted};
use serde::{Deserialize, Serialize};

/// What to run. Times are in milliseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SuperviseRequest {
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
    second: Option<Box<SuperviseRequest>>,
    /// A file that is written when the second request is over.
    #[serde(rename = "beside_over")]
    second_over: Option<PathBuf>,
    /// Seconds for a `sleep` that runs as a companion.
    companion: Option<String>,
}

/// The result.
#[derive(Debug, Serialize)]
struct SuperviseReport {
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
        [word, run_id] if word == "__warden" => Ok(warden::run_warden(run_id)),
        [request] => {
            let report = run_request(serde_json::from_str(request)?)?;
            writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: supervise REQUEST".into()),
    }
}

fn run_request(mut request: SuperviseRequest) -> Result<SuperviseReport, Box<dyn Error>> {
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
    let companion = request.companion.as_ref().map(|seconds| start_companion(&request, seconds));
    let second = request.second.take().map(|second| start_second(*second, &watch));
    let over = request.second_over.take();
    let spawn = build_spawn(request)?;
    let mut splitter = OutputLines::default();
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
                let mut activity = OutputActivity::Noise;
                splitter.push_bytes(bytes, |line| {
                    activity = classify_line(&line, activity, &mut lines);
                });
                activity
            }
            Chunk::Stderr(bytes) => {
                stderr_bytes += bytes.len() as u64;
                OutputActivity::Noise
            }
        }));
    }
    let took = start.elapsed();
    splitter.finish(|line| {
        classify_line(&line, OutputActivity::Noise, &mut lines);
    });
    second.join().map_err(|_| "the second request panicked")?.transpose()?;
    drop(companion.transpose().map_err(|reason| reason.to_string())?);
    if let Some(warden) = warden {
        warden.release();
    }
    Ok(SuperviseReport {
        end: end.ok_or("`times` is zero")?,
        stdout_bytes,
        stderr_bytes,
        lines,
        peak_rss_kib: read_peak_rss()?,
        took_ms: took.as_millis(),
        children_left: count_children()?,
    })
}

fn start_second(
    request: SuperviseRequest,
    watch: &Watch,
) -> thread::JoinHandle<io::Result<ChildEnd>> {
    let watch = watch.clone();
    thread::spawn(move || {
        Ok(supervise(&build_spawn(request)?, &watch, &mut |_| OutputActivity::Noise))
    })
}

fn start_companion(request: &SuperviseRequest, seconds: &str) -> Result<Companion, NotStarted> {
    Companion::start(&Spawn {
        program: "sleep".into(),
        args: vec![seconds.into()],
        cwd: "/".into(),
        env: request.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    })
}

/// Keeps a line; its text decides what it means for the limits.
fn classify_line(
    line: &OutputLine<'_>,
    before: OutputActivity,
    kept: &mut Vec<String>,
) -> OutputActivity {
    let text = match line {
        OutputLine::Whole(text) => text.to_string(),
        OutputLine::TooLong { bytes, .. } => format!("too long: {bytes}"),
    };
    let activity = match text.as_str() {
        "final" => OutputActivity::Final,
        "useful" => OutputActivity::Useful,
        _ => before,
    };
    if kept.len() < 100 {
        kept.push(text);
    }
    activity
}

fn build_spawn(request: SuperviseRequest) -> io::Result<Spawn> {
    let span = |millis: Option<u64>| millis.map(Duration::from_millis);
    let default = ProcessLimits::default();
    Ok(Spawn {
        program: request.program.into(),
        args: request.args.into_iter().map(Into::into).collect(),
        cwd: match request.cwd {
            Some(cwd) => cwd,
            None => std::env::current_dir()?,
        },
        env: request.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        stdin: match request.stdin_bytes {
            Some(bytes) => StdinSource::Bytes(vec![b'x'; bytes]),
            None => StdinSource::Null,
        },
        limits: ProcessLimits {
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

fn count_children() -> io::Result<usize> {
    let mut count = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        count += list.split_whitespace().count();
    }
    Ok(count)
}

fn read_peak_rss() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}
