//! Shows how ralph would call the agents, before it calls any.
//!
//! The command lines come from the same adapters that a run uses. Not here: starting a process.

use ralph_core::event::Purpose;
use ralph_core::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_core::ports::{Agent as _, Request};
use ralph_core::recipe::{AgentChoice, RunLimits};
use ralph_io::caller::{AgentCaller, HookNews};
use ralph_io::mask::Masker;
use ralph_io::process::Watch;
use ralph_io::store::RunDir;

use crate::complaint::Complaint;
use crate::isolation::wanted_walls;
use crate::plugin;
use crate::project::Project;
use crate::recipe;
use crate::settings::Loaded;

/// Builds the command lines of agent calls for a project, without starting any.
#[derive(Debug)]
pub(crate) struct Calls(AgentCaller);

impl Calls {
    /// Returns a preview for the agents of a project.
    pub(crate) fn of(project: &Project, loaded: &Loaded) -> Result<Self, Complaint> {
        let self_exe = std::env::current_exe().map_err(|error| {
            Complaint::input(format!("cannot find ralph's own executable: {error}"))
        })?;
        Ok(Self(AgentCaller {
            watch: Watch::detached(),
            project: project.directory.clone(),
            files: RunDir::at("<state>"),
            env: project.env.clone(),
            self_exe,
            zone: jiff::tz::TimeZone::system(),
            plugin: project.state_root(loaded).ok().map(|root| plugin::for_runs(&root)),
            hooks: HookNews::Untold,
            masker: Masker::default(),
            confined: None,
            walls: wanted_walls(&recipe::isolation(loaded)),
        }))
    }

    /// Returns the command line of a call, with secrets masked and `{prompt}` in place of the prompt.
    pub(crate) fn words(
        &self,
        agent: &AgentChoice,
        role: Role,
        prompt: &str,
        limits: &RunLimits,
    ) -> Vec<String> {
        self.words_of(&request(agent, role, prompt, limits))
    }

    /// Returns the command line for a given request, masked the same way.
    pub(crate) fn words_of(&self, request: &Request) -> Vec<String> {
        self.0.command_line(request)
    }
}

/// Returns the first request that a run would send.
pub(crate) fn request(
    agent: &AgentChoice,
    role: Role,
    prompt: &str,
    limits: &RunLimits,
) -> Request {
    let cost_left = limits.budget.cost.filter(|_| agent.capabilities.cost_limit.is_there());
    Request {
        run: RunId("<run>".to_owned()),
        iteration: IterationNumber(1),
        ask: AskNumber(1),
        role,
        purpose: Purpose::Work,
        task: None,
        agent: agent.clone(),
        prompt: prompt.to_owned(),
        schema: None,
        soft_limit: limits.ask_soft,
        hard_limit: limits.ask_hard,
        idle_limit: limits.ask_idle,
        cost_left,
    }
}

/// Returns arguments quoted for a shell.
pub(crate) fn quoted(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_plain = !word.is_empty()
            && word.chars().all(|character| {
                character.is_ascii_alphanumeric() || "-_./=:,@%+{}".contains(character)
            });
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
