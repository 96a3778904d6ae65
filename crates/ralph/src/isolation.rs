//! The sandbox of a run: the backend that works here, and how agents, gates and git start in it.
//!
//! Not here: the sandbox backends, and the settings for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_agents::{self as agents, Walls};
use ralph_core::glob::Pattern;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::{AgentKind, Recipe};
use ralph_core::sandbox::hosts::pattern_for_url;
use ralph_core::sandbox::model_hosts::model_hosts;
use ralph_core::sandbox::reach::{Misread, Reach};
use ralph_core::sandbox::{Backend, Credentials, GitAccess, NetworkMode, Policy, Wanted};
use ralph_io::agent_state;
use ralph_io::confined::Confined;
use ralph_io::environment::{self, Child, Variables};
use ralph_io::git::{Repository, framework_store};
use ralph_io::process::{Space, Watch};
use ralph_io::sandbox::proxy::{Handover, Proxy, Service};
use ralph_io::sandbox::sbx;
use ralph_io::sandbox::{
    Bounds, Cage, Chosen, Counted, Door, FurnishError, Ground, Handed, Launcher, NoLodging, Places,
    Refusal, Surroundings, Tenant, Wall, choose, look,
};

use crate::complaint::Complaint;
use crate::project::Project;
use crate::remembering::MEMORY_FILE;

/// The paths, environment and signals that a sandbox is built from.
pub(crate) struct Site<'a> {
    pub(crate) project: &'a Path,
    pub(crate) repository: Option<&'a Repository>,
    /// State directory of the project.
    pub(crate) state: &'a Path,
    /// State directory of all projects.
    pub(crate) state_root: PathBuf,
    /// The directory of the run, or another one for handing over sockets.
    pub(crate) run: &'a Path,
    /// ralph's own environment.
    pub(crate) env: &'a [(OsString, OsString)],
    /// ralph's own signals.
    pub(crate) watch: &'a Watch,
}

/// How the child processes of a run are started.
pub(crate) struct Isolation {
    pub(crate) backend: Backend,
    /// Limits of the isolation that the user must know.
    pub(crate) warnings: Vec<String>,
    cage: Option<Cage>,
    names: Vec<String>,
    way_out: Option<WayOut>,
    output: u64,
    space: Space,
}

/// Warning for users with a pre-push hook.
const NO_PUSH_HOOK: &str = "the pre-push hook does not run: `push` runs outside the sandbox, where hooks \
                            are off; with Git LFS put `lfs push origin BRANCH` before `push` in `scm.tasks`";

/// Warning for users of a VM.
const SHARED_WHOLE: &str = "the VM shares the whole project: protected and hidden files are not \
                            protected inside and only checked afterwards, and gates have the agent's network";

/// The proxy, with what must live as long as child processes use it.
struct WayOut {
    proxy: Proxy,
    _handover: Handover,
    _service: Service,
}

impl Isolation {
    /// Sets up the sandbox of a run.
    pub(crate) fn begin(
        site: &Site<'_>,
        recipe: &Recipe,
        chosen: Chosen<Wall>,
    ) -> Result<Self, Complaint> {
        let mut isolation =
            Self::of(site, tightened(recipe), &kinds(recipe), opened(recipe), chosen)?;
        let has_push_hook = || site.repository.is_some_and(Repository::has_push_hook);
        if isolation.cage.is_some() && recipe.landing.pushes() && has_push_hook() {
            isolation.warnings.push(NO_PUSH_HOOK.to_owned());
        }
        if isolation.backend == Backend::Sbx {
            let mut programs = Project::programs_of(recipe);
            programs.extend(site.repository.map(|_| "git"));
            isolation
                .cage
                .as_ref()
                .map_or(Ok(()), |sandbox_launcher| has(sandbox_launcher, &programs, site.watch))?;
        }
        Ok(isolation)
    }

    /// Sets up the sandbox for a policy and agents of these kinds.
    pub(crate) fn of(
        site: &Site<'_>,
        policy: Policy,
        kinds: &[AgentKind],
        opened: Vec<PathBuf>,
        chosen: Chosen<Wall>,
    ) -> Result<Self, Complaint> {
        let wall = match chosen {
            Chosen::Enforced(wall) => wall,
            Chosen::Guard { instead_of } => {
                let mut warning = "nothing but the command guard keeps the agent from the rest of \
                                   this machine, and that can be got around"
                    .to_owned();
                if let Some(failed) = instead_of.first() {
                    warning.push_str(&format!(" ({}: {})", failed.backend, failed.why));
                }
                return Ok(Self::without(Backend::Guard, warning));
            }
            Chosen::Nothing => {
                let warning = "there is no sandbox: agent and gates can do whatever you can";
                return Ok(Self::without(Backend::None, warning.to_owned()));
            }
        };
        let reach = reach(site, &policy, kinds)?;
        let (door, way_out) = match way_out(site, &policy, &reach)? {
            Some((door, way_out)) => (Some(door), Some(way_out)),
            None => (None, None),
        };
        let backend = wall.backend();
        let (names, output) = (policy.env.clone(), policy.limits.output);
        let network = policy.network.mode;
        let places = places(site, opened)?;
        let mut roots = vec![places.project.clone()];
        roots.extend(policy.rw.iter().map(|path| places.named(path)));
        roots.extend(places.outputs.iter().cloned());
        let kept = vec![places.state.clone()];
        let space = Space::new(roots, policy.limits.growth, kept);
        let sandbox_launcher = Cage::new(wall, policy, places, door);
        let spec = sandbox_launcher.cell(&Handed::default()).map_err(|error| complain(&error))?;
        let sandbox_launcher = sandbox_launcher
            .move_in(network, &reach, site.watch)
            .map_err(|error| not_lodged(&error))?;
        let mut warnings = spec.notes;
        for kind in kinds {
            for notice in agent_state::configuration::notices(*kind, site.env) {
                if !warnings.contains(&notice) {
                    warnings.push(notice);
                }
            }
        }
        match backend {
            Backend::Sbx => warnings.push(SHARED_WHOLE.to_owned()),
            Backend::Native
            | Backend::Bwrap
            | Backend::Container
            | Backend::Landlock
            | Backend::Guard
            | Backend::None => {}
        }
        Ok(Self { backend, warnings, cage: Some(sandbox_launcher), names, way_out, output, space })
    }

    /// Removes what a killed run left behind.
    pub(crate) fn sweep(&mut self, watch: &Watch) {
        if let Some(sandbox_launcher) = &self.cage {
            self.warnings.extend(sandbox_launcher.clear().iter().map(ToString::to_string));
            sandbox_launcher.sweep(watch);
        }
    }

    /// Returns how many bytes a child process may print, if that is limited.
    pub(crate) fn output(&self) -> Option<u64> {
        self.cage.as_ref().map(|_| self.output)
    }

    /// Returns how much disk space a child process may use, if that is limited.
    pub(crate) fn space(&self) -> Option<Space> {
        self.cage.as_ref().map(|_| self.space.clone())
    }

    /// Returns the launcher for a kind of process; `None` without a sandbox.
    pub(crate) fn cage(&self, process: Tenant) -> Option<Cage> {
        self.cage.as_ref().map(|sandbox_launcher| sandbox_launcher.with_tenant(process))
    }

    fn without(backend: Backend, warning: String) -> Self {
        Self {
            backend,
            warnings: vec![warning],
            cage: None,
            names: Vec::new(),
            way_out: None,
            output: 0,
            space: Space::new(Vec::new(), 0, Vec::new()),
        }
    }

    /// Returns whether agents run in a sandbox of ralph's.
    pub(crate) fn walls(&self) -> Walls {
        if self.cage.is_some() { Walls::Ours } else { Walls::None }
    }

    /// Returns whether agents can write the repository's history.
    pub(crate) fn exposes_refs(&self, recipe: &Recipe) -> bool {
        match self.backend {
            // The whole work tree is shared with the agent, and so is the history.
            Backend::Sbx | Backend::Guard | Backend::None => true,
            Backend::Native | Backend::Bwrap | Backend::Container | Backend::Landlock => {
                recipe.sandbox.git == GitAccess::Agent
            }
        }
    }

    /// Returns the sandbox for agents.
    pub(crate) fn agents(&self, state: &Path) -> Option<Confined> {
        let sandbox_launcher = self.cage.as_ref()?;
        Some(Confined {
            launcher: Launcher::Caged(sandbox_launcher.with_tenant(Tenant::Agent)),
            names: self.names.clone(),
            state: state.to_owned(),
            proxy: self.way_out.as_ref().map(|way_out| way_out.proxy.clone()),
            output: self.output,
            space: self.space.clone(),
        })
    }

    /// Returns the launcher for gates and the environment they inherit.
    pub(crate) fn gates(
        &self,
        recipe: &Recipe,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        let kind = agents::program_kind(&recipe.agent);
        let child = Child::Gate(kind, recipe.sandbox.gates.credentials);
        let (launcher, env) = self.tenant(Tenant::Gate, child, env);
        (launcher, environment::for_gates(env))
    }

    /// Returns the launcher for git and the environment it inherits; `None` if git starts directly.
    pub(crate) fn git(&self, env: &[(OsString, OsString)]) -> Option<(Launcher, Variables)> {
        self.cage.as_ref()?;
        let child = Child::Gate(AgentKind::Sim, Credentials::Withheld);
        Some(self.tenant(Tenant::Git, child, env))
    }

    fn tenant(
        &self,
        process: Tenant,
        child: Child,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        match &self.cage {
            Some(sandbox_launcher) => (
                Launcher::Caged(sandbox_launcher.with_tenant(process)),
                environment::allowed(env, child, &self.names),
            ),
            None => (Launcher::Direct, env.to_vec()),
        }
    }
}

impl Drop for Isolation {
    /// Removes the sandbox, however the run ended.
    fn drop(&mut self) {
        if let Some(sandbox_launcher) = &self.cage {
            sandbox_launcher.clear();
            // The run's own watch has already received a signal, which would end this at once.
            sandbox_launcher.move_out(&Watch::detached());
        }
    }
}

/// Returns the kinds of agents that a run calls.
fn kinds(recipe: &Recipe) -> Vec<AgentKind> {
    recipe.asked().into_iter().map(agents::program_kind).collect()
}

fn has(sandbox_launcher: &Cage, programs: &[&str], watch: &Watch) -> Result<(), Complaint> {
    let missing = sandbox_launcher.missing(programs, watch);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let place = match sandbox_launcher.wall() {
        Wall::Container(container) => format!("the image `{}`", container.image),
        Wall::Native | Wall::Bwrap { .. } | Wall::Sbx(_) | Wall::Landlock => "the VM".to_owned(),
    };
    let message = format!("{} was not found in {place}", names.join(", "));
    Err(Complaint::input(message).hint(format!("install it in {place}")))
}

/// Returns the policy with the paths that the run itself protects.
fn tightened(recipe: &Recipe) -> Policy {
    let mut policy = recipe.sandbox.clone();
    // A read-only directory cannot have writable exceptions, so one with exceptions is skipped.
    let is_whole = |path: &String| {
        let is_below = |it: &Pattern| {
            it.as_str().trim_start_matches('/').starts_with(path.as_str())
                || !it.as_str().contains('/')
        };
        !recipe.unprotected.iter().any(is_below)
    };
    let locked = recipe.locked.iter().filter_map(plain_path);
    let others = recipe.protect.iter().filter(|it| !recipe.locked.contains(it));
    policy.ro.extend(locked.chain(others.filter_map(plain_path).filter(is_whole)));
    policy
}

/// Returns the existing single files that a run protects.
pub(crate) fn protected_files(recipe: &Recipe, project: &Path) -> Vec<PathBuf> {
    let paths = recipe.protect.iter().filter_map(plain_path);
    let paths = paths.filter(|path| recipe.protects(path)).map(|path| project.join(path));
    paths.filter(|path| path.is_file()).collect()
}

/// Returns the single path or directory that a pattern means. Other patterns cannot be enforced by
/// the sandbox and are checked after each call.
fn plain_path(pattern: &Pattern) -> Option<String> {
    let text = pattern.as_str();
    let text = text.strip_prefix('/').unwrap_or(text);
    let text = text.strip_suffix("/**").or(text.strip_suffix('/')).unwrap_or(text);
    let is_plain = !text.is_empty() && !text.contains(['*', '?', '[', '{', '!', '\\']);
    // A bare name matches in every directory.
    let is_anchored = pattern.as_str().trim_end_matches('/').contains('/');
    (is_plain && is_anchored).then(|| text.to_owned())
}

/// Returns the files of ralph's own that agents write.
fn opened(recipe: &Recipe) -> Vec<PathBuf> {
    let plan = recipe.plan.as_ref().map(|plan| plan.file.clone());
    let memory = recipe.memory.as_ref().map(|_| PathBuf::from(MEMORY_FILE));
    plan.into_iter().chain(recipe.draft.clone()).chain(memory).collect()
}

/// Chooses the backend for a run. Fails if none works here.
pub(crate) fn look_for(site: &Site<'_>, recipe: &Recipe) -> Result<Chosen<Wall>, Complaint> {
    chosen(site, &recipe.sandbox, &kinds(recipe))
}

/// Fails if the image lacks one of these programs.
pub(crate) fn image_has(
    site: &Site<'_>,
    recipe: &Recipe,
    chosen: &Chosen<Wall>,
    programs: &[&str],
) -> Result<(), Complaint> {
    match chosen {
        Chosen::Enforced(wall @ Wall::Container(_)) => {
            let places = places(site, Vec::new())?;
            let sandbox_launcher =
                Cage::new(wall.clone(), without_network(&recipe.sandbox), places, None);
            has(&sandbox_launcher, programs, site.watch)
        }
        Chosen::Enforced(_) | Chosen::Guard { .. } | Chosen::Nothing => Ok(()),
    }
}

fn without_network(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.network.mode = NetworkMode::None;
    policy.gates.network = NetworkMode::None;
    policy
}

/// Returns where the programs of a run are installed.
pub(crate) fn ground(chosen: &Chosen<Wall>) -> Ground {
    match chosen {
        Chosen::Enforced(wall) => wall.ground(),
        Chosen::Guard { .. } | Chosen::Nothing => Ground::Machine,
    }
}

/// Returns whether the programs of a run may be installed elsewhere than on this machine.
pub(crate) fn may_be_elsewhere(policy: &Policy, env: &[(OsString, OsString)]) -> bool {
    match policy.backend {
        Wanted::This(Backend::Container | Backend::Sbx) => true,
        Wanted::This(
            Backend::Native | Backend::Bwrap | Backend::Landlock | Backend::Guard | Backend::None,
        ) => false,
        Wanted::Auto => policy.image.is_some() || sbx::may_be_there(env),
    }
}

/// Returns whether a policy asks for a sandbox.
pub(crate) fn wanted_walls(policy: &Policy) -> Walls {
    match policy.backend {
        Wanted::This(Backend::Guard | Backend::None) => Walls::None,
        Wanted::This(
            Backend::Native
            | Backend::Bwrap
            | Backend::Landlock
            | Backend::Container
            | Backend::Sbx,
        )
        | Wanted::Auto => Walls::Ours,
    }
}

/// Chooses the backend for a policy.
pub(crate) fn chosen(
    site: &Site<'_>,
    policy: &Policy,
    kinds: &[AgentKind],
) -> Result<Chosen<Wall>, Complaint> {
    let around = Surroundings {
        ralph: own_executable()?,
        project: site.project.to_owned(),
        state_root: site.state_root.clone(),
        env: site.env.to_vec(),
        watch: site.watch.clone(),
        image: policy.image.clone(),
        kinds: kinds.to_vec(),
        bounds: bounds(policy),
    };
    choose(policy, |backend| look(backend, &around)).map_err(|refusal| refused(&refusal))
}

/// Returns the resource limits of a whole VM.
pub(crate) fn bounds(policy: &Policy) -> Bounds {
    let limits = &policy.limits;
    Bounds {
        pids: limits.pids,
        counted: Counted::Together,
        memory: limits.memory,
        tmp: limits.tmp,
        file: limits.file,
    }
}

fn refused(refusal: &Refusal) -> Complaint {
    refusal.hints().into_iter().fold(Complaint::input(refusal.to_string()), Complaint::hint)
}

/// Returns the paths that the sandbox mounts or hides.
fn places(site: &Site<'_>, opened: Vec<PathBuf>) -> Result<Places, Complaint> {
    let variable = |name: &str| {
        site.env.iter().find_map(|(known, value)| (known == name).then(|| value.clone()))
    };
    let project = site.project.to_owned();
    Ok(Places {
        work_tree: site.repository.map_or_else(|| project.clone(), |it| it.top().to_owned()),
        project,
        history: site.repository.map(Repository::history_directories).unwrap_or_default(),
        state: site.state.to_owned(),
        run: site.run.to_owned(),
        agent_state: Vec::new(),
        home: variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        path: variable("PATH").unwrap_or_default(),
        variables: site.env.to_vec(),
        outputs: site.repository.map(|it| it.ignored_outputs(site.project)).unwrap_or_default(),
        executable: own_executable()?,
        git_files: site.repository.map_or_else(Vec::new, |repository| {
            let hooks = repository.hooks_directory().into_iter().chain(framework_store(site.env));
            repository.config_files().into_iter().chain(hooks).collect()
        }),
        opened,
    })
}

fn own_executable() -> Result<PathBuf, Complaint> {
    std::env::current_exe().map_err(|error| {
        let message = format!("cannot find ralph's own executable: {error}");
        Complaint::new(ExitStatus::Incomplete, message)
    })
}

/// Returns the error for a sandbox that cannot be built.
pub(crate) fn complain(error: &FurnishError) -> Complaint {
    let complaint = Complaint::of(ExitStatus::BadInput, error);
    match error {
        FurnishError::ProjectIsTooMuch { .. } => {
            complaint.hint("work in a directory of its own; --no-sandbox runs without isolation")
        }
        FurnishError::NoProxy => complaint.hint("--network none does without"),
        FurnishError::Missing { .. } => complaint,
    }
}

/// Returns the error for a VM that cannot be used.
fn not_lodged(error: &NoLodging) -> Complaint {
    match error {
        NoLodging::Furnish(error) => complain(error),
        NoLodging::Vm(_) | NoLodging::Share(_) => Complaint::of(ExitStatus::BadInput, error)
            .hint("`sbx ls` and `sbx policy ls` show what is there; --sandbox=native does without"),
    }
}

/// Returns the hosts that agents of these kinds may reach.
fn reach(site: &Site<'_>, policy: &Policy, kinds: &[AgentKind]) -> Result<Reach, Complaint> {
    let own: Vec<String> = kinds.iter().flat_map(|kind| endpoints(*kind, site.env)).collect();
    let hosts = kinds.iter().flat_map(|kind| model_hosts(*kind).iter().copied());
    let hosts: Vec<&str> = hosts.collect();
    let reach = Reach::read(&policy.network, &hosts).map_err(|misread| misread_hosts(&misread))?;
    Ok(reach.with_user_endpoints(&own))
}

/// Starts the proxy, where the network goes through one.
fn way_out(
    site: &Site<'_>,
    policy: &Policy,
    reach: &Reach,
) -> Result<Option<(Door, WayOut)>, Complaint> {
    let modes = [policy.network.mode, policy.gates.network];
    if !modes.contains(&NetworkMode::Proxy) {
        return Ok(None);
    }
    let proxy = Proxy::new(reach.clone());
    let cannot = |error: std::io::Error| {
        let message = format!("the sandbox's proxy cannot be started: {error}");
        Complaint::new(ExitStatus::Incomplete, message)
    };
    let handover = Handover::open(&proxy, &site.run.join("proxy.sock")).map_err(cannot)?;
    let (service, port) = proxy.listen().map_err(cannot)?;
    let door = Door { handover: handover.path().to_owned(), forwards: proxy.forwards(), port };
    Ok(Some((door, WayOut { proxy, _handover: handover, _service: service })))
}

fn misread_hosts(misread: &[Misread]) -> Complaint {
    let lines: Vec<String> =
        misread.iter().map(|it| format!("`{}`: {}", it.place, it.what)).collect();
    Complaint::input(lines.join("; "))
}

/// Returns the hosts that the user's environment and configuration set in place of the vendor's.
fn endpoints(kind: AgentKind, env: &[(OsString, OsString)]) -> Vec<String> {
    let own = environment::allowed(env, Child::Agent(kind), &[]);
    let common = environment::allowed(env, Child::Agent(AgentKind::Sim), &[]);
    let variables = own.iter().filter(|variable| !common.contains(variable));
    let variables = variables.filter_map(|(_, value)| pattern_for_url(value.to_str()?));
    let configured = agent_state::configuration::addresses(kind, env);
    variables.chain(configured.iter().filter_map(|it| pattern_for_url(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_patterns_for_one_place_become_walls() {
        for (text, expect) in [
            ("/tests/api.rs", Some("tests/api.rs")),
            ("tests/**", Some("tests")),
            ("specs/a/", Some("specs/a")),
            ("Makefile", None),
            ("/Makefile", Some("Makefile")),
            ("**/*.lock", None),
            ("src/{a,b}.rs", None),
        ] {
            let pattern = Pattern::new(text).expect("a pattern");
            assert_eq!(plain_path(&pattern).as_deref(), expect, "{text}");
        }
    }
}
