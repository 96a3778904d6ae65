//! Notifications by a command of the user: the notification as JSON on its standard input.
//!
//! It runs outside any sandbox, as the user. Not here: which settings may define one.

use std::path::PathBuf;
use std::time::Duration;

use ralph_core::reporting::notification::Notification;
use ralph_model::child::Ending;

use super::webhook::build_facts;
use crate::environment::Variables;
use crate::process::{ProcessLimits, Spawn, StdinSource, Watch, capture_output};

/// How much of its output is kept.
const LONGEST_OUTPUT: usize = 4096;

/// A command does not print more than this unless something is wrong.
const MOST_OUTPUT: u64 = 1 << 20;

/// A command of the user.
#[derive(Debug)]
pub struct CommandChannel {
    pub command: String,
    /// How long it may take.
    pub limit: Duration,
    pub watch: Watch,
    pub cwd: PathBuf,
    pub env: Variables,
}

impl CommandChannel {
    pub(super) fn deliver(&self, notice: &Notification) -> Result<String, String> {
        let mut input = build_facts(notice).to_string().into_bytes();
        input.push(b'\n');
        let mut env = self.env.clone();
        env.push(("RALPH_NOTICE".into(), notice.occasion.name().into()));
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), self.command.clone().into()],
            cwd: self.cwd.clone(),
            env,
            stdin: StdinSource::Bytes(input),
            limits: ProcessLimits {
                hard: Some(self.limit),
                grace: Duration::from_secs(1),
                output: Some(MOST_OUTPUT),
                ..ProcessLimits::default()
            },
        };
        run_program(&spawn, &self.watch).map(|()| "exit code 0".to_owned())
    }
}

/// Runs a program, and returns why it did not succeed.
pub(super) fn run_program(spawn: &Spawn, watch: &Watch) -> Result<(), String> {
    let captured = capture_output(spawn, watch, LONGEST_OUTPUT);
    match &captured.end.ending {
        Ending::Exited { code: 0 } => Ok(()),
        Ending::NotStarted { reason } => Err(reason.to_string()),
        ending @ (Ending::Exited { .. }
        | Ending::Signalled { .. }
        | Ending::TimedOut { .. }
        | Ending::Lingered { .. }
        | Ending::Interrupted { .. }) => {
            let stderr = String::from_utf8_lossy(&captured.stderr);
            let stderr = ralph_model::text::join_to_line(&stderr, 200);
            Err(if stderr.is_empty() { ending.to_string() } else { format!("{ending}: {stderr}") })
        }
    }
}
