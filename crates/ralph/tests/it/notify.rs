//! Notifications: who gets which, and that an unresponsive channel does not block a run.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use ralph_testkit::receiver::{Receiver, ReceiverAnswer};
use ralph_testkit::sealed::{Finished, Running, Sealed, wait_until};
use serde_json::{Value, json};

use crate::terminal::on_a_terminal;
use crate::{always, done, first_then, repository, run, sealed};

/// Writes the user's own settings.
fn user(sealed: &Sealed, notify: &Value) {
    let directory = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&directory).expect("a directory");
    let text = json!({ "notify": notify }).to_string();
    fs::write(directory.join("settings.json"), text).expect("written");
}

/// A project that completes at once, for a user with these notification settings.
fn notifying_project(notify: &Value) -> Sealed {
    let sealed = sealed();
    sealed.write_script(&done(), &json!({}));
    user(&sealed, notify);
    sealed
}

/// Settings for a webhook on loopback, with short timeouts.
fn hook(receiver: &Receiver) -> Value {
    let url = receiver.build_url("/hook/T0/secret");
    json!({ "url": url, "allowPrivate": true, "backoff": "10ms", "timeout": "5s" })
}

fn with_variables(sealed: &Sealed, words: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).envs(variables.iter().copied());
    Running::start_command(command).wait_for_end()
}

/// Returns the warnings about notifications in the journal.
fn warnings(sealed: &Sealed) -> Vec<String> {
    let warned = sealed.find_events("warned").into_iter();
    let texts = warned.filter_map(|event| event["text"].as_str().map(str::to_owned));
    texts.filter(|text| text.contains("notice")).collect()
}

#[test]
fn webhook_is_retried_and_signed() {
    let answers = [500, 503, 200].map(ReceiverAnswer::with_status).to_vec();
    let receiver = Receiver::start_server(answers);
    let mut webhook = hook(&receiver);
    webhook["secretEnv"] = json!("HOOK_SIGNING");
    let sealed = notifying_project(&json!({ "webhook": webhook }));
    let words = ["run", "-p", "base"];
    let end = with_variables(&sealed, &words, &[]).expect_code(2);
    let place = "home/.config/ralph/settings.json:1:";
    assert!(end.stderr.contains(place), "{}", end.stderr);
    end.expect_stderr("`notify.webhook.secretEnv`: the variable `HOOK_SIGNING` is not set")
        .expect_stderr("hint: export HOOK_SIGNING, or remove the key: then nothing is signed");
    with_variables(&sealed, &words, &[("HOOK_SIGNING", "whsec_AAAAAAAAAAAA")]).expect_code(0);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2].path, "/hook/T0/secret");
    let headers = &requests[2].headers;
    assert!(headers["webhook-id"].contains(".end-"), "{headers:?}");
    assert!(headers["webhook-timestamp"].parse::<u64>().is_ok(), "{headers:?}");
    assert!(headers["webhook-signature"].starts_with("v1,"), "{headers:?}");
    let body = requests[2].to_json();
    assert_eq!(body["title"], json!("ralph: project: complete"));
    let text = body["text"].as_str().expect("text");
    assert!(text.starts_with("ralph: project: complete\n1 iteration"), "{text}");
    assert_eq!(body["ralph"]["occasion"], json!("finish"));
    assert_eq!(body["ralph"]["exitCode"], json!(0));
    assert_eq!(warnings(&sealed), Vec::<String>::new());
}

#[test]
fn failing_notification_channel_is_one_warning() {
    let elsewhere = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let location = format!("location: {}\r\n", elsewhere.build_url("/"));
    let says = |status, headers: &str, body: &str| ReceiverAnswer::Respond {
        status,
        headers: headers.to_owned(),
        body: body.to_owned(),
    };
    for (answer, retries, expect) in [
        (says(404, "", "no_team"), 4, "answered 404: no_team"),
        (says(301, &location, ""), 4, "answered 301, and redirects are not followed"),
        (says(308, &location, ""), 4, "answered 308, and redirects are not followed"),
        (says(500, "", &"x".repeat(3_000_000)), 1, "answered 500: xxx"),
        (ReceiverAnswer::Hang, 1, "no answer within 100 ms"),
    ] {
        let receiver = Receiver::start_server(vec![answer]);
        let mut webhook = hook(&receiver);
        webhook["retries"] = json!(retries);
        if expect.starts_with("no answer") {
            webhook["timeout"] = json!("100ms");
        }
        let sealed = notifying_project(&json!({ "webhook": webhook }));
        let end = run(&sealed, &[]).expect_code(0);
        let warned = warnings(&sealed);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains(expect), "{warned:?}");
        assert!(!end.stderr.contains("T0/secret"), "{}", end.stderr);
        let events = sealed.events();
        let last = events.iter().rposition(|event| event["type"] == "run_ended");
        assert!(last.is_some_and(|at| at < events.len()), "the run ended in order");
        sealed.run_ralph(&["status"]).expect_code(0);
    }
    assert_eq!(elsewhere.requests(), []);
}

#[test]
fn private_address_needs_permission() {
    let receiver = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let url = receiver.build_url("/").replace("http://", "https://");
    let sealed = notifying_project(&json!({ "webhook": { "url": url } }));
    run(&sealed, &[]).expect_code(0);
    let warned = warnings(&sealed).concat();
    assert!(warned.contains("a loopback address, which needs `allowPrivate`"), "{warned}");
    assert_eq!(receiver.requests(), []);
    user(&sealed, &json!({ "webhook": { "url": receiver.build_url("/") } }));
    run(&sealed, &[])
        .expect_code(2)
        .expect_stderr(
            "`notify.webhook.url`: http:// is not encrypted: others could read the notification",
        )
        .expect_stderr("set `notify.webhook.allowPrivate` for a private one");
}

#[test]
fn a_command_gets_each_occasion_on_stdin() {
    let sealed = repository();
    let handoff = |task: &str| json!({"task_completed": {"task_id": task, "summary": "Did it.", "fully_complete": true}});
    let mut blocked = handoff("T2");
    blocked["blocked"] = json!({"needs": "an API key", "why": "it is missing"});
    sealed.write_script(
        &json!([
            {"when": {"task": "T1"}, "do": [{"append": {"path": "bad", "text": "x"}}, {"handoff": handoff("T1")}]},
            {"do": [{"handoff": blocked}]},
        ]),
        &json!({"guardrails": [{"command": "test ! -f bad"}], "tasks": {"maxAttempts": 1}}),
    );
    let task = |id: &str, order: u32| json!({"id": id, "title": format!("Do {id}"), "description": "d", "status": "pending", "order": order, "acceptance_criteria": ["c"], "depends_on": []});
    let plan = json!({"project": "p", "tasks": [task("T1", 1), task("T2", 2)]});
    sealed.write_file("plan.json", &plan.to_string());
    sealed.commit_all("plan");
    let log = sealed.root().join("notified");
    let command = format!("printf '%s ' \"$RALPH_NOTICE\" >> {0}; cat >> {0}", log.display());
    user(&sealed, &json!({ "command": command }));
    sealed.run_ralph(&["build", "--skip-review"]).expect_code(1);
    let text = fs::read_to_string(log).expect("it was notified");
    let notices: Vec<(String, Value)> = text
        .lines()
        .map(|line| {
            let (occasion, facts) = line.split_once(' ').expect("both");
            (occasion.to_owned(), serde_json::from_str(facts).expect("facts"))
        })
        .collect();
    let occasions: Vec<&str> = notices.iter().map(|(occasion, _)| occasion.as_str()).collect();
    assert_eq!(occasions, ["blocked", "person", "failure"]);
    assert_eq!(notices[0].1["task"], json!("T1"));
    assert_eq!(notices[1].1["needs"], json!("needs an API key (it is missing)"));
    assert_eq!(notices[2].1["progress"]["failed"], json!(2));
    assert_eq!(warnings(&sealed), Vec::<String>::new());
}

#[test]
fn hanging_notify_command_is_ended_and_reported() {
    let sealed = notifying_project(
        &json!({ "command": "echo far >&2; exec sleep 600", "commandTimeout": "200ms" }),
    );
    run(&sealed, &[]).expect_code(0);
    assert_eq!(warnings(&sealed), ["a notice by command did not arrive: timed out: far"]);
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn the_end_of_a_run_waits_no_longer_than_the_settings_say() {
    let receiver = Receiver::start_server(vec![ReceiverAnswer::Hang]);
    let sealed = notifying_project(&json!({ "webhook": hook(&receiver), "patience": "100ms" }));
    run(&sealed, &[]).expect_code(0);
    assert_eq!(warnings(&sealed), ["a notice by webhook did not arrive: 1 not sent in time"]);
}

#[test]
fn desktop_and_terminal_get_notifications() {
    let sealed = notifying_project(&json!({ "desktop": true }));
    let shown = sealed.root().join("shown");
    sealed.write_program(
        "notify-send",
        &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}\n", shown.display()),
    );
    let seen = on_a_terminal(&sealed, &[("RALPH_NOTIFY_TERMINAL", "osc777")]);
    assert!(seen.contains("\x07\x1b]777;notify;ralph: project: complete;1 iteration"), "{seen:?}");
    let shown = fs::read_to_string(shown).expect("the desktop was notified");
    let lines: Vec<&str> = shown.lines().take(4).collect();
    assert_eq!(lines, ["--app-name=ralph", "--urgency=normal", "--", "ralph: project: complete"]);
    // A pipe gets no bell.
    let end = with_variables(&sealed, &["run", "-p", "x"], &[("RALPH_NOTIFY_TERMINAL", "bell")]);
    assert!(!end.expect_code(0).stderr.contains('\x07'));
}

#[test]
fn untrusted_project_cannot_send_notifications() {
    let receiver = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    for (section, key) in [
        (json!({ "notify": { "command": "touch notified" } }), "notify.command"),
        (json!({ "notify": { "webhook": hook(&receiver) } }), "notify.webhook.url"),
        (json!({ "otel": { "endpoint": receiver.build_url("") } }), "otel.endpoint"),
        (json!({ "otel": { "enabled": true } }), "otel.enabled"),
        (json!({ "otel": { "headersEnv": "HOME" } }), "otel.headersEnv"),
    ] {
        let sealed = sealed();
        sealed.write_script(&done(), &section);
        let end = run(&sealed, &[]).expect_code(2).expect_stderr("need your trust");
        assert!(end.stderr.contains(&format!("`{key}` asks for")), "{}", end.stderr);
        sealed.run_ralph(&["notify", "--test"]).expect_code(2);
        assert!(!sealed.project_dir().join("notified").exists());
    }
    assert_eq!(receiver.requests(), []);
    // A project may choose how the user is notified, without starting anything.
    let sealed = sealed();
    sealed.write_script(&done(), &json!({ "notify": { "on": ["failure"], "desktop": false } }));
    run(&sealed, &[]).expect_code(0);
    sealed.write_script(&done(), &json!({ "notify": { "command": "touch notified" } }));
    sealed.run_ralph(&["trust", "--yes"]).expect_code(0);
    run(&sealed, &[]).expect_code(0);
    assert!(sealed.project_dir().join("notified").exists());
}

#[test]
fn resumed_run_notifies_only_new_events() {
    let receiver = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let sealed = sealed();
    let calls = first_then(json!([{ "text": "not yet" }]), json!([{ "claim": "DONE" }]));
    sealed.write_script(&calls, &json!({}));
    user(&sealed, &json!({ "webhook": hook(&receiver) }));
    run(&sealed, &["-m", "1"]).expect_code(1);
    sealed.run_ralph(&["resume", "-m", "2"]).expect_code(0);
    let occasions: Vec<Value> = receiver
        .requests()
        .iter()
        .map(|request| request.to_json()["ralph"]["occasion"].clone())
        .collect();
    assert_eq!(occasions, ["budget", "finish"]);
    let run = sealed.runs().pop().expect("a run");
    let ledger = fs::read_to_string(run.join("notices.jsonl")).expect("a ledger");
    assert_eq!(ledger.matches("\"delivered\":true").count(), 2, "{ledger}");
}

#[test]
fn secrets_do_not_leave_in_a_notice() {
    let receiver = Receiver::start_server(vec![ReceiverAnswer::with_status(200)]);
    let sealed = sealed();
    let words = "the key is hunter2-tulip-9931 indeed";
    sealed.write_script(
        &always(json!([{ "result": { "error": { "class": "crashed", "words": words } } }])),
        &json!({}),
    );
    user(&sealed, &json!({ "webhook": hook(&receiver) }));
    let variables = [("SHOP_API_KEY", "hunter2-tulip-9931"), ("RALPH_RETRIES_MAX", "0")];
    with_variables(&sealed, &["run", "-p", "base"], &variables).expect_code(4);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].to_json()["ralph"]["occasion"], json!("failure"));
    assert!(!requests[0].body.contains("hunter2"), "{}", requests[0].body);
}

#[test]
fn notify_test_reports_each_channel() {
    let sealed = sealed();
    sealed
        .run_ralph(&["notify", "--test"])
        .expect_code(2)
        .expect_stderr("No notification channel is set")
        .expect_stderr("hint: set `notify.desktop`");
    let receiver = Receiver::start_server([200, 404].map(ReceiverAnswer::with_status).to_vec());
    let mut webhook = hook(&receiver);
    webhook["topic"] = json!("mine");
    user(&sealed, &json!({ "webhook": webhook, "command": "exit 7", "desktop": true }));
    sealed.write_program("notify-send", "#!/bin/sh\nexit 0\n");
    let listed = sealed.run_ralph(&["notify"]).expect_code(0).stdout;
    assert_eq!(listed, "desktop   set\nwebhook   set\ncommand   set\n");
    assert_eq!(receiver.requests(), []);
    let host = receiver.build_url("").replace("http://", "");
    let message = sealed.run_ralph(&["notify", "--test"]).expect_code(1).stdout;
    assert_eq!(
        message.replace(&host, "HOST"),
        "desktop   delivered: notify-send took it\nwebhook   delivered: HOST answered 200\ncommand   failed: exit code 7\n"
    );
    let body = receiver.requests()[0].to_json();
    assert_eq!((&body["topic"], &body["ralph"]["occasion"]), (&json!("mine"), &json!("test")));
    let facts = sealed.run_ralph(&["notify", "--test", "--json"]).expect_code(1).stdout;
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    assert_eq!(facts["channels"][1]["delivered"], json!(false));
}

/// A TLS server with a certificate that no public authority signed.
struct Encrypted {
    server: Child,
    port: u16,
    authority: PathBuf,
}

impl Encrypted {
    /// Starts one; `None` if openssl is missing, which CI does not allow.
    fn start(sealed: &Sealed) -> Option<Self> {
        let place = sealed.root().join("tls");
        fs::create_dir(&place).expect("a directory");
        let openssl = |words: &str| {
            let mut command = sealed.build_command("openssl");
            command.current_dir(&place).args(words.split(' ')).stderr(Stdio::null());
            command
        };
        if openssl("version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("CI").is_none(), "openssl is missing in CI");
            return None;
        }
        fs::write(place.join("san"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            .expect("written");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for words in [
            format!("req -x509 {key} -subj /CN=Ours -days 2 -keyout ca.key -out ca.pem"),
            format!("req {key} -subj /CN=hook -keyout key.pem -out hook.csr"),
            "x509 -req -in hook.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -extfile san -out hook.pem"
                .to_owned(),
        ] {
            let made = openssl(&words).stdout(Stdio::null()).status().expect("it runs");
            assert!(made.success(), "openssl {words}");
        }
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("an address").port();
        drop(taken);
        let serve = format!("s_server -quiet -accept 127.0.0.1:{port} -cert hook.pem -key key.pem");
        let mut command = openssl(&serve);
        let server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let server = server.expect("it starts");
        let encrypted = Self { server, port, authority: place.join("ca.pem") };
        wait_until("the server", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(encrypted)
    }

    /// Answers the next request that arrives, and returns it.
    fn answer(&mut self) -> String {
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        let stdout = self.server.stdout.as_mut().expect("a pipe");
        while !received.ends_with(b"}") {
            let count = stdout.read(&mut piece).expect("more input");
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&piece[..count]);
        }
        let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        let stdin = self.server.stdin.as_mut().expect("a pipe");
        stdin.write_all(answer).and_then(|()| stdin.flush()).expect("answered");
        String::from_utf8_lossy(&received).into_owned()
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn own_certificate_authority_is_trusted_by_variable() {
    let sealed = sealed();
    let Some(mut server) = Encrypted::start(&sealed) else { return };
    let url = format!("https://127.0.0.1:{}/hook", server.port);
    let retries = json!({ "url": url, "allowPrivate": true, "retries": 0, "timeout": "10s" });
    user(&sealed, &json!({ "webhook": retries }));
    let words = ["notify", "--test"];
    let end = with_variables(&sealed, &words, &[]).expect_code(1);
    assert!(end.stdout.contains("UnknownIssuer"), "{}{}", end.stdout, end.stderr);
    let nowhere = sealed.root().join("nowhere.pem");
    let nothing = sealed.root().join("nothing.pem");
    fs::write(&nothing, "no certificate\n").expect("written");
    for (file, expect) in [(&nowhere, "cannot read"), (&nothing, "there is no certificate in")] {
        let file = file.to_str().expect("text");
        let end = with_variables(&sealed, &words, &[("SSL_CERT_FILE", file)]).expect_code(1);
        let message = format!("{expect} `{file}`, which SSL_CERT_FILE names");
        assert!(end.stdout.contains(&message), "{}{}", end.stdout, end.stderr);
    }
    let authority = server.authority.to_str().expect("text").to_owned();
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("SSL_CERT_FILE", &authority);
    let trial = Running::start_command(command);
    let request = server.answer();
    assert!(
        request.starts_with("POST /hook HTTP/1.1\r\n") && request.contains("a test"),
        "{request}"
    );
    let end = trial.wait_for_end().expect_code(0);
    assert!(end.stdout.contains("answered 204"), "{}", end.stdout);
}
