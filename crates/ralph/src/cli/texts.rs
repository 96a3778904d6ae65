//! The longer help texts: those after the options of a command, and the output of `ralph` alone.
//!
//! Not here: the options and their own lines.

pub(super) const EXIT_CODES: &str = "\
Exit codes:
    0  the work is complete
    1  it stopped before completion: iterations, time or cost used up, or tasks failed
    2  bad settings or arguments, or a prompt is missing
    3  another run is active in this work tree
    4  the agent failed more often than its retries, or cannot run at all
    5  a git operation failed
  130  interrupted

`ralph help TOPIC` explains: agents, cost, exit-codes, files, gates, overnight, parallel, prompts,
sandbox, settings, tasks, variables. `ralph help COMMAND` shows the options of a command.";

pub(super) const RUNNING: &str = "\
Examples:
  ralph run \"Make the tests pass.\"
  ralph run -f PROMPT.md -m 30 --max-cost 5
  ralph run -f PROMPT.md --dry-run           what would be done; does nothing

Ctrl-C stops it after its current step, and `ralph resume` continues. `ralph help exit-codes` lists
the exit codes, `ralph help prompts` says what makes a good prompt.";

pub(super) const LOOKING_BACK: &str = "\
Examples:
  ralph log --follow                a run of another terminal, and what its agent does
  ralph log --tui --follow          the same on the full screen
  ralph log --task US-003           all that happened to one task
  ralph log --iteration 4 --raw     what the agent wrote in iteration 4
  ralph log --json --since 2h       the events of two hours, for a program";

pub(super) const DOCTOR_CODES: &str = "\
Exit codes:
    0  every agent in the settings can be called
    2  there are mistakes in the settings, or they ask for what you did not accept
    4  no agent is set, or one is not installed or cannot run
    5  there is a git repository that git cannot use";

pub(super) const PLANNING: &str = "\
From specifications: the agent writes .ralph/implementation_plan.md, and reports when it covers
them all. From requirements: it writes ralph/tasks.json, which is then validated; mistakes go back
to the agent until there are none, or the iterations are used up; then the old file is restored.
In both, all other changes of the agent are reverted.

`workflow` in the settings says which it is. Where it does not, a task file or ralph/prd.md means a
task list, and else a directory `specs` means specifications.";

pub(super) const BUILDING: &str = "\
Examples:
  ralph build 40 --max-cost 20        at most 40 iterations and 20 dollars
  ralph build -j 4                    up to four tasks at the same time
  ralph build --task US-003           only this task

With an implementation plan, the agent chooses one open item in each iteration, does it, commits,
and reports when all is done. With a task list, ralph chooses, checks and commits.

`workflow` in the settings says which it is. Where it does not, a task file or ralph/prd.md means a
task list, and else .ralph/implementation_plan.md or a directory `specs` means a plan.";

pub(super) const TEMPLATES: &str = "\
In the file ${NAME} is a variable: one of `vars` in the settings, or MODE, SPECS_DIR, PLAN_FILE,
SIGNAL, ITERATION, MAX_ITERATIONS, GATES; $$ is a dollar. The file is read again each iteration.
It must say that the agent is to answer <promise>COMPLETE</promise> when it is done; else the exit
code is 1.";

pub(super) const ARCHIVING: &str = "\
prd.md, tasks.json and progress.txt go to ralph-archive/<date>-<branch or label>/, with a summary of
the results of the tasks. Archive and fresh documents are committed, and nothing else.";

pub(super) const CLEANING: &str = "\
Commits, branches and your files stay, and so does a run for which changes are set aside. Work that
a run saved stays under refs/ralph/kept/, unless --kept is given. A removed run can no longer be
resumed or reported.

With --clones it removes the clones of workers, with their build caches, and nothing else. A clone
that a process uses, or with work on no branch or ref of the project, stays; ralph lists it and
exits with 1.";

pub(super) const SCAFFOLD: &str = "\
Without --yes, --workflow or --from it asks on a terminal, and writes only after the last answer.
Otherwise it asks nothing: the agent is the first one that is installed, and the gates are what the
project's own files name for its tests, lint and types. Existing files are kept.

--from reads the project of another loop (prd.json, fix_plan.md, a shell script around an agent) and
writes what ralph needs next to it; nothing of it is changed.

Exit codes:
    0  written, or you kept the settings that were there
    2  no terminal to ask on, nothing to migrate from, or something is in the way
    3  a run is active here
  130  Ctrl-C or the end of input at a question: nothing is written";

pub(super) const TOPICS: &str = "\
Topics: agents, cost, exit-codes, files, gates, overnight, parallel, prompts, sandbox, settings,
tasks, variables.";

pub(super) const COMPLETING: &str = "\
To load it in every new shell:
  bash        echo 'source <(ralph completions bash)' >> ~/.bashrc
  zsh         echo 'source <(ralph completions zsh)' >> ~/.zshrc
  fish        echo 'ralph completions fish | source' >> ~/.config/fish/config.fish
  elvish      echo 'eval (ralph completions elvish | slurp)' >> ~/.elvish/rc.elv
  powershell  ralph completions powershell | Out-String | Invoke-Expression    (in $PROFILE)";

pub(super) const SERVING: &str = "\
The address holds a secret: anyone who has it may see the runs and stop them. It works on this
machine only; over SSH, forward the same port: ssh -L 7777:127.0.0.1:7777 HOST, and --port 7777
there. Ctrl-C ends it. Watching does not affect runs.";

pub(super) const TRUSTING: &str = "\
The settings of a repository that you cloned could switch off the sandbox, run programs outside of
it, read files outside of the project, or start a program with your login. So a project's settings
may tighten your own values of `sandbox` and `guard` (or the defaults), but not loosen them, and do
nothing of the kind without your trust. `ralph trust` shows what the settings would do and asks. It
asks again when a setting changes, or the content of a program or of a list of MCP servers.

Exit codes:
    0  the project is trusted with all that its settings ask for
    1  you said no
    2  there is no terminal to ask on, or there are mistakes in the settings";

pub(super) const PLUGIN_CODES: &str = "\
Exit codes:
    0  done; validate: there are no mistakes
    2  something is in the way, or there are mistakes
    4  `claude` is installed, but refused";

/// What `ralph` alone prints.
pub(crate) const WELCOME: &str = "\
ralph drives any coding-agent CLI in a loop until the work is really done.

Three commands to start with:

  ralph demo                 watch a whole loop with the built-in scripted agent:
                             no account, no network, about ten seconds
  ralph init                 get a project ready: a few questions, then settings
  ralph run -p \"TEXT\"        loop your agent on a prompt until your gates pass
                             and it says it is done

ralph help lists every command, and explains topics.
";

pub(super) const RESUMING: &str = "\
A run that has ended or crashed continues in this terminal, a paused run in its own.";

pub(super) const PAUSING: &str = "\
An answer of an agent is checked and landed first. `ralph resume` continues, `ralph stop` stops.
Pauses do not count as running time. Exit code 1 if no run is active.";

pub(super) const CONTINUING: &str = "\
For a paused run. To continue one that ended or crashed, use `ralph resume`. Exit code 1 if no run
is active, or it is not paused.";

pub(super) const STOPPING: &str = "\
The run ends with exit code 130, as after the first Ctrl-C: the current step finishes first.
With --now the agent or gate is ended, as by a second Ctrl-C. `ralph resume` continues. Exit
code 1 if no run is active.";

pub(super) const NOTING: &str = "\
The note becomes a section of the next prompt of a working agent, and only of that one. At most 4000
characters; put longer text into a file and name it in the note. Exit code 1 if no run is active,
2 if the note is empty or too long.";

pub(super) const NOTIFYING: &str = "\
Exit codes:
    0  every channel accepted the notification, or nothing was tested
    1  one did not
    2  none is set, or bad settings";

pub(super) const WORKING: &str = "\
A run with `ralph build --worker-host` starts this on a machine with the project's agents and tools,
for example over ssh. The directory is a clone of the project, or an empty one. Agents,
sandbox and clone settings are those of this machine's user; `ralph trust` accepts what the
project's settings ask for.

Exit codes:
    0  the result is on the remote
    1  the worker was lost; another attempt may help
    2  the job is refused: another version, an agent that is not set up, settings without trust
    3  the job was canceled, or another attempt has begun
    5  the result could not be pushed; the same command tries again without asking an agent
  130  stopped by a signal";

// The help of `--maximum-iterations` where the default of `ralph run` does not apply.
pub(super) const PROMPT_LIMIT: &str = "Stop after this many iterations [default: 50]";
pub(super) const PLAN_LIMIT: &str =
    "Stop after this many iterations [default: 50 from specs, 3 for a task list]";
pub(super) const BUILD_LIMIT: &str =
    "Stop after this many iterations [default: 50 for a plan, 15 for a task list]";
pub(super) const RESUME_LIMIT: &str =
    "Stop after this many iterations in total [default: the limit of the run]";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    /// A longer line would be wrapped again, in the middle of a paragraph.
    const WIDTH: usize = 100;

    fn check(command: &Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in text.lines() {
            let width = line.chars().count();
            assert!(width <= WIDTH, "{}: {width} columns: {line}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn texts_after_the_options_fit_the_width_of_the_help() {
        let mut command = crate::cli::Cli::command();
        // Deferred commands exist only once they are built.
        command.build();
        assert!(command.get_subcommands().count() > 20);
        check(&command);
    }
}
