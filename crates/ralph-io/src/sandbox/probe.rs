//! Finds out whether a backend works here, and if not, what would make it work.
//!
//! Always tries the real thing: versions and settings say what should work, but containers,
//! security modules and old kernels can forbid it. Not here: choosing one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_agents as agents;
use ralph_model::agent::AgentOrigin;
use ralph_model::child::Ending;
use ralph_model::sandbox::Backend;

use super::container::{Container, ContainerEngineError};
use super::detect::DetectionContext;
use super::sbx::{SbxTool, SbxUnavailable, Vm};
use super::{BackendConfig, TRY_NAMESPACES_COMMAND};
use crate::environment::Variables;
use crate::process::{
    Captured, ProcessLimits, Spawn, StdinSource, Watch, capture_output, find_program,
};

/// The result of detecting or probing a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult<W = BackendConfig> {
    Works(W),
    Fails {
        why: String,
        /// What the user can do to make it work, if anything.
        remedy: Option<String>,
    },
}

impl<W> ProbeResult<W> {
    fn map<V>(self, change: impl FnOnce(W) -> V) -> ProbeResult<V> {
        match self {
            Self::Works(config) => ProbeResult::Works(change(config)),
            Self::Fails { why, remedy } => ProbeResult::Fails { why, remedy },
        }
    }
}

/// Probes take some milliseconds; 30 s leaves room for an overloaded machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a failing program's stderr is kept.
const KEPT: usize = 4096;

/// Tries a backend. Returns it with the part that may change without notice: an image id, or
/// nothing.
pub fn probe_backend(
    backend: Backend,
    context: &DetectionContext,
) -> ProbeResult<(BackendConfig, String)> {
    let DetectionContext { ralph, project, env, watch, .. } = context;
    let plain = |finding: ProbeResult| finding.map(|config| (config, String::new()));
    match backend {
        Backend::Native => plain(probe_native(ralph, env, watch)),
        Backend::Bwrap => plain(probe_bwrap(ralph, project, env, watch)),
        Backend::Landlock => plain(probe_landlock()),
        Backend::Sbx => plain(probe_sbx(context)),
        Backend::Container => probe_container(context),
        Backend::Guard | Backend::None => {
            plain(fail_probe(format!("`{backend}` enforces nothing"), None))
        }
    }
}

/// Returns the backend without trying it, for backends that only an expensive try can verify. The
/// caller uses it only if the same backend has passed before.
pub(super) fn assume_backend(
    backend: Backend,
    context: &DetectionContext,
) -> Option<BackendConfig> {
    match backend {
        Backend::Native => Some(BackendConfig::Native),
        Backend::Bwrap => {
            let program =
                find_program(&build_spawn("bwrap".into(), Vec::new(), &context.env)).ok()?;
            let real = program.canonicalize().ok()?;
            let config = BackendConfig::Bwrap { program, ralph: context.ralph.clone() };
            (!real.starts_with(&context.project)).then_some(config)
        }
        Backend::Landlock => Some(BackendConfig::Landlock),
        // These depend on another program, which has to be asked.
        Backend::Sbx | Backend::Container | Backend::Guard | Backend::None => None,
    }
}

fn probe_container(context: &DetectionContext) -> ProbeResult<(BackendConfig, String)> {
    let DetectionContext { ralph, project, env, watch, image, .. } = context;
    let Some(image) = image else {
        let remedy = "set `sandbox.image` to an image that has git, a shell and the agent";
        let why = "no image is set".to_owned();
        return ProbeResult::Fails { why, remedy: Some(remedy.to_owned()) };
    };
    if !cfg!(target_os = "linux") {
        let why = "this system cannot share a socket with a container".to_owned();
        let remedy = Some("use Docker Sandboxes: --sandbox=sbx".to_owned());
        return ProbeResult::Fails { why, remedy };
    }
    match Container::find_engine(image, ralph, project, env, watch) {
        Ok((container, id)) => {
            let engine = container.engine.program.display().to_string();
            ProbeResult::Works((
                BackendConfig::Container(Box::new(container)),
                format!("{engine} {id}"),
            ))
        }
        Err(ContainerEngineError { why, remedy, .. }) => ProbeResult::Fails { why, remedy },
    }
}

fn probe_sbx(context: &DetectionContext) -> ProbeResult {
    let DetectionContext { project, env, watch, kinds, bounds, .. } = context;
    // Checked before anything else: most machines do not have it.
    let tool = match SbxTool::find(project, env, watch) {
        Ok(tool) => tool,
        Err(SbxUnavailable { why, remedy }) => return ProbeResult::Fails { why, remedy },
    };
    // The scripted agent is ralph itself, and any template will do.
    let kinds = kinds.iter().filter(|kind| kind.origin() != AgentOrigin::BuiltIn);
    let mut templates: Vec<Option<&str>> =
        kinds.map(|kind| agents::find_adapter(*kind).sbx_template).collect();
    templates.dedup();
    let template = match templates.as_slice() {
        [] => "shell",
        [Some(template)] => template,
        [None] => return fail_probe("sbx has no template with this agent", None),
        [_, _, ..] => {
            let why = "a VM of sbx has one agent, and this run uses several";
            return fail_probe(why, None);
        }
    };
    ProbeResult::Works(BackendConfig::Sbx(Box::new(Vm::new(tool, template, project, *bounds, env))))
}

fn probe_native(ralph: &Path, env: &Variables, watch: &Watch) -> ProbeResult {
    if cfg!(target_os = "macos") {
        return probe_seatbelt(env, watch);
    }
    if !cfg!(target_os = "linux") {
        return fail_probe("namespaces exist only on Linux", None);
    }
    let (code, stderr) =
        run_probe(ralph.to_owned(), vec![TRY_NAMESPACES_COMMAND.into()], env, watch);
    if code == Some(0) {
        return ProbeResult::Works(BackendConfig::Native);
    }
    let why = stderr.lines().last().unwrap_or_default();
    let why = why.strip_prefix(super::SETUP_ERROR_PREFIX).unwrap_or(why);
    fail_probe(format!("cannot create namespaces: {why}"), Some(find_namespace_remedy()))
}

/// Returns how to allow namespaces, judging by the kernel's settings.
fn find_namespace_remedy() -> String {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let remedy = if setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        "AppArmor forbids them: install `bubblewrap`, which has a profile of its own, or set \
         `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if setting("kernel/unprivileged_userns_clone") == Some(0) {
        "set `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if setting("user/max_user_namespaces") == Some(0) {
        "set `sudo sysctl user.max_user_namespaces=10000`"
    } else {
        "in a container, the engine must allow them; otherwise use the `landlock` backend"
    };
    remedy.to_owned()
}

/// Tries Seatbelt on macOS.
fn probe_seatbelt(env: &Variables, watch: &Watch) -> ProbeResult {
    let args = ["-p", "(version 1)(allow default)", "/usr/bin/true"].map(Into::into).to_vec();
    let (code, stderr) = run_probe(super::seatbelt::PROGRAM.into(), args, env, watch);
    if code == Some(0) {
        return ProbeResult::Works(BackendConfig::Native);
    }
    let why = stderr.lines().last().unwrap_or("it does not start").to_owned();
    fail_probe(format!("`{}` does not work: {why}", super::seatbelt::PROGRAM), None)
}

fn probe_bwrap(ralph: &Path, project: &Path, env: &Variables, watch: &Watch) -> ProbeResult {
    let spawn = build_spawn("bwrap".into(), Vec::new(), env);
    let install = Some("install `bubblewrap`, 0.5 or newer".to_owned());
    let Ok(program) = find_program(&spawn) else {
        return fail_probe("`bwrap` is not on the PATH", install);
    };
    let real = program.canonicalize().unwrap_or_else(|_| program.clone());
    if real.starts_with(project) {
        let why =
            format!("`{}` is inside the project, where an agent can change it", real.display());
        return fail_probe(why, install);
    }
    let args = "--unshare-user --unshare-pid --unshare-net --unshare-ipc --as-pid-1 \
                 --die-with-parent --ro-bind / / --dev /dev --proc /proc --perms 0755 --size 4096 \
                 --tmpfs /tmp --cap-drop ALL -- /bin/true";
    let try_once = || {
        let args = args.split_whitespace().map(Into::into).collect();
        run_probe(program.clone(), args, env, watch)
    };
    let (mut code, mut stderr) = try_once();
    // A mount of another program, as of a container that ends, may have vanished just then.
    if code != Some(0) {
        (code, stderr) = try_once();
    }
    if code == Some(0) {
        return ProbeResult::Works(BackendConfig::Bwrap { program, ralph: ralph.to_owned() });
    }
    let why = stderr.lines().last().unwrap_or("it does not start").to_owned();
    fail_probe(format!("bubblewrap cannot set up a sandbox: {why}"), Some(find_namespace_remedy()))
}

fn probe_landlock() -> ProbeResult {
    #[cfg(target_os = "linux")]
    let works = super::stage::is_landlock_supported();
    #[cfg(not(target_os = "linux"))]
    let works = false;
    if works {
        return ProbeResult::Works(BackendConfig::Landlock);
    }
    fail_probe(
        "the kernel has no Landlock that restricts files and the network",
        Some("Linux 6.7 or newer, with `landlock` among its security modules".to_owned()),
    )
}

fn fail_probe(why: impl Into<String>, remedy: Option<String>) -> ProbeResult {
    ProbeResult::Fails { why: why.into(), remedy }
}

fn build_spawn(program: PathBuf, args: Vec<std::ffi::OsString>, env: &Variables) -> Spawn {
    Spawn {
        program: program.into(),
        args,
        cwd: "/".into(),
        env: env.clone(),
        stdin: StdinSource::Null,
        limits: ProcessLimits { hard: Some(PROBE_TIMEOUT), ..ProcessLimits::default() },
    }
}

/// Runs a program and returns its exit code and its stderr.
fn run_probe(
    program: PathBuf,
    args: Vec<std::ffi::OsString>,
    env: &Variables,
    watch: &Watch,
) -> (Option<i32>, String) {
    let captured: Captured = capture_output(&build_spawn(program, args, env), watch, KEPT);
    let code = if let Ending::Exited { code } = captured.end.ending { Some(code) } else { None };
    (code, String::from_utf8_lossy(&captured.stderr).into_owned())
}
