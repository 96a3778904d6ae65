//! Command lines of Docker Sandboxes, and whole calls through a stand-in for it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::expect;
use ralph_core::sandbox::NetworkPolicy;

use super::*;
use crate::sandbox::boundary::{child, example, shown};

fn reach() -> Reach {
    let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
    let policy = NetworkPolicy {
        mode: NetworkMode::Proxy,
        allow: list(&["*.example.com", "git.example.org:22", "localhost:8080"]),
        deny: list(&["bad.example.com"]),
        allow_private: Vec::new(),
    };
    Reach::read(&policy, &["api.model.example"]).expect("rules")
}

fn tool(form: Form) -> Tool {
    let program = match form {
        Form::Sbx => "/usr/bin/sbx",
        Form::DockerSandbox => "/usr/bin/docker",
    };
    Tool { program: program.into(), form }
}

#[test]
fn both_forms_say_the_same() {
    for (form, expect) in [
        (
            Form::Sbx,
            expect![[r"
                ls --json
                create --name ralph-my-project-893a1ae4 --memory 8192m --no-share-skills -e RALPH_SANDBOX=sbx claude /home/ann/my project /home/ann/.local/state/ralph/run/mcp.json:ro /home/ann/.local/state/ralph/agent/claude
                policy allow network --sandbox ralph-my-project-893a1ae4 *.example.com:443,git.example.org:22,api.model.example:443
                policy deny network --sandbox ralph-my-project-893a1ae4 bad.example.com
                policy check network --sandbox ralph-my-project-893a1ae4 ralph-canary.invalid:443
                stop ralph-my-project-893a1ae4
                rm --force ralph-my-project-893a1ae4
                /usr/bin/sbx exec
                -i
                -w /home/ann/my project/web
                -e LANG=C.UTF-8 ralph-my-project-893a1ae4 claude
                -p two words
                in / with PATH SBX_NO_TELEMETRY
            "]],
        ),
        (
            Form::DockerSandbox,
            expect![[r"
                sandbox ls
                sandbox create --name ralph-my-project-893a1ae4 claude /home/ann/my project /home/ann/.local/state/ralph/run/mcp.json:ro /home/ann/.local/state/ralph/agent/claude
                sandbox network proxy ralph-my-project-893a1ae4 --policy deny --allow-host *.example.com --allow-host git.example.org:22 --allow-host api.model.example --block-host bad.example.com
                sandbox stop ralph-my-project-893a1ae4
                sandbox rm ralph-my-project-893a1ae4
                /usr/bin/docker sandbox exec
                -i
                -w /home/ann/my project/web
                -e LANG=C.UTF-8 ralph-my-project-893a1ae4 claude
                -p two words
                in / with PATH SBX_NO_TELEMETRY
            "]],
        ),
    ] {
        let vm = Vm::new(tool(form), "claude", &example(), &[("PATH".into(), "/usr/bin".into())]);
        let reach = reach();
        let mut commands = vec![vm.list(), vm.creation()];
        commands.extend(vm.rules(&reach.allowed(), &reach.denied()));
        commands.extend(vm.check(CANARY));
        commands.extend([vm.stop(), vm.removal()]);
        let mut said: String = commands.iter().map(|it| it.join(" ") + "\n").collect();
        said.push_str(&shown(&vm.launch(child())));
        expect.assert_eq(&said);
        assert!(!said.contains("sk-123"), "{said}");
    }
}

#[test]
fn names_have_only_what_sbx_takes() {
    let name = |project: &str| {
        let boundary = Boundary { project: project.into(), places: Vec::new(), ..example() };
        Vm::new(tool(Form::Sbx), "claude", &boundary, &[]).name
    };
    for (project, expect) in [
        ("/a/My_Project (2)", "ralph-my-project-2-"),
        ("/a/__", "ralph-project-"),
        ("/", "ralph-project-"),
        ("/a/\u{fc}ber-uns", "ralph-ber-uns-"),
        (
            "/a/an-extremely-long-name-of-a-project-that-goes-on",
            "ralph-an-extremely-long-name-of-a-pr-",
        ),
    ] {
        let name = name(project);
        let (slug, hash) = name.split_at(name.len() - 8);
        assert_eq!(slug, expect, "{project}");
        assert!(hash.bytes().all(|it| it.is_ascii_hexdigit()), "{name}");
    }
    assert_ne!(name("/a/x"), name("/b/x"));
    let without = Boundary { places: Vec::new(), ..example() };
    let other =
        |boundary: &Boundary, template| Vm::new(tool(Form::Sbx), template, boundary, &[]).name;
    assert_ne!(other(&example(), "claude"), other(&without, "claude"));
    assert_ne!(other(&example(), "claude"), other(&example(), "codex"));
}

/// A directory with stand-ins on a `PATH` of its own. They log what they are asked.
struct Standin {
    directory: tempfile::TempDir,
}

impl Standin {
    fn new(scripts: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, script) in scripts {
            let path = directory.path().join(name);
            let text = format!("#!/bin/sh\necho \"{name} $*\" >> \"${{0%/*}}/log\"\n{script}\n");
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        Self { directory }
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), self.directory.path().into())]
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
"policy check") echo 'Denied: no rule matches'; exit 1 ;;
"exec -i") while [ "$1" != /bin/sh ]; do shift; done; exec "$@" ;;
esac
"#;

#[test]
fn what_is_there_is_found_and_what_is_wrong_is_said() {
    let found = |scripts: &[(&str, &str)]| {
        let standin = Standin::new(scripts);
        match Tool::find(&standin.env(), &Watch::detached()) {
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
        (vec![("sbx", "echo starting the daemon..."), docker], "the daemon of sbx does not answer"),
        (
            vec![("sbx", "[ \"$1\" = version ] || { echo not signed in >&2; exit 1; }")],
            "sbx does not work: not signed in",
        ),
        (vec![("sbx", "exec /bin/sleep 600")], "sbx does not work: it does not answer"),
    ] {
        assert_eq!(found(&scripts), expect, "{scripts:?}");
    }
}

#[test]
fn a_run_makes_a_vm_once_and_calls_go_through_it() {
    let standin = Standin::new(&[("sbx", GOOD)]);
    let watch = Watch::detached();
    let tool = Tool::find(&standin.env(), &watch).expect("it is there");
    let vm = Vm::new(tool, "claude", &example(), &standin.env());
    vm.prepare(NetworkMode::Proxy, &reach(), &watch).expect("prepared");
    vm.prepare(NetworkMode::None, &reach(), &watch).expect("prepared again");
    let spawn = Spawn {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "/bin/cat; exit 7".into()],
        ..child()
    };
    let Captured { end, stdout, .. } = capture(&vm.launch(spawn), &watch, 1000);
    assert_eq!((end.ending, stdout.as_slice()), (Ending::Exited { code: 7 }, b"prompt".as_slice()));
    vm.close(Afterwards::Remove, &watch);
    expect![[r"
        sbx version
        sbx ls --json
        sbx ls --json
        sbx create --name NAME --memory 8192m --no-share-skills -e RALPH_SANDBOX=sbx claude /home/ann/my project /home/ann/.local/state/ralph/run/mcp.json:ro /home/ann/.local/state/ralph/agent/claude
        sbx policy allow network --sandbox NAME *.example.com:443,git.example.org:22,api.model.example:443
        sbx policy deny network --sandbox NAME bad.example.com
        sbx policy check network --sandbox NAME ralph-canary.invalid:443
        sbx ls --json
        sbx policy check network --sandbox NAME ralph-canary.invalid:443
        sbx exec -i -w /home/ann/my project/web -e LANG=C.UTF-8 NAME /bin/sh -c /bin/cat; exit 7
        sbx stop NAME
        sbx rm --force NAME
    "]].assert_eq(&standin.log().replace(vm.name(), "NAME"));
}

#[test]
fn a_vm_that_cannot_be_made_or_that_is_open_is_not_used() {
    let check = |script: &str, network| {
        let standin = Standin::new(&[("sbx", script)]);
        let tool = Tool { program: standin.directory.path().join("sbx"), form: Form::Sbx };
        let vm = Vm::new(tool, "claude", &example(), &standin.env());
        let trouble = vm.prepare(network, &reach(), &Watch::detached()).expect_err("trouble");
        trouble.to_string().replace(vm.name(), "NAME")
    };
    let open = GOOD.replace("Denied: no rule matches", "Allowed by default policy");
    let silent = GOOD.replace("echo 'Denied: no rule matches'; exit 1", "exit 1");
    let broken = GOOD.replace("echo \"$3\" > \"${0%/*}/made\"", "echo no KVM >&2; exit 1");
    for (script, network, expect) in [
        (
            open.as_str(),
            NetworkMode::Proxy,
            "the sandbox `NAME` lets connections to any host through: Allowed by default policy",
        ),
        (&silent, NetworkMode::Proxy, "the sandbox `NAME` lets connections to any host through: "),
        (&broken, NetworkMode::Proxy, "`sbx create` failed: no KVM"),
        (GOOD, NetworkMode::Host, "`sandbox.network.mode` \"host\" is not possible with sbx"),
    ] {
        assert_eq!(check(script, network), expect);
    }
}
