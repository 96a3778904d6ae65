//! Life cycle of the VM of a run: what it shares with the host, when it is created and removed.
//!
//! All processes in a VM see the same directories, so one VM is created for agents, gates and git
//! of a run together. Not here: the VM's commands, and single calls.

use std::path::PathBuf;
use std::{fs, io};

use ralph_core::sandbox::allowlist::NetworkAllowlist;
use ralph_model::sandbox::NetworkMode;

use super::boundary::{Boundary, BoundaryEntry};
use super::launcher::{BackendConfig, HandedFiles, SandboxLauncher};
use super::sbx::{VmError, VmShutdown};
use super::spec_builder::{SandboxedProcess, SpecError};
use crate::process::Watch;
use crate::store::layout::{GIT_SCRATCH, create_private_directories};

/// Why the VM of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VmSetupError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The VM does not exist, or is not safe to use.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The directories that it shares cannot be created.
    #[error("cannot create the directories that the VM shares")]
    Share(#[from] io::Error),
}

impl SandboxLauncher {
    /// Creates the VM if the backend is one; other backends set up a sandbox for each call.
    pub fn prepare_vm(
        self,
        network: NetworkMode,
        reach: &NetworkAllowlist,
        watch: &Watch,
    ) -> Result<Self, VmSetupError> {
        let BackendConfig::Sbx(vm) = self.backend_config.clone() else { return Ok(self) };
        for path in [
            self.exchange_directory(),
            self.agent_state_directory(),
            self.places.run.join(GIT_SCRATCH),
        ] {
            create_private_directories(&path)?;
        }
        create_private_directories(&self.places.state.join("hooks"))?;
        let ralph = self.ralph_path_in_vm();
        create_private_directories(ralph.parent().unwrap_or(&ralph))?;
        // Next to the state of the run: at ralph's usual path the VM may have its own programs.
        let _ = fs::remove_file(&ralph);
        fs::copy(&self.places.executable, &ralph)?;
        fs::write(self.canary_file(), "canary")?;
        let mut boundaries = Vec::new();
        for process in [SandboxedProcess::Agent, SandboxedProcess::Git] {
            let spec = self.for_process(process).build_spec(&HandedFiles::default())?;
            boundaries.push(Boundary::from_spec(&spec, &self.places.project, None));
        }
        let shared = [
            BoundaryEntry::Writable(self.exchange_directory()),
            BoundaryEntry::Writable(self.agent_state_directory()),
            BoundaryEntry::ReadOnly(ralph.parent().unwrap_or(&ralph).to_owned()),
        ];
        boundaries[0].places.extend(shared);
        let vm = vm.with_shared_directories(&boundaries).with_network_rules(network, reach)?;
        if let Err(error) = vm.prepare(&self.canary_file(), watch) {
            vm.shut_down(VmShutdown::Remove, &Watch::new_detached());
            return Err(error.into());
        }
        let mut prepared = self;
        prepared.backend_config = BackendConfig::Sbx(Box::new(vm));
        Ok(prepared)
    }

    /// Removes the VM if the backend is one.
    pub fn remove_vm(&self, watch: &Watch) {
        match &self.backend_config {
            BackendConfig::Sbx(vm) => {
                vm.shut_down(VmShutdown::Remove, watch);
                let _ = fs::remove_file(self.ralph_path_in_vm());
            }
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Landlock => {}
        }
    }

    /// Returns those of the programs that do not exist inside, if the sandbox has its own file
    /// system.
    pub fn find_missing_programs<'a>(&self, programs: &[&'a str], watch: &Watch) -> Vec<&'a str> {
        match &self.backend_config {
            BackendConfig::Sbx(vm) => {
                programs.iter().copied().filter(|name| !vm.has_program(name, watch)).collect()
            }
            BackendConfig::Container(_) => self.find_missing_in_image(programs, watch),
            BackendConfig::Native | BackendConfig::Bwrap { .. } | BackendConfig::Landlock => {
                Vec::new()
            }
        }
    }

    /// Returns the files for a call in a VM, with those that are not shared and change between
    /// calls.
    pub(super) fn add_vm_files(&self, handed: &HandedFiles) -> HandedFiles {
        let mut handed = handed.clone();
        let state = ["active.json", "lock"].map(|name| self.places.state.join(name));
        handed.readable.extend(state);
        handed
    }

    /// Returns the directory for files that are copied into the VM and back.
    pub(super) fn exchange_directory(&self) -> PathBuf {
        self.places.run.join("vm")
    }

    /// Returns the path of ralph inside a VM.
    pub(super) fn ralph_path_in_vm(&self) -> PathBuf {
        self.places.run.join("bin/ralph")
    }

    /// Returns a file that must not be visible in a VM.
    pub(super) fn canary_file(&self) -> PathBuf {
        self.places.run.join("canary")
    }

    /// Returns the directory of the agents' own state.
    fn agent_state_directory(&self) -> PathBuf {
        self.places.state.join("agent")
    }

    /// Checks in a container of its own: the `PATH` of an image is not known outside.
    fn find_missing_in_image<'a>(&self, programs: &[&'a str], watch: &Watch) -> Vec<&'a str> {
        use ralph_model::child::Ending;

        use crate::process::{ProcessLimits, Spawn, StdinSource, capture_output};
        let script = "for name; do command -v \"$name\" >/dev/null || echo \"$name\"; done";
        let mut args = vec!["-c".into(), script.into(), "sh".into()];
        args.extend(programs.iter().map(Into::into));
        let spawn = Spawn {
            program: "sh".into(),
            args,
            cwd: self.places.project.clone(),
            env: Vec::new(),
            stdin: StdinSource::Null,
            limits: ProcessLimits::default(),
        };
        let gate = self.for_process(SandboxedProcess::Gate);
        // If this fails, the first call fails in the same way and reports it.
        let Ok(spawn) = gate.wrap_spawn(spawn, &HandedFiles::default()) else { return Vec::new() };
        let captured = capture_output(&spawn, watch, 1 << 16);
        gate.clean_up();
        let output = String::from_utf8_lossy(&captured.stdout).into_owned();
        let is_missing = |name: &&&str| output.lines().any(|line| line == **name);
        match captured.end.ending {
            Ending::Exited { code: 0 } => programs.iter().filter(is_missing).copied().collect(),
            // Without a shell ralph cannot use the image at all.
            Ending::Exited { .. }
            | Ending::Signalled { .. }
            | Ending::TimedOut { .. }
            | Ending::Lingered { .. }
            | Ending::Interrupted { .. }
            | Ending::NotStarted { .. } => vec!["sh"],
        }
    }
}
