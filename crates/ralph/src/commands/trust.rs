//! `ralph trust`: accepts what a project's settings ask for, after showing what that means.
//!
//! Not here: what counts as looser, and where the trust file is.

use std::env;
use std::path::{Path, PathBuf};

use ralph_core::outcome::ExitStatus;
use ralph_io::clock;
use ralph_io::process;
use ralph_ui::safe::harmless;
use serde_json::json;

use crate::cli::{CommonArgs, TrustArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;
use crate::trust::{Trust, Trusted};

/// Runs the command.
pub(crate) fn main(common: &CommonArgs, args: &TrustArgs) -> Result<ExitStatus, Complaint> {
    if args.list {
        let trust = Trust::read(|name| env::var_os(name))?;
        screen::print_data(&if args.json { facts(&trust) } else { list(&trust) });
        return Ok(ExitStatus::Complete);
    }
    let named = match &args.directory {
        Some(directory) => common.directory().join(directory),
        None => common.directory().to_owned(),
    };
    only_people_may()?;
    if args.remove {
        return remove(common, &named);
    }
    let project = Project::open(&CommonArgs { project_dir: Some(named), ..common.clone() })?;
    trust(common, &project, args)
}

/// Fails if an agent runs this: only the user decides about trust.
fn only_people_may() -> Result<(), Complaint> {
    match ["RALPH_RUN_ID", "RALPH_ACTIVE"].into_iter().find(|name| env::var_os(name).is_some()) {
        Some(name) => Err(Complaint::input(format!(
            "`ralph trust` is for people, and {name} says that this is the work of an agent"
        ))),
        None if process::is_work_of_any() => Err(Complaint::input(
            "`ralph trust` is for people, and this was started by an agent of a run",
        )),
        None => Ok(()),
    }
}

fn trust(
    common: &CommonArgs,
    project: &Project,
    args: &TrustArgs,
) -> Result<ExitStatus, Complaint> {
    let loaded = project.settings_as_written(args.config.as_deref(), Vec::new())?;
    let shown = project.directory.display();
    let print = |text: &str| {
        if !common.quiet {
            screen::say(&harmless(text));
        }
    };
    if loaded.loosenings.is_empty() {
        print(&format!(
            "The settings of {shown} do not reach beyond it: there is nothing to trust."
        ));
        return Ok(ExitStatus::Complete);
    }
    let indented = format!("  {}", project.listed(&loaded.loosenings).replace('\n', "\n  "));
    let config = project.given_config(args.config.as_deref());
    let subject = project.subject(config.as_deref());
    let known = Trust::read(|name| env::var_os(name))?;
    if known.refused(subject, &loaded.loosenings).is_empty() {
        print(&format!("{shown} is trusted with all that its settings ask for:"));
        print(&indented);
        return Ok(ExitStatus::Complete);
    }
    // Printed even with --quiet: the user must see what is accepted.
    screen::say(&harmless(&format!("The settings of {shown} reach beyond it:")));
    screen::say(&harmless(&indented));
    if !args.yes {
        if !screen::can_ask() {
            return Err(Complaint::input("there is no terminal to ask on")
                .hint("`ralph trust --yes` accepts what is shown above"));
        }
        if !screen::ask("Trust this project with it?") {
            print("Nothing is changed.");
            return Ok(ExitStatus::Incomplete);
        }
    }
    // Read again: the settings may have changed while the user was asked.
    let now = project.settings_as_written(args.config.as_deref(), Vec::new())?;
    if now.loosenings != loaded.loosenings {
        return Err(Complaint::input("the settings have changed meanwhile")
            .hint("look at them again with `ralph trust`"));
    }
    let mark = Trusted::new(subject, &loaded.loosenings, clock::now());
    Trust::read(|name| env::var_os(name))?.mark(mark)?;
    print(&format!("{shown} is trusted with it. `ralph trust --remove` takes it back."));
    Ok(ExitStatus::Complete)
}

/// Removes the trust. A directory that no longer exists is found by its path.
fn remove(common: &CommonArgs, named: &Path) -> Result<ExitStatus, Complaint> {
    let path: PathBuf = named
        .canonicalize()
        .or_else(|_| std::path::absolute(named))
        .unwrap_or_else(|_| named.to_owned());
    let gone = Trust::read(|name| env::var_os(name))?.forget(&path)?;
    let shown = path.display();
    if gone == 0 {
        return Err(Complaint::input(format!("`{shown}` is not trusted"))
            .hint("`ralph trust --list` shows what is"));
    }
    if !common.quiet {
        screen::say(&harmless(&format!("{shown} is no longer trusted.")));
    }
    Ok(ExitStatus::Complete)
}

fn list(trust: &Trust) -> String {
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
    harmless(&text).into_owned()
}

fn facts(trust: &Trust) -> String {
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
