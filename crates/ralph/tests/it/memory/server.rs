//! The server with unusual clients, other writers, kills and system errors.

use std::fs;
use std::process::Stdio;

use ralph_testkit::effort;
use ralph_testkit::sealed::wait_until;
use serde_json::{Value, json};

use super::{Client, FILE, serve, serve_with};
use crate::sealed;

#[test]
fn the_graph_is_where_the_flag_or_the_environment_says() {
    let sealed = sealed();
    serve(&sealed).create("default");
    serve_with(&sealed, &["--file", "other.jsonl"], Stdio::inherit()).create("flag");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["mcp", "memory"]).env("MEMORY_FILE_PATH", "named.jsonl");
    Client::start(command, Stdio::inherit()).create("environment");
    for (file, name) in [(FILE, "default"), ("other.jsonl", "flag"), ("named.jsonl", "environment")]
    {
        assert!(sealed.read_file(file).contains(&format!("\"name\":\"{name}\"")), "{file}");
    }
}

#[test]
fn graph_resource_reports_changes() {
    let sealed = sealed();
    let mut client = serve(&sealed);
    let uri = json!({ "uri": "memory://knowledge-graph" });
    let listed = client.ask("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], uri["uri"]);
    client.create("before");
    assert_eq!(client.notifications, [Value::Null; 0]);
    assert_eq!(client.ask("resources/subscribe", uri.clone())["result"], json!({}));
    client.create("a");
    client.names();
    client.call("no_such_tool", json!({}));
    let reported = json!({
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": uri,
    });
    assert_eq!(client.notifications, [reported]);
    let read = client.ask("resources/read", uri.clone());
    let contents = &read["result"]["contents"][0];
    assert_eq!(
        (&contents["uri"], &contents["mimeType"]),
        (&uri["uri"], &json!("application/json"))
    );
    let text: Value = serde_json::from_str(contents["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(text["entities"][1]["name"], "a");
    client.ask("resources/unsubscribe", uri);
    client.create("b");
    assert_eq!(client.notifications.len(), 1);
    let missing = client.ask("resources/read", json!({ "uri": "memory://other" }));
    assert_eq!(
        missing["error"],
        json!({ "code": -32602, "message": "MCP error -32602: Resource memory://other not found" })
    );
}

#[test]
fn secrets_are_masked_and_found_by_the_same_query() {
    let sealed = sealed();
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["mcp", "memory"]).env("STORE_PASSWORD", "horse-battery-42");
    let mut client = Client::start(command, Stdio::inherit());
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fL3hJ6");
    let output_text =
        json!([format!("the store takes horse-battery-42 and {token}"), "and nothing else"]);
    let entity = json!({ "name": "store", "entityType": "part", "observations": output_text });
    client.call("create_entities", json!({ "entities": [entity] }));
    let kept = sealed.read_file(FILE);
    assert!(!kept.contains("horse-battery") && !kept.contains(&token), "{kept}");
    assert!(kept.contains("the store takes *** and ***"), "{kept}");
    let deletion = json!({ "entityName": "store", "observations": [output_text[0]] });
    client.call("delete_observations", json!({ "deletions": [deletion] }));
    assert!(!sealed.read_file(FILE).contains("the store takes"), "{}", sealed.read_file(FILE));
}

#[test]
fn invalid_requests_do_not_stop_the_server() {
    let sealed = sealed();
    let mut client = serve(&sealed);
    for line in [
        "not json",
        "",
        "{}",
        "[]",
        "5",
        "\u{0}",
        r#"{"jsonrpc":"2.0","method":"notifications/what"}"#,
    ] {
        client.send(line);
    }
    assert_eq!(client.ask("what/ever", json!({}))["error"]["code"], -32601);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    let long = "x".repeat(3_000_000);
    client.create(&long);
    assert_eq!(client.names(), [long]);
    assert_eq!(client.leave().1, Some(0));
}

#[test]
fn pending_requests_are_answered_after_the_client_closes() {
    let sealed = sealed();
    let mut client = serve(&sealed);
    for number in 0..50 {
        let entity = json!({ "name": number.to_string(), "entityType": "t", "observations": [] });
        let params = json!({ "name": "create_entities", "arguments": { "entities": [entity] } });
        let request = json!({ "jsonrpc": "2.0", "id": number + 100, "method": "tools/call", "params": params });
        client.send(&request.to_string());
    }
    let (answers, code) = client.leave();
    let ids: Vec<u64> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    assert_eq!((ids, code), ((100..150).collect(), Some(0)));
    let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(serve(&sealed).names(), names, "in the order in which they were asked for");
}

#[test]
fn silent_client_is_not_an_error() {
    sealed().run_ralph(&["mcp", "memory"]).expect_code(0);
}

#[test]
fn eight_servers_lose_nothing() {
    let sealed = sealed();
    let mut clients: Vec<Client> = (0..8).map(|_| serve(&sealed)).collect();
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for step in 0..15 {
                    let result = client.create(&format!("{number}-{step}"));
                    assert!(result["isError"].is_null(), "{result}");
                }
            });
        }
    });
    let names = clients[0].names();
    assert_eq!(names.len(), 8 * 15);
    assert!(clients.iter_mut().all(|client| client.names() == names));
}

#[test]
fn a_server_that_is_killed_while_it_writes_leaves_a_whole_file() {
    let sealed = sealed();
    let path = sealed.project_dir().join(FILE);
    // Large enough that most of the time is spent writing.
    let large = (0..2_000).map(|number| {
        let observations = ["x".repeat(1_000)];
        json!({ "type": "entity", "name": format!("old {number}"), "observations": observations })
    });
    sealed
        .write_file(FILE, &large.map(|entity| format!("{entity}\n")).collect::<Vec<_>>().concat());
    let mut known: Vec<String> = Vec::new();
    for round in 0..effort::choose_count(10, 2) {
        let mut client = serve(&sealed);
        let first = format!("{round}");
        client.create(&first);
        known.push(first);
        let before = fs::metadata(&path).expect("there");
        // Many at once, and the kill as soon as one of them is seen to be written.
        for number in 0..30 {
            let name = format!("{round}/{number}");
            let entity = json!({ "name": name, "entityType": "t", "observations": [] });
            let params =
                json!({ "name": "create_entities", "arguments": { "entities": [entity] } });
            let id = 1_000 + number;
            let request =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            client.send(&request.to_string());
        }
        wait_until("something is written", || {
            fs::metadata(&path).expect("there").len() != before.len()
        });
        client.kill();
        for line in sealed.read_file(FILE).lines() {
            serde_json::from_str::<Value>(line).expect("a whole line");
        }
        let names = sealed.run_ralph(&["memory", "export"]).expect_code(0).stdout;
        let names: Value = serde_json::from_str(&names).expect("JSON");
        let names = names["entities"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = names.iter().filter_map(|entity| entity["name"].as_str()).collect();
        assert!(names.len() > 2_000 + round);
        assert!(known.iter().all(|name| names.contains(&name.as_str())), "{known:?}");
    }
    // A partial file is removed with the next change.
    serve(&sealed).create("last");
    let directory = path.parent().expect("it has one");
    let left = fs::read_dir(directory).expect("readable").flatten();
    let left: Vec<_> =
        left.filter(|it| it.file_name().to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn damaged_lines_are_reported_and_kept() {
    let sealed = sealed();
    sealed.write_file(FILE, "{\"type\":\"entity\",\"name\":\"kept\",\"since\":1}\n{\"type\":\"ent");
    let output_text = fs::File::create(sealed.root().join("said")).expect("created");
    let mut client = serve_with(&sealed, &[], output_text.into());
    assert_eq!(client.names(), ["kept"]);
    client.create("new");
    assert_eq!(client.names(), ["kept", "new"]);
    client.leave();
    let output_text = fs::read_to_string(sealed.root().join("said")).expect("readable");
    assert!(
        output_text.contains("warning: line 2 of `") && output_text.contains("cannot be read"),
        "{output_text}"
    );
    let aside = output_text
        .lines()
        .find_map(|line| line.strip_prefix("warning: what could not be read is kept in `"));
    let aside = aside.and_then(|rest| rest.strip_suffix('`')).expect("it says where");
    assert_eq!(fs::read_to_string(aside).expect("kept"), "{\"type\":\"ent\n");
    assert!(sealed.read_file(FILE).contains("\"since\":1"));
}

#[test]
fn system_errors_are_returned_to_the_model() {
    let sealed = sealed();
    let mut client = serve_with(&sealed, &["--file", "/dev/null/memory.jsonl"], Stdio::inherit());
    let result = client.create("x");
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().expect("text");
    assert!(text.starts_with("cannot make `/dev/null`: "), "{text}");
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn full_disk_keeps_the_old_file_and_the_server() {
    let sealed = sealed();
    // A file size limit of a few kilobytes, which looks like a full disk to a writer.
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$0\" mcp memory";
    let mut command = sealed.build_command("/bin/sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_ralph")]);
    let mut client = Client::start(command, Stdio::inherit());
    client.create("kept");
    let before = sealed.read_file(FILE);
    let result = client.create(&"x".repeat(100_000));
    let text = result["content"][0]["text"].as_str().expect("text");
    assert!(text.starts_with("cannot write `") && text.contains("File too large"), "{text}");
    assert_eq!(sealed.read_file(FILE), before);
    client.create("next");
    assert_eq!(client.names(), ["kept", "next"]);
}
