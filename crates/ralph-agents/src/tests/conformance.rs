//! What all adapters do alike: one row for each agent, one test for each behavior.
//!
//! Adding an agent takes a directory of recorded streams, a row here, and its words in `lines.rs`; the
//! tables are in the modules next to this one. Not here: what only one agent does; its folder tests
//! that.

use std::path::Path;

use expect_test::expect_file;
use proptest::prelude::*;
use ralph_model::agent::{AgentKind, AgentOrigin, AgentOutput};
use ralph_model::child::{Ending, NotStarted};
use ralph_model::failure::FailureClass;

use super::lines;
use super::recorded::{NOW, Recorded, exit, signal};
use crate::ADAPTERS;
use crate::test_support::{build_request, read_stream};

/// The agents with recorded streams.
const RECORDED: [Recorded; 10] =
    [CLAUDE, CODEX, GEMINI, OPENCODE, COPILOT, QWEN, CLINE, AMP, PI, AIDER];

/// The agents of the tables.
pub(crate) const AGENTS: [Recorded; 11] =
    [CLAUDE, CODEX, GEMINI, OPENCODE, COPILOT, QWEN, CLINE, AMP, PI, AIDER, ACP];

pub(crate) const CLAUDE: Recorded = Recorded {
    kind: AgentKind::Claude,
    version: "2.1.325",
    lines: lines::CLAUDE,
    endings: "api-error-401=1 api-error-500=1 interrupted-sigterm=143 max-budget=1 \
        max-output-tokens=1 max-turns=1 rate-limit=1 structured-output-retries=1 \
        usage-limit-5h=1 usage-limit-weekly=1",
};

pub(crate) const CODEX: Recorded = Recorded {
    kind: AgentKind::Codex,
    version: "0.166.0",
    lines: lines::CODEX,
    endings: "api-error-401=1 context-window=1 interrupted-sigint=1 interrupted-sigterm=s15 \
        max-output-tokens=1 network-wait=s9 overloaded=1 quota=1 rate-limit-429=1 \
        rate-limit-stream=1 stream-drop=1 usage-limit=1 usage-limit-other-day=1",
};

pub(crate) const GEMINI: Recorded = Recorded {
    kind: AgentKind::Gemini,
    version: "0.61.0",
    lines: lines::GEMINI,
    endings: "api-key-invalid=144 max-turns=53 quota-daily=173",
};

pub(crate) const OPENCODE: Recorded = Recorded {
    kind: AgentKind::Opencode,
    version: "1.18.33",
    lines: lines::OPENCODE,
    endings: "api-error-401=1 interrupted-sigint=s2 rate-limit-silent=s9 stream-drop-loop=s9",
};

pub(crate) const COPILOT: Recorded = Recorded {
    kind: AgentKind::Copilot,
    version: "1.0.102",
    lines: lines::COPILOT,
    endings: "api-error-401=1 interrupted-sigterm=s15 stream-drop=1",
};

pub(crate) const QWEN: Recorded = Recorded {
    kind: AgentKind::Qwen,
    version: "0.24.4",
    lines: lines::QWEN,
    endings: "api-error-401=1",
};

pub(crate) const CLINE: Recorded = Recorded {
    kind: AgentKind::Cline,
    version: "3.0.65",
    lines: lines::CLINE,
    endings: "api-error-401=1 max-tokens=1 stream-drop=1 timeout=143",
};

pub(crate) const AMP: Recorded = Recorded {
    kind: AgentKind::Amp,
    version: "0.0.1790142911",
    lines: lines::AMP,
    endings: "error=1",
};

pub(crate) const PI: Recorded =
    Recorded { kind: AgentKind::Pi, version: "0.73.1", lines: lines::PI, endings: "" };

pub(crate) const AIDER: Recorded =
    Recorded { kind: AgentKind::Aider, version: "0.86.2", lines: lines::AIDER, endings: "" };

/// Its recordings are conversations; its own tests read them.
pub(crate) const ACP: Recorded =
    Recorded { kind: AgentKind::Acp, version: "1", lines: lines::ACP, endings: "" };

#[test]
fn every_recorded_stream_is_read() {
    for agent in RECORDED {
        expect_file![agent.directory().join("readings.txt")].assert_eq(&agent.readings());
    }
}

#[test]
fn every_product_has_recorded_streams() {
    for adapter in crate::list_products() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        assert!(data.join(adapter.kind.name()).is_dir(), "{:?}", adapter.kind);
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
        agent in 0..RECORDED.len(),
        stream in 0usize..100,
        cut in 0usize..4_000,
        ending in prop::sample::select(vec![exit(0), exit(1), exit(2), signal(9)]),
        other in "(\\PC{0,40}|[\\[\\]{}\":,0-9a-z\\\\]{0,20})",
    ) {
        let agent = RECORDED[agent];
        let lines = agent.mutilated(stream, cut, &other);
        let mut plain = agent.request();
        plain.agent.output = AgentOutput::Text;
        let _ = read_stream(&plain, &lines, &other, ending.clone(), NOW);
        let _ = agent.read(&lines, &other, ending);
        let _ = read_stream(&build_request(AgentKind::Sim, &[], ""), &other, "", exit(1), NOW);
    }
}
