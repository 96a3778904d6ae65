//! The commands of the user that start and cancel jobs.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use ralph_model::attempt_label::AttemptLabel;
use ralph_model::ids::WorkerId;

use super::{GitJobs, HostMessage, OpenJob, StartKind};
use crate::process::{Companion, Spawn};
use crate::workers::host::read_last_line;

/// A command may print anything; only its last line counts.
const LONGEST_OUTPUT_LINE: u64 = 64 * 1024;

/// How long a command may take to exit once its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The line with which an attached command names the attempt that is to be accepted.
const RESULT_MARK: &str = "result ";

/// The command that started a job. It is ended with this value.
pub(super) struct StartCommand {
    process: Companion,
    errors: PathBuf,
}

/// How an attached command ended.
pub(super) struct CommandEnd {
    /// The attempt whose result counts.
    pub(super) attempt: AttemptLabel,
    /// What is reported if no attempt has a result.
    pub(super) reason: String,
}

impl GitJobs<'_> {
    /// Runs the start command of a job.
    pub(super) fn run_start_command(&self, job: &OpenJob) -> io::Result<StartCommand> {
        let (process, output, errors) = self.run_command(&self.host.start, job)?;
        let (worker, attempt) = (job.worker().clone(), job.package.attempt.clone());
        let messages = self.messages.clone();
        thread::Builder::new().name("command".to_owned()).spawn(move || {
            let last_line = read_to_last_line(output);
            let _ = messages.send(HostMessage::OutputEnded { worker, attempt, last_line });
        })?;
        Ok(StartCommand { process, errors })
    }

    /// Runs the cancel command of a job to its end.
    pub(super) fn run_cancel_command(&self, job: &OpenJob) {
        let Some(cancel) = &self.host.cancel else { return };
        let ran = self.run_command(cancel, job).map(|(mut process, output, errors)| {
            read_to_last_line(output);
            (process.wait_for_exit(EXIT_TIMEOUT), errors)
        });
        match ran {
            Ok((Some(status), _)) if status.success() => {}
            Ok((_, errors)) => {
                let why = read_last_line(&errors).unwrap_or_default();
                super::warn(format!("the command that cancels {} failed: {why}", job.worker()));
            }
            Err(error) => super::warn(format!("cannot cancel {}: {error}", job.worker())),
        }
    }

    fn run_command(
        &self,
        command: &str,
        job: &OpenJob,
    ) -> io::Result<(Companion, ChildStdout, PathBuf)> {
        let (worker, package) = (job.worker(), &job.package);
        let name = self.host.refs.build_name("jobs", &worker.0);
        if !is_plain(&name) {
            return Err(io::Error::other(format!("`{name}` cannot be part of a command")));
        }
        let logs = self.host.runs.join(&job.run().0).join("workers");
        fs::create_dir_all(&logs)?;
        let errors = logs.join(format!("{worker}.log"));
        let log = OpenOptions::new().create(true).append(true).open(&errors)?;
        let mut spawn: Spawn = self.host.shell.clone();
        spawn.args.push(command.replace("{}", &name).into());
        let remote = self.host.refs.find_address().map_err(io::Error::other)?;
        for (name, value) in [
            ("RALPH_JOB", name.as_str()),
            ("RALPH_WORKER", &worker.0),
            ("RALPH_ATTEMPT", package.attempt.as_str()),
            ("RALPH_REMOTE", &remote),
        ] {
            spawn.env.retain(|(known, _)| known != name);
            spawn.env.push((name.into(), value.into()));
        }
        let started = Companion::start_piped(&spawn, Stdio::from(log));
        let (process, _, output) = started.map_err(|error| io::Error::other(error.to_string()))?;
        Ok((process, output, errors))
    }

    /// Records that the output of a start command has ended, and so the command.
    pub(super) fn end_command(
        &mut self,
        worker: &WorkerId,
        attempt: &AttemptLabel,
        last_line: Option<&str>,
    ) {
        let Some(job) = self.open.get_mut(worker).filter(|it| it.package.attempt == *attempt)
        else {
            return;
        };
        let Some(StartCommand { mut process, errors }) = job.command.take() else { return };
        let status = process.wait_for_exit(EXIT_TIMEOUT);
        if status.is_some() {
            // What it left in the background is the job.
            process.release();
        }
        let how = status.map_or_else(|| "hangs".to_owned(), |it| format!("ended with {it}"));
        let why = read_last_line(&errors).map(|line| format!(": {line}"));
        let reason = format!("the start command {how}{}", why.unwrap_or_default());
        match self.host.start_kind {
            StartKind::Submits if status.is_some_and(|it| it.success()) => {}
            StartKind::Submits => self.give_up_job(worker, reason),
            StartKind::Attached => {
                let named = last_line.and_then(|it| it.strip_prefix(RESULT_MARK));
                let named = named.and_then(|it| it.trim().parse::<AttemptLabel>().ok());
                let named = named.filter(|it| it.is_try_of(attempt));
                let attempt = named.unwrap_or_else(|| attempt.clone());
                job.ended = Some(CommandEnd { attempt, reason });
                self.check_remote();
            }
        }
    }
}

/// Returns whether a shell takes a text as one word, wherever it is in a command.
fn is_plain(text: &str) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "-_.+/".contains(it);
    text.chars().all(is_plain)
}

fn read_to_last_line(output: ChildStdout) -> Option<String> {
    let mut output = BufReader::new(output);
    let (mut line, mut last) = (Vec::new(), None);
    loop {
        line.clear();
        match output.by_ref().take(LONGEST_OUTPUT_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim().to_owned();
                last = Some(text).filter(|it| !it.is_empty()).or(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_task_ends_a_word_of_a_command() {
        assert!(is_plain("refs/ralph/jobs/20261114-231500-k3f9-T3.1_ä+b-r1"));
        for bad in ["a b", "a;b", "$(a)", "`a`", "a'b", "a\"b", "a&b", "a|b", "a\nb", "~", "*"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
