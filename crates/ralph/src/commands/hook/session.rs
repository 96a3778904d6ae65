//! Whose session a hook runs in.

use std::path::PathBuf;

use ralph_core::active::Active;
use ralph_io::process::RUN_ID_VARIABLE;
use ralph_io::store::active::{self, ACTIVE_VARIABLE};
use serde::de::IgnoredAny;

/// Whose session it is.
pub(super) enum Whose {
    /// One that ralph started and waits for.
    Own(Box<Run>),
    /// Somebody else's; also one of a run that is no more, or one within a session of ralph's.
    Foreign,
    /// One of a run that nothing can be said about, in words for the user.
    Unknown(String),
}

/// The active run.
pub(super) struct Run {
    /// Where it is written down.
    pub(super) file: PathBuf,
    /// What is written down, but for the snapshot.
    pub(super) active: Active<IgnoredAny>,
}

/// What the environment says of a run, whichever session of it this is.
pub(super) enum Around {
    /// A run that is under way.
    Run(Box<Run>),
    /// None, or one that is no more.
    Nothing,
    /// One that cannot be read.
    Unreadable,
}

/// Finds out whether this is in a run. A session that goes on with another one, or that an agent
/// has begun by itself, has an id of its own; the run is the same.
pub(super) fn around() -> Around {
    let Some(file) = std::env::var_os(ACTIVE_VARIABLE).map(PathBuf::from) else {
        return Around::Nothing;
    };
    let Ok(active) = active::read::<IgnoredAny>(&file) else { return Around::Unreadable };
    let is_this_run = std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| run == *active.run.0);
    if is_this_run && active::is_running(&active, &file) {
        Around::Run(Box::new(Run { file, active }))
    } else {
        Around::Nothing
    }
}

/// Finds out whose session it is.
pub(super) fn whose(session: &str) -> Whose {
    let Some(file) = std::env::var_os(ACTIVE_VARIABLE).map(PathBuf::from) else {
        return Whose::Foreign;
    };
    let active: Active<IgnoredAny> = match active::read(&file) {
        Ok(active) => active,
        Err(error) => {
            return Whose::Unknown(format!(
                "ralph's hooks cannot read `{}` ({error}), so they check nothing here; ralph \
                 itself checks after the iteration.",
                file.display()
            ));
        }
    };
    let is_this_run = std::env::var_os(RUN_ID_VARIABLE).is_some_and(|run| run == *active.run.0);
    let is_this_session = active.session.as_ref().is_none_or(|known| known == session);
    if is_this_run && is_this_session && active::is_running(&active, &file) {
        Whose::Own(Box::new(Run { file, active }))
    } else {
        Whose::Foreign
    }
}
