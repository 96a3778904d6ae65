//! Resolves the paths of a command to absolute paths; unknown parts are cut off.
//!
//! Resolving symbolic links needs a file system: the caller passes a function for it.

use std::path::{Component, Path, PathBuf};

use super::access::{AccessMode, PathAccess};
use super::word::{GLOBS, STAR, Word};

/// A path that a command touches, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedPath {
    /// The path as the command names it.
    pub path: Word,
    pub mode: AccessMode,
    pub location: PathLocation,
}

/// A location. Each path is listed both as written and with links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathLocation {
    /// Exactly these paths.
    At(Vec<PathBuf>),
    /// Some entries of a directory.
    In {
        directories: Vec<PathBuf>,
        /// The beginning of the entries' names.
        prefix: String,
        extent: GlobExtent,
    },
    Unknown,
}

/// Which entries of a directory are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlobExtent {
    All,
    /// Entries with certain names.
    Matching,
}

impl LocatedPath {
    /// Locates an access. `resolve` resolves the links of an absolute path.
    pub(super) fn new(
        access: &PathAccess,
        cwd: Option<&str>,
        home: Option<&str>,
        resolve: &dyn Fn(&Path) -> PathBuf,
    ) -> Self {
        let location = locate_word(&access.path, cwd, home, resolve);
        Self { path: access.path.clone(), mode: access.mode, location }
    }

    /// Returns the paths, or the directories that contain them.
    pub fn places(&self) -> &[PathBuf] {
        match &self.location {
            PathLocation::At(places) | PathLocation::In { directories: places, .. } => places,
            PathLocation::Unknown => &[],
        }
    }

    /// Returns whether the access affects `root` or something below it. Removing a directory, or
    /// reading it recursively, affects everything in it.
    pub(super) fn affects_root(&self, root: &Path) -> bool {
        let takes_along = match self.mode {
            AccessMode::Remove | AccessMode::ReadAll => true,
            AccessMode::Use | AccessMode::Read | AccessMode::Execute | AccessMode::Write => false,
        };
        match &self.location {
            PathLocation::At(places) => places
                .iter()
                .any(|place| place.starts_with(root) || takes_along && root.starts_with(place)),
            PathLocation::In { directories, prefix, extent } => {
                directories.iter().any(|directory| {
                    directory.starts_with(root)
                        || root.starts_with(directory)
                            && root != directory
                            && takes_along
                            && match extent {
                                GlobExtent::All => true,
                                GlobExtent::Matching => has_name_prefix(root, directory, prefix),
                            }
                        || root.parent() == Some(directory)
                            && !prefix.is_empty()
                            && has_name_prefix(root, directory, prefix)
                })
            }
            PathLocation::Unknown => false,
        }
    }
}

/// Returns whether the next path component below a directory begins with `prefix`.
fn has_name_prefix(root: &Path, directory: &Path, prefix: &str) -> bool {
    let below = root.strip_prefix(directory).ok().and_then(|below| below.components().next());
    let name = below.map(|it| it.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    !prefix.is_empty() && name.starts_with(prefix)
}

fn locate_word(
    word: &Word,
    cwd: Option<&str>,
    home: Option<&str>,
    resolve: &dyn Fn(&Path) -> PathBuf,
) -> PathLocation {
    let spellings = |path: &Path| {
        let mut spellings = vec![normalize_lexically(path)];
        let resolved = resolve(path);
        if resolved != spellings[0] {
            spellings.push(resolved);
        }
        spellings
    };
    let absolute = |text: &str| -> Option<PathBuf> {
        match (text.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                Some(PathBuf::from(format!("{home}{rest}")))
            }
            _ if text.starts_with('/') => Some(PathBuf::from(text)),
            _ => cwd.map(|cwd| Path::new(cwd).join(text)),
        }
    };
    if let Some(text) = word.as_known() {
        return absolute(text)
            .map_or(PathLocation::Unknown, |path| PathLocation::At(spellings(&path)));
    }
    let certain = word.certain_prefix();
    let raw = word.raw();
    // A path that begins with an unknown part is unknown; one that begins with a glob is an entry
    // of the current directory.
    if certain.is_empty() && !raw.starts_with(GLOBS) {
        return PathLocation::Unknown;
    }
    let (directory, prefix) = match certain.rsplit_once('/') {
        Some(("", prefix)) => ("/", prefix),
        Some((directory, prefix)) => (directory, prefix),
        None => (".", certain),
    };
    let rest = &raw[certain.len()..];
    let is_all = prefix.is_empty() && rest.trim_end_matches('/').chars().all(|it| it == STAR);
    let Some(path) = absolute(directory) else { return PathLocation::Unknown };
    PathLocation::In {
        directories: spellings(&path),
        prefix: prefix.to_owned(),
        extent: if is_all { GlobExtent::All } else { GlobExtent::Matching },
    }
}

/// Removes `.` and `..` from a path without looking at the file system.
pub fn normalize_lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}
