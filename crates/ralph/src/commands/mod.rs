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
use ralph_core::outcome::ExitStatus;
use ralph_io::sandbox::{WALL_CODE, WALL_PREFIX};

use crate::cli::memory::McpServer;
use crate::cli::{self, Cli, Command, WELCOME};
use crate::complaint::Complaint;
use crate::screen::{self, Screen};

/// Runs the command of the command line.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    // A hook runs after every tool call of a session; parsing the command line with clap would
    // take longer than the hook itself.
    if let [_, command, event] = arguments.as_slice()
        && command == "hook"
        && let Some(event) = event.to_str().filter(|it| !it.starts_with('-') && *it != "explain")
    {
        return hook::main(event);
    }
    // Scripts, editors and package managers call this often.
    if let [_, flag] = arguments.as_slice()
        && (flag == "--version" || flag == "-v")
    {
        screen::print_data(concat!("ralph ", env!("CARGO_PKG_VERSION"), "\n"));
        return ExitCode::SUCCESS;
    }
    // An agent waits for its servers before it starts.
    if let [_, command, server] = arguments.as_slice()
        && command == "mcp"
        && server == "memory"
    {
        return mcp::main(Path::new("."), None);
    }
    // Every sandboxed child starts through one of these.
    if let Some(ended) = ralph_io::sandbox::hidden(arguments.get(1..).unwrap_or_default()) {
        return ended.unwrap_or_else(|error| {
            screen::say(&format!("{WALL_PREFIX}{error}"));
            WALL_CODE.into()
        });
    }
    // A shell asks for completions.
    if arguments.get(1).is_some_and(|word| word == "--")
        && let Some(code) = completions::answer(&arguments)
    {
        return code;
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(&cli::explained(error)),
    };
    match cli.command {
        None => {
            screen::print_data(WELCOME);
            ExitCode::SUCCESS
        }
        Some(Command::Warden { run }) => ralph_io::process::warden::main(&run),
        Some(Command::Sim { scenario }) => sim(&scenario),
        Some(Command::Connect { host, port }) => finish(&cli.common, network::connect(&host, port)),
        Some(Command::Archive(args)) => finish(&cli.common, archive::main(&cli.common, &args)),
        Some(Command::Clean(args)) => finish(&cli.common, clean::main(&cli.common, &args)),
        Some(Command::Help(args)) => finish(&cli.common, help::main(&cli.common, &args)),
        Some(Command::Completions(args)) => finish(&cli.common, completions::main(&args)),
        Some(Command::Man(args)) => finish(&cli.common, man::main(&cli.common, &args)),
        Some(Command::Init(args)) => finish(&cli.common, init::main(&cli.common, &args)),
        Some(Command::Plan(args)) => finish(&cli.common, plan::main(&cli.common, &args)),
        Some(Command::Prompt(args)) => finish(&cli.common, prompt::main(&cli.common, &args)),
        Some(Command::Memory(args)) => finish(&cli.common, memory::main(&cli.common, &args)),
        Some(Command::Mcp(args)) => match args.server {
            McpServer::Memory { file } => mcp::main(cli.common.directory(), file.as_deref()),
        },
        Some(Command::Hook(args)) if args.event == "explain" => {
            finish(&cli.common, hook::explain::main(&cli.common, &args))
        }
        Some(Command::Hook(args)) => hook::main(&args.event),
        Some(Command::Run(args)) => finish(&cli.common, run::main(&cli.common, &args)),
        Some(Command::Build(args)) => finish(&cli.common, build::main(&cli.common, &args)),
        Some(Command::Pause(args)) => finish(&cli.common, control::pause(&cli.common, &args)),
        Some(Command::Go(args)) => finish(&cli.common, control::go(&cli.common, &args)),
        Some(Command::Stop(args)) => finish(&cli.common, control::stop(&cli.common, &args)),
        Some(Command::Skip(args)) => finish(&cli.common, control::skip(&cli.common, &args)),
        Some(Command::Note(args)) => finish(&cli.common, control::note(&cli.common, &args)),
        Some(Command::Resume(args)) => finish(&cli.common, resume::main(&cli.common, &args)),
        Some(Command::Status(args)) => finish(&cli.common, status::main(&cli.common, &args)),
        Some(Command::Log(args)) => finish(&cli.common, log::main(&cli.common, &args)),
        Some(Command::Report(args)) => finish(&cli.common, report::main(&cli.common, &args)),
        Some(Command::Serve(args)) => finish(&cli.common, serve::main(&cli.common, &args)),
        Some(Command::Context(args)) => finish(&cli.common, context::main(&cli.common, &args)),
        Some(Command::Tasks(args)) => finish(&cli.common, tasks::main(&cli.common, &args)),
        Some(Command::Trust(args)) => finish(&cli.common, trust::main(&cli.common, &args)),
        Some(Command::Plugin(args)) => finish(&cli.common, plugin::main(&cli.common, &args)),
        Some(Command::Sandbox(args)) => match sandbox::main(&cli.common, &args) {
            Ok(code) => code,
            Err(complaint) => finish(&cli.common, Err(complaint)),
        },
        Some(Command::Notify(args)) => finish(&cli.common, notify::main(&cli.common, &args)),
        Some(Command::Otel(args)) => finish(&cli.common, otel::main(&cli.common, &args)),
        Some(Command::Doctor(args)) => finish(&cli.common, doctor::main(&cli.common, &args)),
        Some(Command::Demo(args)) => finish(&cli.common, demo::main(&cli.common, &args)),
    }
}

/// Runs the scripted agent.
fn sim(scenario: &Path) -> ExitCode {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    ralph_io::sim::play(scenario, std::io::stdin(), &env)
}

/// Prints help and version as data, and mistakes in the command line as clap formats them.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        ExitCode::SUCCESS
    } else {
        ExitStatus::BadInput.code().into()
    }
}

fn finish(common: &crate::cli::CommonArgs, result: Result<ExitStatus, Complaint>) -> ExitCode {
    let status = match result {
        Ok(status) => status,
        Err(complaint) => {
            Screen::plain(common).complain(&complaint);
            complaint.status
        }
    };
    status.code().into()
}
