//! Measures building a prompt within its budget, after a thousand iterations.
//!
//! The baseline is plain concatenation of the same text. `cargo bench -p ralph --bench context`
//! prints the figures; nothing is asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::hint::black_box;

use ralph_core::asking::context::PromptRoom;
use ralph_core::asking::prompt::list_ownership::ListOwnership;
use ralph_core::asking::prompt::role::{CompanionFiles, RoleFrame};
use ralph_core::asking::prompt::task::{TaskParts, render_implement};
use ralph_core::memory::handoff_reading as read;
use ralph_core::tasks::skill::SHIPPED;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::context::ContextPlan;
use ralph_model::handoff::Handoff;
use ralph_model::ids::{IterationNumber, TaskId};
use ralph_model::memory::{ActiveConstraint, FileKnowledge, LibraryDocs, Memory};
use ralph_model::recipe::{Recipe, TaskWork, Work};
use ralph_model::task::Task;
use ralph_model::units::Tokens;
use ralph_testkit::measure::{calculate_ratio, measure_alternating, to_milliseconds};
use serde_json::json;

const HANDOFFS: usize = 1_000;

const ROUNDS: usize = 101;

fn main() {
    let agent = AgentChoice::new(AgentKind::Text, "true");
    let recipe = Recipe::new(Work::Tasks(TaskWork::new("plan.json")), agent);
    let keeping = ListOwnership::for_recipe(&recipe, "plan.json").expect("a task list");
    let handoffs: Vec<Handoff> = (0..HANDOFFS).map(handoff).collect();
    let memory = memory();
    let skills = SHIPPED.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let task = Task { description: "What is wanted. ".repeat(40), ..Task::new("T-1", "Parser") };
    let (beside, vars) = (CompanionFiles::default(), BTreeMap::new());
    let frame = RoleFrame {
        template: None,
        iteration: IterationNumber(1_001),
        limit: 2_000,
        vars: &vars,
        companions: &beside,
        gates: &["cargo test".to_owned()],
        surroundings: "",
    };
    let parts = |budget| TaskParts {
        handoffs: &handoffs,
        memory: Some(&memory),
        skills: &skills,
        room: PromptRoom {
            plan: ContextPlan { budget: Tokens(budget), ..ContextPlan::default() },
            ..PromptRoom::default()
        },
        ..TaskParts::for_first_attempt(&task, keeping)
    };
    for (what, budget) in [("8000 tokens", 8_000), ("2000 tokens", 2_000)] {
        let text = render_implement(&parts(budget), &frame).text;
        let pieces: Vec<&str> = text.split_inclusive('\n').collect();
        let mut fill = || {
            black_box(render_implement(black_box(&parts(budget)), &frame));
        };
        let mut join = || {
            black_box(black_box(&pieces).concat());
        };
        let [filled, joined] =
            measure_alternating(ROUNDS, [&mut fill, &mut join]).map(|times| times.median());
        println!(
            "{HANDOFFS} handoffs, {what}: {:.3} ms, {} characters; concatenated in {:.4} ms, ratio {:.0}",
            to_milliseconds(filled),
            text.chars().count(),
            to_milliseconds(joined),
            calculate_ratio(filled, joined)
        );
    }
}

fn handoff(nth: usize) -> Handoff {
    let value = json!({
        "task_completed": {"task_id": "x", "summary": format!("Did part {nth}. It was long."), "fully_complete": true},
        "architectural_notes": ["Parts are read in order", "Errors carry their place"],
        "deviations": [{"planned": "a table", "actual": "a tree", "reason": "it is sparse"}],
        "constraints_discovered": [{"constraint": "No network", "impact": "Cache it"}],
        "unfinished_business": [{"item": "docs", "reason": "time", "priority": "low"}],
    });
    read::read_handoff([value], "", &TaskId(format!("T-{nth}")), &[])
}

/// A memory as large as compaction of a thousand iterations leaves one, and far over its budget.
fn memory() -> Memory {
    let numbered =
        |what: &'static str| (0..HANDOFFS).map(move |nth| format!("{what} number {nth}"));
    Memory {
        project_summary: "A parser of logs. ".repeat(20),
        completed_work: numbered("Work").collect(),
        active_constraints: numbered("Constraint")
            .take(20)
            .map(|constraint| ActiveConstraint { constraint, source_iteration: None })
            .collect(),
        architectural_decisions: numbered("Decision").take(50).collect(),
        unresolved_issues: numbered("Issue").take(20).collect(),
        file_knowledge: numbered("src/file")
            .map(|path| FileKnowledge { path, purpose: "A part of the parser".into() })
            .collect(),
        library_docs: numbered("library")
            .take(20)
            .map(|library| LibraryDocs { library, key_apis: "parse()".into(), usage_notes: None })
            .collect(),
        carried_over: Vec::new(),
    }
}
