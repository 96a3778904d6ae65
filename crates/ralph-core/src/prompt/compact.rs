//! The prompt of a compaction: the former memory, what was handed over since, and what is to be
//! looked up.
//!
//! What each section says. Not here: in which order they stand, which is the template's.

use super::keeping::CHANGE_NOTHING;
use super::role::{Frame, Rendered, RolePrompt, Values, render, section};
use crate::memory::read::MOST_BYTES;
use crate::memory::{Documentation, Memory, Since, Trigger};
use crate::run::{PromptSize, RunState};
use crate::task::Task;

/// What the prompt of a compaction is put together from.
#[derive(Debug, Clone, Copy)]
pub struct CompactParts<'a> {
    /// The former memory.
    pub former: Option<&'a Memory>,
    /// What has gathered since.
    pub since: &'a Since,
    /// The task that wants something to be looked up.
    pub next: Option<&'a Task>,
    /// How that can be done.
    pub lookup: Lookup<'a>,
    /// Whether the whole prompt fits.
    pub size: PromptSize,
}

impl<'a> CompactParts<'a> {
    /// Returns what the next compaction of a run is put together from.
    pub fn of(state: &'a RunState, size: PromptSize) -> Self {
        let next = match state.trigger() {
            Trigger::Documentation => state.next_coding(),
            Trigger::Size | Trigger::Periodic => None,
        };
        let lookup = match state.recipe.memory.as_ref().map(|policy| &policy.documentation) {
            Some(Documentation::Servers(_)) => Lookup::Servers,
            Some(Documentation::Nowhere(why)) => Lookup::Nowhere(why),
            Some(Documentation::Unknown) | None => Lookup::Perhaps,
        };
        Self { former: state.memory.as_deref(), since: &state.since, next, lookup, size }
    }

    /// Returns the sections that are different each time, under the names that people are told.
    pub fn sections(&self) -> [(&'static str, String); 3] {
        [
            ("memory", former(self.former)),
            ("handoffs", handoffs(self.since, self.size)),
            ("libraries", libraries(self)),
        ]
    }
}

/// How a compaction looks something up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// With servers that are there for it.
    Servers,
    /// With whatever tools the agent has.
    Perhaps,
    /// Not at all, for this reason.
    Nowhere(&'a str),
}

/// Returns the prompt of a compaction.
pub fn compact(parts: &CompactParts<'_>, frame: &Frame<'_>) -> Rendered {
    let [memory, handoffs, libraries] = parts.sections().map(|(_, text)| text);
    let values = Values::from([
        ("MEMORY", memory),
        ("HANDOFFS", handoffs),
        ("LIBRARIES", libraries),
        ("KEEPING", CHANGE_NOTHING.to_owned()),
        ("ANSWER", answer()),
    ]);
    render(RolePrompt::Compact, frame, values)
}

/// What is said of a memory in which ralph has kept something.
const CARRIED: &str = "\n\nWhat stands under `carried_over` was not spoken of in the last compaction. Say it, or name it as resolved.";

/// What stands above an account of work that failed.
const NOT_ACCEPTED: &str = " this work was NOT accepted (see `outcome`), and its author did not know that. Nothing of it is completed work, a decision or a constraint; take from it only facts about the project itself.";

fn former(former: Option<&Memory>) -> String {
    let text = match former {
        None => "There is none yet.".to_owned(),
        Some(memory) => {
            let json = serde_json::to_string_pretty(memory).unwrap_or_default();
            let carried = if memory.carried_over.is_empty() { "" } else { CARRIED };
            format!("```json\n{json}\n```{carried}")
        }
    };
    section("The memory so far", &text)
}

fn handoffs(since: &Since, size: PromptSize) -> String {
    let mut pieces = Vec::new();
    if since.more_accounts > 0 {
        pieces.push(format!("({} more before these are not shown.)", since.more_accounts));
    }
    for account in &since.accounts {
        let iteration = account.iteration;
        pieces.push(match (&account.handoff, size) {
            (Some(handoff), PromptSize::Full) => {
                let json = serde_json::to_string_pretty(handoff).unwrap_or_default();
                let refused = if handoff.is_accepted() { "" } else { NOT_ACCEPTED };
                format!("Iteration {iteration}:{refused}\n```json\n{json}\n```")
            }
            (Some(_), PromptSize::Smallest) | (None, _) => {
                format!("Iteration {iteration}: {}", account.line)
            }
        });
    }
    if pieces.is_empty() {
        pieces.push("Nothing.".to_owned());
    }
    section("What was handed over since", &pieces.join("\n\n"))
}

fn libraries(parts: &CompactParts<'_>) -> String {
    let Some(next) = parts.next else { return String::new() };
    let what = match next.libraries.as_slice() {
        [] => "what it depends on".to_owned(),
        libraries => libraries.join(", "),
    };
    let how = match parts.lookup {
        Lookup::Servers => {
            "Look them up with the documentation server you were given, in the versions that the project uses.".to_owned()
        }
        Lookup::Perhaps => {
            "Look them up with the tools you have, in the versions that the project uses. If you have none for it, write down only what you are sure of.".to_owned()
        }
        Lookup::Nowhere(why) => format!(
            "They cannot be looked up here: {why}. Read what the project itself holds of them, write down only what you are sure of, and say what is not looked up."
        ),
    };
    let text = format!(
        "The next task, {} ({}), needs documentation of: {what}. {how} What the task needs of it goes into `library_docs`: `library`, `key_apis`, `usage_notes`.",
        next.id,
        next.title.trim()
    );
    section("What is to be looked up", &text)
}

fn answer() -> String {
    let most = MOST_BYTES / 1000 / 2;
    section(
        "Your answer",
        &format!(
            "Answer with the new memory: `project_summary`, `completed_work`, `active_constraints` (each with `constraint` and the `source_iteration` it came from), `architectural_decisions`, `unresolved_issues`, `file_knowledge` (each with `path` and `purpose`), `library_docs`, and `resolved` (each with `item` and `reason`). Stay below {most} KB; one that is twice as large is refused."
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::handoff::read;
    use crate::ids::{IterationNumber, TaskId};
    use crate::memory::since::Attempted;
    use crate::prompt::role::Beside;

    fn filled(parts: &CompactParts<'_>) -> String {
        let (beside, vars) = (Beside::default(), BTreeMap::new());
        let frame = Frame {
            template: Some("${MEMORY}\n\n${HANDOFFS}\n\n${LIBRARIES}"),
            iteration: IterationNumber(6),
            limit: 15,
            vars: &vars,
            beside: &beside,
            gates: &[],
        };
        let rendered = compact(parts, &frame);
        assert_eq!(rendered.warnings, [] as [&str; 0]);
        rendered.text.split("\n\n## Your answer").next().unwrap_or_default().to_owned()
    }

    fn since() -> Since {
        let mut since = Since { more_accounts: 2, ..Since::default() };
        let handoff = read::read([], "Did it.", &TaskId("T".into()), &[]);
        since.coded(IterationNumber(5), Some(&handoff), Attempted::Otherwise);
        since
    }

    #[test]
    fn it_shows_what_there_is_and_says_what_cannot_be_done() {
        let since = since();
        let next = Task { libraries: vec!["serde".into()], ..Task::new("N", "Parse it") };
        let memory = Memory {
            active_constraints: vec![crate::memory::ActiveConstraint {
                constraint: "old git".into(),
                source_iteration: None,
            }],
            carried_over: vec!["old git".into()],
            ..Memory::default()
        };
        let parts = CompactParts {
            former: Some(&memory),
            since: &since,
            next: Some(&next),
            lookup: Lookup::Nowhere("`npx` is not on the PATH"),
            size: PromptSize::Full,
        };
        let text = filled(&parts);
        for expect in [
            "## The memory so far\n```json\n{",
            "\"constraint\": \"old git\"",
            "What stands under `carried_over` was not spoken of",
            "(2 more before these are not shown.)",
            "Iteration 5:\n```json\n{\n  \"task_completed\": {",
            "The next task, N (Parse it), needs documentation of: serde. They cannot be looked up here: `npx` is not on the PATH.",
        ] {
            assert!(text.contains(expect), "{expect}\n{text}");
        }
        let smallest = filled(&CompactParts { size: PromptSize::Smallest, ..parts });
        assert!(smallest.contains("Iteration 5: [T] Did it. 0 files."), "{smallest}");
    }

    #[test]
    fn without_anything_it_says_so() {
        let parts = CompactParts {
            former: None,
            since: &Since::default(),
            next: None,
            lookup: Lookup::Perhaps,
            size: PromptSize::Full,
        };
        expect_test::expect![[r"
            ## The memory so far
            There is none yet.

            ## What was handed over since
            Nothing."]]
        .assert_eq(&filled(&parts));
    }

    #[test]
    fn every_trait_of_an_answer_is_asked_for() {
        let schema = crate::memory::schema();
        for name in schema["properties"].as_object().expect("an object").keys() {
            assert!(answer().contains(&format!("`{name}`")), "{name}");
        }
    }
}
