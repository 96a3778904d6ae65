//! The feedback about secrets in lines that are committed or about to be.

use ralph_model::worktree::SecretLeak;

/// A longer list does not help the agent to fix it.
pub const MOST_LEAKS: usize = 20;

/// Returns the feedback for an agent about secrets in its changes.
pub fn format_leak_feedback(leaks: &[SecretLeak]) -> String {
    let line = |SecretLeak { path, line, what }: &SecretLeak| format!("- {path}:{line}: {what}");
    let lines: Vec<String> = leaks.iter().map(line).collect();
    format!(
        "These lines hold secrets, which must not be committed:\n{}\nTake them out, and have the program read them from the environment. If they are in a commit that you made, make that commit again without them.",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_place_and_the_kind() {
        let leak =
            |path: &str, line| SecretLeak { path: path.into(), line, what: "a web token".into() };
        expect_test::expect![[r"
            These lines hold secrets, which must not be committed:
            - a.py:3: a web token
            - b/c:1: a web token
            Take them out, and have the program read them from the environment. If they are in a commit that you made, make that commit again without them."]]
        .assert_eq(&format_leak_feedback(&[leak("a.py", 3), leak("b/c", 1)]));
    }
}
