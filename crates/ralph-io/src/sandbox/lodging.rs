//! A cage whose cells are calls in a VM: what the VM shares, when it comes and when it goes.
//!
//! All that run in a VM see the same directories, so it is made for all tenants of a run at once. Not
//! here: the VM's commands, and single calls.

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

/// Why a run cannot move into a VM.
#[derive(Debug, thiserror::Error)]
pub enum NoLodging {
    /// There can be no cell.
    #[error(transparent)]
    Furnish(#[from] FurnishError),
    /// The VM is not there, or not safe to use.
    #[error(transparent)]
    Vm(#[from] VmTrouble),
    /// What it is to share cannot be made.
    #[error("cannot make what the VM shares")]
    Share(#[from] io::Error),
}

impl Cage {
    /// Makes the VM ready, if there is one in this; other walls are made for each call.
    pub fn move_in(
        self,
        network: NetworkMode,
        reach: &Reach,
        watch: &Watch,
    ) -> Result<Self, NoLodging> {
        let Wall::Sbx(vm) = self.wall.clone() else { return Ok(self) };
        for path in [self.exchange(), self.own_state(), self.places.run.join(GIT_SCRATCH)] {
            private_directories(&path)?;
        }
        private_directories(&self.places.state.join("hooks"))?;
        let ralph = self.ralph_in_vm();
        private_directories(ralph.parent().unwrap_or(&ralph))?;
        // Beside the state of the run, since where it lies the VM may have programs of its own.
        let _ = fs::remove_file(&ralph);
        fs::copy(&self.places.executable, &ralph)?;
        fs::write(self.canary(), "canary")?;
        let mut boundaries = Vec::new();
        for tenant in [Tenant::Agent, Tenant::Git] {
            let cell = self.with_tenant(tenant).cell(&Handed::default())?;
            boundaries.push(Boundary::of(&cell, &self.places.project, None));
        }
        let shared = [
            Place::Writable(self.exchange()),
            Place::Writable(self.own_state()),
            Place::ReadOnly(ralph.parent().unwrap_or(&ralph).to_owned()),
        ];
        boundaries[0].places.extend(shared);
        let vm = vm.sharing(&boundaries).reaching(network, reach)?;
        if let Err(trouble) = vm.prepare(&self.canary(), watch) {
            vm.close(Afterwards::Remove, &Watch::detached());
            return Err(trouble.into());
        }
        let mut moved = self;
        moved.wall = Wall::Sbx(Box::new(vm));
        Ok(moved)
    }

    /// Ends the VM, if there is one in this.
    pub fn move_out(&self, watch: &Watch) {
        match &self.wall {
            Wall::Sbx(vm) => {
                vm.close(Afterwards::Remove, watch);
                let _ = fs::remove_file(self.ralph_in_vm());
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
    }

    /// Returns the programs among these that are not to be found inside, where that is another place
    /// than this machine.
    pub fn missing<'a>(&self, programs: &[&'a str], watch: &Watch) -> Vec<&'a str> {
        match &self.wall {
            Wall::Sbx(vm) => {
                programs.iter().copied().filter(|name| !vm.has_program(name, watch)).collect()
            }
            Wall::Container(_) => self.missing_in_image(programs, watch),
            Wall::Native | Wall::Bwrap { .. } | Wall::Landlock => Vec::new(),
        }
    }

    /// Returns what a call in a VM is handed: what is not shared, and changes between calls.
    pub(super) fn handed_to_vm(&self, handed: &Handed) -> Handed {
        let mut handed = handed.clone();
        let state = ["active.json", "lock"].map(|name| self.places.state.join(name));
        handed.readable.extend(state);
        handed
    }

    /// Returns the directory for files that are handed in and fetched back.
    pub(super) fn exchange(&self) -> PathBuf {
        self.places.run.join("vm")
    }

    /// Returns where ralph itself is for who runs in a VM.
    pub(super) fn ralph_in_vm(&self) -> PathBuf {
        self.places.run.join("bin/ralph")
    }

    /// Returns a file that no VM may see.
    pub(super) fn canary(&self) -> PathBuf {
        self.places.run.join("canary")
    }

    /// Returns where agents keep what is theirs.
    fn own_state(&self) -> PathBuf {
        self.places.state.join("agent")
    }

    /// Asks in a container of its own: what an image has on its `PATH` is known to nobody outside.
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
        // What goes wrong here goes wrong again with the first call, which says so.
        let Ok(spawn) = gate.launch(spawn, &Handed::default()) else { return Vec::new() };
        let captured = capture(&spawn, watch, 1 << 16);
        gate.clear();
        let said = String::from_utf8_lossy(&captured.stdout).into_owned();
        let is_missing = |name: &&&str| said.lines().any(|line| line == **name);
        match captured.end.ending {
            Ending::Exited { code: 0 } => programs.iter().filter(is_missing).copied().collect(),
            // Without a shell there is nothing that ralph can use.
            Ending::Exited { .. }
            | Ending::Signalled { .. }
            | Ending::TimedOut { .. }
            | Ending::Lingered { .. }
            | Ending::Interrupted { .. }
            | Ending::NotStarted { .. } => vec!["sh"],
        }
    }
}
