//! The command lines of `sbx` and of `docker sandbox`.
//!
//! Not here: running them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ralph_core::sandbox::Backend;
use ralph_core::sandbox::hosts::DEFAULT_PORT;
use ralph_core::secret::is_secret_name;

use super::super::SANDBOX_VARIABLE;
use super::{Access, Form, Vm};
use crate::process::Spawn;

impl Vm {
    fn command(&self, args: &[&str]) -> Vec<String> {
        let mut command: Vec<String> = match self.tool.form {
            Form::Sbx => Vec::new(),
            Form::DockerSandbox => vec!["sandbox".to_owned()],
        };
        command.extend(args.iter().map(|it| (*it).to_owned()));
        command
    }

    pub(super) fn list(&self) -> Vec<String> {
        match self.tool.form {
            Form::Sbx => self.command(&["ls", "--json"]),
            Form::DockerSandbox => self.command(&["ls"]),
        }
    }

    pub(super) fn creation(&self) -> Vec<String> {
        let mut command = self.command(&["create", "--name", &self.name]);
        match self.tool.form {
            Form::Sbx => {
                if self.bounds.memory < u64::MAX {
                    let memory = format!("{}m", (self.bounds.memory >> 20).max(1));
                    command.extend(["--memory".to_owned(), memory]);
                }
                // Otherwise a store that all sandboxes write to is visible inside.
                command.push("--no-share-skills".to_owned());
                command.extend(["-e".to_owned(), format!("{SANDBOX_VARIABLE}={}", Backend::Sbx)]);
            }
            Form::DockerSandbox => {}
        }
        command.push(self.template.clone());
        command.push(self.project.to_string_lossy().into_owned());
        command.extend(self.extra_words());
        command
    }

    pub(super) fn extra_words(&self) -> Vec<String> {
        self.extras
            .iter()
            .map(|(path, access)| match access {
                Access::Read => format!("{}:ro", path.display()),
                Access::Write => path.display().to_string(),
            })
            .collect()
    }

    /// Returns the commands that set the network rules.
    pub(super) fn rules(&self, allowed: &[String], denied: &[String]) -> Vec<Vec<String>> {
        match self.tool.form {
            Form::Sbx => {
                let mut commands = Vec::new();
                for (verb, hosts) in [("allow", with_ports(allowed)), ("deny", denied.to_vec())] {
                    if !hosts.is_empty() {
                        let rule = ["policy", verb, "network", "--sandbox", &self.name];
                        let mut command = self.command(&rule);
                        command.push(hosts.join(","));
                        commands.push(command);
                    }
                }
                commands
            }
            Form::DockerSandbox => {
                let mut command =
                    self.command(&["network", "proxy", &self.name, "--policy", "deny"]);
                for (flag, hosts) in [("--allow-host", allowed), ("--block-host", denied)] {
                    for host in hosts {
                        command.extend([flag.to_owned(), host.clone()]);
                    }
                }
                vec![command]
            }
        }
    }

    pub(super) fn check(&self, host: &str) -> Option<Vec<String>> {
        match self.tool.form {
            Form::Sbx => {
                Some(self.command(&["policy", "check", "network", "--sandbox", &self.name, host]))
            }
            Form::DockerSandbox => None,
        }
    }

    /// Returns the command that fails if a file is not visible.
    pub(super) fn reading(&self, path: &Path) -> Vec<String> {
        self.command(&["exec", &self.name, "cat", &path.to_string_lossy()])
    }

    /// Returns the command that fails if a program does not exist.
    pub(super) fn finding(&self, program: &str) -> Vec<String> {
        self.command(&["exec", &self.name, "sh", "-c", "command -v \"$0\"", program])
    }

    pub(super) fn execution(&self, spawn: &Spawn) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            self.command(&["exec", "-i", "-w"]).into_iter().map(OsString::from).collect();
        args.push(spawn.cwd.clone().into());
        for (name, value) in spawn.env.iter().filter(|(name, _)| is_for_inside(name)) {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            args.extend(["-e".into(), variable]);
        }
        args.push(self.name.clone().into());
        args.push(spawn.program.clone());
        args.extend(spawn.args.iter().cloned());
        args
    }

    pub(super) fn stop(&self) -> Vec<String> {
        self.command(&["stop", &self.name])
    }

    pub(super) fn removal(&self) -> Vec<String> {
        match self.tool.form {
            Form::Sbx => self.command(&["rm", "--force", &self.name]),
            Form::DockerSandbox => self.command(&["rm", &self.name]),
        }
    }
}

/// Returns the patterns with an explicit port.
fn with_ports(patterns: &[String]) -> Vec<String> {
    let has_port = |it: &str| {
        it.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            && !it.ends_with(']')
    };
    patterns
        .iter()
        .map(|it| if has_port(it) { it.clone() } else { format!("{it}:{DEFAULT_PORT}") })
        .collect()
}

/// Returns whether a variable has the same meaning inside, and is not a secret.
fn is_for_inside(name: &OsStr) -> bool {
    // These configure git, and have `KEY` in their names.
    let is_secret = |text: &str| is_secret_name(text) && !text.starts_with("GIT_CONFIG_");
    name.to_str().is_some_and(|text| !is_of_the_tool(name) && !is_secret(text))
}

/// Returns whether a variable describes this machine, or configures the tool itself.
pub(super) fn is_of_the_tool(name: &OsStr) -> bool {
    const OF_THE_HOST: [&str; 9] =
        ["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME"];
    let Some(name) = name.to_str() else { return false };
    OF_THE_HOST.contains(&name)
        || ["DOCKER_", "XDG_", "SBX_"].iter().any(|prefix| name.starts_with(prefix))
}
