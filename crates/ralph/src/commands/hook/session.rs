//! Finds out whether a hook runs in a session of an active run.

use std::path::PathBuf;

use ralph_io::process::RUN_ID_VARIABLE;
use ralph_io::store::active::{self, ACTIVE_VARIABLE};
use ralph_model::hook_state::HookState;
use serde::de::IgnoredAny;

/// The owner of a session.
pub(super) enum SessionOwner {
    /// A session that ralph started and waits for.
    Own(Box<HookedRun>),
    /// Another session; also one of an ended run, or one nested in a session of ralph's.
    Foreign,
    /// A session of a run whose state cannot be read, with a message for the user.
    Unknown(String),
}

/// The active run.
pub(super) struct HookedRun {
    /// The file of the hook state.
    pub(super) file: PathBuf,
    /// The hook state, without the snapshot.
    pub(super) active: HookState<IgnoredAny>,
}

/// The run that the environment names, for any of its sessions.
pub(super) enum SurroundingRun {
    /// An active run.
    Run(Box<HookedRun>),
    /// No run, or an ended one.
    Nothing,
    /// A run whose state cannot be read.
    Unreadable,
}

/// Finds the run of this process. A session that continues another one, or that an agent has
/// started itself, has another id but the same run.
pub(super) fn find_surrounding_run() -> SurroundingRun {
    let Some(file) = std::env::var_os(ACTIVE_VARIABLE).map(PathBuf::from) else {
        return SurroundingRun::Nothing;
    };
    let Ok(active) = active::read_active::<IgnoredAny>(&file) else {
        return SurroundingRun::Unreadable;
    };
    let is_this_run = std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| run == *active.run.0);
    if is_this_run && active::is_running(&active, &file) {
        SurroundingRun::Run(Box::new(HookedRun { file, active }))
    } else {
        SurroundingRun::Nothing
    }
}

/// Finds the owner of a session.
pub(super) fn find_session_owner(session: &str) -> SessionOwner {
    let Some(file) = std::env::var_os(ACTIVE_VARIABLE).map(PathBuf::from) else {
        return SessionOwner::Foreign;
    };
    let active: HookState<IgnoredAny> = match active::read_active(&file) {
        Ok(active) => active,
        Err(error) => {
            return SessionOwner::Unknown(format!(
                "ralph's hooks cannot read `{}` ({error}), so they check nothing here; ralph \
                 itself checks after the iteration.",
                file.display()
            ));
        }
    };
    let is_this_run = std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| run == *active.run.0);
    let is_this_session = active.session.as_ref().is_none_or(|known| known == session);
    if is_this_run && is_this_session && active::is_running(&active, &file) {
        SessionOwner::Own(Box::new(HookedRun { file, active }))
    } else {
        SessionOwner::Foreign
    }
}
