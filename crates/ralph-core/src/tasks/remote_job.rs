//! What a job leaves to the machine that does it, and what follows from earlier attempts.
//!
//! A job for another machine is first stripped of everything that belongs to this one; there, the
//! values of that machine's user take its place, so a job cannot do more than that user allows.
//! Not here: how jobs travel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::guard_policy::GuardPolicy;
use ralph_model::ids::Role;
use ralph_model::memory::Documentation;
use ralph_model::recipe::{ClonePolicy, CommitPolicy, Work};
use ralph_model::remote_job::JobEnd;
use ralph_model::sandbox::SandboxPolicy;
use ralph_model::worker::{Job, JobResult};

use super::job_result::must_continue_result;

/// What a machine's own user decides about jobs.
#[derive(Debug, Clone)]
pub struct MachineValues {
    pub sandbox: SandboxPolicy,
    pub guard: GuardPolicy,
    pub clones: ClonePolicy,
    /// The agents of its settings, by role.
    pub agents: BTreeMap<Role, AgentChoice>,
    /// Further agents of its settings.
    pub others: Vec<AgentChoice>,
    /// The programs of agents that its settings do not name.
    pub find_program: fn(AgentKind) -> Option<&'static str>,
}

/// What the start of a job means, if it may have been started before.
#[derive(Debug, Clone, PartialEq)]
pub enum StartDecision {
    /// It has ended. This is its result.
    Return(Box<JobResult>),
    /// It runs, or waits to be run.
    Attach,
    Begin(AttemptLabel),
}

/// Removes what depends on this machine, and what may be secret. `top` is the top of the work tree.
pub fn strip_machine_values(job: &mut Job, top: &Path) {
    job.project = job.project.strip_prefix(top).map(PathBuf::from).unwrap_or_default();
    job.task_file = job.task_file.file_name().map(PathBuf::from).unwrap_or_default();
    job.clones = ClonePolicy::default();
    job.earlier = None;
    let recipe = &mut job.recipe;
    recipe.sandbox = SandboxPolicy::default();
    recipe.guard = GuardPolicy::default();
    recipe.uncommitted_before.clear();
    if let Some(memory) = &mut recipe.memory {
        memory.documentation = Documentation::Unknown;
    }
    if let Work::Tasks(work) = &mut recipe.work {
        work.file.clone_from(&job.task_file);
    }
    recipe.list_agents_mut().for_each(strip_agent);
}

/// Leaves of an agent what a run may choose on another machine.
fn strip_agent(agent: &mut AgentChoice) {
    *agent = AgentChoice {
        model: agent.model.take(),
        fallback_model: agent.fallback_model.take(),
        output: agent.output,
        max_turns: agent.max_turns,
        ..AgentChoice::new(agent.kind, String::new())
    };
}

/// Gives a job the values of the machine that does it. Strips it first: anyone who can push a job may
/// have written anything into it. Fails if it is no task whose work ralph commits, or needs an agent
/// that the machine's user did not set up.
pub fn apply_machine_values(job: &mut Job, values: &MachineValues) -> Result<(), String> {
    let is_task = matches!(job.recipe.work, Work::Tasks(_));
    // Other commands that land work run outside of the sandbox.
    if !is_task || job.recipe.landing.commit != CommitPolicy::Ralph || job.recipe.plan.is_some() {
        return Err("the job is no task whose work ralph commits".to_owned());
    }
    strip_machine_values(job, Path::new(""));
    job.clones = values.clones.clone();
    let recipe = &mut job.recipe;
    recipe.sandbox = values.sandbox.clone();
    recipe.guard = values.guard.clone();
    for (role, agent) in &mut recipe.agents {
        let same = values.agents.get(role).filter(|it| it.kind == agent.kind);
        if let Some(own) = same {
            apply_agent(agent, own.clone());
        }
    }
    let agents = recipe.list_agents_mut().filter(|agent| agent.command.is_empty());
    for agent in agents {
        let mut known = values.agents.values().chain(&values.others);
        let known = known.find(|it| it.kind == agent.kind).cloned();
        let program = || (values.find_program)(agent.kind);
        let own = known.or_else(|| Some(AgentChoice::new(agent.kind, program()?)));
        let Some(own) = own else {
            return Err(format!(
                "the job is for an agent of the kind `{}`, and the settings on this machine have \
                 none",
                agent.kind.name()
            ));
        };
        apply_agent(agent, own);
    }
    Ok(())
}

fn apply_agent(agent: &mut AgentChoice, own: AgentChoice) {
    *agent = AgentChoice {
        model: agent.model.take().or(own.model),
        fallback_model: agent.fallback_model.take().or(own.fallback_model),
        output: agent.output,
        max_turns: agent.max_turns,
        ..own
    };
}

/// Decides about the start of a job. `previous` is the last attempt, and how it ended if that was
/// accepted.
pub fn decide_start(
    previous: Option<(&AttemptLabel, Option<&JobEnd>)>,
    job: &Job,
) -> StartDecision {
    match previous {
        None => StartDecision::Begin(AttemptLabel::new_first()),
        Some((_, None)) => StartDecision::Attach,
        Some((_, Some(JobEnd::Ended(result)))) if !must_continue_result(result, job) => {
            StartDecision::Return(result.clone())
        }
        Some((label, Some(_))) => StartDecision::Begin(label.next()),
    }
}

#[cfg(test)]
mod tests;
