//! Builds the sandbox spec from the user's policy and the paths of a run.
//!
//! Reads the file system, because missing paths cannot be mounted and every path must be resolved:
//! a rule for a symbolic link does not protect its target. Changes nothing. Not here: enforcing a
//! spec.

mod hidden;
mod protected;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_model::sandbox::{GateCredentials, GitAccess, NetworkMode, SandboxPolicy, UnixSockets};

use self::protected::{AUTORUN_CONFIGURATION, ProtectedPaths, WhenAbsent};
use super::home::{
    find_caches, find_linked_programs, find_visible, keep_outermost, list_gradle_distributions,
};
use super::home_stores::{
    GRADLE_PACKAGES, GRADLE_SHOWN, JEST_CACHE, build_jest_path, is_free_of_credentials,
};
use super::launcher::HandedFiles;
use super::program_files::{find_shown_part, list_program_files};
use super::spec::find_visibility;
use super::{
    AbsentName, Mount, ProcessCounting, ProxyEndpoint, ResourceLimits, SandboxNetwork, SandboxSpec,
};
use crate::store::layout::{CACHE_DIRECTORY, GIT_SCRATCH, PROJECT_DIRECTORY};

/// The paths that a sandbox is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPaths {
    /// The directory that agents work in.
    pub project: PathBuf,
    /// The top of the work tree; the project itself if there is no repository.
    pub work_tree: PathBuf,
    /// The git directories: that of the work tree, and the common one. Empty without a repository.
    pub history: Vec<PathBuf>,
    /// Directories of git objects that the repository borrows from another one. They come from
    /// ralph, never from the repository's own files, which an agent may have changed.
    pub borrowed: Vec<PathBuf>,
    /// The state of this project; its parent holds the state of other projects.
    pub state: PathBuf,
    /// The directory of the run: git's scratch files and the plan files are here.
    pub run: PathBuf,
    /// The agents' configuration directories that are ralph's copies.
    pub agent_state: Vec<PathBuf>,
    /// The programs of the agents, as they are started.
    pub programs: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The `PATH` of the user.
    pub path: OsString,
    /// The user's environment variables, some of which locate package stores and caches.
    pub variables: Vec<(OsString, OsString)>,
    /// Directories for build outputs that git ignores, above the project in its work tree.
    pub outputs: Vec<PathBuf>,
    /// ralph itself, which hooks and memory servers start inside a sandbox.
    pub executable: PathBuf,
    /// All configuration files that git reads. git's own sandbox shows all of them, other sandboxes
    /// those without a login.
    pub git_files: Vec<PathBuf>,
    /// Files in a protected directory that agents may write nevertheless, such as the plan in
    /// `.ralph/`.
    pub opened: Vec<PathBuf>,
}

/// Where programs that run in a sandbox come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSource {
    /// From this machine, which is visible except for what is hidden.
    Machine,
    /// From an image; nothing of this machine is visible except for what is shown.
    Image,
}

/// The part of the spec that is the same for all sandboxes of a run: resolved paths, and what is
/// hidden of the machine outside the project.
///
/// Computed once. A sandboxed process cannot change it: the paths that it may write are resolved
/// for each start.
#[derive(Debug, Clone)]
pub struct BaseSpec {
    places: SandboxPaths,
    source: ProgramSource,
    mounts: Vec<Mount>,
}

/// The kind of process that a sandbox is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxedProcess {
    Agent,
    Gate,
    /// git, as ralph itself calls it.
    Git,
}

/// Why a spec cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The whole machine or home directory would be writable.
    #[error("the project directory `{}` cannot be isolated: {why}", .path.display())]
    ProjectTooBroad { path: PathBuf, why: &'static str },
    #[error("cannot open `{}`", .path.display())]
    Missing { path: PathBuf, source: std::io::Error },
    /// The network is the proxy, and the launcher got none.
    #[error("the sandbox network requires a proxy, and none is running")]
    NoProxy,
}

/// The user's git configuration, which holds no secrets.
const GIT_IDENTITY: [&str; 2] = [".gitconfig", ".config/git/config"];

/// What only root can read, and no agent should.
const ROOT_ONLY_SECRETS: [&str; 12] = [
    "/root",
    "/home",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/var/spool/cron",
    "/var/lib/docker",
    "/var/log",
];

/// Builds the spec for a process, including the files that one call passes by path.
pub fn build_spec(
    policy: &SandboxPolicy,
    rest: &BaseSpec,
    process: SandboxedProcess,
    proxy: Option<&ProxyEndpoint>,
    handed: &HandedFiles,
) -> Result<SandboxSpec, SpecError> {
    let BaseSpec { places, source: ground, mounts } = rest;
    let mode = match process {
        SandboxedProcess::Agent => policy.network.mode,
        SandboxedProcess::Gate => policy.gates.effective_network(),
        SandboxedProcess::Git => NetworkMode::None,
    };
    let network = match (mode, proxy) {
        (NetworkMode::None, _) => SandboxNetwork::None,
        (NetworkMode::Host, _) => SandboxNetwork::Host,
        (NetworkMode::Proxy, Some(proxy)) => SandboxNetwork::Proxy(proxy.clone()),
        (NetworkMode::Proxy, None) => return Err(SpecError::NoProxy),
    };
    let mounts = mounts.iter().filter_map(|mount| resolve_cache(mount, places, process));
    let mut builder = SpecBuilder::new(*ground, mounts.collect());
    builder.add_writable(places, policy, process);
    builder.add_protected(places, policy, process);
    // Abstract sockets belong to the network namespace, which is the host's here.
    let sockets = match mode {
        NetworkMode::Host => UnixSockets::Deny,
        NetworkMode::None | NetworkMode::Proxy => policy.unix_sockets,
    };
    builder.add_hidden(places, policy, sockets);
    builder.add_handed_files(places, policy, process, handed);
    Ok(SandboxSpec {
        mounts: builder.mounts,
        present: builder.present,
        absent: builder.absent,
        network,
        unix_sockets: sockets,
        bounds: ResourceLimits {
            pids: policy.limits.pids,
            counted: match process {
                SandboxedProcess::Agent | SandboxedProcess::Gate => ProcessCounting::Together,
                // ralph calls git often, and each call is short.
                SandboxedProcess::Git => ProcessCounting::ByUser,
            },
            memory: policy.limits.memory,
            tmp: policy.limits.tmp,
            file: policy.limits.file,
        },
        notes: builder.notes,
    })
}

/// Fills in the host directory of a cache mount. Agents and gates have separate caches: a gate
/// would execute or trust what an agent wrote into its cache.
fn resolve_cache(mount: &Mount, places: &SandboxPaths, process: SandboxedProcess) -> Option<Mount> {
    match mount {
        Mount::Cache { path, source } => Some(Mount::Cache {
            path: path.clone(),
            source: cache_directory(&places.state, process)?.join(source),
        }),
        Mount::Scratch { .. }
        | Mount::Hidden { .. }
        | Mount::Shown { .. }
        | Mount::ShownAs { .. }
        | Mount::Writable { .. }
        | Mount::Pinned { .. }
        | Mount::Protected { .. } => Some(mount.clone()),
    }
}

/// Returns the cache directory of a kind of process.
pub(super) fn cache_directory(state: &Path, process: SandboxedProcess) -> Option<PathBuf> {
    let name = match process {
        SandboxedProcess::Agent => "agent",
        SandboxedProcess::Gate => "gate",
        // ralph's git calls are many and short, and cache nothing.
        SandboxedProcess::Git => return None,
    };
    Some(state.join(CACHE_DIRECTORY).join(name))
}

impl BaseSpec {
    /// Inspects the machine.
    pub fn from_machine(
        policy: &SandboxPolicy,
        places: &SandboxPaths,
        ground: ProgramSource,
    ) -> Result<Self, SpecError> {
        let places = places.resolve()?;
        let mut builder = SpecBuilder::new(ground, Vec::new());
        match ground {
            ProgramSource::Machine => builder.add_machine_base(&places, policy),
            ProgramSource::Image => builder.add_image_base(&places, policy),
        }
        Ok(Self { places, source: ground, mounts: builder.mounts })
    }
}

impl SandboxPaths {
    /// Resolves all paths. Fails if the project contains the home directory or the whole machine.
    fn resolve(&self) -> Result<Self, SpecError> {
        let must = |path: &Path| {
            path.canonicalize()
                .map_err(|source| SpecError::Missing { path: path.to_owned(), source })
        };
        let project = must(&self.project)?;
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        let too_much = |why| Err(SpecError::ProjectTooBroad { path: project.clone(), why });
        match &home {
            _ if project == Path::new("/") => return too_much("it is the root directory"),
            Some(home) if *home == project => return too_much("it is your home directory"),
            Some(home) if home.starts_with(&project) => {
                return too_much("it contains your home directory");
            }
            Some(_) | None => {}
        }
        Ok(Self {
            work_tree: must(&self.work_tree)?,
            history: self.history.iter().map(|path| must(path)).collect::<Result<_, _>>()?,
            borrowed: self.borrowed.iter().map(|path| must(path)).collect::<Result<_, _>>()?,
            state: must(&self.state)?,
            run: must(&self.run)?,
            agent_state: self.agent_state.iter().map(|it| must(it)).collect::<Result<_, _>>()?,
            programs: self.programs.clone(),
            home,
            path: self.path.clone(),
            variables: self.variables.clone(),
            outputs: self.outputs.clone(),
            executable: must(&self.executable)?,
            git_files: self.git_files.iter().filter_map(|it| it.canonicalize().ok()).collect(),
            opened: self.opened.iter().map(|path| project.join(path)).collect(),
            project,
        })
    }

    /// Returns what has to be shown so that the agents start: their installations in the home, and
    /// single files in temporary directories.
    fn find_agent_files(&self) -> Vec<PathBuf> {
        let named = self.programs.iter().flat_map(|it| list_program_files(it, &self.path));
        let files = named.flat_map(|file| [file.canonicalize().ok(), Some(file)]).flatten();
        let parts = files.filter(|file| file.exists()).filter_map(|file| match &self.home {
            Some(home) if file.starts_with(home) => find_shown_part(home, &file),
            Some(_) | None => Some(file),
        });
        parts.collect()
    }

    /// Returns the resolved path for a path in the settings.
    pub fn resolve_setting(&self, setting: &str) -> PathBuf {
        let path = self.locate_setting(setting);
        path.canonicalize().unwrap_or(path)
    }

    /// Returns the absolute path for a path in the settings, with its symbolic links.
    fn locate_setting(&self, setting: &str) -> PathBuf {
        match (setting.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) | (None, _) => self.project.join(setting),
        }
    }
}

/// A spec that is being built.
struct SpecBuilder {
    source: ProgramSource,
    mounts: Vec<Mount>,
    present: Vec<PathBuf>,
    absent: Vec<AbsentName>,
    notes: Vec<String>,
    writable: Vec<PathBuf>,
    /// Hidden directories that the work tree lies in.
    hidden_around: Vec<PathBuf>,
}

impl SpecBuilder {
    fn new(source: ProgramSource, mounts: Vec<Mount>) -> Self {
        Self {
            source,
            mounts,
            present: Vec::new(),
            absent: Vec::new(),
            notes: Vec::new(),
            writable: Vec::new(),
            hidden_around: Vec::new(),
        }
    }

    /// Shows ralph itself, the user's git identity, and the paths of the home that the settings
    /// name. Toolchains come from the image.
    fn add_image_base(&mut self, places: &SandboxPaths, policy: &SandboxPolicy) {
        for path in ["/tmp", "/var/tmp", "/run"] {
            self.mounts.push(Mount::Scratch { path: path.into() });
        }
        self.add_jest_cache(places);
        let mut shown = vec![places.executable.clone()];
        if let Some(home) = &places.home {
            self.mounts.push(Mount::Scratch { path: home.clone() });
            self.mounts.extend(find_caches(home, &[], &[]));
            let named =
                policy.home.iter().map(|setting| setting.strip_prefix("~/").unwrap_or(setting));
            let named = GIT_IDENTITY.into_iter().chain(named).map(|name| home.join(name));
            shown.extend(named.filter_map(|path| path.canonicalize().ok()));
        }
        self.push_shown(shown);
    }

    /// Hides home, temporary files and secrets, and shows the parts of them that are needed.
    fn add_machine_base(&mut self, places: &SandboxPaths, policy: &SandboxPolicy) {
        for path in ["/tmp", "/var/tmp", "/run", "/var/run"].map(Path::new) {
            // A link leads to one of the others.
            if path.is_dir() && !path.is_symlink() {
                self.mounts.push(Mount::Scratch { path: path.to_owned() });
            }
        }
        self.add_jest_cache(places);
        if rustix::process::geteuid().is_root() {
            let keys = std::fs::read_dir("/etc/ssh").into_iter().flatten().flatten();
            let keys = keys.map(|entry| entry.path()).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_key"))
            });
            let secrets = ROOT_ONLY_SECRETS.iter().map(PathBuf::from).chain(keys);
            for path in secrets.filter(|path| path.exists() && !path.is_symlink()) {
                if places.home.as_ref() != Some(&path) {
                    self.mounts.push(Mount::Hidden { path });
                }
            }
        }
        let mut shown = vec![places.executable.clone()];
        // Programs may be in a temporary directory, or be found through a link in one.
        let programs = std::env::split_paths(&places.path).filter(|it| it.is_absolute());
        shown.extend(programs.filter(|it| {
            let is_at_home = places.home.as_ref().is_some_and(|home| it.starts_with(home));
            !is_at_home && it.canonicalize().is_ok_and(|real| real == *it)
        }));
        shown.extend(find_linked_programs(places.home.as_deref(), &places.path));
        shown.extend(places.find_agent_files());
        // Writable paths are added later. If they were shown from here, one could be replaced by a
        // link to another path between two starts.
        let open: Vec<PathBuf> =
            policy.rw.iter().map(|setting| places.resolve_setting(setting)).collect();
        let is_open = |it: &Path| {
            open.iter().chain([&places.project, &places.work_tree]).any(|open| it.starts_with(open))
        };
        shown.retain(|it| !is_open(it));
        if let Some(home) = &places.home {
            self.mounts.push(Mount::Scratch { path: home.clone() });
            let own: Vec<&Path> =
                open.iter().chain([&places.project]).map(PathBuf::as_path).collect();
            self.mounts.extend(find_caches(home, &places.variables, &own));
            let (tools, secrets) = find_visible(home, &places.path, &places.variables);
            shown.extend(list_gradle_distributions(home));
            shown.extend(tools.into_iter().filter(|it| !is_open(it)));
            let added = policy.home.iter().map(|setting| {
                let setting = setting.strip_prefix("~/").unwrap_or(setting);
                home.join(setting)
            });
            shown.extend(added.filter_map(|path| path.canonicalize().ok()));
            self.push_shown(shown);
            let (source, path) = (home.join(GRADLE_PACKAGES), home.join(GRADLE_SHOWN));
            if source.join("modules-2").is_dir() {
                self.mounts.push(Mount::ShownAs { path, source });
            }
            self.mounts.extend(secrets.into_iter().map(|path| Mount::Hidden { path }));
        } else {
            self.push_shown(shown);
        }
    }

    /// Keeps the cache of jest, which is in the temporary directory: without it, each run of the
    /// tests compiles all files again.
    fn add_jest_cache(&mut self, places: &SandboxPaths) {
        let temporary = Path::new("/tmp");
        let has_packages =
            [&places.project, &places.work_tree].iter().any(|it| it.join("package.json").is_file());
        if has_packages && self.mounts.iter().any(|mount| mount.path() == temporary) {
            let path = build_jest_path(temporary, rustix::process::getuid().as_raw());
            self.mounts.push(Mount::Cache { path, source: JEST_CACHE.into() });
        }
    }

    /// Makes writable what the process works on.
    fn add_writable(
        &mut self,
        places: &SandboxPaths,
        policy: &SandboxPolicy,
        process: SandboxedProcess,
    ) {
        let mut writable: Vec<PathBuf> = policy
            .rw
            .iter()
            .map(|setting| places.resolve_setting(setting))
            .filter(|path| path.exists())
            .collect();
        let (work, history) = match process {
            SandboxedProcess::Agent => (&places.project, policy.git),
            SandboxedProcess::Gate => (&places.project, GitAccess::Ro),
            SandboxedProcess::Git => (&places.work_tree, GitAccess::Agent),
        };
        writable.push(work.clone());
        match process {
            SandboxedProcess::Agent | SandboxedProcess::Gate => {
                // A directory that was replaced by a link in the meantime leads elsewhere.
                let is_real = |it: &&PathBuf| it.canonicalize().is_ok_and(|real| real == **it);
                writable.extend(places.outputs.iter().filter(is_real).cloned());
            }
            SandboxedProcess::Git => {}
        }
        let mut shown = vec![places.work_tree.clone()];
        shown.extend(places.borrowed.iter().cloned());
        let git_files = places.git_files.iter();
        match process {
            SandboxedProcess::Git => shown.extend(git_files.cloned()),
            // An agent that commits needs the identity from included files, but no logins.
            SandboxedProcess::Agent | SandboxedProcess::Gate => {
                let is_public = |path: &&PathBuf| {
                    std::fs::read_to_string(path).is_ok_and(|text| is_free_of_credentials(&text))
                };
                shown.extend(git_files.filter(is_public).cloned());
            }
        }
        match history {
            GitAccess::Agent => writable.extend(places.history.iter().cloned()),
            GitAccess::Ro => shown.extend(places.history.iter().cloned()),
        }
        let inside = self.add_hidden_around(places, policy, writable);
        self.push_shown(shown);
        self.push_writable(inside);
    }

    fn push_writable(&mut self, paths: Vec<PathBuf>) {
        for path in keep_outermost(paths) {
            self.writable.push(path.clone());
            self.mounts.push(Mount::Writable { path });
        }
    }

    /// Makes read-only what the process must not change inside its writable paths.
    fn add_protected(
        &mut self,
        places: &SandboxPaths,
        policy: &SandboxPolicy,
        process: SandboxedProcess,
    ) {
        let mut protected = ProtectedPaths::default();
        match process {
            // Hooks and filters that git runs must not change what makes git run them. What agents
            // may not change, ralph restores with git.
            SandboxedProcess::Git => protected.add_git_execution_files(places),
            SandboxedProcess::Agent | SandboxedProcess::Gate => {
                for setting in &policy.ro {
                    protected.add_setting(places, setting);
                }
                for name in AUTORUN_CONFIGURATION {
                    protected.add_path(&places.project.join(name), WhenAbsent::for_name(name));
                }
                let own = places.project.join(PROJECT_DIRECTORY);
                protected.add_directory(&own, &places.opened);
                let link = places.work_tree.join(".git");
                match (process, policy.git) {
                    (SandboxedProcess::Agent, GitAccess::Agent) => {
                        protected.add_git_execution_files(places);
                    }
                    (SandboxedProcess::Agent, GitAccess::Ro)
                    | (SandboxedProcess::Gate | SandboxedProcess::Git, _) => {
                        protected.add_path(&link, WhenAbsent::Watched);
                        for directory in &places.history {
                            protected.add_path(directory, WhenAbsent::Ignored);
                        }
                        protected.add_git_execution_files(places);
                    }
                }
            }
        }
        self.push_protected(protected);
    }

    /// Adds the protected paths, and pins the directories that contain them.
    fn push_protected(&mut self, protected: ProtectedPaths) {
        let ProtectedPaths { present, existing: there, mut absent, links } = protected;
        let is_open = |path: &Path| self.writable.iter().any(|open| path.starts_with(open));
        let there: Vec<PathBuf> =
            keep_outermost(there).into_iter().filter(|it| is_open(it)).collect();
        let is_protected = |path: &Path| there.iter().any(|above| path.starts_with(above));
        // Not every backend can enforce a read-only path inside a writable one.
        absent.retain(|name| is_open(&name.path));
        absent.sort();
        absent.dedup();
        let above = there.iter().flat_map(|path| path.ancestors().skip(1));
        let unprotected = absent.iter().filter(|name| !is_protected(&name.path));
        let above = above.chain(unprotected.flat_map(|name| name.above.ancestors()));
        let mut pins: Vec<PathBuf> = above.filter(|it| is_open(it)).map(Path::to_owned).collect();
        pins.retain(|pin| !self.writable.contains(pin));
        // A pin would show again what is hidden in it.
        let shows = |pin: &Path| self.hidden_around.iter().any(|hidden| hidden.starts_with(pin));
        pins.retain(|pin| self.is_visible(pin) && !shows(pin));
        // Outer ones first; a path sorts before the paths inside it.
        pins.sort();
        pins.dedup();
        self.mounts.extend(pins.into_iter().map(|path| Mount::Pinned { path }));
        self.mounts.extend(there.into_iter().map(|path| Mount::Protected { path }));
        (self.present, self.absent) = (present, absent);
        for link in
            links.into_iter().filter(|link| self.writable.iter().any(|it| link.starts_with(it)))
        {
            self.notes.push(format!(
                "`{}` is a symbolic link: its target is protected, the link itself is not",
                link.display()
            ));
        }
    }

    /// Shows or makes writable the files that the call passes by path.
    fn add_handed_files(
        &mut self,
        places: &SandboxPaths,
        policy: &SandboxPolicy,
        process: SandboxedProcess,
        handed: &HandedFiles,
    ) {
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let mut shown = real(&handed.readable);
        let mut open = real(&handed.writable);
        match process {
            SandboxedProcess::Agent => {
                // Hooks in an agent read the state of the run, and record which messages they
                // delivered.
                shown.extend(real(&["active.json", "lock"].map(|name| places.state.join(name))));
                open.extend(real(&[places.state.join("hooks")]));
                open.extend(places.agent_state.iter().cloned());
            }
            SandboxedProcess::Gate => match policy.gates.credentials {
                GateCredentials::Given => shown.extend(places.agent_state.iter().cloned()),
                GateCredentials::Withheld => {}
            },
            // git's scratch index files, which are not the user's.
            SandboxedProcess::Git => open.extend(real(&[places.run.join(GIT_SCRATCH)])),
        }
        self.push_shown(shown);
        self.mounts.extend(keep_outermost(open).into_iter().map(|path| Mount::Writable { path }));
    }

    /// Shows paths that are not visible already.
    fn push_shown(&mut self, paths: Vec<PathBuf>) {
        for path in keep_outermost(paths) {
            if !self.is_visible(&path) {
                self.mounts.push(Mount::Shown { path });
            }
        }
    }

    /// Returns whether a path is visible with the mounts added so far.
    fn is_visible(&self, path: &Path) -> bool {
        let is_default = self.source == ProgramSource::Machine;
        find_visibility(&self.mounts, path).unwrap_or(is_default)
    }
}

#[cfg(test)]
mod tests;
