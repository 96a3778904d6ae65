//! Gates with real shells.

use std::fs;

use ralph_model::child::SoftLimit;
use ralph_model::gate::{EmptyRun, GateKind};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::units::Millis;

use super::*;

fn gate(name: &str, command: &str) -> Gate {
    Gate { name: name.into(), ..Gate::for_command(GateKind::Test, command) }
}

struct Project {
    directory: tempfile::TempDir,
    layout: ProjectLayout,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("state");
        let layout =
            ProjectLayout::for_project(directory.path(), directory.path(), &root).expect("located");
        Self { directory, layout }
    }

    fn gates(&self, gates: &[Gate]) -> CommandGates {
        let env = vec![
            ("PATH".into(), std::env::var_os("PATH").expect("set")),
            ("GREETING".into(), "hello".into()),
        ];
        CommandGates::new(self.layout.clone(), env, Watch::new_detached(), gates)
    }

    fn check(&self, gate: &Gate) -> GateResult {
        run(&mut self.gates(std::slice::from_ref(gate)), gate)
    }

    fn log(&self, result: &GateResult) -> Vec<u8> {
        let log = result.log.as_ref().expect("a log");
        fs::read(self.directory.path().join(log)).expect("written")
    }
}

fn run(gates: &mut CommandGates, gate: &Gate) -> GateResult {
    let order = GateOrder {
        run: &RunId("run".into()),
        iteration: IterationNumber(4),
        gate,
        command: gate.check.label(),
        severity: gate.severity,
        output_chars: 40,
    };
    gates.run_gate(&order, &mut |_| {})
}

#[test]
fn a_gate_reports_how_it_went() {
    let project = Project::new();
    for (command, status, code, output) in [
        ("true", GateStatus::Passed, 0, ""),
        ("echo fine", GateStatus::Passed, 0, "fine"),
        ("echo no; exit 3", GateStatus::Failed, 3, "no"),
        ("echo one; echo two >&2; echo three", GateStatus::Passed, 0, "one\ntwo\nthree"),
        ("echo $GREETING $HOME", GateStatus::Passed, 0, "hello"),
        ("pwd | grep -c state", GateStatus::Failed, 1, "0"),
        ("cat", GateStatus::Passed, 0, ""),
        ("printf '\\033[31mred\\033[0m\\a'", GateStatus::Passed, 0, "red"),
        ("kill -KILL $$", GateStatus::Failed, 137, "[ralph] killed by signal 9"),
        ("'", GateStatus::Failed, 2, "sh: "),
        ("printf %050d 0", GateStatus::Passed, 0, "000000"),
    ] {
        let result = project.check(&gate("test", command));
        assert_eq!((result.status, result.exit_code()), (status, code), "{command}");
        assert!(result.output.contains(output), "{command}: {}", result.output);
    }
}

#[test]
fn the_log_has_everything_and_the_excerpt_is_plain_and_bounded() {
    let project = Project::new();
    let result = project.check(&gate("test", "printf '\\033[31m'; printf %0100d 7; exit 1"));
    assert_eq!(
        result.log.as_deref(),
        Some(".ralph/guardrail_4_printf_033_31m_printf_0100d_7_exit_1.log")
    );
    assert_eq!(project.log(&result), format!("\u{1b}[31m{:0100}", 7).as_bytes());
    assert_eq!(result.output, format!("{}\n... [truncated]\n{:032}", "0".repeat(8), 7));
}

#[test]
fn gates_with_the_same_slug_have_logs_of_their_own() {
    let project = Project::new();
    let list = [gate("a", "echo a"), gate("b", "echo  a"), gate("c", "(echo a)")];
    let mut gates = project.gates(&list);
    let logs: Vec<String> =
        list.iter().rev().map(|gate| run(&mut gates, gate).log.expect("a log")).collect();
    assert_eq!(
        logs,
        [
            ".ralph/guardrail_4_echo_a_3.log",
            ".ralph/guardrail_4_echo_a_2.log",
            ".ralph/guardrail_4_echo_a.log"
        ]
    );
}

#[test]
fn a_gate_past_its_limit_is_ended_and_reports_so() {
    let project = Project::new();
    let mut slow = gate("slow", "echo begun; sleep 600 & wait");
    slow.soft_limit = Millis(100);
    slow.hard_limit = Millis(400);
    let result = project.check(&slow);
    assert_eq!(result.exit_code(), 124);
    assert_eq!(result.end.as_ref().map(|end| end.soft_limit), Some(SoftLimit::Passed));
    assert_eq!(result.output, "begun\n[ralph] timed out after 0.4s");
    assert_eq!(project.log(&result), b"begun\n\n[ralph] timed out after 0.4s\n");
}

#[test]
fn a_test_gate_that_ran_no_test_has_failed() {
    let project = Project::new();
    let empty = gate("test", "echo; echo running 0 tests");
    let result = project.check(&empty);
    assert_eq!((result.status, result.exit_code()), (GateStatus::Failed, 0));
    assert_eq!(result.reason.as_deref(), Some("no test ran: `running 0 tests`"));
    assert_eq!(result.output, "\nrunning 0 tests");
    assert!(result.hash.is_some());
    let log = String::from_utf8(project.log(&result)).expect("text");
    assert!(log.ends_with("\n[ralph] no test ran: `running 0 tests`\n"), "{log}");
    for other in [
        Gate { empty: EmptyRun::Allowed, ..empty.clone() },
        Gate { kind: GateKind::Lint, ..empty.clone() },
        gate("test", "echo running 0 tests; echo 'test result: ok. 1 passed; 0 failed'"),
    ] {
        let result = project.check(&other);
        assert_eq!((result.status, result.reason), (GateStatus::Passed, None), "{other:?}");
    }
    let broken = project.check(&gate("test", "echo running 0 tests; exit 2"));
    assert_eq!((broken.status, broken.reason), (GateStatus::Failed, None));
}

#[test]
fn a_failure_is_known_again_and_names_its_checks() {
    let project = Project::new();
    let failing = |script: &str| {
        let command =
            format!("echo \"pid $$ in $(mktemp -d) at $(date +%T.%N)\"; {script}; exit 1");
        let result = project.check(&gate("test", &command));
        (result.hash.expect("it failed"), result.failing)
    };
    let one = failing("echo 'not ok 1 - adds'");
    assert_eq!(one, failing("echo 'not ok 1 - adds'"));
    assert_eq!(one.1, ["adds"]);
    // What is beyond the part for the prompt counts as well, and so do both streams.
    let long = "printf '%0500d\\n' 0";
    assert_ne!(
        failing(&format!("{long}; echo a >&2")).0,
        failing(&format!("{long}; echo b >&2")).0
    );
    assert_ne!(failing("kill -9 $$").0, failing("true").0);
    let passed = project.check(&gate("test", "echo 'not ok 1 - adds # TODO'"));
    assert_eq!((passed.hash, passed.failing), (None, Vec::new()));
}

#[test]
fn a_log_that_cannot_be_written_does_not_fail_the_gate() {
    let project = Project::new();
    fs::write(project.directory.path().join(".ralph"), "in the way").expect("written");
    let result = project.check(&gate("test", "echo fine"));
    assert_eq!((result.status, result.log), (GateStatus::Passed, None));
    let expect = "fine\n[ralph] the log could not be written: `";
    assert!(result.output.starts_with(expect), "{}", result.output);
}

#[test]
fn a_link_in_the_place_of_the_log_is_not_followed() {
    let project = Project::new();
    project.layout.prepare_project().expect("prepared");
    let target = project.directory.path().join("precious");
    fs::write(&target, "precious").expect("written");
    let log = project.directory.path().join(".ralph/guardrail_4_echo_fine.log");
    std::os::unix::fs::symlink(&target, log).expect("a link");
    let result = project.check(&gate("test", "echo fine"));
    assert_eq!(project.log(&result), b"fine\n");
    assert_eq!(fs::read(&target).expect("kept"), b"precious");
}

#[test]
fn a_log_does_not_grow_without_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let mut log = GateLog::create(&path, 10).expect("created");
    for _ in 0..3 {
        log.write(b"abcd").expect("written");
    }
    log.add_note(None).expect("written");
    let text = fs::read_to_string(&path).expect("readable");
    assert_eq!(text, "abcdabcdab\n[ralph] 2 more bytes were not kept\n");
}
