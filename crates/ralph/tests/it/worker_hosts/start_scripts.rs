//! The start scripts of the guide: over ssh for real, the others with stand-ins for the programs
//! that they call, which record the call or do what the service would do.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ralph_testkit::sealed::{Sealed, wait_until};
use serde_json::json;

use super::HostWorld;
use crate::repository;

fn scripts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/files/fleet"))
        .canonicalize()
        .expect("there")
}

/// A program that records its arguments and its input.
fn record_calls(sealed: &Sealed, name: &str) -> PathBuf {
    let log = sealed.root().join("calls");
    let text = format!(
        "#!/bin/sh\n{{ for word in {name} \"$@\"; do printf '[%s]' \"$word\"; done; echo; \
         [ -t 0 ] || cat; }} >> '{}'\n",
        log.display()
    );
    sealed.write_program(name, &text);
    log
}

#[test]
fn each_start_script_calls_its_service_with_the_job() {
    let job = "refs/ralph/jobs/20261114-231500-k3f9-T3-r1";
    let table: [(&str, &[&str], &str, &[&str]); 4] = [
        (
            "start-slurm",
            &["--time=6:00:00"],
            "sbatch",
            &["[--job-name=20261114-231500-k3f9-T3-r1]", "[--time=6:00:00]", "RALPH_JOB,"],
        ),
        (
            "start-kubernetes",
            &[],
            "kubectl",
            &["[create][-f][-]", job, "ssh://git@example.com/app.git", "name: \"ralph-"],
        ),
        ("start-kubernetes", &["cancel"], "kubectl", &["[delete][job][ralph-", "-a2][--ignore"]),
        (
            "start-github",
            &["--ref=main"],
            "gh",
            &["[workflow][run][ralph-worker.yml][--ref=main]", "[job=refs/ralph/jobs/"],
        ),
    ];
    for (script, options, program, expected) in table {
        let sealed = repository();
        let log = record_calls(&sealed, program);
        let mut command = sealed.build_command(scripts().join(script));
        let worker = job.rsplit('/').next().expect("a name");
        command.args(options).stdin(Stdio::null());
        command.envs([("RALPH_JOB", job), ("RALPH_WORKER", worker), ("RALPH_ATTEMPT", "a2")]);
        command.env("RALPH_REMOTE", "ssh://git@example.com/app.git");
        command.env("SOME_TOKEN", "not-for-others");
        let output = command.output().expect("started");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {errors}");
        let called = fs::read_to_string(&log).expect("a call");
        for part in expected {
            assert!(called.contains(part), "{script}: no {part} in {called}");
        }
        assert!(!called.contains("not-for-others"), "{called}");
        assert!(!called.contains("@NAME@") && !called.contains("@JOB@"), "{called}");
    }
}

/// A batch job gets the variables that `--export` names, and those of its machine.
const SBATCH: &str = r#"
for word; do
    case $word in --export=*) names=${word#--export=} ;; esac
    [ "${last-}" != --wrap ] || wrap=$word
    last=$word
done
set --
for name in $(echo "$names" | tr , ' '); do eval "set -- \"\$@\" \"$name=\$$name\""; done
env -i "$@" sh -c '. ROOT/machine; eval "$1"' - "$wrap" </dev/null >/dev/null 2>&1 &
echo 4711
"#;

/// A pod gets the variables of its machine, and its command is a line of the file.
const KUBECTL: &str = r#"
line=$(sed -n 's/.*command: \[\(.*\)\]/\1/p' | sed 's/", "/" "/g; s|/job/clone|ROOT/machines/clone|')
env -i sh -c '. ROOT/machine; eval "$1"' - "$line" </dev/null >/dev/null 2>&1 &
"#;

/// A run of the workflow does the last two steps in a checkout.
const GH: &str = r#"
for word; do job=${word#job=}; done
clone=$(mktemp -d ROOT/machines/XXXXXX)
git clone --quiet "$RALPH_REMOTE" "$clone" 2>/dev/null && cd "$clone"
prepare=$(sed -n '/- name: Prepare/,/- name: Do/p' SCRIPTS/worker.yml | sed '1,/run: |/d; /- name/d')
line=$(sed -n 's/^ *run: \(ralph worker.*\)/\1/p' SCRIPTS/worker.yml)
env -i JOB="$job" GITHUB_RUN_ID=7 sh -ec '. ROOT/machine; eval "$1"' - "$prepare
$line" </dev/null >/dev/null 2>&1 &
"#;

#[test]
fn a_run_with_the_script_for_slurm() {
    run_with_service("sbatch", SBATCH, "SCRIPTS/start-slurm --time=1:00:00");
}

#[test]
fn a_run_with_the_script_for_kubernetes() {
    run_with_service("kubectl", KUBECTL, "SCRIPTS/start-kubernetes");
}

#[test]
fn a_run_with_the_script_for_github_actions() {
    run_with_service("gh", GH, "SCRIPTS/start-github");
}

/// Runs two tasks with a script, whose program starts the worker on a machine with an environment
/// of its own.
fn run_with_service(program: &str, stand_in: &str, script: &str) {
    let world = HostWorld::new(&["a", "b"], json!({}));
    world.allow();
    let sealed = &world.sealed;
    let (root, scripts) = (sealed.root().to_string_lossy(), scripts());
    let fill =
        |text: &str| text.replace("ROOT", &root).replace("SCRIPTS", &scripts.to_string_lossy());
    sealed.write_program(program, &format!("#!/bin/sh\nset -eu\n{}", fill(stand_in)));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ralph"), sealed.bin_dir().join("ralph"))
        .expect("a link");
    let sealed_command = sealed.build_command("true");
    let variables = sealed_command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
        .filter(|(name, _)| *name != "XDG_STATE_HOME")
        .map(|(name, value)| format!("export {name}='{value}'\n"));
    let state = format!("export XDG_STATE_HOME='{root}/machines/state'\n");
    fs::write(sealed.root().join("machine"), variables.collect::<String>() + &state)
        .expect("written");
    let host = format!(
        "export RALPH_MACHINE_DIR='{root}/machines/clone'; \"$RALPH\" __workers --git --poll 300ms \
         --start '{}'",
        fill(script)
    );
    world.start_build(&host).wait_for_end().expect_code(0);
    for task in ["a", "b"] {
        assert_eq!(sealed.read_file(&format!("{task}.txt")).trim(), task);
    }
    assert_eq!(world.calls(), 2);
}

#[test]
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
fn start_scripts_are_clean_shell() {
    if Command::new("shellcheck").arg("--version").output().is_err() {
        return eprintln!("left out: shellcheck is not installed");
    }
    let entries = fs::read_dir(scripts()).expect("there").flatten().map(|entry| entry.path());
    let is_script = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("start-"))
    };
    let files: Vec<PathBuf> = entries.filter(is_script).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    let output = Command::new("shellcheck").args(&files).output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// An ssh server on loopback for the user of the test, with a key of its own.
struct SshServer {
    server: std::process::Child,
    options: String,
}

impl SshServer {
    /// Starts it. None where there is no server.
    fn start(sealed: &Sealed) -> Option<Self> {
        let program = ["/usr/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|it| fs::exists(it).unwrap_or(false))?;
        let directory = sealed.root().join("ssh");
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("a mode");
        let at = |name: &str| directory.join(name).to_string_lossy().into_owned();
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &at(name)])
                .status();
            assert!(made.expect("ssh-keygen").success());
        }
        fs::copy(at("user.pub"), at("authorized")).expect("copied");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        // The session has the environment of its machine, and not that of the run.
        let sealed_command = sealed.build_command("true");
        let variables = sealed_command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .filter(|(name, _)| *name != "XDG_STATE_HOME");
        let variables: Vec<String> =
            variables.map(|(name, value)| format!("\"{name}={value}\"")).collect();
        let variables = variables.join(" ");
        let state = sealed.root().join("machines/ssh/state");
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             SetEnv \"XDG_STATE_HOME={}\" {variables}\n",
            at("host"),
            at("authorized"),
            state.display()
        );
        fs::write(at("config"), config).expect("written");
        // It separates privileges in a directory that only a service creates.
        let _ = fs::create_dir_all("/run/sshd");
        let server = Command::new(program)
            .args(["-D", "-e", "-f", &at("config")])
            .stdin(Stdio::null())
            .stderr(fs::File::create(at("log")).expect("a file"))
            .spawn()
            .expect("started");
        let options = format!(
            "-p {port} -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -F none",
            at("user")
        );
        let mut server = Self { server, options };
        wait_until("the ssh server answers", || {
            assert!(
                server.server.try_wait().expect("known").is_none(),
                "{}",
                fs::read_to_string(at("log")).unwrap_or_default()
            );
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(server)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
fn a_run_over_ssh_with_the_script_of_the_guide() {
    let world = HostWorld::new(&["a", "b"], json!({}));
    let Some(server) = SshServer::start(&world.sealed) else {
        return eprintln!("left out: there is no sshd (openssh-server)");
    };
    world.allow();
    let clone = world.machines().join("ssh/clone");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ralph"), world.sealed.bin_dir().join("ralph"))
        .expect("a link");
    let host = format!(
        "RALPH_MACHINE_DIR='{}' RALPH_SSH_OPTIONS='{}' \"$RALPH\" __workers --git --attached \
         --poll 300ms --start '{} 127.0.0.1'",
        clone.display(),
        server.options,
        scripts().join("start-ssh").display()
    );
    let run = world.start_build(&host);
    let ended = run.wait_for_end();
    let logs = world.sealed.run_ralph(&["log"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, logs.stdout);
    for task in ["a", "b"] {
        assert_eq!(world.sealed.read_file(&format!("{task}.txt")).trim(), task);
    }
    let places = world.sealed.find_events("worker_started");
    assert!(
        places
            .iter()
            .all(|it| it["place"].as_str().is_some_and(|it| it.starts_with("127.0.0.1/s")))
    );
    assert_eq!(world.calls(), 2);
}
