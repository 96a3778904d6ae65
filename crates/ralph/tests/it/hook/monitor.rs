//! The context monitor.

use std::fs;
use std::path::Path;

use ralph_model::task::ListOwner;
use serde_json::{Value, json};

use super::{Session, captured, data};

/// Returns a transcript line with this context size.
fn answer(tokens: u64, model: &str) -> String {
    let record = json!({
        "type": "assistant",
        "isSidechain": false,
        "message": { "model": model, "usage": {
            "input_tokens": 10, "cache_read_input_tokens": tokens - 30,
            "cache_creation_input_tokens": 15, "output_tokens": 5,
        }},
    });
    format!("{record}\n")
}

fn transcript(session: &Session, text: &str) -> Value {
    let path = session.sealed.root().join("transcript.jsonl");
    fs::write(&path, text).expect("written");
    let mut input = captured("posttooluse.json");
    input["transcript_path"] = path.display().to_string().into();
    input
}

/// Returns the first word of the alert, if there is one.
#[track_caller]
fn alert(session: &Session, event: &str, input: &Value) -> Option<String> {
    let answer = session.hook(event, input);
    let output = answer.get("hookSpecificOutput")?;
    assert_eq!(output["hookEventName"], input["hook_event_name"]);
    let text = output["additionalContext"].as_str().expect("text");
    text.split_once(':').map(|(word, _)| word.to_owned())
}

fn foreign() -> Session {
    Session::in_environment(crate::sealed()).with("RALPH_ACTIVE", None).with("RALPH_RUN_ID", None)
}

#[test]
fn each_threshold_is_reported_once_per_session() {
    let own = Session::new();
    own.publish();
    for session in [foreign(), own] {
        let mut reported = Vec::new();
        for percent in [10, 49, 50, 51, 62, 63, 75, 76, 81, 90, 95] {
            let input = transcript(&session, &answer(percent * 2_000, "claude-opus-4-6"));
            reported.extend(alert(&session, "post-tool-use", &input).map(|word| (percent, word)));
            assert_eq!(alert(&session, "post-tool-use", &input), None, "reported already");
        }
        let expect =
            [(50, "NOTICE"), (62, "NOTICE"), (75, "WARNING"), (81, "WARNING"), (90, "CRITICAL")];
        assert_eq!(reported, expect.map(|(percent, word)| (percent, word.to_owned())));
    }
}

#[test]
fn restarted_session_is_alerted_again() {
    let session = foreign();
    let input = transcript(&session, &answer(150_000, "claude-opus-4-6"));
    for start in ["sessionstart.json", "sessionstart-after-compaction.json"] {
        assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), Some("WARNING"));
        assert_eq!(alert(&session, "post-tool-use", &input), None);
        assert_eq!(session.hook("session-start", &captured(start)), Value::Null);
    }
    assert!(alert(&session, "post-tool-use", &input).is_some());
}

#[test]
fn batch_event_is_handled_like_a_single_tool() {
    let session = foreign();
    let mut batch = captured("posttoolbatch.json");
    let input = transcript(&session, &answer(150_000, "claude-opus-4-6"));
    batch["transcript_path"] = input["transcript_path"].clone();
    assert_eq!(alert(&session, "post-tool-batch", &batch).as_deref(), Some("WARNING"));
    assert_eq!(alert(&session, "post-tool-use", &input), None, "reported already");
}

#[test]
fn advice_depends_on_the_list_owner() {
    let mut session = Session::new();
    for (keeper, expect) in [
        (Some(ListOwner::Agent), "progress.txt"),
        (Some(ListOwner::Ralph), "handoff"),
        (None, "next iteration"),
    ] {
        session.active.keeper = keeper;
        session.publish();
        session.hook("session-start", &captured("sessionstart.json"));
        let input = transcript(&session, &answer(190_000, "claude-opus-4-6"));
        let answer = session.hook("post-tool-use", &input);
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("text");
        assert!(text.contains(expect), "{text}");
    }
}

#[test]
fn window_size_comes_from_ralph_user_or_model() {
    let check = |session: Session, model: &str, expect: Option<&str>| {
        let input = transcript(&session, &answer(150_000, model));
        assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), expect);
    };
    check(foreign(), "claude-opus-5-5", None);
    check(foreign(), "claude-sonnet-4-5", Some("WARNING"));
    check(foreign().with("CLAUDE_CONTEXT_WINDOW", Some("160000")), "x", Some("CRITICAL"));
    let both = foreign()
        .with("RALPH_CONTEXT_WINDOW", Some("300000"))
        .with("CLAUDE_CONTEXT_WINDOW", Some("160000"));
    check(both, "x", Some("NOTICE"));
    let nonsense = foreign().with("RALPH_CONTEXT_WINDOW", Some("much"));
    check(nonsense, "claude-opus-4-6", Some("WARNING"));
    let off = foreign().with("CLAUDE_CODE_DISABLE_1M_CONTEXT", Some("1"));
    check(off, "claude-opus-5-5", Some("WARNING"));
}

#[test]
fn recorded_transcripts_are_read() {
    for (name, window, expect) in [
        ("transcript.jsonl", "20000", Some("NOTICE")),
        ("transcript-with-subagent.jsonl", "14000", Some("CRITICAL")),
        ("transcript-with-subagent.jsonl", "100000", None),
        // Small again after a compaction, although the file only grew.
        ("transcript-compaction.jsonl", "1000000", None),
        ("transcript-compaction.jsonl", "20000", Some("WARNING")),
    ] {
        let session = foreign().with("RALPH_CONTEXT_WINDOW", Some(window));
        let mut input = captured("posttooluse-edit.json");
        input["transcript_path"] = data(name).display().to_string().into();
        assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), expect, "{name}");
    }
}

#[test]
fn subagent_gets_no_alert_of_another_session() {
    let session = foreign();
    let mut input = transcript(&session, &answer(190_000, "claude-opus-4-6"));
    input["agent_id"] = "a60bb46a6db79517c".into();
    assert_eq!(alert(&session, "post-tool-use", &input), None);
}

#[test]
fn incomplete_transcript_is_read() {
    let session = foreign();
    let torn = answer(190_000, "claude-opus-4-6");
    let text = format!("{}{}", answer(110_000, "claude-opus-4-6"), &torn[..torn.len() / 2]);
    let input = transcript(&session, &text);
    assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), Some("NOTICE"));
}

#[test]
fn only_the_end_of_a_huge_transcript_is_read() {
    let session = foreign();
    let path = session.sealed.root().join("huge.jsonl");
    let file = fs::File::create(&path).expect("created");
    // A 50 MB hole is one long unreadable line.
    file.set_len(50_000_000).expect("grown");
    let mut input = captured("posttooluse.json");
    input["transcript_path"] = path.display().to_string().into();
    assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), Some("CRITICAL"), "estimated");
    let end = format!("\n{}", answer(10_000, "claude-opus-4-6"));
    std::os::unix::fs::FileExt::write_at(&file, end.as_bytes(), 50_000_000).expect("written");
    session.hook("session-start", &captured("sessionstart.json"));
    assert_eq!(alert(&session, "post-tool-use", &input), None, "measured");
}

/// Returns the path of the state of sessions that ralph did not start.
fn notes(session: &Session) -> std::path::PathBuf {
    session.sealed.state_dir().join("hooks")
}

#[test]
fn without_a_state_file_no_alert_is_given() {
    let session = foreign();
    let input = transcript(&session, &answer(190_000, "claude-opus-4-6"));
    fs::create_dir_all(session.sealed.state_dir()).expect("a directory");
    fs::write(notes(&session), "in the way").expect("written");
    assert_eq!(alert(&session, "post-tool-use", &input), None);
    fs::remove_file(notes(&session)).expect("removed");
    // A directory that is read-only to all but root.
    fs::create_dir(notes(&session)).expect("a directory");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(notes(&session), mode(0o500)).expect("a mode");
    let is_root = fs::write(notes(&session).join("try"), "").is_ok();
    let expect = is_root.then_some("CRITICAL");
    assert_eq!(alert(&session, "post-tool-use", &input).as_deref(), expect);
    fs::set_permissions(notes(&session), mode(0o700)).expect("a mode");
}

#[test]
fn a_link_in_place_of_the_notes_is_not_followed() {
    let session = foreign();
    let input = transcript(&session, &answer(190_000, "claude-opus-4-6"));
    let precious = session.sealed.root().join("precious");
    fs::write(&precious, "precious").expect("written");
    fs::create_dir_all(notes(&session)).expect("a directory");
    let place = notes(&session).join(format!("session-{}.json", session.id));
    std::os::unix::fs::symlink(&precious, place).expect("a link");
    assert_eq!(alert(&session, "post-tool-use", &input), None);
    session.hook("session-start", &captured("sessionstart.json"));
    assert_eq!(fs::read_to_string(&precious).expect("there"), "precious");
}

#[test]
fn state_of_other_sessions_is_in_the_runtime_directory() {
    let session = foreign();
    let runtime = session.sealed.root().join("runtime");
    fs::create_dir(&runtime).expect("a directory");
    let session = session.with("XDG_RUNTIME_DIR", Some(&runtime.display().to_string()));
    let input = transcript(&session, &answer(190_000, "claude-opus-4-6"));
    assert!(alert(&session, "post-tool-use", &input).is_some());
    assert_eq!(files(&runtime.join("ralph-hooks")), 1);
    assert_eq!(files(&notes(&session)), 0);
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}
