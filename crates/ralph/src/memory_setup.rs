//! Sets up the memory of a run: the MCP servers of the compacting agent, and the memory of the
//! previous run.
//!
//! Not here: compacting, which is an iteration of the loop like others.

use std::path::{Path, PathBuf};

use ralph_core::memory;
use ralph_io::atomic_file;
use ralph_io::store::{ProjectLayout, journal, runs};
use ralph_model::agent::AgentChoice;
use ralph_model::capability::McpServers;
use ralph_model::ids::Role;
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

/// A file that names MCP servers, to be written into the run directory.
pub(crate) struct ServerFile {
    path: PathBuf,
    servers: Map<String, Value>,
}

/// Returns the recipe with MCP servers for the compacting agent, unless the settings name others,
/// and the files that name them. Those are in the run directory, which agents do not write.
pub(crate) fn choose_servers(
    project: &Project,
    run: &Path,
    mut recipe: Recipe,
) -> Result<(Recipe, Vec<ServerFile>), CliError> {
    let agent = recipe.agent_for(Role::Compact).clone();
    let Some(policy) = &mut recipe.memory else { return Ok((recipe, Vec::new())) };
    policy.documentation = find_documentation(project, &agent, run);
    if !uses_own_servers(&agent, run) || agent.capabilities.mcp == McpServers::None {
        return Ok((recipe, Vec::new()));
    }
    let own = ("memory".to_owned(), build_own_server(&project.directory)?);
    let plain = run.join(SERVERS);
    let mut files =
        vec![ServerFile { path: plain.clone(), servers: [own.clone()].into_iter().collect() }];
    if let Documentation::Servers(file) = &policy.documentation {
        let context7 = json!({"command": STARTER, "args": ["-y", "@upstash/context7-mcp"]});
        let servers = [own, ("context7".to_owned(), context7)].into_iter().collect();
        files.push(ServerFile { path: file.clone(), servers });
    }
    let compacting = recipe.agents.entry(Role::Compact).or_insert(agent);
    compacting.mcp_config = Some(plain);
    Ok((recipe, files))
}

/// Returns which documentation server the compacting agent has, for files in this run directory.
fn find_documentation(project: &Project, agent: &AgentChoice, files: &Path) -> Documentation {
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

/// Writes the files that name MCP servers.
pub(crate) fn write_server_files(files: &[ServerFile]) -> Result<(), CliError> {
    for ServerFile { path, servers } in files {
        let text = format!("{:#}\n", json!({"mcpServers": servers}));
        atomic_file::replace_file(path, text.as_bytes()).map_err(|error| {
            let message = format!("cannot write `{}`: {error}", path.display());
            CliError::new(ExitStatus::Incomplete, message)
        })?;
    }
    Ok(())
}

/// Returns the recipe with the memory that the last run on the same list left. Must be called
/// before the run is created.
pub(crate) fn with_memory(layout: &ProjectLayout, mut recipe: Recipe) -> Recipe {
    let Some(file) = recipe.task_work().map(|work| work.file.clone()) else { return recipe };
    if let Some(policy) = &mut recipe.memory {
        policy.known = find_previous_memory(layout, &file).map(Box::new);
    }
    recipe
}

fn find_previous_memory(layout: &ProjectLayout, file: &Path) -> Option<Memory> {
    runs::list_runs(layout.state()).into_iter().take(MAX_SEARCHED_RUNS).find_map(|known| {
        let state = journal::fold_journal(&layout.run_dir(&known.id).journal_path()).ok()?;
        let is_same = state.recipe.task_work().is_some_and(|work| work.file == file);
        is_same
            .then(|| memory::build_final_memory(state.memory.as_deref(), &state.since_compaction))
            .flatten()
    })
}
