//! Commits with real git setups: identities, signatures, hooks, ref formats.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::{Value, json};

use crate::sandbox::backends;
use crate::{repository, sealed};

/// Variables that would override the committer in the configuration.
const IDENTITY: [&str; 4] =
    ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];

/// An agent that writes a file and reports completion.
fn worker() -> Value {
    json!([{ "do": [{ "append": { "path": "work.txt", "text": "work\n" } }, { "claim": "DONE" }] }])
}

/// A repository in which ralph commits, with further settings.
fn ready(sealed: Sealed, calls: &Value, further: Value) -> Sealed {
    let mut settings = json!({ "commit": "ralph" });
    for (name, value) in further.as_object().expect("an object") {
        settings[name] = value.clone();
    }
    sealed.write_script(calls, &settings);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.commit_all("Settings");
    sealed
}

fn write_home(sealed: &Sealed, name: &str, text: &str) {
    fs::write(sealed.root().join("home").join(name), text).expect("written");
}

/// Runs ralph as a user whose identity is only in configuration files.
fn ralph(sealed: &Sealed, backend: &str, global: Option<&Path>, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    for name in IDENTITY {
        command.env_remove(name);
    }
    match global {
        Some(path) => command.env("GIT_CONFIG_GLOBAL", path),
        None => command.env_remove("GIT_CONFIG_GLOBAL"),
    };
    Running::start_command(command).wait_for_end()
}

fn hook(sealed: &Sealed, name: &str, text: &str) {
    let path = sealed.project_dir().join(".git/hooks").join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).expect("a mode");
}

/// Writes a program that signs like gpg, unless a file `locked` exists next to the project.
fn signer(sealed: &Sealed) {
    let locked = sealed.root().join("locked");
    sealed.write_program(
        "test-gpg",
        &format!(
            "#!/bin/sh\ntest -e {} && {{ echo no secret key >&2; exit 2; }}\n\
             echo '[GNUPG:] SIG_CREATED ' >&2; cat >/dev/null\n\
             printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nabc\\n-----END PGP SIGNATURE-----\\n'\n",
            locked.display()
        ),
    );
    let program = sealed.bin_dir().join("test-gpg");
    sealed.run_git(&["config", "gpg.program", program.to_str().expect("text")]);
    sealed.run_git(&["config", "commit.gpgSign", "true"]);
}

#[test]
fn commits_use_the_identity_of_an_included_file() {
    const INCLUDED: &str = "[user]\n\tname = Included\n\temail = included@example.invalid\n";
    for backend in backends() {
        for global in
            ["[include]\n\tpath = ~/who\n", "[includeIf \"gitdir:/**\"]\n\tpath = ~/who\n"]
        {
            let sealed = ready(repository(), &worker(), json!({}));
            write_home(&sealed, ".gitconfig", global);
            write_home(&sealed, "who", INCLUDED);
            ralph(&sealed, backend, None, &["run", "-p", "base"]).expect_code(0);
            assert_eq!(sealed.run_git(&["log", "-1", "--format=%an %cn"]), "Included Included\n");
        }
        let sealed = ready(repository(), &worker(), json!({}));
        let elsewhere = sealed.root().join("elsewhere");
        fs::write(&elsewhere, INCLUDED).expect("written");
        ralph(&sealed, backend, Some(&elsewhere), &["run", "-p", "base"]).expect_code(0);
        assert_eq!(sealed.run_git(&["log", "-1", "--format=%an"]), "Included\n", "{backend}");
    }
}

#[test]
fn agent_commits_use_the_identity_of_an_included_file() {
    let calls = json!([{ "do": [
        { "run": { "command": "echo work > work.txt; git add -A; git commit -qm Work" } },
        { "claim": "DONE" },
    ] }]);
    for backend in backends() {
        let sealed = ready(repository(), &calls, json!({ "commit": "agent" }));
        write_home(&sealed, ".gitconfig", "[include]\n\tpath = ~/who\n");
        let who = "[user]\n\tname = Included\n\temail = included@example.invalid\n";
        write_home(&sealed, "who", who);
        ralph(&sealed, backend, None, &["run", "-p", "base"]).expect_code(0);
        assert_eq!(
            sealed.run_git(&["log", "-1", "--format=%an %s"]),
            "Included Work\n",
            "{backend}"
        );
    }
}

#[test]
fn missing_git_identity_stops_before_the_first_agent_call() {
    let sealed = ready(repository(), &worker(), json!({}));
    write_home(&sealed, ".gitconfig", "[user]\n\tuseConfigOnly = true\n");
    ralph(&sealed, "none", None, &["run", "-p", "base"])
        .expect_code(5)
        .expect_stderr("Git does not know who commits here")
        .expect_stderr("git config user.name");
    assert!(sealed.runs().is_empty(), "no run was begun");
    // Without commits no identity is needed.
    sealed.write_script(&worker(), &json!({}));
    ralph(&sealed, "none", None, &["run", "-p", "base"]).expect_code(0);
}

#[test]
fn commits_are_signed_in_a_sandbox_too() {
    for backend in backends() {
        let sealed = ready(repository(), &worker(), json!({}));
        signer(&sealed);
        let words = ["run", "-p", "base"];
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
        let end = Running::start_command(command).wait_for_end().expect_code(0);
        assert!(!end.stderr.contains("not signed"), "{backend}: {}", end.stderr);
        let commit = sealed.run_git(&["cat-file", "commit", "HEAD"]);
        assert!(commit.contains("\ngpgsig "), "{backend}: {commit}");
    }
}

#[test]
fn unusable_signing_key_is_found_before_the_first_agent_call() {
    let locks = json!([{ "do": [
        { "append": { "path": "work.txt", "text": "work\n" } },
        { "run": { "command": "touch ../locked" } },
        { "claim": "DONE" }
    ] }]);
    let sealed = ready(repository(), &locks, json!({}));
    signer(&sealed);
    let locked = sealed.root().join("locked");
    fs::write(&locked, "").expect("written");
    let first = sealed.run_ralph(&["run", "-p", "base"]).expect_code(5);
    assert!(first.stderr.contains("could not be signed"), "{}", first.stderr);
    assert!(sealed.runs().is_empty(), "no run was begun");
    fs::remove_file(&locked).expect("removed");
    let second = sealed.run_ralph(&["run", "-p", "base"]).expect_code(5);
    assert!(second.stderr.contains("no secret key"), "{}", second.stderr);
    assert_eq!(sealed.read_file("work.txt"), "work\n");
    fs::remove_file(&locked).expect("removed");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 1, "the work is not done twice");
    assert!(sealed.run_git(&["cat-file", "commit", "HEAD"]).contains("\ngpgsig "));
    assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "work\n");
}

#[test]
fn a_repository_with_reftables_takes_commits() {
    for backend in [vec!["none"], backends()].concat() {
        let sealed = sealed();
        sealed.run_git(&["init", "-q", "--ref-format=reftable", "--initial-branch=main"]);
        let sealed = ready(sealed, &worker(), json!({}));
        let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
        command.args(["run", "-p", "base"]).env("RALPH_SANDBOX_BACKEND", backend);
        let end = Running::start_command(command).wait_for_end();
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        assert_eq!(sealed.subjects(), ["ralph[1]: prompt", "Settings"], "{backend}");
        assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{backend}");
    }
}

#[test]
fn a_hook_that_is_interrupted_interrupts_the_run() {
    let sealed = ready(repository(), &worker(), json!({}));
    hook(&sealed, "pre-commit", "touch ../in-hook; test -e ../continue || sleep 60");
    let running = sealed.start_ralph(&["run", "-p", "base"]);
    sealed.wait_for("../in-hook");
    let end = running.stop_at_once().expect_code(130);
    assert!(!end.stderr.contains("set aside"), "{}", end.stderr);
    fs::write(sealed.root().join("continue"), "").expect("written");
    sealed.run_ralph(&["resume"]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "ralph[1]: prompt");
}

/// Returns what the agent of a call writes into a file before it reports completion.
fn writes(path: &str, text: &str) -> Value {
    json!([{ "write": { "path": path, "text": text } }, { "claim": "DONE" }])
}

#[test]
fn files_written_by_a_later_gate_are_checked_by_earlier_gates() {
    let calls = json!([
        { "when": { "call": 1 }, "do": writes("work.txt", "first\n") },
        { "do": writes("work.txt", "second\n") }
    ]);
    let rewrites = "test -e ../once || { touch ../once; echo broken >> work.txt; }";
    let gates = json!([{ "command": "! grep broken work.txt" }, { "command": rewrites }]);
    let sealed = ready(repository(), &calls, json!({ "gates": gates, "baseline": "off" }));
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "second\n");
    let history = sealed.run_git(&["log", "-p", "--format="]);
    assert!(!history.contains("broken"), "what failed was never committed: {history}");
    assert!(sealed.prompts()[1].contains("broken"), "{}", sealed.prompts()[1]);
}

#[test]
fn formatting_gate_causes_no_agent_call_and_is_checked() {
    let calls = json!([{ "do": writes("work.txt", "tabs\n") }]);
    let gates = json!([
        { "command": "echo x >> ../ran; test -f work.txt" },
        { "command": "sed -i s/tabs/spaces/ work.txt" }
    ]);
    let sealed = ready(repository(), &calls, json!({ "gates": gates, "baseline": "off" }));
    let end = sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "spaces\n");
    assert_eq!(sealed.find_events("asked").len(), 1);
    let ran = fs::read_to_string(sealed.root().join("ran")).expect("the gate ran");
    assert_eq!(ran, "x\nx\n", "once before the formatter, once on its result");
    assert!(end.stderr.contains("all gates run again: work.txt"), "{}", end.stderr);
}

#[test]
fn gates_that_always_change_files_fail_the_attempt_and_name_them() {
    let calls = json!([
        { "when": { "promptContains": "change each time" }, "do": [
            { "run": { "command": "rm stamp.txt; echo /stamp.txt >> .gitignore" } },
            { "claim": "DONE" }
        ] },
        { "do": writes("work.txt", "work\n") }
    ]);
    let gates = json!([{ "command": "echo x >> stamp.txt" }]);
    let sealed = ready(repository(), &calls, json!({ "gates": gates, "baseline": "off" }));
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert_eq!(sealed.find_events("asked").len(), 2);
    assert!(sealed.prompts()[1].contains("change each time gates and hooks run"));
    let files = sealed.run_git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(files.contains("work.txt") && !files.contains("stamp.txt"), "{files}");
}

/// Runs ralph with this sandbox backend.
fn inside(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

#[test]
fn files_written_by_a_commit_hook_must_pass_the_gates() {
    let gates = json!([{ "command": "! grep broken work.txt" }]);
    let further = json!({ "gates": gates, "baseline": "off" });
    let sealed = ready(repository(), &json!([{ "do": writes("work.txt", "work\n") }]), further);
    hook(
        &sealed,
        "pre-commit",
        "for f in $(git diff --cached --name-only); do echo broken >> $f; git add $f; done",
    );
    let before = sealed.run_git(&["rev-parse", "HEAD"]);
    sealed.run_ralph(&["run", "-p", "base", "-m", "2"]).expect_code(1);
    assert_eq!(sealed.run_git(&["rev-parse", "HEAD"]), before);
    assert!(sealed.prompts()[1].contains("grep broken work.txt"), "{}", sealed.prompts()[1]);
}

#[test]
fn formatting_hook_causes_no_agent_call() {
    let format = "git diff --cached --quiet && exit 0; grep -q tabs work.txt || exit 0\n\
                  sed -i s/tabs/spaces/ work.txt";
    for (what, text) in [
        ("adds and agrees", format!("{format}; git add work.txt")),
        ("refuses", format!("{format}; echo files were modified by this hook; exit 1")),
    ] {
        for backend in [vec!["none"], backends()].concat() {
            let gates = json!([{ "command": "test -f work.txt" }]);
            let further = json!({ "gates": gates, "baseline": "off" });
            let calls = json!([{ "do": writes("work.txt", "tabs\n") }]);
            let sealed = ready(repository(), &calls, further);
            hook(&sealed, "pre-commit", &text);
            let end = inside(&sealed, backend, &["run", "-p", "base"]);
            assert_eq!(end.code, Some(0), "{what}, {backend}: {}", end.stderr);
            assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "spaces\n", "{what}, {backend}");
            assert_eq!(sealed.find_events("asked").len(), 1, "{what}, {backend}");
            assert_eq!(sealed.find_events("gate_checked").len(), 2, "{what}, {backend}");
            assert_eq!(sealed.run_git(&["status", "--porcelain"]), "", "{what}, {backend}");
        }
    }
}

#[test]
fn hooks_in_the_home_run_in_a_sandbox_too() {
    for backend in backends() {
        let calls = json!([
            { "when": { "promptContains": "policy: no tabs" }, "do": writes("work.txt", "spaces\n") },
            { "do": writes("work.txt", "tabs\n") }
        ]);
        let sealed = ready(repository(), &calls, json!({}));
        let hooks = sealed.root().join("home/.githooks");
        fs::create_dir_all(&hooks).expect("made");
        fs::write(
            hooks.join("pre-commit"),
            "#!/bin/sh\n! git show :work.txt 2>/dev/null | grep -q tabs || { echo policy: no tabs; exit 1; }\n",
        )
        .expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(hooks.join("pre-commit"), mode).expect("a mode");
        sealed.run_git(&["config", "core.hooksPath", "~/.githooks"]);
        let end = inside(&sealed, backend, &["run", "-p", "base"]);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        assert_eq!(sealed.run_git(&["show", "HEAD:work.txt"]), "spaces\n", "{backend}");
        assert_eq!(sealed.find_events("asked").len(), 2, "{backend}");
    }
}

/// A hook that accepts only conventional commits.
const CONVENTIONAL: &str = "head -n 1 \"$1\" | grep -Eq '^(feat|fix|chore)(\\(.+\\))?: [a-z]' \
                            || { echo no conventional commit; exit 1; }";

#[test]
fn required_message_format_is_found_before_the_first_agent_call() {
    let sealed = ready(repository(), &worker(), json!({}));
    hook(&sealed, "commit-msg", CONVENTIONAL);
    sealed
        .run_ralph(&["run", "-p", "base"])
        .expect_code(5)
        .expect_stderr("refuses the message")
        .expect_stderr("no conventional commit")
        .expect_stderr("commitMessage");
    assert_eq!(sealed.find_events("asked").len(), 0);
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["run", "-p", "base"]).env("RALPH_COMMIT_MESSAGE", "${TYPE}: ${SUBJECT}");
    Running::start_command(command).wait_for_end().expect_code(0);
    assert_eq!(sealed.subjects()[0], "feat: prompt");
    let body = sealed.run_git(&["log", "-1", "--format=%B"]);
    assert!(body.contains("Ralph-Iteration: 1"), "{body}");
}

#[test]
fn a_message_that_is_refused_later_stops_the_run_and_loses_nothing() {
    let sealed = ready(repository(), &worker(), json!({}));
    hook(&sealed, "commit-msg", &format!("test -e work.txt || exit 0\n{CONVENTIONAL}"));
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(5).expect_stderr("commitMessage");
    assert_eq!(sealed.read_file("work.txt"), "work\n");
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(["resume"]).env("RALPH_COMMIT_MESSAGE", "${TYPE}(it${ITERATION}): ${SUBJECT}");
    Running::start_command(command).wait_for_end().expect_code(0);
    assert_eq!(sealed.subjects()[0], "feat(it1): prompt");
    assert_eq!(sealed.find_events("asked").len(), 1, "the work is not done twice");
}

#[test]
fn protected_branch_is_found_before_the_first_agent_call() {
    let sealed = ready(repository(), &worker(), json!({}));
    hook(
        &sealed,
        "pre-commit",
        "test \"$(git symbolic-ref --short HEAD)\" != main || { echo do not commit to main; exit 1; }",
    );
    sealed.run_git(&["branch", "-M", "main"]);
    sealed
        .run_ralph(&["run", "-p", "base"])
        .expect_code(5)
        .expect_stderr("refuses commits on `main`")
        .expect_stderr("git switch -c");
    assert_eq!(sealed.find_events("asked").len(), 0);
    sealed.run_git(&["switch", "-qc", "work"]);
    sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
    assert_eq!(sealed.subjects()[0], "ralph[1]: prompt");
}

#[test]
fn message_template_with_unknown_variable_is_refused() {
    let sealed = ready(repository(), &worker(), json!({ "commitMessage": "${TPYE}: x" }));
    sealed
        .run_ralph(&["run", "-p", "base"])
        .expect_code(2)
        .expect_stderr("there is no variable `${TPYE}`")
        .expect_stderr("${TYPE}");
}

/// The hook runs with what git passes to it, in the sandbox if there is one.
#[test]
fn a_push_runs_its_hook_in_the_sandbox_and_is_not_done_if_that_refuses() {
    for backend in [vec!["none"], backends()].concat() {
        let sealed = repository();
        let remote = sealed.root().join("remote.git");
        let calls = json!([
            { "when": { "role": "message" }, "do": [{ "text": "Add the work" }] },
            { "do": writes("work.txt", "work\n") }
        ]);
        sealed.write_script(
            &calls,
            &json!({ "scm": { "command": "git", "tasks": ["commit", "push -q origin HEAD"] } }),
        );
        sealed.trust_project(&[]);
        sealed.write_file(".gitignore", "/.ralph/\n/seen\n/refuse\n");
        sealed.commit_all("Settings");
        let path = remote.to_str().expect("text");
        sealed.run_git(&["init", "-q", "--bare", path]);
        sealed.run_git(&["remote", "add", "origin", path]);
        let ran = sealed.root().join("hook-ran");
        let note = format!("{{ echo \"$1 $2\"; cat; }} > seen; touch {}", ran.display());
        hook(&sealed, "pre-push", &format!("{note} 2> /dev/null; ! grep no refuse"));
        sealed.write_file("refuse", "no pushes today\n");
        let refused = inside(&sealed, backend, &["run", "-p", "base"]);
        assert_eq!(refused.code, Some(5), "{backend}: {}", refused.stderr);
        assert!(refused.stderr.contains("no pushes today"), "{backend}: {}", refused.stderr);
        assert_eq!(sealed.run_git(&["--git-dir", path, "for-each-ref"]), "", "{backend}");
        fs::remove_file(sealed.project_dir().join("refuse")).expect("removed");
        let end = inside(&sealed, backend, &["resume"]);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        let pushed = sealed.run_git(&["--git-dir", path, "log", "--all", "--format=%s"]);
        assert!(pushed.contains("Add the work"), "{backend}: {pushed}");
        let head = sealed.run_git(&["rev-parse", "HEAD"]);
        let zero = "0".repeat(40);
        let line = format!("HEAD {} refs/heads/main {zero}", head.trim());
        assert_eq!(sealed.read_file("seen"), format!("origin {path}\n{line}\n"), "{backend}");
        assert_eq!(ran.exists(), backend == "none", "{backend}");
    }
}

#[test]
fn a_push_without_verification_runs_no_hook() {
    for backend in [vec!["none"], backends()].concat() {
        let sealed = repository();
        let remote = sealed.root().join("remote.git");
        let path = remote.to_str().expect("text");
        let tasks = ["commit", "push -q --no-verify origin HEAD"];
        let scm = json!({ "command": "git", "tasks": tasks });
        let calls = json!([{ "do": writes("work.txt", "work\n") }]);
        sealed.write_script(&calls, &json!({ "scm": scm, "commitMessage": "Add" }));
        sealed.trust_project(&[]);
        sealed.write_file(".gitignore", "/.ralph/\n");
        sealed.commit_all("Settings");
        sealed.run_git(&["init", "-q", "--bare", path]);
        sealed.run_git(&["remote", "add", "origin", path]);
        hook(&sealed, "pre-push", "exit 1");
        let end = inside(&sealed, backend, &["run", "-p", "base"]);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        let pushed = sealed.run_git(&["--git-dir", path, "log", "--all", "--format=%s"]);
        assert_eq!(pushed.lines().count(), 3, "{backend}: {pushed}");
    }
}

#[test]
fn a_hook_of_git_lfs_is_not_run_in_the_sandbox_and_the_start_reports_it() {
    for backend in backends().into_iter().take(1) {
        let calls = json!([{ "do": writes("work.txt", "work\n") }]);
        let sealed = repository();
        let remote = sealed.root().join("remote.git");
        let path = remote.to_str().expect("text");
        sealed.run_git(&["init", "-q", "--bare", path]);
        sealed.run_git(&["remote", "add", "origin", path]);
        let scm = json!({ "command": "git", "tasks": ["commit", "push -q origin HEAD"] });
        sealed.write_script(&calls, &json!({ "scm": scm, "commitMessage": "Add" }));
        sealed.trust_project(&[]);
        sealed.write_file(".gitignore", "/.ralph/\n");
        sealed.commit_all("Settings");
        hook(&sealed, "pre-push", "command -v no-git-lfs && git lfs pre-push \"$@\"; exit 2");
        let end = inside(&sealed, backend, &["run", "-p", "base"]);
        assert_eq!(end.code, Some(0), "{backend}: {}", end.stderr);
        let output = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains("the pre-push hook of Git LFS does not run"), "{}", end.stderr);
    }
}

/// git's configuration may include a file of the work tree, or start one. An agent can write
/// neither where git then runs outside of the sandbox.
#[test]
fn an_agent_gives_git_no_program_to_run_outside() {
    for backend in backends() {
        for plan in ["include", "filter"] {
            let sealed = repository();
            let remote = sealed.root().join("remote.git");
            let path = remote.to_str().expect("text");
            let ran = sealed.root().join("program-ran");
            let program = format!("touch {}\nexit 1\n", ran.display());
            let config = "[remote \"origin\"]\n\treceivepack = sh ./program.sh\n";
            let calls = json!([
                { "when": { "role": "message" }, "do": [{ "text": "Add the work" }] },
                { "do": [
                    { "run": { "command": format!("printf '{program}' > program.sh; true") } },
                    { "run": { "command": format!("printf '{config}' > included; true") } },
                    { "write": { "path": "work.txt", "text": "work\n" } },
                    { "claim": "DONE" }
                ] }
            ]);
            let scm = json!({ "command": "git", "tasks": ["commit", "push -q origin HEAD"] });
            sealed.write_script(&calls, &json!({ "scm": scm }));
            sealed.trust_project(&[]);
            sealed.write_file(".gitignore", "/.ralph/\n");
            sealed.run_git(&["init", "-q", "--bare", path]);
            sealed.run_git(&["remote", "add", "origin", path]);
            if plan == "include" {
                sealed.run_git(&["config", "include.path", "../included"]);
            } else {
                sealed.write_file("program.sh", "cat\n");
                sealed.write_file(".gitattributes", "*.txt filter=f\n");
                sealed.run_git(&["config", "filter.f.clean", "sh ./program.sh"]);
            }
            sealed.commit_all("Settings");
            for _ in 0..2 {
                sealed.write_file("base.txt", "base\n");
                inside(&sealed, backend, &["run", "-p", "base", "--include-dirty", "-m", "1"]);
            }
            assert!(!ran.exists(), "{backend}, {plan}");
        }
    }
}

#[test]
fn files_that_git_ignores_changes_of_are_named_before_the_run() {
    for (mark, end) in [
        ("--skip-worktree", "--no-skip-worktree kept.txt"),
        ("--assume-unchanged", "--no-assume-unchanged kept.txt"),
    ] {
        let sealed = repository();
        sealed.write_file("kept.txt", "1\n");
        let sealed = ready(sealed, &worker(), json!({}));
        sealed.run_git(&["update-index", mark, "kept.txt"]);
        let finished = sealed.run_ralph(&["run", "-p", "Work.", "-m", "1"]).expect_code(0);
        let shown = finished.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("hides changes of `kept.txt` from git"), "{shown}");
        assert!(shown.contains(end), "{shown}");
    }
}

#[test]
fn changes_within_a_submodule_are_reported_once() {
    let sealed = repository();
    let module = sealed.root().join("module").to_string_lossy().into_owned();
    sealed.run_git(&["init", "--quiet", &module]);
    fs::write(Path::new(&module).join("m.txt"), "1\n").expect("written");
    sealed.run_git(&["-C", &module, "add", "-A"]);
    sealed.run_git(&["-C", &module, "commit", "--quiet", "-m", "Module"]);
    let allow = "protocol.file.allow=always";
    sealed.run_git(&["-c", allow, "submodule", "--quiet", "add", "--", "../module", "sub"]);
    let text = "files in the submodule `sub` are changed";
    let calls = |path: &str| {
        json!([{ "do": [
            { "append": { "path": "work.txt", "text": "work\n" } },
            { "run": { "command": format!("echo 2 >> {path}") } },
            { "text": "Did it." },
        ] }])
    };
    // The submodule's own configuration starts nothing.
    let sealed = ready(sealed, &calls("sub/m.txt"), json!({}));
    let begun = sealed.root().join("begun");
    let evil = format!("touch {}; false", begun.display());
    sealed.run_git(&["-C", "sub", "config", "core.fsmonitor", &evil]);
    let seen = sealed.run_ralph(&["run", "-p", "Work.", "-m", "2"]).expect_code(1).stderr;
    let seen = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(seen.matches(text).count(), 1, "{seen}");
    assert!(!begun.exists());
    sealed.run_git(&["-C", "sub", "config", "--unset", "core.fsmonitor"]);
    sealed.run_git(&["-C", "sub", "checkout", "--quiet", "m.txt"]);
    sealed.write_script(&calls("other.txt"), &json!({ "commit": "ralph" }));
    let seen = sealed.run_ralph(&["run", "-p", "Work.", "-m", "1"]).expect_code(1).stderr;
    assert!(!seen.contains("submodule"), "{seen}");
}
