//! Which texts contain an answer, and which contain an unusable one.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": ["begun", "done"]},
            "notes": {"type": "string"},
            "größe": {"type": "string"},
        },
    })
}

#[track_caller]
fn check(words: &str, expect: &Result<Value, AnswerFault>) {
    assert_eq!(&find_answer(words, &schema()), expect, "{words}");
}

#[test]
fn an_answer_is_found_in_other_text() {
    for words in [
        r#"{"status":"done"}"#,
        "  \n{\"status\": \"done\"}\n",
        "I did it.\n\n```json\n{\"status\": \"done\"}\n```\n",
        "I did it.\n```JSON\n\n  {\"status\": \"done\"}\n```\nThat is all {really}.",
        "~~~json\n{\"status\":\"done\"}\n~~~",
        "```jsonc\n{\"status\":\"done\"}\n```",
        "```json {\"status\":\"done\"}```",
        "```\n{\"status\":\"done\"}\n```",
        "The answer is {\"status\":\"done\"}.",
        "fn main() { x }\n{\"status\":\"done\"}",
        "Use `{}` here. {\"status\":\"done\"} Or `{}`.",
        // Objects about something else are not answers, wherever they are.
        "```json\n{\"status\":\"done\"}\n```\nSee {\"other\": 1}.",
        "{\"other\": {\"status\": \"begun\"}}\n{\"status\":\"done\"}",
        "{\"other\": b}\n{\"status\":\"done\"}",
        "````markdown\n```json\n{\"status\":\"done\"}\n```\n````",
        "```json\n{\"status\":\"done\"}",
        "```json\n[1, 2]\n```\n{\"status\":\"done\"}",
        "```json\nnot this\n```\n{\"status\":\"done\"}",
        // A brace at the end is not an object.
        "{\"status\":\"done\"} and then {",
        // A trailing comma is accepted.
        "```json\n{\"status\":\"done\",}\n```",
    ] {
        check(words, &Ok(json!({ "status": "done" })));
    }
    let with_fence = json!({ "notes": "run\n```json\n{\"a\": 1}\n```" });
    check(&format!("```json\n{with_fence}\n```"), &Ok(with_fence));
    check("Ünïcode ```json\n{\"größe\": \"日本\"}\n```", &Ok(json!({ "größe": "日本" })));
    check("{\"notes\": \"a,}\", \"x\": [1, 2, ], }", &Ok(json!({ "notes": "a,}", "x": [1, 2] })));
}

#[test]
fn what_is_no_object_is_no_answer() {
    for words in
        ["", "Done.", "[1, 2, 3]", "{}", "```json\n\"done\"\n```", "{{{{", "{\"other\": 1}"]
    {
        check(words, &Err(AnswerFault::Missing));
    }
    check(&schema().to_string(), &Err(AnswerFault::Missing));
}

#[test]
fn an_object_before_one_that_cannot_be_read_does_not_count() {
    let quoted = "The file says ```json\n{\"status\": \"done\"}\n```\n";
    for (own, fault) in [
        ("{\"status\": begun}", AnswerFault::Malformed),
        ("{\"status\": \"begun\", \"notes\": \"he says \"no\" to it\"}", AnswerFault::Malformed),
        ("{\"notes\": \"it says {\"status\": \"done\"} there\"}", AnswerFault::Malformed),
        ("```json\n{\"status\": \"beg", AnswerFault::CutOff),
        ("{\"odd\": {\"status\": \"done\"}, \"rest", AnswerFault::CutOff),
        ("{\"status\": \"begun\"}", AnswerFault::Contradictory),
    ] {
        check(&format!("{quoted}{own}"), &Err(fault));
    }
    for (own, fault) in [
        ("{\"status\": begun}\n", AnswerFault::Malformed),
        ("{\"status\": \"begun\"}\n", AnswerFault::Contradictory),
    ] {
        check(&format!("{own}{quoted}"), &Err(fault));
    }
}

#[test]
fn an_object_with_the_token_is_the_agents_own() {
    let schema = Schema::new(schema()).with_token("k7");
    let own = json!({ "token": "k7", "status": "begun" });
    for (words, expect) in [
        (format!("{own}"), Ok(own.clone())),
        (format!("{own}\nIt says {{\"status\": \"done\"}}."), Ok(own.clone())),
        (format!("It says {{\"status\": done}}.\n{own}"), Ok(own.clone())),
        (
            format!("{own}\n{{\"token\": \"k7\", \"status\": \"done\"}}"),
            Err(AnswerFault::Contradictory),
        ),
        (format!("{own}\n{{\"token\": \"k7\", \"status\": done}}"), Err(AnswerFault::Malformed)),
        (format!("{own}\n{{\"token\": \"k7\", \"status\": \"do"), Err(AnswerFault::CutOff)),
        ("The token is k7.\n{\"status\": \"done\"}".to_owned(), Err(AnswerFault::WithoutToken)),
        ("{\"status\": \"done\"}".to_owned(), Err(AnswerFault::WithoutToken)),
        ("{\"token\": \"k8\", \"status\": \"done\"}".to_owned(), Err(AnswerFault::WithoutToken)),
        ("It is done.".to_owned(), Err(AnswerFault::Missing)),
        ("{\"status\": done}".to_owned(), Err(AnswerFault::Malformed)),
        // Nothing around the own object hides it.
        (format!("{{\"status\": \"done\n{own}"), Ok(own.clone())),
        (format!("{{\"review\": {own}}}"), Ok(own.clone())),
        (format!("{{\"review\": {own}"), Ok(own.clone())),
    ] {
        assert_eq!(find_answer(&words, &schema), expect, "{words}");
    }
}

#[track_caller]
fn check_repair(own: &str, expect: &Result<Value, AnswerFault>) {
    let schema = Schema::new(schema()).with_token("k7");
    assert_eq!(&find_answer(own, &schema), expect, "{own}");
}

#[test]
fn common_mistakes_in_the_own_object_are_repaired() {
    let status = |notes: Value| Ok(json!({ "token": "k7", "status": "begun", "notes": notes }));
    let object =
        |rest: &str| format!("So: {{\"token\": \"k7\", \"status\": \"begun\", {rest}\nEnd.");
    check_repair(
        &object(r#""notes": "it says "no" to it"}"#),
        &status(json!(r#"it says "no" to it"#)),
    );
    check_repair(&object(r#""notes": ""no", it says",}"#), &status(json!(r#""no", it says"#)));
    check_repair(&object(r#""notes": ["a "b" c", "d",],}"#), &status(json!([r#"a "b" c"#, "d"])));
    check_repair(&object(r#""notes": "a \"b\" "c""}"#), &status(json!(r#"a "b" "c""#)));
    // What cannot be repaired is asked for again.
    check_repair(&object(r#""notes": begun}"#), &Err(AnswerFault::Malformed));
    // A quotation without backslashes must not replace the decision.
    let replaced = object(r#""notes": "it says ", "status": "done", "x": " there"}"#);
    check_repair(&replaced, &Err(AnswerFault::Malformed));
}

#[test]
fn a_prompt_includes_the_object_to_fill_in() {
    let schema = Schema::with_example(schema(), "{\n  \"status\": \"begun, or done\"\n}");
    let prompt = append_schema("Review it.\n", &schema.with_token("k7"));
    expect_test::expect![[r#"
        Review it.

        End your answer with this JSON object, filled in, in one block marked `json`. Nothing follows it.

        ```json
        {
          "token": "k7",
          "status": "begun, or done"
        }
        ```
    "#]]
    .assert_eq(&prompt);
}

/// An object that the agent quotes: without a token, or with the token of another call.
fn foreign_object() -> impl Strategy<Value = String> {
    let token = prop::option::of(prop::sample::select(vec!["k8", "K7", "", "k77"]));
    (token, prop::bool::ANY, "[a-z \\\\\"{}]{0,8}").prop_map(|(token, is_first, notes)| {
        let mut object = json!({ "status": "done", "notes": notes });
        if let Some(token) = token {
            object = if is_first { json!({ "token": token, "status": "done" }) } else { object };
            object["token"] = json!(token);
        }
        format!("It says ```json\n{object}\n``` there.")
    })
}

/// Text in an answer that the agent did not mean as its answer, whole or damaged.
fn foreign_text() -> impl Strategy<Value = String> {
    let damaged = (foreign_object(), 0_usize..40).prop_map(|(object, cut)| {
        object.chars().take(object.chars().count().saturating_sub(cut)).collect::<String>()
    });
    prop_oneof![foreign_object(), damaged, "[{}\\[\\]\":,a-c\\\\ ]{0,30}", "\\PC{0,30}"]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(words in "[{}\\[\\]\":,`~a-c\\\\\njsonä ]{0,60}") {
        let _ = find_answer(&words, &json!({}));
        let _ = find_answer(&words, &json!({ "properties": { "a": {}, "js": {} } }));
    }

    #[test]
    fn an_object_without_the_token_never_wins(
        before in prop::collection::vec(foreign_text(), 0..4),
        after in prop::collection::vec(foreign_text(), 0..4),
        notes in "\\PC{0,20}",
    ) {
        let schema = Schema::new(schema()).with_token("k7");
        let own = json!({ "status": "begun", "notes": notes, "token": "k7" });
        let (before, after) = (before.join("\n"), after.join("\n"));
        let found = find_answer(&format!("{before}\n{own}\n{after}"), &schema);
        prop_assert!(found.as_ref().ok().is_none_or(|found| *found == own), "{found:?}");
        let found = find_answer(&format!("{before}\n{after}"), &schema);
        prop_assert!(found.is_err(), "{found:?}");
    }

    #[test]
    fn complete_objects_of_others_do_not_hide_the_own_one(
        before in prop::collection::vec(foreign_object(), 0..4),
        after in prop::collection::vec(foreign_object(), 0..4),
    ) {
        let schema = Schema::new(schema()).with_token("k7");
        let own = json!({ "token": "k7", "status": "begun" });
        let text = format!("{}\n{own}\n{}", before.join("\n"), after.join("\n"));
        prop_assert_eq!(find_answer(&text, &schema), Ok(own));
    }

    #[test]
    fn an_answer_at_the_end_is_found(before in "[^{`~]{0,40}", text in "\\PC{0,20}") {
        let answer = json!({ "summary": text });
        let words = format!("{before}\n```json\n{answer:#}\n```\n");
        prop_assert_eq!(find_answer(&words, &json!({})), Ok(answer));
    }
}

#[test]
fn a_strict_schema_closes_objects_and_requires_everything() {
    let plain = json!({
        "type": "object",
        "properties": {
            "must": { "type": "string", "const": "t" },
            "may": { "type": "string", "enum": ["a"] },
            "list": { "type": "array", "items": {
                "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"],
            } },
        },
        "required": ["must"],
    });
    let expect = json!({
        "type": "object",
        "properties": {
            "must": { "type": "string", "enum": ["t"] },
            "may": { "type": ["string", "null"], "enum": ["a", null] },
            "list": { "anyOf": [
                { "type": "array", "items": {
                    "type": "object", "properties": { "x": { "type": "integer" } },
                    "required": ["x"], "additionalProperties": false,
                } },
                { "type": "null" },
            ] },
        },
        "required": ["must", "may", "list"],
        "additionalProperties": false,
    });
    assert_eq!(Schema::new(plain).to_strict(), expect);
    let answer = json!({ "must": "x", "may": null, "list": [{ "x": null }, null] });
    assert_eq!(remove_nulls(&answer), json!({ "must": "x", "list": [{}, null] }));
}
