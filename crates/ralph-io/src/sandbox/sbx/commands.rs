//! The command lines of `sbx` and of `docker sandbox`.
//!
//! Not here: running them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ralph_core::checking::secret::is_secret_name;
use ralph_core::sandbox::hosts::DEFAULT_PORT;
use ralph_model::sandbox::Backend;

use super::super::SANDBOX_VARIABLE;
use super::{SbxForm, ShareAccess, Vm};
use crate::process::Spawn;

impl Vm {
    fn build_command(&self, args: &[&str]) -> Vec<String> {
        let mut command: Vec<String> = match self.tool.form {
            SbxForm::Sbx => Vec::new(),
            SbxForm::DockerSandbox => vec!["sandbox".to_owned()],
        };
        command.extend(args.iter().map(|it| (*it).to_owned()));
        command
    }

    pub(super) fn build_list_command(&self) -> Vec<String> {
        match self.tool.form {
            SbxForm::Sbx => self.build_command(&["ls", "--json"]),
            SbxForm::DockerSandbox => self.build_command(&["ls"]),
        }
    }

    pub(super) fn build_create_command(&self) -> Vec<String> {
        let mut command = self.build_command(&["create", "--name", &self.name]);
        match self.tool.form {
            SbxForm::Sbx => {
                if self.bounds.memory < u64::MAX {
                    let memory = format!("{}m", (self.bounds.memory >> 20).max(1));
                    command.extend(["--memory".to_owned(), memory]);
                }
                // Otherwise a store that all sandboxes write to is visible inside.
                command.push("--no-share-skills".to_owned());
                command.extend(["-e".to_owned(), format!("{SANDBOX_VARIABLE}={}", Backend::Sbx)]);
            }
            SbxForm::DockerSandbox => {}
        }
        command.push(self.template.clone());
        command.push(self.project.to_string_lossy().into_owned());
        command.extend(self.build_extra_arguments());
        command
    }

    pub(super) fn build_extra_arguments(&self) -> Vec<String> {
        self.extras
            .iter()
            .map(|(path, access)| match access {
                ShareAccess::Read => format!("{}:ro", path.display()),
                ShareAccess::Write => path.display().to_string(),
            })
            .collect()
    }

    /// Returns the commands that set the network rules.
    pub(super) fn build_rule_commands(
        &self,
        allowed: &[String],
        denied: &[String],
    ) -> Vec<Vec<String>> {
        match self.tool.form {
            SbxForm::Sbx => {
                let mut commands = Vec::new();
                for (verb, hosts) in
                    [("allow", add_default_ports(allowed)), ("deny", denied.to_vec())]
                {
                    if !hosts.is_empty() {
                        let rule = ["policy", verb, "network", "--sandbox", &self.name];
                        let mut command = self.build_command(&rule);
                        command.push(hosts.join(","));
                        commands.push(command);
                    }
                }
                commands
            }
            SbxForm::DockerSandbox => {
                let mut command =
                    self.build_command(&["network", "proxy", &self.name, "--policy", "deny"]);
                for (flag, hosts) in [("--allow-host", allowed), ("--block-host", denied)] {
                    for host in hosts {
                        command.extend([flag.to_owned(), host.clone()]);
                    }
                }
                vec![command]
            }
        }
    }

    pub(super) fn build_check_command(&self, host: &str) -> Option<Vec<String>> {
        match self.tool.form {
            SbxForm::Sbx => Some(self.build_command(&[
                "policy",
                "check",
                "network",
                "--sandbox",
                &self.name,
                host,
            ])),
            SbxForm::DockerSandbox => None,
        }
    }

    /// Returns the command that fails if a file is not visible.
    pub(super) fn build_read_command(&self, path: &Path) -> Vec<String> {
        self.build_command(&["exec", &self.name, "cat", &path.to_string_lossy()])
    }

    /// Returns the command that fails if a program does not exist.
    pub(super) fn build_find_command(&self, program: &str) -> Vec<String> {
        self.build_command(&["exec", &self.name, "sh", "-c", "command -v \"$0\"", program])
    }

    pub(super) fn build_exec_arguments(&self, spawn: &Spawn) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            self.build_command(&["exec", "-i", "-w"]).into_iter().map(OsString::from).collect();
        args.push(spawn.cwd.clone().into());
        for (name, value) in spawn.env.iter().filter(|(name, _)| is_passed_inside(name)) {
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

    pub(super) fn build_stop_command(&self) -> Vec<String> {
        self.build_command(&["stop", &self.name])
    }

    pub(super) fn build_remove_command(&self) -> Vec<String> {
        match self.tool.form {
            SbxForm::Sbx => self.build_command(&["rm", "--force", &self.name]),
            SbxForm::DockerSandbox => self.build_command(&["rm", &self.name]),
        }
    }
}

/// Returns the patterns with an explicit port.
fn add_default_ports(patterns: &[String]) -> Vec<String> {
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
fn is_passed_inside(name: &OsStr) -> bool {
    // These configure git, and have `KEY` in their names.
    let is_secret = |text: &str| is_secret_name(text) && !text.starts_with("GIT_CONFIG_");
    name.to_str().is_some_and(|text| !is_host_variable(name) && !is_secret(text))
}

/// Returns whether a variable describes this machine, or configures the tool itself.
pub(super) fn is_host_variable(name: &OsStr) -> bool {
    const OF_THE_HOST: [&str; 9] =
        ["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME"];
    let Some(name) = name.to_str() else { return false };
    OF_THE_HOST.contains(&name)
        || ["DOCKER_", "XDG_", "SBX_"].iter().any(|prefix| name.starts_with(prefix))
}
