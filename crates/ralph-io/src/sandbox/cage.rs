//! The launcher: turns the description of a child into one that starts it in a sandbox.
//!
//! Not here: setting up the isolation, which the started process does itself.

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
    /// Without a sandbox.
    Direct,
    Caged(Cage),
}

impl Launcher {
    /// Returns how to start a child that gets no files by path.
    pub fn launch(&self, spawn: Spawn) -> Result<Spawn, NotStarted> {
        self.launch_with(spawn, &Handed::default())
    }

    /// Returns how to start a child that gets files by path.
    pub(crate) fn launch_with(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        match self {
            Self::Direct => Ok(spawn),
            Self::Caged(sandbox) => sandbox.launch(spawn, handed),
        }
    }

    /// Copies back what a child wrote if it worked on copies of the files it got. Must be called
    /// after the child has ended and before those files are read.
    pub fn fetch(&self) {
        match self {
            Self::Direct => {}
            Self::Caged(sandbox) => sandbox.fetch(),
        }
    }

    /// Returns what gates can and cannot see, if that is known.
    pub(crate) fn gate_cell(&self) -> Option<GateCell> {
        match self {
            Self::Direct => None,
            Self::Caged(sandbox) => sandbox.gate_cell(),
        }
    }

    /// Cleans up after children that have ended: removes what they created without permission,
    /// which is returned, and what belongs to their sandboxes. Must be called after each child,
    /// before anything else inspects the project.
    pub fn clear(&self) -> Vec<RemovedName> {
        match self {
            Self::Direct => Vec::new(),
            Self::Caged(sandbox) => sandbox.clear(),
        }
    }
}

/// Files that one call passes to a child by path, in addition to what its sandbox shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// Files and directories that it reads. Missing ones are skipped.
    pub readable: Vec<PathBuf>,
    /// Files and directories that it writes. A missing one is created as an empty file.
    pub writable: Vec<PathBuf>,
}

/// A backend with what it needs to start a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum Wall {
    /// ralph's own namespaces on Linux, Seatbelt on macOS.
    Native,
    Bwrap {
        program: PathBuf,
        /// The path of ralph inside the sandbox.
        ralph: PathBuf,
    },
    Container(Box<Container>),
    /// A VM of Docker Sandboxes.
    Sbx(Box<Vm>),
    Landlock,
}

impl Wall {
    /// Returns where programs that run inside are looked up.
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

/// Starts children of one kind in sandboxes.
#[derive(Debug, Clone)]
pub struct Cage {
    pub(super) backend_config: Wall,
    policy: Arc<Policy>,
    pub(super) places: Arc<Places>,
    proxy: Option<Door>,
    process: Tenant,
    /// The part of the spec that all processes share, once it has been computed.
    rest: Arc<OnceLock<Rest>>,
}

impl Cage {
    /// Returns a launcher for agents; [`SandboxLauncher::for_process`] derives launchers for
    /// others.
    ///
    /// `proxy` is required if the network of the policy is the proxy.
    pub fn new(backend_config: Wall, policy: Policy, places: Places, proxy: Option<Door>) -> Self {
        let (policy, places) = (Arc::new(policy), Arc::new(places));
        let (process, rest) = (Tenant::Agent, Arc::default());
        Self { backend_config, policy, places, proxy, process, rest }
    }

    /// Returns the same launcher for another kind of process.
    #[must_use]
    pub fn with_tenant(&self, process: Tenant) -> Self {
        Self { process, ..self.clone() }
    }

    /// Returns the backend and its configuration.
    pub fn wall(&self) -> &Wall {
        &self.backend_config
    }

    /// Builds the spec that a child would get now.
    pub fn cell(&self, handed: &Handed) -> Result<Cell, FurnishError> {
        let rest = if let Some(rest) = self.rest.get() {
            rest
        } else {
            let rest = Rest::of(&self.policy, &self.places, self.backend_config.ground())?;
            self.rest.get_or_init(|| rest)
        };
        furnish(&self.policy, rest, self.process, self.proxy.as_ref(), handed)
    }

    /// Returns what a gate can and cannot see now; `None` for a VM, which is a machine of its own.
    fn gate_cell(&self) -> Option<GateCell> {
        match self.backend_config {
            Wall::Sbx(_) => return None,
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
        let spec = self.cell(&Handed::default()).ok()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let shown = spec.mounts.iter().filter_map(|mount| match mount {
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
            network: match spec.network {
                Network::None => NetworkMode::None,
                Network::Host => NetworkMode::Host,
                Network::Proxy(_) => NetworkMode::Proxy,
            },
            unix_sockets: spec.unix_sockets,
        })
    }

    /// Removes containers left by a dead run with the same name.
    pub fn sweep(&self, watch: &Watch) {
        match &self.backend_config {
            Wall::Container(container) => container.sweep(&self.run(), watch),
            Wall::Native | Wall::Bwrap { .. } | Wall::Sbx(_) | Wall::Landlock => {}
        }
    }

    fn run(&self) -> String {
        self.places.run.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns how to start a child in its sandbox.
    ///
    /// Must be called for each start: the spec reflects the current state of the file system, and
    /// the plan file is consumed by the child.
    pub fn launch(&self, spawn: Spawn, handed: &Handed) -> Result<Spawn, NotStarted> {
        let program = match self.backend_config.ground() {
            Ground::Machine => find_program(&spawn)?,
            Ground::Image => spawn.program.clone().into(),
        };
        let name = spawn.program.to_string_lossy().into_owned();
        let refused = |error: String| NotStarted::Refused { program: name.clone(), error };
        match self.process {
            Tenant::Agent | Tenant::Gate => drop(self.clear()),
            // ralph calls git often, and git hardly ever leaves anything behind.
            Tenant::Git => {}
        }
        self.prepare(handed).map_err(|error| refused(error.to_string()))?;
        let spec = self.cell(handed).map_err(|error| refused(error.to_string()))?;
        for mount in &spec.mounts {
            if let Mount::Cache { source, .. } = mount {
                private_directories(source).map_err(|error| refused(error.to_string()))?;
            }
        }
        match self.process {
            Tenant::Agent | Tenant::Gate => absent::note(&self.places.run, &spec.absent)
                .map_err(|error| refused(format!("cannot write ralph's state: {error}")))?,
            // ralph compares git's own files with their earlier state instead.
            Tenant::Git => {}
        }
        let spawn = match &self.backend_config {
            Wall::Sbx(vm) => {
                let ralph = (self.places.executable.clone(), self.ralph_in_vm());
                vm.hand_in(spawn, &self.handed_to_vm(handed), &[ralph], &self.exchange())
                    .map_err(|error| refused(error.to_string()))?
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => spawn,
        };
        let env = self.environment(&spawn, &spec);
        let plan = Plan {
            backend_config: self.backend_config.clone(),
            spec,
            program,
            cwd: spawn.cwd.clone(),
            project: self.places.project.clone(),
            home: self.places.home.clone(),
            ralph: self.places.executable.clone(),
            run: self.run(),
        };
        let file = self.plan_file();
        plan.write(&file).map_err(|error| {
            refused(format!("cannot write the plan `{}`: {error}", file.display()))
        })?;
        let mut args: Vec<OsString> = vec![CELL_COMMAND.into(), file.into(), spawn.program];
        args.extend(spawn.args);
        Ok(Spawn { program: self.places.executable.clone().into(), args, env, ..spawn })
    }

    /// Copies back what a child wrote if it worked on copies of the files it got.
    pub fn fetch(&self) {
        match &self.backend_config {
            Wall::Sbx(_) => sbx::fetch(&self.exchange()),
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Landlock => {}
        }
    }

    /// Removes what ended children left in the project and on the machine, and returns what they
    /// created without permission.
    pub fn clear(&self) -> Vec<RemovedName> {
        let Places { run, state, project, .. } = &*self.places;
        let removed = absent::remove_appeared(run, state, project);
        match &self.backend_config {
            Wall::Container(_) => container::clear(&self.places.run),
            Wall::Sbx(vm) => {
                if sbx::is_left(&self.places.run) {
                    // Only removing the VM reliably ends the processes in it.
                    let watch = Watch::detached();
                    vm.close(Afterwards::Remove, &watch);
                    // If the VM cannot be created again, the next call reports it.
                    let _ = vm.prepare(&self.canary(), &watch);
                }
            }
            Wall::Native | Wall::Bwrap { .. } | Wall::Landlock => {}
        }
        #[cfg(target_os = "linux")]
        super::stage::clear_groups();
        removed
    }

    /// Creates files and directories that can be mounted only if they exist.
    fn prepare(&self, handed: &Handed) -> std::io::Result<()> {
        match self.process {
            Tenant::Agent => private_directories(&self.places.state.join("hooks"))?,
            Tenant::Git => private_directories(&self.places.run.join(GIT_SCRATCH))?,
            Tenant::Gate => {}
        }
        match self.backend_config {
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Sbx(_) => {}
            Wall::Landlock => private_directories(&self.scratch())?,
        }
        match self.process {
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

    /// Returns the directory for temporary files if the backend cannot mount an empty one.
    fn scratch(&self) -> PathBuf {
        self.places.run.join("scratch")
    }

    fn plan_file(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = self.places.run.join(format!("cell-{}-{number}.json", std::process::id()));
        // A leftover of a ralph that was killed and had the same process id.
        let _ = fs::remove_file(&file);
        file
    }

    /// Returns the child's environment, with the changes for a sandbox.
    fn environment(&self, spawn: &Spawn, spec: &Cell) -> Vec<(OsString, OsString)> {
        let mut env = spawn.env.clone();
        let mut set = |name: &str, value: OsString| {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        };
        set(SANDBOX_VARIABLE, self.backend_config.backend().name().into());
        let (scratch, port) = match &self.backend_config {
            Wall::Native | Wall::Bwrap { .. } | Wall::Container(_) | Wall::Sbx(_) => {
                (PathBuf::from("/tmp"), PORT_INSIDE)
            }
            Wall::Landlock => {
                (self.scratch(), self.proxy.as_ref().map_or(PORT_INSIDE, |proxy| proxy.port))
            }
        };
        set("TMPDIR", scratch.into());
        for mount in &spec.mounts {
            for (name, value) in self.told_by_variables(mount) {
                set(name, value.into());
            }
        }
        // There is no signing key in a sandbox, and no user who could enter its password.
        set("GIT_CONFIG_COUNT", "2".into());
        for (at, name) in ["commit.gpgSign", "tag.gpgSign"].into_iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{at}"), name.into());
            set(&format!("GIT_CONFIG_VALUE_{at}"), "false".into());
        }
        match (&spec.network, &self.backend_config) {
            // The engine's client must not use the proxy; the program gets these variables on the
            // client's command line. A VM has a proxy of its own.
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
    /// Returns the variables that point tools at a mount which is not at its usual path.
    fn told_by_variables(&self, mount: &Mount) -> Vec<(&'static str, PathBuf)> {
        let can_map = match &self.backend_config {
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

/// Returns why a child never ran, if its ending shows that the sandbox could not be set up.
///
/// `stderr` is the child's standard error, or the end of it.
pub fn not_started(program: &str, ending: &Ending, stderr: &str) -> Option<NotStarted> {
    if *ending != (Ending::Exited { code: WALL_CODE.into() }) {
        return None;
    }
    let error = stderr.lines().rev().find_map(|line| line.strip_prefix(WALL_PREFIX))?;
    Some(NotStarted::Refused { program: program.to_owned(), error: error.to_owned() })
}
