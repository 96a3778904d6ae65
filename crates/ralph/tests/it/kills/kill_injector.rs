//! A kill: ralph, its warden or both are killed at a moment, by the clock or by an event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ralph_testkit::sealed::{Finished, Running, Sealed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How often to check whether the moment has come.
const LOOK: Duration = Duration::from_micros(150);

/// When to kill.
#[derive(Debug)]
pub(super) enum Moment {
    /// This long after the start.
    After(Duration),
    /// Soon after the journal has a phase for the nth time.
    At { phase: String, nth: usize, then: Duration },
    /// Soon after a path exists in the project.
    Appears { path: &'static str, then: Duration },
    /// When an answer is complete and not recorded yet.
    Answered,
}

/// Which process to kill.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Ralph,
    /// The small process that ends leftovers if ralph dies.
    Warden,
    /// The warden first.
    Both,
}

/// A kill.
#[derive(Debug)]
pub(super) struct KillOrder {
    pub(super) moment: Moment,
    pub(super) target: Target,
}

/// The result. A phase is the last event of the journal.
#[derive(Debug)]
pub(super) enum Struck {
    /// It had already ended.
    Missed(Finished),
    Ralph {
        phase: String,
        open: Option<OpenCall>,
    },
    /// The run continued without its warden.
    Warden {
        end: Finished,
        phase: String,
    },
    Both {
        phase: String,
        open: Option<OpenCall>,
    },
}

/// A call without a recorded reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub(super) iteration: u64,
    pub(super) ask: u64,
    /// Whether the answer was complete, and so must not be requested again.
    pub(super) is_answered: bool,
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed(_) => write!(f, "ended before the kill"),
            Self::Ralph { phase, open } => write!(f, "killed after {phase}, {open:?}"),
            Self::Warden { phase, .. } => write!(f, "lost its warden after {phase}"),
            Self::Both { phase, open } => {
                write!(f, "killed with its warden after {phase}, {open:?}")
            }
        }
    }
}

impl KillOrder {
    /// Starts ralph and kills it.
    pub(super) fn strike(self, sealed: &Sealed, words: &[&str]) -> Struck {
        let before = Journals::of(sealed);
        let running = sealed.start_ralph(words);
        self.moment.wait_for(sealed, before, running.id());
        let warden = match self.target {
            Target::Ralph => None,
            Target::Warden | Target::Both => warden_of(running.id()),
        };
        if let Some(warden) = warden {
            // It may be exiting by itself.
            let _ = kill_process(warden, Signal::KILL);
        }
        if let (Target::Warden, Some(_)) = (self.target, warden) {
            let phase = last_phase(sealed);
            return Struck::Warden { end: running.wait_for_end(), phase };
        }
        let end = kill(running);
        if end.code.is_some() {
            return Struck::Missed(end);
        }
        let (phase, open) = (last_phase(sealed), open_call(sealed));
        match warden {
            Some(_) => Struck::Both { phase, open },
            None => Struck::Ralph { phase, open },
        }
    }
}

/// Kills ralph, if it is still running, and no other process.
fn kill(running: Running) -> Finished {
    running.send_signal(Signal::KILL);
    running.wait_for_end()
}

impl Moment {
    /// Waits for the moment, or for the end of the process. Existing journal entries do not count.
    pub(super) fn wait_for(&self, sealed: &Sealed, mut journals: Journals, pid: u32) {
        let begun = Instant::now();
        while !is_gone(pid) {
            let has_come = match self {
                Self::After(span) => begun.elapsed() >= *span,
                Self::At { phase, nth, .. } => {
                    journals.read_on(sealed)
                        && journals.phases.iter().filter(|it| *it == phase).count() >= *nth
                }
                Self::Appears { path, .. } => sealed.project_dir().join(path).exists(),
                Self::Answered => open_call(sealed).is_some_and(|call| call.is_answered),
            };
            if has_come {
                match self {
                    Self::After(_) | Self::Answered => {}
                    Self::At { then, .. } | Self::Appears { then, .. } => thread::sleep(*then),
                }
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// The content of an environment's journals.
#[derive(Debug, Default)]
pub(super) struct Journals {
    read: BTreeMap<PathBuf, u64>,
    length: u64,
    phases: Vec<String>,
}

impl Journals {
    pub(super) fn of(sealed: &Sealed) -> Self {
        let mut journals = Self::default();
        journals.read_on(sealed);
        journals
    }

    /// Reads new entries; returns whether there were any.
    fn read_on(&mut self, sealed: &Sealed) -> bool {
        let before = self.length;
        for journal in all_runs(sealed).into_iter().map(|run| run.join("journal.jsonl")) {
            let read = self.read.entry(journal.clone()).or_default();
            let is_longer = fs::metadata(&journal).is_ok_and(|it| it.len() > *read);
            let Ok(mut file) = File::open(&journal) else { continue };
            let mut text = String::new();
            if !is_longer
                || file.seek(SeekFrom::Start(*read)).is_err()
                || file.read_to_string(&mut text).is_err()
            {
                continue;
            }
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            *read += whole as u64;
            self.length += whole as u64;
            self.phases.extend(phases_of(&text[..whole]));
        }
        self.length > before
    }
}

/// Returns the directories of all runs, those of workers included.
pub(super) fn all_runs(sealed: &Sealed) -> Vec<PathBuf> {
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let runs = below(&sealed.state_dir()).flat_map(|it| below(&it.path().join("runs")));
    runs.map(|run| run.path()).collect()
}

fn phases_of(journal: &str) -> Vec<String> {
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|recorded| phase(&recorded["event"])).collect()
}

/// Returns the name of the phase that an event begins.
pub(super) fn phase(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or("?");
    let details = [&event["role"], &event["landed"]["did"], &event["reason"]];
    match details.into_iter().find_map(Value::as_str) {
        Some(detail) => format!("{kind}:{detail}"),
        None => kind.to_owned(),
    }
}

/// Returns whether there is a run to resume.
pub(super) fn has_begun(sealed: &Sealed) -> bool {
    !sealed.find_events("run_started").is_empty()
}

fn last_phase(sealed: &Sealed) -> String {
    let phases = sealed.events().iter().map(phase).next_back();
    phases.unwrap_or_else(|| "nothing".to_owned())
}

/// A call or a reply in the journal of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    Asked { iteration: u64, ask: u64 },
    Replied { iteration: u64, ask: u64 },
}

/// Returns all calls and replies of the last run, in order.
pub(super) fn talk(sealed: &Sealed) -> Vec<Talk> {
    find_talk(sealed.events())
}

/// Returns all calls and replies of a run, in order.
pub(super) fn talk_in(run: &Path) -> Vec<Talk> {
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    find_talk(lines.map(|mut recorded| recorded["event"].take()).collect())
}

fn find_talk(events: Vec<Value>) -> Vec<Talk> {
    let (mut iteration, mut found) = (0, Vec::new());
    for event in events {
        let number = |name: &str| event[name].as_u64().unwrap_or(0);
        match event["type"].as_str() {
            Some("iteration_started") => iteration = number("iteration"),
            Some("asked") => found.push(Talk::Asked { iteration, ask: number("ask") }),
            Some("replied") => found.push(Talk::Replied { iteration, ask: number("ask") }),
            Some(_) | None => {}
        }
    }
    found
}

fn open_call(sealed: &Sealed) -> Option<OpenCall> {
    open_call_in(&sealed.runs().pop()?)
}

/// Returns the call of a run without a recorded reply.
pub(super) fn open_call_in(run: &Path) -> Option<OpenCall> {
    let Talk::Asked { iteration, ask } = talk_in(run).pop()? else { return None };
    let name = match ask {
        0 | 1 => format!("agent-{iteration}.ndjson.zst"),
        ask => format!("agent-{iteration}-{ask}.ndjson.zst"),
    };
    let is_answered = has_answer(&run.join(name));
    Some(OpenCall { iteration, ask, is_answered })
}

/// Returns whether a raw stream contains a complete successful answer.
fn has_answer(stream: &Path) -> bool {
    let mut text = Vec::new();
    if let Ok(file) = fs::File::open(stream)
        && let Ok(mut decoder) = zstd::stream::read::Decoder::new(file)
    {
        // A truncated file is read as far as possible.
        let _ = std::io::copy(&mut decoder, &mut text);
    }
    String::from_utf8_lossy(&text)
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .any(|event| event["type"] == "result" && event["status"] == "success")
}

/// Returns the warden of a ralph.
fn warden_of(ralph: u32) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{ralph}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let children: BTreeSet<i32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let is_warden = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"__warden")
    };
    children.into_iter().find(is_warden).filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}
