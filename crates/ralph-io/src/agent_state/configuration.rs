//! The user's own configuration of an agent: found, read, and copied for a sandboxed agent.
//!
//! The files belong to the user, are outside the project, and are trusted: the agent may reach the
//! addresses in them, and gets the variables that they name. Not here: which files those are and
//! what is copied of each, which the adapters know.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_agents as agents;
use ralph_agents::configuration::{self, ConfigFile, ImportedConfig};
use ralph_model::agent::AgentKind;
use serde_json::Value;

use super::confined_directory::ConfinedDirectory;
use super::{find_variable, read_original, split_copy_path, write_or_remove_copy};

/// The directory for copies of files that are not in the agent's own directory.
const ELSEWHERE: &str = "config";

/// A file of the user's configuration.
struct UserFile {
    original: PathBuf,
    /// The path of its copy below the agent's directory, by components.
    copy: Vec<String>,
    /// What is copied, if the file exists.
    taken: Option<ImportedConfig>,
    /// The variable that must name the copy.
    named_by: Option<&'static str>,
}

/// Writes copies of the user's configuration into an agent's directory, removes outdated ones, and
/// returns the variables that name them.
pub(super) fn copy_user_configuration(
    kind: AgentKind,
    env: &[(OsString, OsString)],
    directory: &ConfinedDirectory,
    path: &Path,
) -> io::Result<Vec<(String, OsString)>> {
    let mut variables: Vec<(String, OsString)> = Vec::new();
    for file in find_user_files(kind, env) {
        write_or_remove_copy(
            directory,
            &file.copy,
            file.taken.as_ref().map(|taken| taken.content.as_slice()),
        )?;
        if let (Some(name), Some(_)) = (file.named_by, &file.taken)
            && find_variable(env, name).is_none()
            && !variables.iter().any(|(known, _)| known == name)
        {
            let copy: PathBuf = file.copy.iter().collect();
            variables.push((name.to_owned(), path.join(copy).into()));
        }
    }
    Ok(variables)
}

/// Returns the addresses that the user's configuration makes an agent use.
pub fn find_addresses(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let variable = |name: &str| find_variable(env, name)?.to_str().map(str::to_owned);
    let documents = read_documents(kind, env);
    documents.iter().flat_map(|it| configuration::collect_addresses(it, variable)).collect()
}

/// Returns the names of the variables that the user's configuration reads keys from.
pub fn find_key_variables(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    read_documents(kind, env).iter().flat_map(configuration::collect_variables).collect()
}

/// Returns the parsed configuration files and logins of the user.
pub fn read_documents(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<Value> {
    let files = find_user_files(kind, env);
    let files = files.into_iter().filter_map(|file| Some(file.taken?.document));
    let logins = super::read_user_logins(kind, env);
    let logins = logins.iter().filter_map(|login| serde_json::from_slice(login).ok());
    files.chain(logins).filter(|it| !it.is_null()).collect()
}

/// Returns what the user must know about the parts of their configuration that a sandboxed agent
/// does not get.
pub fn list_notices(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let home = find_variable(env, "HOME").map(PathBuf::from);
    let shown = |path: &Path| match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let notice = |file: &UserFile| {
        let taken = file.taken.as_ref()?;
        let (name, kind) = (shown(&file.original), kind.name());
        if !taken.is_understood {
            return Some(format!(
                "`{name}` cannot be parsed: {kind} gets a plain copy, and the addresses in it are not allowed"
            ));
        }
        let keys: Vec<String> = taken.removed_keys.iter().map(|key| format!("`{key}`")).collect();
        let is_server = |key: &&str| key.to_lowercase().contains("mcp");
        let hint = if taken.removed_keys.iter().any(is_server) {
            "; `mcp.coding` gives it servers"
        } else {
            ""
        };
        let keys = keys.join(", ");
        (!keys.is_empty())
            .then(|| format!("in the sandbox {kind} uses `{name}` without {keys}{hint}"))
    };
    find_user_files(kind, env).iter().filter_map(notice).collect()
}

fn find_user_files(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<UserFile> {
    let Some(agent_env) = agents::find_adapter(kind).env else { return Vec::new() };
    let variable = |name: &str| find_variable(env, name).map(PathBuf::from);
    let mut files = Vec::new();
    for file in agent_env.configuration {
        let place = file.directory.unwrap_or(agent_env.state_dir);
        let Some(directory) = place.resolve_path(variable) else { continue };
        for name in expand_wildcard(&directory, file) {
            let original = directory.join(&name);
            let content = original.canonicalize().ok().and_then(|path| read_original(&path));
            let copy = match file.directory {
                None => split_copy_path(agent_env, &name),
                Some(place) if agent_env.state_dir.variable == "HOME" => {
                    let below = format!("{}/{}/{name}", place.default, place.subdirectory);
                    [super::HOME].into_iter().chain(below.split('/')).map(str::to_owned).collect()
                }
                Some(_) => vec![ELSEWHERE.to_owned(), name],
            };
            let taken = content.map(|content| configuration::import_config(file, &content));
            files.push(UserFile { original, copy, taken, named_by: file.path_variable });
        }
    }
    files
}

/// Returns the files that a name with a wildcard stands for.
fn expand_wildcard(directory: &Path, file: &ConfigFile) -> Vec<String> {
    let Some(end) = file.file.strip_prefix('*') else { return vec![file.file.to_owned()] };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(end)).collect()
}
