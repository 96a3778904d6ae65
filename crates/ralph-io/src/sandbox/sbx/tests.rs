//! Command lines of Docker Sandboxes, and complete calls with a fake `sbx`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use ralph_model::sandbox::NetworkPolicy;

use super::*;
use crate::sandbox::boundary::{build_example_boundary, build_example_spawn, format_spawn};

fn reach() -> NetworkAllowlist {
    let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
    let policy = NetworkPolicy {
        mode: NetworkMode::Proxy,
        allow: list(&["*.example.com", "git.example.org:22", "localhost:8080"]),
        deny: list(&["bad.example.com"]),
        allow_private: Vec::new(),
        packages: None,
    };
    NetworkAllowlist::from_policy(&policy, &["api.model.example"]).expect("rules")
}

fn tool(form: SbxForm) -> SbxTool {
    let program = match form {
        SbxForm::Sbx => "/usr/bin/sbx",
        SbxForm::DockerSandbox => "/usr/bin/docker",
    };
    SbxTool { program: program.into(), form }
}

/// The VM of the example, whose paths do not exist, so that it shares nothing.
fn vm(tool: SbxTool, env: &[(OsString, OsString)]) -> Vm {
    let Boundary { project, bounds, .. } = build_example_boundary();
    let vm = Vm::new(tool, "claude", &project, bounds, env)
        .with_shared_directories(&[build_example_boundary()]);
    let mut vm = vm.with_network_rules(NetworkMode::Proxy, &reach()).expect("rules");
    vm.extras =
        vec![("/state/in".into(), ShareAccess::Read), ("/state/out".into(), ShareAccess::Write)];
    vm.name = vm.build_name();
    vm
}

#[test]
fn both_forms_have_equivalent_commands() {
    for (form, expect) in [
        (
            SbxForm::Sbx,
            expect![[r#"
                ls --json
                create --name ralph-my-project-fe23732d --memory 8192m --no-share-skills -e RALPH_SANDBOX=sbx claude /home/ann/my project /state/in:ro /state/out
                policy allow network --sandbox ralph-my-project-fe23732d *.example.com:443,git.example.org:22,api.model.example:443
                policy deny network --sandbox ralph-my-project-fe23732d bad.example.com
                exec ralph-my-project-fe23732d cat /state/run/canary
                exec ralph-my-project-fe23732d sh -c command -v "$0" claude
                policy check network --sandbox ralph-my-project-fe23732d ralph-canary.invalid:443
                stop ralph-my-project-fe23732d
                rm --force ralph-my-project-fe23732d
                /usr/bin/sbx exec
                -i
                -w /home/ann/my project/web
                -e LANG=C.UTF-8 ralph-my-project-fe23732d claude
                -p two words
                in / with PATH SBX_NO_TELEMETRY
            "#]],
        ),
        (
            SbxForm::DockerSandbox,
            expect![[r#"
                sandbox ls
                sandbox create --name ralph-my-project-fe23732d claude /home/ann/my project /state/in:ro /state/out
                sandbox network proxy ralph-my-project-fe23732d --policy deny --allow-host *.example.com --allow-host git.example.org:22 --allow-host api.model.example --block-host bad.example.com
                sandbox exec ralph-my-project-fe23732d cat /state/run/canary
                sandbox exec ralph-my-project-fe23732d sh -c command -v "$0" claude
                sandbox stop ralph-my-project-fe23732d
                sandbox rm ralph-my-project-fe23732d
                /usr/bin/docker sandbox exec
                -i
                -w /home/ann/my project/web
                -e LANG=C.UTF-8 ralph-my-project-fe23732d claude
                -p two words
                in / with PATH SBX_NO_TELEMETRY
            "#]],
        ),
    ] {
        let vm = vm(tool(form), &[("PATH".into(), "/usr/bin".into())]);
        let mut commands = vec![vm.build_list_command(), vm.build_create_command()];
        commands.extend(vm.build_rule_commands(&vm.rules.allowed, &vm.rules.denied));
        commands.push(vm.build_read_command(Path::new("/state/run/canary")));
        commands.push(vm.build_find_command("claude"));
        commands.extend(vm.build_check_command(DENIED_HOST));
        commands.extend([vm.build_stop_command(), vm.build_remove_command()]);
        let mut listing: String = commands.iter().map(|it| it.join(" ") + "\n").collect();
        listing.push_str(&format_spawn(&vm.wrap_spawn(build_example_spawn())));
        expect.assert_eq(&listing);
        assert!(!listing.contains("sk-123"), "{listing}");
    }
}

#[test]
fn names_have_only_characters_that_sbx_accepts() {
    let bounds = build_example_boundary().bounds;
    let vm = |project: &str, template: &str| {
        Vm::new(tool(SbxForm::Sbx), template, Path::new(project), bounds, &[])
    };
    for (project, expect) in [
        ("/a/My_Project (2)", "ralph-my-project-2-"),
        ("/a/__", "ralph-project-"),
        ("/", "ralph-project-"),
        ("/a/\u{fc}ber-uns", "ralph-ber-uns-"),
        (
            "/a/an-extremely-long-name-of-a-project-that-does-not-end",
            "ralph-an-extremely-long-name-of-a-pr-",
        ),
    ] {
        let name = vm(project, "claude").name;
        let (slug, hash) = name.split_at(name.len() - 8);
        assert_eq!(slug, expect, "{project}");
        assert!(hash.bytes().all(|it| it.is_ascii_hexdigit()), "{name}");
    }
    assert_ne!(vm("/a/x", "claude").name, vm("/b/x", "claude").name);
    assert_ne!(vm("/a/x", "claude").name, vm("/a/x", "codex").name);
    let shared = tempfile::tempdir().expect("a directory");
    let places = vec![BoundaryEntry::ReadOnly(shared.path().to_owned())];
    let sharing = vm("/a/x", "claude")
        .with_shared_directories(&[Boundary { places, ..build_example_boundary() }]);
    assert_ne!(vm("/a/x", "claude").name, sharing.name);
}

#[test]
fn a_directory_writable_for_one_process_is_writable_and_files_are_not_shared() {
    let shared = tempfile::tempdir().expect("a directory");
    let at = |name: &str| shared.path().join(name);
    for name in ["history", "tools"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    fs::write(at("file"), "x").expect("written");
    let boundary = |places| Boundary { places, ..build_example_boundary() };
    let vm = Vm::new(
        tool(SbxForm::Sbx),
        "claude",
        Path::new("/p"),
        build_example_boundary().bounds,
        &[],
    )
    .with_shared_directories(&[
        boundary(vec![BoundaryEntry::ReadOnly(at("history")), BoundaryEntry::ReadOnly(at("file"))]),
        boundary(vec![
            BoundaryEntry::Writable(at("history")),
            BoundaryEntry::ReadOnly(at("tools")),
        ]),
    ]);
    assert_eq!(vm.extras, [(at("history"), ShareAccess::Write), (at("tools"), ShareAccess::Read)]);
}

/// A directory with fake programs on a `PATH` of its own. They log their arguments.
struct FakePrograms {
    directory: tempfile::TempDir,
}

impl FakePrograms {
    fn new(scripts: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, script) in scripts {
            let path = directory.path().join(name);
            let text = format!("#!/bin/sh\necho \"{name} $*\" >> \"${{0%/*}}/log\"\n{script}\n");
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        // The deprecated form is a plugin of docker.
        fs::create_dir_all(directory.path().join(".docker/cli-plugins")).expect("a directory");
        fs::write(directory.path().join(".docker/cli-plugins/docker-sandbox"), "")
            .expect("written");
        Self { directory }
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let directory = self.directory.path();
        vec![("PATH".into(), directory.into()), ("HOME".into(), directory.into())]
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

const GOOD: &str = r#"
case "$1 $2" in
"version "*) echo 0.43.0 ;;
"ls --json") [ -e "${0%/*}/made" ] && echo '{"sandboxes":[{"name":"other"},{"name":"'"$(/bin/cat "${0%/*}/made")"'"}]}' || echo '[]' ;;
"create --name") echo "$3" > "${0%/*}/made" ;;
"exec ralph"*) exit 1 ;;
"policy check") echo 'Denied: no rule matches'; exit 1 ;;
"exec -i") while [ "$1" != /bin/sh ]; do shift; done; exec "$@" ;;
esac
"#;

#[test]
fn installed_tools_are_found_and_problems_are_reported() {
    let found = |scripts: &[(&str, &str)]| {
        let fake = FakePrograms::new(scripts);
        match SbxTool::find(Path::new("/p"), &fake.env(), &Watch::new_detached()) {
            Ok(tool) => format!("{:?}", tool.form),
            Err(error) => error.to_string(),
        }
    };
    let docker = ("docker", "[ \"$1\" = sandbox ]");
    for (scripts, expect) in [
        (vec![("sbx", GOOD)], "Sbx"),
        (vec![("sbx", GOOD), docker], "Sbx"),
        (vec![docker], "DockerSandbox"),
        (vec![], "sbx is not installed"),
        (vec![("docker", "echo unknown command >&2; exit 1")], "sbx is not installed"),
        (vec![("sbx", "echo starting the daemon..."), docker], "the sbx daemon does not answer"),
        (
            vec![("sbx", "[ \"$1\" = version ] || { echo not signed in >&2; exit 1; }")],
            "sbx does not work: not signed in",
        ),
        (vec![("sbx", "exec /bin/sleep 600")], "sbx does not work: it does not answer within 3 s"),
    ] {
        assert_eq!(found(&scripts), expect, "{scripts:?}");
    }
}

#[test]
fn a_run_creates_a_vm_once_and_runs_calls_in_it() {
    let fake = FakePrograms::new(&[("sbx", GOOD)]);
    let watch = Watch::new_detached();
    let tool = SbxTool::find(Path::new("/p"), &fake.env(), &watch).expect("it is there");
    let vm = vm(tool, &fake.env());
    let canary = Path::new("/state/run/canary");
    vm.prepare(canary, &watch).expect("prepared");
    vm.prepare(canary, &watch).expect("prepared again");
    let spawn = Spawn {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "/bin/cat; exit 7".into()],
        ..build_example_spawn()
    };
    let Captured { end, stdout, .. } = capture_output(&vm.wrap_spawn(spawn), &watch, 1000);
    assert_eq!((end.ending, stdout.as_slice()), (Ending::Exited { code: 7 }, b"prompt".as_slice()));
    vm.shut_down(VmShutdown::Remove, &watch);
    expect![[r"
        sbx version
        sbx ls --json
        sbx ls --json
        sbx create --name NAME --memory 8192m --no-share-skills -e RALPH_SANDBOX=sbx claude /home/ann/my project /state/in:ro /state/out
        sbx policy allow network --sandbox NAME *.example.com:443,git.example.org:22,api.model.example:443
        sbx policy deny network --sandbox NAME bad.example.com
        sbx exec NAME cat /state/run/canary
        sbx policy check network --sandbox NAME ralph-canary.invalid:443
        sbx ls --json
        sbx policy allow network --sandbox NAME *.example.com:443,git.example.org:22,api.model.example:443
        sbx policy deny network --sandbox NAME bad.example.com
        sbx exec NAME cat /state/run/canary
        sbx policy check network --sandbox NAME ralph-canary.invalid:443
        sbx exec -i -w /home/ann/my project/web -e LANG=C.UTF-8 NAME /bin/sh -c /bin/cat; exit 7
        sbx stop NAME
        sbx rm --force NAME
    "]].assert_eq(&fake.log().replace(vm.name(), "NAME"));
}

#[test]
fn a_vm_that_fails_or_is_not_isolated_is_not_used() {
    let check = |script: &str| {
        let fake = FakePrograms::new(&[("sbx", script)]);
        let tool = SbxTool { program: fake.directory.path().join("sbx"), form: SbxForm::Sbx };
        let vm = vm(tool, &fake.env());
        let canary = Path::new("/state/run/canary");
        let error = vm.prepare(canary, &Watch::new_detached()).expect_err("it is not usable");
        error.to_string().replace(vm.name(), "NAME")
    };
    let open = GOOD.replace("Denied: no rule matches", "Allowed by default policy");
    let silent = GOOD.replace("echo 'Denied: no rule matches'; exit 1", "exit 1");
    let broken = GOOD.replace("echo \"$3\" > \"${0%/*}/made\"", "echo no KVM >&2; exit 1");
    let leaky = GOOD.replace("\"exec ralph\"*) exit 1", "\"exec ralph\"*) exit 0");
    for (script, expect) in [
        (
            open.as_str(),
            "the sandbox `NAME` lets connections to any host through: Allowed by default policy",
        ),
        (&silent, "the sandbox `NAME` lets connections to any host through: "),
        (&broken, "`sbx create` failed: no KVM"),
        (&leaky, "the sandbox `NAME` can read `/state/run/canary`"),
    ] {
        assert_eq!(check(script), expect);
    }
    let vm = Vm::new(
        tool(SbxForm::Sbx),
        "claude",
        Path::new("/p"),
        build_example_boundary().bounds,
        &[],
    );
    let error = vm.with_network_rules(NetworkMode::Host, &reach()).expect_err("impossible");
    assert_eq!(error.to_string(), "`sandbox.network.mode` \"host\" is not possible with sbx");
}
