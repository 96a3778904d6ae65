//! Tests the command guard before a run starts: it must deny a call that it always denies.
//!
//! Not here: how the hook is started, and the rules of the guard.

use std::ffi::OsString;

use ralph_agents as agents;
use ralph_io::clock;
use ralph_io::hooks::guard_self_test;
use ralph_io::process::RUN_ID_VARIABLE;
use ralph_io::store::active::{self, ACTIVE_VARIABLE};
use ralph_model::agent::AgentChoice;
use ralph_model::hook_state::HookState;
use ralph_model::ids::RunId;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::Recipe;

use crate::cli_error::CliError;
use crate::plugin;
use crate::run_context::RunContext;

/// Run id used by the guard self-test.
const SELF_TEST_RUN: &str = "canary";

/// Fails if the guard does not deny a command it must always deny, for every agent that calls hooks.
pub(crate) fn run(context: &RunContext, recipe: &Recipe) -> Result<(), CliError> {
    let mut hooked: Vec<&AgentChoice> = recipe
        .callable_agents()
        .into_iter()
        .filter(|agent| agents::can_call_hooks(agent))
        .collect();
    hooked.dedup_by(|one, other| one.env == other.env);
    let Some(command) = plugin::find_guard_command().filter(|_| !hooked.is_empty()) else {
        return Ok(());
    };
    let refuse = |why: String| {
        CliError::new(
            ExitStatus::BadInput,
            format!("the command guard does not work: a call that it always denies was not denied ({why})"),
        )
        .with_hint("`ralph hook explain 'rm -rf /'` shows what the guard makes of a command")
    };
    let file = context.layout.active_path();
    let first = HookState::new(RunId(SELF_TEST_RUN.into()), std::process::id(), clock::now());
    active::write_active(&file, &first).map_err(|error| refuse(error.to_string()))?;
    let self_exe = std::env::current_exe().map_err(|error| refuse(error.to_string()))?;
    let results = hooked.iter().try_for_each(|agent| {
        let ours: [(OsString, OsString); 3] = [
            (RUN_ID_VARIABLE.into(), SELF_TEST_RUN.into()),
            (ACTIVE_VARIABLE.into(), file.clone().into()),
            ("RALPH_EXE".into(), self_exe.clone().into()),
        ];
        let theirs = agent.env.iter().map(|(name, value)| (name.into(), value.into()));
        let mut env = context.env.clone();
        for (name, value) in ours.into_iter().chain(theirs) {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        guard_self_test::run_self_test(&command, context.layout.project(), env, &context.watch)
    });
    // The run publishes its own hook state later.
    let _ = active::remove_active(&file);
    results.map_err(refuse)
}
