//! `ralph run`: loops a prompt until the gates pass and the agent gives the completion response.

use ralph_io::store::files::read_prompt;
use ralph_model::ids::RunId;
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::{PromptSource, Recipe};
use serde_json::{Value, json};

use super::{dry_run, resume};
use crate::cli::{CommonArgs, LimitArgs, RunArgs, StartArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::DirtyPlan;
use crate::session::{self, StartOptions};
use crate::settings::{self, FlagSetting, LoadedSettings};
use crate::{crash_recovery, recipe, unfinished_run};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &RunArgs) -> Result<ExitStatus, CliError> {
    let source = recipe::choose_prompt_source(
        args.prompt.clone().or(args.words.clone()),
        args.prompt_file.clone(),
    )?;
    let project = Project::open_for_work(common)?;
    let mut flags = read_start_flags(&args.start)?;
    if let Some(text) = &args.completion_response {
        flags.push(FlagSetting::new("--completion-response", "completionResponse", text.as_str()));
    }
    let mut loaded = load_for_start(&project, &args.start, flags)?;
    if let Some(run) = choose_resume(&project, &mut loaded, &args.start)? {
        return resume::resume_instead(common, &run, &args.start);
    }
    let source = match source {
        PromptSource::Text(_) | PromptSource::Template(_) => source,
        PromptSource::File(path) => {
            let path = project.directory.join(path);
            read_prompt(&project.directory, &path)
                .map_err(|error| CliError::for_input(error.message))?;
            PromptSource::File(path)
        }
    };
    let mut recipe = recipe::for_prompt(&loaded, source)?;
    project.add_locked_paths_for_prompt(&mut recipe, &loaded);
    start_or_preview(common, &project, &loaded, recipe, &args.start)
}

/// Starts a run, or prints what it would do.
pub(super) fn start_or_preview(
    common: &CommonArgs,
    project: &Project,
    loaded: &LoadedSettings,
    recipe: Recipe,
    args: &StartArgs,
) -> Result<ExitStatus, CliError> {
    let options = read_start_options(args.include_dirty, args.set_aside, &args.limits);
    if args.dry_run {
        return dry_run::print_start(project, loaded, recipe, &options);
    }
    session::start_run(common, project, loaded, recipe, &options)
}

/// Returns the start options of the command line.
pub(super) fn read_start_options(
    include_dirty: bool,
    set_aside: bool,
    limits: &LimitArgs,
) -> StartOptions {
    let dirty = match (include_dirty, set_aside) {
        (true, _) => DirtyPlan::Include,
        (false, true) => DirtyPlan::SetAside,
        (false, false) => DirtyPlan::Refuse,
    };
    let incomplete =
        if limits.allow_incomplete { ExitStatus::Complete } else { ExitStatus::Incomplete };
    StartOptions { dirty, incomplete, former_attempts: Vec::new(), config: None, worker: None }
}

/// Settings that are specific to one program.
const PROGRAM_SPECIFIC_KEYS: [&str; 8] = [
    "agent.kind",
    "agent.flags",
    "agent.model",
    "agent.fallbackModel",
    "agent.responseFilter",
    "agent.deltaFilter",
    "agent.displayFilter",
    "agent.sessionFilter",
];

/// Returns the unfinished run that the user wants to resume instead of starting a new one.
pub(super) fn choose_resume(
    project: &Project,
    loaded: &mut LoadedSettings,
    args: &StartArgs,
) -> Result<Option<RunId>, CliError> {
    if args.dry_run {
        return Ok(None);
    }
    unfinished_run::ask_to_resume(project, loaded)
}

/// Reads the settings for a new run, with the flags on top. Recovers from a killed run before
/// anything else is read.
pub(super) fn load_for_start(
    project: &Project,
    args: &StartArgs,
    flags: Vec<FlagSetting>,
) -> Result<LoadedSettings, CliError> {
    let mut loaded = load_with_flags(project, args, flags)?;
    if !args.dry_run {
        loaded.warnings.extend(crash_recovery::end_killed_run(project, &loaded)?);
    }
    Ok(loaded)
}

/// Reads the settings, with the flags on top. If `--agent` names another program than the settings,
/// the flags, model, kind and filters of the settings do not apply to it. If the settings name no
/// program, they apply to the one of the flag.
fn load_with_flags(
    project: &Project,
    args: &StartArgs,
    mut flags: Vec<FlagSetting>,
) -> Result<LoadedSettings, CliError> {
    let config = args.config.as_deref();
    let Some(named) = &args.limits.agent else {
        return project.load_trusted_settings(config, flags);
    };
    let in_files = project.load_trusted_settings(config, Vec::new())?;
    if in_files.settings.agent.command.as_ref().is_some_and(|command| command != named) {
        let is_set = |path: &str| flags.iter().any(|flag| flag.path == path);
        let unset: Vec<FlagSetting> = PROGRAM_SPECIFIC_KEYS
            .into_iter()
            .filter(|path| !is_set(path))
            .map(|path| FlagSetting::new("--agent", path, Value::Null))
            .collect();
        flags.extend(unset);
    }
    project.load_trusted_settings(config, flags)
}

/// Returns the values of the flags of every run, the last layer of the settings.
pub(super) fn read_start_flags(args: &StartArgs) -> Result<Vec<FlagSetting>, CliError> {
    let mut flags = read_limit_flags(&args.limits)?;
    let mut set = |name: &str, path: &str, value: Value| {
        flags.push(FlagSetting::new(name, path, value));
    };
    if args.no_stream_agent_output {
        set("--no-stream-agent-output", "streamAgentOutput", json!(false));
    } else if args.stream_agent_output {
        set("--stream-agent-output", "streamAgentOutput", json!(true));
    }
    match (&args.sandbox, args.no_sandbox) {
        (Some(backend), _) => set("--sandbox", "sandbox.backend", json!(backend)),
        (None, true) => set("--no-sandbox", "sandbox.backend", json!("none")),
        (None, false) => {}
    }
    flags.extend(args.tui.to_flag_value());
    Ok(flags)
}

/// Returns the value of the number after a command.
pub(super) fn read_count_flag(
    count: Option<u32>,
    args: &StartArgs,
    command: &str,
) -> Result<Option<FlagSetting>, CliError> {
    match (count, args.limits.maximum_iterations) {
        (Some(_), Some(_)) => Err(CliError::for_input("the number of iterations is given twice")
            .with_hint(format!("either `ralph {command} N` or `ralph {command} -m N`"))),
        (Some(count), None) => Ok(Some(FlagSetting::new("N", "maximumIterations", count))),
        (None, _) => Ok(None),
    }
}

/// Returns the values of the limit flags.
pub(super) fn read_limit_flags(limits: &LimitArgs) -> Result<Vec<FlagSetting>, CliError> {
    let mut flags = Vec::new();
    let mut set = |name: &str, path: &str, value: Value| {
        flags.push(FlagSetting::new(name, path, value));
    };
    if let Some(agent) = &limits.agent {
        set("--agent", "agent.command", json!(agent));
    }
    if let Some(model) = &limits.model {
        set("--model", "agent.model", json!(model));
    }
    if let Some(count) = limits.maximum_iterations {
        set("--maximum-iterations", "maximumIterations", json!(count));
    }
    if let Some(dollars) = limits.max_cost {
        if !(dollars.is_finite() && dollars > 0.0) {
            return Err(CliError::for_input(format!(
                "--max-cost {dollars} is not an amount of money"
            ))
            .with_hint("for example --max-cost 5"));
        }
        set("--max-cost", "budget.maxCostUsd", json!(dollars));
    }
    if let Some(tokens) = limits.max_tokens {
        set("--max-tokens", "budget.maxTokens", json!(tokens));
    }
    if let Some(span) = &limits.max_time {
        settings::types::quantity::DurationSetting::parse(span)
            .map_err(|error| CliError::for_input(format!("--max-time: {error}")))?;
        set("--max-time", "budget.maxTime", json!(span));
    }
    if limits.otel {
        set("--otel", "otel.enabled", json!(true));
    }
    Ok(flags)
}
