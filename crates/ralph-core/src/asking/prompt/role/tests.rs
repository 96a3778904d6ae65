//! Templates: the ones that ship with ralph use variables that are known, and those of projects
//! lose nothing that matters.

use std::collections::BTreeSet;

use super::*;

fn known() -> BTreeSet<&'static str> {
    VARIABLES.iter().map(|(name, _)| *name).collect()
}

/// Variables that no default uses; they are for templates of the project's own.
const FOR_PROJECTS: [&str; 9] = [
    "ITERATION",
    "MAX_ITERATIONS",
    "MODE",
    "RALPH_ITERATION",
    "RALPH_MAX_ITERATIONS",
    "ROLE",
    "TASK_FILE",
    "TASK_ID",
    "TASK_TITLE",
];

#[test]
fn the_defaults_use_every_section_and_nothing_unknown() {
    let mut used = BTreeSet::new();
    for prompt in RolePrompt::ALL {
        for name in template::find_names(prompt.template()) {
            assert!(known().contains(name), "{name} in {}", prompt.name());
            used.insert(name);
        }
        for name in prompt.required_variables() {
            let count = template::find_names(prompt.template()).filter(|it| it == name).count();
            assert_eq!(count, 1, "{name} in {}", prompt.name());
        }
    }
    used.extend(FOR_PROJECTS);
    assert_eq!(used, known());
    assert_eq!(known().len(), VARIABLES.len());
}

#[test]
fn the_guide_lists_every_variable() {
    let page = include_str!("../../../../../../docs/prompts.md");
    for (name, meaning) in VARIABLES {
        let row = format!("| `${{{name}}}` | {meaning} |");
        assert!(page.contains(&row), "docs/prompts.md should hold\n{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `${")).count();
    assert_eq!(rows, VARIABLES.len());
}

#[track_caller]
fn check(template: &str, prompt_md: &str, expect: &str, warnings: &[&str]) {
    let beside = CompanionFiles {
        tasks: "plan.json".into(),
        prompt: prompt_md.into(),
        ..CompanionFiles::default()
    };
    let vars = BTreeMap::from([
        ("PROJECT".to_owned(), "${TASK}".to_owned()),
        ("TASK".to_owned(), "not this".to_owned()),
    ]);
    let frame = RoleFrame {
        template: Some(template),
        iteration: IterationNumber(2),
        limit: 9,
        vars: &vars,
        companions: &beside,
        gates: &[],
        surroundings: "",
    };
    let values = TemplateValues::from([
        ("TASK", "the task".to_owned()),
        ("KEEPING", "the rules".to_owned()),
        ("ANSWER", "how to answer".to_owned()),
    ]);
    let rendered = render_role_prompt(RolePrompt::Fix, &frame, values);
    assert_eq!(rendered.text, expect);
    assert_eq!(rendered.warnings, warnings);
}

#[test]
fn a_template_of_the_project_loses_nothing_that_matters() {
    let whole = "${TASK} ${KEEPING} ${ANSWER}";
    let done = "the task the rules how to answer";
    check(whole, "", &format!("{done}\n"), &[]);
    check("Go.\n\n\n", "", "Go.\n\nthe task\n\nthe rules\n\nhow to answer\n", &[]);
    check("$${TASK} ${ANSWER}", "", "${TASK} how to answer\n\nthe task\n\nthe rules\n", &[]);
    check(
        &format!(
            "{whole} ${{ITERATION}}/${{MAX_ITERATIONS}} ${{ROLE}} ${{TASK_FILE}} ${{PROJECT}}"
        ),
        "",
        &format!("{done} 2/9 fix plan.json ${{TASK}}\n"),
        &[],
    );
    check(
        &format!("${{DIFF}}\n\n{whole}\n\n${{PROJECT_PROMPT}}"),
        "<!-- c -->\nOn ${TASK}: ${TASKS}, ${PROJECT_PROMPT}$$.\n",
        &format!("{done}\n\n## Project instructions\nOn the task: ${{TASKS}}, $.\n"),
        &["unknown variable `${TASKS}` in prompt.md; did you mean `${TASK}`?"],
    );
    check(
        &format!("{whole} ${{projct}} ${{WHATEVER_ELSE}}"),
        "",
        &format!("{done} ${{projct}} ${{WHATEVER_ELSE}}\n"),
        &[
            "unknown variable `${projct}` in fix.md; did you mean `${PROJECT}`?",
            "unknown variable `${WHATEVER_ELSE}` in fix.md",
        ],
    );
}

#[test]
fn long_patterns_are_cut_with_a_note() {
    let log = format!("## Codebase Patterns\n{}", "- ä pattern\n".repeat(1000));
    let beside = CompanionFiles {
        progress: Some("ralph/progress.txt".into()),
        log,
        ..CompanionFiles::default()
    };
    let shown = format_patterns(&beside);
    assert!(shown.ends_with("…\n(This was cut; `ralph/progress.txt` has all of it.)"), "{shown}");
    assert!((PATTERNS_CHARS..PATTERNS_CHARS + 200).contains(&shown.chars().count()));
}

#[test]
fn unreadable_companion_files_are_reported() {
    let read = |name: &str| match name {
        "prd.md" => Err(PromptError { message: "large".into() }),
        "prompt.md" => Err(PromptError { message: "broken".into() }),
        _ => Ok(None),
    };
    let (beside, unusable) =
        CompanionFiles::read_files(Path::new("/p/ralph/tasks.json"), Path::new("/p"), read);
    // Requirements of any size are there to be read.
    let prd = Some("ralph/prd.md".to_owned());
    let tasks = "ralph/tasks.json".to_owned();
    assert_eq!(beside, CompanionFiles { tasks, prd, ..CompanionFiles::default() });
    assert_eq!(unusable, [PromptError { message: "broken".into() }]);
}
