//! Which text completes: only the final answer of a successful turn.

use super::conformance::SUITES;
use super::recorded::exit;
use super::suite::AgentSuite;
use super::table::{read_rows, select_suites};

/// A stream, and whether it completes.
const ANSWERS: &str = r"
    begin; text TAG; end TAG                         | yes
    begin; text TAG                                  | no
    begin; text TAG; fail x                          | no
    begin; text TAG; fail TAG                        | no
    begin; text Hm.; end Hm.                         | no
    # What is not the agent's own text.
    begin; user TAG; text Hm.; end Hm.               | no
    begin; thought TAG; text Hm.; end Hm.            | no
    begin; sub TAG; text Hm.; end Hm.                | no
    begin; tool; output TAG; text Hm.; end Hm.       | no
    begin; user TAG; end                             | no
    begin; user TAG; end Fine.                       | no
    begin; thought TAG; end                          | no
    begin; thought TAG; end Fine.                    | no
    begin; tool; sub TAG; end                        | no
    begin; sub TAG; end Fine.                        | no
    begin; tool; output TAG; end                     | no
    # Text before a tool call is not the answer.
    begin; text TAG; tool; end                       | no
    begin; text TAG; tool; text Hm.; end Hm.         | no
    begin; tool; output x; text TAG; end TAG         | yes
    # A message that comes in pieces, and text that another message replaces.
    begin; piece <promise>COMPLE; piece TE</promise>; end TAG | yes
    begin; whole TAG; whole Not yet.; end Not yet.   | no
    begin; whole <promise>COMPLE; whole TE</promise>; end Hm. | no
";

#[test]
fn only_the_final_answer_of_a_success_completes() {
    for [stream, expect] in read_rows(ANSWERS) {
        for suite in select_suites(stream) {
            check(suite, stream, expect);
        }
    }
    for suite in SUITES {
        for [stream, expect] in read_rows(suite.answers) {
            check(suite, stream, expect);
        }
    }
}

/// Checks whether a stream completes, and that it does not where it fails instead of ending well.
#[track_caller]
fn check(suite: &AgentSuite, stream: &str, expect: &str) {
    let items = stream.split("; ");
    let failed = items.map(|item| if item.starts_with("end") { "fail x" } else { item });
    let failed = failed.collect::<Vec<&str>>().join("; ");
    let expect = (expect == "yes").then_some("COMPLETE");
    for (stream, code, expect) in [(stream, 0, expect), (&failed, 0, None), (&failed, 1, None)] {
        let found = suite.read(&suite.write_stream(stream), "", exit(code)).1.signal;
        assert_eq!(found.as_deref(), expect, "{:?}: {stream}", suite.kind);
    }
}
