//! Fills a recipe with the installed version of each agent, what that version can do, and the
//! directories an agent writes when it commits.
//!
//! Not here: the capabilities of each version, which the adapters know.

use std::path::PathBuf;

use ralph_agents as agents;
use ralph_io::process::Watch;
use ralph_io::versions::{ProgramContext, Versions, find_cache_directory};
use ralph_model::agent::{AgentChoice, AgentKind, AgentOrigin};
use ralph_model::recipe::{CommitPolicy, Recipe};

use crate::project::Project;

/// How agent versions are found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VersionSource<'a> {
    /// Start the programs, unless their version is cached.
    Programs(&'a Watch),
    /// Use the cache only.
    Cache,
    /// The programs are not on this machine; assume the newest version.
    Unknown,
}

/// Sets the version and the capabilities of each agent.
pub(crate) fn set_agent_versions<'a>(
    project: &Project,
    agents: impl Iterator<Item = &'a mut AgentChoice>,
    asking: VersionSource<'_>,
) {
    let mut versions = Versions::open(find_cache_directory(|name| std::env::var_os(name)));
    let unwatched = Watch::new_detached();
    for agent in agents {
        let watch = match asking {
            VersionSource::Programs(watch) => watch,
            VersionSource::Cache | VersionSource::Unknown => &unwatched,
        };
        let place = ProgramContext { directory: &project.directory, env: &project.env, watch };
        agent.version = match (has_version(agent.kind), asking) {
            (true, VersionSource::Programs(_)) => versions.find_version(&agent.command, place),
            (true, VersionSource::Cache) => versions.find_cached_version(&agent.command, place),
            (true, VersionSource::Unknown) | (false, _) => None,
        };
        agent.capabilities = agents::detect_capabilities(agent.kind, agent.version);
        if let Some(selectors) = &agent.selectors {
            agent.capabilities.usage = selectors.usage.reported_usage();
        }
    }
}

/// Returns the recipe with the versions that are installed now.
pub(crate) fn with_agent_versions(
    project: &Project,
    mut recipe: Recipe,
    asking: VersionSource<'_>,
) -> Recipe {
    set_agent_versions(project, recipe.list_agents_mut(), asking);
    let writable = match recipe.landing.commit {
        CommitPolicy::Agent => find_history_directories(project, asking),
        CommitPolicy::Ralph | CommitPolicy::Scm(_) | CommitPolicy::NoCommit => Vec::new(),
    };
    for agent in recipe.list_agents_mut() {
        agent.writable.clone_from(&writable);
    }
    recipe
}

/// Returns the directories of the repository that an agent writes when it commits.
fn find_history_directories(project: &Project, asking: VersionSource<'_>) -> Vec<PathBuf> {
    let unwatched = Watch::new_detached();
    let watch = match asking {
        VersionSource::Programs(watch) => watch,
        VersionSource::Cache | VersionSource::Unknown => &unwatched,
    };
    let repository = project.find_repository(watch).ok().flatten();
    repository.map(|repository| repository.history_directories()).unwrap_or_default()
}

/// Returns whether a program of this kind can be started with `--version`. Any other command might
/// have side effects.
fn has_version(kind: AgentKind) -> bool {
    match kind.origin() {
        AgentOrigin::Product => true,
        AgentOrigin::Command | AgentOrigin::BuiltIn => false,
    }
}
