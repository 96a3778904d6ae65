//! `ralph doctor`: what is installed, how it would be called, and how to fix what is wrong.
//!
//! Agents are inspected, not called: only `--version` is run, outside and in the sandbox, and a command that reports
//! whether it is logged in; of logins only the names of variables and files are printed. Not here: how findings look.

mod isolation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use isolation::IsolationCheckup;
use ralph_agents::{self as agents, Login, LoginScope};
use ralph_core::asking::capability;
use ralph_io::clock;
use ralph_io::process::Watch;
use ralph_io::versions::{ProgramContext, capture_refusal};
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::ids::Role;
use ralph_model::outcome::ExitStatus;
use ralph_model::text::quote_for_shell;
use ralph_ui::doctor_report::{self, Detail, DoctorFinding, Health};
use ralph_ui::time::WallClock;
use ralph_ui::view::Verbosity;
use serde_json::{Value, json};

use crate::agent_versions::{VersionSource, set_agent_versions};
use crate::call_preview::CallPreview;
use crate::cli::{CommonArgs, DoctorArgs};
use crate::cli_error::CliError;
use crate::commands::sandbox::ProjectSandbox;
use crate::project::Project;
use crate::screen::{self, OutputStyle};
use crate::settings::{FlagSetting, LoadedSettings};
use crate::{host_checks, recipe};

/// Sample prompt for the shown call.
const SAMPLE: &str = "the prompt";

/// Runs all checks and prints the findings.
pub(crate) fn main(common: &CommonArgs, args: &DoctorArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let agent = args.agent.iter();
    let flags = agent.map(|it| FlagSetting::new("--agent", "agent.command", it.as_str())).collect();
    let loaded = project.load_settings(args.config.as_deref(), flags)?;
    let mut candidates = find_configured(&loaded)?;
    let named: BTreeSet<AgentKind> =
        candidates.iter().map(|candidate| candidate.agent.kind).collect();
    candidates.extend(
        agents::list_products().map(|it| it.kind).filter(|kind| !named.contains(kind)).map(
            |kind| AgentToCheck {
                uses: Vec::new(),
                role: Role::Prompt,
                agent: AgentChoice::new(kind, kind.name()),
            },
        ),
    );
    // A program that only the project names is not started without trust, not even with `--version`.
    let refused = project.find_untrusted(args.config.as_deref(), &loaded)?;
    let is_untrusted = refused.iter().any(|it| it.key.ends_with(".command"));
    let watch = Watch::new_detached();
    let asking = if is_untrusted { VersionSource::Cache } else { VersionSource::Programs(&watch) };
    set_agent_versions(
        &project,
        candidates.iter_mut().map(|candidate| &mut candidate.agent),
        asking,
    );
    let calls = CallPreview::for_project(&project, &loaded)?;
    let mut examined: Vec<AgentCheckup> = candidates
        .into_iter()
        .map(|candidate| check_agent(candidate, &project, &calls, &loaded))
        .collect();
    if !is_untrusted {
        for checkup in &mut examined {
            ask_for_login(checkup, &project, &watch);
        }
    }
    if refused.is_empty() {
        try_in_sandbox(&mut examined, common, &watch);
    }
    let has_agent = examined.iter().any(|it| !it.uses.is_empty());
    let is_usable = has_agent && examined.iter().all(|it| it.uses.is_empty() || it.is_usable());
    let claude =
        examined.iter().map(|it| &it.agent).find(|it| it.kind == agents::claude_plugins::KIND);
    let mut machine = host_checks::check_host(&project, &loaded);
    machine.extend(claude.map(|claude| host_checks::check_hooks(&project, &loaded, claude)));
    let isolation = IsolationCheckup::check(&project, &loaded, args.config.as_deref())?;
    let is_refused = isolation.is_refused();
    let git_problem = match project.find_repository(&watch) {
        Ok(None) => project.find_git_problem(),
        Ok(Some(_)) | Err(_) => None,
    };
    if args.json {
        let facts = json!({
            "version": 1,
            "usable": is_usable && !is_refused,
            "agents": examined.iter().map(AgentCheckup::to_json).collect::<Vec<_>>(),
            "checks": machine
                .iter()
                .chain(&isolation.checks)
                .map(host_checks::HostCheck::to_json)
                .collect::<Vec<_>>(),
            "isolation": isolation.to_json(),
        });
        screen::print_data(&format!("{facts:#}\n"));
    } else {
        let screen = OutputStyle::for_stdout(common, &loaded.settings.ui);
        let print = |heading: &str, findings: &[DoctorFinding]| {
            let clock = WallClock { zone: clock::find_local_zone(), now: clock::now };
            doctor_report::print_findings(
                heading,
                findings,
                &screen.style,
                clock,
                screen::open_data_output(),
            );
        };
        let is_short = screen.verbosity != Verbosity::Verbose;
        let (absent, shown): (Vec<_>, Vec<_>) =
            examined.iter().partition(|it| is_short && it.health() == Health::Absent);
        let mut findings: Vec<DoctorFinding> =
            shown.iter().map(|it| it.to_finding(screen.verbosity)).collect();
        findings.extend(build_absent_finding(&absent));
        if !has_agent {
            findings.insert(0, build_no_agent_finding());
        }
        print("Agents", &findings);
        let findings: Vec<DoctorFinding> = machine.into_iter().map(|check| check.finding).collect();
        print("Machine", &findings);
        print("Isolation", &isolation.into_findings(&project, screen.verbosity));
    }
    if is_refused {
        return Ok(ExitStatus::BadInput);
    }
    Ok(match (is_usable, git_problem) {
        (false, _) => ExitStatus::AgentFailed,
        (true, Some(problem)) => problem.status,
        (true, None) => ExitStatus::Complete,
    })
}

/// Names the agents that are neither installed nor needed in one line.
fn build_absent_finding(absent: &[&AgentCheckup]) -> Option<DoctorFinding> {
    let names: Vec<&str> = absent.iter().map(|it| it.agent.command.as_str()).collect();
    let first = names.first()?;
    Some(DoctorFinding {
        health: Health::Absent,
        title: format!("not installed, and not needed: {}", names.join(", ")),
        details: Vec::new(),
        hints: vec![format!("`ralph doctor --agent {first}` says how to install one")],
    })
}

fn build_no_agent_finding() -> DoctorFinding {
    DoctorFinding {
        health: Health::Bad,
        title: "no agent is set".to_owned(),
        details: Vec::new(),
        hints: vec![
            "name one as `agent.command` in .ralph/settings.json, or with --agent".to_owned(),
            "`ralph demo` shows the loop without an agent".to_owned(),
        ],
    }
}

/// An agent to check.
struct AgentToCheck {
    /// The settings that name it.
    uses: Vec<String>,
    role: Role,
    agent: AgentChoice,
}

/// Returns the agents of the settings, each once.
fn find_configured(loaded: &LoadedSettings) -> Result<Vec<AgentToCheck>, CliError> {
    let mut found: Vec<AgentToCheck> = Vec::new();
    if loaded.settings.agent.command.is_none()
        && loaded.settings.agents.sections().iter().all(|(_, section)| section.command.is_none())
    {
        return Ok(found);
    }
    let mut add = |name: String, role: Role, agent: AgentChoice| match found
        .iter_mut()
        .find(|candidate| candidate.agent == agent)
    {
        Some(candidate) => candidate.uses.push(name),
        None => found.push(AgentToCheck { uses: vec![name], role, agent }),
    };
    add("agent".to_owned(), Role::Prompt, recipe::choose_agent(loaded, Role::Prompt)?);
    for (role, agent) in recipe::choose_agents(loaded)? {
        let is_set = loaded.is_set(&format!("agents.{role}"));
        if is_set {
            add(format!("agents.{role}"), role, agent);
        }
    }
    if let Some(agent) = recipe::choose_escalation(loaded)? {
        add("agents.escalate".to_owned(), Role::Implement, agent);
    }
    Ok(found)
}

/// Asks an agent of the settings whether it is logged in, unless a variable has its key.
fn ask_for_login(checkup: &mut AgentCheckup, project: &Project, watch: &Watch) {
    let agent = &checkup.agent;
    let has_key = matches!(&checkup.login, Login::Found { by } if !by.contains('/'));
    let Some(probe) = agents::find_login_probe(agent) else { return };
    if checkup.uses.is_empty() || checkup.program.is_err() || has_key {
        return;
    }
    let env = ralph_io::environment::adjust_variables(&project.env, &agent.env_deny, &agent.env);
    // A wrapper of the user's may do something else with these arguments: not in the project.
    let Ok(directory) = tempfile::tempdir() else { return };
    let place = ProgramContext { directory: directory.path(), env: &env, watch };
    let refusal = capture_refusal(&agent.command, probe.args, place);
    if !refusal.is_some_and(|output| probe.is_denied_by(&output)) {
        return;
    }
    match probe.scope {
        LoginScope::AllProviders => checkup.login = Login::Missing { hint: probe.hint.to_owned() },
        LoginScope::OwnProvider => checkup.warnings.push(format!("not logged in: {}", probe.hint)),
    }
}

/// Starts the agents of the settings in the sandbox. If there is no sandbox, the checks of the
/// isolation say so.
fn try_in_sandbox(examined: &mut [AgentCheckup], common: &CommonArgs, watch: &Watch) {
    let is_tried = |it: &AgentCheckup| !it.uses.is_empty() && it.program.is_ok();
    let agents: Vec<AgentChoice> =
        examined.iter().filter(|it| is_tried(it)).map(|it| it.agent.clone()).collect();
    if agents.is_empty() {
        return;
    }
    let Ok(sandbox) = ProjectSandbox::for_agents(common, agents, watch.clone()) else { return };
    for checkup in examined.iter_mut().filter(|it| is_tried(it)) {
        checkup.trial = sandbox.try_agent(&checkup.agent);
    }
}

/// The findings about an agent.
struct AgentCheckup {
    uses: Vec<String>,
    agent: AgentChoice,
    program: Result<PathBuf, CliError>,
    login: Login,
    call: Vec<String>,
    warnings: Vec<String>,
    is_too_old: bool,
    /// Whether it starts in the sandbox; `None` if that was not tried.
    trial: Option<Result<(), CliError>>,
}

fn check_agent(
    candidate: AgentToCheck,
    project: &Project,
    calls: &CallPreview,
    loaded: &LoadedSettings,
) -> AgentCheckup {
    let AgentToCheck { uses, role, agent } = candidate;
    let limits = recipe::build_run_limits(&loaded.settings, recipe::PROMPT_ITERATIONS);
    let env = ralph_io::environment::adjust_variables(&project.env, &agent.env_deny, &agent.env);
    let variable = |name: &str| {
        let found = env.iter().find(|(it, value)| it == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let login = agents::find_login(agent.kind, variable, Path::is_file);
    let is_too_old = match (agents::find_adapter(agent.kind).oldest_version, agent.version) {
        (Some(oldest), Some(version)) => version < oldest,
        (Some(_) | None, _) => false,
    };
    let mut warnings = agents::list_version_warnings(&agent);
    if !uses.is_empty() {
        warnings.extend(capability::find_unsupported_by(&agent, &limits.budget));
        warnings.extend(agents::find_billing_warning(agent.kind, &project.env, &agent.env));
    }
    AgentCheckup {
        program: project.find_agent(&agent),
        call: calls.build_command_line(&agent, role, SAMPLE, &limits),
        uses,
        agent,
        login,
        warnings,
        is_too_old,
        trial: None,
    }
}

impl AgentCheckup {
    fn is_usable(&self) -> bool {
        let has_login = match &self.login {
            Login::Missing { .. } => false,
            Login::Found { .. } | Login::Unknown | Login::NotNeeded => true,
        };
        let starts = !matches!(self.trial, Some(Err(_)));
        self.program.is_ok() && has_login && !self.is_too_old && starts
    }

    fn health(&self) -> Health {
        match (self.is_usable(), self.uses.is_empty()) {
            (true, _) if self.warnings.is_empty() => Health::Good,
            (true, _) => Health::Warning,
            (false, false) => Health::Bad,
            (false, true) if self.program.is_ok() => Health::Warning,
            (false, true) => Health::Absent,
        }
    }

    fn to_finding(&self, verbosity: Verbosity) -> DoctorFinding {
        let agent = &self.agent;
        let version = match (&self.program, agent.version) {
            (_, Some(version)) => format!(" {version}"),
            (Ok(_), None) => String::new(),
            (Err(_), None) => " is not installed".to_owned(),
        };
        let uses = match self.uses.as_slice() {
            [] => String::new(),
            uses => format!(" ({})", uses.join(", ")),
        };
        let mut details = Vec::new();
        match &self.program {
            Ok(path) => details.push(Detail::Verbatim(path.display().to_string())),
            Err(complaint) if !self.uses.is_empty() => {
                details.push(Detail::Text(complaint.message.clone()));
            }
            Err(_) => {}
        }
        if self.program.is_ok() {
            details.push(Detail::Text(match &self.login {
                Login::Found { by } => format!("login: found ({by})"),
                Login::Missing { .. } => "login: missing".to_owned(),
                Login::Unknown => "login: unknown".to_owned(),
                Login::NotNeeded => "login: not needed".to_owned(),
            }));
        }
        match &self.trial {
            Some(Ok(())) => details.push(Detail::Text("starts in the sandbox".to_owned())),
            Some(Err(complaint)) => details.push(Detail::Text(complaint.message.clone())),
            None => {}
        }
        let is_asked_for = verbosity == Verbosity::Verbose && self.program.is_ok();
        if !self.uses.is_empty() || is_asked_for {
            details.push(Detail::Verbatim(quote_for_shell(&self.call)));
            let can = agent.capabilities.describe_all();
            let can: Vec<String> = can.iter().map(|(name, how)| format!("{name}: {how}")).collect();
            details.push(Detail::Text(can.join("; ")));
        }
        details.extend(self.warnings.iter().map(|it| Detail::Text(format!("warning: {it}"))));
        DoctorFinding {
            health: self.health(),
            title: format!("{}{version}{uses}", agent.command),
            details,
            hints: self.hints(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let install = self.program.as_ref().err().map(|complaint| complaint.hints.clone());
        let login = match (&self.login, &self.program) {
            (Login::Missing { hint }, Ok(_)) => Some(hint.clone()),
            (Login::Missing { .. }, Err(_))
            | (Login::Found { .. } | Login::Unknown | Login::NotNeeded, _) => None,
        };
        let trial = self.trial.iter().filter_map(|it| it.as_ref().err());
        let trial = trial.flat_map(|complaint| complaint.hints.clone());
        install.into_iter().flatten().chain(login).chain(trial).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "uses": self.uses,
            "kind": self.agent.kind,
            "command": self.agent.command,
            "path": self.program.as_ref().ok(),
            "version": self.agent.version,
            "login": self.login,
            "startsInSandbox": self.trial.as_ref().map(Result::is_ok),
            "call": self.call,
            "capabilities": self.agent.capabilities,
            "usable": self.is_usable(),
            "warnings": self.warnings,
            "hints": self.hints(),
        })
    }
}
