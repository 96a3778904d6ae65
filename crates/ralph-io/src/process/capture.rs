//! Runs a short command, such as git, and keeps its output, up to a bound.
//!
//! Not here: long output. Process that in pieces with `supervise`.

use ralph_model::child::ChildEnd;

use super::limits::OutputActivity;
use super::spawn::Spawn;
use super::supervise::{Chunk, supervise};
use super::watch::Watch;

/// The result of a short command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub end: ChildEnd,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
    pub cut: CutBytes,
}

/// How many bytes were read but not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutBytes {
    pub stdout: u64,
    pub stderr: u64,
}

impl CutBytes {
    /// Returns whether everything was kept.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Runs a command and keeps up to `max_bytes` of each of its two streams.
///
/// All output counts as useful to the idle limit.
pub fn capture_output(spawn: &Spawn, watch: &Watch, max_bytes: usize) -> Captured {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut cut = CutBytes::default();
    let end = supervise(spawn, watch, &mut |chunk| {
        match chunk {
            Chunk::Stdout(bytes) => cut.stdout += append_bounded(&mut stdout, bytes, max_bytes),
            Chunk::Stderr(bytes) => cut.stderr += append_bounded(&mut stderr, bytes, max_bytes),
        }
        OutputActivity::Useful
    });
    Captured { end, stdout, stderr, cut }
}

/// Appends what still fits; returns how many bytes did not.
fn append_bounded(kept: &mut Vec<u8>, bytes: &[u8], max_bytes: usize) -> u64 {
    let room = max_bytes.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..room]);
    (bytes.len() - room) as u64
}

#[cfg(test)]
mod tests {
    use ralph_model::child::Ending;

    use super::*;
    use crate::process::{ProcessLimits, StdinSource};

    fn shell(script: &str, input: &str) -> Spawn {
        Spawn {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: "/".into(),
            env: Vec::new(),
            stdin: StdinSource::Bytes(input.into()),
            limits: ProcessLimits::default(),
        }
    }

    #[test]
    fn output_is_kept_up_to_the_bound_and_the_rest_is_counted() {
        let spawn = shell("cat; printf 'oh no' >&2; exit 3", "12345");
        for (max_bytes, stdout, stderr, cut) in [
            (5, "12345", "oh no", CutBytes::default()),
            (3, "123", "oh ", CutBytes { stdout: 2, stderr: 2 }),
            (0, "", "", CutBytes { stdout: 5, stderr: 5 }),
        ] {
            let captured = capture_output(&spawn, &Watch::new_detached(), max_bytes);
            let expected = Captured {
                end: ChildEnd { ending: Ending::Exited { code: 3 }, ..captured.end.clone() },
                stdout: stdout.into(),
                stderr: stderr.into(),
                cut,
            };
            assert_eq!(captured, expected);
            assert_eq!(cut.is_empty(), max_bytes == 5);
        }
    }

    #[test]
    fn without_signals_a_leftover_of_the_group_still_releases_the_pipe() {
        let captured =
            capture_output(&shell("sleep 600 & echo done", ""), &Watch::new_detached(), 100);
        assert_eq!(captured.end.ending, Ending::Exited { code: 0 });
        assert!(captured.end.leftovers.held_pipe);
        assert_eq!(captured.stdout, b"done\n");
    }
}
