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
use ralph_core::child::Ending;
use ralph_core::ids::Role;
use ralph_core::outcome::ExitStatus;
use ralph_core::recipe::AgentKind;
use ralph_core::sandbox::{Backend, Credentials, NetworkMode, Policy, UnixSockets, Wanted};
use ralph_io::environment::{self, Child, Variables};
use ralph_io::process::{Chunk, Heard, Limits, Spawn, Stdin, Watch, supervise};
use ralph_io::sandbox::{Cell, Handed, Launcher, Mount, Network, Tenant, WALL_PREFIX};
use ralph_io::store::Layout;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::CommonArgs;
use crate::cli::sandbox::{
    BackendChoice, CellArgs, ExecArgs, NetworkChoice, SandboxArgs, SandboxCommand, ShowArgs,
    TenantChoice,
};
use crate::complaint::Complaint;
use crate::isolation::{self, Isolation};
use crate::project::{Project, complain_of_layout};
use crate::recipe;
use crate::screen;

/// Shows the sandbox, or runs a command in it and returns its exit code.
pub(crate) fn main(common: &CommonArgs, args: &SandboxArgs) -> Result<ExitCode, Complaint> {
    match &args.command {
        SandboxCommand::Exec(args) => exec(common, args),
        SandboxCommand::Show(args) => show(common, args),
    }
}

fn exec(common: &CommonArgs, args: &ExecArgs) -> Result<ExitCode, Complaint> {
    let sandbox = Ground::open(common, &args.cell)?;
    let (launcher, env) = sandbox.launcher(args.cell.tenant);
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => return Err(Complaint::input("there is no command to run")),
    };
    let spawn = Spawn {
        program: program.clone(),
        args: arguments,
        cwd: sandbox.project.clone(),
        env,
        stdin: input(),
        limits: Limits::default(),
    };
    let spawn = launcher.launch(spawn).map_err(|reason| {
        Complaint::new(ExitStatus::AgentFailed, format!("cannot run it: {reason}"))
    })?;
    let (mut stdout, mut stderr) = (screen::stdout(), screen::stderr());
    let end = supervise(&spawn, &sandbox.watch, &mut |chunk| {
        // A closed pipe is no error.
        let _ = match chunk {
            Chunk::Stdout(bytes) => stdout.write_all(bytes).and_then(|()| stdout.flush()),
            Chunk::Stderr(bytes) => stderr.write_all(bytes),
        };
        Heard::Useful
    });
    for removed in launcher.clear() {
        let _ = writeln!(stderr, "{WALL_PREFIX}{removed}");
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
            Err(Complaint::new(ExitStatus::AgentFailed, format!("`{program}`: {ending}")))
        }
    }
}

/// Returns the stdin of the command: the content of a pipe, nothing from a terminal.
fn input() -> Stdin {
    let mut input = std::io::stdin();
    if input.is_terminal() {
        return Stdin::Null;
    }
    let mut bytes = Vec::new();
    match input.read_to_end(&mut bytes) {
        Ok(1..) => Stdin::Bytes(bytes),
        Ok(0) | Err(_) => Stdin::Null,
    }
}

fn show(common: &CommonArgs, args: &ShowArgs) -> Result<ExitCode, Complaint> {
    let sandbox = Ground::open(common, &args.cell)?;
    let (Launcher::Caged(sandbox_launcher), _) = sandbox.launcher(args.cell.tenant) else {
        return Err(Complaint::input("nothing is isolated: the backend is `none`"));
    };
    let spec =
        sandbox_launcher.cell(&Handed::default()).map_err(|error| isolation::complain(&error))?;
    let backend = sandbox_launcher.wall().backend();
    screen::print_data(&if args.json {
        format!("{:#}\n", facts(backend, &spec))
    } else {
        words(backend, &spec)
    });
    Ok(ExitCode::SUCCESS)
}

/// A sandbox for the project, outside of a run.
pub(crate) struct Ground {
    policy: Policy,
    project: PathBuf,
    env: Vec<(OsString, OsString)>,
    watch: Watch,
    kind: AgentKind,
    isolation: Isolation,
    layout: Layout,
    /// Holds the launch plans; removed at the end.
    _run: TempDir,
}

impl Ground {
    fn open(common: &CommonArgs, args: &CellArgs) -> Result<Self, Complaint> {
        let watch = Watch::install(|_| {}).map_err(|error| {
            Complaint::new(ExitStatus::Incomplete, format!("cannot listen to signals: {error}"))
        })?;
        Self::open_with(common, args, watch)
    }

    /// Opens the sandbox of gates, as the settings say.
    pub(crate) fn for_gates(common: &CommonArgs, watch: Watch) -> Result<Self, Complaint> {
        let args = CellArgs { backend: None, tenant: TenantChoice::Gate, network: None };
        Self::open_with(common, &args, watch)
    }

    fn open_with(common: &CommonArgs, args: &CellArgs, watch: Watch) -> Result<Self, Complaint> {
        let project = Project::open(common)?;
        let loaded = project.settings(None, Vec::new())?;
        let repository = project.repository(&watch)?;
        let layout = project.layout_in(&loaded, repository.as_ref())?;
        layout.prepare_state().map_err(|error| complain_of_layout(&error))?;
        let run = tempfile::Builder::new()
            .prefix("sandbox-")
            .tempdir_in(layout.state())
            .map_err(|error| Complaint::input(format!("cannot write ralph's state: {error}")))?;
        let mut policy = recipe::isolation(&loaded);
        if let Some(network) = args.network {
            let mode = network_mode(network);
            policy.network.mode = mode;
            policy.gates.network = mode;
        }
        if let Some(backend) = args.backend {
            policy.backend = wanted(backend);
        }
        let site = isolation::Site {
            project: &project.directory,
            repository: repository.as_ref(),
            state: layout.state(),
            state_root: project.state_root(&loaded)?,
            run: run.path(),
            env: &project.env,
            watch: &watch,
        };
        let agent = recipe::agent(&loaded, Role::Implement);
        let kind = agent.map_or(AgentKind::Text, |agent| agents::program_kind(&agent));
        let kinds = [kind];
        let chosen = isolation::chosen(&site, &policy, &kinds)?;
        let isolation = Isolation::of(&site, policy.clone(), &kinds, Vec::new(), chosen)?;
        let (env, project) = (project.env.clone(), project.directory.clone());
        Ok(Self { policy, project, env, watch, kind, isolation, layout, _run: run })
    }

    /// Returns the launcher and the environment of gates; `None` without a sandbox.
    pub(crate) fn gates(&self) -> Option<(Launcher, Variables)> {
        self.isolation.cage(Tenant::Gate)?;
        Some(self.launcher(TenantChoice::Gate))
    }

    /// Returns the layout of the project's files and state.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns ralph's own signals.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    fn launcher(&self, process: TenantChoice) -> (Launcher, Variables) {
        let (process, child) = match process {
            TenantChoice::Agent => (Tenant::Agent, Child::Agent(self.kind)),
            TenantChoice::Gate => {
                (Tenant::Gate, Child::Gate(self.kind, self.policy.gates.credentials))
            }
            TenantChoice::Git => (Tenant::Git, Child::Gate(self.kind, Credentials::Withheld)),
        };
        let (launcher, env) = match self.isolation.cage(process) {
            Some(sandbox_launcher) => (
                Launcher::Caged(sandbox_launcher),
                environment::allowed(&self.env, child, &self.policy.env),
            ),
            None => (Launcher::Direct, self.env.clone()),
        };
        match process {
            Tenant::Gate => (launcher, environment::for_gates(env)),
            Tenant::Agent | Tenant::Git => (launcher, env),
        }
    }
}

fn wanted(choice: BackendChoice) -> Wanted {
    match choice {
        BackendChoice::Auto => Wanted::Auto,
        BackendChoice::Native => Wanted::This(Backend::Native),
        BackendChoice::Bwrap => Wanted::This(Backend::Bwrap),
        BackendChoice::Container => Wanted::This(Backend::Container),
        BackendChoice::Sbx => Wanted::This(Backend::Sbx),
        BackendChoice::Landlock => Wanted::This(Backend::Landlock),
        BackendChoice::None => Wanted::This(Backend::None),
    }
}

fn network_mode(choice: NetworkChoice) -> NetworkMode {
    match choice {
        NetworkChoice::None => NetworkMode::None,
        NetworkChoice::Host => NetworkMode::Host,
        NetworkChoice::Proxy => NetworkMode::Proxy,
    }
}

/// The paths of a sandbox, grouped by access.
struct Sorted<'a> {
    writable: Vec<&'a Path>,
    scratch: Vec<&'a Path>,
    protected: Vec<&'a Path>,
    absent: Vec<&'a Path>,
    hidden: Vec<&'a Path>,
    shown: Vec<&'a Path>,
    caches: Vec<&'a Path>,
}

impl<'a> Sorted<'a> {
    fn of(spec: &'a Cell) -> Self {
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

fn words(backend: Backend, spec: &Cell) -> String {
    let mut text = format!("Backend: {backend}\nNetwork: {}\n", network_words(&spec.network));
    let sockets = match (spec.unix_sockets, backend) {
        (UnixSockets::Deny, _) | (_, Backend::Landlock) => "none",
        (UnixSockets::Private, _) => "only between processes inside",
    };
    let _ = writeln!(text, "Unix sockets: {sockets}");
    let sorted = Sorted::of(spec);
    for (heading, paths) in [
        ("Writable", &sorted.writable),
        ("Writable, empty at first and gone afterwards", &sorted.scratch),
        ("Writable, lasting, not yours (`ralph clean` empties them)", &sorted.caches),
        ("Read-only in what is writable", &sorted.protected),
        ("Removed after the call, where created", &sorted.absent),
        ("Hidden", &sorted.hidden),
        ("Visible in what is hidden", &sorted.shown),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "\n{heading}:");
            for path in paths {
                let _ = writeln!(text, "  {}", path.display());
            }
        }
    }
    text.push_str(match backend {
        Backend::Container | Backend::Sbx => "\nNothing else of this machine is there.\n",
        Backend::Native | Backend::Bwrap | Backend::Landlock | Backend::Guard | Backend::None => {
            "\nEverything else is read-only.\n"
        }
    });
    for note in &spec.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    text
}

fn network_words(network: &Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Host => "the host's",
        Network::Proxy(_) => "what the proxy lets through",
    }
}

fn facts(backend: Backend, spec: &Cell) -> Value {
    let sorted = Sorted::of(spec);
    json!({
        "backend": backend,
        "network": network_words(&spec.network),
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
