//! Tests of warnings about unsupported limits, and of schemas in prompts.

use std::collections::BTreeMap;

use ralph_model::agent::{AgentKind, UsageSelectors};
use ralph_model::agent_output::UsageScope;
use ralph_model::budget::Budget;
use ralph_model::capability::{
    Capabilities, FollowUps, PromptEcho, SchemaOutput, Support, TextMode,
};
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId};
use ralph_model::units::{Millis, Tokens, UsdMicros};
use ralph_model::version::Version;
use serde_json::json;

use super::*;
use crate::ports::AgentRequest;

const EVERYTHING: Capabilities = Capabilities {
    schema: SchemaOutput::Enforced,
    usage: UsageReport::Cost,
    turn_limit: Support::Yes,
    cost_limit: Support::Yes,
    fallback_model: Support::Yes,
    mcp: McpServers::Only,
    system_prompt: Support::Yes,
    stop_hook: Support::Yes,
    resume: Support::Yes,
    follow_ups: FollowUps::SameSessionTotal,
    echo: PromptEcho::None,
    text_mode: TextMode::Plain,
    reset_times: Support::Yes,
    plugin: Support::Yes,
};

fn agent_with(capabilities: Capabilities) -> AgentChoice {
    AgentChoice {
        capabilities,
        version: Some(Version::new(1, 2, 3)),
        fallback_model: Some("small".into()),
        max_turns: Some(7),
        mcp_config: Some("mcp.json".into()),
        ..AgentChoice::new(AgentKind::Text, "agent")
    }
}

#[track_caller]
fn check(agent: AgentChoice, roles: BTreeMap<Role, AgentChoice>, budget: Budget, expect: &[&str]) {
    let mut recipe = crate::run_loop::choose::tests::recipe();
    recipe.agent = agent;
    recipe.agents = roles;
    recipe.limits.budget = budget;
    assert_eq!(find_unsupported(&recipe), expect);
}

fn both() -> Budget {
    Budget { cost: Some(UsdMicros::from_dollars(5.0)), tokens: Some(Tokens(1_000)), time: None }
}

#[test]
fn a_limit_without_effect_is_reported() {
    check(agent_with(EVERYTHING), BTreeMap::new(), both(), &[]);
    check(
        agent_with(Capabilities::default()),
        BTreeMap::new(),
        both(),
        &[
            "`agent` 1.2.3 does not report what it costs: the budget of $5.00 does not limit it",
            "`agent` 1.2.3 does not report its tokens: the budget of 1.0K tokens does not limit it",
            "`agent` 1.2.3 has no turn limit: `maxTurns` does not apply to it",
            "`agent` 1.2.3 supports no fallback model: `small` is not used",
            "`agent` 1.2.3 takes no MCP servers for one call: `mcp.json` has no effect",
        ],
    );
    check(AgentChoice::new(AgentKind::Text, "agent"), BTreeMap::new(), Budget::default(), &[]);
}

#[test]
fn tokens_bound_an_agent_that_knows_no_prices() {
    let tokens = Capabilities { usage: UsageReport::Tokens, ..EVERYTHING };
    check(
        agent_with(tokens),
        BTreeMap::new(),
        both(),
        &["`agent` 1.2.3 does not report what it costs: the budget of $5.00 does not limit it"],
    );
}

#[test]
fn plain_text_reports_nothing() {
    let mut agent = agent_with(EVERYTHING);
    agent.output = AgentOutput::Text;
    let costs = Budget { tokens: None, ..both() };
    check(
        agent.clone(),
        BTreeMap::new(),
        costs,
        &[
            "`agent` 1.2.3 does not report what it costs in plain text: the budget of $5.00 does not limit it",
        ],
    );
    agent.capabilities.text_mode = TextMode::Events;
    check(agent, BTreeMap::new(), costs, &[]);
}

#[test]
fn agents_of_single_roles_are_checked_too() {
    let plain = AgentChoice::new(AgentKind::Text, "helper");
    let never = AgentChoice::new(AgentKind::Text, "never-asked");
    let roles = BTreeMap::from([(Role::Message, plain), (Role::Review, never)]);
    let costs = Budget { tokens: None, ..both() };
    check(
        agent_with(EVERYTHING),
        roles,
        costs,
        &["`helper` does not report what it costs: the budget of $5.00 does not limit it"],
    );
}

#[test]
fn only_an_agent_without_schemas_is_asked_in_its_prompt() {
    let schema = crate::answers::structured_output::Schema::new(json!({ "type": "object" }));
    for (output, is_asked) in [
        (SchemaOutput::None, true),
        (SchemaOutput::Unchecked, false),
        (SchemaOutput::Enforced, false),
    ] {
        let request = AgentRequest {
            run: RunId("r".into()),
            iteration: IterationNumber(1),
            ask: AskNumber(1),
            role: Role::Review,
            purpose: ralph_model::event::Purpose::Work,
            task: None,
            agent: agent_with(Capabilities { schema: output, ..EVERYTHING }),
            prompt: "Review it.".into(),
            session: None,
            schema: None,
            soft_limit: Millis::ZERO,
            hard_limit: Millis::ZERO,
            idle_limit: Millis::ZERO,
            cost_left: None,
        };
        let request = request.with_schema(schema.clone());
        assert_eq!(request.schema, Some(schema.clone()));
        assert_eq!(request.prompt != "Review it.", is_asked, "{output:?}: {}", request.prompt);
    }
}

#[test]
fn capabilities_missing_in_an_old_journal_are_unsupported() {
    let known: Capabilities = serde_json::from_value(json!({ "usage": "cost" })).expect("read");
    assert_eq!(known, Capabilities { usage: UsageReport::Cost, ..Capabilities::default() });
}

#[test]
fn selectors_determine_the_reported_usage() {
    let select = |input: Option<&str>, cost: Option<&str>| UsageSelectors {
        input: input.map(str::to_owned),
        output: None,
        cache_read: None,
        cache_write: None,
        cost: cost.map(str::to_owned),
        scope: UsageScope::Total,
    };
    for (input, cost, expect) in [
        (None, None, UsageReport::Nothing),
        (Some(".in"), None, UsageReport::Tokens),
        (Some(".in"), Some(".usd"), UsageReport::Cost),
        (None, Some(".usd"), UsageReport::Cost),
    ] {
        assert_eq!(select(input, cost).reported_usage(), expect, "{input:?} {cost:?}");
    }
}
