//! What only Cline does: the prompt as an argument, errors among warnings on stderr.

use ralph_model::agent::AgentKind;

use crate::call::tests::context;
use crate::test_support::build_request;
use crate::tests::conformance::CLINE;
use crate::tests::recorded::exit;

#[test]
fn error_is_found_among_warnings() {
    let warned = "Warning: AI SDK Warning System: off\n      at iX (/x.js:26:469)\n";
    let error = format!("{warned}\n{{\"type\":\"error\",\"message\":\"No such thing.\"}}\n");
    for (stderr, message) in [(&*error, "exit code 1: No such thing."), (warned, "exit code 1")] {
        let failure = CLINE.read("", stderr, exit(1)).1.failure.expect("exit 1 is no success");
        assert_eq!(failure.message, message);
    }
}

#[test]
fn unsuitable_prompt_argument_goes_to_stdin() {
    let long = "long ".repeat(50_000);
    for (prompt, is_argument) in [
        ("Do it.", true),
        ("Do it.\n\n- a\n", true),
        ("continue", false),
        ("--- \ntitle: x", false),
        ("a \0", false),
        (&long, false),
    ] {
        let call = crate::build_call(&build_request(AgentKind::Cline, &[], prompt), &context())
            .expect("every prompt gets in");
        assert_eq!(call.stdin.is_empty(), is_argument);
        assert_eq!(call.args.last().is_some_and(|last| last == prompt), is_argument);
    }
}
