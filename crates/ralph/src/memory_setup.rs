//! Sets up the memory of a run: the MCP servers of the compacting agent, and the memory of the
//! previous run.
//!
//! Not here: compacting, which is an iteration of the loop like others.

use std::path::Path;

use ralph_core::memory;
use ralph_io::atomic_file;
use ralph_io::store::{ProjectLayout, RunDir, journal, runs};
use ralph_model::agent::AgentChoice;
use ralph_model::capability::McpServers;
use ralph_model::ids::{Role, RunId};
use ralph_model::memory::{Documentation, Memory};
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::Recipe;
use serde_json::{Map, Value, json};

use crate::cli_error::CliError;
use crate::project::{Project, find_own_executable};

/// Path of the knowledge graph, relative to the project directory.
pub(crate) const MEMORY_FILE: &str = ".ralph/memory.jsonl";

/// MCP servers of the compacting agent.
const SERVERS: &str = "mcp-memory.json";

/// The same, with a server for documentation.
const WITH_DOCUMENTATION: &str = "mcp-documentation.json";

/// The program that starts the server for documentation.
const STARTER: &str = "npx";

/// How many runs are searched for one that left a memory.
const MAX_SEARCHED_RUNS: usize = 10;

/// Returns the recipe with MCP servers for the compacting agent, unless the settings name others.
/// Their files are in the run directory, which agents do not write.
pub(crate) fn with_servers(
    project: &Project,
    files: &RunDir,
    mut recipe: Recipe,
) -> Result<Recipe, CliError> {
    let agent = recipe.agent_for(Role::Compact).clone();
    let plain = files.path().join(SERVERS);
    let Some(policy) = &mut recipe.memory else { return Ok(recipe) };
    policy.documentation = find_documentation(project, &agent, files.path());
    if !uses_own_servers(&agent, files.path()) || agent.capabilities.mcp == McpServers::None {
        return Ok(recipe);
    }
    let own = build_own_server(&project.directory)?;
    write_servers(&plain, [("memory", own.clone())])?;
    if let Documentation::Servers(file) = &policy.documentation {
        let context7 = json!({"command": STARTER, "args": ["-y", "@upstash/context7-mcp"]});
        write_servers(file, [("memory", own), ("context7", context7)])?;
    }
    let compacting = recipe.agents.entry(Role::Compact).or_insert(agent);
    compacting.mcp_config = Some(plain);
    Ok(recipe)
}

/// Returns which documentation server the compacting agent has, for files in this run directory.
pub(crate) fn find_documentation(
    project: &Project,
    agent: &AgentChoice,
    files: &Path,
) -> Documentation {
    if !uses_own_servers(agent, files) {
        return Documentation::Unknown;
    }
    if agent.capabilities.mcp == McpServers::None {
        let why = format!("{} takes no MCP servers for one call", agent.display_name());
        return Documentation::Nowhere(why);
    }
    match project.find_program(STARTER) {
        Ok(_) => Documentation::Servers(files.join(WITH_DOCUMENTATION)),
        Err(_) => Documentation::Nowhere(format!("`{STARTER}` is not on the PATH")),
    }
}

/// Returns whether an agent gets ralph's own servers. A resumed run already names its own files.
fn uses_own_servers(agent: &AgentChoice, files: &Path) -> bool {
    agent.mcp_config.as_ref().is_none_or(|file| *file == files.join(SERVERS))
}

/// Returns the MCP server entry that serves this project's knowledge graph with this binary.
fn build_own_server(project: &Path) -> Result<Value, CliError> {
    let exe = find_own_executable()?;
    let file = project.join(MEMORY_FILE);
    let args = ["mcp", "memory", "--file"].map(str::to_owned).into_iter();
    let args: Vec<String> = args.chain([file.to_string_lossy().into_owned()]).collect();
    Ok(json!({"command": exe.to_string_lossy(), "args": args}))
}

fn write_servers<const N: usize>(path: &Path, servers: [(&str, Value); N]) -> Result<(), CliError> {
    let servers: Map<String, Value> =
        servers.into_iter().map(|(name, server)| (name.to_owned(), server)).collect();
    let text = format!("{:#}\n", json!({"mcpServers": servers}));
    atomic_file::replace_file(path, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        CliError::new(ExitStatus::Incomplete, message)
    })
}

/// Returns the recipe with the memory that the last run on the same list left.
pub(crate) fn with_memory(layout: &ProjectLayout, run: &RunId, mut recipe: Recipe) -> Recipe {
    let Some(file) = recipe.task_work().map(|work| work.file.clone()) else { return recipe };
    if let Some(policy) = &mut recipe.memory {
        policy.known = find_previous_memory(layout, run, &file).map(Box::new);
    }
    recipe
}

fn find_previous_memory(layout: &ProjectLayout, run: &RunId, file: &Path) -> Option<Memory> {
    let before = runs::list_runs(layout.state()).into_iter().filter(|known| known.id != *run);
    before.take(MAX_SEARCHED_RUNS).find_map(|known| {
        let state = journal::fold_journal(&layout.run_dir(&known.id).journal_path()).ok()?;
        let is_same = state.recipe.task_work().is_some_and(|work| work.file == file);
        is_same
            .then(|| memory::build_final_memory(state.memory.as_deref(), &state.since_compaction))
            .flatten()
    })
}
