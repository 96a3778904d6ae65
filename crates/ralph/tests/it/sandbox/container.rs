//! Containers: whole runs and single calls, in a stand-in for docker, and with a real podman.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ralph_testkit::sealed::{Finished, Running, Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::image::image;

const DOCKER: &str = concat!(include_str!("stand_in.py"), include_str!("docker.py"));

/// Which container engine a scene uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// A stand-in on the `PATH`.
    Docker,
    /// The real podman.
    Podman,
}

/// Returns the engines that work here. The stand-in uses bubblewrap.
fn engines() -> Vec<Engine> {
    let mut engines = Vec::new();
    engines.extend(has_stand_in().then_some(Engine::Docker));
    engines.extend(image().map(|_| Engine::Podman));
    engines
}

/// Returns whether the stand-in for an engine works here.
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
fn has_stand_in() -> bool {
    let is_there =
        ["/usr/bin/bwrap", "/usr/bin/python3"].iter().all(|it| fs::exists(it).unwrap_or(false));
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "CI must have bwrap and python3");
        eprintln!("LEFT OUT: the stand-in for a container engine: no bwrap or python3");
    }
    is_there
}

/// A project whose runs are isolated by containers.
struct Scene {
    sealed: Sealed,
    engine: Engine,
}

impl Scene {
    fn new(engine: Engine) -> Self {
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
        match engine {
            Engine::Docker => sealed.write_program("docker", DOCKER),
            // The real one must be found although another may be installed.
            Engine::Podman => sealed.write_program("docker", "#!/bin/sh\nexit 1\n"),
        }
        Self { sealed, engine }
    }

    fn start(&self, words: &[&str]) -> Running {
        let mut command = self.sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        let image = match self.engine {
            Engine::Docker => "agent:1",
            Engine::Podman => image().expect("an image"),
        };
        command
            .args(words)
            .env("RALPH_SANDBOX_BACKEND", "container")
            .env("RALPH_SANDBOX_IMAGE", image)
            .env("MY_SECRET_TOKEN", "canary-of-the-environment");
        Running::start_command(command)
    }

    fn ralph(&self, words: &[&str]) -> Finished {
        self.start(words).wait_for_end()
    }

    fn exec(&self, script: &str) -> Finished {
        self.ralph(&["sandbox", "exec", "--network", "none", "--", "sh", "-c", script])
    }

    /// Returns the containers that are left of runs in this project.
    fn left(&self) -> Vec<String> {
        match self.engine {
            Engine::Docker => {
                let notes = fs::read_dir(self.notes()).into_iter().flatten().flatten();
                notes.map(|note| note.file_name().to_string_lossy().into_owned()).collect()
            }
            Engine::Podman => {
                let run = self.sealed.runs().pop().expect("a run");
                let run = run.file_name().expect("a name").to_string_lossy().into_owned();
                let filter = format!("label=ralph.run={run}");
                let mut podman = std::process::Command::new("podman");
                let listed = podman.args(["ps", "--all", "--quiet", "--filter", &filter]).output();
                let listed = String::from_utf8_lossy(&listed.expect("listed").stdout).into_owned();
                listed.lines().map(str::to_owned).collect()
            }
        }
    }

    fn notes(&self) -> PathBuf {
        self.sealed.bin_dir().join("containers")
    }
}

fn done() -> Value {
    json!({ "text": "<response>DONE</response>" })
}

#[test]
fn agent_gates_and_git_of_a_run_start_in_containers() {
    for engine in engines() {
        let scene = Scene::new(engine);
        let sealed = &scene.sealed;
        fs::write(sealed.root().join("home/secret.txt"), "canary of the home").expect("written");
        let ralph = env!("CARGO_BIN_EXE_ralph");
        let probes = format!(
            "cat ~/secret.txt > read 2>/dev/null; test -e variables || env > variables; ls {} > seen 2>&1; \
             echo x > .ralph/settings.json 2>/dev/null; \
             echo | {ralph} __connect evil.example 443 > said 2>&1; true",
            sealed.root().display()
        );
        sealed.write_script(
            &json!([{ "do": [
                { "write": { "path": "work.txt", "text": "done\n" } },
                { "run": { "command": probes } },
                done(),
            ] }]),
            &json!({
                "guardrails": [{
                    "command": "test -f work.txt && test \"$RALPH_SANDBOX\" = container && \
                                ! echo x 2>/dev/null > .git/x",
                }],
                "scm": { "command": "git", "tasks": ["commit"] },
            }),
        );
        let end = scene.ralph(&["run", "-p", "Work.", "-m", "1", "--include-dirty"]);
        assert_eq!(end.code, Some(0), "{engine:?}: {}{}", end.stdout, end.stderr);
        assert_eq!(sealed.subjects().len(), 2, "{engine:?}");
        assert_eq!(sealed.read_file("read"), "", "{engine:?}");
        let variables = sealed.read_file("variables");
        assert!(!variables.contains("canary-of-the-environment"), "{variables}");
        assert!(variables.contains("RALPH_SANDBOX=container"), "{variables}");
        let seen = sealed.read_file("seen");
        assert!(!seen.contains("state/ralph") && !seen.contains("outside"), "{seen}");
        assert!(sealed.read_file(".ralph/settings.json").contains("guardrails"), "{engine:?}");
        let warned = sealed.find_events("warned");
        assert!(
            warned.iter().any(|it| it.to_string().contains("evil.example:443 refused")),
            "{engine:?}: {warned:?} {}",
            sealed.read_file("said")
        );
        let started = &sealed.find_events("run_started")[0];
        assert_eq!(started["recipe"]["sandbox"]["backend"], json!({ "this": "container" }));
        assert_eq!(scene.left(), [""; 0], "{engine:?}");
        assert_eq!(
            sealed.run_git(&["status", "--short"]),
            "",
            "{engine:?}: {}",
            sealed.run_git(&["diff"])
        );
    }
}

#[test]
fn streams_codes_and_signals_come_through_a_container() {
    for engine in engines() {
        let scene = Scene::new(engine);
        let ran = scene.exec("echo out; echo err >&2; pwd; exit 7");
        let expect = format!("out\n{}\n", scene.sealed.project_dir().display());
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(7), expect.as_str(), "err\n"),
            "{engine:?}"
        );
        for (script, code) in [("exit 125", 125), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
            let ran = scene.exec(script);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), ""), "{engine:?}: {script}");
        }
        let words = ["sandbox", "exec", "--network", "none", "--", "no-such-program"];
        let missing = scene.ralph(&words);
        assert_eq!(missing.code, Some(125), "{engine:?}");
        let line = missing.stderr.lines().last().unwrap_or_default();
        assert!(line.starts_with("ralph sandbox: `no-such-program` was not found in the image"));
    }
}

#[test]
fn a_stopped_call_takes_its_container_with_it() {
    let script = "trap 'echo x > got-term; exit 3' TERM; (setsid sleep 600 &); echo x > ready; \
                  while :; do sleep 0.01; done";
    for engine in engines() {
        for (signal, code) in [(Signal::TERM, 3), (Signal::KILL, 137)] {
            let scene = Scene::new(engine);
            let words = ["sandbox", "exec", "--network", "none", "--", "sh", "-c", script];
            let running = scene.start(&words);
            scene.sealed.wait_for("ready");
            kill_process_group(first_child(running.id()), signal).expect("it is there");
            assert_eq!(running.wait_for_end().code, Some(code), "{engine:?} {signal:?}");
            let has_got_term = scene.sealed.project_dir().join("got-term").exists();
            assert_eq!(has_got_term, signal == Signal::TERM, "{engine:?}");
            assert_eq!(scene.sealed.survivors(), Vec::<String>::new(), "{engine:?} {signal:?}");
        }
    }
}

/// Returns the process that sets up the sandbox.
fn first_child(pid: u32) -> Pid {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("children");
    let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    Pid::from_raw(first.expect("one child")).expect("not zero")
}

#[test]
fn containers_of_a_killed_run_are_removed_and_it_resumes() {
    for engine in engines() {
        let scene = Scene::new(engine);
        let sealed = &scene.sealed;
        let hang = "test -e go || { echo x > ready; exec sleep 600; }";
        sealed.write_script(
            &json!([
                { "do": [{ "run": { "command": hang } }, done()] },
                { "do": [done()] },
            ]),
            &json!({}),
        );
        let running = scene.start(&["run", "-p", "Work.", "-m", "2"]);
        sealed.wait_for("ready");
        running.send_signal(Signal::KILL);
        running.wait_for_end();
        sealed.write_file("go", "");
        // Either the engine or the resumed run may remove it first.
        let end = scene.ralph(&["resume"]);
        assert_eq!(end.code, Some(0), "{engine:?}: {}", end.stderr);
        wait_until("all are gone", || scene.left().is_empty());
        assert_eq!(sealed.survivors(), Vec::<String>::new(), "{engine:?}");
    }
}

#[test]
fn missing_container_parts_are_reported_with_a_hint() {
    if !has_stand_in() {
        return;
    }
    let scene = Scene::new(Engine::Docker);
    let sealed = &scene.sealed;
    let run = |image: &str, gate: &str| {
        sealed.write_script(
            &json!([{ "do": [done()] }]),
            &json!({ "guardrails": [{ "command": gate }] }),
        );
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(["run", "-p", "Work.", "-m", "1"]).env("RALPH_SANDBOX_BACKEND", "container");
        if !image.is_empty() {
            command.env("RALPH_SANDBOX_IMAGE", image);
        }
        let end = Running::start_command(command).wait_for_end();
        assert_eq!(end.code, Some(2), "{image}: {}", end.stderr);
        end.stderr
    };
    let message = run("", "true");
    assert!(message.contains("no image is set") && message.contains("sandbox.image"), "{message}");
    let message = run("other:1", "true");
    assert!(message.contains("docker has no image `other:1`"), "{message}");
    assert!(message.contains("`docker pull other:1` fetches it"), "{message}");
    let message = run("agent:1", "no-such-gate --all");
    assert!(message.contains("`no-such-gate` was not found in the image `agent:1`"), "{message}");
    fs::write(sealed.bin_dir().join("down"), "").expect("written");
    let message = run("agent:1", "true");
    assert!(message.contains("docker does not work: docker: Cannot connect"), "{message}");
    assert_eq!(sealed.runs().len(), 0, "no run was begun");
}

#[test]
fn an_image_that_is_set_is_a_candidate_and_doctor_looks_at_it() {
    if !has_stand_in() {
        return;
    }
    let scene = Scene::new(Engine::Docker);
    let doctor = scene.ralph(&["doctor"]);
    assert!(doctor.stdout.contains("container: works"), "{}", doctor.stdout);
    let shown = scene.ralph(&["sandbox", "show", "--as", "gate", "--network", "none"]).stdout;
    assert!(shown.starts_with("Backend: container\n"), "{shown}");
    assert!(shown.contains("Nothing else of this machine is visible."), "{shown}");
}

/// The files of `docs/container.md`, with an image of this machine's programs as their base.
#[test]
fn documented_container_files_make_an_image_that_runs() {
    const NAME: &str = "ralph-test:documented";
    let Some(base) = image() else { return };
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let context = sealed.root().join("context");
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/files/container");
    let podman = |words: &[&str]| {
        let mut command = Command::new("podman");
        command.args(words).current_dir(&context);
        Running::start_command(command).wait_for_end()
    };
    let copied = Command::new("cp").arg("-r").arg(files).arg(&context).status();
    assert!(copied.is_ok_and(|it| it.success()));
    fs::copy(env!("CARGO_BIN_EXE_ralph"), context.join("ralph")).expect("a copy");
    let about = fs::read_to_string(context.join(".devcontainer/devcontainer.json"));
    let about: Value = serde_json::from_str(&about.expect("a file")).expect("JSON");
    let place = |key: &str| {
        let path = about["build"][key].as_str().expect("a path");
        context.join(".devcontainer").join(path).display().to_string()
    };
    let (file, directory) = (place("dockerfile"), place("context"));
    let arguments = [format!("BASE=localhost/{base}"), "INSTALL=mkdir -p /root".to_owned()];
    podman(&[
        "build",
        "--quiet",
        "--pull=never",
        "--network=none",
        "--tag",
        NAME,
        "--build-arg",
        &arguments[0],
        "--build-arg",
        &arguments[1],
        "--file",
        &file,
        &directory,
    ])
    .expect_code(0);
    // This base has no users, so that the home would be `/`.
    let mut words = vec!["run", "--rm", "--network=none", "--env", "HOME=/root"];
    words.extend(["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]);
    words.extend(about["runArgs"].as_array().expect("a list").iter().filter_map(Value::as_str));
    let mount = format!("{}:/work", sealed.project_dir().display());
    words.extend(["--volume", &mount, NAME]);
    let version = podman(&[&words[..], &["--version"]].concat()).expect_code(0);
    let status = podman(&[&words[..], &["status"]].concat());
    let demo = podman(&[&words[..], &["demo", "--fast"]].concat()).expect_code(0);
    podman(&["rmi", "--force", NAME]);
    assert!(version.stdout.starts_with("ralph "), "{}", version.stdout);
    assert!(demo.stdout.contains("greet.sh"), "{}{}", demo.stdout, demo.stderr);
    let shown = format!("{}{}", status.stdout, status.stderr);
    assert!(shown.contains("No run yet"), "the project is mounted: {shown}");
}
