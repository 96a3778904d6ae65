//! Recognizes the lines that npm, pnpm and yarn print around the output of a script.
//!
//! They name the script and report that it failed, but not why. Not here: lines of the script.

/// Beginnings of the lines after a script that failed, and of the first line of yarn.
const STARTS: [&str; 7] = [
    "npm ERR!",
    "npm error",
    "ELIFECYCLE",
    "ERR_PNPM_",
    "error Command failed with exit code",
    "info Visit https://yarnpkg.com/",
    "yarn run v",
];

/// Returns for each line whether npm, pnpm or yarn printed it around a script.
pub(crate) fn mark_runner_lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut lines = text.lines().peekable();
    let mut is_command_next = false;
    std::iter::from_fn(move || {
        let line = lines.next()?;
        // `> project@1.0.0 test` and `> node --test`.
        let is_header = is_echo(line) && lines.peek().is_some_and(|next| is_echo(next));
        // `yarn run v1.22.22` and `$ node --test`.
        let is_command = is_command_next && (is_echo(line) || line.starts_with("$ "));
        is_command_next = is_header || line.starts_with("yarn run v");
        let line_start = line.trim_start();
        let is_marked = STARTS.iter().any(|start| line_start.starts_with(start));
        Some((line, is_header || is_command || is_marked))
    })
}

/// Returns an output without empty lines and the name of the script at its beginning.
pub fn skip_script_header(text: &str) -> &str {
    let mut rest = text;
    for (line, is_runner) in mark_runner_lines(text) {
        let is_header = is_runner && line.starts_with(['>', '$', 'y']);
        if !is_header && !line.trim().is_empty() {
            break;
        }
        rest = &rest[line.len()..];
        rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest);
    }
    rest
}

fn is_echo(line: &str) -> bool {
    line.strip_prefix("> ").is_some_and(|rest| !rest.starts_with(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let own = mark_runner_lines(text).filter(|(_, is_runner)| !is_runner);
        let own: Vec<&str> = own.map(|(line, _)| line).filter(|line| !line.is_empty()).collect();
        assert_eq!(own, expect, "{text}");
    }

    #[test]
    fn lines_around_a_script_are_recognized() {
        check("\n> project@1.0.0 test\n> node run.js\n\nboom\nnpm ERR! Test failed.\n", &["boom"]);
        check("> test\n> node run.js\nboom\n> is a quote\n", &["boom", "> is a quote"]);
        check(
            "yarn run v1.22.22\n$ node run.js\nboom\nerror Command failed with exit code 3.\n",
            &["boom"],
        );
        check("boom\n ELIFECYCLE  Test failed. See above for more details.\n", &["boom"]);
        assert_eq!(
            skip_script_header("\n> a@1.0.0 test\n> node a\n\n  boom\n> x\n"),
            "  boom\n> x\n"
        );
        assert_eq!(
            skip_script_header("npm error code 1\n> a\n> b\n"),
            "npm error code 1\n> a\n> b\n"
        );
        check("$ boom\n>       assert x\n", &["$ boom", ">       assert x"]);
    }
}
