//! Sends messages to a child while it runs.
//!
//! Nothing here waits: a child that does not read must not keep ralph from reading its output, or
//! both would wait for each other. Not here: the messages, and the writing itself (`pipes`).

use std::sync::mpsc::{SyncSender, TrySendError};

/// The capacity of the message queue. An agent reads within milliseconds; one that leaves so many
/// unread has stopped reading, and the queue must not fill the memory.
pub(super) const MOST_MESSAGES: usize = 64;

/// The standard input of a running child.
///
/// It ends when this is closed, or when ralph ends the child.
#[derive(Debug, Default)]
pub struct ChildStdin {
    queue: Option<SyncSender<Vec<u8>>>,
    is_shutting_down: bool,
}

/// Why a message was not sent to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many messages are unread.
    #[error("it does not read its input")]
    Unread,
    #[error("it has closed its input")]
    Closed,
}

impl ChildStdin {
    /// Returns an input that is written through a queue.
    pub(super) fn new(queue: SyncSender<Vec<u8>>) -> Self {
        Self { queue: Some(queue), is_shutting_down: false }
    }

    /// Sends a message. The first one that cannot be delivered is the last: what follows a gap
    /// would make no sense. A closed input ignores messages.
    pub fn send(&mut self, bytes: Vec<u8>) -> Result<(), SendError> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        let error = match queue.try_send(bytes) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(_)) => SendError::Unread,
            Err(TrySendError::Disconnected(_)) => SendError::Closed,
        };
        self.close();
        Err(error)
    }

    /// Ends the child's input, after the messages sent so far.
    pub fn close(&mut self) {
        self.queue = None;
    }

    /// Notes that ralph is ending the child.
    pub(super) fn close_for_shutdown(&mut self) {
        self.close();
        self.is_shutting_down = true;
    }

    /// Returns whether ralph is ending the child. Its output from then on comes from its shutdown.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ralph_model::child::{ChildEnd, Ending};

    use super::*;
    use crate::process::{
        Chunk, OutputActivity, ProcessLimits, Spawn, StdinSource, Watch, supervise_dialog,
    };

    /// Talks with a shell script; `answer` gets what the script has printed so far.
    fn talk(script: &str, answer: &mut dyn FnMut(&str, &mut ChildStdin)) -> (String, ChildEnd) {
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: "/".into(),
            env: Vec::new(),
            stdin: StdinSource::Open(b"one\n".to_vec()),
            limits: ProcessLimits::default(),
        };
        let mut printed = String::new();
        let mut sink = |chunk: Chunk<'_>, stdin: &mut ChildStdin| {
            if let Chunk::Stdout(bytes) = chunk {
                printed.push_str(&String::from_utf8_lossy(bytes));
                answer(&printed, stdin);
            }
            OutputActivity::Useful
        };
        let end = supervise_dialog(&spawn, &Watch::new_detached(), &mut sink, &mut |_| {});
        (printed, end)
    }

    #[test]
    fn a_child_is_answered_while_it_runs_and_its_input_ends_when_stdin_is_closed() {
        let script = "while read -r line; do echo \"got $line\"; done; echo over";
        let mut answers = vec![b"three\n".to_vec(), b"two\n".to_vec()];
        let (printed, end) = talk(script, &mut |printed, stdin| {
            while printed.lines().count() + answers.len() > 2 {
                match answers.pop() {
                    Some(answer) => assert_eq!(stdin.send(answer), Ok(())),
                    None => return stdin.close(),
                }
            }
        });
        assert_eq!(printed, "got one\ngot two\ngot three\nover\n");
        assert_eq!(end.ending, Ending::Exited { code: 0 });
    }

    #[test]
    fn a_child_that_does_not_read_does_not_block_its_reader() {
        let directory = tempfile::tempdir().expect("a directory");
        let spoken = directory.path().join("spoken");
        // It stays until it was sent something, however late that is.
        let script = format!(
            "echo ready; until [ -e '{}' ]; do sleep 0.01; done; echo still here; exit 3",
            spoken.display()
        );
        let mut errors = Vec::new();
        let (printed, end) = talk(&script, &mut |_, stdin| {
            // More than the queue, the pipe and the writer together can hold: how much each of them
            // holds depends on when the writer thread runs.
            for _ in 0..2 * MOST_MESSAGES {
                errors.extend(stdin.send(vec![b'x'; 64 << 10]).err());
            }
            std::fs::write(&spoken, "").expect("a marker");
        });
        assert_eq!((printed.as_str(), errors), ("ready\nstill here\n", vec![SendError::Unread]));
        assert_eq!(end.ending, Ending::Exited { code: 3 });
    }

    #[test]
    fn an_undelivered_message_closes_stdin_and_is_reported_once() {
        let (queue, unread) = mpsc::sync_channel(1);
        let mut stdin = ChildStdin::new(queue);
        assert_eq!(stdin.send(vec![1]), Ok(()));
        assert_eq!(stdin.send(vec![2]), Err(SendError::Unread));
        assert_eq!(stdin.send(vec![3]), Ok(()));
        assert_eq!(unread.iter().collect::<Vec<_>>(), [vec![1]]);

        let (queue, gone) = mpsc::sync_channel(1);
        drop(gone);
        let mut stdin = ChildStdin::new(queue);
        assert_eq!(stdin.send(vec![1]), Err(SendError::Closed));
        assert_eq!(stdin.send(vec![1]), Ok(()));
        assert_eq!(ChildStdin::default().send(vec![1]), Ok(()));
    }
}
