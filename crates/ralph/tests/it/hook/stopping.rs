//! An agent that tries to stop.

use ralph_model::hook_state::Committer;
use ralph_model::task::ListOwner;
use serde_json::{Value, json};

use super::{Session, captured, story};

/// Returns the reason why the session may not stop.
#[track_caller]
fn blocked(session: &Session) -> Option<String> {
    let answer = session.hook("stop", &captured("stop.json"));
    let decision = answer.get("decision")?;
    assert_eq!(decision, "block");
    Some(answer["reason"].as_str().expect("a reason").to_owned())
}

/// A row: the mode, the stories before, the stories after, and the expected reason, if there is
/// one.
struct Row {
    mode: &'static str,
    before: Value,
    after: Value,
    expect: Option<&'static str>,
}

fn row(
    mode: &'static str,
    before: Value,
    after: Value,
    expect: impl Into<Option<&'static str>>,
) -> Row {
    Row { mode, before, after, expect: expect.into() }
}

#[track_caller]
fn check(session: &mut Session, row: &Row) {
    session.active.iteration_mode = Some(row.mode.to_owned());
    // Any one story may change, as if the agent chose it.
    session.active.task = None;
    session.begin(&row.before);
    session.write_stories(&row.after);
    session.commit();
    session.hook("session-start", &captured("sessionstart.json"));
    let reason = blocked(session);
    let is_right = match (row.expect, &reason) {
        (Some(expect), Some(reason)) => reason.contains(expect),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    assert!(is_right, "{}: {} -> {}: {reason:?}", row.mode, row.before, row.after);
}

/// One story in a given review state.
fn at(status: Value, count: u32, feedback: &str, passes: bool) -> Value {
    story(
        "US-1",
        &json!({"reviewStatus": status, "reviewCount": count, "reviewFeedback": feedback, "passes": passes}),
    )
}

fn untouched() -> Value {
    at(Value::Null, 0, "", false)
}

#[test]
fn invalid_list_is_refused_with_positions() {
    let mut session = Session::new();
    session.begin(&json!([untouched()]));
    for (text, expect) in [
        ("{ torn", "not valid JSON"),
        ("", "is empty"),
        ("{}", "has no tasks"),
        (r#"{"userStories": 7}"#, "userStories"),
        (r#"{"userStories": [{"id": "US-1"}]}"#, "userStories[0]"),
    ] {
        session.sealed.write_file("ralph/tasks.json", text);
        session.commit();
        session.hook("session-start", &captured("sessionstart.json"));
        let reason = blocked(&session).expect("blocked");
        assert!(reason.contains(expect) && reason.contains("ralph/tasks.json"), "{reason}");
    }
    for (further, expect) in [
        (json!({"reviewCount": -1}), "userStories[0].reviewCount"),
        (json!({"passes": "yes"}), "userStories[0].passes"),
        (json!({"reviewStatus": "fine"}), "userStories[0].reviewStatus"),
        (json!({"acceptanceCriteria": []}), "userStories[0].acceptanceCriteria"),
        (json!({"dependsOn": ["US-7"]}), "userStories[0].dependsOn"),
    ] {
        session.write_stories(&json!([story("US-1", &further)]));
        session.commit();
        session.hook("session-start", &captured("sessionstart.json"));
        let reason = blocked(&session).expect("blocked");
        assert!(reason.contains(expect), "{further}: {reason}");
    }
    session.write_stories(&json!([untouched(), untouched()]));
    session.commit();
    assert!(blocked(&session).expect("blocked").contains("US-1"));
    session.write_stories(&json!([untouched()]));
    session.commit();
    assert_eq!(blocked(&session), None);
    std::fs::remove_file(session.sealed.project_dir().join("ralph/tasks.json")).expect("removed");
    session.commit();
    assert!(blocked(&session).expect("blocked").contains("no such file"));
}

#[test]
fn contradictory_list_is_refused() {
    let mut session = Session::new();
    // Without a snapshot only the list itself can be judged.
    let mut check = |after: Value, expect: Option<&str>| {
        session.begin(&json!([untouched()]));
        session.active.pre_iteration_snapshot = None;
        session.publish();
        session.write_stories(&json!([after]));
        session.commit();
        session.hook("session-start", &captured("sessionstart.json"));
        let answer = session.hook("stop", &captured("stop.json"));
        let message =
            answer["systemMessage"].as_str().expect("a message about the missing snapshot");
        assert!(message.contains("no record"), "{message}");
        let reason = answer["reason"].as_str().map(str::to_owned);
        let is_right = match (expect, &reason) {
            (Some(expect), Some(reason)) => reason.contains(expect) && reason.contains("US-1"),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(is_right, "{after}: {reason:?}");
    };
    check(at(Value::Null, 0, "", true), Some("not \"approved\""));
    check(at("needs_review".into(), 0, "", true), Some("not \"approved\""));
    check(at("changes_requested".into(), 1, "x", true), Some("not \"approved\""));
    check(at("approved".into(), 1, "", true), None);
    check(at("changes_requested".into(), 1, "", false), Some("needs feedback"));
    check(at("approved".into(), 1, "", false), Some("go together"));
    check(at(Value::Null, 7, "", false), Some("6 reviews at most"));
    let silent = story("US-1", &json!({"passes": true, "reviewStatus": "approved", "notes": ""}));
    check(silent, Some("`notes` is empty"));
}

#[test]
fn review_status_is_refused_without_reviews() {
    let mut session = Session::new();
    session.active.skip_review = true;
    for (mode, after) in [
        ("implement", at(Value::Null, 0, "", true)),
        ("implement", at("needs_review".into(), 3, "", true)),
        ("review", untouched()),
    ] {
        check(&mut session, &row(mode, json!([untouched()]), json!([after]), None));
    }
    let silent = story("US-1", &json!({"passes": true, "notes": ""}));
    let silent = row("implement", json!([untouched()]), json!([silent]), "`notes` is empty");
    check(&mut session, &silent);
}

#[test]
fn implementer_may_change_only_its_fields() {
    let mut session = Session::new();
    let before = || json!([untouched(), story("US-2", &json!({}))]);
    let one = |first: Value| json!([first, story("US-2", &json!({}))]);
    let added =
        |further: Value| json!([untouched(), story("US-2", &json!({})), story("US-3", &further)]);
    for row in [
        row("implement", before(), before(), None),
        row("implement", before(), one(at("needs_review".into(), 0, "", false)), None),
        row(
            "implement",
            before(),
            one(at(Value::Null, 0, "", true)),
            "`passes` went from false to true, but implement iterations cannot approve",
        ),
        row(
            "implement",
            before(),
            one(at("approved".into(), 0, "", false)),
            "`reviewStatus` went from null to \"approved\", but implement iterations cannot approve",
        ),
        // The end of this one is consistent.
        row(
            "implement",
            before(),
            one(at("approved".into(), 1, "", true)),
            "implement iterations cannot approve",
        ),
        row(
            "implement",
            before(),
            one(at(Value::Null, 1, "", false)),
            "`reviewCount` went from 0 to 1",
        ),
        row("implement", before(), added(json!({})), None),
        row(
            "implement",
            before(),
            added(json!({"passes": true})),
            "a new story starts without progress",
        ),
        row("implement", before(), json!([untouched()]), "no iteration removes stories"),
        row(
            "implement",
            before(),
            one(story("US-1", &json!({"acceptanceCriteria": ["Less"]}))),
            "only users change what a story asks for",
        ),
        row(
            "implement",
            before(),
            json!([
                at("needs_review".into(), 0, "", false),
                story("US-2", &json!({"reviewStatus": "needs_review"}))
            ]),
            "moved several",
        ),
    ] {
        check(&mut session, &row);
    }
}

#[test]
fn a_review_gives_one_verdict() {
    let mut session = Session::new();
    let waits = |id: &str| story(id, &json!({"reviewStatus": "needs_review", "reviewCount": 1}));
    let before = || json!([waits("US-1"), waits("US-2")]);
    let one = |first: Value| json!([first, waits("US-2")]);
    let approved = |id: &str| {
        story(id, &json!({"reviewStatus": "approved", "reviewCount": 2, "passes": true}))
    };
    for row in [
        row("review", before(), one(approved("US-1")), None),
        row("review", before(), one(at("changes_requested".into(), 2, "fix it", false)), None),
        row("review", before(), before(), "a review adds 1"),
        row(
            "review",
            before(),
            one(at("approved".into(), 1, "", true)),
            "`reviewCount` is still 1",
        ),
        row("review", before(), one(at("approved".into(), 3, "", true)), "adds exactly 1"),
        row("review", before(), json!([approved("US-1"), approved("US-2")]), "moved several"),
        row("review", before(), one(at("changes_requested".into(), 2, "", false)), "US-1"),
    ] {
        check(&mut session, &row);
    }
}

#[test]
fn a_fix_goes_back_to_review() {
    let mut session = Session::new();
    let before = || json!([at("changes_requested".into(), 1, "fix it", false)]);
    for row in [
        row("review-fix", before(), json!([at("needs_review".into(), 1, "", false)]), None),
        row(
            "review-fix",
            before(),
            json!([at("needs_review".into(), 1, "", true)]),
            "`passes` went from false to true, but fix iterations cannot approve",
        ),
        row(
            "review-fix",
            before(),
            json!([at("approved".into(), 1, "", true)]),
            "fix iterations cannot approve",
        ),
        row(
            "review-fix",
            before(),
            json!([at("needs_review".into(), 2, "", false)]),
            "`reviewCount` went from 1 to 2, but fix iterations leave the count alone",
        ),
        row(
            "review-fix",
            before(),
            json!([at("needs_review".into(), 1, "fix it", false)]),
            "`reviewFeedback`",
        ),
    ] {
        check(&mut session, &row);
    }
}

#[test]
fn only_the_current_task_may_change() {
    let mut session = Session::new();
    session.begin(&json!([untouched(), story("US-2", &json!({}))]));
    session.write_stories(&json!([
        untouched(),
        story("US-2", &json!({"reviewStatus": "needs_review"}))
    ]));
    session.commit();
    assert!(blocked(&session).expect("blocked").contains("this iteration is about US-1 alone"));
}

#[test]
fn work_is_committed_where_the_agent_commits() {
    let mut session = Session::new();
    session.begin(&json!([untouched()]));
    session.sealed.write_file("src/new.txt", "new");
    session.sealed.write_file("ralph/tasks.json.bak", "ralph's own");
    session.sealed.write_file(".ralph/state.json", "ralph's own");
    let reason = blocked(&session).expect("blocked");
    assert!(reason.contains("uncommitted") && reason.contains("src/new.txt"), "{reason}");
    assert!(!reason.contains(".bak") && !reason.contains("state.json"), "{reason}");
    session.active.commit = Some(Committer::Ralph);
    session.publish();
    assert_eq!(blocked(&session), None);
    session.active.commit = Some(Committer::Agent);
    session.active.keeper = None;
    session.active.tasks_file = None;
    session.publish();
    assert!(blocked(&session).expect("blocked").contains("src/new.txt"));
    std::fs::remove_file(session.sealed.project_dir().join("src/new.txt")).expect("removed");
    std::fs::remove_file(session.sealed.project_dir().join("ralph/tasks.json.bak"))
        .expect("removed");
    assert_eq!(blocked(&session), None);
}

#[test]
fn list_owned_by_ralph_is_not_checked() {
    let mut session = Session::new();
    session.active.keeper = Some(ListOwner::Ralph);
    session.active.commit = Some(Committer::Ralph);
    session.begin(&json!([untouched()]));
    session.sealed.write_file("ralph/tasks.json", "{ torn");
    assert_eq!(blocked(&session), None);
}

#[test]
fn stop_hook_gives_up_before_its_block_limit() {
    for (cap, expect) in [(None, 6), (Some("4"), 2), (Some("1"), 1), (Some("many"), 6)] {
        let mut session = Session::new().with("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", cap);
        session.begin(&json!([untouched()]));
        session.sealed.write_file("new.txt", "new");
        let mut blocks = 0;
        while blocked(&session).is_some() {
            blocks += 1;
            assert!(blocks < 20, "it has to end");
        }
        assert_eq!(blocks, expect, "{cap:?}");
        let answer = session.hook("stop", &captured("stop-active.json"));
        let message = answer["systemMessage"].as_str().expect("it says so");
        assert!(message.contains("new.txt"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn uncountable_blocks_are_limited_to_one() {
    let mut session = Session::new();
    session.begin(&json!([untouched()]));
    session.sealed.write_file("new.txt", "new");
    let hooks = session.file().with_file_name("hooks");
    std::fs::write(hooks, "in the way").expect("written");
    assert!(blocked(&session).is_some());
    let answer = session.hook("stop", &captured("stop-active.json"));
    assert_eq!(answer["decision"], Value::Null);
}

#[test]
fn other_sessions_may_stop() {
    let dirty = |mut session: Session| {
        session.begin(&json!([untouched()]));
        session.write_stories(&json!([at("approved".into(), 1, "", true)]));
        session
    };
    assert!(blocked(&dirty(Session::new())).is_some());
    let mut other = dirty(Session::new());
    other.id = "0f0e0d0c-15f7-412d-bbe9-3da0bd9b52a6".into();
    assert_eq!(blocked(&other), None);
    assert_eq!(blocked(&dirty(Session::new().with("RALPH_ACTIVE", None))), None);
    assert_eq!(blocked(&dirty(Session::new().with("RALPH_RUN_ID", None))), None);
    let mut stale = Session::new();
    stale.active.pid = i32::MAX.cast_unsigned();
    assert_eq!(blocked(&dirty(stale)), None);
    let mut gate = Session::new();
    gate.active.iteration_mode = Some("gate".into());
    assert_eq!(blocked(&dirty(gate)), None);
}

#[test]
fn unknown_snapshot_version_is_reported() {
    let mut session = Session::new();
    session.begin(&json!([untouched()]));
    let mut active = serde_json::to_value(&session.active).expect("serializable");
    active["preIterationSnapshot"] = json!({"US-1": {"passes": false}});
    session.publish_text(&active.to_string());
    let answer = session.hook("stop", &captured("stop.json"));
    assert!(answer["systemMessage"].as_str().expect("a message").contains("no record"));
    assert_eq!(answer["decision"], Value::Null);
}
