//! How the user ends `up` and `join`: Ctrl-C or TERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::FleetError;

/// Watches for the signals. From then on they do not kill this program.
pub(crate) struct EndSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignal {
    /// Begins to watch. To be called before there is anything that must end with this program.
    pub(crate) fn watch() -> Result<Self, FleetError> {
        let watch = |kind| signal(kind).map_err(FleetError::for_io("watch for signals"));
        Ok(Self {
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal since the last one.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
