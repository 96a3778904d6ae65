//! Sandboxing: starts child processes so that they reach only what they are allowed to.
//!
//! [`build_spec()`] turns the user's policy and the paths of a run into a [`SandboxSpec`], which is
//! plain data: an ordered list of mounts, a network, limits. A [`SandboxLauncher`] starts a child
//! under such a spec: it turns a [`Spawn`](crate::process::Spawn) into another one whose program is
//! ralph itself with a hidden command ([`run_hidden_command()`]). That process sets up the
//! isolation and starts the program inside. Limits, signals, exit codes and output work as without
//! a sandbox, so the supervisor of a child does not need to know that the child is sandboxed.
//!
//! ```text
//!   native     ralph __cell ── namespaces ──> ralph __cell-inside (PID 1) ──> the program
//!   bwrap      ralph __cell ── bwrap ───────> ralph __cell-inside (PID 1) ──> the program
//!   container  ralph __cell ── an engine ───> ralph __cell-inside (PID 1) ──> the program
//!   sbx        ralph __cell ── sbx exec ────> the program
//!   landlock   ralph __cell ── becomes the program
//! ```
//!
//! [`choose_backend()`] takes the first backend that works. [`detect_backend()`] finds out whether
//! one works: it probes the backend and then calls [`run_self_test()`] before
//! ralph relies on it.
//!
//! Not here: which sandbox a run uses, and the proxy that a sandbox's network leads to.

mod absent_names;
pub mod boundary;
mod choose;
mod client_wrapper;
pub mod container;
mod detect;
mod hidden_commands;
mod home;
mod home_stores;
mod launch_error;
mod launch_plan;
mod launcher;
mod locked_note;
mod probe;
mod program_files;
pub mod proxy;
pub mod sbx;
pub mod seatbelt;
mod self_test;
mod spec;
mod spec_builder;
#[cfg(target_os = "linux")]
mod stage;
mod tool_query;
mod vm;

pub use absent_names::{RemovedName, remove_appeared};
pub use choose::{ChosenBackend, NoBackendError, choose_backend, choose_with_reasons};
pub use detect::{DetectionContext, detect_backend};
pub use hidden_commands::{LaunchError, run_hidden_command};
pub use home_stores::is_free_of_credentials;
pub use launcher::{BackendConfig, HandedFiles, Launcher, SandboxLauncher, find_setup_failure};
pub use probe::{ProbeResult, probe_backend};
pub use self_test::{SelfTestFailure, run_self_test};
pub use spec::{
    AbsentName, Mount, ProcessCounting, ProxyEndpoint, ResourceLimits, SandboxNetwork, SandboxSpec,
};
pub use spec_builder::{
    BaseSpec, ProgramSource, SandboxPaths, SandboxedProcess, SpecError, build_spec,
};
pub use vm::VmSetupError;

/// Hidden command that sets up the isolation: `__cell PLAN PROGRAM ARGUMENTS…`.
pub(crate) const SANDBOX_COMMAND: &str = "__cell";

/// Hidden command of the first process inside the sandbox: `__cell-inside CHANNEL PROXY PROGRAM
/// ARGUMENTS…`.
pub(crate) const INSIDE_COMMAND: &str = "__cell-inside";

/// Hidden command that creates namespaces and then exits.
pub(crate) const TRY_NAMESPACES_COMMAND: &str = "__try-namespaces";

/// Hidden command of the self-test, which runs inside a sandbox: `__try-cell CANARY OUTSIDE INSIDE
/// PORT`.
pub(crate) const SELF_TEST_COMMAND: &str = "__try-cell";

/// Exit code of a child that never started because its sandbox could not be set up. Programs that
/// start others in a container use the same one.
pub const SETUP_FAILED_CODE: u8 = 125;

/// Prefix of the line on stderr that says why the sandbox could not be set up.
pub const SETUP_ERROR_PREFIX: &str = "ralph sandbox: ";

/// Part of the error for a program that the sandbox hides or that cannot be executed in it.
pub(crate) const RUN_ERROR: &str = "cannot be run in the sandbox";

/// Environment variable that holds the backend's name inside a sandbox.
pub(crate) const SANDBOX_VARIABLE: &str = "RALPH_SANDBOX";
