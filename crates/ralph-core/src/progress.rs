//! The progress log beside a task file: patterns that are kept up on top, and below them an
//! entry for each iteration that landed.
//!
//! Text in, text out: what people and agents wrote stays as it is. Not here: the file.

use crate::gate::{GateResult, GateStatus, Severity};
use crate::handoff::{FileAction, FileTouched, Handoff};
use crate::ids::{IterationNumber, RunId};
use crate::judge::Verdict;
use crate::review::ReviewResult;
use crate::run::Iteration;
use crate::task::Task;
use crate::text;

/// The heading of the patterns.
const PATTERNS: &str = "## codebase patterns";

/// The end of a pattern that ralph noted. Without it a pattern is a person's.
const OWN: &str = "<!-- ralph -->";

/// More patterns than these of its own ralph does not keep; the oldest go first.
const MOST_PATTERNS: usize = 40;

/// A pattern is a sentence, not an essay.
const PATTERN_CHARS: usize = 300;

/// The same for what an entry says.
const LINE_CHARS: usize = 500;

/// A review may have more to say.
const FEEDBACK_LINES: usize = 40;

/// How many entries of one kind, or files, are named.
const MOST_NAMED: usize = 20;

/// Returns the patterns as a prompt shows them; nothing where there are none.
pub fn patterns(log: &str) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    match patterns_section(&lines) {
        Some((start, end)) => text::without_comments(&lines[start..end].concat()),
        None => String::new(),
    }
}

/// Returns the log with what an iteration found out as patterns, where it is not among them yet.
/// A log without that section gets none.
pub(crate) fn with_patterns(log: &str, handoff: &Handoff) -> String {
    let mut lines: Vec<&str> = log.split_inclusive('\n').collect();
    let Some((start, end)) = patterns_section(&lines) else { return log.to_owned() };
    let known: Vec<String> = lines[start..end].iter().map(|line| folded(line)).collect();
    let mut new: Vec<String> = Vec::new();
    for found in &handoff.constraints_discovered {
        let way = found.workaround.as_ref().unwrap_or(&found.impact);
        let bullet = format!("- {}", safe(&format!("{}: {way}", found.constraint), PATTERN_CHARS));
        let is_new = |it: &String| folded(it) != folded(&bullet);
        if new.len() < MOST_PATTERNS && new.iter().all(is_new) && known.iter().all(is_new) {
            new.push(bullet);
        }
    }
    if new.is_empty() {
        return log.to_owned();
    }
    let last = lines[start..end].iter().rposition(|line| !line.trim().is_empty());
    let mut place = last.map_or(start, |at| start + at + 1);
    let own: Vec<usize> = (start..end).filter(|at| lines[*at].trim_end().ends_with(OWN)).collect();
    let surplus = (own.len() + new.len()).saturating_sub(MOST_PATTERNS);
    for at in own.into_iter().take(surplus).rev() {
        lines.remove(at);
        place -= 1;
    }
    let (before, after) = lines.split_at(place);
    let mut log = begun_on_a_new_line(&before.concat());
    for bullet in new {
        log.push_str(&format!("{bullet} {OWN}\n"));
    }
    log.push_str(&after.concat());
    log
}

/// Returns the entry of an iteration that landed; nothing if there is nothing to tell of it.
pub fn entry(run: &RunId, task: &Task, current: &Iteration) -> Option<String> {
    let judgement = current.judgement.as_ref()?;
    let mut lines = Vec::new();
    let mut add = |what: &str, said: &str| {
        if !said.trim().is_empty() {
            lines.push(format!("- {what}: {}", safe(said, LINE_CHARS)));
        }
    };
    match (&judgement.verdict, &judgement.handoff) {
        (Verdict::Reviewed { verdict, feedback }, _) => {
            add("Verdict", ReviewResult::new(*verdict, feedback).name());
            quote(&mut lines, feedback);
        }
        (_, Some(handoff)) => {
            add("Summary", &handoff.task_completed.summary);
            add("Files", &files(&handoff.files_touched));
            add("Gates", &gates(&current.gates));
            account(handoff, add);
        }
        (_, None) => return None,
    }
    let utc = current.started.utc();
    let (date, time) = utc.split_once('T')?;
    let (title, role) = (safe(&task.title, LINE_CHARS), current.role);
    Some(format!(
        "## {date} {} — {} {title} ({role})\n{}\n{}\n",
        time.get(..5).unwrap_or(time),
        safe(&task.id.0, LINE_CHARS),
        mark(run, current.number),
        lines.join("\n")
    ))
}

/// Returns the log with an entry at its end, unless the entry of this iteration is there. A
/// last line that was cut off is ended first.
pub(crate) fn with_entry(
    log: &str,
    run: &RunId,
    iteration: IterationNumber,
    entry: &str,
) -> String {
    let mark = mark(run, iteration);
    if log.lines().any(|line| line.trim_end() == mark) {
        return log.to_owned();
    }
    let log = begun_on_a_new_line(log);
    let gap = if log.is_empty() || log.ends_with("\n\n") { "" } else { "\n" };
    format!("{log}{gap}{entry}")
}

/// Returns the log without an entry that stands at its end: the landing it tells of was refused.
pub(crate) fn without_entry(log: &str, entry: &str) -> String {
    log.strip_suffix(entry).unwrap_or(log).to_owned()
}

/// Returns the line by which the entry of an iteration is known again.
fn mark(run: &RunId, iteration: IterationNumber) -> String {
    format!("<!-- ralph {run}/{iteration} -->")
}

/// Returns where the lines below the heading of the patterns begin and end.
fn patterns_section(lines: &[&str]) -> Option<(usize, usize)> {
    let is_heading = |line: &&str| line.trim().to_lowercase() == PATTERNS;
    let start = lines.iter().position(is_heading)? + 1;
    let is_rule = |line: &str| {
        let line = line.trim();
        line.len() >= 3 && ['-', '*', '_'].iter().any(|sign| line.chars().all(|it| it == *sign))
    };
    let ends = |line: &&str| line.starts_with("# ") || line.starts_with("## ") || is_rule(line);
    let length = lines[start..].iter().position(ends);
    Some((start, length.map_or(lines.len(), |length| start + length)))
}

/// Returns a bullet as it is compared with others.
fn folded(line: &str) -> String {
    let line = line.trim().trim_end_matches(OWN).trim();
    line.trim_start_matches(['-', '*', ' ']).trim_end_matches('.').to_lowercase()
}

/// Returns words of an agent on one line that begins and ends no comment.
fn safe(words: &str, limit: usize) -> String {
    text::one_line(words, limit).replace("<!--", "<!-").replace("-->", "->")
}

fn begun_on_a_new_line(log: &str) -> String {
    let end = if log.is_empty() || log.ends_with('\n') { "" } else { "\n" };
    format!("{log}{end}")
}

fn quote(lines: &mut Vec<String>, feedback: &str) {
    let said: Vec<&str> = feedback.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.extend(
        said.iter().take(FEEDBACK_LINES).map(|line| format!("  > {}", safe(line, LINE_CHARS))),
    );
    if said.len() > FEEDBACK_LINES {
        lines.push(format!("  > … and {} more lines", said.len() - FEEDBACK_LINES));
    }
}

fn files(touched: &[FileTouched]) -> String {
    let mut named: Vec<String> = touched
        .iter()
        .take(MOST_NAMED)
        .map(|file| match file.action {
            FileAction::Created => format!("{} (new)", file.path),
            FileAction::Modified => file.path.clone(),
            FileAction::Deleted => format!("{} (deleted)", file.path),
        })
        .collect();
    if touched.len() > MOST_NAMED {
        named.push(format!("and {} more", touched.len() - MOST_NAMED));
    }
    named.join(", ")
}

fn gates(results: &[GateResult]) -> String {
    let word = |result: &GateResult| match (result.status, result.severity) {
        (GateStatus::Passed, _) => "passed",
        (GateStatus::Cached, _) => "passed before",
        (GateStatus::Failed, Severity::Hard) => "failed",
        (GateStatus::Failed, Severity::Soft) => "failed, which only warns",
    };
    let told = results.iter().map(|result| format!("`{}` {}", result.gate, word(result)));
    told.collect::<Vec<_>>().join(", ")
}

/// Tells what later work needs to know of a handoff.
fn account(handoff: &Handoff, mut add: impl FnMut(&str, &str)) {
    for note in handoff.architectural_notes.iter().take(MOST_NAMED) {
        add("Decision", note);
    }
    for it in handoff.deviations.iter().take(MOST_NAMED) {
        add("Deviation", &format!("{} → {}: {}", it.planned, it.actual, it.reason));
    }
    for it in handoff.constraints_discovered.iter().take(MOST_NAMED) {
        let way = it.workaround.as_ref().unwrap_or(&it.impact);
        add("Learned", &format!("{}: {way}", it.constraint));
    }
    for bug in handoff.bugs_encountered.iter().filter(|bug| !bug.resolved).take(MOST_NAMED) {
        add("Open bug", &bug.description);
    }
    for it in handoff.unfinished_business.iter().take(MOST_NAMED) {
        add("Left", &format!("{} ({})", it.item, it.reason));
    }
    for advice in handoff.recommendations.iter().take(MOST_NAMED) {
        add("Advice", advice);
    }
}

#[cfg(test)]
mod tests;
