//! The launcher: turns the description of a child into one that starts it in a sandbox.
//!
//! Not here: setting up the isolation, which the started process does itself.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ralph_core::sandbox::gate_signs::GateSandbox;
use ralph_core::sandbox::package_hosts::PACKAGE_TOOLS;
use ralph_model::child::{Ending, NotStarted};
use ralph_model::sandbox::{Backend, NetworkMode, SandboxPolicy};
use serde::{Deserialize, Serialize};

use super::absent_names::{self, NameWatch, RemovedName};
use super::container::{self, Container};
use super::home_stores::GRADLE_VARIABLE;
use super::launch_plan::LaunchPlan;
use super::program_files::list_program_files;
use super::proxy::{PORT_INSIDE, list_proxy_variables};
use super::sbx::{self, Vm, VmShutdown};
use super::spec::find_visibility;
use super::spec_builder::{
    BaseSpec, ProgramSource, SandboxPaths, SandboxedProcess, SpecError, build_spec,
};
use super::{
    Mount, ProxyEndpoint, RUN_ERROR, SANDBOX_COMMAND, SANDBOX_VARIABLE, SETUP_ERROR_PREFIX,
    SETUP_FAILED_CODE, SandboxNetwork, SandboxSpec,
};
use crate::process::{Spawn, Watch, find_program};
use crate::store::layout::{GIT_SCRATCH, create_private_directories};

/// How children are started.
#[derive(Debug, Clone)]
pub enum Launcher {
    /// Without a sandbox.
    Direct,
    Sandboxed(SandboxLauncher),
}

impl Launcher {
    /// Returns how to start a child that gets no files by path.
    pub fn wrap_spawn(&self, spawn: Spawn) -> Result<Spawn, NotStarted> {
        self.wrap_spawn_with_files(spawn, &HandedFiles::default())
    }

    /// Returns how to start a child that gets files by path.
    pub(crate) fn wrap_spawn_with_files(
        &self,
        spawn: Spawn,
        handed: &HandedFiles,
    ) -> Result<Spawn, NotStarted> {
        match self {
            Self::Direct => Ok(spawn),
            Self::Sandboxed(sandbox) => sandbox.wrap_spawn(spawn, handed),
        }
    }

    /// Copies back what a child wrote if it worked on copies of the files it got. Must be called
    /// after the child has ended and before those files are read.
    pub fn copy_back(&self) {
        match self {
            Self::Direct => {}
            Self::Sandboxed(sandbox) => sandbox.copy_back(),
        }
    }

    /// Returns what gates can and cannot see, if that is known.
    pub(crate) fn gate_view(&self) -> Option<GateSandbox> {
        match self {
            Self::Direct => None,
            Self::Sandboxed(sandbox) => sandbox.gate_view(),
        }
    }

    /// Returns the network of its children.
    pub fn network(&self) -> NetworkMode {
        self.gate_view().map_or(NetworkMode::Host, |view| view.network)
    }

    /// Cleans up after children that have ended: removes what they created without permission,
    /// which is returned, and what belongs to their sandboxes. Must be called after each child,
    /// before anything else inspects the project.
    pub fn clean_up(&self) -> Vec<RemovedName> {
        match self {
            Self::Direct => Vec::new(),
            Self::Sandboxed(sandbox) => sandbox.clean_up(),
        }
    }
}

/// Files that one call passes to a child by path, in addition to what its sandbox shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandedFiles {
    /// Files and directories that it reads. Missing ones are skipped.
    pub readable: Vec<PathBuf>,
    /// Files and directories that it writes. A missing one is created as an empty file.
    pub writable: Vec<PathBuf>,
}

/// A backend with what it needs to start a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "by")]
pub enum BackendConfig {
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

impl BackendConfig {
    /// Returns where programs that run inside are looked up.
    pub fn program_source(&self) -> ProgramSource {
        match self {
            Self::Native | Self::Bwrap { .. } | Self::Landlock => ProgramSource::Machine,
            Self::Container(_) | Self::Sbx(_) => ProgramSource::Image,
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
pub struct SandboxLauncher {
    pub(super) backend_config: BackendConfig,
    policy: Arc<SandboxPolicy>,
    pub(super) places: Arc<SandboxPaths>,
    proxy: Option<ProxyEndpoint>,
    /// The proxy of gates, if they have one of their own.
    gate_proxy: Option<ProxyEndpoint>,
    process: SandboxedProcess,
    /// The part of the spec that all processes share, once it has been computed.
    base: Arc<OnceLock<BaseSpec>>,
    names: NameWatch,
}

impl SandboxLauncher {
    /// Returns a launcher for agents; [`SandboxLauncher::for_process`] derives launchers for
    /// others.
    ///
    /// `proxy` is required if the network of the policy is the proxy.
    pub fn new(
        backend_config: BackendConfig,
        policy: SandboxPolicy,
        places: SandboxPaths,
        proxy: Option<ProxyEndpoint>,
    ) -> Self {
        let (policy, places) = (Arc::new(policy), Arc::new(places));
        let (process, base) = (SandboxedProcess::Agent, Arc::default());
        let names = NameWatch::default();
        Self { backend_config, policy, places, proxy, gate_proxy: None, process, base, names }
    }

    /// Sets the proxy of gates, if they have one of their own.
    #[must_use]
    pub fn with_gate_proxy(self, gate_proxy: Option<ProxyEndpoint>) -> Self {
        Self { gate_proxy, ..self }
    }

    /// Returns the proxy of the processes that this launcher starts.
    fn own_proxy(&self) -> Option<&ProxyEndpoint> {
        match self.process {
            SandboxedProcess::Gate => self.gate_proxy.as_ref().or(self.proxy.as_ref()),
            SandboxedProcess::Agent | SandboxedProcess::Git => self.proxy.as_ref(),
        }
    }

    /// Returns the same launcher for another kind of process.
    #[must_use]
    pub fn for_process(&self, process: SandboxedProcess) -> Self {
        Self { process, ..self.clone() }
    }

    /// Returns the backend and its configuration.
    pub fn backend_config(&self) -> &BackendConfig {
        &self.backend_config
    }

    /// Builds the spec that a child would get now.
    pub fn build_spec(&self, handed: &HandedFiles) -> Result<SandboxSpec, SpecError> {
        let rest = if let Some(rest) = self.base.get() {
            rest
        } else {
            let rest = BaseSpec::from_machine(
                &self.policy,
                &self.places,
                self.backend_config.program_source(),
            )?;
            self.base.get_or_init(|| rest)
        };
        build_spec(&self.policy, rest, self.process, self.own_proxy(), handed)
    }

    /// Returns the first file that a program of this machine needs to start and that is hidden.
    pub fn find_hidden_file(&self, program: &Path) -> Option<PathBuf> {
        match self.backend_config.program_source() {
            ProgramSource::Machine => {}
            ProgramSource::Image => return None,
        }
        let spec = self.build_spec(&HandedFiles::default()).ok()?;
        let is_hidden = |path: &Path| find_visibility(&spec.mounts, path) == Some(false);
        let files = list_program_files(program, &self.places.path).into_iter();
        let mut files = files.filter(|file| file.exists());
        files.find(|file| is_hidden(file) || file.canonicalize().is_ok_and(|real| is_hidden(&real)))
    }

    /// Returns what a gate can and cannot see now; `None` for a VM, which is a machine of its own.
    fn gate_view(&self) -> Option<GateSandbox> {
        match self.backend_config {
            BackendConfig::Sbx(_) => return None,
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Landlock => {}
        }
        let spec = self.build_spec(&HandedFiles::default()).ok()?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let shown = spec.mounts.iter().filter_map(|mount| match mount {
            Mount::Shown { path }
            | Mount::Writable { path }
            | Mount::Pinned { path }
            | Mount::ShownAs { path, .. }
            | Mount::Protected { path } => Some(text(path)),
            Mount::Scratch { .. } | Mount::Hidden { .. } | Mount::Cache { .. } => None,
        });
        Some(GateSandbox {
            home: self.places.home.as_deref().map(text),
            project: text(&self.places.project),
            shown: shown.collect(),
            network: match spec.network {
                SandboxNetwork::None => NetworkMode::None,
                SandboxNetwork::Host => NetworkMode::Host,
                SandboxNetwork::Proxy(_) => NetworkMode::Proxy,
            },
            unix_sockets: spec.unix_sockets,
            has_packages: PACKAGE_TOOLS
                .iter()
                .flat_map(|tool| tool.manifests)
                .any(|name| self.places.project.join(name).is_file()),
        })
    }

    /// Removes containers left by a dead run with the same name.
    pub fn remove_stale_containers(&self, watch: &Watch) {
        match &self.backend_config {
            BackendConfig::Container(container) => {
                container.remove_run_containers(&self.run_name(), watch);
            }
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Sbx(_)
            | BackendConfig::Landlock => {}
        }
    }

    fn run_name(&self) -> String {
        self.places.run.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns how to start a child in its sandbox.
    ///
    /// Must be called for each start: the spec reflects the current state of the file system, and
    /// the plan file is consumed by the child.
    pub fn wrap_spawn(&self, spawn: Spawn, handed: &HandedFiles) -> Result<Spawn, NotStarted> {
        let program = match self.backend_config.program_source() {
            ProgramSource::Machine => find_program(&spawn)?,
            ProgramSource::Image => spawn.program.clone().into(),
        };
        let name = spawn.program.to_string_lossy().into_owned();
        let refused = |error: String| NotStarted::Refused { program: name.clone(), error };
        match self.process {
            SandboxedProcess::Agent | SandboxedProcess::Gate => drop(self.clean_up()),
            // ralph calls git often, and git hardly ever leaves anything behind.
            SandboxedProcess::Git => {}
        }
        self.create_mount_points(handed).map_err(|error| refused(error.to_string()))?;
        let spec = self.build_spec(handed).map_err(|error| refused(error.to_string()))?;
        for mount in &spec.mounts {
            if let Mount::Cache { source, .. } = mount {
                create_private_directories(source).map_err(|error| refused(error.to_string()))?;
            }
        }
        match self.process {
            SandboxedProcess::Agent | SandboxedProcess::Gate => {
                absent_names::write_note(&self.places.run, &spec.present, &spec.absent)
                    .map_err(|error| refused(format!("cannot write ralph's state: {error}")))?;
                let SandboxPaths { run, state, project, .. } = &*self.places;
                self.names.start(run, state, project);
            }
            // ralph compares git's own files with their earlier state instead.
            SandboxedProcess::Git => {}
        }
        let spawn = match &self.backend_config {
            BackendConfig::Sbx(vm) => {
                let ralph = (self.places.executable.clone(), self.ralph_path_in_vm());
                vm.copy_in(spawn, &self.add_vm_files(handed), &[ralph], &self.exchange_directory())
                    .map_err(|error| refused(error.to_string()))?
            }
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Landlock => spawn,
        };
        let env = self.build_environment(&spawn, &spec);
        let plan = LaunchPlan {
            backend_config: self.backend_config.clone(),
            spec,
            program,
            cwd: spawn.cwd.clone(),
            project: self.places.project.clone(),
            home: self.places.home.clone(),
            ralph: self.places.executable.clone(),
            run: self.run_name(),
        };
        let file = self.plan_file();
        plan.write(&file).map_err(|error| {
            refused(format!("cannot write the plan `{}`: {error}", file.display()))
        })?;
        let mut args: Vec<OsString> = vec![SANDBOX_COMMAND.into(), file.into(), spawn.program];
        args.extend(spawn.args);
        Ok(Spawn { program: self.places.executable.clone().into(), args, env, ..spawn })
    }

    /// Copies back what a child wrote if it worked on copies of the files it got.
    pub fn copy_back(&self) {
        match &self.backend_config {
            BackendConfig::Sbx(_) => sbx::copy_back(&self.exchange_directory()),
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Landlock => {}
        }
    }

    /// Removes what ended children left in the project and on the machine, and returns what they
    /// created without permission.
    pub fn clean_up(&self) -> Vec<RemovedName> {
        let SandboxPaths { run, state, project, .. } = &*self.places;
        self.names.stop();
        let removed = absent_names::remove_appeared(run, state, project);
        match &self.backend_config {
            BackendConfig::Container(_) => container::remove_stale_containers(&self.places.run),
            BackendConfig::Sbx(vm) => {
                if sbx::take_abandoned(&self.places.run) {
                    // Only removing the VM reliably ends the processes in it.
                    let watch = Watch::new_detached();
                    vm.shut_down(VmShutdown::Remove, &watch);
                    // If the VM cannot be created again, the next call reports it.
                    let _ = vm.prepare(&self.canary_file(), &watch);
                }
            }
            BackendConfig::Native | BackendConfig::Bwrap { .. } | BackendConfig::Landlock => {}
        }
        #[cfg(target_os = "linux")]
        super::stage::clear_groups();
        removed
    }

    /// Creates files and directories that can be mounted only if they exist.
    fn create_mount_points(&self, handed: &HandedFiles) -> std::io::Result<()> {
        match self.process {
            SandboxedProcess::Agent => {
                create_private_directories(&self.places.state.join("hooks"))?;
            }
            SandboxedProcess::Git => {
                create_private_directories(&self.places.run.join(GIT_SCRATCH))?;
            }
            SandboxedProcess::Gate => {}
        }
        match self.backend_config {
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Sbx(_) => {}
            BackendConfig::Landlock => create_private_directories(&self.scratch_directory())?,
        }
        match self.process {
            SandboxedProcess::Agent | SandboxedProcess::Gate => {
                for output in self.places.outputs.iter().filter(|path| !path.exists()) {
                    fs::create_dir(output)?;
                }
            }
            SandboxedProcess::Git => {}
        }
        for path in handed.writable.iter().filter(|path| !path.exists()) {
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        }
        Ok(())
    }

    /// Returns the directory for temporary files if the backend cannot mount an empty one.
    fn scratch_directory(&self) -> PathBuf {
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
    fn build_environment(&self, spawn: &Spawn, spec: &SandboxSpec) -> Vec<(OsString, OsString)> {
        let mut env = spawn.env.clone();
        let mut set = |name: &str, value: OsString| {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        };
        set(SANDBOX_VARIABLE, self.backend_config.backend().name().into());
        let (scratch, port) = match &self.backend_config {
            BackendConfig::Native
            | BackendConfig::Bwrap { .. }
            | BackendConfig::Container(_)
            | BackendConfig::Sbx(_) => (PathBuf::from("/tmp"), PORT_INSIDE),
            BackendConfig::Landlock => {
                (self.scratch_directory(), self.own_proxy().map_or(PORT_INSIDE, |proxy| proxy.port))
            }
        };
        set("TMPDIR", scratch.into());
        for mount in &spec.mounts {
            for (name, value) in self.find_mount_variables(mount) {
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
            (SandboxNetwork::Proxy(_), BackendConfig::Container(_) | BackendConfig::Sbx(_))
            | (SandboxNetwork::None | SandboxNetwork::Host, _) => {}
            (
                SandboxNetwork::Proxy(_),
                BackendConfig::Native | BackendConfig::Bwrap { .. } | BackendConfig::Landlock,
            ) => {
                for (name, value) in list_proxy_variables(port, &self.places.executable) {
                    set(&name, value.into());
                }
            }
        }
        env
    }
}

impl SandboxLauncher {
    /// Returns the variables that point tools at a mount which is not at its usual path.
    fn find_mount_variables(&self, mount: &Mount) -> Vec<(&'static str, PathBuf)> {
        let can_map = match &self.backend_config {
            BackendConfig::Native => cfg!(target_os = "linux"),
            BackendConfig::Bwrap { .. } | BackendConfig::Container(_) => true,
            BackendConfig::Landlock => false,
            // A VM has neither the packages nor the caches.
            BackendConfig::Sbx(_) => return Vec::new(),
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
pub fn find_setup_failure(program: &str, ending: &Ending, stderr: &str) -> Option<NotStarted> {
    if *ending != (Ending::Exited { code: SETUP_FAILED_CODE.into() }) {
        return None;
    }
    let error = stderr.lines().rev().find_map(|line| line.strip_prefix(SETUP_ERROR_PREFIX))?;
    let (program, error) = (program.to_owned(), error.to_owned());
    Some(if error.contains(RUN_ERROR) {
        NotStarted::NotInSandbox { program, error }
    } else {
        NotStarted::Refused { program, error }
    })
}
