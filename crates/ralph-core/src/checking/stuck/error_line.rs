//! Recognizes the lines of an output that report an error.

use super::noise::strip_noise;

/// Beginnings of lines that report an error, in lower case.
const STARTS: [&str; 21] = [
    "error:",
    "error[",
    "error ",
    "[error]",
    "err!",
    "npm err",
    "fatal:",
    "fatal error",
    "failed ",
    "failed:",
    "fail ",
    "fail:",
    "--- fail",
    "not ok ",
    "panic:",
    "traceback (",
    "exception",
    "unhandled ",
    "uncaught ",
    "✗ ",
    "✖ ",
];

/// Parts of lines that report an error, in lower case.
const PARTS: [&str; 11] = [
    "error:",
    "error [err_",
    "exception:",
    ": error ",
    " panicked at ",
    "... failed",
    "... fail",
    "... error",
    ": command not found",
    ": no such file or directory",
    "segmentation fault",
];

/// Returns whether a line of plain output reports an error.
pub fn is_error_line(line: &str) -> bool {
    let Some(text) = strip_noise(line) else { return false };
    let text = text.to_lowercase();
    STARTS.iter().any(|start| text.starts_with(start))
        || PARTS.iter().any(|part| text.contains(part))
        // `E   assert 1 == 2` of pytest.
        || line.starts_with("E   ")
}

#[cfg(test)]
mod tests {
    use super::is_error_line;

    #[test]
    fn errors_are_recognized_and_progress_is_not() {
        for line in [
            "error[E0425]: cannot find value `x`",
            "src/a.c:3:4: error: expected ';'",
            "src/a.ts(3,4): error TS2304: Cannot find name 'x'.",
            "[ERROR] COMPILATION ERROR :",
            "AssertionError [ERR_ASSERTION]: -1 == 0",
            "ImportError: cannot import name 'Token' (src/tokens.py)",
            "E   assert 1 == 2",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "FAIL: test_triple (tests.test_core.T)",
            "test_triple (tests.test_core.T.test_triple) ... FAIL",
            "test parse ... FAILED",
            "thread 'main' panicked at src/lib.rs:3:5:",
            "--- FAIL: TestX (0.00s)",
            "not ok 3 - sums",
            "npm ERR! Test failed.",
            "sh: 1: nosuch: command not found",
            "Traceback (most recent call last):",
        ] {
            assert!(is_error_line(line), "{line}");
        }
        for line in [
            "",
            "line 1 of output",
            "test error: is_shown ... ok",
            "ok 3 - error: is shown",
            "0 errors, 0 failures",
            "   Compiling thiserror v2.0.0",
            "tests/test_error.py::test_fails PASSED",
            "Tests: 3 failed, 4 passed",
        ] {
            assert!(!is_error_line(line), "{line}");
        }
    }
}
