//! Failed attempts at a task: when they count as stuck, which escalation follows, and the record
//! of them in `.ralph/state.md`.
//!
//! Not here: whether an attempt failed, which `judge` decides.

use std::fmt::Write as _;

use ralph_model::attempt::{Attempt, AttemptLog, Expansion, FailedOutput};
use ralph_model::ids::TaskId;
use ralph_model::stuck::{Escalation, StuckPolicy};
use ralph_model::units::Timestamp;

use crate::checking::gate;
use crate::checking::stuck::is_error_line;

/// Lines of an output that are kept in the record of an attempt.
const MAX_OUTPUT_LINES: usize = 100;

/// How many lines of the first error are kept: the lines after it often say why.
const MAX_ERROR_LINES: usize = 10;

/// Patterns by which compilers, interpreters and shells report that something is missing.
const MISSING_PATTERNS: [&str; 19] = [
    "importerror",
    "modulenotfounderror",
    "nameerror",
    "filenotfounderror",
    "unresolved import",
    "unresolved name",
    "cannot find module",
    "cannot find name",
    "cannot find symbol",
    "cannot find value",
    "cannot find function",
    "cannot find type",
    "failed to resolve",
    "no such file or directory",
    "could not find",
    "is not defined",
    "undefined:",
    "command not found",
    "does not exist",
];

/// Returns whether an error is about something missing: an import, a name, a file.
pub(crate) fn is_about_missing_reference(outputs: &[FailedOutput]) -> bool {
    outputs.iter().any(|output| {
        let text = output.text.to_lowercase();
        MISSING_PATTERNS.iter().any(|pattern| text.contains(pattern))
    })
}

/// Returns what looks like a path of the project in texts, in order of appearance, each once.
pub fn find_named_paths<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let words = texts
        .into_iter()
        .flat_map(|text| text.split(|c: char| c.is_whitespace() || "\"'`()[]{},;=<>".contains(c)));
    for word in words {
        // `src/a.rs:12:3` and `a.py",` and `./b.c:` name files.
        let path = word.trim_start_matches("./").split(':').next().unwrap_or_default();
        let has_extension = path.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && ending.bytes().any(|byte| byte.is_ascii_alphabetic())
        });
        let is_inside = !path.starts_with('/') && !path.contains("..");
        if has_extension && is_inside && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Input for the record of a task's attempts.
#[derive(Debug, Clone, Copy)]
pub struct AttemptRecord<'a> {
    pub task: &'a TaskId,
    /// How many attempts it gets.
    pub limit: u32,
    pub log: &'a AttemptLog,
    pub at: Timestamp,
}

/// Returns the record of a task's attempts for `.ralph/state.md`; nothing if none failed.
pub fn format_record(record: AttemptRecord<'_>) -> Option<String> {
    let AttemptRecord { task, limit, log, at } = record;
    let last = log.recent.last()?;
    let mut text = String::from("---\n");
    // Task names are chosen by the user; JSON strings are valid YAML.
    let quoted = |value: &str| serde_json::Value::from(value).to_string();
    let _ = writeln!(text, "task_id: {}", quote_unless_plain(&task.0, quoted));
    let _ = writeln!(text, "iteration: {}", log.failed);
    let _ = writeln!(text, "max_iterations: {limit}");
    let _ = writeln!(text, "last_gate: {}", quote_unless_plain(&last.gate, quoted));
    let _ = writeln!(text, "exit_code: {}", last.exit_code);
    let _ = writeln!(text, "error_hash: {}", last.hash.0);
    let _ = writeln!(text, "timestamp: {}", at.to_utc());
    let _ = writeln!(text, "stuck_count: {}", log.alike);
    let _ = writeln!(text, "strategy_shifts: {}", log.shifts);
    if last.files.is_empty() {
        text.push_str("files_modified: []\n");
    } else {
        text.push_str("files_modified:\n");
        for file in &last.files {
            let _ = writeln!(text, "  - {}", quote_unless_plain(file, quoted));
        }
    }
    text.push_str("---\n");
    let failing = gate::format_failing(&last.failing);
    if !failing.is_empty() {
        let _ = write!(text, "\n{failing}");
    }
    for output in &log.outputs {
        let fence = build_fence(&output.text);
        let _ = write!(text, "\n## {}\n{fence}\n{}\n{fence}\n", output.title, output.text);
    }
    text.push_str("\n## Attempt History\n| # | Gate | Error Hash | Strategy Shift |\n|---|------|------------|----------------|\n");
    let first = (log.failed as usize + 1).saturating_sub(log.recent.len());
    for (place, attempt) in log.recent.iter().enumerate() {
        let shift = match attempt.escalation {
            Escalation::StrategyShift => "yes",
            Escalation::None | Escalation::ContextExpansion | Escalation::HardStop => "no",
        };
        let gate = attempt.gate.replace('|', "\\|");
        let _ = writeln!(text, "| {} | {gate} | {} | {shift} |", first + place, attempt.hash.0);
    }
    Some(text)
}

/// Returns a value unquoted where YAML reads it as a string, else quoted.
fn quote_unless_plain(word: &str, quoted: impl Fn(&str) -> String) -> String {
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c))
        && !word.ends_with(' ')
        && !["null", "true", "false", "yes", "no", "on", "off"]
            .contains(&word.to_ascii_lowercase().as_str());
    if is_plain { word.to_owned() } else { quoted(word) }
}

/// Returns a Markdown fence that the text does not contain.
pub(crate) fn build_fence(text: &str) -> String {
    let longest = text
        .lines()
        .map(|line| line.trim_start().bytes().take_while(|byte| *byte == b'`').count())
        .max()
        .unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Returns an output for the record: whole, or its beginning, its first error and its
/// end.
pub fn cut_output(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.len() <= MAX_OUTPUT_LINES {
        return lines.join("\n");
    }
    let head = MAX_OUTPUT_LINES / 5;
    let tail = lines.len() - (MAX_OUTPUT_LINES - head);
    let error = lines[..tail].iter().position(|line| is_error_line(line));
    let kept = match error.filter(|at| *at >= head) {
        None => vec![0..head, tail..lines.len()],
        Some(at) => {
            let end = tail.min(at + MAX_ERROR_LINES);
            vec![0..head - (end - at), at..end, tail..lines.len()]
        }
    };
    let mut shown: Vec<String> = Vec::new();
    let mut next = 0;
    for range in kept {
        if range.start > next {
            shown.push(format!("[... {} lines truncated ...]", range.start - next));
        }
        next = range.end;
        shown.extend(lines[range].iter().map(|line| (*line).to_owned()));
    }
    shown.join("\n")
}

/// Returns the escalation after a failed attempt that is not in the log yet.
pub(crate) fn assess_escalation(
    log: &AttemptLog,
    attempt: &Attempt,
    outputs: &[FailedOutput],
    policy: StuckPolicy,
) -> Escalation {
    if log.count_alike(attempt) < policy.after {
        return Escalation::None;
    }
    // The last shift shows the files as well, so that it happens within the default limit of
    // attempts.
    let is_last_shift = log.shifts + 1 >= policy.strategy_shifts;
    match log.expansion {
        Expansion::NotYet if is_last_shift && is_about_missing_reference(outputs) => {
            Escalation::ContextExpansion
        }
        Expansion::NotYet | Expansion::Done if log.shifts < policy.strategy_shifts => {
            Escalation::StrategyShift
        }
        Expansion::NotYet | Expansion::Done => Escalation::HardStop,
    }
}

#[cfg(test)]
mod tests;
