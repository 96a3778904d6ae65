//! The log of attempts and its escalations.

use ralph_model::ids::IterationNumber;
use ralph_model::stuck::ErrorHash;
use ralph_model::worktree::TreeId;

use super::*;

const POLICY: StuckPolicy = StuckPolicy { after: 3, strategy_shifts: 2 };

fn attempt(hash: &str) -> Attempt {
    Attempt {
        iteration: IterationNumber(1),
        gate: "tests".into(),
        exit_code: 1,
        hash: ErrorHash(hash.into()),
        failing: Vec::new(),
        tree: None,
        summary: String::new(),
        files: vec!["src/auth.ts".into()],
        escalation: Escalation::None,
    }
}

fn output(text: &str) -> Vec<FailedOutput> {
    vec![FailedOutput { title: "Test Output (verbatim)".into(), text: text.into() }]
}

/// Adds the failures one by one, and returns the escalation of each.
fn escalate(attempts: &[Attempt], text: &str) -> Vec<Escalation> {
    let mut log = AttemptLog::default();
    let mut escalations = Vec::new();
    for attempt in attempts {
        let next = assess_escalation(&log, attempt, &output(text), POLICY);
        log.add_failure(attempt.clone(), output(text), next);
        escalations.push(next);
    }
    escalations
}

#[test]
fn the_same_failure_escalates_by_tiers() {
    use Escalation::{ContextExpansion, HardStop, None, StrategyShift};
    let same = vec![attempt("a"); 6];
    assert_eq!(
        escalate(&same, "boom"),
        [None, None, StrategyShift, StrategyShift, HardStop, HardStop]
    );
    assert_eq!(
        escalate(&same, "NameError: name 'x' is not defined"),
        [None, None, StrategyShift, ContextExpansion, StrategyShift, HardStop]
    );
}

#[test]
fn different_failures_do_not_escalate() {
    let attempts = ["a", "b", "a", "b", "c"].map(attempt);
    assert_eq!(escalate(&attempts, "boom"), [Escalation::None; 5]);
}

#[test]
fn an_unchanged_tree_or_test_list_is_stuck_whatever_the_error_text() {
    let trees =
        ["a", "b", "c"].map(|hash| Attempt { tree: Some(TreeId("t".into())), ..attempt(hash) });
    assert_eq!(escalate(&trees, "boom")[2], Escalation::StrategyShift);
    let tests = ["a", "b", "c"].map(|hash| Attempt { failing: vec!["t1".into()], ..attempt(hash) });
    assert_eq!(escalate(&tests, "boom")[2], Escalation::StrategyShift);
}

#[test]
fn the_attempt_log_is_bounded() {
    let mut log = AttemptLog::default();
    for number in 0..50 {
        log.add_failure(attempt(&number.to_string()), output("x"), Escalation::None);
    }
    assert_eq!((log.failed, log.recent.len(), log.outputs.len()), (50, 3, 1));
}

#[test]
fn the_record_is_verbatim() {
    let mut log = AttemptLog::default();
    for _ in 0..2 {
        log.add_failure(attempt("a3f2b7c1"), output("old"), Escalation::None);
    }
    let shifted = Attempt {
        escalation: Escalation::StrategyShift,
        gate: "spec".into(),
        ..attempt("c4d5e6f7")
    };
    let outputs = vec![
        FailedOutput {
            title: "Spec Reviewer Output (verbatim)".into(),
            text: "Missing: reset".into(),
        },
        FailedOutput { title: "Test Output (verbatim)".into(), text: "has\n```\nfences".into() },
    ];
    log.add_failure(shifted, outputs, Escalation::None);
    let text = format_record(AttemptRecord {
        task: &TaskId("auth-feature".into()),
        limit: 5,
        log: &log,
        at: Timestamp(1_768_991_400_000),
    });
    expect_test::expect![[r"
        ---
        task_id: auth-feature
        iteration: 3
        max_iterations: 5
        last_gate: spec
        exit_code: 1
        error_hash: c4d5e6f7
        timestamp: 2026-01-21T10:30:00Z
        stuck_count: 1
        strategy_shifts: 0
        files_modified:
          - src/auth.ts
        ---

        ## Spec Reviewer Output (verbatim)
        ```
        Missing: reset
        ```

        ## Test Output (verbatim)
        ````
        has
        ```
        fences
        ````

        ## Attempt History
        | # | Gate | Error Hash | Strategy Shift |
        |---|------|------------|----------------|
        | 1 | tests | a3f2b7c1 | no |
        | 2 | tests | a3f2b7c1 | no |
        | 3 | spec | c4d5e6f7 | yes |
    "]]
    .assert_eq(&text.expect("there were attempts"));
    assert_eq!(
        format_record(AttemptRecord {
            task: &TaskId("t".into()),
            limit: 5,
            log: &AttemptLog::default(),
            at: Timestamp(0)
        }),
        None
    );
}

#[test]
fn names_that_yaml_misreads_are_quoted() {
    let quoted = |word: &str| serde_json::Value::from(word).to_string();
    for (word, expect) in [
        ("TASK-001", "TASK-001"),
        ("a: b", "\"a: b\""),
        ("", "\"\""),
        ("yes", "\"yes\""),
        ("12", "\"12\""),
        ("- x", "\"- x\""),
        ("src/a b.rs", "src/a b.rs"),
    ] {
        assert_eq!(quote_unless_plain(word, quoted), expect, "{word:?}");
    }
}

#[test]
fn long_outputs_keep_both_ends() {
    let long: Vec<String> = (1..=130).map(|line| line.to_string()).collect();
    let cut = cut_output(&long.join("\n"));
    assert!(cut.starts_with("1\n2\n") && cut.ends_with("129\n130"), "{cut}");
    assert!(cut.contains("\n20\n[... 30 lines truncated ...]\n51\n"), "{cut}");
    let mut long: Vec<String> = (1..=1000).map(|line| line.to_string()).collect();
    long[499] = "Error: 500".to_owned();
    let cut = cut_output(&long.join("\n"));
    let middle = "\n10\n[... 489 lines truncated ...]\nError: 500\n501\n502\n503\n504\n505\n506\n507\n508\n509\n[... 411 lines truncated ...]\n921\n";
    assert!(cut.contains(middle), "{cut}");
    assert_eq!(cut.lines().count(), 102);
    assert_eq!(cut_output("a\nb\n\n"), "a\nb");
}

#[test]
fn paths_are_found_in_error_output() {
    let text = "error: src/a.rs:12:3 is bad\n  File \"lib/b.py\", line 2\n/etc/x.conf ../up.rs 1.5 v1.2.3 a.rs a.rs";
    assert_eq!(find_named_paths([text]), ["src/a.rs", "lib/b.py", "a.rs"]);
}
