//! Life cycle of the VM of a run: what it shares with the host, when it is created and removed.
//!
//! All processes in a VM see the same directories, so one VM is created for agents, gates and git
//! of a run together. Not here: the VM's commands, and single calls.

use std::fs;
use std::io;
use std::path::PathBuf;

use ralph_core::sandbox::NetworkMode;
use ralph_core::sandbox::reach::Reach;

use super::boundary::{Boundary, Place};
use super::cage::{Cage, Handed, Wall};
use super::furnish::{FurnishError, Tenant};
use super::sbx::{Afterwards, VmTrouble};
use crate::process::Watch;
use crate::store::layout::{GIT_SCRATCH, private_directories};

/// Why the VM of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoLodging {
    #[error(transparent)]
    Furnish(#[from] FurnishError),
    /// The VM does not exist, or is not safe to use.
    #[error(transparent)]
    Vm(#[from] VmTrouble),
    /// The directories that it shares cannot be created.
    #[error("cannot create the directories that the VM shares")]
    Share(#[from] io::Error),
}

impl Cage {
    /// Creates the VM if the backend is one; other backends set up a sandbox for each call.
    pub fn move_in(
        self,
        network: NetworkMode,
        reach: &Reach,
        watch: &Watch,
    ) -> Result<Self, NoLodging> {
        let Wall::Sbx(vm) = self.backend_config.clone() else { return Ok(self) };
        for path in [self.exchange(), self.own_state(), self.places.run.join(GIT_SCRATCH)] {
            private_directories(&path)?;
        }
        private_directories(&self.places.state.join("hooks"))?;
        let ralph = self.ralph_in_vm();
        private_directories(ralph.parent().unwrap_or(&ralph))?;
        // Next to the state of the run: at ralph's usual path the VM may have its own programs.
        let _ = fs::remove_file(&ralph);
        fs::copy(&self.places.executable, &ralph)?;
        fs::write(self.canary(), "canary")?;
        let mut boundaries = Vec::new();
        for process in [Tenant::Agent, Tenant::Git] {
            let spec = self.with_tenant(process).cell(&Handed::default())?;
            boundaries.push(Boundary::of(&spec, &self.places.project, None));
        }
        let shared = [
            Place::Writable(self.exchange()),
            Place::Writable(self.own_state()),
            Place::ReadOnly(ralph.parent().unwrap_or(&ralph).to_owned()),
        ];
        boundaries[0].places.extend(shared);
        let vm = vm.sharing(&boundaries).reaching(network, reach)?;
        if let Err(error) = vm.prepare(&self.canary(), watch) {
            vm.close(Afterwards::Remove, &Watch::detached());
            return Err(error.into());
        }
        let mut prepared = self;
        prepared.backend_config = Wall::Sbx(Box::new(vm));
        Ok(prepared)
    }

    /// Removes the VM if the backend is one.
    pub fn move_out(&self, watch: &Watch) {
        match &self.backend_config {
            Wall::Sbx(vm) => {
                vm.close(Afterwards::Remove, watch);
                let _ = fs::remove_file(self.ralph_in_vm());
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
    }

    /// Returns those of the programs that do not exist inside, if the sandbox has its own file
    /// system.
    pub fn missing<'a>(&self, programs: &[&'a str], watch: &Watch) -> Vec<&'a str> {
        match &self.backend_config {
            Wall::Sbx(vm) => {
                programs.iter().copied().filter(|name| !vm.has_program(name, watch)).collect()
            }
            Wall::Container(_) => self.missing_in_image(programs, watch),
            Wall::Native | Wall::Bwrap { .. } | Wall::Landlock => Vec::new(),
        }
    }

    /// Returns the files for a call in a VM, with those that are not shared and change between
    /// calls.
    pub(super) fn handed_to_vm(&self, handed: &Handed) -> Handed {
        let mut handed = handed.clone();
        let state = ["active.json", "lock"].map(|name| self.places.state.join(name));
        handed.readable.extend(state);
        handed
    }

    /// Returns the directory for files that are copied into the VM and back.
    pub(super) fn exchange(&self) -> PathBuf {
        self.places.run.join("vm")
    }

    /// Returns the path of ralph inside a VM.
    pub(super) fn ralph_in_vm(&self) -> PathBuf {
        self.places.run.join("bin/ralph")
    }

    /// Returns a file that must not be visible in a VM.
    pub(super) fn canary(&self) -> PathBuf {
        self.places.run.join("canary")
    }

    /// Returns the directory of the agents' own state.
    fn own_state(&self) -> PathBuf {
        self.places.state.join("agent")
    }

    /// Checks in a container of its own: the `PATH` of an image is not known outside.
    fn missing_in_image<'a>(&self, programs: &[&'a str], watch: &Watch) -> Vec<&'a str> {
        use ralph_core::child::Ending;

        use crate::process::{Limits, Spawn, Stdin, capture};
        let script = "for name; do command -v \"$name\" >/dev/null || echo \"$name\"; done";
        let mut args = vec!["-c".into(), script.into(), "sh".into()];
        args.extend(programs.iter().map(Into::into));
        let spawn = Spawn {
            program: "sh".into(),
            args,
            cwd: self.places.project.clone(),
            env: Vec::new(),
            stdin: Stdin::Null,
            limits: Limits::default(),
        };
        let gate = self.with_tenant(Tenant::Gate);
        // If this fails, the first call fails in the same way and reports it.
        let Ok(spawn) = gate.launch(spawn, &Handed::default()) else { return Vec::new() };
        let captured = capture(&spawn, watch, 1 << 16);
        gate.clear();
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
