//! Control requests that are sent, taken, kept and refused.

use std::os::unix::fs::symlink;

use ralph_model::ids::TaskId;

use super::*;

fn note(text: &str) -> ControlRequest {
    ControlRequest::Note { text: text.to_owned() }
}

fn requests(found: &[InboxEntry]) -> Vec<ControlRequest> {
    let request = |found: &InboxEntry| match found {
        InboxEntry::Request(asked) => Some(asked.request.clone()),
        InboxEntry::Invalid { .. } => None,
    };
    found.iter().filter_map(request).collect()
}

#[test]
fn requests_arrive_in_order_and_stay_until_they_are_done_with() {
    let run = tempfile::tempdir().expect("a directory");
    let mut inbox = Inbox::new(run.path());
    assert_eq!(inbox.poll(), []);
    let sent = [
        ControlRequest::Pause,
        ControlRequest::Skip { task: TaskId("a/b".into()) },
        note("ü\n\"x\""),
        ControlRequest::Resume,
    ];
    for request in &sent {
        send_request(run.path(), request).expect("sent");
        // Two requests of one millisecond may come in either order.
        let sent_at = clock::now();
        while clock::now() == sent_at {}
    }
    let found = inbox.poll();
    assert_eq!(requests(&found), sent);
    assert_eq!(requests(&Inbox::new(run.path()).poll()), sent, "a crash loses none");
    assert_eq!(list_pending(run.path()).len(), 4);
    for found in &found {
        if let InboxEntry::Request(asked) = found {
            inbox.remove_request(&asked.id);
        }
    }
    assert_eq!(inbox.poll(), []);
}

#[test]
fn an_inbox_that_was_quiet_is_not_listed_again_and_nothing_is_missed() {
    let run = tempfile::tempdir().expect("a directory");
    let id = send_as(run.path(), &ControlRequest::Stop, Some("ann".into())).expect("sent");
    let mut inbox = Inbox::new(run.path());
    let [InboxEntry::Request(asked)] = &inbox.poll()[..] else { panic!("one request") };
    assert_eq!((&asked.id, asked.by.as_deref()), (&id, Some("ann")));
    inbox.remove_request(&id);
    assert_eq!(inbox.poll(), []);
    // Right after a change the directory's time is not to be trusted.
    assert_eq!(inbox.quiet, None);
    let old = SystemTime::now() - Duration::from_secs(9);
    let touch = |time| fs::File::open(inbox.directory.clone()).and_then(|it| it.set_modified(time));
    touch(old).expect("touched");
    assert_eq!(inbox.poll(), []);
    assert!(inbox.quiet.is_some());
    send_request(run.path(), &ControlRequest::Pause).expect("sent");
    assert_eq!(requests(&inbox.poll()), [ControlRequest::Pause]);
}

#[test]
fn an_invalid_file_is_reported_once_and_harms_nothing() {
    let run = tempfile::tempdir().expect("a directory");
    let at = |name: &str| run.path().join("inbox").join(name);
    fs::create_dir(run.path().join("inbox")).expect("made");
    fs::write(run.path().join("secret"), r#"{"version":1,"at":1,"wish":{"wish":"stop"}}"#)
        .expect("written");
    symlink(run.path().join("secret"), at("000000000000001-00000001.json")).expect("linked");
    fs::write(at("000000000000002-00000002.json"), vec![b' '; 70_000]).expect("written");
    fs::write(at("000000000000003-00000003.json"), "{").expect("written");
    fs::write(at("000000000000004-00000004.json"), r#"{"version":1,"at":1,"wish":{"wish":"fly"}}"#)
        .expect("written");
    fs::create_dir(at("000000000000005-00000005.json")).expect("made");
    fs::write(at("hello.txt"), "x").expect("written");
    fs::write(at(".half-written.tmp"), "x").expect("written");
    send_request(run.path(), &ControlRequest::Pause).expect("sent");
    let mut inbox = Inbox::new(run.path());
    let found = inbox.poll();
    assert_eq!(requests(&found), [ControlRequest::Pause]);
    assert_eq!(found.len(), 7, "{found:?}");
    assert_eq!(requests(&inbox.poll()), [ControlRequest::Pause]);
    assert_eq!(inbox.poll().len(), 1, "invalid files are reported once");
}

#[test]
fn a_refused_request_leaves_no_file() {
    let run = tempfile::tempdir().expect("a directory");
    let error = |request: &ControlRequest| {
        send_request(run.path(), request).expect_err("refused").to_string()
    };
    assert_eq!(error(&note(" \n")), "the note is empty");
    let long = "ä".repeat(MAX_NOTE_CHARS + 1);
    assert_eq!(error(&note(&long)), "the note has 4001 characters; at most 4000 fit into a prompt");
    assert!(!run.path().join("inbox").exists());
    send_request(run.path(), &note(&"\u{1}".repeat(MAX_NOTE_CHARS))).expect("the longest fits");
    assert_eq!(list_pending(run.path()).len(), 1);
    for _ in 1..MOST_WAITING {
        send_request(run.path(), &ControlRequest::Pause).expect("sent");
    }
    assert!(matches!(
        send_request(run.path(), &ControlRequest::Pause),
        Err(ControlError::Full { .. })
    ));
    let gone = run.path().join("gone");
    assert!(matches!(
        send_request(&gone, &ControlRequest::Pause),
        Err(ControlError::Refused { .. })
    ));
    let linked = tempfile::tempdir().expect("a directory");
    symlink(run.path(), linked.path().join("inbox")).expect("linked");
    assert!(matches!(
        send_request(linked.path(), &ControlRequest::Pause),
        Err(ControlError::Refused { .. })
    ));
    assert_eq!(Inbox::new(linked.path()).poll().len(), 1, "reported as invalid");
}
