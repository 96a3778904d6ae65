//! What starts often: the program itself, hooks, sandboxed processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ralph_io::sandbox::Launcher;
use ralph_model::sandbox::Backend;
use ralph_testkit::measure::{Times, measure_alternating, measure_time, time_command};
use ralph_testkit::sealed::Sealed;

use crate::inputs::{self, give};
use crate::row::{Bar, Figure, Row};
use crate::{RALPH, cells};

/// As many as a session has tool calls.
const ROUNDS: usize = 200;

/// A hook that does what ralph's does, in Python: find the last usage near the end of a transcript.
const PYTHON_HOOK: &str = r#"import json, os, sys
call = json.load(sys.stdin)
path = call.get("transcript_path", "")
tokens = 0
if os.path.isfile(path):
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 65536))
        for line in file.read().splitlines()[1:]:
            try:
                usage = json.loads(line).get("message", {}).get("usage")
            except (ValueError, AttributeError):
                continue
            if usage:
                tokens = usage["input_tokens"] + usage["cache_read_input_tokens"]
if tokens > 10**9:
    print(json.dumps({"systemMessage": "the context is full"}))
"#;

/// The same with bash and jq.
const BASH_HOOK: &str = r#"call=$(cat)
path=$(jq -r '.transcript_path // empty' <<<"$call")
tokens=0
if [ -f "$path" ]; then
    tokens=$(tail -c 65536 "$path" | tail -n +2 \
        | jq -rn '[inputs | .message.usage? // empty | .input_tokens + .cache_read_input_tokens] | last // 0')
fi
if [ "$tokens" -gt 1000000000 ]; then jq -n '{systemMessage: "the context is full"}'; fi
"#;

/// `--version` and a hook against a process that does nothing, and against hooks in other languages.
pub(crate) fn start(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::new(RALPH);
    let bare = inputs::input(&sealed, Path::new("/nowhere"));
    let call = inputs::input(&sealed, &inputs::transcript(&sealed, 1));
    let hook =
        |input: &Path| give(sealed.build_command(RALPH).args(["hook", "post-tool-use"]), input);
    let [nothing, version, quiet, reading] = measure_alternating(
        ROUNDS,
        [
            &mut || give(&mut sealed.build_command("/bin/true"), &bare),
            &mut || give(sealed.build_command(RALPH).arg("--version"), &bare),
            &mut || hook(&bare),
            &mut || hook(&call),
        ],
    )
    .map(|times| Figure::Time(times.median()));
    let compared_with = (nothing, "`/bin/true`");
    report(Row::compared("`ralph --version`", version, compared_with, [Bar::Times(2.0)]));
    let what = "`ralph hook post-tool-use`";
    report(Row::compared(what, quiet, compared_with, [Bar::Times(2.0)]));
    let what = "the same, with a transcript of 1 MB";
    report(Row::compared(what, reading, compared_with, [Bar::Times(2.0)]));
    for (name, program, script) in
        [("a hook in Python", "python3", PYTHON_HOOK), ("a hook of bash and jq", "bash", BASH_HOOK)]
    {
        let file = sealed.root().join(format!("hook-for-{program}"));
        fs::write(&file, script).expect("written");
        let mut other = sealed.build_command(program);
        other.arg(&file).stdin(fs::File::open(&call).expect("opened")).stdout(Stdio::null());
        if !other.status().is_ok_and(|status| status.success()) {
            report(Row::skipped(what, format!("{name} does not run here")));
            continue;
        }
        let mut theirs = || give(sealed.build_command(program).arg(&file), &call);
        let [ours, theirs] = measure_alternating(30, [&mut || hook(&call), &mut theirs])
            .map(|times| Figure::Time(times.median()));
        report(Row::compared(what, ours, (theirs, name), []));
    }
}

/// The context monitor on transcripts of all sizes.
pub(crate) fn monitor(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::new(RALPH);
    let [small, middle, large] = [1, 10, 100]
        .map(|megabytes| inputs::input(&sealed, &inputs::transcript(&sealed, megabytes)));
    let hook =
        |input: &Path| give(sealed.build_command(RALPH).args(["hook", "post-tool-use"]), input);
    let [small, middle, large] = measure_alternating(
        ROUNDS,
        [&mut || hook(&small), &mut || hook(&middle), &mut || hook(&large)],
    )
    .map(|times| Figure::Time(times.median()));
    for (megabytes, time) in [(10, middle), (100, large)] {
        let what = format!("context monitor on a transcript of {megabytes} MB");
        report(Row::compared(what, time, (small, "1 MB"), [Bar::Times(1.2)]));
    }
}

/// The guard over its tables.
pub(crate) fn guard(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::new(RALPH);
    let active = inputs::active(&sealed);
    let (mut guarded, mut nothing) = (Vec::new(), Vec::new());
    for call in inputs::calls(&sealed) {
        nothing.push(measure_time(|| give(&mut sealed.build_command("/bin/true"), &call)).0);
        let mut hook = sealed.build_command(RALPH);
        hook.args(["hook", "pre-tool-use"]).env("RALPH_ACTIVE", &active);
        hook.env("RALPH_RUN_ID", "bench");
        guarded.push(measure_time(|| give(&mut hook, &call)).0);
    }
    let [ours, nothing] = [guarded, nothing].map(Times::from);
    let of = |times: &Times, part| Figure::Time(times.find_permille(part));
    let what = format!("the guard on the {} lines of its tables, median", ours.len());
    report(Row::compared(what, of(&ours, 500), (of(&nothing, 500), "`/bin/true`"), []));
    let bars = [Bar::Below(Figure::Time(Duration::from_millis(5)))];
    let compared_with = (of(&nothing, 990), "`/bin/true`, p99");
    report(Row::compared("the same, p99", of(&ours, 990), compared_with, bars));
}

/// A start in a sandbox.
pub(crate) fn sandbox(report: &mut dyn FnMut(Row)) {
    let sealed = Sealed::with_repository(RALPH);
    let bars = [Bar::More(Duration::from_millis(10))];
    let what = "start in the native sandbox of git";
    match cells::launcher(&sealed, Backend::Native) {
        Err(why) => return report(Row::skipped(what, why)),
        Ok(native) => {
            let [direct, sandboxed] = measure_alternating(
                ROUNDS,
                [&mut || cells::start(&sealed, &Launcher::Direct), &mut || {
                    cells::start(&sealed, &native);
                }],
            )
            .map(|times| Figure::Time(times.median()));
            report(Row::compared(what, sandboxed, (direct, "a direct start"), bars));
        }
    }
    let alone = || {
        let mut command = sealed.build_command("/bin/true");
        time_command(command.stdout(Stdio::null()));
    };
    let sandboxed = || {
        let mut command = sealed.build_command(RALPH);
        command.args(["sandbox", "exec", "--", "/bin/true"]).stderr(Stdio::null());
        time_command(command.env("RALPH_SANDBOX_BACKEND", "native"));
    };
    let [direct, sandboxed] = measure_alternating(40, [&mut { alone }, &mut { sandboxed }])
        .map(|times| Figure::Time(times.median()));
    let what = "`ralph sandbox exec /bin/true`: settings, probe, native sandbox of an agent";
    report(Row::compared(what, sandboxed, (direct, "a direct start"), []));
}

/// Returns whether a program for a comparison is installed.
pub(crate) fn has_program(name: &str) -> bool {
    let mut command = Command::new(name);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
