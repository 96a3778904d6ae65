//! The commands: parses the command line, runs the command, and returns its exit code.

mod archive;
mod build;
mod clean;
mod clones;
mod completions;
mod context;
mod control;
mod demo;
mod doctor;
mod dry_run;
mod git_worker_host;
mod help;
pub(crate) mod hook;
mod init;
mod log;
mod man;
pub(crate) mod mcp;
mod memory;
mod network;
mod notify;
mod otel;
mod pages;
mod plan;
mod plugin;
mod prompt;
mod remote_worker;
mod report;
mod resume;
mod run;
mod sandbox;
mod serve;
mod specs;
mod stats;
mod status;
mod tasks;
mod trust;
mod worker;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use ralph_io::gates::GateSlots;
use ralph_io::sandbox::{SETUP_ERROR_PREFIX, SETUP_FAILED_CODE};
use ralph_model::outcome::ExitStatus;

use crate::cli::memory::McpServerChoice;
use crate::cli::{self, CliCommand, CommonArgs, WELCOME};
use crate::cli_error::CliError;
use crate::enclosing_project;
use crate::screen::{self, OutputStyle};
use crate::session::WARDEN_COMMAND;

/// Runs the command of the command line.
pub(crate) fn run_command_line(arguments: Vec<OsString>) -> ExitCode {
    // A hook runs after every tool call of a session; parsing the command line with clap would
    // take longer than the hook itself.
    if let [_, command, event] = arguments.as_slice()
        && command == "hook"
        && let Some(event) = event.to_str().filter(|it| !it.starts_with('-') && *it != "explain")
    {
        return hook::answer_hook(event);
    }
    // Every sandboxed child starts through one of these.
    if let Some(ended) =
        ralph_io::sandbox::run_hidden_command(arguments.get(1..).unwrap_or_default())
    {
        return ended.unwrap_or_else(|error| {
            screen::print_line(&format!("{SETUP_ERROR_PREFIX}{error}"));
            SETUP_FAILED_CODE.into()
        });
    }
    // It starts beside the first agent of every run.
    if let [_, command, run] = arguments.as_slice()
        && command == WARDEN_COMMAND
    {
        return ralph_io::process::warden::run_warden(&run.to_string_lossy());
    }
    // A shell asks for completions.
    if arguments.get(1).is_some_and(|word| word == "--")
        && let Some(code) = completions::answer_shell(&arguments)
    {
        return code;
    }
    let mut cli = match cli::parse_command_line(arguments) {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&error),
    };
    enclosing_project::start_in_project_above(&mut cli);
    let common = &cli.common;
    let Some(command) = cli.command else {
        screen::print_data(WELCOME);
        return fail_if_output_is_lost(common, ExitStatus::Complete).code().into();
    };
    let result = match command {
        CliCommand::Sim { scenario } => return run_scripted_agent(&scenario),
        CliCommand::Mcp(args) => match args.server {
            McpServerChoice::Memory { file } => {
                return mcp::serve_memory(common.directory(), file.as_deref());
            }
        },
        CliCommand::Hook(args) if args.event != "explain" => return hook::answer_hook(&args.event),
        CliCommand::Sandbox(args) => match sandbox::main(common, &args) {
            Ok(code) if screen::find_stdout_error().is_none() => return code,
            Ok(_) => Ok(ExitStatus::Complete),
            Err(complaint) => Err(complaint),
        },
        CliCommand::Archive(args) => archive::main(common, &args),
        CliCommand::Build(args) => build::main(common, &args),
        CliCommand::Clean(args) => clean::main(common, &args),
        CliCommand::Clones(args) => clones::main(common, &args),
        CliCommand::Completions(args) => completions::main(&args),
        CliCommand::Connect { host, port } => network::connect_through_proxy(&host, port),
        CliCommand::Context(args) => context::main(common, &args),
        CliCommand::Demo(args) => demo::main(common, &args),
        CliCommand::Doctor(args) => doctor::main(common, &args),
        CliCommand::Go(args) => control::continue_run(common, &args),
        CliCommand::Help(args) => help::main(common, &args),
        CliCommand::Hook(args) => hook::explain::explain_command(common, &args),
        CliCommand::Init(args) => init::main(common, &args),
        CliCommand::Log(args) => log::main(common, &args),
        CliCommand::Man(args) => man::main(common, &args),
        CliCommand::Memory(args) => memory::main(common, &args),
        CliCommand::Note(args) => control::leave_note(common, &args),
        CliCommand::Notify(args) => notify::main(common, &args),
        CliCommand::Otel(args) => otel::export_run(common, &args),
        CliCommand::Pause(args) => control::pause_run(common, &args),
        CliCommand::Plan(args) => plan::main(common, &args),
        CliCommand::Plugin(args) => plugin::main(common, &args),
        CliCommand::Prompt(args) => prompt::main(common, &args),
        CliCommand::Report(args) => report::main(common, &args),
        CliCommand::Resume(args) => resume::main(common, &args),
        CliCommand::Run(args) => run::main(common, &args),
        CliCommand::Serve(args) => serve::main(common, &args),
        CliCommand::Stats(args) => stats::main(common, &args),
        CliCommand::Skip(args) => control::skip_task(common, &args),
        CliCommand::Status(args) => status::main(common, &args),
        CliCommand::Stop(args) => control::stop_run(common, &args),
        CliCommand::Tasks(args) => tasks::main(common, &args),
        CliCommand::Trust(args) => trust::main(common, &args),
        CliCommand::Worker { shared, gate_slots, config } => {
            let slots = GateSlots { directory: shared, count: gate_slots };
            worker::main(common, slots, config.as_deref())
        }
        CliCommand::WorkerHost(args) if args.git => git_worker_host::main(common, &args.over_git),
        CliCommand::WorkerHost(args) => {
            let directory = args.shared.unwrap_or_default();
            let slots = GateSlots { directory, count: args.gate_slots };
            worker::serve_jobs(common, &slots, args.config.as_deref())
        }
        CliCommand::RemoteWorker(args) => remote_worker::main(common, &args),
    };
    let status = result.unwrap_or_else(|complaint| {
        OutputStyle::without_settings(common).print_error(&complaint);
        complaint.status
    });
    fail_if_output_is_lost(common, status).code().into()
}

/// Reports data that could not be written to stdout, such as on a full disk. A run itself prints
/// none: it continues without its terminal.
fn fail_if_output_is_lost(common: &CommonArgs, status: ExitStatus) -> ExitStatus {
    let Some(error) = screen::find_stdout_error() else { return status };
    let complaint = CliError::new(
        ExitStatus::Incomplete,
        format!("the output is not complete: cannot write to stdout: {error}"),
    );
    OutputStyle::without_settings(common).print_error(&complaint);
    if status == ExitStatus::Complete { complaint.status } else { status }
}

/// Runs the scripted agent.
fn run_scripted_agent(scenario: &Path) -> ExitCode {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    ralph_io::sim::play_scenario(scenario, std::io::stdin(), &env)
}

/// Prints help and version as data, and mistakes in the command line as clap formats them.
fn print_clap_error(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return ExitStatus::BadInput.code().into();
    }
    if let Err(error) = printed {
        screen::record_stdout_error(&error);
    }
    fail_if_output_is_lost(&CommonArgs::default(), ExitStatus::Complete).code().into()
}
