//! Agents in the clones of workers: what they try on the run, on each other, and on the user.

use serde_json::json;

use super::{Cheat, HONEST, Scene, Stage, handoff, try_all};

pub(super) const CHEATS: &[Cheat] = &[
    Cheat {
        name: "weakens the script of a gate in its clone",
        scene: Scene::Own(weakens_in_a_clone),
    },
    Cheat {
        name: "reaches from its clone for the run, its state and other clones",
        scene: Scene::Own(reaches_for_others),
    },
    Cheat {
        name: "changes git's own files in its clone",
        scene: Scene::Elsewhere(
            "build/parallel_faults.rs",
            "an_agent_that_changes_gits_own_files_harms_only_its_own_attempt",
        ),
    },
    Cheat {
        name: "plants a file that a filter of yours runs in the next clone",
        scene: Scene::Elsewhere(
            "build/parallel_trust.rs",
            "a_filter_of_the_user_runs_no_file_of_an_agent",
        ),
    },
    Cheat {
        name: "leaves another agent program for the next task in its clone",
        scene: Scene::Elsewhere(
            "build/parallel_trust.rs",
            "a_program_of_the_project_that_is_in_no_commit_is_that_of_the_run",
        ),
    },
    Cheat {
        name: "leaves ignored files for the next task in its clone",
        scene: Scene::Elsewhere(
            "build/parallel_trust.rs",
            "what_an_agent_left_in_its_clone_makes_no_later_task_done",
        ),
    },
    Cheat {
        name: "writes paths, programs and commands into a job for another machine",
        scene: Scene::Elsewhere(
            "worker_hosts/git.rs",
            "a_hostile_job_reaches_nothing_on_a_machine",
        ),
    },
    Cheat {
        name: "claims on another machine that gates passed",
        scene: Scene::Elsewhere(
            "worker_hosts/git.rs",
            "gates_that_passed_on_another_machine_run_again_here",
        ),
    },
    Cheat {
        name: "reads from its clone what you hide in the project",
        scene: Scene::Elsewhere("build/parallel_trust.rs", "paths_of_the_sandbox_mean_the_clone"),
    },
    Cheat {
        name: "runs fewer tests in its clone, or sets setuid bits there",
        scene: Scene::Elsewhere("build/parallel_trust.rs", "warnings_about_the_work_reach_the_run"),
    },
];

/// Makes a list of two tasks, of which the first is done by an agent that runs a command.
fn start_two(stage: &Stage, action: &str) {
    let task = |id: &str| {
        json!({ "id": id, "title": id, "description": "Make it.", "status": "pending",
                "acceptance_criteria": ["it is there"] })
    };
    let list = json!({ "project": "p", "tasks": [task("a"), task("b")] });
    stage.sealed.write_file("plan.json", &format!("{list:#}\n"));
    let work = format!("{HONEST}; echo x > $RALPH_TASK.txt");
    let calls = json!([
        { "when": { "task": "a", "iteration": 1 },
          "do": [{ "run": { "command": format!("{}\ntrue", stage.here(action)) } }, handoff()] },
        { "do": [{ "run": { "command": work } }, handoff()] }
    ]);
    let gate = json!([{ "command": "./check.sh" }]);
    let all = json!({ "review": { "enabled": false }, "guardrails": gate, "baseline": "off" });
    stage.script(&calls, all);
}

fn weakens_in_a_clone(stage: &Stage) {
    start_two(
        stage,
        "{ rm -f check.sh; printf '#!/bin/sh\\n' > check.sh; chmod +x check.sh; } 2> /dev/null",
    );
    stage.ralph(&["build", "--jobs", "2"]).expect_code(0);
    assert_eq!(stage.sealed.read_file("check.sh"), "#!/bin/sh\ntest -f a.txt\n");
    assert_eq!(stage.made().len(), 2, "{}", stage.backend);
    stage.is_intact();
}

fn reaches_for_others(stage: &Stage) {
    let project = stage.sealed.project_dir().display().to_string();
    let empty = format!(
        "env -i PATH=\"$PATH\" HOME=\"$HOME\" XDG_STATE_HOME='{}'",
        stage.sealed.root().join("state").display()
    );
    // Without a sandbox an agent can write what the user can.
    let writes = format!(
        "for f in ../owner ../index ../../s2/owner {project}/evil {project}/.git/evil \
         {project}/.git/objects/evil @OUTSIDE/evil; do echo evil 2> /dev/null > $f; done; "
    );
    let asks = format!(
        "@RALPH -C {project} skip b; {empty} @RALPH -C {project} stop; @RALPH note evil; \
         ({empty} setsid @RALPH -C {project} note evil &); echo x > a.txt"
    );
    let action = if stage.is_sandboxed() { writes + &asks } else { asks };
    start_two(stage, &action);
    let end = stage.ralph(&["build", "--jobs", "2"]).expect_code(0);
    assert!(!end.stderr.contains("evil"), "{}", end.stderr);
    for place in ["evil", ".git/evil", ".git/objects/evil"] {
        assert!(!stage.sealed.project_dir().join(place).exists(), "{}: {place}", stage.backend);
    }
    assert_eq!(stage.sealed.read_file("b.txt"), "x\n", "{}", stage.backend);
    assert_eq!(stage.made().len(), 2, "{}", stage.backend);
    stage.is_intact();
}

#[test]
fn agents_in_clones_harm_only_their_own_attempts() {
    try_all(CHEATS);
}
