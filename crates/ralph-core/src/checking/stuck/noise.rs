//! Recognizes lines of a gate's output that do not describe a failure: progress, and passed tests.
//!
//! If more tests pass or more is built, the failure is still the same.

/// Returns the part of a line that describes a failure, if there is one.
pub(crate) fn strip_noise(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(is_frame).trim_end();
    let first = text.bytes().next()?;
    if is_progress(line, text, first) || is_passed(text, first) || is_dots(text) {
        return None;
    }
    if is_context(line, text, first) {
        return None;
    }
    Some(strip_truncated(text))
}

/// Returns whether a character draws a tree; those depend on what else is in the tree.
fn is_frame(character: char) -> bool {
    character.is_whitespace() || ('\u{2500}'..='\u{257f}').contains(&character)
}

/// Cargo aligns these words to the right; test messages are not aligned.
const CARGO: [&str; 17] = [
    "Compiling",
    "Finished",
    "Running",
    "Downloading",
    "Downloaded",
    "Updating",
    "Locking",
    "Blocking",
    "Checking",
    "Building",
    "Fresh",
    "Adding",
    "Doc-tests",
    "Nextest",
    "Starting",
    "Dirty",
    "Summary",
];

/// Beginnings of lines that appear on the first run only, or that count and time.
const PROGRESS: [&str; 48] = [
    "[INFO] Download",
    "[INFO] Total time",
    "[INFO] Finished at",
    "Downloading ",
    "Downloaded ",
    "go: downloading ",
    "go: finding ",
    "Collecting ",
    "Requirement already satisfied",
    "Using cached ",
    "Installing collected packages",
    "Successfully installed ",
    "npm warn ",
    "npm notice",
    "npm WARN",
    "added ",
    "Progress (",
    "running ",
    "collecting ",
    "collected ",
    "rootdir: ",
    "created: ",
    "bringing up nodes",
    "plugins: ",
    "Using --randomly-seed",
    "-test.shuffle ",
    "Random Seed: ",
    "Random seed: ",
    "Randomized with seed",
    "TAP version",
    "Finished in ",
    "Test run finished after",
    "Ran all test suites",
    "Start at ",
    "Duration ",
    "Time: ",
    "Test Files ",
    "Tests: ",
    "Tests ",
    "Test Suites: ",
    "Snapshots: ",
    "# Subtest: ",
    "# duration_ms",
    "# tests ",
    "# suites ",
    "# pass ",
    "# skipped ",
    "duration_ms: ",
];

fn is_progress(line: &str, text: &str, first: u8) -> bool {
    if line.starts_with("  ") {
        let word = text.split(' ').next().unwrap_or_default();
        if CARGO.contains(&word) && line.len() - text.len() >= 3 && word.len() < text.len() {
            return true;
        }
    }
    if PROGRESS.iter().any(|start| start.as_bytes()[0] == first && text.starts_with(start)) {
        return true;
    }
    match first {
        b'0'..=b'9' => {
            let rest = text.trim_start_matches(|next: char| next.is_ascii_digit());
            // The plan of TAP, and the workers of pytest.
            rest.starts_with("..") || rest.starts_with(" workers [") || rest == "%"
        }
        b't' => text.starts_with("test result: "),
        b'>' => text.starts_with("> Task :") && !text.ends_with("FAILED"),
        b'[' => text.ends_with(']') && is_bracketed_count(text),
        _ => ('\u{2800}'..='\u{28ff}').contains(&text.chars().next().unwrap_or_default()),
    }
}

/// Matches the result table of the `JUnit` console: `[         5 tests found           ]`.
fn is_bracketed_count(text: &str) -> bool {
    let inner = text[1..text.len() - 1].trim_start();
    let rest = inner.trim_start_matches(|next: char| next.is_ascii_digit());
    rest.len() < inner.len() && (rest.starts_with(" tests ") || rest.starts_with(" containers "))
}

fn is_passed(text: &str, first: u8) -> bool {
    match first {
        b'o' if text.starts_with("ok ") || text.starts_with("ok\t") => return true,
        b'P' if text.starts_with("PASS ") || text.starts_with("PASS:") || text == "PASS" => {
            return true;
        }
        b'-' if text.starts_with("--- PASS") || text.starts_with("--- SKIP") => return true,
        b'=' if text.starts_with("=== ") => {
            return ["RUN", "PAUSE", "CONT", "NAME"].iter().any(|word| text[4..].starts_with(word));
        }
        b'[' if text.starts_with("[       OK ]") || text.starts_with("[ RUN      ]") => {
            return true;
        }
        // Passed or skipped tests: `✓`, `✔`, `√`, `↓`.
        0xe2 if text.starts_with(['✓', '✔', '√', '↓']) => return true,
        _ => {}
    }
    match text.as_bytes().last() {
        Some(b'k') => text.ends_with(" ... ok"),
        Some(b'd') => text.ends_with(" ... ignored"),
        Some(b'D') => text.ends_with(" PASSED"),
        Some(b']') => text.ends_with("[OK]") || text.contains(" PASSED "),
        Some(0x94) => text.ends_with('✔'),
        Some(_) | None => text.starts_with("[gw") && text.contains(" PASSED "),
    }
}

/// Matches progress dots of pytest, unittest, rspec and phpunit, which come in any order, and
/// progress bars.
fn is_dots(text: &str) -> bool {
    let is_dot =
        |byte| matches!(byte, b'.' | b'F' | b'E' | b's' | b'x' | b'X' | b'S' | b'*' | b'I');
    if (text.ends_with("%]") || text.ends_with("%)"))
        && let Some(at) = text.rfind(['[', '('])
    {
        let last = text[..at].trim_end().rsplit(' ').next().unwrap_or_default();
        return !last.is_empty() && last.bytes().all(is_dot);
    }
    text.bytes().all(is_dot) && text.contains('.')
}

/// Matches the lines around the marked line of a code frame of jest or vitest: they change with
/// every edit nearby. Compilers print line numbers at the margin; those lines are kept.
fn is_context(line: &str, text: &str, first: u8) -> bool {
    if !first.is_ascii_digit() || !line.starts_with("    ") {
        return false;
    }
    let rest = text.trim_start_matches(|next: char| next.is_ascii_digit());
    rest.starts_with("| ") || rest.starts_with(" | ") || rest == " |" || rest == "|"
}

/// Cuts the message from pytest's summary: pytest truncates it at the width of the screen, so a
/// longer path changes it. The name is enough, as the message is printed above.
fn strip_truncated(text: &str) -> &str {
    match text.find(" - ") {
        Some(at) if text.ends_with("...") && text.starts_with("FAILED ") => &text[..at],
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests;
