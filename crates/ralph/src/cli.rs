//! The command line, parsed by clap, with its help texts.
//!
//! Not here: what a command does, and settings that come from files.

mod clean;
mod context;
pub(crate) mod control;
mod guidance;
mod init;
pub(crate) mod memory;
pub(crate) mod notify;
mod plugin;
mod prompt_name;
pub(crate) mod sandbox;
mod serve;
pub(crate) mod stats;
mod tasks;
mod texts;
mod trust;
mod tui;
mod workers;

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use clean::{CleanArgs, ClonesArgs};
pub(crate) use context::ContextArgs;
pub(crate) use guidance::{
    CompletionsArgs, HelpArgs, ManArgs, build_complete_command, parse_command_line,
};
pub(crate) use init::{InitArgs, ReviewGateChoice};
pub(crate) use plugin::{PluginArgs, PluginCommand, PluginInstallArgs};
pub(crate) use prompt_name::PromptName;
pub(crate) use serve::ServeArgs;
pub(crate) use tasks::{
    ProposalsCommand, TasksAddArgs, TasksArgs, TasksCommand, TasksStatusArgs, TasksValidateArgs,
};
pub(crate) use texts::WELCOME;
pub(crate) use trust::TrustArgs;
pub(crate) use tui::TuiArgs;
pub(crate) use workers::{GitHostArgs, RemoteWorkerArgs, WorkerHostArgs};

use guidance::read_count;
use texts::{
    ARCHIVING, BUILDING, CLEANING, COMPLETING, CONTINUING, DOCTOR_CODES, EXIT_CODES, LOOKING_BACK,
    NOTIFYING, NOTING, PAUSING, PLANNING, PLUGIN_CODES, RESUMING, RUNNING, SCAFFOLD, SERVING,
    STOPPING, TEMPLATES, TOPICS, TRUSTING, WORKING,
};
use texts::{BUILD_LIMIT, PLAN_LIMIT, PROMPT_LIMIT, RESUME_LIMIT};

use crate::settings::types::sandbox::SandboxBackendSetting;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "ralph",
    version,
    about = "Drives any coding-agent CLI in a loop until the work is really done",
    disable_version_flag = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = EXIT_CODES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
    /// Print the version.
    #[arg(short = 'V', long = "version", action = ArgAction::Version)]
    version: Option<bool>,
}

/// Heading of the options of every command, last in the help.
const COMMON_HEADING: &str = "Options of every command";

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CommonArgs {
    /// Work in this directory, not in the current one.
    #[arg(short = 'C', long, value_name = "DIR", global = true, help_heading = COMMON_HEADING)]
    pub(crate) project_dir: Option<PathBuf>,
    /// Print only errors and how the run ended.
    #[arg(short, long, global = true, help_heading = COMMON_HEADING, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more: settings, command lines, prompts, timings.
    #[arg(short, long, global = true, help_heading = COMMON_HEADING)]
    pub(crate) verbose: bool,
    /// When to use color: auto, always or never.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        global = true,
        help_heading = COMMON_HEADING
    )]
    pub(crate) color: ColorChoice,
}

impl CommonArgs {
    /// Returns the directory to work in.
    pub(crate) fn directory(&self) -> &Path {
        self.project_dir.as_deref().unwrap_or(Path::new("."))
    }
}

/// When to use color.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CliCommand {
    /// Loop a prompt until your gates pass and the agent reports that it is done.
    #[command(after_help = RUNNING)]
    Run(RunArgs),
    /// Loop a prompt file with variables in it until the agent gives the completion signal.
    #[command(after_help = TEMPLATES)]
    Prompt(PromptArgs),
    /// Let the agent make a plan from specs/, or a task list from ralph/prd.md.
    #[command(after_help = PLANNING)]
    Plan(PlanArgs),
    /// Let the agent do the plan, or the task list one task at a time.
    #[command(after_help = BUILDING)]
    Build(BuildArgs),
    /// Resume a paused, interrupted or crashed run exactly where it stopped.
    #[command(after_help = RESUMING)]
    Resume(ResumeArgs),
    /// Ask the active run to pause after its current step; you may edit files then.
    #[command(after_help = PAUSING)]
    Pause(control::HaltArgs),
    /// Let a paused run continue.
    #[command(after_help = CONTINUING, hide = true)]
    Go(control::GoArgs),
    /// Ask the active run to stop after its current step, like Ctrl-C; it can be resumed.
    #[command(after_help = STOPPING)]
    Stop(control::StopArgs),
    /// Skip a task of the active run; work on it so far is kept on a branch.
    Skip(control::SkipArgs),
    /// Leave a note for the next agent of the active run.
    #[command(after_help = NOTING)]
    Note(control::NoteArgs),
    /// Show the status of the active or last run of this directory.
    Status(StatusArgs),
    /// Show what happened in a run, step by step, or follow the active one.
    #[command(after_help = LOOKING_BACK)]
    Log(LogArgs),
    /// Show the report of a run: what was done, what failed and why, what it cost.
    Report(ReportArgs),
    /// Show figures over all runs: what landed, attempts, rejections, cost and time.
    Stats(stats::StatsArgs),
    /// Show runs live in a browser on this machine, with buttons to pause, stop and steer them.
    #[command(after_help = SERVING)]
    Serve(ServeArgs),
    /// Show what the next prompt would be and what each of its sections costs; start nothing.
    Context(ContextArgs),
    /// List, show, add and change the tasks of a task file, in either of its formats.
    Tasks(TasksArgs),
    /// Archive a task list and its documents, and start with fresh ones.
    #[command(after_help = ARCHIVING)]
    Archive(ArchiveArgs),
    /// Remove the files of old runs of this directory: journals, streams, logs and refs.
    #[command(after_help = CLEANING)]
    Clean(CleanArgs),
    /// List the clones that workers of `ralph build --jobs` use, and unsaved work in them.
    Clones(ClonesArgs),
    /// Do one task for a run on another machine: fetch it from the git remote, push the result.
    #[command(name = "worker", after_help = WORKING)]
    RemoteWorker(RemoteWorkerArgs),
    /// Check agents, logins, git and this machine, and report how to fix problems.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(DoctorArgs),
    /// Show what a project's settings would run, read or loosen, and ask you to accept it.
    #[command(after_help = TRUSTING)]
    Trust(TrustArgs),
    /// Install, write out or check the Claude Code plugin that ships inside this binary.
    #[command(after_help = PLUGIN_CODES)]
    Plugin(PluginArgs),
    /// Watch a complete loop in a throw-away repository with the built-in scripted agent.
    #[command(display_order = 0)]
    Demo(DemoArgs),
    /// Set up a project: ask a few questions, or with --yes detect agent and checks.
    #[command(after_help = SCAFFOLD, display_order = 0)]
    Init(InitArgs),
    /// Explain a topic or a command.
    #[command(after_help = TOPICS)]
    Help(HelpArgs),
    /// Print the shell completion script for ralph: commands, options, tasks, runs.
    #[command(after_help = COMPLETING)]
    Completions(CompletionsArgs),
    /// Print the manual page of ralph, or write those of all commands into a directory.
    Man(ManArgs),
    /// Show, search or draw the knowledge graph that agents of this project maintain.
    Memory(memory::MemoryArgs),
    /// Serve the knowledge graph of this project to an agent, over MCP on stdin and stdout.
    Mcp(memory::McpArgs),
    /// Show the notification channels of runs, or test them with a notification.
    #[command(after_help = NOTIFYING)]
    Notify(notify::NotifyArgs),
    /// Send a run to an OpenTelemetry collector, after it is over.
    Otel(notify::OtelArgs),
    /// Show what agents and gates of this project can reach, or run a command in their sandbox.
    Sandbox(sandbox::SandboxArgs),
    /// Answer a hook of Claude Code, or explain how the guard judges a command.
    Hook(HookArgs),
    /// The scripted agent's own process.
    #[command(name = "__sim", hide = true)]
    Sim {
        /// The scenario.
        scenario: PathBuf,
    },
    /// Connect stdin and stdout to a host, through the proxy of the sandbox.
    #[command(name = "__connect", hide = true)]
    Connect {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A worker of a parallel run; its job is on stdin.
    #[command(name = "__worker", hide = true)]
    Worker {
        /// The directory that the workers of the run share.
        shared: PathBuf,
        /// How many gates run at the same time.
        #[arg(long, default_value_t = 1)]
        gate_slots: u32,
        /// The settings file of the run.
        #[arg(long)]
        config: Option<PathBuf>,
    },
    /// A worker host of a parallel run: on this machine, or one that passes jobs to others.
    #[command(name = "__workers", hide = true)]
    WorkerHost(WorkerHostArgs),
}

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The prompt; the same as --prompt.
    #[arg(value_name = "PROMPT", conflicts_with = "prompt")]
    pub(crate) words: Option<String>,
    /// The prompt.
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// A file with the prompt; it is read again for each iteration.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// What the agent answers in `<response>` tags when it is done [default: DONE].
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) completion_response: Option<String>,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// Limits of a run, which may be changed when it is resumed.
#[derive(Debug, Clone, Args)]
pub(crate) struct LimitArgs {
    /// The agent: a command such as claude.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model the agent is to use.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Stop after this many iterations [default: 10].
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        allow_negative_numbers = true,
        visible_short_alias = 'n',
        visible_alias = "max-iterations"
    )]
    pub(crate) maximum_iterations: Option<u32>,
    /// Stop when this much money is spent, as the agent reports it.
    #[arg(
        long,
        value_name = "USD",
        value_parser = guidance::parse_amount,
        allow_negative_numbers = true
    )]
    pub(crate) max_cost: Option<f64>,
    /// Stop when this many tokens are used, as the agent reports them.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::builder::RangedI64ValueParser::<u64>::new().range(1..),
        allow_negative_numbers = true
    )]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after this long, such as 90m or 7h; waits for a usage limit do not count.
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub(crate) max_time: Option<String>,
    /// Exit with 0 when iterations or a budget are used up before the work is complete.
    #[arg(long)]
    pub(crate) allow_incomplete: bool,
    /// Send spans and metrics to an OpenTelemetry collector.
    #[arg(long)]
    pub(crate) otel: bool,
}

/// Options of `prompt`.
#[derive(Debug, Args)]
#[command(mut_arg("maximum_iterations", |it| it.help(PROMPT_LIMIT)))]
pub(crate) struct PromptArgs {
    /// The template file.
    pub(crate) file: PathBuf,
    /// Stop after this many iterations [default: 50].
    #[arg(value_name = "N", value_parser = read_count(1..), allow_negative_numbers = true)]
    pub(crate) count: Option<u32>,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// Options of `plan`.
#[derive(Debug, Args)]
#[command(mut_arg("maximum_iterations", |it| it.help(PLAN_LIMIT)))]
pub(crate) struct PlanArgs {
    /// Stop after this many iterations [default: 50 from specs, 3 for a task list].
    #[arg(value_name = "N", value_parser = read_count(1..), allow_negative_numbers = true)]
    pub(crate) count: Option<u32>,
    /// Plan a task list again although work on it has begun; the list is kept as a backup.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// Options of `build`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
#[command(mut_arg("maximum_iterations", |it| it.help(BUILD_LIMIT)))]
pub(crate) struct BuildArgs {
    /// Stop after this many iterations [default: 50 for a plan, 15 for a task list]; with --task,
    /// give the task this many attempts.
    #[arg(value_name = "N", value_parser = read_count(1..), allow_negative_numbers = true)]
    pub(crate) count: Option<u32>,
    /// Do only this task.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// The task file, instead of the one that is found.
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Work on up to N tasks of the list at the same time, each in a clone of its own [default: 1].
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = read_count(1..=64),
        allow_negative_numbers = true
    )]
    pub(crate) jobs: Option<u32>,
    /// Where those tasks are done: local, a name from the settings, or a command [default: local].
    #[arg(long, value_name = "NAME|COMMAND")]
    pub(crate) worker_host: Option<String>,
    /// Count a task as done once its gates pass, without a review by a fresh agent.
    #[arg(long)]
    pub(crate) skip_review: bool,
    /// Approve a task at review N even if it requests changes, and mark it in the report [default: 5].
    #[arg(long, value_name = "N", value_parser = read_count(1..), allow_negative_numbers = true)]
    pub(crate) review_cap: Option<u32>,
    /// Multiply every timeout.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) timeout_multiplier: Option<f64>,
    /// Try failed tasks again.
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Start a failed task from the work on its failure branch.
    #[arg(long, conflicts_with = "fresh", requires = "task")]
    pub(crate) from_shelf: bool,
    /// Start a failed task from scratch, and archive its failure branch.
    #[arg(long, requires = "task")]
    pub(crate) fresh: bool,
    /// Switch to this branch first, or to the one that the task list names; create it if needed.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        require_equals = true
    )]
    pub(crate) branch: Option<String>,
    /// Print the prompt template of a role, as a start for your own, and do nothing else.
    #[arg(long, value_name = "NAME")]
    pub(crate) print_prompt: Option<PromptName>,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// Options of every command that starts a run.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// Show the agent's work as it happens; this is the default.
    #[arg(long, overrides_with = "no_stream_agent_output")]
    pub(crate) stream_agent_output: bool,
    /// Ask the agent for its final text only, and do not show its work.
    #[arg(long)]
    pub(crate) no_stream_agent_output: bool,
    #[command(flatten)]
    pub(crate) tui: TuiArgs,
    /// Read settings from this file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Isolate agent and gates with auto, sbx, native, bwrap, container, landlock or guard; auto
    /// takes the strongest that works here.
    #[arg(
        long,
        value_name = "BACKEND",
        num_args = 0..=1,
        default_missing_value = "auto",
        require_equals = true,
        hide_possible_values = true
    )]
    pub(crate) sandbox: Option<SandboxBackendSetting>,
    /// Run agent and gates without a sandbox, with your full rights on this machine.
    #[arg(long, conflicts_with = "sandbox")]
    pub(crate) no_sandbox: bool,
    /// Show the first prompt, its command line, the gates and the git actions; start no agent and change
    /// nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Start although there are uncommitted changes; they become part of the first commit.
    #[arg(long, conflicts_with = "set_aside")]
    pub(crate) include_dirty: bool,
    /// Set uncommitted changes aside on a private ref, and restore them at the end.
    #[arg(long)]
    pub(crate) set_aside: bool,
}

/// Options of `resume`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
#[command(mut_arg("maximum_iterations", |it| it.help(RESUME_LIMIT)))]
pub(crate) struct ResumeArgs {
    /// The run; without it, the last one of this directory.
    pub(crate) run: Option<String>,
    /// List the runs that can be resumed, those of moved directories included.
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) tui: TuiArgs,
    /// Read the state directory from this settings file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show what would be done next; start no agent and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Resume although there are uncommitted changes; they become part of the next commit.
    #[arg(long, conflicts_with = "set_aside")]
    pub(crate) include_dirty: bool,
    /// Set uncommitted changes aside on a private ref, and restore them at the end.
    #[arg(long)]
    pub(crate) set_aside: bool,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow it until the run ends: drawn in place on a terminal, else again when it changed.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Options of `log`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is there or it is not")]
pub(crate) struct LogArgs {
    /// The run; without it, the last one of this directory.
    pub(crate) run: Option<String>,
    /// Print new events as long as the run is active.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// With --follow: also wait while the run is not active, and continue when it is resumed.
    #[arg(long, requires = "follow")]
    pub(crate) forever: bool,
    /// Show only this iteration.
    #[arg(long, value_name = "N")]
    pub(crate) iteration: Option<u32>,
    /// Show only what is about this task.
    #[arg(long, value_name = "ID", conflicts_with = "raw")]
    pub(crate) task: Option<String>,
    /// Show only what happened since then: 90m, 12h, 7d, 2w, a time such as 23:15, or a date.
    #[arg(long, value_name = "TIME", conflicts_with = "raw")]
    pub(crate) since: Option<String>,
    /// Print the events as they are in the journal, one JSON object a line.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) json: bool,
    /// Print what the agent itself wrote.
    #[arg(long, conflicts_with = "follow")]
    pub(crate) raw: bool,
    /// Replay the run on a full screen; with --follow, watch an active one.
    #[arg(long, conflicts_with_all = ["json", "raw"])]
    pub(crate) tui: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run; without it, the last one of this directory.
    pub(crate) run: Option<String>,
    /// Report what the workers on this task did, in a run with --jobs.
    #[arg(long, value_name = "ID", conflicts_with = "html")]
    pub(crate) task: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with charts and diffs that needs nothing but a browser; - is stdout
    /// [default: .ralph/report-RUN.html].
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "json",
        num_args = 0..=1,
        default_missing_value = DEFAULT_PAGE
    )]
    pub(crate) html: Option<PathBuf>,
    /// Open the page in a browser; implies --html.
    #[arg(long, conflicts_with_all = ["json", "task"])]
    pub(crate) open: bool,
}

/// The file of a report's page; `RUN` is the id of the run.
pub(crate) const DEFAULT_PAGE: &str = ".ralph/report-RUN.html";

/// Options of `archive`.
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// The name of the archive after the date [default: the branch of the list].
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Check this agent as the one of the settings: a command such as claude.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print facts as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read settings from this file instead of .ralph/settings.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the repository of the demo and print its path.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Skip the pauses that make it easier to watch.
    #[arg(long)]
    pub(crate) fast: bool,
    /// Show a list of tasks, with up to N of them at the same time.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=8))]
    pub(crate) jobs: Option<u32>,
}

/// `ralph hook`.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// session-start, pre-tool-use, post-tool-use, post-tool-batch or stop: one JSON object on
    /// stdin, at most one on stdout. Or `explain`.
    pub(crate) event: String,
    /// The shell command to explain.
    pub(crate) command: Option<String>,
    /// Explain as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
