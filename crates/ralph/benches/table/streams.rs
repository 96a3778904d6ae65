//! Agent output: translating it, reading it through a pipe, and the memory that a flood needs.

use std::fs;
use std::hint::black_box;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use ralph_model::agent::AgentKind;
use ralph_testkit::measure::{measure_alternating, time_command};
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::row::{Bar, Figure, Row};
use crate::{RALPH, listening, samples, typed};

const MEGABYTES: usize = 50;

/// Each agent's stream, against `serde_json`, and through a pipe.
pub(crate) fn stream(report: &mut dyn FnMut(Row)) {
    for name in samples::NAMES {
        let sample = samples::load_sample(name);
        let (rounds, baseline) = (listening::rounds(&sample, MEGABYTES), sample.as_json());
        let mut ours = || {
            black_box(listening::listen(&sample, rounds, |_| {}));
        };
        let mut typed = || (0..rounds).for_each(|_| typed::read(sample.kind, &baseline));
        let [ours, typed] = measure_alternating(7, [&mut ours, &mut typed])
            .map(|times| Figure::Time(times.median()));
        let (what, compared_with, bars) = match name {
            "text" => ("lines of text", "`serde_json`, the lines as strings", vec![]),
            name => (name, "`serde_json`, typed values", vec![Bar::Times(1.0)]),
        };
        let what = format!("translating {MEGABYTES} MB of {what}");
        report(Row::compared(what, ours, (typed, compared_with), bars));
    }
    for (kind, name) in OTHERS {
        recorded(kind, name, report);
    }
    pipe(report);
}

/// The agents of which there are recorded streams only, which are short.
const OTHERS: [(AgentKind, &str); 7] = [
    (AgentKind::Amp, "amp"),
    (AgentKind::Cline, "cline"),
    (AgentKind::Copilot, "copilot"),
    (AgentKind::Gemini, "gemini"),
    (AgentKind::Opencode, "opencode"),
    (AgentKind::Pi, "pi"),
    (AgentKind::Qwen, "qwen"),
];

/// What was recorded of an agent, over and over, against values of any shape.
fn recorded(kind: AgentKind, name: &'static str, report: &mut dyn FnMut(Row)) {
    const MEGABYTES: usize = 10;
    let sample = samples::Sample { name, kind, unit: samples::all_recorded(name) };
    let rounds = listening::rounds(&sample, MEGABYTES);
    let mut ours = || {
        black_box(listening::listen(&sample, rounds, |_| {}));
    };
    let mut values = || (0..rounds).for_each(|_| typed::read(sample.kind, &sample.unit));
    let [ours, values] =
        measure_alternating(5, [&mut ours, &mut values]).map(|times| Figure::Time(times.median()));
    let what = format!("translating {MEGABYTES} MB of {}", sample.name);
    report(Row::compared(what, ours, (values, "`serde_json`, values of any shape"), []));
}

/// Prints a stream as an agent does: each line is serialized just before it is printed.
pub(crate) fn print(megabytes: usize) {
    let sample = samples::load_sample("claude");
    let text = String::from_utf8_lossy(&sample.unit);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let mut out = std::io::stdout().lock();
    let mut print = |lines: &[Value]| {
        lines.iter().all(|line| out.write_all(format!("{line}\n").as_bytes()).is_ok())
    };
    let rounds = listening::rounds(&sample, megabytes);
    // The stream ends with a result, so that ralph does not ask again.
    let end = lines.iter().rposition(|line| line["type"] == "result").expect("a result");
    let _ = (0..rounds).all(|_| print(&lines)) && print(&lines[..=end]);
}

/// A whole call to an agent that prints as fast as it can, compared with `cat` at the end of the same pipe.
fn pipe(report: &mut dyn FnMut(Row)) {
    use std::os::unix::fs::PermissionsExt as _;
    let sealed = Sealed::new(RALPH);
    let own = std::env::current_exe().expect("this program");
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo '2.1.325 (Claude Code)';; *) exec {} print-stream {MEGABYTES};; esac\n",
        own.display()
    );
    let agent = sealed.bin_dir().join("claude");
    fs::write(&agent, script).expect("written");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let settings =
        json!({ "agent": { "command": agent, "kind": "claude" }, "preventSleep": false });
    sealed.write_file(".ralph/settings.json", &settings.to_string());
    sealed.trust_project(&[]);
    let mut run_ralph = || {
        let mut command = sealed.build_command(RALPH);
        command.args(["run", "-m", "1", "-p", "work"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("it runs");
        let asked = sealed.find_events("asked").len();
        assert_eq!(asked, 1, "the agent is asked once");
    };
    let mut cat = || {
        let line = format!("{} print-stream {MEGABYTES} | cat >/dev/null", own.display());
        time_command(sealed.build_command("sh").args(["-c", &line]));
    };
    let [ours, cat] = measure_alternating(5, [&mut run_ralph, &mut cat])
        .map(|times| Figure::Time(times.median()));
    let what = format!("a whole run whose agent prints {MEGABYTES} MB of stream as fast as it can");
    report(Row::compared(what, ours, (cat, "the agent into `cat`"), []));
}

/// What ralph holds of a gibibyte.
pub(crate) fn flood(report: &mut dyn FnMut(Row)) {
    let [small, large] =
        [16, 1024].map(|mebibytes| crate::flood::peak_while_flooded(mebibytes << 20));
    let of = |(peak, _): (u64, Duration)| Figure::Size(peak * 1024);
    let what = "peak memory while an agent prints 1 GiB";
    let bars = [Bar::Below(Figure::Size(25_000_000)), Bar::Times(1.2)];
    report(Row::compared(what, of(large), (of(small), "16 MiB"), bars));
}
