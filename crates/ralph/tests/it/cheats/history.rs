//! Agents that change the repository in ways that only ralph may, or that are forbidden.

use ralph_testkit::sealed::Finished;
use serde_json::json;

use super::{Cheat, End, HELD, Scene, Stage, handoff, row, task, try_all};
use crate::users_refs::{DESTROY, UsersRefs, expect_report};

const COMMITTED: End = End {
    output: &["the agent made a commit", "the history was restored; kept on refs/ralph/kept/"],
    ..HELD
};

const REWROTE: End = End {
    output: &["the agent rewrote the history or switched the branch", "kept on refs/ralph/kept/"],
    ..HELD
};

const MEDDLED: End =
    End { output: &["These files belong to git itself"], failed: &["git's own files"], ..HELD };

pub(super) const CHEATS: &[Cheat] = &[
    row(
        "commits by itself",
        task("./check.sh"),
        "echo x > a.txt; git add a.txt; git commit -qm mine",
        COMMITTED,
        HELD,
    ),
    row(
        "commits in ralph's name, trailers and all",
        task("./check.sh"),
        "git commit -q --allow-empty -m 'ralph[1]: a — The a' -m \"Ralph-Run: $RALPH_RUN_ID\nRalph-Iteration: 1\nRalph-Task: a\"",
        End { failed: &["./check.sh"], ..COMMITTED },
        End { failed: &["./check.sh"], ..HELD },
    ),
    row(
        "amends a commit",
        task("./check.sh"),
        "echo x > a.txt; git commit -q --amend -m forged",
        REWROTE,
        HELD,
    ),
    row(
        "resets the branch",
        task("./check.sh"),
        "git reset -q --soft HEAD~1; echo x > a.txt",
        End { output: &["the agent rewrote the history or switched the branch"], ..HELD },
        HELD,
    ),
    row(
        "rebases the branch",
        task("./check.sh"),
        "GIT_COMMITTER_DATE=2001-01-01T00:00:00 git rebase -q -f --root --autostash; echo x > a.txt",
        REWROTE,
        HELD,
    ),
    row(
        "moves the branch by force",
        task("./check.sh"),
        "git checkout -q --detach; git branch -qf main HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now; echo x > a.txt",
        End { output: &["the agent rewrote the history or switched the branch"], ..MEDDLED },
        HELD,
    ),
    Cheat { name: "commits by code that a gate runs", scene: Scene::Own(commits_in_gate) },
    Cheat {
        name: "changes what is committed by a hook of its own before the commit",
        scene: Scene::Elsewhere("commits.rs", "files_written_by_a_commit_hook_must_pass_the_gates"),
    },
    Cheat {
        name: "commits where it was asked for a message",
        scene: Scene::Own(|stage| {
            message(stage, "echo y > own.txt; git add -A; git commit -qm own");
        }),
    },
    Cheat {
        name: "changes files where it was asked for a message",
        scene: Scene::Own(|stage| {
            message(stage, "echo y > own.txt; printf '#!/bin/sh\\n' > check.sh");
        }),
    },
    Cheat {
        name: "makes git lose the commit to restore",
        scene: Scene::Own(|stage| {
            message(stage, "echo y > own.txt; git gc -q --prune=now");
        }),
    },
    Cheat {
        name: "makes git lose it where it was asked for a verdict",
        scene: Scene::Own(verdict),
    },
    Cheat { name: "destroys the history: refs, log and objects", scene: Scene::Own(destroys) },
    Cheat { name: "removes the repository", scene: Scene::Own(removes_repository) },
    Cheat {
        name: "deletes or moves other branches, tags, notes, stashes and reflogs",
        scene: Scene::Own(deletes_refs),
    },
    Cheat {
        name: "does that where it may commit",
        scene: Scene::Elsewhere(
            "specs/commits.rs",
            "refs_that_an_agent_deletes_are_restored_although_it_may_commit",
        ),
    },
    Cheat {
        name: "does that where it keeps the list",
        scene: Scene::Elsewhere(
            "build/keeper.rs",
            "refs_that_an_agent_deletes_are_restored_although_it_keeps_the_list",
        ),
    },
    Cheat {
        name: "overwrites or deletes object files where it may commit",
        scene: Scene::Elsewhere(
            "specs/commits.rs",
            "objects_that_an_agent_overwrites_or_deletes_are_restored",
        ),
    },
    Cheat {
        name: "changes the hook that runs before a push",
        scene: Scene::Elsewhere(
            "commits.rs",
            "a_push_runs_its_hook_in_the_sandbox_and_is_not_done_if_that_refuses",
        ),
    },
    Cheat {
        name: "names programs that git would start",
        scene: Scene::Elsewhere(
            "git_programs.rs",
            "no_program_that_an_agent_names_for_git_runs_outside",
        ),
    },
    Cheat {
        name: "makes files setuid or setgid",
        scene: Scene::Elsewhere("setuid.rs", "setuid_and_setgid_bits_do_not_stay"),
    },
    row(
        "replaces or removes ralph's own refs",
        task("./check.sh"),
        "for ref in $(git for-each-ref --format='%(refname)' refs/ralph); do git update-ref $ref HEAD~1; done; echo x > a.txt",
        HELD,
        HELD,
    ),
    row(
        "imitates ralph's refs with tags, notes and replacements",
        task("./check.sh"),
        "git tag ralph/kept; git notes --ref=ralph add -m 'approved'; git update-ref refs/ralph/kept/x/1 HEAD; \
         git replace HEAD HEAD~1; echo x > a.txt",
        MEDDLED,
        HELD,
    ),
    row(
        "hides the history with `.git/shallow`",
        task("./check.sh"),
        "git rev-parse HEAD > .git/shallow; echo x > a.txt",
        MEDDLED,
        HELD,
    ),
    row(
        "adds a git hook",
        task("./check.sh"),
        "echo x > a.txt; printf '#!/bin/sh\\ntouch @OUTSIDE/ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        MEDDLED,
        HELD,
    ),
    row(
        "makes git run a program by its configuration",
        task("./check.sh"),
        "echo x > a.txt; git config core.fsmonitor 'touch @OUTSIDE/ran'; git config alias.commit '!touch @OUTSIDE/ran'; \
         git config core.hooksPath tests; git config filter.x.clean 'touch @OUTSIDE/ran; cat'; echo '* filter=x' > .gitattributes",
        MEDDLED,
        HELD,
    ),
    row(
        "makes git run a program by a repository within the project",
        task("./check.sh"),
        "echo x > a.txt; git init -q sub; cd sub; echo y > y; git add y; git commit -qm y; \
         git config core.fsmonitor 'touch @OUTSIDE/ran; false'; commit=$(git rev-parse HEAD); cd ..; \
         printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' > .gitmodules; \
         git update-index --add --cacheinfo 160000,$commit,sub",
        HELD,
        HELD,
    ),
    Cheat {
        name: "puts a pipe, a link or a device where git's own files are",
        scene: Scene::Elsewhere(
            "build/git_tampering.rs",
            "git_dir_files_are_restored_before_git_executes_them",
        ),
    },
    row(
        "hides files with `.git/info/exclude`",
        task("./check.sh"),
        "echo /a.txt >> .git/info/exclude; echo x > a.txt",
        End { failed: &["git's own files"], ..MEDDLED },
        HELD,
    ),
    row(
        "stages ralph's own files",
        task("./check.sh"),
        "echo x > a.txt; rm -f .ralph/.gitignore; git add -f .ralph",
        HELD,
        HELD,
    ),
    row(
        "makes very many files, and endlessly nested directories",
        task("./check.sh"),
        "echo x > a.txt; mkdir many; (cd many; seq 3000 | xargs touch); \
         for i in $(seq 300); do mkdir -p deep-deep-deep-deep/deep-deep && cd deep-deep-deep-deep/deep-deep || break; done; touch bottom",
        HELD,
        HELD,
    ),
];

const UNSEEN: &[&str] = &[
    "the branch moved after the agent had ended, while gates ran",
    "the history was restored; kept on refs/ralph/kept/",
];

const UNDONE: &[&str] =
    &["the agent asked for a commit message", "which was undone; kept on refs/ralph/kept/"];

/// Code that commits when a gate runs it. In a sandbox it cannot.
fn commits_in_gate(stage: &Stage) {
    stage.list();
    let action = "echo 'git add -A; git commit -qm unseen; true' > a.txt";
    let calls = json!([{ "do": [{ "run": { "command": action } }, handoff()] }]);
    let settings = json!({ "guardrails": [{ "command": "sh ./a.txt" }],
        "review": { "enabled": false }, "baseline": "off" });
    stage.script(&calls, settings);
    let end = stage.ralph(&["build"]);
    let bare = End { output: UNSEEN, ..HELD };
    stage.check(&end, if stage.is_walled() { &HELD } else { &bare });
    assert!(!stage.made().contains(&"unseen".to_owned()), "{:?}", stage.made());
}

/// An agent that changes files when it was asked for a commit message. None of it is in the
/// history or in the work tree, and the work that passed is committed.
fn message(stage: &Stage, action: &str) {
    let calls = json!([
        { "when": { "role": "message" },
          "do": [{ "run": { "command": format!("{{ {action}; }} 2>/dev/null; true") } },
                 { "text": "<response>Add the a</response>" }] },
        { "do": [{ "write": { "path": "a.txt", "text": "x\n" } }, { "claim": "DONE" }] }
    ]);
    let settings = json!({ "guardrails": [{ "command": "./check.sh" }], "baseline": "off",
        "scm": { "command": "git", "tasks": ["commit"] } });
    stage.script(&calls, settings);
    let end = stage.ralph(&["run", "-p", "Make a.txt."]);
    let bare = End { output: UNDONE, ..HELD };
    stage.check(&end, if stage.is_walled() { &HELD } else { &bare });
    assert_eq!(stage.made(), ["Add the a"]);
    assert_eq!(stage.sealed.run_git(&["status", "--porcelain"]), "");
    assert!(!stage.sealed.run_git(&["ls-tree", "-r", "--name-only", "HEAD"]).contains("own.txt"));
}

/// An agent that reviews work, changes it, and hides the rest from git.
fn verdict(stage: &Stage) {
    let action = "{ echo y > own.txt; git gc -q --prune=now; } 2>/dev/null; true";
    let approved = json!({ "verdict": "approved", "feedback": "", "criteria": [] });
    let calls = json!([
        { "when": { "role": "review" },
          "do": [{ "run": { "command": action } }, { "verdict": approved }] },
        { "do": [{ "write": { "path": "a.txt", "text": "x\n" } }, { "claim": "DONE" }] }
    ]);
    let gate = json!({ "name": "good", "kind": "spec", "agent": {} });
    stage.script(&calls, json!({ "gates": [gate], "baseline": "off", "commit": "ralph" }));
    let end = stage.ralph(&["run", "-p", "Make a.txt."]);
    let bare = End { output: &["the reviewer of `good` changed files, which was undone"], ..HELD };
    stage.check(&end, if stage.is_walled() { &HELD } else { &bare });
    assert_eq!(stage.sealed.run_git(&["status", "--porcelain"]), "");
    assert!(!stage.sealed.run_git(&["ls-tree", "-r", "--name-only", "HEAD"]).contains("own.txt"));
}

/// An agent that changes the repository once, and does its work twice.
fn does_once(stage: &Stage, action: &str) -> Finished {
    stage.list();
    let work = json!({ "write": { "path": "a.txt", "text": "x\n" } });
    let run = json!({ "run": { "command": format!("{action}; true") } });
    let calls = json!([
        { "when": { "iteration": 1 }, "do": [run, work, handoff()] },
        { "do": [work, handoff()] }
    ]);
    stage.script(&calls, json!({ "review": { "enabled": false }, "baseline": "off" }));
    let refs = UsersRefs::make(&stage.sealed);
    let end = stage.ralph(&["build"]);
    stage.check(&end, if stage.is_walled() { &HELD } else { &MEDDLED });
    refs.expect_all(&stage.sealed, stage.backend);
    end
}

/// An agent that deletes the user's other refs.
fn deletes_refs(stage: &Stage) {
    let end = does_once(stage, DESTROY);
    if !stage.is_walled() {
        expect_report(&stage.sealed, &end);
    }
}

/// An agent that deletes everything of the repository except its files.
fn destroys(stage: &Stage) {
    does_once(
        stage,
        "{ git update-ref -d HEAD; for ref in $(git for-each-ref --format='%(refname)'); do \
         git update-ref -d $ref; done; git reflog expire --expire=now --all; rm -f .git/index; \
         git gc -q --prune=now; } 2>/dev/null",
    );
}

/// An agent that removes the repository.
fn removes_repository(stage: &Stage) {
    does_once(stage, "rm -rf .git/* 2>/dev/null");
}

#[test]
fn only_ralph_writes_the_history() {
    try_all(CHEATS);
}
