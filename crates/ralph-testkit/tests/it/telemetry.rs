//! What is sent to collectors, read with the official types.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use ralph_core::ports::AgentRequest;
use ralph_core::reporting::telemetry::otlp::{OtlpResource, encode_metrics, encode_traces};
use ralph_core::reporting::telemetry::{AttributeValue, Telemetry, TraceSpan};
use ralph_core::run_loop::fold::{apply_event, start_state};
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::gate::{Gate, GateKind};
use ralph_model::recipe::{PromptSource, Recipe, Work};
use ralph_testkit::world::{ScriptedAction, SharedWorld};

/// Builds in the second iteration only, and always says that it is done.
fn late(request: &AgentRequest, _tree: &str) -> ScriptedAction {
    let tree = if request.iteration.0 == 1 { "start" } else { "built" };
    let text = "<response>DONE</response>".to_owned();
    ScriptedAction { tree: Some(tree.to_owned()), text, failure: None }
}

/// The spans and figures of a whole run, and who sends them.
fn sent() -> (Vec<TraceSpan>, Telemetry, OtlpResource) {
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let recipe = Recipe {
        gates: vec![Gate::for_command(GateKind::Test, "built")],
        ..Recipe::new(Work::Prompt(PromptSource::Text("base".into())), agent)
    };
    let world = SharedWorld::new(late);
    world.run_to_end(&recipe).expect("it runs");
    let world = world.0.borrow();
    let mut telemetry = Telemetry::default();
    let mut state = start_state(&world.journal[0]).expect("it begins");
    let mut spans = telemetry.apply_event(&world.journal[0], &state);
    for recorded in &world.journal[1..] {
        apply_event(&mut state, recorded).expect("it fits");
        spans.extend(telemetry.apply_event(recorded, &state));
    }
    let resource = OtlpResource {
        service: "ralph".into(),
        version: "1".into(),
        run: state.run.0.clone(),
        started: state.started,
    };
    (spans, telemetry, resource)
}

fn nanos(at: ralph_model::units::Timestamp) -> u64 {
    u64::try_from(at.0).expect("after 1970") * 1_000_000
}

#[test]
fn spans_are_what_the_official_types_read() {
    let (spans, _, resource) = sent();
    let request: ExportTraceServiceRequest =
        serde_json::from_value(encode_traces(&resource, &spans)).expect("OTLP");
    let [group] = request.resource_spans.as_slice() else { panic!("one resource") };
    let described = group.resource.as_ref().expect("a resource");
    assert_eq!(described.attributes.len(), 3);
    let [scope] = group.scope_spans.as_slice() else { panic!("one scope") };
    assert!(spans.len() > 6, "two iterations, calls and gates: {}", spans.len());
    assert_eq!(scope.spans.len(), spans.len());
    for (read, span) in scope.spans.iter().zip(&spans) {
        assert_eq!(read.trace_id, span.trace.to_be_bytes());
        assert_eq!(read.span_id, span.id.to_be_bytes());
        let parent = span.parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default();
        assert_eq!(read.parent_span_id, parent);
        assert_eq!(read.name, span.name);
        assert_eq!(read.start_time_unix_nano, nanos(span.start));
        assert_eq!(read.end_time_unix_nano, nanos(span.end));
        assert!(read.start_time_unix_nano <= read.end_time_unix_nano);
        assert!([1, 3].contains(&read.kind));
        assert_eq!(read.attributes.len(), span.attributes.len());
        for (read, (key, value)) in read.attributes.iter().zip(&span.attributes) {
            assert_eq!(&read.key, key);
            let any = read.value.as_ref().and_then(|it| it.value.clone()).expect("a value");
            match (any, value) {
                (Any::StringValue(read), AttributeValue::Text(text)) => assert_eq!(&read, text),
                (Any::IntValue(read), AttributeValue::Int(number)) => assert_eq!(read, *number),
                (Any::DoubleValue(read), AttributeValue::Double(number)) => {
                    assert!((read - number).abs() < f64::EPSILON);
                }
                (read, value) => panic!("{key}: {value:?} is read as {read:?}"),
            }
        }
    }
    assert!(scope.spans.iter().any(|span| span.status.as_ref().is_some_and(|it| it.code == 2)));
    let root = scope.spans.iter().filter(|span| span.parent_span_id.is_empty()).count();
    assert_eq!(root, 1);
}

#[test]
fn figures_are_what_the_official_types_read() {
    let (_, telemetry, resource) = sent();
    let figures = telemetry.metrics();
    let request: ExportMetricsServiceRequest =
        serde_json::from_value(encode_metrics(&resource, &figures, telemetry.last_event_time()))
            .expect("OTLP");
    let read = &request.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(read.len(), figures.len());
    let started = nanos(resource.started);
    let mut seen = Vec::new();
    for metric in read {
        match metric.data.as_ref().expect("data") {
            Data::Sum(sum) => {
                assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true));
                for point in &sum.data_points {
                    assert_eq!(point.start_time_unix_nano, started);
                    assert!(point.time_unix_nano >= started);
                    let total: u32 = match point.value {
                        Some(number_data_point::Value::AsInt(count)) => {
                            u32::try_from(count).expect("few")
                        }
                        Some(number_data_point::Value::AsDouble(_)) => 0,
                        None => panic!("{} has no value", metric.name),
                    };
                    seen.push((metric.name.as_str(), total));
                }
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                for point in &histogram.data_points {
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    assert!(point.sum.is_some() && point.min <= point.max);
                }
            }
            other => panic!("{} is {other:?}", metric.name),
        }
    }
    // One iteration failed and one was complete.
    let iterations = seen.iter().filter(|(name, _)| *name == "ralph.iterations");
    assert_eq!(iterations.map(|(_, count)| count).sum::<u32>(), 2);
}
