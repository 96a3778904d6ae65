//! Names that a child may not create: ralph notes them before the child starts, and while it runs
//! and afterwards removes what appeared there from the project. What is removed is kept in ralph's
//! state.
//!
//! ralph never creates placeholders in the project to block such a name: editors, shells and other
//! commands would find them. Not here: which names these are (`spec_builder`).

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io, thread};

use ralph_model::event::REMOVED_NAME;

use super::AbsentName;
use crate::atomic_file::replace_unsynced;
use crate::store::layout::create_private_directories;

/// The note in the directory of a run, which exists while a child runs. After a crash it says which
/// names to check.
const NOTE: &str = "absent.json";

/// The protected paths that existed when a child of this run started. An agent that deleted one has
/// to restore it, so it is no name that a child may not create.
const PRESENT: &str = "present.json";

/// The directory in the state of a project that keeps what was removed.
const KEPT: &str = "removed";

/// The file of a run that lists what was removed while the child ran.
const REMOVED: &str = "removed-names.json";

/// How often the names are checked while a child runs: an editor that watches a directory takes
/// about as long to load a file.
const INTERVAL: Duration = Duration::from_millis(200);

/// A child that creates names again and again must not fill the disk with what is kept.
const MOST_REMOVED: usize = 20;

/// Something that a child created and that was removed from the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedName {
    /// The name, relative to the project directory if it is inside.
    pub name: PathBuf,
    /// Where it is kept, or why it could not be removed.
    pub kept: Result<PathBuf, String>,
}

impl fmt::Display for RemovedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.display();
        match &self.kept {
            Ok(kept) => {
                write!(f, "{REMOVED_NAME}`{name}` (kept in `{}`)", kept.display())
            }
            Err(error) => write!(f, "`{name}` must not exist and cannot be removed: {error}"),
        }
    }
}

/// Writes down the names that the next child may not create: those that no child of this run found
/// there when it started.
pub(super) fn write_note(run: &Path, present: &[PathBuf], absent: &[AbsentName]) -> io::Result<()> {
    let file = run.join(PRESENT);
    let recorded = fs::read(&file).unwrap_or_default();
    let mut known: BTreeSet<PathBuf> = serde_json::from_slice(&recorded).unwrap_or_default();
    let before = known.len();
    known.extend(present.iter().cloned());
    if known.len() > before {
        replace_unsynced(&file, &serde_json::to_vec(&known)?)?;
    }
    let names: Vec<&AbsentName> =
        absent.iter().filter(|name| !known.contains(&name.path)).collect();
    fs::write(run.join(NOTE), serde_json::to_vec(&names)?)
}

/// Removes what appeared at the noted names, and then the note. Returns also what was removed while
/// the child ran, by a process that may have been killed meanwhile.
pub fn remove_appeared(run: &Path, state: &Path, project: &Path) -> Vec<RemovedName> {
    let earlier = fs::read(run.join(REMOVED)).unwrap_or_default();
    let earlier: Vec<(PathBuf, PathBuf)> = serde_json::from_slice(&earlier).unwrap_or_default();
    let mut removed: Vec<RemovedName> =
        earlier.into_iter().map(|(name, kept)| RemovedName { name, kept: Ok(kept) }).collect();
    removed.extend(remove_names(&read_note(run), state, project));
    let _ = fs::remove_file(run.join(REMOVED));
    let _ = fs::remove_file(run.join(NOTE));
    removed
}

fn read_note(run: &Path) -> Vec<AbsentName> {
    let text = fs::read(run.join(NOTE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn remove_names(names: &[AbsentName], state: &Path, project: &Path) -> Vec<RemovedName> {
    let mut removed: Vec<RemovedName> = Vec::new();
    for name in names {
        let Some(found) = find_created(&name.path) else { continue };
        let kept = move_to_kept(&found, &state.join(KEPT)).map_err(|error| error.to_string());
        // Directories that were created for it. One with other entries stays.
        let made = name.path.ancestors().skip(1).take_while(|it| **it != *name.above);
        for directory in made {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
        let name = found.strip_prefix(project).unwrap_or(&found).to_owned();
        removed.push(RemovedName { name, kept });
    }
    removed
}

/// Removes what a child creates at the noted names while it runs, so that editors and shells of the
/// user do not load it.
#[derive(Debug, Clone, Default)]
pub(super) struct NameWatch(Arc<Mutex<WatchedNames>>);

#[derive(Debug, Default)]
struct WatchedNames {
    /// Which child is watched. The thread of an earlier one ends.
    child: u64,
    /// What was removed, and where it is kept. Also in the file [`REMOVED`].
    removed: Vec<(PathBuf, PathBuf)>,
}

impl NameWatch {
    /// Watches the noted names until [`NameWatch::stop`].
    pub(super) fn start(&self, run: &Path, state: &Path, project: &Path) {
        let (names, state, project) = (read_note(run), state.to_owned(), project.to_owned());
        let list = run.join(REMOVED);
        let child = {
            let mut watched = self.lock();
            watched.removed.clear();
            watched.child += 1;
            watched.child
        };
        let watch = self.clone();
        let look = move || {
            loop {
                thread::sleep(INTERVAL);
                let mut watched = watch.lock();
                if watched.child != child || watched.removed.len() >= MOST_REMOVED {
                    return;
                }
                let removed = remove_names(&names, &state, &project);
                let before = watched.removed.len();
                let kept = removed.into_iter().filter_map(|it| Some((it.name, it.kept.ok()?)));
                watched.removed.extend(kept);
                if watched.removed.len() > before {
                    // If the disk is full, only this report is lost: the files are kept.
                    let text = serde_json::to_vec(&watched.removed).unwrap_or_default();
                    let _ = replace_unsynced(&list, &text);
                }
            }
        };
        // Without a thread the names are checked when the child has ended.
        let _ = thread::Builder::new().name("names".to_owned()).stack_size(128 << 10).spawn(look);
    }

    /// Stops watching.
    pub(super) fn stop(&self) {
        self.lock().child += 1;
    }

    fn lock(&self) -> MutexGuard<'_, WatchedNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what has to be removed so that a name does not exist: the entry itself, or a link on the
/// way to it. The path had no link when it was noted, and the target of one may be the user's.
fn find_created(path: &Path) -> Option<PathBuf> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    for part in parts {
        let about = part.symlink_metadata().ok()?;
        if about.is_symlink() {
            return Some(part.to_owned());
        }
    }
    Some(path.to_owned())
}

/// Moves a file or directory into a directory, under a free name.
fn move_to_kept(path: &Path, directory: &Path) -> io::Result<PathBuf> {
    create_private_directories(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let free = (1..).map(|number: u64| directory.join(format!("{number}-{name}")));
    let free = free.into_iter().find(|it| it.symlink_metadata().is_err());
    let place = free.ok_or(io::ErrorKind::AlreadyExists)?;
    if path.is_dir() && !path.is_symlink() {
        // A directory that is not writable cannot be moved either.
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    // The state may be on another file system.
    if fs::rename(path, &place).is_err() {
        copy_tree(path, &place)?;
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    Ok(place)
}

/// Copies files, directories and links; other entries have no content.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let about = from.symlink_metadata()?;
    if about.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else if about.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_tree(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    } else if about.is_file() {
        fs::copy(from, to).map(drop)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        _directory: tempfile::TempDir,
        root: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let root = directory.path().canonicalize().expect("there");
            for name in ["project", "run", "home"] {
                fs::create_dir(root.join(name)).expect("made");
            }
            fs::write(root.join("home/settings.json"), "the user's").expect("written");
            Self { _directory: directory, root }
        }

        fn project(&self, name: &str) -> PathBuf {
            self.root.join("project").join(name)
        }

        /// Notes a name, lets a child do something, and returns what was removed.
        fn removed(&self, name: &str, child: impl FnOnce()) -> Vec<(PathBuf, bool)> {
            let path = self.project(name);
            let above = path.ancestors().skip(1).find(|it| it.is_dir()).expect("a directory");
            let names = [AbsentName { path: path.clone(), above: above.to_owned() }];
            write_note(&self.root.join("run"), &[], &names).expect("noted");
            child();
            let state = self.root.join("state");
            let removed =
                remove_appeared(&self.root.join("run"), &state, &self.root.join("project"));
            removed.into_iter().map(|it| (it.name, it.kept.is_ok())).collect()
        }

        fn listed(&self) -> Vec<String> {
            let entries = fs::read_dir(self.project("")).expect("readable").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
    }

    #[test]
    fn created_names_are_removed_and_kept_elsewhere() {
        for (name, found) in
            [(".envrc", ".envrc"), (".claude/settings.json", ".claude/settings.json")]
        {
            let scene = Scene::new();
            let path = scene.project(name);
            let removed = scene.removed(name, || {
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs::write(&path, "created").expect("written");
            });
            assert_eq!(removed, [(found.into(), true)]);
            assert_eq!(scene.listed(), [""; 0]);
            let kept = scene.root.join("state/removed");
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(kept.join(format!("1-{file}")));
            assert_eq!(text.expect("kept"), "created");
        }
    }

    #[test]
    fn created_names_are_removed_while_the_child_runs() {
        let scene = Scene::new();
        let [path, run, state, top] = [
            scene.project(".envrc"),
            scene.root.join("run"),
            scene.root.join("state"),
            scene.project(""),
        ];
        let name = AbsentName { path: path.clone(), above: top.clone() };
        write_note(&run, &[], &[name]).expect("noted");
        let watch = NameWatch::default();
        watch.start(&run, &state, &top);
        fs::write(&path, "x").expect("written");
        while path.exists() {
            thread::yield_now();
        }
        watch.stop();
        let removed = remove_appeared(&run, &state, &top);
        assert_eq!(removed.len(), 1, "{removed:?}");
        assert_eq!(removed[0].name, PathBuf::from(".envrc"));
        assert_eq!(remove_appeared(&run, &state, &top), [], "it is reported once");
    }

    #[test]
    fn a_directory_without_permissions_is_removed() {
        let scene = Scene::new();
        let path = scene.project(".vscode");
        let removed = scene.removed(".vscode", || {
            fs::create_dir(&path).expect("made");
            fs::write(path.join("tasks.json"), "x").expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("closed");
        });
        assert_eq!(removed, [(".vscode".into(), true)]);
        assert_eq!(scene.listed(), [""; 0]);
    }

    #[test]
    fn links_are_removed_and_never_followed() {
        let scene = Scene::new();
        let removed = scene.removed(".claude/settings.json", || {
            symlink(scene.root.join("home"), scene.project(".claude")).expect("linked");
        });
        assert_eq!(removed, [(".claude".into(), true)]);
        assert_eq!(
            fs::read_to_string(scene.root.join("home/settings.json")).expect("there"),
            "the user's"
        );
    }

    #[test]
    fn other_names_stay_and_nothing_is_removed_without_a_note() {
        let scene = Scene::new();
        let removed = scene.removed(".claude/settings.json", || {
            fs::create_dir(scene.project(".claude")).expect("made");
            fs::write(scene.project(".claude/notes.md"), "x").expect("written");
        });
        assert_eq!(removed, []);
        assert_eq!(scene.listed(), [".claude"]);
        fs::write(scene.project(".envrc"), "the user's").expect("written");
        let (run, state) = (scene.root.join("run"), scene.root.join("state"));
        assert_eq!(remove_appeared(&run, &state, &scene.root.join("project")), []);
    }

    #[test]
    fn a_name_that_existed_earlier_in_the_run_may_be_created_again() {
        let scene = Scene::new();
        let run = scene.root.join("run");
        write_note(&run, &[scene.project("tests")], &[]).expect("noted");
        for (name, removed) in [("tests", vec![]), (".envrc", vec![(".envrc".into(), true)])] {
            let path = scene.project(name);
            assert_eq!(scene.removed(name, || fs::write(path, "x").expect("written")), removed);
        }
    }

    #[test]
    fn trees_are_copied_with_their_links() {
        let scene = Scene::new();
        let from = scene.project(".idea");
        fs::create_dir_all(from.join("deep")).expect("made");
        fs::write(from.join("deep/file"), "x").expect("written");
        symlink("deep/file", from.join("link")).expect("linked");
        let to = scene.root.join("copied");
        copy_tree(&from, &to).expect("copied");
        assert_eq!(fs::read_to_string(to.join("link")).expect("there"), "x");
        assert!(to.join("link").is_symlink());
    }
}
