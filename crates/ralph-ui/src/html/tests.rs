//! Pages of constructed runs: their content, that they are well formed, and that foreign text is
//! escaped.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use ralph_core::reporting::report::Report;
use ralph_core::reporting::stats::{GateRuns, RunStats, STATS_VERSION, StatsFigures, StatsRow};
use ralph_model::ids::{Role, RunId};
use ralph_model::outcome::Outcome;
use ralph_model::units::{Millis, Timestamp};

use super::*;
use crate::report::tests::{HOSTILE, long_report, night_report};

fn clock() -> WallClock {
    WallClock { zone: TimeZone::UTC, now: || Timestamp(0) }
}

fn page(report: &Report, standing: RunActivity, diff: &mut DiffReader<'_>) -> String {
    let summary = report.summary().expect("it has begun");
    let mut facts = PageInput {
        summary: &summary,
        timeline: report.timeline(),
        project: HOSTILE,
        status: standing,
        live: LiveFacts::default(),
        workers: &WorkerKeys::new(),
        clock: &clock(),
        diff: &mut |from, to| diff(from, to),
    };
    render_document("title </title><script>", &render_parts(&mut facts))
}

/// Returns the names of all tags and attributes. Panics where tags are not closed in order.
#[track_caller]
fn read_tags(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    const VOID: [&str; 3] = ["meta", "link", "input"];
    let (mut tags, mut attributes, mut open) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let inner = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if inner.starts_with('!') {
            continue;
        }
        if let Some(name) = inner.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in order before {rest:.80}");
            continue;
        }
        let (name, words) = inner.split_once(' ').unwrap_or((inner, ""));
        let name = name.trim_end_matches('/');
        tags.insert(name.to_owned());
        for piece in words.split('"').step_by(2) {
            let names = piece.trim_end_matches('=').split_whitespace();
            attributes.extend(names.map(|it| it.trim_matches('/').to_owned()));
        }
        if !VOID.contains(&name) && !inner.ends_with('/') {
            open.push(name.to_owned());
        }
        if name == "style" {
            rest = &rest[rest.find("</style>").expect("it ends")..];
        }
    }
    assert_eq!(open, Vec::<String>::new());
    attributes.remove("");
    (tags, attributes)
}

#[test]
fn nothing_that_agents_wrote_becomes_part_of_the_page() {
    let evil = "</pre></script><img src=x onerror=alert(1)><svg onload=alert(2)>\u{202e}\u{1b}[2J";
    let mut diff = |_: &TreeId, _: &TreeId| Ok(format!("diff --git a b\n+{evil}\n-x\n@@ 1 @@\n y"));
    for standing in [RunActivity::Active, RunActivity::Ended] {
        let page = page(&night_report(), standing, &mut diff);
        let (tags, attributes) = read_tags(&page);
        for forbidden in ["script", "img", "iframe", "object", "embed", "form", "base", "b"] {
            assert!(!tags.contains(forbidden), "{forbidden}");
        }
        let known = [
            "aria-hidden",
            "aria-label",
            "charset",
            "checked",
            "class",
            "content",
            "d",
            "datetime",
            "height",
            "href",
            "http-equiv",
            "id",
            "lang",
            "name",
            "open",
            "preserveAspectRatio",
            "rel",
            "role",
            "scope",
            "tabindex",
            "type",
            "viewBox",
            "width",
            "x",
            "y",
        ];
        let unknown: Vec<&String> =
            attributes.iter().filter(|name| !known.contains(&name.as_str())).collect();
        assert_eq!(unknown, Vec::<&String>::new());
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "control characters are gone");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "the text is there as text");
        assert!(page.contains("<title>title &lt;/title&gt;&lt;script&gt;</title>"));
    }
}

#[test]
fn ids_are_there_once_and_links_lead_somewhere() {
    let page = page(&night_report(), RunActivity::Ended, &mut |_, _| Ok("+x\n".into()));
    let all: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let ids: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(ids.len(), all.len(), "{all:?}");
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(target), "#{target}");
    }
    assert!(!page.contains("href=\"http"), "there is no link to elsewhere");
}

#[test]
fn the_page_begins_with_outcome_and_next_commands() {
    let report = night_report();
    let mut page = page(&report, RunActivity::Ended, &mut |_, _| Err("git has removed it".into()));
    page = page.split("</style>").nth(1).expect("a body").to_owned();
    let mut from = 0;
    for part in [
        "<h1>Not complete: 1 of 3 tasks done, 2 failed.</h1>",
        "<a href=\"#needs-you\">A question waits for you.</a>",
        "What to do next",
        "<code>git diff main...wip/ralph-fail-T2-20261114-231600</code>",
        "<dt>Tasks done</dt><dd>1 / 3</dd>",
        "<dt>Cost</dt><dd>$0.18</dd>",
        "<h2>What needs you</h2>",
        "T3: Send the mail</h3><p>needs an API key (it is missing)</p>",
        "stuck: the same error 3 times",
        "Approved only because",
        "<h2>Remaining tasks</h2>",
        "3 left before iteration 1, 2 left after iteration 9",
        "<h2>Iterations</h2>",
        "Iteration 1; implement passed; ",
        "<h2>Tasks</h2>",
        "<h2>Cost by role</h2>",
        "<h2>Gates</h2>",
        "57%",
        "<h2>Reviews</h2>",
        "<h2>Attempts</h2>",
        "gates failed",
        "exit code 0, 1.5s",
        "The diff is not available: git has removed it",
        "No tests.",
        "<h2>Where the work is</h2>",
        "1abcdef",
        "refs/ralph/kept/k3f9/8",
        "<h2>Other events</h2>",
        "the disk is nearly full",
    ] {
        let at = page[from..].find(part);
        from += at.unwrap_or_else(|| panic!("`{part}` is missing or too early: {}", &page[from..]));
    }
}

#[test]
fn a_sentence_states_the_outcome() {
    let night = night_report().summary().expect("it has begun");
    let check = |outcome: Option<Outcome>, standing, expect: &str| {
        let ending = outcome.as_ref().map(ToString::to_string);
        let summary = Summary { outcome, ending, ..night.clone() };
        assert_eq!(outcome::describe_outcome(&summary, standing), expect);
    };
    check(None, RunActivity::Active, "Running: 1 of 3 tasks done, 2 failed.");
    check(None, RunActivity::Ended, "Cut off: 1 of 3 tasks done, 2 failed.");
    check(Some(Outcome::Complete), RunActivity::Ended, "Complete: 1 of 3 tasks done, 2 failed.");
    check(
        Some(Outcome::Interrupted),
        RunActivity::Ended,
        "Stopped by you: 1 of 3 tasks done, 2 failed.",
    );
    check(
        Some(Outcome::IterationsUsedUp { limit: 3 }),
        RunActivity::Ended,
        "Not complete after 3 iterations (1 of 3 tasks done, 2 failed).",
    );
    let prompt =
        Summary { outcome: Some(Outcome::Complete), ending: None, progress: None, ..night.clone() };
    assert_eq!(outcome::describe_outcome(&prompt, RunActivity::Ended), "Complete.");
}

#[test]
fn the_page_of_a_long_run_stays_small() {
    let mut asked = 0;
    let mut diff = |_: &TreeId, _: &TreeId| {
        asked += 1;
        Ok("+<added>&\n".repeat(10_000))
    };
    let page = page(&long_report(1_000), RunActivity::Ended, &mut diff);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(asked <= 40, "{asked} diffs");
    read_tags(&page);
    for part in [
        "Each column stands for 16 iterations.",
        "800 earlier iterations are not shown here.",
        "960 earlier attempts are not shown here.",
        "more bytes are not shown here",
        "The diff is not shown: the page is long enough.",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_list_of_runs_links_to_each() {
    let listed = |state| ListedRun {
        key: "00-20261114-231500-k3f9".into(),
        run: "20261114-231500-k3f9".into(),
        project: HOSTILE.into(),
        started: Timestamp(0),
        iterations: 3,
        state,
    };
    let runs = [
        listed(ListedRunState::Active),
        listed(ListedRunState::Complete),
        listed(ListedRunState::CutOff),
        listed(ListedRunState::Ended("not complete: <b>".into())),
    ];
    let page = render_list_page(&runs, &clock());
    read_tags(&page);
    assert!(page.contains("<a href=\"run/00-20261114-231500-k3f9/\">"), "{page}");
    assert!(render_list_page(&[], &clock()).contains("There is no run yet."));
}

#[test]
fn statistics_escape_foreign_text_and_draw_each_run() {
    let run = |landed: u32, is_complete: bool| ChartedRun {
        key: "ab-1".to_owned(),
        stats: RunStats {
            version: STATS_VERSION,
            run: RunId("r".to_owned()),
            started: Timestamp(5),
            is_complete,
            rows: vec![StatsRow {
                agent: HOSTILE.to_owned(),
                model: HOSTILE.to_owned(),
                role: Role::Implement,
                figures: StatsFigures { landed, attempts: 3, ..StatsFigures::default() },
            }],
            gates: [(HOSTILE.to_owned(), GateRuns { runs: 4, failed: 1, ..GateRuns::default() })]
                .into(),
            waits: 1,
            waited: Millis(1_000),
        },
    };
    let page = render_stats_page(&[run(2, true), run(0, false)], &clock());
    assert!(!read_tags(&page).0.contains("script"), "{page}");
    assert!(page.contains("2 runs, 1 complete; 2 tasks landed, 3.0 attempts each"), "{page}");
    assert_eq!(page.matches("<rect class=\"good\"").count(), 1, "{page}");
    assert_eq!(page.matches("href=\"../run/ab-1/\"").count(), 2, "{page}");
    let many: Vec<ChartedRun> = (0..500).map(|_| run(1, true)).collect();
    let page = render_stats_page(&many, &clock());
    assert_eq!(page.matches("href=\"../run/ab-1/\"").count(), 60, "bounded");
    assert!(render_stats_page(&[], &clock()).contains("There is no run yet."));
}
