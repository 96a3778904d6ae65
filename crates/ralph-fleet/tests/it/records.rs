//! What the server recorded of a job, with the times of its own clock: a loaded machine delays tests
//! and processes, but not these.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::setting::{FleetPlace, Form};

/// A job as the server describes it.
pub(crate) struct JobRecord {
    /// Its newest attempt, if it has not ended.
    pub(crate) attempt: u64,
    /// When that began.
    pub(crate) begun: Option<Duration>,
    pub(crate) ended: Option<Duration>,
    /// All of it.
    pub(crate) text: String,
}

impl JobRecord {
    pub(crate) fn read(place: &FleetPlace, job: &str) -> Self {
        let id = format!("{}.a1", place.name_worker(job));
        let text = match place.server.form {
            Form::Standalone => run(place, &["activity", "describe", "--activity-id", &id]),
            Form::Workflow => run(place, &["workflow", "describe", "--workflow-id", &id]),
        };
        let record: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let (attempt, whole) = match place.server.form {
            Form::Standalone => (&record["info"], &record["info"]),
            Form::Workflow => (&record["pendingActivities"][0], &record["workflowExecutionInfo"]),
        };
        Self {
            attempt: attempt["attempt"].as_u64().unwrap_or_default(),
            begun: attempt["lastStartedTime"].as_str().map(read_time),
            ended: whole["closeTime"].as_str().map(read_time),
            text,
        }
    }
}

/// Returns the history of a workflow, and after it what is encoded in that.
pub(crate) fn read_history(place: &FleetPlace, job: &str) -> String {
    let id = format!("{}.a1", place.name_worker(job));
    let text = run(place, &["workflow", "show", "--workflow-id", &id]);
    let encoded: Vec<&str> =
        text.split(r#""data": ""#).skip(1).filter_map(|it| it.split('"').next()).collect();
    assert!(!encoded.is_empty(), "{text}");
    let decode = |encoded: &str| {
        let command = format!("echo {encoded} | base64 --decode");
        let output = Command::new("sh").args(["-c", &command]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    encoded.into_iter().map(decode).fold(text.clone(), |all, it| all + &it)
}

fn run(place: &FleetPlace, args: &[&str]) -> String {
    let program = std::env::var_os("RALPH_TEST_TEMPORAL").expect("the server");
    let address = place.server.address();
    let mut command = place.build_command(program);
    let output = command.args(args).args(["--output", "json", "--address", &address]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Reads a time such as `2026-11-19T10:15:22.123456789Z`; returns the time since 1970.
fn read_time(text: &str) -> Duration {
    let output = Command::new("date").args(["--date", text, "+%s.%N"]).output().expect("it runs");
    let seconds = String::from_utf8_lossy(&output.stdout).trim().parse();
    Duration::from_secs_f64(seconds.unwrap_or_else(|_| panic!("{text} is no time")))
}
