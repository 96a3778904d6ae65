//! Command lines of containers, and engines that answer one way or the other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use ralph_core::child::Ending;
use ralph_core::sandbox::NetworkMode;

use super::engine::{Labels, User, read_docker, read_podman};
use super::*;
use crate::process::{Captured, capture};
use crate::sandbox::boundary::{Place, child, example, shown};

fn container(user: User, labels: Labels) -> Container {
    Container {
        engine: Engine { program: "/usr/bin/docker".into(), user, labels },
        image: "agent:1".into(),
        ralph: "/opt/ralph".into(),
        env: [("PATH", "/usr/bin"), ("HOME", "/home/ann"), ("LANG", "de")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
    }
}

#[test]
fn a_container_has_the_project_the_way_to_the_proxy_and_nothing_else() {
    let container = container(User::Same { uid: 1000, gid: 100 }, Labels::Absent);
    let launched =
        container.launch(child(), &example(), Some(Path::new("/state/run/sockets")), "ralph-r-1");
    expect![[r#"
        /usr/bin/docker run
        --rm
        --interactive
        --name ralph-r-1
        --label ralph.project=d5bc03d3b37e8a79
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
        --tmpfs /tmp:rw,exec,nosuid,nodev,size=2147483648,mode=1777
        --tmpfs /run:rw,exec,nosuid,nodev,size=16777216,mode=1777
        --tmpfs /home/agent:rw,exec,nosuid,nodev,size=2147483648,mode=1777
        --user 1000:100
        --network none
        --mount type=bind,source=/home/ann/my project,target=/home/ann/my project
        --mount type=bind,source=/home/ann/my project/.git,target=/home/ann/my project/.git,readonly
        --mount type=bind,source=/home/ann/my project/.ralph,target=/home/ann/my project/.ralph,readonly
        --mount type=tmpfs,target=/home/ann/my project/secrets,tmpfs-size=4096,tmpfs-mode=0555
        --mount type=bind,source=/dev/null,target=/home/ann/my project/.env,readonly
        --mount type=bind,source=/home/ann/.local/state/ralph/run/mcp.json,target=/home/ann/.local/state/ralph/run/mcp.json,readonly
        --mount type=bind,source=/home/ann/.local/state/ralph/agent/claude,target=/home/ann/.local/state/ralph/agent/claude
        --mount type=bind,source=/opt/ralph,target=/usr/local/bin/ralph,readonly
        --mount type=bind,source=/state/run/sockets,target=/run/ralph,readonly
        --env HOME=/home/agent
        --env RALPH_SANDBOX=container
        --env LANG
        --env MODEL_API_KEY
        --env HTTP_PROXY=http://127.0.0.1:3128
        --env HTTPS_PROXY=http://127.0.0.1:3128
        --env ALL_PROXY=http://127.0.0.1:3128
        --env http_proxy=http://127.0.0.1:3128
        --env https_proxy=http://127.0.0.1:3128
        --env all_proxy=http://127.0.0.1:3128
        --env npm_config_proxy=http://127.0.0.1:3128
        --env npm_config_https_proxy=http://127.0.0.1:3128
        --env NO_PROXY=localhost,127.0.0.1,::1
        --env no_proxy=localhost,127.0.0.1,::1
        --env npm_config_noproxy=localhost,127.0.0.1,::1
        --env NODE_USE_ENV_PROXY=1
        --env GIT_SSH_COMMAND=ssh -o 'ProxyCommand="/usr/local/bin/ralph" __connect %h %p'
        --workdir /home/ann/my project/web
        --entrypoint /usr/local/bin/ralph agent:1 __bridge /run/ralph claude
        -p two words
        in / with PATH HOME LANG MODEL_API_KEY
    "#]].assert_eq(&shown(&launched));
    assert_eq!(launched.stdin, child().stdin);
    let value = |name: &str| {
        launched.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    assert_eq!(value("LANG"), Some("C.UTF-8".into()), "the child's, not the client's");
    assert_eq!(value("HOME"), Some("/home/ann".into()), "the client's");
    let said = shown(&launched);
    assert!(!said.contains("docker.sock") && !said.contains("sk-123"), "{said}");
    assert!(!said.contains("privileged") && !said.contains("network\nhost"), "{said}");
}

#[test]
fn users_networks_and_odd_names_change_the_command_line() {
    let quoted = Boundary {
        network: NetworkMode::None,
        places: vec![Place::ReadOnly("/a,b\"c".into())],
        ..example()
    };
    let open = Boundary { network: NetworkMode::Host, places: Vec::new(), ..example() };
    let mut said = String::new();
    for (user, labels, boundary) in [
        (User::Kept { uid: 1000, gid: 100 }, Labels::SwitchedOff, &quoted),
        (User::Mapped, Labels::Absent, &open),
    ] {
        let launched = container(user, labels).launch(child(), boundary, None, "n");
        let words: Vec<String> =
            launched.args.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        for option in ["--user", "--userns", "--network", "label=disable", "--mount", "__bridge"] {
            for at in words.iter().enumerate().filter(|(_, it)| *it == option).map(|(at, _)| at) {
                said.push_str(&format!("{option} {}\n", words[at + 1]));
            }
        }
        said.push('\n');
    }
    expect![[r#"
        --user 1000:100
        --userns keep-id
        --network none
        label=disable --pids-limit
        --mount type=bind,"source=/a,b""c","target=/a,b""c",readonly
        --mount type=bind,source=/opt/ralph,target=/usr/local/bin/ralph,readonly
        __bridge none

        --user 0:0
        --network bridge
        --mount type=bind,source=/opt/ralph,target=/usr/local/bin/ralph,readonly
        __bridge none

    "#]]
    .assert_eq(&said);
}

#[test]
fn names_are_unique_and_fit_the_engines() {
    assert_eq!(container_name("20261114-231500-k3f9", 7), "ralph-20261114-231500-k3f9-7");
    assert_eq!(container_name("a b/c:d", 1), "ralph-a-b-c-d-1");
}

#[test]
fn answers_of_engines_are_understood() {
    let words = |result: Result<User, NoEngine>| match result {
        Ok(User::Same { .. }) => "same".to_owned(),
        Ok(User::Kept { .. }) => "kept".to_owned(),
        Ok(User::Mapped) => "mapped".to_owned(),
        Err(error) => error.to_string(),
    };
    for (answer, expect) in [
        ("linux|Debian GNU/Linux 12|[name=seccomp,profile=builtin]", "same"),
        ("linux|Ubuntu 24.04|[name=seccomp name=rootless]", "mapped"),
        ("linux|Docker Desktop|[]", "Docker Desktop does not share sockets with its containers"),
        ("windows|Windows|[]", "docker runs containers of `windows`, not of linux"),
        ("", "docker runs containers of ``, not of linux"),
    ] {
        assert_eq!(words(read_docker(answer)), expect, "{answer}");
    }
    for (answer, expect) in [
        ("linux|true", "kept"),
        ("linux|false", "same"),
        ("?", "podman gives an answer that is not understood: `?`"),
    ] {
        assert_eq!(words(read_podman(answer)), expect, "{answer}");
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
fn an_engine_that_does_not_answer_is_none() {
    const ANSWERS: &str = "echo 'linux|Debian|[]'";
    for (scripts, expect) in [
        (vec![("docker", ANSWERS)], "docker"),
        (vec![("docker", "echo no daemon >&2; exit 1"), ("podman", "echo 'linux|true'")], "podman"),
        (vec![], "docker is not installed; podman is not installed"),
        (
            vec![("docker", "echo no daemon >&2; exit 1")],
            "docker does not work: no daemon; podman is not installed",
        ),
        (
            vec![("docker", "exec /bin/sleep 600")],
            "docker does not work: it does not answer; podman is not installed",
        ),
    ] {
        let (_directory, env) = programs(&scripts);
        let said = match Engine::find(&env, &Watch::detached()) {
            Ok(engine) => engine.program.file_name().expect("a name").display().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expect, "{scripts:?}");
    }
}

#[test]
fn what_killed_runs_left_is_found_by_its_label_and_removed() {
    let (directory, env) = programs(&[(
        "docker",
        "echo \"$@\" >> \"${0%/*}/log\"; [ \"$1\" = ps ] && echo 'aaa bbb'; exit 0",
    )]);
    let engine = Engine {
        program: directory.path().join("docker"),
        user: User::Mapped,
        labels: Labels::Absent,
    };
    let container = Container { engine, image: "i".into(), ralph: "/r".into(), env };
    container.sweep(Path::new("/home/ann/project"), &Watch::detached());
    let log = fs::read_to_string(directory.path().join("log")).expect("a log");
    expect![[r"
        ps --all --quiet --filter label=ralph.project=1db79206093903b3
        rm --force --volumes aaa
        rm --force --volumes bbb
    "]]
    .assert_eq(&log);
}

#[test]
fn a_whole_call_goes_through_the_client_with_input_output_and_exit_code() {
    // It stands in for an engine: everything up to `__bridge DIRECTORY` is its own, the rest it runs.
    let (directory, env) = programs(&[(
        "docker",
        "while [ \"$1\" != __bridge ]; do shift; done; shift 2; exec \"$@\"",
    )]);
    let engine = Engine {
        program: directory.path().join("docker"),
        user: User::Mapped,
        labels: Labels::Absent,
    };
    let container = Container { engine, image: "i".into(), ralph: "/r".into(), env };
    let spawn = Spawn {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "/bin/cat; echo \"$MODEL_API_KEY\"; exit 7".into()],
        ..child()
    };
    let launched = container.launch(spawn, &example(), None, "ralph-r-1");
    let Captured { end, stdout, .. } = capture(&launched, &Watch::detached(), 1000);
    assert_eq!(end.ending, Ending::Exited { code: 7 });
    assert_eq!(stdout, b"promptsk-123\n");
}
