//! The secrets of a run: masked in everything it writes, and restored when it is resumed.
//!
//! Not here: how secrets are found (`ralph_io::mask`).

use std::ffi::OsString;

use ralph_agents::detect_program_kind;
use ralph_core::checking::secret::{MASK, known_secrets};
use ralph_io::agent_state;
use ralph_io::mask::Masker;
use ralph_model::agent::AgentChoice;
use ralph_model::recipe::Recipe;

use crate::cli_error::CliError;
use crate::project::Project;
use crate::recipe::make_names_unique;
use crate::settings::types::Settings;

/// Returns a masker for the secrets of the environment, of the agents' variables and logins.
pub(crate) fn build_masker(env: &[(OsString, OsString)], recipe: &Recipe) -> Masker {
    let agents = recipe.callable_agents();
    let given: Vec<(OsString, OsString)> = agents
        .iter()
        .flat_map(|agent| &agent.env)
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let all = env.iter().chain(&given).map(|(name, value)| (name, value));
    let documents = agents.iter().flat_map(|agent| {
        agent_state::configuration::read_documents(detect_program_kind(agent), env)
    });
    let tokens = documents.flat_map(|document| known_secrets::collect_from_credentials(&document));
    Masker::from_environment(all, tokens)
}

/// Returns a masker for what a recorded run left, whose journal lacks the values of its agents' secrets.
/// Fails with the name of a secret whose value neither the settings nor the environment have any more:
/// text of the run may contain it.
pub(crate) fn build_masker_for_record(
    project: &Project,
    recipe: &Recipe,
) -> Result<Masker, String> {
    let mut recipe = recipe.clone();
    let has_masked = |agent: &mut AgentChoice| agent.env.values().any(|value| value == MASK);
    if recipe.list_agents_mut().any(has_masked) {
        let loaded = project.load_settings(None, Vec::new());
        let settings = loaded.map(|loaded| loaded.settings).unwrap_or_default();
        fill_all_secrets(&mut recipe, &settings, &project.env)?;
    }
    Ok(build_masker(&project.env, &recipe))
}

/// Masks the names of gates, which may be their commands: events are masked as a whole, and a gate has to
/// be found again by the name in them.
pub(crate) fn mask_gate_names(recipe: &mut Recipe, masker: &Masker) {
    for gate in &mut recipe.gates {
        gate.name = masker.mask_text(&gate.name).into_owned();
    }
    make_names_unique(&mut recipe.gates);
}

/// Restores the secrets of the agents' environments, which the journal masks, from the settings or
/// else from ralph's own environment.
pub(crate) fn restore_secrets(
    recipe: &mut Recipe,
    settings: &Settings,
    env: &[(OsString, OsString)],
) -> Result<(), CliError> {
    let to_error = |name: String| {
        CliError::for_input(format!(
            "the run gave its agent the secret `{name}`, which its journal does not hold"
        ))
        .with_hint(format!("set `agent.env.{name}` in the settings, or export it"))
    };
    fill_all_secrets(recipe, settings, env).map_err(to_error)
}

/// Fills in the masked secrets of all agents. Fails with the name of the first one that is not found.
fn fill_all_secrets(
    recipe: &mut Recipe,
    settings: &Settings,
    env: &[(OsString, OsString)],
) -> Result<(), String> {
    let fill = |choice: &mut AgentChoice, role: &str| {
        for (name, value) in choice.env.iter_mut().filter(|(_, value)| *value == MASK) {
            *value = find_secret(settings, role, env, name).ok_or_else(|| name.clone())?;
        }
        Ok(())
    };
    for (role, choice) in &mut recipe.agents {
        fill(choice, role.name())?;
    }
    recipe.list_agents_mut().try_for_each(|choice| fill(choice, "agent"))
}

/// Finds a secret: in the section of the role, in `agent`, in any other section, in the environment.
fn find_secret(
    settings: &Settings,
    role: &str,
    env: &[(OsString, OsString)],
    name: &str,
) -> Option<String> {
    let sections = settings.agents.sections();
    let own = sections.iter().filter(|(key, _)| *key == role).map(|(_, agent)| *agent);
    let all = sections.iter().map(|(_, agent)| *agent);
    let mut agents = own.chain([&settings.agent]).chain(all);
    agents.find_map(|agent| agent.env.get(name)).cloned().or_else(|| {
        let found = env.iter().find(|(own, _)| own == name);
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    })
}
