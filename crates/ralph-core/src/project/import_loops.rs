//! Reads what other loops left in a project: plans with check boxes, and shell scripts around an
//! agent.
//!
//! They are parsed, never run; parts that are not understood are reported. A `prd.json` is an
//! ordinary task file and not handled here.

pub mod fix_plan;
pub mod loop_script;

/// Returns whether a prompt instructs its agent to run a loop: to choose from a list, to maintain
/// it, to report when everything is done. ralph's own prompts do that, and the two would contradict
/// each other.
pub fn is_loop_prompt(prompt: &str) -> bool {
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
    fn loop_prompts_are_recognized() {
        for (prompt, expect) in [
            ("Study specs/* and @fix_plan.md, then do one thing.", true),
            ("1. Read the PRD at `prd.json`\n", true),
            ("When done say <promise>COMPLETE</promise>.", true),
            ("Always run `make generate` after changing api/.", false),
            ("", false),
        ] {
            assert_eq!(is_loop_prompt(prompt), expect, "{prompt}");
        }
    }
}
