//! The full-screen view of a run: tasks, the live stream, gates and budget, and keys.
//!
//! [`FullScreen`] is a [`Ui`](ralph_core::ports::Ui) like the streaming view and shows the same
//! lines; drawing and key handling run on a separate thread, so that a slow terminal never slows
//! the run. [`replay_run`] shows a run that has ended, or that another process drives.
//!
//! Not here: the terminal itself, which the binary passes as a [`Device`], and sending control
//! requests, which it passes as a closure.

mod display;
mod draw;
mod editor;
mod facts;
mod keys;
mod link;
mod paint;
mod player;
mod press;
mod screen;
mod scroll;
mod view;

pub use display::{Device, ENTER, Heard, LEAVE, Send};
pub use facts::ReadPlan;
pub use link::{Aside, Screen as ScreenLink};
pub use player::{Moment, Recording, Said, replay};
pub use view::{FullScreen, Setup};

/// Parses terminal input, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    keys::fuzz(bytes);
}

#[cfg(test)]
mod tests;
