//! `ralph hook stop`: checks the state when an agent wants to stop, and may block the stop.

use std::path::Path;
use std::time::Duration;

use ralph_core::hooks::stop_hook::{self, CheckNeed, StopFindings, StopObjections};
use ralph_io::formats::TaskFile;
use ralph_io::git::{GitRepository, RepositoryDiscovery};
use ralph_io::process::Watch;
use ralph_io::store::active;
use ralph_model::hook_state::HookState;
use ralph_model::list_snapshot::ListSnapshot;
use ralph_model::text;
use serde_json::{Value, json};

use super::HookInput;
use super::session::{HookedRun, SessionOwner, find_session_owner};

/// The agent waits for the answer; ralph itself checks a repository that is slower than this.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Claude Code overrules a hook that blocks more often than this in a row.
const DEFAULT_BLOCK_CAP: u32 = 8;

/// The hook stops blocking this many blocks earlier, so that the session ends normally and is not
/// forced to end.
const BLOCK_MARGIN: u32 = 2;

/// Claude Code shows each line of a remark separately, so a remark has one line; ralph reports the
/// rest when it judges.
const MAX_REMARK_CHARS: usize = 1000;

/// Answers an agent that wants to stop.
pub(super) fn answer_stop(bytes: &[u8]) -> Option<Value> {
    let input = HookInput::parse(bytes)?;
    let run = match find_session_owner(&input.session_id) {
        SessionOwner::Own(run) => run,
        SessionOwner::Foreign => return None,
        SessionOwner::Unknown(problem) => return Some(json!({ "systemMessage": problem })),
    };
    let looks = stop_hook::choose_checks(&run.active);
    if (looks.tasks, looks.tree) == (CheckNeed::Skipped, CheckNeed::Skipped) {
        return None;
    }
    let active = with_snapshot(&run);
    let mut found = StopFindings::default();
    let mut remarks = Vec::new();
    if let (CheckNeed::Needed, Some(file)) = (looks.tasks, &active.tasks_file) {
        (found.list, found.mistakes) = read_tasks(file, &active);
    }
    if looks.tree == CheckNeed::Needed {
        match find_uncommitted(&active) {
            Ok(paths) => found.uncommitted = paths,
            Err(message) => remarks.push(format!("ralph's hook cannot look at git: {message}")),
        }
    }
    let objections = stop_hook::find_objections(&active, &found);
    remarks.extend(objections.remarks.iter().cloned());
    build_answer(&input, &run, &objections, remarks)
}

/// Returns the answer: a block while blocks are left, and remarks for the user.
fn build_answer(
    input: &HookInput,
    run: &HookedRun,
    objections: &StopObjections,
    mut remarks: Vec<String>,
) -> Option<Value> {
    let mut answer = json!({});
    if let Some(reason) = objections.reason() {
        let cap = std::env::var("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP").ok();
        let cap = cap.and_then(|cap| cap.trim().parse().ok()).unwrap_or(DEFAULT_BLOCK_CAP);
        let most = cap.saturating_sub(BLOCK_MARGIN).max(1);
        let notebook = input.open_notebook(Some(run));
        let has_block_left = notebook.and_then(|notebook| {
            notebook.change_notes(|notes| {
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
        answer["systemMessage"] = text::join_to_line(&remarks.join(" "), MAX_REMARK_CHARS).into();
    }
    answer.as_object().is_some_and(|answer| !answer.is_empty()).then_some(answer)
}

/// Returns the active run with its snapshot, if that can be read.
fn with_snapshot(run: &HookedRun) -> HookState<ListSnapshot> {
    let whole: Option<HookState> = active::read_active(&run.file).ok();
    let same = whole.filter(|whole| whole.session == run.active.session);
    same.unwrap_or_else(|| run.active.clone().with_snapshot(None))
}

/// Reads the task list, ignoring mistakes that the rules report themselves.
fn read_tasks(
    file: &Path,
    active: &HookState,
) -> (Option<ralph_model::task::TaskList>, Vec<String>) {
    let (list, mut problems) = TaskFile::read_despite_faults(file);
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
fn find_uncommitted(active: &HookState) -> Result<Vec<String>, String> {
    let Some(project) = &active.project else { return Ok(Vec::new()) };
    let env = std::env::vars_os().collect();
    let found = GitRepository::discover_within(project, env, Watch::new_detached(), GIT_TIMEOUT);
    let RepositoryDiscovery::Repository(repository) = found.map_err(|error| error.message)? else {
        return Ok(Vec::new());
    };
    let dirty = repository.list_dirty().map_err(|error| error.message)?;
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
