//! What is said to a child while it runs.
//!
//! Nothing here waits: a child that does not read must not keep its listener from listening, or
//! both would wait for each other. Not here: what is said, and the writing itself (`pipes`).

use std::sync::mpsc::{SyncSender, TrySendError};

/// Messages under way. An agent answers within milliseconds; one that leaves as many unread has
/// stopped reading, and the queue must not fill the memory.
pub(super) const MESSAGES: usize = 64;

/// Speaks to a child that listens on its standard input.
///
/// The input ends when this is closed, or when the child is told to end.
#[derive(Debug, Default)]
pub struct Mouth {
    queue: Option<SyncSender<Vec<u8>>>,
    is_dismissed: bool,
}

/// Why a child was not told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    /// Too much is waiting to be read.
    #[error("it does not read what it is told")]
    Unread,
    /// It has closed its input.
    #[error("it has closed its input")]
    Closed,
}

impl Mouth {
    /// Returns a mouth that speaks through a queue.
    pub(super) fn new(queue: SyncSender<Vec<u8>>) -> Self {
        Self { queue: Some(queue), is_dismissed: false }
    }

    /// Says something. The first message that cannot be delivered is the last one: what follows
    /// a gap would make no sense. A closed mouth says nothing.
    pub fn say(&mut self, bytes: Vec<u8>) -> Result<(), Unheard> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        let unheard = match queue.try_send(bytes) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(_)) => Unheard::Unread,
            Err(TrySendError::Disconnected(_)) => Unheard::Closed,
        };
        self.close();
        Err(unheard)
    }

    /// Ends the child's input, behind what was said.
    pub fn close(&mut self) {
        self.queue = None;
    }

    /// Notes that the child was told to leave.
    pub(super) fn dismiss(&mut self) {
        self.close();
        self.is_dismissed = true;
    }

    /// Returns whether the child was told to leave. What it says from then on was said on its way
    /// out.
    pub(crate) fn is_dismissed(&self) -> bool {
        self.is_dismissed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ralph_core::child::{ChildEnd, Ending};

    use super::*;
    use crate::process::{Chunk, Heard, Limits, Spawn, Stdin, Watch, converse};

    /// Talks with a shell script; `answer` gets what the script has printed so far.
    fn talk(script: &str, answer: &mut dyn FnMut(&str, &mut Mouth)) -> (String, ChildEnd) {
        let spawn = Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: "/".into(),
            env: Vec::new(),
            stdin: Stdin::Open(b"one\n".to_vec()),
            limits: Limits::default(),
        };
        let mut printed = String::new();
        let end = converse(&spawn, &Watch::detached(), &mut |chunk, mouth| {
            if let Chunk::Stdout(bytes) = chunk {
                printed.push_str(&String::from_utf8_lossy(bytes));
                answer(&printed, mouth);
            }
            Heard::Useful
        });
        (printed, end)
    }

    #[test]
    fn a_child_is_answered_while_it_runs_and_its_input_ends_when_the_mouth_closes() {
        let script = "while read -r line; do echo \"got $line\"; done; echo over";
        let mut answers = vec![b"three\n".to_vec(), b"two\n".to_vec()];
        let (printed, end) = talk(script, &mut |printed, mouth| {
            while printed.lines().count() + answers.len() > 2 {
                match answers.pop() {
                    Some(answer) => assert_eq!(mouth.say(answer), Ok(())),
                    None => return mouth.close(),
                }
            }
        });
        assert_eq!(printed, "got one\ngot two\ngot three\nover\n");
        assert_eq!(end.ending, Ending::Exited { code: 0 });
    }

    #[test]
    fn a_child_that_does_not_read_keeps_nobody_from_listening() {
        let directory = tempfile::tempdir().expect("a directory");
        let spoken = directory.path().join("spoken");
        // It stays until it was spoken to, however late that is.
        let script = format!(
            "echo ready; until [ -e '{}' ]; do sleep 0.01; done; echo still here; exit 3",
            spoken.display()
        );
        let mut unheard = Vec::new();
        let (printed, end) = talk(&script, &mut |_, mouth| {
            // More than the queue, the pipe and the writer between them can hold: which of them
            // has how much depends on when the writer gets its turn.
            for _ in 0..2 * MESSAGES {
                unheard.extend(mouth.say(vec![b'x'; 64 << 10]).err());
            }
            std::fs::write(&spoken, "").expect("a marker");
        });
        assert_eq!((printed.as_str(), unheard), ("ready\nstill here\n", vec![Unheard::Unread]));
        assert_eq!(end.ending, Ending::Exited { code: 3 });
    }

    #[test]
    fn what_is_not_heard_closes_the_mouth_and_is_said_once() {
        let (queue, unread) = mpsc::sync_channel(1);
        let mut mouth = Mouth::new(queue);
        assert_eq!(mouth.say(vec![1]), Ok(()));
        assert_eq!(mouth.say(vec![2]), Err(Unheard::Unread));
        assert_eq!(mouth.say(vec![3]), Ok(()));
        assert_eq!(unread.iter().collect::<Vec<_>>(), [vec![1]]);

        let (queue, gone) = mpsc::sync_channel(1);
        drop(gone);
        let mut mouth = Mouth::new(queue);
        assert_eq!(mouth.say(vec![1]), Err(Unheard::Closed));
        assert_eq!(mouth.say(vec![1]), Ok(()));
        assert_eq!(Mouth::default().say(vec![1]), Ok(()));
    }
}
