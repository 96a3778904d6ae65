//! Turns what the user wants, and where things lie, into a cell.
//!
//! Looks at the machine, since what is not there cannot be shown, and since every path must be the
//! real one: a wall around a link is none. Changes nothing. Not here: carrying a cell out.

mod protected;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::sandbox::{Credentials, GitAccess, NetworkMode, Policy, UnixSockets};

use self::protected::{CONFIGURATION, Protected, WhenAbsent};
use super::cage::Handed;
use super::home::{caches, gradle_distributions, linked, outermost, visible};
use super::stores::{GRADLE_PACKAGES, GRADLE_SHOWN, is_harmless};
use super::{AbsentName, Bounds, Cell, Counted, Door, Mount, Network};
use crate::store::layout::{CACHE_DIRECTORY, GIT_SCRATCH, PROJECT_DIRECTORY};

/// Where things lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The directory that agents work in.
    pub project: PathBuf,
    /// The top of the work tree; the project itself where there is no repository.
    pub work_tree: PathBuf,
    /// The directories with the history: that of the work tree, and the one it shares with others.
    /// None where there is no repository.
    pub history: Vec<PathBuf>,
    /// The state of this project; what lies above it is the state of others.
    pub state: PathBuf,
    /// Where git's own scratch files lie while a run goes on, and where plans are left.
    pub run: PathBuf,
    /// The configuration directories of agents that are ralph's copies.
    pub agent_state: Vec<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Where programs are looked for.
    pub path: OsString,
    /// The variables of the user, which say where stores and caches are.
    pub variables: Vec<(OsString, OsString)>,
    /// Directories for build outputs that git ignores, above the project in its work tree.
    pub outputs: Vec<PathBuf>,
    /// ralph itself, which hooks and memory servers in a cell start.
    pub executable: PathBuf,
    /// Configuration files that git reads, wherever they are. git's cell shows them all, the others
    /// those without a login.
    pub git_files: Vec<PathBuf>,
    /// Files in a protected directory that agents write all the same, such as the plan in
    /// `.ralph/`.
    pub opened: Vec<PathBuf>,
}

/// Where programs are found that run in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// On this machine, all of which is visible unless it is hidden.
    Machine,
    /// In an image; of this machine nothing is visible unless it is shown.
    Image,
}

/// What is the same in all cells of a run: where things lie really, and what of the machine around
/// the project is closed.
///
/// It is looked up once. Nobody in a cell can change it: what a tenant may write is looked at for each
/// cell anew.
#[derive(Debug, Clone)]
pub struct Rest {
    places: Places,
    ground: Ground,
    mounts: Vec<Mount>,
}

/// Who is to live in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenant {
    /// An agent.
    Agent,
    /// A gate.
    Gate,
    /// git, as ralph itself calls it.
    Git,
}

/// Why there can be no cell.
#[derive(Debug, thiserror::Error)]
pub enum FurnishError {
    /// Everything would be writable that must not be.
    #[error("the project directory `{}` cannot be isolated: {why}", .path.display())]
    ProjectIsTooMuch {
        /// The project.
        path: PathBuf,
        /// What it holds.
        why: &'static str,
    },
    /// A place that must be there is not.
    #[error("cannot open `{}`", .path.display())]
    Missing {
        /// The place.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// There is no proxy for a network that goes through one.
    #[error("the network of the sandbox goes through a proxy, and there is none")]
    NoProxy,
}

/// What git reads of the user, without secrets.
const GIT_IDENTITY: [&str; 2] = [".gitconfig", ".config/git/config"];

/// What root alone can read, and no agent should.
const ROOTS_SECRETS: [&str; 12] = [
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

/// Returns the cell for a tenant, with what one call hands over by path.
pub fn furnish(
    policy: &Policy,
    rest: &Rest,
    tenant: Tenant,
    door: Option<&Door>,
    handed: &Handed,
) -> Result<Cell, FurnishError> {
    let Rest { places, ground, mounts } = rest;
    let mode = match tenant {
        Tenant::Agent => policy.network.mode,
        Tenant::Gate => policy.gates.network,
        Tenant::Git => NetworkMode::None,
    };
    let network = match (mode, door) {
        (NetworkMode::None, _) => Network::None,
        (NetworkMode::Host, _) => Network::Host,
        (NetworkMode::Proxy, Some(door)) => Network::Proxy(door.clone()),
        (NetworkMode::Proxy, None) => return Err(FurnishError::NoProxy),
    };
    let mut room = Room {
        ground: *ground,
        mounts: mounts.iter().filter_map(|mount| own_cache(mount, places, tenant)).collect(),
        absent: Vec::new(),
        notes: Vec::new(),
        writable: Vec::new(),
    };
    room.open(places, policy, tenant);
    room.protect(places, policy, tenant);
    // Sockets without a path belong to the network, which is the host's here.
    let sockets = match mode {
        NetworkMode::Host => UnixSockets::Deny,
        NetworkMode::None | NetworkMode::Proxy => policy.unix_sockets,
    };
    room.hide(places, policy, sockets);
    room.hand_over(places, policy, tenant, handed);
    Ok(Cell {
        mounts: room.mounts,
        absent: room.absent,
        network,
        unix_sockets: sockets,
        bounds: Bounds {
            pids: policy.limits.pids,
            counted: match tenant {
                Tenant::Agent | Tenant::Gate => Counted::Together,
                // There are many of these, and each is short.
                Tenant::Git => Counted::ByUser,
            },
            memory: policy.limits.memory,
            tmp: policy.limits.tmp,
            file: policy.limits.file,
        },
        notes: room.notes,
    })
}

/// Completes the cache of a list for all tenants with the place of one tenant's. Agents and gates have
/// caches of their own: what an agent could write into a gate's, that gate would run or believe.
fn own_cache(mount: &Mount, places: &Places, tenant: Tenant) -> Option<Mount> {
    match mount {
        Mount::Cache { path, source } => Some(Mount::Cache {
            path: path.clone(),
            source: cache_directory(&places.state, tenant)?.join(source),
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

/// Returns the directory for the caches of a tenant.
pub(super) fn cache_directory(state: &Path, tenant: Tenant) -> Option<PathBuf> {
    let name = match tenant {
        Tenant::Agent => "agent",
        Tenant::Gate => "gate",
        // Its processes are many and short, and cache nothing.
        Tenant::Git => return None,
    };
    Some(state.join(CACHE_DIRECTORY).join(name))
}

impl Rest {
    /// Looks at the machine.
    pub fn of(policy: &Policy, places: &Places, ground: Ground) -> Result<Self, FurnishError> {
        let places = places.resolved()?;
        let (absent, notes, writable) = (Vec::new(), Vec::new(), Vec::new());
        let mut room = Room { ground, mounts: Vec::new(), absent, notes, writable };
        match ground {
            Ground::Machine => room.close_the_machine(&places, policy),
            Ground::Image => room.furnish_the_image(&places, policy),
        }
        Ok(Self { places, ground, mounts: room.mounts })
    }
}

impl Places {
    /// Returns the same places by their real paths, if they can be told apart.
    fn resolved(&self) -> Result<Self, FurnishError> {
        let must = |path: &Path| {
            path.canonicalize()
                .map_err(|source| FurnishError::Missing { path: path.to_owned(), source })
        };
        let project = must(&self.project)?;
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        let too_much = |why| Err(FurnishError::ProjectIsTooMuch { path: project.clone(), why });
        match &home {
            _ if project == Path::new("/") => return too_much("it is the whole machine"),
            Some(home) if *home == project => return too_much("it is your home directory"),
            Some(home) if home.starts_with(&project) => {
                return too_much("your home directory lies in it");
            }
            Some(_) | None => {}
        }
        Ok(Self {
            work_tree: must(&self.work_tree)?,
            history: self.history.iter().map(|path| must(path)).collect::<Result<_, _>>()?,
            state: must(&self.state)?,
            run: must(&self.run)?,
            agent_state: self.agent_state.iter().map(|it| must(it)).collect::<Result<_, _>>()?,
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

    /// Returns the real path of something that the settings name.
    pub fn named(&self, said: &str) -> PathBuf {
        let path = match (said.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) | (None, _) => self.project.join(said),
        };
        path.canonicalize().unwrap_or(path)
    }
}

/// A cell that is being furnished.
struct Room {
    ground: Ground,
    mounts: Vec<Mount>,
    absent: Vec<AbsentName>,
    notes: Vec<String>,
    writable: Vec<PathBuf>,
}

impl Room {
    /// Shows ralph itself, how the user is called in commits, and what the user names of the home.
    /// Toolchains are the image's.
    fn furnish_the_image(&mut self, places: &Places, policy: &Policy) {
        for path in ["/tmp", "/var/tmp", "/run"] {
            self.mounts.push(Mount::Scratch { path: path.into() });
        }
        let mut shown = vec![places.executable.clone()];
        if let Some(home) = &places.home {
            self.mounts.push(Mount::Scratch { path: home.clone() });
            self.mounts.extend(caches(home, &[], &[]));
            let named = policy.home.iter().map(|said| said.strip_prefix("~/").unwrap_or(said));
            let named = GIT_IDENTITY.into_iter().chain(named).map(|name| home.join(name));
            shown.extend(named.filter_map(|path| path.canonicalize().ok()));
        }
        self.show(shown);
    }

    /// Hides home, temporary files and secrets, and shows what is needed of them.
    fn close_the_machine(&mut self, places: &Places, policy: &Policy) {
        for path in ["/tmp", "/var/tmp", "/run", "/var/run"].map(Path::new) {
            // A link leads to one of the others.
            if path.is_dir() && !path.is_symlink() {
                self.mounts.push(Mount::Scratch { path: path.to_owned() });
            }
        }
        if rustix::process::geteuid().is_root() {
            let keys = std::fs::read_dir("/etc/ssh").into_iter().flatten().flatten();
            let keys = keys.map(|entry| entry.path()).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_key"))
            });
            let secrets = ROOTS_SECRETS.iter().map(PathBuf::from).chain(keys);
            for path in secrets.filter(|path| path.exists() && !path.is_symlink()) {
                if places.home.as_ref() != Some(&path) {
                    self.mounts.push(Mount::Hidden { path });
                }
            }
        }
        let mut shown = vec![places.executable.clone()];
        // Programs may be kept in a temporary place, or be found through a link in one.
        let programs = std::env::split_paths(&places.path).filter(|it| it.is_absolute());
        shown.extend(programs.filter(|it| {
            let is_at_home = places.home.as_ref().is_some_and(|home| it.starts_with(home));
            !is_at_home && it.canonicalize().is_ok_and(|real| real == *it)
        }));
        shown.extend(linked(places.home.as_deref(), &places.path));
        // What a tenant may write is opened below; shown from here, it could become a link to
        // somewhere else between two cells.
        let open: Vec<PathBuf> = policy.rw.iter().map(|said| places.named(said)).collect();
        let is_open = |it: &Path| {
            open.iter().chain([&places.project, &places.work_tree]).any(|open| it.starts_with(open))
        };
        shown.retain(|it| !is_open(it));
        if let Some(home) = &places.home {
            self.mounts.push(Mount::Scratch { path: home.clone() });
            let own: Vec<&Path> =
                open.iter().chain([&places.project]).map(PathBuf::as_path).collect();
            self.mounts.extend(caches(home, &places.variables, &own));
            let (tools, secrets) = visible(home, &places.path, &places.variables);
            shown.extend(gradle_distributions(home));
            shown.extend(tools.into_iter().filter(|it| !is_open(it)));
            let added = policy.home.iter().map(|said| {
                let said = said.strip_prefix("~/").unwrap_or(said);
                home.join(said)
            });
            shown.extend(added.filter_map(|path| path.canonicalize().ok()));
            self.show(shown);
            let (source, path) = (home.join(GRADLE_PACKAGES), home.join(GRADLE_SHOWN));
            if source.join("modules-2").is_dir() {
                self.mounts.push(Mount::ShownAs { path, source });
            }
            self.mounts.extend(secrets.into_iter().map(|path| Mount::Hidden { path }));
        } else {
            self.show(shown);
        }
    }

    /// Hides every socket that could still be called by its path: a read-only place does not keep
    /// anybody from that.
    fn hide_sockets(&mut self) {
        let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let paths = table.lines().filter_map(|line| line.split_whitespace().nth(7));
        let mut sockets: Vec<PathBuf> = paths
            .filter(|path| path.starts_with('/'))
            .filter_map(|path| Path::new(path).canonicalize().ok())
            .filter(|path| !path.is_dir() && self.sees(path))
            .collect();
        sockets.sort();
        sockets.dedup();
        self.mounts.extend(sockets.into_iter().map(|path| Mount::Hidden { path }));
    }

    /// Opens what the tenant works on.
    fn open(&mut self, places: &Places, policy: &Policy, tenant: Tenant) {
        let mut writable: Vec<PathBuf> =
            policy.rw.iter().map(|said| places.named(said)).filter(|path| path.exists()).collect();
        let (work, history) = match tenant {
            Tenant::Agent => (&places.project, policy.git),
            Tenant::Gate => (&places.project, GitAccess::Ro),
            Tenant::Git => (&places.work_tree, GitAccess::Agent),
        };
        writable.push(work.clone());
        match tenant {
            Tenant::Agent | Tenant::Gate => {
                // What was replaced by a link since leads elsewhere.
                let is_real = |it: &&PathBuf| it.canonicalize().is_ok_and(|real| real == **it);
                writable.extend(places.outputs.iter().filter(is_real).cloned());
            }
            Tenant::Git => {}
        }
        let mut shown = vec![places.work_tree.clone()];
        let git_files = places.git_files.iter();
        match tenant {
            Tenant::Git => shown.extend(git_files.cloned()),
            // An agent that commits needs the identity in included files, but no logins.
            Tenant::Agent | Tenant::Gate => {
                let is_public = |path: &&PathBuf| {
                    std::fs::read_to_string(path).is_ok_and(|text| is_harmless(&text))
                };
                shown.extend(git_files.filter(is_public).cloned());
            }
        }
        match history {
            GitAccess::Agent => writable.extend(places.history.iter().cloned()),
            GitAccess::Ro | GitAccess::Clone => shown.extend(places.history.iter().cloned()),
        }
        self.show(shown);
        for path in outermost(writable) {
            self.writable.push(path.clone());
            self.mounts.push(Mount::Writable { path });
        }
    }

    /// Makes read-only again what the tenant must not change in what it may.
    fn protect(&mut self, places: &Places, policy: &Policy, tenant: Tenant) {
        let mut protected = Protected::default();
        for said in &policy.ro {
            protected.path(&places.named(said), WhenAbsent::Watched);
        }
        match tenant {
            // Hooks and filters that git runs are not to be trusted with what makes git run them.
            Tenant::Git => protected.levers(places),
            Tenant::Agent | Tenant::Gate => {
                for name in CONFIGURATION {
                    protected.path(&places.project.join(name), WhenAbsent::for_name(name));
                }
                let own = places.project.join(PROJECT_DIRECTORY);
                protected.directory(&own, &places.opened);
                let link = places.work_tree.join(".git");
                match (tenant, policy.git) {
                    (Tenant::Agent, GitAccess::Agent) => protected.levers(places),
                    (Tenant::Agent, GitAccess::Ro | GitAccess::Clone)
                    | (Tenant::Gate | Tenant::Git, _) => {
                        protected.path(&link, WhenAbsent::Watched);
                        for directory in &places.history {
                            protected.path(directory, WhenAbsent::Ignored);
                        }
                        protected.levers(places);
                    }
                }
            }
        }
        self.add(protected);
    }

    /// Adds what is protected, each behind the directories that it lies in, which are pinned.
    fn add(&mut self, protected: Protected) {
        let Protected { there, mut absent, links } = protected;
        let is_open = |path: &Path| self.writable.iter().any(|open| path.starts_with(open));
        let there: Vec<PathBuf> = outermost(there).into_iter().filter(|it| is_open(it)).collect();
        let is_protected = |path: &Path| there.iter().any(|above| path.starts_with(above));
        // Not every backend holds what is read-only in a writable place.
        absent.retain(|name| is_open(&name.path));
        absent.sort();
        absent.dedup();
        let above = there.iter().flat_map(|path| path.ancestors().skip(1));
        let unprotected = absent.iter().filter(|name| !is_protected(&name.path));
        let above = above.chain(unprotected.flat_map(|name| name.above.ancestors()));
        let mut pins: Vec<PathBuf> = above.filter(|it| is_open(it)).map(Path::to_owned).collect();
        pins.retain(|pin| !self.writable.contains(pin));
        // Outer ones first; a path sorts before what lies in it.
        pins.sort();
        pins.dedup();
        self.mounts.extend(pins.into_iter().map(|path| Mount::Pinned { path }));
        self.mounts.extend(there.into_iter().map(|path| Mount::Protected { path }));
        self.absent = absent;
        for link in
            links.into_iter().filter(|link| self.writable.iter().any(|it| link.starts_with(it)))
        {
            self.notes.push(format!(
                "`{}` is a link: what it leads to is protected, the link itself is not",
                link.display()
            ));
        }
    }

    /// Hides ralph's own state and what the user wants hidden.
    fn hide(&mut self, places: &Places, policy: &Policy, sockets: UnixSockets) {
        let state = places.state.parent().unwrap_or(&places.state).to_owned();
        let named = policy.hide.iter().map(|said| places.named(said));
        let hidden: Vec<PathBuf> = named.chain([state]).filter(|path| path.exists()).collect();
        for path in outermost(hidden) {
            if self.sees(&path) {
                self.mounts.push(Mount::Hidden { path });
            }
        }
        match sockets {
            UnixSockets::Deny => {}
            UnixSockets::Private => self.hide_sockets(),
        }
    }

    /// Shows and opens what the tenant was given by path.
    fn hand_over(&mut self, places: &Places, policy: &Policy, tenant: Tenant, handed: &Handed) {
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let mut shown = real(&handed.readable);
        let mut open = real(&handed.writable);
        match tenant {
            Tenant::Agent => {
                // The hooks in an agent look at the run, and note what they told.
                shown.extend(real(&["active.json", "lock"].map(|name| places.state.join(name))));
                open.extend(real(&[places.state.join("hooks")]));
                open.extend(places.agent_state.iter().cloned());
            }
            Tenant::Gate => match policy.gates.credentials {
                Credentials::Given => shown.extend(places.agent_state.iter().cloned()),
                Credentials::Withheld => {}
            },
            // Indexes of its own, which are not the user's.
            Tenant::Git => open.extend(real(&[places.run.join(GIT_SCRATCH)])),
        }
        self.show(shown);
        self.mounts.extend(outermost(open).into_iter().map(|path| Mount::Writable { path }));
    }

    /// Shows places, unless they can be seen anyway.
    fn show(&mut self, paths: Vec<PathBuf>) {
        for path in outermost(paths) {
            if !self.sees(&path) {
                self.mounts.push(Mount::Shown { path });
            }
        }
    }

    /// Returns whether a place can be seen, as far as the cell is furnished.
    fn sees(&self, path: &Path) -> bool {
        let last = self.mounts.iter().rev().find(|mount| path.starts_with(mount.path()));
        match last {
            Some(Mount::Scratch { .. } | Mount::Hidden { .. } | Mount::Cache { .. }) => false,
            Some(
                Mount::Shown { .. }
                | Mount::ShownAs { .. }
                | Mount::Writable { .. }
                | Mount::Pinned { .. }
                | Mount::Protected { .. },
            ) => true,
            None => match self.ground {
                Ground::Machine => true,
                Ground::Image => false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
