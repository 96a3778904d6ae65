//! Whether agents can start in the sandbox: found out before the first call, and by `ralph doctor`.
//!
//! Not here: what a sandbox shows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_io::environment::{self, SandboxChild};
use ralph_io::process::{self, ProcessLimits, Spawn, StdinSource, Watch};
use ralph_io::sandbox::{Launcher, SandboxLauncher};
use ralph_model::agent::{AgentChoice, AgentOrigin};
use ralph_model::outcome::ExitStatus;
use serde_json::json;

use crate::cli_error::CliError;

/// Programs print their version within a second; node on a busy machine takes several.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// How much of a program's output is kept.
const KEPT: usize = 4096;

/// Where agents start.
#[derive(Clone, Copy)]
pub(crate) struct TrialSite<'a> {
    pub(crate) project: &'a Path,
    /// ralph's own environment.
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) watch: &'a Watch,
}

/// Returns the programs of agents, as far as they are on this machine.
pub(crate) fn find_agent_programs(site: &TrialSite<'_>, agents: &[&AgentChoice]) -> Vec<PathBuf> {
    let programs = agents.iter().filter(|agent| is_program(agent));
    programs.filter_map(|agent| process::find_program(&build_spawn(site, agent)).ok()).collect()
}

/// Fails if the sandbox hides a file that an agent needs to start.
pub(crate) fn check_agents_visible(
    site: &TrialSite<'_>,
    agents: &[&AgentChoice],
    launcher: &SandboxLauncher,
) -> Result<(), CliError> {
    for agent in agents {
        let programs = find_agent_programs(site, &[*agent]);
        let hidden = programs.first().and_then(|program| launcher.find_hidden_file(program));
        if let Some(hidden) = hidden {
            return Err(build_hidden_error(site, agent, &hidden));
        }
    }
    Ok(())
}

/// Starts an agent in the sandbox without calling a model: with `--version` if it is known to have
/// that flag; otherwise only its file is checked.
pub(crate) fn try_agent(
    site: &TrialSite<'_>,
    agent: &AgentChoice,
    launcher: &SandboxLauncher,
) -> Result<(), CliError> {
    check_agents_visible(site, &[agent], launcher)?;
    let mut spawn = build_spawn(site, agent);
    match agent.kind.origin() {
        AgentOrigin::Product => spawn.args.push("--version".into()),
        AgentOrigin::Command => {
            let check = "command -v -- \"$0\" >/dev/null";
            spawn.args = vec!["-c".into(), check.into(), spawn.program];
            spawn.program = "sh".into();
        }
        AgentOrigin::BuiltIn => return Ok(()),
    }
    let failure = |why: String| {
        let message = format!("the agent `{}` does not start in the sandbox: {why}", agent.command);
        let command = format!("ralph sandbox exec -- {} --version", agent.command);
        CliError::new(ExitStatus::AgentFailed, message).with_hint(format!("try `{command}`"))
    };
    let launcher = Launcher::Sandboxed(launcher.clone());
    let spawn = launcher.wrap_spawn(spawn).map_err(|reason| failure(reason.to_string()))?;
    let ran = process::capture_output(&spawn, site.watch, KEPT);
    launcher.clean_up();
    if ran.end.ending.is_success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ran.stderr).into_owned();
    let line = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(failure(format!("{}: {}", ran.end.ending, line.trim())))
}

fn is_program(agent: &AgentChoice) -> bool {
    match agent.kind.origin() {
        AgentOrigin::Product | AgentOrigin::Command => true,
        AgentOrigin::BuiltIn => false,
    }
}

fn build_spawn(site: &TrialSite<'_>, agent: &AgentChoice) -> Spawn {
    let kind = ralph_agents::detect_program_kind(agent);
    Spawn {
        program: agent.command.clone().into(),
        args: Vec::new(),
        cwd: site.project.to_owned(),
        env: environment::filter_inherited(site.env, SandboxChild::Agent(kind), &[]),
        stdin: StdinSource::Null,
        limits: ProcessLimits { hard: Some(TRIAL_TIMEOUT), ..ProcessLimits::default() },
    }
}

fn build_hidden_error(site: &TrialSite<'_>, agent: &AgentChoice, hidden: &Path) -> CliError {
    let message = format!(
        "the agent `{}` cannot start: the sandbox hides `{}`",
        agent.command,
        hidden.display()
    );
    let error = CliError::new(ExitStatus::AgentFailed, message);
    let home = site.env.iter().find_map(|(name, value)| (name == "HOME").then(|| Path::new(value)));
    match home.and_then(|home| hidden.strip_prefix(home).ok()) {
        Some(entry) => {
            let setting = json!({ "sandbox": { "home": [entry] } });
            error.with_hint(format!("put this into your own settings: {setting}"))
        }
        None => error.with_hint("install it where the sandbox shows it, such as /usr/local/bin"),
    }
}
