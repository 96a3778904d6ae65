//! `ralph status`: shows the status of the last run of this directory, and of the agent's plan.

use std::time::Duration;
use std::{io, thread};

use ralph_core::reporting::current_action::CurrentAction;
use ralph_core::reporting::parallel_status::ParallelStatus;
use ralph_core::reporting::report::{Report, Summary};
use ralph_core::run_loop::control;
use ralph_io::bounded_read::read_beginning;
use ralph_io::clock;
use ralph_io::git::GitRepository;
use ralph_io::process::{Watch, is_stopped};
use ralph_io::store::lock::LockHolder;
use ralph_io::store::{RunDir, RunLock, action_file, runs};
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::Recipe;
use ralph_model::run::{RunState, Totals};
use ralph_ui::live_region::LiveRegion;
use ralph_ui::status::{self, PlanFileState, RunOutlook, StatusCommit};
use ralph_ui::style::Style;
use ralph_ui::time::WallClock;
use serde_json::{Value, json};

use super::control::FollowedRun;
use super::tasks::proposals::{count_open_proposals, format_reminder};
use crate::cli::{CommonArgs, StatusArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::recipe::PLAN_FILE;
use crate::screen::{self, OutputStyle};
use crate::settings::Settings;
use crate::settings::types::sections::WorkflowSetting;

/// Larger plans are not read to the end.
const MAX_PLAN_BYTES: u64 = 4 * 1024 * 1024;

/// How many of the last commits are shown.
const COMMITS: u32 = 5;

/// How often a watched status is redrawn.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the status of the last run.
pub(crate) fn main(common: &CommonArgs, args: &StatusArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let loaded = project.load_settings(None, Vec::new())?;
    let repository = project.find_repository(&Watch::new_detached())?;
    let layout = project.find_layout_in(&loaded, repository.as_ref())?;
    let newest = runs::find_last_run(layout.state()).map(|run| run.id);
    let mut last = match runs::find_run_to_show(layout.state()) {
        Some(run) => Some((layout.run_dir(&run.id), FollowedRun::open(&layout.run_dir(&run.id))?)),
        None => None,
    };
    let screen = OutputStyle::for_stdout(common, &loaded.settings.ui);
    let mut canvas = LiveRegion::default();
    loop {
        // Checked before the journal: events written in between are seen in the next round.
        let holder = RunLock::find_holder(layout.state());
        let holder = holder.as_ref();
        if let Some((_, followed)) = &mut last {
            followed.read_new_events()?;
        }
        let seen = match &last {
            Some((files, followed)) => RunStatusView::from_report(&followed.report, files, holder),
            None => None,
        };
        let recipe = seen.as_ref().map(|seen| &seen.state.recipe);
        let plan_status =
            PlanStatusView::for_project(&project, &loaded.settings, recipe, repository.as_ref());
        let text = if args.json {
            let mut facts = match &seen {
                Some(seen) => seen.to_json(holder),
                None => json!({ "run": null }),
            };
            let (plan, commits) = plan_status.map_or_else(Default::default, |it| it.to_json());
            facts["plan"] = plan;
            facts["lastCommits"] = commits;
            facts["proposals"] = json!(count_open_proposals(&project, &loaded, &layout));
            if args.watch { format!("{facts}\n") } else { format!("{facts:#}\n") }
        } else {
            let mut text = match &seen {
                Some(seen) => seen.describe(holder, &screen.style),
                None => "No run yet in this directory.\n".to_owned(),
            };
            let later = seen.as_ref().zip(newest.as_ref());
            if let Some((_, newest)) = later.filter(|(seen, id)| seen.state.run != **id) {
                text.push_str(&format!("\nRun {newest} came later and had nothing to do.\n"));
            }
            text.push_str(&plan_status.map_or_else(String::new, |it| it.describe(&screen.style)));
            let reminder = format_reminder(count_open_proposals(&project, &loaded, &layout));
            if !reminder.is_empty() {
                text.push_str(&format!("\n{reminder}"));
            }
            text
        };
        if !args.watch {
            screen::print_data(&text);
            return Ok(ExitStatus::Complete);
        }
        let printed = if screen.style.rewrites && !args.json {
            let rows = screen::count_terminal_rows();
            screen::try_print_data(&canvas.draw_text(&text, screen.style.width, rows))
        } else {
            screen::try_print_data(canvas.take_if_changed(&text))
        };
        if holder.is_none() || printed.is_err() {
            return Ok(ExitStatus::Complete);
        }
        thread::sleep(DRAW_INTERVAL);
    }
}

/// The status of a run.
struct RunStatusView<'a> {
    report: &'a Report,
    summary: Summary,
    /// The state as if the requests in the inbox were handled.
    state: RunState,
    clock: WallClock,
    /// What the run is doing right now, if it is active.
    action: Option<CurrentAction>,
}

impl<'a> RunStatusView<'a> {
    fn from_report(
        report: &'a Report,
        files: &RunDir,
        holder: Option<&Option<LockHolder>>,
    ) -> Option<Self> {
        let waiting = ralph_io::control::list_pending(files.path());
        let mut state = control::apply_waiting_requests(report.state()?, &waiting);
        let clock = WallClock { zone: clock::find_local_zone(), now: clock::now };
        let mut summary = report.summary()?;
        // The workers of a killed run stopped with it, which its journal does not say.
        if let (None, Some(parallel)) = (holder, &mut state.parallel) {
            parallel.stop_all_workers();
            summary.parallel = ParallelStatus::from_state(&state);
        }
        if is_at_work(holder) {
            summary.total.ran = report.running_time_at((clock.now)());
        }
        let action = holder.and_then(|_| action_file::read_action(files.path()));
        Some(Self { report, summary, state, clock, action })
    }

    fn outlook(&self) -> RunOutlook<'_> {
        RunOutlook { state: &self.state, clock: &self.clock, action: self.action.as_ref() }
    }

    fn describe(&self, holder: Option<&Option<LockHolder>>, style: &Style) -> String {
        let outlook = self.outlook();
        let idle = holder.and_then(|_| outlook.idle_reason());
        let idle = idle.map(|it| format!(", {it}")).unwrap_or_default();
        let status = format!("{}{idle}", describe_run_status(&self.summary, holder));
        status::describe_run(&self.summary, &outlook.forecast(), &status, style)
    }

    fn to_json(&self, holder: Option<&Option<LockHolder>>) -> Value {
        let mut facts = convert_summary_to_json(self.report, &self.summary, holder);
        facts["control"] = self.outlook().to_json();
        facts["action"] = json!(self.action);
        facts["cost"] = json!(self.summary.total.cost);
        facts["reviews"] = json!(self.summary.reviews);
        facts["failed"] = json!(self.summary.failed);
        facts["gates"] = json!(self.summary.gates);
        facts["sandbox"] = json!(self.summary.sandbox);
        if let Some(parallel) = &self.summary.parallel {
            facts["parallel"] = json!(parallel);
        }
        facts
    }
}

/// The plan and the last commits of a project whose agent maintains a plan.
struct PlanStatusView {
    plan: PlanFileState,
    commits: Vec<StatusCommit>,
}

impl PlanStatusView {
    /// Reads the plan and the last commits, if the project works by a plan: the settings or the last
    /// run say so, or a plan exists and nothing says otherwise.
    fn for_project(
        project: &Project,
        settings: &Settings,
        last: Option<&Recipe>,
        repository: Option<&GitRepository>,
    ) -> Option<Self> {
        let had_plan = last.is_some_and(|recipe| recipe.plan.is_some());
        let plan = read_plan(project);
        let is_shown = match settings.workflow {
            WorkflowSetting::Specs => true,
            WorkflowSetting::Prompt => had_plan || plan != PlanFileState::Missing,
            WorkflowSetting::Tasks => had_plan,
        };
        is_shown
            .then(|| Self { plan, commits: repository.map(read_last_commits).unwrap_or_default() })
    }

    fn describe(&self, style: &Style) -> String {
        let clock = WallClock { zone: clock::find_local_zone(), now: clock::now };
        let parts = [
            status::format_plan(PLAN_FILE, &self.plan, style),
            status::format_last_commits(&self.commits, &clock, style),
        ];
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.map(|part| format!("\n{part}")).collect::<Vec<_>>().concat()
    }

    fn to_json(&self) -> (Value, Value) {
        let commits = self.commits.iter().map(StatusCommit::to_json);
        (self.plan.to_json(PLAN_FILE), commits.collect())
    }
}

fn read_plan(project: &Project) -> PlanFileState {
    match read_beginning(&project.directory.join(PLAN_FILE), MAX_PLAN_BYTES + 1) {
        Ok(bytes) => PlanFileState::There {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            is_cut: bytes.len() as u64 > MAX_PLAN_BYTES,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => PlanFileState::Missing,
        Err(error) => PlanFileState::Unreadable { why: error.to_string() },
    }
}

/// Reads the last commits. Only warns if git fails: the rest of the status is still useful.
fn read_last_commits(repository: &GitRepository) -> Vec<StatusCommit> {
    match repository.list_last_commits(COMMITS) {
        Ok(lines) => lines
            .into_iter()
            .map(|line| StatusCommit { id: line.id, at: line.at, subject: line.subject })
            .collect(),
        Err(error) => {
            screen::print_warning(&format!("the last commits are not shown: {error}"));
            Vec::new()
        }
    }
}

/// Returns whether the process of a run exists and is not stopped by a signal.
fn is_at_work(holder: Option<&Option<LockHolder>>) -> bool {
    holder.is_some_and(|holder| holder.as_ref().is_none_or(|holder| !is_stopped(holder.pid)))
}

fn describe_run_status(summary: &Summary, holder: Option<&Option<LockHolder>>) -> String {
    match (holder, &summary.ending) {
        (Some(Some(holder)), _) if is_stopped(holder.pid) => {
            format!("stopped by a signal; `kill -CONT {}` resumes it", holder.pid)
        }
        (Some(Some(holder)), _) => format!("active (pid {})", holder.pid),
        (Some(None), _) => "active".to_owned(),
        (None, Some(ending)) => ending.clone(),
        (None, None) => "ended without its last event; `ralph resume` continues it".to_owned(),
    }
}

fn convert_summary_to_json(
    report: &Report,
    summary: &Summary,
    holder: Option<&Option<LockHolder>>,
) -> Value {
    json!({
        "run": summary.run,
        "active": holder.is_some(),
        "pid": holder.and_then(Option::as_ref).map(|holder| holder.pid),
        "outcome": summary.outcome,
        "resumable": summary.outcome.as_ref().is_none_or(Outcome::is_resumable),
        "iteration": summary.total.iterations,
        "maximumIterations": summary.maximum_iterations,
        "totals": report.state().map(|it| Totals { usage: it.total_usage(), ..it.totals }),
        "ranMs": summary.total.ran,
        "lastGates": report.last_gates(),
        "questions": summary.questions,
        "current": summary.current,
        "progress": summary.progress,
        "tasks": summary.tasks,
        "autoApproved": summary.auto_approved,
        "diverging": summary.diverging,
    })
}
