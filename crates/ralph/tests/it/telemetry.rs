//! Spans and metrics: sent to a collector if the user enables it, and nowhere else.

use std::collections::BTreeSet;
use std::fs;

use ralph_testkit::receiver::{ReceivedRequest, Receiver, ReceiverAnswer};
use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::{first_then, sealed};

/// A project that needs two iterations, with a gate that fails in the first.
fn project() -> Sealed {
    let sealed = sealed();
    let usage = json!({ "usage": { "input": 1000, "output": 100, "cost": 0.02 } });
    let calls = first_then(
        json!([usage, { "claim": "DONE" }]),
        json!([{ "write": { "path": "built", "text": "" } }, usage, { "claim": "DONE" }]),
    );
    sealed.write_script(&calls, &json!({ "guardrails": [{ "command": "test -f built" }] }));
    sealed
}

fn ralph(sealed: &Sealed, words: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).envs(variables.iter().copied());
    Running::start_command(command).wait_for_end()
}

fn texts<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten().collect()
}

/// Returns the spans of requests, each checked against the rules of the encoding.
pub(crate) fn spans(requests: &[ReceivedRequest]) -> Vec<Value> {
    let requests = requests.iter().filter(|request| request.path == "/v1/traces");
    let mut found = Vec::new();
    for request in requests {
        assert_eq!(request.headers["content-type"], "application/json");
        let body = request.to_json();
        for span in texts(&body, "/resourceSpans/0/scopeSpans/0/spans") {
            check_span(span);
            found.push(span.clone());
        }
    }
    found
}

/// The rules of OTLP in JSON: ids in lower-case hexadecimal, 64-bit numbers as strings, enums as
/// numbers, all required fields present.
#[track_caller]
fn check_span(span: &Value) {
    let is_hex = |value: &Value, length: usize| {
        let text = value.as_str().unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.len() == length && text.bytes().all(is_digit) && text.bytes().any(|it| it != b'0')
    };
    let is_number = |value: &Value| value.as_str().is_some_and(|it| it.parse::<u64>().is_ok());
    assert!(is_hex(&span["traceId"], 32), "{span}");
    assert!(is_hex(&span["spanId"], 16), "{span}");
    assert!(span.get("parentSpanId").is_none_or(|id| is_hex(id, 16)), "{span}");
    assert!(is_number(&span["startTimeUnixNano"]) && is_number(&span["endTimeUnixNano"]), "{span}");
    assert!(span["kind"].is_u64() && span["status"].is_object(), "{span}");
    assert!(!span["name"].as_str().unwrap_or_default().is_empty(), "{span}");
    for attribute in texts(span, "/attributes") {
        check_attribute(attribute);
    }
}

#[track_caller]
fn check_attribute(attribute: &Value) {
    assert!(attribute["key"].is_string(), "{attribute}");
    let value = attribute["value"].as_object().expect("a value");
    let (kind, value) = value.iter().next().expect("one entry");
    let is_right = match kind.as_str() {
        "stringValue" => value.is_string(),
        "intValue" => value.as_str().is_some_and(|it| it.parse::<i64>().is_ok()),
        "doubleValue" => value.is_f64(),
        _ => false,
    };
    assert!(is_right, "{attribute}");
}

pub(crate) fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    texts(span, "/attributes").into_iter().find(|it| it["key"] == key).map(|it| &it["value"])
}

pub(crate) fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

pub(crate) fn ids(spans: &[Value]) -> BTreeSet<String> {
    spans.iter().map(|span| span["spanId"].to_string()).collect()
}

#[test]
fn a_run_is_sent_as_one_trace_with_its_figures() {
    let collector = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let sealed = project();
    let url = collector.build_url("");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b"),
        ("OTEL_SERVICE_NAME", "night-shift"),
    ];
    ralph(&sealed, &["run", "-p", "SECRET-PROMPT", "--otel"], &variables).expect_code(0);
    let requests = collector.requests();
    assert!(requests.iter().all(|request| request.headers["x-tenant"] == "a b"));
    assert!(requests.iter().all(|request| !request.body.contains("SECRET-PROMPT")));
    let found = spans(&requests);
    let trace = found[0]["traceId"].clone();
    assert!(found.iter().all(|span| span["traceId"] == trace));
    let [run] = named(&found, "ralph run")[..] else { panic!("one run: {found:?}") };
    assert!(run.get("parentSpanId").is_none());
    assert_eq!(attribute(run, "ralph.outcome"), Some(&json!({ "stringValue": "complete" })));
    let iterations = named(&found, "iteration prompt");
    assert_eq!(iterations.len(), 2);
    assert!(iterations.iter().all(|span| span["parentSpanId"] == run["spanId"]));
    let calls = named(&found, "invoke_agent sim");
    assert_eq!(calls[0]["parentSpanId"], iterations[0]["spanId"]);
    let tokens = attribute(calls[0], "gen_ai.usage.input_tokens");
    assert_eq!(tokens, Some(&json!({ "intValue": "1000" })));
    let gates = named(&found, "gate test -f built");
    assert_eq!(gates[0]["status"], json!({ "code": 2, "message": "failed" }));
    assert_eq!(gates[1]["status"], json!({}));
    let service = requests[0].to_json()["resourceSpans"][0]["resource"]["attributes"][0].clone();
    assert_eq!(service["value"]["stringValue"], json!("night-shift"));
    let figures =
        requests.iter().rfind(|request| request.path == "/v1/metrics").expect("figures").to_json();
    let metrics = texts(&figures, "/resourceMetrics/0/scopeMetrics/0/metrics");
    let count = |name: &str| metrics.iter().filter(|metric| metric["name"] == name).count();
    for name in ["ralph.iterations", "ralph.gates", "ralph.cost", "gen_ai.client.token.usage"] {
        assert_eq!(count(name), 1, "{name}");
    }
    // The same run, sent again later, is the same trace.
    let later = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let output_text = ralph(
        &sealed,
        &["otel", "export"],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", later.build_url("").as_str())],
    );
    assert!(output_text.expect_code(0).stdout.ends_with(&format!("{} spans.\n", found.len())));
    assert_eq!(ids(&spans(&later.requests())), ids(&found));
}

#[test]
fn nothing_is_sent_unless_it_is_switched_on() {
    let collector = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let url = collector.build_url("");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    for further in [("X", "x"), ("RALPH_OTEL", "false")] {
        ralph(&project(), &["run", "-p", "base"], &[endpoint, further]).expect_code(0);
    }
    let off = [endpoint, ("RALPH_OTEL", "true"), ("OTEL_SDK_DISABLED", "true")];
    ralph(&project(), &["run", "-p", "base"], &off).expect_code(0);
    assert_eq!(collector.requests(), []);
    let on = [("RALPH_OTEL", "true"), endpoint];
    ralph(&project(), &["run", "-p", "base"], &on).expect_code(0);
    assert!(!collector.requests().is_empty());
}

#[test]
fn a_collector_that_is_down_or_hangs_is_one_warning() {
    let hanging = Receiver::start_server(vec![ReceiverAnswer::Hang]);
    let rejecting = Receiver::start_server(vec![ReceiverAnswer::Respond {
        status: 200,
        headers: String::new(),
        body: r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}"#.to_owned(),
    }]);
    for (url, expect) in [
        ("http://127.0.0.1:9".to_owned(), "telemetry did not arrive: cannot reach 127.0.0.1:9"),
        (hanging.build_url(""), "telemetry was not sent in time"),
        (rejecting.build_url(""), "rejected 2 entries: too old"),
    ] {
        let sealed = project();
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
            ("RALPH_OTEL", "true"),
            ("RALPH_NOTIFY_PATIENCE", "300ms"),
        ];
        ralph(&sealed, &["run", "-p", "base"], &variables).expect_code(0);
        let warned: Vec<String> = sealed
            .find_events("warned")
            .iter()
            .map(|event| event["text"].as_str().unwrap_or_default().to_owned())
            .filter(|text| text.contains("telemetry"))
            .collect();
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains(expect), "{expect}: {warned:?}");
    }
}

#[test]
fn resumed_run_continues_its_trace() {
    let collector = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let sealed = project();
    let directory = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&directory).expect("a directory");
    let settings = json!({ "otel": { "endpoint": collector.build_url("/base/") } });
    fs::write(directory.join("settings.json"), settings.to_string()).expect("written");
    ralph(&sealed, &["run", "-p", "base", "-m", "1"], &[]).expect_code(1);
    let before = collector.requests().len();
    ralph(&sealed, &["resume", "-m", "2"], &[]).expect_code(0);
    let paths: BTreeSet<String> =
        collector.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/base/v1/metrics", "/base/v1/traces"].map(str::to_owned).into());
    let requests: Vec<ReceivedRequest> = collector
        .requests()
        .into_iter()
        .map(|request| ReceivedRequest { path: request.path.replace("/base", ""), ..request })
        .collect();
    let (first, second) = (spans(&requests[..before]), spans(&requests[before..]));
    assert_eq!(first[0]["traceId"], second[0]["traceId"]);
    assert!(ids(&first).is_disjoint(&ids(&second)), "nothing is sent twice");
    let (one, two) = (named(&first, "ralph run")[0], named(&second, "ralph run")[0]);
    assert_eq!(two["parentSpanId"], one["spanId"]);
    // The metrics continue from their last values.
    let last =
        requests.iter().rfind(|request| request.path == "/v1/metrics").expect("figures").to_json();
    let metrics = texts(&last, "/resourceMetrics/0/scopeMetrics/0/metrics");
    let iterations = metrics.iter().find(|metric| metric["name"] == "ralph.iterations");
    let points = texts(iterations.expect("counted"), "/sum/dataPoints");
    let total: u32 =
        points.iter().filter_map(|point| point["asInt"].as_str()?.parse::<u32>().ok()).sum();
    assert_eq!(total, 2);
}
