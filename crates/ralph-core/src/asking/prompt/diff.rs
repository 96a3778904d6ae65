//! A change in a prompt: its files with the number of lines, and the patches that fit.
//!
//! Small files come first and generated ones last, so that one large table cannot hide the code.
//! Not here: reading the patch.

use std::fmt::Write as _;
use std::path::Path;

use ralph_model::text::{TRUNCATED, choose_plural};
use ralph_model::worktree::TreeId;

use crate::tasks::attempt::build_fence;

/// How many characters of a patch are read, to select from them.
pub const READ_PATCH: usize = 400_000;

/// How many characters of a change a reviewer is shown. The rest is in the work tree.
const SHOWN_CHANGE: usize = 30_000;

/// How many characters of one file are shown.
const SHOWN_FILE: usize = 6_000;

/// How many files are listed; reviewers skip a longer list.
const LISTED_FILES: usize = 60;

/// A longer path is cut.
const PATH_CHARS: usize = 120;

/// A file with a longer line was written by a program.
const LONGEST_LINE: usize = 1_000;

/// Folders with files that are copied or generated.
const GENERATED_FOLDERS: [&str; 8] = [
    "vendor",
    "third_party",
    "node_modules",
    "dist",
    "generated",
    "snapshots",
    "__snapshots__",
    "__generated__",
];

/// Lock files that do not end in `.lock`.
const LOCK_FILES: [&str; 4] =
    ["package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "go.sum"];

/// Names and beginnings of names of files that say what a check does.
const CHECK_FILES: [&str; 24] = [
    "makefile",
    "gnumakefile",
    "justfile",
    "taskfile.",
    "rakefile",
    "noxfile.py",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "mypy.ini",
    "ruff.toml",
    "clippy.toml",
    "tsconfig.",
    "jest.config.",
    "vitest.config.",
    "playwright.config.",
    "cypress.config.",
    "karma.conf.",
    "eslint.config.",
    ".eslintrc",
    ".mocharc",
    ".flake8",
    "phpunit.xml",
];

/// Manifests that define checks among much else.
const MANIFESTS: [&str; 4] = ["package.json", "pyproject.toml", "composer.json", "cargo.toml"];

/// A changed line of a manifest is about checks if it contains one of these.
const CHECK_HINTS: [&str; 6] = ["test", "lint", "check", "script", "jest", "harness"];

/// Folders of tests.
const TEST_FOLDERS: [&str; 6] = ["test", "tests", "spec", "specs", "__tests__", "e2e"];

/// How many changed tests are named.
const NAMED_TESTS: usize = 5;

/// The patch of one file.
struct FilePatch<'a> {
    path: String,
    text: &'a str,
    added: usize,
    removed: usize,
}

impl FilePatch<'_> {
    fn changed_lines(&self) -> impl Iterator<Item = &str> {
        let hunks = self.text.lines().skip_while(|line| !line.starts_with("@@"));
        hunks.filter(|line| line.starts_with(['+', '-']))
    }

    fn is_generated(&self) -> bool {
        let path = self.path.to_lowercase();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let is_named = name.contains(".min.")
            || [".lock", ".snap", ".map"].iter().any(|end| name.ends_with(end))
            || LOCK_FILES.contains(&name)
            || folder.split('/').any(|part| GENERATED_FOLDERS.contains(&part));
        is_named || self.text.lines().any(|line| line.len() > LONGEST_LINE)
    }

    fn defines_checks(&self) -> bool {
        let path = self.path.to_lowercase();
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_hint = |line: &str| {
            let line = line.to_lowercase();
            CHECK_HINTS.iter().any(|hint| line.contains(hint))
        };
        let is_named_as = |known: &&str| {
            let is_prefix = known.starts_with('.') || known.ends_with('.');
            if is_prefix { name.starts_with(*known) } else { name == *known }
        };
        path.starts_with(".github/workflows/")
            || Path::new(name).extension().is_some_and(|it| it == "mk")
            || CHECK_FILES.iter().any(is_named_as)
            || MANIFESTS.contains(&name) && self.changed_lines().any(is_hint)
    }

    fn is_test(&self) -> bool {
        let path = self.path.to_lowercase();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        let is_named = stem.starts_with("test_")
            || ["_test", "_spec", ".test", ".spec"].iter().any(|it| stem.ends_with(it));
        end != "md"
            && (is_named || folder.split('/').any(|part| TEST_FOLDERS.contains(&part)))
            && !self.is_generated()
    }

    fn short_path(&self) -> String {
        self.path.chars().take(PATH_CHARS).collect()
    }
}

fn split_files(patch: &str) -> Vec<FilePatch<'_>> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in patch.split_inclusive('\n') {
        // Content lines begin with a space or a sign, so only headers match.
        if line.starts_with("diff --git ") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    let texts = starts.iter().zip(ends).map(|(start, end)| &patch[*start..end]);
    texts
        .map(|text| {
            let header = text.lines().next().unwrap_or_default();
            let name = header.rsplit_once(" b/").map_or(header, |(_, name)| name);
            let mut file = FilePatch { path: name.to_owned(), text, added: 0, removed: 0 };
            let is_added = |line: &&str| line.starts_with('+');
            file.added = file.changed_lines().filter(is_added).count();
            file.removed = file.changed_lines().count() - file.added;
            file
        })
        .collect()
}

/// Returns a patch without the changes to one file. Used for the task list: ralph writes it, so
/// its changes are not part of the work.
pub fn remove_file_from_patch(patch: &str, file: &Path) -> String {
    let mut is_shown = true;
    let lines = patch.split_inclusive('\n').filter(|line| {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let name = names.trim_end().rsplit_once(" b/").map_or("", |(_, name)| name);
            is_shown = name.is_empty() || !file.ends_with(name);
        }
        is_shown
    });
    lines.collect()
}

/// Returns the lines that a patch adds to one file.
pub fn list_added_lines(patch: &str, file: &Path) -> Vec<String> {
    let files = split_files(patch);
    let of_file = files.iter().filter(|it| file.ends_with(&it.path));
    let lines = of_file.flat_map(FilePatch::changed_lines);
    lines.filter_map(|line| line.strip_prefix('+')).map(str::to_owned).collect()
}

/// Returns the command that shows a change without some files, which may have to be quoted.
pub fn format_diff_command(from: &TreeId, to: &TreeId, hidden: &[String]) -> String {
    let mut command = format!("git diff {} {}", from.0, to.0);
    for (place, file) in hidden.iter().enumerate() {
        let all = if place == 0 { " -- ." } else { "" };
        let file = file.replace('\'', "'\\''");
        let _ = write!(command, "{all} ':!{file}'");
    }
    command
}

/// Returns the files of a patch with the number of lines that were added and removed; empty
/// without files.
pub fn summarize_change(patch: &str) -> String {
    let files = split_files(patch);
    if files.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for file in files.iter().take(LISTED_FILES) {
        let _ = match (file.added, file.removed) {
            (0, 0) => writeln!(text, "{} | no text changed", file.short_path()),
            (added, removed) => writeln!(text, "{} | +{added} -{removed}", file.short_path()),
        };
    }
    let plural = choose_plural(files.len());
    let added: usize = files.iter().map(|file| file.added).sum();
    let removed: usize = files.iter().map(|file| file.removed).sum();
    let more = match files.len().saturating_sub(LISTED_FILES) {
        0 => String::new(),
        more => format!(" ({more} not listed)"),
    };
    let _ = write!(text, "{} file{plural}{more}, +{added} -{removed}", files.len());
    if patch.ends_with(TRUNCATED) {
        text.push_str("; the change is longer than what was read for this list");
    }
    text
}

/// Returns the changed files that define a check: the scripts of gates, build files with their
/// targets, and the configuration of test runners and linters.
pub fn find_check_files(patch: &str, gate_scripts: &[String]) -> Vec<String> {
    let files = split_files(patch);
    let is_check =
        |file: &&FilePatch<'_>| gate_scripts.contains(&file.path) || file.defines_checks();
    files.iter().filter(is_check).map(FilePatch::short_path).collect()
}

/// Returns the tests with lines that were removed or replaced, for a sentence; empty without any. What is
/// only added makes no test weaker.
pub fn describe_changed_tests(patch: &str) -> String {
    let files = split_files(patch);
    let changed: Vec<&FilePatch<'_>> =
        files.iter().filter(|it| it.removed > 0 && it.is_test()).collect();
    let named = changed.iter().take(NAMED_TESTS);
    let named: Vec<String> =
        named.map(|it| format!("`{}` (+{} -{})", it.short_path(), it.added, it.removed)).collect();
    let more = match changed.len().saturating_sub(NAMED_TESTS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// Returns a change as text for a reviewer: the list of files, then the patches.
pub fn format_change(patch: &str) -> String {
    let mut files = split_files(patch);
    if files.is_empty() {
        let text: String = patch.trim_end().chars().take(SHOWN_CHANGE).collect();
        return format_patch(&text);
    }
    files.sort_by_key(|file| (file.is_generated(), file.text.len()));
    let summary = summarize_change(patch);
    let mut left = SHOWN_CHANGE.saturating_sub(summary.len());
    let (mut shown, mut omitted) = (String::new(), Vec::new());
    for file in &files {
        let chars = file.text.chars().count();
        let kept: String = file.text.chars().take(SHOWN_FILE).collect();
        let kept = kept.trim_end();
        if kept.chars().count() > left {
            omitted.push(format!("`{}`", file.short_path()));
            continue;
        }
        left -= kept.chars().count();
        let _ = writeln!(shown, "{kept}");
        if chars > SHOWN_FILE {
            let _ = writeln!(shown, "[{} more characters of this file]", chars - SHOWN_FILE);
        }
    }
    let mut text = format!("{summary}\n\n{}", format_patch(shown.trim_end()));
    if !omitted.is_empty() {
        let named = omitted.iter().take(LISTED_FILES).cloned().collect::<Vec<_>>().join(", ");
        let _ = write!(text, "\n\nNot shown, look at them yourself: {named}");
        if omitted.len() > LISTED_FILES {
            let _ = write!(text, " and {} more", omitted.len() - LISTED_FILES);
        }
    }
    text
}

/// Returns a patch in a code block.
pub(super) fn format_patch(patch: &str) -> String {
    match patch.trim_end() {
        "" => String::new(),
        patch => {
            let fence = build_fence(patch);
            format!("{fence}diff\n{patch}\n{fence}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(path: &str, lines: usize, line: &str) -> String {
        let body = format!("+{line}\n").repeat(lines);
        format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n{body}")
    }

    #[test]
    fn files_are_listed_first_and_generated_ones_shown_last() {
        let lock = patch_of("Cargo.lock", 2, "x");
        let code = patch_of("src/core.rs", 3, "fn x() {}");
        expect_test::expect![[r"
            Cargo.lock | +2 -0
            src/core.rs | +3 -0
            2 files, +5 -0

            ```diff
            diff --git a/src/core.rs b/src/core.rs
            --- a/src/core.rs
            +++ b/src/core.rs
            @@ -0,0 +1 @@
            +fn x() {}
            +fn x() {}
            +fn x() {}
            diff --git a/Cargo.lock b/Cargo.lock
            --- a/Cargo.lock
            +++ b/Cargo.lock
            @@ -0,0 +1 @@
            +x
            +x
            ```"]]
        .assert_eq(&format_change(&format!("{lock}{code}")));
    }

    #[test]
    fn one_large_file_does_not_hide_the_others() {
        let large: String = (0..9)
            .map(|nth| patch_of(&format!("a/{nth}.txt"), 3_000, "a line of a table"))
            .collect();
        let code = patch_of("lib/core.py", 4, "def x(): pass");
        let text = format_change(&format!("{large}{code}"));
        assert!(text.chars().count() < SHOWN_CHANGE + 1_000, "{}", text.chars().count());
        assert!(text.contains("+def x(): pass"), "{text}");
        assert!(text.contains("more characters of this file]"), "{text}");
        assert!(text.contains("Not shown, look at them yourself: `a/4.txt`"), "{text}");
    }

    #[test]
    fn tests_are_named_if_lines_of_them_were_removed() {
        let files: String = (0..7)
            .map(|nth| patch_of(&format!("tests/{nth}.py"), 1, "x").replace("+x", "+x\n-y"))
            .collect();
        let last = "`tests/4.py` (+1 -1) and 2 more";
        assert!(
            describe_changed_tests(&files).ends_with(last),
            "{}",
            describe_changed_tests(&files)
        );
        for (path, line, expect) in [
            ("a_test.go", "+x\n-y", "`a_test.go` (+1 -1)"),
            ("src/a.spec.ts", "-y", "`src/a.spec.ts` (+0 -1)"),
            ("src/test_a.py", "-y", "`src/test_a.py` (+0 -1)"),
            ("src/a.test.ts", "+x", ""),
            ("src/latest.ts", "-y", ""),
            ("tests/__snapshots__/a.snap", "-y", ""),
            ("tests/README.md", "-y", ""),
        ] {
            let patch = patch_of(path, 1, "x").replace("+x", line);
            assert_eq!(describe_changed_tests(&patch), expect, "{path}");
        }
    }

    #[test]
    fn files_that_define_checks_are_found() {
        let scripts = ["check.sh".to_owned()];
        for (path, line, expect) in [
            ("Makefile", "x", true),
            ("sub/rules.mk", "x", true),
            ("check.sh", "x", true),
            ("package.json", "  \"test\": \"true\"", true),
            ("package.json", "  \"left-pad\": \"1.0.0\"", false),
            (".eslintrc.json", "x", true),
            ("tsconfig.json", "x", true),
            ("src/makefile_reader.rs", "x", false),
            ("src/main.rs", "test", false),
        ] {
            let found = find_check_files(&patch_of(path, 1, line), &scripts);
            assert_eq!(!found.is_empty(), expect, "{path}: {line}");
        }
    }

    #[test]
    fn the_task_list_is_no_part_of_the_work() {
        let work = "diff --git a/a b/a\n--- a/a\n+++ b/a\n+diff --git a/plan.json b/plan.json\n";
        let list = "diff --git a/ralph/tasks.json b/ralph/tasks.json\n+  \"notes\": \"\"\n";
        let other = "diff --git a/x/tasks.json b/x/tasks.json\n+x\n";
        let file = std::path::Path::new("/home/me/project/ralph/tasks.json");
        assert_eq!(
            remove_file_from_patch(&format!("{work}{list}{other}"), file),
            format!("{work}{other}")
        );
        assert_eq!(remove_file_from_patch(list, file), "");
    }
}
