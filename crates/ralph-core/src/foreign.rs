//! What other loops left in a project: plans with check boxes, and shell scripts around an agent.
//!
//! They are documents to read, not programs to run; what is not understood is told. Not here:
//! finding the files, `prd.json` (a task file like any other), and what ralph makes of it all.

pub mod fix_plan;
pub mod loop_script;

/// Returns whether a prompt tells its agent how to run a loop: to choose from a list, to keep it,
/// to say when everything is done. ralph's own prompts do that, and two of them would disagree.
pub fn directs_a_loop(prompt: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "prd.json",
        "fix_plan",
        "progress.txt",
        "userstories",
        "<promise>",
        "exit_signal",
        "ralph_status",
        "implementation_plan",
    ];
    let prompt = prompt.to_lowercase();
    SIGNS.iter().any(|sign| prompt.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_loops_are_told_from_orders_for_a_project() {
        for (prompt, expect) in [
            ("Study specs/* and @fix_plan.md, then do one thing.", true),
            ("1. Read the PRD at `prd.json`\n", true),
            ("When done say <promise>COMPLETE</promise>.", true),
            ("Always run `make generate` after changing api/.", false),
            ("", false),
        ] {
            assert_eq!(directs_a_loop(prompt), expect, "{prompt}");
        }
    }
}
