//! Targets of a Makefile and recipes of a justfile.

use super::{ProjectCheck, ProjectDirectory};

/// Searched in this order; the first of several spellings counts.
const TARGETS: [&[&str]; 3] =
    [&["test", "tests"], &["lint"], &["typecheck", "type-check", "types"]];

/// Returns the targets that check a project.
pub(super) fn detect_targets(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let make = directory.find_first(&["GNUmakefile", "makefile", "Makefile"]);
    let found =
        make.map(|name| find_in_file(directory, name, "make", is_target)).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    let just = directory.find_first(&["justfile", "Justfile"]);
    just.map(|name| find_in_file(directory, name, "just", is_recipe)).unwrap_or_default()
}

fn find_in_file(
    directory: &ProjectDirectory<'_>,
    name: &str,
    program: &str,
    is_head: fn(line: &str, target: &str) -> bool,
) -> Vec<ProjectCheck> {
    let Some(text) = directory.read_text(name) else { return Vec::new() };
    let has = |target: &&&str| text.lines().any(|line| is_head(line, target));
    let found = |target: &str| directory.new_named(target, format!("{program} {target}"), name);
    // `check` is all that is needed if it runs the tests, or if there is no other target for them.
    let has_test = TARGETS[0].iter().any(|target| has(&target));
    if has(&&"check") && (!has_test || runs_tests(text, is_head)) {
        return vec![found("check")];
    }
    TARGETS.iter().filter_map(|names| names.iter().find(has)).map(|target| found(target)).collect()
}

/// Returns whether the target `check` names a target for tests, in its head or in its commands.
fn runs_tests(text: &str, is_head: fn(line: &str, target: &str) -> bool) -> bool {
    let names_test = |line: &str| line.split_whitespace().any(|word| TARGETS[0].contains(&word));
    let mut lines = text.lines().skip_while(|line| !is_head(line, "check"));
    let is_prerequisite = lines.next().is_some_and(names_test);
    is_prerequisite || lines.take_while(|line| line.starts_with([' ', '\t'])).any(names_test)
}

/// Returns whether a line of a Makefile begins a target: `test: build`, not `test := 1`.
pub(super) fn is_target(line: &str, target: &str) -> bool {
    let rest = line.strip_prefix(target).map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
}

/// Returns whether a line of a justfile begins a recipe: `test *args:`, `@test: build`. A recipe
/// with required arguments cannot be a gate.
fn is_recipe(line: &str, target: &str) -> bool {
    let line = line.strip_prefix('@').unwrap_or(line);
    let Some((head, rest)) = line.split_once(':') else { return false };
    let mut words = head.split_whitespace();
    words.next() == Some(target)
        && !rest.starts_with('=')
        && words.all(|word| word.starts_with('*') || word.contains('='))
}
