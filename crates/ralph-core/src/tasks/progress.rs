//! The progress log next to a task file: a maintained list of patterns on top, and below it an
//! entry for each iteration that landed.
//!
//! Text in, text out: what people and agents wrote stays unchanged. Not here: the file.

use ralph_model::gate::{GateResult, GateStatus, Severity};
use ralph_model::handoff::{FileAction, FileTouched, Handoff};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::judgement::Verdict;
use ralph_model::review::ReviewResult;
use ralph_model::run::Iteration;
use ralph_model::task::Task;
use ralph_model::text;

/// The heading of the patterns.
const PATTERNS: &str = "## codebase patterns";

/// The mark at the end of a pattern that ralph added. Patterns without it were written by a
/// person.
const RALPH_MARK: &str = "<!-- ralph -->";

/// How many of its own patterns ralph keeps; it removes the oldest first.
const MOST_PATTERNS: usize = 40;

/// A pattern is a sentence, not an essay.
const PATTERN_CHARS: usize = 300;

/// Limit for a line of an entry.
const LINE_CHARS: usize = 500;

/// Limit for the feedback of a review.
const FEEDBACK_LINES: usize = 40;

/// How many items of one kind, or files, are listed.
const MOST_NAMED: usize = 20;

/// Returns the patterns as a prompt shows them; empty if there are none.
pub fn extract_patterns(log: &str) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    match find_patterns_section(&lines) {
        Some((start, end)) => text::strip_comments(&lines[start..end].concat()),
        None => String::new(),
    }
}

/// Returns the log with the constraints of a handoff added as patterns, unless they are there
/// already. A log without that section is returned unchanged.
pub(crate) fn with_patterns(log: &str, handoff: &Handoff) -> String {
    let mut lines: Vec<&str> = log.split_inclusive('\n').collect();
    let Some((start, end)) = find_patterns_section(&lines) else { return log.to_owned() };
    let known: Vec<String> = lines[start..end].iter().map(|line| fold_bullet(line)).collect();
    let mut new: Vec<String> = Vec::new();
    for bullet in list_bullets(handoff) {
        let is_new = |it: &String| fold_bullet(it) != fold_bullet(&bullet);
        if new.len() < MOST_PATTERNS && new.iter().all(is_new) && known.iter().all(is_new) {
            new.push(bullet);
        }
    }
    if new.is_empty() {
        return log.to_owned();
    }
    let last = lines[start..end].iter().rposition(|line| !line.trim().is_empty());
    let mut place = last.map_or(start, |at| start + at + 1);
    let own: Vec<usize> =
        (start..end).filter(|at| lines[*at].trim_end().ends_with(RALPH_MARK)).collect();
    let surplus = (own.len() + new.len()).saturating_sub(MOST_PATTERNS);
    for at in own.into_iter().take(surplus).rev() {
        lines.remove(at);
        place -= 1;
    }
    let (before, after) = lines.split_at(place);
    let mut log = end_with_newline(&before.concat());
    for bullet in new {
        log.push_str(&format!("{bullet} {RALPH_MARK}\n"));
    }
    log.push_str(&after.concat());
    log
}

/// Returns the log without the patterns that came from some handoffs or that are among some lines.
/// A reviewer must not read what the author states as a known fact.
pub(crate) fn without_patterns(log: &str, handoffs: &[&Handoff], added: &[String]) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let Some((start, end)) = find_patterns_section(&lines) else { return log.to_owned() };
    let stated = handoffs.iter().flat_map(|handoff| list_bullets(handoff));
    let stated: Vec<String> =
        stated.chain(added.iter().cloned()).map(|line| fold_bullet(&line)).collect();
    let is_kept = |(at, line): &(usize, &&str)| {
        let folded = fold_bullet(line);
        !(start..end).contains(at) || folded.is_empty() || !stated.contains(&folded)
    };
    lines.iter().enumerate().filter(is_kept).map(|(_, line)| *line).collect()
}

/// Returns the constraints of a handoff as patterns.
fn list_bullets(handoff: &Handoff) -> impl Iterator<Item = String> {
    handoff.constraints_discovered.iter().map(|found| {
        let way = found.workaround.as_ref().unwrap_or(&found.impact);
        format!("- {}", sanitize_line(&format!("{}: {way}", found.constraint), PATTERN_CHARS))
    })
}

/// Returns the entry of an iteration that landed; `None` if there is nothing to report.
pub fn format_entry(run: &RunId, task: &Task, current: &Iteration) -> Option<String> {
    let judgement = current.judgement()?;
    let mut lines = Vec::new();
    let mut add = |what: &str, text: &str| {
        if !text.trim().is_empty() {
            lines.push(format!("- {what}: {}", sanitize_line(text, LINE_CHARS)));
        }
    };
    match (&judgement.verdict, &judgement.handoff) {
        (Verdict::Reviewed { verdict, feedback }, _) => {
            add("Verdict", ReviewResult::new(*verdict, feedback).name());
            push_quote(&mut lines, feedback);
        }
        (_, Some(handoff)) => {
            add("Summary", &handoff.task_completed.summary);
            add("Files", &list_files(&handoff.files_touched));
            add("Gates", &list_gates(current.gates()));
            add_handoff_lines(handoff, add);
        }
        (_, None) => return None,
    }
    let utc = current.started.to_utc();
    let (date, time) = utc.split_once('T')?;
    let (title, role) = (sanitize_line(&task.title, LINE_CHARS), current.role);
    Some(format!(
        "## {date} {} — {} {title} ({role})\n{}\n{}\n",
        time.get(..5).unwrap_or(time),
        sanitize_line(&task.id.0, LINE_CHARS),
        format_mark(run, current.number),
        lines.join("\n")
    ))
}

/// Returns the log with an entry at its end, or in place of an earlier entry of this iteration: a
/// landing that was interrupted begins again, and files may have changed since. Completes a
/// truncated last line first.
pub(crate) fn with_entry(
    log: &str,
    run: &RunId,
    iteration: IterationNumber,
    entry: &str,
) -> String {
    let mark = format_mark(run, iteration);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    if let Some(at) = lines.iter().position(|line| line.trim_end() == mark) {
        let begin = at.saturating_sub(1);
        let is_entry = |line: &&&str| line.starts_with("- ") || line.starts_with("  > ");
        let end = at + 1 + lines[at + 1..].iter().take_while(is_entry).count();
        if lines[begin..end].concat().replace('\r', "") == entry {
            return log.to_owned();
        }
        return format!("{}{entry}{}", lines[..begin].concat(), lines[end..].concat());
    }
    let log = end_with_newline(log);
    let gap = if log.is_empty() || log.ends_with("\n\n") { "" } else { "\n" };
    format!("{log}{gap}{entry}")
}

/// Returns the log without an entry at its end, because the landing it describes was refused.
pub(crate) fn remove_entry(log: &str, entry: &str) -> String {
    log.strip_suffix(entry).unwrap_or(log).to_owned()
}

/// Returns the line that identifies the entry of an iteration.
fn format_mark(run: &RunId, iteration: IterationNumber) -> String {
    format!("<!-- ralph {run}/{iteration} -->")
}

/// Returns the range of the lines below the heading of the patterns.
fn find_patterns_section(lines: &[&str]) -> Option<(usize, usize)> {
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

/// Returns a bullet in the form used for comparison.
fn fold_bullet(line: &str) -> String {
    let line = line.trim().trim_end_matches(RALPH_MARK).trim();
    line.trim_start_matches(['-', '*', ' ']).trim_end_matches('.').to_lowercase()
}

/// Returns text of an agent on one line, unable to begin or end a comment.
fn sanitize_line(agent_text: &str, limit: usize) -> String {
    text::join_to_line(agent_text, limit).replace("<!--", "<!-").replace("-->", "->")
}

fn end_with_newline(log: &str) -> String {
    let end = if log.is_empty() || log.ends_with('\n') { "" } else { "\n" };
    format!("{log}{end}")
}

fn push_quote(lines: &mut Vec<String>, feedback: &str) {
    let shown: Vec<&str> = feedback.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.extend(
        shown
            .iter()
            .take(FEEDBACK_LINES)
            .map(|line| format!("  > {}", sanitize_line(line, LINE_CHARS))),
    );
    if shown.len() > FEEDBACK_LINES {
        lines.push(format!("  > … and {} more lines", shown.len() - FEEDBACK_LINES));
    }
}

fn list_files(touched: &[FileTouched]) -> String {
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

fn list_gates(results: &[GateResult]) -> String {
    let word = |result: &GateResult| match (result.status, result.severity) {
        (GateStatus::Passed, _) => "passed",
        (GateStatus::Cached, _) => "passed before",
        (GateStatus::Failed, Severity::Hard) => "failed",
        (GateStatus::Failed, Severity::Soft) => "failed, which only warns",
    };
    let texts = results.iter().map(|result| format!("`{}` {}", result.gate, word(result)));
    texts.collect::<Vec<_>>().join(", ")
}

/// Adds what later work needs to know from a handoff.
fn add_handoff_lines(handoff: &Handoff, mut add: impl FnMut(&str, &str)) {
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
