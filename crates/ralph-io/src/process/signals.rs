//! Catches ralph's own signals and turns them into stages and pauses.
//!
//! One thread receives the signals and never blocks; a second one calls the callback, which may
//! hang on a terminal that accepts no output.
//!
//! Not here: what a stage means to waiting code (`watch`, `supervise`).

use std::io;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::watch::{Changed, Halt, Stage, Watch};
use super::{registry, tree};

/// The exit code after an interrupt.
const EXIT_INTERRUPTED: i32 = 130;

/// A closed terminal sends HUP more than once, from the shell and from the kernel.
const SAME_HANGUP: Duration = Duration::from_secs(1);

/// How long the last message and restoring the terminal may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts the signal threads.
pub(super) fn listen(watch: Watch, on_stage: impl Fn(Stage) + Send + 'static) -> io::Result<()> {
    // Under `nohup` a closed terminal is no reason to stop. HUP has a handler there too, because
    // `exec` keeps an ignored signal ignored: gates and agents start with the default, so that a
    // gate has the same result with and without `nohup`. They are in groups of their own, which a
    // closed terminal does not signal.
    let ignores_hangup = tree::is_ignored(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGTSTP, SIGCONT, SIGHUP])?;
    let (notices, received) = mpsc::channel::<Told>();
    thread::Builder::new().name("stages".to_owned()).spawn(move || {
        for Told { stage, done } in received {
            on_stage(stage);
            // Only the last stage waits for this.
            let _ = done.send(());
        }
    })?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut hangup = None;
        for signal in signals.forever() {
            if signal == SIGHUP && ignores_hangup {
                continue;
            }
            take(signal, &watch, &notices, &mut hangup);
        }
    })?;
    Ok(())
}

/// A message to the thread that calls the callback.
struct Told {
    stage: Stage,
    done: SyncSender<()>,
}

fn take(signal: i32, watch: &Watch, notices: &Sender<Told>, hangup: &mut Option<Instant>) {
    match signal {
        SIGTSTP => pause(watch),
        SIGCONT => resume(watch),
        SIGHUP if hangup.is_some_and(|last: Instant| last.elapsed() < SAME_HANGUP) => {}
        _ => {
            if signal == SIGHUP {
                *hangup = Some(Instant::now());
            }
            advance(watch, notices);
        }
    }
}

fn advance(watch: &Watch, notices: &Sender<Told>) {
    let stage = match watch.stage() {
        Stage::Running => Stage::Finish,
        Stage::Finish => Stage::End,
        Stage::End | Stage::Leave => Stage::Leave,
    };
    let (done, waited) = mpsc::sync_channel(1);
    if stage < Stage::Leave {
        watch.set_stage(stage);
        let _ = notices.send(Told { stage, done });
        return;
    }
    // The lock is kept to the end, so that no other process is started.
    let mut registry = registry::lock();
    registry.kill_all();
    let _ = notices.send(Told { stage, done });
    let _ = waited.recv_timeout(LAST_WORDS);
    std::process::exit(EXIT_INTERRUPTED);
}

fn pause(watch: &Watch) {
    // The clock stops first, so that no limit is passed by the stop itself.
    if watch.pause() == Changed::Yes {
        registry::lock().stop_all();
    }
    watch.tell_halt(Halt::Begins);
    // TSTP is caught, so it does not stop us; this does. It may take effect after the call has
    // returned, so resuming is triggered by CONT and not here.
    let _ = kill_process(getpid(), Signal::STOP);
}

fn resume(watch: &Watch) {
    let mut registry = registry::lock();
    let paused = watch.go_on();
    if paused.is_some() {
        registry.continue_all();
    }
    drop(registry);
    watch.tell_halt(Halt::Ends { stood: paused });
}
