//! Which version of each agent is installed, what a recipe may therefore ask of it, and what else
//! of this machine it must know.
//!
//! Not here: what versions can do, which the adapters know.

use std::path::PathBuf;

use ralph_agents as agents;
use ralph_core::recipe::{AgentChoice, AgentKind, CommitPolicy, Origin, Recipe};
use ralph_io::process::Watch;
use ralph_io::versions::{Place, Versions, cache_directory};

use crate::project::Project;

/// How versions are found out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asking<'a> {
    /// Programs are asked, unless their version is remembered.
    Programs(&'a Watch),
    /// Nothing is started.
    Memory,
    /// The programs are elsewhere; they are taken for the newest.
    Nobody,
}

/// Finds out which versions of the agents are installed and what they can do.
pub(crate) fn equip<'a>(
    project: &Project,
    agents: impl Iterator<Item = &'a mut AgentChoice>,
    asking: Asking<'_>,
) {
    let mut versions = Versions::open(cache_directory(|name| std::env::var_os(name)));
    let unwatched = Watch::detached();
    for agent in agents {
        let watch = match asking {
            Asking::Programs(watch) => watch,
            Asking::Memory | Asking::Nobody => &unwatched,
        };
        let place = Place { directory: &project.directory, env: &project.env, watch };
        agent.version = match (has_version(agent.kind), asking) {
            (true, Asking::Programs(_)) => versions.of(&agent.command, place),
            (true, Asking::Memory) => versions.remembered(&agent.command, place),
            (true, Asking::Nobody) | (false, _) => None,
        };
        agent.capabilities = agents::capabilities(agent.kind, agent.version);
        if let Some(selectors) = &agent.selectors {
            agent.capabilities.usage = selectors.usage.reports();
        }
    }
}

/// Returns a recipe for the versions that are installed now.
pub(crate) fn equipped(project: &Project, mut recipe: Recipe, asking: Asking<'_>) -> Recipe {
    equip(project, recipe.every_agent(), asking);
    let writable = match recipe.landing.commit {
        CommitPolicy::Agent => history(project, asking),
        CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::Nobody => Vec::new(),
    };
    for agent in recipe.every_agent() {
        agent.writable.clone_from(&writable);
    }
    recipe
}

/// Returns the directories that an agent writes when it commits.
fn history(project: &Project, asking: Asking<'_>) -> Vec<PathBuf> {
    let unwatched = Watch::detached();
    let watch = match asking {
        Asking::Programs(watch) => watch,
        Asking::Memory | Asking::Nobody => &unwatched,
    };
    let repository = project.repository(watch).ok().flatten();
    repository.map(|repository| repository.history_directories()).unwrap_or_default()
}

/// Returns whether a program of this kind can be asked for its version. Any other command may do
/// anything when it is called.
fn has_version(kind: AgentKind) -> bool {
    match kind.origin() {
        Origin::Product => true,
        Origin::Command | Origin::BuiltIn => false,
    }
}
