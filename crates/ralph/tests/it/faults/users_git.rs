//! A user who runs git in the work tree during a run: none of the user's work is lost.

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
    let pause = json!({ "run": { "command": "touch ../begun; while ! test -e ../go-on; do sleep 0.01; done" } });
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
    sealed.script(&calls, &settings);
    sealed.write(".gitignore", "/.ralph/\n");
    sealed.write("theirs.txt", "theirs\n");
    sealed.git(&["add", "-A"]);
    sealed.git(&["commit", "-qm", "Settings"]);
    sealed.git(&["branch", "other"]);
    sealed
}

/// Every commit that any ref can reach, by its subject.
fn reachable(sealed: &Sealed) -> Vec<String> {
    sealed.git(&["log", "--all", "--format=%s"]).lines().map(str::to_owned).collect()
}

fn files_at(sealed: &Sealed, commit: &str) -> String {
    sealed.git(&["ls-tree", "-r", "--name-only", commit])
}

#[test]
fn git_work_of_the_user_during_a_run_is_kept() {
    for during in [During::Call, During::Gate] {
        for commit in ["ralph", "none"] {
            for deed in ["commit", "add", "checkout", "stash", "gc"] {
                let what = format!("{deed} during a {during:?}, commit {commit}");
                let sealed = ready(during, commit);
                let running = sealed.start(&["run", "-p", "base"]);
                sealed.wait_for("../begun");
                let before = act(&sealed, deed);
                std::fs::write(sealed.root().join("go-on"), "").expect("written");
                let end = running.wait();
                assert_eq!(end.code, Some(0), "{what}: {}", end.stderr);
                expect_kept(&sealed, deed, &before, &what);
                sealed.git(&["fsck", "--no-dangling"]);
                assert_eq!(sealed.survivors(), [""; 0], "{what}");
            }
        }
    }
}

/// Runs a git command as a user would; returns what must still be there at the end.
fn act(sealed: &Sealed, deed: &str) -> String {
    match deed {
        "commit" => {
            sealed.write("users.txt", "by the user\n");
            sealed.git(&["add", "users.txt"]);
            sealed.git(&["commit", "--quiet", "-m", "By the user"]);
            sealed.git(&["rev-parse", "HEAD"])
        }
        "add" => {
            sealed.write("users.txt", "by the user\n");
            sealed.git(&["add", "users.txt"])
        }
        "checkout" => sealed.git(&["checkout", "--quiet", "other"]),
        "stash" => {
            sealed.write("theirs.txt", "changed by the user\n");
            sealed.git(&["stash", "--quiet", "--", "theirs.txt"]);
            sealed.git(&["rev-parse", "stash@{0}"])
        }
        "gc" => sealed.git(&["gc", "--quiet", "--prune=now"]),
        other => panic!("{other}"),
    }
}

fn expect_kept(sealed: &Sealed, deed: &str, before: &str, what: &str) {
    let refs = reachable(sealed);
    let has_file = |name: &str| sealed.project().join(name).exists();
    assert!(has_file("one.txt") && has_file("two.txt"), "{what}: the work is there");
    match deed {
        "commit" => {
            assert!(refs.contains(&"By the user".to_owned()), "{what}: {refs:?}");
            let commits = sealed.git(&["rev-list", "--all"]);
            assert!(commits.contains(before.trim()), "{what}: the commit itself is on a ref");
            assert_eq!(sealed.read("users.txt"), "by the user\n", "{what}");
            assert!(files_at(sealed, "HEAD").contains("users.txt"), "{what}: it is committed");
        }
        "add" => assert_eq!(sealed.read("users.txt"), "by the user\n", "{what}"),
        "checkout" => {
            for branch in ["main", "other"] {
                sealed.git(&["rev-parse", "--verify", "--quiet", branch]);
            }
        }
        "stash" => {
            assert_eq!(sealed.git(&["rev-parse", "stash@{0}"]), before, "{what}");
            let kept = sealed.git(&["show", "stash@{0}:theirs.txt"]);
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
        std::fs::write(sealed.root().join("go-on"), "").expect("written");
        sealed.write(lock, "");
        let end = sealed.ralph(&["run", "-p", "base"]).expect_code(5);
        let name = lock.rsplit('/').next().expect("a name");
        let reported: String = end.stderr.split_whitespace().collect();
        assert!(reported.contains(name), "{lock}: {}", end.stderr);
        assert!(sealed.project().join(lock).exists(), "{lock}");
        std::fs::remove_file(sealed.project().join(lock)).expect("removed");
        sealed.ralph(&["resume"]).expect_code(0);
        assert_eq!(sealed.subjects().len(), 4, "{lock}");
        assert_eq!(sealed.survivors(), [""; 0], "{lock}");
    }
}
