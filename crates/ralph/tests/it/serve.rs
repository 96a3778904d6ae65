//! `ralph serve` and `ralph report --html` without a browser: what they print, what they refuse,
//! and that only control requests change a run.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use ralph_testkit::sealed::{Running, Sealed, wait_until};
use serde_json::{Value, json};

use crate::{done, first_then, repository, run, sealed};

pub(crate) fn serve(sealed: &Sealed, words: &[&str]) -> (Running, String, u16) {
    let mut server = sealed.start_ralph(&[&["serve", "--json"], words].concat());
    let about: Value = serde_json::from_str(&server.read_line()).expect("JSON");
    let port = about["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    (server, about["url"].as_str().expect("an address").to_owned(), port)
}

/// Requests a path and returns the whole response.
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

pub(crate) fn get(port: u16, path: &str) -> String {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

#[test]
fn runs_are_listed_and_control_needs_an_active_one() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    let before = fs::read(sealed.runs()[0].join("journal.jsonl")).expect("a journal");
    let (_server, url, port) = serve(&sealed, &[]);
    let token = url.split('/').nth(3).expect("a token");
    assert!(token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let list = get(port, &format!("/{token}/"));
    let key =
        list.split("href=\"run/").nth(1).and_then(|rest| rest.split('/').next()).expect("a run");
    let page = get(port, &format!("/{token}/run/{key}/"));
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<h1>Complete.</h1>"), "{page}");
    let stats = get(port, &format!("/{token}/stats/"));
    assert!(stats.contains("1 run, 1 complete; 0 tasks landed"), "{stats}");
    assert!(stats.contains(&format!("href=\"../run/{key}/\"")), "{stats}");
    assert!(list.contains("href=\"stats/\""), "{list}");
    assert!(get(port, &format!("/{token}/run/{key}x/")).starts_with("HTTP/1.1 404 "));
    assert!(get(port, "/").starts_with("HTTP/1.1 403 "));
    let request = format!(
        "POST /{token}/run/{key}/request HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
         Origin: http://127.0.0.1:{port}\r\nX-Ralph-Token: {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{{\"wish\":\"pause\"}}"
    );
    let answer = ask(port, &request);
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.contains("No run is active"), "{answer}");
    let after = fs::read(sealed.runs()[0].join("journal.jsonl")).expect("a journal");
    assert_eq!(before, after, "the run was not written to");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let sealed = sealed();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let end = sealed.run_ralph(&["serve", "--port", &port]).expect_code(2);
    end.expect_stderr(&format!("ort {port} of 127.0.0.1 is in use"))
        .expect_stderr("hint: without --port");
}

#[test]
fn page_contains_no_secret_and_marks_missing_diffs() {
    let sealed = repository();
    let secret = "ghp_0123456789abcdefABCDEF0123456789abcd";
    let first = json!([{ "write": { "path": "config.txt", "text": format!("token = {secret}\nplain\n") } }, { "text": "not yet" }]);
    sealed.write_script(
        &first_then(first, json!([{ "claim": "DONE" }])),
        &json!({ "guardrails": [{ "command": "true" }] }),
    );
    run(&sealed, &["-m", "3"]);
    let page = sealed.run_ralph(&["report", "--html", "-"]).expect_code(0).stdout;
    assert!(!page.contains(secret), "a secret that git has is masked in the page");
    assert!(page.contains("+plain"), "{page}");
    fs::remove_dir_all(sealed.project_dir().join(".git/objects")).expect("removed");
    fs::create_dir(sealed.project_dir().join(".git/objects")).expect("made");
    let run = sealed.runs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    let page = sealed.run_ralph(&["report", &run, "--html", "-"]).expect_code(0).stdout;
    assert!(page.contains("The diff is not available"), "{page}");
}

/// Returns the token in an address.
pub(crate) fn token(url: &str) -> String {
    url.split('/').nth(3).expect("a token").to_owned()
}

/// Returns the keys of the runs that are listed, newest first.
pub(crate) fn keys(port: u16, token: &str) -> Vec<String> {
    let list = get(port, &format!("/{token}/"));
    let links = list.split("href=\"run/").skip(1);
    links.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect()
}

#[test]
fn only_requests_of_the_page_are_accepted() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    let (_server, url, port) = serve(&sealed, &[]);
    let token = token(&url);
    let key = keys(port, &token).remove(0);
    let (page, control) = (format!("/{token}/run/{key}/"), format!("/{token}/run/{key}/request"));
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    let origin = format!("Origin: http://127.0.0.1:{port}\r\n");
    let own = format!("X-Ralph-Token: {token}\r\n");
    let kind = "Content-Type: application/json\r\n";
    for (what, method, path, headers, status) in [
        ("the page", "GET", &page, host.clone(), 200),
        ("its other name", "GET", &page, format!("Host: localhost:{port}\r\n"), 200),
        ("a name that points here", "GET", &page, format!("Host: evil.example:{port}\r\n"), 421),
        ("no name", "GET", &page, String::new(), 421),
        ("another site", "GET", &page, format!("{host}Origin: http://evil.example\r\n"), 403),
        (
            "a link of another site",
            "GET",
            &page,
            format!("{host}Sec-Fetch-Site: cross-site\r\n"),
            403,
        ),
        ("another port", "GET", &page, format!("{host}Origin: http://127.0.0.1:1\r\n"), 403),
        (
            "a control request to a run that is over",
            "POST",
            &control,
            format!("{host}{origin}{own}{kind}"),
            409,
        ),
        ("a form of another site", "POST", &control, format!("{host}Origin: null\r\n{kind}"), 403),
        (
            "a control request without an origin",
            "POST",
            &control,
            format!("{host}{own}{kind}"),
            403,
        ),
        (
            "a control request without the token",
            "POST",
            &control,
            format!("{host}{origin}{kind}"),
            403,
        ),
        (
            "a control request as a form sends it",
            "POST",
            &control,
            format!("{host}{origin}{own}"),
            415,
        ),
    ] {
        let body = r#"{"wish":"stop"}"#;
        let length = format!("Content-Length: {}\r\n", body.len());
        let request = match method {
            "POST" => format!("POST {path} HTTP/1.1\r\n{headers}{length}\r\n{body}"),
            _ => format!("GET {path} HTTP/1.1\r\n{headers}\r\n"),
        };
        let answer = ask(port, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer:.200}");
    }
    assert_eq!(fs::read_dir(sealed.runs()[0].join("inbox")).map_or(0, Iterator::count), 0);
}

#[test]
fn half_open_connections_lock_no_one_out() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    let (_server, url, port) = serve(&sealed, &[]);
    let token = token(&url);
    for beginning in
        ["", "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
    {
        let held: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                // The server may have dropped it for a newer one.
                let _ = stream.write_all(beginning.as_bytes());
                stream
            })
            .collect();
        let answer = get(port, &format!("/{token}/"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{beginning:?}: {answer}");
        drop(held);
    }
}

#[test]
fn a_browser_is_handed_an_address_without_the_secret() {
    let sealed = repository();
    sealed.write_program(
        "xdg-open",
        "#!/bin/sh\nprintf %s \"$*\" > ../opening\nmv ../opening ../opened\n",
    );
    let (_server, url, port) = serve(&sealed, &["--open"]);
    wait_until("a browser", || sealed.root().join("opened").exists());
    let opened = fs::read_to_string(sealed.root().join("opened")).expect("an address");
    let ticket = opened.strip_prefix(&format!("http://127.0.0.1:{port}/open/")).expect("ours");
    assert!(ticket.len() >= 32 && !opened.contains(&token(&url)), "{opened}");
    let answer = get(port, &format!("/open/{ticket}"));
    assert!(answer.contains(&format!("\r\nLocation: /{}/\r\n", token(&url))), "{answer}");
    assert!(get(port, &format!("/open/{ticket}")).starts_with("HTTP/1.1 403 "), "once only");
}

#[test]
fn several_runs_each_have_a_page() {
    let sealed = repository();
    sealed.write_script(&done(), &json!({}));
    run(&sealed, &[]).expect_code(0);
    sealed.write_script(&crate::always(json!([{ "text": "not yet" }])), &json!({}));
    run(&sealed, &["-m", "2"]).expect_code(1);
    for words in [&[][..], &["--all"]] {
        let (_server, url, port) = serve(&sealed, words);
        let token = token(&url);
        let keys = keys(port, &token);
        assert_eq!(keys.len(), 2, "{keys:?}");
        for (key, head) in keys.iter().zip(["Not complete", "Complete."]) {
            let page = get(port, &format!("/{token}/run/{key}/"));
            assert!(page.contains(&format!("<h1>{head}")), "{head}: {page}");
        }
    }
}

#[test]
fn server_token_is_kept_on_request() {
    let sealed = repository();
    let file = sealed.root().join("secret");
    let words = ["--token-file", file.to_str().expect("text")];
    let (first, url, _) = serve(&sealed, &words);
    drop(first);
    let (_second, again, _) = serve(&sealed, &words);
    assert_eq!(token(&url), token(&again));
    let refused = |what: &str| {
        let end = sealed.run_ralph(&[&["serve"], &words[..]].concat()).expect_code(2);
        end.expect_stderr(what);
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    refused("ther users can read the secret");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    for text in
        ["", "short", "../../../../../../../../../../etc/passwd", "not hexadecimal, however long"]
    {
        fs::write(&file, text).expect("written");
        refused("has no secret of at least 32 hexadecimal digits");
    }
    fs::remove_file(&file).expect("removed");
    symlink("/dev/null", &file).expect("a link");
    refused("annot read the secret");
}

/// Adds many iterations to the journal of a run that was cut off, and returns its length.
fn lengthen(journal: &Path, iterations: u64) -> u64 {
    let text = fs::read_to_string(journal).expect("a journal");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let is = |line: &Value, kind: &str| line["event"]["type"] == kind;
    let first = lines.iter().position(|line| is(line, "iteration_started")).expect("an iteration");
    let both = ["iteration_started", "iteration_ended"]
        .map(|kind| lines.iter().find(|line| is(line, kind)).expect("an event"));
    let mut kept: Vec<String> = lines[..first].iter().map(Value::to_string).collect();
    for number in 1..=iterations {
        for line in both {
            let mut line = line.clone();
            line["seq"] = json!(kept.len() + 1);
            line["event"]["iteration"] = json!(number);
            kept.push(line.to_string());
        }
    }
    // The last one is under way.
    kept.pop();
    fs::write(journal, kept.join("\n") + "\n").expect("written");
    fs::metadata(journal).expect("there").len()
}

#[test]
fn long_journal_is_read_once_for_all_requests() {
    let sealed = repository();
    sealed.write_script(&crate::always(json!([{ "text": "not yet" }])), &json!({}));
    run(&sealed, &["-m", "1"]).expect_code(1);
    let place = sealed.runs().remove(0);
    let journal = place.join("journal.jsonl");
    let length = lengthen(&journal, 10_000);
    // A run is active while its lock is held.
    let state = place.ancestors().nth(2).expect("a state directory");
    let _lock = ralph_io::store::RunLock::acquire(state, ralph_io::clock::now()).expect("free");
    // Not by a known process: the server is a child of this one, and control requests of agents
    // are refused.
    fs::write(state.join("lock"), "").expect("written");
    let (server, url, port) = serve(&sealed, &[]);
    let token = token(&url);
    let key = keys(port, &token).remove(0);
    let read = || -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", server.id())).expect("counted");
        let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
        line.parse().expect("a number")
    };
    let before = read();
    let page = get(port, &format!("/{token}/run/{key}/"));
    assert!(page.contains("<h1>Running iteration 10000"), "{page:.3000}");
    let once = read() - before;
    assert!(once >= length, "{once} of {length}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let ask_for =
        format!("GET /{token}/run/{key}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(ask_for.as_bytes()).expect("sent");
    let mut received = String::new();
    for number in 10_001..10_004_u64 {
        let request = format!(
            "POST /{token}/run/{key}/request HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
             Origin: http://127.0.0.1:{port}\r\nX-Ralph-Token: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{{\"wish\":\"pause\"}}"
        );
        let answer = ask(port, &request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let text = fs::read_to_string(&journal).expect("a journal");
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        let mut file = fs::File::options().append(true).open(&journal).expect("opened");
        for (at, line) in last.into_iter().rev().enumerate() {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            line["seq"] = json!(text.lines().count() + 1 + at);
            line["event"]["iteration"] = json!(number - 1 + at as u64);
            writeln!(file, "{line}").expect("written");
        }
        let mut piece = vec![0; 65_536];
        while !received.contains(&format!("Running iteration {number}")) {
            let count = match stream.read(&mut piece) {
                // A child of another test has ended.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.expect("more output"),
            };
            assert!(count > 0, "it ended: {received:.2000}");
            received.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    }
    let more = read() - before - once;
    assert!(more < length / 4, "{more} more bytes were read of a journal of {length}");
}

/// Serves the runs of a project, and returns the page of the newest one.
pub(crate) fn load_first_page(sealed: &Sealed) -> (Running, String) {
    let (server, url, port) = serve(sealed, &[]);
    let token = url.split('/').nth(3).expect("a token");
    let list = get(port, &format!("/{token}/"));
    let key =
        list.split("href=\"run/").nth(1).and_then(|rest| rest.split('/').next()).expect("a run");
    let page = get(port, &format!("/{token}/run/{key}/"));
    (server, page)
}
