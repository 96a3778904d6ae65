//! `ralph completions`: prints the shell script that calls this binary, and answers its calls.
//!
//! The script of the shell only asks; the candidates come from the current commands and the current
//! project. An answer writes no files; errors give no candidates. Not here: the commands themselves.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use ralph_agents as agents;
use ralph_io::store::runs;
use ralph_model::agent::{AgentKind, AgentOrigin};
use ralph_model::outcome::ExitStatus;

use super::help;
use crate::cli::{self, ColorChoice, CommonArgs, CompletionsArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::{screen, task_file};

/// The shell sets this variable to its name when it asks. No setting has this name.
const VARIABLE: &str = "RALPH_COMPLETE";

/// Most runs to offer.
const MAX_RUNS: usize = 50;

/// Prints the script for a shell.
pub(crate) fn main(args: &CompletionsArgs) -> Result<ExitStatus, CliError> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell.name());
    let written = shell.map(|it| {
        // Looked up on the PATH at each call: an update may move the binary, the script stays.
        it.write_registration(VARIABLE, "ralph", "ralph", "ralph", &mut script)
    });
    match written {
        Some(Ok(())) => {
            screen::print_data(&String::from_utf8_lossy(&script));
            Ok(ExitStatus::Complete)
        }
        Some(Err(_)) | None => Err(CliError::for_input(format!(
            "there are no completions for `{}`",
            args.shell.name()
        ))),
    }
}

/// Answers a shell that asks for completions.
pub(crate) fn answer_shell(words: &[OsString]) -> Option<ExitCode> {
    env::var_os(VARIABLE).filter(|it| !it.is_empty())?;
    let here = env::current_dir().ok();
    let asking =
        CompleteEnv::with_factory(build_command).var(VARIABLE).bin("ralph").completer("ralph");
    match asking.try_complete(words, here.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        // An error must not be printed into the line that the user is typing.
        Ok(false) | Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the commands with the candidates for their values.
fn build_command() -> Command {
    let is_blank = env::args_os().next_back().is_none_or(|word| word.is_empty());
    let command = add_candidates(cli::build_complete_command());
    if is_blank { hide_options(command) } else { command }
}

/// Hides options where there are values to choose from; a dash shows them.
fn hide_options(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_value = arg.is_positional();
        arg.hide(!is_value)
    });
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, hide_options))
}

fn add_candidates(command: Command) -> Command {
    let is_of_tasks = ["show", "set-status"].contains(&command.get_name());
    let is_help = command.get_name() == "help";
    let command = command.mut_args(|arg| match find_candidates(&arg, is_of_tasks, is_help) {
        Some(candidates) => arg.add(candidates),
        None => arg,
    });
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, add_candidates))
}

/// Returns the candidates for an argument, by its name.
fn find_candidates(arg: &Arg, is_of_tasks: bool, is_help: bool) -> Option<ArgValueCandidates> {
    match arg.get_id().as_str() {
        "run" => Some(ArgValueCandidates::new(list_runs)),
        "task" | "depends_on" | "after" => Some(ArgValueCandidates::new(list_tasks)),
        "id" if is_of_tasks => Some(ArgValueCandidates::new(list_tasks)),
        "status" if is_of_tasks => Some(ArgValueCandidates::new(list_statuses)),
        "agent" => Some(ArgValueCandidates::new(list_agents)),
        "words" if is_help => Some(ArgValueCandidates::new(list_topics)),
        "event" => Some(ArgValueCandidates::new(list_events)),
        _ => None,
    }
}

fn list_agents() -> Vec<CompletionCandidate> {
    let kinds = agents::ADAPTERS.iter().map(|adapter| adapter.kind);
    let named = kinds.filter(|kind| kind.origin() != AgentOrigin::Command);
    named.map(AgentKind::name).map(CompletionCandidate::new).collect()
}

fn list_statuses() -> Vec<CompletionCandidate> {
    ["pending", "done", "failed", "skipped"].map(CompletionCandidate::new).into()
}

fn list_events() -> Vec<CompletionCandidate> {
    let events =
        ["session-start", "pre-tool-use", "post-tool-use", "post-tool-batch", "stop", "explain"];
    events.map(CompletionCandidate::new).into()
}

fn list_topics() -> Vec<CompletionCandidate> {
    let topics = help::TOPICS
        .iter()
        .map(|it| CompletionCandidate::new(it.name).help(Some(it.title().to_owned().into())));
    let commands = cli::build_complete_command();
    let commands = commands.get_subcommands().filter(|it| !it.is_hide_set());
    let commands =
        commands.map(|it| CompletionCandidate::new(it.get_name()).help(it.get_about().cloned()));
    topics.chain(commands).collect()
}

fn list_runs() -> Vec<CompletionCandidate> {
    let Some((project, loaded)) = open_typed_project() else { return Vec::new() };
    let Ok(layout) = project.find_layout(&loaded) else { return Vec::new() };
    let runs = runs::list_runs(layout.state()).into_iter().take(MAX_RUNS);
    runs.map(|run| {
        let outcome = run.outcome.map_or("not ended".to_owned(), |it| it.to_string());
        CompletionCandidate::new(run.id.0).help(Some(outcome.into()))
    })
    .collect()
}

fn list_tasks() -> Vec<CompletionCandidate> {
    let Some((project, loaded)) = open_typed_project() else { return Vec::new() };
    let named = find_option_value(&["--plan"]);
    let file = task_file::read_task_file(&project, &loaded.settings, named.as_deref());
    let Ok(file) = file else { return Vec::new() };
    let tasks = file.list().tasks.iter();
    tasks
        .map(|task| {
            let description = format!("{}: {}", task.status, task.title);
            CompletionCandidate::new(task.id.to_string()).help(Some(description.into()))
        })
        .collect()
}

/// Returns the project of the typed line.
fn open_typed_project() -> Option<(Project, LoadedSettings)> {
    let directory =
        find_option_value(&["-C", "--project-dir"]).unwrap_or_else(|| PathBuf::from("."));
    let common = CommonArgs {
        project_dir: Some(directory),
        quiet: true,
        verbose: false,
        color: ColorChoice::Never,
    };
    let project = Project::open(&common).ok()?;
    let config = find_option_value(&["--config"]);
    let loaded = project.load_settings(config.as_deref(), Vec::new()).ok()?;
    Some((project, loaded))
}

/// Returns the value of an option on the typed line.
fn find_option_value(names: &[&str]) -> Option<PathBuf> {
    let words: Vec<OsString> = env::args_os().collect();
    let separate = words.windows(2).find_map(|pair| {
        let is_named = names.iter().any(|name| pair[0] == OsStr::new(name));
        is_named.then(|| PathBuf::from(&pair[1]))
    });
    let joined = || {
        let words = words.iter().filter_map(|word| word.to_str());
        let mut values = words.filter_map(|word| {
            names.iter().find_map(|name| word.strip_prefix(name)?.strip_prefix('='))
        });
        values.next().map(PathBuf::from)
    };
    separate.or_else(joined)
}
