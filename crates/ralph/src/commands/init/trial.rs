//! Runs the gates of a fresh project once, in the sandbox, as runs will do.
//!
//! It never fails `init`, which has written everything before. Not here: how it is recognized that
//! the sandbox made a gate fail.

use ralph_core::gate::{EmptyRun, Gate, GateKind, GateResult, GateStatus};
use ralph_core::ids::{IterationNumber, RunId};
use ralph_core::ports::{GateOrder, Gates as _};
use ralph_core::units::Millis;
use ralph_io::gates::CommandGates;
use ralph_io::process::{Stage, Watch};
use ralph_ui::safe::{harmless, one_line};

use super::Setup;
use crate::cli::{CommonArgs, WorkflowChoice};
use crate::commands::sandbox::Ground;
use crate::complaint::Complaint;
use crate::isolation::wanted_walls;
use crate::recipe;
use crate::screen;
use crate::task_file;

/// Time limit of a gate.
const LONGEST: Millis = Millis::from_secs(60);

/// How much of an output is kept besides its log.
const OUTPUT_CHARS: usize = 1_000;

/// Runs the gates that were written, and prints the results.
pub(super) fn try_gates(
    common: &CommonArgs,
    setup: &Setup<'_>,
    workflow: WorkflowChoice,
    watch: impl FnOnce() -> Option<Watch>,
) {
    let args = setup.args;
    if args.dry_run || args.no_try || common.quiet || setup.settings_stay() {
        return;
    }
    // The project is set up, so a failure here is no error.
    if let Ok(gates) = written_gates(setup, workflow)
        && !gates.is_empty()
        && let Some(watch) = watch()
        && let Ok(ground) = Ground::for_gates(common, watch)
    {
        try_in(&ground, &gates);
    }
}

/// Returns the commands of the settings and of the task list; none without a sandbox.
fn written_gates(setup: &Setup<'_>, workflow: WorkflowChoice) -> Result<Vec<String>, Complaint> {
    let loaded = setup.project.settings_as_written(None, Vec::new())?;
    if wanted_walls(&recipe::isolation(&loaded)) == ralph_agents::Walls::None {
        return Ok(Vec::new());
    }
    let settings = &loaded.settings;
    let guardrails = settings.guardrails.iter().map(|it| it.command.clone());
    let hard = settings.gates.iter().filter(|gate| gate.is_hard());
    let mut commands: Vec<String> =
        guardrails.chain(hard.filter_map(|gate| gate.command.clone())).collect();
    match workflow {
        WorkflowChoice::Tasks => {
            let list = task_file::open(setup.project, settings, None)?;
            commands.extend(list.list().verify_commands.clone());
        }
        WorkflowChoice::Prompt | WorkflowChoice::Specs => {}
    }
    let mut unique: Vec<String> = Vec::new();
    for command in commands {
        if !unique.contains(&command) {
            unique.push(command);
        }
    }
    Ok(unique)
}

fn try_in(ground: &Ground, commands: &[String]) {
    let Some((launcher, env)) = ground.gates() else { return };
    screen::print_data("\nThe gates, tried once in the sandbox (--no-try skips this):\n");
    let gates: Vec<Gate> = commands.iter().map(|command| trial_gate(command)).collect();
    let mut port = CommandGates::new(ground.layout().clone(), env, ground.watch().clone(), &gates)
        .launched_by(launcher);
    let run = RunId("init".to_owned());
    for (gate, command) in gates.iter().zip(commands) {
        if ground.watch().stage() != Stage::Running {
            return;
        }
        let order = GateOrder {
            run: &run,
            iteration: IterationNumber(0),
            gate,
            command,
            severity: gate.severity,
            output_chars: OUTPUT_CHARS,
        };
        let result = port.check(&order, &mut |_| {});
        screen::print_data(&harmless(&describe(&result)));
    }
}

fn trial_gate(command: &str) -> Gate {
    let gate = Gate::command(GateKind::Custom, command);
    Gate { soft_limit: LONGEST, hard_limit: LONGEST, empty: EmptyRun::Allowed, ..gate }
}

/// Returns a line with the result of a gate, and remedies if there are any.
fn describe(result: &GateResult) -> String {
    let command = one_line(&result.command, 200, "...");
    match (result.status, &result.sandbox) {
        (GateStatus::Passed | GateStatus::Cached, _) => format!("passed  {command}\n"),
        (GateStatus::Failed, Some(sign)) => {
            let cures: Vec<String> = sign.cures().map(|it| format!("        {it}\n")).collect();
            format!("FAILED  {command}: {}\n{}", sign.reason, cures.concat())
        }
        (GateStatus::Failed, None) => {
            let log = result.log.as_ref().map(|log| format!(", see {log}")).unwrap_or_default();
            format!("failed  {command} (exit code {}{log})\n", result.exit_code())
        }
    }
}
