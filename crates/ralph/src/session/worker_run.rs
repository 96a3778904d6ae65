//! What differs in a run that is a worker of another one, and how a run starts its worker host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::slice;

use ralph_core::ports::{GateOrder, Gates as _, Ui};
use ralph_io::gates::{CommandGates, GateSlots};
use ralph_io::process::{ProcessLimits, Spawn, StdinSource};
use ralph_io::store::RunDir;
use ralph_io::workers::{HostOwner, ProgressView, WorkerOutput};
use ralph_model::gate::{Gate, GateKind};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::recipe::{ParallelPolicy, Recipe, Work};
use ralph_model::worktree::TreeId;

use super::{RunSetup, build_child_env};
use crate::cli_error::CliError;
use crate::project::{Project, find_own_executable};
use crate::run_context::{GitSandbox, RunContext};

/// The directory that the workers of a run share, in the directory of the run.
const SHARED_DIRECTORY: &str = "workers";

/// How many characters of a failed setup command are shown.
const SETUP_OUTPUT: usize = 1000;

/// How many cores a gate may keep busy.
const CORES_OF_GATE: usize = 4;

/// A run that is a worker of another one.
#[derive(Debug, Clone)]
pub(crate) struct WorkerRun {
    /// The name of its job.
    pub(crate) run: RunId,
    /// The merged tree of the round before, which becomes uncommitted work.
    pub(crate) start_tree: Option<TreeId>,
    /// The task file of the run, in the clone.
    pub(crate) list: PathBuf,
    /// Directories of git objects that its clone borrows.
    pub(crate) borrowed: Vec<PathBuf>,
    /// The command that sets up its clone, if it is new and the command has to run.
    pub(crate) setup: Option<CloneSetup>,
    /// The limit on gates that all workers of the run share.
    pub(crate) gate_slots: GateSlots,
    pub(crate) output: WorkerOutput,
}

/// A command that sets up a clone. It runs like a gate.
#[derive(Debug, Clone)]
pub(crate) struct CloneSetup {
    pub(crate) command: String,
    /// What it finds in its environment besides that of gates.
    pub(crate) variables: [(OsString, OsString); 2],
}

impl CloneSetup {
    /// Runs the command. Fails with its output if it fails.
    pub(super) fn run(&self, context: &RunContext, setup: &RunSetup) -> Result<(), CliError> {
        let env = build_child_env(&context.env, &setup.run);
        let (launcher, mut env) = setup.isolation.build_gate_launcher(&setup.recipe, &env);
        env.extend(self.variables.iter().cloned());
        let gate = Gate::for_command(GateKind::Custom, &self.command);
        let mut gates = CommandGates::new(
            context.layout.clone(),
            env,
            context.watch.clone(),
            slice::from_ref(&gate),
        )
        .with_masker(setup.masker.clone())
        .with_launcher(launcher)
        .with_output_limit(setup.isolation.output_limit())
        .with_space_limit(setup.isolation.disk_limit())
        .with_proxy(setup.isolation.gate_proxy());
        let order = GateOrder {
            run: &setup.run,
            iteration: IterationNumber(0),
            gate: &gate,
            command: &self.command,
            severity: gate.severity,
            output_chars: SETUP_OUTPUT,
        };
        let result = gates.run_gate(&order, &mut |_| {});
        if result.is_hard_failure() {
            let (command, output) = (&self.command, result.output.trim());
            let message =
                format!("the setup command `{command}` failed (`parallel.setup`): {output}");
            return Err(CliError::for_input(message));
        }
        Ok(())
    }
}

impl WorkerRun {
    /// Returns the view that reports to the run which started the worker.
    pub(super) fn build_view(&self) -> Box<dyn Ui> {
        Box::new(ProgressView::new(self.output.clone()))
    }

    /// Writes the merged tree of the round before into the work tree. Changes count from the
    /// commit below it.
    pub(super) fn restore_start_tree(
        &self,
        context: &RunContext,
        sandboxed: GitSandbox,
        recipe: &mut Recipe,
    ) -> Result<(), CliError> {
        let (Some(tree), Work::Tasks(work)) = (&self.start_tree, &mut recipe.work) else {
            return Ok(());
        };
        let Some(mut git) = context.open_git(&self.run, sandboxed) else { return Ok(()) };
        let onto = git
            .restore_start_tree(&self.run, tree, &self.list)
            .map_err(CliError::from_git_error)?;
        work.restored_onto = Some(Box::new(onto));
        Ok(())
    }
}

/// Returns the limit on gates in a run with workers.
pub(crate) fn choose_gate_slots(policy: &ParallelPolicy, files: &RunDir) -> GateSlots {
    let cores = || std::thread::available_parallelism().map_or(1, |it| it.get() / CORES_OF_GATE);
    let count = policy.gate_slots.or_else(|| u32::try_from(cores()).ok());
    let directory = files.path().join(SHARED_DIRECTORY);
    GateSlots { directory, count: count.unwrap_or(1).max(1) }
}

/// Returns how the worker host of a run is started.
pub(super) fn build_host_spawn(
    project: &Project,
    policy: &ParallelPolicy,
    slots: &GateSlots,
    config: Option<&Path>,
) -> Result<(Spawn, HostOwner), CliError> {
    let local = build_worker_spawn(project, "__workers", slots, config)?;
    let Some(command) = &policy.host else { return Ok((local, HostOwner::Ralph)) };
    let args = vec!["-c".into(), command.into()];
    Ok((Spawn { program: "sh".into(), args, ..local }, HostOwner::User))
}

/// Returns how this program is started as worker host or worker of a run.
pub(crate) fn build_worker_spawn(
    project: &Project,
    command: &str,
    slots: &GateSlots,
    config: Option<&Path>,
) -> Result<Spawn, CliError> {
    let mut args: Vec<OsString> =
        vec!["-C".into(), project.directory.clone().into_os_string(), command.into()];
    args.push(slots.directory.clone().into_os_string());
    args.extend(["--gate-slots".into(), slots.count.to_string().into()]);
    if let Some(config) = project.resolve_config(config) {
        args.extend(["--config".into(), config.into_os_string()]);
    }
    Ok(Spawn {
        program: find_own_executable()?.into_os_string(),
        args,
        cwd: project.directory.clone(),
        env: project.env.clone(),
        stdin: StdinSource::Null,
        limits: ProcessLimits::default(),
    })
}
