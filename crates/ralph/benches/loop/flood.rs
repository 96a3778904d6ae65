//! An agent that prints without end, or nearly so, and what ralph holds of it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use ralph_testkit::measure::{measure_time, wait_with_peak_memory};
use ralph_testkit::sealed::Sealed;
use serde_json::json;

use crate::RALPH;

/// Prints lines of text.
pub(crate) fn flood(bytes: usize) {
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

/// Returns the most memory in KiB that ralph holds while an agent prints this much, and how long
/// that takes.
pub(crate) fn peak_while_flooded(bytes: usize) -> (u64, Duration) {
    let sealed = Sealed::new(RALPH);
    let own = std::env::current_exe().expect("this program");
    let settings = json!({
        "agent": { "command": own, "kind": "text", "flags": ["print-flood", bytes.to_string()] },
        "preventSleep": false,
    });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed.trust_project(&[]);
    let mut command = sealed.build_command(RALPH);
    command.args(["run", "-m", "1", "-p", "work"]).stdout(Stdio::null()).stderr(Stdio::null());
    let (took, (_, peak)) = measure_time(|| {
        wait_with_peak_memory(command.spawn().expect("it starts"), Duration::from_millis(2))
    });
    (peak, took)
}
