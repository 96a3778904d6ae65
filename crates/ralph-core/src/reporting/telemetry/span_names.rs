//! Names in spans: closed sets, and attributes of the semantic conventions for generative AI.

use ralph_model::agent::AgentKind;
use ralph_model::agent_output::{Reply, Usage};
use ralph_model::event::{Purpose, WaitReason};
use ralph_model::gate::{GateStatus, Severity};
use ralph_model::judgement::Verdict;
use ralph_model::outcome::Outcome;
use ralph_model::recipe::Work;
use serde::Serialize;

use super::{Attribute, AttributeValue, count_input_tokens};

/// Returns the attributes of a call to an agent, named by the semantic conventions.
pub(super) fn list_agent_attributes(
    agent: AgentKind,
    requested: Option<&str>,
    reply: &Reply,
) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = vec![
        ("gen_ai.operation.name", "invoke_agent".into()),
        // The newer name, and the one that most backends know.
        ("gen_ai.provider.name", agent.provider().into()),
        ("gen_ai.system", agent.provider().into()),
        ("gen_ai.agent.name", agent.name().into()),
    ];
    attributes.extend(requested.map(|model| ("gen_ai.request.model", model.into())));
    attributes.extend(reply.model.as_deref().map(|model| ("gen_ai.response.model", model.into())));
    attributes.extend(reply.session.as_deref().map(|id| ("gen_ai.conversation.id", id.into())));
    let failure = reply.failure.as_ref();
    attributes.extend(failure.map(|failure| ("error.type", failure.class.name().into())));
    attributes.extend(list_usage_attributes(reply.usage));
    attributes
}

/// Returns the attributes of tokens and cost.
#[expect(clippy::cast_precision_loss, reason = "micro-dollars of any real bill have 53 bits")]
pub(super) fn list_usage_attributes(usage: Usage) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = vec![
        ("gen_ai.usage.input_tokens", count_input_tokens(usage).into()),
        ("gen_ai.usage.output_tokens", usage.output.0.into()),
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read.0.into()),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write.0.into()),
    ];
    let cost = usage.cost.map(|cost| AttributeValue::Double(cost.0 as f64 / 1_000_000.0));
    attributes.extend(cost.map(|dollars| ("ralph.cost.usd", dollars)));
    attributes
}

/// Returns the name of an outcome, as in the journal.
pub(super) fn name_outcome(outcome: &Outcome) -> String {
    read_tag(outcome, "end")
}

/// Returns the name of a verdict, as in the journal.
pub(super) fn name_verdict(verdict: &Verdict) -> String {
    read_tag(verdict, "is")
}

/// Returns the tag that a value is stored with.
fn read_tag(value: &impl Serialize, key: &str) -> String {
    let stored = serde_json::to_value(value).unwrap_or_default();
    stored[key].as_str().unwrap_or("unknown").to_owned()
}

pub(super) fn name_purpose(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Work => "work",
        Purpose::Gate(_) => "gate",
        Purpose::Message => "message",
    }
}

pub(super) fn name_gate_status(status: GateStatus) -> &'static str {
    match status {
        GateStatus::Passed => "passed",
        GateStatus::Cached => "cached",
        GateStatus::Failed => "failed",
    }
}

pub(super) fn name_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Hard => "hard",
        Severity::Soft => "soft",
    }
}

pub(super) fn name_wait(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::UsageLimit => "usage_limit",
        WaitReason::Retry => "retry",
        WaitReason::Delay => "delay",
    }
}

pub(super) fn name_work(work: &Work) -> &'static str {
    match work {
        Work::Prompt(_) => "prompt",
        Work::Tasks(_) => "tasks",
    }
}
