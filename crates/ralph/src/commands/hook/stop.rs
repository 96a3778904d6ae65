//! `ralph hook stop`: checks the state when an agent wants to stop, and may block the stop.

use std::path::Path;
use std::time::Duration;

use ralph_core::active::Active;
use ralph_core::rules::Snapshot;
use ralph_core::stopping::{self, Found, Look, Objections};
use ralph_core::text;
use ralph_io::formats::TaskFile;
use ralph_io::git::{Discovery, Repository};
use ralph_io::process::Watch;
use ralph_io::store::active;
use serde_json::{Value, json};

use super::Input;
use super::session::{Run, Whose, whose};

/// The agent waits for the answer; ralph itself checks a repository that is slower than this.
const GIT_PATIENCE: Duration = Duration::from_secs(10);

/// Claude Code overrules a hook that blocks more often than this in a row.
const USUAL_CAP: u32 = 8;

/// The hook stops blocking this many blocks earlier, so that the session ends normally and is not
/// forced to end.
const MARGIN: u32 = 2;

/// Claude Code shows each line of a remark separately, so a remark has one line; ralph reports the
/// rest when it judges.
const LONGEST_REMARK: usize = 1000;

/// Answers an agent that wants to stop.
pub(super) fn answer(bytes: &[u8]) -> Option<Value> {
    let input = Input::read(bytes)?;
    let run = match whose(&input.session_id) {
        Whose::Own(run) => run,
        Whose::Foreign => return None,
        Whose::Unknown(problem) => return Some(json!({ "systemMessage": problem })),
    };
    let looks = stopping::looks(&run.active);
    if (looks.tasks, looks.tree) == (Look::Spared, Look::Spared) {
        return None;
    }
    let active = with_snapshot(&run);
    let mut found = Found::default();
    let mut remarks = Vec::new();
    if let (Look::Needed, Some(file)) = (looks.tasks, &active.tasks_file) {
        (found.list, found.mistakes) = tasks(file, &active);
    }
    if looks.tree == Look::Needed {
        match uncommitted(&active) {
            Ok(paths) => found.uncommitted = paths,
            Err(message) => remarks.push(format!("ralph's hook cannot look at git: {message}")),
        }
    }
    let objections = stopping::object(&active, &found);
    remarks.extend(objections.remarks.iter().cloned());
    said(&input, &run, &objections, remarks)
}

/// Returns the answer: a block while blocks are left, and remarks for the user.
fn said(
    input: &Input,
    run: &Run,
    objections: &Objections,
    mut remarks: Vec<String>,
) -> Option<Value> {
    let mut answer = json!({});
    if let Some(reason) = objections.reason() {
        let cap = std::env::var("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").ok();
        let cap = cap.and_then(|cap| cap.trim().parse().ok()).unwrap_or(USUAL_CAP);
        let most = cap.saturating_sub(MARGIN).max(1);
        let notebook = input.notebook(Some(run));
        let has_block_left = notebook.and_then(|notebook| {
            notebook.change(|notes| {
                let has_one = notes.blocks < most;
                notes.blocks += u32::from(has_one);
                Some(has_one)
            })
        });
        // If blocks cannot be counted, block once.
        if has_block_left.unwrap_or(!input.stop_hook_active) {
            answer["decision"] = "block".into();
            answer["reason"] = reason.into();
        } else {
            remarks.push(format!(
                "ralph's hook lets this session stop despite open objections; ralph judges the \
                 iteration by itself. {}",
                objections.reasons.join(" ")
            ));
        }
    }
    if !remarks.is_empty() {
        answer["systemMessage"] = text::one_line(&remarks.join(" "), LONGEST_REMARK).into();
    }
    answer.as_object().is_some_and(|answer| !answer.is_empty()).then_some(answer)
}

/// Returns the active run with its snapshot, if that can be read.
fn with_snapshot(run: &Run) -> Active<Snapshot> {
    let whole: Option<Active> = active::read(&run.file).ok();
    let same = whole.filter(|whole| whole.session == run.active.session);
    same.unwrap_or_else(|| run.active.clone().with_snapshot(None))
}

/// Reads the task list, ignoring mistakes that the rules report themselves.
fn tasks(file: &Path, active: &Active) -> (Option<ralph_core::task::TaskList>, Vec<String>) {
    let (list, mut problems) = TaskFile::read_in_spite(file);
    if list.is_some() {
        problems.retain(|problem| {
            let field = problem.at.rsplit('.').next().unwrap_or_default();
            !field.starts_with("review")
        });
    }
    let here = active.project.as_ref().map(|project| format!("{}/", project.display()));
    let shown = |text: String| match &here {
        Some(here) => text.replace(here, "").replace('\n', " "),
        None => text,
    };
    (list, problems.iter().map(|problem| shown(problem.to_string())).collect())
}

/// Returns the uncommitted paths, without ralph's own files.
fn uncommitted(active: &Active) -> Result<Vec<String>, String> {
    let Some(project) = &active.project else { return Ok(Vec::new()) };
    let env = std::env::vars_os().collect();
    let found = Repository::discover_within(project, env, Watch::detached(), GIT_PATIENCE);
    let Discovery::Repository(repository) = found.map_err(|error| error.message)? else {
        return Ok(Vec::new());
    };
    let dirty = repository.dirty().map_err(|error| error.message)?;
    let backup = active.tasks_file.as_ref().map(|file| {
        let mut name = file.clone().into_os_string();
        name.push(".bak");
        name
    });
    let top = repository.top().to_owned();
    let is_backup = |path: &Path| backup.as_ref().is_some_and(|it| top.join(path) == Path::new(it));
    Ok(dirty
        .into_iter()
        .filter(|dirty| !is_backup(&dirty.path))
        .map(|dirty| repository.name_from_project(&dirty.path))
        .collect())
}
