//! The syntax of filters, what they select, and agents that are read with them.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use proptest::prelude::*;
use ralph_core::agent_output::{AgentEvent, Reply, UsageScope};
use ralph_core::child::Ending;
use ralph_core::failure::FailureClass;
use ralph_core::ports::AgentRequest;
use ralph_core::recipe::{AgentKind, Selectors, UsageSelectors};
use ralph_core::units::{Tokens, UsdMicros};
use serde_json::{Value, json};

use super::parse::parse;
use crate::call::tests::context;
use crate::test_support::build_request;
use crate::test_support::read_stream;
use crate::tests::recorded::{NOW, exit};
use crate::{IdleWatch, LineActivity, LineDisplay, ParsedLine, build_call, create_translator};

/// What filters are tried on.
fn sample() -> Value {
    json!({
        "type": "assistant",
        "n": 3,
        "null": null,
        "no": false,
        "a b": "spaced",
        "message": {"content": [
            {"type": "text", "text": "one"},
            {"type": "tool", "name": "ls", "input": {"path": "/x"}},
            {"type": "text", "text": "two"}
        ]},
        "usage": {"in": 10, "out": 2.5}
    })
}

#[track_caller]
fn check(filter: &str, expect: Value) {
    let parsed = parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let sample = sample();
    let found: Vec<Value> =
        parsed.select(&sample).into_iter().map(std::borrow::Cow::into_owned).collect();
    assert_eq!(Value::Array(found), expect, "{filter}");
}

#[test]
fn paths_select_values_or_nothing() {
    check(".type", json!(["assistant"]));
    check(r#"."a b", .["a b"], ."type""#, json!(["spaced", "spaced", "assistant"]));
    check(".message.content[0].text", json!(["one"]));
    check(".message.content[-1].text", json!(["two"]));
    check(".message.content.[2].text", json!(["two"]));
    check(".message.content[9], .message.content[-9]", json!([null, null]));
    check(".message.content[].type", json!(["text", "tool", "text"]));
    check(".message.content[]?.input?.path?", json!([null, "/x", null]));
    check(".usage[]", json!([10, 2.5]));
    check(".missing, .missing.deeper, .null.x, .null[0]", json!([null, null, null, null]));
    check(".n.x, .n[], .type[0], .missing[], .n[0]?", json!([]));
    check(" . | .n ", json!([3]));
}

#[test]
fn values_are_selected_joined_and_built() {
    check(r#"select(.type == "assistant") | .n"#, json!([3]));
    check(r#"select(.type == "user") | .n"#, json!([]));
    check(r#"select(.type != "user" and .n == 3.0) | .n"#, json!([3]));
    check(r#"select(.n == 4 or .type == "assistant") | .n"#, json!([3]));
    check("select(.missing) , select(.no | not) | .n", json!([3]));
    check(r#".message.content[] | select(.type == "text") | .text"#, json!(["one", "two"]));
    check(r#"select(.message.content[].type == "text") | .n"#, json!([3, 3]));
    check(".missing // .no // .n, .type // 1", json!([3, "assistant"]));
    check(".missing // empty, (.null // null)", json!([null]));
    check(r#"(.message.content[] | .text) // "x""#, json!(["one", "two"]));
    check(r#"[.message.content[].text] | join("-")"#, json!(["one--two"]));
    check(r#".message.content | map(.text // empty) | join("")"#, json!(["onetwo"]));
    check(r#"join(","), ([1, true, "x"] | join(","))"#, json!(["1,true,x"]));
    check("[], [empty], [1, .n], ([.n] | .[0])", json!([[], [], [1, 3], 3]));
    check(".usage.in + .n, .usage.in + .usage.out, .n + null", json!([13, 12.5, 3]));
    check(r#""a" + .type + "b", "x" + .n"#, json!(["aassistantb"]));
    check(".n | tostring, (.usage | tostring)", json!(["3"]));
    check("(.n | tostring), (.usage | tostring)", json!(["3", r#"{"in":10,"out":2.5}"#]));
    check(r#""[\(.type): \(.n)] \(.missing)""#, json!(["[assistant: 3] null"]));
    check(r#""\(.message.content[] | select(.name) | "(\(.name))")!""#, json!(["(ls)!"]));
    check(r#""tab\tquote\" \u00e4 ä", """#, json!(["tab\tquote\" ä ä", ""]));
    check("if .n == 3 then 1 else 2 end, if .no then 1 end | . == 1", json!([true, false]));
    check(
        r#".message.content[] | if .type == "text" then .text elif .name then "[" + .name + "]" else empty end"#,
        json!(["one", "[ls]", "two"]),
    );
    check("true, false, null, -1, 2.5e1", json!([true, false, null, -1, 25.0]));
    check("not, (null | not), empty", json!([false, true]));
}

#[track_caller]
fn check_error(filter: &str, expect: &str) {
    let error = parse(filter).expect_err(filter);
    assert_eq!(error.to_string(), expect, "{filter}");
}

#[test]
fn invalid_filters_are_reported_with_position() {
    check_error("", "at character 1: expected a filter such as `.text`, found the end");
    check_error(".a |", "at character 5: expected a filter such as `.text`, found the end");
    check_error(
        ".a = 1",
        "at character 4: expected the end of the filter, or an operator such as `|`, found `=`",
    );
    check_error(
        ".a .b",
        "at character 4: expected the end of the filter, or an operator such as `|`, found `.`",
    );
    check_error(
        ".ä | .b",
        "at character 2: expected the end of the filter, or an operator such as `|`, found `ä`",
    );
    check_error("ä | ascii", "at character 1: expected a filter such as `.text`, found `ä`");
    check_error(
        ".[",
        "at character 3: expected `]`, a number or a name in quotation marks, found the end",
    );
    check_error(".[0:2]", "at character 4: expected `]`, found `:`");
    check_error(
        ".a. b",
        "at character 5: expected the name of a field right behind the dot, found `b`",
    );
    check_error("..", "at character 2: `..` is not part of this language");
    check_error("select(.a", "at character 10: expected `)`, found the end");
    check_error("select .a", "at character 8: expected `(`, found `.`");
    check_error(
        ".a | ascii_downcase",
        "at character 6: there is no `ascii_downcase`; known are select(), map(), join(), tostring, not, empty",
    );
    check_error("\"abc", "at character 1: a text without its closing quotation mark");
    check_error(r#""\x""#, r"at character 4: `\x` has an escape that JSON does not know");
    check_error(r#""\(.a""#, "at character 6: expected `)`, found `\"`");
    check_error("if .a then .b", "at character 14: expected `end`, found the end");
    check_error("if .a else .b end", "at character 7: expected `then`, found `else`");
    check_error("-", "at character 1: expected a number, found `-`");
    check_error(".a?//.b", "at character 3: `?//` is not part of this language");
    check_error("$x", "at character 1: expected a filter such as `.text`, found `$`");
    check_error(&"(".repeat(40), "at character 34: more than 32 filters within each other");
    check_error(&".".repeat(5000), "at character 1: the filter is longer than 4096 bytes");
}

/// Every line of the table has a filter, two spaces or more, and the values it selects.
#[test]
fn documentation_examples_select_their_values() {
    let page = include_str!("../../../../docs/custom-agents.md");
    let block = |opening: &str| {
        let block = page.split(opening).nth(1).expect("the page has the block");
        block.split("```").next().expect("a split has a first part")
    };
    let line: Value = serde_json::from_str(block("```json line\n")).expect("a line of JSON");
    let examples: Vec<&str> = block("these filters select:\n\n```text\n").lines().collect();
    assert!(examples.len() > 10);
    for example in examples {
        let (filter, expect) = example.split_once("  ").expect("two columns");
        let values = serde_json::Deserializer::from_str(expect).into_iter::<Value>();
        let expect: Vec<Value> = values.map(|value| value.expect("JSON")).collect();
        let filter = parse(filter).unwrap_or_else(|error| panic!("{example}: {error}"));
        let found: Vec<Value> =
            filter.select(&line).into_iter().map(std::borrow::Cow::into_owned).collect();
        assert_eq!(found, expect, "{example}");
    }
}

#[test]
fn multiplying_filter_is_bounded() {
    let doubled = ["."; 2].join(",");
    let many = vec![format!("({doubled})"); 60].join(" | ");
    let sample = sample();
    assert!(parse(&many).expect("it is short").select(&sample).len() <= 1 << 20);
    let grown = vec![". + ."; 60].join(" | ");
    let text = json!("x".repeat(1000));
    assert_eq!(parse(&grown).expect("it is short").texts(&text), [""; 0]);
    let lists = vec!["[.,.,.,.]"; 30].join(" | ");
    assert!(parse(&lists).expect("it is short").select(&sample).len() <= 1);
    let large = json!(["x".repeat(1 << 20)]);
    let copies = format!("[.[]] | {}", vec!["(.,.)"; 40].join(" | "));
    let found = parse(&copies).expect("it is short").texts(&large);
    assert!(found.iter().map(String::len).sum::<usize>() <= 17 << 20);
    let texts = parse(&vec!["."; 1_000].join(",")).expect("it is short").texts(&large);
    assert!(texts.len() < 20, "{}", texts.len());
    let gaps = vec![r#""\(.)\(.)""#; 60].join(" | ");
    assert_eq!(parse(&gaps).expect("it is short").texts(&text), [""; 0]);
}

fn selectors() -> Selectors {
    let some = |text: &str| Some(text.to_owned());
    Selectors {
        response: some(r#"select(.type == "message") | .text"#),
        delta: some(r#"select(.type == "piece") | .text"#),
        display: None,
        session: some(".session // empty"),
        usage: UsageSelectors {
            input: some(".usage.in"),
            output: some(".usage.out"),
            cache_read: None,
            cache_write: None,
            cost: some(".usage.dollars"),
            scope: UsageScope::Step,
        },
    }
}

fn request_with(selectors: Selectors) -> AgentRequest {
    let mut request = build_request(AgentKind::Custom, &[], "Do it.");
    request.agent.selectors = Some(Box::new(selectors));
    request
}

fn parsed(lines: &[&str], stderr: &str, ending: Ending) -> (Vec<ParsedLine>, Reply) {
    read_stream(&request_with(selectors()), &lines.join("\n"), stderr, ending, NOW)
}

#[track_caller]
fn check_signal(lines: &[&str], expect: Option<&str>) {
    let reply = parsed(lines, "", exit(0)).1;
    assert_eq!(reply.signal.as_deref(), expect, "{lines:?}");
}

#[test]
fn last_message_counts_and_deltas_are_appended() {
    let done = r#"{"type":"message","text":"<response>DONE</response>"}"#;
    let half = r#"{"type":"piece","text":"<response>DO"}"#;
    let rest = r#"{"type":"piece","text":"NE</response>"}"#;
    let later = r#"{"type":"message","text":"Hm."}"#;
    let echo = r#"{"type":"user","text":"<response>DONE</response>"}"#;
    check_signal(&[done], Some("DONE"));
    check_signal(&[half, r#"{"ping":1}"#, rest], Some("DONE"));
    check_signal(&[half, rest, done], Some("DONE"));
    check_signal(&[done, later], None);
    check_signal(&[half, rest, later], None);
    check_signal(&[half, later, rest], None);
    check_signal(&[echo, later], None);
    check_signal(&["<response>DONE</response>", later], None);
    let (all, _) = parsed(&[half, rest, done], "", exit(0));
    assert_eq!(all[2].events, [], "a message that came in deltas is not repeated");
}

#[test]
fn sessions_usage_and_unusual_lines_are_read() {
    let lines = [
        r#"{"session":"s-1","usage":{"in":10,"dollars":0.5}}"#,
        r#"{"session":"s-1","usage":{"in":5,"out":2}}"#,
        "not JSON",
        "\"text\"",
        "  ",
        r#"[{"type":"message"}]"#,
        r#"{"type":"message","text":"Fine."}"#,
    ];
    let (all, reply) = parsed(&lines, "", exit(0));
    let weights: Vec<LineActivity> = all.iter().map(|parsed| parsed.activity).collect();
    let (useful, noise) = (LineActivity::Progress, LineActivity::Idle);
    assert_eq!(weights, [useful, useful, noise, noise, noise, useful, useful, noise]);
    assert_eq!((reply.session.as_deref(), reply.unparsed), (Some("s-1"), 2));
    assert_eq!(reply.text, "Fine.");
    assert_eq!((reply.usage.input, reply.usage.output), (Tokens(15), Tokens(2)));
    assert_eq!(reply.usage.cost, Some(UsdMicros(500_000)));
}

#[test]
fn display_filter_changes_only_what_is_shown() {
    let mut selectors = selectors();
    selectors.display = Some(r#"select(.tool) | "[\(.tool)]""#.to_owned());
    let request = request_with(selectors);
    let mut translator = create_translator(&request, std::path::Path::new("/project"));
    let result =
        translator.push_line(r#"{"session":"s","type":"message","text":"Hm.","tool":"ls"}"#);
    let LineDisplay::Instead(shown) = result.display else { panic!("{:?}", result.display) };
    let mut texts = Vec::new();
    for event in &shown {
        if let AgentEvent::Text { text, .. } = event {
            texts.push(text.as_str());
        }
    }
    assert_eq!(texts, ["[ls]\n"]);
    assert!(matches!(shown[0], AgentEvent::Session { .. }));
    assert!(matches!(&result.parsed.events[1], AgentEvent::Text { text, .. } if text == "Hm."));
    let odd = translator.push_line("oops");
    assert_eq!(odd.display, LineDisplay::Events, "odd lines are shown as they are");
}

#[track_caller]
fn check_failure(lines: &[&str], stderr: &str, ending: Ending, expect: Option<FailureClass>) {
    let found = parsed(lines, stderr, ending).1.failure;
    assert_eq!(found.as_ref().map(|it| it.class.clone()), expect, "{lines:?}\n{found:?}");
}

#[test]
fn success_needs_exit_code_and_answer() {
    let fine = r#"{"type":"message","text":"Fine."}"#;
    check_failure(&[fine], "", exit(0), None);
    check_failure(&[fine], "", exit(1), Some(FailureClass::Crashed));
    check_failure(&[r#"{"type":"other"}"#], "", exit(0), Some(FailureClass::Empty));
    check_failure(&["plain"], "", exit(0), Some(FailureClass::Empty));
    let limit = FailureClass::RateLimited { resets_at: None };
    check_failure(&[fine], "usage limit reached", exit(1), Some(limit));
    let words = parsed(&["plain"], "", exit(0)).1.failure.expect("no answer").message;
    assert_eq!(words, "its filters selected no answer in what it printed");
}

#[test]
fn call_is_plain_text_with_idle_limit_and_filter_check() {
    let called = build_call(&request_with(selectors()), &context()).expect("a call");
    assert_eq!((called.stdin, called.idle), (b"Do it.".to_vec(), IdleWatch::Watch));
    let broken = Selectors { response: Some(".a |".to_owned()), ..selectors() };
    let failure = build_call(&request_with(broken), &context()).expect_err("a bad filter");
    assert_eq!(failure.class, FailureClass::BadCall);
}

proptest! {
    #[test]
    fn filters_and_lines_never_panic(
        filter in "(\\PC{0,30}|[.\\[\\]()|,a\"\\\\?/+= 0-9]{0,30})",
        line in "(\\PC{0,60}|[\\[\\]{}\":,0-9a-z\\\\]{0,30})",
    ) {
        if let Ok(filter) = parse(&filter) {
            let _ = filter.texts(&sample());
        }
        let _ = parsed(&[&line, &format!("{{\"type\":\"message\",\"text\":{line:?}}}")], "", exit(1));
    }

    #[test]
    fn random_filters_are_parsed_completely(
        words in prop::collection::vec(
            prop::sample::select(vec![
                ".a", ".", "[]", "|", ",", "//", "(", ")", "select(", "\"x\"", "1", "==", "and",
                "if", "then", "else", "end", "+", "not", "\"\\(", "?", "[", "]", "map(",
            ]),
            0..20,
        ),
    ) {
        if let Ok(filter) = parse(&words.join(" ")) {
            let _ = filter.select(&sample());
        }
    }
}
