//! Fills a recipe with the installed version of each agent, what that version can do, and the
//! directories an agent writes when it commits.
//!
//! Not here: the capabilities of each version, which the adapters know.

use std::path::PathBuf;

use ralph_agents as agents;
use ralph_core::recipe::{AgentChoice, AgentKind, CommitPolicy, Origin, Recipe};
use ralph_io::process::Watch;
use ralph_io::versions::{Place, Versions, cache_directory};

use crate::project::Project;

/// How agent versions are found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asking<'a> {
    /// Start the programs, unless their version is cached.
    Programs(&'a Watch),
    /// Use the cache only.
    Memory,
    /// The programs are not on this machine; assume the newest version.
    Nobody,
}

/// Sets the version and the capabilities of each agent.
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

/// Returns the recipe with the versions that are installed now.
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

/// Returns the directories of the repository that an agent writes when it commits.
fn history(project: &Project, asking: Asking<'_>) -> Vec<PathBuf> {
    let unwatched = Watch::detached();
    let watch = match asking {
        Asking::Programs(watch) => watch,
        Asking::Memory | Asking::Nobody => &unwatched,
    };
    let repository = project.repository(watch).ok().flatten();
    repository.map(|repository| repository.history_directories()).unwrap_or_default()
}

/// Returns whether a program of this kind can be started with `--version`. Any other command might
/// have side effects.
fn has_version(kind: AgentKind) -> bool {
    match kind.origin() {
        Origin::Product => true,
        Origin::Command | Origin::BuiltIn => false,
    }
}
