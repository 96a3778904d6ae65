//! Work on several tasks at once.

use std::collections::BTreeMap;

use ralph_model::recipe::{ClonePolicy, OverlapPolicy, ParallelPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::SizeSetting;

/// The worker host on this machine.
const LOCAL: &str = "local";

/// Other worker hosts with a name.
const HOSTS: [(&str, &str); 1] = [("fleet", "ralph-fleet workers")];

/// How a run works on several tasks at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ParallelSettings {
    /// How many tasks are worked on at the same time.
    #[schemars(range(min = 1, max = 64))]
    pub(crate) jobs: u32,
    /// What happens if two tasks declare the same paths.
    pub(crate) overlap: OverlapPolicy,
    /// How many rounds a task gets whose work does not merge.
    #[schemars(range(min = 1, max = 10))]
    pub(crate) merge_attempts: u32,
    /// How often a gate that fails after a merge is repeated.
    #[schemars(range(max = 10))]
    pub(crate) flake_retries: u32,
    /// How many workers run gates at the same time. Not set: a quarter of the cores, at least 1.
    #[schemars(range(min = 1, max = 64))]
    pub(crate) gate_slots: Option<u32>,
    /// Where workers run: `local`, a name from `workerHosts`, or a command.
    #[schemars(length(min = 1))]
    pub(crate) worker_host: String,
    /// Worker hosts by name: the command that runs them.
    pub(crate) worker_hosts: BTreeMap<String, String>,
    /// Where the clones of workers are. Not set: in the state directory.
    #[schemars(length(min = 1))]
    pub(crate) directory: Option<String>,
    /// Ignored files that a new clone gets a copy of, besides those in `.worktreeinclude`.
    pub(crate) include: Vec<String>,
    /// A command that prepares a new clone, such as `npm ci`.
    #[schemars(length(min = 1))]
    pub(crate) setup: Option<String>,
    /// Files; if one differs, `setup` runs again. Not set: known lock files.
    pub(crate) setup_when: Option<Vec<String>>,
    /// How much of the included files is copied where they cannot share their content.
    pub(crate) copy_limit: SizeSetting,
    /// How much disk space stays free; with less no job starts.
    pub(crate) keep_free: SizeSetting,
}

impl Default for ParallelSettings {
    fn default() -> Self {
        let ParallelPolicy {
            jobs,
            overlap,
            merge_attempts,
            flake_retries,
            gate_slots,
            clones,
            host: _,
        } = ParallelPolicy::new(1);
        let ClonePolicy { copy_limit, keep_free, include, .. } = clones;
        Self {
            jobs,
            overlap,
            merge_attempts,
            flake_retries,
            gate_slots,
            worker_host: LOCAL.to_owned(),
            worker_hosts: BTreeMap::new(),
            directory: None,
            include,
            setup: None,
            setup_when: None,
            copy_limit: SizeSetting(copy_limit),
            keep_free: SizeSetting(keep_free),
        }
    }
}

impl ParallelSettings {
    /// Returns the policies of a run; none for one task at a time.
    pub(crate) fn build_policy(&self) -> Option<ParallelPolicy> {
        let Self { jobs, overlap, merge_attempts, flake_retries, gate_slots, .. } = *self;
        let clones = self.build_clone_policy();
        let host = self.find_host_command();
        let needs_policy = jobs > 1 || host.is_some();
        let policy = ParallelPolicy {
            jobs,
            overlap,
            merge_attempts,
            flake_retries,
            gate_slots,
            clones,
            host,
        };
        needs_policy.then_some(policy)
    }

    /// Returns the command of the worker host; none for workers on this machine.
    fn find_host_command(&self) -> Option<String> {
        let named = &self.worker_host;
        let known = self.worker_hosts.get(named).map(String::as_str);
        let known = known
            .or_else(|| HOSTS.iter().find(|(name, _)| name == named).map(|(_, command)| *command));
        (named != LOCAL).then(|| known.unwrap_or(named).to_owned())
    }

    pub(crate) fn build_clone_policy(&self) -> ClonePolicy {
        ClonePolicy {
            directory: self.directory.as_ref().map(Into::into),
            include: self.include.clone(),
            setup: self.setup.clone(),
            setup_when: self.setup_when.clone().unwrap_or(ClonePolicy::default().setup_when),
            copy_limit: self.copy_limit.0,
            keep_free: self.keep_free.0,
        }
    }
}
