//! The plan that an agent maintains, and the copy of it that no agent can reach.
//!
//! The copy is in the run's directory. When a plan is restored, the file in its place is kept too,
//! unless it is empty. Not here: what a plan says.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_core::ports::StoreError;
use ralph_core::tasks::checklist::Checklist;
use ralph_core::tasks::plan::{assess_changed_plan, assess_plan};
use ralph_model::plan::{PlanCopy, PlanState};

use super::layout::{PROJECT_DIRECTORY, RunDir};
use super::prompts;
use crate::{atomic_file, bounded_read};

/// A plan of years; no agent reads a longer one.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A plan, and where its copy is.
#[derive(Debug)]
pub struct KeptPlan {
    project: PathBuf,
    file: PathBuf,
    run: RunDir,
}

impl KeptPlan {
    /// Returns the plan of a run, by its file in the project.
    pub fn new(project: &Path, file: &Path, run: &RunDir) -> Self {
        Self { project: project.to_owned(), file: project.join(file), run: run.clone() }
    }

    /// Reads the plan, and compares it with the copy. `removed` are the items that were removed before
    /// the copy was made.
    pub fn inspect(&self, removed: &[String]) -> PlanState {
        let read = read_plan(&self.project, &self.file);
        if let Ok(Some(text)) = &read
            && !text.trim().is_empty()
        {
            let before = read_lossy(&self.copy_path()).unwrap_or_default();
            return assess_changed_plan(removed, &before, text);
        }
        match assess_plan(read) {
            PlanState::Lost { loss, copy: _ } if self.copy_path().is_file() => {
                PlanState::Lost { loss, copy: PlanCopy::Kept }
            }
            look @ (PlanState::Usable { .. } | PlanState::Lost { .. }) => look,
        }
    }

    /// Saves a copy of the plan if it is intact. If the disk is full, the last copy must do.
    pub fn keep(&self) {
        let Ok(Some(text)) = read_plan(&self.project, &self.file) else { return };
        // Saving syncs, which takes longer than comparing.
        if !text.trim().is_empty() && read_lossy(&self.copy_path()).as_ref() != Some(&text) {
            let _ = atomic_file::replace_file(&self.copy_path(), text.as_bytes());
        }
    }

    /// Restores the plan from the copy, and keeps the file in its place. Does nothing if the plan
    /// is intact.
    pub fn restore(&self) -> Result<(), StoreError> {
        if assess_plan(read_plan(&self.project, &self.file)).counts().is_some() {
            return Ok(());
        }
        let failed = |error: io::Error| StoreError {
            message: format!("cannot restore `{}`: {error}", self.shown_path().display()),
        };
        let copy = fs::read(self.copy_path()).map_err(failed)?;
        let directory = self.file.parent().unwrap_or(&self.project);
        bounded_read::check_inside_project(&self.project, directory).map_err(failed)?;
        let permissions = self.make_room().map_err(failed)?;
        atomic_file::replace_with(&self.file, &copy, permissions).map_err(failed)
    }

    /// Makes room for the plan. Returns the permissions that it should have.
    fn make_room(&self) -> io::Result<Permissions> {
        let usual = Permissions::from_mode(0o644);
        let Ok(there) = fs::symlink_metadata(&self.file) else {
            if let Some(directory) = self.file.parent() {
                fs::create_dir_all(directory)?;
            }
            return Ok(usual);
        };
        if there.is_file() {
            if there.len() > 0 && there.len() <= LARGEST {
                let lost = bounded_read::read_file(&self.file, LARGEST)?;
                atomic_file::replace_file(&self.run.path().join("plan-lost"), &lost)?;
            } else if there.len() > 0 {
                fs::rename(&self.file, self.find_free_path())?;
            }
            return Ok(there.permissions());
        }
        if there.is_dir() && fs::remove_dir(&self.file).is_err() {
            fs::rename(&self.file, self.find_free_path())?;
        } else if !there.is_dir() {
            // A link or a pipe has no content of its own.
            fs::remove_file(&self.file)?;
        }
        Ok(usual)
    }

    /// Returns a free path for a large file, on the same disk: in the logs, which never make a tree
    /// dirty.
    fn find_free_path(&self) -> PathBuf {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let logs = self.project.join(PROJECT_DIRECTORY).join("logs");
        let is_there = bounded_read::check_inside_project(&self.project, &logs).is_ok()
            && fs::create_dir_all(&logs).is_ok()
            && !logs.is_symlink();
        let directory = if is_there { logs } else { self.run.path().to_owned() };
        let place = |number: u32| directory.join(format!("{name}.lost-{number}"));
        let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        (1..1000).map(place).find(is_free).unwrap_or_else(|| place(1000))
    }

    fn shown_path(&self) -> &Path {
        self.file.strip_prefix(&self.project).unwrap_or(&self.file)
    }

    fn copy_path(&self) -> PathBuf {
        build_copy_path(&self.run)
    }
}

/// Returns the items of the plan as a run saw it last.
pub fn read_last_seen(run: &RunDir) -> Option<Checklist> {
    Some(Checklist::read(&read_lossy(&build_copy_path(run))?))
}

fn read_lossy(file: &Path) -> Option<String> {
    let bytes = bounded_read::read_file(file, LARGEST).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn build_copy_path(run: &RunDir) -> PathBuf {
    run.path().join("plan.md")
}

/// Reads a plan before a run begins. There is no copy then.
pub fn inspect_plan(project: &Path, file: &Path) -> PlanState {
    let file = project.join(file);
    assess_plan(read_plan(project, &file))
}

fn read_plan(project: &Path, file: &Path) -> Result<Option<String>, String> {
    prompts::read_text_within(file, project, LARGEST)
}

#[cfg(test)]
mod tests {
    use ralph_model::plan::PlanLoss;

    use super::*;

    fn scene() -> (tempfile::TempDir, KeptPlan) {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path().join("project");
        fs::create_dir_all(project.join(".ralph")).expect("a directory");
        fs::create_dir(directory.path().join("run")).expect("a directory");
        let run = RunDir::from_path(directory.path().join("run"));
        let kept = KeptPlan::new(&project, Path::new(".ralph/plan.md"), &run);
        (directory, kept)
    }

    #[track_caller]
    fn check(kept: &KeptPlan, damage: impl FnOnce(&Path), expect: &str) {
        let text = "- [ ] one\n- [x] two\n";
        fs::write(&kept.file, text).expect("written");
        kept.keep();
        assert!(kept.inspect(&[]).counts().is_some());
        fs::remove_file(&kept.file).expect("removed");
        damage(&kept.file);
        let look = kept.inspect(&[]);
        let message = look.describe_restore(Path::new("plan.md")).expect("it is lost");
        assert_eq!(message, format!("`plan.md` {expect}; it was restored"));
        for _ in 0..2 {
            kept.restore().expect("restored");
            assert_eq!(fs::read_to_string(&kept.file).expect("there"), text);
            assert!(fs::symlink_metadata(&kept.file).expect("there").is_file());
        }
    }

    #[test]
    fn a_plan_is_restored_whatever_is_in_its_place() {
        let (directory, kept) = scene();
        check(&kept, |_| {}, "was deleted");
        check(&kept, |file| fs::write(file, " \n\t").expect("written"), "was emptied");
        let latin = |file: &Path| fs::write(file, b"- [ ] caf\xe9").expect("written");
        check(&kept, latin, "could not be read (it is not valid UTF-8 (byte 10))");
        assert_eq!(fs::read(kept.run.path().join("plan-lost")).expect("kept"), b"- [ ] caf\xe9");
        let folder = |file: &Path| {
            fs::create_dir(file).expect("a directory");
            fs::write(file.join("precious"), "x").expect("written");
        };
        check(&kept, folder, "could not be read (it is not a regular file)");
        assert!(kept.project.join(".ralph/logs/plan.md.lost-1/precious").exists());
        let outside = directory.path().join("outside.md");
        fs::write(&outside, "- [ ] not this").expect("written");
        let link = |file: &Path| std::os::unix::fs::symlink(&outside, file).expect("a link");
        check(&kept, link, "could not be read (it leads out of the project)");
        assert_eq!(fs::read_to_string(&outside).expect("there"), "- [ ] not this");
        let pipe = |file: &Path| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, file, kind, rustix::fs::Mode::RUSR, 0)
                .expect("a pipe");
        };
        check(&kept, pipe, "could not be read (it is not a regular file)");
        let large = |file: &Path| {
            fs::File::create(file).and_then(|it| it.set_len(LARGEST + 1)).expect("a large file");
        };
        check(&kept, large, "could not be read (it is larger than 4096 KiB)");
        assert!(kept.project.join(".ralph/logs/plan.md.lost-2").is_file());
        fs::remove_dir_all(kept.file.parent().expect("a directory")).expect("removed");
        fs::create_dir(kept.file.parent().expect("a directory")).expect("a directory");
        check(
            &kept,
            |file| fs::remove_dir(file.parent().expect("a parent")).expect("gone"),
            "was deleted",
        );
    }

    #[test]
    fn a_file_that_never_was_a_plan_is_not_restored() {
        let (_directory, kept) = scene();
        let lost = PlanState::Lost { loss: PlanLoss::Missing, copy: PlanCopy::None };
        assert_eq!(kept.inspect(&[]), lost);
        assert_eq!(kept.inspect(&[]).describe_restore(Path::new("plan.md")), None);
        kept.restore().expect_err("there is nothing to restore");
    }
}
