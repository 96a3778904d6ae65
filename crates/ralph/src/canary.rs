//! Before a run starts, the guard must deny a call that it always denies.
//!
//! Not here: starting the hook, and what it denies.

use std::ffi::OsString;

use ralph_agents as agents;
use ralph_core::active::Active;
use ralph_core::ids::RunId;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::{AgentChoice, Recipe};
use ralph_io::clock;
use ralph_io::hooks::canary;
use ralph_io::process::RUN_ID_VARIABLE;
use ralph_io::store::active::{self, ACTIVE_VARIABLE};

use crate::complaint::Complaint;
use crate::desk::Desk;
use crate::plugin;

/// What the run is called that the canary sings in.
const RUN: &str = "canary";

/// Refuses to start with a guard that does not deny, for every agent that calls hooks.
pub(crate) fn sings(desk: &Desk, recipe: &Recipe) -> Result<(), Complaint> {
    let mut hooked: Vec<&AgentChoice> =
        recipe.asked().into_iter().filter(|agent| agents::takes_hooks(agent)).collect();
    hooked.dedup_by(|one, other| one.env == other.env);
    let Some(command) = plugin::guard_command().filter(|_| !hooked.is_empty()) else {
        return Ok(());
    };
    let refuse = |why: String| {
        Complaint::new(
            ExitStatus::BadInput,
            format!("the command guard does not work: a call that it always denies was not denied ({why})"),
        )
        .hint("`ralph hook explain 'rm -rf /'` shows what the guard makes of a command")
    };
    let file = desk.layout.active();
    let first = Active::new(RunId(RUN.into()), std::process::id(), clock::now());
    active::publish(&file, &first).map_err(|error| refuse(error.to_string()))?;
    let self_exe = std::env::current_exe().map_err(|error| refuse(error.to_string()))?;
    let sung = hooked.iter().try_for_each(|agent| {
        let ours: [(OsString, OsString); 3] = [
            (RUN_ID_VARIABLE.into(), RUN.into()),
            (ACTIVE_VARIABLE.into(), file.clone().into()),
            ("RALPH_EXE".into(), self_exe.clone().into()),
        ];
        let theirs = agent.env.iter().map(|(name, value)| (name.into(), value.into()));
        let mut env = desk.env.clone();
        for (name, value) in ours.into_iter().chain(theirs) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        canary::sing(&command, desk.layout.project(), env, &desk.watch)
    });
    // A run writes its own.
    let _ = active::withdraw(&file);
    sung.map_err(refuse)
}
