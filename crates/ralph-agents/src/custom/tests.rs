//! The syntax of filters, what they select, and agents that are read with them.
#![expect(clippy::needless_pass_by_value, reason = "expected values are written in place")]

use jaq_json::Val;
use proptest::prelude::*;
use ralph_core::ports::AgentRequest;
use ralph_model::agent::{AgentKind, Selectors, UsageSelectors};
use ralph_model::agent_output::{AgentEvent, Reply, UsageScope};
use ralph_model::child::Ending;
use ralph_model::failure::FailureClass;
use ralph_model::units::{Tokens, UsdMicros};
use serde_json::{Value, json};

use super::filter::Filter;
use crate::call::tests::context;
use crate::test_support::{build_request, read_stream};
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

fn sample_val() -> Val {
    serde_json::from_value(sample()).expect("JSON")
}

fn find_values(filter: &str, line: &Value) -> (Vec<Value>, bool) {
    let compiled = Filter::compile(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let line: Val = serde_json::from_value(line.clone()).expect("JSON");
    let found = compiled.select(&line);
    let read = |value: &Val| serde_json::from_str(&value.to_string()).unwrap_or_default();
    (found.values.iter().map(read).collect(), found.has_failed)
}

#[track_caller]
fn check(filter: &str, expect: Value) {
    assert_eq!(
        find_values(filter, &sample()),
        (serde_json::from_value(expect).expect("a list"), false),
        "{filter}"
    );
}

#[test]
fn paths_select_values() {
    check(".type", json!(["assistant"]));
    check(r#"."a b", .["a b"], ."type""#, json!(["spaced", "spaced", "assistant"]));
    check(".message.content[-1].text, .message.content[9]", json!(["two", null]));
    check(".message.content[]?.input?.path?", json!([null, "/x", null]));
    check(".missing, .missing.deeper, .null.x, .null[0]", json!([null, null, null, null]));
    check(".n.x?, .n[]?, .missing[]?", json!([]));
    check(".message.content[1:] | length", json!([2]));
    check("[.. | .text? // empty]", json!([["one", "two"]]));
}

#[test]
fn jq_is_understood() {
    check(r#"select(.type == "assistant" and (.n == 4 | not)) | .n"#, json!([3]));
    check(".missing // .no // .n, .type // 1", json!([3, "assistant"]));
    check("(.n.x.y // 1), (.type | try error catch 2)", json!([1, 2]));
    check(r#".message.content | map(.text // empty) | join("-")"#, json!(["one-two"]));
    check(r#"[.message.content[] | {type, (.name // "t"): 1}] | length"#, json!([3]));
    check(".usage.in * 2 + .n, .usage.out * 2, 7 % 4, 5 / 2", json!([23, 5.0, 3, 2.5]));
    check(
        r#""[\(.type): \(.n)] \(.missing)", (.usage | tostring)"#,
        json!(["[assistant: 3] null", r#"{"in":10,"out":2.5}"#]),
    );
    check(
        r#".message.content[] | if .type == "text" then .text elif .name then "[" + .name + "]" else empty end"#,
        json!(["one", "[ls]", "two"]),
    );
    check(
        "[range(3)], (reduce .usage[] as $x (0; . + $x)), first(.message.content[].text)",
        json!([[0, 1, 2], 12.5, "one"]),
    );
    check(
        ".usage | (to_entries | map(.key)), keys, (.in |= . + 1 | .in), (del(.out) | length)",
        json!([["in", "out"], ["in", "out"], 11, 1]),
    );
    check(
        r#"."type" | startswith("ass"), ascii_upcase, ltrimstr("as"), (split("s") | length), type"#,
        json!([true, "ASSISTANT", "sistant", 4, "string"]),
    );
    check(r#""[1, {\"a\": 2}]" | fromjson | .[1].a, ("3" | tonumber)"#, json!([2, 3]));
    check(
        ".usage as {in: $x} | [$x, .n] | add, any, all(. > 0; .), (limit(1; .[]))",
        json!([13, true, true, 10]),
    );
    check("[.message.content[] | .type] | unique, group_by(.) | length", json!([2, 2]));
    check("label $out | 1, break $out, 2", json!([1]));
    check(
        "([paths] | length > 5), (path(.usage.in) | length), getpath([\"usage\", \"in\"])",
        json!([true, 2, 10]),
    );
    check(
        "(.usage | with_entries(.value += 1)), ([1, [2]] | flatten)",
        json!([{"in": 11, "out": 3.5}, [1, 2]]),
    );
}

#[test]
fn filter_that_fails_is_reported_with_what_it_selected_before() {
    for (filter, expect) in [
        (".n, .n.x, .n", json!([3])),
        (".missing[]", json!([])),
        (".n | error", json!([])),
        (r#""x" * 1000000000000"#, json!([])),
    ] {
        let expect: Vec<Value> = serde_json::from_value(expect).expect("a list");
        assert_eq!(find_values(filter, &sample()), (expect, true), "{filter}");
    }
}

#[track_caller]
fn check_error(filter: &str, expect: &str) {
    let error = Filter::compile(filter).expect_err(filter);
    assert_eq!(error.to_string(), expect, "{filter}");
}

#[test]
fn invalid_filters_are_reported_with_position() {
    check_error("", "at character 1: expected a filter such as `.text`, found the end");
    check_error(".a |", "at character 5: expected a filter such as `.text`, found the end");
    check_error(
        ".a .b c",
        "at character 7: expected the end of the filter, or an operator such as `|`, found `c`",
    );
    check_error("ä | ascii", "at character 1: expected token, found `ä`");
    check_error("select(.a", "at character 10: expected closing parenthesis, found the end");
    check_error(r#"."ä" | "abc"#, "at character 12: expected closing quote, found the end");
    check_error("if .a then .b", "at character 14: expected else or end, found the end");
    check_error(".ä | missing", "at character 2: expected token, found `ä`");
    check_error(".a | missing(.)", "at character 6: there is no filter `missing`");
    check_error("$x", "at character 1: there is no variable `$x`");
    check_error(&"(".repeat(40), "at character 33: more than 32 nested brackets");
    check_error(&".".repeat(5000), "at character 1: the filter is longer than 4096 bytes");
    check_error(&"-".repeat(4000), "at character 1: more than 48 nested filters");
    check_error(
        &".|".repeat(2000),
        "at character 4001: expected a filter such as `.text`, found the end",
    );
    check_error(&format!("{}.", ".|".repeat(2000)), "at character 1: more than 48 nested filters");
}

#[test]
fn filter_reads_nothing_but_its_line() {
    for name in [
        "input",
        "inputs",
        "env",
        "halt",
        "halt_error",
        "debug",
        "stderr",
        "now",
        "input_filename",
        "input_line_number",
        "get_search_list",
        "__step",
        "__filter",
        "localtime",
    ] {
        check_error(name, &format!("at character 1: there is no filter `{name}`"));
    }
    for name in ["$ENV", "$__loc__", "$__prog_args"] {
        check_error(name, &format!("at character 1: there is no variable `{name}`"));
    }
    check_error(
        r#"import "a" as a; ."#,
        "at character 8: expected the end of the filter, or an operator such as `|`, found `\"`",
    );
    check_error(
        r#"include "a"; ."#,
        "at character 9: expected the end of the filter, or an operator such as `|`, found `\"`",
    );
    check_error("1 | def f: f; f", "at character 9: `def` is not available");
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
        assert_eq!(find_values(filter, &line), (expect, false), "{example}");
    }
}

#[test]
fn runaway_filter_is_stopped() {
    let chain = |filter: &str, count: usize| vec![filter; count].join(" | ");
    let runaways = [
        "repeat(.)",
        "[repeat(.)]",
        "repeat(empty)",
        "last(range(1e12))",
        "[range(0; 1; 0)]",
        "reduce range(1e12) as $x (0; . + 1)",
        "reduce repeat(1) as $x (.; [.])",
        "until(false; try error catch .)",
        "[while(true; .)?]",
        "recurse([.])",
        "reduce range(100) as $x (\"ab\"; . + .)",
        "reduce range(100) as $x (2; . * .) | range(1e9)",
        "reduce range(100) as $x ([1]; [., .]) | tostring",
        "reduce range(100) as $x (\"ab\"; \"\\(.)\\(.)\")",
        "[.[] = (range(1e9))]",
        "path(repeat(.))",
        "recurse(.) |= 1",
        "(repeat(.) | .n) = 1",
        "(reduce range(1e6) as $x (.; .)) |= 1",
        "repeat(empty) |= 1",
        "foreach repeat(1) as $x (0; . + $x)",
        "walk(repeat(.))",
    ];
    for filter in runaways {
        assert!(find_values(filter, &sample()).1, "{filter}");
    }
    for filter in [
        chain("(.,.)", 40),
        format!("[{}]", chain("(.,.)", 40)),
        chain(". + .", 40),
        chain("[.,.,.,.]", 30),
        chain(r#""\(.)\(.)""#, 40),
        vec!["(1,2)"; 40].join(" + "),
    ] {
        assert!(find_values(&filter, &json!(["x".repeat(1000)])).1, "{filter}");
    }
    let deep = json!({"text": "[".repeat(1 << 20)});
    assert_eq!(find_values(".text | fromjson? // 1", &deep), (vec![json!(1)], false));
}

/// As deep as the limits of a filter allow, on the stack of a test thread.
#[test]
fn deepest_filters_fit_on_the_stack() {
    for filter in [
        format!("{}1", "- ".repeat(47)),
        format!("{}.", ".|".repeat(47)),
        format!("{}1", "1+".repeat(47)),
        format!("{}.", "try ".repeat(47)),
        format!("{}1", ".a|=".repeat(47)),
        format!("{}.{}", "[".repeat(32), "]".repeat(32)),
        format!("{}.{}", "map(".repeat(32), ")".repeat(32)),
        format!("{}1", ". as $x|".repeat(47)),
        ".a".repeat(48),
        format!("{}.{}", "\"\\(".repeat(30), ")\"".repeat(30)),
    ] {
        find_values(&filter, &json!({"a": 1}));
    }
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
    assert_eq!((reply.session.as_deref(), reply.unparsed), (Some("s-1"), 3));
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
        if let Ok(filter) = Filter::compile(&filter) {
            let _ = filter.select(&sample_val()).texts();
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
        if let Ok(filter) = Filter::compile(&words.join(" ")) {
            let _ = filter.select(&sample_val());
        }
    }
}
