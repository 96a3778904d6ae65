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

use super::watch::{Halt, StopStage, Watch};
use super::{registry, tree};

/// The exit code after an interrupt.
const EXIT_INTERRUPTED: i32 = 130;

/// A closed terminal sends HUP more than once, from the shell and from the kernel.
const SAME_HANGUP: Duration = Duration::from_secs(1);

/// How long the last message and restoring the terminal may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// Starts the signal threads.
pub(super) fn start_threads(
    watch: Watch,
    on_stage: impl Fn(StopStage) + Send + 'static,
) -> io::Result<()> {
    // Under `nohup` a closed terminal is no reason to stop. HUP has a handler there too, because
    // `exec` keeps an ignored signal ignored: gates and agents start with the default, so that a
    // gate has the same result with and without `nohup`. They are in groups of their own, which a
    // closed terminal does not signal.
    let ignores_hangup = tree::is_ignored(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGTSTP, SIGCONT, SIGHUP])?;
    let (notices, received) = mpsc::channel::<StageNotice>();
    thread::Builder::new().name("stages".to_owned()).spawn(move || {
        for StageNotice { stage, done } in received {
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
            handle_signal(signal, &watch, &notices, &mut hangup);
        }
    })?;
    Ok(())
}

/// A message to the thread that calls the callback.
struct StageNotice {
    stage: StopStage,
    done: SyncSender<()>,
}

fn handle_signal(
    signal: i32,
    watch: &Watch,
    notices: &Sender<StageNotice>,
    hangup: &mut Option<Instant>,
) {
    match signal {
        SIGTSTP => pause_run(watch),
        SIGCONT => resume_run(watch),
        SIGHUP if hangup.is_some_and(|last: Instant| last.elapsed() < SAME_HANGUP) => {}
        _ => {
            if signal == SIGHUP {
                *hangup = Some(Instant::now());
            }
            advance_stage(watch, notices);
        }
    }
}

fn advance_stage(watch: &Watch, notices: &Sender<StageNotice>) {
    let stage = match watch.stage() {
        StopStage::Running => StopStage::Finish,
        StopStage::Finish => StopStage::End,
        StopStage::End | StopStage::Leave => StopStage::Leave,
    };
    let (done, waited) = mpsc::sync_channel(1);
    if stage < StopStage::Leave {
        watch.set_stage(stage);
        let _ = notices.send(StageNotice { stage, done });
        return;
    }
    // The lock is kept to the end, so that no other process is started.
    let mut registry = registry::lock_registry();
    registry.kill_all();
    let _ = notices.send(StageNotice { stage, done });
    let _ = waited.recv_timeout(EXIT_PATIENCE);
    std::process::exit(EXIT_INTERRUPTED);
}

fn pause_run(watch: &Watch) {
    // The clock stops first, so that no limit is passed by the stop itself.
    if watch.pause_clock() {
        registry::lock_registry().stop_all();
    }
    watch.notify_halt(Halt::Begins);
    // TSTP is caught, so it does not stop us; this does. It may take effect after the call has
    // returned, so resuming is triggered by CONT and not here.
    let _ = kill_process(getpid(), Signal::STOP);
}

fn resume_run(watch: &Watch) {
    let mut registry = registry::lock_registry();
    let paused = watch.resume_clock();
    if paused.is_some() {
        registry.continue_all();
    }
    drop(registry);
    watch.notify_halt(Halt::Ends { paused_for: paused });
}
