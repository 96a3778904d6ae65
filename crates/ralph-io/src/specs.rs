//! Checks a specs folder before the first agent call: is there something for agents to read?
//!
//! The walk is bounded, whatever the folder holds. Not here: what the specifications say.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bounded_read::read_beginning;

/// No agent reads a folder with more in it.
const MOST_ENTRIES: usize = 10_000;

/// Directories nested deeper than this are not searched.
const DEEPEST: usize = 16;

/// How many files are opened to check that they are text, and how much of each is read. The
/// beginning is enough to tell; a thousand files take a moment.
const MOST_READ: usize = 1_000;
const READ_BYTES: u64 = 64 * 1024;

/// More file names do not help to find the mistake.
const MOST_NAMED: usize = 5;

/// About a quarter of a million tokens, which no agent holds at once.
const HUGE_BYTES: u64 = 1024 * 1024;

/// The content of a specs folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Specs {
    /// Text files. Images and hidden files do not count.
    pub files: u32,
    /// Their total size.
    pub bytes: u64,
    /// Whether the folder holds more than was searched.
    pub is_more: bool,
    /// Files that are not UTF-8 or cannot be read, relative to the project directory, with the
    /// reason: the first five, then how many more.
    pub unreadable: Vec<String>,
}

/// Why a specs folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecsError {
    /// The folder does not exist.
    #[error("there is no directory `{}` with specifications", .directory.display())]
    Missing {
        /// The folder as the user named it.
        directory: PathBuf,
    },
    /// It is not a directory.
    #[error("`{}` is not a directory", .directory.display())]
    NotDirectory { directory: PathBuf },
    /// It is the project directory itself, where agents work.
    #[error("`{}` is the project directory itself, not one for specifications", .directory.display())]
    Project { directory: PathBuf },
    /// It is outside the project, where ralph does not notice changes of agents.
    #[error("`{}` leads out of the project, to `{}`", .directory.display(), .to.display())]
    Outside { directory: PathBuf, to: PathBuf },
    /// No file in it has any text.
    #[error("`{}` has no specification in it", .directory.display())]
    Empty { directory: PathBuf },
    /// No file in it can be read as text.
    #[error("`{}` has no specification that can be read: {}", .directory.display(), .names.join(", "))]
    Unreadable {
        directory: PathBuf,
        /// As in [`Specs::unreadable`].
        names: Vec<String>,
    },
    /// The directory cannot be read.
    #[error("cannot read the directory `{}`", .directory.display())]
    Refused { directory: PathBuf, source: io::Error },
}

/// Checks and measures the specs folder of a project.
pub fn survey_specs(project: &Path, directory: &Path) -> Result<Specs, SpecsError> {
    let place = resolve_specs_dir(project, directory)?;
    let mut walk = SpecsWalk {
        place: &place,
        shown: directory,
        specs: Specs::default(),
        unreadable: 0,
        entries: 0,
        read: 0,
        directories: VecDeque::from([(place.clone(), 1)]),
    };
    // Upper levels first: if a bound ends the walk early, it has seen what people see.
    while let Some((path, depth)) = walk.directories.pop_front() {
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(source) if depth == 1 => {
                return Err(SpecsError::Refused { directory: directory.to_owned(), source });
            }
            Err(error) => {
                walk.note_unreadable(&path, &error.to_string());
                continue;
            }
        };
        walk.visit_entries(entries, depth);
    }
    let SpecsWalk { mut specs, unreadable, .. } = walk;
    if unreadable > specs.unreadable.len() {
        specs.unreadable.push(format!("and {} more", unreadable - specs.unreadable.len()));
    }
    let directory = directory.to_owned();
    match (specs.files, specs.unreadable.is_empty()) {
        (0, true) => Err(SpecsError::Empty { directory }),
        (0, false) => Err(SpecsError::Unreadable { directory, names: specs.unreadable }),
        (_, _) => Ok(specs),
    }
}

impl Specs {
    /// Returns warnings to show before the first agent starts.
    pub fn warnings(&self, directory: &Path) -> Vec<String> {
        let directory = directory.display();
        let mut warnings = Vec::new();
        if !self.unreadable.is_empty() {
            warnings.push(format!(
                "not everything in `{directory}` can be read as text, and agents may miss what it says: {}; save it as UTF-8",
                self.unreadable.join(", ")
            ));
        }
        let size = match (self.is_more, self.bytes > HUGE_BYTES) {
            (true, _) => Some(format!("more than {} files", self.files)),
            (false, true) => Some(format!("more than {} MiB", self.bytes / HUGE_BYTES)),
            (false, false) => None,
        };
        if let Some(size) = size {
            warnings.push(format!(
                "`{directory}` is enormous ({size}): agents read only part of it; split it, or name in the plan what matters"
            ));
        }
        warnings
    }
}

impl SpecsError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "write down in Markdown files there what is to be built; the setting `specsDir` names another directory"
            }
            Self::NotDirectory { .. } | Self::Project { .. } | Self::Refused { .. } => {
                "the setting `specsDir` names the directory with the specifications"
            }
            Self::Outside { .. } => {
                "move the specifications into the project; the setting `specsDir` names their directory"
            }
            Self::Empty { .. } => "write down in Markdown files there what is to be built",
            Self::Unreadable { .. } => "save the specifications as UTF-8 text",
        }
    }
}

/// Returns the real path of the folder, if specifications may be there.
fn resolve_specs_dir(project: &Path, named: &Path) -> Result<PathBuf, SpecsError> {
    let directory = named.to_owned();
    let place = match project.join(named).canonicalize() {
        Ok(place) => place,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SpecsError::Missing { directory });
        }
        // One of its parents is a file.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(SpecsError::NotDirectory { directory });
        }
        Err(source) => return Err(SpecsError::Refused { directory, source }),
    };
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    if !place.is_dir() {
        Err(SpecsError::NotDirectory { directory })
    } else if place == project {
        Err(SpecsError::Project { directory })
    } else if !place.starts_with(&project) {
        Err(SpecsError::Outside { directory, to: place })
    } else {
        Ok(place)
    }
}

struct SpecsWalk<'a> {
    /// The folder's real path, then as the user named it.
    place: &'a Path,
    shown: &'a Path,
    specs: Specs,
    /// How many files cannot be read, including those beyond `NAMED`.
    unreadable: usize,
    entries: usize,
    read: usize,
    /// Directories still to be searched, with their depth.
    directories: VecDeque<(PathBuf, usize)>,
}

/// What the beginning of a file holds.
enum FileStart {
    Text,
    /// Only white space, or binary data such as an image.
    Nothing,
    NotUtf8,
}

impl SpecsWalk<'_> {
    fn visit_entries(&mut self, entries: fs::ReadDir, depth: usize) {
        let left = MOST_ENTRIES - self.entries;
        let mut found: Vec<PathBuf> =
            entries.flatten().take(left + 1).map(|entry| entry.path()).collect();
        self.specs.is_more |= found.len() > left;
        found.truncate(left);
        self.entries += found.len();
        found.sort();
        for path in found {
            let is_hidden =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if !is_hidden {
                self.visit_path(path, depth);
            }
        }
    }

    fn visit_path(&mut self, path: PathBuf, depth: usize) {
        let own = path.symlink_metadata();
        let is_link = own.as_ref().is_ok_and(fs::Metadata::is_symlink);
        let metadata = match if is_link { path.metadata() } else { own } {
            Ok(metadata) => metadata,
            Err(error) => return self.note_unreadable(&path, &error.to_string()),
        };
        if metadata.is_dir() {
            if depth >= DEEPEST {
                self.specs.is_more |= !is_link;
            } else if !is_link {
                self.directories.push_back((path, depth + 1));
            }
            return;
        }
        if !metadata.is_file() || metadata.len() == 0 {
            return;
        }
        if self.read < MOST_READ {
            self.read += 1;
            match classify_start(&path) {
                Ok(FileStart::Text) => {}
                Ok(FileStart::Nothing) => return,
                Ok(FileStart::NotUtf8) => return self.note_unreadable(&path, "not UTF-8"),
                Err(error) => return self.note_unreadable(&path, &error.to_string()),
            }
        }
        self.specs.files += 1;
        self.specs.bytes = self.specs.bytes.saturating_add(metadata.len());
    }

    fn note_unreadable(&mut self, path: &Path, why: &str) {
        self.unreadable += 1;
        if self.specs.unreadable.len() < MOST_NAMED {
            let path = self.shown.join(path.strip_prefix(self.place).unwrap_or(path));
            self.specs.unreadable.push(format!("`{}` ({why})", path.display()));
        }
    }
}

fn classify_start(path: &Path) -> io::Result<FileStart> {
    let bytes = read_beginning(path, READ_BYTES)?;
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    Ok(match std::str::from_utf8(&bytes) {
        _ if is_utf16 => FileStart::NotUtf8,
        _ if bytes.contains(&0) => FileStart::Nothing,
        Ok(text) if text.trim_start_matches('\u{feff}').trim().is_empty() => FileStart::Nothing,
        // A character cut off by the read limit is not an error.
        Err(error) if error.error_len().is_some() => FileStart::NotUtf8,
        Err(_) if (bytes.len() as u64) < READ_BYTES => FileStart::NotUtf8,
        Ok(_) | Err(_) => FileStart::Text,
    })
}

#[cfg(test)]
mod tests;
