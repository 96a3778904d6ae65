//! The prompt of a request: chooses its form by purpose and role, and fills it in from the state and
//! the texts that were read.

use std::path::{Path, PathBuf};

use ralph_model::attempt::REVIEW_CAUSE;
use ralph_model::context::SectionCost;
use ralph_model::event::Purpose;
use ralph_model::handoff::Handoff;
use ralph_model::ids::{IterationNumber, Role};
use ralph_model::recipe::{PROGRESS, PromptSource, Recipe, Template, TemplatePlace, Work};
use ralph_model::run::RunState;
use ralph_model::task::Task;
use ralph_model::worktree::{AutorunChange, AutorunKind, TreeId};

use super::{
    CallOrder, find_current_role, find_gate, find_open_session, find_reviewed_range,
    find_wrong_answer, select_role_prompt,
};
use crate::asking::materials::Materials;
use crate::asking::prompt::attempt::{
    CONTEXT_FILES, GatheredInputs, find_attempt_log, render_attempt_prompt,
};
use crate::asking::prompt::compact::{self, CompactParts, DocsLookup};
use crate::asking::prompt::diff::{
    format_diff_command, list_added_lines, remove_file_from_patch, summarize_change,
};
use crate::asking::prompt::follow_up::{WantedAnswer, render_follow_up, render_missing_verdict};
use crate::asking::prompt::list_ownership::ListOwnership;
use crate::asking::prompt::orientation::{describe_dependencies, describe_surroundings};
use crate::asking::prompt::role::{CompanionFiles, RenderedPrompt, RoleFrame, RolePrompt};
use crate::asking::prompt::run::{RunFrame, fill_run_template, find_run_template};
use crate::asking::prompt::task::{ReviewFocus, ReviewParts, render_review};
use crate::asking::prompt::{self, PromptParts};
use crate::checking::instruction_changes::find_instruction_changes;
use crate::landing::scm;
use crate::ports::{ProjectText, PromptError};
use crate::tasks::{progress, skill};

/// What happens to an unusable file next to the task file.
pub(crate) const SKIPPED: &str = "it is skipped";

/// What happens to an unusable template.
const OWN_TEMPLATE: &str = "ralph's own template is used";

/// A prompt, and the cost of its sections where they are counted.
type CountedPrompt = (String, Vec<SectionCost>);

/// Returns the files that ralph or the agent writes besides the work: reviews do not show them.
/// The log of the list counts only if it is there.
fn list_hidden_files(state: &RunState, materials: &Materials) -> Vec<String> {
    let Some(work) = state.recipe.task_work() else { return Vec::new() };
    let log = ProjectText::Companion { tasks: work.file.clone(), name: PROGRESS };
    let has_log = !matches!(materials.find_text(&log), Ok(None));
    let relative = |path: PathBuf| {
        path.strip_prefix(&state.project).unwrap_or(&path).to_string_lossy().into_owned()
    };
    work.documents().into_iter().take(if has_log { 2 } else { 1 }).map(relative).collect()
}

/// Returns a task without the lines of its notes that its handoffs repeat: a review shows them as
/// the author's.
fn without_author_lines(task: &Task, handoffs: &[&Handoff]) -> Task {
    let stated: Vec<&str> = handoffs
        .iter()
        .flat_map(|handoff| handoff.task_completed.summary.lines())
        .map(str::trim)
        .collect();
    let lines = task.notes.lines().filter(|line| !stated.contains(&line.trim()));
    Task { notes: lines.collect::<Vec<_>>().join("\n"), ..task.clone() }
}

/// Returns whether the last review of a task gave its judgement and wrote no verdict into the
/// list. Its answer is feedback then.
pub(crate) fn is_verdict_missing(state: &RunState, task: &Task) -> bool {
    let last = find_attempt_log(state, task).recent.pop();
    state.recipe.is_list_owned_by_agent()
        && last.is_some_and(|last| last.gate == REVIEW_CAUSE)
        && state.feedback.iter().any(|it| !it.is_note)
}

/// Writes the prompt of one request.
pub(super) struct PromptWriter<'a> {
    pub(super) state: &'a RunState,
    pub(super) order: &'a CallOrder,
    pub(super) materials: &'a Materials,
    /// Characters that are added to the prompt later.
    pub(super) reserved: usize,
    /// The section about the other tasks and the last commits.
    surroundings: String,
    /// The command that shows the work to review, if git knows it.
    diff_command: Option<String>,
    pub(super) warnings: Vec<String>,
}

impl<'a> PromptWriter<'a> {
    pub(super) fn new(
        state: &'a RunState,
        order: &'a CallOrder,
        materials: &'a Materials,
        reserved: usize,
    ) -> Self {
        let list = state.tasks.as_ref().map(|tasks| &tasks.list);
        let current = state.current_task().map(|task| &task.id);
        let surroundings = describe_surroundings(list, current, &materials.commits);
        let diff_command =
            find_reviewed_range(state, &order.purpose).filter(|(from, to)| from != to).map(
                |(from, to)| format_diff_command(&from, &to, &list_hidden_files(state, materials)),
            );
        let warnings = Vec::new();
        Self { state, order, materials, reserved, surroundings, diff_command, warnings }
    }

    /// Returns the prompt with the feedback of the gates, without notes and instructions.
    pub(super) fn write_prompt(&mut self) -> Result<CountedPrompt, PromptError> {
        let (state, purpose) = (self.state, &self.order.purpose);
        let uncounted = |text: String| (text, Vec::new());
        if let Some(wrong) = find_wrong_answer(state, purpose) {
            // The agent still knows what it answered in a session that it continues.
            let is_known = find_open_session(state, purpose).is_some();
            let answers = if is_known { &[][..] } else { &wrong.texts };
            let text = render_follow_up(answers, &wrong.fault, self.find_wanted_answer());
            return Ok(uncounted(text));
        }
        let mut feedback = state.feedback.clone();
        let (base, mut budget) = match (purpose, select_role_prompt(state, purpose)) {
            (Purpose::Message, _) => return Ok(uncounted(self.write_message_prompt())),
            (Purpose::Gate(_), prompt) => {
                return self.write_gate_prompt(prompt.unwrap_or(RolePrompt::Review)).map(uncounted);
            }
            (Purpose::Work, Some(RolePrompt::Review)) => {
                let text = self.write_review_prompt();
                // A review that returns its verdict to ralph gets nothing but what it reviews.
                if !state.recipe.is_list_owned_by_agent() {
                    return Ok(uncounted(text));
                }
                uncounted(text)
            }
            (Purpose::Work, Some(RolePrompt::Compact)) => {
                return Ok(uncounted(self.write_compaction_prompt()));
            }
            (Purpose::Work, Some(prompt)) => {
                (_, feedback) = prompt::split_feedback(&state.feedback);
                self.write_attempt_prompt(prompt)
            }
            (Purpose::Work, None) => {
                let text = self.write_base_text()?;
                uncounted(prompt::with_finish_note(&state.recipe, text))
            }
        };
        let parts = PromptParts {
            base: &base,
            feedback: &feedback,
            iteration: IterationNumber(state.iterations),
            limit: state.last_iteration(),
            size: self.order.size,
        };
        let prompt = prompt::assemble_prompt(&state.recipe.prompt, parts);
        prompt::count_feedback(&mut budget, &base, &prompt, state.calibration);
        Ok((prompt, budget))
    }

    /// Returns what an answer in the wrong form lacked.
    fn find_wanted_answer(&self) -> WantedAnswer<'_> {
        let diff_command = self.diff_command.as_deref();
        match (&self.order.purpose, find_current_role(self.state)) {
            (Purpose::Message, _) => WantedAnswer::Message,
            (Purpose::Gate(_), _) | (Purpose::Work, Some(Role::Review)) => {
                WantedAnswer::Verdict { task: self.state.current_task(), diff_command }
            }
            (Purpose::Work, Some(Role::Compact)) => WantedAnswer::Memory,
            (Purpose::Work, _) => WantedAnswer::Handoff,
        }
    }

    /// Returns the base text of a prompt; empty for a task list.
    fn write_base_text(&mut self) -> Result<String, PromptError> {
        match &self.state.recipe.work {
            Work::Prompt(PromptSource::Text(text)) => Ok(text.clone()),
            Work::Prompt(PromptSource::File(path)) => self.find_prompt_file(path),
            Work::Prompt(PromptSource::Template(template)) => self.fill_template(template),
            Work::Tasks(_) => Ok(String::new()),
        }
    }

    fn find_prompt_file(&self, path: &Path) -> Result<String, PromptError> {
        let found = self.materials.find_text(&ProjectText::PromptFile(path.to_owned()))?;
        Ok(found.unwrap_or_default().to_owned())
    }

    fn fill_template(&mut self, template: &Template) -> Result<String, PromptError> {
        let text = match &template.place {
            TemplatePlace::Named(prompt) => self
                .find_usable(&ProjectText::Template(prompt.name()), OWN_TEMPLATE)
                .unwrap_or_else(|| find_run_template(*prompt).to_owned()),
            TemplatePlace::File(path) => self.find_prompt_file(path)?,
        };
        let recipe = &self.state.recipe;
        let (gates, signal) = (recipe.gate_commands(), recipe.completion_signal());
        let iteration = IterationNumber(self.state.iterations);
        let frame = RunFrame::new(recipe, template, &text, &signal, &gates);
        let commits = &self.materials.commits;
        let rendered = fill_run_template(&RunFrame { iteration, commits, ..frame });
        Ok(self.take_text(rendered))
    }

    fn write_attempt_prompt(&mut self, prompt: RolePrompt) -> CountedPrompt {
        let nothing = (String::new(), Vec::new());
        let Some(task) = self.state.current_task() else { return nothing };
        let (template, companions) = self.find_frame_texts(prompt);
        let skills = self.find_skills(task);
        let files = self.materials.list_excerpts().take(CONTEXT_FILES);
        let gathered = GatheredInputs {
            skills,
            patch: self.strip_list_files(),
            files: files.map(|(path, text)| (path.to_owned(), text.to_owned())).collect(),
            diff_command: self.diff_command.clone(),
            size: self.order.size,
            reserved: self.reserved,
        };
        let gates = self.state.recipe.gate_commands();
        let frame = self.build_frame(template.as_deref(), &companions, &gates);
        let rendered = render_attempt_prompt(self.state, task, prompt, &frame, &gathered);
        let Some(mut rendered) = rendered else { return nothing };
        let budget = std::mem::take(&mut rendered.budget);
        (self.take_text(rendered), budget)
    }

    /// Returns the question for a commit message, with what the change is about.
    fn write_message_prompt(&self) -> String {
        let title = self.state.current_task().map(|task| task.title.as_str());
        scm::write_message_prompt(title, &summarize_change(&self.strip_list_files()))
    }

    /// Returns the prompt for a review gate on work that has not landed yet.
    fn write_gate_prompt(&mut self, prompt: RolePrompt) -> Result<String, PromptError> {
        let asked = self.write_base_text()?;
        let gate = find_gate(self.state, &self.order.purpose);
        let focus = match prompt {
            RolePrompt::Quality => ReviewFocus::Quality,
            RolePrompt::Implement | RolePrompt::Fix | RolePrompt::Review | RolePrompt::Compact => {
                ReviewFocus::Criteria
            }
        };
        let (template, companions) = self.find_review_texts(prompt);
        let patch = self.strip_list_files();
        let diff_command = self.diff_command.clone();
        let handoffs = self.list_task_handoffs();
        let (instructions, base) = self.find_instructions();
        let task = self.state.current_task();
        let task = task.map(|task| without_author_lines(task, &handoffs));
        let parts = ReviewParts {
            asked: &asked,
            focus,
            patch: &patch,
            diff_command: diff_command.as_deref(),
            gate_files: &list_gate_files(self.state),
            changed_programs: &list_changed_programs(self.state),
            hint: gate.and_then(|gate| gate.hint.as_deref()),
            tests: Some(&self.state.test_numbers),
            instructions: &instructions,
            base: base.as_ref().map(|tree| tree.0.as_str()),
            ..ReviewParts::for_task(task.as_ref())
        };
        // Not all commands have run when an agent is asked for a gate's verdict.
        let frame = self.build_frame(template.as_deref(), &companions, &[]);
        let rendered = render_review(&parts, &frame);
        Ok(self.take_text(rendered))
    }

    /// Returns the prompt for the review of a task that awaits it.
    fn write_review_prompt(&mut self) -> String {
        let (template, companions) = self.find_review_texts(RolePrompt::Review);
        let patch = self.strip_list_files();
        let state = self.state;
        let task = state.current_task();
        let diff_command = self.diff_command.clone();
        let keeping = ListOwnership::for_recipe(&state.recipe, &companions.tasks);
        if let (Some(task), Some(keeping)) = (task, &keeping)
            && is_verdict_missing(state, task)
        {
            let progress = companions.progress.as_deref();
            return render_missing_verdict(task, diff_command.as_deref(), keeping, progress);
        }
        let wanted = task.and_then(|task| state.tasks.as_ref()?.requested_changes.get(&task.id));
        let handoffs = self.list_task_handoffs();
        let (instructions, base) = self.find_instructions();
        let dependencies = task.zip(state.tasks.as_ref());
        let dependencies =
            dependencies.map(|(task, tasks)| describe_dependencies(&tasks.list, task, &[]));
        let mut task = task.map(|task| without_author_lines(task, &handoffs));
        let mut author_notes = String::new();
        if let Some(task) = task.as_mut().filter(|_| state.recipe.is_list_owned_by_agent()) {
            author_notes = std::mem::take(&mut task.notes);
        }
        let parts = ReviewParts {
            author_notes: &author_notes,
            dependencies: dependencies.as_deref().unwrap_or_default(),
            patch: &patch,
            diff_command: diff_command.as_deref(),
            gate_files: &list_gate_files(state),
            changed_programs: &list_changed_programs(state),
            handoff: handoffs.last().copied(),
            last_feedback: wanted.map(String::as_str).unwrap_or_default(),
            tests: Some(&state.test_numbers),
            instructions: &instructions,
            base: base.as_ref().map(|tree| tree.0.as_str()),
            keeping,
            ..ReviewParts::for_task(task.as_ref())
        };
        let gates = state.recipe.hard_gate_commands();
        let frame = self.build_frame(template.as_deref(), &companions, &gates);
        let rendered = render_review(&parts, &frame);
        self.take_text(rendered)
    }

    fn write_compaction_prompt(&mut self) -> String {
        let parts = CompactParts::from_state(self.state, self.order.size);
        let (template, companions) = self.find_frame_texts(RolePrompt::Compact);
        if let (DocsLookup::Unavailable(why), Some(next)) = (parts.lookup, parts.next) {
            let text = format!("the libraries of {} cannot be looked up: {why}", next.id);
            self.warnings.push(text);
        }
        let gates = self.state.recipe.gate_commands();
        let frame = self.build_frame(template.as_deref(), &companions, &gates);
        let rendered = compact::render_compact_prompt(&parts, &frame);
        self.take_text(rendered)
    }

    /// Returns the values that fill in the template of a role.
    fn build_frame<'f>(
        &'f self,
        template: Option<&'f str>,
        companions: &'f CompanionFiles,
        gates: &'f [String],
    ) -> RoleFrame<'f>
    where
        'a: 'f,
    {
        RoleFrame {
            template,
            iteration: IterationNumber(self.state.iterations),
            limit: self.state.last_iteration(),
            vars: &self.state.recipe.prompt.vars,
            companions,
            gates,
            surroundings: &self.surroundings,
        }
    }

    /// Returns the project's own template of a role, and the files next to the task file.
    fn find_frame_texts(&mut self, prompt: RolePrompt) -> (Option<String>, CompanionFiles) {
        let template = self.find_usable(&ProjectText::Template(prompt.name()), OWN_TEMPLATE);
        let Some(work) = self.state.recipe.task_work() else {
            return (template, CompanionFiles::default());
        };
        let (companions, unusable) =
            CompanionFiles::read_files(&work.file, &self.state.project, |name| {
                let text = ProjectText::Companion { tasks: work.file.clone(), name };
                Ok(self.materials.find_text(&text)?.map(str::to_owned))
            });
        let unusable = unusable.into_iter().map(|it| format!("{}; {SKIPPED}", it.message));
        self.warnings.extend(unusable);
        (template, companions)
    }

    /// Returns the template of a review and the files next to the task file, without the patterns
    /// that the reviewed work added to the log.
    fn find_review_texts(&mut self, prompt: RolePrompt) -> (Option<String>, CompanionFiles) {
        let (template, mut companions) = self.find_frame_texts(prompt);
        let log = self.state.recipe.task_work().map(|work| work.file.with_file_name(PROGRESS));
        let added = log.map(|log| list_added_lines(&self.materials.patch, &log));
        companions.log = progress::without_patterns(
            &companions.log,
            &self.list_task_handoffs(),
            &added.unwrap_or_default(),
        );
        (template, companions)
    }

    /// Returns the changed files with instructions for agents, and the tree before the change.
    fn find_instructions(&self) -> (Vec<String>, Option<TreeId>) {
        let purpose = &self.order.purpose;
        let base = find_reviewed_range(self.state, purpose).map(|(from, _)| from);
        (find_instruction_changes(self.state, purpose), base)
    }

    /// Returns the handoffs about the current task, oldest first.
    fn list_task_handoffs(&self) -> Vec<&'a Handoff> {
        let task = self.state.current_task().map(|task| &task.id);
        let handoffs = self.state.handoffs.iter();
        handoffs.filter(|it| Some(&it.task_completed.task_id) == task).collect()
    }

    /// Returns the skills that a task names: the project's own, or ralph's.
    fn find_skills(&mut self, task: &Task) -> Vec<(String, String)> {
        let mut skills = Vec::new();
        for name in &task.skills {
            let shipped = skill::find_shipped(name);
            let wanted = ProjectText::Skill(name.clone());
            let instead = if shipped.is_some() { "ralph's own is used" } else { SKIPPED };
            let is_missing = matches!(self.materials.find_text(&wanted), Ok(None));
            let own = self.find_usable(&wanted, instead);
            match own.or_else(|| shipped.map(str::to_owned)) {
                Some(text) => skills.push((name.clone(), text)),
                None if is_missing => {
                    let missing = skill::describe_missing(name);
                    self.warnings.push(format!("task {}: {missing}", task.id));
                }
                None => {}
            }
        }
        skills
    }

    /// Returns the patch without the task list and its log.
    fn strip_list_files(&self) -> String {
        let patch = &self.materials.patch;
        match self.state.recipe.task_work() {
            Some(work) => {
                let patch = remove_file_from_patch(patch, &work.file);
                remove_file_from_patch(&patch, &work.file.with_file_name(PROGRESS))
            }
            None => patch.clone(),
        }
    }

    /// Returns what was read, or warns that it cannot be used.
    fn find_usable(&mut self, wanted: &ProjectText, instead: &str) -> Option<String> {
        match self.materials.find_text(wanted) {
            Ok(text) => text.map(str::to_owned),
            Err(PromptError { message }) => {
                self.warnings.push(format!("{message}; {instead}"));
                None
            }
        }
    }

    /// Returns the text of a rendered prompt, and keeps its warnings.
    fn take_text(&mut self, rendered: RenderedPrompt) -> String {
        self.warnings.extend(rendered.warnings);
        rendered.text
    }
}

/// Returns the files that say what gates check.
fn list_gate_files(state: &RunState) -> Vec<String> {
    let Recipe { gate_scripts, gate_files, .. } = &state.recipe;
    gate_scripts.iter().chain(gate_files).cloned().collect()
}

/// Returns the changed programs that gates may start. git ignores them, so no patch has them.
fn list_changed_programs(state: &RunState) -> Vec<String> {
    let is_program = |it: &&AutorunChange| {
        it.kind == AutorunKind::Gate && !state.recipe.gate_files.contains(&it.path)
    };
    state.autorun_changes.iter().filter(is_program).map(|it| it.path.clone()).collect()
}
