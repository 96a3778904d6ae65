//! What agents did in a run, per agent, model and role, and how often gates ran.
//!
//! Not here: counting it from events (`stats` in the core).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Role;
use crate::units::{Millis, Tokens, UsdMicros};

/// What the agents and gates of a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkFigures {
    pub rows: Vec<StatsRow>,
    /// How often each gate ran and failed.
    pub gates: BTreeMap<String, GateRuns>,
}

/// The figures of an agent and model in a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsRow {
    pub agent: String,
    /// The model as configured, else as the agent reports it; empty if neither.
    pub model: String,
    pub role: Role,
    pub figures: StatsFigures,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsFigures {
    pub calls: u32,
    /// Iterations in this role; on tasks, attempts.
    pub attempts: u32,
    /// Tasks that became done by this agent's work.
    pub landed: u32,
    /// Reviews that asked for changes.
    pub rejections: u32,
    /// Failures of gates on this agent's work, by gate.
    pub gate_failures: BTreeMap<String, u32>,
    #[serde(rename = "ranMs")]
    pub ran: Millis,
    pub tokens: Tokens,
    #[serde(rename = "costUsdMicros")]
    pub cost: Option<UsdMicros>,
}

/// How often a gate ran and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateRuns {
    pub runs: u32,
    pub failed: u32,
    #[serde(default, rename = "ranMs")]
    pub ran: Millis,
}

impl StatsFigures {
    /// Adds the figures of another run.
    pub fn add_figures(&mut self, other: &Self) {
        self.calls += other.calls;
        self.attempts += other.attempts;
        self.landed += other.landed;
        self.rejections += other.rejections;
        for (gate, count) in &other.gate_failures {
            *self.gate_failures.entry(gate.clone()).or_default() += count;
        }
        self.ran = self.ran.saturating_add(other.ran);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = add_cost(self.cost, other.cost);
    }
}

impl GateRuns {
    /// Adds runs of the same gate.
    pub fn add_runs(&mut self, other: Self) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.ran = self.ran.saturating_add(other.ran);
    }
}

/// Returns the sum of two costs of which each may be unknown.
pub fn add_cost(one: Option<UsdMicros>, two: Option<UsdMicros>) -> Option<UsdMicros> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.saturating_add(two)),
        (one, two) => one.or(two),
    }
}
