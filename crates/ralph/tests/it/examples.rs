//! The examples of the repository do what their READMEs describe, with the commands listed there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use ralph_testkit::sealed::{Finished, Running, Sealed};

use crate::build::{assert_clean, assert_statuses};
use crate::sealed;

/// Returns a copy of an example, with the sandbox that users have by default.
fn example(name: &str) -> Sealed {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("an example") {
            let entry = entry.expect("an entry");
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).expect("copied");
            }
        }
    }
    let sealed = sealed().with_sandbox();
    copy(&examples().join(name), &sealed.project_dir());
    symlink(env!("CARGO_BIN_EXE_ralph"), sealed.bin_dir().join("ralph"))
        .expect("ralph on the PATH");
    sealed
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs the commands in the README of an example, line by line; every line must succeed.
#[track_caller]
fn follow(sealed: &Sealed, lines: &[&str]) -> Vec<Finished> {
    let readme = sealed.read_file("README.md");
    let (_, block) = readme.split_once("```sh\n").expect("commands in the README");
    let (block, _) = block.split_once("```").expect("an end of the commands");
    assert_eq!(block.lines().collect::<Vec<_>>(), lines, "the README has other commands");
    let run = |line: &&str| {
        let mut command = sealed.build_command("sh");
        command.args(["-c", line]);
        Running::start_command(command).wait_for_end().expect_code(0)
    };
    lines.iter().map(run).collect()
}

/// The subjects of what the runs committed, oldest first.
fn made(sealed: &Sealed) -> Vec<String> {
    let mut subjects = sealed.subjects();
    subjects.reverse();
    subjects.split_off(1)
}

const BEGIN: &str = "git init && git add -A && git commit -m Begin";

#[test]
fn every_example_is_listed_and_says_how_to_try_it() {
    let list = fs::read_to_string(examples().join("README.md")).expect("a list");
    let mut count = 0;
    for entry in fs::read_dir(examples()).expect("examples").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        if entry.path().is_dir() {
            count += 1;
            assert!(list.contains(&format!("]({name}/)")), "{name}");
            let readme = fs::read_to_string(entry.path().join("README.md")).expect("a README");
            assert!(readme.contains(BEGIN) && readme.contains("For real work"), "{name}");
        }
    }
    assert_eq!(count, list.lines().filter(|line| line.contains("/): ")).count());
}

#[test]
fn guardrail_failures_reach_the_prompt() {
    let sealed = example("guarded-prompt");
    let ended = follow(
        &sealed,
        &[
            BEGIN,
            "git init --bare ../convert.git",
            "git remote add origin ../convert.git && git push -u origin HEAD",
            "ralph run -f PROMPT.md",
        ],
    );
    let end = ended.last().expect("a run");
    assert!(end.stderr.contains("the agent said SHIPPED"), "{}", end.stderr);
    let messages =
        ["Convert between Celsius and Fahrenheit", "Show how to convert in both directions"];
    assert_eq!(made(&sealed), messages);
    assert_clean(&sealed);
    let pushed = sealed.run_git(&["rev-parse", "@{upstream}"]);
    assert_eq!(pushed, sealed.run_git(&["rev-parse", "HEAD"]));
    let checks = "These checks run after you, and all must pass:\n- `sh -n convert.sh`\n- `sh tests.sh`\n- `! grep -nE '.{73}' convert.sh`\n\nProtected (an attempt that changes one of these fails): `tests.sh`, `PROMPT.md`, and the settings of ralph.";
    let task = format!("{}\n\n{checks}", sealed.read_file("PROMPT.md").trim_end());
    let prompts = sealed.prompts();
    let [first, replaced, prepended, appended, _, last, _] = &prompts[..] else {
        panic!("{prompts:#?}");
    };
    assert_eq!(first, &format!("Iteration 1 of 8, 7 remaining.\n\n{task}"));
    assert!(!replaced.contains("# Convert temperatures"), "{replaced}");
    assert!(replaced.contains("\nHint: Fix the syntax and nothing else."), "{replaced}");
    assert!(prepended.ends_with(&format!("... [truncated]\n\n{task}")), "{prepended}");
    let start =
        format!("Iteration 4 of 8, 4 remaining.\n\n{task}\n\n## What failed\nGuardrail \"! grep");
    assert!(appended.starts_with(&start), "{appended}");
    assert_eq!(last, &format!("Iteration 5 of 8, 3 remaining.\n\n{task}"));
}

#[test]
fn specifications_are_planned_built_and_tidied() {
    let sealed = example("specs");
    let ended = follow(
        &sealed,
        &[
            BEGIN,
            "ralph plan --config config",
            "ralph build 20 --config config",
            "ralph prompt prompts/tidy.md 5 --config config",
        ],
    );
    assert_eq!(
        made(&sealed),
        [
            "Plan the numerals",
            "Plan the errors",
            "Print every number from 1 to 3999",
            "Refuse what is no number from 1 to 3999",
            "Show how to use roman.sh",
            "Break long lines",
        ]
    );
    assert_clean(&sealed);
    let build = &ended[2].stderr;
    for reported in ["1 item is open", "There are uncommitted changes", "Plan: 3 of 3 items done"] {
        assert!(build.contains(reported), "{build}");
    }
    assert!(!sealed.read_file(".ralph/implementation_plan.md").contains("- [ ]"));
    let long = |line: &str| line.chars().count() > 60;
    assert!(!sealed.read_file("roman.sh").lines().any(long));
    let prompts = sealed.prompts();
    assert_eq!(prompts.len(), 2);
    assert!(prompts[0].contains("lines of more than 60 characters"), "{}", prompts[0]);
    assert!(prompts[1].contains("This is turn 2 of at most 5."), "{}", prompts[1]);
}

#[test]
fn the_orchestrator_rolls_back_and_amends_its_plan() {
    let sealed = example("orchestrator");
    follow(&sealed, &[BEGIN, "ralph build"]);
    assert_eq!(
        made(&sealed),
        [
            "ralph[2]: TASK-001 — Add numbers",
            "ralph[3]: TASK-003 — Double a number",
            "ralph[4]: TASK-002 — Say how to use it"
        ]
    );
    assert_statuses(&sealed, &[("TASK-001", "done"), ("TASK-003", "done"), ("TASK-002", "done")]);
    assert_clean(&sealed);
    let kept = sealed.run_git(&["for-each-ref", "--format=%(refname)", "refs/ralph/kept"]);
    let [kept] = &kept.lines().collect::<Vec<_>>()[..] else { panic!("{kept}") };
    assert!(sealed.run_git(&["show", &format!("{kept}:lib/add.sh")]).contains("XXX"));
    assert!(sealed.prompts()[1].contains("FAIL  lib/add.sh 1 2 3: wanted 6, got 3"));
    assert!(sealed.read_file(".ralph/logs/amendments.log").contains("add TASK-003 after TASK-001"));
    assert!(sealed.read_file(".ralph/handoffs/handoff-004.json").contains("USAGE.md"));
}

#[test]
fn stories_are_planned_kept_by_the_agent_reviewed_and_archived() {
    let sealed = example("reviewed-stories");
    let lines = [BEGIN, "ralph plan", "ralph build", "ralph archive --label slugs"];
    let ended = follow(&sealed, &lines);
    let end = &ended[2];
    assert!(end.stderr.contains("reverted in the task list: Story `US-002`"), "{}", end.stderr);
    let made = made(&sealed);
    assert_eq!(
        made[..9],
        [
            "ralph[1]: plan — 2 stories for Slugs",
            "feat: [US-001] - Print the slug of a title",
            "review: [US-001] - changes requested",
            "fix: [US-001] - address review feedback",
            "review: [US-001] - approved",
            "feat: [US-002] - Show how to use it",
            "ralph[5]: the list after US-002 — Show how to use it",
            "feat: [US-002] - Show how to use it, twice",
            "review: [US-002] - approved",
        ]
    );
    assert_eq!(made.len(), 10);
    let archive = fs::read_dir(sealed.project_dir().join("ralph-archive"));
    let archive = archive.expect("an archive").next().expect("one").expect("an entry").path();
    let kept = |name: &str| fs::read_to_string(archive.join(name)).expect(name);
    assert!(kept("summary.md").contains("## Completed: 2/2 tasks"), "{}", kept("summary.md"));
    let list: Value = serde_json::from_str(&kept("tasks.json")).expect("JSON");
    let counts: Vec<&Value> = (list["userStories"].as_array().expect("stories").iter())
        .map(|story| &story["reviewCount"])
        .collect();
    assert_eq!(counts, [&json!(2), &json!(1)]);
    assert!(kept("progress.txt").contains("- US-001 (fix): hyphens at the ends are cut"));
    assert_clean(&sealed);
}

#[test]
fn parallel_tasks_land_one_by_one_and_a_conflict_is_resolved() {
    let sealed = example("parallel");
    follow(&sealed, &["git init && git add -A && git commit -m Begin", "ralph build"]);
    let done = ["count", "longest", "upper", "all"].map(|id| (id, "done"));
    assert_statuses(&sealed, &done);
    let list = sealed.read_file("README.txt");
    assert!(list.contains("count.sh") && list.contains("longest.sh"), "{list}");
    let made = made(&sealed);
    assert_eq!(made.len(), 4, "{made:?}");
    assert!(made[3].contains("all"), "{made:?}");
    let merged = sealed.find_events("candidate_merged");
    assert!(merged.iter().any(|it| it["outcome"]["is"] == "conflict"), "{merged:?}");
    assert_clean(&sealed);
}

#[test]
fn gated_tasks_escalate_and_are_judged() {
    let sealed = example("gated-tasks");
    follow(&sealed, &[BEGIN, "ralph build"]);
    assert_eq!(
        made(&sealed),
        ["ralph[5]: count — Count words", "ralph[6]: longest — Find the longest word"]
    );
    assert_statuses(&sealed, &[("count", "done"), ("longest", "done")]);
    assert_clean(&sealed);
    let prompts = sealed.prompts();
    let shifted: Vec<usize> =
        (0..prompts.len()).filter(|at| prompts[*at].contains("## The same failure ")).collect();
    assert_eq!(shifted, [3]);
    let reported = "count.sh: empty input gives nothing, not 0.";
    assert!(prompts.iter().any(|prompt| prompt.contains(reported)));
    let checked = sealed.find_events("gate_checked");
    let soft = checked.iter().filter(|event| event["result"]["gate"] == json!("quality"));
    assert!(soft.clone().count() == 2 && soft.clone().all(|it| it["result"]["status"] == "failed"));
    assert_eq!(sealed.read_file("count.sh"), "wc -w | tr -d ' '\n");
}

/// Returns the directory of the files that the guide offers for copying.
fn files_to_copy() -> PathBuf {
    examples().join("../docs/files")
}

/// Returns the script of a step of the workflow for CI.
fn ci_step(name: &str) -> String {
    let workflow = fs::read_to_string(files_to_copy().join("ci/ralph.yml")).expect("a workflow");
    let step = workflow.split("      - name: ").find(|it| it.starts_with(&format!("{name}\n")));
    let (_, script) = step.expect(name).split_once("run: |\n").expect("a script");
    let lines = script.lines().take_while(|line| line.starts_with("          "));
    lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_workflow_for_ci_builds_a_list_and_opens_a_pull_request() {
    let sealed = example("gated-tasks");
    sealed.run_git(&["init", "--quiet", "--initial-branch", "main"]);
    sealed.commit_all("Begin");
    let remote = sealed.root().join("remote.git");
    sealed.run_git(&["init", "--bare", "--quiet", &remote.to_string_lossy()]);
    sealed.run_git(&["remote", "add", "origin", &remote.to_string_lossy()]);
    let gh = "#!/bin/sh\necho \"$*\" >> \"$RUNNER_TEMP/gh\"\ntest \"$2\" = create\n";
    sealed.write_program("gh", gh);
    for name in ["Build", "Report", "Pull request"] {
        let script = ci_step(name).replace("ralph doctor", "ralph doctor || true");
        let mut command = sealed.build_command("bash");
        command
            .args(["-e", "-c", &script])
            .env("BRANCH", "ralph/work")
            .env("RUNNER_TEMP", sealed.root())
            .env("GITHUB_STEP_SUMMARY", sealed.root().join("summary.md"));
        let end = Running::start_command(command).wait_for_end();
        assert_eq!(end.code, Some(0), "{name}: {}{}", end.stdout, end.stderr);
    }
    let remote = remote.to_string_lossy();
    let pushed = sealed.run_git(&["--git-dir", &remote, "log", "--format=%s", "ralph/work"]);
    assert!(pushed.contains("ralph["), "{pushed}");
    let calls = fs::read_to_string(sealed.root().join("gh")).expect("calls");
    assert!(calls.contains("pr create --head ralph/work --title Work by ralph"), "{calls}");
    for file in ["summary.md", "report.md"] {
        let report = fs::read_to_string(sealed.root().join(file)).expect("a report");
        assert!(report.contains("# "), "{file}: {report}");
    }
}

#[test]
fn files_for_editors_and_containers_are_valid() {
    for file in ["vscode/tasks.json", "container/.devcontainer/devcontainer.json"] {
        let text = fs::read_to_string(files_to_copy().join(file)).expect("a file");
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let tasks = fs::read_to_string(files_to_copy().join("vscode/tasks.json")).expect("a file");
    let tasks: Value = serde_json::from_str(&tasks).expect("JSON");
    for task in tasks["tasks"].as_array().expect("tasks") {
        let command = task["args"][0].as_str().expect("a command");
        sealed().run_ralph(&[command, "--help"]).expect_code(0);
    }
    assert!(files_to_copy().join("container/.devcontainer/../Containerfile").exists());
}
