//! The sections of a page between its head and the attempts: what needs a person, what was done,
//! and what it cost.

use ralph_core::control::ControlRequest;
use ralph_core::gate::Severity;
use ralph_core::report::timeline::ResultTone;
use ralph_core::report::{
    FailedTask, GateSummary, LatestItems, ResourceUse, ReviewAssessment, Summary, Timeline,
};
use ralph_core::task::TaskStatus;

use super::chart;
use super::escaping::{escape_line, make_anchor, render_code};
use crate::line_text::shorten_id;
use crate::stream::{choose_plural, format_tokens};

/// A longer list is not readable; the totals count all tasks.
const MOST_TASKS: usize = 300;

/// Entries of a list on the page; the rest is in the Markdown report.
const MOST_LISTED: usize = 50;

/// Returns a section with a heading, or an empty string if its body is empty.
pub(super) fn render_section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("<h2>{title}</h2>\n{body}") }
}

/// Returns a table that scrolls horizontally where it is too wide. A `#` in front of a name marks
/// a numeric column.
pub(super) fn render_table(caption: &str, head: &[&str], rows: &[String]) -> String {
    let cell = |name: &&str| match name.strip_prefix('#') {
        Some(name) => format!("<th scope=\"col\" class=\"n\">{name}</th>"),
        None => format!("<th scope=\"col\">{name}</th>"),
    };
    let head: Vec<String> = head.iter().map(cell).collect();
    format!(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"{caption}\"><table>\
         <caption>{caption}</caption><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
        head.concat(),
        rows.concat()
    )
}

/// Returns what needs a person.
pub(super) fn render_needs_you(summary: &Summary) -> String {
    let mut body = String::new();
    for question in &summary.questions {
        body.push_str(&format!(
            "<article class=\"card bad\"><h3>{}: {}</h3><p>{}</p></article>\n",
            escape_line(&question.task.0),
            escape_line(&question.title),
            escape_line(&question.needs)
        ));
    }
    let is_asked = |task: &&FailedTask| !summary.questions.iter().any(|it| it.task == task.id);
    for task in summary.failed.iter().filter(is_asked) {
        body.push_str(&render_failed_task(task));
    }
    for task in &summary.auto_approved {
        body.push_str(&format!(
            "<article class=\"card middling\"><h3>{}: {}</h3><p>Approved only because no further \
             review was allowed, after {}. Look at it by hand: {}</p></article>\n",
            escape_line(&task.id.0),
            escape_line(&task.title),
            task.reviews,
            escape_line(&task.feedback)
        ));
    }
    for task in &summary.diverging {
        body.push_str(&format!(
            "<article class=\"card middling\"><h3>{}: {}</h3><p>The reviews do not converge: {}. A \
             person should decide.</p></article>\n",
            escape_line(&task.id.0),
            escape_line(&task.title),
            escape_line(&task.divergence.description())
        ));
    }
    if !summary.autorun_changes.is_empty() {
        let items: Vec<String> = summary
            .autorun_changes
            .iter()
            .map(|file| format!("<li>{} {}</li>", render_code(&file.path), file.kind.name()))
            .collect();
        body.push_str(&format!(
            "<article class=\"card middling\"><h3>Autorun files</h3><p>Check these before you \
             open, build or run the project.</p><ul>{}</ul></article>\n",
            items.concat()
        ));
    }
    render_section("What needs you", &body)
}

fn render_failed_task(task: &FailedTask) -> String {
    let mut facts = vec![format!("{} of {} attempts failed", task.attempts, task.attempts_allowed)];
    if let Some(gate) = task.last_gate.as_deref().filter(|gate| !gate.is_empty()) {
        facts.push(format!("last at {}", render_code(gate)));
    }
    if let Some(branch) = &task.branch {
        facts.push(format!("its work is on {}", render_code(branch)));
    }
    if let Some(stuck) = task.stuck.filter(|stuck| stuck.is_stuck) {
        facts.push(format!("stuck: the same error {} times", stuck.alike));
    }
    let error = task.error.as_deref().unwrap_or(&task.reason);
    let error = if error.is_empty() {
        String::new()
    } else {
        format!("<p class=\"error\">{}</p>", escape_line(error))
    };
    let failing = if task.failing.is_empty() {
        String::new()
    } else {
        format!("<p>Failing: {}</p>", escape_line(&task.failing.join(", ")))
    };
    format!(
        "<article class=\"card bad\"><h3>{}: {}</h3>{error}{failing}<p>{}.</p></article>\n",
        escape_line(&task.id.0),
        escape_line(&task.title),
        facts.join("; ")
    )
}

/// Returns the burn-down chart.
pub(super) fn render_progress(timeline: &Timeline) -> String {
    render_section("What was left to do", &chart::draw_burn_down(timeline).unwrap_or_default())
}

/// Returns the tasks and what each cost.
pub(super) fn render_tasks(summary: &Summary) -> String {
    if summary.tasks.is_empty() {
        return String::new();
    }
    let most =
        summary.tasks.iter().map(|task| measure_spent(&task.spent)).max().unwrap_or_default();
    let rows: Vec<String> = summary
        .tasks
        .iter()
        .take(MOST_TASKS)
        .map(|task| {
            let tone = match task.status {
                TaskStatus::Done => ResultTone::Good,
                TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Skipped => ResultTone::Middling,
                TaskStatus::Failed => ResultTone::Bad,
            };
            format!(
                "<tr id=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td><span class=\"state {}\">{}</span></td>{}\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                make_anchor("task", &task.id),
                escape_line(&task.id.0),
                escape_line(&task.title),
                task.status.name().replace('_', "-"),
                task.status.name().replace('_', " "),
                render_spent(&task.spent, most, tone),
                task.failed_attempts,
                task.reviews,
                task.commits
            )
        })
        .collect();
    let head = [
        "Task",
        "Title",
        "State",
        "Share",
        "#Cost",
        "#Tokens",
        "#Time",
        "#Iterations",
        "#Failed",
        "#Reviews",
        "#Commits",
    ];
    let mut body = render_table("Tasks, and what each took", &head, &rows);
    body.push_str(&render_omitted(summary.tasks.len().saturating_sub(MOST_TASKS), "task"));
    for waits in summary.waiting.iter().take(MOST_LISTED) {
        body.push_str(&format!(
            "<p class=\"note\">{} waits for {}.</p>\n",
            escape_line(&waits.task.0),
            escape_line(&waits.on.0)
        ));
    }
    for task in
        summary.tasks.iter().filter(|task| !task.quality_warnings.is_empty()).take(MOST_LISTED)
    {
        let gates: Vec<String> = task
            .quality_warnings
            .iter()
            .map(|(gate, count)| format!("{} ({count}×)", escape_line(gate)))
            .collect();
        body.push_str(&format!(
            "<p class=\"note\">Soft gates warned of {}: {}.</p>\n",
            escape_line(&task.id.0),
            gates.join(", ")
        ));
    }
    render_section("Tasks", &body)
}

/// Returns what each role cost.
pub(super) fn render_roles(summary: &Summary) -> String {
    if summary.roles.is_empty() {
        return String::new();
    }
    let most =
        summary.roles.iter().map(|role| measure_spent(&role.spent)).max().unwrap_or_default();
    let mut rows: Vec<String> = summary
        .roles
        .iter()
        .map(|role| {
            format!(
                "<tr><th scope=\"row\">{}</th>{}<td class=\"n\">{}</td></tr>\n",
                role.role,
                render_spent(&role.spent, most, ResultTone::Good),
                role.spent.asks
            )
        })
        .collect();
    rows.push(format!(
        "<tr class=\"sum\"><th scope=\"row\">all</th>{}<td class=\"n\">{}</td></tr>\n",
        render_spent(&summary.total, 0, ResultTone::Good),
        summary.total.asks
    ));
    let head = ["Role", "Share", "#Cost", "#Tokens", "#Time", "#Iterations", "#Calls"];
    render_section("Cost by role", &render_table("Roles, and what each took", &head, &rows))
}

/// Returns the measure of a share: cost if known, else tokens, else time.
fn measure_spent(spent: &ResourceUse) -> u64 {
    match (spent.cost, spent.usage().tokens().0) {
        (Some(cost), _) => cost.0,
        (None, 0) => spent.ran.0,
        (None, tokens) => tokens,
    }
}

/// Returns the columns for share, cost, tokens, time and iterations.
fn render_spent(spent: &ResourceUse, most: u64, tone: ResultTone) -> String {
    let usage = spent.usage();
    let share =
        if most == 0 { String::new() } else { chart::draw_bar(measure_spent(spent), most, tone) };
    let cost = spent.cost.map(|cost| cost.to_string()).unwrap_or_default();
    let shown = if usage.tokens().0 == 0 { String::new() } else { format_tokens(usage) };
    format!(
        "<td>{share}</td><td class=\"n\">{cost}</td><td class=\"n\">{shown}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        spent.ran, spent.iterations
    )
}

/// Returns the gates, how often they passed and how long they took.
pub(super) fn render_gates(summary: &Summary) -> String {
    if summary.gates.is_empty() {
        return String::new();
    }
    let row = |gate: &GateSummary| {
        let severity = match gate.severity {
            Severity::Hard => "hard",
            Severity::Soft => "soft",
        };
        let (rate, drawn) = match gate.runs {
            0 => (String::new(), String::new()),
            runs => {
                let rate = format!("{}%", u64::from(gate.passed) * 100 / u64::from(runs));
                (rate, chart::draw_bar(gate.passed.into(), runs.into(), ResultTone::Good))
            }
        };
        let each = gate.ran.0.checked_div(gate.runs.into()).map(ralph_core::units::Millis);
        let before = match gate.broken_before {
            None => String::new(),
            Some(true) => "broken before".to_owned(),
            Some(false) => format!("green; broken {}×", gate.regressions.unwrap_or_default()),
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{drawn}</td><td class=\"n\">{rate}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{severity}</td><td>{before}</td></tr>\n",
            render_code(&gate.name),
            gate.runs,
            gate.failed,
            gate.cached,
            each.map(|each| each.to_string()).unwrap_or_default(),
            gate.ran,
        )
    };
    let rows: Vec<String> = summary.gates.iter().take(MOST_LISTED).map(row).collect();
    let head = [
        "Gate",
        "Passed",
        "#Rate",
        "#Runs",
        "#Failed",
        "#Reused",
        "#Each",
        "#Time",
        "Severity",
        "Before any work",
    ];
    let mut body = render_table("Gates: how often they passed, and their times", &head, &rows);
    body.push_str(&render_omitted(summary.gates.len().saturating_sub(MOST_LISTED), "gate"));
    render_section("Gates", &body)
}

/// Returns how many reviews the tasks needed.
pub(super) fn render_reviews(summary: &Summary) -> String {
    let Some(reviews) = &summary.reviews else { return String::new() };
    let most = reviews.tasks_by_count.values().copied().max().unwrap_or_default();
    let rows: Vec<String> = reviews
        .tasks_by_count
        .iter()
        .map(|(count, tasks)| {
            let tone = if *count < 3 { ResultTone::Good } else { ResultTone::Middling };
            let drawn = chart::draw_bar((*tasks).into(), most.into(), tone);
            format!("<tr><th scope=\"row\">{count}</th><td>{drawn}</td><td class=\"n\">{tasks}</td></tr>\n")
        })
        .collect();
    let says = match reviews.reading {
        ReviewAssessment::Cheap => "Mostly one review a task: reviews are cheap here.",
        ReviewAssessment::CatchFaults => {
            "Many tasks took three reviews or more: they catch real faults."
        }
        ReviewAssessment::Mixed => "Some tasks needed a second look.",
    };
    let cap = match reviews.at_cap {
        0 => String::new(),
        count => format!(" {count} task{} hit the cap.", choose_plural(count as usize)),
    };
    let mut body = format!("<p class=\"note\">{says}{cap}</p>\n");
    body.push_str(&render_table(
        "How many tasks took how many reviews",
        &["Reviews", "Share", "#Tasks"],
        &rows,
    ));
    render_section("Reviews", &body)
}

/// Returns commits, failure branches and kept refs.
pub(super) fn render_history(summary: &Summary) -> String {
    let mut body = String::new();
    if summary.agent_commits > 0 {
        body.push_str(&format!(
            "<p class=\"note\">Agents made {} commit{}: <code>git log --since={}</code></p>\n",
            summary.agent_commits,
            choose_plural(summary.agent_commits as usize),
            summary.started.to_utc()
        ));
    }
    add_list(&mut body, "Commits", &summary.commits, |commit| {
        let task =
            commit.task.as_ref().map(|task| format!(" <span>{}</span>", escape_line(&task.0)));
        format!(
            "{} {}{}",
            render_code(&shorten_id(&commit.id)),
            escape_line(&commit.subject),
            task.unwrap_or_default()
        )
    });
    add_list(&mut body, "Failure branches", &summary.failure_branches, |saved| {
        let task =
            saved.task.as_ref().map(|task| format!(" <span>{}</span>", escape_line(&task.0)));
        format!("{}{}", render_code(&saved.branch), task.unwrap_or_default())
    });
    add_list(&mut body, "Kept refs", &summary.kept, |name| render_code(name));
    render_section("Where the work is", &body)
}

/// Returns unusual events, control requests, warnings and amendments.
pub(super) fn render_notes(summary: &Summary) -> String {
    let (refused, proposed) = (summary.amendments_refused, summary.amendments_proposed);
    let made = summary.amendments.count.saturating_sub(refused + proposed);
    let facts = [
        ("Calls repeated after a failure", summary.retries, String::new()),
        (
            "Waits for usage limits",
            summary.waits.usage_limits,
            format!(", {}", summary.waits.waited),
        ),
        ("Processes left behind and ended", summary.leftovers, String::new()),
        ("Amendments made", made, String::new()),
        ("Amendments refused", refused, String::new()),
        ("Amendments proposed, for you to decide", proposed, String::new()),
    ];
    let facts: Vec<String> = facts
        .into_iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(name, count, more)| format!("<div><dt>{name}</dt><dd>{count}{more}</dd></div>"))
        .collect();
    let mut body = String::new();
    if !facts.is_empty() {
        body.push_str(&format!("<dl class=\"figures\">{}</dl>\n", facts.concat()));
    }
    add_list(&mut body, "Control requests", &summary.control_requests, |note| {
        let by = note.by.as_deref().map(|by| format!(" <span>{}</span>", escape_line(by)));
        let refused = note.refused.as_deref().map(|why| format!(", refused: {}", escape_line(why)));
        let text = match &note.request {
            ControlRequest::Note { text } => format!("note: {}", escape_line(text)),
            ControlRequest::Pause
            | ControlRequest::Resume
            | ControlRequest::Stop
            | ControlRequest::Skip { .. } => escape_line(&note.request.describe()),
        };
        format!("{text}{}{}", refused.unwrap_or_default(), by.unwrap_or_default())
    });
    add_list(&mut body, "Refused connections", &summary.refused, |text| escape_line(text));
    let is_refusal = |text: &&String| text.starts_with(ralph_core::report::REFUSED_CONNECTION);
    let others = LatestItems {
        count: summary.warnings.count.saturating_sub(summary.refused.count),
        latest: summary.warnings.latest.iter().filter(|text| !is_refusal(text)).collect(),
    };
    add_list(&mut body, "Warnings", &others, |text| escape_line(text));
    add_list(&mut body, "Amendments", &summary.amendments, |amendment| {
        let (proposal, reason) = (escape_line(&amendment.proposal), escape_line(&amendment.reason));
        match (&amendment.refusal, &amendment.proposed) {
            (None, None) => format!("{proposal} <span>{reason}</span>"),
            (None, Some(id)) => {
                format!("proposed as {}: {proposal} <span>{reason}</span>", escape_line(id))
            }
            (Some(refusal), _) => {
                format!("refused: {proposal} <span>{}</span>", escape_line(refusal))
            }
        }
    });
    add_list(&mut body, "Edits of the list", &summary.edits, |edit| escape_line(edit));
    render_section("Along the way", &body)
}

/// Adds a list, newest first, collapsed if it is long.
fn add_list<T>(body: &mut String, title: &str, list: &LatestItems<T>, show: impl Fn(&T) -> String) {
    if list.latest.is_empty() {
        return;
    }
    let items: Vec<String> = list
        .latest
        .iter()
        .rev()
        .take(MOST_LISTED)
        .map(|item| format!("<li>{}</li>\n", show(item)))
        .collect();
    let missing = (list.count as usize).saturating_sub(items.len());
    let open = if items.len() <= 12 { " open" } else { "" };
    body.push_str(&format!(
        "<details id=\"{}\"{open}><summary>{title} <span>{}</span></summary><ul class=\"list\">\n{}</ul>{}</details>\n",
        make_anchor("list", title),
        list.count,
        items.concat(),
        render_omitted(missing, "earlier one")
    ));
}

/// Returns a note on how many entries are missing.
pub(super) fn render_omitted(count: usize, what: &str) -> String {
    match count {
        0 => String::new(),
        count => {
            let s = choose_plural(count);
            let are = if count == 1 { "is" } else { "are" };
            format!("<p class=\"note\">{count} {what}{s} {are} not shown here.</p>\n")
        }
    }
}
