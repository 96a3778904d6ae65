//! Sets up what a run knows of earlier ones: the MCP servers of the compacting agent, the memory
//! of the previous run, and the failed attempts at its tasks.
//!
//! Not here: compacting, which is an iteration of the loop like others.

use std::iter;
use std::path::{Path, PathBuf};

use ralph_core::memory;
use ralph_io::atomic_file;
use ralph_io::store::{ProjectLayout, journal, runs};
use ralph_model::agent::AgentChoice;
use ralph_model::attempt::{EarlierAttempts, RESTORE_CAUSE};
use ralph_model::capability::McpServers;
use ralph_model::handoff::WorkOutcome;
use ralph_model::ids::{Role, TaskId};
use ralph_model::memory::Documentation;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{Recipe, Work};
use ralph_model::run::RunState;
use ralph_model::task_state::TaskState;
use serde_json::{Map, Value, json};

use crate::cli_error::CliError;
use crate::project::{Project, find_own_executable};
use crate::run_context::FormerWork;

/// Path of the knowledge graph, relative to the project directory.
pub(crate) const MEMORY_FILE: &str = ".ralph/memory.jsonl";

/// MCP servers of the compacting agent.
const SERVERS: &str = "mcp-memory.json";

/// The same, with a server for documentation.
const WITH_DOCUMENTATION: &str = "mcp-documentation.json";

/// The program that starts the server for documentation.
const STARTER: &str = "npx";

/// How many runs are searched for those on the same list.
const MAX_SEARCHED_RUNS: usize = 100;

/// How many runs on the same list are read whole, until one left a memory.
const MAX_READ_RUNS: usize = 10;

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

/// Returns the recipe with what earlier runs on the same list left: the attempts of the last
/// one, and the last memory. Must be called before the run is created.
pub(crate) fn with_earlier_runs(layout: &ProjectLayout, mut recipe: Recipe) -> Recipe {
    let Work::Tasks(work) = &mut recipe.work else { return recipe };
    let file = work.file.clone();
    let mut earlier = runs::list_newest_first(layout.state())
        .take(MAX_SEARCHED_RUNS)
        .map(|known| layout.run_dir(&known.id).journal_path())
        .filter(|path| journal::read_recipe(path).is_some_and(|it| is_on_list(&it, &file)))
        .take(MAX_READ_RUNS)
        .filter_map(|path| journal::fold_journal(&path).ok());
    let Some(last) = earlier.next() else { return recipe };
    match (&last.tasks, last.recipe.task_work()) {
        (Some(tasks), _) => {
            work.earlier = list_open_attempts(tasks);
            work.added = tasks.added.iter().cloned().collect();
        }
        // It ended before it read the list.
        (None, Some(before)) => {
            work.earlier.clone_from(&before.earlier);
            work.added.clone_from(&before.added);
        }
        (None, None) => {}
    }
    if let Some(policy) = &mut recipe.memory {
        let find_memory = |state: RunState| {
            memory::build_final_memory(state.memory.as_deref(), &state.since_compaction)
        };
        policy.known = iter::once(last).chain(earlier).find_map(find_memory).map(Box::new);
    }
    recipe
}

fn is_on_list(recipe: &Recipe, file: &Path) -> bool {
    recipe.task_work().is_some_and(|work| work.file == *file)
}

/// Returns the attempts that the next run takes over. Whether changes that stayed in the work
/// tree are still there is unknown.
fn list_open_attempts(tasks: &TaskState) -> Vec<EarlierAttempts> {
    let mut earlier = tasks.list_earlier_attempts();
    for EarlierAttempts { log, .. } in &mut earlier {
        log.last_outcome = log.last_outcome.take().filter(|outcome| match outcome {
            WorkOutcome::RolledBack { .. } | WorkOutcome::Abandoned { branch: Some(_), .. } => true,
            WorkOutcome::Passed { .. }
            | WorkOutcome::Failed { .. }
            | WorkOutcome::Abandoned { branch: None, .. } => false,
        });
    }
    earlier
}

/// Returns the recipe with where the work of a task's earlier attempts is now.
pub(crate) fn with_former_work(mut recipe: Recipe, task: &TaskId, work: &FormerWork) -> Recipe {
    let Work::Tasks(tasks) = &mut recipe.work else { return recipe };
    let mut is_marked = false;
    if let FormerWork::InTree { onto, conflicts } = work {
        tasks.restored_onto = Some(Box::new(onto.clone()));
        tasks.restored_conflicts.clone_from(conflicts);
        is_marked = !conflicts.is_empty();
    }
    for EarlierAttempts { log, .. } in tasks.earlier.iter_mut().filter(|it| it.task == *task) {
        let at = log.recent.last().map(|last| last.gate.clone()).unwrap_or_default();
        log.last_outcome = Some(match work {
            FormerWork::InTree { .. } if is_marked => {
                WorkOutcome::Failed { at: RESTORE_CAUSE.to_owned() }
            }
            FormerWork::InTree { .. } => WorkOutcome::Failed { at },
            FormerWork::Archived(branch) => {
                WorkOutcome::Abandoned { at, branch: Some(branch.clone()) }
            }
        });
    }
    recipe
}
