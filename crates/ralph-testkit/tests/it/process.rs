//! Supervision seen from outside: what is reported, and that nothing is left running.
//!
//! Every scene runs the `supervise` binary of this crate, as signals and orphans concern a whole
//! process. Not here: the timers, which `ralph-io` tests without processes.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fs, thread};

use ralph_io::process::{RUN_ID_VARIABLE, sweep_run};
use ralph_model::child::{ChildEnd, Ending, Force, Leftovers, Limit, NotStarted, SoftLimit};
use ralph_testkit::sealed::start_children_with_default_signals;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// No wait in these tests takes a hundredth of this on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

const LOST: Leftovers = Leftovers { processes: 0, held_pipe: false };

const WAITS_TO_GO: &str = "echo > ready; while [ ! -e go ]; do sleep 0.01; done; exit 7";

#[derive(Debug, Deserialize)]
struct Report {
    end: ChildEnd,
    stdout_bytes: u64,
    stderr_bytes: u64,
    lines: Vec<String>,
    peak_rss_kib: u64,
    took_ms: u64,
    children_left: usize,
}

/// A directory, and a number that no other process has in its command line.
struct Scene {
    dir: TempDir,
    nonce: String,
}

impl Scene {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        start_children_with_default_signals();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = UNIX_EPOCH.elapsed().expect("a clock after 1970").subsec_nanos();
        Self {
            dir: TempDir::new().expect("a temporary directory"),
            // `sleep` takes it as a number of seconds: long enough, and unique.
            nonce: format!("7{}.{now:09}{count:04}", std::process::id()),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a request for a shell script; `$N` in it is the nonce.
    fn script(&self, script: &str) -> Value {
        json!({
            "program": "sh",
            "args": ["-c", script],
            "cwd": self.dir.path(),
            "env": {
                "PATH": std::env::var("PATH").expect("a PATH"),
                "N": self.nonce,
                "RALPH_RUN_ID": self.run_id(),
            },
            "stages": self.file("stages"),
        })
    }

    fn run_id(&self) -> String {
        format!("run-{}", self.nonce)
    }

    /// Runs a request to its end; nothing of it may be left.
    #[track_caller]
    fn run(&self, request: &Value) -> Report {
        self.finish(start(request))
    }

    #[track_caller]
    fn finish(&self, child: Child) -> Report {
        let Output { stdout, stderr, .. } = child.wait_with_output().expect("the binary ends");
        assert_eq!(self.survivors(), Vec::<String>::new());
        serde_json::from_slice(&stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&stderr)))
    }

    /// Waits for a file that holds the text.
    #[track_caller]
    fn wait_for(&self, name: &str, text: &str) {
        wait_until(name, || {
            fs::read_to_string(self.file(name)).is_ok_and(|content| content.contains(text))
        });
    }

    /// Returns the command lines of all living processes that belong to this scene.
    fn survivors(&self) -> Vec<String> {
        self.processes().into_iter().map(|(_, command)| command).collect()
    }

    fn processes(&self) -> Vec<(Pid, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let nonce = self.nonce.as_bytes();
            let holds = |bytes: &[u8]| bytes.windows(nonce.len()).any(|window| window == nonce);
            if holds(&command) || holds(&environment) {
                let pid = Pid::from_raw(pid).expect("pids are not zero");
                found.push((pid, String::from_utf8_lossy(&command).into_owned()));
            }
        }
        found
    }
}

impl Drop for Scene {
    /// A failed test leaves nothing behind either.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn start(request: &Value) -> Child {
    Command::new(env!("CARGO_BIN_EXE_supervise"))
        .arg(request.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Merges fields into a request.
fn with(mut request: Value, fields: Value) -> Value {
    let (Some(target), Value::Object(fields)) = (request.as_object_mut(), fields) else {
        panic!("both are objects");
    };
    target.extend(fields);
    request
}

fn timed_out(limit: Limit, force: Force) -> Ending {
    Ending::TimedOut { limit, force }
}

#[test]
fn a_child_that_ends_by_itself_is_reported_as_it_ended() {
    let cases = [
        ("exit 0", Ending::Exited { code: 0 }),
        ("exit 3", Ending::Exited { code: 3 }),
        ("kill -KILL $$", Ending::Signalled { signal: 9 }),
        ("kill -TERM $$", Ending::Signalled { signal: 15 }),
    ];
    for (script, ending) in cases {
        let scene = Scene::new();
        let end = scene.run(&scene.script(script)).end;
        assert_eq!((end.ending, end.leftovers), (ending, LOST), "{script}");
    }
}

#[test]
fn a_child_that_cannot_start_reports_why() {
    let scene = Scene::new();
    fs::write(scene.file("plain"), "text").expect("written");
    fs::write(scene.file("orphan"), "#!/no/such/interpreter\n").expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(scene.file("orphan"), executable).expect("set");
    let request = |program: &str, cwd: &str| {
        let cwd = scene.file(cwd);
        with(scene.script(""), json!({ "program": program, "cwd": cwd }))
    };
    let refused =
        |program: &str, error: String| NotStarted::Refused { program: program.to_owned(), error };
    let (absent, plain, nowhere) = ("no-such-program", "./plain", "./nowhere/at-all");
    let cases = [
        (request(absent, ""), NotStarted::NotFound { program: absent.to_owned() }),
        (request(nowhere, ""), NotStarted::NotFound { program: nowhere.to_owned() }),
        (request(plain, ""), NotStarted::NotAllowed { program: plain.to_owned() }),
        (
            request("./orphan", ""),
            refused("./orphan", "the interpreter it names was not found".to_owned()),
        ),
        (
            request("sh", "gone"),
            refused("sh", format!("there is no directory `{}`", scene.file("gone").display())),
        ),
    ];
    for (request, reason) in cases {
        assert_eq!(scene.run(&request).end.ending, Ending::NotStarted { reason });
    }
}

#[test]
fn limits_end_a_child_whatever_it_prints() {
    let hour = "sleep 3600";
    let chatty = "while :; do echo noise; done";
    let busy = "while :; do echo useful; done";
    let stubborn = "trap '' TERM; while :; do sleep 1; done";
    let idle = json!({ "idle": 300, "hard": 60_000 });
    let hard = json!({ "hard": 300, "idle": 60_000 });
    // Long enough for the trap to be set on a loaded machine.
    let late = json!({ "hard": 1500, "grace": 100 });
    let cases = [
        (hour, &idle, Limit::Idle, Force::Terminated),
        (chatty, &idle, Limit::Idle, Force::Terminated),
        (hour, &hard, Limit::Hard, Force::Terminated),
        (busy, &hard, Limit::Hard, Force::Terminated),
        (stubborn, &late, Limit::Hard, Force::Killed),
    ];
    for (script, limits, limit, force) in cases {
        let scene = Scene::new();
        let end = scene.run(&with(scene.script(script), limits.clone())).end;
        assert_eq!(end.ending, timed_out(limit, force), "{script} {limits}");
        assert!((300..30_000).contains(&end.ran.0), "{script}: {}", end.ran);
    }
}

#[test]
fn a_stopped_child_still_gets_the_signal_to_end() {
    let scene = Scene::new();
    let script = scene.script("trap 'echo bye; exit 0' TERM; kill -STOP $$; sleep $N");
    let report = scene.run(&with(script, json!({ "hard": 300, "grace": 60_000 })));
    assert_eq!(report.end.ending, timed_out(Limit::Hard, Force::Terminated));
}

#[test]
fn passing_the_soft_limit_ends_nothing() {
    let scene = Scene::new();
    let end = scene.run(&with(scene.script("sleep 0.2; exit 5"), json!({ "soft": 100 }))).end;
    assert_eq!((end.ending, end.soft_limit), (Ending::Exited { code: 5 }, SoftLimit::Passed));
}

#[test]
fn a_child_that_stays_after_its_final_line_is_ended_as_lingering() {
    let limits = json!({ "linger": 1000, "idle": 60_000 });
    let force = Force::Terminated;
    let stays = "echo useful; echo final; sleep $N";
    let keeps_running = "echo final; echo useful; sleep 1.3; echo useful; exit 4";
    let cases = [
        (stays, Ending::Lingered { force }),
        (keeps_running, Ending::Exited { code: 4 }),
        ("echo final; exit 0", Ending::Exited { code: 0 }),
    ];
    for (script, ending) in cases {
        let scene = Scene::new();
        let report = scene.run(&with(scene.script(script), limits.clone()));
        assert_eq!(report.end.ending, ending, "{script}");
    }
}

#[test]
fn what_a_child_leaves_running_is_ended_and_counted() {
    // Each waits until its leftover really runs, so that the count is exact.
    let cases = [
        // In the same group, with the output pipes.
        ("sleep $N & exit 0", 1, true),
        // With a session of its own and without the pipes.
        ("setsid sleep $N >/dev/null 2>&1 & exit 0", 1, false),
        // A daemon that forked twice and cleared its environment.
        ("( ( env -i PATH=\"$PATH\" setsid sleep $N >/dev/null 2>&1 & ) & ) ; exit 0", 1, false),
        // One that ignores signals to end.
        ("setsid sh -c 'trap \"\" TERM; exec sleep $N' >/dev/null 2>&1 & exit 0", 1, false),
        ("sleep $N & setsid sleep $N & setsid sleep $N >/dev/null & exit 0", 3, true),
    ];
    for (script, processes, held_pipe) in cases {
        let scene = Scene::new();
        let report = scene.run(&scene.script(script));
        let expected = ChildEnd {
            ending: Ending::Exited { code: 0 },
            ran: report.end.ran,
            soft_limit: SoftLimit::Kept,
            leftovers: Leftovers { processes, held_pipe },
        };
        assert_eq!(report.end, expected, "{script}");
        assert!(report.took_ms < 10_000, "{script}: {} ms", report.took_ms);
    }
}

#[test]
fn what_leaves_by_itself_is_no_leftover() {
    let scene = Scene::new();
    let report = scene.run(&scene.script("sleep 0.02 >/dev/null 2>&1 & exit 0"));
    assert_eq!(report.end.leftovers, LOST);
}

#[test]
fn a_timed_out_child_takes_its_whole_tree_with_it() {
    let scene = Scene::new();
    let script = "setsid sh -c 'sleep $N; :' & env -i sleep $N & sleep $N";
    let report = scene.run(&with(scene.script(script), json!({ "hard": 300 })));
    assert_eq!(report.end.ending, timed_out(Limit::Hard, Force::Terminated));
    assert!(report.end.leftovers.processes >= 1, "{:?}", report.end);
}

#[test]
fn unread_input_blocks_nothing() {
    let fed = json!({ "stdin_bytes": 1_000_000 });
    let cases = [("exit 0", 0), ("head -c 10 >/dev/null", 0), ("wc -c", 8)];
    for (script, stdout_bytes) in cases {
        let scene = Scene::new();
        let report = scene.run(&with(scene.script(script), fed.clone()));
        assert_eq!(report.end.ending, Ending::Exited { code: 0 }, "{script}");
        assert_eq!(report.stdout_bytes, stdout_bytes, "{script}: {:?}", report.lines);
    }
}

#[test]
fn without_input_a_child_sees_the_end_of_the_file_at_once() {
    let scene = Scene::new();
    let report = scene.run(&scene.script("cat; echo over; echo problem >&2"));
    assert_eq!(report.lines, ["over"]);
    assert_eq!(report.stderr_bytes, 8);
}

#[test]
fn a_child_gets_its_own_environment_and_default_signals_only() {
    let scene = Scene::new();
    let script = "env | cut -d= -f1 | sort; grep -E 'Sig(Ign|Blk)' /proc/self/status";
    let mut lines = scene.run(&scene.script(script)).lines;
    let signals = lines.split_off(lines.len() - 2);
    // `PWD` and `_` are the shell's own.
    lines.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str()));
    assert_eq!(lines, ["N", "PATH", "RALPH_RUN_ID"]);
    let pipe_bit = 1 << (Signal::PIPE.as_raw() - 1);
    for line in signals {
        let mask = line.split_whitespace().last().expect("a mask");
        let mask = u64::from_str_radix(mask, 16).expect("hexadecimal");
        assert_eq!(mask & pipe_bit, 0, "{line}");
    }
}

#[test]
fn a_line_without_end_is_read_in_flat_memory() {
    let scene = Scene::new();
    let report =
        scene.run(&scene.script("head -c 67108864 /dev/zero | tr '\\0' x; echo; echo next"));
    assert_eq!(report.lines, ["too long: 67108864", "next"]);
    assert!(report.peak_rss_kib < 25_000, "{} KiB", report.peak_rss_kib);
}

#[test]
fn the_first_signal_lets_the_child_finish() {
    for first in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scene = Scene::new();
        let ralph = start(&scene.script(WAITS_TO_GO));
        scene.wait_for("ready", "");
        signal(&ralph, first);
        scene.wait_for("stages", "Finish");
        fs::write(scene.file("go"), "").expect("written");
        assert_eq!(scene.finish(ralph).end.ending, Ending::Exited { code: 7 });
    }
}

#[test]
fn the_second_signal_ends_the_tree() {
    let quiet = "trap 'echo > ended; exit 0' TERM; setsid sleep $N & echo > ready; sleep $N & wait";
    let stubborn = "trap '' TERM; setsid sleep $N & echo > ready; while :; do sleep 1; done";
    let flood = "echo > ready; while :; do echo useful; done";
    let cases = [(quiet, Force::Terminated), (stubborn, Force::Killed), (flood, Force::Terminated)];
    for (script, force) in cases {
        let scene = Scene::new();
        let ralph = start(&with(scene.script(script), json!({ "grace": 500 })));
        scene.wait_for("ready", "");
        signal(&ralph, Signal::INT);
        scene.wait_for("stages", "Finish");
        signal(&ralph, Signal::TERM);
        let report = scene.finish(ralph);
        assert_eq!(report.end.ending, Ending::Interrupted { force }, "{script}");
    }
}

#[test]
fn the_third_signal_leaves_at_once_and_leaves_nothing() {
    let scene = Scene::new();
    let script = "trap '' TERM INT; setsid sleep $N & env -i setsid sleep $N & echo > ready; \
                  while :; do sleep 1; done";
    let request = with(scene.script(script), json!({ "grace": 3_600_000 }));
    let mut ralph = start(&request);
    scene.wait_for("ready", "");
    for stage in ["Finish", "End"] {
        signal(&ralph, Signal::INT);
        scene.wait_for("stages", stage);
    }
    signal(&ralph, Signal::INT);
    assert_eq!(ralph.wait().expect("it leaves").code(), Some(130));
    scene.wait_for("stages", "Finish\nEnd\nLeave\n");
    assert_eq!(scene.survivors(), Vec::<String>::new());
}

#[test]
fn two_hangups_of_a_terminal_are_one_signal() {
    let scene = Scene::new();
    let ralph = start(&scene.script(WAITS_TO_GO));
    scene.wait_for("ready", "");
    for _ in 0..20 {
        signal(&ralph, Signal::HUP);
    }
    scene.wait_for("stages", "Finish");
    fs::write(scene.file("go"), "").expect("written");
    assert_eq!(scene.finish(ralph).end.ending, Ending::Exited { code: 7 });
    assert_eq!(fs::read_to_string(scene.file("stages")).expect("written"), "Finish\n");
}

#[test]
fn under_nohup_a_closed_terminal_is_no_reason_to_stop() {
    let scene = Scene::new();
    // An ignored signal cannot be trapped by a shell that starts with it ignored.
    let script = format!("trap 'echo > hung-up' HUP; kill -HUP $$; {WAITS_TO_GO}");
    let ralph = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$1\"", env!("CARGO_BIN_EXE_supervise")])
        .arg(scene.script(&script).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    scene.wait_for("ready", "");
    signal(&ralph, Signal::HUP);
    signal(&ralph, Signal::INT);
    // The interrupt comes second, and is the first to count.
    scene.wait_for("stages", "Finish");
    fs::write(scene.file("go"), "").expect("written");
    assert_eq!(scene.finish(ralph).end.ending, Ending::Exited { code: 7 });
    assert_eq!(fs::read_to_string(scene.file("stages")).expect("written"), "Finish\n");
    // A closed terminal signals the group of ralph and no other: children need not ignore it, and a
    // gate has the same result with and without `nohup`.
    assert!(scene.file("hung-up").exists());
}

#[test]
fn a_stop_stops_the_tree_and_the_clock() {
    let scene = Scene::new();
    let script = "setsid sh -c 'echo $$ > beater; while :; do echo x >> beats; sleep 0.01; done' & \
                  echo $$ > leader; wait";
    let ralph = start(&with(scene.script(script), json!({ "hard": 3000 })));
    for (name, text) in [("leader", "\n"), ("beater", "\n"), ("beats", "x")] {
        scene.wait_for(name, text);
    }
    let stopped_at = Instant::now();
    signal(&ralph, Signal::TSTP);
    let pid = |name| fs::read_to_string(scene.file(name)).expect("written").trim().to_owned();
    for pid in [ralph.id().to_string(), pid("leader"), pid("beater")] {
        // A shell that was just starting a program shows `D`: it waits for its stopped child.
        wait_until("a stop", || matches!(state(&pid), 'T' | 'D'));
    }
    let beats = || fs::metadata(scene.file("beats")).expect("written").len();
    let before = beats();
    // The stop has to last for its length to be seen in the numbers.
    thread::sleep(Duration::from_millis(700));
    assert_eq!(beats(), before);
    let stopped_for = stopped_at.elapsed();
    signal(&ralph, Signal::CONT);
    wait_until("a beat", || beats() > before);
    let report = scene.finish(ralph);
    assert_eq!(report.end.ending, timed_out(Limit::Hard, Force::Terminated));
    let slack = Duration::from_millis(100);
    let least = Duration::from(report.end.ran) + stopped_for.saturating_sub(slack);
    assert!(u128::from(report.took_ms) >= least.as_millis(), "{report:?} {stopped_for:?}");
}

/// Returns the state letter of a process, `X` if it is gone.
fn state(pid: &str) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.trim_start().chars().next().unwrap_or('X')
}

#[test]
fn the_warden_ends_everything_when_ralph_is_killed() {
    let scene = Scene::new();
    let script = "trap '' TERM; setsid sleep $N & env -i sleep $N & env -i setsid sleep $N & \
                  echo > ready; sleep $N";
    let request = with(scene.script(script), json!({ "warden": scene.run_id() }));
    let mut ralph = start(&request);
    scene.wait_for("ready", "");
    signal(&ralph, Signal::KILL);
    ralph.wait().expect("it is dead");
    wait_until("the warden", || scene.survivors().is_empty());
}

#[test]
fn the_warden_ends_with_the_run() {
    let scene = Scene::new();
    let request = with(scene.script("exit 0"), json!({ "warden": scene.run_id() }));
    // `run` looks for survivors, of which the warden would be one.
    let report = scene.run(&request);
    assert_eq!(report.end.ending, Ending::Exited { code: 0 });
    assert_eq!(report.end.leftovers, LOST);
}

#[test]
fn many_children_in_a_row_leave_nothing_behind() {
    let scene = Scene::new();
    let request = with(scene.script("true & true"), json!({ "times": 50 }));
    let report = scene.run(&request);
    assert_eq!(report.end.ending, Ending::Exited { code: 0 });
    assert_eq!(report.children_left, 0);
    assert!(report.peak_rss_kib < 16_000, "{} KiB", report.peak_rss_kib);
}

#[test]
fn parallel_children_keep_their_own_orphans() {
    let scene = Scene::new();
    // The orphan is a child of ralph by the time that the second child ends.
    let script = "(setsid sh -c 'echo > ready; exec sleep $N' >/dev/null 2>&1 &); \
                  while [ ! -e go ]; do sleep 0.01; done";
    let beside = scene.script("while [ ! -e ready ]; do sleep 0.01; done; exit 0");
    let over = scene.file("over");
    let request = with(scene.script(script), json!({ "beside": beside, "beside_over": over }));
    let ralph = start(&request);
    scene.wait_for("over", "");
    let orphan = format!("sleep\0{}\0", scene.nonce);
    assert!(scene.survivors().contains(&orphan), "{:?}", scene.survivors());
    fs::write(scene.file("go"), "").expect("written");
    let report = scene.finish(ralph);
    assert_eq!((report.end.leftovers.processes, report.children_left), (1, 0));
}

#[test]
fn a_companion_is_no_leftover_and_ends_with_ralph() {
    let scene = Scene::new();
    let request = with(scene.script("sleep $N & exit 0"), json!({ "companion": scene.nonce }));
    let report = scene.run(&request);
    assert_eq!((report.end.leftovers.processes, report.children_left), (1, 0));
}

#[test]
fn the_processes_of_a_dead_run_are_found_by_its_id() {
    let scene = Scene::new();
    let sleeper = |run_id: &str| {
        let mut command = Command::new("sleep");
        command.arg(&scene.nonce).env(RUN_ID_VARIABLE, run_id).spawn().expect("sleep starts")
    };
    let mut ours = sleeper(&scene.run_id());
    let mut other = sleeper("another-run");
    assert_eq!(sweep_run(&scene.run_id()), 1);
    assert_eq!(sweep_run(""), 0);
    assert!(!ours.wait().expect("it is ours").success());
    assert!(other.try_wait().expect("it is ours").is_none());
    other.kill().expect("it runs");
    other.wait().expect("it is ours");
}
