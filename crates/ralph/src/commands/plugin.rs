//! `ralph plugin`: the Claude Code plugin that ships inside the binary.
//!
//! Runs do not need this: they pass the plugin themselves. Not here: its files and their checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_agents::claude_plugins::{self, MARKETPLACE, Scope};
use ralph_core::child::NotStarted;
use ralph_core::ids::Role;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::AgentKind;
use ralph_io::process::{Limits, Spawn, Stdin, Watch, capture};
use ralph_io::store::embedded::Ensured;
use serde_json::{Value, json};

use crate::calls::quoted;
use crate::cli::{CommonArgs, PluginArgs, PluginCommand, PluginInstallArgs};
use crate::complaint::Complaint;
use crate::plugin::{self, check};
use crate::project::Project;
use crate::recipe;
use crate::screen;
use crate::settings::Loaded;

/// `claude` answers within seconds, unless it waits for the network.
const PATIENCE: Duration = Duration::from_secs(120);

/// `claude` prints a few lines.
const MAX_BYTES: usize = 256 * 1024;

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &PluginArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings_as_written(None, Vec::new())?;
    let claude = Claude::of(&project, &loaded);
    match &args.command {
        PluginCommand::Path => path(&project, &loaded, args.json),
        PluginCommand::Install(choice) => install(&claude, scope(choice), args.json),
        PluginCommand::Validate { directory } => {
            let directory = directory.as_ref().map(|directory| project.directory.join(directory));
            validate(&claude, &loaded, directory, args.json)
        }
    }
}

fn scope(choice: &PluginInstallArgs) -> Scope {
    if choice.project { Scope::Project } else { Scope::User }
}

fn print(json: bool, facts: &Value, text: &str) {
    let text = if json { format!("{facts:#}\n") } else { format!("{text}\n") };
    screen::print_data(&text);
}

fn unwritable(place: &Path, error: &std::io::Error) -> Complaint {
    Complaint::input(format!("the plugin cannot be written to `{}`: {error}", place.display()))
}

fn path(project: &Project, loaded: &Loaded, json: bool) -> Result<ExitStatus, Complaint> {
    let plugin = plugin::for_runs(&project.state_root(loaded)?);
    let place = plugin.place();
    let ensured = plugin.ensure().map_err(|error| unwritable(place, &error))?;
    let facts = json!({ "version": 1, "path": place, "written": ensured == Ensured::Written });
    print(json, &facts, &place.display().to_string());
    Ok(ExitStatus::Complete)
}

fn install(claude: &Claude<'_>, scope: Scope, json: bool) -> Result<ExitStatus, Complaint> {
    let data = plugin::data_directory(|name| std::env::var_os(name))
        .ok_or_else(|| Complaint::input("there is no home directory to write the plugin to"))?;
    let marketplace = plugin::to_install(&data);
    let place = marketplace.place();
    if place.symlink_metadata().is_ok() && !marketplace.is_intact() {
        let message = format!("`{}` is not as ralph wrote it", place.display());
        return Err(Complaint::input(message).hint("move it away, then install again"));
    }
    let shown = place.to_string_lossy();
    let mut steps = vec![claude_plugins::add_marketplace(&shown), claude_plugins::install(scope)];
    let found = claude.find();
    if found.is_ok() && claude.knows(place)? == Known::Older {
        steps.push(claude_plugins::update(scope));
    }
    let ensured = marketplace.ensure().map_err(|error| unwritable(place, &error))?;
    let outputs = match &found {
        Ok(_) => steps.iter().map(|words| claude.must(words)).collect::<Result<Vec<_>, _>>()?,
        Err(_) => Vec::new(),
    };
    let commands: Vec<String> = steps.iter().map(|words| claude.line(words)).collect();
    let written = match ensured {
        Ensured::Written => "The plugin was written to",
        Ensured::Found => "The plugin was there already, in",
    };
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
        "written": ensured == Ensured::Written,
        "scope": scope.name(),
        "installed": found.is_ok(),
        "commands": commands,
    });
    print(json, &facts, &text);
    Ok(ExitStatus::Complete)
}

fn validate(
    claude: &Claude<'_>,
    loaded: &Loaded,
    directory: Option<PathBuf>,
    json: bool,
) -> Result<ExitStatus, Complaint> {
    let directory = if let Some(directory) = directory {
        directory
    } else {
        let plugin = plugin::for_runs(&claude.project.state_root(loaded)?);
        plugin.ensure().map_err(|error| unwritable(plugin.place(), &error))?;
        plugin.place().to_owned()
    };
    let shown = directory.to_string_lossy();
    let mut problems = check::problems(&directory);
    let asked = match claude.find() {
        Ok(_) => Some(claude.run(&claude_plugins::validate(&shown))),
        Err(_) => None,
    };
    if let Some(Err(words)) = &asked {
        problems.push(format!("{}: {words}", claude.line(&claude_plugins::validate(&shown))));
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
        None => "ralph finds no mistakes; Claude Code is not there to be asked",
    };
    if problems.is_empty() {
        print(json, &facts, &format!("{shown}: {by_whom}"));
        return Ok(ExitStatus::Complete);
    }
    if json {
        print(json, &facts, "");
        return Ok(ExitStatus::BadInput);
    }
    let list: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
    let message = format!("the plugin in `{shown}` has mistakes:\n{}", list.join("\n"));
    Err(Complaint::input(message))
}

/// What Claude Code has registered as ralph's marketplace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing.
    Nothing,
    /// This copy.
    This,
    /// The copy of another version of ralph.
    Older,
}

/// The `claude` that the settings name, or the one on the `PATH`.
struct Claude<'a> {
    project: &'a Project,
    command: String,
}

impl<'a> Claude<'a> {
    fn of(project: &'a Project, loaded: &Loaded) -> Self {
        let chosen = recipe::agent(loaded, Role::Prompt).ok();
        let chosen = chosen.filter(|agent| agent.kind == AgentKind::Claude);
        let command = chosen.map_or_else(|| AgentKind::Claude.name().to_owned(), |it| it.command);
        Self { project, command }
    }

    fn find(&self) -> Result<PathBuf, NotStarted> {
        self.project.find_program(&self.command)
    }

    /// Returns the command line to type.
    fn line(&self, words: &[String]) -> String {
        quoted(&[std::slice::from_ref(&self.command), words].concat())
    }

    /// Finds a marketplace of the same name. Fails if it is not ralph's.
    fn knows(&self, place: &Path) -> Result<Known, Complaint> {
        let printed = self.must(&claude_plugins::list_marketplaces())?;
        let Some(known) = claude_plugins::marketplaces(&printed) else {
            let message = format!("`{}` does not say which marketplaces it knows", self.command);
            return Err(Complaint::new(ExitStatus::AgentFailed, message)
                .hint("update Claude Code, then install again"));
        };
        let Some(same) = known.iter().find(|it| it.name == MARKETPLACE) else {
            return Ok(Known::Nothing);
        };
        let path = Path::new(same.path.as_deref().unwrap_or_default());
        if path == place {
            return Ok(Known::This);
        }
        if path.parent() == place.parent() {
            return Ok(Known::Older);
        }
        let from = same.origin();
        let message = format!("Claude Code has a marketplace `{MARKETPLACE}` already, from {from}");
        Err(Complaint::input(message)
            .hint("the plugin of that one is updated with `claude plugin update ralph@ralph`")
            .hint("or remove it with `claude plugin marketplace remove ralph`, then install again"))
    }

    /// Runs `claude` and returns its output. Fails if it fails.
    fn must(&self, words: &[String]) -> Result<String, Complaint> {
        self.run(words).map_err(|why| {
            let message = format!("`{}` failed: {why}", self.line(words));
            Complaint::new(ExitStatus::AgentFailed, message)
        })
    }

    /// Runs `claude`; the error is its output, or how it ended.
    fn run(&self, words: &[String]) -> Result<String, String> {
        let quiet = [("DISABLE_AUTOUPDATER".to_owned(), "1".to_owned())];
        let spawn = Spawn {
            program: self.command.clone().into(),
            args: words.iter().map(Into::into).collect(),
            cwd: self.project.directory.clone(),
            env: ralph_io::environment::adjusted(&self.project.env, &[], &quiet.into()),
            stdin: Stdin::Null,
            limits: Limits { hard: Some(PATIENCE), ..Limits::default() },
        };
        let captured = capture(&spawn, &Watch::detached(), MAX_BYTES);
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
