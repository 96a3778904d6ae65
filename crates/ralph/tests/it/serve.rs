//! `ralph serve` and `ralph report --html` without a browser: what they print, what they refuse,
//! and that nothing of a run changes but by wishes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use ralph_testkit::sealed::{Running, Sealed};
use serde_json::{Value, json};

use crate::{done, first_then, repository, run, sealed};

fn serve(sealed: &Sealed, words: &[&str]) -> (Running, String, u16) {
    let mut server = sealed.start(&[&["serve", "--json"], words].concat());
    let about: Value = serde_json::from_str(&server.next_line()).expect("JSON");
    let port = about["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    (server, about["url"].as_str().expect("an address").to_owned(), port)
}

/// Asks for a path and returns the whole answer.
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn get(port: u16, path: &str) -> String {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

#[test]
fn runs_are_listed_and_shown_and_wishes_need_one_that_is_active() {
    let sealed = repository();
    sealed.script(&done(), &json!({}));
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
    assert!(get(port, &format!("/{token}/run/{key}x/")).starts_with("HTTP/1.1 404 "));
    assert!(get(port, "/").starts_with("HTTP/1.1 403 "));
    let wish = format!(
        "POST /{token}/run/{key}/wish HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
         Origin: http://127.0.0.1:{port}\r\nX-Ralph-Token: {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{{\"wish\":\"pause\"}}"
    );
    let answer = ask(port, &wish);
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.contains("No run is active"), "{answer}");
    let after = fs::read(sealed.runs()[0].join("journal.jsonl")).expect("a journal");
    assert_eq!(before, after, "nobody wrote to the run");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let sealed = sealed();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let end = sealed.ralph(&["serve", "--port", &port]).expect_code(2);
    end.expect_stderr(&format!("ort {port} of 127.0.0.1 is in use"))
        .expect_stderr("hint: leave --port out");
}

#[test]
fn a_page_holds_no_secret_and_says_where_a_diff_is_gone() {
    let sealed = repository();
    let secret = "ghp_0123456789abcdefABCDEF0123456789abcd";
    let first = json!([{ "write": { "path": "config.txt", "text": format!("token = {secret}\nplain\n") } }, { "text": "not yet" }]);
    sealed.script(
        &first_then(first, json!([{ "claim": "DONE" }])),
        &json!({ "guardrails": [{ "command": "true" }] }),
    );
    run(&sealed, &["-m", "3"]);
    let page = sealed.ralph(&["report", "--html", "-"]).expect_code(0).stdout;
    assert!(!page.contains(secret), "a secret that git has is masked in the page");
    assert!(page.contains("+plain"), "{page}");
    fs::remove_dir_all(sealed.project().join(".git/objects")).expect("removed");
    fs::create_dir(sealed.project().join(".git/objects")).expect("made");
    let run = sealed.runs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    let page = sealed.ralph(&["report", &run, "--html", "-"]).expect_code(0).stdout;
    assert!(page.contains("The diff cannot be had"), "{page}");
}
