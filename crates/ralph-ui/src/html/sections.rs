//! The sections of a page between its head and the attempts: what needs a person, what was done,
//! and what it cost.

use maud::{Markup, html};
use ralph_core::reporting::report::timeline::ResultTone;
use ralph_core::reporting::report::{
    FailedTask, GateSummary, LatestItems, ResourceUse, Summary, Timeline,
};
use ralph_model::control::ControlRequest;
use ralph_model::handoff::LeftOpen;
use ralph_model::task::TaskStatus;
use ralph_model::text::choose_plural;
use ralph_model::units::Millis;

use super::chart;
use super::foreign_text::{clean_line, make_anchor, render_code};
use crate::line_text::shorten_id;
use crate::report::{describe_reviews, format_severity};
use crate::stream::format_tokens;

/// A longer list is not readable; the totals count all tasks.
const MOST_TASKS: usize = 300;

/// Entries of a list on the page; the rest is in the Markdown report.
const MOST_LISTED: usize = 50;

/// Returns a section with a heading, or nothing if its body is empty.
pub(super) fn render_section(title: &str, body: &Markup) -> Markup {
    html! {
        @if !body.0.is_empty() {
            h2 { (title) }
            (body)
        }
    }
}

/// Returns a table that scrolls horizontally where it is too wide. The names of its columns are
/// separated by `|`; a `#` in front of a name marks a numeric column.
pub(super) fn render_table(caption: &str, head: &str, rows: &[Markup]) -> Markup {
    html! {
        div.wide role="group" tabindex="0" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for name in head.split('|') {
                            @if let Some(name) = name.strip_prefix('#') {
                                th scope="col" class="n" { (name) }
                            } @else {
                                th scope="col" { (name) }
                            }
                        }
                    }
                }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// Returns what needs a person.
pub(super) fn render_needs_you(summary: &Summary) -> Markup {
    let is_asked = |task: &&FailedTask| !summary.questions.iter().any(|it| it.task == task.id);
    let body = html! {
        @for question in &summary.questions {
            article.card.bad {
                h3 { (clean_line(&question.task.0)) ": " (clean_line(&question.title)) }
                p { (clean_line(&question.needs)) }
            }
        }
        @for task in summary.failed.iter().filter(is_asked) {
            (render_failed_task(task))
        }
        @for task in &summary.auto_approved {
            article.card.middling {
                h3 { (clean_line(&task.id.0)) ": " (clean_line(&task.title)) }
                p {
                    "Approved only because no further review was allowed, after " (task.reviews)
                    ". Check it yourself: " (clean_line(&task.feedback))
                }
            }
        }
        @for task in &summary.diverging {
            article.card.middling {
                h3 { (clean_line(&task.id.0)) ": " (clean_line(&task.title)) }
                p {
                    "The reviews do not converge: " (clean_line(&task.divergence.description()))
                    ". A person should decide."
                }
            }
        }
        @if !summary.autorun_changes.is_empty() {
            article.card.middling {
                h3 { "Autorun files" }
                p { "Check these before you open, build or run the project." }
                ul {
                    @for file in &summary.autorun_changes {
                        li { (render_code(&file.path)) " " (file.kind.name()) }
                    }
                }
            }
        }
    };
    render_section("What needs you", &body)
}

/// Returns some entries of the handoffs of landed work, by task.
fn render_entries(summary: &Summary, entries: impl Fn(&LeftOpen) -> &Vec<String>) -> Markup {
    html! {
        @for task in summary.left_open.iter().filter(|it| !entries(&it.left).is_empty()).take(MOST_LISTED) {
            h3 { (clean_line(&task.id.0)) ": " (clean_line(&task.title)) }
            ul {
                @for text in entries(&task.left) {
                    li { (clean_line(text)) }
                }
            }
        }
    }
}

/// Returns what landed work leaves open.
pub(super) fn render_left_open(summary: &Summary) -> Markup {
    let body = html! {
        @for task in summary.left_open.iter().filter(|it| it.left.entries().next().is_some()).take(MOST_LISTED) {
            h3 { (clean_line(&task.id.0)) ": " (clean_line(&task.title)) }
            ul {
                @for (kind, text) in task.left.entries() {
                    li { (kind) ": " (clean_line(text)) }
                }
            }
        }
    };
    html! {
        (render_section("Left open", &body))
        (render_section("Deviations", &render_entries(summary, |left| &left.deviations)))
        (render_section("Recommendations", &render_entries(summary, |left| &left.recommendations)))
    }
}

fn render_failed_task(task: &FailedTask) -> Markup {
    let error = task.error.as_deref().unwrap_or(&task.reason);
    html! {
        article.card.bad {
            h3 { (clean_line(&task.id.0)) ": " (clean_line(&task.title)) }
            @if !error.is_empty() {
                p.error { (clean_line(error)) }
            }
            @if !task.failing.is_empty() {
                p { "Failing: " (clean_line(&task.failing.join(", "))) }
            }
            p {
                (task.attempts) " of " (task.attempts_allowed) " attempts failed"
                @if let Some(gate) = task.last_gate.as_deref().filter(|gate| !gate.is_empty()) {
                    "; last at " (render_code(gate))
                }
                @if let Some(branch) = &task.branch {
                    "; its work is on " (render_code(branch))
                }
                @if let Some(stuck) = task.stuck.filter(|stuck| stuck.is_stuck) {
                    "; stuck: the same error " (stuck.alike) " times"
                }
                "."
            }
        }
    }
}

/// Returns the burn-down chart.
pub(super) fn render_progress(timeline: &Timeline) -> Markup {
    render_section("Remaining tasks", &chart::draw_burn_down(timeline).unwrap_or_default())
}

/// Returns the tasks and what each cost.
pub(super) fn render_tasks(summary: &Summary) -> Markup {
    if summary.tasks.is_empty() {
        return Markup::default();
    }
    let most =
        summary.tasks.iter().map(|task| measure_spent(&task.spent)).max().unwrap_or_default();
    let rows = summary.tasks.iter().take(MOST_TASKS).map(|task| {
        let tone = match task.status {
            TaskStatus::Done => ResultTone::Good,
            TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Skipped => {
                ResultTone::Middling
            }
            TaskStatus::Failed => ResultTone::Bad,
        };
        html! {
            tr id=(make_anchor("task", &task.id)) {
                th scope="row" { (clean_line(&task.id.0)) }
                td { (clean_line(&task.title)) }
                td {
                    span class={ "state " (task.status.name().replace('_', "-")) } {
                        (task.status.name().replace('_', " "))
                    }
                }
                (render_spent(&task.spent, most, tone))
                td.n { (task.failed_attempts) }
                td.n { (task.reviews) }
                td.n { (task.commits) }
            }
        }
    });
    let rows: Vec<Markup> = rows.collect();
    let head = "Task|Title|State|Share|#Cost|#Tokens|#Time|#Iterations|#Failed|#Reviews|#Commits";
    let warned = summary.tasks.iter().filter(|task| !task.quality_warnings.is_empty());
    let body = html! {
        (render_table("Tasks, and what each took", head, &rows))
        (render_omitted(summary.tasks.len().saturating_sub(MOST_TASKS), "task"))
        @for waits in summary.waiting.iter().take(MOST_LISTED) {
            p.note { (clean_line(&waits.task.0)) " waits for " (clean_line(&waits.on.0)) "." }
        }
        @for task in warned.take(MOST_LISTED) {
            p.note {
                "Soft gates warned of " (clean_line(&task.id.0)) ": "
                @for (place, (gate, count)) in task.quality_warnings.iter().enumerate() {
                    @if place > 0 { ", " }
                    (clean_line(gate)) " (" (count) "×)"
                }
                "."
            }
        }
    };
    render_section("Tasks", &body)
}

/// Returns what each role cost.
pub(super) fn render_roles(summary: &Summary) -> Markup {
    if summary.roles.is_empty() {
        return Markup::default();
    }
    let workers = summary.parallel_figures.iter().map(|it| ("workers".to_owned(), &it.spent));
    let roles = summary.roles.iter().map(|it| (it.role.to_string(), &it.spent)).chain(workers);
    let most = roles.clone().map(|(_, spent)| measure_spent(spent)).max().unwrap_or_default();
    let rows = roles.map(|(name, spent)| {
        html! {
            tr {
                th scope="row" { (name) }
                (render_spent(spent, most, ResultTone::Good))
                td.n { (spent.asks) }
            }
        }
    });
    let mut rows: Vec<Markup> = rows.collect();
    rows.push(html! {
        tr.sum {
            th scope="row" { "all" }
            (render_spent(&summary.total, 0, ResultTone::Good))
            td.n { (summary.total.asks) }
        }
    });
    let head = "Role|Share|#Cost|#Tokens|#Time|#Iterations|#Calls";
    render_section("Cost by role", &render_table("Roles, and what each took", head, &rows))
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
fn render_spent(spent: &ResourceUse, most: u64, tone: ResultTone) -> Markup {
    let usage = spent.usage();
    html! {
        td { @if most > 0 { (chart::draw_bar(measure_spent(spent), most, tone)) } }
        td.n { @if let Some(cost) = spent.cost { (cost) } }
        td.n { @if usage.tokens().0 > 0 { (format_tokens(usage)) } }
        td.n { (spent.ran) }
        td.n { (spent.iterations) }
    }
}

/// Returns the gates, how often they passed and how long they took.
pub(super) fn render_gates(summary: &Summary) -> Markup {
    if summary.gates.is_empty() {
        return Markup::default();
    }
    let row = |gate: &GateSummary| {
        let (passed, runs) = (u64::from(gate.passed), u64::from(gate.runs));
        let each = gate.ran.0.checked_div(runs).map(Millis);
        let before = match gate.broken_before {
            None => String::new(),
            Some(true) => "broken before".to_owned(),
            Some(false) => format!("green; broken {}×", gate.regressions.unwrap_or_default()),
        };
        html! {
            tr {
                th scope="row" { (render_code(&gate.name)) }
                td { @if runs > 0 { (chart::draw_bar(passed, runs, ResultTone::Good)) } }
                td.n { @if let Some(rate) = (passed * 100).checked_div(runs) { (rate) "%" } }
                td.n { (gate.runs) }
                td.n { (gate.failed) }
                td.n { (gate.cached) }
                td.n { @if let Some(each) = each { (each) } }
                td.n { (gate.ran) }
                td { (format_severity(gate.severity)) }
                td { (before) }
            }
        }
    };
    let rows: Vec<Markup> = summary.gates.iter().take(MOST_LISTED).map(row).collect();
    let head = "Gate|Passed|#Rate|#Runs|#Failed|#Reused|#Each|#Time|Severity|Before any work";
    let body = html! {
        (render_table("Gates: how often they passed, and their times", head, &rows))
        (render_omitted(summary.gates.len().saturating_sub(MOST_LISTED), "gate"))
        @for (gate, fall) in summary.gates.iter().filter_map(|gate| Some((gate, gate.describe_test_fall()?))) {
            p.note { "Fewer " (fall) " (" (render_code(&gate.name)) ")" }
        }
    };
    render_section("Gates", &body)
}

/// Returns how many reviews the tasks needed.
pub(super) fn render_reviews(summary: &Summary) -> Markup {
    let Some(reviews) = &summary.reviews else { return Markup::default() };
    let most = reviews.tasks_by_count.values().copied().max().unwrap_or_default();
    let rows = reviews.tasks_by_count.iter().map(|(count, tasks)| {
        let tone = if *count < 3 { ResultTone::Good } else { ResultTone::Middling };
        html! {
            tr {
                th scope="row" { (count) }
                td { (chart::draw_bar((*tasks).into(), most.into(), tone)) }
                td.n { (tasks) }
            }
        }
    });
    let rows: Vec<Markup> = rows.collect();
    let cap = reviews.at_cap;
    let head = "Reviews|Share|#Tasks";
    let body = html! {
        p.note {
            (describe_reviews(reviews))
            @if cap > 0 { " " (cap) " task" (choose_plural(cap as usize)) " hit the cap." }
        }
        (render_table("How many tasks took how many reviews", head, &rows))
    };
    render_section("Reviews", &body)
}

/// Returns commits, failure branches and kept refs.
pub(super) fn render_history(summary: &Summary) -> Markup {
    let commits = summary.agent_commits;
    let body = html! {
        @if commits > 0 {
            p.note {
                "Agents made " (commits) " commit" (choose_plural(commits as usize)) ": "
                code { "git log --since=" (summary.started.to_utc()) }
            }
        }
        (render_list("Commits", &summary.commits, |commit| html! {
            (render_code(&shorten_id(&commit.id))) " " (clean_line(&commit.subject))
            @if let Some(task) = &commit.task { " " span { (clean_line(&task.0)) } }
        }))
        (render_list("Failure branches", &summary.failure_branches, |saved| html! {
            (render_code(&saved.branch))
            @if let Some(task) = &saved.task { " " span { (clean_line(&task.0)) } }
        }))
        (render_list("Kept refs", &summary.kept, |name| render_code(name)))
    };
    render_section("Where the work is", &body)
}

/// Returns unusual events, control requests, warnings and amendments.
pub(super) fn render_notes(summary: &Summary) -> Markup {
    let (refused, proposed) = (summary.amendments_refused, summary.amendments_proposed);
    let made = summary.amendments.count.saturating_sub(refused + proposed);
    let waited = format!(", {}", summary.waits.waited);
    let paused = match summary.waits.retry_waited {
        Millis::ZERO => String::new(),
        paused => format!(", {paused} of waiting"),
    };
    let facts = [
        ("Calls repeated after a failure", summary.retries, paused.as_str()),
        ("Follow-up questions about the form of an answer", summary.follow_ups, ""),
        ("Waits for usage limits", summary.waits.usage_limits, waited.as_str()),
        ("Processes left behind and ended", summary.leftovers, ""),
        ("Amendments made", made, ""),
        ("Amendments refused", refused, ""),
        ("Amendments proposed, for you to decide", proposed, ""),
    ];
    let is_refusal =
        |text: &&String| text.starts_with(ralph_core::reporting::report::REFUSED_CONNECTION);
    let others = LatestItems {
        count: summary.warnings.count.saturating_sub(summary.refused.count),
        latest: summary.warnings.latest.iter().filter(|text| !is_refusal(text)).collect(),
    };
    let body = html! {
        @if facts.iter().any(|(_, count, _)| *count > 0) {
            dl.figures {
                @for (name, count, more) in facts.iter().filter(|(_, count, _)| *count > 0) {
                    div { dt { (name) } dd { (count) (more) } }
                }
            }
        }
        (render_list("Control requests", &summary.control_requests, |note| html! {
            @match &note.request {
                ControlRequest::Note { text } if summary.unread_notes.contains(text) => {
                    "note that no agent read: " (clean_line(text))
                }
                ControlRequest::Note { text } => { "note: " (clean_line(text)) }
                ControlRequest::TaskNote { task, text } => {
                    "note for " (clean_line(&task.0)) ": " (clean_line(text))
                }
                request => { (clean_line(&request.describe())) }
            }
            @if let Some(why) = &note.refused { ", refused: " (clean_line(why)) }
            @if let Some(by) = &note.by { " " span { (clean_line(by)) } }
        }))
        (render_list("Refused connections", &summary.refused, |text| html! { (clean_line(text)) }))
        (render_list("Warnings", &others, |text| html! { (clean_line(text)) }))
        (render_list("Amendments", &summary.amendments, |amendment| {
            let (before, after) = match (&amendment.refusal, &amendment.proposed) {
                (None, None) => (String::new(), &amendment.reason),
                (None, Some(id)) => (format!("proposed as {}: ", clean_line(id)), &amendment.reason),
                (Some(refusal), _) => ("refused: ".to_owned(), refusal),
            };
            html! { (before) (clean_line(&amendment.proposal)) " " span { (clean_line(after)) } }
        }))
        (render_list("Edits of the list", &summary.edits, |edit| html! { (clean_line(edit)) }))
    };
    render_section("Other events", &body)
}

/// Returns a list, newest first, collapsed if it is long; nothing if it is empty.
fn render_list<T>(title: &str, list: &LatestItems<T>, show: impl Fn(&T) -> Markup) -> Markup {
    let shown = list.latest.len().min(MOST_LISTED);
    html! {
        @if shown > 0 {
            details id=(make_anchor("list", title)) open[shown <= 12] {
                summary { (title) " " span { (list.count) } }
                ul.list {
                    @for item in list.latest.iter().rev().take(MOST_LISTED) {
                        li { (show(item)) }
                    }
                }
                (render_omitted((list.count as usize).saturating_sub(shown), "earlier one"))
            }
        }
    }
}

/// Returns a note on how many entries are missing.
pub(super) fn render_omitted(count: usize, what: &str) -> Markup {
    let are = if count == 1 { "is" } else { "are" };
    html! {
        @if count > 0 {
            p.note { (count) " " (what) (choose_plural(count)) " " (are) " not shown here." }
        }
    }
}
