//! Reads settings files and the environment: the only I/O of this module.
//!
//! Not here: what the text means; see `layers`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ralph_io::atomic_file;
use serde::{Deserialize, Serialize};

use super::layers::{FileAuthor, SettingsFile, SettingsSources};
use super::path::JsonPath;
use super::problem::{ProblemLocation, SettingProblem, SettingsError};

/// Settings are some kilobytes; a larger file is refused, to not fill the memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The files that settings are read from.
#[derive(Debug, Clone)]
pub(crate) struct SettingsPaths<'a> {
    /// The user's own; it need not exist.
    pub(crate) user: Option<&'a Path>,
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
pub(crate) fn find_local_settings_path(project: &Path) -> PathBuf {
    build_path_in_project(project, LOCAL)
}

/// Records the local settings that a run begins with, for commands used while it is active.
pub(crate) fn record_local_settings(project: &Path, state: &Path) -> io::Result<()> {
    let record = LocalRecord { text: fs::read_to_string(find_local_settings_path(project)).ok() };
    atomic_file::replace_unsynced(&state.join(LOCAL_RECORD), &serde_json::to_vec(&record)?)
}

/// Returns the local settings that the active run began with.
pub(crate) fn read_recorded_local_settings(state: &Path) -> LocalSettings {
    let record = fs::read(state.join(LOCAL_RECORD)).ok();
    let record = record.and_then(|text| serde_json::from_slice::<LocalRecord>(&text).ok());
    record.map_or(LocalSettings::InProject, |record| LocalSettings::Recorded(record.text))
}

/// Returns the path of the user's own settings, existing or not: in `$XDG_CONFIG_HOME/ralph`, else
/// in `~/.config/ralph`. `None` without a home directory.
pub(crate) fn find_user_settings_path(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|directory| directory.join("ralph/settings.json"))
}

/// Reads the settings files.
///
/// A project without settings files is fine. The caller adds the environment and the flags.
pub(crate) fn read_sources(files: SettingsPaths<'_>) -> Result<SettingsSources, SettingsError> {
    let mut problems = Vec::new();
    let user = files.user.map_or(Ok(None), |path| read_settings_file(path, SpecialFiles::Refused));
    let base = match files.config {
        Some(path) => match read_settings_file(path, SpecialFiles::Allowed) {
            Ok(None) => Err(build_file_problem(path, "no such file", None)),
            other => other,
        },
        None => read_settings_file(
            &build_path_in_project(files.project, "settings.json"),
            SpecialFiles::Refused,
        ),
    };
    let path = find_local_settings_path(files.project);
    let local = match files.local {
        LocalSettings::InProject => read_settings_file(&path, SpecialFiles::Refused),
        LocalSettings::Recorded(text) => {
            Ok(text.map(|text| SettingsFile { path, text, author: FileAuthor::Project }))
        }
    };
    let mut take = |file: Result<Option<SettingsFile>, SettingProblem>| {
        let file = file.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })?;
        // Any file in the work tree counts as the project's.
        let author = if is_in_work_tree(&file.path, files.project) {
            FileAuthor::Project
        } else {
            FileAuthor::User
        };
        Some(SettingsFile { author, ..file })
    };
    let (user, base, local) = (take(user), take(base), take(local));
    let sources = SettingsSources { user, base, local, ..SettingsSources::default() };
    if problems.is_empty() { Ok(sources) } else { Err(SettingsError { problems }) }
}

/// Returns the top of the work tree that contains a project; without one, the project itself.
pub(crate) fn find_work_tree_top(project: &Path) -> &Path {
    project.ancestors().find(|it| it.join(".git").exists()).unwrap_or(project)
}

/// Returns whether a file is in the work tree of a project, by its path or by its resolved path.
fn is_in_work_tree(file: &Path, project: &Path) -> bool {
    let top = find_work_tree_top(project);
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_below = |path: &Path| path.starts_with(top) || path.starts_with(resolved(top));
    // A link in the project to a file elsewhere is the project's choice too.
    let named = file.parent().zip(file.file_name()).map(|(above, name)| resolved(above).join(name));
    is_below(file) || is_below(&resolved(file)) || named.is_some_and(|it| is_below(&it))
}

impl SettingsSources {
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

fn build_path_in_project(project_dir: &Path, name: &str) -> PathBuf {
    let inside = Path::new(".ralph").join(name);
    if project_dir == Path::new(".") { inside } else { project_dir.join(inside) }
}

/// Whether a file may be a pipe or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpecialFiles {
    /// The user named it: `--config <(make-settings)`.
    Allowed,
    /// It is in the project, where an agent may have created it; reading a pipe would never end.
    Refused,
}

fn read_settings_file(
    path: &Path,
    special: SpecialFiles,
) -> Result<Option<SettingsFile>, SettingProblem> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dangling link is an error, not a missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        Err(error) => {
            return Err(build_file_problem(path, &format!("cannot be read: {error}"), None));
        }
    };
    if metadata.is_dir() {
        return Err(build_file_problem(path, "is a directory, not a settings file", None));
    }
    if !metadata.is_file() && special == SpecialFiles::Refused {
        return Err(build_file_problem(path, "is not a regular file", None));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| build_file_problem(path, &format!("cannot be read: {error}"), None))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(build_file_problem(path, "is larger than 1 MiB, too large for settings", None));
    }
    decode_settings(path, bytes).map(Some)
}

fn decode_settings(path: &Path, bytes: Vec<u8>) -> Result<SettingsFile, SettingProblem> {
    let hint = Some("save it as UTF-8 without a byte-order mark");
    if [&[0xef, 0xbb, 0xbf][..], &[0xff, 0xfe], &[0xfe, 0xff]]
        .iter()
        .any(|it| bytes.starts_with(it))
    {
        return Err(build_file_problem(path, "begins with a byte-order mark", hint));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
        build_file_problem(
            path,
            &format!("is not UTF-8 text (line {line})"),
            Some("save it as UTF-8"),
        )
    })?;
    Ok(SettingsFile { path: path.into(), text, author: FileAuthor::Project })
}

fn build_file_problem(path: &Path, message: &str, hint: Option<&str>) -> SettingProblem {
    SettingProblem {
        place: ProblemLocation::WholeFile { path: path.into() },
        path: JsonPath::default(),
        message: message.into(),
        hint: hint.map(Into::into),
    }
}

#[cfg(test)]
mod tests;
