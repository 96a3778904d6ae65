//! `ralph status`: where the last run of this directory stands.

use ralph_core::outcome::{ExitStatus, Outcome};
use ralph_core::run::RunState;
use ralph_io::store::{Lock, journal, runs};
use serde_json::json;

use crate::cli::{CommonArgs, StatusArgs};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen;

/// Prints where the last run stands.
pub(crate) fn main(common: &CommonArgs, args: &StatusArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let loaded = project.settings(None, Vec::new())?;
    let layout = project.layout(&loaded)?;
    let Some(last) = runs::runs(layout.state()).into_iter().find(|run| run.started.is_some())
    else {
        let text = if args.json { "{\"run\":null}\n" } else { "No run yet in this directory.\n" };
        screen::print_data(text);
        return Ok(ExitStatus::Complete);
    };
    let state = journal::fold(&layout.run(&last.id).journal())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let holder = Lock::look(layout.state());
    let standing = match (&holder, &state.outcome) {
        (Some(holder), _) => match holder {
            Some(holder) => format!("active (pid {})", holder.pid),
            None => "active".to_owned(),
        },
        (None, Some(outcome)) => outcome.to_string(),
        (None, None) => "cut off; `ralph resume` goes on with it".to_owned(),
    };
    if args.json {
        let facts = json!({
            "run": state.run,
            "active": holder.is_some(),
            "pid": holder.flatten().map(|holder| holder.pid),
            "outcome": state.outcome,
            "resumable": state.outcome.as_ref().is_none_or(Outcome::is_resumable),
            "iteration": state.iterations,
            "maximumIterations": state.recipe.limits.iterations,
            "totals": state.totals,
            "ranMs": state.ran,
            "lastGates": state.current.as_ref().map(|current| &current.gates),
        });
        screen::print_data(&format!("{facts:#}\n"));
    } else {
        screen::print_data(&describe(&state, &standing));
    }
    Ok(ExitStatus::Complete)
}

fn describe(state: &RunState, standing: &str) -> String {
    let totals = &state.totals;
    let mut text = format!(
        "Run        {}\nState      {standing}\nIteration  {} of {}\nRan        {}\n",
        state.run, state.iterations, state.recipe.limits.iterations, state.ran
    );
    let cost = totals.usage.cost.map_or_else(|| "not reported".to_owned(), |cost| cost.to_string());
    text.push_str(&format!("Cost       {cost}, {} tokens\n", totals.usage.tokens()));
    text.push_str(&format!(
        "Gates      {} run, {} failed\nCommits    {}\n",
        totals.gates, totals.gate_failures, totals.commits
    ));
    if let Some(current) = &state.current {
        text.push_str(&format!("Doing      {} (call {})\n", current.role, current.asks));
    }
    text
}
