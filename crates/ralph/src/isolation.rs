//! The sandbox of a run: the backend that works here, and how agents, gates and git start in it.
//!
//! Not here: the sandbox backends, and the settings for them.

mod network;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_agents::{self as agents, OuterSandbox};
use ralph_io::agent_state;
use ralph_io::environment::{self, SandboxChild, Variables};
use ralph_io::git::{GitRepository, find_framework_store};
use ralph_io::process::{DiskLimit, Watch};
use ralph_io::sandbox::proxy::{Handover, Proxy, ProxyService};
use ralph_io::sandbox::{
    BackendConfig, ChosenBackend, DetectionContext, HandedFiles, Launcher, NoBackendError,
    ProcessCounting, ProgramSource, ResourceLimits, SandboxLauncher, SandboxPaths,
    SandboxedProcess, SpecError, VmSetupError, choose_with_reasons, detect_backend, sbx,
};
use ralph_io::sandboxed_call::AgentSandbox;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::glob::Pattern;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::Recipe;
use ralph_model::sandbox::{
    Backend, GateCredentials, GitAccess, NetworkMode, RequestedBackend, SandboxPolicy,
};

use self::network::{build_gate_hosts, build_reachable_hosts, start_proxy, start_proxy_at};
use crate::agent_trial::{self, TrialSite};
use crate::cli_error::CliError;
use crate::memory_setup::MEMORY_FILE;
use crate::project::{Project, find_own_executable};

/// The paths, environment and signals that a sandbox is built from.
pub(crate) struct SandboxContext<'a> {
    pub(crate) project: &'a Path,
    pub(crate) repository: Option<&'a GitRepository>,
    /// Directories of git objects that the repository borrows.
    pub(crate) borrowed: &'a [PathBuf],
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

impl SandboxContext<'_> {
    fn for_trial(&self) -> TrialSite<'_> {
        TrialSite { project: self.project, env: self.env, watch: self.watch }
    }
}

/// How the child processes of a run are started.
pub(crate) struct RunIsolation {
    pub(crate) backend: Backend,
    /// Limits of the isolation that the user must know.
    pub(crate) warnings: Vec<String>,
    launcher: Option<SandboxLauncher>,
    names: Vec<String>,
    network_proxy: Option<NetworkProxy>,
    /// The proxy of gates, if they have hosts of their own.
    gate_proxy: Option<NetworkProxy>,
    output: u64,
    space: DiskLimit,
}

/// Warning for users of Git LFS.
const NO_LFS_HOOK: &str = "the pre-push hook of Git LFS does not run: hooks run in the sandbox, without a \
                           network; put `lfs push origin BRANCH` before `push` in `scm.tasks`";

/// Warning for users of a VM.
const WHOLE_PROJECT_SHARED: &str = "the VM shares the whole project: protected and hidden files are not \
                            protected inside and only checked afterwards, and gates have the agent's network";

/// The proxy, with what must live as long as child processes use it.
struct NetworkProxy {
    proxy: Proxy,
    _handover: Handover,
    _service: ProxyService,
}

impl RunIsolation {
    /// Sets up the sandbox of a run.
    pub(crate) fn for_run(
        site: &SandboxContext<'_>,
        recipe: &Recipe,
        chosen: ChosenBackend<BackendConfig>,
    ) -> Result<Self, CliError> {
        let mut isolation = Self::for_policy(
            site,
            add_protected_paths(recipe),
            &recipe.callable_agents(),
            list_writable_files(recipe),
            chosen,
        )?;
        if let Some(launcher) = &isolation.launcher {
            agent_trial::check_agents_visible(
                &site.for_trial(),
                &recipe.callable_agents(),
                launcher,
            )?;
        }
        let has_hook = || site.repository.is_some_and(GitRepository::has_lfs_push_hook);
        if isolation.launcher.is_some() && recipe.landing.pushes() && has_hook() {
            isolation.warnings.push(NO_LFS_HOOK.to_owned());
        }
        if isolation.backend == Backend::Sbx {
            let mut programs = Project::list_programs_needed_by(recipe);
            programs.extend(site.repository.map(|_| "git"));
            isolation.launcher.as_ref().map_or(Ok(()), |sandbox_launcher| {
                check_programs_exist(sandbox_launcher, &programs, site.watch)
            })?;
        }
        Ok(isolation)
    }

    /// Sets up the sandbox for a policy and these agents.
    pub(crate) fn for_policy(
        site: &SandboxContext<'_>,
        policy: SandboxPolicy,
        agents: &[&AgentChoice],
        opened: Vec<PathBuf>,
        chosen: ChosenBackend<BackendConfig>,
    ) -> Result<Self, CliError> {
        let config = match chosen {
            ChosenBackend::Enforced(config) => config,
            ChosenBackend::Guard { instead_of } => {
                let mut warning =
                    "only the command guard restricts the agent on this machine, and \
                                   an agent can get around it"
                        .to_owned();
                if let Some(failed) = instead_of.first() {
                    warning.push_str(&format!(" ({}: {})", failed.backend, failed.why));
                }
                return Ok(Self::new_unsandboxed(Backend::Guard, warning));
            }
            ChosenBackend::Unsandboxed => {
                let warning = "there is no sandbox: agent and gates can do whatever you can";
                return Ok(Self::new_unsandboxed(Backend::None, warning.to_owned()));
            }
        };
        let kinds: Vec<AgentKind> =
            agents.iter().map(|agent| agents::detect_program_kind(agent)).collect();
        let reach = build_reachable_hosts(site, &policy, &kinds)?;
        let (endpoint, network_proxy) = match start_proxy(site, &policy, &reach)? {
            Some((endpoint, network_proxy)) => (Some(endpoint), Some(network_proxy)),
            None => (None, None),
        };
        let gates = build_gate_hosts(&policy, &reach)?;
        let gates = gates.map(|reach| start_proxy_at(site, "gates.sock", &reach)).transpose()?;
        let (gate_endpoint, gate_proxy) = gates.unzip();
        let backend = config.backend();
        let (names, output) = (policy.env.clone(), policy.limits.output);
        let network = policy.network.mode;
        let places = build_sandbox_paths(site, agents, opened)?;
        let mut roots = vec![places.project.clone()];
        roots.extend(policy.rw.iter().map(|path| places.resolve_setting(path)));
        roots.extend(places.outputs.iter().cloned());
        let kept = vec![places.state.clone()];
        let space = DiskLimit::new(roots, policy.limits.growth, kept);
        let sandbox_launcher =
            SandboxLauncher::new(config, policy, places, endpoint).with_gate_proxy(gate_endpoint);
        let spec = sandbox_launcher
            .build_spec(&HandedFiles::default())
            .map_err(|error| to_spec_error(&error))?;
        let sandbox_launcher = sandbox_launcher
            .prepare_vm(network, &reach, site.watch)
            .map_err(|error| to_vm_error(&error))?;
        let mut warnings = spec.notes;
        for kind in kinds {
            for notice in agent_state::configuration::list_notices(kind, site.env) {
                if !warnings.contains(&notice) {
                    warnings.push(notice);
                }
            }
        }
        if backend == Backend::Sbx {
            warnings.push(WHOLE_PROJECT_SHARED.to_owned());
        }
        Ok(Self {
            backend,
            warnings,
            launcher: Some(sandbox_launcher),
            names,
            network_proxy,
            gate_proxy,
            output,
            space,
        })
    }

    /// Removes what a killed run left behind.
    pub(crate) fn remove_leftovers(&mut self, watch: &Watch) {
        if let Some(sandbox_launcher) = &self.launcher {
            self.warnings.extend(sandbox_launcher.clean_up().iter().map(ToString::to_string));
            sandbox_launcher.remove_stale_containers(watch);
        }
    }

    /// Returns how many bytes a child process may print, if that is limited.
    pub(crate) fn output_limit(&self) -> Option<u64> {
        self.launcher.as_ref().map(|_| self.output)
    }

    /// Returns the proxy, if the network goes through one.
    pub(crate) fn proxy(&self) -> Option<Proxy> {
        self.network_proxy.as_ref().map(|it| it.proxy.clone())
    }

    /// Returns the proxy of gates, if their network goes through one.
    pub(crate) fn gate_proxy(&self) -> Option<Proxy> {
        let own = self.gate_proxy.as_ref().map(|it| it.proxy.clone());
        own.or_else(|| self.proxy())
    }

    /// Returns how much disk space a child process may use, if that is limited.
    pub(crate) fn disk_limit(&self) -> Option<DiskLimit> {
        self.launcher.as_ref().map(|_| self.space.clone())
    }

    /// Returns the launcher for a kind of process; `None` without a sandbox.
    pub(crate) fn build_launcher_for(&self, process: SandboxedProcess) -> Option<SandboxLauncher> {
        self.launcher.as_ref().map(|sandbox_launcher| sandbox_launcher.for_process(process))
    }

    fn new_unsandboxed(backend: Backend, warning: String) -> Self {
        Self {
            backend,
            warnings: vec![warning],
            launcher: None,
            names: Vec::new(),
            network_proxy: None,
            gate_proxy: None,
            output: 0,
            space: DiskLimit::new(Vec::new(), 0, Vec::new()),
        }
    }

    /// Returns whether agents run in a sandbox of ralph's.
    pub(crate) fn sandbox_kind(&self) -> OuterSandbox {
        if self.launcher.is_some() { OuterSandbox::Present } else { OuterSandbox::Absent }
    }

    /// Returns whether agents can write the repository's history.
    pub(crate) fn exposes_refs(&self, recipe: &Recipe) -> bool {
        match self.backend {
            // The whole work tree is shared with the agent, and so is the history. Landlock cannot
            // make a directory of the project read-only.
            Backend::Sbx | Backend::Landlock | Backend::Guard | Backend::None => true,
            Backend::Native | Backend::Bwrap | Backend::Container => {
                recipe.sandbox.git == GitAccess::Agent
            }
        }
    }

    /// Returns the sandbox for agents.
    pub(crate) fn build_agent_sandbox(&self, state: &Path) -> Option<AgentSandbox> {
        let sandbox_launcher = self.launcher.as_ref()?;
        Some(AgentSandbox {
            launcher: Launcher::Sandboxed(sandbox_launcher.for_process(SandboxedProcess::Agent)),
            names: self.names.clone(),
            state: state.to_owned(),
            proxy: self.proxy(),
            output: self.output,
            space: self.space.clone(),
        })
    }

    /// Returns the launcher for gates and the environment they inherit.
    pub(crate) fn build_gate_launcher(
        &self,
        recipe: &Recipe,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        let kind = agents::detect_program_kind(&recipe.agent);
        let child = SandboxChild::Gate(kind, recipe.sandbox.gates.credentials);
        let (launcher, env) = self.build_launcher_and_env(SandboxedProcess::Gate, child, env);
        let env = environment::for_gates(env, launcher.network());
        (launcher, env)
    }

    /// Returns the launcher for git and the environment it inherits; `None` if git starts directly.
    pub(crate) fn build_git_launcher(
        &self,
        env: &[(OsString, OsString)],
    ) -> Option<(Launcher, Variables)> {
        self.launcher.as_ref()?;
        let child = SandboxChild::Gate(AgentKind::Sim, GateCredentials::Withheld);
        Some(self.build_launcher_and_env(SandboxedProcess::Git, child, env))
    }

    fn build_launcher_and_env(
        &self,
        process: SandboxedProcess,
        child: SandboxChild,
        env: &[(OsString, OsString)],
    ) -> (Launcher, Variables) {
        match &self.launcher {
            Some(sandbox_launcher) => (
                Launcher::Sandboxed(sandbox_launcher.for_process(process)),
                environment::filter_inherited(env, child, &self.names),
            ),
            None => (Launcher::Direct, env.to_vec()),
        }
    }
}

impl Drop for RunIsolation {
    /// Removes the sandbox, however the run ended.
    fn drop(&mut self) {
        if let Some(sandbox_launcher) = &self.launcher {
            sandbox_launcher.clean_up();
            // The run's own watch has already received a signal, which would end this at once.
            sandbox_launcher.remove_vm(&Watch::new_detached());
        }
    }
}

/// Returns the kinds of agents that a run calls.
fn list_agent_kinds(recipe: &Recipe) -> Vec<AgentKind> {
    recipe.callable_agents().into_iter().map(agents::detect_program_kind).collect()
}

fn check_programs_exist(
    sandbox_launcher: &SandboxLauncher,
    programs: &[&str],
    watch: &Watch,
) -> Result<(), CliError> {
    let missing = sandbox_launcher.find_missing_programs(programs, watch);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let place = match sandbox_launcher.backend_config() {
        BackendConfig::Container(container) => format!("the image `{}`", container.image),
        BackendConfig::Native
        | BackendConfig::Bwrap { .. }
        | BackendConfig::Sbx(_)
        | BackendConfig::Landlock => "the VM".to_owned(),
    };
    let message = format!("{} was not found in {place}", names.join(", "));
    Err(CliError::for_input(message).with_hint(format!("install it in {place}")))
}

/// Returns the policy with the paths that the run itself protects.
fn add_protected_paths(recipe: &Recipe) -> SandboxPolicy {
    let mut policy = recipe.sandbox.clone();
    // A read-only directory cannot have writable exceptions, so one with exceptions is skipped.
    let is_whole = |path: &String| {
        let is_below = |it: &Pattern| {
            it.as_str().trim_start_matches('/').starts_with(path.as_str())
                || !it.as_str().contains('/')
        };
        !recipe.unprotected.iter().any(is_below)
    };
    let locked = recipe.locked.iter().filter_map(to_plain_path);
    let others = recipe.protect.iter().filter(|it| !recipe.locked.contains(it));
    policy.ro.extend(locked.chain(others.filter_map(to_plain_path).filter(is_whole)));
    policy
}

/// Returns the existing single files that a run protects.
pub(crate) fn find_protected_files(recipe: &Recipe, project: &Path) -> Vec<PathBuf> {
    let paths = recipe.protect.iter().filter_map(to_plain_path);
    let paths = paths.filter(|path| recipe.is_protected(path)).map(|path| project.join(path));
    paths.filter(|path| path.is_file()).collect()
}

/// Drops the protection that nothing enforces: without a repository changes are not noticed, and a
/// sandbox protects single paths only.
pub(crate) fn drop_unenforced_protection(
    recipe: &mut Recipe,
    repository: Option<&GitRepository>,
    backend: Backend,
) {
    if repository.is_some() {
        return;
    }
    match backend {
        Backend::Native | Backend::Bwrap | Backend::Container => {
            recipe.protect.retain(|pattern| to_plain_path(pattern).is_some());
        }
        Backend::Sbx | Backend::Landlock | Backend::Guard | Backend::None => {
            recipe.protect.clear();
            recipe.locked.clear();
            recipe.gate_scripts.clear();
        }
    }
}

/// Returns the single path or directory that a pattern means. Other patterns cannot be enforced by
/// the sandbox and are checked after each call.
fn to_plain_path(pattern: &Pattern) -> Option<String> {
    let text = pattern.as_str();
    let text = text.strip_prefix('/').unwrap_or(text);
    let text = text.strip_suffix("/**").or(text.strip_suffix('/')).unwrap_or(text);
    let is_plain = !text.is_empty() && !text.contains(['*', '?', '[', '{', '!', '\\']);
    // A bare name matches in every directory.
    let is_anchored = pattern.as_str().trim_end_matches('/').contains('/');
    (is_plain && is_anchored).then(|| text.to_owned())
}

/// Returns the files of ralph's own that agents write.
fn list_writable_files(recipe: &Recipe) -> Vec<PathBuf> {
    let plan = recipe.plan.as_ref().map(|plan| plan.file.clone());
    let memory = recipe.memory.as_ref().map(|_| PathBuf::from(MEMORY_FILE));
    plan.into_iter().chain(recipe.draft.clone()).chain(memory).collect()
}

/// Chooses the backend for a run, and notes in the recipe which ones do not work. Fails if none
/// works here.
pub(crate) fn choose_recipe_backend(
    site: &SandboxContext<'_>,
    recipe: &mut Recipe,
) -> Result<ChosenBackend<BackendConfig>, CliError> {
    let (chosen, rejected) = choose_backend_for(site, &recipe.sandbox, &list_agent_kinds(recipe))?;
    // A resumed run keeps what was found out at its start.
    if recipe.sandbox.backend == RequestedBackend::Auto {
        // Most machines do not have it.
        let is_usual = |it: &String| !it.starts_with("sbx: ") || sbx::may_be_installed(site.env);
        recipe.sandbox.rejected = rejected.into_iter().filter(is_usual).collect();
    }
    Ok(chosen)
}

/// Fails if the image lacks one of these programs.
pub(crate) fn check_image_programs(
    site: &SandboxContext<'_>,
    recipe: &Recipe,
    chosen: &ChosenBackend<BackendConfig>,
    programs: &[&str],
) -> Result<(), CliError> {
    match chosen {
        ChosenBackend::Enforced(config @ BackendConfig::Container(_)) => {
            let places = build_sandbox_paths(site, &[], Vec::new())?;
            let sandbox_launcher = SandboxLauncher::new(
                config.clone(),
                without_network(&recipe.sandbox),
                places,
                None,
            );
            check_programs_exist(&sandbox_launcher, programs, site.watch)
        }
        ChosenBackend::Enforced(_) | ChosenBackend::Guard { .. } | ChosenBackend::Unsandboxed => {
            Ok(())
        }
    }
}

fn without_network(policy: &SandboxPolicy) -> SandboxPolicy {
    let mut policy = policy.clone();
    policy.network.mode = NetworkMode::None;
    policy.gates.network = NetworkMode::None;
    policy.gates.allow.clear();
    policy
}

/// Returns where the programs of a run are installed.
pub(crate) fn find_program_location(chosen: &ChosenBackend<BackendConfig>) -> ProgramSource {
    match chosen {
        ChosenBackend::Enforced(config) => config.program_source(),
        ChosenBackend::Guard { .. } | ChosenBackend::Unsandboxed => ProgramSource::Machine,
    }
}

/// Returns whether the programs of a run may be installed elsewhere than on this machine.
pub(crate) fn may_be_elsewhere(policy: &SandboxPolicy, env: &[(OsString, OsString)]) -> bool {
    match policy.backend {
        RequestedBackend::This(Backend::Container | Backend::Sbx) => true,
        RequestedBackend::This(
            Backend::Native | Backend::Bwrap | Backend::Landlock | Backend::Guard | Backend::None,
        ) => false,
        RequestedBackend::Auto => policy.image.is_some() || sbx::may_be_installed(env),
    }
}

/// Returns whether a policy asks for a sandbox.
pub(crate) fn find_wanted_sandbox_kind(policy: &SandboxPolicy) -> OuterSandbox {
    match policy.backend {
        RequestedBackend::This(Backend::Guard | Backend::None) => OuterSandbox::Absent,
        RequestedBackend::This(
            Backend::Native
            | Backend::Bwrap
            | Backend::Landlock
            | Backend::Container
            | Backend::Sbx,
        )
        | RequestedBackend::Auto => OuterSandbox::Present,
    }
}

/// Chooses the backend for a policy. Also returns the ones that were tried before and do not work,
/// each with the reason.
pub(crate) fn choose_backend_for(
    site: &SandboxContext<'_>,
    policy: &SandboxPolicy,
    kinds: &[AgentKind],
) -> Result<(ChosenBackend<BackendConfig>, Vec<String>), CliError> {
    let around = DetectionContext {
        ralph: find_own_executable()?,
        project: site.project.to_owned(),
        state_root: site.state_root.clone(),
        env: site.env.to_vec(),
        watch: site.watch.clone(),
        image: policy.image.clone(),
        kinds: kinds.to_vec(),
        bounds: to_vm_limits(policy),
    };
    choose_with_reasons(policy, |backend| detect_backend(backend, &around))
        .map_err(|refusal| to_refusal_error(&refusal))
}

/// Returns the resource limits of a whole VM.
pub(crate) fn to_vm_limits(policy: &SandboxPolicy) -> ResourceLimits {
    let limits = &policy.limits;
    ResourceLimits {
        pids: limits.pids,
        counted: ProcessCounting::Together,
        memory: limits.memory,
        tmp: limits.tmp,
        file: limits.file,
    }
}

fn to_refusal_error(refusal: &NoBackendError) -> CliError {
    refusal.hints().into_iter().fold(CliError::for_input(refusal.to_string()), CliError::with_hint)
}

/// Returns the paths that the sandbox mounts or hides.
fn build_sandbox_paths(
    site: &SandboxContext<'_>,
    agents: &[&AgentChoice],
    opened: Vec<PathBuf>,
) -> Result<SandboxPaths, CliError> {
    let variable = |name: &str| {
        site.env.iter().find_map(|(known, value)| (known == name).then(|| value.clone()))
    };
    let project = site.project.to_owned();
    Ok(SandboxPaths {
        work_tree: site.repository.map_or_else(|| project.clone(), |it| it.top().to_owned()),
        project,
        history: site.repository.map(GitRepository::history_directories).unwrap_or_default(),
        borrowed: site.borrowed.to_vec(),
        state: site.state.to_owned(),
        run: site.run.to_owned(),
        agent_state: Vec::new(),
        programs: agent_trial::find_agent_programs(&site.for_trial(), agents),
        home: variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        path: variable("PATH").unwrap_or_default(),
        variables: site.env.to_vec(),
        outputs: site
            .repository
            .map(|it| it.find_ignored_outputs(site.project))
            .unwrap_or_default(),
        executable: find_own_executable()?,
        git_files: site.repository.map_or_else(Vec::new, |repository| {
            let hooks =
                repository.hooks_directory().into_iter().chain(find_framework_store(site.env));
            repository.config_files().into_iter().chain(hooks).collect()
        }),
        opened,
    })
}

/// Returns the error for a sandbox that cannot be built.
pub(crate) fn to_spec_error(error: &SpecError) -> CliError {
    let complaint = CliError::from_error(ExitStatus::BadInput, error);
    match error {
        SpecError::ProjectTooBroad { .. } => complaint
            .with_hint("work in a directory of its own; --no-sandbox runs without isolation"),
        SpecError::NoProxy => complaint.with_hint("--network none works without it"),
        SpecError::Missing { .. } => complaint,
    }
}

/// Returns the error for a VM that cannot be used.
fn to_vm_error(error: &VmSetupError) -> CliError {
    match error {
        VmSetupError::Spec(error) => to_spec_error(error),
        VmSetupError::Vm(_) | VmSetupError::Share(_) => CliError::from_error(
            ExitStatus::BadInput,
            error,
        )
        .with_hint(
            "`sbx ls` and `sbx policy ls` show what is there; --sandbox=native works without it",
        ),
    }
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
            assert_eq!(to_plain_path(&pattern).as_deref(), expect, "{text}");
        }
    }
}
