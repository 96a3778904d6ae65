//! The directory in which a sandboxed agent keeps its login and state, instead of the user's.
//!
//! The user's own directory holds settings, hooks and sessions that the user's own agent acts upon
//! later; a sandboxed agent that could write there could act outside its sandbox. So it gets a
//! directory of its own, with copies of the login and of the user's settings (`configuration`). If
//! the agent refreshed the login, ralph copies it back, because the old one is no longer valid, but
//! only if the new file passes the checks in `refresh`.
//!
//! Call [`prepare_agent_state`] before each agent call and
//! [`PreparedAgentState::return_credentials`] after it: several runs share one login, and a copy
//! that is used only briefly is less likely to be outdated. Not here: which files and variables
//! those are, which the adapters know, and mounting.

pub mod configuration;
mod confined_directory;
mod login_account;
mod refresh;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use confined_directory::ConfinedDirectory;
use jiff::Timestamp;
use ralph_agents::{self as agents, AgentEnv, CredentialSync};
use ralph_model::agent::AgentKind;

use crate::{atomic_file, bounded_read};

/// How many replaced logins are kept for one kind of agent.
const MAX_REPLACED: usize = 10;

/// Logins are some kilobytes.
const MAX_LOGIN_BYTES: usize = 256 * 1024;

/// The agent's own directory, ready for a call.
#[derive(Debug)]
pub struct PreparedAgentState {
    /// The agent may write there.
    pub directory: PathBuf,
    /// The variables that make the agent use it.
    pub variables: Vec<(String, OsString)>,
    /// Directories of the user that the agent must be able to read.
    pub readable: Vec<PathBuf>,
    /// Where replaced logins are kept; invisible to agents.
    replaced: PathBuf,
    seeded: Vec<SeededCredential>,
}

/// A file that was copied for the agent.
#[derive(Debug)]
struct SeededCredential {
    /// The user's file, with links resolved.
    original: PathBuf,
    /// The path of the copy below the directory, by components.
    copy: Vec<String>,
    /// The content of both.
    content: Vec<u8>,
}

/// The agent's own directory could not be prepared.
#[derive(Debug, thiserror::Error)]
#[error("cannot prepare the agent's own directory `{}`", .path.display())]
pub struct AgentStateError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// What ralph did with a login that an agent changed.
#[derive(Debug, PartialEq, Eq)]
pub enum LoginNotice {
    /// The agent refreshed it, and ralph replaced the user's file.
    Returned {
        /// The user's file.
        file: PathBuf,
        /// Where the old one is kept.
        kept: PathBuf,
    },
    /// The user's file is unchanged.
    NotReturned {
        /// The user's file.
        file: PathBuf,
        why: NotReturnedReason,
    },
}

/// Why a login is not copied back.
#[derive(Debug, PartialEq, Eq)]
pub enum NotReturnedReason {
    /// It was replaced by a link, a pipe or the like, or it cannot be read.
    Unreadable(String),
    TooLarge,
    NotJson,
    /// Its keys, or the types of their values, differ from the old ones.
    OtherKeys,
    /// It names another server or command than before.
    OtherServer {
        key: String,
    },
    /// It belongs to another account.
    OtherAccount {
        key: String,
    },
    /// Nothing in it can be compared with the old one.
    UnknownAccount,
    /// It is of no use.
    AlreadyExpired,
    /// The user's login has not expired, or has no known expiry.
    StillValid {
        key: String,
    },
    /// The user's file has changed as well.
    OriginalChanged,
    Unwritable(String),
}

impl fmt::Display for LoginNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned { file, kept } => write!(
                f,
                "the agent refreshed its login: `{}` is replaced, the old file is kept in `{}`",
                file.display(),
                kept.display()
            ),
            Self::NotReturned { file, why } => {
                write!(
                    f,
                    "the agent changed its login, but `{}` is not updated: {why}",
                    file.display()
                )
            }
        }
    }
}

impl fmt::Display for NotReturnedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the new file cannot be read: {error}"),
            Self::TooLarge => write!(f, "the new file is larger than any login"),
            Self::NotJson => write!(f, "the new file is not JSON"),
            Self::OtherKeys => write!(f, "the new file has other keys"),
            Self::OtherServer { key } => write!(f, "the new file has another value in `{key}`"),
            Self::OtherAccount { key } => {
                write!(f, "the new file belongs to another account, by `{key}`")
            }
            Self::UnknownAccount => {
                write!(f, "neither file says whose it is; log in again if yours has expired")
            }
            Self::AlreadyExpired => write!(f, "the new login has expired already"),
            Self::StillValid { key } if key.is_empty() => write!(f, "your login has not expired"),
            Self::StillValid { key } => write!(f, "`{key}` in your login has not expired"),
            Self::OriginalChanged => write!(f, "your file has changed as well"),
            Self::Unwritable(error) => write!(f, "it cannot be written: {error}"),
        }
    }
}

/// Creates the directory of an agent in a project's state, with a copy of the user's login.
///
/// `env` is the environment that the agent would have without a sandbox: it locates the user's
/// directory. If the user no longer has a login, the agent's copy is removed as well.
pub fn prepare_agent_state(
    kind: AgentKind,
    env: &[(OsString, OsString)],
    state: &Path,
) -> Result<PreparedAgentState, AgentStateError> {
    let path = state.join("agent").join(kind.name());
    let refused = |source: io::Error| AgentStateError { path: path.clone(), source };
    let directory = ConfinedDirectory::create(&path).map_err(refused)?;
    let mut prepared = PreparedAgentState {
        directory: path.clone(),
        variables: Vec::new(),
        readable: Vec::new(),
        replaced: state.join("logins").join(kind.name()),
        seeded: Vec::new(),
    };
    let Some(agent_env) = agents::find_adapter(kind).env else { return Ok(prepared) };
    let variable = |name: &str| find_variable(env, name).map(PathBuf::from);
    let mut is_seeded = false;
    for credential in agent_env.credentials {
        let copy = split_copy_path(agent_env, credential.file);
        let original = agent_env
            .state_dir
            .resolve_path(variable)
            .and_then(|place| place.join(credential.file).canonicalize().ok());
        let content = original.as_deref().and_then(read_original);
        write_or_remove_copy(&directory, &copy, content.as_deref()).map_err(refused)?;
        is_seeded |= content.is_some();
        if let (Some(original), Some(content), CredentialSync::IfRefreshed) =
            (original, content, credential.sync)
        {
            prepared.seeded.push(SeededCredential { original, copy, content });
        }
    }
    prepared.variables = build_variables(agent_env, &path, variable("HOME").as_deref());
    prepared.variables.extend(
        configuration::copy_user_configuration(kind, env, &directory, &path).map_err(refused)?,
    );
    for (place, below) in agent_env.cached_programs {
        let user = place.resolve_path(variable).and_then(|it| it.canonicalize().ok());
        for (below, user) in list_cached_programs(below, user) {
            let linked = link_user_directory(&directory, &below, user);
            prepared.readable.extend(linked.map_err(refused)?);
        }
    }
    if let Some((name, value)) = agent_env.enabling_variable
        && is_seeded
        && !agent_env.login.iter().any(|name| variable(name).is_some())
    {
        prepared.variables.push((name.to_owned(), value.into()));
    }
    Ok(prepared)
}

/// Returns the contents of the user's login files of an agent, so that they can be masked.
pub fn read_user_logins(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<Vec<u8>> {
    let Some(agent_env) = agents::find_adapter(kind).env else { return Vec::new() };
    let variable = |name: &str| find_variable(env, name).map(PathBuf::from);
    let Some(place) = agent_env.state_dir.resolve_path(variable) else { return Vec::new() };
    let files = agent_env.credentials.iter().map(|credential| place.join(credential.file));
    files.filter_map(|file| read_original(&file.canonicalize().ok()?)).collect()
}

/// The directory that replaces the home directory, for an agent whose directory cannot be moved.
const HOME: &str = "home";

/// Returns the path from the agent's directory to a file of its login, by components.
fn split_copy_path(agent_env: &AgentEnv, file: &str) -> Vec<String> {
    let home = (agent_env.state_dir.variable == "HOME").then_some(HOME);
    let inside = agent_env.state_dir.subdirectory.split('/').filter(|step| !step.is_empty());
    home.into_iter().chain(inside).chain(file.split('/')).map(str::to_owned).collect()
}

/// Returns the value of a variable that is set and not empty.
fn find_variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    let found = env.iter().find(|(it, value)| it == name && !value.is_empty());
    found.map(|(_, value)| value)
}

/// Returns the directories to link: the path in the agent's own, and the user's.
fn list_cached_programs(below: &str, user: Option<PathBuf>) -> Vec<(String, PathBuf)> {
    let Some(user) = user.filter(|it| it.is_dir()) else { return Vec::new() };
    let Some(below) = below.strip_suffix(agents::EACH_VERSION) else {
        return vec![(below.to_owned(), user)];
    };
    let list = |directory: &Path| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let named = entries.filter_map(|it| Some((it.file_name().into_string().ok()?, it.path())));
        // A hidden one is being unpacked.
        named.filter(|(name, path)| !name.starts_with('.') && path.is_dir()).collect()
    };
    let platforms = list(&user).into_iter();
    platforms
        .flat_map(|(platform, directory)| {
            let versions = list(&directory).into_iter();
            versions.map(move |(version, path)| (format!("{below}/{platform}/{version}"), path))
        })
        .collect()
}

/// Creates a link to a directory of the user in the agent's own, and returns that directory. A
/// directory that the agent has filled itself stays.
fn link_user_directory(
    directory: &ConfinedDirectory,
    below: &str,
    user: PathBuf,
) -> io::Result<Option<PathBuf>> {
    let mut steps: Vec<&str> = below.split('/').collect();
    let Some(name) = steps.pop() else { return Ok(None) };
    let mut place = directory.try_clone()?;
    for step in steps {
        place = place.open_or_create(step)?;
    }
    place.create_link(name, &user)?;
    Ok(Some(user))
}

fn build_variables(
    agent_env: &AgentEnv,
    path: &Path,
    home: Option<&Path>,
) -> Vec<(String, OsString)> {
    let apart = agent_env.redirected_dirs.iter().map(|(name, below)| (*name, path.join(below)));
    let mut variables: Vec<(&str, PathBuf)> = apart.collect();
    if agent_env.state_dir.variable == "HOME" {
        variables.push(("HOME", path.join(HOME)));
        // Tools that use a default path in the home must still find the real one.
        variables.extend(home.into_iter().flat_map(find_home_variables));
    } else {
        variables.push((agent_env.state_dir.variable, path.to_owned()));
    }
    variables.into_iter().map(|(name, path)| (name.to_owned(), path.into())).collect()
}

/// Returns variables for existing tool directories in a home, for a program with another home.
fn find_home_variables(home: &Path) -> Vec<(&'static str, PathBuf)> {
    const DEFAULTS: [(&str, &str); 7] = [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("GOPATH", "go"),
        ("NVM_DIR", ".nvm"),
        ("PYENV_ROOT", ".pyenv"),
        ("SDKMAN_DIR", ".sdkman"),
        ("GIT_CONFIG_GLOBAL", ".gitconfig"),
    ];
    let places = DEFAULTS.into_iter().map(|(name, below)| (name, home.join(below)));
    places.filter(|(_, path)| path.exists()).collect()
}

/// Returns the content of a user's login; `None` if there is no usable one.
fn read_original(path: &Path) -> Option<Vec<u8>> {
    let content = bounded_read::read_beginning(path, MAX_LOGIN_BYTES as u64 + 1).ok()?;
    (content.len() <= MAX_LOGIN_BYTES).then_some(content)
}

/// Writes a copy, or removes an old one.
fn write_or_remove_copy(
    directory: &ConfinedDirectory,
    copy: &[String],
    content: Option<&[u8]>,
) -> io::Result<()> {
    let Some((name, above)) = copy.split_last() else { return Ok(()) };
    match content {
        Some(content) => {
            let mut place = directory.try_clone()?;
            for step in above {
                place = place.open_or_create(step)?;
            }
            place.replace_file(name, content)
        }
        None => match find_directory(directory, above) {
            Ok(Some(place)) => place.remove_file(name),
            // If the path is something else now, there is no copy of ours.
            Ok(None) | Err(_) => Ok(()),
        },
    }
}

/// Opens a directory below, if it exists.
fn find_directory(
    directory: &ConfinedDirectory,
    steps: &[String],
) -> io::Result<Option<ConfinedDirectory>> {
    let mut place = directory.try_clone()?;
    for step in steps {
        match place.open_below(step)? {
            Some(below) => place = below,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

impl PreparedAgentState {
    /// Copies back logins that the agent refreshed. Must be called after the agent has ended,
    /// because a running agent may still be writing them.
    pub fn return_credentials(&self) -> Vec<LoginNotice> {
        self.seeded.iter().filter_map(|seeded| self.return_credential(seeded)).collect()
    }

    fn return_credential(&self, seeded: &SeededCredential) -> Option<LoginNotice> {
        let file = seeded.original.clone();
        match self.read_refreshed(seeded) {
            Ok(None) => None,
            Ok(Some(content)) => {
                let replaced = self.keep_replaced(seeded).and_then(|kept| {
                    atomic_file::replace_file(&seeded.original, &content).map(|()| kept)
                });
                Some(match replaced {
                    Ok(kept) => LoginNotice::Returned { file, kept },
                    Err(error) => LoginNotice::NotReturned {
                        file,
                        why: NotReturnedReason::Unwritable(error.to_string()),
                    },
                })
            }
            Err(why) => Some(LoginNotice::NotReturned { file, why }),
        }
    }

    /// Keeps a login that is about to be replaced, and deletes the oldest kept ones.
    fn keep_replaced(&self, seeded: &SeededCredential) -> io::Result<PathBuf> {
        let directory = ConfinedDirectory::create(&self.replaced)?;
        let name = seeded.copy.last().map_or("login", String::as_str);
        let name = format!("{}-{name}", Timestamp::now().as_millisecond());
        directory.replace_file(&name, &seeded.content)?;
        let entries = fs::read_dir(&self.replaced)?.flatten();
        let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        kept.sort();
        for old in kept.iter().rev().skip(MAX_REPLACED) {
            fs::remove_file(old)?;
        }
        Ok(self.replaced.join(name))
    }

    /// Returns the new content for the user's file, if the agent refreshed the login.
    fn read_refreshed(
        &self,
        seeded: &SeededCredential,
    ) -> Result<Option<Vec<u8>>, NotReturnedReason> {
        let unreadable = |error: io::Error| NotReturnedReason::Unreadable(error.to_string());
        let (name, above) = seeded.copy.split_last().ok_or(NotReturnedReason::TooLarge)?;
        let directory = ConfinedDirectory::open(&self.directory).map_err(unreadable)?;
        let Some(place) = find_directory(&directory, above).map_err(unreadable)? else {
            return Ok(None);
        };
        // An agent that logs out removes its copy; the user's file stays.
        let Some(content) = place.read_file(name, MAX_LOGIN_BYTES + 1).map_err(unreadable)? else {
            return Ok(None);
        };
        if content == seeded.content {
            return Ok(None);
        }
        if content.len() > MAX_LOGIN_BYTES {
            return Err(NotReturnedReason::TooLarge);
        }
        refresh::check_refresh(&seeded.content, &content, Timestamp::now())?;
        if read_original(&seeded.original).as_ref() != Some(&seeded.content) {
            return Err(NotReturnedReason::OriginalChanged);
        }
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests;
