//! Encodes spans and metrics as OTLP JSON: ids in hexadecimal, 64-bit numbers as strings, times in
//! nanoseconds, enums as numbers. Tested against the official types.

use ralph_model::units::Timestamp;
use serde_json::{Value as Json, json};

use super::{Attribute, AttributeValue, Metric, MetricPoints, SpanKind, SpanStatus, TraceSpan};

/// The sender: what all spans and metrics of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpResource {
    pub service: String,
    pub version: String,
    pub run: String,
    pub started: Timestamp,
}

/// Cumulative, in the enum of temporalities.
const CUMULATIVE: u8 = 2;

/// Returns the body of a request to `/v1/traces`.
pub fn encode_traces(resource: &OtlpResource, spans: &[TraceSpan]) -> Json {
    let spans: Vec<Json> = spans.iter().map(encode_span).collect();
    json!({ "resourceSpans": [{
        "resource": encode_resource(resource),
        "scopeSpans": [{ "scope": encode_scope(resource), "spans": spans }],
    }] })
}

/// Returns the body of a request to `/v1/metrics`, as of the given time.
pub fn encode_metrics(resource: &OtlpResource, metrics: &[Metric], at: Timestamp) -> Json {
    let metrics: Vec<Json> =
        metrics.iter().map(|it| encode_metric(it, resource.started, at)).collect();
    json!({ "resourceMetrics": [{
        "resource": encode_resource(resource),
        "scopeMetrics": [{ "scope": encode_scope(resource), "metrics": metrics }],
    }] })
}

fn encode_resource(resource: &OtlpResource) -> Json {
    json!({ "attributes": [
        encode_attribute("service.name", &resource.service.as_str().into()),
        encode_attribute("service.version", &resource.version.as_str().into()),
        encode_attribute("service.instance.id", &resource.run.as_str().into()),
    ] })
}

fn encode_scope(resource: &OtlpResource) -> Json {
    json!({ "name": "ralph", "version": resource.version })
}

fn encode_span(span: &TraceSpan) -> Json {
    let mut json = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": to_nanos(span.start),
        "endTimeUnixNano": to_nanos(span.end),
        "attributes": encode_attributes(&span.attributes),
        "status": match &span.status {
            SpanStatus::Unset => json!({}),
            SpanStatus::Ok => json!({ "code": 1 }),
            SpanStatus::Error(message) => json!({ "code": 2, "message": message }),
        },
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    json
}

fn encode_metric(metric: &Metric, started: Timestamp, at: Timestamp) -> Json {
    let point = |labels: &[(&'static str, String)]| {
        let labels: Vec<Json> =
            labels.iter().map(|(key, text)| encode_attribute(key, &text.as_str().into())).collect();
        json!({
            "attributes": labels,
            "startTimeUnixNano": to_nanos(started),
            "timeUnixNano": to_nanos(at),
        })
    };
    let (kind, data) = match &metric.points {
        MetricPoints::Sums(points) => {
            let points: Vec<Json> = points
                .iter()
                .map(|(labels, value)| {
                    let mut point = point(labels);
                    match value {
                        AttributeValue::Int(number) => point["asInt"] = json!(number.to_string()),
                        AttributeValue::Double(number) => point["asDouble"] = json!(number),
                        AttributeValue::Text(_) => {}
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
        MetricPoints::Histograms { bounds, points } => {
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

fn encode_attributes(attributes: &[Attribute]) -> Vec<Json> {
    attributes.iter().map(|(key, value)| encode_attribute(key, value)).collect()
}

fn encode_attribute(key: &str, value: &AttributeValue) -> Json {
    let value = match value {
        AttributeValue::Text(text) => json!({ "stringValue": text }),
        AttributeValue::Int(number) => json!({ "intValue": number.to_string() }),
        AttributeValue::Double(number) => json!({ "doubleValue": number }),
    };
    json!({ "key": key, "value": value })
}

/// Returns the nanoseconds of a time; a run has no times before 1970.
fn to_nanos(at: Timestamp) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}
