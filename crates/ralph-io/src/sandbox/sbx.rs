//! The backend `sbx`: a micro VM of Docker Sandboxes for each project.
//!
//! One VM is made at the start of a run, each call is an `exec` in it, and it is stopped at the end.
//! Files are passed through both ways at once, so nothing is waited for. Network rules and
//! credentials are those of Docker Sandboxes; ralph adds the hosts that are allowed and makes sure
//! that others are refused. Where only the deprecated `docker sandbox` exists, that is used.
//!
//! Everything here follows Docker's documents; none of it could be tried with a real `sbx`.
//! Not here: choosing a backend.

mod commands;
mod find;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::child::Ending;
use ralph_core::recipe::AgentKind;
use ralph_core::sandbox::reach::Reach;
use ralph_core::sandbox::{Bounds, NetworkMode};

pub use find::{Form, Tool, Unavailable};

use super::ask::talker;
use super::boundary::{Boundary, Place};
use crate::process::{Captured, Spawn, Watch, capture};
use crate::store::layout::fnv1a;

/// The first VM of a template is fetched from far away.
const CREATION: Duration = Duration::from_secs(900);

/// Everything else that is asked of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host that nobody allows.
const CANARY: &str = "ralph-canary.invalid:443";

/// A VM for a project and an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    tool: Tool,
    name: String,
    template: &'static str,
    project: PathBuf,
    /// Further directories and files.
    extras: Vec<(PathBuf, Access)>,
    bounds: Bounds,
    env: Vec<(OsString, OsString)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// What becomes of a VM when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// It is stopped. What was installed and who signed in inside is there again next time.
    Stop,
    /// It is removed.
    Remove,
}

/// Why a VM is not there, or not safe to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VmTrouble {
    /// A command of it failed.
    #[error("`{command}` failed: {words}")]
    Failed {
        /// The command, without its arguments.
        command: String,
        /// What it said.
        words: String,
    },
    /// It reaches hosts that nobody allowed.
    #[error("the sandbox `{name}` lets connections to any host through: {words}")]
    Open {
        /// The VM.
        name: String,
        /// What the check said.
        words: String,
    },
    /// It has no network without rules.
    #[error("`sandbox.network.mode` \"host\" is not possible with sbx")]
    NoOpenNetwork,
}

/// Returns the template that has an agent installed; nothing, where there is none.
pub fn template(kind: AgentKind) -> Option<&'static str> {
    match kind {
        AgentKind::Claude => Some("claude"),
        AgentKind::Codex => Some("codex"),
        AgentKind::Copilot => Some("copilot"),
        AgentKind::Gemini => Some("gemini"),
        AgentKind::Opencode => Some("opencode"),
        AgentKind::Amp
        | AgentKind::Cline
        | AgentKind::Qwen
        | AgentKind::Pi
        | AgentKind::Acp
        | AgentKind::Text
        | AgentKind::Custom
        | AgentKind::Sim => None,
    }
}

impl Vm {
    /// Describes the VM of a project. Nothing is made yet.
    ///
    /// What is protected or hidden within the project is not so inside: the VM shares it whole.
    pub fn new(
        tool: Tool,
        template: &'static str,
        boundary: &Boundary,
        env: &[(OsString, OsString)],
    ) -> Self {
        let mut extras = Vec::new();
        for place in &boundary.places {
            let access = match place {
                Place::Writable(_) => Access::Write,
                Place::ReadOnly(_) => Access::Read,
                Place::HiddenDirectory(_) | Place::HiddenFile(_) => continue,
            };
            if !place.path().starts_with(&boundary.project) {
                extras.push((place.path().to_owned(), access));
            }
        }
        let mut env = env.to_vec();
        env.push(("SBX_NO_TELEMETRY".into(), "1".into()));
        let mut vm = Self {
            tool,
            name: String::new(),
            template,
            project: boundary.project.clone(),
            extras,
            bounds: boundary.bounds,
            env,
        };
        vm.name = vm.fitting_name();
        vm
    }

    /// Returns its name, which is the same for the same project, agent and places.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the VM if it is not there, sets its network rules, and makes sure that they hold.
    pub fn prepare(
        &self,
        network: NetworkMode,
        reach: &Reach,
        watch: &Watch,
    ) -> Result<(), VmTrouble> {
        let (allowed, denied) = match network {
            NetworkMode::None => (Vec::new(), Vec::new()),
            NetworkMode::Proxy => (reach.allowed(), reach.denied()),
            NetworkMode::Host => return Err(VmTrouble::NoOpenNetwork),
        };
        if !self.is_there(watch)? {
            self.run(&self.creation(), CREATION, watch)?;
        }
        for rules in self.rules(&allowed, &denied) {
            self.run(&rules, PATIENCE, watch)?;
        }
        match self.check(CANARY) {
            // The deprecated form cannot be asked.
            None => Ok(()),
            Some(check) => {
                let words = said(&self.hear(&check, PATIENCE, watch));
                let lower = words.to_lowercase().replace("not allowed", "");
                let is_denied = lower.contains("denied") && !lower.contains("allowed");
                let name = self.name.clone();
                if is_denied { Ok(()) } else { Err(VmTrouble::Open { name, words }) }
            }
        }
    }

    /// Returns how to start a child in the VM.
    ///
    /// Variables that look like secrets stay outside: Docker Sandboxes adds credentials to
    /// requests on their way out.
    pub fn launch(&self, spawn: Spawn) -> Spawn {
        let args = self.execution(&spawn);
        let program = self.tool.program.clone().into();
        Spawn { program, args, cwd: "/".into(), env: self.env.clone(), ..spawn }
    }

    /// Ends the VM. What goes wrong is of no use to a run that is over.
    pub fn close(&self, afterwards: Afterwards, watch: &Watch) {
        let _ = self.run(&self.stop(), PATIENCE, watch);
        match afterwards {
            Afterwards::Stop => {}
            Afterwards::Remove => {
                let _ = self.run(&self.removal(), PATIENCE, watch);
            }
        }
    }

    fn is_there(&self, watch: &Watch) -> Result<bool, VmTrouble> {
        let listed = self.run(&self.list(), PATIENCE, watch)?;
        Ok(match self.tool.form {
            Form::Sbx => {
                let list: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
                names(&list, &self.name)
            }
            Form::DockerSandbox => {
                listed.lines().any(|line| line.split_whitespace().any(|it| it == self.name))
            }
        })
    }

    fn hear(&self, args: &[String], longest: Duration, watch: &Watch) -> Captured {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        capture(&talker(&self.tool.program, &words, &self.env, longest), watch, 1 << 20)
    }

    fn run(&self, args: &[String], longest: Duration, watch: &Watch) -> Result<String, VmTrouble> {
        let captured = self.hear(args, longest, watch);
        if captured.end.ending == (Ending::Exited { code: 0 }) {
            return Ok(String::from_utf8_lossy(&captured.stdout).into_owned());
        }
        let verbs = args.iter().take_while(|it| !it.starts_with('-') && **it != self.name);
        let program = self.tool.program.file_name().unwrap_or_default().to_string_lossy();
        let command =
            verbs.take(3).fold(program.into_owned(), |command, verb| command + " " + verb);
        let words = match said(&captured) {
            words if words.is_empty() => captured.end.ending.to_string(),
            words => words,
        };
        Err(VmTrouble::Failed { command, words })
    }

    /// Letters, digits and `-`: what Docker Sandboxes takes as a name.
    fn fitting_name(&self) -> String {
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
        // A VM keeps the places that it was made with.
        let mut identity = self.project.as_os_str().as_encoded_bytes().to_vec();
        identity.extend(self.template.bytes());
        for extra in self.extra_words() {
            identity.push(0);
            identity.extend(extra.bytes());
        }
        format!("ralph-{slug}-{:08x}", fnv1a(&identity) & 0xffff_ffff)
    }
}

/// Returns what a command said, both streams, in one line.
fn said(captured: &Captured) -> String {
    let both = [captured.stdout.as_slice(), captured.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&both);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether something in a list has this name, whatever the list looks like.
fn names(list: &serde_json::Value, name: &str) -> bool {
    match list {
        serde_json::Value::Array(items) => items.iter().any(|item| names(item, name)),
        serde_json::Value::Object(fields) => {
            let is_name = |key: &str| key.eq_ignore_ascii_case("name");
            fields.iter().any(|(key, value)| {
                (is_name(key) && value.as_str() == Some(name)) || names(value, name)
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
