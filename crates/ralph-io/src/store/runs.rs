//! The runs of a project, for `status` and `resume --list`.
//!
//! Reads only the beginning and the end of each journal. Not here: the whole state of a run; fold
//! its journal for that.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use ralph_model::event::Event;
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::outcome::Outcome;
use ralph_model::units::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::layout::RunDir;

/// Usually enough for the last iteration's events; otherwise more is read.
const TAIL_BYTES: u64 = 64 * 1024;

/// A summary of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    pub id: RunId,
    /// When it began; none if its journal cannot be read.
    pub started: Option<Timestamp>,
    /// How it ended; none if it is running or was interrupted.
    pub outcome: Option<Outcome>,
    /// How many iterations were started.
    pub iterations: u32,
    /// Whether workers got jobs.
    pub has_jobs: bool,
}

impl RunSummary {
    fn new(id: RunId, started: Option<Timestamp>) -> Self {
        Self { id, started, outcome: None, iterations: 0, has_jobs: false }
    }

    /// Returns whether the run ended because there was nothing to do.
    pub fn is_empty(&self) -> bool {
        let is_list_done = matches!(
            self.outcome,
            Some(Outcome::Complete | Outcome::TasksLeft { .. } | Outcome::ApprovedAtCap { .. })
        );
        is_list_done && self.iterations == 0 && !self.has_jobs
    }
}

/// Returns the runs in a state directory, newest first.
pub fn list_runs(state: &Path) -> Vec<RunSummary> {
    list_newest_first(state).collect()
}

/// Returns the newest run whose journal can be read. Reads no older ones.
pub fn find_last_run(state: &Path) -> Option<RunSummary> {
    list_newest_first(state).find(|run| run.started.is_some())
}

/// Returns the run that people want to see: the newest one that did something or is running, or
/// else the newest one. Skips runs whose journal cannot be read.
pub fn find_run_to_show(state: &Path) -> Option<RunSummary> {
    let mut runs = list_newest_first(state).filter(|run| run.started.is_some());
    let newest = runs.next()?;
    if newest.is_empty() {
        return runs.find(|run| !run.is_empty()).or(Some(newest));
    }
    Some(newest)
}

/// Summarizes runs one second after the other, newest first. Ids have a resolution of a second;
/// the runs of one second are ordered by their first event.
pub fn list_newest_first(state: &Path) -> impl Iterator<Item = RunSummary> {
    let mut ids: BTreeMap<Option<String>, Vec<(RunId, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(state.join("runs")).into_iter().flatten().flatten() {
        if let Ok(id) = entry.file_name().into_string() {
            let second = id.get(..15).map(str::to_owned);
            ids.entry(second).or_default().push((RunId(id), entry.path()));
        }
    }
    ids.into_values().rev().flat_map(|ids| {
        let opened = ids.into_iter().map(|(id, path)| {
            let journal = RunDir::from_path(path).journal_path();
            (open_journal(&journal).ok(), id)
        });
        let mut opened: Vec<(Option<(Timestamp, File)>, RunId)> = opened.collect();
        let started = |(it, _): &(Option<(Timestamp, File)>, RunId)| it.as_ref().map(|it| it.0);
        opened.sort_by(|one, other| (started(other), &other.1).cmp(&(started(one), &one.1)));
        opened.into_iter().map(|(opened, id)| {
            let unreadable = RunSummary::new(id.clone(), None);
            let summary = opened.map(|(at, file)| summarize_run(id, at, file));
            summary.and_then(Result::ok).unwrap_or(unreadable)
        })
    })
}

/// A line of which only the time and the event are parsed.
#[derive(Deserialize)]
struct JournalLineView<'a> {
    at: Timestamp,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[derive(Deserialize)]
struct EventTypeView<'a> {
    #[serde(borrow, rename = "type")]
    name: std::borrow::Cow<'a, str>,
}

/// Opens a journal. Returns also when its run began.
fn open_journal(journal: &Path) -> io::Result<(Timestamp, File)> {
    let mut file = BufReader::new(File::open(journal)?);
    let mut first = Vec::new();
    file.read_until(b'\n', &mut first)?;
    let glance: JournalLineView<'_> = serde_json::from_slice(&first)?;
    Ok((glance.at, file.into_inner()))
}

fn summarize_run(id: RunId, started: Timestamp, mut file: File) -> io::Result<RunSummary> {
    let mut summary = RunSummary::new(id, Some(started));
    let length = file.metadata()?.len();
    let mut tail = TAIL_BYTES;
    loop {
        let from = length.saturating_sub(tail);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.by_ref().take(tail).read_to_end(&mut bytes)?;
        if let Some(last) = find_last_events(&bytes) {
            summary.outcome = last.outcome;
            summary.has_jobs = last.has_jobs;
            if let Some(IterationNumber(iterations)) = last.iteration {
                summary.iterations = iterations;
                return Ok(summary);
            }
        }
        if from == 0 {
            return Ok(summary);
        }
        tail = tail.saturating_mul(8);
    }
}

#[derive(Default)]
struct LastEvents {
    outcome: Option<Outcome>,
    iteration: Option<IterationNumber>,
    has_jobs: bool,
}

/// Finds the last iteration, and the end of the run if nothing came after it. A first line that is
/// cut by the tail does not parse and is skipped.
fn find_last_events(bytes: &[u8]) -> Option<LastEvents> {
    let mut last: Option<LastEvents> = None;
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(glance) = serde_json::from_slice::<JournalLineView<'_>>(line) else {
            continue;
        };
        let text = glance.event.get();
        let Ok(kind) = serde_json::from_str::<EventTypeView<'_>>(text) else {
            continue;
        };
        let last = last.get_or_insert_default();
        match kind.name.as_ref() {
            "iteration_started" | "iteration_ended" | "run_ended" => {
                match serde_json::from_str::<Event>(text) {
                    Ok(
                        Event::IterationStarted { iteration, .. }
                        | Event::IterationEnded { iteration },
                    ) => last.iteration = Some(iteration),
                    Ok(Event::RunEnded { outcome, .. }) => last.outcome = Some(outcome),
                    Ok(_) | Err(_) => {}
                }
            }
            "run_resumed" => last.outcome = None,
            "job_assigned" => last.has_jobs = true,
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{"seq":1,"at":5,"ran":0,"event":{"type":"run_started","journal":1}}"#;

    fn event(body: &str) -> String {
        format!(r#"{{"seq":9,"at":9,"ran":9,"event":{body}}}"#)
    }

    #[track_caller]
    fn check(lines: &[String], expect: &(Option<i64>, Option<Outcome>, u32)) {
        let directory = tempfile::tempdir().expect("a directory");
        let run = directory.path().join("runs/20260101-000000-aaaa");
        fs::create_dir_all(&run).expect("made");
        fs::write(run.join("journal.jsonl"), lines.join("\n")).expect("written");
        let found = list_runs(directory.path());
        let found = &found[0];
        assert_eq!(
            &(found.started.map(|at| at.0), found.outcome.clone(), found.iterations),
            expect
        );
    }

    #[test]
    fn a_run_is_known_from_both_ends_of_its_journal() {
        let first = FIRST.to_owned();
        let started =
            event(r#"{"type":"iteration_started","iteration":3,"role":"prompt","task":null}"#);
        let ended = event(r#"{"type":"run_ended","outcome":{"end":"complete"}}"#);
        let resumed = event(r#"{"type":"run_resumed","version":"1","recipe":null}"#);
        let long = event(&format!(r#"{{"type":"warned","text":"{}"}}"#, "x".repeat(300_000)));
        check(std::slice::from_ref(&first), &(Some(5), None, 0));
        check(&[first.clone(), started.clone(), "{\"torn".into()], &(Some(5), None, 3));
        let complete = Some(Outcome::Complete);
        check(&[first.clone(), started.clone(), ended.clone()], &(Some(5), complete.clone(), 3));
        check(&[first.clone(), started.clone(), ended.clone(), resumed], &(Some(5), None, 3));
        check(&[first, started, long, ended], &(Some(5), complete, 3));
        check(&["garbage".into()], &(None, None, 0));
    }

    #[test]
    fn a_run_with_nothing_to_do_is_not_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |id: &str, lines: &[String]| {
            let run = directory.path().join("runs").join(id);
            fs::create_dir_all(&run).expect("made");
            fs::write(run.join("journal.jsonl"), lines.join("\n")).expect("written");
            find_run_to_show(directory.path()).expect("a run").id.0
        };
        let started =
            event(r#"{"type":"iteration_started","iteration":1,"role":"prompt","task":null}"#);
        let ended = event(r#"{"type":"run_ended","outcome":{"end":"complete"}}"#);
        let left =
            r#"{"type":"run_ended","outcome":{"end":"tasks_left","failed":[],"waiting":[]}}"#;
        let first = FIRST.to_owned();
        let empty = [first.clone(), ended.clone()];
        assert_eq!(write("20260101-000000-aaaa", &empty), "20260101-000000-aaaa");
        let work = [first.clone(), started, ended];
        assert_eq!(write("20260102-000000-bbbb", &work), "20260102-000000-bbbb");
        assert_eq!(write("20260103-000000-cccc", &empty), "20260102-000000-bbbb");
        let nothing = [first.clone(), event(left)];
        assert_eq!(write("20260104-000000-dddd", &nothing), "20260102-000000-bbbb");
        let job = event(r#"{"type":"job_assigned"}"#);
        let jobs = [first.clone(), job, event(left)];
        assert_eq!(write("20260105-000000-eeee", &jobs), "20260105-000000-eeee");
        assert_eq!(write("20260106-000000-ffff", &[first]), "20260106-000000-ffff");
    }

    #[test]
    fn two_runs_of_one_second_are_ordered_by_their_first_event() {
        let directory = tempfile::tempdir().expect("a directory");
        for (id, at) in [("20260101-000000-zzzz", 5), ("20260101-000000-aaaa", 9)] {
            let run = directory.path().join("runs").join(id);
            fs::create_dir_all(&run).expect("made");
            let first = FIRST.replace("\"at\":5", &format!("\"at\":{at}"));
            fs::write(run.join("journal.jsonl"), first + "\n").expect("written");
        }
        assert_eq!(list_runs(directory.path())[0].id.0, "20260101-000000-aaaa");
    }

    #[test]
    fn the_newest_run_comes_first() {
        let directory = tempfile::tempdir().expect("a directory");
        for id in ["20260101-000000-aaaa", "20270101-000000-aaaa"] {
            fs::create_dir_all(directory.path().join("runs").join(id)).expect("made");
        }
        let found: Vec<String> =
            list_runs(directory.path()).into_iter().map(|run| run.id.0).collect();
        assert_eq!(found, ["20270101-000000-aaaa", "20260101-000000-aaaa"]);
        assert_eq!(find_last_run(directory.path()), None);
        let older = directory.path().join("runs/20260101-000000-aaaa/journal.jsonl");
        fs::write(older, FIRST.to_owned() + "\n").expect("written");
        let last = find_last_run(directory.path()).expect("a run that can be read");
        assert_eq!(last.id.0, "20260101-000000-aaaa");
        assert_eq!(list_runs(&directory.path().join("nowhere")), []);
    }
}
