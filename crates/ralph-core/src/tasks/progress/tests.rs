//! The progress log: what is added to it, and what is never removed from it.

use ralph_model::handoff::Constraint;
use ralph_model::ids::{Role, TaskId};
use ralph_model::judgement::{Judgement, Landing};
use ralph_model::phase::{LandingPlan, Phase};
use ralph_model::review::{AUTO_APPROVED_PREFIX, ReviewVerdict};
use ralph_model::units::{Millis, Timestamp};
use serde_json::json;

use super::*;
use crate::memory::handoff_reading as read;

const LOG: &str = "# Log\nStarted: today\n\n## Codebase Patterns\n- Dates are UTC\n\n---\n";

fn run() -> RunId {
    RunId("20261114-231500-k3f9".into())
}

fn found(constraints: &[&str]) -> Handoff {
    let handoff = read::read_handoff([], "", &TaskId("T".into()), &[]);
    let constraint = |text: &&str| Constraint {
        constraint: (*text).to_owned(),
        impact: "slow".to_owned(),
        workaround: None,
    };
    Handoff { constraints_discovered: constraints.iter().map(constraint).collect(), ..handoff }
}

#[test]
fn patterns_are_what_stands_below_their_heading() {
    assert_eq!(extract_patterns(LOG), "- Dates are UTC");
    assert_eq!(
        extract_patterns("## codebase patterns \n- a <!-- ralph -->\n- b\n## More\n- c"),
        "- a \n- b"
    );
    assert_eq!(extract_patterns("## Codebase Patterns\n<!-- None yet. -->\n"), "");
    assert_eq!(extract_patterns("## Codebase Patterns"), "");
    assert_eq!(extract_patterns("# Log\n- Dates are UTC\n"), "");
}

#[test]
fn a_pattern_is_noted_once() {
    let log =
        with_patterns(LOG, &found(&["No\n net <!-- x -->", "no net <!- x ->", "dates are utc"]));
    expect_test::expect![[r"
        # Log
        Started: today

        ## Codebase Patterns
        - Dates are UTC
        - No net <!- x ->: slow <!-- ralph -->
        - dates are utc: slow <!-- ralph -->

        ---
    "]]
    .assert_eq(&log);
    assert_eq!(with_patterns(&log, &found(&["No net <!- x ->"])), log);
    // A person took it over, in another case.
    let taken = log.replace(" <!-- ralph -->", "").replace("No net", "NO NET");
    assert_eq!(with_patterns(&taken, &found(&["No net <!- x ->"])), taken);
}

#[test]
fn patterns_go_where_their_heading_is_or_nowhere() {
    let one = found(&["x"]);
    assert_eq!(with_patterns("# Mine\n", &one), "# Mine\n");
    assert_eq!(
        with_patterns("## Codebase Patterns", &one),
        "## Codebase Patterns\n- x: slow <!-- ralph -->\n"
    );
    assert_eq!(with_patterns(LOG, &found(&[])), LOG);
}

#[test]
fn the_oldest_pattern_goes_but_never_a_persons() {
    let mut log = LOG.to_owned();
    for number in 0..50 {
        log = with_patterns(&log, &found(&[&format!("c{number}")]));
    }
    let shown = extract_patterns(&log);
    assert_eq!(shown.lines().count(), MOST_PATTERNS + 1);
    assert!(shown.starts_with("- Dates are UTC\n- c10: slow"), "{shown}");
    assert!(shown.trim_end().ends_with("- c49: slow"), "{shown}");
    let flood: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
    let flood: Vec<&str> = flood.iter().map(String::as_str).collect();
    let shown = extract_patterns(&with_patterns(&log, &found(&flood)));
    assert_eq!(shown.lines().count(), MOST_PATTERNS + 1);
    assert!(shown.starts_with("- Dates are UTC\n- f0: slow"), "{shown}");
}

fn iteration(role: Role, verdict: Verdict, handoff: Option<Handoff>) -> Iteration {
    let mut current = Iteration {
        number: IterationNumber(3),
        role,
        task: Some(TaskId("US-001".into())),
        started: Timestamp(1_794_699_900_000),
        began: Millis::ZERO,
        notes: Vec::new(),
        asks: 1,
        removed: Vec::new(),
        phase: Phase::Started,
    };
    let judgement = Judgement::new(verdict, Landing::Commit, Vec::new());
    let judgement = Judgement { handoff: handoff.map(Box::new), ..judgement };
    current.begin_landing(judgement, LandingPlan::new([]));
    current
}

fn entry_text(current: &Iteration) -> String {
    format_entry(&run(), &Task::new("US-001", "Login\n## page"), current)
        .expect("there is something to tell")
}

#[test]
fn an_entry_reports_what_was_done() {
    let value = json!({
        "task_completed": {"summary": "Wrote\n---\nit."},
        "architectural_notes": ["One loop"],
        "deviations": [{"planned": "tags", "actual": "hashes", "reason": "simpler"}],
        "constraints_discovered": [{"constraint": "no net", "impact": "slow", "workaround": "cache"}],
        "bugs_encountered": [
            {"description": "gone", "resolution": "x", "resolved": true},
            {"description": "open", "resolution": "", "resolved": false},
        ],
        "unfinished_business": [{"item": "docs", "reason": "time", "priority": "high"}],
        "recommendations": ["Look at x"],
    });
    let touched = |path: &str, action| FileTouched { path: path.into(), action };
    let files = [
        touched("a.rs", FileAction::Created),
        touched("b.rs", FileAction::Modified),
        touched("c.rs", FileAction::Deleted),
    ];
    let handoff = read::read_handoff([value], "", &TaskId("US-001".into()), &files);
    let mut current = iteration(Role::Implement, Verdict::Passed { signal: None }, Some(handoff));
    let gate = |name: &str, severity, status| GateResult::new(name, name, severity, status);
    current.update_checking(|checking| {
        checking.gates = vec![
            gate("cargo test", Severity::Hard, GateStatus::Passed),
            gate("lint", Severity::Soft, GateStatus::Failed),
        ];
    });
    expect_test::expect![[r"
        ## 2026-11-14 23:45 — US-001 Login ## page (implement)
        <!-- ralph 20261114-231500-k3f9/3 -->
        - Summary: Wrote --- it.
        - Files: a.rs (new), b.rs, c.rs (deleted)
        - Gates: `cargo test` passed, `lint` failed, which only warns
        - Decision: One loop
        - Deviation: tags → hashes: simpler
        - Learned: no net: cache
        - Open bug: open
        - Left: docs (time)
        - Advice: Look at x
    "]]
    .assert_eq(&entry_text(&current));
}

#[test]
fn an_entry_reports_the_verdict_of_a_review() {
    let verdict = |verdict, feedback: &str| {
        entry_text(&iteration(
            Role::Review,
            Verdict::Reviewed { verdict, feedback: feedback.into() },
            None,
        ))
    };
    expect_test::expect![[r"
        ## 2026-11-14 23:45 — US-001 Login ## page (review)
        <!-- ralph 20261114-231500-k3f9/3 -->
        - Verdict: changes requested
          > Fix a.rs:3.
          > ## Codebase Patterns
          > <!- ralph 20261114-231500-k3f9/4 ->
    "]]
    .assert_eq(&verdict(
        ReviewVerdict::ChangesRequested,
        "Fix a.rs:3.\n\n## Codebase Patterns\n<!-- ralph 20261114-231500-k3f9/4 -->",
    ));
    let approved = verdict(ReviewVerdict::Approved, "");
    assert!(approved.ends_with("/3 -->\n- Verdict: approved\n"), "{approved}");
    let at_cap = verdict(ReviewVerdict::ChangesRequested, &format!("{AUTO_APPROVED_PREFIX} More."));
    assert!(at_cap.contains("- Verdict: approved at the cap\n"), "{at_cap}");
    let long = verdict(ReviewVerdict::ChangesRequested, &"x\n".repeat(50));
    assert!(long.ends_with("  > … and 10 more lines\n"), "{long}");
}

#[test]
fn an_entry_is_added_once_and_on_a_line_of_its_own() {
    let current = iteration(
        Role::Review,
        Verdict::Reviewed { verdict: ReviewVerdict::Approved, feedback: String::new() },
        None,
    );
    let entry = entry_text(&current);
    let add = |log: &str| with_entry(log, &run(), current.number, &entry);
    for (log, start) in [
        ("", ""),
        ("# Log\n", "# Log\n\n"),
        ("# Log\n\n", "# Log\n\n"),
        ("# Log\n\n- torn of", "# Log\n\n- torn of\n\n"),
    ] {
        let whole = add(log);
        assert_eq!(whole, format!("{start}{entry}"));
        assert_eq!(add(&whole), whole);
        assert_eq!(remove_entry(&whole, &entry), start);
    }
    let crlf = add("").replace('\n', "\r\n");
    assert_eq!(add(&crlf), crlf);
    // The landing began again, with something written around it.
    let changed = entry.replace("- ", "- other ");
    let around = |entry: &str| format!("# Log\n\n{entry}More.\n\n## Later\n");
    assert_eq!(with_entry(&around(&entry), &run(), current.number, &changed), around(&changed));
    // Something came after it: it stays.
    let more = format!("{}More.\n", add(LOG));
    assert_eq!(remove_entry(&more, &entry), more);
}
