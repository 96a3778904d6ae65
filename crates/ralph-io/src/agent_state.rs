//! The directory that an agent in a sandbox keeps its login and state in, instead of the user's.
//!
//! The user's own directory holds settings, hooks and sessions that the user's own program acts
//! on later; an agent that could write there would act outside of its sandbox. So it gets one of
//! its own, with copies of the login and of the user's choices (`configuration`). A login that it refreshed is copied back,
//! since the old one no longer holds, but only if it looks like one.
//!
//! [`prepare`] before each call and [`Prepared::return_credentials`] after it: several runs share
//! one login, and the shorter a copy lives the less likely it is to be outdated.
//! Not here: which files and variables those are, which the adapters know, and mounting anything.

mod account;
mod beneath;
pub mod configuration;
mod refresh;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_core::recipe::AgentKind;

use crate::bounded;
use crate::store::atomic;
use beneath::Directory;
use ralph_agents::{self as agents, Belongings, Returned};
use refresh::Doubt;

/// How many replaced logins are kept for one kind of agent.
const MOST_REPLACED: usize = 10;

/// Logins are some kilobytes.
const LARGEST: usize = 256 * 1024;

/// The directory of an agent's own, ready for a call.
#[derive(Debug)]
pub struct Prepared {
    /// The directory; the agent may write there.
    pub directory: PathBuf,
    /// The variables that make the agent use it.
    pub variables: Vec<(String, OsString)>,
    /// Directories of the user's that the agent must be able to read.
    pub readable: Vec<PathBuf>,
    /// Where logins are kept that were replaced; no agent sees it.
    replaced: PathBuf,
    seeded: Vec<Seeded>,
}

/// A file that was copied for the agent.
#[derive(Debug)]
struct Seeded {
    /// The user's file, with links followed.
    original: PathBuf,
    /// The copy, from the directory: what leads there, and its name.
    copy: Vec<String>,
    /// What both held.
    content: Vec<u8>,
}

/// What could not be prepared.
#[derive(Debug, thiserror::Error)]
#[error("cannot prepare the agent's own directory `{}`", .path.display())]
pub struct StateError {
    /// The place.
    pub path: PathBuf,
    /// The system's words.
    pub source: io::Error,
}

/// What became of a login that an agent changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was refreshed, and the user's file is as new.
    Returned {
        /// The user's file.
        file: PathBuf,
        /// Where the old one is kept.
        kept: PathBuf,
    },
    /// The user's file stays as it is.
    Left {
        /// The user's file.
        file: PathBuf,
        /// Why.
        why: Why,
    },
}

/// Why a login is not copied back.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// A link, a pipe or the like stands in its place, or it cannot be read.
    Unreadable(String),
    /// It is larger than any login.
    TooLarge,
    /// It is not JSON.
    NotJson,
    /// It has other keys than before.
    OtherKeys,
    /// It names another server or command than before.
    OtherServer {
        /// The key.
        key: String,
    },
    /// It is of another account.
    OtherAccount {
        /// The key.
        key: String,
    },
    /// The user's login has not expired, or does not tell when it does.
    StillValid {
        /// The key.
        key: String,
    },
    /// The user's file has changed as well.
    ChangedMeanwhile,
    /// The user's file cannot be written.
    Unwritable(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned { file, kept } => write!(
                f,
                "the agent refreshed its login: `{}` is replaced, the old one is kept in `{}`",
                file.display(),
                kept.display()
            ),
            Self::Left { file, why } => {
                write!(f, "the agent changed its login, and `{}` stays: {why}", file.display())
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(words) => write!(f, "what it left cannot be read: {words}"),
            Self::TooLarge => write!(f, "what it left is larger than any login"),
            Self::NotJson => write!(f, "what it left is not JSON"),
            Self::OtherKeys => write!(f, "what it left has other keys"),
            Self::OtherServer { key } => write!(f, "what it left says something else in `{key}`"),
            Self::OtherAccount { key } => {
                write!(f, "what it left is of another account, by `{key}`")
            }
            Self::StillValid { key } if key.is_empty() => write!(f, "yours has not expired"),
            Self::StillValid { key } => write!(f, "`{key}` in yours has not expired"),
            Self::ChangedMeanwhile => write!(f, "it has changed as well"),
            Self::Unwritable(words) => write!(f, "it cannot be written: {words}"),
        }
    }
}

/// Makes the directory of an agent in a project's state, with a copy of the user's login.
///
/// `env` is what the agent would be started with outside: it says where the user's directory is.
/// A login that the user no longer has is taken from the agent as well.
pub fn prepare(
    kind: AgentKind,
    env: &[(OsString, OsString)],
    state: &Path,
) -> Result<Prepared, StateError> {
    let path = state.join("agent").join(kind.name());
    let refused = |source: io::Error| StateError { path: path.clone(), source };
    let directory = Directory::make(&path).map_err(refused)?;
    let mut prepared = Prepared {
        directory: path.clone(),
        variables: Vec::new(),
        readable: Vec::new(),
        replaced: state.join("logins").join(kind.name()),
        seeded: Vec::new(),
    };
    let Some(belongings) = agents::belongings(kind) else { return Ok(prepared) };
    let variable = |name: &str| set_variable(env, name).map(PathBuf::from);
    let mut is_seeded = false;
    for credential in belongings.credentials {
        let copy = steps(belongings, credential.file);
        let original = belongings
            .place
            .find(variable)
            .and_then(|place| place.join(credential.file).canonicalize().ok());
        let content = original.as_deref().and_then(read_original);
        put(&directory, &copy, content.as_deref()).map_err(refused)?;
        is_seeded |= content.is_some();
        if let (Some(original), Some(content), Returned::IfRefreshed) =
            (original, content, credential.returned)
        {
            prepared.seeded.push(Seeded { original, copy, content });
        }
    }
    prepared.variables = variables(belongings, &path, variable("HOME").as_deref());
    prepared.variables.extend(configuration::seed(kind, env, &directory, &path).map_err(refused)?);
    for (place, below) in belongings.programs {
        let user = place.find(variable).and_then(|it| it.canonicalize().ok());
        prepared.readable.extend(link(&directory, below, user).map_err(refused)?);
    }
    if let Some((name, value)) = belongings.chosen_by
        && is_seeded
        && !belongings.login.iter().any(|name| variable(name).is_some())
    {
        prepared.variables.push((name.to_owned(), value.into()));
    }
    Ok(prepared)
}

/// Returns what the user's logins of an agent hold, for whoever must keep them out of sight.
pub fn logins(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<Vec<u8>> {
    let Some(belongings) = agents::belongings(kind) else { return Vec::new() };
    let variable = |name: &str| set_variable(env, name).map(PathBuf::from);
    let Some(place) = belongings.place.find(variable) else { return Vec::new() };
    let files = belongings.credentials.iter().map(|credential| place.join(credential.file));
    files.filter_map(|file| read_original(&file.canonicalize().ok()?)).collect()
}

/// The directory that takes the place of home, where an agent's directory cannot be moved.
const HOME: &str = "home";

/// Returns the way from the agent's directory to a file of its login.
fn steps(belongings: &Belongings, file: &str) -> Vec<String> {
    let home = (belongings.place.variable == "HOME").then_some(HOME);
    let inside = belongings.place.inside.split('/').filter(|step| !step.is_empty());
    home.into_iter().chain(inside).chain(file.split('/')).map(str::to_owned).collect()
}

/// Returns the value of a variable that is set and not empty.
fn set_variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    let found = env.iter().find(|(it, value)| it == name && !value.is_empty());
    found.map(|(_, value)| value)
}

/// Makes a link to a directory of the user's in the agent's own, and returns that directory. What
/// the agent has put there itself stays.
fn link(directory: &Directory, below: &str, user: Option<PathBuf>) -> io::Result<Option<PathBuf>> {
    let Some(user) = user.filter(|it| it.is_dir()) else { return Ok(None) };
    let mut steps: Vec<&str> = below.split('/').collect();
    let Some(name) = steps.pop() else { return Ok(None) };
    let mut place = directory.again()?;
    for step in steps {
        place = place.enter(step)?;
    }
    place.link(name, &user)?;
    Ok(Some(user))
}

fn variables(belongings: &Belongings, path: &Path, home: Option<&Path>) -> Vec<(String, OsString)> {
    let apart = belongings.apart.iter().map(|(name, below)| (*name, path.join(below)));
    let mut variables: Vec<(&str, PathBuf)> = apart.collect();
    if belongings.place.variable == "HOME" {
        variables.push(("HOME", path.join(HOME)));
        // What is looked for at home by default is still in the old one.
        variables.extend(home.into_iter().flat_map(left_at_home));
    } else {
        variables.push((belongings.place.variable, path.to_owned()));
    }
    variables.into_iter().map(|(name, path)| (name.to_owned(), path.into())).collect()
}

/// Returns the variables of what is there in a home, for a program that has another one.
fn left_at_home(home: &Path) -> Vec<(&'static str, PathBuf)> {
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

/// Returns the content of a login of the user's; none where there is none that can be used.
fn read_original(path: &Path) -> Option<Vec<u8>> {
    let content = bounded::read_beginning(path, LARGEST as u64 + 1).ok()?;
    (content.len() <= LARGEST).then_some(content)
}

/// Writes a copy, or takes an old one away.
fn put(directory: &Directory, copy: &[String], content: Option<&[u8]>) -> io::Result<()> {
    let Some((name, above)) = copy.split_last() else { return Ok(()) };
    match content {
        Some(content) => {
            let mut place = directory.again()?;
            for step in above {
                place = place.enter(step)?;
            }
            place.write(name, content)
        }
        None => match find(directory, above) {
            Ok(Some(place)) => place.remove(name),
            // Whatever stands on the way now, it leads to no copy of ours.
            Ok(None) | Err(_) => Ok(()),
        },
    }
}

/// Returns a directory below, if it is there.
fn find(directory: &Directory, steps: &[String]) -> io::Result<Option<Directory>> {
    let mut place = directory.again()?;
    for step in steps {
        match place.find(step)? {
            Some(below) => place = below,
            None => return Ok(None),
        }
    }
    Ok(Some(place))
}

impl Prepared {
    /// Copies logins back that the agent refreshed. Nothing of an agent that is still running
    /// should be read; the call is to be over.
    pub fn return_credentials(&self) -> Vec<Notice> {
        self.seeded.iter().filter_map(|seeded| self.return_one(seeded)).collect()
    }

    fn return_one(&self, seeded: &Seeded) -> Option<Notice> {
        let file = seeded.original.clone();
        match self.refreshed(seeded) {
            Ok(None) => None,
            Ok(Some(content)) => {
                let replaced = self
                    .keep_replaced(seeded)
                    .and_then(|kept| atomic::replace(&seeded.original, &content).map(|()| kept));
                Some(match replaced {
                    Ok(kept) => Notice::Returned { file, kept },
                    Err(error) => Notice::Left { file, why: Why::Unwritable(error.to_string()) },
                })
            }
            Err(why) => Some(Notice::Left { file, why }),
        }
    }

    /// Keeps a login that is about to be replaced, with the few before it.
    fn keep_replaced(&self, seeded: &Seeded) -> io::Result<PathBuf> {
        let directory = Directory::make(&self.replaced)?;
        let name = seeded.copy.last().map_or("login", String::as_str);
        let name = format!("{}-{name}", Timestamp::now().as_millisecond());
        directory.write(&name, &seeded.content)?;
        let entries = fs::read_dir(&self.replaced)?.flatten();
        let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        kept.sort();
        for old in kept.iter().rev().skip(MOST_REPLACED) {
            fs::remove_file(old)?;
        }
        Ok(self.replaced.join(name))
    }

    /// Returns what the user's file is to hold, if that is something new.
    fn refreshed(&self, seeded: &Seeded) -> Result<Option<Vec<u8>>, Why> {
        let unreadable = |error: io::Error| Why::Unreadable(error.to_string());
        let (name, above) = seeded.copy.split_last().ok_or(Why::TooLarge)?;
        let directory = Directory::open(&self.directory).map_err(unreadable)?;
        let Some(place) = find(&directory, above).map_err(unreadable)? else { return Ok(None) };
        // An agent that logs out takes its copy away; the user's stays.
        let Some(content) = place.read(name, LARGEST + 1).map_err(unreadable)? else {
            return Ok(None);
        };
        if content == seeded.content {
            return Ok(None);
        }
        if content.len() > LARGEST {
            return Err(Why::TooLarge);
        }
        refresh::check(&seeded.content, &content, Timestamp::now()).map_err(
            |doubt| match doubt {
                Doubt::NotJson => Why::NotJson,
                Doubt::OtherKeys => Why::OtherKeys,
                Doubt::OtherServer { key } => Why::OtherServer { key },
                Doubt::OtherAccount { key } => Why::OtherAccount { key },
                Doubt::StillValid { key } => Why::StillValid { key },
            },
        )?;
        if read_original(&seeded.original).as_ref() != Some(&seeded.content) {
            return Err(Why::ChangedMeanwhile);
        }
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests;
