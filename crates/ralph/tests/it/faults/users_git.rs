//! A user who runs git in the work tree during a run: none of the user's work is lost.

use ralph_testkit::effort;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use crate::repository;

/// When the user acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum During {
    Call,
    Gate,
}

/// Two iterations of work; the first leaves time for the user to act.
fn ready(during: During, commit: &str) -> Sealed {
    let sealed = repository();
    let pause = json!({ "run": { "command": "touch ../begun; while ! test -e ../continue; do sleep 0.01; done" } });
    let mut first = vec![json!({ "write": { "path": "one.txt", "text": "1\n" } })];
    let mut settings = json!({ "commit": commit });
    match during {
        During::Call => first.push(pause),
        During::Gate => settings["gates"] = json!([pause["run"].clone()]),
    }
    first.push(json!({ "text": "One." }));
    let calls: Value = json!([
        { "when": { "iteration": 1 }, "do": first },
        { "do": [{ "write": { "path": "two.txt", "text": "2\n" } }, { "claim": "DONE" }] }
    ]);
    sealed.write_script(&calls, &settings);
    sealed.write_file(".gitignore", "/.ralph/\n");
    sealed.write_file("theirs.txt", "theirs\n");
    sealed.commit_all("Settings");
    sealed.run_git(&["branch", "other"]);
    sealed
}

/// Every commit that any ref can reach, by its subject.
fn reachable(sealed: &Sealed) -> Vec<String> {
    sealed.run_git(&["log", "--all", "--format=%s"]).lines().map(str::to_owned).collect()
}

fn files_at(sealed: &Sealed, commit: &str) -> String {
    sealed.run_git(&["ls-tree", "-r", "--name-only", commit])
}

#[test]
fn git_work_of_the_user_during_a_run_is_kept() {
    let moments = [
        (During::Call, "ralph"),
        (During::Gate, "none"),
        (During::Call, "none"),
        (During::Gate, "ralph"),
    ];
    for (during, commit) in &moments[..effort::choose_count(4, 2)] {
        for action in ["commit", "add", "checkout", "stash", "gc"] {
            let what = format!("{action} during a {during:?}, commit {commit}");
            let sealed = ready(*during, commit);
            let running = sealed.start_ralph(&["run", "-p", "base"]);
            sealed.wait_for("../begun");
            let before = act(&sealed, action);
            std::fs::write(sealed.root().join("continue"), "").expect("written");
            let end = running.wait_for_end();
            assert_eq!(end.code, Some(0), "{what}: {}", end.stderr);
            expect_kept(&sealed, action, &before, &what);
            sealed.run_git(&["fsck", "--no-dangling"]);
            assert_eq!(sealed.survivors(), [""; 0], "{what}");
        }
    }
}

/// Runs a git command as a user would; returns what must still be there at the end.
fn act(sealed: &Sealed, action: &str) -> String {
    match action {
        "commit" => {
            sealed.write_file("users.txt", "by the user\n");
            sealed.run_git(&["add", "users.txt"]);
            sealed.run_git(&["commit", "--quiet", "-m", "By the user"]);
            sealed.run_git(&["rev-parse", "HEAD"])
        }
        "add" => {
            sealed.write_file("users.txt", "by the user\n");
            sealed.run_git(&["add", "users.txt"])
        }
        "checkout" => sealed.run_git(&["checkout", "--quiet", "other"]),
        "stash" => {
            sealed.write_file("theirs.txt", "changed by the user\n");
            sealed.run_git(&["stash", "--quiet", "--", "theirs.txt"]);
            sealed.run_git(&["rev-parse", "stash@{0}"])
        }
        "gc" => sealed.run_git(&["gc", "--quiet", "--prune=now"]),
        other => panic!("{other}"),
    }
}

fn expect_kept(sealed: &Sealed, action: &str, before: &str, what: &str) {
    let refs = reachable(sealed);
    let has_file = |name: &str| sealed.project_dir().join(name).exists();
    assert!(has_file("one.txt") && has_file("two.txt"), "{what}: the work is there");
    match action {
        "commit" => {
            assert!(refs.contains(&"By the user".to_owned()), "{what}: {refs:?}");
            let commits = sealed.run_git(&["rev-list", "--all"]);
            assert!(commits.contains(before.trim()), "{what}: the commit itself is on a ref");
            assert_eq!(sealed.read_file("users.txt"), "by the user\n", "{what}");
            assert!(files_at(sealed, "HEAD").contains("users.txt"), "{what}: it is committed");
        }
        "add" => assert_eq!(sealed.read_file("users.txt"), "by the user\n", "{what}"),
        "checkout" => {
            for branch in ["main", "other"] {
                sealed.run_git(&["rev-parse", "--verify", "--quiet", branch]);
            }
        }
        "stash" => {
            assert_eq!(sealed.run_git(&["rev-parse", "stash@{0}"]), before, "{what}");
            let kept = sealed.run_git(&["show", "stash@{0}:theirs.txt"]);
            assert_eq!(kept, "changed by the user\n", "{what}");
        }
        "gc" => {}
        other => panic!("{other}"),
    }
}

#[test]
fn stale_git_lock_is_named_and_kept() {
    for lock in [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"] {
        let sealed = ready(During::Call, "ralph");
        std::fs::write(sealed.root().join("continue"), "").expect("written");
        sealed.write_file(lock, "");
        let end = sealed.run_ralph(&["run", "-p", "base"]).expect_code(5);
        let name = lock.rsplit('/').next().expect("a name");
        let reported: String = end.stderr.split_whitespace().collect();
        assert!(reported.contains(name), "{lock}: {}", end.stderr);
        assert!(end.stderr.contains("hint: another git program"), "{lock}: {}", end.stderr);
        assert_eq!(sealed.prompts(), [""; 0], "{lock}: no agent was called");
        assert!(sealed.project_dir().join(lock).exists(), "{lock}");
        std::fs::remove_file(sealed.project_dir().join(lock)).expect("removed");
        sealed.run_ralph(&["run", "-p", "base"]).expect_code(0);
        assert_eq!(sealed.subjects().len(), 4, "{lock}");
        assert_eq!(sealed.survivors(), [""; 0], "{lock}");
    }
}
