//! The backend `sbx`: a micro VM of Docker Sandboxes for each run.
//!
//! One VM is created at the start of a run, each call is an `exec` in it, and it is removed at the
//! end. Directories are shared live in both directions; single files are copied in and back.
//! Network rules and credentials are those of Docker Sandboxes; ralph adds the hosts that are
//! allowed and checks that others are refused. If only the deprecated `docker sandbox` exists, that
//! is used.
//!
//! Everything here follows Docker's documentation; none of it has been tried with a real `sbx`.
//! Not here: choosing a backend.

mod commands;
mod exchange;
mod find;
mod note;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::sandbox::allowlist::NetworkAllowlist;
use ralph_model::child::Ending;
use ralph_model::sandbox::NetworkMode;
use serde::{Deserialize, Serialize};

pub(super) use exchange::copy_back;
pub use find::{SbxForm, SbxTool, SbxUnavailable, may_be_installed};
pub(super) use note::{take_abandoned, write_vm_note};

use super::ResourceLimits;
use super::boundary::{Boundary, BoundaryEntry};
use super::launcher::HandedFiles;
use super::tool_query::build_query;
use crate::process::{Captured, Spawn, Watch, capture_output};
use crate::store::layout::hash_fnv1a;

/// Creating the first VM of a template downloads the template.
const CREATE_TIMEOUT: Duration = Duration::from_secs(900);

/// Timeout of all other commands.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A host that no rule allows.
const DENIED_HOST: &str = "ralph-canary.invalid:443";

/// A VM for a project and an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vm {
    tool: SbxTool,
    name: String,
    template: String,
    project: PathBuf,
    /// Further shared directories.
    extras: Vec<(PathBuf, ShareAccess)>,
    bounds: ResourceLimits,
    rules: VmNetworkRules,
    env: Vec<(String, String)>,
}

/// The hosts that a VM reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VmNetworkRules {
    allowed: Vec<String>,
    denied: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ShareAccess {
    Read,
    Write,
}

/// What happens to a VM when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmShutdown {
    /// It is stopped. Installed programs and logins inside are available again next time.
    Stop,
    Remove,
}

/// Why a VM cannot be used, or not safely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    #[error("`{command}` failed: {output}")]
    Failed {
        /// The command, without its arguments.
        command: String,
        output: String,
    },
    /// It reaches hosts that no rule allows.
    #[error("the sandbox `{name}` lets connections to any host through: {output}")]
    UnrestrictedNetwork { name: String, output: String },
    /// It can read files that are not shared with it.
    #[error("the sandbox `{name}` can read `{}`", .path.display())]
    ReadsHost { name: String, path: PathBuf },
    /// It has no network without rules.
    #[error("`sandbox.network.mode` \"host\" is not possible with sbx")]
    NoOpenNetwork,
}

impl Vm {
    /// Describes the VM of a project, without creating it.
    ///
    /// Protected and hidden paths inside the project are not enforced: the VM shares all of it.
    pub fn new(
        tool: SbxTool,
        template: &str,
        project: &Path,
        bounds: ResourceLimits,
        env: &[(OsString, OsString)],
    ) -> Self {
        let text = |it: &OsString| it.to_str().map(str::to_owned);
        let mut env: Vec<(String, String)> = env
            .iter()
            .filter(|(name, _)| commands::is_host_variable(name))
            .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
            .collect();
        env.push(("SBX_NO_TELEMETRY".into(), "1".into()));
        let mut vm = Self {
            tool,
            name: String::new(),
            template: template.to_owned(),
            project: project.to_owned(),
            extras: Vec::new(),
            bounds,
            rules: VmNetworkRules::default(),
            env,
        };
        vm.name = vm.build_name();
        vm
    }

    /// Returns the VM with the directories of these boundaries shared as well.
    ///
    /// All processes in it see the same directories, so one that any of them may write is writable.
    /// Single files cannot be shared.
    #[must_use]
    pub(crate) fn with_shared_directories(mut self, boundaries: &[Boundary]) -> Self {
        let mut extras: BTreeMap<PathBuf, ShareAccess> = BTreeMap::new();
        for place in boundaries.iter().flat_map(|boundary| &boundary.places) {
            let access = match place {
                BoundaryEntry::Writable(_) => ShareAccess::Write,
                BoundaryEntry::ReadOnly(_) => ShareAccess::Read,
                BoundaryEntry::Scratch(_)
                | BoundaryEntry::Elsewhere { .. }
                | BoundaryEntry::HiddenDirectory(_)
                | BoundaryEntry::HiddenFile(_) => continue,
            };
            let path = place.path();
            if !path.starts_with(&self.project) && path.is_dir() {
                let known = extras.entry(path.to_owned()).or_insert(access);
                if access == ShareAccess::Write {
                    *known = access;
                }
            }
        }
        self.extras = extras.into_iter().collect();
        self.name = self.build_name();
        self
    }

    /// Returns the VM with these network rules.
    pub(crate) fn with_network_rules(
        mut self,
        network: NetworkMode,
        reach: &NetworkAllowlist,
    ) -> Result<Self, VmError> {
        self.rules = match network {
            NetworkMode::None => VmNetworkRules::default(),
            NetworkMode::Proxy => {
                VmNetworkRules { allowed: reach.list_allowed(), denied: reach.list_denied() }
            }
            NetworkMode::Host => return Err(VmError::NoOpenNetwork),
        };
        Ok(self)
    }

    /// Returns its name, which is the same for the same project, agent and directories.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the VM if it does not exist, sets its network rules, and checks that they are
    /// enforced and that nothing else of this machine is visible in it.
    ///
    /// `canary` is a file of this machine that is not shared.
    pub fn prepare(&self, canary: &Path, watch: &Watch) -> Result<(), VmError> {
        if !self.exists(watch)? {
            self.run_command(&self.build_create_command(), CREATE_TIMEOUT, watch)?;
        }
        for rules in self.build_rule_commands(&self.rules.allowed, &self.rules.denied) {
            self.run_command(&rules, COMMAND_TIMEOUT, watch)?;
        }
        let name = self.name.clone();
        if self.capture_command(&self.build_read_command(canary), COMMAND_TIMEOUT, watch).end.ending
            == (Ending::Exited { code: 0 })
        {
            return Err(VmError::ReadsHost { name, path: canary.to_owned() });
        }
        match self.build_check_command(DENIED_HOST) {
            // The deprecated form has no such check.
            None => Ok(()),
            Some(check) => {
                let output = join_output(&self.capture_command(&check, COMMAND_TIMEOUT, watch));
                let lower = output.to_lowercase().replace("not allowed", "");
                let is_denied = lower.contains("denied") && !lower.contains("allowed");
                if is_denied { Ok(()) } else { Err(VmError::UnrestrictedNetwork { name, output }) }
            }
        }
    }

    /// Returns how to start a child in the VM.
    ///
    /// Variables that look like secrets are not passed: Docker Sandboxes adds credentials to
    /// outgoing requests.
    pub fn wrap_spawn(&self, spawn: Spawn) -> Spawn {
        let args = self.build_exec_arguments(&spawn);
        let program = self.tool.program.clone().into();
        Spawn { program, args, cwd: "/".into(), env: self.client_env(), ..spawn }
    }

    /// Copies files in for one call, and returns the child with their paths replaced by those of
    /// the copies. `outside` lists further paths that differ inside.
    pub(super) fn copy_in(
        &self,
        spawn: Spawn,
        handed: &HandedFiles,
        outside: &[(PathBuf, PathBuf)],
        directory: &Path,
    ) -> std::io::Result<Spawn> {
        let is_shared = |path: &Path| {
            path.starts_with(&self.project)
                || self.extras.iter().any(|(extra, _)| path.starts_with(extra))
        };
        exchange::copy_in(spawn, handed, outside, directory, is_shared)
    }

    /// Returns whether a program exists inside.
    pub fn has_program(&self, name: &str, watch: &Watch) -> bool {
        let asked = self.capture_command(&self.build_find_command(name), COMMAND_TIMEOUT, watch);
        asked.end.ending == (Ending::Exited { code: 0 })
    }

    /// Ends the VM. Errors are ignored, because the run is over.
    pub fn shut_down(&self, afterwards: VmShutdown, watch: &Watch) {
        let _ = self.run_command(&self.build_stop_command(), COMMAND_TIMEOUT, watch);
        match afterwards {
            VmShutdown::Stop => {}
            VmShutdown::Remove => {
                let _ = self.run_command(&self.build_remove_command(), COMMAND_TIMEOUT, watch);
            }
        }
    }

    fn client_env(&self) -> Vec<(OsString, OsString)> {
        self.env.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn exists(&self, watch: &Watch) -> Result<bool, VmError> {
        let listed = self.run_command(&self.build_list_command(), COMMAND_TIMEOUT, watch)?;
        Ok(match self.tool.form {
            SbxForm::Sbx => {
                let list: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
                contains_name(&list, &self.name)
            }
            SbxForm::DockerSandbox => {
                listed.lines().any(|line| line.split_whitespace().any(|it| it == self.name))
            }
        })
    }

    fn capture_command(&self, args: &[String], longest: Duration, watch: &Watch) -> Captured {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        capture_output(
            &build_query(&self.tool.program, &args, &self.client_env(), longest),
            watch,
            1 << 20,
        )
    }

    fn run_command(
        &self,
        args: &[String],
        longest: Duration,
        watch: &Watch,
    ) -> Result<String, VmError> {
        let captured = self.capture_command(args, longest, watch);
        if captured.end.ending == (Ending::Exited { code: 0 }) {
            return Ok(String::from_utf8_lossy(&captured.stdout).into_owned());
        }
        let verbs = args.iter().take_while(|it| !it.starts_with('-') && **it != self.name);
        let program = self.tool.program.file_name().unwrap_or_default().to_string_lossy();
        let command =
            verbs.take(3).fold(program.into_owned(), |command, verb| command + " " + verb);
        let output = match join_output(&captured) {
            output if output.is_empty() => captured.end.ending.to_string(),
            output => output,
        };
        Err(VmError::Failed { command, output })
    }

    /// Returns a name of letters, digits and `-`, as Docker Sandboxes requires.
    fn build_name(&self) -> String {
        let last = self.project.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let mut slug = String::new();
        for character in last.chars() {
            if character.is_ascii_alphanumeric() {
                slug.push(character);
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        slug.truncate(30);
        let slug = slug.trim_end_matches('-');
        let slug = if slug.is_empty() { "project" } else { slug };
        // A VM keeps the directories that it was created with.
        let mut identity = self.project.as_os_str().as_encoded_bytes().to_vec();
        identity.extend(self.template.bytes());
        for extra in self.build_extra_arguments() {
            identity.push(0);
            identity.extend(extra.bytes());
        }
        format!("ralph-{slug}-{:08x}", hash_fnv1a(&identity) & 0xffff_ffff)
    }
}

/// Returns both output streams of a command in one line.
fn join_output(captured: &Captured) -> String {
    let both = [captured.stdout.as_slice(), captured.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&both);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether an entry of a list has this name, whatever the list looks like.
fn contains_name(list: &serde_json::Value, name: &str) -> bool {
    match list {
        serde_json::Value::Array(items) => items.iter().any(|item| contains_name(item, name)),
        serde_json::Value::Object(fields) => {
            let is_name = |key: &str| key.eq_ignore_ascii_case("name");
            fields.iter().any(|(key, value)| {
                (is_name(key) && value.as_str() == Some(name)) || contains_name(value, name)
            })
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
