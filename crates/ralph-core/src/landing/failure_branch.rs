//! Names of failure branches.
//!
//! Not here: making them.

use ralph_model::fingerprint::Fingerprint;
use ralph_model::ids::TaskId;

/// The prefix of every name, before the task.
const PREFIX: &str = "wip/ralph-fail-";

/// The prefix of branches that were replaced by a later attempt.
const ARCHIVE_PREFIX: &str = "wip/archive/";

/// Longer ids are cut: a name with time, number and git's `.lock` has to fit the 255
/// bytes of a file name.
const MAX_ID_BYTES: usize = 120;

/// Returns the branch for a task that failed at this local time, given as `yyyymmdd-hhmmss`.
pub fn name_failure_branch(task: &TaskId, at: &str) -> String {
    format!("{PREFIX}{}-{at}", name_ref_part(task))
}

/// Returns the name of a task in refs. Not every character of an id is allowed there, so an id
/// that is changed for it gets a mark: no two tasks share a name.
pub(crate) fn name_ref_part(task: &TaskId) -> String {
    let part = to_ref_part(&task.0);
    if part == task.0 {
        return part;
    }
    let print = Fingerprint::from_texts([task.0.as_str()]).0;
    // The first digits of short texts are alike.
    format!("{part}-{}", print.get(24..).unwrap_or(&print))
}

/// Returns whether a branch is named like a failure branch of this task. Older versions gave
/// tasks the same name whose ids differ only in characters that a name cannot have.
pub fn is_failure_branch(branch: &str, task: &TaskId) -> bool {
    let parts = [name_ref_part(task), to_ref_part(&task.0)];
    parts.iter().any(|part| is_branch_of(branch, part))
}

fn is_branch_of(branch: &str, part: &str) -> bool {
    let flat = PREFIX.replace('/', "-");
    let rest = branch.strip_prefix(PREFIX).or_else(|| branch.strip_prefix(&flat));
    let rest = rest.and_then(|rest| rest.strip_prefix(part));
    let Some(time) = rest.and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    let parts: Vec<&str> = time.split('-').collect();
    let are_numbers = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    are_numbers && matches!(lengths[..], [8, 6] | [8, 6, 1..=4])
}

/// Returns the name of a branch for a task once it is archived.
pub fn name_archive_branch(branch: &str) -> String {
    format!("{ARCHIVE_PREFIX}{}", branch.strip_prefix("wip/").unwrap_or(branch))
}

/// Returns a name without slashes, for repositories in which a branch such as `wip`
/// blocks the name.
pub fn flatten_branch_name(branch: &str) -> String {
    branch.replace('/', "-")
}

/// Converts an id to a part of a ref name: what git forbids, and what no shell or person
/// can read, becomes a dash.
fn to_ref_part(id: &str) -> String {
    let mut name = String::new();
    for character in id.chars() {
        let fits = if character.is_ascii() {
            character.is_ascii_alphanumeric() || "-_.+".contains(character)
        } else {
            !character.is_control() && !character.is_whitespace() && !is_invisible(character)
        };
        let character = if fits { character } else { '-' };
        // This rules out `..` as well.
        let is_repeated = "-.".contains(character) && name.ends_with(['-', '.']);
        if !is_repeated && name.len() + character.len_utf8() <= MAX_ID_BYTES {
            name.push(character);
        }
    }
    let name = name.trim_matches(['-', '.']);
    let name = name.strip_suffix(".lock").unwrap_or(name).trim_end_matches(['-', '.']);
    if name.is_empty() { "task".to_owned() } else { name.to_owned() }
}

/// Returns whether a character is a direction mark, a joiner or the like, which would
/// make two names look the same.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "20261114-231500";

    #[test]
    fn every_id_makes_a_valid_name() {
        for (id, expect) in [
            ("auth", "auth"),
            ("US-001", "US-001"),
            ("1.2.3", "1.2.3"),
            ("two words", "two-words"),
            ("a..b", "a.b"),
            ("~^:?*[\\@{x}", "x"),
            ("-rf", "rf"),
            (".hidden.", "hidden"),
            ("feature/login", "feature-login"),
            ("refs.lock", "refs"),
            (".lock", "lock"),
            ("größe", "größe"),
            ("任务 1", "任务-1"),
            ("a\u{202e}b\nc\u{7f}", "a-b-c"),
            ("", "task"),
            ("///", "task"),
        ] {
            let task = TaskId(id.to_owned());
            let branch = name_failure_branch(&task, AT);
            let rest = branch.strip_prefix(&format!("wip/ralph-fail-{expect}-"));
            let mark = rest.and_then(|rest| rest.strip_suffix(AT)).expect(id);
            assert_eq!(mark.len(), if expect == id { 0 } else { 9 }, "{id:?}: {branch}");
            assert!(is_failure_branch(&format!("wip/ralph-fail-{expect}-{AT}"), &task), "{id:?}");
            assert!(is_failure_branch(&branch, &task), "{id:?}");
            assert!(is_failure_branch(&format!("{branch}-2"), &task), "{id:?}");
            assert!(is_failure_branch(&flatten_branch_name(&branch), &task), "{id:?}");
        }
    }

    #[test]
    fn long_ids_are_cut_between_characters() {
        let branch = name_failure_branch(&TaskId("任".repeat(500)), AT);
        assert!(branch.starts_with(&format!("wip/ralph-fail-{}-", "任".repeat(40))), "{branch}");
        assert!(branch.len() < 200, "{branch}");
    }

    #[test]
    fn ids_that_differ_in_replaced_characters_have_different_names() {
        let [dash, slash, space] = ["a-b", "a/b", "a b"].map(|id| TaskId(id.to_owned()));
        let names = [&dash, &slash, &space].map(|task| name_failure_branch(task, AT));
        assert_eq!(names[0], format!("wip/ralph-fail-a-b-{AT}"));
        for (task, name) in [(&dash, &names[0]), (&slash, &names[1]), (&space, &names[2])] {
            for other in [&dash, &slash, &space] {
                // A name without a mark may be of any of them, as older versions made it.
                let is_of = is_failure_branch(name, other);
                assert_eq!(is_of, task == other || *task == dash, "{name} {other}");
            }
        }
    }

    #[test]
    fn branches_of_other_tasks_are_distinguished() {
        let task = TaskId("a".to_owned());
        for branch in [
            "wip/ralph-fail-a-b-20261114-231500",
            "wip/ralph-fail-ab-20261114-231500",
            "wip/ralph-fail-a-20261114-20261114-231500",
            "wip/ralph-fail-a-20261114-231500-",
            "wip/ralph-fail-a-20261114",
            "wip/ralph-fail-a",
            "wip/archive/ralph-fail-a-20261114-231500",
            "main",
        ] {
            assert!(!is_failure_branch(branch, &task), "{branch}");
        }
        let branch = name_failure_branch(&task, AT);
        assert_eq!(name_archive_branch(&branch), "wip/archive/ralph-fail-a-20261114-231500");
        let flat = name_archive_branch(&flatten_branch_name(&branch));
        assert_eq!(flat, "wip/archive/wip-ralph-fail-a-20261114-231500");
    }
}
