//! Watches the inbox of a run for a request to stop now, which the run itself would read only
//! after its current step.
//!
//! Not here: recording the request, which the run does when it stops.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use ralph_model::control::{ControlRequest, InboxEntry};

use super::Inbox;
use crate::clock;
use crate::process::Watch;

/// Unnoticeable for the user, and costs one `stat`.
const POLL: Duration = Duration::from_millis(300);

/// Watches until dropped.
#[derive(Debug)]
pub struct StopWatcher {
    is_over: Arc<AtomicBool>,
}

impl StopWatcher {
    /// Ends what `watch` runs as soon as a request to stop now arrives, and calls `on_stop` before.
    pub fn start(
        run_directory: &Path,
        watch: Watch,
        on_stop: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut inbox, began) = (Inbox::new(run_directory), clock::now());
        let is_over_there = Arc::clone(&is_over);
        let is_stop = move |entry: &InboxEntry| match entry {
            // An older request was for the process that the run was resumed from.
            InboxEntry::Request(asked) => {
                asked.request == ControlRequest::StopNow && asked.at >= began
            }
            InboxEntry::Invalid { .. } => false,
        };
        thread::Builder::new().name("stop".to_owned()).spawn(move || {
            while !is_over_there.load(Ordering::Acquire) {
                if inbox.poll().iter().any(is_stop) {
                    on_stop();
                    watch.end_now();
                    return;
                }
                thread::sleep(POLL);
            }
        })?;
        Ok(Self { is_over })
    }
}

impl Drop for StopWatcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}
