//! What the service and the nodes do with a job, with a stand-in for the worker.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::setting::{
    FleetPlace, HEARTBEAT, Network, SLACK, ServerProcess, TwoMachines, wait_until,
};

fn place() -> FleetPlace {
    FleetPlace::new(ServerProcess::shared())
}

fn own_server_place() -> FleetPlace {
    FleetPlace::new(Arc::new(ServerProcess::start()))
}

fn attempt(number: &str, node: &str) -> (String, String) {
    (number.to_owned(), node.to_owned())
}

#[test]
fn a_job_is_accepted_run_once_and_its_result_named() {
    let place = place();
    let node = place.start_node("n1");
    let begun = Instant::now();
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    let took = begun.elapsed();
    // The same job again: nothing runs, and the result is the same.
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    assert_eq!(place.list_begun("quick"), [attempt("a1.1", "n1")]);
    assert!(took < Duration::from_secs(1) + SLACK, "{took:?}");
    let megabytes = node.memory() / 1_000_000;
    println!(
        "job with its process: {took:?}; idle node: {megabytes} MB; server: {} MB",
        place.server.memory() / 1_000_000
    );
    assert!(megabytes < 20, "an idle node has {megabytes} MB");
}

#[test]
fn a_job_that_runs_is_attached_to() {
    let place = place();
    let _node = place.start_node("n1");
    let mut first = place.submit("waits");
    place.wait_for_begin("waits", 1);
    // The coordinator is killed, and resumed: it submits its jobs again.
    first.kill();
    let (second, third) = (place.submit("waits"), place.submit("waits"));
    place.allow("waits");
    assert_eq!(second.wait_for_result(), "a1.1");
    assert_eq!(third.wait_for_result(), "a1.1");
    assert_eq!(place.list_begun("waits").len(), 1);
}

#[test]
fn another_node_takes_the_job_of_a_killed_one() {
    let place = place();
    let mut first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let killed = first.kill();
    let stopped = place.wait_for_stop("waits") - killed;
    let took = place.wait_for_begin("waits", 2) - killed;
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    assert_eq!(place.list_begun("waits"), [attempt("a1.1", "n1"), attempt("a1.2", "n2")]);
    println!("the worker of a killed node stopped after {stopped:?}; takeover after {took:?}");
    assert!(stopped < Duration::from_secs(1) + SLACK, "{stopped:?}");
    assert!(took < HEARTBEAT + Duration::from_secs(2) + SLACK, "{took:?}");
}

#[test]
fn a_killed_server_loses_nothing_and_costs_no_attempt() {
    let place = own_server_place();
    let _node = place.start_node("n1");
    // Longer than a loaded machine takes to start a server.
    let job = place.submit_with_lease("waits", Duration::from_secs(30));
    place.wait_for_begin("waits", 1);
    place.server.kill_and_restart_after(Duration::from_millis(500));
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.1");
    assert_eq!(place.list_begun("waits"), [attempt("a1.1", "n1")]);
}

#[test]
fn server_and_node_killed_at_once_lose_nothing() {
    let place = own_server_place();
    let mut first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let killed = first.kill();
    place.server.kill_and_restart_after(Duration::from_millis(500));
    let took = place.wait_for_begin("waits", 2) - killed;
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    println!("takeover with a restarted server after {took:?}");
}

#[test]
fn a_canceled_job_stops_its_worker() {
    let place = place();
    let _node = place.start_node("n1");
    // With the usual lease, which decides how often a node asks.
    let run =
        place.job_command("run", "waits").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let run = super::setting::FleetProcess::from_child(run.expect("it starts"));
    place.wait_for_begin("waits", 1);
    let begun = Instant::now();
    assert!(place.job_command("cancel", "waits").status().expect("it runs").success());
    let took = place.wait_for_stop("waits") - begun;
    println!("canceled after {took:?}");
    assert!(took < Duration::from_secs(5) + SLACK, "{took:?}");
    let (code, output, errors) = run.wait_for_end();
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("canceled"), "{errors}");
    assert_eq!(place.list_begun("waits").len(), 1);
    // It has ended: that is no error.
    assert!(place.job_command("cancel", "waits").status().expect("it runs").success());
}

#[test]
fn a_job_that_waits_for_a_node_can_be_canceled() {
    let place = place();
    let run = place.submit("quick");
    wait_until("it waits", || status(&place).contains("waits for a node"));
    assert!(status(&place).contains("no node"), "{}", status(&place));
    assert!(place.job_command("cancel", "quick").status().expect("it runs").success());
    let (code, _, errors) = run.wait_for_end();
    assert_eq!(code, Some(1), "{errors}");
}

#[test]
fn a_node_without_network_stops_its_worker_and_another_takes_the_job() {
    let place = place();
    let network = Network::to(place.server.port);
    let _first = place.start_node_on(None, "n1", &format!("127.0.0.1:{}", network.port));
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    network.set_cut(true);
    let cut = Instant::now();
    let stopped = place.wait_for_stop("waits") - cut;
    let label = wait_for_takeover(&place);
    println!(
        "without network: worker stopped after {stopped:?}, takeover after {:?}",
        cut.elapsed()
    );
    assert!(stopped < HEARTBEAT + Duration::from_secs(1) + SLACK, "{stopped:?}");
    assert!(place.read_node_log("n1").contains("did not answer"));
    // The network is back: what the first node reports comes too late, and it takes jobs again.
    network.set_cut(false);
    place.allow("waits");
    assert_eq!(job.wait_for_result(), label);
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
}

/// Waits until the second node has the job; returns its attempt. The first may have got another one
/// that it never learned of.
fn wait_for_takeover(place: &FleetPlace) -> String {
    let find = || place.list_begun("waits").into_iter().find(|(_, node)| node == "n2");
    wait_until("the second node has the job", || find().is_some());
    find().expect("it began").0
}

#[test]
fn a_machine_whose_link_is_down_loses_its_job_to_another() {
    let Some(machines) = TwoMachines::make() else {
        eprintln!("left out: this user cannot make network namespaces");
        return;
    };
    let server = ServerProcess::start_with(&[], Some(machines.first.clone()));
    let place = FleetPlace::new(Arc::new(server));
    let address = place.server.address();
    let _first = place.start_node_on(Some(&machines.second), "n1", &address);
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    machines.set_cable("down");
    let cut = Instant::now();
    let stopped = place.wait_for_stop("waits") - cut;
    let label = wait_for_takeover(&place);
    println!("link down: worker stopped after {stopped:?}, takeover after {:?}", cut.elapsed());
    assert!(stopped < HEARTBEAT + Duration::from_secs(1) + SLACK, "{stopped:?}");
    machines.set_cable("up");
    place.allow("waits");
    assert_eq!(job.wait_for_result(), label);
}

#[test]
fn a_node_that_leaves_gives_its_jobs_away_at_once() {
    let place = place();
    let first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let begun = Instant::now();
    first.send_signal(Signal::TERM);
    let took = place.wait_for_begin("waits", 2) - begun;
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    assert_eq!(first.wait_for_end().0, Some(0));
    println!("a node that left: takeover after {took:?}");
}

#[test]
fn refused_and_withdrawn_jobs_are_not_tried_again_and_lost_workers_are() {
    let place = place();
    let _node = place.start_node("n1");
    // Another version: the result says so.
    assert_eq!(place.submit("refused").wait_for_result(), "a1.1");
    let (code, output, errors) = place.submit("withdrawn").wait_for_end();
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("withdrew the job"), "{errors}");
    let (code, output, errors) = place.submit("fails").wait_for_end();
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("n1: `ralph worker` failed"), "{errors}");
    for (job, times) in [("refused", 1), ("withdrawn", 1), ("fails", 5)] {
        assert_eq!(place.list_begun(job).len(), times, "{job}");
    }
}

#[test]
fn a_node_takes_jobs_of_its_own_repository_only() {
    let place = place();
    let other = FleetPlace::new(Arc::clone(&place.server));
    let _node = other.start_node("n1");
    let _job = place.submit("quick");
    wait_until("it waits", || status(&place).contains("waits for a node"));
    assert_eq!(other.submit("quick").wait_for_result(), "a1.1");
    assert!(status(&place).contains("waits for a node"), "{}", status(&place));
    assert!(status(&other).contains("n1#"), "{}", status(&other));
    assert!(status(&other).contains("completed, attempt 1"), "{}", status(&other));
}

#[test]
fn every_command_refuses_a_server_without_standalone_activities() {
    // The default of server 1.31. Older ones do not know the call, which has the same answer.
    let options = &["--dynamic-config-value", "activity.enableStandalone=false"];
    let place = FleetPlace::new(Arc::new(ServerProcess::start_with(options, None)));
    let repository = place.repository();
    for args in [
        &["up"] as &[&str],
        &["join", "--repository", &repository],
        &["status", "--repository", &repository],
        &["workers"],
    ] {
        let mut command = place.fleet_command(args);
        let output = command.env("RALPH_REMOTE", &repository).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        for part in ["it has no standalone activities", "1.32", "activity.enableStandalone"] {
            assert!(errors.contains(part), "{args:?}: no {part} in {errors}");
        }
    }
    // The server loses them while a run continues.
    let (code, output, errors) = place.submit("quick").wait_for_end();
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("it has no standalone activities"), "{errors}");
}

#[test]
fn the_service_sees_names_and_numbers_only() {
    let place = place();
    let _node = place.start_node("n1");
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    let program = std::env::var_os("RALPH_TEST_TEMPORAL").expect("the server");
    let server = place.server.address();
    let id = format!("{}.a1", place.name_worker("quick"));
    let args = ["activity", "describe", "--activity-id", &id, "-o", "json", "--address", &server];
    let output = place.build_command(program).args(args).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [r#""job": "refs/ralph/jobs/quick""#, r#""attempt": "a1""#, r#""label": "a1.1-"#] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The remote may have a login in its URL.
    assert!(!text.contains(&place.repository()), "{text}");
}

fn status(place: &FleetPlace) -> String {
    let output = place.fleet_command(&["status", "--repository", &place.repository()]).output();
    let output = output.expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
