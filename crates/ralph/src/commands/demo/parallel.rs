//! The demo of several tasks at once: a list, workers in their own clones, and a conflict.

use std::fs;

use ralph_io::process::Watch;
use ralph_io::store::{journal, runs};
use ralph_model::event::Event;
use ralph_model::outcome::ExitStatus;
use ralph_model::parallel_state::MergeOutcome;
use ralph_model::recipe::Retry;
use ralph_model::units::Millis;
use serde_json::{Value, json};

use super::{DemoDirectory, build_options};
use crate::cli::{CommonArgs, DemoArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::settings::LoadedSettings;
use crate::{recipe, screen, session, task_file};

/// A task of the demo.
struct DemoProgram {
    name: &'static str,
    what: &'static str,
    text: &'static str,
    /// How long its agent works.
    seconds: f64,
    /// Whether the task is to add a line to a file that all tasks share.
    is_listed: bool,
}

/// The first two change the same line, so one of them starts again.
const PROGRAMS: [DemoProgram; 4] = [
    DemoProgram {
        name: "count",
        what: "counts words",
        text: "wc -w | tr -d ' '\n",
        seconds: 2.0,
        is_listed: true,
    },
    DemoProgram {
        name: "upper",
        what: "prints capitals",
        text: "tr a-z A-Z\n",
        seconds: 2.4,
        is_listed: true,
    },
    DemoProgram {
        name: "longest",
        what: "finds the longest word",
        text: "tr ' ' '\\n' | awk 'length > length(best) { best = $0 } END { print best }'\n",
        seconds: 2.8,
        is_listed: false,
    },
    DemoProgram {
        name: "lines",
        what: "counts lines",
        text: "wc -l | tr -d ' '\n",
        seconds: 2.2,
        is_listed: false,
    },
];

/// The test of the demo: what is there must work.
const TEST: &str = r#"# Tests the programs that are there.
failed=0
check() {
    [ -e "$1.sh" ] || return 0
    got=$(printf 'one three\n' | sh "$1.sh")
    if [ "$got" = "$2" ]; then echo "ok    $1"; else echo "FAIL  $1: $got"; failed=1; fi
}
check count 2
check upper "ONE THREE"
check longest three
check lines 1
if grep -q '<<<<' LIST.txt; then echo "FAIL  LIST.txt has conflict markers"; failed=1; fi
exit $failed
"#;

/// Runs the demo.
pub(super) fn main(
    common: &CommonArgs,
    args: &DemoArgs,
    jobs: u32,
) -> Result<ExitStatus, CliError> {
    let place = DemoDirectory::create("words", |place| write_files(place, args, jobs))?;
    let (common, project) = place.open_project(common)?;
    let loaded = project.load_settings_without_user()?;
    let file = task_file::read_task_file(&project, &loaded.settings, None)?;
    let found = (file.path().to_owned(), file.dialect().list_form());
    let mut recipe = recipe::for_tasks(&loaded, found, file.list(), None, Retry::Nothing)?;
    project.add_locked_paths(&mut recipe, &loaded);
    screen::print_data(&format!(
        "A throw-away repository: {}\nFour tasks, at most {jobs} at the same time, each in a clone of its \
         own. Two of\nthem add a line to one file: the second one does not merge and starts again. No\nmodel is \
         called.\n\n",
        project.directory.display()
    ));
    let status = session::start_run(&common, &project, &loaded, recipe, &build_options())?;
    screen::print_data(&format_report(&project, &loaded, &place)?);
    place.clean_up(args);
    Ok(status)
}

fn write_files(place: &DemoDirectory, args: &DemoArgs, jobs: u32) -> std::io::Result<()> {
    let scenario = place.root.join("scenario.json");
    let tasks: Vec<Value> = PROGRAMS
        .iter()
        .map(|DemoProgram { name, what, is_listed, .. }| {
            let add = if *is_listed { ", and add it to LIST.txt" } else { "" };
            json!({
                "id": name,
                "title": format!("{name}.sh {what}"),
                "description": format!("Write {name}.sh, which {what}{add}."),
                "status": "pending",
                "acceptance_criteria": [format!("{name}.sh {what}")],
                "depends_on": []
            })
        })
        .collect();
    let settings = json!({
        "agent": { "command": "sim", "flags": [scenario] },
        "gates": [{ "name": "test", "command": "sh test.sh" }],
        "review": { "enabled": false },
        "memory": { "enabled": false },
        "parallel": { "jobs": jobs, "keepFree": "100M" },
        // The demo must work on every machine.
        "sandbox": { "fallback": "guard" },
        "stateDir": place.root.join("state"),
        "preventSleep": false
    });
    fs::write(place.project.join("LIST.txt"), "The programs:\n")?;
    fs::write(place.project.join("test.sh"), TEST)?;
    let list = json!({ "project": "words", "tasks": tasks });
    fs::write(place.project.join("plan.json"), format!("{list:#}\n"))?;
    fs::write(scenario, format!("{:#}", build_scenario(args)))?;
    fs::write(place.project.join(".ralph/settings.json"), format!("{settings:#}\n"))
}

/// The scripted agent does each task; where it finds a conflict, it keeps both sides.
fn build_scenario(args: &DemoArgs) -> Value {
    let end = |summary: &str| json!({ "handoff": { "task_completed": { "summary": summary, "fully_complete": true } } });
    let merge = "grep -v '^[<=>|]' LIST.txt > both && mv both LIST.txt";
    let mut calls = vec![json!({
        "when": { "promptContains": "conflict in LIST.txt" },
        "do": [
            { "text": "Both lines belong into the list." },
            { "run": { "command": merge, "show": "tool" } },
            { "usage": { "input": 3100, "output": 120, "cost": 0.011 } },
            end("Kept both lines.")
        ]
    })];
    calls.extend(PROGRAMS.iter().map(|DemoProgram { name, what, text, seconds, is_listed }| {
        let seconds = if args.fast { 0.1 } else { *seconds };
        let mut steps = vec![
            json!({ "sleep": seconds }),
            json!({ "write": { "path": format!("{name}.sh"), "text": text } }),
        ];
        if *is_listed {
            let line = format!("{name}.sh {what}\n");
            steps.push(json!({ "append": { "path": "LIST.txt", "text": line } }));
        }
        steps.push(json!({ "usage": { "input": 4200, "output": 260, "cost": 0.017 } }));
        steps.push(end(&format!("Wrote {name}.sh.")));
        json!({ "when": { "task": name }, "do": steps })
    }));
    json!({ "calls": calls })
}

/// Describes what happened, from the journal and from git.
#[expect(clippy::wildcard_enum_match_arm, reason = "most events are not counted")]
fn format_report(
    project: &Project,
    loaded: &LoadedSettings,
    place: &DemoDirectory,
) -> Result<String, CliError> {
    let layout = project.find_layout(loaded)?;
    let (mut worked, mut ran, mut conflicts) = (0, 0, 0);
    if let Some(run) = runs::list_runs(layout.state()).first() {
        let path = layout.run_dir(&run.id).journal_path();
        let events = journal::open_for_reading(&path)
            .map_err(|error| CliError::from_error(ExitStatus::Incomplete, &error))?;
        for recorded in events.flatten() {
            ran = recorded.ran.0;
            match &recorded.event {
                Event::WorkerEnded { result, .. } => worked += result.ran.0,
                Event::CandidateMerged { outcome: MergeOutcome::Conflict { .. }, .. } => {
                    conflicts += 1;
                }
                _ => {}
            }
        }
    }
    let watch = Watch::new_detached();
    let log = ralph_io::git::scratch::read_log(&place.project, &project.env, &watch)
        .map_err(CliError::from_git_error)?;
    Ok(format!(
        "\nThe workers worked for {} in {} of wall time. Conflicts: {conflicts}; a\ntask with \
         one starts again with the merged files.\n\nThe history; ralph committed only what passed after the \
         merge:\n{log}\nWith your own agent: `ralph init`, then `ralph build --jobs 3`\n",
        Millis(worked),
        Millis(ran)
    ))
}
