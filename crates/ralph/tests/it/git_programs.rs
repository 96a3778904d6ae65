//! Programs that git can start: an agent names all of them wherever it can, and none of
//! them runs outside of the sandbox.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::repository;
use crate::sandbox::backends;

/// Returns the settings in the table of the product.
fn list_settings() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ralph-io/src/git/command.rs");
    let source = fs::read_to_string(source).expect("a file");
    let (_, table) = source.split_once("const STARTED_BY_GIT").expect("the table");
    let (table, _) = table.split_once("];").expect("its end");
    let names = table.lines().filter_map(|line| line.trim().strip_prefix("(\""));
    names.filter_map(|line| Some(line.split_once('"')?.0.to_owned())).collect()
}

/// Names every program in the configuration of the repository, in the file that it includes and in
/// a hook; makes git use them; and points a submodule at another git directory with filters.
fn build_plan(ran: &Path) -> Value {
    let ran = ran.display();
    let mut command = format!(
        "set +e; printf 'echo \"$0 $1\" >> {ran}; cat\\n' > evil.sh; mkdir -p .hooks; \
         for h in pre-push post-checkout reference-transaction pre-commit; do \
         printf '#!/bin/sh\\necho %s >> {ran}\\n' $h > .hooks/$h; chmod +x .hooks/$h; done; "
    );
    let settings = list_settings();
    assert!(settings.len() > 20, "{settings:?}");
    for setting in &settings {
        let value = match setting.as_str() {
            "core.hooksPath" => "$PWD/.hooks".to_owned(),
            "log.showSignature" => "true".to_owned(),
            // A value without this mark is no program.
            "alias.push" | "submodule.x.update" => format!("!sh $PWD/evil.sh {setting}"),
            _ => format!("sh $PWD/evil.sh {setting}"),
        };
        command += &format!(
            "git config --file .gitconfig {setting} \"{value}\"; git config {setting} \"{value}\"; "
        );
    }
    // Hooks by name, a transport that is a program, and the configuration of one work tree.
    for (setting, value) in [
        ("hook.x.event", "pre-push"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.pushurl", "ext::sh $PWD/evil.sh pushurl"),
        ("extensions.worktreeConfig", "true"),
    ] {
        command += &format!(
            "git config --file .gitconfig {setting} \"{value}\"; git config {setting} \"{value}\"; "
        );
    }
    command += "git config --worktree core.fsmonitor \"sh $PWD/evil.sh worktree\"; \
        git config --worktree core.hooksPath \"$PWD/.hooks\"; ";
    command += "echo '* filter=x diff=x merge=x' > .gitattributes; (cd sub && \
        cp -r ../.git/modules/sub gd && rm .git && echo 'gitdir: ./gd' > .git && \
        echo gd > gd/info/exclude && echo '* filter=x' > gd/info/attributes && \
        git config core.worktree .. && git config filter.x.clean \"sh $PWD/../evil.sh submodule\" \
        && echo changed > s.txt); true";
    json!({ "run": { "command": format!("{{ {command}; }} 2> /dev/null") } })
}

/// A repository with a remote, an included file of the work tree, and a submodule.
fn prepare(ran: &Path, sealed: &Sealed) {
    let message = json!({ "when": { "role": "message" }, "do": [{ "text": "Add the work" }] });
    let work = json!({ "append": { "path": "work.txt", "text": "work\n" } });
    let hang = json!({ "run": { "command": "test -e begun || { touch begun; exec sleep 600; }" } });
    let calls = json!([
        message,
        { "when": { "promptContains": "wait" }, "do": [build_plan(ran), work, hang, { "claim": "DONE" }] },
        { "do": [build_plan(ran), work, { "claim": "DONE" }] }
    ]);
    let scm = json!({ "command": "git", "tasks": ["commit", "push -q origin HEAD"] });
    sealed.write_script(&calls, &json!({ "scm": scm }));
    sealed.trust_project(&[]);
    sealed.write_file(".gitignore", "/.ralph/\n/begun\n");
    let remote = sealed.root().join("remote.git");
    let remote = remote.to_str().expect("text");
    sealed.run_git(&["init", "-q", "--bare", remote]);
    sealed.run_git(&["remote", "add", "origin", remote]);
    let module = sealed.root().join("module");
    let module = module.to_str().expect("text");
    sealed.run_git(&["init", "-q", module]);
    fs::write(Path::new(module).join("s.txt"), "s\n").expect("written");
    sealed.run_git(&["-C", module, "add", "--all"]);
    sealed.run_git(&["-C", module, "commit", "-q", "-m", "Module"]);
    let allow = "protocol.file.allow=always";
    sealed.run_git(&["-c", allow, "submodule", "--quiet", "add", "--", module, "sub"]);
    sealed.write_file(".gitconfig", "");
    sealed.run_git(&["config", "include.path", "../.gitconfig"]);
    sealed.run_git(&["config", "push.recurseSubmodules", "on-demand"]);
    sealed.commit_all("Settings");
}

fn start(sealed: &Sealed, backend: &str, words: &[&str]) -> Running {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command)
}

#[test]
fn no_program_that_an_agent_names_for_git_runs_outside() {
    // Landlock cannot make a file of the project read-only: see the sandbox page.
    for backend in backends().into_iter().filter(|it| *it != "landlock") {
        let sealed = repository();
        let ran = sealed.root().join("program-ran");
        prepare(&ran, &sealed);
        let check = |end: &Finished, what: &str| {
            let found = fs::read_to_string(&ran).unwrap_or_default();
            assert_eq!(found, "", "{backend}, {what}: {}", end.stderr);
        };
        for (what, words) in [
            ("commit, push and set-aside", &["run", "-p", "base", "-m", "1", "--set-aside"][..]),
            ("the next start", &["run", "-p", "base", "-m", "1", "--set-aside"]),
            ("uncommitted changes", &["run", "-p", "base", "-m", "1", "--include-dirty"]),
            ("refused for uncommitted changes", &["run", "-p", "base", "-m", "1"]),
        ] {
            sealed.write_file("users.txt", what);
            check(&start(&sealed, backend, words).wait_for_end(), what);
        }
        let running = start(&sealed, backend, &["run", "-p", "wait", "-m", "1", "--set-aside"]);
        sealed.wait_for("begun");
        check(&start(&sealed, backend, &["stop", "--now"]).wait_for_end(), "stop");
        check(&running.wait_for_end(), "the stopped run");
        for words in [&["status"][..], &["report"], &["resume", "-m", "1"], &["doctor"]] {
            check(&start(&sealed, backend, words).wait_for_end(), words[0]);
        }
    }
}
