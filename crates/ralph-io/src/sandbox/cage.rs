//! The launcher: turns a child's description into one that starts it in a cell.
//!
//! Not here: making the walls, which the started process does for itself.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ralph_core::child::{Ending, NotStarted};
use ralph_core::sandbox::signs::GateCell;
use ralph_core::sandbox::{Backend, NetworkMode, Policy};
use serde::{Deserialize, Serialize};

use super::absent::{self, RemovedName};
use super::container::{self, Container};
use super::furnish::{FurnishError, Ground, Places, Rest, Tenant, furnish};
use super::plan::Plan;
use super::proxy::{PORT_INSIDE, proxy_variables};
use super::sbx::{self, Afterwards, Vm};
use super::stores::GRADLE_VARIABLE;
use super::{CELL_COMMAND, Cell, Door, Mount, Network, SANDBOX_VARIABLE, WALL_CODE, WALL_PREFIX};
use crate::process::{Spawn, Watch, find_program};
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
    pub(crate) fn launch_with(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        match self {
            Self::Direct => Ok(spawn),
            Self::Caged(cage) => cage.launch(spawn, handed),
        }
    }

    /// Fetches what a child wrote that had only copies of what it was handed. To be called when it has
    /// ended, before anybody reads that.
    pub fn fetch(&self) {
        match self {
            Self::Direct => {}
            Self::Caged(cage) => cage.fetch(),
        }
    }

    /// Returns what children see and do not see, where that is known.
    pub(crate) fn gate_cell(&self) -> Option<GateCell> {
        match self {
            Self::Direct => None,
            Self::Caged(cage) => cage.gate_cell(),
        }
    }

    /// Removes what children that are gone left: what they created and may not create, which is
    /// returned, and what belongs to their sandboxes. Must be called after each child, before
    /// anything else looks at the project.
    pub fn clear(&self) -> Vec<RemovedName> {
        match self {
            Self::Direct => Vec::new(),
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
    /// An engine of containers.
    Container(Box<Container>),
    /// A VM of Docker Sandboxes.
    Sbx(Box<Vm>),
    /// Landlock.
    Landlock,
}

impl Wall {
    /// Returns where programs are found that run inside.
    pub fn ground(&self) -> Ground {
        match self {
            Self::Native | Self::Bwrap { .. } | Self::Landlock => Ground::Machine,
            Self::Container(_) | Self::Sbx(_) => Ground::Image,
        }
    }

    /// Returns the backend.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Native => Backend::Native,
            Self::Bwrap { .. } => Backend::Bwrap,
            Self::Container(_) => Backend::Container,
            Self::Sbx(_) => Backend::Sbx,
            Self::Landlock => Backend::Landlock,
        }
    }
}

/// Starts children of one kind in cells.
#[derive(Debug, Clone)]
pub struct Cage {
    pub(super) wall: Wall,
    policy: Arc<Policy>,
    pub(super) places: Arc<Places>,
    door: Option<Door>,
    tenant: Tenant,
    /// What is the same in all cells of all tenants, once it was looked up.
    rest: Arc<OnceLock<Rest>>,
}

impl Cage {
    /// Returns a cage for agents; [`Cage::with_tenant`] makes others of it.
    ///
    /// `door` leads to the proxy, for a network that goes through one.
    pub fn new(wall: Wall, policy: Policy, places: Places, door: Option<Door>) -> Self {
        let (policy, places) = (Arc::new(policy), Arc::new(places));
        let (tenant, rest) = (Tenant::Agent, Arc::default());
        Self { wall, policy, places, door, tenant, rest }
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
        let rest = if let Some(rest) = self.rest.get() {
            rest
        } else {
            let rest = Rest::of(&self.policy, &self.places, self.wall.ground())?;
            self.rest.get_or_init(|| rest)
        };
        furnish(&self.policy, rest, self.tenant, self.door.as_ref(), handed)
    }

    /// Returns what a child would see and not see now; nothing for a VM, which has a machine of its
    /// own.
    fn gate_cell(&self) -> Option<GateCell> {
        match self.wall {
            Wall::Sbx(_) => return None,
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
        let cell = self.cell(&Handed::default()).ok()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let shown = cell.mounts.iter().filter_map(|mount| match mount {
            Mount::Shown { path }
            | Mount::Writable { path }
            | Mount::Pinned { path }
            | Mount::ShownAs { path, .. }
            | Mount::Protected { path } => Some(text(path)),
            Mount::Scratch { .. } | Mount::Hidden { .. } | Mount::Cache { .. } => None,
        });
        Some(GateCell {
            home: self.places.home.as_deref().map(text),
            project: text(&self.places.project),
            shown: shown.collect(),
            network: match cell.network {
                Network::None => NetworkMode::None,
                Network::Host => NetworkMode::Host,
                Network::Proxy(_) => NetworkMode::Proxy,
            },
            unix_sockets: cell.unix_sockets,
        })
    }

    /// Removes containers that a dead run of the same name has left.
    pub fn sweep(&self, watch: &Watch) {
        match &self.wall {
            Wall::Container(container) => container.sweep(&self.run(), watch),
            Wall::Native | Wall::Bwrap { .. } | Wall::Sbx(_) | Wall::Landlock => {}
        }
    }

    fn run(&self) -> String {
        self.places.run.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns how to start a child in its cell.
    ///
    /// To be called anew for each start: the cell is furnished with what is there now, and the plan
    /// for it is used up.
    pub fn launch(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        let program = match self.wall.ground() {
            Ground::Machine => find_program(&spawn)?,
            Ground::Image => spawn.program.clone().into(),
        };
        let name = spawn.program.to_string_lossy().into_owned();
        let refused = |error: String| NotStarted::Refused { program: name.clone(), error };
        match self.tenant {
            Tenant::Agent | Tenant::Gate => drop(self.clear()),
            // There are many of these, and they hardly ever leave something behind.
            Tenant::Git => {}
        }
        self.prepare(handed).map_err(|error| refused(error.to_string()))?;
        let cell = self.cell(handed).map_err(|error| refused(error.to_string()))?;
        for mount in &cell.mounts {
            if let Mount::Cache { source, .. } = mount {
                private_directories(source).map_err(|error| refused(error.to_string()))?;
            }
        }
        match self.tenant {
            Tenant::Agent | Tenant::Gate => absent::note(&self.places.run, &cell.absent)
                .map_err(|error| refused(format!("ralph's state cannot be written: {error}")))?,
            // git's own files are compared with what they were before.
            Tenant::Git => {}
        }
        let spawn = match &self.wall {
            Wall::Sbx(vm) => {
                let ralph = (self.places.executable.clone(), self.ralph_in_vm());
                vm.hand_in(spawn, &self.handed_to_vm(handed), &[ralph], &self.exchange())
                    .map_err(|error| refused(error.to_string()))?
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => spawn,
        };
        let env = self.environment(&spawn, &cell);
        let plan = Plan {
            wall: self.wall.clone(),
            cell,
            program,
            cwd: spawn.cwd.clone(),
            project: self.places.project.clone(),
            home: self.places.home.clone(),
            ralph: self.places.executable.clone(),
            run: self.run(),
        };
        let file = self.plan_file();
        plan.write(&file).map_err(|error| {
            refused(format!("the plan `{}` cannot be written: {error}", file.display()))
        })?;
        let mut args: Vec<OsString> = vec![CELL_COMMAND.into(), file.into(), spawn.program];
        args.extend(spawn.args);
        Ok(Spawn { program: self.places.executable.clone().into(), args, env, ..spawn })
    }

    /// Fetches what a child wrote that had only copies of what it was handed.
    pub fn fetch(&self) {
        match &self.wall {
            Wall::Sbx(_) => sbx::fetch(&self.exchange()),
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
    }

    /// Removes what children that are gone left in the project and on the machine, and returns what
    /// they created and may not create.
    pub fn clear(&self) -> Vec<RemovedName> {
        let Places { run, state, project, .. } = &*self.places;
        let removed = absent::remove_appeared(run, state, project);
        match &self.wall {
            Wall::Container(_) => container::clear(&self.places.run),
            Wall::Sbx(vm) => {
                if sbx::is_left(&self.places.run) {
                    // Nothing but its end is sure to end what goes on in it.
                    let watch = Watch::detached();
                    vm.close(Afterwards::Remove, &watch);
                    // A VM that cannot be made again is told of by the next call.
                    let _ = vm.prepare(&self.canary(), &watch);
                }
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Landlock => {}
        }
        #[cfg(target_os = "linux")]
        super::stage::clear_groups();
        removed
    }

    /// Makes what can be handed over only if it is there.
    fn prepare(&self, handed: &Handed) -> std::io::Result<()> {
        match self.tenant {
            Tenant::Agent => private_directories(&self.places.state.join("hooks"))?,
            Tenant::Git => private_directories(&self.places.run.join(GIT_SCRATCH))?,
            Tenant::Gate => {}
        }
        match self.wall {
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Sbx(_) => {}
            Wall::Landlock => private_directories(&self.scratch())?,
        }
        match self.tenant {
            Tenant::Agent | Tenant::Gate => {
                for output in self.places.outputs.iter().filter(|path| !path.exists()) {
                    fs::create_dir(output)?;
                }
            }
            Tenant::Git => {}
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
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Sbx(_) => {
                (PathBuf::from("/tmp"), PORT_INSIDE)
            }
            Wall::Landlock => {
                (self.scratch(), self.door.as_ref().map_or(PORT_INSIDE, |door| door.port))
            }
        };
        set("TMPDIR", scratch.into());
        for mount in &cell.mounts {
            for (name, value) in self.told_by_variables(mount) {
                set(name, value.into());
            }
        }
        // There is no key in a cell, and nobody to ask for its password.
        set("GIT_CONFIG_COUNT", "2".into());
        for (at, name) in ["commit.gpgSign", "tag.gpgSign"].into_iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{at}"), name.into());
            set(&format!("GIT_CONFIG_VALUE_{at}"), "false".into());
        }
        match (&cell.network, &self.wall) {
            // The engine's client must not go through the proxy; its command line has these. A VM
            // has a proxy of its own.
            (Network::Proxy(_), Wall::Container(_) | Wall::Sbx(_))
            | (Network::None | Network::Host, _) => {}
            (Network::Proxy(_), Wall::Native | Wall::Bwrap { .. } | Wall::Landlock) => {
                for (name, value) in proxy_variables(port, &self.places.executable) {
                    set(&name, value.into());
                }
            }
        }
        env
    }
}

impl Cage {
    /// Returns the variables for what tools do not find at its usual path.
    fn told_by_variables(&self, mount: &Mount) -> Vec<(&'static str, PathBuf)> {
        let can_map = match &self.wall {
            Wall::Native => cfg!(target_os = "linux"),
            Wall::Bwrap { .. } | Wall::Container(_) => true,
            Wall::Landlock => false,
            // A VM has neither the packages nor the caches.
            Wall::Sbx(_) => return Vec::new(),
        };
        match (mount, can_map) {
            (Mount::ShownAs { path, .. }, true) => vec![(GRADLE_VARIABLE, path.clone())],
            (Mount::ShownAs { source, .. }, false) => vec![(GRADLE_VARIABLE, source.clone())],
            (Mount::Cache { source, .. }, false) if source.ends_with(".cache") => vec![
                ("GOCACHE", source.join("go-build")),
                ("CCACHE_DIR", source.join("ccache")),
                ("SCCACHE_DIR", source.join("sccache")),
            ],
            (Mount::Cache { source, .. }, false) if source.ends_with(".gradle") => {
                vec![("GRADLE_USER_HOME", source.clone())]
            }
            _ => Vec::new(),
        }
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
