//! What only Amp does: it waits for a login forever, and reports usage for each message.

use expect_test::expect;
use ralph_model::child::{Ending, Force};
use ralph_model::failure::FailureClass;

use crate::tests::conformance::AMP;
use crate::tests::recorded::{IDLE, exit, show};

#[test]
fn a_missing_key_ends_the_call() {
    // Amp would wait for a login forever: the call counts as ended, and as not logged in.
    let stdout = AMP.file("no-api-key.stdout.txt");
    let lingered = Ending::Lingered { force: Force::Terminated };
    let (all, reply) = AMP.read(&stdout, "", lingered);
    expect![[r#"
        no-api-key (ended after its last result)
          lines   F......
          event   notice "No API key found. Starting login flow..."
          event   result Failed("No API key found. Starting login flow...") None None
          event   unparsed "If your browser does not open automatically, visit:"
          event   unparsed "http://127.0.0.1:4010/auth/cli-login?authToken=…"
          event   unparsed "When prompted, paste your code here:"
          text    ""
          signal  None
          tools   0, 0 failed; 3 unparsed; session None; model None
          usage   0 in, 0 out, 0 read, 0 written; None
          failure NotLoggedIn: No API key found. Starting login flow...
          hint    Some("set AMP_API_KEY, or run `amp login`; without credit, add some")
    "#]]
    .assert_eq(&show("no-api-key", &all, &reply));
    AMP.check(&stdout, "", IDLE, Some(FailureClass::NotLoggedIn));
}

#[test]
fn usage_is_summed_and_a_larger_total_wins() {
    let spent = |text: &str| {
        let line = AMP.write_stream(&format!("text {text}"));
        line.replace("}]}", r#"}],"usage":{"input_tokens":100,"output_tokens":10}}"#)
    };
    let answer = AMP.write_stream("end b");
    let total =
        |input: u64| answer.replace("\"b\"", &format!(r#""b","usage":{{"input_tokens":{input}}}"#));
    for (last, tokens) in [(answer.clone(), 220), (total(90), 220), (total(1_000), 1_000)] {
        let found = AMP.read(&[spent("a"), spent("b"), last].join("\n"), "", exit(0)).1;
        assert_eq!((found.usage.tokens().0, found.unparsed), (tokens, 0));
    }
}
