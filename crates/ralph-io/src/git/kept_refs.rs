//! Protects the user's branches, tags, stashes and notes from agents that can write the repository.
//!
//! At every checkpoint ralph records all refs and copies the reflogs and the objects to the run's
//! directory. After an agent call, refs and log entries that are gone are restored, with their
//! objects, and so are objects that were overwritten. Only the branch that was checked out may move, and refs may be added. Not here:
//! the branch that was checked out (`history`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::ports::VcsError;
use ralph_model::run::IterationMark;
use serde::{Deserialize, Serialize};

use super::kept_logs::KeptLogs;
use super::kept_objects::{KeptObjects, OverwrittenFile, make_real_directory};
use super::ref_files::{RefFiles, read_branch};
use super::repository::GitRepository;
use super::vcs::GitVcs;
use crate::atomic_file;

/// The directory in a run's directory, and the record in it.
const KEPT: &str = "git-kept";
const RECORD: &str = "refs.json";

/// How many names a report lists; more would fill the next prompt.
const MOST_NAMED: usize = 20;

const STASH: &str = "refs/stash";

/// The saved state of a repository while agents can write it.
#[derive(Debug)]
pub(super) struct KeptRefs {
    directory: PathBuf,
    /// Where copies of objects are left for the next run.
    handed_on: PathBuf,
    files: RefFiles,
    objects: KeptObjects,
    logs: Vec<KeptLogs>,
    record: Option<RefRecord>,
    origin: RecordOrigin,
    /// Whether no agent was called since the refs were last checked.
    is_settled: bool,
}

/// Which process made a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordOrigin {
    /// This process, just before it called an agent.
    ThisProcess,
    /// One that died. The user may have moved branches since.
    DeadRun,
}

/// All refs at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RefRecord {
    /// The ref prefix that saves values that refs had in between.
    aside: String,
    objects: PathBuf,
    /// The branch that was checked out.
    branch: Option<String>,
    refs: BTreeMap<String, String>,
    /// The git directories of other work trees.
    worktrees: Vec<PathBuf>,
    /// The branches that were checked out there.
    elsewhere: BTreeSet<String>,
}

/// Which objects an agent deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostObjects {
    None,
    /// Only those of the branch that was checked out, which the agent may have rewritten.
    OfBranch,
    OfOtherRefs,
}

/// When object files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectCheck {
    Always,
    /// Only if they were not since the last call of an agent.
    AfterCall,
}

/// A ref that was deleted or moved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LostRef {
    name: String,
    was: String,
    is: Option<String>,
}

impl GitVcs {
    /// Turns on the protection of the user's refs and their objects. Copies of objects are taken from
    /// the directory in which the last run left them.
    #[must_use]
    pub fn with_ref_protection(mut self, handed_on: PathBuf) -> Self {
        let directory = self.directory.join(KEPT);
        let common = self.repository.common_dir();
        let text = fs::read(directory.join(RECORD)).unwrap_or_default();
        let record: Option<RefRecord> = serde_json::from_slice(&text).ok();
        // After an agent call, a link may lead anywhere that the agent chose.
        let objects = match &record {
            Some(record) => record.objects.clone(),
            None => common.join("objects"),
        };
        let objects = if record.is_none()
            && let Ok(real) = objects.canonicalize()
        {
            real
        } else {
            objects
        };
        let is_settled = record.is_none();
        let mut logs = vec![KeptLogs::new(&common, directory.join("logs"))];
        if common != self.repository.git_dir {
            let own = directory.join("logs-of-work-tree");
            logs.push(KeptLogs::new(&self.repository.git_dir, own));
        }
        let objects = KeptObjects::new(objects, directory.join("objects"));
        self.kept_refs = Some(KeptRefs {
            files: RefFiles::new(common),
            objects,
            logs,
            record,
            origin: RecordOrigin::DeadRun,
            is_settled,
            directory,
            handed_on,
        });
        self
    }

    /// Records all refs and saves their objects. Must be called before an agent is called.
    pub(super) fn record_refs(&mut self, mark: &IterationMark, branch: Option<&str>) {
        let Some(kept) = &self.kept_refs else { return };
        if !kept.is_settled {
            self.restore_refs();
        }
        let worktrees = self.repository.other_worktrees();
        let Some(kept) = &mut self.kept_refs else { return };
        let own = mark.run.to_string();
        let refs = kept.files.read_all(&self.repository, |name| is_recorded(name, &own));
        let IterationMark { run, iteration, .. } = mark;
        kept.record = refs.ok().map(|refs| RefRecord {
            aside: format!("refs/ralph/kept/{run}/{iteration}-refs"),
            objects: kept.objects.source().to_owned(),
            branch: branch.map(str::to_owned),
            refs,
            elsewhere: worktrees.iter().filter_map(|it| read_branch(it)).collect(),
            worktrees,
        });
        kept.origin = RecordOrigin::ThisProcess;
        kept.is_settled = false;
        // A failure here only matters if an agent destroys something; the run need not end for it.
        let _ = fs::create_dir_all(&kept.directory);
        let _ = kept.objects.update_copies(&kept.handed_on);
        for logs in &mut kept.logs {
            let _ = logs.update_copies();
        }
        if let Ok(text) = serde_json::to_vec(&kept.record) {
            let _ = atomic_file::replace_unsynced(&kept.directory.join(RECORD), &text);
        }
    }

    /// Restores refs, reflogs and objects of the last checkpoint, and records what was restored.
    pub(super) fn restore_refs(&mut self) {
        self.restore_with(ObjectCheck::Always);
    }

    /// Restores refs and reflogs, and objects if that has not been done since the last call of an agent:
    /// every object file is looked at for it.
    pub(super) fn restore_refs_before_commit(&mut self) {
        self.restore_with(ObjectCheck::AfterCall);
    }

    fn restore_with(&mut self, check: ObjectCheck) {
        let Some(mut kept) = self.kept_refs.take() else { return };
        let has_objects = check == ObjectCheck::Always || !kept.is_settled;
        if let Some(record) = kept.record.clone() {
            let mut lost = LostObjects::None;
            if has_objects {
                let overwritten = kept.objects.restore_overwritten();
                self.report_restored(describe_overwritten(&overwritten));
                lost = self.find_lost_objects(&kept, &record);
            }
            self.restore_recorded(&mut kept, &record, lost);
            // When the run is resumed some other day, changes made until then are the user's.
            let _ = fs::remove_file(kept.directory.join(RECORD));
        }
        if kept.origin == RecordOrigin::DeadRun {
            kept.record = None;
        }
        kept.is_settled = true;
        self.kept_refs = Some(kept);
    }

    /// Returns whether an agent was called since the refs were last checked, or restored refs are
    /// not reported yet.
    pub(super) fn has_unchecked_refs(&self) -> bool {
        self.kept_refs.as_ref().is_some_and(|kept| !kept.is_settled || !self.tampering.is_empty())
    }

    /// Drops the record: ref changes from here on are the user's.
    pub(super) fn forget_refs(&mut self) {
        if let Some(kept) = &mut self.kept_refs {
            kept.record = None;
        }
    }

    fn restore_recorded(&mut self, kept: &mut KeptRefs, record: &RefRecord, objects: LostObjects) {
        let mut logs: Vec<(usize, PathBuf)> = Vec::new();
        for (index, kept) in kept.logs.iter().enumerate() {
            logs.extend(kept.find_losses().into_iter().map(|name| (index, name)));
        }
        let has_lost_stashes = logs.iter().any(|(_, name)| name == Path::new(STASH));
        let now = kept.files.read_some(&self.repository, record.refs.keys());
        let Ok(now) = now else { return };
        let lost: Vec<LostRef> = record
            .refs
            .iter()
            .filter_map(|(name, was)| {
                let is = now.get(name);
                let lost = LostRef { name: name.clone(), was: was.clone(), is: is.cloned() };
                let is_lost = is != Some(was)
                    && self.must_restore(record, kept.origin, &lost, has_lost_stashes);
                is_lost.then_some(lost)
            })
            .collect();
        if lost.is_empty() && logs.is_empty() && objects == LostObjects::None {
            return;
        }
        let failed = kept.objects.restore_missing().err().map(|error| error.to_string());
        let merged =
            logs.iter().map(|(index, name)| (kept.logs[*index].merge_log(name), *index, name));
        let merged: Vec<_> = merged.collect();
        let stash = merged.iter().find(|(_, _, name)| *name == Path::new(STASH));
        let mut orders: Vec<RefRestore> =
            lost.iter().map(|it| it.restore_updates(&record.aside)).collect();
        if let Some((Ok(log), _, _)) = stash
            && let Some(last) = log.last_id()
        {
            // The agent's stashes follow the user's.
            orders.retain(|order| order.name != STASH);
            orders.push(RefRestore {
                name: STASH.to_owned(),
                updates: vec![(STASH.to_owned(), last)],
            });
            log.remove_present();
        }
        let refused = self.update_lost_refs(&orders, &record.aside);
        let mut reported = Vec::new();
        for LostRef { name, is, .. } in lost.iter().filter(|it| is_reported(&it.name)) {
            let what = if is.is_none() { "deleted" } else { "moved" };
            reported.push(describe_loss(name, what, refused.get(name).or(failed.as_ref())));
        }
        for (log, index, name) in &merged {
            let written = log.as_ref().map_err(ToString::to_string);
            let written = written.and_then(|log| {
                kept.logs[*index].write_log(log).map_err(|error| error.to_string())
            });
            let name = name.to_string_lossy();
            // A restored ref is reported already.
            if lost.iter().all(|lost| lost.name != name) && is_reported(&name) {
                let what = format!("the reflog of {name}");
                reported.push(describe_loss(&what, "shortened", written.err().as_ref()));
            }
        }
        let is_reported = objects == LostObjects::OfOtherRefs || failed.is_some();
        if reported.is_empty() && is_reported {
            reported.push(describe_loss("objects", "deleted", failed.as_ref()));
        }
        self.report_restored(reported);
    }

    fn report_restored(&mut self, mut reported: Vec<String>) {
        let more = reported.len().saturating_sub(MOST_NAMED);
        reported.truncate(MOST_NAMED);
        if more > 0 {
            reported.push(format!("{more} more refs and reflogs"));
        }
        reported.retain(|it| !self.tampering.contains(it));
        if !reported.is_empty() {
            self.tampering.extend(reported);
            self.record_unreported();
        }
    }

    /// Returns whether a ref whose value changed must be restored.
    fn must_restore(
        &self,
        record: &RefRecord,
        origin: RecordOrigin,
        lost: &LostRef,
        has_lost_stashes: bool,
    ) -> bool {
        let name = lost.name.as_str();
        let Some(is) = &lost.is else { return true };
        // Fetches and pushes move remote-tracking branches.
        if name.starts_with("refs/remotes/") || record.branch.as_deref() == Some(name) {
            return false;
        }
        if name == STASH {
            return has_lost_stashes;
        }
        let now = record.worktrees.iter().filter_map(|it| read_branch(it));
        let elsewhere: BTreeSet<String> = now.chain(record.elsewhere.iter().cloned()).collect();
        if origin == RecordOrigin::DeadRun || elsewhere.contains(name) {
            return false;
        }
        let is_checked_out = read_branch(&self.repository.git_dir).as_deref() == Some(name);
        !(is_checked_out && self.repository.is_ancestor(&lost.was, is))
    }

    /// Returns whether objects of the recorded refs are gone. Asks git only if object files are
    /// gone, which may also have been packed.
    fn find_lost_objects(&self, kept: &KeptRefs, record: &RefRecord) -> LostObjects {
        if !kept.objects.has_losses() {
            return LostObjects::None;
        }
        let of_branch = record.branch.as_ref().and_then(|branch| record.refs.get(branch));
        let others = record.refs.values().filter(|id| Some(*id) != of_branch);
        if !self.repository.can_read_all(others) {
            LostObjects::OfOtherRefs
        } else if !self.repository.can_read_all(of_branch) {
            LostObjects::OfBranch
        } else {
            LostObjects::None
        }
    }

    /// Restores refs. Returns those that git refused, and why.
    fn update_lost_refs(&self, orders: &[RefRestore], aside: &str) -> BTreeMap<String, String> {
        let repository = &self.repository;
        for directory in ["refs", "refs/heads"] {
            // Without them git finds no repository; if this fails, git reports it.
            let _ = make_real_directory(&repository.common_dir().join(directory));
        }
        let all = orders.iter().flat_map(|order| &order.updates);
        if repository.update_refs(all).is_ok() {
            return BTreeMap::new();
        }
        let mut refused = BTreeMap::new();
        for order in orders {
            if let Err(error) = repository.update_refs(&order.updates) {
                // Another ref may be in the way, such as `a/b` for `a`.
                let aside = order.updates.last().map(|(_, id)| {
                    let name = format!("{aside}/{}", order.name.trim_start_matches("refs/"));
                    (name, id.clone())
                });
                let why = match aside {
                    Some(aside) if repository.update_refs([&aside]).is_ok() => {
                        format!("{}; it is kept as {}", error.message, aside.0)
                    }
                    Some(_) | None => error.message,
                };
                refused.insert(order.name.clone(), why);
            }
        }
        refused
    }
}

/// The ref updates that restore one ref.
#[derive(Debug)]
struct RefRestore {
    name: String,
    /// Names and values. The last update restores the ref.
    updates: Vec<(String, String)>,
}

impl LostRef {
    /// Returns the updates that restore it. The value it has now is saved on a ref of the run.
    fn restore_updates(&self, aside: &str) -> RefRestore {
        let aside = format!("{aside}/{}", self.name.trim_start_matches("refs/"));
        let updates = match &self.is {
            // A pruned remote-tracking branch is no loss, except for its commits.
            _ if self.name.starts_with("refs/remotes/") => vec![(aside, self.was.clone())],
            Some(is) if is_reported(&self.name) => {
                vec![(aside, is.clone()), (self.name.clone(), self.was.clone())]
            }
            Some(_) | None => vec![(self.name.clone(), self.was.clone())],
        };
        RefRestore { name: self.name.clone(), updates }
    }
}

impl Drop for KeptRefs {
    /// Many kept objects would keep the disk full when the user removes the objects. After an
    /// interrupted call they are needed when the run is resumed.
    fn drop(&mut self) {
        if self.is_settled {
            self.objects.leave_copies(&self.handed_on);
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Returns whether a restored ref is reported, because it is the user's. Refs of ralph are restored
/// silently, and commits of pruned remote-tracking branches are saved silently.
fn is_reported(name: &str) -> bool {
    !name.starts_with("refs/ralph/") && !name.starts_with("refs/remotes/")
}

fn describe_loss(name: &str, what: &str, failed: Option<&String>) -> String {
    match failed {
        Some(why) => format!("{name} ({what}, and cannot be restored: {why})"),
        None => format!("{name} ({what})"),
    }
}

/// Returns what to report about overwritten object files.
fn describe_overwritten(overwritten: &[OverwrittenFile]) -> Vec<String> {
    let (restored, lost): (Vec<_>, Vec<_>) = overwritten.iter().partition(|it| it.restored.is_ok());
    let mut reported: Vec<String> = lost
        .iter()
        .map(|it| {
            let why = it.restored.as_ref().err().map(ToString::to_string);
            describe_loss(&format!("objects/{}", it.path.display()), "overwritten", why.as_ref())
        })
        .collect();
    if !restored.is_empty() {
        reported.push(describe_loss("object files", "overwritten", None));
    }
    reported
}

/// Returns whether a run records a ref of that name.
fn is_recorded(name: &str, run: &str) -> bool {
    // Marks of operations in progress; `git_dir_guard` watches replacements.
    const OTHERS: [&str; 4] =
        ["refs/bisect/", "refs/worktree/", "refs/rewritten/", "refs/replace/"];
    // Other runs move their own refs.
    if let Some(own) = name.strip_prefix("refs/ralph/") {
        let of_run = own
            .split_once('/')
            .is_some_and(|(kind, rest)| kind != "asked" && rest.split('/').next() == Some(run));
        return own.starts_with("kept/") || of_run;
    }
    let is_other = OTHERS.iter().any(|it| name.starts_with(it));
    // git allows no such names; as a path, one would lead elsewhere.
    name.starts_with("refs/") && !name.contains("..") && !is_other
}

impl GitRepository {
    /// Returns the git directories of other work trees of this repository.
    fn other_worktrees(&self) -> Vec<PathBuf> {
        let common = self.common_dir();
        let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = linked.map(|entry| entry.path()).collect();
        all.push(common);
        all.retain(|it| *it != self.git_dir);
        all
    }

    /// Sets all refs, or none.
    fn update_refs<'a>(
        &self,
        updates: impl IntoIterator<Item = &'a (String, String)>,
    ) -> Result<(), VcsError> {
        let orders: String =
            updates.into_iter().flat_map(|(name, id)| ["update ", name, " ", id, "\n"]).collect();
        let call = self.build_plumbing(&["update-ref", "-m", "ralph: restored", "--stdin"]);
        self.commands
            .run_for_output(call.with_stdin(orders.into_bytes()).with_ralph_identity())
            .map(drop)
    }

    /// Returns whether all objects that are reachable from some are there.
    fn can_read_all<'a>(&self, ids: impl IntoIterator<Item = &'a String>) -> bool {
        let ids: BTreeSet<&str> = ids.into_iter().map(String::as_str).collect();
        if ids.is_empty() {
            return true;
        }
        let ids = ids.into_iter().flat_map(|id| [id, "\n"]).collect::<String>();
        // Objects of a partial clone that were never fetched are not lost.
        let args = ["rev-list", "--objects", "--quiet", "--exclude-promisor-objects", "--stdin"];
        let call = self.build_plumbing(&args).with_env("GIT_NO_LAZY_FETCH", "1");
        self.commands.run(call.with_stdin(ids.into_bytes())).is_ok_and(|ran| ran.code == 0)
    }

    fn is_ancestor(&self, from: &str, to: &str) -> bool {
        let call = self.build_plumbing(&["merge-base", "--is-ancestor", from, to]);
        self.commands.run(call).is_ok_and(|ran| ran.code == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_of_the_user_and_kept_refs_of_runs_are_recorded() {
        for (name, expect) in [
            ("refs/heads/main", true),
            ("refs/tags/v1", true),
            ("refs/stash", true),
            ("refs/notes/commits", true),
            ("refs/remotes/origin/main", true),
            ("refs/bisect/bad", false),
            ("refs/replace/abc", false),
            ("refs/ralph/kept/other/1", true),
            ("refs/ralph/kept/run/1", true),
            ("refs/ralph/checkpoints/run/1", true),
            ("refs/ralph/checkpoints/other/1", false),
            ("refs/ralph/set-aside/run", true),
            ("refs/ralph/set-aside/other", false),
            ("refs/ralph/asked/run", false),
        ] {
            assert_eq!(is_recorded(name, "run"), expect, "{name}");
        }
    }
}
