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
    session.sealed.write_file("ralph/tasks.json", "{ torn");
    session.commit();
    session.hook("session-start", &captured("sessionstart.json"));
    let reason = blocked(&session).expect("blocked");
    assert!(reason.contains("not valid JSON") && reason.contains("ralph/tasks.json"), "{reason}");
    for (stories, expect) in [
        (json!([story("US-1", &json!({"reviewCount": -1}))]), Some("userStories[0].reviewCount")),
        (json!([story("US-1", &json!({"dependsOn": ["US-7"]}))]), Some("userStories[0].dependsOn")),
        (json!([untouched(), untouched()]), Some("US-1")),
        (json!([untouched()]), None),
    ] {
        session.write_stories(&stories);
        session.commit();
        session.hook("session-start", &captured("sessionstart.json"));
        let reason = blocked(&session);
        let is_right = reason.is_some() == expect.is_some();
        let names = expect.zip(reason.as_deref()).is_none_or(|(part, whole)| whole.contains(part));
        assert!(is_right && names, "{stories}: {reason:?}");
    }
    std::fs::remove_file(session.sealed.project_dir().join("ralph/tasks.json")).expect("removed");
    session.commit();
    assert!(blocked(&session).expect("blocked").contains("no such file"));
}

#[test]
fn removed_and_changed_settings_of_the_list_are_reported() {
    let mut session = Session::new();
    session.begin(&json!([untouched()]));
    session.hook("session-start", &captured("sessionstart.json"));
    let list = json!({
        "project": "other", "description": "A site",
        "userStories": [at("needs_review".into(), 0, "", false)],
    });
    session.sealed.write_file("ralph/tasks.json", &list.to_string());
    session.commit();
    let reason = blocked(&session).expect("blocked");
    for part in [
        "`project` went from \"site\" to \"other\"",
        "`branchName` went from \"ralph/site\" to none",
        "Set it back to \"ralph/site\".",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn without_a_snapshot_only_the_list_itself_is_judged() {
    let mut session = Session::new();
    for (after, expect) in [
        (at("needs_review".into(), 0, "", true), Some("not \"approved\"")),
        (at(Value::Null, 7, "", false), Some("6 reviews at most")),
        (at("approved".into(), 1, "", true), None),
    ] {
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
        let reason = answer["reason"].as_str();
        assert_eq!(reason.is_some(), expect.is_some(), "{after}: {reason:?}");
        assert!(reason.unwrap_or_default().contains(expect.unwrap_or_default()), "{reason:?}");
    }
}

/// All rules are tried in `ralph_core::tasks::rules`.
#[test]
fn every_role_may_change_only_its_fields() {
    let mut session = Session::new();
    let new = || json!([untouched()]);
    let waiting = || json!([at("needs_review".into(), 1, "", false)]);
    let refused = || json!([at("changes_requested".into(), 1, "fix it", false)]);
    for row in [
        row("implement", new(), json!([at("needs_review".into(), 0, "", false)]), None),
        row(
            "implement",
            new(),
            json!([at("approved".into(), 1, "", true)]),
            "implement iterations cannot approve",
        ),
        row("implement", new(), json!([]), "no iteration removes stories"),
        row("review", waiting(), json!([at("approved".into(), 2, "", true)]), None),
        row("review", waiting(), waiting(), "a review adds 1"),
        row("review-fix", refused(), json!([at("needs_review".into(), 1, "", false)]), None),
        row(
            "review-fix",
            refused(),
            json!([at("approved".into(), 1, "", true)]),
            "fix iterations cannot approve",
        ),
    ] {
        check(&mut session, &row);
    }
    session.active.skip_review = true;
    for (after, expect) in [
        (at("needs_review".into(), 3, "", true), None),
        (story("US-1", &json!({"passes": true, "notes": ""})), Some("`notes` is empty")),
    ] {
        check(&mut session, &row("implement", new(), json!([after]), expect));
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
