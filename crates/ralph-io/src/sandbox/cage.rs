//! The launcher: turns a child's description into one that starts it in a cell.
//!
//! Not here: making the walls, which the started process does for itself.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ralph_core::child::{Ending, NotStarted};
use ralph_core::sandbox::{Backend, Policy};
use serde::{Deserialize, Serialize};

use super::furnish::{FurnishError, Places, Tenant, furnish};
use super::plan::Plan;
use super::proxy::{PORT_INSIDE, proxy_variables};
use super::{CELL_COMMAND, Cell, Door, Network, SANDBOX_VARIABLE, WALL_CODE, WALL_PREFIX, stubs};
use crate::process::{Spawn, find_program};
use crate::store::layout::{GIT_SCRATCH, private_directories};

/// How children are started.
#[derive(Debug, Clone)]
pub enum Launcher {
    /// As they are.
    Direct,
    /// In a cell.
    Caged(Cage),
}

impl Launcher {
    /// Returns how to start a child that is handed nothing by path.
    pub fn launch(&self, spawn: Spawn) -> Result<Spawn, NotStarted> {
        self.launch_with(spawn, &Handed::default())
    }

    /// Returns how to start a child that is handed files by path.
    pub fn launch_with(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        match self {
            Self::Direct => Ok(spawn),
            Self::Caged(cage) => cage.launch(spawn, handed),
        }
    }

    /// Removes what the walls of children that are gone left. To be called after each child: one that
    /// was killed cannot do it itself.
    pub fn clear(&self) {
        match self {
            Self::Direct => {}
            Self::Caged(cage) => cage.clear(),
        }
    }
}

/// What one call hands to a child by path, beyond what its cell has anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// Files and directories that it reads. Those that are not there are left out.
    pub readable: Vec<PathBuf>,
    /// Files and directories that it writes. What is not there becomes an empty file.
    pub writable: Vec<PathBuf>,
}

/// What makes the walls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum Wall {
    /// Namespaces of our own.
    Native,
    /// Bubblewrap.
    Bwrap {
        /// Its program.
        program: PathBuf,
        /// ralph, as it is found in the cell.
        ralph: PathBuf,
    },
    /// Landlock.
    Landlock,
}

impl Wall {
    /// Returns the backend.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Native => Backend::Native,
            Self::Bwrap { .. } => Backend::Bwrap,
            Self::Landlock => Backend::Landlock,
        }
    }
}

/// Starts children of one kind in cells.
#[derive(Debug, Clone)]
pub struct Cage {
    wall: Wall,
    policy: Arc<Policy>,
    places: Arc<Places>,
    door: Option<Door>,
    tenant: Tenant,
}

impl Cage {
    /// Returns a cage for agents; [`Cage::with_tenant`] makes others of it.
    ///
    /// `door` leads to the proxy, for a network that goes through one.
    pub fn new(wall: Wall, policy: Policy, places: Places, door: Option<Door>) -> Self {
        let (policy, places) = (Arc::new(policy), Arc::new(places));
        Self { wall, policy, places, door, tenant: Tenant::Agent }
    }

    /// Returns the same cage for another tenant.
    #[must_use]
    pub fn with_tenant(&self, tenant: Tenant) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// Returns what makes the walls.
    pub fn wall(&self) -> &Wall {
        &self.wall
    }

    /// Returns the cell that a child would get now.
    pub fn cell(&self, handed: &Handed) -> Result<Cell, FurnishError> {
        furnish(&self.policy, &self.places, self.tenant, self.door.as_ref(), handed)
    }

    /// Returns how to start a child in its cell.
    ///
    /// To be called anew for each start: the cell is furnished with what is there now, and the plan
    /// for it is used up.
    pub fn launch(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        let program = find_program(&spawn)?;
        let refused = |error: String| NotStarted::Refused {
            program: spawn.program.to_string_lossy().into_owned(),
            error,
        };
        self.clear();
        self.prepare(handed).map_err(|error| refused(error.to_string()))?;
        let cell = self.cell(handed).map_err(|error| refused(error.to_string()))?;
        let env = self.environment(&spawn, &cell);
        let plan = Plan { wall: self.wall.clone(), cell, program, cwd: spawn.cwd.clone() };
        let file = self.plan_file();
        plan.write(&file).map_err(|error| {
            refused(format!("the plan `{}` cannot be written: {error}", file.display()))
        })?;
        let mut args: Vec<OsString> = vec![CELL_COMMAND.into(), file.into(), spawn.program];
        args.extend(spawn.args);
        Ok(Spawn { program: self.places.executable.clone().into(), args, env, ..spawn })
    }

    /// Removes what the walls of children that are gone left in the project and on the machine.
    pub fn clear(&self) {
        stubs::clear(&self.places.run);
        #[cfg(target_os = "linux")]
        super::stage::clear_groups();
    }

    /// Makes what can be handed over only if it is there.
    fn prepare(&self, handed: &Handed) -> std::io::Result<()> {
        match self.tenant {
            Tenant::Agent => private_directories(&self.places.state.join("hooks"))?,
            Tenant::Git => private_directories(&self.places.run.join(GIT_SCRATCH))?,
            Tenant::Gate => {}
        }
        match self.wall {
            Wall::Native | Wall::Bwrap { .. } => {}
            Wall::Landlock => private_directories(&self.scratch())?,
        }
        for path in handed.writable.iter().filter(|path| !path.exists()) {
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        }
        Ok(())
    }

    /// Returns where children put temporary files whose walls cannot give them a place of their own.
    fn scratch(&self) -> PathBuf {
        self.places.run.join("scratch")
    }

    fn plan_file(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = self.places.run.join(format!("cell-{}-{number}.json", std::process::id()));
        // One of a ralph that was killed, long ago, and had the same number.
        let _ = fs::remove_file(&file);
        file
    }

    /// Returns the child's environment, with what is different in a cell.
    fn environment(&self, spawn: &Spawn, cell: &Cell) -> Vec<(OsString, OsString)> {
        let mut env = spawn.env.clone();
        let mut set = |name: &str, value: OsString| {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        };
        set(SANDBOX_VARIABLE, self.wall.backend().name().into());
        let (scratch, port) = match &self.wall {
            Wall::Native | Wall::Bwrap { .. } => (PathBuf::from("/tmp"), PORT_INSIDE),
            Wall::Landlock => {
                (self.scratch(), self.door.as_ref().map_or(PORT_INSIDE, |door| door.port))
            }
        };
        set("TMPDIR", scratch.into());
        // There is no key in a cell, and nobody to ask for its password.
        set("GIT_CONFIG_COUNT", "2".into());
        for (at, name) in ["commit.gpgSign", "tag.gpgSign"].into_iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{at}"), name.into());
            set(&format!("GIT_CONFIG_VALUE_{at}"), "false".into());
        }
        match cell.network {
            Network::None | Network::Host => {}
            Network::Proxy(_) => {
                for (name, value) in proxy_variables(port, &self.places.executable) {
                    set(&name, value.into());
                }
            }
        }
        env
    }
}

/// Returns the failure behind an ending, if the walls could not be made: the child itself never ran.
///
/// `stderr` is what came from there, or its end.
pub fn not_started(program: &str, ending: &Ending, stderr: &str) -> Option<NotStarted> {
    if *ending != (Ending::Exited { code: WALL_CODE.into() }) {
        return None;
    }
    let words = stderr.lines().rev().find_map(|line| line.strip_prefix(WALL_PREFIX))?;
    Some(NotStarted::Refused { program: program.to_owned(), error: words.to_owned() })
}
