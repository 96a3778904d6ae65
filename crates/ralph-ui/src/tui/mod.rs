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
mod key_actions;
mod keys;
mod link;
mod paint;
mod replay_player;
mod screen;
mod scrollback;
mod view;
mod worker_panel;

pub use display::{Device, ENTER, KeyRead, LEAVE, SendRequest};
pub use facts::ReadPlan;
pub use link::{ScreenHandle as ScreenLink, SideWriter};
pub use replay_player::{CallOutput, Recording, replay_run};
pub use screen::ReplaySource;
pub use view::{FullScreen, FullScreenSetup};

#[cfg(test)]
mod tests;
