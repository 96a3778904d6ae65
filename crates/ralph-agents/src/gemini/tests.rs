//! What only Gemini CLI does: it refuses output formats that do not tell how a call ended.

use ralph_model::agent::AgentKind;
use ralph_model::failure::FailureClass;

use crate::call::tests::context;
use crate::test_support::build_request;

#[test]
fn unsupported_output_format_is_rejected() {
    for flags in [&["-o text"][..], &["--output-format=json"], &["-o", "json"]] {
        let request = build_request(AgentKind::Gemini, flags, "Do it.");
        let refused = crate::build_call(&request, &context()).expect_err("it is refused");
        assert_eq!(refused.class, FailureClass::BadCall, "{flags:?}");
    }
}
