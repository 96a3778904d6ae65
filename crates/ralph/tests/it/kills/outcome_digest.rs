//! The result of a run, without what differs from run to run: ids, times, paths.

use std::fs;
use std::path::Path;

use ralph_testkit::sealed::Sealed;

/// Every commit of every branch with its message and its changes; and uncommitted changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutcomeDigest {
    commits: String,
    status: String,
    locks: Vec<String>,
    set_aside: String,
}

impl OutcomeDigest {
    /// Asserts that both are the same, and shows the first lines that differ.
    #[track_caller]
    pub(super) fn expect_same(&self, expect: &Self, reported: &str) {
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        let (ours, theirs) = (lines(&self.commits), lines(&expect.commits));
        let place = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
        let near = |lines: &[String]| {
            let from = place.saturating_sub(12);
            lines[from..lines.len().min(place + 6)].join("\n")
        };
        assert!(
            ours == theirs,
            "{reported}\nthe commits differ. There are:\n{}\nand should be:\n{}",
            near(&ours),
            near(&theirs)
        );
        assert_eq!(self, expect, "{reported}");
    }
}

/// Returns the current state.
pub(super) fn digest_outcome(sealed: &Sealed) -> OutcomeDigest {
    let branches = sealed.run_git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    let mut failure_branches: Vec<&str> =
        branches.lines().filter(|name| name.starts_with("wip/")).collect();
    failure_branches.sort_unstable();
    let log = |range: &[&str]| {
        let words = ["log", "--reverse", "--patch", "--full-index", "--no-renames", "-m"];
        sealed.run_git(&[&words[..], &["--format=commit%n%B"], range].concat())
    };
    let mut commits = log(&["main"]);
    for branch in failure_branches {
        commits.push_str(&format!("on {branch}\n{}", log(&[&format!("main..{branch}")])));
    }
    let mut locks = Vec::new();
    collect_locks(&sealed.project_dir().join(".git"), &mut locks);
    OutcomeDigest {
        commits: timeless(sealed, &commits),
        status: sealed.run_git(&[
            "status",
            "--porcelain",
            "--ignored",
            "--untracked-files=all",
            "--",
            ":!.ralph",
        ]),
        locks,
        set_aside: sealed.run_git(&["for-each-ref", "refs/ralph/set-aside"]),
    }
}

/// Removes ids of runs and of contents, which may contain a time, and the times themselves.
fn timeless(sealed: &Sealed, text: &str) -> String {
    let mut text: String = text.lines().filter(|line| !line.starts_with("index ")).fold(
        String::new(),
        |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        },
    );
    for run in sealed.runs() {
        let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text = text.replace(&id, "RUN");
    }
    unstamped(&text)
}

/// Replaces everything that looks like a date or a time: at least eight digits with separators
/// between them.
fn unstamped(text: &str) -> String {
    let mut all = String::new();
    let mut stamp = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_digit() || (!stamp.is_empty() && "-:T.Z+".contains(letter)) {
            stamp.push(letter);
            continue;
        }
        let digits = stamp.chars().filter(char::is_ascii_digit).count();
        let is_hour = digits == 4 && stamp.contains(':') && all.ends_with("TIME ");
        all.push_str(if digits >= 8 || is_hour { "TIME" } else { &stamp });
        stamp.clear();
        all.push(letter);
    }
    all
}

fn collect_locks(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_locks(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            found.push(path.display().to_string());
        }
    }
}
