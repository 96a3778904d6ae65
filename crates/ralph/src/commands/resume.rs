//! `ralph resume`: resumes a run exactly where its journal ends.

use std::path::Path;

use ralph_io::store::layout::list_projects;
use ralph_io::store::runs::{self, RunSummary};
use ralph_model::agent::AgentChoice;
use ralph_model::ids::RunId;
use ralph_model::outcome::{ExitStatus, Outcome};
use ralph_model::recipe::Recipe;
use ralph_model::sandbox::{NetworkPolicy, SandboxPolicy};
use ralph_model::units::{Tokens, UsdMicros};

use super::run::{read_limit_flags, read_start_options};
use super::{control, dry_run};
use crate::cli::{CommonArgs, LimitArgs, ResumeArgs, StartArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::session::StartOptions;
use crate::settings::types::quantity::DurationSetting;
use crate::{recipe, screen, session};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &ResumeArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    // Only the state directory and the look of the view come from the settings: the policies of
    // the run are in its journal.
    if args.list {
        let loaded = project.load_settings(args.config.as_deref(), Vec::new())?;
        return Ok(list_resumable(&project.find_state_root(&loaded)?));
    }
    let mut flags = read_limit_flags(&args.limits)?;
    // The other flags change the policies of the run, which are in its journal.
    flags.retain(|flag| flag.path.starts_with("otel."));
    flags.extend(args.tui.to_flag_value());
    let loaded = project.load_trusted_settings(args.config.as_deref(), flags)?;
    let layout = project.find_layout(&loaded)?;
    let mut known = runs::list_runs(layout.state());
    // A run that was killed before its first event has never begun.
    known.retain(|run| run.started.is_some());
    let chosen = choose_run(&known, args.run.as_deref());
    if chosen.is_err() && !args.dry_run {
        session::restore_set_aside(common, &project, &loaded);
    }
    let chosen = chosen?;
    let outcome = known.iter().find(|it| it.id == chosen).and_then(|it| it.outcome.as_ref());
    // The sandbox may be why: then the user has changed what it allows.
    let may_be_blocked =
        matches!(outcome, Some(Outcome::SandboxBlocked { .. } | Outcome::AgentFailed { .. }));
    let access = may_be_blocked.then(|| recipe::build_sandbox_policy(&loaded));
    let change = |recipe: &Recipe| change_recipe(recipe, &args.limits, access.as_ref());
    let options = read_start_options(args.include_dirty, args.set_aside, &args.limits);
    let options = StartOptions { config: args.config.clone(), ..options };
    if args.dry_run {
        return dry_run::print_resume(&project, &loaded, &chosen, change, &options);
    }
    if control::continue_if_paused(common, &layout, &chosen)? {
        return Ok(ExitStatus::Complete);
    }
    session::resume_run(common, &project, &loaded, &chosen, &change, &options)
}

/// Resumes a run instead of starting one with these options.
pub(super) fn resume_instead(
    common: &CommonArgs,
    run: &RunId,
    args: &StartArgs,
) -> Result<ExitStatus, CliError> {
    let args = ResumeArgs {
        run: Some(run.0.clone()),
        list: false,
        limits: args.limits.clone(),
        tui: args.tui.clone(),
        config: args.config.clone(),
        dry_run: false,
        include_dirty: args.include_dirty,
        set_aside: args.set_aside,
    };
    main(common, &args)
}

/// Returns the named run, or the last one if it can be resumed.
fn choose_run(known: &[RunSummary], named: Option<&str>) -> Result<RunId, CliError> {
    let is_resumable = |run: &&RunSummary| run.outcome.as_ref().is_none_or(Outcome::is_resumable);
    let listed = "`ralph resume --list` shows the runs that can be resumed";
    match named {
        Some(name) => match known.iter().find(|run| run.id.0 == name) {
            None => Err(CliError::for_input(format!("there is no run `{name}` in this directory"))
                .with_hint(listed)),
            Some(run) if !is_resumable(&run) => Err(CliError::for_input(format!(
                "run {name} is complete; there is nothing to resume"
            ))),
            Some(run) => Ok(run.id.clone()),
        },
        None => match known.first() {
            None => Err(CliError::for_input("there is no run to resume in this directory")
                .with_hint(listed)),
            Some(last) if is_resumable(&last) => Ok(last.id.clone()),
            Some(last) => Err(CliError::for_input(format!(
                "the last run, {}, is complete; there is nothing to resume",
                last.id
            ))
            .with_hint(listed)),
        },
    }
}

/// Returns the recipe with the limits that the user changed, if any, and with what the settings
/// allow now, if a gate was blocked by the sandbox or an agent failed.
fn change_recipe(
    recipe: &Recipe,
    limits: &LimitArgs,
    access: Option<&SandboxPolicy>,
) -> Result<Option<Recipe>, CliError> {
    let mut changed = recipe.clone();
    if let Some(now) = access {
        let SandboxPolicy { backend, network, .. } = &changed.sandbox;
        let network = NetworkPolicy { mode: network.mode, ..now.network.clone() };
        changed.sandbox = SandboxPolicy { backend: *backend, network, ..now.clone() };
    }
    // Roles with the same program, even with other limits or servers, get the change too.
    let former = &recipe.agent;
    let is_same = |it: &&mut AgentChoice| it.command == former.command && it.kind == former.kind;
    let others = changed.agents.values_mut().filter(is_same);
    for choice in others.chain([&mut changed.agent]) {
        if let Some(agent) = &limits.agent {
            choice.kind = ralph_agents::infer_agent_kind(agent);
            choice.command.clone_from(agent);
            choice.flags.clear();
            choice.selectors = None;
        }
        if limits.model.is_some() && choice.model == former.model {
            choice.model.clone_from(&limits.model);
        }
    }
    if let Some(iterations) = limits.maximum_iterations {
        changed.limits.iterations = iterations;
    }
    if let Some(dollars) = limits.max_cost {
        changed.limits.budget.cost = Some(UsdMicros::from_dollars(dollars));
    }
    if let Some(tokens) = limits.max_tokens {
        changed.limits.budget.tokens = Some(Tokens(tokens));
    }
    if let Some(span) = &limits.max_time {
        let span = DurationSetting::parse(span).map_err(CliError::for_input)?;
        changed.limits.budget.time = Some(span.0);
    }
    Ok((changed != *recipe).then_some(changed))
}

/// Lists the runs that can be resumed, in all projects of the state directory.
fn list_resumable(root: &Path) -> ExitStatus {
    let mut text = String::new();
    for known in list_projects(root) {
        let moved =
            if known.project.is_dir() { "" } else { "  (this directory is gone or was moved)" };
        for run in runs::list_runs(&known.state).into_iter().filter(|run| run.started.is_some()) {
            let status = match &run.outcome {
                None => "cut off".to_owned(),
                Some(outcome) if outcome.is_resumable() => outcome.to_string(),
                Some(_) => continue,
            };
            text.push_str(&format!(
                "{}  iteration {}  {status}\n    {}{moved}\n",
                run.id,
                run.iterations,
                known.project.display()
            ));
        }
    }
    if text.is_empty() {
        text.push_str("There is no run to resume.\n");
    }
    screen::print_data(&text);
    ExitStatus::Complete
}
