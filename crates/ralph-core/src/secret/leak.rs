//! Secrets in lines that are committed or about to be: their positions, never their values.

use serde::{Deserialize, Serialize};

/// A secret in an added line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretLeak {
    /// The file, relative to the project directory.
    pub path: String,
    /// The line number, from 1.
    pub line: u32,
    /// The kind of secret, such as `a GitHub token`.
    pub what: String,
}

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
