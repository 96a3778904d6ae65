//! Which failure follows from what an agent reports, what it prints on stderr, and how its process
//! ends.

use ralph_model::agent::AgentOrigin;
use ralph_model::failure::Failure;

use super::conformance::SUITES;
use super::suite::AgentSuite;
use super::table::{read_ending, read_rows, select_suites, show_class};

/// The ending, the class, and what was on stdout and on stderr.
const ENDINGS: &str = r"
    0           | -           | begin; text Fine.; end Fine.
    lingered    | -           | begin; text Fine.; end Fine.
    hard        | -           | begin; text Fine.; end Fine.
    0           | Empty       | begin; end
    0           | Malformed   | begin; text Fine.
    0           | Malformed   |
    1           | Crashed     | begin; text Fine. | boom
    3           | Crashed     |       | boom
    1           | Crashed     |
    s9          | Crashed     |
    1           | Crashed     |       | TypeError: undefined is not a function
    # A result without other lines.
    0           | -           | alone Fine.
    lingered    | -           | alone Fine.
    hard        | -           | alone Fine.
    1           | Crashed     | alone Fine.
    s9          | Crashed     | alone Fine.
    interrupted | Interrupted | alone Fine.
    # Endings by ralph.
    idle        | IdleTimeout |
    hard        | HardTimeout |
    idle        | IdleTimeout | begin; text Fine.
    hard        | HardTimeout | begin; text Fine.
    interrupted | Interrupted |
    interrupted | Interrupted | begin; text Fine.; end Fine.
    # Limits in the agent's own text mean nothing.
    0           | -           | begin; text You've hit your usage limit, try again at 3:00 PM. Quota exceeded, retry in 3s.; end x
    1           | Crashed     | begin; text You've hit your usage limit, try again at 3:00 PM. Quota exceeded, retry in 3s.
";

/// The same for products. Over the Agent Client Protocol the result decides before the exit.
const EXITS: &str = r"
    1           | Crashed     | begin; text Fine.; end Fine.
    143         | Crashed     | begin; text Fine.; end Fine.
    s9          | Crashed     | begin; text Fine.; end Fine.
    1           | BadCall     |       | error: unknown option '--frobnicate'
";

/// Returns the failure of a row. What is in a recorded file begins with `@`.
fn find_failure(agent: &AgentSuite, stream: &str, stderr: &str, ending: &str) -> Option<Failure> {
    let stderr = match stderr.strip_prefix('@') {
        Some(name) => agent.file(&format!("{name}.stderr.txt")),
        None => stderr.replace("\\n", "\n"),
    };
    agent.read(&agent.write_stream(stream), &stderr, read_ending(ending)).1.failure
}

/// Checks the class of a row, and that the message shows stderr. Adds to the list what is wrong.
fn check(wrong: &mut Vec<String>, agent: &AgentSuite, [ending, class, stream, stderr]: [&str; 4]) {
    let failure = find_failure(agent, stream, stderr, ending);
    let found = show_class(failure.as_ref().map(|failure| &failure.class));
    let is_shown = stderr.starts_with('@')
        || ending == "idle"
        || failure.as_ref().is_none_or(|failure| failure.message.contains(stderr));
    if found != class || !is_shown {
        let kind = agent.kind.name();
        wrong.push(format!("{kind} | {ending} | {class} | {stream} | {stderr}: {failure:?}"));
    }
}

#[test]
fn each_ending_has_its_class() {
    let mut wrong = Vec::new();
    for row in read_rows::<4>(ENDINGS) {
        for suite in select_suites(row[2]) {
            check(&mut wrong, suite, row);
        }
    }
    for suite in SUITES {
        let exits = match suite.kind.origin() {
            AgentOrigin::Product => EXITS,
            AgentOrigin::Command | AgentOrigin::BuiltIn => "",
        };
        for row in [exits, suite.failures].into_iter().flat_map(read_rows) {
            check(&mut wrong, suite, row);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_error_has_its_class() {
    let mut wrong = Vec::new();
    for suite in SUITES {
        let ways = read_rows::<2>(suite.ways);
        assert_eq!(ways.is_empty(), suite.errors.is_empty(), "{:?}", suite.kind);
        for [class, error] in read_rows(suite.errors) {
            for [ending, stream] in &ways {
                check(&mut wrong, suite, [ending, class, &stream.replace('%', error), ""]);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn message_and_hint_name_the_reason() {
    for suite in SUITES {
        for [ending, text, stream, stderr] in read_rows(suite.messages) {
            let failure = find_failure(suite, stream, stderr, ending).expect("a failure");
            let is_named = failure.message.contains(text)
                || failure.hint.as_ref().is_some_and(|hint| hint.contains(text));
            assert!(is_named, "{text}: {failure:?}");
        }
    }
}
