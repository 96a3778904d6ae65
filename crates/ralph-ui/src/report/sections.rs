//! The sections of the report after those that need a person: what was done, and what it cost.

use ralph_core::reporting::report::{
    AutoApprovedTask, GateSummary, LatestItems, ResourceUse, ReviewAssessment, ReviewStats,
    Summary, TaskRemainder,
};
use ralph_model::control::ControlRequest;
use ralph_model::gate::Severity;
use ralph_model::text::choose_plural;
use ralph_model::units::Millis;
use ralph_model::worktree::AutorunChange;

use super::markdown::{add_table, escape_markdown, format_code};
use crate::line_text::shorten_id;
use crate::stream::format_tokens;

pub(super) fn add_auto_approved(page: &mut String, tasks: &[AutoApprovedTask]) {
    if tasks.is_empty() {
        return;
    }
    page.push_str("\n## Approved at the cap (check them yourself)\n\n");
    for task in tasks {
        let (id, title) = (escape_markdown(&task.id.0), escape_markdown(&task.title));
        let (reviews, feedback) = (task.reviews, escape_markdown(&task.feedback));
        let s = choose_plural(reviews as usize);
        page.push_str(&format!("- **{id}** ({title}), after {reviews} review{s}: {feedback}\n"));
    }
}

pub(super) fn add_left_open(page: &mut String, tasks: &[TaskRemainder]) {
    let (mut open, mut deviations, mut advice) = (String::new(), String::new(), String::new());
    for task in tasks {
        let name =
            format!("**{}** ({})", escape_markdown(&task.id.0), escape_markdown(&task.title));
        for (kind, text) in task.left.entries() {
            open.push_str(&format!("- {name} {kind}: {}\n", escape_markdown(text)));
        }
        for text in &task.left.deviations {
            deviations.push_str(&format!("- {name}: {}\n", escape_markdown(text)));
        }
        for text in &task.left.recommendations {
            advice.push_str(&format!("- {name}: {}\n", escape_markdown(text)));
        }
    }
    let sections = [("Left open", open), ("Deviations", deviations), ("Recommendations", advice)];
    for (title, lines) in sections {
        if !lines.is_empty() {
            page.push_str(&format!(
                "\n## {title} (the agents' own notes on landed work)\n\n{lines}"
            ));
        }
    }
}

pub(super) fn add_reviews(page: &mut String, reviews: Option<&ReviewStats>) {
    let Some(reviews) = reviews else { return };
    page.push_str("\n## Reviews\n\n");
    let rows: Vec<Vec<String>> = reviews
        .tasks_by_count
        .iter()
        .map(|(count, tasks)| vec![count.to_string(), tasks.to_string()])
        .collect();
    add_table(page, "Reviews|Tasks", &rows);
    page.push_str(&format!("\n{}\n", describe_reviews(reviews)));
    if reviews.at_cap > 0 {
        let s = choose_plural(reviews.at_cap as usize);
        page.push_str(&format!(
            "{} task{s} hit the cap of reviews: check the work yourself.\n",
            reviews.at_cap
        ));
    }
}

pub(super) fn add_requested_changes(page: &mut String, summary: &Summary) {
    add_list(page, "Requested changes", &summary.requested_changes, |change| {
        let (id, title) = (escape_markdown(&change.id.0), escape_markdown(&change.title));
        let (review, feedback) = (change.review, escape_markdown(&change.feedback));
        format!("**{id}** ({title}), review {review}: {feedback}")
    });
}

/// Returns what the number of reviews tells.
pub(crate) fn describe_reviews(reviews: &ReviewStats) -> &'static str {
    match reviews.reading {
        ReviewAssessment::Cheap => "Mostly one review a task: reviews are cheap here.",
        ReviewAssessment::CatchFaults => {
            "Many tasks took three reviews or more: they catch real faults."
        }
        ReviewAssessment::Mixed => "Some tasks needed a second look.",
    }
}

pub(super) fn add_diverging(page: &mut String, summary: &Summary) {
    if summary.diverging.is_empty() {
        return;
    }
    page.push_str("\n## Reviews that do not converge (a person should decide)\n\n");
    for task in &summary.diverging {
        let (id, title) = (escape_markdown(&task.id.0), escape_markdown(&task.title));
        let (reviews, how) = (task.reviews, escape_markdown(&task.divergence.description()));
        let s = choose_plural(reviews as usize);
        page.push_str(&format!("- **{id}** ({title}), after {reviews} review{s}: {how}\n"));
    }
}

pub(super) fn add_tasks(page: &mut String, summary: &Summary) {
    if summary.tasks.is_empty() {
        return;
    }
    page.push_str("\n## Tasks\n\n");
    let mut rows: Vec<Vec<String>> = summary
        .tasks
        .iter()
        .map(|task| {
            let mut row = vec![
                escape_markdown(&task.id.0),
                escape_markdown(&task.title),
                task.status.name().replace('_', " "),
                task.failed_attempts.to_string(),
                task.reviews.to_string(),
                task.commits.to_string(),
            ];
            row.extend(format_spent(&task.spent));
            row
        })
        .collect();
    let mut last: Vec<String> = ["all", "", "", "", ""].map(str::to_owned).to_vec();
    last.push(summary.commits.count.to_string());
    last.extend(format_spent(&summary.total));
    rows.push(last);
    let head = "Task|Title|Status|Failed attempts|Reviews|Commits|Iterations|Time|Cost|Tokens";
    add_table(page, head, &rows);
    for task in summary.tasks.iter().filter(|task| !task.quality_warnings.is_empty()) {
        page.push_str(&format!("\nQuality warnings of {}:\n\n", escape_markdown(&task.id.0)));
        for (gate, count) in &task.quality_warnings {
            let objection = task.quality_objections.get(gate).map_or("", String::as_str);
            let (gate, objection) = (escape_markdown(gate), escape_markdown(objection));
            let line = format!("- {gate} ({count}x): {objection}");
            page.push_str(&format!("{}\n", line.trim_end_matches([':', ' '])));
        }
    }
}

pub(super) fn add_roles(page: &mut String, summary: &Summary) {
    if summary.roles.is_empty() {
        return;
    }
    page.push_str("\n## Iterations by role\n\n");
    let row = |name: String, spent: &ResourceUse| {
        let mut row = vec![name, spent.asks.to_string()];
        // Most agents do not report their turns.
        if summary.total.turns.is_some() {
            row.push(spent.turns.map(|turns| turns.to_string()).unwrap_or_default());
        }
        row.extend(format_spent(spent));
        row
    };
    let mut rows: Vec<Vec<String>> =
        summary.roles.iter().map(|role| row(role.role.to_string(), &role.spent)).collect();
    let workers = summary.parallel_figures.as_ref();
    rows.extend(workers.map(|it| row("workers".to_owned(), &it.spent)));
    rows.push(row("all".to_owned(), &summary.total));
    let turns = if summary.total.turns.is_some() { "Turns|" } else { "" };
    add_table(page, &format!("Role|Calls|{turns}Iterations|Time|Cost|Tokens"), &rows);
}

/// Returns the columns for iterations, time, cost and tokens.
fn format_spent(spent: &ResourceUse) -> Vec<String> {
    let usage = spent.usage();
    let cost = spent.cost.map(|cost| cost.to_string()).unwrap_or_default();
    let shown = if usage.tokens().0 == 0 { String::new() } else { format_tokens(usage) };
    vec![spent.iterations.to_string(), spent.ran.to_string(), cost, shown]
}

pub(super) fn add_gates(page: &mut String, summary: &Summary) {
    if summary.gates.is_empty() {
        return;
    }
    page.push_str("\n## Gates\n\n");
    let row = |gate: &GateSummary| {
        let rate = match gate.runs {
            0 => String::new(),
            runs => format!("{}%", u64::from(gate.passed) * 100 / u64::from(runs)),
        };
        let before = match gate.broken_before {
            None => "",
            Some(true) => "broken before",
            Some(false) => "green",
        };
        vec![
            escape_markdown(&gate.name),
            format_severity(gate.severity).to_owned(),
            gate.runs.to_string(),
            rate,
            gate.ran.to_string(),
            before.to_owned(),
            gate.regressions.map(|count| count.to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = summary.gates.iter().map(row).collect();
    let head = "Gate|Severity|Runs|Passed|Time|Before|Regressions";
    add_table(page, head, &rows);
    for gate in &summary.gates {
        if let Some(fall) = gate.describe_test_fall() {
            page.push_str(&format!("\nFewer {fall} ({})\n", escape_markdown(&gate.name)));
        }
    }
}

pub(crate) fn format_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Hard => "hard",
        Severity::Soft => "soft",
    }
}

/// Adds counters of unusual events that are not zero.
pub(super) fn add_events(page: &mut String, summary: &Summary) {
    let waits = &summary.waits;
    let (refused, proposed) = (summary.amendments_refused, summary.amendments_proposed);
    let made = summary.amendments.count.saturating_sub(refused + proposed);
    let limits = match waits.usage_limits {
        0 => String::new(),
        count => format!("{count} ({})", waits.waited),
    };
    let number = |count: u32| if count == 0 { String::new() } else { count.to_string() };
    let retries = match waits.retry_waited {
        Millis::ZERO => number(summary.retries),
        waited => format!("{} ({waited} of waiting)", summary.retries),
    };
    let facts: Vec<String> = [
        ("Calls repeated after a failure", retries),
        ("Follow-up questions about the form of an answer", number(summary.follow_ups)),
        ("Waits for usage limits", limits),
        ("Processes left behind and ended", number(summary.leftovers)),
        ("Amendments made", number(made)),
        ("Amendments refused", number(refused)),
        ("Amendments proposed, for you to decide", number(proposed)),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(label, value)| format!("- {label}: {value}\n"))
    .collect();
    if !facts.is_empty() {
        page.push_str(&format!("\n## Other events\n\n{}", facts.concat()));
    }
    add_list(page, "Amendments", &summary.amendments, |amendment| {
        let (proposal, reason) =
            (escape_markdown(&amendment.proposal), escape_markdown(&amendment.reason));
        match (&amendment.refusal, &amendment.proposed) {
            (None, None) => format!("{proposal} ({reason})"),
            (None, Some(id)) => {
                format!("proposed as {}: {proposal} ({reason})", escape_markdown(id))
            }
            (Some(refusal), _) => format!("refused: {proposal} ({})", escape_markdown(refusal)),
        }
    });
    if proposed > 0 {
        page.push_str("\n`ralph tasks proposals` shows the ones that are not decided yet.\n");
    }
}

pub(super) fn add_commits(page: &mut String, summary: &Summary) {
    if summary.agent_commits > 0 {
        let (count, since) = (summary.agent_commits, summary.started.to_utc());
        let who = if count == 1 { "commit is" } else { "commits are" };
        page.push_str(&format!(
            "\n## Commits by agents\n\n{count} {who} in the history: `git log --since={since}`\n"
        ));
    }
    add_list(page, "Commits", &summary.commits, |commit| {
        format!("{} {}", format_code(&shorten_id(&commit.id)), escape_markdown(&commit.subject))
    });
    add_list(page, "Failure branches", &summary.failure_branches, |saved| {
        let task = saved.task.as_ref().map(|task| escape_markdown(&task.0)).unwrap_or_default();
        format!("{} {task}", format_code(&saved.branch)).trim_end().to_owned()
    });
    add_list(page, "Kept refs", &summary.kept, |name| format_code(name));
}

/// More files are for `git diff --stat`.
const MOST_FILES: usize = 50;

const UNOBSERVED_CHANGES: &str =
    "uncommitted changes of the last agent call; `git status` shows them";

/// Returns that a complete run changed no file.
pub(crate) fn describe_no_changes(summary: &Summary) -> &'static str {
    if summary.gates.is_empty() {
        "no file was changed"
    } else {
        "no file was changed; the gates passed on the files as they were"
    }
}

/// Lists the files that the run changed.
pub(super) fn add_changed_files(page: &mut String, summary: &Summary) {
    let files = &summary.changed_files;
    let unobserved = summary.has_unobserved_changes.then_some(UNOBSERVED_CHANGES);
    if summary.is_complete_without_changes {
        let text = describe_no_changes(summary);
        page.push_str(&format!("\n## Changed files: 0\n\n- {text}\n"));
        return;
    }
    if files.is_empty() {
        page.extend(unobserved.map(|text| format!("\n## Changed files\n\n- {text}\n")));
        return;
    }
    page.push_str(&format!("\n## Changed files: {}\n\n", files.len()));
    for file in files.iter().take(MOST_FILES) {
        page.push_str(&format!("- {}\n", escape_markdown(file)));
    }
    if files.len() > MOST_FILES {
        page.push_str(&format!("- and {} more\n", files.len() - MOST_FILES));
    }
    page.extend(unobserved.map(|text| format!("- {text}\n")));
}

/// Adds the autorun files that a person should check before opening or running the project.
pub(super) fn add_autorun_files(page: &mut String, files: &[AutorunChange]) {
    if files.is_empty() {
        return;
    }
    page.push_str("\n## Autorun files (check them before you open or run the project)\n\n");
    for AutorunChange { path, kind } in files {
        page.push_str(&format!("- {}: {}\n", format_code(path), kind.name()));
    }
}

pub(super) fn add_notes(page: &mut String, summary: &Summary) {
    add_list(page, "Control requests", &summary.control_requests, |note| {
        let by = note.by.as_deref().unwrap_or("user");
        let refused = note.refused.as_ref().map(|why| format!(" (rejected: {why})"));
        let what = match &note.request {
            ControlRequest::Note { text } if summary.unread_notes.contains(text) => {
                format!("note that no agent read: {text}")
            }
            ControlRequest::Note { text } => format!("note: {text}"),
            ControlRequest::TaskNote { task, text } => format!("note for {task}: {text}"),
            request => request.describe(),
        };
        let at = note.at.to_utc();
        escape_markdown(&format!("{at} {by}: {what}{}", refused.unwrap_or_default()))
    });
    add_list(page, "Edits of the list", &summary.edits, |edit| escape_markdown(edit));
    add_list(page, "Warnings", &summary.warnings, |warning| escape_markdown(warning));
}

fn add_list<T>(page: &mut String, title: &str, list: &LatestItems<T>, line: impl Fn(&T) -> String) {
    if list.latest.is_empty() {
        return;
    }
    page.push_str(&format!("\n## {title}\n\n"));
    match list.dropped_count() {
        0 => {}
        more => page.push_str(&format!("- {more} earlier ones\n")),
    }
    for item in &list.latest {
        page.push_str(&format!("- {}\n", line(item)));
    }
}
