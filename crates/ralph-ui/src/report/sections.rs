//! The sections of the report after those that need a person: what was done, and what it cost.

use ralph_core::control::Wish;
use ralph_core::gate::Severity;
use ralph_core::planted::Planted;
use ralph_core::report::{
    AutoApproved, GateSummary, Latest, ReviewReading, Reviews, Spent, Summary,
};

use super::markdown::{code, plain, table};
use crate::lines::short;
use crate::stream::{plural, tokens};

pub(super) fn auto_approved(page: &mut String, tasks: &[AutoApproved]) {
    if tasks.is_empty() {
        return;
    }
    page.push_str("\n## Approved at the cap (look at them by hand)\n\n");
    for task in tasks {
        let (id, title) = (plain(&task.id.0), plain(&task.title));
        let (reviews, feedback) = (task.reviews, plain(&task.feedback));
        let s = plural(reviews as usize);
        page.push_str(&format!("- **{id}** ({title}), after {reviews} review{s}: {feedback}\n"));
    }
}

pub(super) fn reviews(page: &mut String, reviews: Option<&Reviews>) {
    let Some(reviews) = reviews else { return };
    page.push_str("\n## Reviews\n\n");
    let rows: Vec<Vec<String>> = reviews
        .tasks_by_count
        .iter()
        .map(|(count, tasks)| vec![count.to_string(), tasks.to_string()])
        .collect();
    table(page, &["Reviews", "Tasks"], &rows);
    let says = match reviews.reading {
        ReviewReading::Cheap => "Mostly one review a task: reviews are cheap here.",
        ReviewReading::CatchFaults => {
            "Many tasks took three reviews or more: they catch real faults."
        }
        ReviewReading::Mixed => "Some tasks needed a second look.",
    };
    page.push_str(&format!("\n{says}\n"));
    if reviews.at_cap > 0 {
        let s = plural(reviews.at_cap as usize);
        page.push_str(&format!(
            "{} task{s} hit the cap of reviews: look at the work by hand.\n",
            reviews.at_cap
        ));
    }
}

pub(super) fn diverging(page: &mut String, summary: &Summary) {
    if summary.diverging.is_empty() {
        return;
    }
    page.push_str("\n## Reviews that do not converge (a person should decide)\n\n");
    for task in &summary.diverging {
        let (id, title) = (plain(&task.id.0), plain(&task.title));
        let (reviews, how) = (task.reviews, plain(&task.divergence.words()));
        let s = plural(reviews as usize);
        page.push_str(&format!("- **{id}** ({title}), after {reviews} review{s}: {how}\n"));
    }
}

pub(super) fn tasks(page: &mut String, summary: &Summary) {
    if summary.tasks.is_empty() {
        return;
    }
    page.push_str("\n## Tasks\n\n");
    let mut rows: Vec<Vec<String>> = summary
        .tasks
        .iter()
        .map(|task| {
            let mut row = vec![
                plain(&task.id.0),
                plain(&task.title),
                task.status.name().replace('_', " "),
                task.failed_attempts.to_string(),
                task.reviews.to_string(),
                task.commits.to_string(),
            ];
            row.extend(spent(&task.spent));
            row
        })
        .collect();
    let mut last: Vec<String> = ["all", "", "", "", ""].map(str::to_owned).to_vec();
    last.push(summary.commits.count.to_string());
    last.extend(spent(&summary.total));
    rows.push(last);
    let head = [
        "Task",
        "Title",
        "Status",
        "Failed attempts",
        "Reviews",
        "Commits",
        "Iterations",
        "Time",
        "Cost",
        "Tokens",
    ];
    table(page, &head, &rows);
    for task in summary.tasks.iter().filter(|task| !task.quality_warnings.is_empty()) {
        let gates: Vec<String> = task
            .quality_warnings
            .iter()
            .map(|(gate, count)| format!("{} ({count}x)", plain(gate)))
            .collect();
        let id = plain(&task.id.0);
        page.push_str(&format!("\nQuality warnings of {id}: {}\n", gates.join(", ")));
    }
}

pub(super) fn roles(page: &mut String, summary: &Summary) {
    if summary.roles.is_empty() {
        return;
    }
    page.push_str("\n## Iterations by role\n\n");
    let mut rows: Vec<Vec<String>> = summary
        .roles
        .iter()
        .map(|role| {
            let mut row = vec![role.role.to_string(), role.spent.asks.to_string()];
            row.extend(spent(&role.spent));
            row
        })
        .collect();
    let mut last = vec!["all".to_owned(), summary.total.asks.to_string()];
    last.extend(spent(&summary.total));
    rows.push(last);
    table(page, &["Role", "Calls", "Iterations", "Time", "Cost", "Tokens"], &rows);
}

/// Returns the columns for iterations, time, cost and tokens.
fn spent(spent: &Spent) -> Vec<String> {
    let usage = spent.usage();
    let cost = spent.cost.map(|cost| cost.to_string()).unwrap_or_default();
    let shown = if usage.tokens().0 == 0 { String::new() } else { tokens(usage) };
    vec![spent.iterations.to_string(), spent.ran.to_string(), cost, shown]
}

pub(super) fn gates(page: &mut String, summary: &Summary) {
    if summary.gates.is_empty() {
        return;
    }
    page.push_str("\n## Gates\n\n");
    let row = |gate: &GateSummary| {
        let severity = match gate.severity {
            Severity::Hard => "hard",
            Severity::Soft => "soft",
        };
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
            plain(&gate.name),
            severity.to_owned(),
            gate.runs.to_string(),
            rate,
            gate.ran.to_string(),
            before.to_owned(),
            gate.regressions.map(|count| count.to_string()).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = summary.gates.iter().map(row).collect();
    let head = ["Gate", "Severity", "Runs", "Passed", "Time", "Before", "Regressions"];
    table(page, &head, &rows);
}

/// Adds counters of unusual events that are not zero.
pub(super) fn events(page: &mut String, summary: &Summary) {
    let waits = &summary.waits;
    let (refused, proposed) = (summary.amendments_refused, summary.amendments_proposed);
    let made = summary.amendments.count.saturating_sub(refused + proposed);
    let limits = match waits.usage_limits {
        0 => String::new(),
        count => format!("{count} ({})", waits.waited),
    };
    let number = |count: u32| if count == 0 { String::new() } else { count.to_string() };
    let facts: Vec<String> = [
        ("Calls repeated after a failure", number(summary.retries)),
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
        page.push_str(&format!("\n## Along the way\n\n{}", facts.concat()));
    }
    listed(page, "Amendments", &summary.amendments, |amendment| {
        let (proposal, reason) = (plain(&amendment.proposal), plain(&amendment.reason));
        match (&amendment.refusal, &amendment.proposed) {
            (None, None) => format!("{proposal} ({reason})"),
            (None, Some(id)) => format!("proposed as {}: {proposal} ({reason})", plain(id)),
            (Some(refusal), _) => format!("refused: {proposal} ({})", plain(refusal)),
        }
    });
    if proposed > 0 {
        page.push_str("\n`ralph tasks proposals` shows the ones that are not decided yet.\n");
    }
}

pub(super) fn commits(page: &mut String, summary: &Summary) {
    if summary.agent_commits > 0 {
        let (count, since) = (summary.agent_commits, summary.started.utc());
        let who = if count == 1 { "commit is" } else { "commits are" };
        page.push_str(&format!(
            "\n## Commits by agents\n\n{count} {who} in the history: `git log --since={since}`\n"
        ));
    }
    listed(page, "Commits", &summary.commits, |commit| {
        format!("{} {}", code(&short(&commit.id)), plain(&commit.subject))
    });
    listed(page, "Failure branches", &summary.shelved, |saved| {
        let task = saved.task.as_ref().map(|task| plain(&task.0)).unwrap_or_default();
        format!("{} {task}", code(&saved.branch)).trim_end().to_owned()
    });
    listed(page, "Kept refs", &summary.kept, |name| code(name));
}

/// Adds the autorun files that a person should check before opening or running the project.
pub(super) fn planted(page: &mut String, files: &[Planted]) {
    if files.is_empty() {
        return;
    }
    page.push_str("\n## Autorun files (check them before you open or run the project)\n\n");
    for Planted { path, kind } in files {
        page.push_str(&format!("- {}: {}\n", code(path), kind.name()));
    }
}

pub(super) fn notes(page: &mut String, summary: &Summary) {
    listed(page, "Control requests", &summary.wishes, |note| {
        let by = note.by.as_deref().unwrap_or("user");
        let refused = note.refused.as_ref().map(|why| format!(" (rejected: {why})"));
        let what = match &note.wish {
            Wish::Note { text } => format!("note: {text}"),
            request @ (Wish::Pause | Wish::GoOn | Wish::Stop | Wish::Skip { .. }) => {
                request.words()
            }
        };
        let at = note.at.utc();
        plain(&format!("{at} {by}: {what}{}", refused.unwrap_or_default()))
    });
    listed(page, "Edits of the list", &summary.edits, |edit| plain(edit));
    listed(page, "Warnings", &summary.warnings, |warning| plain(warning));
}

fn listed<T>(page: &mut String, title: &str, list: &Latest<T>, line: impl Fn(&T) -> String) {
    if list.latest.is_empty() {
        return;
    }
    page.push_str(&format!("\n## {title}\n\n"));
    match list.left_out() {
        0 => {}
        more => page.push_str(&format!("- {more} earlier ones\n")),
    }
    for item in &list.latest {
        page.push_str(&format!("- {}\n", line(item)));
    }
}
