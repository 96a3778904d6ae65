//! One scene: a project with its tools, an agent of kind `text`, and a list of one task.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::json;

/// Names the directory with the tools that `scripts/install-project-tools` installs.
const TOOLS: &str = "RALPH_TEST_TOOLS";

/// What every project ignores in git: what its tools make, and the agent's own counter.
const IGNORED: &str = "/calls\n.venv/\nnode_modules/\n__pycache__/\n*_cache/\nbuild/\ntarget/\n\
                       vendor/\n.phpunit.result.cache\n";

/// A project.
pub(super) struct ProjectStage {
    pub(super) sealed: Sealed,
    /// Where ralph is started, below the project directory of the environment or elsewhere.
    pub(super) directory: PathBuf,
    tools: Option<PathBuf>,
    /// Directories with further programs, for `PATH`.
    path: String,
    /// Another home than that of the environment.
    home: Option<PathBuf>,
}

impl ProjectStage {
    /// Returns a stage with these files, after a shell script that does what users did before:
    /// install dependencies, make lock files. `$TOOLS` is the directory with the tools. `None` if
    /// something is missing here, which is reported; CI must have all.
    pub(super) fn new(
        what: &str,
        programs: &[&str],
        files: &[(&str, &str)],
        prepare: &str,
    ) -> Option<Self> {
        let tools = env::var_os(TOOLS).map(PathBuf::from);
        let path = tools.as_ref().map(|it| it.join("bin").display().to_string());
        Self::open(path.unwrap_or_default(), None, what, programs, files, prepare)
    }

    /// Returns the same stage for a toolchain in the user's home.
    pub(super) fn in_home(
        home: PathBuf,
        bin: &str,
        programs: &[&str],
        files: &[(&str, &str)],
        prepare: &str,
    ) -> Option<Self> {
        let path = home.join(bin).display().to_string();
        Self::open(path, Some(home), bin, programs, files, prepare)
    }

    fn open(
        path: String,
        home: Option<PathBuf>,
        what: &str,
        programs: &[&str],
        files: &[(&str, &str)],
        prepare: &str,
    ) -> Option<Self> {
        let tools = env::var_os(TOOLS).map(PathBuf::from);
        let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph")).with_sandbox();
        let directory = sealed.project_dir();
        let stage = Self { sealed, directory, tools, path, home };
        let missing = programs.iter().find(|it| !stage.has_program(it));
        if let Some(program) = missing {
            assert!(env::var_os("CI").is_none(), "{what}: {program} is missing in CI");
            // Not with a macro: the test harness captures the output of passing tests.
            let _ = writeln!(
                std::io::stderr(),
                "LEFT OUT: {what}: {program} is missing (see scripts/install-project-tools)"
            );
            return None;
        }
        stage.sealed.write_file(".gitignore", IGNORED);
        for (path, text) in files {
            stage.sealed.write_file(path, text);
        }
        stage.run_script(prepare);
        Some(stage)
    }

    fn has_program(&self, name: &str) -> bool {
        let script = format!("test -e {name} || command -v {name} >/dev/null");
        self.command("sh").args(["-c", &script]).status().is_ok_and(|it| it.success())
    }

    /// Runs a shell script outside of a sandbox, as the user.
    #[track_caller]
    pub(super) fn run_script(&self, script: &str) -> String {
        let mut command = self.command("sh");
        command.args(["-euc", script]);
        let end = Running::start_command(command).wait_for_end().expect_code(0);
        end.stdout
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.sealed.build_command(program);
        command.current_dir(&self.directory);
        let bin = self.sealed.bin_dir();
        let directories =
            [bin.to_str().unwrap_or_default(), &self.path, "/usr/local/bin:/usr/bin:/bin"];
        command.env(
            "PATH",
            directories.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(":"),
        );
        command.envs(self.tools.iter().map(|tools| ("TOOLS", tools)));
        command.envs(self.home.iter().map(|home| ("HOME", home)));
        command
    }

    fn run_ralph(&self, words: &[&str]) -> Finished {
        let mut command = self.command(env!("CARGO_BIN_EXE_ralph"));
        command
            .args(words)
            .env("RALPH_AGENT_COMMAND", "worker")
            .env("RALPH_AGENT_KIND", "text")
            .env("RALPH_REVIEW_ENABLED", "false")
            .env("RALPH_RETRIES_BACKOFF", "10ms");
        Running::start_command(command).wait_for_end()
    }

    /// Sets ralph up and builds one task. `checks` are the commands that `ralph init --yes` finds;
    /// `work` is the shell script of the agent: code that returns `$answer`, and a test for it. In
    /// the first call the answer is wrong.
    #[track_caller]
    pub(super) fn build_one_task(&self, checks: &[&str], work: &str) -> Finished {
        self.sealed.write_program(
            "worker",
            &format!(
                "#!/bin/sh\nset -eu\ncat >/dev/null\nanswer=42\n\
                 test -e calls || answer=41\necho call >> calls\n{work}\necho Done.\n"
            ),
        );
        let task = json!({ "id": "T-1", "title": "Answer", "description": "Return 42.",
            "status": "pending", "acceptance_criteria": ["It is 42."], "depends_on": [] });
        let plan = json!({ "project": "p", "tasks": [task] });
        write(&self.directory.join("plan.json"), &plan.to_string());
        self.run_script("git add -A && git commit --quiet -m Project");
        let init = self.run_ralph(&["init", "--yes"]).expect_code(0);
        let found: Vec<&str> = init
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("found   ")?.rsplit_once(" ("))
            .map(|(command, _)| command)
            .filter(|it| !it.contains(" as the "))
            .collect();
        assert_eq!(found, checks, "{}{}", init.stdout, init.stderr);
        for check in checks {
            let line = format!("passed  {check}\n");
            assert!(init.stdout.contains(&line), "{}{}", init.stdout, init.stderr);
        }
        self.run_script("git add -A && git commit --quiet -m Settings");
        let before = self.run_script("git rev-list --count HEAD");
        let end = self.run_ralph(&["build"]).expect_code(0);
        let calls = self.run_script("cat calls");
        assert_eq!(calls.lines().count(), 2, "one failed attempt, one good one: {}", end.stderr);
        let landed = self.run_script("git rev-list --count HEAD");
        let count = |text: &str| text.trim().parse::<u32>().expect("a number");
        assert_eq!(count(&landed), count(&before) + 1, "one commit: {}", end.stderr);
        assert_eq!(self.run_script("git status --short"), "", "{}", end.stderr);
        assert!(end.stderr.contains("  sandbox "), "{}", end.stderr);
        assert!(!end.stderr.contains("  sandbox none"), "{}", end.stderr);
        end
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}
