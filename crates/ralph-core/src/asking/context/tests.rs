//! Sections within a budget: what is cut, in which order, and that every cut is noted.

use proptest::prelude::*;
use ralph_model::agent_output::{Reply, Usage};
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::failure::{Failure, FailureClass};
use ralph_model::memory::{ActiveConstraint, FileKnowledge, LibraryDocs, Memory};
use ralph_model::units::Tokens;

use super::*;
use crate::answers::reply_fold::ReplyFold;

fn reply(read: u64, tools: u32, failure: Option<Failure>) -> Reply {
    let end = ChildEnd::from_ending(Ending::Exited { code: 0 });
    let usage =
        Usage { input: Tokens(read / 2), cache_read: Tokens(read - read / 2), ..Usage::default() };
    Reply { usage, tools, ..ReplyFold::default().into_reply(end, failure) }
}

#[track_caller]
fn learns(asked: usize, reply: &Reply, expect: u64) {
    let mut calibration = Calibration::default();
    calibration.record_prompt(asked);
    calibration.learn_from_reply(reply);
    assert_eq!(calibration.estimate_tokens(1_000), Tokens(expect));
}

#[test]
fn only_plausible_figures_change_the_ratio() {
    let failed = || Some(Failure::new(FailureClass::Malformed, "no"));
    // Three parts of 4.0 and one of what was seen.
    learns(8_000, &reply(2_000, 0, None), 250);
    learns(8_000, &reply(4_000, 0, None), 286);
    learns(8_000, &reply(1_000, 0, None), 200);
    // Nothing reported, far more read than the prompt, far less, tools used, failed, too short.
    for (asked, reply) in [
        (8_000, reply(0, 0, None)),
        (8_000, reply(4_001, 0, None)),
        (8_000, reply(999, 0, None)),
        (8_000, reply(4_000, 1, None)),
        (8_000, reply(4_000, 0, failed())),
        (1_999, reply(1_000, 0, None)),
        (usize::MAX, reply(1, 0, None)),
    ] {
        learns(asked, &reply, 250);
    }
}

#[test]
fn a_reply_is_learned_from_once() {
    let mut calibration = Calibration::default();
    calibration.record_prompt(8_000);
    calibration.learn_from_reply(&reply(4_000, 0, None));
    let once = calibration;
    calibration.learn_from_reply(&reply(4_000, 0, None));
    assert_eq!(calibration, once);
}

proptest! {
    #[test]
    fn the_ratio_stays_within_bounds(calls in prop::collection::vec((0_usize..100_000, 0_u64..50_000), 0..50)) {
        let mut calibration = Calibration::default();
        for (asked, read) in calls {
            calibration.record_prompt(asked);
            calibration.learn_from_reply(&reply(read, 0, None));
        }
        let Tokens(tokens) = calibration.estimate_tokens(8_000);
        prop_assert!((1_000..=4_000).contains(&tokens), "{tokens}");
        prop_assert!(calibration.estimate_tokens(calibration.estimate_chars(Tokens(tokens))) <= Tokens(tokens));
    }
}

fn memory() -> Memory {
    let text = |words: &str| words.to_owned();
    Memory {
        project_summary: text("A parser.\n# It is fast."),
        completed_work: vec![text("Lexer"), text("Tree")],
        active_constraints: vec![
            ActiveConstraint {
                constraint: text("No network"),
                source_iteration: Some(text("iteration 3")),
            },
            ActiveConstraint { constraint: text("Old git"), source_iteration: None },
        ],
        architectural_decisions: vec![text("One loop")],
        unresolved_issues: vec![text("Slow on\n## large files")],
        file_knowledge: vec![FileKnowledge { path: text("src/a.rs"), purpose: text("The lexer") }],
        library_docs: vec![LibraryDocs {
            library: text("serde"),
            key_apis: text("Serialize\nDeserialize"),
            usage_notes: Some(text("Derive them.")),
        }],
        carried_over: vec![text("Old git")],
    }
}

fn cut(sections: Vec<PromptSection>, room: usize) -> (String, Vec<String>) {
    let mut fitted = fit_sections(sections, room);
    let only = fitted.pop().expect("one section");
    assert!(fitted.is_empty());
    (only.text, only.left_out)
}

#[test]
fn memory_is_shown_in_sections() {
    let (text, left_out) = cut(vec![build_memory_section(&memory(), 12_000)], usize::MAX);
    expect_test::expect![[r"
        ## Project memory
        ### Project state
        A parser.
        It is fast.

        ### Active constraints (DO NOT VIOLATE)
        - No network (from iteration 3)
        - Old git (carried over)

        ### Open issues
        - Slow on ## large files

        ### Decisions (follow these)
        - One loop

        ### Completed work
        - Lexer
        - Tree

        ### Files
        - `src/a.rs`: The lexer

        ### Libraries
        - **serde**: Serialize
          Deserialize
          Derive them."]]
    .assert_eq(&text);
    assert_eq!(left_out, Vec::<String>::new());
    let (nothing, _) = cut(vec![build_memory_section(&Memory::default(), 12_000)], 0);
    assert_eq!(nothing, "");
}

#[test]
fn memory_keeps_summary_and_constraints() {
    let (text, left_out) = cut(vec![build_memory_section(&memory(), 12_000)], 0);
    expect_test::expect![[r"
        ## Project memory
        ### Project state
        A parser.
        It is fast.

        ### Active constraints (DO NOT VIOLATE)
        - No network (from iteration 3)
        - Old git (carried over)

        (omitted for space: open issues (1); decisions (1); completed work (2); file knowledge (1); library docs: serde)"]]
    .assert_eq(&text);
    assert_eq!(left_out.len(), 5);
}

#[test]
fn a_listing_that_is_cut_is_closed() {
    let (code, more) = ("c".repeat(90), "m".repeat(90));
    let pieces = ["```", &code, "```", &more].map(SectionPiece::new).to_vec();
    let block = SectionBlock {
        heading: "## Skill: x".into(),
        step: CutStep::FirstSkill,
        from: CutFrom::End,
        label: CutLabel::Counted("lines of skill x".into()),
        pieces,
    };
    let section = |cap| PromptSection {
        name: SectionName::Skills,
        title: String::new(),
        cap,
        taken: 0,
        uses: 1,
        blocks: vec![block.clone()],
    };
    let found: Vec<String> = (100..250).map(|cap| cut(vec![section(cap)], cap).0).collect();
    for text in &found {
        assert_eq!(text.matches("```").count() % 2, 0, "{text}");
    }
    assert!(
        found.iter().any(|text| text.contains("(omitted for space: lines of skill x (2 of 4))"))
    );
}

fn blocks() -> impl Strategy<Value = Vec<PromptSection>> {
    let steps = [
        CutStep::Earlier,
        CutStep::LibraryDocs,
        CutStep::FileKnowledge,
        CutStep::OtherSkills,
        CutStep::CompletedWork,
        CutStep::Decisions,
        CutStep::Previous,
        CutStep::FirstSkill,
        CutStep::OpenIssues,
        CutStep::Constraints,
        CutStep::Never,
    ];
    let piece =
        ("[a-z]{1,8}", "[a-zé`# ]{0,60}").prop_map(|(name, text)| SectionPiece { name, text });
    let block = (
        prop_oneof![Just(String::new()), "### [a-z]{1,9}"],
        prop::sample::select(steps.to_vec()),
        prop_oneof![Just(CutFrom::Start), Just(CutFrom::End)],
        prop_oneof![
            "[a-z]{1,9}".prop_map(CutLabel::Counted),
            "[a-z]{1,9}".prop_map(CutLabel::Named),
        ],
        prop::collection::vec(piece, 0..12),
    )
        .prop_map(|(heading, step, from, label, pieces)| SectionBlock {
            heading,
            step,
            from,
            label,
            pieces,
        });
    let section = (
        prop_oneof![Just(String::new()), "## [a-z]{1,9}"],
        prop_oneof![Just(usize::MAX), 0_usize..1_500],
        0_usize..100,
        1_usize..3,
        prop::collection::vec(block, 0..4),
    )
        .prop_map(|(title, cap, taken, uses, blocks)| PromptSection {
            name: SectionName::Memory,
            title,
            cap,
            taken,
            uses,
            blocks,
        });
    prop::collection::vec(section, 0..5).prop_map(|mut sections| {
        if let Some(first) = sections.first_mut() {
            first.name = SectionName::Skills;
        }
        sections
    })
}

/// Characters of the sections in a prompt, with the empty lines around them.
fn taken(sections: &[PromptSection], fitted: &[FittedSection]) -> usize {
    let chars = |it: &FittedSection| match it.text.chars().count() {
        0 => 0,
        chars => chars + 2,
    };
    sections.iter().zip(fitted).map(|(section, it)| chars(it) * section.uses).sum()
}

/// How many pieces are cut according to the notes.
fn gone(fitted: &[FittedSection]) -> usize {
    let count = |note: &String| -> usize {
        if let Some((_, counted)) = note.rsplit_once(" (") {
            let count = counted.split([' ', ')']).next().and_then(|it| it.parse().ok());
            return count.expect("a number");
        }
        let (_, names) = note.split_once(": ").expect("a label");
        let (listed, more) = names.rsplit_once(" and ").unwrap_or((names, "0 more"));
        let more = more.strip_suffix(" more").and_then(|it| it.parse::<usize>().ok());
        listed.split(", ").count() + more.expect("a number")
    };
    fitted.iter().flat_map(|it| &it.left_out).map(count).sum()
}

/// How many pieces are missing from the text.
fn missing(sections: &[PromptSection], fitted: &[FittedSection]) -> usize {
    let mut missing = 0;
    for (section, it) in sections.iter().zip(fitted) {
        let mut lines: Vec<&str> = it.text.lines().collect();
        for piece in section.blocks.iter().flat_map(|block| &block.pieces) {
            match lines.iter().position(|line| *line == piece.text) {
                Some(at) => drop(lines.remove(at)),
                None => missing += 1,
            }
        }
    }
    missing
}

/// Makes every piece of text unique.
fn with_unique_texts(mut sections: Vec<PromptSection>) -> Vec<PromptSection> {
    let pieces = sections.iter_mut().flat_map(|it| &mut it.blocks).flat_map(|it| &mut it.pieces);
    for (nth, piece) in pieces.enumerate() {
        piece.text = format!("{nth} {}", piece.text);
    }
    sections
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_cut_fits_and_is_named(sections in blocks().prop_map(with_unique_texts), room in 0_usize..3_000) {
        let fitted = fit_sections(sections.clone(), room);
        let least = fit_sections(sections.clone(), 0);
        // Never over the room, unless the protected pieces alone are.
        prop_assert!(taken(&sections, &fitted) <= room || fitted == least);
        // Every cut is noted, and nothing else.
        prop_assert_eq!(gone(&fitted), missing(&sections, &fitted));
        for (section, it) in sections.iter().zip(&fitted) {
            let note = format!("(omitted for space: {})", it.left_out.join("; "));
            prop_assert!(it.left_out.is_empty() || it.text.ends_with(&note));
            // Protected pieces are kept verbatim.
            for piece in section.blocks.iter().filter(|it| it.step == CutStep::Never).flat_map(|it| &it.pieces) {
                prop_assert!(it.text.lines().any(|line| line == piece.text));
            }
            // The section's own limit holds, unless the protected pieces alone exceed it, or skills
            // use the room that is left.
            let own = it.text.chars().count() + section.taken;
            let is_bare = section.blocks.iter().filter(|it| it.step < CutStep::Never).flat_map(|it| &it.pieces)
                .all(|piece| it.text.lines().all(|line| line != piece.text));
            let is_free = section.name == SectionName::Skills && taken(&sections, &fitted) <= room;
            prop_assert!(own <= section.cap || is_bare || is_free);
        }
    }

    #[test]
    fn less_room_never_brings_something_back(
        sections in blocks().prop_map(with_unique_texts), one in 0_usize..3_000, two in 0_usize..3_000,
    ) {
        let (less, more) = (fit_sections(sections.clone(), one.min(two)), fit_sections(sections.clone(), one.max(two)));
        for ((section, less), more) in sections.iter().zip(&less).zip(&more) {
            for piece in section.blocks.iter().flat_map(|it| &it.pieces) {
                let has = |it: &FittedSection| it.text.lines().any(|line| line == piece.text);
                prop_assert!(!has(less) || has(more));
            }
        }
    }
}
