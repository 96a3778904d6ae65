//! Command lines of containers, and engines with different answers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use ralph_model::sandbox::NetworkMode;

use super::engine::{ContainerUser, SelinuxLabels, read_docker, read_podman};
use super::*;
use crate::sandbox::INSIDE_COMMAND;
use crate::sandbox::boundary::{
    BoundaryEntry, build_example_boundary, build_example_spawn, format_spawn,
};

fn container(user: ContainerUser, labels: SelinuxLabels) -> Container {
    Container {
        engine: ContainerEngine { program: "/usr/bin/docker".into(), user, labels },
        image: "agent:1".into(),
        ralph: "/opt/ralph".into(),
        env: vec![("PATH".into(), "/usr/bin".into()), ("HOME".into(), "/home/ann".into())],
    }
}

fn slot(proxy: Option<&Path>) -> ContainerSlot<'_> {
    let channel = Path::new("/state/run/cell-1-1.sock");
    let empty = Path::new("/state/run/empty");
    ContainerSlot { name: "ralph-r-1", run: "r", channel, empty, proxy }
}

#[test]
fn a_container_has_only_the_project_and_the_proxy_socket() {
    let container = container(ContainerUser::Same { uid: 1000, gid: 100 }, SelinuxLabels::Absent);
    let launched = container.wrap_spawn(
        build_example_spawn(),
        &build_example_boundary(),
        &slot(Some(Path::new("/state/run/proxy.sock"))),
    );
    expect![[r#"
        /usr/bin/docker run
        --rm
        --interactive
        --name ralph-r-1
        --label ralph.run=r
        --pull never
        --read-only
        --cap-drop ALL
        --security-opt no-new-privileges
        --pids-limit 512
        --memory 8589934592
        --memory-swap 8589934592
        --ulimit nofile=4096:4096
        --ulimit nproc=4096:4096
        --ulimit core=0:0
        --ulimit fsize=1073741824:1073741824
        --ipc private
        --user 1000:100
        --network none
        --tmpfs /tmp:rw,exec,nosuid,nodev,size=2147483648,mode=1777
        --tmpfs /home/ann:rw,exec,nosuid,nodev,size=2147483648,mode=1777
        --mount type=bind,source=/home/ann/my project,target=/home/ann/my project
        --mount type=bind,source=/home/ann/my project/.git,target=/home/ann/my project/.git,readonly
        --mount type=bind,source=/home/ann/my project/.ralph,target=/home/ann/my project/.ralph,readonly
        --mount type=bind,source=/state/run/empty,target=/home/ann/my project/secrets,readonly
        --mount type=bind,source=/dev/null,target=/home/ann/my project/.env,readonly
        --mount type=bind,source=/home/ann/.local/state/ralph/run/mcp.json,target=/home/ann/.local/state/ralph/run/mcp.json,readonly
        --mount type=bind,source=/home/ann/.local/state/ralph/agent/claude,target=/home/ann/.local/state/ralph/agent/claude
        --mount type=bind,source=/state/run/cell-1-1.sock,target=/run/ralph/channel.sock,readonly
        --mount type=bind,source=/state/run/proxy.sock,target=/run/ralph/proxy.sock,readonly
        --env HOME=/home/ann
        --env RALPH_SANDBOX=container
        --env LANG
        --env MODEL_API_KEY
        --env HTTP_PROXY=http://127.0.0.1:61128
        --env HTTPS_PROXY=http://127.0.0.1:61128
        --env ALL_PROXY=http://127.0.0.1:61128
        --env http_proxy=http://127.0.0.1:61128
        --env https_proxy=http://127.0.0.1:61128
        --env all_proxy=http://127.0.0.1:61128
        --env npm_config_proxy=http://127.0.0.1:61128
        --env npm_config_https_proxy=http://127.0.0.1:61128
        --env NO_PROXY=localhost,127.0.0.1,::1
        --env no_proxy=localhost,127.0.0.1,::1
        --env npm_config_noproxy=localhost,127.0.0.1,::1
        --env NODE_USE_ENV_PROXY=1
        --env GIT_SSH_COMMAND=ssh -o 'ProxyCommand="/opt/ralph" __connect %h %p'
        --workdir /
        --entrypoint /opt/ralph agent:1 __cell-inside /run/ralph/channel.sock /run/ralph/proxy.sock claude
        -p two words
        in / with PATH HOME LANG MODEL_API_KEY
    "#]].assert_eq(&format_spawn(&launched));
    assert_eq!(launched.stdin, build_example_spawn().stdin);
    let value = |name: &str| {
        launched.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    assert_eq!(value("LANG"), Some("C.UTF-8".into()), "the child's, not the client's");
    assert_eq!(value("HOME"), Some("/home/ann".into()), "the client's");
    let listing = format_spawn(&launched);
    assert!(!listing.contains("docker.sock") && !listing.contains("sk-123"), "{listing}");
    assert!(!listing.contains("privileged") && !listing.contains("network\nhost"), "{listing}");
}

#[test]
fn users_networks_and_odd_names_change_the_command_line() {
    let quoted = Boundary {
        network: NetworkMode::None,
        places: vec![BoundaryEntry::ReadOnly("/a,b\"c".into())],
        ..build_example_boundary()
    };
    let open =
        Boundary { network: NetworkMode::Host, places: Vec::new(), ..build_example_boundary() };
    let mut listing = String::new();
    for (user, labels, boundary) in [
        (ContainerUser::Kept { uid: 1000, gid: 100 }, SelinuxLabels::SwitchedOff, &quoted),
        (ContainerUser::Mapped, SelinuxLabels::Absent, &open),
    ] {
        let launched =
            container(user, labels).wrap_spawn(build_example_spawn(), boundary, &slot(None));
        let args: Vec<String> =
            launched.args.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        let options =
            ["--user", "--userns", "--network", "label=disable", "--mount", INSIDE_COMMAND];
        for option in options {
            for at in args.iter().enumerate().filter(|(_, it)| *it == option).map(|(at, _)| at) {
                listing.push_str(&format!("{option} {}\n", args[at + 1]));
            }
        }
        listing.push('\n');
    }
    expect![[r#"
        --user 1000:100
        --userns keep-id
        --network none
        label=disable --pids-limit
        --mount type=bind,"source=/a,b""c","target=/a,b""c",readonly
        --mount type=bind,source=/state/run/cell-1-1.sock,target=/run/ralph/channel.sock,readonly
        __cell-inside /run/ralph/channel.sock

        --user 0:0
        --network bridge
        --mount type=bind,source=/state/run/cell-1-1.sock,target=/run/ralph/channel.sock,readonly
        __cell-inside /run/ralph/channel.sock

    "#]]
    .assert_eq(&listing);
}

#[test]
fn names_are_unique_and_fit_the_engines() {
    assert_eq!(build_container_name("20261114-231500-k3f9", "7"), "ralph-20261114-231500-k3f9-7");
    assert_eq!(build_container_name("a b/c:d", "1"), "ralph-a-b-c-d-1");
}

#[test]
fn answers_of_engines_are_parsed() {
    let describe = |result: Result<ContainerUser, ContainerEngineError>| match result {
        Ok(ContainerUser::Same { .. }) => "same".to_owned(),
        Ok(ContainerUser::Kept { .. }) => "kept".to_owned(),
        Ok(ContainerUser::Mapped) => "mapped".to_owned(),
        Err(error) => error.to_string(),
    };
    for (answer, expect) in [
        ("linux|Debian GNU/Linux 12|[name=seccomp,profile=builtin]", "same"),
        ("linux|Ubuntu 24.04|[name=seccomp name=rootless]", "mapped"),
        ("linux|Docker Desktop|[]", "Docker Desktop does not share sockets with its containers"),
        ("windows|Windows|[]", "docker runs containers of `windows`, not of linux"),
        ("", "docker runs containers of ``, not of linux"),
    ] {
        assert_eq!(describe(read_docker(answer)), expect, "{answer}");
    }
    for (answer, expect) in [
        ("linux|true", "kept"),
        ("linux|false", "same"),
        ("?", "podman gives an answer that is not understood: `?`"),
    ] {
        assert_eq!(describe(read_podman(answer)), expect, "{answer}");
    }
}

/// Puts scripts on a `PATH` of their own.
fn programs(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Vec<(OsString, OsString)>) {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, script) in scripts {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    let env = vec![("PATH".into(), directory.path().into())];
    (directory, env)
}

#[test]
fn an_engine_that_does_not_answer_is_not_used() {
    const ANSWERS: &str =
        "case \"$1\" in info) echo 'linux|Debian|[]' ;; image) echo sha256:1 ;; esac";
    const PODMAN: &str = "case \"$1\" in info) echo 'linux|true' ;; image) echo sha256:2 ;; esac";
    const NO_IMAGE: &str = "[ \"$1\" = info ] && echo 'linux|Debian|[]'";
    for (scripts, expect) in [
        (vec![("docker", ANSWERS)], "docker sha256:1"),
        (vec![("docker", "echo no daemon >&2; exit 1"), ("podman", PODMAN)], "podman sha256:2"),
        (vec![("docker", NO_IMAGE), ("podman", PODMAN)], "podman sha256:2"),
        (
            vec![("docker", NO_IMAGE)],
            "docker has no image `agent:1`; podman is not installed (`docker pull agent:1` fetches it, \
             or `docker build -t agent:1 .` builds it; ralph fetches nothing by itself)",
        ),
        (vec![], "docker is not installed; podman is not installed (install docker or podman)"),
        (
            vec![("docker", "echo no daemon >&2; exit 1")],
            "docker does not work: no daemon; podman is not installed (start the engine; `docker info` \
             says whether it answers)",
        ),
        (
            vec![("docker", "exec /bin/sleep 600")],
            "docker does not work: it does not answer within 3 s; podman is not installed (start the \
             engine; `docker info` says whether it answers)",
        ),
        (
            vec![("docker", "[ \"$1\" = info ] || exec /bin/sleep 600; echo 'linux|Debian|[]'")],
            "docker does not work: asked for the image, it does not answer within 3 s; podman is not \
             installed (`docker image inspect agent:1` says what it finds)",
        ),
    ] {
        let (_directory, env) = programs(&scripts);
        let (ralph, project) = (Path::new("/opt/ralph"), Path::new("/home/ann/project"));
        let found = Container::find_engine("agent:1", ralph, project, &env, &Watch::new_detached());
        let listing = match found {
            Ok((container, id)) => {
                let name = container.engine.program.file_name().expect("a name").display();
                format!("{name} {id}")
            }
            Err(error) => format!("{error} ({})", error.remedy.clone().unwrap_or_default()),
        };
        assert_eq!(listing, expect, "{scripts:?}");
    }
}

#[test]
fn an_engine_inside_the_project_is_refused() {
    let (directory, env) = programs(&[("docker", "echo 'linux|Debian|[]'")]);
    let project = directory.path().canonicalize().expect("there");
    let ralph = Path::new("/opt/ralph");
    let found = Container::find_engine("agent:1", ralph, &project, &env, &Watch::new_detached());
    let why = found.expect_err("an agent can change it").why;
    assert!(why.contains("is inside the project"), "{why}");
}

/// Returns an environment as text.
fn texts(env: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let text = |it: &OsString| it.to_str().expect("text").to_owned();
    env.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn containers_of_killed_runs_are_found_by_label_and_removed() {
    let (directory, env) = programs(&[(
        "docker",
        "echo \"$@\" >> \"${0%/*}/log\"; [ \"$1\" = ps ] && echo 'aaa bbb'; exit 0",
    )]);
    let engine = ContainerEngine {
        program: directory.path().join("docker"),
        user: ContainerUser::Mapped,
        labels: SelinuxLabels::Absent,
    };
    let env = texts(&env);
    let container = Container { engine, image: "i".into(), ralph: "/r".into(), env };
    container.remove_run_containers("20261114-231500-k3f9", &Watch::new_detached());
    let log = fs::read_to_string(directory.path().join("log")).expect("a log");
    expect![[r"
        ps --all --quiet --filter label=ralph.run=20261114-231500-k3f9
        rm --force --volumes aaa
        rm --force --volumes bbb
    "]]
    .assert_eq(&log);
    // A container whose process was killed is found by its unlocked note.
    let run = tempfile::tempdir().expect("a directory");
    let held = ContainerNote::write_locked(&container, "held", &run.path().join("cell-1.json"))
        .expect("noted");
    drop(
        ContainerNote::write_locked(&container, "killed", &run.path().join("cell-2.json"))
            .expect("noted"),
    );
    fs::remove_file(directory.path().join("log")).expect("removed");
    // A child that another test has just forked holds all locks of this process until it calls
    // exec.
    let cleared = (0..500).find_map(|_| {
        remove_stale_containers(run.path());
        let log = fs::read_to_string(directory.path().join("log")).ok();
        log.or_else(|| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            None
        })
    });
    let log = cleared.expect("a log");
    assert_eq!(log, "rm --force --volumes killed\n");
    held.remove_note();
    assert_eq!(fs::read_dir(run.path()).expect("readable").count(), 0);
}
