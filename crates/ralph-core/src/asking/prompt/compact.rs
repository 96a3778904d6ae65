//! The prompt of a compaction: the former memory, the handoffs since, and the libraries to look
//! up.
//!
//! This file writes each section. Not here: their order, which the template decides.

use ralph_model::handoff::{Handoff, WorkOutcome};
use ralph_model::ids::IterationNumber;
use ralph_model::memory::{CompactionTrigger, Documentation, Memory, SinceCompaction};
use ralph_model::run::{PromptSize, RunState};
use ralph_model::task::Task;
use ralph_model::task_state::TaskState;
use ralph_model::text;

use super::list_ownership::CHANGE_NOTHING;
use super::role::{
    RenderedPrompt, RoleFrame, RolePrompt, TemplateValues, format_section, render_role_prompt,
};
use crate::memory::read::MOST_BYTES;
use crate::tasks::next_work::{find_compaction_trigger, next_coding_task};

/// The inputs of a compaction prompt.
#[derive(Debug, Clone, Copy)]
pub struct CompactParts<'a> {
    pub former: Option<&'a Memory>,
    pub since: &'a SinceCompaction,
    /// The list, for what reviews found.
    pub tasks: Option<&'a TaskState>,
    /// The task that needs documentation to be looked up.
    pub next: Option<&'a Task>,
    pub lookup: DocsLookup<'a>,
    pub size: PromptSize,
}

impl<'a> CompactParts<'a> {
    /// Collects the inputs for the next compaction of a run.
    pub fn from_state(state: &'a RunState, size: PromptSize) -> Self {
        let next = match find_compaction_trigger(state) {
            CompactionTrigger::Documentation => next_coding_task(state),
            CompactionTrigger::Size | CompactionTrigger::Periodic => None,
        };
        let lookup = match state.recipe.memory.as_ref().map(|policy| &policy.documentation) {
            Some(Documentation::Servers(_)) => DocsLookup::Servers,
            Some(Documentation::Nowhere(why)) => DocsLookup::Unavailable(why),
            Some(Documentation::Unknown) | None => DocsLookup::AgentTools,
        };
        Self {
            former: state.memory.as_deref(),
            since: &state.since_compaction,
            tasks: state.tasks.as_ref(),
            next,
            lookup,
            size,
        }
    }

    /// Returns the sections that differ in each compaction, under the names shown to the user.
    pub fn sections(&self) -> [(&'static str, String); 3] {
        [
            ("memory", describe_former_memory(self.former)),
            ("handoffs", describe_handoffs(self)),
            ("libraries", describe_libraries(self)),
        ]
    }
}

/// How a compaction looks up documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocsLookup<'a> {
    /// With documentation servers that are configured for it.
    Servers,
    /// With whatever tools the agent has.
    AgentTools,
    /// Not possible, for this reason.
    Unavailable(&'a str),
}

/// Returns the prompt of a compaction.
pub fn render_compact_prompt(parts: &CompactParts<'_>, frame: &RoleFrame<'_>) -> RenderedPrompt {
    let [memory, handoffs, libraries] = parts.sections().map(|(_, text)| text);
    let values = TemplateValues::from([
        ("MEMORY", memory),
        ("HANDOFFS", handoffs),
        ("LIBRARIES", libraries),
        ("KEEPING", CHANGE_NOTHING.to_owned()),
        ("ANSWER", describe_answer()),
    ]);
    render_role_prompt(RolePrompt::Compact, frame, values)
}

/// Added when the memory contains entries that ralph carried over.
const CARRIED_NOTE: &str = "\n\nThe last compaction did not mention the entries under `carried_over`. Include each of them, or list it under `resolved`.";

/// Introduces the handoff of work that failed.
const NOT_ACCEPTED: &str = " this work was NOT accepted (see `outcome`), and its author did not know that. Nothing of it is completed work, a decision or a constraint; take from it only facts about the project itself.";

fn describe_former_memory(former: Option<&Memory>) -> String {
    let text = match former {
        None => "There is no memory yet.".to_owned(),
        Some(memory) => {
            let json = serde_json::to_string_pretty(memory).unwrap_or_default();
            let carried = if memory.carried_over.is_empty() { "" } else { CARRIED_NOTE };
            format!("```json\n{json}\n```{carried}")
        }
    };
    format_section("The memory so far", &text)
}

fn describe_handoffs(parts: &CompactParts<'_>) -> String {
    let (since, size) = (parts.since, parts.size);
    let mut pieces = Vec::new();
    if since.dropped_handoffs > 0 {
        pieces.push(format!("({} earlier ones are not shown.)", since.dropped_handoffs));
    }
    for entry in &since.handoffs {
        let iteration = entry.iteration;
        pieces.push(match (&entry.handoff, size) {
            (Some(handoff), PromptSize::Full) => {
                let json = serde_json::to_string_pretty(handoff).unwrap_or_default();
                let refused = if handoff.is_accepted() { "" } else { NOT_ACCEPTED };
                let found = find_complaint(parts, handoff, iteration)
                    .map(|found| format!("\nThe review found: {found}"));
                let found = found.unwrap_or_default();
                format!("Iteration {iteration}:{refused}\n```json\n{json}\n```{found}")
            }
            (Some(_), PromptSize::Smallest) | (None, _) => {
                format!("Iteration {iteration}: {}", entry.line)
            }
        });
    }
    if pieces.is_empty() {
        pieces.push("Nothing.".to_owned());
    }
    format_section("Handoffs since then", &pieces.join("\n\n"))
}

/// A longer complaint of a review is cut.
const COMPLAINT_CHARS: usize = 600;

/// Returns what the review of an iteration's work asked to fix. The last rejected handoffs of a
/// task belong to its last complaints, in order.
fn find_complaint(
    parts: &CompactParts<'_>,
    handoff: &Handoff,
    iteration: IterationNumber,
) -> Option<String> {
    let task = &handoff.task_completed.task_id;
    let is_rejected = |it: &Handoff| {
        it.task_completed.task_id == *task
            && matches!(it.outcome, Some(WorkOutcome::Passed { approved: Some(false), .. }))
    };
    let pending = parts.since.handoffs.iter();
    let rejected = pending.filter(|it| it.handoff.as_deref().is_some_and(is_rejected));
    let rejected: Vec<IterationNumber> = rejected.map(|it| it.iteration).collect();
    let place = rejected.iter().position(|it| *it == iteration)?;
    let complaints = parts.tasks?.complaints.get(task)?;
    let at = (complaints.len() + place).checked_sub(rejected.len())?;
    Some(text::join_to_line(&complaints.get(at)?.feedback, COMPLAINT_CHARS))
}

fn describe_libraries(parts: &CompactParts<'_>) -> String {
    let Some(next) = parts.next else { return String::new() };
    let what = match next.libraries.as_slice() {
        [] => "what it depends on".to_owned(),
        libraries => libraries.join(", "),
    };
    let how = match parts.lookup {
        DocsLookup::Servers => {
            "Look them up with the documentation server you were given, in the versions that the project uses.".to_owned()
        }
        DocsLookup::AgentTools => {
            "Look them up with the tools you have, in the versions that the project uses. If you have none for it, write down only what you are sure of.".to_owned()
        }
        DocsLookup::Unavailable(why) => format!(
            "They cannot be looked up here: {why}. Read what the project itself contains about them, write down only what you are sure of, and state what you could not look up."
        ),
    };
    let text = format!(
        "The next task, {} ({}), needs documentation of: {what}. {how} What the task needs of it goes into `library_docs`: `library`, `key_apis`, `usage_notes`.",
        next.id,
        next.title.trim()
    );
    format_section("Documentation to look up", &text)
}

fn describe_answer() -> String {
    let most = MOST_BYTES / 1000 / 2;
    format_section(
        "Your answer",
        &format!(
            "Answer with the new memory: `project_summary`, `completed_work`, `active_constraints` (each with `constraint` and the `source_iteration` it came from), `architectural_decisions`, `unresolved_issues`, `file_knowledge` (each with `path` and `purpose`), `library_docs` (what is known of libraries that later tasks use; empty if nothing was looked up), and `resolved` (each with `item` and `reason`). Stay below {most} KB."
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ralph_model::ids::TaskId;

    use super::*;
    use crate::asking::prompt::role::CompanionFiles;
    use crate::memory::handoff_reading as read;
    use crate::memory::since_compaction::{AttemptOutcome, record_coding_iteration};

    fn filled(parts: &CompactParts<'_>) -> String {
        let (beside, vars) = (CompanionFiles::default(), BTreeMap::new());
        let frame = RoleFrame {
            template: Some("${MEMORY}\n\n${HANDOFFS}\n\n${LIBRARIES}"),
            iteration: IterationNumber(6),
            limit: 15,
            vars: &vars,
            companions: &beside,
            gates: &[],
            surroundings: "",
        };
        let rendered = render_compact_prompt(parts, &frame);
        assert_eq!(rendered.warnings, [] as [&str; 0]);
        rendered.text.split("\n\n## Your answer").next().unwrap_or_default().to_owned()
    }

    fn since() -> SinceCompaction {
        let mut since = SinceCompaction { dropped_handoffs: 2, ..SinceCompaction::default() };
        let handoff = read::read_handoff([], "Did it.", &TaskId("T".into()), &[]);
        record_coding_iteration(
            &mut since,
            IterationNumber(5),
            Some(&handoff),
            AttemptOutcome::NotPassed,
        );
        since
    }

    #[test]
    fn shows_inputs_and_states_what_cannot_be_looked_up() {
        let since = since();
        let next = Task { libraries: vec!["serde".into()], ..Task::new("N", "Parse it") };
        let memory = Memory {
            active_constraints: vec![ralph_model::memory::ActiveConstraint {
                constraint: "old git".into(),
                source_iteration: None,
            }],
            carried_over: vec!["old git".into()],
            ..Memory::default()
        };
        let parts = CompactParts {
            former: Some(&memory),
            since: &since,
            tasks: None,
            next: Some(&next),
            lookup: DocsLookup::Unavailable("`npx` is not on the PATH"),
            size: PromptSize::Full,
        };
        let text = filled(&parts);
        for expect in [
            "## The memory so far\n```json\n{",
            "\"constraint\": \"old git\"",
            "The last compaction did not mention the entries under `carried_over`.",
            "(2 earlier ones are not shown.)",
            "Iteration 5:\n```json\n{\n  \"task_completed\": {",
            "The next task, N (Parse it), needs documentation of: serde. They cannot be looked up here: `npx` is not on the PATH.",
        ] {
            assert!(text.contains(expect), "{expect}\n{text}");
        }
        let smallest = filled(&CompactParts { size: PromptSize::Smallest, ..parts });
        assert!(smallest.contains("Iteration 5: [T] Did it. 0 files."), "{smallest}");
    }

    #[test]
    fn states_that_inputs_are_empty() {
        let parts = CompactParts {
            former: None,
            since: &SinceCompaction::default(),
            tasks: None,
            next: None,
            lookup: DocsLookup::AgentTools,
            size: PromptSize::Full,
        };
        expect_test::expect![[r"
            ## The memory so far
            There is no memory yet.

            ## Handoffs since then
            Nothing."]]
        .assert_eq(&filled(&parts));
    }

    #[test]
    fn a_rejected_handoff_says_what_the_review_found() {
        let (mut since, id) = (since(), TaskId("T".into()));
        for pending in &mut since.handoffs {
            if let Some(handoff) = &mut pending.handoff {
                let outcome = WorkOutcome::Passed { is_committed: true, approved: Some(false) };
                handoff.outcome = Some(outcome);
            }
        }
        let mut tasks = TaskState::new(ralph_model::task::TaskList::default());
        let complaint = |feedback: &str| ralph_model::review::ReviewComplaint {
            review: 1,
            feedback: feedback.into(),
            met: Vec::new(),
            unmet: Vec::new(),
            tree: None,
        };
        tasks.complaints.insert(id, vec![complaint("Older."), complaint("No test.")]);
        let parts = CompactParts {
            former: None,
            since: &since,
            tasks: Some(&tasks),
            next: None,
            lookup: DocsLookup::AgentTools,
            size: PromptSize::Full,
        };
        let text = filled(&parts);
        assert!(text.contains("```\nThe review found: No test."), "{text}");
        assert!(!text.contains("Older."), "{text}");
    }

    #[test]
    fn asks_for_every_field_of_the_answer() {
        let schema = crate::memory::build_memory_schema();
        for name in schema["properties"].as_object().expect("an object").keys() {
            assert!(describe_answer().contains(&format!("`{name}`")), "{name}");
        }
    }
}
