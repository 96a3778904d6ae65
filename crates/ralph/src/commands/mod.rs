//! The commands: parses the command line, runs the command, and returns its exit code.

mod archive;
mod build;
mod clean;
mod completions;
mod context;
mod control;
mod demo;
mod doctor;
mod dry_run;
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
mod report;
mod resume;
mod run;
mod sandbox;
mod serve;
mod specs;
mod status;
mod tasks;
mod trust;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use ralph_io::sandbox::{SETUP_ERROR_PREFIX, SETUP_FAILED_CODE};
use ralph_model::outcome::ExitStatus;

use crate::cli::memory::McpServerChoice;
use crate::cli::{self, Cli, CliCommand, WELCOME};
use crate::cli_error::CliError;
use crate::screen::{self, OutputStyle};

/// Runs the command of the command line.
#[expect(clippy::too_many_lines, reason = "one match over every command")]
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
    // A shell asks for completions.
    if arguments.get(1).is_some_and(|word| word == "--")
        && let Some(code) = completions::answer_shell(&arguments)
    {
        return code;
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&cli::with_complete_help(error)),
    };
    match cli.command {
        None => {
            screen::print_data(WELCOME);
            ExitCode::SUCCESS
        }
        Some(CliCommand::Warden { run }) => ralph_io::process::warden::run_warden(&run),
        Some(CliCommand::Sim { scenario }) => run_scripted_agent(&scenario),
        Some(CliCommand::Connect { host, port }) => {
            to_exit_code(&cli.common, network::connect_through_proxy(&host, port))
        }
        Some(CliCommand::Archive(args)) => {
            to_exit_code(&cli.common, archive::main(&cli.common, &args))
        }
        Some(CliCommand::Clean(args)) => to_exit_code(&cli.common, clean::main(&cli.common, &args)),
        Some(CliCommand::Help(args)) => to_exit_code(&cli.common, help::main(&cli.common, &args)),
        Some(CliCommand::Completions(args)) => to_exit_code(&cli.common, completions::main(&args)),
        Some(CliCommand::Man(args)) => to_exit_code(&cli.common, man::main(&cli.common, &args)),
        Some(CliCommand::Init(args)) => to_exit_code(&cli.common, init::main(&cli.common, &args)),
        Some(CliCommand::Plan(args)) => to_exit_code(&cli.common, plan::main(&cli.common, &args)),
        Some(CliCommand::Prompt(args)) => {
            to_exit_code(&cli.common, prompt::main(&cli.common, &args))
        }
        Some(CliCommand::Memory(args)) => {
            to_exit_code(&cli.common, memory::main(&cli.common, &args))
        }
        Some(CliCommand::Mcp(args)) => match args.server {
            McpServerChoice::Memory { file } => {
                mcp::serve_memory(cli.common.directory(), file.as_deref())
            }
        },
        Some(CliCommand::Hook(args)) if args.event == "explain" => {
            to_exit_code(&cli.common, hook::explain::explain_command(&cli.common, &args))
        }
        Some(CliCommand::Hook(args)) => hook::answer_hook(&args.event),
        Some(CliCommand::Run(args)) => to_exit_code(&cli.common, run::main(&cli.common, &args)),
        Some(CliCommand::Build(args)) => to_exit_code(&cli.common, build::main(&cli.common, &args)),
        Some(CliCommand::Pause(args)) => {
            to_exit_code(&cli.common, control::pause_run(&cli.common, &args))
        }
        Some(CliCommand::Go(args)) => {
            to_exit_code(&cli.common, control::continue_run(&cli.common, &args))
        }
        Some(CliCommand::Stop(args)) => {
            to_exit_code(&cli.common, control::stop_run(&cli.common, &args))
        }
        Some(CliCommand::Skip(args)) => {
            to_exit_code(&cli.common, control::skip_task(&cli.common, &args))
        }
        Some(CliCommand::Note(args)) => {
            to_exit_code(&cli.common, control::leave_note(&cli.common, &args))
        }
        Some(CliCommand::Resume(args)) => {
            to_exit_code(&cli.common, resume::main(&cli.common, &args))
        }
        Some(CliCommand::Status(args)) => {
            to_exit_code(&cli.common, status::main(&cli.common, &args))
        }
        Some(CliCommand::Log(args)) => to_exit_code(&cli.common, log::main(&cli.common, &args)),
        Some(CliCommand::Report(args)) => {
            to_exit_code(&cli.common, report::main(&cli.common, &args))
        }
        Some(CliCommand::Serve(args)) => to_exit_code(&cli.common, serve::main(&cli.common, &args)),
        Some(CliCommand::Context(args)) => {
            to_exit_code(&cli.common, context::main(&cli.common, &args))
        }
        Some(CliCommand::Tasks(args)) => to_exit_code(&cli.common, tasks::main(&cli.common, &args)),
        Some(CliCommand::Trust(args)) => to_exit_code(&cli.common, trust::main(&cli.common, &args)),
        Some(CliCommand::Plugin(args)) => {
            to_exit_code(&cli.common, plugin::main(&cli.common, &args))
        }
        Some(CliCommand::Sandbox(args)) => match sandbox::main(&cli.common, &args) {
            Ok(code) => code,
            Err(complaint) => to_exit_code(&cli.common, Err(complaint)),
        },
        Some(CliCommand::Notify(args)) => {
            to_exit_code(&cli.common, notify::main(&cli.common, &args))
        }
        Some(CliCommand::Otel(args)) => {
            to_exit_code(&cli.common, otel::export_run(&cli.common, &args))
        }
        Some(CliCommand::Doctor(args)) => {
            to_exit_code(&cli.common, doctor::main(&cli.common, &args))
        }
        Some(CliCommand::Demo(args)) => to_exit_code(&cli.common, demo::main(&cli.common, &args)),
    }
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
    let _ = error.print();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        ExitCode::SUCCESS
    } else {
        ExitStatus::BadInput.code().into()
    }
}

fn to_exit_code(common: &crate::cli::CommonArgs, result: Result<ExitStatus, CliError>) -> ExitCode {
    let status = match result {
        Ok(status) => status,
        Err(complaint) => {
            OutputStyle::without_settings(common).print_error(&complaint);
            complaint.status
        }
    };
    status.code().into()
}
