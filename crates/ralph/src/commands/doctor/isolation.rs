//! Checks the isolation: which backend works here, what the project loosens, which settings apply.
//!
//! Not here: enforcing it.

use std::path::Path;

use ralph_agents as agents;
use ralph_io::process::Watch;
use ralph_io::sandbox::{
    ChosenBackend, DetectionContext, ProbeResult, choose_backend, detect_backend,
};
use ralph_model::ids::Role;
use ralph_model::sandbox::Backend;
use ralph_ui::doctor_report::{self, Detail, Health};
use ralph_ui::view::Verbosity;
use serde_json::{Value, json};

use crate::cli_error::CliError;
use crate::host_checks::HostCheck;
use crate::project::Project;
use crate::recipe;
use crate::settings::problem::SettingOrigin;
use crate::settings::{LoadedSettings, Loosening, trust_limits};

/// The findings about isolation.
pub(super) struct IsolationCheckup {
    /// The user's own settings, and whether the project is trusted.
    pub(super) checks: Vec<HostCheck>,
    in_force: Vec<EffectiveSetting>,
    is_refused: bool,
}

/// A key with its effective value.
struct EffectiveSetting {
    key: &'static str,
    value: Value,
    origin: SettingOrigin,
}

impl IsolationCheckup {
    /// Checks the backends and the settings.
    pub(super) fn check(
        project: &Project,
        loaded: &LoadedSettings,
        config: Option<&Path>,
    ) -> Result<Self, CliError> {
        let refused = project.find_untrusted(config, loaded)?;
        let backends = check_backends(project, loaded)?;
        let checks =
            vec![backends, check_user_settings(project), check_trust(project, loaded, &refused)];
        let settings = serde_json::to_value(&loaded.settings).unwrap_or_default();
        let in_force = trust_limits::list_bounded_keys()
            .filter(|key| key.split('.').next().is_some_and(|top| settings.get(top).is_some()))
            .map(|key| EffectiveSetting {
                key,
                value: trust_limits::find_value(&settings, key).clone(),
                origin: loaded.find_origin(key).clone(),
            })
            .collect();
        Ok(Self { checks, in_force, is_refused: !refused.is_empty() })
    }

    /// Returns whether a run would be refused.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns the effective values as JSON.
    pub(super) fn to_json(&self) -> Vec<Value> {
        self.in_force
            .iter()
            .map(|it| json!({ "key": it.key, "value": it.value, "origin": it.origin.to_string() }))
            .collect()
    }

    /// Returns all findings for the terminal: of the keys those that are set, or all if verbose.
    pub(super) fn into_findings(
        self,
        project: &Project,
        verbosity: Verbosity,
    ) -> Vec<doctor_report::DoctorFinding> {
        let is_shown = |it: &&EffectiveSetting| {
            verbosity == Verbosity::Verbose || it.origin != SettingOrigin::Default
        };
        let details: Vec<Detail> = self
            .in_force
            .iter()
            .filter(is_shown)
            .map(|EffectiveSetting { key, value, origin }| {
                let line = format!("{key}: {value} ({origin})");
                Detail::Verbatim(project.with_relative_paths(&line))
            })
            .collect();
        let title = if self.in_force.iter().all(|it| it.origin == SettingOrigin::Default) {
            "sandbox and guard have their default settings"
        } else {
            "sandbox and guard have their default settings, except for these"
        };
        let title = title.to_owned();
        let in_force = doctor_report::DoctorFinding {
            health: Health::Good,
            title,
            details,
            hints: Vec::new(),
        };
        self.checks.into_iter().map(|check| check.finding).chain([in_force]).collect()
    }
}

/// Checks which backend would isolate a run here, and which backends work.
fn check_backends(project: &Project, loaded: &LoadedSettings) -> Result<HostCheck, CliError> {
    const NAME: &str = "sandbox";
    let policy = recipe::build_sandbox_policy(loaded);
    let agent = recipe::choose_agent(loaded, Role::Implement);
    let around = DetectionContext {
        ralph: std::env::current_exe().unwrap_or_default(),
        project: project.directory.clone(),
        state_root: project.find_state_root(loaded)?,
        env: project.env.clone(),
        watch: Watch::new_detached(),
        image: policy.image.clone(),
        kinds: agent.iter().map(agents::detect_program_kind).collect(),
        bounds: crate::isolation::to_vm_limits(&policy),
    };
    let mut check = match choose_backend(&policy, |backend| detect_backend(backend, &around)) {
        Ok(ChosenBackend::Enforced(wall)) => {
            let title = format!("runs are isolated by the backend `{}`", wall.backend());
            HostCheck::new(NAME, Health::Good, title)
        }
        Ok(ChosenBackend::Guard { .. }) => {
            HostCheck::new(NAME, Health::Warning, "agents are restricted by the command guard only")
        }
        Ok(ChosenBackend::Unsandboxed) => {
            HostCheck::new(NAME, Health::Warning, "runs are not isolated")
        }
        Err(refusal) => refusal.hints().into_iter().fold(
            HostCheck::new(NAME, Health::Bad, "runs do not start: no sandbox works here"),
            HostCheck::with_hint,
        ),
    };
    let enforced = Backend::ALL.into_iter().filter(|backend| backend.is_enforced());
    check.finding.details.extend(enforced.map(|backend| {
        Detail::Text(match detect_backend(backend, &around) {
            ProbeResult::Works(_) => format!("{backend}: works"),
            ProbeResult::Fails { why, .. } => format!("{backend}: {why}"),
        })
    }));
    Ok(check)
}

fn check_user_settings(project: &Project) -> HostCheck {
    let (health, title, path) = match project.user_settings_file() {
        Some(path) if path.is_file() => (Health::Good, "you have settings of your own", Some(path)),
        Some(path) => (Health::Absent, "you have no settings of your own", Some(path)),
        None => (Health::Absent, "without HOME you have no settings of your own", None),
    };
    let mut check = HostCheck::new("user-settings", health, title);
    check.finding.details.extend(path.map(|it| Detail::Verbatim(it.display().to_string())));
    check
}

fn check_trust(project: &Project, loaded: &LoadedSettings, refused: &[&Loosening]) -> HostCheck {
    const NAME: &str = "trust";
    let (health, title) = match (loaded.loosenings.is_empty(), refused.is_empty()) {
        (true, _) => (Health::Good, "the project's settings need no trust"),
        (false, true) => (Health::Warning, "you trust this project with what its settings ask for"),
        (false, false) => (Health::Bad, "the project's settings need your trust"),
    };
    let mut check = HostCheck::new(NAME, health, title);
    let lines = loaded.loosenings.iter().map(|it| project.with_relative_paths(&it.to_string()));
    check.finding.details.extend(lines.map(Detail::Verbatim));
    if refused.is_empty() {
        return check;
    }
    check.with_hint("`ralph trust` accepts them; without that no run starts here")
}
