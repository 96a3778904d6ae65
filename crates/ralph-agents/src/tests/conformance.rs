//! What all adapters do alike: one suite for each agent, one test for each behavior.
//!
//! Adding an agent takes a directory of recorded streams, the suite in its folder, and a line in
//! `SUITES`; the shared tables are in the modules next to this one. Not here: what only one agent
//! does; its folder tests that.

use expect_test::expect_file;
use proptest::prelude::*;
use ralph_model::agent::{AgentKind, AgentOrigin, AgentOutput};
use ralph_model::child::{Ending, NotStarted};
use ralph_model::failure::FailureClass;

use super::recorded::{NOW, exit, signal};
use super::suite::AgentSuite;
use crate::ADAPTERS;
use crate::test_support::{build_request, read_stream};

/// The suite of each agent.
pub(crate) static SUITES: &[&AgentSuite] = &[
    &crate::claude::tests::SUITE,
    &crate::codex::tests::SUITE,
    &crate::gemini::tests::SUITE,
    &crate::opencode::tests::SUITE,
    &crate::copilot::tests::SUITE,
    &crate::qwen::tests::SUITE,
    &crate::cline::tests::SUITE,
    &crate::amp::tests::SUITE,
    &crate::pi::tests::SUITE,
    &crate::aider::tests::SUITE,
    &crate::kilo::tests::SUITE,
    &crate::acp::tests::SUITE,
];

/// Returns the agents whose recordings are streams, not conversations: all products.
pub(crate) fn list_recorded() -> impl Iterator<Item = &'static AgentSuite> {
    SUITES.iter().copied().filter(|suite| suite.kind.origin() == AgentOrigin::Product)
}

#[test]
fn every_recorded_stream_is_read() {
    for agent in list_recorded() {
        expect_file![agent.directory().join("readings.txt")].assert_eq(&agent.readings());
    }
}

#[test]
fn every_product_has_a_suite() {
    for adapter in crate::list_products() {
        assert!(SUITES.iter().any(|suite| suite.kind == adapter.kind), "{:?}", adapter.kind);
    }
}

#[test]
fn a_program_that_is_not_installed_has_a_hint() {
    let kinds = ADAPTERS.iter().map(|adapter| adapter.kind);
    for kind in kinds.filter(|kind| kind.origin() != AgentOrigin::BuiltIn) {
        let program = kind.name().to_owned();
        let missing = Ending::NotStarted { reason: NotStarted::NotFound { program } };
        let request = build_request(kind, &[], "Do it.");
        let failure = read_stream(&request, "", "", missing, NOW).1.failure.expect("a failure");
        assert_eq!(failure.class, FailureClass::NotInstalled, "{kind:?}");
        let hint = crate::find_install_hint(kind, kind.name());
        assert_eq!(failure.hint.as_deref(), Some(hint.as_str()), "{kind:?}");
    }
}

proptest! {
    // 256 for each agent, as many as proptest has by default.
    #![proptest_config(ProptestConfig::with_cases(2_560))]

    #[test]
    fn no_stream_makes_a_translator_panic(
        agent in prop::sample::select(list_recorded().collect::<Vec<_>>()),
        stream in 0usize..100,
        cut in 0usize..4_000,
        ending in prop::sample::select(vec![exit(0), exit(1), exit(2), signal(9)]),
        other in "(\\PC{0,40}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        let lines = agent.mutilated(stream, cut, &other);
        let mut plain = agent.request();
        plain.agent.output = AgentOutput::Text;
        let _ = read_stream(&plain, &lines, &other, ending.clone(), NOW);
        let _ = agent.read(&lines, &other, ending);
        let _ = read_stream(&build_request(AgentKind::Sim, &[], ""), &other, "", exit(1), NOW);
    }
}
