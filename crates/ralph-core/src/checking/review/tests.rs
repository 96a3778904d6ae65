//! Which verdicts are accepted, and which are asked for again.

use ralph_model::child::{ChildEnd, Ending};

use super::*;
use crate::answers::reply_fold::ReplyFold;

#[track_caller]
fn check(value: &Value, expect: Option<(ReviewVerdict, &str)>) {
    let read = read_verdict(value);
    let read = read.as_ref().ok().map(|answer| (answer.verdict, answer.feedback.as_str()));
    assert_eq!(read, expect);
}

#[test]
fn verdicts_are_read_strictly() {
    use ReviewVerdict::{Approved, ChangesRequested};
    check(&json!({"verdict": "approved"}), Some((Approved, "")));
    check(&json!({"verdict": "APPROVED"}), Some((Approved, "")));
    check(
        &json!({"verdict": "changes_requested", "feedback": " a "}),
        Some((ChangesRequested, "a")),
    );
    check(&json!({"verdict": "Changes requested", "feedback": "a"}), Some((ChangesRequested, "a")));
    check(&json!({"verdict": "changes_requested", "feedback": " "}), None);
    check(&json!({"verdict": "fine"}), None);
    check(&json!({"feedback": "approved"}), None);
    check(
        &json!({"verdict": "approved", "feedback": "", "criteria": [
            {"criterion": "c", "met": false, "evidence": "e"}, {"odd": 1}]}),
        Some((ChangesRequested, "- not met: c (e)")),
    );
}

fn reply(text: &str) -> Reply {
    let end = ChildEnd::from_ending(Ending::Exited { code: 0 });
    Reply { text: text.to_owned(), ..ReplyFold::default().into_reply(end, None) }
}

#[track_caller]
fn check_text(text: &str, token: Option<&str>, expect: Result<(), &str>) {
    let criteria = ["It is there".to_owned(), "It is short".to_owned()];
    let demands = VerdictDemands { criteria: &criteria, needs_evidence: false, token };
    let checked = check_answer(&reply(text), demands);
    match (&checked, expect) {
        (Ok(()), Ok(())) => {}
        (Err(fault), Err(expect)) => assert!(fault.contains(expect), "{text}: {fault}"),
        (_, _) => panic!("{text}: {checked:?}"),
    }
}

fn approval(count: usize) -> Value {
    let names = ["It is there", "It is short"];
    let criteria: Vec<Value> = (names.iter().take(count))
        .map(|name| json!({"criterion": name, "met": true, "evidence": "a.txt:1"}))
        .collect();
    json!({"verdict": "approved", "feedback": "", "criteria": criteria})
}

#[test]
fn an_approval_brings_evidence_for_each_criterion() {
    check_text(&approval(2).to_string(), None, Ok(()));
    check_text(&approval(1).to_string(), None, Err("Missing:\n2. It is short"));
    check_text(&approval(0).to_string(), None, Err("Missing:\n1. It is there\n2. It is short"));
    let mut bare = approval(2);
    bare["criteria"][0]["evidence"] = json!(" ");
    check_text(&bare.to_string(), None, Err("Missing:\n1. It is there"));
    let refusal = json!({"verdict": "changes_requested", "feedback": "Fix a.txt:3."});
    check_text(&refusal.to_string(), None, Ok(()));
    // Two entries for one criterion do not cover the other one.
    let mut doubled = approval(2);
    doubled["criteria"][1] = doubled["criteria"][0].clone();
    check_text(&doubled.to_string(), None, Err("Missing:\n2. It is short"));
}

#[test]
fn a_criterion_is_recognized_by_its_text_or_number() {
    let named = |one: Value, other: Value| {
        let mut answer = approval(2);
        answer["criteria"][0]["criterion"] = one;
        answer["criteria"][1]["criterion"] = other;
        answer.to_string()
    };
    check_text(&named(json!("- [ ] it is  THERE."), json!("`It is short`")), None, Ok(()));
    check_text(&named(json!("It `is` there"), json!("It is **short**")), None, Ok(()));
    check_text(&named(json!(2), json!("#1")), None, Ok(()));
    check_text(&named(json!("1. Is it there?"), json!("Criterion 2: short")), None, Ok(()));
    check_text(&named(json!("1"), json!("3")), None, Err("Missing:\n2. It is short"));
    check_text(&named(json!("1"), json!("2 files are there")), None, Err("Missing:\n2."));
}

#[test]
fn criteria_that_differ_only_in_case_or_marks_are_both_covered() {
    let criteria = ["`-v` prints more".to_owned(), "`-V` prints more".to_owned()];
    let demands = || VerdictDemands { criteria: &criteria, needs_evidence: false, token: None };
    let answer = |named: [&str; 2]| {
        let entries = named.map(|it| json!({"criterion": it, "met": true, "evidence": "a:1"}));
        reply(&json!({"verdict": "approved", "feedback": "", "criteria": entries}).to_string())
    };
    assert_eq!(check_answer(&answer(["`-V` prints more", "`-v` prints more"]), demands()), Ok(()));
    assert_eq!(check_answer(&answer(["-v prints more", "-V prints more"]), demands()), Ok(()));
}

#[test]
fn only_an_approval_with_the_token_counts() {
    let quoted = approval(2);
    check_text(&format!("All is well.\n```\n{quoted}\n```"), Some("k7"), Err("`token`"));
    let mut own = approval(2);
    own["token"] = json!("k7");
    check_text(&format!("Not \"changes requested\".\n{own}\n{quoted}"), Some("k7"), Ok(()));
    check_text("Approved.", Some("k7"), Err("no JSON object"));
    own["token"] = json!("k8");
    check_text(&own.to_string(), Some("k7"), Err("`token`"));
    let example = build_verdict_schema().with_token("k7").parse_example();
    check_text(&example.to_string(), Some("k7"), Err("no `verdict`"));
}
