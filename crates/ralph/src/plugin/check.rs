//! Finds mistakes in a copy of the plugin: JSON, names, versions, missing files.
//!
//! Claude Code silently drops much of what it does not understand. Not here: what it reports
//! itself.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::VERSION;

/// The events of Claude Code that have a hook, and what `ralph hook` calls them.
const EVENTS: [(&str, &str); 5] = [
    ("SessionStart", "session-start"),
    ("PreToolUse", "pre-tool-use"),
    ("PostToolUse", "post-tool-use"),
    ("PostToolBatch", "post-tool-batch"),
    ("Stop", "stop"),
];

/// The hooks that a run needs.
const REQUIRED_HOOKS: [&str; 4] = ["SessionStart", "PreToolUse", "PostToolBatch", "Stop"];

/// A hook blocks the agent; nothing that ralph does in one takes longer.
const MAX_TIMEOUT_SECONDS: u64 = 60;

/// Files that must exist besides the manifest.
const REQUIRED_FILES: [&str; 2] = ["README.md", "LICENSE"];

/// Returns every mistake in a directory that should hold ralph's plugin.
pub(crate) fn find_problems(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    match read_json_file(directory, ".claude-plugin/plugin.json") {
        Ok(manifest) => check_manifest(&manifest, &mut found),
        Err(problem) => found.push(problem),
    }
    match read_json_file(directory, "hooks/hooks.json") {
        Ok(hooks) => check_hooks(&hooks, &mut found),
        Err(problem) => found.push(problem),
    }
    check_skills(directory, &mut found);
    for file in REQUIRED_FILES {
        if !directory.join(file).is_file() {
            found.push(format!("{file}: there is no such file"));
        }
    }
    found
}

fn read_json_file(directory: &Path, path: &str) -> Result<Value, String> {
    let text =
        fs::read_to_string(directory.join(path)).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
}

fn check_manifest(manifest: &Value, found: &mut Vec<String>) {
    const FILE: &str = ".claude-plugin/plugin.json";
    for (field, wanted) in [("name", "ralph"), ("version", VERSION)] {
        let is = &manifest[field];
        if is != wanted {
            found.push(format!("{FILE}: `{field}` is {is}, and should be \"{wanted}\""));
        }
    }
    for (field, value) in
        [("description", &manifest["description"]), ("author.name", &manifest["author"]["name"])]
    {
        if value.as_str().is_none_or(|text| text.trim().is_empty()) {
            found.push(format!("{FILE}: `{field}` is missing"));
        }
    }
}

fn check_hooks(hooks: &Value, found: &mut Vec<String>) {
    const FILE: &str = "hooks/hooks.json";
    let Some(events) = hooks["hooks"].as_object() else {
        found.push(format!("{FILE}: `hooks` is missing"));
        return;
    };
    for needed in REQUIRED_HOOKS {
        if !events.contains_key(needed) {
            found.push(format!("{FILE}: {needed} has no hook"));
        }
    }
    if events.contains_key("PostToolUse") && events.contains_key("PostToolBatch") {
        found.push(format!("{FILE}: PostToolUse and PostToolBatch report the same tools twice"));
    }
    for (event, entries) in events {
        let Some((_, word)) = EVENTS.iter().find(|(name, _)| name == event) else {
            found.push(format!("{FILE}: `ralph hook` has no answer to {event}"));
            continue;
        };
        let commands: Vec<&Value> = entries
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|entry| entry["hooks"].as_array().into_iter().flatten())
            .collect();
        if commands.len() != 1 {
            found.push(format!(
                "{FILE}: {event} has {} commands, and should have one",
                commands.len()
            ));
        }
        for command in commands {
            let text = command["command"].as_str().unwrap_or_default();
            if command["type"] != "command" || !text.contains(&format!("hook {word} ")) {
                found
                    .push(format!("{FILE}: the hook of {event} does not call `ralph hook {word}`"));
            }
            if !text.contains("${RALPH_EXE:-ralph}") {
                found.push(format!(
                    "{FILE}: the hook of {event} may call another ralph than the run's"
                ));
            }
            let timeout = command["timeout"].as_u64().unwrap_or_default();
            if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
                found.push(format!(
                    "{FILE}: the timeout of {event} is {}, and should be 1 to {MAX_TIMEOUT_SECONDS} seconds",
                    command["timeout"]
                ));
            }
        }
    }
}

/// Checks the skills: each is a directory with a `SKILL.md` that has a name and a description.
fn check_skills(directory: &Path, found: &mut Vec<String>) {
    let skills = fs::read_dir(directory.join("skills")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        skills.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if !names.iter().any(|name| name == "ralph-plan") {
        found.push("skills/ralph-plan: there is no such skill".to_owned());
    }
    for name in names {
        let file = format!("skills/{name}/SKILL.md");
        let text = match fs::read_to_string(directory.join(&file)) {
            Ok(text) => text,
            Err(error) => {
                found.push(format!("{file}: {error}"));
                continue;
            }
        };
        if find_front_matter(&text, "name") != Some(name.as_str()) {
            found.push(format!("{file}: the `name` in front should be `{name}`"));
        }
        if find_front_matter(&text, "description").is_none_or(str::is_empty) {
            found.push(format!("{file}: there is no `description` in front"));
        }
    }
}

/// Returns a value from the front matter of a file.
fn find_front_matter<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (front, _) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    front.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::for_runs;

    #[track_caller]
    fn check(path: &str, from: &str, to: &str, expect: &[&str]) {
        let root = tempfile::tempdir().expect("a directory");
        let plugin = for_runs(root.path());
        plugin.ensure_intact().expect("written");
        let file = plugin.path().join(path);
        let text = fs::read_to_string(&file).expect("readable");
        assert!(text.contains(from), "{path} has no {from}");
        fs::write(&file, text.replacen(from, to, 1)).expect("written");
        assert_eq!(find_problems(plugin.path()), expect);
    }

    #[test]
    fn every_mistake_is_named() {
        let manifest = ".claude-plugin/plugin.json";
        let hooks = "hooks/hooks.json";
        let skill = "skills/ralph-plan/SKILL.md";
        check(
            manifest,
            "{",
            "[",
            &[".claude-plugin/plugin.json: expected `,` or `]` at line 2 column 9"],
        );
        check(
            manifest,
            "\"ralph\"",
            "\"Ralph\"",
            &[".claude-plugin/plugin.json: `name` is \"Ralph\", and should be \"ralph\""],
        );
        check(
            manifest,
            "\"name\": \"The ralph contributors\"",
            "",
            &[".claude-plugin/plugin.json: `author.name` is missing"],
        );
        check(hooks, "\"hooks\": {", "\"hook\": {", &["hooks/hooks.json: `hooks` is missing"]);
        check(
            hooks,
            "\"Stop\"",
            "\"SessionEnd\"",
            &[
                "hooks/hooks.json: Stop has no hook",
                "hooks/hooks.json: `ralph hook` has no answer to SessionEnd",
            ],
        );
        check(
            hooks,
            "hook stop",
            "hook pre-tool-use",
            &["hooks/hooks.json: the hook of Stop does not call `ralph hook stop`"],
        );
        check(
            hooks,
            "${RALPH_EXE:-ralph}",
            "ralph",
            &["hooks/hooks.json: the hook of SessionStart may call another ralph than the run's"],
        );
        check(
            hooks,
            "\"timeout\": 10",
            "\"timeout\": 600",
            &[
                "hooks/hooks.json: the timeout of SessionStart is 600, and should be 1 to 60 seconds",
            ],
        );
        check(
            skill,
            "name: ralph-plan",
            "name: plan",
            &["skills/ralph-plan/SKILL.md: the `name` in front should be `ralph-plan`"],
        );
        check(
            skill,
            "description:",
            "about:",
            &["skills/ralph-plan/SKILL.md: there is no `description` in front"],
        );
    }

    #[test]
    fn an_empty_directory_has_nothing_that_is_needed() {
        let root = tempfile::tempdir().expect("a directory");
        let found = find_problems(root.path());
        for needed in
            [".claude-plugin/plugin.json", "hooks/hooks.json", "skills/ralph-plan", "README.md"]
        {
            assert!(found.iter().any(|problem| problem.starts_with(needed)), "{needed}: {found:?}");
        }
    }
}
