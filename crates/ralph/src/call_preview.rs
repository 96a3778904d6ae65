//! Shows how ralph would call the agents, before it calls any.
//!
//! The command lines come from the same adapters that a run uses. Not here: starting a process.

use ralph_core::ports::{Agent as _, AgentRequest};
use ralph_io::agent_runner::AgentRunner;
use ralph_io::environment::Variables;
use ralph_io::mask::Masker;
use ralph_io::process::Watch;
use ralph_io::store::{ProjectLayout, RunDir};
use ralph_model::agent::AgentChoice;
use ralph_model::event::Purpose;
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::recipe::RunLimits;
use ralph_model::run::RunState;
use ralph_model::sandbox::SandboxPolicy;

use crate::cli_error::CliError;
use crate::isolation::find_wanted_sandbox_kind;
use crate::project::Project;
use crate::session::{build_agent_env, build_child_env};
use crate::settings::LoadedSettings;
use crate::{plugin, recipe, secrets};

/// Stands for the directory of a run that has not begun.
pub(crate) const NO_RUN: &str = "<state>";

/// Stands for the id of a run that has not begun.
pub(crate) const NEW_RUN: &str = "<run>";

/// Builds the command lines of agent calls for a project, without starting any.
#[derive(Debug)]
pub(crate) struct CallPreview(AgentRunner);

impl CallPreview {
    /// Returns a preview for the agents of a project, in a run that has not begun.
    pub(crate) fn for_project(
        project: &Project,
        loaded: &LoadedSettings,
    ) -> Result<Self, CliError> {
        let sandbox = recipe::build_sandbox_policy(loaded);
        let env = build_child_env(&project.env, &RunId(NEW_RUN.to_owned()));
        let env = match project.find_layout(loaded) {
            Ok(layout) => build_agent_env(env, &layout, loaded.settings.context.window),
            Err(_) => env,
        };
        let files = RunDir::from_path(NO_RUN);
        Self::new(project, loaded, files, env, &sandbox, Masker::default())
    }

    /// Returns a preview for the agents of a run with this state.
    pub(crate) fn for_run(
        project: &Project,
        loaded: &LoadedSettings,
        layout: &ProjectLayout,
        state: &RunState,
    ) -> Result<Self, CliError> {
        let RunState { run, recipe, .. } = state;
        let masker = secrets::build_masker(&project.env, recipe);
        let files = if *run == RunId(NEW_RUN.to_owned()) {
            RunDir::from_path(NO_RUN)
        } else {
            layout.run_dir(run)
        };
        let env = build_child_env(&project.env, run);
        let env = build_agent_env(env, layout, loaded.settings.context.window);
        Self::new(project, loaded, files, env, &recipe.sandbox, masker)
    }

    fn new(
        project: &Project,
        loaded: &LoadedSettings,
        files: RunDir,
        env: Variables,
        sandbox: &SandboxPolicy,
        masker: Masker,
    ) -> Result<Self, CliError> {
        let self_exe = std::env::current_exe().map_err(|error| {
            CliError::for_input(format!("cannot find ralph's own executable: {error}"))
        })?;
        Ok(Self(AgentRunner {
            watch: Watch::new_detached(),
            project: project.directory.clone(),
            files,
            env,
            self_exe,
            zone: ralph_io::clock::find_local_zone(),
            plugin: project.find_state_root(loaded).ok().map(|root| plugin::for_runs(&root)),
            has_warned_of_hooks: false,
            masker,
            confined: None,
            outer_sandbox: find_wanted_sandbox_kind(sandbox),
        }))
    }

    /// Returns the command line of a sample call, with secrets masked and `{prompt}` in place of the
    /// prompt.
    pub(crate) fn build_command_line(
        &self,
        agent: &AgentChoice,
        role: Role,
        prompt: &str,
        limits: &RunLimits,
    ) -> Vec<String> {
        self.build_command_line_for(&build_sample_request(agent, role, prompt, limits))
    }

    /// Returns the command line for a given request, masked the same way.
    pub(crate) fn build_command_line_for(&self, request: &AgentRequest) -> Vec<String> {
        self.0.command_line(request)
    }
}

/// Returns a request that stands for those of an agent.
fn build_sample_request(
    agent: &AgentChoice,
    role: Role,
    prompt: &str,
    limits: &RunLimits,
) -> AgentRequest {
    let cost_left = limits.budget.cost.filter(|_| agent.capabilities.cost_limit.is_supported());
    AgentRequest {
        run: RunId(NEW_RUN.to_owned()),
        iteration: IterationNumber(1),
        ask: AskNumber(1),
        role,
        purpose: Purpose::Work,
        task: None,
        agent: agent.clone(),
        prompt: prompt.to_owned(),
        session: None,
        schema: None,
        soft_limit: limits.ask_soft,
        hard_limit: limits.ask_hard,
        idle_limit: limits.ask_idle,
        cost_left,
    }
}
