//! The full-screen view of a run: tasks, the live stream, gates and budget, and keys.
//!
//! [`FullScreen`] is a [`Ui`](ralph_core::ports::Ui) like the streaming view and is fed by the same
//! lines; drawing and keys live on a thread of their own, so that a slow terminal never slows the
//! run. [`replay`] shows a run that is over, or that another process drives.
//!
//! Not here: the terminal itself, which the binary gives as a [`Device`], and what becomes of a
//! wish, which it gives as a closure.

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

/// Reads what a terminal sends, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    keys::fuzz(bytes);
}

#[cfg(test)]
mod tests;
