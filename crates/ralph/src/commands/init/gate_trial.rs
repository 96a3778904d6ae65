//! Tries gates once before they are written, in the sandbox, as runs will do.
//!
//! Not here: what is done about a gate that cannot run, and how it is recognized that the sandbox
//! made it fail.

use ralph_core::ports::{GateOrder, Gates as _};
use ralph_io::gates::CommandGates;
use ralph_io::process::{StopStage, Watch};
use ralph_model::gate::{EmptyRun, Gate, GateKind, GateResult, GateStatus};
use ralph_model::ids::{IterationNumber, RunId};
use ralph_model::units::Millis;
use ralph_ui::sanitize::{sanitize_line, sanitize_text};
use serde_json::Value;

use super::InitSetup;
use crate::cli::CommonArgs;
use crate::commands::sandbox::ProjectSandbox;
use crate::isolation::find_wanted_sandbox_kind;
use crate::project::{Project, find_plain_program};
use crate::settings::LoadedSettings;
use crate::settings::types::sections::WorkflowSetting;
use crate::{recipe, screen, task_file};

/// Time limit of a gate.
const GATE_TIME_LIMIT: Millis = Millis::from_secs(60);

/// How much of an output is kept besides its log.
const OUTPUT_CHARS: usize = 1_000;

/// Why a gate cannot run as it is. A gate whose checks fail can.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GateProblem {
    pub(super) reason: String,
    /// Remedies other than a setting.
    advice: Option<String>,
    /// The settings with which the sandbox lets it run; a project needs the user's trust for them.
    pub(super) setting: Option<Value>,
}

/// Tries gates.
pub(super) struct GateTrial<'a> {
    project: &'a Project,
    sandbox: Option<ProjectSandbox>,
}

impl<'a> GateTrial<'a> {
    /// Opens the sandbox. Without one, only missing programs are found.
    pub(super) fn new(
        common: &CommonArgs,
        project: &'a Project,
        loaded: &LoadedSettings,
        watch: Option<Watch>,
    ) -> Self {
        let wanted = find_wanted_sandbox_kind(&recipe::build_sandbox_policy(loaded));
        let watch = watch.filter(|_| wanted != ralph_agents::OuterSandbox::Absent);
        let sandbox = watch.and_then(|watch| ProjectSandbox::for_gates(common, watch).ok());
        Self { project, sandbox }
    }

    /// Tries a gate and prints the result. Returns why it cannot run.
    pub(super) fn try_gate(&self, command: &str) -> Option<GateProblem> {
        let missing = find_plain_program(command)
            .filter(|program| self.project.find_program(program).is_err());
        if let Some(program) = missing {
            let reason = format!("`{program}` is not installed");
            return Some(GateProblem { reason, advice: None, setting: None });
        }
        let result = self.run_gate(command)?;
        let shown = sanitize_line(command, 200, "...");
        match (result.status, result.sandbox.clone()) {
            (GateStatus::Passed | GateStatus::Cached, _) => {
                screen::print_data(&format!("passed  {shown}\n"));
                None
            }
            (GateStatus::Failed, Some(sign)) => Some(GateProblem {
                reason: sign.reason,
                advice: sign.advice,
                setting: sign.setting.and_then(|it| serde_json::from_str(&it).ok()),
            }),
            (GateStatus::Failed, None) => {
                let code = result.exit_code();
                let log = result.log.as_ref().map(|log| format!(", see {log}")).unwrap_or_default();
                screen::print_data(&format!("failed  {shown} (exit code {code}{log})\n"));
                None
            }
        }
    }

    fn run_gate(&self, command: &str) -> Option<GateResult> {
        let ground = self.sandbox.as_ref()?;
        let (launcher, env) = ground.gate_launcher()?;
        if ground.watch().stage() != StopStage::Running {
            return None;
        }
        let gate = Gate {
            soft_limit: GATE_TIME_LIMIT,
            hard_limit: GATE_TIME_LIMIT,
            empty: EmptyRun::Allowed,
            ..Gate::for_command(GateKind::Custom, command)
        };
        let (layout, watch) = (ground.layout().clone(), ground.watch().clone());
        let mut port = CommandGates::new(layout, env, watch, std::slice::from_ref(&gate))
            .with_launcher(launcher);
        let order = GateOrder {
            run: &RunId("init".to_owned()),
            iteration: IterationNumber(0),
            gate: &gate,
            command,
            severity: gate.severity,
            output_chars: OUTPUT_CHARS,
        };
        Some(port.run_gate(&order, &mut |_| {}))
    }
}

/// Tries the gates that would be written. Removes those that cannot run from the setup, and adds
/// the settings of the sandbox with which others can.
pub(super) fn try_gates(common: &CommonArgs, setup: &mut InitSetup<'_>, workflow: WorkflowSetting) {
    let args = setup.args;
    if args.dry_run || args.no_try || common.quiet || setup.keeps_settings() {
        return;
    }
    let listed = list_task_commands(setup, workflow);
    let is_listed = !listed.is_empty();
    let found = setup.found.iter().map(|it| it.command.clone()).collect();
    let commands: Vec<String> = if is_listed { listed } else { found };
    if commands.is_empty() {
        return;
    }
    let trial = GateTrial::new(common, setup.project, setup.loaded, Watch::install(|_| {}).ok());
    if trial.sandbox.is_some() {
        screen::print_data("The gates, tried once in the sandbox (--no-try skips this):\n");
    }
    for command in commands {
        let Some(problem) = trial.try_gate(&command) else { continue };
        let is_written = is_listed || problem.setting.is_some();
        screen::print_data(&sanitize_text(&problem.format_lines(&command, is_written)));
        match problem.setting {
            Some(setting) => setup.sandbox_settings.push(setting),
            None if is_listed => {}
            None => {
                setup.found.retain(|it| it.command != command);
                setup.left_out.push(command);
            }
        }
    }
    if trial.sandbox.is_some() {
        screen::print_data("\n");
    }
}

/// Returns the commands of an existing task list, which stays as it is.
fn list_task_commands(setup: &InitSetup<'_>, workflow: WorkflowSetting) -> Vec<String> {
    match workflow {
        WorkflowSetting::Tasks => {
            let list = task_file::read_task_file(setup.project, &setup.loaded.settings, None);
            list.map(|it| it.list().verify_commands.clone()).unwrap_or_default()
        }
        WorkflowSetting::Prompt | WorkflowSetting::Specs => Vec::new(),
    }
}

impl GateProblem {
    /// Describes the problem, and what is done about it.
    fn format_lines(&self, command: &str, is_written: bool) -> String {
        let command = sanitize_line(command, 200, "...");
        let mark = if is_written { "BLOCKED" } else { "SKIPPED" };
        let mut text = format!("{mark} {command}: {}\n", self.reason);
        let setting = self.setting.as_ref().map(|it| {
            format!(
                "written with {it}, for which `ralph trust` asks; or put it into your own settings"
            )
        });
        for line in self.advice.iter().chain(&setting) {
            text.push_str(&format!("        {line}\n"));
        }
        text
    }
}
