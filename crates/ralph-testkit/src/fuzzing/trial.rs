//! Runs seeds, mutations and repetitions through a target.
//!
//! Two bounds find what never ends or takes too long: the processor time that a case takes on its
//! own thread, which other work on the machine does not change much, and a long silence.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::mutate::Mutator;
use super::{FuzzTarget, read_seeds};
use crate::effort;

/// How many mutations a target gets, and how many in a quick check.
const CASES: usize = 150;
const QUICK_CASES: usize = 25;

/// Inputs that are one thing over and over have this many bytes.
const STRETCHED: usize = 8 * 1024;

/// What agents and checks print without end is read in time that grows with its length alone. Here
/// such inputs are so long that the square of it would be noticed.
const ENDLESS: [&str; 4] = ["secrets", "escapes", "checks-output", "templates"];
const ENDLESS_STRETCHED: usize = 32 * 1024;

/// What a case may take of a processor in a debug build. The slowest makes the guard do as much work
/// as it ever does: a second or two.
const LONGEST_CASE: Duration = Duration::from_secs(5);

/// A case that is silent for so long has no end.
const SILENCE: Duration = Duration::from_secs(300);

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs cases on a thread with the stack of a main thread, and watches it.
fn run(target: &'static FuzzTarget, cases: Vec<(String, Vec<u8>)>) {
    let (done, finished) = channel();
    let current = Arc::new(Mutex::new(String::new()));
    let shown = Arc::clone(&current);
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
        for (name, bytes) in cases {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(2_000)]).into_owned();
            *shown.lock().expect("this thread alone writes") =
                format!("{}, {name}: {text:?}", target.name);
            let before = processor_time();
            (target.run)(&bytes);
            let took = processor_time().saturating_sub(before);
            assert!(took < LONGEST_CASE, "it took {took:?}");
            let _ = done.send(());
        }
    });
    let thread = thread.expect("a thread");
    let what = || current.lock().map_or_else(|it| it.into_inner().clone(), |it| it.clone());
    loop {
        match finished.recv_timeout(SILENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("no end: {}", what()),
        }
    }
    assert!(thread.join().is_ok(), "{}", what());
}

/// Returns what this thread took of a processor so far; nothing where the kernel does not say.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Runs every seed and every kept finding through its target.
pub fn check_seeds(target: &'static FuzzTarget) {
    let seeds = read_seeds(target, root());
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    run(target, seeds);
}

/// Runs mutations of the seeds through a target; which ones follows from a number.
pub fn check_mutations(target: &'static FuzzTarget, number: u64) {
    let known: Vec<Vec<u8>> =
        read_seeds(target, root()).into_iter().map(|(_, bytes)| bytes).collect();
    let mut mutator = Mutator::new(number);
    let count = effort::choose_count(CASES, QUICK_CASES);
    let cases = (0..count).map(|case| (format!("{case}"), mutator.input(target, &known)));
    run(target, cases.collect());
}

/// Runs repetitions of every word of a target's language (in a quick check of every fourth), so long that quadratic time is noticed.
pub fn check_repetitions(target: &'static FuzzTarget) {
    let brackets = ["[", "{\"a\":", "(", "{", "\"", "'", "`", "$(", "a", "0", "\n", " ", "\\"];
    let words = target.all_words().chain(brackets).step_by(effort::choose_count(1, 4));
    let is_endless = ENDLESS.contains(&target.name);
    let size = if is_endless { ENDLESS_STRETCHED } else { STRETCHED };
    let stretched = |word: &str| word.bytes().cycle().take(size).collect();
    run(target, words.map(|word| (format!("{word:?}"), stretched(word))).collect());
}
