//! Finds the entry of a scenario for a call, and counts calls where that is needed.
//!
//! Not here: playing entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::scenario::{CallCondition, Scenario, ScenarioEntry};

/// One call as the scripted agent sees it.
#[derive(Debug)]
pub(super) struct SimCall<'a> {
    pub(super) prompt: &'a str,
    pub(super) env: &'a BTreeMap<String, String>,
}

/// How often a scenario and its entries have been played.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct PlayCounts {
    calls: u32,
    entries: BTreeMap<usize, u32>,
}

/// Picks the entry for a call, and counts it. Calls are counted only if an entry needs it, so that
/// a simple scenario leaves no file behind.
pub(super) fn pick_entry<'a>(
    scenario: &'a Scenario,
    path: &Path,
    call: &SimCall<'_>,
) -> io::Result<Option<&'a ScenarioEntry>> {
    if !needs_counts(scenario) {
        return Ok(find_entry(scenario, call, &PlayCounts::default()).map(|(_, entry)| entry));
    }
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(find_state_file(scenario, path))?;
    // Agents may run at the same time; each call gets its own number.
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut played: PlayCounts = serde_json::from_str(&text).unwrap_or_default();
    played.calls += 1;
    let found = find_entry(scenario, call, &played);
    if let Some((at, _)) = found {
        *played.entries.entry(at).or_default() += 1;
    }
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(serde_json::to_string(&played)?.as_bytes())?;
    Ok(found.map(|(_, entry)| entry))
}

/// Returns whether an entry depends on how often the scenario was played.
fn needs_counts(scenario: &Scenario) -> bool {
    scenario.calls.iter().any(|it| it.repeat.is_some() || it.when.call.is_some())
}

fn find_state_file(scenario: &Scenario, path: &Path) -> PathBuf {
    if let Some(file) = &scenario.state_file {
        return path.parent().unwrap_or(Path::new("")).join(file);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

/// Returns the file with the call counts of a scenario, if it counts calls.
pub(crate) fn find_written_state_file(path: &Path) -> Option<PathBuf> {
    let scenario = Scenario::read(path).ok()?;
    needs_counts(&scenario).then(|| find_state_file(&scenario, path))
}

fn find_entry<'a>(
    scenario: &'a Scenario,
    call: &SimCall<'_>,
    played: &PlayCounts,
) -> Option<(usize, &'a ScenarioEntry)> {
    scenario.calls.iter().enumerate().find(|(at, entry)| {
        let times = played.entries.get(at).copied().unwrap_or(0);
        entry.repeat.is_none_or(|repeat| times < repeat)
            && is_match(&entry.when, call, played.calls)
    })
}

fn is_match(when: &CallCondition, call: &SimCall<'_>, number: u32) -> bool {
    let has = |name: &str, value: &Option<String>| {
        value.as_ref().is_none_or(|value| call.env.get(name) == Some(value))
    };
    let has_number = |name: &str, value: Option<u32>| has(name, &value.map(|it| it.to_string()));
    has("RALPH_ROLE", &when.role)
        && has("RALPH_TASK", &when.task)
        && has_number("RALPH_ITERATION", when.iteration)
        && has_number("RALPH_ASK", when.ask)
        && when.call.is_none_or(|wanted| wanted == number)
        && when.prompt_contains.as_ref().is_none_or(|text| call.prompt.contains(text))
        && when.prompt_lacks.as_ref().is_none_or(|text| !call.prompt.contains(text))
        && when.file_exists.as_ref().is_none_or(|path| path.exists())
        && when.file_missing.as_ref().is_none_or(|path| !path.exists())
}
