//! What was reported in a session: a small file for each, so that nothing is reported twice.
//!
//! An agent may be able to write these files. So only plain files of our own are opened, and the
//! worst that a forged one can do is to suppress an alert. Not here: trusted state.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ralph_model::fingerprint::Fingerprint;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::store::layout::{create_private_directories, find_state_root};

/// What was reported in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionNotes {
    /// The highest threshold that an alert was printed for, in percent.
    pub alert: u8,
    /// How often the session was kept from stopping.
    pub blocks: u32,
}

/// Our files have some dozen bytes.
const LARGEST: u64 = 4096;

/// A second alert in a session that is resumed after this long does no harm.
const OLD_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often and how long apart a lock is tried: a hook must not delay its agent.
const PATIENCE: u32 = 100;
const MOMENT: Duration = Duration::from_millis(5);

/// How many files a cleanup checks.
const MOST_CHECKED: usize = 500;

/// The notes of one session.
#[derive(Debug)]
pub struct SessionNotebook {
    directory: PathBuf,
    name: String,
}

impl SessionNotebook {
    /// Returns the notes of a session: next to the active run if it is ralph's own, else in the
    /// user's runtime directory, else in ralph's state directory.
    pub fn for_session(
        session: &str,
        own: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Option<Self> {
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_absolute());
        let directory = match (own, runtime) {
            (Some(own), _) => own.join("hooks"),
            (None, Some(runtime)) => runtime.join("ralph-hooks"),
            (None, None) => find_state_root(None, variable).ok()?.join("hooks"),
        };
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
        let name = if (1..=64).contains(&session.len()) && session.bytes().all(is_plain) {
            session.to_owned()
        } else {
            Fingerprint::from_texts([session]).0
        };
        Some(Self { directory, name: format!("session-{name}.json") })
    }

    /// Changes the notes under a lock. Returns the result of `change` once it is written; none if
    /// it cannot be written, or if another process keeps the lock.
    pub fn change_notes<T>(
        &self,
        change: impl FnOnce(&mut SessionNotes) -> Option<T>,
    ) -> Option<T> {
        self.create_directory().ok()?;
        let mut file = self.open_file(OpenOptions::new().create(true)).ok()?;
        lock_file(&file)?;
        let before = read_notes(&mut file);
        let mut notes = before;
        let changed = change(&mut notes)?;
        if notes != before {
            write_notes(&mut file, notes).ok()?;
        }
        Some(changed)
    }

    /// Resets what was reported, if anything was.
    pub fn reset(&self, extent: ResetExtent) {
        let Ok(mut file) = self.open_file(&mut OpenOptions::new()) else { return };
        if lock_file(&file).is_none() {
            return;
        }
        let notes = read_notes(&mut file);
        let fresh = match extent {
            ResetExtent::Alerts => SessionNotes { alert: 0, ..notes },
            ResetExtent::Everything => SessionNotes::default(),
        };
        // If this fails, at worst an alert is not repeated.
        let _ = write_notes(&mut file, fresh);
    }

    /// Removes notes of old sessions.
    pub fn clean_up(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten().take(MOST_CHECKED) {
            let is_ours = entry.file_name().to_string_lossy().starts_with("session-");
            let is_old = fs::symlink_metadata(entry.path())
                .and_then(|about| about.modified())
                .is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD_AFTER));
            if is_ours && is_old {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Creates the directory; fails unless it is a real directory of this user.
    fn create_directory(&self) -> io::Result<()> {
        if fs::symlink_metadata(&self.directory).is_err() {
            create_private_directories(&self.directory)?;
        }
        let about = fs::symlink_metadata(&self.directory)?;
        let is_ours = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
        if is_ours { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn open_file(&self, options: &mut OpenOptions) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = options
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(self.directory.join(&self.name))?;
        let about = file.metadata()?;
        // A second link would make it a file that is not ours to write.
        let is_plain = about.is_file() && about.nlink() == 1;
        if is_plain { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

/// How much is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetExtent {
    /// The alerts: the context has become smaller.
    Alerts,
    /// Everything: the session begins.
    Everything,
}

/// Takes the lock of a file, which others hold for moments only: another hook of the session, or
/// a child of this process between fork and exec, which has a copy of the handle.
fn lock_file(file: &File) -> Option<()> {
    for _ in 0..PATIENCE {
        if file.try_lock().is_ok() {
            return Some(());
        }
        thread::sleep(MOMENT);
    }
    None
}

fn read_notes(file: &mut File) -> SessionNotes {
    let mut text = Vec::new();
    let read = file.take(LARGEST).read_to_end(&mut text);
    // A torn or forged file counts as empty.
    read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn write_notes(file: &mut File, notes: SessionNotes) -> io::Result<()> {
    let text = serde_json::to_vec(&notes)?;
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(directory: &Path, session: &str) -> SessionNotebook {
        SessionNotebook::for_session(session, Some(directory), |_| None).expect("a place")
    }

    fn tell(notebook: &SessionNotebook, alert: u8) -> Option<u8> {
        notebook.change_notes(|notes| {
            let is_news = alert > notes.alert;
            notes.alert = notes.alert.max(alert);
            is_news.then_some(alert)
        })
    }

    #[test]
    fn reported_alerts_are_remembered_by_session() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, other) = (notebook(directory.path(), "one"), notebook(directory.path(), "two"));
        assert_eq!((tell(&one, 50), tell(&one, 50), tell(&other, 50)), (Some(50), None, Some(50)));
        assert_eq!((tell(&one, 70), tell(&one, 60)), (Some(70), None));
        let noted = one.change_notes(|notes| {
            notes.blocks += 1;
            Some(notes.blocks)
        });
        assert_eq!(noted, Some(1));
        one.reset(ResetExtent::Alerts);
        assert_eq!(
            one.change_notes(|notes| Some(*notes)),
            Some(SessionNotes { alert: 0, blocks: 1 })
        );
        one.reset(ResetExtent::Everything);
        assert_eq!(one.change_notes(|notes| Some(*notes)), Some(SessionNotes::default()));
        // Resetting creates no file.
        notebook(directory.path(), "three").reset(ResetExtent::Everything);
        assert_eq!(fs::read_dir(directory.path().join("hooks")).expect("there").count(), 2);
    }

    #[test]
    fn hooks_at_the_same_time_wait_for_each_other() {
        let directory = tempfile::tempdir().expect("a directory");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let noted = notebook(directory.path(), "one").change_notes(|notes| {
                        notes.blocks += 1;
                        thread::sleep(MOMENT);
                        Some(())
                    });
                    assert_eq!(noted, Some(()));
                });
            }
        });
        let blocks = notebook(directory.path(), "one").change_notes(|notes| Some(notes.blocks));
        assert_eq!(blocks, Some(8));
    }

    #[test]
    fn a_lock_that_is_kept_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let one = notebook(directory.path(), "one");
        assert_eq!(tell(&one, 50), Some(50));
        let file = one.open_file(&mut OpenOptions::new()).expect("there");
        file.lock().expect("locked");
        assert_eq!(tell(&one, 70), None);
    }

    #[test]
    fn odd_sessions_have_names_of_their_own() {
        let directory = tempfile::tempdir().expect("a directory");
        for session in ["", "../../etc/passwd", "a/b", "a\0b", &"x".repeat(5000)] {
            let notebook = notebook(directory.path(), session);
            assert_eq!(tell(&notebook, 50), Some(50), "{session:?}");
            assert_eq!(tell(&notebook, 50), None, "{session:?}");
        }
        assert_eq!(fs::read_dir(directory.path().join("hooks")).expect("there").count(), 5);
    }

    #[test]
    fn links_and_pipes_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let hooks = directory.path().join("hooks");
        fs::create_dir(&hooks).expect("a directory");
        let precious = directory.path().join("precious");
        fs::write(&precious, "precious").expect("written");
        let place = |session: &str| hooks.join(format!("session-{session}.json"));
        std::os::unix::fs::symlink(&precious, place("link")).expect("a link");
        fs::hard_link(&precious, place("twin")).expect("a second name");
        fs::create_dir(place("directory")).expect("a directory");
        for session in ["link", "twin", "directory"] {
            let notebook = notebook(directory.path(), session);
            assert_eq!(tell(&notebook, 50), None, "{session}");
            notebook.reset(ResetExtent::Everything);
        }
        assert_eq!(fs::read_to_string(&precious).expect("there"), "precious");
        fs::write(place("torn"), "{\"alert\":").expect("written");
        assert_eq!(tell(&notebook(directory.path(), "torn"), 50), Some(50));
    }

    #[test]
    fn without_a_directory_nothing_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("hooks"), "in the way").expect("written");
        assert_eq!(tell(&notebook(directory.path(), "one"), 50), None);
        std::fs::remove_file(directory.path().join("hooks")).expect("removed");
        std::os::unix::fs::symlink("/tmp", directory.path().join("hooks")).expect("a link");
        assert_eq!(tell(&notebook(directory.path(), "one"), 50), None);
        assert!(SessionNotebook::for_session("one", None, |_| None).is_none());
    }

    #[test]
    fn old_notes_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (old, new) = (notebook(directory.path(), "old"), notebook(directory.path(), "new"));
        tell(&old, 50);
        tell(&new, 50);
        let past = std::time::SystemTime::now() - 2 * OLD_AFTER;
        let file = File::open(directory.path().join("hooks/session-old.json")).expect("there");
        file.set_modified(past).expect("set");
        new.clean_up();
        assert_eq!((tell(&old, 50), tell(&new, 50)), (Some(50), None));
    }
}
