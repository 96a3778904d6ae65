//! Whole prompts within their budgets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ralph_model::context::ContextPlan;
use ralph_model::handoff::Handoff;
use ralph_model::ids::{IterationNumber, TaskId};
use ralph_model::judgement::Feedback;
use ralph_model::memory::{ActiveConstraint, FileKnowledge, LibraryDocs, Memory};
use ralph_model::review::ReviewPolicy;
use ralph_model::task::{ListForm, ListOwner, Task};

use super::*;
use crate::asking::context::PromptRoom;
use crate::asking::prompt::list_ownership::{Commits, ListOwnership};
use crate::asking::prompt::role::CompanionFiles;
use crate::asking::prompt::task::{render_fix, render_implement};
use crate::memory::handoff_reading as read;

static NO_VARS: BTreeMap<String, String> = BTreeMap::new();

fn keeping() -> ListOwnership<'static> {
    ListOwnership {
        owner: ListOwner::Ralph,
        commits: Commits::Ralph,
        file: "plan.json",
        form: ListForm::Plan,
        review: ReviewPolicy::Skip,
        amendments: 3,
        amendment_policy: ralph_model::amendment::AmendmentPolicy::Add,
        completion: "COMPLETE",
    }
}

fn task(description: &str) -> Task {
    Task {
        description: description.into(),
        acceptance_criteria: vec!["It works.".into()],
        ..Task::new("T-9", "Parser")
    }
}

fn handoff(nth: usize, notes: &[String]) -> Handoff {
    let value = serde_json::json!({
        "task_completed": {"task_id": "x", "summary": format!("Did {nth}. Then more."), "fully_complete": true},
        "architectural_notes": notes,
    });
    read::read_handoff([value], "", &TaskId(format!("T-{nth}")), &[])
}

fn memory(items: usize) -> Memory {
    let numbered = |what: &str| (0..items).map(|nth| format!("{what} {nth}")).collect::<Vec<_>>();
    Memory {
        project_summary: "A parser of logs.".into(),
        completed_work: numbered("Work"),
        active_constraints: vec![ActiveConstraint {
            constraint: "No network".into(),
            source_iteration: None,
        }],
        architectural_decisions: numbered("Decision"),
        unresolved_issues: numbered("Issue"),
        file_knowledge: numbered("src/f")
            .into_iter()
            .map(|path| FileKnowledge { path, purpose: "Some part of the parser".into() })
            .collect(),
        library_docs: numbered("library")
            .into_iter()
            .map(|library| LibraryDocs { library, key_apis: "parse()".into(), usage_notes: None })
            .collect(),
        carried_over: Vec::new(),
    }
}

fn frame<'a>(template: Option<&'a str>, beside: &'a CompanionFiles) -> RoleFrame<'a> {
    let (iteration, vars) = (IterationNumber(6), &NO_VARS);
    RoleFrame {
        template,
        iteration,
        limit: 9,
        vars,
        companions: beside,
        gates: &[],
        surroundings: "",
    }
}

fn room(budget: u64) -> PromptRoom {
    PromptRoom {
        plan: ContextPlan { budget: Tokens(budget), ..ContextPlan::default() },
        ..PromptRoom::default()
    }
}

fn cost(rendered: &RenderedPrompt, name: SectionName) -> Option<&SectionCost> {
    rendered.budget.iter().find(|cost| cost.name == name)
}

#[test]
fn sections_are_included_by_their_distance() {
    let (task, memory, beside) = (task("Parse."), memory(1), CompanionFiles::default());
    let handoffs: Vec<Handoff> = (1..=6).map(|nth| handoff(nth, &["Note".to_owned()])).collect();
    let skills = [("testing".to_owned(), "Test it.\n".to_owned())];
    let parts = TaskParts {
        handoffs: &handoffs,
        memory: Some(&memory),
        skills: &skills,
        ..TaskParts::for_first_attempt(&task, keeping())
    };
    let rendered = render_implement(&parts, &frame(None, &beside));
    let (_, part) = rendered.text.split_once("## Skill: ").expect("the skills");
    let (part, _) = part.split_once("## How to work\n").expect("it continues");
    expect_test::expect![[r"
        testing
        Test it.

        ## Project memory
        ### Project state
        A parser of logs.

        ### Active constraints (DO NOT VIOLATE)
        - No network

        ### Open issues
        - Issue 0

        ### Decisions (follow these)
        - Decision 0

        ### Completed work
        - Work 0

        ### Files
        - `src/f 0`: Some part of the parser

        ### Libraries
        - **library 0**: parse()

        ## The last accepted work, as its author described it
        [T-6] Did 6. 0 files.

        Decisions:
        - Note

        ## Accepted work before that
        [T-5] Did 5. 0 files.
        [T-4] Did 4. 0 files.
        [T-3] Did 3. 0 files.

    "]]
    .assert_eq(part);
    let names: Vec<&str> = rendered.budget.iter().map(|cost| cost.name.name()).collect();
    assert_eq!(names, ["task", "output", "skills", "previous", "memory", "earlier"]);
    assert!(rendered.budget.iter().all(|cost| cost.left_out.is_empty()));
}

#[test]
fn sections_are_cut_from_the_bottom() {
    let (task, memory, beside) = (task("Parse."), memory(12), CompanionFiles::default());
    let mut handoffs: Vec<Handoff> = (1..=4).map(|nth| handoff(nth, &["n".repeat(200)])).collect();
    for handoff in &mut handoffs {
        handoff.task_completed.summary = "s".repeat(200);
    }
    let skills = ["testing", "debugging"].map(|name| {
        (name.to_owned(), crate::tasks::skill::find_shipped(name).expect("known").to_owned())
    });
    let left_out = |budget| -> Vec<String> {
        let parts = TaskParts {
            handoffs: &handoffs,
            memory: Some(&memory),
            skills: &skills,
            room: room(budget),
            ..TaskParts::for_first_attempt(&task, keeping())
        };
        let rendered = render_implement(&parts, &frame(None, &beside));
        let costs = rendered.budget.into_iter();
        costs
            .flat_map(|cost| cost.left_out.into_iter().map(move |it| (cost.name, it)))
            .map(|(name, it)| format!("{}: {}", name.name(), it.replace(':', " (")))
            .collect()
    };
    let mut cut_kinds: Vec<Vec<String>> = Vec::new();
    for budget in (0..2_600).rev().step_by(10) {
        // The kinds of pieces, in the order in which they are first cut.
        let kinds: Vec<String> = left_out(budget)
            .iter()
            .map(|note| note.split('(').next().unwrap_or_default().trim().to_owned())
            .collect();
        if cut_kinds.last().is_none_or(|last| last.len() < kinds.len()) {
            cut_kinds.push(kinds);
        }
    }
    let mut order: Vec<String> = Vec::new();
    for kinds in cut_kinds {
        order.extend(kinds.into_iter().filter(|kind| !order.contains(kind)).collect::<Vec<_>>());
    }
    assert_eq!(
        order,
        [
            "earlier: earlier iterations",
            "memory: library docs",
            "memory: file knowledge",
            "skills: skill",
            "memory: completed work",
            "memory: decisions",
            "previous: decisions",
            "previous: the last accepted work",
            "skills: lines of skill testing",
            "memory: open issues",
        ]
    );
}

#[test]
fn a_section_keeps_its_own_limit() {
    let (task, memory, beside) = (task("Parse."), memory(400), CompanionFiles::default());
    let notes: Vec<String> = (0..60).map(|nth| format!("Note {nth} {}", "n".repeat(60))).collect();
    let handoffs = [handoff(1, &notes)];
    let long: Vec<String> = (0..400).map(|nth| format!("- Rule {nth} of many.")).collect();
    let skills = [("own".to_owned(), long.join("\n"))];
    let parts = TaskParts {
        handoffs: &handoffs,
        memory: Some(&memory),
        skills: &skills,
        room: room(100_000),
        ..TaskParts::for_first_attempt(&task, keeping())
    };
    let rendered = render_implement(&parts, &frame(None, &beside));
    for (name, cap, gone) in [
        (SectionName::Previous, 500, "decisions ("),
        (SectionName::Memory, 3_000, "file knowledge ("),
    ] {
        let cost = cost(&rendered, name).expect("it is there");
        assert!(cost.tokens.0 <= cap && cost.tokens.0 > cap - 100, "{cost:?}");
        assert!(cost.left_out.iter().any(|it| it.starts_with(gone)), "{cost:?}");
    }
    // Skills get the room that is left.
    assert_eq!(cost(&rendered, SectionName::Skills).expect("there").left_out, [""; 0]);
    let filled = TaskParts { room: room(5_600), ..parts };
    let rendered = render_implement(&filled, &frame(None, &beside));
    let skills = cost(&rendered, SectionName::Skills).expect("it is there");
    assert!((1_300..1_900).contains(&skills.tokens.0), "{skills:?}");
    assert!(rendered.text.contains("- Rule 0 of many."));
    assert!(rendered.text.contains("(omitted for space: lines of skill own ("));
}

#[test]
fn what_a_template_does_not_have_costs_nothing() {
    let (task, memory, beside) = (task("Parse."), memory(3), CompanionFiles::default());
    let parts =
        TaskParts { memory: Some(&memory), ..TaskParts::for_first_attempt(&task, keeping()) };
    let rendered = render_implement(&parts, &frame(Some("Do ${TASK}\n"), &beside));
    assert_eq!(cost(&rendered, SectionName::Memory), None);
    assert_eq!(cost(&rendered, SectionName::Previous), None);
    let twice = render_implement(&parts, &frame(Some("${MEMORY}\n\n${MEMORY}\n"), &beside));
    let whole = PromptRoom::default().calibration.estimate_tokens(twice.text.chars().count());
    let counted = SectionCost::sum_counted(&twice.budget);
    assert!(counted.0.abs_diff(whole.0) <= ROUNDING, "{counted:?} {whole:?}");
}

#[test]
fn the_smallest_prompt_has_only_protected_parts() {
    let (task, memory, beside) = (task("Parse."), memory(3), CompanionFiles::default());
    let size = PromptSize::Smallest;
    let room = PromptRoom { size, ..room(100_000) };
    let parts =
        TaskParts { memory: Some(&memory), room, ..TaskParts::for_first_attempt(&task, keeping()) };
    let text = render_fix(&parts, &frame(None, &beside)).text;
    assert!(text.contains("- No network\n") && text.contains("A parser of logs."), "{text}");
    assert!(!text.contains("Work 0") && text.contains("completed work (3)"), "{text}");
}

#[test]
fn output_of_failed_checks_does_not_count() {
    let (task, beside) = (task("Parse."), CompanionFiles::default());
    let feedback = [Feedback::from_text("error\n".repeat(5_000))];
    let parts = TaskParts {
        feedback: &feedback,
        record: Some("record"),
        escalation: ralph_model::stuck::Escalation::StrategyShift,
        ..TaskParts::for_first_attempt(&task, keeping())
    };
    let rendered = render_implement(&parts, &frame(None, &beside));
    assert!(cost(&rendered, SectionName::Failure).expect("counted apart").tokens.0 > 7_000);
    assert!(SectionCost::sum_counted(&rendered.budget).0 < 1_500);
    assert!(rendered.text.contains("\n\n## What failed\nerror\n"));
    assert!(rendered.text.contains("\n\n## Earlier attempts\nrecord\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_prompt_keeps_its_budget(
        budget in 0_u64..6_000,
        items in 0_usize..80,
        description in "[a-zé \n]{0,4000}",
        notes in prop::collection::vec("[a-z #\n]{0,200}", 0..20),
        skills in prop::collection::vec("[a-z\n`]{0,3000}", 0..4),
        reserved in 0_usize..2_000,
    ) {
        let (task, memory) = (task(&description), memory(items));
        let beside = CompanionFiles { prompt: "Use tabs.".into(), ..CompanionFiles::default() };
        let handoffs: Vec<Handoff> = (0..6).map(|nth| handoff(nth, &notes)).collect();
        let skills: Vec<(String, String)> =
            skills.into_iter().enumerate().map(|(nth, text)| (format!("s{nth}"), text)).collect();
        let parts = |room| TaskParts {
            handoffs: &handoffs,
            memory: Some(&memory),
            skills: &skills,
            room,
            ..TaskParts::for_first_attempt(&task, keeping())
        };
        let frame = frame(None, &beside);
        let made = |budget| render_implement(&parts(PromptRoom { reserved, ..room(budget) }), &frame);
        let (rendered, least) = (made(budget), made(0));
        // Never over budget, unless the protected parts alone are.
        let counted = SectionCost::sum_counted(&rendered.budget);
        prop_assert!(counted.0 <= budget || rendered == least);
        // The table is about the text that is sent.
        let whole = PromptRoom::default().calibration.estimate_tokens(rendered.text.chars().count() + reserved);
        prop_assert!(counted.0 + ROUNDING + 20 >= whole.0 && counted.0 <= whole.0 + ROUNDING);
        // Protected parts are kept verbatim.
        let bare = render_implement(&TaskParts { room: parts(room(budget)).room, ..TaskParts::for_first_attempt(&task, keeping()) }, &frame);
        let (task_section, rest) = bare.text.split_once("## Project instructions\n").expect("a first attempt");
        let (_, instructions) = rest.split_once("## How to work\n").expect("instructions");
        prop_assert!(rendered.text.starts_with(task_section) && rendered.text.ends_with(instructions));
        prop_assert!(rendered.text.contains("- No network\n"));
    }
}
