//! `ralph sandbox`: shows the sandbox that an agent or a gate of this project would get, or runs a
//! command in it.
//!
//! Not here: how sandboxes are built, and how runs use them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_agents as agents;
use ralph_io::environment::{self, SandboxChild, Variables};
use ralph_io::process::{
    Chunk, OutputActivity, ProcessLimits, Spawn, StdinSource, Watch, supervise,
};
use ralph_io::sandbox::{
    HandedFiles, Launcher, Mount, SETUP_ERROR_PREFIX, SandboxNetwork, SandboxSpec, SandboxedProcess,
};
use ralph_io::store::ProjectLayout;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::child::Ending;
use ralph_model::ids::Role;
use ralph_model::outcome::ExitStatus;
use ralph_model::sandbox::{Backend, GateCredentials, NetworkMode, SandboxPolicy, UnixSockets};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::CommonArgs;
use crate::cli::sandbox::{
    ExecArgs, ProcessChoice, SandboxArgs, SandboxCommand, SandboxTargetArgs, ShowArgs,
};
use crate::cli_error::CliError;
use crate::isolation::{self, RunIsolation};
use crate::project::Project;
use crate::{agent_trial, recipe, screen};

/// Shows the sandbox, or runs a command in it and returns its exit code.
pub(crate) fn main(common: &CommonArgs, args: &SandboxArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        SandboxCommand::Exec(args) => run_in_sandbox(common, args),
        SandboxCommand::Show(args) => show_sandbox(common, args),
    }
}

fn run_in_sandbox(common: &CommonArgs, args: &ExecArgs) -> Result<ExitCode, CliError> {
    let sandbox = ProjectSandbox::open(common, &args.target)?;
    let (launcher, env) = sandbox.build_launcher(args.target.process);
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => return Err(CliError::for_input("there is no command to run")),
    };
    let spawn = Spawn {
        program: program.clone(),
        args: arguments,
        cwd: sandbox.project.clone(),
        env,
        stdin: read_stdin(),
        limits: ProcessLimits::default(),
    };
    let spawn = launcher.wrap_spawn(spawn).map_err(|reason| {
        CliError::new(ExitStatus::AgentFailed, format!("cannot run it: {reason}"))
    })?;
    let (mut stdout, mut stderr) = (screen::open_stdout(), screen::open_stderr());
    let end = supervise(&spawn, &sandbox.watch, &mut |chunk| {
        // A closed pipe is no error.
        let _ = match chunk {
            Chunk::Stdout(bytes) => stdout.write_all(bytes).and_then(|()| stdout.flush()),
            Chunk::Stderr(bytes) => stderr.write_all(bytes),
        };
        OutputActivity::Useful
    });
    for removed in launcher.clean_up() {
        let _ = writeln!(stderr, "{SETUP_ERROR_PREFIX}{removed}");
    }
    match end.ending {
        Ending::Exited { code } => Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))),
        // The convention of shells.
        Ending::Signalled { signal } => {
            Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
        }
        Ending::Interrupted { .. } => Ok(ExitStatus::Interrupted.code().into()),
        ending
        @ (Ending::TimedOut { .. } | Ending::Lingered { .. } | Ending::NotStarted { .. }) => {
            let program = program.to_string_lossy();
            Err(CliError::new(ExitStatus::AgentFailed, format!("`{program}`: {ending}")))
        }
    }
}

/// Returns the stdin of the command: the content of a pipe, nothing from a terminal.
fn read_stdin() -> StdinSource {
    let mut input = std::io::stdin();
    if input.is_terminal() {
        return StdinSource::Null;
    }
    let mut bytes = Vec::new();
    match input.read_to_end(&mut bytes) {
        Ok(1..) => StdinSource::Bytes(bytes),
        Ok(0) | Err(_) => StdinSource::Null,
    }
}

fn show_sandbox(common: &CommonArgs, args: &ShowArgs) -> Result<ExitCode, CliError> {
    let sandbox = ProjectSandbox::open(common, &args.target)?;
    let (Launcher::Sandboxed(sandbox_launcher), _) = sandbox.build_launcher(args.target.process)
    else {
        return Err(CliError::for_input("nothing is isolated: the backend is `none`"));
    };
    let spec = sandbox_launcher
        .build_spec(&HandedFiles::default())
        .map_err(|error| isolation::to_spec_error(&error))?;
    let backend = sandbox_launcher.backend_config().backend();
    screen::print_data(&if args.json {
        format!("{:#}\n", convert_spec_to_json(backend, &spec))
    } else {
        describe_sandbox(backend, &spec)
    });
    Ok(ExitCode::SUCCESS)
}

/// Returns an error with the flags of this command instead of those of a run.
fn with_own_flags(mut error: CliError) -> CliError {
    let rename = |text: &str| {
        if text.contains("--sandbox=guard") {
            return "use --backend none to run the command without a sandbox".to_owned();
        }
        text.replace("--sandbox=", "--backend ").replace("--no-sandbox", "--backend none")
    };
    error.hints = error.hints.iter().map(|hint| rename(hint)).collect();
    error.causes = error.causes.iter().map(|cause| rename(cause)).collect();
    error
}

/// A sandbox for the project, outside of a run.
pub(crate) struct ProjectSandbox {
    policy: SandboxPolicy,
    project: PathBuf,
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    kind: AgentKind,
    isolation: RunIsolation,
    layout: ProjectLayout,
    /// Holds the launch plans; removed at the end.
    _run: TempDir,
}

impl ProjectSandbox {
    fn open(common: &CommonArgs, args: &SandboxTargetArgs) -> Result<Self, CliError> {
        let watch = Watch::install(|_| {}).map_err(|error| {
            CliError::new(ExitStatus::Incomplete, format!("cannot listen to signals: {error}"))
        })?;
        Self::open_with(common, args, None, watch).map_err(with_own_flags)
    }

    /// Opens the sandbox of these agents, without a network.
    pub(crate) fn for_agents(
        common: &CommonArgs,
        agents: Vec<AgentChoice>,
        watch: Watch,
    ) -> Result<Self, CliError> {
        let network = Some(NetworkMode::None);
        let args = SandboxTargetArgs { backend: None, process: ProcessChoice::Agent, network };
        Self::open_with(common, &args, Some(agents), watch)
    }

    /// Opens the sandbox of gates, as the settings say.
    pub(crate) fn for_gates(common: &CommonArgs, watch: Watch) -> Result<Self, CliError> {
        let args = SandboxTargetArgs { backend: None, process: ProcessChoice::Gate, network: None };
        Self::open_with(common, &args, None, watch)
    }

    fn open_with(
        common: &CommonArgs,
        args: &SandboxTargetArgs,
        agents: Option<Vec<AgentChoice>>,
        watch: Watch,
    ) -> Result<Self, CliError> {
        let project = Project::open_nearest(common)?;
        let loaded = project.load_trusted_settings(None, Vec::new())?;
        let repository = project.find_repository(&watch)?;
        let layout = project.find_layout_in(&loaded, repository.as_ref())?;
        layout.prepare_state().map_err(CliError::from_input_error)?;
        let run = tempfile::Builder::new()
            .prefix("sandbox-")
            .tempdir_in(layout.state())
            .map_err(|error| CliError::for_input(format!("cannot write ralph's state: {error}")))?;
        let mut policy = recipe::build_sandbox_policy(&loaded);
        drop(project.add_package_hosts(&mut policy));
        if let Some(network) = args.network {
            policy.network.mode = network;
            policy.gates.network = network;
            if network == NetworkMode::None {
                policy.gates.allow.clear();
            }
        }
        if let Some(backend) = args.backend {
            policy.backend = backend.to_requested();
        }
        let site = isolation::SandboxContext {
            project: &project.directory,
            repository: repository.as_ref(),
            borrowed: &[],
            state: layout.state(),
            state_root: project.find_state_root(&loaded)?,
            run: run.path(),
            env: &project.env,
            watch: &watch,
        };
        let agents = agents.unwrap_or_else(|| {
            recipe::choose_agent(&loaded, Role::Implement).into_iter().collect()
        });
        let kind = agents.first().map_or(AgentKind::Text, agents::detect_program_kind);
        let (chosen, _) = isolation::choose_backend_for(&site, &policy, &[kind])?;
        let agents: Vec<&AgentChoice> = agents.iter().collect();
        let isolation =
            RunIsolation::for_policy(&site, policy.clone(), &agents, Vec::new(), chosen)?;
        let (env, project) = (project.env.clone(), project.directory.clone());
        Ok(Self { policy, project, env, watch, kind, isolation, layout, _run: run })
    }

    /// Starts an agent in the sandbox without calling a model; `None` without a sandbox.
    pub(crate) fn try_agent(&self, agent: &AgentChoice) -> Option<Result<(), CliError>> {
        let launcher = self.isolation.build_launcher_for(SandboxedProcess::Agent)?;
        let site =
            agent_trial::TrialSite { project: &self.project, env: &self.env, watch: &self.watch };
        Some(agent_trial::try_agent(&site, agent, &launcher))
    }

    /// Returns the launcher and the environment of gates; `None` without a sandbox.
    pub(crate) fn gate_launcher(&self) -> Option<(Launcher, Variables)> {
        self.isolation.build_launcher_for(SandboxedProcess::Gate)?;
        Some(self.build_launcher(ProcessChoice::Gate))
    }

    /// Returns the layout of the project's files and state.
    pub(crate) fn layout(&self) -> &ProjectLayout {
        &self.layout
    }

    /// Returns ralph's own signals.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    fn build_launcher(&self, process: ProcessChoice) -> (Launcher, Variables) {
        let (process, child) = match process {
            ProcessChoice::Agent => (SandboxedProcess::Agent, SandboxChild::Agent(self.kind)),
            ProcessChoice::Gate => (
                SandboxedProcess::Gate,
                SandboxChild::Gate(self.kind, self.policy.gates.credentials),
            ),
            ProcessChoice::Git => {
                (SandboxedProcess::Git, SandboxChild::Gate(self.kind, GateCredentials::Withheld))
            }
        };
        let (launcher, env) = match self.isolation.build_launcher_for(process) {
            Some(sandbox_launcher) => (
                Launcher::Sandboxed(sandbox_launcher),
                environment::filter_inherited(&self.env, child, &self.policy.env),
            ),
            None => (Launcher::Direct, self.env.clone()),
        };
        match process {
            SandboxedProcess::Gate => {
                let env = environment::for_gates(env, launcher.network());
                (launcher, env)
            }
            SandboxedProcess::Agent | SandboxedProcess::Git => (launcher, env),
        }
    }
}

/// The paths of a sandbox, grouped by access.
struct SandboxPathGroups<'a> {
    writable: Vec<&'a Path>,
    scratch: Vec<&'a Path>,
    protected: Vec<&'a Path>,
    absent: Vec<&'a Path>,
    hidden: Vec<&'a Path>,
    shown: Vec<&'a Path>,
    caches: Vec<&'a Path>,
}

impl<'a> SandboxPathGroups<'a> {
    fn from_spec(spec: &'a SandboxSpec) -> Self {
        let which = |wanted: fn(&Mount) -> bool| {
            spec.mounts.iter().filter(|mount| wanted(mount)).map(Mount::path).collect()
        };
        Self {
            writable: which(|mount| matches!(mount, Mount::Writable { .. })),
            scratch: which(|mount| matches!(mount, Mount::Scratch { .. })),
            protected: which(|mount| matches!(mount, Mount::Protected { .. })),
            absent: spec.absent.iter().map(|name| name.path.as_path()).collect(),
            hidden: which(|mount| matches!(mount, Mount::Hidden { .. })),
            shown: which(|mount| matches!(mount, Mount::Shown { .. } | Mount::ShownAs { .. })),
            caches: which(|mount| matches!(mount, Mount::Cache { .. })),
        }
    }
}

fn describe_sandbox(backend: Backend, spec: &SandboxSpec) -> String {
    let mut text = format!("Backend: {backend}\nNetwork: {}\n", describe_network(&spec.network));
    let sockets = match (spec.unix_sockets, backend) {
        (UnixSockets::Deny, _) | (_, Backend::Landlock) => "none",
        (UnixSockets::Private, _) => "only between processes inside",
    };
    let _ = writeln!(text, "Unix sockets: {sockets}");
    let sorted = SandboxPathGroups::from_spec(spec);
    for (heading, paths) in [
        ("Writable", &sorted.writable),
        ("Writable, empty at first and removed afterwards", &sorted.scratch),
        ("Writable, kept, separate from yours (`ralph clean` empties them)", &sorted.caches),
        ("Read-only inside writable directories", &sorted.protected),
        ("Removed after the call, where created", &sorted.absent),
        ("Hidden", &sorted.hidden),
        ("Visible inside hidden directories", &sorted.shown),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\n{heading}:");
            for path in paths {
                let _ = writeln!(text, "  {}", path.display());
            }
        }
    }
    text.push_str(match backend {
        Backend::Container | Backend::Sbx => "\nNothing else of this machine is visible.\n",
        Backend::Native | Backend::Bwrap | Backend::Landlock | Backend::Guard | Backend::None => {
            "\nEverything else is read-only.\n"
        }
    });
    for note in &spec.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    text
}

fn describe_network(network: &SandboxNetwork) -> &'static str {
    match network {
        SandboxNetwork::None => "none",
        SandboxNetwork::Host => "the host's",
        SandboxNetwork::Proxy(_) => "what the proxy allows",
    }
}

fn convert_spec_to_json(backend: Backend, spec: &SandboxSpec) -> Value {
    let sorted = SandboxPathGroups::from_spec(spec);
    json!({
        "backend": backend,
        "network": describe_network(&spec.network),
        "unixSockets": spec.unix_sockets,
        "limits": spec.bounds,
        "writable": sorted.writable,
        "scratch": sorted.scratch,
        "caches": sorted.caches,
        "protected": sorted.protected,
        "vacant": sorted.absent,
        "hidden": sorted.hidden,
        "shown": sorted.shown,
        "notes": spec.notes,
    })
}
