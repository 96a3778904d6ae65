//! `ralph build --worker-host "ralph __workers --git …"`: whole runs over a bare repository, with
//! machines that have their own state directories and clones.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_testkit::sealed::{Finished, wait_until};
use serde_json::{Value, json};

use super::{HostWorld, kill, on_machine, over_git};
use crate::serve;

/// Runs `ralph worker` for the only job on the remote, on a machine of this name.
fn run_worker(world: &HostWorld, machine: &str, options: &str) -> Finished {
    let refs = world.remote_refs();
    let job = refs.iter().find(|it| it.contains("/jobs/")).expect("a job");
    let remote = world.sealed.root().join("remote.git");
    let command = on_machine(machine, options).replace("{}", job);
    let command = format!("RALPH_REMOTE='{}'; {command}", remote.display());
    let mut shell = world.sealed.build_command("sh");
    let output = shell.args(["-c", &world.with_variables(&command)]).output().expect("started");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Finished { code: output.status.code(), stdout, stderr }
}

fn wait_for_ref(world: &HostWorld, part: &str) {
    wait_until(part, || world.remote_refs().iter().any(|it| it.contains(part)));
}

/// A hook of the remote that refuses some refs as long as there is a file `no` in it.
fn refuse_refs(world: &HostWorld, part: &str) {
    let remote = world.sealed.root().join("remote.git");
    let hook = remote.join("hooks/pre-receive");
    let text = format!(
        "#!/bin/sh\nif [ -e no ] && grep -q '/{part}/'; then echo 'the disk is full' >&2; exit 1; fi\n"
    );
    fs::write(&hook, text).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(remote.join("no"), "").expect("written");
}

fn accept_refs(world: &HostWorld) {
    fs::remove_file(world.sealed.root().join("remote.git/no")).expect("removed");
}

#[test]
fn a_run_on_other_machines_looks_like_one_here_and_leaves_nothing_on_the_remote() {
    let world = HostWorld::new(&["a", "b"], json!({ "gates": [{ "command": "test -d ." }] }));
    let sealed = &world.sealed;
    let run = world.start_build(&over_git("--attached", "one"));
    world.wait_for_calls(2);
    wait_until("the places are known", || sealed.find_events("worker_started").len() == 2);
    let status = sealed.run_ralph(&["status"]).expect_code(0).stdout;
    assert!(status.contains("one/s1") && status.contains("one/s2"), "{status}");
    let (server, url, port) = serve::serve(sealed, &[]);
    let pages = format!("/{}/run", serve::token(&url));
    let key = serve::keys(port, &serve::token(&url)).remove(0);
    let page = serve::get(port, &format!("{pages}/{key}/"));
    assert!(page.contains("one/s1") && page.contains("one/s2"), "{page}");
    world.allow();
    run.wait_for_end().expect_code(0);
    for task in ["a", "b"] {
        assert_eq!(sealed.read_file(&format!("{task}.txt")).trim(), task);
        // The journal of the worker is here, and only here is the state of this machine.
        let log = sealed.run_ralph(&["log", "--task", task]).expect_code(0).stdout;
        assert!(log.contains("one/s") && log.contains("iteration"), "{log}");
        let report = sealed.run_ralph(&["report", "--task", task]).expect_code(0).stdout;
        assert!(report.contains(&format!("The {task}")), "{report}");
    }
    // The page of each worker is made of that journal.
    let page = serve::get(port, &format!("{pages}/{key}/"));
    assert!(page.contains("one/s1") && page.contains("one/s2"), "{page}");
    let links = page.split("href=\"../worker-").skip(1).filter_map(|it| it.split('/').next());
    let links: BTreeSet<&str> = links.collect();
    assert_eq!(links.len(), 2, "{page}");
    let workers = links.iter().map(|it| serve::get(port, &format!("{pages}/worker-{it}/")));
    let workers: Vec<String> = workers.collect();
    for title in ["The a", "The b"] {
        assert!(workers.iter().any(|it| it.contains(title)), "no {title} in {workers:?}");
    }
    drop(server);
    assert_eq!(sealed.run_git(&["status", "--porcelain"]), "");
    let left = world.remote_refs();
    assert!(left.iter().all(|it| it.contains("/bases/")), "{left:?}");
    let branches = world.run_remote_git(&["branch", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), 1, "no one pushes branches: {branches}");
    assert_eq!(sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_late_result_of_an_attempt_that_was_given_up_does_not_land() {
    let world = HostWorld::new(&["a"], json!({}));
    // The first attempt cannot be started, or so it seems.
    let start = format!("[ $RALPH_ATTEMPT != a1 ] || exit 1; {}", on_machine("two", ""));
    let host = format!("\"$RALPH\" __workers --git --poll 300ms --start '{start}'");
    let run = world.start_build(&host);
    world.wait_for_calls(1);
    let lost = world.sealed.find_events("worker_lost");
    assert_eq!(lost.len(), 1, "{lost:#?}");
    // The machine of the first attempt is there again. Its label is not the one of the job.
    let late = run_worker(&world, "one", "--attempt a1");
    assert_eq!(late.code, Some(3), "{}", late.stderr);
    // A result that it pushes all the same is ignored.
    let job = world.remote_refs().into_iter().find(|it| it.contains("/jobs/")).expect("a job");
    let late = job.replace("/jobs/", "/results/") + "/a1";
    let tip = world.run_remote_git(&["rev-parse", &job]);
    world.run_remote_git(&["update-ref", &late, tip.trim()]);
    world.allow();
    run.wait_for_end().expect_code(0);
    assert_eq!(world.sealed.find_events("worker_ended").len(), 1);
    let started = world.sealed.find_events("worker_started");
    assert_eq!(started.last().expect("one")["place"], "two/s1 (a2)");
    assert_eq!(world.calls(), 1);
}

#[test]
fn a_job_that_no_machine_takes_in_time_is_lost_and_starts_again() {
    let world = HostWorld::new(&["a"], json!({}));
    let host = "\"$RALPH\" __workers --git --poll 300ms --lost-after 1s --start true";
    world.start_build(host).wait_for_end().expect_code(2).expect_stderr("was lost 4");
    let lost = world.sealed.find_events("worker_lost");
    assert_eq!(lost.len(), 4, "{lost:#?}");
    assert_eq!(lost[0]["reason"], "no result and no sign of it for 1.0s");
    assert_eq!(world.calls(), 0);
}

#[test]
fn a_job_continues_without_its_run_and_resume_takes_the_result() {
    let world = HostWorld::new(&["a"], json!({}));
    // As a service would: the command returns, and the worker is no child of anything here.
    let start = format!("({}) < /dev/null > /dev/null 2>&1 &", on_machine("one", ""));
    let host = format!("\"$RALPH\" __workers --git --poll 300ms --start '{start}'");
    let run = world.start_build(&host);
    world.wait_for_calls(1);
    wait_for_ref(&world, "/journals/");
    // Git commands of the host end what they leave behind, and not the worker.
    let job = || world.run_remote_git(&["for-each-ref", "refs/ralph/jobs"]);
    let first = job();
    world.sealed.run_ralph(&["note", "--task", "a", "Be brief."]).expect_code(0);
    wait_until("the note is pushed", || job() != first);
    kill(i32::try_from(run.id()).expect("a pid"));
    run.wait_for_end();
    world.allow();
    wait_for_ref(&world, "/results/");
    world.sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(world.sealed.read_file("a.txt").trim(), "a");
    assert_eq!(world.calls(), 1);
    assert_eq!(world.sealed.survivors(), Vec::<String>::new());
}

#[test]
fn a_remote_that_refuses_jobs_ends_the_run_with_its_words() {
    let world = HostWorld::new(&["a"], json!({}));
    refuse_refs(&world, "jobs");
    let ended = world.start_build(&over_git("--attached", "one")).wait_for_end();
    ended.expect_code(2).expect_stderr("the disk is full");
    assert_eq!(world.calls(), 0);
    accept_refs(&world);
    world.allow();
    world.sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(world.calls(), 1);
}

#[test]
fn a_result_that_cannot_be_pushed_is_kept_and_pushed_later_without_an_agent() {
    let world = HostWorld::new(&["a"], json!({}));
    refuse_refs(&world, "results");
    world.allow();
    let run = world.start_build("\"$RALPH\" __workers --git --poll 300ms --start true");
    wait_for_ref(&world, "/jobs/");
    let refused = run_worker(&world, "one", "");
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    for words in ["the disk is full", "refs/ralph/candidates/", "hint:"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    accept_refs(&world);
    assert_eq!(run_worker(&world, "one", "").code, Some(0));
    run.wait_for_end().expect_code(0);
    assert_eq!(world.calls(), 1);
    assert_eq!(world.sealed.read_file("a.txt").trim(), "a");
}

/// Pushes another text as the job of a ref.
fn replace_job(world: &HostWorld, job: &str, text: &str) {
    let other = world.sealed.root().join("other.json");
    fs::write(&other, text).expect("written");
    let blob = world.run_remote_git(&["hash-object", "-w", &other.to_string_lossy()]);
    let list = world.sealed.root().join("tree");
    fs::write(&list, format!("100644 blob {}\tjob.json\n", blob.trim())).expect("written");
    let command = format!(
        "cd remote.git && t=$(git mktree < {}) && c=$(git -c user.name=x -c user.email=x@y \
         commit-tree -m x -p {job}^ $t) && git update-ref {job} $c",
        list.display()
    );
    let mut shell = world.sealed.build_command("sh");
    shell.current_dir(world.sealed.root()).args(["-c", &command]);
    assert!(shell.status().expect("started").success());
}

#[test]
fn a_hostile_job_reaches_nothing_on_a_machine() {
    let world = HostWorld::new(&["a"], json!({}));
    world.allow();
    let run = world.start_build("\"$RALPH\" __workers --git --poll 300ms --start true");
    wait_for_ref(&world, "/jobs/");
    let name = world.remote_refs().into_iter().find(|it| it.contains("/jobs/")).expect("a job");
    let text = world.run_remote_git(&["show", &format!("{name}:job.json")]);
    // The job stays.
    run.send_signal(rustix::process::Signal::KILL);
    run.wait_for_end();
    let outside = world.sealed.root().join("outside");
    fs::create_dir(&outside).expect("a directory");
    let evil = format!("touch {}/ran", outside.display());
    let agent = json!({ "kind": "text", "command": "sh", "flags": ["-c", evil] });
    let scm = json!({ "scm": { "command": "sh", "tasks": [{ "run": ["-c", evil] }] } });
    let up = format!("{}{}", "../".repeat(20), outside.display());
    for (pointer, value) in [
        ("/job/assignment/worker", json!(up)),
        ("/job/assignment/base", json!("--orphan=x")),
        ("/job/project", json!("../../..")),
        ("/job/recipe/landing/commit", scm),
        ("/job/recipe/agent/kind", agent["kind"].clone()),
    ] {
        let mut job: Value = serde_json::from_str(&text).expect("JSON");
        for (key, value) in agent.as_object().expect("an object") {
            if key != "kind" {
                job["job"]["recipe"]["agent"][key] = value.clone();
            }
        }
        *job.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer} in {text}")) = value;
        replace_job(&world, &name, &job.to_string());
        let refused = run_worker(&world, "one", "");
        assert!(refused.code.is_some_and(|it| it != 0), "{pointer}: {}", refused.stderr);
        let reached = fs::read_dir(&outside).expect("there").count();
        assert_eq!(reached, 0, "{pointer}: {}", refused.stderr);
        assert_eq!(world.calls(), 0, "{pointer}");
        let result = format!("{}/*", name.replace("/jobs/", "/results/"));
        for found in world.run_remote_git(&["for-each-ref", "--format=%(refname)", &result]).lines()
        {
            world.run_remote_git(&["update-ref", "-d", found]);
        }
    }
}

#[test]
fn gates_that_passed_on_another_machine_run_again_here() {
    // What the machine says of its gates is a claim of anyone who can push.
    let gate = "case \"$XDG_STATE_HOME\" in */machines/*) true;; *) false;; esac";
    let parallel = json!({ "mergeAttempts": 1, "flakeRetries": 0 });
    let further = json!({ "gates": [{ "name": "t", "command": gate }], "baseline": "off",
                          "parallel": parallel });
    let world = HostWorld::new(&["a"], further);
    world.allow();
    let run = world.start_build(&over_git("--attached", "one"));
    let end = run.wait_for_end();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.calls(), 1);
    assert!(!world.sealed.read_file("plan.json").contains("\"done\""), "{}", end.stderr);
}

#[test]
fn a_machine_refuses_what_its_user_did_not_allow_and_other_versions() {
    let world = HostWorld::new(&["a"], json!({}));
    world.allow();
    let run = world.start_build("\"$RALPH\" __workers --git --poll 300ms --start true");
    wait_for_ref(&world, "/jobs/");
    let job = world.remote_refs().into_iter().find(|it| it.contains("/jobs/")).expect("a job");
    let text = world.run_remote_git(&["show", &format!("{job}:job.json")]);
    let root = world.sealed.root().to_string_lossy().into_owned();
    assert!(!text.contains(&root), "a path of this machine in {text}");
    // The same job from a later version.
    let version = format!("\"ralph\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    replace_job(&world, &job, &text.replace(&version, "\"ralph\":\"99.0.0\""));
    let refused = run_worker(&world, "one", "");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("99.0.0"), "{}", refused.stderr);
    // The run gets the reason, and does not try again.
    run.wait_for_end().expect_code(2).expect_stderr("99.0.0");
    assert_eq!(world.calls(), 0);

    // The settings of the project ask for more than this machine's user allows.
    let further = json!({ "parallel": { "setup": "true" } });
    let world = HostWorld::new(&["a"], further);
    world.sealed.trust_project(&[]);
    world.allow();
    let run = world.start_build(&over_git("--attached", "one"));
    run.wait_for_end().expect_code(2).expect_stderr("parallel.setup");
    assert_eq!(world.calls(), 0);
}
