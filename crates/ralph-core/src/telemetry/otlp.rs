//! Encodes spans and metrics as OTLP JSON: ids in hexadecimal, 64-bit numbers as strings, times in
//! nanoseconds, enums as numbers. Tested against the official types.

use serde_json::{Value as Json, json};

use super::{Attribute, Metric, Points, Span, SpanKind, Status, Value};
use crate::units::Timestamp;

/// The sender: what all spans and metrics of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub service: String,
    pub version: String,
    pub run: String,
    pub started: Timestamp,
}

/// Cumulative, in the enum of temporalities.
const CUMULATIVE: u8 = 2;

/// Returns the body of a request to `/v1/traces`.
pub fn traces(resource: &Resource, spans: &[Span]) -> Json {
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": described(resource),
        "scopeSpans": [{ "scope": scope(resource), "spans": spans }],
    }] })
}

/// Returns the body of a request to `/v1/metrics`, as of the given time.
pub fn metrics(resource: &Resource, metrics: &[Metric], at: Timestamp) -> Json {
    let metrics: Vec<Json> = metrics.iter().map(|it| metric(it, resource.started, at)).collect();
    json!({ "resourceMetrics": [{
        "resource": described(resource),
        "scopeMetrics": [{ "scope": scope(resource), "metrics": metrics }],
    }] })
}

fn described(resource: &Resource) -> Json {
    json!({ "attributes": [
        attribute("service.name", &resource.service.as_str().into()),
        attribute("service.version", &resource.version.as_str().into()),
        attribute("service.instance.id", &resource.run.as_str().into()),
    ] })
}

fn scope(resource: &Resource) -> Json {
    json!({ "name": "ralph", "version": resource.version })
}

fn span(span: &Span) -> Json {
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": nanos(span.start),
        "endTimeUnixNano": nanos(span.end),
        "attributes": attributes(&span.attributes),
        "status": match &span.status {
            Status::Unset => json!({}),
            Status::Ok => json!({ "code": 1 }),
            Status::Error(message) => json!({ "code": 2, "message": message }),
        },
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    json
}

fn metric(metric: &Metric, started: Timestamp, at: Timestamp) -> Json {
    let point = |labels: &[(&'static str, String)]| {
        let labels: Vec<Json> =
            labels.iter().map(|(key, text)| attribute(key, &text.as_str().into())).collect();
        json!({
            "attributes": labels,
            "startTimeUnixNano": nanos(started),
            "timeUnixNano": nanos(at),
        })
    };
    let (kind, data) = match &metric.points {
        Points::Sums(points) => {
            let points: Vec<Json> = points
                .iter()
                .map(|(labels, value)| {
                    let mut point = point(labels);
                    match value {
                        Value::Int(number) => point["asInt"] = json!(number.to_string()),
                        Value::Double(number) => point["asDouble"] = json!(number),
                        Value::Text(_) => {}
                    }
                    point
                })
                .collect();
            let data = json!({
                "dataPoints": points,
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
            });
            ("sum", data)
        }
        Points::Histograms { bounds, points } => {
            let points: Vec<Json> = points
                .iter()
                .map(|(labels, values)| {
                    let mut point = point(labels);
                    let buckets: Vec<String> =
                        values.buckets.iter().map(ToString::to_string).collect();
                    point["count"] = json!(values.count.to_string());
                    point["sum"] = json!(values.sum);
                    point["min"] = json!(values.min);
                    point["max"] = json!(values.max);
                    point["bucketCounts"] = json!(buckets);
                    point["explicitBounds"] = json!(bounds);
                    point
                })
                .collect();
            let data = json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE });
            ("histogram", data)
        }
    };
    json!({
        "name": metric.name,
        "unit": metric.unit,
        "description": metric.description,
        kind: data,
    })
}

fn attributes(attributes: &[Attribute]) -> Vec<Json> {
    attributes.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Int(number) => json!({ "intValue": number.to_string() }),
        Value::Double(number) => json!({ "doubleValue": number }),
    };
    json!({ "key": key, "value": value })
}

/// Returns the nanoseconds of a time; a run has no times before 1970.
fn nanos(at: Timestamp) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}
