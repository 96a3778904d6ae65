//! What the commands show of a run with workers, from journals on disk: the run's own, and that of
//! a worker in the state directory of its clone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ralph_model::recipe::ParallelPolicy;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::repository;

const PLAN: &str = r#"{
  "project": "compass",
  "tasks": [
    {"id": "T1", "title": "Write the parser", "description": "d", "status": "pending",
     "order": 1, "acceptance_criteria": ["it parses"], "depends_on": []},
    {"id": "T2", "title": "Limit the rate", "description": "d", "status": "pending",
     "order": 2, "acceptance_criteria": ["it limits"], "depends_on": []}
  ]
}
"#;

/// The run with workers, and its worker.
const RUN: &str = "20991114-231500-k3f9";
const WORKER: &str = "20991114-231500-k3f9-T1-r1";

/// Returns a project whose last run has a worker on `T1` that waits to land. The worker's journal
/// is that of a real run.
fn run_with_a_worker() -> Sealed {
    let sealed = repository();
    let handoff =
        json!({"task_completed": {"task_id": "T1", "summary": "Did it.", "fully_complete": true}});
    let usage = json!({"usage": {"input": 1000, "output": 100, "cost": 0.02}});
    let calls =
        json!([{"do": [{"write": {"path": "parser", "text": "x"}}, usage, {"handoff": handoff}]}]);
    sealed.write_script(&calls, &json!({"guardrails": [{"command": "true"}]}));
    sealed.write_file("plan.json", PLAN);
    sealed.commit_all("plan");
    sealed.run_ralph(&["build", "--skip-review", "--task", "T1"]).expect_code(0);
    let events = sealed.events();
    let run = sealed.runs().pop().expect("a run");
    let runs = run.parent().expect("runs").to_owned();
    let clone = sealed.state_dir().join("s1-0000");
    fs::create_dir_all(clone.join("runs")).expect("a directory");
    let path = sealed.state_dir().join("clones/project/s1/project");
    let project = json!({"version": 1, "path": path}).to_string();
    fs::write(clone.join("project.json"), project).expect("written");
    fs::rename(&run, clone.join("runs").join(WORKER)).expect("moved");

    let find = |kind: &str| events.iter().find(|it| it["type"] == kind).expect("an event").clone();
    let mut started = find("run_started");
    (started["run"], started["journal"]) = (json!(RUN), json!(3));
    started["recipe"]["parallel"] = serde_json::to_value(ParallelPolicy::new(2)).expect("JSON");
    let base = json!("1a2b3c4d5e6f");
    let share = json!({"budget": started["recipe"]["limits"]["budget"], "iterations": 5});
    let result = json!({
        "outcome": find("run_ended")["outcome"], "place": "s1", "repository": path,
        "commit": base, "usage": find("replied")["reply"]["usage"], "iterations": 1, "ran": 2000,
    });
    let journal: Vec<String> = [
        started,
        find("tasks_read"),
        json!({"type": "job_assigned", "assignment":
            {"worker": WORKER, "task": "T1", "round": 1, "base": base, "share": share}}),
        json!({"type": "worker_started", "worker": WORKER, "place": "s1"}),
        json!({"type": "worker_ended", "worker": WORKER, "result": result}),
    ]
    .into_iter()
    .zip(1..)
    .map(|(event, seq)| json!({"seq": seq, "at": seq, "ran": 0, "event": event}).to_string())
    .collect();
    fs::create_dir(runs.join(RUN)).expect("a directory");
    fs::write(runs.join(RUN).join("journal.jsonl"), journal.join("\n") + "\n").expect("written");
    sealed
}

fn get(port: u64, path: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_journal_of_a_worker_is_part_of_the_log_of_its_task() {
    let sealed = run_with_a_worker();
    let log = sealed.run_ralph(&["log", "--task", "T1"]).expect_code(0).stdout;
    for part in ["T1 started in slot s1", "T1 waits to land", "Task T1: done"] {
        assert!(log.contains(part), "`{part}` is missing:\n{log}");
    }
    let log = sealed.run_ralph(&["log", "--task", "T2"]).expect_code(0).stdout;
    assert!(!log.contains("T1"), "{log}");
    let log = sealed.run_ralph(&["log"]).expect_code(0).stdout;
    assert!(log.contains("T1 started in slot s1") && !log.contains("Task T1: done"), "{log}");
    let lines = sealed.run_ralph(&["log", "--task", "T1", "--json"]).expect_code(0).stdout;
    let kinds = ["job_assigned", "worker_ended", "gate_checked"];
    assert!(kinds.iter().all(|kind| lines.contains(kind)), "{lines}");
}

#[test]
fn status_and_report_show_work_that_waits_to_land() {
    let sealed = run_with_a_worker();
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    for part in ["Queue      1 waits to land", "T1  waits to land: merged next", "Cost       $0.02"]
    {
        assert!(status.contains(part), "`{part}` is missing:\n{status}");
    }
    let status = sealed.run_ralph(&["status", "--json"]).expect_code(0).stdout;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["parallel"]["queue"][0]["task"], "T1");
    assert_eq!(status["parallel"]["queue"][0]["stage"]["is"], "waiting");
    let report = sealed.run_ralph(&["report"]).expect_code(0).stdout;
    assert!(report.contains("| T1 | s1 | 1 |") && report.contains("### Not landed"), "{report}");
    let report = sealed.run_ralph(&["report", "--task", "T1", "--json"]).expect_code(0).stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((&report["tasks"][0]["status"], &report["version"]), (&json!("done"), &json!(1)));
    sealed.run_ralph(&["report", "--task", "T2"]).expect_code(2).expect_stderr("worked on `T2`");
}

#[test]
fn a_worker_has_a_page_but_is_no_project() {
    let sealed = run_with_a_worker();
    let mut server = sealed.start_ralph(&["serve", "--json", "--all"]);
    let about: Value = serde_json::from_str(&server.read_line()).expect("JSON");
    let (port, url) = (about["port"].as_u64().expect("a port"), about["url"].as_str());
    let token = url.and_then(|url| url.split('/').nth(3)).expect("a token");
    let list = get(port, &format!("/{token}/"));
    let keys: Vec<&str> =
        list.split("href=\"run/").skip(1).filter_map(|rest| rest.split('/').next()).collect();
    let [key] = keys.as_slice() else { panic!("one run: {list}") };
    let page = get(port, &format!("/{token}/run/{key}/"));
    let link = page.split("href=\"../worker-").nth(1).and_then(|rest| rest.split('/').next());
    let link = link.unwrap_or_else(|| panic!("a link: {page}"));
    let page = get(port, &format!("/{token}/run/worker-{link}/"));
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("Write the parser"), "{page}");
    assert!(get(port, &format!("/{token}/run/worker-0/")).starts_with("HTTP/1.1 404 "));
}
