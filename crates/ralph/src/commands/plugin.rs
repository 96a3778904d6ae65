//! `ralph plugin`: the Claude Code plugin that ships inside the binary.
//!
//! Runs do not need this: they pass the plugin themselves. Not here: its files and their checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_agents::claude_plugins::{self, MARKETPLACE, PluginScope};
use ralph_io::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};
use ralph_model::child::NotStarted;
use ralph_model::ids::Role;
use ralph_model::outcome::ExitStatus;
use ralph_model::text::quote_for_shell;
use serde_json::{Value, json};

use crate::cli::{CommonArgs, PluginArgs, PluginCommand, PluginInstallArgs};
use crate::cli_error::CliError;
use crate::plugin::{self, check};
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::{recipe, screen};

/// `claude` answers within seconds, unless it waits for the network.
const CLAUDE_TIMEOUT: Duration = Duration::from_secs(120);

/// `claude` prints a few lines.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PluginArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let claude = ClaudeCli::for_project(&project, &loaded);
    match &args.command {
        PluginCommand::Path => print_path(&project, &loaded, args.json),
        PluginCommand::Install(choice) => install_plugin(&claude, choose_scope(choice), args.json),
        PluginCommand::Validate { directory } => {
            let directory = directory.as_ref().map(|directory| project.directory.join(directory));
            validate_plugin(&claude, &loaded, directory, args.json)
        }
    }
}

fn choose_scope(choice: &PluginInstallArgs) -> PluginScope {
    if choice.project { PluginScope::Project } else { PluginScope::User }
}

fn print_result(json: bool, facts: &Value, text: &str) {
    let text = if json { format!("{facts:#}\n") } else { format!("{text}\n") };
    screen::print_data(&text);
}

fn to_unwritable_error(place: &Path, error: &std::io::Error) -> CliError {
    CliError::for_input(format!("the plugin cannot be written to `{}`: {error}", place.display()))
}

fn print_path(
    project: &Project,
    loaded: &LoadedSettings,
    json: bool,
) -> Result<ExitStatus, CliError> {
    let plugin = plugin::for_runs(&project.find_state_root(loaded)?);
    let place = plugin.path();
    let is_new = plugin.ensure_intact().map_err(|error| to_unwritable_error(place, &error))?;
    let facts = json!({ "version": 1, "path": place, "written": is_new });
    print_result(json, &facts, &place.display().to_string());
    Ok(ExitStatus::Complete)
}

fn install_plugin(
    claude: &ClaudeCli<'_>,
    scope: PluginScope,
    json: bool,
) -> Result<ExitStatus, CliError> {
    let data = plugin::find_data_directory(|name| std::env::var_os(name))
        .ok_or_else(|| CliError::for_input("there is no home directory to write the plugin to"))?;
    let marketplace = plugin::for_installation(&data);
    let place = marketplace.path();
    if place.symlink_metadata().is_ok() && !marketplace.is_intact() {
        let message = format!("`{}` is not as ralph wrote it", place.display());
        return Err(CliError::for_input(message).with_hint("move it away, then install again"));
    }
    let shown = place.to_string_lossy();
    let mut steps =
        vec![claude_plugins::build_add_args(&shown), claude_plugins::build_install_args(scope)];
    let found = claude.find_program();
    if found.is_ok() && claude.find_marketplace(place)? == RegisteredMarketplace::Older {
        steps.push(claude_plugins::build_update_args(scope));
    }
    let is_new = marketplace.ensure_intact().map_err(|error| to_unwritable_error(place, &error))?;
    let outputs = match &found {
        Ok(_) => {
            steps.iter().map(|words| claude.run_or_fail(words)).collect::<Result<Vec<_>, _>>()?
        }
        Err(_) => Vec::new(),
    };
    let commands: Vec<String> =
        steps.iter().map(|words| claude.format_command_line(words)).collect();
    let written =
        if is_new { "The plugin was written to" } else { "The plugin was there already, in" };
    let mut text = format!("{written} {shown}");
    let title = match &found {
        Ok(_) => "It was registered with Claude Code:".to_owned(),
        Err(reason) => format!("It is not yet registered with Claude Code ({reason}). Run:"),
    };
    text.push_str(&format!("\n{title}"));
    for (at, command) in commands.iter().enumerate() {
        text.push_str(&format!("\n  {command}"));
        if let Some(output) = outputs.get(at) {
            text.push_str(&format!("\n    {}", output.replace('\n', "\n    ")));
        }
    }
    if found.is_ok() {
        text.push_str("\nIt works from the next session on. /ralph:ralph-plan plans a feature.");
    }
    let facts = json!({
        "version": 1,
        "path": place,
        "written": is_new,
        "scope": scope.name(),
        "installed": found.is_ok(),
        "commands": commands,
    });
    print_result(json, &facts, &text);
    Ok(ExitStatus::Complete)
}

fn validate_plugin(
    claude: &ClaudeCli<'_>,
    loaded: &LoadedSettings,
    directory: Option<PathBuf>,
    json: bool,
) -> Result<ExitStatus, CliError> {
    let directory = if let Some(directory) = directory {
        directory
    } else {
        let plugin = plugin::for_runs(&claude.project.find_state_root(loaded)?);
        plugin.ensure_intact().map_err(|error| to_unwritable_error(plugin.path(), &error))?;
        plugin.path().to_owned()
    };
    let shown = directory.to_string_lossy();
    let mut problems = check::find_problems(&directory);
    let asked = match claude.find_program() {
        Ok(_) => Some(claude.run_command(&claude_plugins::build_validate_args(&shown))),
        Err(_) => None,
    };
    if let Some(Err(words)) = &asked {
        problems.push(format!(
            "{}: {words}",
            claude.format_command_line(&claude_plugins::build_validate_args(&shown))
        ));
    }
    let facts = json!({
        "version": 1,
        "path": directory,
        "valid": problems.is_empty(),
        "problems": problems,
        "askedClaude": asked.is_some(),
    });
    let by_whom = match &asked {
        Some(_) => "ralph and Claude Code find no mistakes",
        None => "ralph finds no mistakes; Claude Code is not installed",
    };
    if problems.is_empty() {
        print_result(json, &facts, &format!("{shown}: {by_whom}"));
        return Ok(ExitStatus::Complete);
    }
    if json {
        print_result(json, &facts, "");
        return Ok(ExitStatus::BadInput);
    }
    let list: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    let message = format!("the plugin in `{shown}` has mistakes:\n{}", list.join("\n"));
    Err(CliError::for_input(message))
}

/// What Claude Code has registered as ralph's marketplace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegisteredMarketplace {
    Nothing,
    This,
    /// The copy of another version of ralph.
    Older,
}

/// The `claude` that the settings name, or the one on the `PATH`.
struct ClaudeCli<'a> {
    project: &'a Project,
    command: String,
}

impl<'a> ClaudeCli<'a> {
    fn for_project(project: &'a Project, loaded: &LoadedSettings) -> Self {
        let chosen = recipe::choose_agent(loaded, Role::Prompt).ok();
        let chosen = chosen.filter(|agent| agent.kind == claude_plugins::KIND);
        let command =
            chosen.map_or_else(|| claude_plugins::KIND.name().to_owned(), |it| it.command);
        Self { project, command }
    }

    fn find_program(&self) -> Result<PathBuf, NotStarted> {
        self.project.find_program(&self.command)
    }

    /// Returns the command line to type.
    fn format_command_line(&self, words: &[String]) -> String {
        quote_for_shell(&[std::slice::from_ref(&self.command), words].concat())
    }

    /// Finds a marketplace of the same name. Fails if it is not ralph's.
    fn find_marketplace(&self, place: &Path) -> Result<RegisteredMarketplace, CliError> {
        let printed = self.run_or_fail(&claude_plugins::build_list_args())?;
        let Some(known) = claude_plugins::parse_marketplaces(&printed) else {
            let message = format!("`{}` did not list its marketplaces", self.command);
            return Err(CliError::new(ExitStatus::AgentFailed, message)
                .with_hint("update Claude Code, then install again"));
        };
        let Some(same) = known.iter().find(|it| it.name == MARKETPLACE) else {
            return Ok(RegisteredMarketplace::Nothing);
        };
        let path = Path::new(same.path.as_deref().unwrap_or_default());
        if path == place {
            return Ok(RegisteredMarketplace::This);
        }
        if path.parent() == place.parent() {
            return Ok(RegisteredMarketplace::Older);
        }
        let from = same.origin();
        let message = format!("Claude Code has a marketplace `{MARKETPLACE}` already, from {from}");
        Err(CliError::for_input(message)
            .with_hint("the plugin of that one is updated with `claude plugin update ralph@ralph`")
            .with_hint(
                "or remove it with `claude plugin marketplace remove ralph`, then install again",
            ))
    }

    /// Runs `claude` and returns its output. Fails if it fails.
    fn run_or_fail(&self, words: &[String]) -> Result<String, CliError> {
        self.run_command(words).map_err(|why| {
            let message = format!("`{}` failed: {why}", self.format_command_line(words));
            CliError::new(ExitStatus::AgentFailed, message)
        })
    }

    /// Runs `claude`; the error is its output, or how it ended.
    fn run_command(&self, words: &[String]) -> Result<String, String> {
        let quiet = [("DISABLE_AUTOUPDATER".to_owned(), "1".to_owned())];
        let spawn = Spawn {
            program: self.command.clone().into(),
            args: words.iter().map(Into::into).collect(),
            cwd: self.project.directory.clone(),
            env: ralph_io::environment::adjust_variables(&self.project.env, &[], &quiet.into()),
            stdin: StdinSource::Null,
            limits: ProcessLimits { hard: Some(CLAUDE_TIMEOUT), ..ProcessLimits::default() },
        };
        let captured = capture_output(&spawn, &Watch::new_detached(), MAX_OUTPUT_BYTES);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let outputs: Vec<String> = [text(&captured.stdout), text(&captured.stderr)]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        match (captured.end.ending.is_success(), outputs.is_empty()) {
            (true, _) => Ok(text(&captured.stdout)),
            (false, true) => Err(captured.end.ending.to_string()),
            (false, false) => Err(outputs.join("\n")),
        }
    }
}
