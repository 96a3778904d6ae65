//! From other machines to the run: progress, journals and results.
//!
//! Only the result of the attempt that the host waits for is accepted, by the id of its commit.
//! Whatever is pushed later changes nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use ralph_core::landing::failure_branch::is_failure_branch;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::outcome::Outcome;
use ralph_model::remote_job::{JobEnd, RemoteProgress, RemoteResult, RemoteVersion};
use ralph_model::units::Millis;
use ralph_model::worker::{Job, JobAssignment, JobResult, WorkerEvent};
use ralph_model::worktree::CommitId;

use super::files::{JOURNAL_FILE, PROGRESS_FILE, RESULT_FILE, read_json};
use super::outbound::build_local_name;
use super::{GitJobs, report, warn};
use crate::git::{RefUpdate, RemoteError};
use crate::store::imported_runs::import_journal;

/// What an accepted result means for what is left on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptedEnd {
    Final,
    /// There may be another attempt.
    Lost,
}

impl GitJobs<'_> {
    /// Looks for results and signs of life.
    pub(super) fn check_remote(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let refs = &self.host.refs;
        let patterns: Vec<String> = self
            .open
            .keys()
            .flat_map(|it| {
                ["results", "journals"].map(|kind| refs.build_name(kind, &format!("{it}/*")))
            })
            .collect();
        let found = match refs.list_refs(&patterns) {
            Ok(found) => found,
            Err(error) => {
                if !self.is_failing {
                    warn(format!("{error}; running jobs continue"));
                }
                self.is_failing = true;
                // Silence means nothing then.
                self.open.values_mut().for_each(|job| job.last_sign = Instant::now());
                return;
            }
        };
        self.is_failing = false;
        for worker in self.open.keys().cloned().collect::<Vec<_>>() {
            self.check_job(&worker, &found);
        }
    }

    fn check_job(&mut self, worker: &WorkerId, found: &BTreeMap<String, CommitId>) {
        let host = self.host;
        let Some(job) = self.open.get(worker) else { return };
        let name = |kind: &str, label: &AttemptLabel| {
            host.refs.build_name(kind, &format!("{worker}/{label}"))
        };
        let wanted = job.ended.as_ref().map_or(&job.package.attempt, |it| &it.attempt).clone();
        if let Some(commit) = found.get(&name("results", &wanted)) {
            let journal = found.get(&name("journals", &wanted));
            match self.accept_result(worker, &wanted, commit, journal) {
                Ok(AcceptedEnd::Final) => {
                    let start = host.refs.build_name("journals", &format!("{worker}/"));
                    let journals = found.keys().filter(|name| name.starts_with(&start));
                    self.remove_from_remote(worker, &wanted, journals.cloned().collect());
                }
                // Another machine continues from what is there.
                Ok(AcceptedEnd::Lost) => self.remove_from_remote(worker, &wanted, Vec::new()),
                Err(error) => {
                    warn(format!("cannot fetch the result of {worker}: {error}; trying again"));
                }
            }
            return;
        }
        if let Some(end) = &job.ended {
            let reason = format!("{}, without a result", end.reason);
            self.give_up_job(worker, reason);
            return;
        }
        let start = host.refs.build_name("journals", &format!("{worker}/"));
        let newest = found.iter().rev().find(|(name, _)| {
            let label = name.strip_prefix(&start).and_then(|it| it.parse::<AttemptLabel>().ok());
            label.is_some_and(|it| it.is_try_of(&job.package.attempt))
        });
        if let Some((_, commit)) =
            newest.filter(|(_, commit)| job.progress.as_ref() != Some(*commit))
        {
            self.take_progress(worker, &commit.clone());
        } else if job.last_sign.elapsed() > host.lost_after {
            let silence = Millis::from(host.lost_after);
            self.give_up_job(worker, format!("no result and no sign of it for {silence}"));
        }
    }

    /// Imports the journal of a worker and passes its reports. What cannot be fetched now comes
    /// with the next one.
    fn take_progress(&mut self, worker: &WorkerId, commit: &CommitId) {
        let Some(job) = self.open.get_mut(worker) else { return };
        job.last_sign = Instant::now();
        job.progress = Some(commit.clone());
        let run = job.run().clone();
        let Ok(Some(progress)) = self.fetch_progress(&run, worker, commit) else { return };
        let Some(job) = self.open.get_mut(worker) else { return };
        // Anyone who can push to the remote may have written them: nothing about other workers, and no result.
        for event in progress.reports.into_iter().filter(|it| is_progress_of(it, worker)) {
            if !job.reported.contains(&event) {
                report(event.clone());
                job.reported
                    .retain(|it| std::mem::discriminant(it) != std::mem::discriminant(&event));
                job.reported.push(event);
            }
        }
    }

    /// Fetches the progress of a worker, and imports its journal.
    fn fetch_progress(
        &self,
        run: &RunId,
        worker: &WorkerId,
        commit: &CommitId,
    ) -> Result<Option<RemoteProgress>, RemoteError> {
        let refs = &self.host.refs;
        refs.fetch_commit(commit, &build_local_name("journals", run, worker))?;
        if let Some(journal) = refs.read_file(commit, JOURNAL_FILE)? {
            let imported = import_journal(&self.host.root, refs.repository.top(), worker, &journal);
            if let Err(error) = imported {
                warn(format!("cannot store the journal of {worker}: {error}"));
            }
        }
        Ok(read_json(refs, commit, PROGRESS_FILE)?)
    }

    /// Accepts a result: from now on it is in the repository of the project.
    fn accept_result(
        &mut self,
        worker: &WorkerId,
        label: &AttemptLabel,
        commit: &CommitId,
        journal: Option<&CommitId>,
    ) -> Result<AcceptedEnd, RemoteError> {
        let Some(job) = self.open.get(worker) else { return Ok(AcceptedEnd::Lost) };
        let (refs, run) = (&self.host.refs, job.run().clone());
        refs.fetch_commit(commit, &build_local_name("results", &run, worker))?;
        if let Some(journal) = journal {
            self.take_progress(worker, journal);
        }
        let own = RemoteVersion::new(&self.host.version);
        let result: Option<RemoteResult> = read_json(refs, commit, RESULT_FILE)?;
        let result = result.filter(|it| it.attempt == *label && own.check(&it.made_by).is_ok());
        match result.map(|it| it.end) {
            Some(JobEnd::Ended(result)) => {
                if let Some(job) = self.open.remove(worker) {
                    self.report_result(&job.package.job, *result);
                }
            }
            Some(JobEnd::Refused { reason }) => {
                self.open.remove(worker);
                let outcome = Outcome::WorkersFailed { message: reason };
                let top = refs.repository.top();
                let result = Box::new(JobResult::without_work(outcome, "", top));
                report(WorkerEvent::Ended { worker: worker.clone(), result });
            }
            Some(JobEnd::Lost { reason }) => {
                self.give_up_job(worker, reason);
                return Ok(AcceptedEnd::Lost);
            }
            None => {
                self.give_up_job(worker, "its result cannot be read".to_owned());
                return Ok(AcceptedEnd::Lost);
            }
        }
        Ok(AcceptedEnd::Final)
    }

    /// Reports a result whose commits are in the repository of the project.
    pub(super) fn report_result(&self, job: &Job, mut result: JobResult) {
        let (refs, JobAssignment { worker, task, .. }) = (&self.host.refs, &job.assignment);
        refs.repository.top().clone_into(&mut result.repository);
        // The run's own gates decide, also where nothing has landed since the base.
        result.passed.clear();
        let local = build_local_name("results", &job.run, worker);
        result.failure_branch =
            result.failure_branch.filter(|it| is_failure_branch(it, task)).filter(|branch| {
                // Its commit is the last parent of the result.
                let commit = refs.find_local(&local).ok().flatten();
                let parents = commit.and_then(|it| refs.list_parents(&it).ok());
                let name = format!("refs/heads/{branch}");
                refs.find_local(&name).is_ok_and(|it| it.is_some())
                    || parents
                        .and_then(|it| it.last().cloned())
                        .is_some_and(|it| refs.set_local(&name, &it).is_ok())
            });
        let (worker, result) = (worker.clone(), Box::new(result));
        report(WorkerEvent::Ended { worker, result });
    }

    fn remove_from_remote(&self, worker: &WorkerId, label: &AttemptLabel, journals: Vec<String>) {
        let refs = &self.host.refs;
        let of_attempt = |kind| refs.build_name(kind, &format!("{worker}/{label}"));
        let mut names = vec![refs.build_name("jobs", &worker.0)];
        names.push(of_attempt("results"));
        names.push(of_attempt("candidates"));
        names.extend(journals);
        let deletions: Vec<RefUpdate> =
            names.into_iter().map(|name| RefUpdate::Delete { name }).collect();
        // What stays there takes a little space, and no one reads it.
        let _ = refs.push_refs(&deletions);
    }
}

/// Returns whether a worker may report this of itself before it has ended.
fn is_progress_of(event: &WorkerEvent, own: &WorkerId) -> bool {
    match event {
        WorkerEvent::Started { worker, .. }
        | WorkerEvent::Progressed { worker, .. }
        | WorkerEvent::Limited { worker, .. } => worker == own,
        WorkerEvent::Warning { .. } => true,
        WorkerEvent::Ended { .. } | WorkerEvent::Lost { .. } => false,
    }
}
