//! The metrics of a run: sums and histograms since its start.
//!
//! Cumulative, and computed from the journal: a resumed run continues counting. The run is part of
//! the resource, so metrics of different runs are never merged. Encoding is in `otlp`.

use std::collections::BTreeMap;

use ralph_model::agent::AgentKind;
use ralph_model::agent_output::Reply;
use ralph_model::ids::Role;
use ralph_model::units::Millis;

use super::{AttributeValue, count_input_tokens};

/// The attributes of a data point.
type Labels = Vec<(&'static str, String)>;

/// A metric with its data points.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    /// Its unit, in UCUM.
    pub unit: &'static str,
    pub description: &'static str,
    pub points: MetricPoints,
}

/// The data points of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricPoints {
    /// Monotonic sums.
    Sums(Vec<(Labels, AttributeValue)>),
    /// Distributions of values.
    Histograms {
        /// The upper bounds of all buckets but the last.
        bounds: &'static [f64],
        points: Vec<(Labels, Histogram)>,
    },
}

/// The distribution of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// The counts per bucket; one more than there are bounds.
    pub buckets: Vec<u64>,
}

/// Agents and gates take seconds to hours. The semantic conventions propose bounds up to 82
/// seconds, so nearly every call would fall into the last bucket.
const SECONDS: &[f64] =
    &[0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0];

/// The bounds that the semantic conventions propose.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Collects the metrics of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    iterations: BTreeMap<Labels, u64>,
    gates: BTreeMap<Labels, u64>,
    cost: BTreeMap<Labels, f64>,
    iteration_seconds: BTreeMap<Labels, Histogram>,
    gate_seconds: BTreeMap<Labels, Histogram>,
    agent_seconds: BTreeMap<Labels, Histogram>,
    tokens: BTreeMap<Labels, Histogram>,
}

impl Meter {
    pub(super) fn record_iteration(&mut self, role: Role, verdict: &str, took: Millis) {
        let labels =
            vec![("ralph.role", role.name().to_owned()), ("ralph.verdict", verdict.to_owned())];
        *self.iterations.entry(labels.clone()).or_default() += 1;
        add_to_histogram(&mut self.iteration_seconds, labels, SECONDS, to_seconds(took));
    }

    pub(super) fn record_gate(&mut self, gate: &str, status: &str, took: Millis) {
        let labels =
            vec![("ralph.gate.name", gate.to_owned()), ("ralph.gate.status", status.to_owned())];
        *self.gates.entry(labels.clone()).or_default() += 1;
        add_to_histogram(&mut self.gate_seconds, labels, SECONDS, to_seconds(took));
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "tokens and money of any real bill have 53 bits"
    )]
    pub(super) fn record_agent_call(
        &mut self,
        agent: AgentKind,
        requested: Option<&str>,
        reply: &Reply,
        took: Millis,
    ) {
        let mut labels = vec![
            ("gen_ai.operation.name", "invoke_agent".to_owned()),
            ("gen_ai.provider.name", agent.provider().to_owned()),
            ("gen_ai.system", agent.provider().to_owned()),
        ];
        labels.extend(requested.map(|model| ("gen_ai.request.model", model.to_owned())));
        let model = reply.model.as_ref();
        labels.extend(model.map(|model| ("gen_ai.response.model", model.clone())));
        for (kind, count) in
            [("input", count_input_tokens(reply.usage)), ("output", reply.usage.output.0)]
        {
            let mut labels = labels.clone();
            labels.push(("gen_ai.token.type", kind.to_owned()));
            add_to_histogram(&mut self.tokens, labels, TOKENS, count as f64);
        }
        if let Some(cost) = reply.usage.cost {
            *self.cost.entry(labels.clone()).or_default() += cost.0 as f64 / 1_000_000.0;
        }
        let failure = reply.failure.as_ref();
        labels.extend(failure.map(|failure| ("error.type", failure.class.name().to_owned())));
        add_to_histogram(&mut self.agent_seconds, labels, SECONDS, to_seconds(took));
    }

    /// Adds the figures of another run.
    pub(super) fn add(&mut self, other: &Self) {
        for (to, from) in
            [(&mut self.iterations, &other.iterations), (&mut self.gates, &other.gates)]
        {
            for (key, count) in from {
                *to.entry(key.clone()).or_default() += count;
            }
        }
        for (key, sum) in &other.cost {
            *self.cost.entry(key.clone()).or_default() += sum;
        }
        for (to, from) in [
            (&mut self.iteration_seconds, &other.iteration_seconds),
            (&mut self.gate_seconds, &other.gate_seconds),
            (&mut self.agent_seconds, &other.agent_seconds),
            (&mut self.tokens, &other.tokens),
        ] {
            for (key, values) in from {
                to.entry(key.clone())
                    .and_modify(|known| known.add(values))
                    .or_insert_with(|| values.clone());
            }
        }
    }

    pub(super) fn list_metrics(&self) -> Vec<Metric> {
        let counts = |from: &BTreeMap<Labels, u64>| {
            MetricPoints::Sums(
                from.iter().map(|(key, count)| (key.clone(), (*count).into())).collect(),
            )
        };
        let spread = |from: &BTreeMap<Labels, Histogram>, bounds| MetricPoints::Histograms {
            bounds,
            points: from.iter().map(|(key, values)| (key.clone(), values.clone())).collect(),
        };
        let cost = self.cost.iter().map(|(key, sum)| (key.clone(), AttributeValue::Double(*sum)));
        let all = [
            ("ralph.iterations", "{iteration}", "Iterations that ended", counts(&self.iterations)),
            ("ralph.gates", "{gate}", "Results of gates", counts(&self.gates)),
            ("ralph.cost", "USD", "Money, as agents report it", MetricPoints::Sums(cost.collect())),
            (
                "ralph.iteration.duration",
                "s",
                "How long iterations take",
                spread(&self.iteration_seconds, SECONDS),
            ),
            (
                "ralph.gate.duration",
                "s",
                "How long gates take",
                spread(&self.gate_seconds, SECONDS),
            ),
            (
                "gen_ai.client.operation.duration",
                "s",
                "How long calls to agents take",
                spread(&self.agent_seconds, SECONDS),
            ),
            (
                "gen_ai.client.token.usage",
                "{token}",
                "Tokens of calls to agents",
                spread(&self.tokens, TOKENS),
            ),
        ];
        let metrics = all.into_iter().map(|(name, unit, description, points)| Metric {
            name,
            unit,
            description,
            points,
        });
        metrics.filter(|metric| !metric.points.is_empty()).collect()
    }
}

impl Histogram {
    /// Adds the values of another one with the same bounds.
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(to, from)| *to += from);
    }
}

impl MetricPoints {
    fn is_empty(&self) -> bool {
        match self {
            Self::Sums(points) => points.is_empty(),
            Self::Histograms { points, .. } => points.is_empty(),
        }
    }
}

fn add_to_histogram(
    to: &mut BTreeMap<Labels, Histogram>,
    labels: Labels,
    bounds: &[f64],
    value: f64,
) {
    let empty = || Histogram {
        count: 0,
        sum: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        buckets: vec![0; bounds.len() + 1],
    };
    let histogram = to.entry(labels).or_insert_with(empty);
    let place = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
    histogram.count += 1;
    histogram.sum += value;
    histogram.min = histogram.min.min(value);
    histogram.max = histogram.max.max(value);
    histogram.buckets[place] += 1;
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of any run have 53 bits")]
fn to_seconds(span: Millis) -> f64 {
    span.0 as f64 / 1000.0
}
