//! Checks the isolation: which backend works here, what the project loosens, which settings apply.
//!
//! Not here: enforcing it.

use std::path::Path;

use ralph_agents as agents;
use ralph_core::ids::Role;
use ralph_core::sandbox::Backend;
use ralph_io::process::Watch;
use ralph_io::sandbox::{Chosen, Finding, Surroundings, choose, look};
use ralph_ui::checkup::{self, Detail, Health};
use ralph_ui::view::Verbosity;
use serde_json::{Value, json};

use crate::complaint::Complaint;
use crate::machine::Check;
use crate::project::Project;
use crate::recipe;
use crate::settings::problem::Origin;
use crate::settings::{Loaded, Loosening, bound};

/// The findings about isolation.
pub(super) struct Isolation {
    /// The user's own settings, and whether the project is trusted.
    pub(super) checks: Vec<Check>,
    in_force: Vec<InForce>,
    is_refused: bool,
}

/// A key with its effective value.
struct InForce {
    key: &'static str,
    value: Value,
    origin: Origin,
}

impl Isolation {
    /// Checks the backends and the settings.
    pub(super) fn of(
        project: &Project,
        loaded: &Loaded,
        config: Option<&Path>,
    ) -> Result<Self, Complaint> {
        let refused = project.refused(config, loaded)?;
        let walls = walls(project, loaded)?;
        let checks = vec![walls, user_settings(project), trust(project, loaded, &refused)];
        let settings = serde_json::to_value(&loaded.settings).unwrap_or_default();
        let in_force = bound::keys()
            .filter(|key| key.split('.').next().is_some_and(|top| settings.get(top).is_some()))
            .map(|key| InForce {
                key,
                value: bound::at(&settings, key).clone(),
                origin: loaded.origin(key).clone(),
            })
            .collect();
        Ok(Self { checks, in_force, is_refused: !refused.is_empty() })
    }

    /// Returns whether a run would be refused.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns the effective values as JSON.
    pub(super) fn facts(&self) -> Vec<Value> {
        self.in_force
            .iter()
            .map(|it| json!({ "key": it.key, "value": it.value, "origin": it.origin.to_string() }))
            .collect()
    }

    /// Returns all findings for the terminal: of the keys those that are set, or all if verbose.
    pub(super) fn findings(self, project: &Project, verbosity: Verbosity) -> Vec<checkup::Finding> {
        let is_shown =
            |it: &&InForce| verbosity == Verbosity::Verbose || it.origin != Origin::Default;
        let details: Vec<Detail> = self
            .in_force
            .iter()
            .filter(is_shown)
            .map(|InForce { key, value, origin }| {
                let line = format!("{key}: {value} ({origin})");
                Detail::Verbatim(project.seen_from_here(&line))
            })
            .collect();
        let title = if self.in_force.iter().all(|it| it.origin == Origin::Default) {
            "isolation has its defaults"
        } else {
            "isolation has its defaults, except for what is set"
        };
        let title = title.to_owned();
        let in_force = checkup::Finding { health: Health::Good, title, details, hints: Vec::new() };
        self.checks.into_iter().map(|check| check.finding).chain([in_force]).collect()
    }
}

/// Checks which backend would isolate a run here, and which backends work.
fn walls(project: &Project, loaded: &Loaded) -> Result<Check, Complaint> {
    const NAME: &str = "sandbox";
    let policy = recipe::isolation(loaded);
    let agent = recipe::agent(loaded, Role::Implement);
    let around = Surroundings {
        ralph: std::env::current_exe().unwrap_or_default(),
        project: project.directory.clone(),
        state_root: project.state_root(loaded)?,
        env: project.env.clone(),
        watch: Watch::detached(),
        image: policy.image.clone(),
        kinds: agent.iter().map(agents::program_kind).collect(),
        bounds: crate::isolation::bounds(&policy),
    };
    let mut check = match choose(&policy, |backend| look(backend, &around)) {
        Ok(Chosen::Enforced(wall)) => {
            let title = format!("runs are isolated by the backend `{}`", wall.backend());
            Check::new(NAME, Health::Good, title)
        }
        Ok(Chosen::Guard { .. }) => {
            Check::new(NAME, Health::Doubtful, "agents are restricted by the command guard only")
        }
        Ok(Chosen::Nothing) => Check::new(NAME, Health::Doubtful, "runs are not isolated"),
        Err(refusal) => refusal
            .hints()
            .into_iter()
            .fold(Check::new(NAME, Health::Bad, "no run begins: nothing isolates it"), Check::hint),
    };
    let enforced = Backend::ALL.into_iter().filter(|backend| backend.is_enforced());
    check.finding.details.extend(enforced.map(|backend| {
        Detail::Words(match look(backend, &around) {
            Finding::Works(_) => format!("{backend}: works"),
            Finding::Fails { why, .. } => format!("{backend}: {why}"),
        })
    }));
    Ok(check)
}

fn user_settings(project: &Project) -> Check {
    let (health, title, path) = match project.user_settings() {
        Some(path) if path.is_file() => (Health::Good, "you have settings of your own", Some(path)),
        Some(path) => (Health::Absent, "you have no settings of your own", Some(path)),
        None => (Health::Absent, "without HOME you have no settings of your own", None),
    };
    let mut check = Check::new("user-settings", health, title);
    check.finding.details.extend(path.map(|it| Detail::Verbatim(it.display().to_string())));
    check
}

fn trust(project: &Project, loaded: &Loaded, refused: &[&Loosening]) -> Check {
    const NAME: &str = "trust";
    let (health, title) = match (loaded.loosenings.is_empty(), refused.is_empty()) {
        (true, _) => (Health::Good, "the project's settings do not reach beyond it"),
        (false, true) => {
            (Health::Doubtful, "you trust this project with what its settings ask for")
        }
        (false, false) => {
            (Health::Bad, "the project's settings reach beyond it, and you do not trust it")
        }
    };
    let mut check = Check::new(NAME, health, title);
    let lines = loaded.loosenings.iter().map(|it| project.seen_from_here(&it.to_string()));
    check.finding.details.extend(lines.map(Detail::Verbatim));
    if refused.is_empty() {
        return check;
    }
    check.hint("`ralph trust` accepts it; else no run begins here")
}
