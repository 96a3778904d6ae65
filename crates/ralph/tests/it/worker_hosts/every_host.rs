//! What every worker host does: jobs, requests, cancels, and what follows when something is killed.

use ralph_model::control::ControlRequest;
use ralph_model::outcome::Outcome;
use ralph_model::worker::{JobResult, WorkerEvent};
use ralph_model::worker_protocol::HostRequest;
use ralph_testkit::sealed::wait_until;

use super::{assert_complete, find_workers, for_each_host, is_running, kill, with_name};

#[test]
fn a_job_started_twice_is_one_job_with_all_its_reports() {
    for_each_host(|host, world, job| {
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        world.wait_for_calls(1);
        talk.start_job(&job);
        world.allow();
        let (result, before) = talk.wait_for_end();
        assert_complete(world, &result);
        assert_eq!(world.calls(), 1, "{}", host.name);
        let worker = &job.assignment.worker;
        let is_start =
            |it: &WorkerEvent| matches!(it, WorkerEvent::Started { worker: w, .. } if w == worker);
        let is_progress = |it: &WorkerEvent| matches!(it, WorkerEvent::Progressed { iterations: 1, worker: w, .. } if w == worker);
        assert!(before.iter().any(is_start), "{}: {before:#?}", host.name);
        assert!(before.iter().any(is_progress), "{}: {before:#?}", host.name);
        // Again after its end: the same result, and no agent.
        talk.start_job(&job);
        let (again, _) = talk.wait_for_end();
        assert_eq!(again.map(|it| it.commit), result.map(|it| it.commit), "{}", host.name);
        assert_eq!(world.calls(), 1);
        talk.say_bye();
    });
}

#[test]
fn a_request_reaches_the_worker_and_a_stopped_job_continues() {
    for_each_host(|host, world, job| {
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        world.wait_for_calls(1);
        let worker = job.assignment.worker.clone();
        talk.send(&HostRequest::Send { worker, request: ControlRequest::StopNow });
        let (result, _) = talk.wait_for_end();
        let outcome = result.map(|it| it.outcome);
        assert_eq!(outcome, Ok(Outcome::Interrupted), "{}", host.name);
        world.allow();
        talk.start_job(&job);
        let (result, _) = talk.wait_for_end();
        assert_complete(world, &result);
        assert_eq!(world.calls(), 2, "{}", host.name);
        talk.say_bye();
    });
}

#[test]
fn a_canceled_job_ends_its_agent() {
    for_each_host(|host, world, job| {
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        let agent = world.agent();
        let worker = job.assignment.worker.clone();
        talk.send(&HostRequest::Cancel { worker });
        wait_until("the agent is gone", || !is_running(agent));
        // The host continues.
        world.allow();
        talk.start_job(&with_name(&job, "again"));
        loop {
            // The local host reports the canceled worker as well.
            let (result, _) = talk.wait_for_end();
            if let Ok(JobResult { outcome: Outcome::Complete, .. }) = result {
                break;
            }
        }
        talk.say_bye();
    });
}

#[test]
fn a_killed_worker_is_lost_and_continues_when_it_is_started_again() {
    for_each_host(|host, world, job| {
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        world.wait_for_calls(1);
        let workers = find_workers(world);
        assert_eq!(workers.len(), 1, "{}", host.name);
        kill(workers[0]);
        if host.has_retries {
            world.wait_for_calls(2);
            world.allow();
        } else {
            let (lost, _) = talk.wait_for_end();
            assert!(lost.is_err(), "{}: {lost:?}", host.name);
            world.allow();
            talk.start_job(&job);
        }
        let (result, _) = talk.wait_for_end();
        assert_complete(world, &result);
        assert_eq!(world.calls(), 2, "{}", host.name);
        talk.say_bye();
    });
}

#[test]
fn jobs_of_a_killed_host_end_once_under_a_new_one() {
    for_each_host(|host, world, job| {
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        world.wait_for_calls(1);
        talk.kill();
        let mut talk = world.talk_to(host);
        talk.start_job(&job);
        world.allow();
        let (result, _) = talk.wait_for_end();
        assert_complete(world, &result);
        // On this machine the worker ends with its host; elsewhere it may continue.
        assert!(world.calls() <= 2, "{}", host.name);
        talk.say_bye();
    });
}
