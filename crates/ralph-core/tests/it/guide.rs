//! The guides document every template variable, in the words of the code.

use ralph_core::asking::prompt::run::RUN_VARIABLES;

#[test]
fn the_guide_to_specifications_lists_every_variable_of_its_templates() {
    let page = include_str!("../../../../docs/specs.md");
    for (name, meaning) in RUN_VARIABLES {
        let row = format!("| `${{{name}}}` | {meaning} |");
        assert!(page.contains(&row), "docs/specs.md should hold\n{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `${")).count();
    assert_eq!(rows, RUN_VARIABLES.len());
}
