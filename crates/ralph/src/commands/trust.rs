//! `ralph trust`: accepts what a project's settings ask for, after showing what that means.
//!
//! Not here: what counts as looser, and where the trust file is.

use std::env;
use std::path::{Path, PathBuf};

use ralph_io::{clock, process};
use ralph_model::outcome::ExitStatus;
use ralph_ui::sanitize::sanitize_text;
use serde_json::json;

use crate::cli::{CommonArgs, TrustArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen;
use crate::settings::Loosening;
use crate::trust::agent_code::find_code_for_any_agent;
use crate::trust::{TrustEntry, TrustStore};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &TrustArgs) -> Result<ExitStatus, CliError> {
    if args.list {
        let trust = TrustStore::load(|name| env::var_os(name))?;
        screen::print_data(&if args.json { format_json_list(&trust) } else { format_list(&trust) });
        return Ok(ExitStatus::Complete);
    }
    let named = match &args.directory {
        Some(directory) => common.directory().join(directory),
        None => common.directory().to_owned(),
    };
    check_not_agent()?;
    if args.remove {
        return remove_trust(common, &named);
    }
    if let (Some(directory), Err(error)) = (&args.directory, named.canonicalize()) {
        let shown = directory.display();
        return Err(CliError::for_input(format!("cannot open the project `{shown}`: {error}"))
            .with_hint("`ralph trust` without a directory is about the current one"));
    }
    let project = Project::open(&CommonArgs { project_dir: Some(named), ..common.clone() })?;
    trust_project(common, &project, args)
}

/// Fails if an agent runs this: only the user decides about trust.
fn check_not_agent() -> Result<(), CliError> {
    match ["RALPH_RUN_ID", "RALPH_ACTIVE"].into_iter().find(|name| env::var_os(name).is_some()) {
        Some(name) => Err(CliError::for_input(format!(
            "`ralph trust` is for users only, and {name} shows that an agent runs it"
        ))),
        None if process::is_descendant_of_any() => Err(CliError::for_input(
            "`ralph trust` is for users only, and an agent of a run started it",
        )),
        None => Ok(()),
    }
}

fn trust_project(
    common: &CommonArgs,
    project: &Project,
    args: &TrustArgs,
) -> Result<ExitStatus, CliError> {
    let demands = find_all_demands(project, args)?;
    let shown = project.directory.display();
    let print = |text: &str| {
        if !common.quiet {
            screen::print_line(&sanitize_text(text));
        }
    };
    if demands.is_empty() {
        print(&format!("The settings of {shown} need no trust."));
        return Ok(ExitStatus::Complete);
    }
    let indented = format!("  {}", project.list_loosenings(&demands).replace('\n', "\n  "));
    let config = project.resolve_config(args.config.as_deref());
    let subject = project.trust_subject(config.as_deref());
    let known = TrustStore::load(|name| env::var_os(name))?;
    if known.find_refused(subject, &demands).is_empty() {
        print(&format!("{shown} is trusted with all that its settings ask for:"));
        print(&indented);
        return Ok(ExitStatus::Complete);
    }
    // Printed even with --quiet: the user must see what is accepted.
    screen::print_line(&sanitize_text(&format!("The settings of {shown} need your trust:")));
    screen::print_line(&sanitize_text(&indented));
    if !args.yes {
        if !screen::can_ask() {
            return Err(CliError::for_input("there is no terminal to ask on")
                .with_hint("`ralph trust --yes` accepts what is shown above"));
        }
        if !screen::ask_yes_no("Trust this project with it?") {
            print("Nothing is changed.");
            return Ok(ExitStatus::Incomplete);
        }
    }
    // Read again: the settings may have changed while the user was asked.
    if find_all_demands(project, args)? != demands {
        return Err(CliError::for_input("the settings have changed in the meantime")
            .with_hint("look at them again with `ralph trust`"));
    }
    let mark = TrustEntry::new(subject, &demands, clock::now());
    TrustStore::load(|name| env::var_os(name))?.add_entry(mark)?;
    print(&format!("{shown} is trusted with it. `ralph trust --remove` revokes that."));
    Ok(ExitStatus::Complete)
}

/// Returns what the settings ask for, and what any agent would find in the project.
fn find_all_demands(project: &Project, args: &TrustArgs) -> Result<Vec<Loosening>, CliError> {
    let mut demands = project.load_settings(args.config.as_deref(), Vec::new())?.loosenings;
    for demand in find_code_for_any_agent(&project.directory) {
        if !demands.contains(&demand) {
            demands.push(demand);
        }
    }
    Ok(demands)
}

/// Removes the trust. A directory that no longer exists is found by its path.
fn remove_trust(common: &CommonArgs, named: &Path) -> Result<ExitStatus, CliError> {
    let path: PathBuf = named
        .canonicalize()
        .or_else(|_| std::path::absolute(named))
        .unwrap_or_else(|_| named.to_owned());
    let gone = TrustStore::load(|name| env::var_os(name))?.remove_entries(&path)?;
    let shown = path.display();
    if gone == 0 {
        return Err(CliError::for_input(format!("`{shown}` is not trusted"))
            .with_hint("`ralph trust --list` shows what is"));
    }
    if !common.quiet {
        screen::print_line(&sanitize_text(&format!("{shown} is no longer trusted.")));
    }
    Ok(ExitStatus::Complete)
}

fn format_list(trust: &TrustStore) -> String {
    if trust.projects().is_empty() {
        return "No project is trusted.\n".to_owned();
    }
    let mut text = String::new();
    for project in trust.projects() {
        text.push_str(&project.path.display().to_string());
        if let Some(config) = &project.config {
            text.push_str(&format!(" with {}", config.display()));
        }
        text.push('\n');
        for (key, value) in &project.accepted {
            text.push_str(&format!("  {key}: {value}\n"));
        }
    }
    sanitize_text(&text).into_owned()
}

fn format_json_list(trust: &TrustStore) -> String {
    let projects: Vec<_> = trust
        .projects()
        .iter()
        .map(|it| {
            json!({
                "path": it.path,
                "config": it.config,
                "accepted": it.accepted,
                "at": it.at,
                "exists": it.path.is_dir(),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "version": 1, "projects": projects }))
}
