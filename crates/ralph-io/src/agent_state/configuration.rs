//! The user's own configuration of an agent: found, read, and copied for an agent in a sandbox.
//!
//! The files are the user's, outside of the project, and trusted: the addresses in them may be
//! reached, and the variables that they name are passed on. Not here: which files those are and
//! what is taken over of each, which is the adapters' business.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ralph_agents::configuration::{self, ConfigFile, Taken};
use ralph_agents::{self as agents};
use ralph_core::recipe::AgentKind;
use serde_json::Value;

use super::beneath::Directory;
use super::{put, read_original, set_variable, steps};

/// Where copies lie of files that are not in the agent's own directory.
const ELSEWHERE: &str = "config";

/// A file of the user's configuration.
struct UserFile {
    /// The user's file.
    original: PathBuf,
    /// Its copy, from the agent's directory.
    copy: Vec<String>,
    /// What is taken over, where there is a file.
    taken: Option<Taken>,
    /// The variable that has to name the copy.
    named_by: Option<&'static str>,
}

/// Writes copies of the user's configuration into an agent's directory, removes outdated ones, and
/// returns the variables that name them.
pub(super) fn seed(
    kind: AgentKind,
    env: &[(OsString, OsString)],
    directory: &Directory,
    path: &Path,
) -> io::Result<Vec<(String, OsString)>> {
    let mut variables: Vec<(String, OsString)> = Vec::new();
    for file in user_files(kind, env) {
        put(directory, &file.copy, file.taken.as_ref().map(|taken| taken.content.as_slice()))?;
        if let (Some(name), Some(_)) = (file.named_by, &file.taken)
            && set_variable(env, name).is_none()
            && !variables.iter().any(|(known, _)| known == name)
        {
            let copy: PathBuf = file.copy.iter().collect();
            variables.push((name.to_owned(), path.join(copy).into()));
        }
    }
    Ok(variables)
}

/// Returns the addresses that the user's configuration sends an agent to.
pub fn addresses(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let variable = |name: &str| set_variable(env, name)?.to_str().map(str::to_owned);
    let documents = documents(kind, env);
    documents.iter().flat_map(|it| configuration::addresses(it, variable)).collect()
}

/// Returns the names of the variables that the user's configuration takes keys from.
pub fn variables(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    documents(kind, env).iter().flat_map(configuration::variables).collect()
}

/// Returns what the user's configuration says, and what is said in logins.
pub fn documents(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<Value> {
    let files = user_files(kind, env);
    let files = files.into_iter().filter_map(|file| Some(file.taken?.document));
    let logins = super::logins(kind, env);
    let logins = logins.iter().filter_map(|login| serde_json::from_slice(login).ok());
    files.chain(logins).filter(|it| !it.is_null()).collect()
}

/// Returns what the user must know of their configuration before an agent runs without a part of
/// it.
pub fn notices(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let home = set_variable(env, "HOME").map(PathBuf::from);
    let shown = |path: &Path| match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let notice = |file: &UserFile| {
        let taken = file.taken.as_ref()?;
        let (name, kind) = (shown(&file.original), kind.name());
        if !taken.is_understood {
            return Some(format!(
                "`{name}` cannot be read: {kind} gets it as it is, and the addresses in it are not allowed"
            ));
        }
        let keys: Vec<String> = taken.left_out.iter().map(|key| format!("`{key}`")).collect();
        let is_server = |key: &&str| key.to_lowercase().contains("mcp");
        let hint = if taken.left_out.iter().any(is_server) {
            "; `mcp.coding` gives it servers"
        } else {
            ""
        };
        let keys = keys.join(", ");
        (!keys.is_empty())
            .then(|| format!("in the sandbox {kind} uses `{name}` without {keys}{hint}"))
    };
    user_files(kind, env).iter().filter_map(notice).collect()
}

fn user_files(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<UserFile> {
    let Some(belongings) = agents::belongings(kind) else { return Vec::new() };
    let variable = |name: &str| set_variable(env, name).map(PathBuf::from);
    let mut files = Vec::new();
    for file in belongings.configuration {
        let place = file.place.unwrap_or(belongings.place);
        let Some(directory) = place.find(variable) else { continue };
        for name in names(&directory, file) {
            let original = directory.join(&name);
            let content = original.canonicalize().ok().and_then(|path| read_original(&path));
            let copy = match file.place {
                None => steps(belongings, &name),
                Some(place) if belongings.place.variable == "HOME" => {
                    let below = format!("{}/{}/{name}", place.default, place.inside);
                    [super::HOME].into_iter().chain(below.split('/')).map(str::to_owned).collect()
                }
                Some(_) => vec![ELSEWHERE.to_owned(), name],
            };
            let taken = content.map(|content| configuration::take_over(file, &content));
            files.push(UserFile { original, copy, taken, named_by: file.named_by });
        }
    }
    files
}

/// Returns the names of the files that a name stands for.
fn names(directory: &Path, file: &ConfigFile) -> Vec<String> {
    let Some(end) = file.file.strip_prefix('*') else { return vec![file.file.to_owned()] };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(end)).collect()
}
