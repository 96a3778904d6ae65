//! `ralph demo`: a complete loop in a throw-away repository with the scripted agent.
//!
//! Everything except the agent is real: the repository, the failing test, the feedback, the commit.

mod parallel;

use std::fs;
use std::path::{Path, PathBuf};

use ralph_io::process::Watch;
use ralph_io::store::{journal, runs};
use ralph_model::event::Event;
use ralph_model::judgement::{Verdict, describe_incomplete};
use ralph_model::outcome::ExitStatus;
use ralph_model::recipe::PromptSource;
use ralph_model::review::ReviewResult;
use serde_json::json;

use crate::cli::{CommonArgs, DemoArgs};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::run_context::DirtyPlan;
use crate::session::{self, StartOptions};
use crate::{recipe, screen};

/// The initial program of the demo.
const PROGRAM: &str = "#!/bin/sh\n# Greets everybody who is named.\n";

/// A real test: it runs the program and compares its output.
const TEST: &str = r#"#!/bin/sh
# Runs greet.sh and compares what it prints.
failed=0
expect() {
    wanted=$1; shift
    got=$(sh greet.sh "$@")
    if [ "$got" = "$wanted" ]; then
        echo "ok    greet.sh $*"
    else
        echo "FAIL  greet.sh $*"
        echo "      wanted: $wanted"
        echo "      got:    $got"
        failed=1
    fi
}
expect "Hello, Ada!" Ada
expect "Hello, Ada and Grace!" Ada Grace
expect "Hello, world!"
exit $failed
"#;

const FIRST_TRY: &str = "#!/bin/sh\n# Greets everybody who is named.\necho \"Hello, $1!\"\n";

const SECOND_TRY: &str = r#"#!/bin/sh
# Greets everybody who is named.
case $# in
    0) names=world ;;
    *) names=$1; shift; for name in "$@"; do names="$names and $name"; done ;;
esac
echo "Hello, $names!"
"#;

const PROMPT: &str = "Make greet.sh greet everybody it is given, so that test.sh passes. \
                      When you are done, answer <response>DONE</response>.";

/// Runs the demo.
pub(crate) fn main(common: &CommonArgs, args: &DemoArgs) -> Result<ExitStatus, CliError> {
    if let Some(jobs) = args.jobs {
        return parallel::main(common, args, jobs);
    }
    let place = DemoDirectory::create("greeter", |place| place.write_files(args))?;
    let (common, project) = place.open_project(common)?;
    let loaded = project.load_settings_without_user()?;
    let mut recipe = recipe::for_prompt(&loaded, PromptSource::Text(PROMPT.to_owned()))?;
    project.add_locked_paths_for_prompt(&mut recipe, &loaded);
    screen::print_data(&format_introduction(&project.directory));
    let status = session::start_run(&common, &project, &loaded, recipe, &build_options())?;
    screen::print_data(&format_report(&project, &loaded, &place)?);
    place.clean_up(args);
    Ok(status)
}

fn build_options() -> StartOptions {
    StartOptions {
        dirty: DirtyPlan::Refuse,
        incomplete: ExitStatus::Incomplete,
        former_attempts: Vec::new(),
        config: None,
        worker: None,
    }
}

/// The directory of the demo.
struct DemoDirectory {
    root: PathBuf,
    project: PathBuf,
}

impl DemoDirectory {
    fn create(
        name: &str,
        write_files: impl FnOnce(&Self) -> std::io::Result<()>,
    ) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| {
            CliError::new(
                ExitStatus::Incomplete,
                format!("cannot make a directory for the demo: {error}"),
            )
        };
        let root = tempfile::Builder::new().prefix("ralph-demo-").tempdir().map_err(failed)?.keep();
        let project = root.join(name);
        fs::create_dir_all(project.join(".ralph")).map_err(failed)?;
        let place = Self { root, project };
        write_files(&place).map_err(failed)?;
        Ok(place)
    }

    /// Makes the project a repository with a commit, and opens it.
    fn open_project(&self, common: &CommonArgs) -> Result<(CommonArgs, Project), CliError> {
        let common = CommonArgs { project_dir: Some(self.project.clone()), ..common.clone() };
        let mut project = Project::open(&common)?;
        for name in ["AUTHOR", "COMMITTER"] {
            project.env.push((format!("GIT_{name}_NAME").into(), "ralph demo".into()));
            project.env.push((format!("GIT_{name}_EMAIL").into(), "demo@ralph.invalid".into()));
        }
        let watch = Watch::new_detached();
        ralph_io::git::scratch::make_repository(&project.directory, &project.env, &watch).map_err(
            |error| CliError::from_git_error(error).with_hint("the demo needs git on the PATH"),
        )?;
        Ok((common, project))
    }

    fn write_files(&self, args: &DemoArgs) -> std::io::Result<()> {
        fs::write(self.project.join("greet.sh"), PROGRAM)?;
        fs::write(self.project.join("test.sh"), TEST)?;
        fs::write(self.root.join("scenario.json"), format!("{:#}", build_scenario(args)))?;
        let settings = json!({
            "agent": { "command": "sim", "flags": [self.root.join("scenario.json")] },
            "maximumIterations": 5,
            "guardrails": [{
                "command": "sh test.sh",
                "failAction": "APPEND",
                "hint": "Fix greet.sh; leave test.sh alone."
            }],
            "scm": { "command": "git", "tasks": ["commit"] },
            // The demo must work on every machine.
            "sandbox": { "fallback": "guard" },
            "stateDir": self.root.join("state"),
            "preventSleep": false
        });
        fs::write(self.project.join(".ralph/settings.json"), format!("{settings:#}\n"))
    }

    fn clean_up(&self, args: &DemoArgs) {
        if args.keep {
            screen::print_data(&format!("\nThe repository stays in {}\n", self.project.display()));
        } else {
            // Leftovers in the temporary directory do no harm.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// The scripted agent first claims to be done too early, then reads the feedback.
fn build_scenario(args: &DemoArgs) -> serde_json::Value {
    let pause = if args.fast { json!([]) } else { json!([{ "sleep": 0.7 }]) };
    let with_pauses = |actions: Vec<serde_json::Value>| -> Vec<serde_json::Value> {
        actions
            .into_iter()
            .flat_map(|action| [Some(action), pause.get(0).cloned()])
            .flatten()
            .collect()
    };
    json!({
        "calls": [
            {
                "when": { "role": "message" },
                "do": [{ "text": "Greet everybody who is named" }]
            },
            {
                "when": { "promptLacks": "failed with exit code" },
                "do": with_pauses(vec![
                    json!({ "text": "I will look at the program and at its test." }),
                    json!({ "tool": { "name": "Read", "summary": "greet.sh", "output": PROGRAM } }),
                    json!({ "write": { "path": "greet.sh", "text": FIRST_TRY } }),
                    json!({ "tool": { "name": "Write", "summary": "greet.sh", "output": "written" } }),
                    json!({ "usage": { "input": 5200, "output": 310, "cacheRead": 11800, "cost": 0.021 } }),
                    json!({ "text": "That is all it takes. <response>DONE</response>" })
                ])
            },
            {
                "when": {},
                "do": with_pauses(vec![
                    json!({ "text": "The test shows what is missing: several names, and none." }),
                    json!({ "write": { "path": "greet.sh", "text": SECOND_TRY } }),
                    json!({ "tool": { "name": "Write", "summary": "greet.sh", "output": "written" } }),
                    json!({ "run": { "command": "sh test.sh", "show": "tool" } }),
                    json!({ "usage": { "input": 6100, "output": 540, "cacheRead": 14200, "cost": 0.027 } }),
                    json!({ "text": "Now every case is covered. <response>DONE</response>" })
                ])
            }
        ]
    })
}

fn format_introduction(project: &Path) -> String {
    format!(
        "A throw-away repository: {}\nA program to finish (greet.sh), a real test for it (test.sh), and a scripted agent\nthat claims to be done too early. No model is called; the costs it reports are made up.\n\n",
        project.display()
    )
}

/// Describes what happened, from the journal and from git.
fn format_report(
    project: &Project,
    loaded: &crate::settings::LoadedSettings,
    place: &DemoDirectory,
) -> Result<String, CliError> {
    let layout = project.find_layout(loaded)?;
    let mut text = String::from("\nWhat happened, by the journal of the run:\n");
    if let Some(run) = runs::list_runs(layout.state()).first() {
        let path = layout.run_dir(&run.id).journal_path();
        let events = journal::open_for_reading(&path)
            .map_err(|error| CliError::from_error(ExitStatus::Incomplete, &error))?;
        let mut iteration = 0;
        for recorded in events.flatten() {
            if let Event::IterationStarted { iteration: number, .. } = &recorded.event {
                iteration = number.0;
            }
            if let Event::Judged { judgement } = &recorded.event {
                text.push_str(&format!(
                    "  {iteration}. {}\n",
                    describe_verdict(&judgement.verdict)
                ));
            }
        }
    }
    let log =
        ralph_io::git::scratch::read_log(&place.project, &project.env, &Watch::new_detached())
            .map_err(CliError::from_git_error)?;
    text.push_str(&format!("\nThe history; ralph committed only what passed:\n{log}"));
    text.push_str("\nWith your own agent: `ralph init`, then `ralph run \"...\"`\n");
    Ok(text)
}

fn describe_verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Complete => "The agent said DONE, and the test passed.".to_owned(),
        Verdict::Passed { .. } => "The test passed; the agent was not done.".to_owned(),
        Verdict::GatesFailed { .. } => "The agent said DONE. The test failed, so that did not \
             count, and its output\n     went into the next prompt."
            .to_owned(),
        Verdict::AttemptFailed { failure } => failure.message.clone(),
        Verdict::NothingChanged => "The agent changed nothing.".to_owned(),
        Verdict::NotHandedIn { reasons } => reasons.join(" "),
        Verdict::Incomplete { left } => format!("Here {}.", describe_incomplete(left)),
        Verdict::Blocked { blocked } => blocked.needs.clone(),
        Verdict::Reviewed { verdict, feedback } => {
            format!("The review: {}.", ReviewResult::new(*verdict, feedback).name())
        }
        Verdict::Skipped { .. } => "The task was skipped.".to_owned(),
        Verdict::Requeued { .. } => "The task starts again.".to_owned(),
        Verdict::Held { reason } => reason.clone(),
        Verdict::Compacted { .. } => "The handoffs were compacted.".to_owned(),
    }
}
