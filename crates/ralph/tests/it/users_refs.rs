//! Refs that users have besides the current branch, and an agent that deletes them.

use ralph_testkit::sealed::{Finished, Running, Sealed};

use crate::sandbox::backends;

/// A command that deletes all of them.
pub(crate) const DESTROY: &str = "{ git branch -D precious; git branch -f other main; \
    git tag -d v1; git tag -f v2 main; git stash clear; git update-ref -d refs/notes/commits; \
    git reflog expire --expire=now --all; git gc -q --prune=now; } > /dev/null 2>&1";

/// The refs of a user, the stashes and the reflogs.
#[derive(Debug)]
pub(crate) struct UsersRefs {
    refs: String,
    stashes: String,
    patch: String,
    reflog: String,
    log_of_main: String,
}

impl UsersRefs {
    /// Makes branches, tags, notes and stashes whose commits are nowhere else.
    pub(crate) fn make(sealed: &Sealed) -> Self {
        let commit = |subject: &str| {
            sealed.run_git(&["commit", "--quiet", "--allow-empty", "-m", subject]);
        };
        sealed.run_git(&["checkout", "--quiet", "-b", "other"]);
        commit("Other");
        sealed.run_git(&["checkout", "--quiet", "-b", "precious", "main"]);
        commit("Precious");
        sealed.run_git(&["checkout", "--quiet", "--detach", "main"]);
        commit("Tagged");
        sealed.run_git(&["tag", "v1"]);
        sealed.run_git(&["tag", "--annotate", "-m", "Two", "v2"]);
        sealed.run_git(&["checkout", "--quiet", "main"]);
        sealed.run_git(&["notes", "add", "-m", "A note"]);
        for name in ["one", "two"] {
            sealed.write_file("README.md", &format!("# {name}\n"));
            sealed.run_git(&["stash", "push", "--quiet", "-m", name]);
        }
        Self::read(sealed)
    }

    fn read(sealed: &Sealed) -> Self {
        let places = ["refs/heads/other", "refs/heads/precious", "refs/tags", "refs/notes"];
        let format = "--format=%(refname) %(objectname)";
        let words = [&["for-each-ref", format, "refs/stash"], &places[..]].concat();
        Self {
            refs: sealed.run_git(&words),
            stashes: sealed.run_git(&["stash", "list"]),
            patch: sealed.run_git(&["stash", "show", "--patch", "stash@{1}"]),
            reflog: sealed.run_git(&["reflog", "show", "precious"]),
            log_of_main: sealed.run_git(&["reflog", "show", "--format=%H %gs", "main"]),
        }
    }

    /// Restores the refs that were moved.
    pub(crate) fn move_back(&self, sealed: &Sealed) {
        for name in ["refs/heads/other", "refs/tags/v2"] {
            let line = self.refs.lines().find(|line| line.starts_with(name)).expect("a ref");
            sealed.run_git(&["update-ref", name, &line[name.len() + 1..]]);
        }
    }

    /// Asserts that all of it is there.
    #[track_caller]
    pub(crate) fn expect_all(&self, sealed: &Sealed, about: &str) {
        let now = Self::read(sealed);
        assert_eq!(now.refs, self.refs, "{about}");
        assert_eq!(now.stashes, self.stashes, "{about}");
        assert_eq!(now.patch, self.patch, "{about}");
        assert_eq!(now.reflog, self.reflog, "{about}");
        assert!(now.log_of_main.ends_with(&self.log_of_main), "{about}: {}", now.log_of_main);
        sealed.run_git(&["fsck", "--no-progress"]);
    }
}

/// Returns all sandbox backends that work here, and none.
pub(crate) fn all_backends() -> Vec<&'static str> {
    let mut all = vec!["none"];
    all.extend(backends());
    all
}

/// Runs ralph in a backend.
pub(crate) fn ralph_in(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

/// Asserts that the output and the next prompt report what was restored.
#[track_caller]
pub(crate) fn expect_report(sealed: &Sealed, end: &Finished) {
    let report = sealed.run_ralph(&["report"]).stdout;
    let prompts = sealed.prompts();
    for name in [
        "refs/heads/precious (deleted)",
        "refs/heads/other (moved)",
        "refs/tags/v1 (deleted)",
        "refs/tags/v2 (moved)",
        "refs/stash (deleted)",
        "refs/notes/commits (deleted)",
        "the reflog of refs/heads/main (shortened)",
    ] {
        assert!(prompts[1].contains(name), "no {name:?} in {}", prompts[1]);
        assert!(report.contains("git's own files"), "{report}");
    }
    let shown = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("refs/heads/precious (deleted)"), "{}", end.stderr);
}
