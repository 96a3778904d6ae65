//! The paths that a task is expected to change, and whether two tasks share some.
//!
//! Paths that a task declares can make it wait. Guessed ones only change the order of tasks.

use std::collections::BTreeMap;

use ralph_model::task::Task;
use ralph_model::task_state::TaskState;

use crate::tasks::attempt::find_named_paths;

/// The paths that a task is expected to change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpectedPaths {
    is_declared: bool,
    ranges: Vec<PathRange>,
}

/// Whether two tasks are expected to change the same paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overlap {
    Apart,
    /// At least one of the tasks does not declare its paths.
    Guessed,
    Declared,
}

/// The part of a glob that can be compared with others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathRange {
    /// The directories, or the whole path, before the first wildcard.
    base: String,
    /// How paths end that match; empty for a directory.
    ending: String,
}

impl ExpectedPaths {
    /// Returns the paths that a task declares, if it does.
    pub fn from_declared(task: &Task) -> Option<Self> {
        let ranges = task.touches.iter().map(|glob| PathRange::from_glob(glob)).collect();
        (!task.touches.is_empty()).then_some(Self { is_declared: true, ranges })
    }

    /// Returns the paths of a task: those it declares, or else those in its text, the files of
    /// earlier attempts, and paths that were in conflict and whose names its text has.
    pub(crate) fn for_task(
        task: &Task,
        tasks: &TaskState,
        conflict_paths: &BTreeMap<String, u32>,
    ) -> Self {
        if let Some(declared) = Self::from_declared(task) {
            return declared;
        }
        let texts = [task.title.as_str(), task.description.as_str()].into_iter();
        let texts = texts.chain(task.acceptance_criteria.iter().map(String::as_str));
        let mut paths = find_named_paths(texts);
        let log = tasks.logs.get(&task.id).or_else(|| tasks.earlier.get(&task.id));
        paths.extend(log.iter().flat_map(|log| &log.recent).flat_map(|it| it.files.clone()));
        let is_named = |path: &&String| {
            task.has_mention_of(path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name))
        };
        paths.extend(conflict_paths.keys().filter(is_named).cloned());
        let ranges = paths.iter().map(|path| PathRange::from_glob(path)).collect();
        Self { is_declared: false, ranges }
    }

    /// Returns whether the paths of two tasks overlap.
    pub fn compare(&self, other: &Self) -> Overlap {
        let overlaps = |it: &PathRange| other.ranges.iter().any(|range| it.overlaps(range));
        match (self.ranges.iter().any(overlaps), self.is_declared && other.is_declared) {
            (false, _) => Overlap::Apart,
            (true, false) => Overlap::Guessed,
            (true, true) => Overlap::Declared,
        }
    }
}

impl PathRange {
    fn from_glob(glob: &str) -> Self {
        let path = glob.trim_start_matches("./").trim_start_matches('/');
        let is_wild = |it: char| "*?[{\\".contains(it);
        let Some(first) = path.find(is_wild) else {
            let base = path.trim_end_matches('/');
            let name = base.rsplit('/').next().unwrap_or_default();
            // A name without a dot is taken for a directory.
            let is_file = name.contains('.') && !path.ends_with('/');
            let ending = if is_file { base } else { "" };
            return Self { base: base.to_owned(), ending: ending.to_owned() };
        };
        let base = path[..first].rsplit_once('/').map_or("", |(base, _)| base);
        let ending = path.rfind(|it| is_wild(it) || "]}/".contains(it));
        let ending = ending.and_then(|at| path.get(at + 1..)).unwrap_or_default();
        Self { base: base.to_owned(), ending: ending.to_owned() }
    }

    /// Returns whether a path may be in both: one base contains the other, and the endings fit.
    fn overlaps(&self, other: &Self) -> bool {
        let contains = |outer: &str, inner: &str| {
            let rest = inner.strip_prefix(outer);
            outer.is_empty() || rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let is_nested = contains(&self.base, &other.base) || contains(&other.base, &self.base);
        is_nested && (self.ending.ends_with(&other.ending) || other.ending.ends_with(&self.ending))
    }
}

#[cfg(test)]
mod tests {
    use ralph_model::task::TaskList;

    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, expect: bool) {
        let range = PathRange::from_glob;
        assert_eq!(range(one).overlaps(&range(other)), expect, "{one} and {other}");
        assert_eq!(range(other).overlaps(&range(one)), expect, "{other} and {one}");
    }

    #[test]
    fn globs_overlap_if_one_may_match_paths_of_the_other() {
        for (one, other) in [
            ("src/a.rs", "src/a.rs"),
            ("src/a.rs", "./src/a.rs"),
            ("src/a.rs", "src/**"),
            ("src/a.rs", "src/*.rs"),
            ("src/a.rs", "src"),
            ("src/a.rs", "**/*.rs"),
            ("src/parser/", "src/**/*.rs"),
            ("src/{a,b}/**", "src/b/x.rs"),
            ("src/parser", "src/parser/**"),
        ] {
            check(one, other, true);
        }
        for (one, other) in [
            ("src/a.rs", "src/b.rs"),
            ("src/a.rs", "src/a.rs.bak/x.md"),
            ("src/a.rs", "src/*.md"),
            ("src/parser/**", "src/printer/**"),
            ("src/parser", "src/parser2/x.rs"),
            ("docs/**/*.md", "**/*.rs"),
        ] {
            check(one, other, false);
        }
    }

    #[test]
    fn paths_are_declared_or_else_guessed_from_text_attempts_and_conflicts() {
        let mut task = Task::new("a", "Change `src/a.rs` and lock.json");
        let tasks = TaskState::new(TaskList::default());
        let declared = |glob: &str| {
            let task = Task { touches: vec![glob.into()], ..Task::new("b", "t") };
            ExpectedPaths::from_declared(&task).expect("it declares paths")
        };
        let conflicts = BTreeMap::from([("web/lock.json".to_owned(), 1)]);
        let find = |task: &Task| ExpectedPaths::for_task(task, &tasks, &conflicts);
        assert_eq!(find(&task).compare(&declared("src/**")), Overlap::Guessed);
        assert_eq!(find(&task).compare(&declared("web/**")), Overlap::Guessed);
        assert_eq!(find(&task).compare(&declared("docs/**")), Overlap::Apart);
        task.touches = vec!["docs/".into()];
        assert_eq!(find(&task).compare(&declared("docs/x.md")), Overlap::Declared);
        assert_eq!(find(&task).compare(&declared("src/**")), Overlap::Apart);
    }
}
