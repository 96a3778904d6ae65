//! The full-screen view on a real terminal: tmux is the terminal, and reads the screen.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use ralph_testkit::sealed::{Sealed, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::typing;
use crate::{always, repository};

/// A screen that has not appeared by then never will.
const LONGEST: Duration = Duration::from_secs(60);

/// A terminal with an interactive shell, whose screen can be read.
struct Tmux<'a> {
    sealed: &'a Sealed,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    /// Starts one; `None` if tmux is missing, which `./check` reports.
    fn start(sealed: &'a Sealed) -> Option<Self> {
        let tmux = Self { sealed, socket: sealed.root().join("tmux") };
        let shell = "PS1='$ ' exec sh -i";
        let begun = tmux
            .command(&["-u", "-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "24", shell])
            .output()
            .ok()?;
        assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
        Some(tmux)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sealed.build_command("tmux");
        command.arg("-S").arg(&self.socket).args(words);
        command
    }

    fn do_it(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types a line into the shell.
    fn line(&self, words: &str) {
        self.do_it(&["send-keys", "-l", words]);
        self.key("Enter");
    }

    fn key(&self, key: &str) {
        self.do_it(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        self.do_it(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        let begun = Instant::now();
        loop {
            let seen = self.screen();
            if seen.contains(words) {
                return;
            }
            assert!(begun.elapsed() < LONGEST, "`{words}` never came on this screen:\n{seen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn resize(&self, width: u16, height: u16) {
        let [width, height] = [width, height].map(|it| it.to_string());
        self.do_it(&["resize-window", "-x", &width, "-y", &height]);
    }

    /// Starts `ralph` so that its pid, its exit code and the terminal state can be read.
    fn ralph(&self, words: &str) {
        let ralph = env!("CARGO_BIN_EXE_ralph");
        self.line(&format!(
            "clear; stty -g > ../before; sh -c 'echo $$ > ../pid; exec {ralph} {words}'; echo $? > ../code; stty -g > ../after; mv ../code ../exit"
        ));
    }

    /// Waits for the end of `ralph`, and asserts that the terminal was restored.
    #[track_caller]
    fn ended(&self, code: &str) {
        let read = |name: &str| fs::read_to_string(self.sealed.root().join(name));
        wait_until("the exit code", || read("exit").is_ok());
        let seen = self.screen();
        assert_eq!(read("exit").expect("a code").trim(), code, "{seen}");
        assert_eq!(read("after").expect("modes"), read("before").expect("modes"), "{seen}");
        assert_eq!(self.do_it(&["display", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
    }

    fn signal(&self, signal: Signal) {
        let text = fs::read_to_string(self.sealed.root().join("pid")).expect("a pid");
        let pid = text.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.do_it(&["kill-server"]);
    }
}

/// A list of two tasks, and an agent that waits for a file before it does the first.
fn project() -> Sealed {
    let sealed = repository();
    let work = json!({ "run": { "command": "echo x > $RALPH_TASK.txt" } });
    let account = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    let waits = json!({ "waitFor": { "path": "../continue", "seconds": 50.0 } });
    let begun = json!({ "touch": "../begun" });
    let calls = always(json!([
        { "text": "I begin with the parser. 日本" },
        begun,
        waits,
        work,
        { "handoff": account }
    ]));
    let further = json!({
        "review": { "enabled": false },
        "guardrails": [{ "command": "true" }]
    });
    sealed.write_script(&calls, &further);
    let task = |id: &str| -> Value {
        json!({
            "id": id, "title": format!("The {id}"), "description": "Make it.",
            "status": "pending", "acceptance_criteria": ["it is there"], "depends_on": []
        })
    };
    let plan = json!({ "project": "p", "tasks": [task("parser"), task("printer")] });
    sealed.write_file("plan.json", &format!("{plan:#}\n"));
    sealed.commit_all("Settings");
    sealed
}

fn let_continue(sealed: &Sealed) {
    fs::write(sealed.root().join("continue"), "").expect("a file");
}

#[test]
fn a_run_is_watched_talked_to_and_ends_on_the_normal_screen() {
    let sealed = project();
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("build --tui");
    tmux.shows("I begin with the parser. 日本");
    tmux.shows("Tasks 0/2");
    tmux.shows("implement parser");
    tmux.key("?");
    tmux.shows("any key closes this");
    tmux.key("x");
    tmux.do_it(&["send-keys", "-l", "mUse tabs, größer"]);
    tmux.shows("Note: Use tabs, größer");
    tmux.resize(20, 5);
    // The end of the typed text is visible, with its cursor. What tmux cuts off of the former
    // screen looks different, and is there only until ralph has drawn.
    tmux.shows("Note:  tabs, größer");
    tmux.resize(100, 30);
    tmux.shows("Note: Use tabs, größer");
    tmux.key("Enter");
    tmux.shows("sent to the next agent");
    let_continue(&sealed);
    tmux.ended("0");
    let seen = tmux.screen();
    assert!(seen.contains("Run ended") && seen.contains("tasks: 2 of 2 done"), "{seen}");
    assert!(!seen.contains("Tasks 2/2"), "{seen}");
    let prompts = sealed.prompts();
    assert!(prompts.iter().any(|prompt| prompt.contains("Use tabs, größer")), "{prompts:?}");
}

#[test]
fn workers_are_rows_of_the_screen_and_one_can_be_skipped() {
    let sealed = project();
    let go = sealed.root().join("continue");
    let command =
        format!("while [ ! -e {} ]; do sleep 0.05; done; echo x > $RALPH_TASK.txt", go.display());
    let end = json!({ "task_completed": { "summary": "Wrote it.", "fully_complete": true } });
    let calls = always(json!([{ "run": { "command": command } }, { "handoff": end }]));
    sealed.write_script(&calls, &json!({ "review": { "enabled": false } }));
    sealed.commit_all("Other calls");
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("build --tui --jobs 2");
    tmux.shows("s1  p");
    tmux.shows("s2  p");
    tmux.key("w");
    tmux.key("Enter");
    tmux.shows("ralph log --task parser --follow shows this worker");
    tmux.key("k");
    tmux.shows("Skip parser for good? y/n");
    tmux.key("y");
    wait_until("its worker is canceled", || !sealed.find_events("worker_canceled").is_empty());
    let_continue(&sealed);
    tmux.ended("0");
    let seen = tmux.screen();
    assert!(seen.contains("1 of 2 done"), "{seen}");
}

#[test]
fn tui_can_be_left_and_the_run_continues_in_lines() {
    let sealed = project();
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("build --tui");
    tmux.shows("I begin with the parser");
    tmux.key("q");
    tmux.shows("Leave: s stops the run");
    tmux.key("l");
    wait_until("the normal screen", || {
        tmux.do_it(&["display", "-p", "#{alternate_on}"]).trim() == "0"
    });
    let_continue(&sealed);
    tmux.shows("Task printer: done");
    tmux.ended("0");
}

#[test]
fn stopped_and_continued_the_screen_is_whole_again() {
    let sealed = project();
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.line("set -m");
    tmux.ralph("build --tui");
    tmux.shows("I begin with the parser");
    tmux.key("C-z");
    wait_until("the normal screen", || {
        tmux.do_it(&["display", "-p", "#{alternate_on}"]).trim() == "0"
    });
    tmux.line("fg");
    tmux.shows("Tasks 0/2");
    tmux.shows("I begin with the parser");
    tmux.key("s");
    tmux.shows("Stop after this step? y/n");
    tmux.key("y");
    tmux.shows("stopping after this step");
    let_continue(&sealed);
    tmux.shows("Run ended");
    assert!(sealed.find_events("wished").iter().any(|it| it["asked"]["wish"]["wish"] == "stop"));
    assert_eq!(tmux.do_it(&["display", "-p", "#{alternate_on}"]).trim(), "0");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    for (signals, code) in [(1, "130"), (3, "130")] {
        let sealed = project();
        let Some(tmux) = Tmux::start(&sealed) else { return };
        tmux.ralph("build --tui");
        tmux.shows("I begin with the parser");
        tmux.signal(Signal::TERM);
        tmux.shows("stopping after this step");
        if signals == 3 {
            tmux.signal(Signal::INT);
            tmux.signal(Signal::TERM);
        } else {
            let_continue(&sealed);
        }
        tmux.ended(code);
    }
}

#[test]
fn a_terminal_that_vanishes_does_not_end_a_run() {
    let sealed = project();
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.line("trap '' HUP");
    tmux.ralph("build --tui");
    tmux.shows("I begin with the parser");
    drop(tmux);
    let_continue(&sealed);
    wait_until("the end", || !sealed.find_events("run_ended").is_empty());
    assert_eq!(sealed.find_events("run_ended")[0]["outcome"]["end"], "complete");
}

/// Runs `ralph build --tui` on a terminal whose other end is closed once the agent works. Returns
/// the process and its CPU use since.
fn hung_up(sealed: &Sealed, words: &[&str]) -> (Child, u64) {
    let (mut terminal, other) = typing::terminal(90);
    let mut child = typing::session(sealed, other, "xterm", words);
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    // Repeated drawing, such as the time, keeps this going.
    while !(sealed.root().join("begun").exists()
        && String::from_utf8_lossy(&seen).contains("parser"))
    {
        let count = terminal.read(&mut piece).unwrap_or_else(|error| {
            panic!("{error}: {:?}, {}", child.wait(), String::from_utf8_lossy(&seen))
        });
        seen.extend_from_slice(&piece[..count]);
    }
    drop(terminal);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
        fields[11..13].iter().map(|it| it.parse::<u64>().expect("a number")).sum::<u64>()
    };
    let before = ticks();
    // A busy loop shows in any time span; this is not a wait for an event.
    std::thread::sleep(Duration::from_millis(400));
    let used = ticks() - before;
    assert!(child.try_wait().expect("it can be asked").is_none(), "it continues");
    (child, used)
}

#[test]
fn hangup_stops_a_run_after_its_step_unless_nohup() {
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let stays = format!("trap '' HUP; exec {ralph} build --tui");
    for (words, end, code) in [
        (vec![ralph, "build", "--tui"], "interrupted", 130),
        (vec!["sh", "-c", &stays], "complete", 0),
    ] {
        let sealed = project();
        let (mut child, used) = hung_up(&sealed, &words);
        // Ticks of 10 ms; a busy loop uses 40 of them.
        assert!(used < 20, "{used} ticks: {words:?}");
        let_continue(&sealed);
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{words:?}");
        assert_eq!(sealed.find_events("run_ended")[0]["outcome"]["end"], end);
        assert_eq!(sealed.survivors(), Vec::<String>::new());
        assert!(sealed.project_dir().join("parser.txt").exists(), "the step was finished");
        if end == "interrupted" {
            sealed.run_ralph(&["resume"]).expect_code(0);
        }
    }
}

#[test]
fn a_narrow_screen_without_color_shows_any_bytes() {
    let sealed = project();
    let bytes = json!({ "garbage": { "base64": "/v8gbm9pc2Ug/w0KG1szMW1yZWQbWzJKIGlzIGdvbmUK" } });
    let calls = always(json!([
        { "text": "I begin with the parser" },
        bytes,
        { "waitFor": { "path": "../continue", "seconds": 50.0 } },
        { "run": { "command": "echo x > $RALPH_TASK.txt" } },
        { "handoff": { "task_completed": { "summary": "Wrote it.", "fully_complete": true } } }
    ]));
    sealed.write_script(&calls, &json!({ "review": { "enabled": false } }));
    sealed.run_git(&["commit", "-qam", "Other calls"]);
    let Some(tmux) = Tmux::start(&sealed) else { return };
    let painted = |tmux: &Tmux<'_>| tmux.do_it(&["capture-pane", "-p", "-e"]);
    tmux.ralph("build --tui");
    tmux.shows("red is gone");
    assert!(painted(&tmux).contains("\u{1b}[38;5;"), "{:?}", painted(&tmux));
    tmux.key("q");
    tmux.shows("Leave: s stops the run");
    tmux.key("s");
    let_continue(&sealed);
    tmux.ended("130");
    fs::remove_file(sealed.root().join("exit")).expect("removed");
    fs::remove_file(sealed.root().join("continue")).expect("removed");

    tmux.resize(20, 12);
    tmux.line("export NO_COLOR=1");
    tmux.ralph("resume --tui");
    tmux.shows("red is gone");
    let seen = painted(&tmux);
    assert!(seen.contains("\u{1b}[7m") && !seen.contains("[38;5;"), "{seen:?}");
    assert!(seen.lines().all(|line| !line.contains("Tasks")), "{seen}");
    let_continue(&sealed);
    tmux.ended("0");
}

#[test]
fn plan_progress_is_shown_during_a_run() {
    let sealed = repository();
    let plan = |done: usize| -> String {
        let item = |at: usize| format!("- [{}] Item {at}\n", if at <= done { "x" } else { " " });
        (1..=30).map(item).collect()
    };
    let file = ".ralph/implementation_plan.md";
    let writes = json!({ "write": { "path": file, "text": plan(1) } });
    let commits = json!({ "run": { "command": "git add -A && git commit -qm Item" } });
    let waits = json!({ "waitFor": { "path": "../continue", "seconds": 50.0 } });
    let calls = crate::first_then(
        json!([{ "text": "One." }, writes, commits]),
        json!([{ "text": "Waiting." }, waits]),
    );
    sealed.write_script(&calls, &json!({ "workflow": "specs" }));
    sealed.write_file("specs/items.md", "# Items\n");
    sealed.write_file(file, &plan(0));
    sealed.commit_all("Plan");
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("build --tui 2");
    tmux.shows("Waiting.");
    tmux.shows("Plan 1/30");
    tmux.shows("Item 12");
    tmux.key("Tab");
    for _ in 0..3 {
        tmux.key("PageDown");
    }
    tmux.shows("Item 30");
    tmux.shows("✔ Item 1 ");
    let_continue(&sealed);
    tmux.ended("1");
}

#[test]
fn a_finished_run_is_shown_again() {
    let sealed = project();
    let_continue(&sealed);
    sealed.run_ralph(&["build"]).expect_code(0);
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("log --tui");
    tmux.shows("replay x8");
    // It then shows the first iteration, however far the run has come.
    tmux.key("Right");
    for _ in 0..2 {
        tmux.key("Left");
        tmux.shows("halted");
    }
    tmux.shows("Task parser: done");
    tmux.shows("I begin with the parser");
    tmux.key("Right");
    tmux.shows("Task printer: done");
    tmux.key("p");
    tmux.shows("this run has ended");
    tmux.key("q");
    tmux.ended("0");
}

#[test]
fn tui_follows_and_controls_another_run() {
    let sealed = project();
    let running = sealed.start_ralph(&["build"]);
    wait_until("the agent", || sealed.root().join("begun").exists());
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("log --tui --follow");
    tmux.shows("I begin with the parser");
    tmux.key("m");
    tmux.do_it(&["send-keys", "-l", "Mind the gap"]);
    tmux.key("Enter");
    let_continue(&sealed);
    running.wait_for_end().expect_code(0);
    tmux.shows("ended: complete");
    tmux.key("q");
    tmux.ended("0");
    assert!(sealed.prompts().iter().any(|prompt| prompt.contains("Mind the gap")));
}

#[test]
fn without_a_terminal_lines_are_printed_with_a_note() {
    let sealed = project();
    let_continue(&sealed);
    let ran = sealed.run_ralph(&["build", "--tui"]).expect_code(0);
    let ran = ran.expect_stderr("no full screen: stdin and the output are not terminals");
    ran.expect_stderr("Task printer: done");
    let ran = sealed.run_ralph(&["log", "--tui"]).expect_code(2);
    ran.expect_stderr("There can be no full screen here");
}

#[test]
fn dumb_terminal_gets_lines_with_a_note() {
    let sealed = project();
    let_continue(&sealed);
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.line("export TERM=dumb");
    tmux.ralph("build --tui");
    tmux.ended("0");
    let seen = tmux.do_it(&["capture-pane", "-p", "-S", "-100"]);
    assert!(seen.contains("no full screen: this terminal cannot move its cursor"), "{seen}");
}

#[test]
fn last_line_in_tmux_follows_the_agent_and_is_erased() {
    let sealed = project();
    let Some(tmux) = Tmux::start(&sealed) else { return };
    tmux.ralph("build");
    tmux.shows("I begin with the parser. 日本");
    let is_live = |screen: &str| {
        let last = screen.trim_end().lines().last().unwrap_or_default();
        last.contains(" 0:0") && last.contains("I begin with the parser")
    };
    wait_until("the live line", || is_live(&tmux.screen()));
    // A narrower terminal gets a shorter line, which does not wrap.
    tmux.resize(40, 24);
    wait_until("the narrow live line", || {
        let screen = tmux.screen();
        screen.trim_end().lines().last().is_some_and(|it| it.contains("0:0"))
    });
    tmux.resize(90, 24);
    let_continue(&sealed);
    tmux.ended("0");
    let screen = tmux.screen();
    assert!(screen.contains("tasks: 2 of 2 done"), "{screen}");
    assert!(!screen.lines().any(is_live), "it is erased: {screen}");
}
