//! What the service and the nodes do with a job, with a stand-in for the worker.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::records::{JobRecord, read_history};
use super::setting::{
    FleetPlace, Form, HEARTBEAT, Network, ServerProcess, TwoMachines, read_clock,
    test_in_both_forms, wait_until,
};

test_in_both_forms! {
    a_job_is_accepted_run_once_and_its_result_named
    a_job_that_runs_is_attached_to
    another_node_takes_the_job_of_a_killed_one
    a_killed_server_loses_nothing_and_costs_no_attempt
    server_and_node_killed_at_once_lose_nothing
    a_canceled_job_stops_its_worker
    a_job_that_waits_for_a_node_can_be_canceled
    a_node_without_network_stops_its_worker_and_another_takes_the_job
    a_machine_whose_link_is_down_loses_its_job_to_another
    a_node_that_leaves_gives_its_jobs_away_at_once
    refused_and_withdrawn_jobs_are_not_tried_again_and_lost_workers_are
    a_node_takes_jobs_of_its_own_repository_only
    every_command_says_what_jobs_are_on_the_server
    the_service_sees_names_and_numbers_only
}

fn place(form: Form) -> FleetPlace {
    FleetPlace::new(ServerProcess::shared(form))
}

fn own_server_place(form: Form) -> FleetPlace {
    FleetPlace::new(Arc::new(ServerProcess::start(form)))
}

fn attempt(number: &str, node: &str) -> (String, String) {
    (number.to_owned(), node.to_owned())
}

fn a_job_is_accepted_run_once_and_its_result_named(form: Form) {
    let place = place(form);
    let node = place.start_node("n1");
    let begun = Instant::now();
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    let took = begun.elapsed();
    // The same job again: nothing runs, and the result is the same.
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    assert_eq!(place.list_begun("quick"), [attempt("a1.1", "n1")]);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let megabytes = node.memory() / 1_000_000;
    println!(
        "job with its process: {took:?}; idle node: {megabytes} MB; server: {} MB",
        place.server.memory() / 1_000_000
    );
    assert!(megabytes < 20, "an idle node has {megabytes} MB");
}

fn a_job_that_runs_is_attached_to(form: Form) {
    let place = place(form);
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

fn another_node_takes_the_job_of_a_killed_one(form: Form) {
    let place = place(form);
    let mut first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let killed = first.kill();
    let stopped = place.wait_for_stop("waits").saturating_sub(killed);
    place.wait_for_begin("waits", 2);
    let took = wait_for_attempt(&place, 2).saturating_sub(killed);
    let allowed = read_clock();
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    let ended = JobRecord::read(&place, "waits").ended.expect("it ended").saturating_sub(allowed);
    assert_eq!(place.list_begun("waits"), [attempt("a1.1", "n1"), attempt("a1.2", "n2")]);
    println!(
        "the worker of a killed node stopped after {stopped:?}; takeover after {took:?}; the job \
         ended {ended:?} after its worker could"
    );
    assert!(stopped < Duration::from_secs(1), "{stopped:?}");
    // The server looks at the timers of workflows about once a second, and this takes two of them.
    let lateness = Duration::from_secs(u64::from(form == Form::Workflow));
    assert!(took < HEARTBEAT + Duration::from_secs(2) + lateness, "{took:?}");
    // No step of the job waits for the node that was killed.
    assert!(ended < Duration::from_secs(2), "{ended:?}");
}

/// Waits until the server has handed out an attempt; returns when it did.
fn wait_for_attempt(place: &FleetPlace, number: u64) -> Duration {
    let read = || {
        let record = JobRecord::read(place, "waits");
        record.begun.filter(|_| record.attempt == number)
    };
    wait_until("the server handed out the attempt", || read().is_some());
    read().expect("it began")
}

fn a_killed_server_loses_nothing_and_costs_no_attempt(form: Form) {
    let place = own_server_place(form);
    let _node = place.start_node("n1");
    // Longer than a loaded machine takes to start a server.
    let job = place.submit_with_lease("waits", Duration::from_secs(30));
    place.wait_for_begin("waits", 1);
    place.server.kill_and_restart_after(Duration::from_millis(500));
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.1");
    assert_eq!(place.list_begun("waits"), [attempt("a1.1", "n1")]);
}

fn server_and_node_killed_at_once_lose_nothing(form: Form) {
    let place = own_server_place(form);
    let mut first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let killed = first.kill();
    place.server.kill_and_restart_after(Duration::from_millis(500));
    let back = read_clock();
    place.wait_for_begin("waits", 2);
    let begun = wait_for_attempt(&place, 2);
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    assert_eq!(place.list_begun("waits"), [attempt("a1.1", "n1"), attempt("a1.2", "n2")]);
    println!("takeover with a restarted server after {:?}", begun.saturating_sub(killed));
    let took = begun.saturating_sub(back);
    assert!(took < HEARTBEAT + Duration::from_secs(2), "{took:?} after the server was back");
}

fn a_canceled_job_stops_its_worker(form: Form) {
    let place = place(form);
    let _node = place.start_node("n1");
    // With the usual lease, which decides how often a node asks.
    let run =
        place.job_command("run", "waits").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let run = super::setting::FleetProcess::from_child(run.expect("it starts"));
    place.wait_for_begin("waits", 1);
    let begun = read_clock();
    assert!(place.job_command("cancel", "waits").status().expect("it runs").success());
    let took = place.wait_for_stop("waits").saturating_sub(begun);
    println!("canceled after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let (code, output, errors) = run.wait_for_end();
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("canceled"), "{errors}");
    assert_eq!(place.list_begun("waits").len(), 1);
    // It has ended: that is no error.
    assert!(place.job_command("cancel", "waits").status().expect("it runs").success());
}

fn a_job_that_waits_for_a_node_can_be_canceled(form: Form) {
    let place = place(form);
    let run = place.submit("quick");
    wait_until("it waits", || status(&place).contains("waits for a node"));
    assert!(status(&place).contains("no node"), "{}", status(&place));
    assert!(place.job_command("cancel", "quick").status().expect("it runs").success());
    let (code, _, errors) = run.wait_for_end();
    assert_eq!(code, Some(1), "{errors}");
}

fn a_node_without_network_stops_its_worker_and_another_takes_the_job(form: Form) {
    let place = place(form);
    let network = Network::to(place.server.port);
    let _first = place.start_node_on(None, "n1", &format!("127.0.0.1:{}", network.port));
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let cut = read_clock();
    network.set_cut(true);
    let stopped = place.wait_for_stop("waits").saturating_sub(cut);
    let label = wait_for_takeover(&place);
    let took = read_clock().saturating_sub(cut);
    println!("without network: worker stopped after {stopped:?}, takeover after {took:?}");
    assert!(stopped < HEARTBEAT + Duration::from_secs(1), "{stopped:?}");
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

fn a_machine_whose_link_is_down_loses_its_job_to_another(form: Form) {
    let Some(machines) = TwoMachines::make() else {
        eprintln!("left out: this user cannot make network namespaces");
        return;
    };
    let server = ServerProcess::start_on(Some(machines.first.clone()), form);
    let place = FleetPlace::new(Arc::new(server));
    let address = place.server.address();
    let _first = place.start_node_on(Some(&machines.second), "n1", &address);
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let cut = read_clock();
    machines.set_cable("down");
    let stopped = place.wait_for_stop("waits").saturating_sub(cut);
    let label = wait_for_takeover(&place);
    let took = read_clock().saturating_sub(cut);
    println!("link down: worker stopped after {stopped:?}, takeover after {took:?}");
    assert!(stopped < HEARTBEAT + Duration::from_secs(1), "{stopped:?}");
    machines.set_cable("up");
    place.allow("waits");
    assert_eq!(job.wait_for_result(), label);
}

fn a_node_that_leaves_gives_its_jobs_away_at_once(form: Form) {
    let place = place(form);
    let first = place.start_node("n1");
    let job = place.submit("waits");
    place.wait_for_begin("waits", 1);
    let _second = place.start_node("n2");
    let begun = read_clock();
    first.send_signal(Signal::TERM);
    place.wait_for_begin("waits", 2);
    let took = wait_for_attempt(&place, 2).saturating_sub(begun);
    place.allow("waits");
    assert_eq!(job.wait_for_result(), "a1.2");
    assert_eq!(first.wait_for_end().0, Some(0));
    println!("a node that left: takeover after {took:?}");
    // Without waiting for the end of the lease.
    assert!(took < HEARTBEAT, "{took:?}");
}

fn refused_and_withdrawn_jobs_are_not_tried_again_and_lost_workers_are(form: Form) {
    let place = place(form);
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

fn a_node_takes_jobs_of_its_own_repository_only(form: Form) {
    let place = place(form);
    let other = FleetPlace::new(Arc::clone(&place.server));
    let _node = other.start_node("n1");
    let _job = place.submit("quick");
    wait_until("it waits", || status(&place).contains("waits for a node"));
    assert_eq!(other.submit("quick").wait_for_result(), "a1.1");
    assert!(status(&place).contains("waits for a node"), "{}", status(&place));
    assert!(status(&other).contains("n1#"), "{}", status(&other));
    assert!(status(&other).contains("completed, attempt 1"), "{}", status(&other));
}

fn every_command_says_what_jobs_are_on_the_server(form: Form) {
    let place = place(form);
    let repository = place.repository();
    let (words, name) = match form {
        Form::Standalone => ("jobs are standalone activities", "standalone"),
        Form::Workflow => ("jobs are workflows, as the server has no standalone", "workflow"),
    };
    let run = |args: &[&str]| {
        let output = place.fleet_command(args).args(["--repository", &repository]).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for command in ["up", "status"] {
        let text = run(&[command]);
        assert!(text.contains(words), "{command}: {text}");
    }
    let status: Value = serde_json::from_str(&run(&["status", "--json"])).expect("JSON");
    assert_eq!(status["form"], name);
}

fn the_service_sees_names_and_numbers_only(form: Form) {
    let place = place(form);
    let _node = place.start_node("n1");
    assert_eq!(place.submit("quick").wait_for_result(), "a1.1");
    let text = match form {
        Form::Standalone => JobRecord::read(&place, "quick").text.replace("\": ", "\":"),
        Form::Workflow => read_history(&place, "quick"),
    };
    for part in [r#""job":"refs/ralph/jobs/quick""#, r#""attempt":"a1""#, r#""label":"a1.1-"#] {
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
