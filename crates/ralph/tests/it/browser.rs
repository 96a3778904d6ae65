//! The pages in a real browser: their content, live updates, buttons that reach the run,
//! accessibility, and that nothing leaves this machine.

use std::env;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;

use ralph_testkit::browser::Browser;
use ralph_testkit::sealed::{Running, Sealed};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::repository;

/// Text that an agent may write anywhere.
const HOSTILE: &str = "</script></pre><img src=x onerror=document.title='owned'>";

fn handoff(task: &str) -> Value {
    json!({ "handoff": { "task_completed":
        { "task_id": task, "summary": "Did it.", "fully_complete": true } } })
}

fn usage(input: u64, output: u64, cost: f64) -> Value {
    json!({ "usage": { "input": input, "output": output, "cacheRead": input * 3, "cost": cost } })
}

fn verdict(verdict: &str, feedback: &str) -> Value {
    json!({ "verdict": { "verdict": verdict, "feedback": feedback, "criteria": [] } })
}

fn write(path: &str, text: &str) -> Value {
    json!({ "write": { "path": path, "text": text } })
}

fn plan(tasks: &[(&str, &str, &[&str])]) -> String {
    let tasks: Vec<Value> = tasks
        .iter()
        .enumerate()
        .map(|(at, (id, title, needs))| {
            json!({ "id": id, "title": title, "description": title, "status": "pending",
                    "order": at + 1, "acceptance_criteria": ["it works"], "depends_on": needs })
        })
        .collect();
    json!({ "project": "gateway", "tasks": tasks }).to_string()
}

/// A run over a mostly finished list: one task is stuck, one needs a user.
fn night() -> Sealed {
    let sealed = repository();
    let blocked = json!({ "handoff": {
        "task_completed": { "task_id": "US-5", "summary": "no", "fully_complete": false },
        "blocked": { "needs": "the address of the staging server", "why": "the specification names it only as STAGING" } } });
    let calls = json!([
        { "when": { "role": "review", "task": "US-2" }, "repeat": 1, "do": [usage(9_000, 300, 0.08),
            verdict("changes_requested", "src/limit.sh:3 counts requests of all clients together, so the second client is refused too early.")] },
        { "when": { "role": "review" }, "do": [usage(8_000, 200, 0.06), verdict("approved", "")] },
        { "when": { "task": "US-1" }, "do": [
            write("src/parse.sh", "#!/bin/sh\n# Reads a query string.\nIFS='&'\nfor pair in $1; do\n    printf '%s\\n' \"$pair\"\ndone\n"),
            usage(42_000, 1_800, 0.31), handoff("US-1")] },
        { "when": { "role": "fix", "task": "US-2" }, "do": [
            write("src/limit.sh", "#!/bin/sh\n# A bucket for each client.\ncount=$(cat \"bucket-$1\" 2>/dev/null || echo 0)\n[ \"$count\" -lt 10 ]\n"),
            usage(30_000, 900, 0.22), handoff("US-2")] },
        { "when": { "task": "US-2" }, "do": [
            write("src/limit.sh", "#!/bin/sh\n# One bucket.\ncount=$(cat bucket 2>/dev/null || echo 0)\n[ \"$count\" -lt 10 ]\n"),
            usage(51_000, 2_100, 0.4), handoff("US-2")] },
        { "when": { "task": "US-3" }, "do": [
            { "append": { "path": "mail.broken", "text": "sent twice\n" } },
            usage(61_000, 2_600, 0.52), handoff("US-3")] },
        { "when": { "task": "US-4" }, "do": [
            write("src/audit.sh", &format!("#!/bin/sh\n# {HOSTILE}\ndate >> audit.log\n")),
            usage(22_000, 700, 0.17), handoff("US-4")] },
        { "when": { "task": "US-5" }, "do": [usage(4_000, 100, 0.03), blocked] },
        { "do": [write("src/page.sh", "#!/bin/sh\necho hello\n"), usage(18_000, 900, 0.15), handoff("US-6")] },
    ]);
    sealed.write_file(
        "tests.sh",
        "test ! -f mail.broken || { echo 'running 14 tests'; echo 'test mail::sends_once ... FAILED'\n\
         echo 'error: the mail was sent twice: expected 1, found 2'\n\
         echo \"</pre><img src=x onerror=alert(1)>\"; exit 1; }\n",
    );
    let settings = json!({ "guardrails": [{ "command": "sh tests.sh" }, { "command": "true" }],
                           "tasks": { "maxAttempts": 3 }, "maximumIterations": 25 });
    sealed.write_script(&calls, &settings);
    let title = format!("Write an audit log {HOSTILE}");
    sealed.write_file(
        "plan.json",
        &plan(&[
            ("US-1", "Parse the query string", &[]),
            ("US-2", "Limit requests for each client", &[]),
            ("US-3", "Send a mail when the limit is hit", &[]),
            ("US-4", &title, &[]),
            ("US-5", "Deploy to staging", &[]),
            ("US-6", "Show a status page", &[]),
            ("US-7", "Announce it", &["US-3"]),
        ]),
    );
    sealed.commit_all("plan");
    sealed.run_ralph(&["build"]).expect_code(1);
    sealed
}

/// Starts a browser. CI must have one; elsewhere a skipped test is reported.
fn browser() -> Option<Browser> {
    let browser = Browser::start_browser();
    if browser.is_none() {
        assert!(env::var_os("CI").is_none(), "chromium and chromedriver are missing in CI");
        leave_out("a test of pages; chromium or chromedriver is missing (see check)");
    }
    browser
}

/// Reports a skipped test. Not with a macro: the test harness captures the output of passing
/// tests.
fn leave_out(what: &str) {
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {what}");
}

/// Checks that a page is accessible, as far as a program can.
#[track_caller]
fn check_accessible(browser: &Browser) {
    let Some(axe) = env::var_os("RALPH_TEST_AXE") else {
        assert!(env::var_os("CI").is_none(), "axe-core is missing in CI");
        leave_out(
            "the accessibility of a page; RALPH_TEST_AXE is not set (see scripts/install-axe)",
        );
        return;
    };
    let axe = fs::read_to_string(axe).expect("axe-core is there");
    browser.run_script(&format!("{axe}; window.axe = axe;"));
    let found = browser.run_async_script(
        "const done = arguments[0]; axe.run().then(it => done(it.violations.map(violation => \
         [violation.id, violation.nodes.map(node => node.html.slice(0, 200) + ' ' + node.failureSummary).slice(0, 3)])))",
        &json!([]),
    );
    assert_eq!(found, json!([]), "{found:#}");
}

/// Checks that the browser contacted only ralph's server, apart from its own internal requests.
#[track_caller]
fn check_stays_here(browser: &Browser, origin: &str) {
    let own = ["data:", "chrome:", "chrome-untrusted:", origin];
    let mut elsewhere = browser.read_requested_urls();
    elsewhere.retain(|url| !own.iter().any(|own| url.starts_with(own)));
    assert_eq!(elsewhere, Vec::<String>::new());
}

/// Checks that a page can be read on a telephone.
#[track_caller]
fn check_narrow(browser: &Browser) {
    browser.resize_window(360, 740);
    let widths = browser
        .run_script("const it = document.documentElement; return [it.scrollWidth, it.clientWidth]");
    assert_eq!(widths, json!([360, 360]), "nothing is wider than the screen");
    browser.resize_window(1000, 900);
}

#[test]
fn a_report_is_read_in_a_browser() {
    let Some(browser) = browser() else { return };
    let sealed = night();
    let path = sealed.root().join("report.html");
    let path = path.to_str().expect("text");
    sealed.run_ralph(&["report", "--html", path]).expect_code(0).expect_stderr("is written");
    assert_eq!(
        sealed.run_ralph(&["report", "--html", "-"]).expect_code(0).stdout,
        fs::read_to_string(path).expect("there")
    );
    browser.read_requested_urls();
    // Without animations a click hits its target.
    browser.set_color_scheme("light");
    browser.open_url(&format!("file://{path}"));
    assert_eq!(
        browser.evaluate_text("document.querySelector('h1').innerText"),
        "Not complete: 4 of 7 tasks done, 2 failed."
    );
    assert_eq!(
        browser.run_script("return document.querySelectorAll('script, img, iframe').length"),
        json!(0)
    );
    assert!(!browser.evaluate_text("document.title").contains("owned"));
    let commits = sealed.run_git(&["rev-list", "--count", "HEAD"]);
    let made: u32 = commits.trim().parse::<u32>().expect("a number") - 2;
    let shown = browser.evaluate_text("[...document.querySelectorAll('dt')].find(it => it.innerText == 'Commits').nextSibling.innerText");
    assert_eq!(shown, made.to_string());
    let iterations = sealed.find_events("iteration_ended").len();
    assert_eq!(
        browser.run_script("return document.querySelectorAll('.columns a').length"),
        json!(iterations)
    );

    // Folded sections open without a script, and agent text inside them is escaped.
    browser.click_element("#attempts details:last-of-type summary");
    let diffs = browser.evaluate_text(
        "[...document.querySelectorAll('.diff')].map(it => it.textContent).join('\\n')",
    );
    assert!(diffs.contains("+# A bucket for each client.") && diffs.contains(HOSTILE), "{diffs}");
    browser.run_script("document.querySelectorAll('.columns a')[1].focus()");
    let tip =
        browser.evaluate_text("getComputedStyle(document.querySelectorAll('.tip')[1]).opacity");
    assert_eq!(tip, "1", "focus tells what pointing tells");

    let paper = || browser.evaluate_text("getComputedStyle(document.body).backgroundColor");
    browser.set_color_scheme("dark");
    let dark = paper();
    check_accessible(&browser);
    check_narrow(&browser);
    browser.set_color_scheme("light");
    let light = paper();
    assert_ne!(light, dark);
    check_accessible(&browser);
    check_narrow(&browser);
    browser.click_element("label:has(#theme-dark)");
    assert_eq!(paper(), dark, "the switch has the last word");
    assert_eq!(browser.read_console(), Vec::<String>::new());
    check_stays_here(&browser, "file:");
}

/// Starts the server and returns it with its address.
fn serve(sealed: &Sealed, words: &[&str]) -> (Running, String) {
    let mut server = sealed.start_ralph(&[&["serve", "--json"], words].concat());
    let about: Value = serde_json::from_str(&server.read_line()).expect("JSON");
    let url = about["url"].as_str().expect("an address").to_owned();
    (server, url)
}

/// A run of three tasks, each of which waits for a file before it is done.
fn slow() -> (Sealed, Running) {
    let sealed = repository();
    let call = |task: &str| {
        json!({ "when": { "task": task }, "do": [
            { "text": format!("Reading <b>{task}</b>.") },
            { "touch": format!(".ralph/begun-{task}") },
            { "waitFor": { "path": format!(".ralph/go-{task}") } },
            write(&format!("{task}.txt"), "x"), usage(1_000, 100, 0.01), handoff(task)] })
    };
    sealed.write_script(&json!([call("T1"), call("T2"), call("T3")]), &json!({}));
    sealed.write_file(".gitignore", ".ralph/begun-*\n.ralph/go-*\n");
    sealed.write_file(
        "plan.json",
        &plan(&[("T1", "The first", &[]), ("T2", "The second", &[]), ("T3", HOSTILE, &[])]),
    );
    sealed.commit_all("plan");
    let run = sealed.start_ralph(&["build", "--skip-review"]);
    sealed.wait_for(".ralph/begun-T1");
    (sealed, run)
}

#[test]
fn a_live_page_follows_a_run_and_steers_it() {
    let Some(browser) = browser() else { return };
    let (sealed, run) = slow();
    let (_server, url) = serve(&sealed, &[]);
    browser.read_requested_urls();
    browser.set_color_scheme("light");
    browser.open_url(&url);
    assert_eq!(
        browser.evaluate_text("document.querySelector('tbody .state').innerText"),
        "running"
    );
    browser.click_element("tbody a");
    let head = "document.querySelector('h1').innerText";
    browser.wait_for("document.body.dataset.link == 'live'");
    assert!(
        browser.evaluate_text(head).starts_with("Running iteration 1, implement T1"),
        "{}",
        browser.evaluate_text(head)
    );
    let shows = |task: &str| {
        let stream = "document.querySelector('#stream pre')?.innerText";
        format!("{stream}?.includes('Reading <b>{task}</b>.')")
    };
    browser.wait_for(&shows("T1"));
    browser.wait_for("document.querySelector('#now').innerText.startsWith('Now: Reading <b>T1')");
    browser.wait_for("!document.querySelector('#now').innerText.includes('(0:00')");
    check_accessible(&browser);
    check_narrow(&browser);

    browser.run_script("window.here = true; document.querySelector('#text').focus()");
    sealed.write_file(".ralph/go-T1", "");
    browser.wait_for(&format!("{head}.startsWith('Running iteration 2, implement T2')"));
    browser.wait_for(&shows("T2"));
    assert_eq!(browser.run_script("return window.here"), json!(true), "it was not loaded again");
    assert_eq!(browser.evaluate_text("document.querySelector('#tasks .state').innerText"), "done");
    assert_eq!(
        browser.evaluate_text("document.activeElement.id"),
        "text",
        "focus stays where it is"
    );
    assert_eq!(browser.evaluate_text("document.querySelectorAll('#task option').length"), "2");

    let wished = |what: &str| {
        sealed.find_events("wished").iter().any(|event| event["asked"]["wish"]["wish"] == what)
    };
    browser.type_text("#text", "Mind the <b>gap</b>.");
    browser.click_element("#send");
    browser.wait_for(
        "document.querySelector('#reply').innerText == 'The next agent will get the note.'",
    );
    browser.click_element("#pause");
    browser.wait_for(
        "document.querySelector('#pause').disabled && !document.querySelector('#go-on').disabled",
    );
    let why = browser.evaluate_text("document.querySelector('#why').innerText");
    assert!(why.ends_with("a note for the next prompt, pause."), "{why}");
    sealed.write_file(".ralph/go-T2", "");
    browser.wait_for(&format!("{head}.startsWith('Paused')"));
    browser.click_element("#go-on");
    sealed.wait_for(".ralph/begun-T3");
    browser.wait_for(&format!("{head}.startsWith('Running iteration 3')"));
    assert!(sealed.prompts().last().expect("a prompt").contains("Mind the <b>gap</b>."));

    browser.click_element("#stop");
    browser.accept_dialog();
    browser.wait_for("document.querySelector('#why').innerText.endsWith(': stop.')");
    sealed.write_file(".ralph/go-T3", "");
    let end = run.wait_for_end();
    assert!(["note", "pause", "goOn", "stop"].into_iter().all(wished), "all are in the journal");
    browser.wait_for(
        "document.querySelector('#pause').disabled && document.querySelector('#stop').disabled",
    );
    assert!(
        browser
            .evaluate_text("document.querySelector('#why').innerText")
            .starts_with("No run is active")
    );
    browser.wait_for(&format!("!{head}.startsWith('Running')"));
    let begun = sealed.find_events("iteration_started").len();
    let figure = browser.evaluate_text("[...document.querySelectorAll('dt')].find(it => it.innerText == 'Iterations').nextSibling.innerText");
    assert!(figure.starts_with(&format!("{begun} / ")), "{figure}, {:?}", end.code);
    assert_eq!(browser.run_script("return window.here"), json!(true));
    assert_eq!(
        browser.run_script("return document.querySelectorAll('main script, main img').length"),
        json!(0)
    );
    assert_eq!(browser.read_console(), Vec::<String>::new());
    let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    check_stays_here(&browser, &origin);
}

#[test]
fn a_run_that_is_over_is_shown_as_it_is() {
    let Some(browser) = browser() else { return };
    let sealed = night();
    let (server, url) = serve(&sealed, &["--all"]);
    browser.open_url(&url);
    browser.click_element("tbody a");
    browser.wait_for("document.body.dataset.link == 'static'");
    assert_eq!(
        browser.run_script(
            "return [...document.querySelectorAll('.controls form')].every(it => it.offsetHeight == 0)"
        ),
        json!(true)
    );
    assert_eq!(
        browser.evaluate_text("document.querySelector('#why').innerText"),
        "No run is active. The commands for what failed are below."
    );
    check_accessible(&browser);
    // A script's background process (`&`) ignores Ctrl-C.
    server.send_signal(Signal::TERM);
    assert_eq!(server.wait_for_end().code, None, "the signal ends it at once");
}

#[test]
fn statistics_are_read_on_a_desktop_and_a_phone() {
    let Some(browser) = browser() else { return };
    let sealed = night();
    let (_server, url) = serve(&sealed, &[]);
    browser.set_color_scheme("light");
    browser.open_url(&url);
    browser.resize_window(390, 844);
    let fits =
        "const it = document.querySelector('.runs .wide'); return it.scrollWidth <= it.clientWidth";
    assert_eq!(browser.run_script(fits), json!(true), "the list of runs is read without scrolling");
    check_accessible(&browser);
    check_narrow(&browser);
    browser.click_element("main p a");
    browser.wait_for("document.querySelector('h1').innerText == 'Statistics'");
    let text = browser.evaluate_text("document.querySelector('main').innerText");
    for part in ["1 run, 0 complete; 4 tasks landed", "sim", "implement", "review", "sh tests.sh"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        browser.run_script("return document.querySelectorAll('.columns a rect').length"),
        json!(2),
        "an incomplete run is split in two"
    );
    let height = "document.querySelector('.columns a svg').getBoundingClientRect().height";
    assert!(browser.run_script(&format!("return {height}")).as_f64() > Some(60.0));
    browser.run_script("document.querySelector('.columns a').focus()");
    let tip = browser.evaluate_text("document.querySelector('.tip').innerText");
    assert!(tip.contains("; 4 landed; "), "{tip}");
    check_accessible(&browser);
    check_narrow(&browser);
    browser.set_color_scheme("dark");
    check_accessible(&browser);
    browser.click_element(".columns a");
    browser.wait_for("document.body.dataset.link == 'static'");
    assert_eq!(browser.read_console(), Vec::<String>::new());
}

/// Takes the screenshots for the documentation; they are discarded unless requested.
#[test]
fn pictures() {
    let Some(browser) = browser() else { return };
    let sealed = night();
    let path = sealed.root().join("report.html");
    sealed.run_ralph(&["report", "--html", path.to_str().expect("text")]).expect_code(0);
    let place =
        env::var_os("RALPH_SCREENSHOTS").map_or_else(|| sealed.root().to_owned(), PathBuf::from);
    browser.open_url(&format!("file://{}", path.display()));
    for (name, scheme, width, height) in [
        ("report-light", "light", 900, 1500),
        ("report-dark", "dark", 900, 1500),
        ("report-phone", "light", 360, 1500),
    ] {
        browser.set_color_scheme(scheme);
        browser.resize_window(width, height);
        let picture = browser.take_screenshot();
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        assert!(picture.len() < 400_000, "{name} has {} bytes", picture.len());
        fs::write(place.join(format!("{name}.png")), picture).expect("written");
    }
}

/// Returns a port that is free.
fn free_port() -> String {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    taken.local_addr().expect("an address").port().to_string()
}

#[test]
fn page_survives_sleep_and_server_restart() {
    let Some(browser) = browser() else { return };
    let (sealed, run) = slow();
    let (port, file) = (free_port(), sealed.root().join("secret"));
    let words = ["--port", &port, "--token-file", file.to_str().expect("text")];
    let (server, url) = serve(&sealed, &words);
    browser.open_url(&url);
    browser.click_element("tbody a");
    browser.wait_for("document.body.dataset.link == 'live'");
    browser.run_script("window.here = true");
    let head = "document.querySelector('h1').innerText";

    // Asleep, and awake again: events from the meantime are shown.
    server.send_signal(Signal::STOP);
    sealed.write_file(".ralph/go-T1", "");
    sealed.wait_for(".ralph/begun-T2");
    assert!(
        browser.evaluate_text(head).starts_with("Running iteration 1"),
        "{}",
        browser.evaluate_text(head)
    );
    server.send_signal(Signal::CONT);
    browser.wait_for(&format!("{head}.startsWith('Running iteration 2')"));

    // Server stopped, and started again at the same address.
    server.send_signal(Signal::KILL);
    server.wait_for_end();
    browser.wait_for("document.body.dataset.link == 'lost'");
    sealed.write_file(".ralph/go-T2", "");
    sealed.wait_for(".ralph/begun-T3");
    let (_server, again) = serve(&sealed, &words);
    assert_eq!(url, again);
    browser.wait_for(&format!("{head}.startsWith('Running iteration 3')"));
    browser.wait_for("document.body.dataset.link == 'live'");
    assert_eq!(browser.evaluate_text("document.querySelector('#link').innerText"), "live");
    browser.type_text("#text", "Still here.");
    browser.click_element("#send");
    browser.wait_for(
        "document.querySelector('#reply').innerText == 'The next agent will get the note.'",
    );
    assert_eq!(browser.run_script("return window.here"), json!(true), "it was not loaded again");
    sealed.write_file(".ralph/go-T3", "");
    run.wait_for_end();
}

/// Keeps the page's connections, so that events can be delivered repeatedly.
const HELD: &str = "window.held = []; window.EventSource = class extends EventSource { \
    constructor(url) { super(url); window.held.push(this); } };";

/// Delivers the same event many times.
const HEAR: &str = "const [times, done] = arguments; \
    const url = new URL(held[held.length - 1].url); url.searchParams.set('since', 'x'); \
    fetch(url).then(async answer => { \
        const reader = answer.body.getReader(), decoder = new TextDecoder(); let text = ''; \
        const news = () => text.match(/event: news\\ndata: (.*)\\n\\n/); \
        while (!news()) text += decoder.decode((await reader.read()).value, { stream: true }); \
        reader.cancel(); \
        const data = news()[1]; \
        for (let at = 0; at < times; at++) \
            held[held.length - 1].dispatchEvent(new MessageEvent('news', { data })); \
        done(data.length); });";

#[test]
fn a_page_that_is_open_for_days_does_not_grow() {
    let Some(browser) = browser() else { return };
    let (sealed, run) = slow();
    let (_server, url) = serve(&sealed, &[]);
    browser
        .send_devtools_command("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": HELD }));
    browser.send_devtools_command("Performance.enable", &json!({}));
    browser.open_url(&url);
    browser.click_element("tbody a");
    browser.wait_for("document.body.dataset.link == 'live'");
    let measure = || {
        browser.send_devtools_command("HeapProfiler.collectGarbage", &json!({}));
        let all = browser.send_devtools_command("Performance.getMetrics", &json!({}));
        ["Nodes", "JSEventListeners", "JSHeapUsedSize"].map(|name| {
            let metrics = all["metrics"].as_array().expect("metrics");
            let metric = metrics.iter().find(|metric| metric["name"] == name);
            metric.and_then(|metric| metric["value"].as_f64()).expect("a number")
        })
    };
    let hear = |times: u32| {
        let length = browser.run_async_script(HEAR, &json!([times]));
        assert!(length.as_u64() > Some(1_000), "a whole page is news: {length}");
    };
    hear(50);
    let before = measure();
    hear(2_000);
    // A laptop that wakes up on another network many times: connection slots are freed.
    for _ in 0..40 {
        browser.run_script("dispatchEvent(new Event('online'))");
        browser.wait_for("held[held.length - 1].readyState == 1");
    }
    // Chromium frees what it no longer needs over several collections.
    let is_small = |it: &[f64; 3]| {
        it[0] <= before[0] * 1.05 + 100.0
            && it[1] <= before[1] * 1.05 + 200.0
            && it[2] <= before[2] + 1_000_000.0
    };
    let after = (0..20).map(|_| measure()).find(is_small);
    let open = "held.filter(it => it.readyState != EventSource.CLOSED).length";
    assert_eq!(browser.evaluate_text(open), "1");
    assert!(after.is_some(), "nodes, listeners, bytes: {before:?}, now {:?}", measure());
    browser.wait_for("document.body.dataset.link == 'live'");
    for task in ["T1", "T2", "T3"] {
        sealed.write_file(&format!(".ralph/go-{task}"), "");
    }
    run.wait_for_end().expect_code(0);
    browser.wait_for("document.querySelector('h1').innerText.startsWith('Complete')");
}
