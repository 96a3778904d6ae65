//! Chooses what has to be read for a request, so that the engine and the previews read the same.

use ralph_model::capability::Support;
use ralph_model::event::Purpose;
use ralph_model::ids::Role;
use ralph_model::recipe::{PROGRESS, PromptSource, TemplatePlace, Work};
use ralph_model::run::RunState;
use ralph_model::task::REQUIREMENTS_FILE;
use ralph_model::worktree::Checkpoint;

use super::{
    find_current_role, find_reviewed_range, find_wrong_answer, select_agent, select_role_prompt,
};
use crate::asking::materials::{NeededMaterials, PatchRange};
use crate::asking::prompt::attempt::{
    CONTEXT_CHARS, FAILED_PATCH, find_attempt_log, needs_files, needs_patch,
};
use crate::asking::prompt::diff::READ_PATCH;
use crate::asking::prompt::orientation::NAMED_COMMITS;
use crate::asking::prompt::role::{PROJECT_PROMPT, RolePrompt};
use crate::ports::ProjectText;
use crate::tasks::attempt::find_named_paths;

/// How many of the paths that an error names are tried; most of them are no files of the project.
const MAX_TRIED_PATHS: usize = 40;

/// Returns what has to be read for a call with this purpose.
pub fn list_materials(state: &RunState, purpose: &Purpose) -> NeededMaterials {
    let mut needed = NeededMaterials::default();
    let agent = select_agent(state, purpose);
    if let (Some(file), Support::No) = (agent.system_prompt, agent.capabilities.system_prompt) {
        needed.texts.push(ProjectText::PromptFile(file));
    }
    if find_wrong_answer(state, purpose).is_some() {
        let log = state.recipe.task_work().map(|work| work.file.clone());
        needed.texts.extend(log.map(|tasks| ProjectText::Companion { tasks, name: PROGRESS }));
        return needed;
    }
    let range = find_reviewed_range(state, purpose);
    let patch = range.map(|(from, to)| PatchRange {
        from,
        to,
        chars: READ_PATCH,
        is_required: *purpose != Purpose::Message,
    });
    if *purpose == Purpose::Message {
        needed.patch = patch;
        return needed;
    }
    needed.texts.extend(list_base_texts(&state.recipe.work));
    let prompt = select_role_prompt(state, purpose);
    needed.commits = match (prompt, find_current_role(state)) {
        (Some(RolePrompt::Compact), _) | (None, Some(Role::Prompt | Role::Plan)) => 0,
        (_, _) => NAMED_COMMITS,
    };
    let Some(prompt) = prompt else { return needed };
    needed.texts.push(ProjectText::Template(prompt.name()));
    if let Some(work) = state.recipe.task_work() {
        let names = [PROJECT_PROMPT, PROGRESS, REQUIREMENTS_FILE];
        let tasks = &work.file;
        needed
            .texts
            .extend(names.map(|name| ProjectText::Companion { tasks: tasks.clone(), name }));
    }
    if let (Purpose::Work, Some(Role::Implement | Role::Fix)) = (purpose, find_current_role(state))
    {
        add_attempt_materials(state, &mut needed);
        return needed;
    }
    needed.patch = patch;
    needed
}

/// Returns the text that a prompt workflow is based on.
fn list_base_texts(work: &Work) -> Option<ProjectText> {
    match work {
        Work::Prompt(PromptSource::Text(_)) | Work::Tasks(_) => None,
        Work::Prompt(PromptSource::File(path)) => Some(ProjectText::PromptFile(path.clone())),
        Work::Prompt(PromptSource::Template(template)) => Some(match &template.place {
            TemplatePlace::Named(prompt) => ProjectText::Template(prompt.name()),
            TemplatePlace::File(path) => ProjectText::PromptFile(path.clone()),
        }),
    }
}

/// Adds the skills that the task names and, after failures, the patch and the files that the last
/// failure names.
fn add_attempt_materials(state: &RunState, needed: &mut NeededMaterials) {
    let Some(task) = state.current_task() else { return };
    needed.texts.extend(task.skills.iter().cloned().map(ProjectText::Skill));
    let log = find_attempt_log(state, task);
    if needs_files(&log) {
        let paths = find_named_paths(log.outputs.iter().map(|it| it.text.as_str()))
            .into_iter()
            .take(MAX_TRIED_PATHS);
        let excerpt = |path| ProjectText::Excerpt { path, chars: CONTEXT_CHARS };
        needed.texts.extend(paths.map(excerpt));
    }
    let last = log.recent.last().and_then(|attempt| attempt.tree.clone());
    if let (true, Some(Checkpoint::Git { tree: Some(base), .. }), Some(to)) =
        (needs_patch(&log), &state.base, last)
    {
        let (from, chars) = (base.clone(), FAILED_PATCH);
        needed.patch = Some(PatchRange { from, to, chars, is_required: false });
    }
}
