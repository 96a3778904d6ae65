//! Reads settings files and the environment: the only I/O of this module.
//!
//! Not here: what the text means; see `layers`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ralph_io::store::atomic;
use serde::{Deserialize, Serialize};

use super::layers::{SourceFile, Sources, Voice};
use super::path::JsonPath;
use super::problem::{Place, Problem, SettingsError};

/// Settings are some kilobytes; a larger file is refused, to not fill the memory.
const LARGEST: u64 = 1 << 20;

/// The files that settings are read from.
#[derive(Debug, Clone)]
pub(crate) struct Files<'a> {
    /// The user's own; it need not exist.
    pub(crate) user: Option<&'a Path>,
    /// The project directory.
    pub(crate) project: &'a Path,
    /// Replaces `.ralph/settings.json`; it must exist.
    pub(crate) config: Option<&'a Path>,
    /// Where the local settings come from.
    pub(crate) local: LocalSettings,
}

/// Where the settings of `.ralph/settings.local.json` come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LocalSettings {
    /// The file, if there is one.
    InProject,
    /// The text when the active run began: later changes may be its agent's.
    Recorded(Option<String>),
}

/// The local settings as an active run records them in the state of the project.
#[derive(Debug, Serialize, Deserialize)]
struct LocalRecord {
    text: Option<String>,
}

const LOCAL: &str = "settings.local.json";
const LOCAL_RECORD: &str = "local-settings.json";

/// Returns the path of the local settings.
pub(crate) fn local_file(project: &Path) -> PathBuf {
    in_project(project, LOCAL)
}

/// Records the local settings that a run begins with, for commands used while it is active.
pub(crate) fn record_local_settings(project: &Path, state: &Path) -> io::Result<()> {
    let record = LocalRecord { text: fs::read_to_string(local_file(project)).ok() };
    atomic::replace_in_passing(&state.join(LOCAL_RECORD), &serde_json::to_vec(&record)?)
}

/// Returns the local settings that the active run began with.
pub(crate) fn recorded_local_settings(state: &Path) -> LocalSettings {
    let record = fs::read(state.join(LOCAL_RECORD)).ok();
    let record = record.and_then(|text| serde_json::from_slice::<LocalRecord>(&text).ok());
    record.map_or(LocalSettings::InProject, |record| LocalSettings::Recorded(record.text))
}

/// Returns the path of the user's own settings, existing or not: in `$XDG_CONFIG_HOME/ralph`, else
/// in `~/.config/ralph`. `None` without a home directory.
pub(crate) fn user_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|directory| directory.join("ralph/settings.json"))
}

/// Reads the settings files.
///
/// A project without settings files is fine. The caller adds the environment and the flags.
pub(crate) fn read_sources(files: Files<'_>) -> Result<Sources, SettingsError> {
    let mut problems = Vec::new();
    let user = files.user.map_or(Ok(None), |path| read(path, Special::Refused));
    let base = match files.config {
        Some(path) => match read(path, Special::Allowed) {
            Ok(None) => Err(problem(path, "no such file", None)),
            other => other,
        },
        None => read(&in_project(files.project, "settings.json"), Special::Refused),
    };
    let path = local_file(files.project);
    let local = match files.local {
        LocalSettings::InProject => read(&path, Special::Refused),
        LocalSettings::Recorded(text) => {
            Ok(text.map(|text| SourceFile { path, text, voice: Voice::Project }))
        }
    };
    let mut take = |file: Result<Option<SourceFile>, Problem>| {
        let file = file.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })?;
        // Any file in the work tree counts as the project's.
        let voice = if lies_in(&file.path, files.project) { Voice::Project } else { Voice::User };
        Some(SourceFile { voice, ..file })
    };
    let (user, base, local) = (take(user), take(base), take(local));
    let sources = Sources { user, base, local, ..Sources::default() };
    if problems.is_empty() { Ok(sources) } else { Err(SettingsError { problems }) }
}

/// Returns the top of the work tree that contains a project; without one, the project itself.
pub(crate) fn work_tree_top(project: &Path) -> &Path {
    project.ancestors().find(|it| it.join(".git").exists()).unwrap_or(project)
}

/// Returns whether a file is in the work tree of a project, by its path or by its resolved path.
fn lies_in(file: &Path, project: &Path) -> bool {
    let top = work_tree_top(project);
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_below = |path: &Path| path.starts_with(top) || path.starts_with(resolved(top));
    // A link in the project to a file elsewhere is the project's choice too.
    let named = file.parent().zip(file.file_name()).map(|(above, name)| resolved(above).join(name));
    is_below(file) || is_below(&resolved(file)) || named.is_some_and(|it| is_below(&it))
}

impl Sources {
    /// Adds the `RALPH_*` variables of an environment, such as `std::env::vars_os()`.
    ///
    /// Bytes that are not UTF-8 are replaced; no setting needs them.
    #[must_use]
    pub(crate) fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        let named = variables.into_iter().map(|(name, value)| (lossy(name), lossy(value)));
        self.env.extend(named.filter(|(name, _)| name.starts_with("RALPH_")));
        self
    }
}

fn in_project(project_dir: &Path, name: &str) -> PathBuf {
    let inside = Path::new(".ralph").join(name);
    if project_dir == Path::new(".") { inside } else { project_dir.join(inside) }
}

/// Whether a file may be a pipe or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    /// The user named it: `--config <(make-settings)`.
    Allowed,
    /// It is in the project, where an agent may have created it; reading a pipe would never end.
    Refused,
}

fn read(path: &Path, special: Special) -> Result<Option<SourceFile>, Problem> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dangling link is an error, not a missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(error) => return Err(problem(path, &format!("cannot be read: {error}"), None)),
    };
    if metadata.is_dir() {
        return Err(problem(path, "is a directory, not a settings file", None));
    }
    if !metadata.is_file() && special == Special::Refused {
        return Err(problem(path, "is not a regular file", None));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| problem(path, &format!("cannot be read: {error}"), None))?;
    if bytes.len() as u64 > LARGEST {
        return Err(problem(path, "is larger than 1 MiB, too large for settings", None));
    }
    decode(path, bytes).map(Some)
}

fn decode(path: &Path, bytes: Vec<u8>) -> Result<SourceFile, Problem> {
    let hint = Some("save it as UTF-8 without a byte-order mark");
    if [&[0xef, 0xbb, 0xbf][..], &[0xff, 0xfe], &[0xfe, 0xff]]
        .iter()
        .any(|it| bytes.starts_with(it))
    {
        return Err(problem(path, "begins with a byte-order mark", hint));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
        problem(path, &format!("is not UTF-8 text (line {line})"), Some("save it as UTF-8"))
    })?;
    Ok(SourceFile { path: path.into(), text, voice: Voice::Project })
}

fn problem(path: &Path, message: &str, hint: Option<&str>) -> Problem {
    Problem {
        place: Place::WholeFile { path: path.into() },
        path: JsonPath::default(),
        message: message.into(),
        hint: hint.map(Into::into),
    }
}

#[cfg(test)]
mod tests;
