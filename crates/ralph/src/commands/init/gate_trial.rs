//! Runs the gates of a fresh project once, in the sandbox, as runs will do.
//!
//! It never fails `init`, which has written everything before. Not here: how it is recognized that
//! the sandbox made a gate fail.

use ralph_core::ports::{GateOrder, Gates as _};
use ralph_io::gates::CommandGates;
use ralph_io::process::{StopStage, Watch};
use ralph_model::gate::{EmptyRun, Gate, GateKind, GateResult, GateStatus};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::units::Millis;
use ralph_ui::sanitize::{sanitize_line, sanitize_text};

use super::InitSetup;
use crate::cli::{CommonArgs, WorkflowChoice};
use crate::cli_error::CliError;
use crate::commands::sandbox::ProjectSandbox;
use crate::isolation::find_wanted_sandbox_kind;
use crate::{recipe, screen, task_file};

/// Time limit of a gate.
const GATE_TIME_LIMIT: Millis = Millis::from_secs(60);

/// How much of an output is kept besides its log.
const OUTPUT_CHARS: usize = 1_000;

/// Runs the gates that were written, and prints the results.
pub(super) fn try_gates(
    common: &CommonArgs,
    setup: &InitSetup<'_>,
    workflow: WorkflowChoice,
    watch: impl FnOnce() -> Option<Watch>,
) {
    let args = setup.args;
    if args.dry_run || args.no_try || common.quiet || setup.keeps_settings() {
        return;
    }
    // The project is set up, so a failure here is no error.
    if let Ok(gates) = read_written_gates(setup, workflow)
        && !gates.is_empty()
        && let Some(watch) = watch()
        && let Ok(ground) = ProjectSandbox::for_gates(common, watch)
    {
        run_gates_in(&ground, &gates);
    }
}

/// Returns the commands of the settings and of the task list; none without a sandbox.
fn read_written_gates(
    setup: &InitSetup<'_>,
    workflow: WorkflowChoice,
) -> Result<Vec<String>, CliError> {
    let loaded = setup.project.load_settings(None, Vec::new())?;
    if find_wanted_sandbox_kind(&recipe::build_sandbox_policy(&loaded))
        == ralph_agents::OuterSandbox::Absent
    {
        return Ok(Vec::new());
    }
    let settings = &loaded.settings;
    let guardrails = settings.guardrails.iter().map(|it| it.command.clone());
    let hard = settings.gates.iter().filter(|gate| gate.is_hard());
    let mut commands: Vec<String> =
        guardrails.chain(hard.filter_map(|gate| gate.command.clone())).collect();
    match workflow {
        WorkflowChoice::Tasks => {
            let list = task_file::read_task_file(setup.project, settings, None)?;
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

fn run_gates_in(ground: &ProjectSandbox, commands: &[String]) {
    let Some((launcher, env)) = ground.gate_launcher() else { return };
    screen::print_data("\nThe gates, tried once in the sandbox (--no-try skips this):\n");
    let gates: Vec<Gate> = commands.iter().map(|command| build_trial_gate(command)).collect();
    let mut port = CommandGates::new(ground.layout().clone(), env, ground.watch().clone(), &gates)
        .with_launcher(launcher);
    let run = RunId("init".to_owned());
    for (gate, command) in gates.iter().zip(commands) {
        if ground.watch().stage() != StopStage::Running {
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
        let result = port.run_gate(&order, &mut |_| {});
        screen::print_data(&sanitize_text(&format_result(&result)));
    }
}

fn build_trial_gate(command: &str) -> Gate {
    let gate = Gate::for_command(GateKind::Custom, command);
    Gate {
        soft_limit: GATE_TIME_LIMIT,
        hard_limit: GATE_TIME_LIMIT,
        empty: EmptyRun::Allowed,
        ..gate
    }
}

/// Returns a line with the result of a gate, and remedies if there are any.
fn format_result(result: &GateResult) -> String {
    let command = sanitize_line(&result.command, 200, "...");
    match (result.status, &result.sandbox) {
        (GateStatus::Passed | GateStatus::Cached, _) => format!("passed  {command}\n"),
        (GateStatus::Failed, Some(sign)) => {
            let cures: Vec<String> =
                sign.list_remedies().map(|it| format!("        {it}\n")).collect();
            format!("FAILED  {command}: {}\n{}", sign.reason, cures.concat())
        }
        (GateStatus::Failed, None) => {
            let log = result.log.as_ref().map(|log| format!(", see {log}")).unwrap_or_default();
            format!("failed  {command} (exit code {}{log})\n", result.exit_code())
        }
    }
}
