//! Tests of spans: parents, and that a resumed run continues its trace.

use ralph_model::agent::AgentChoice;
use ralph_model::budget::Budget;
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::WaitReason;
use ralph_model::gate::Severity;
use ralph_model::ids::{RunId, WorkerId};
use ralph_model::recipe::{PromptSource, Recipe, Work};
use ralph_model::units::{Tokens, UsdMicros};
use ralph_model::worker::{JobAssignment, JobResult, WorkerOrigin, WorkerShare};

use super::*;
use crate::run_loop::fold::{apply_event, start_state};

fn started() -> Event {
    let mut agent = AgentChoice::new(AgentKind::Claude, "claude");
    agent.model = Some("opus".into());
    Event::RunStarted {
        journal: 1,
        version: "0".into(),
        run: RunId("r".into()),
        project: "/projects/shop".into(),
        recipe: Box::new(Recipe::new(Work::Prompt(PromptSource::Text("p".into())), agent)),
    }
}

fn begun() -> Event {
    Event::IterationStarted { iteration: IterationNumber(1), role: Role::Prompt, task: None }
}

fn asked() -> Event {
    Event::Asked {
        ask: AskNumber(1),
        role: Role::Prompt,
        purpose: Purpose::Work,
        agent: AgentKind::Claude,
        command: Vec::new(),
        prompt_chars: 1,
        prompt_start: "SECRET PROMPT".into(),
        budget: Vec::new(),
        token: None,
        session: None,
        instructions: Vec::new(),
    }
}

fn end(ran: u64) -> ChildEnd {
    ChildEnd { ran: Millis(ran), ..ChildEnd::from_ending(Ending::Exited { code: 0 }) }
}

fn replied() -> Event {
    let usage = Usage {
        input: Tokens(10),
        output: Tokens(5),
        cache_read: Tokens(100),
        cache_write: Tokens(20),
        cost: Some(UsdMicros(250_000)),
        turns: None,
    };
    let reply = Reply {
        text: "SECRET ANSWER".into(),
        signal: None,
        structured: None,
        usage,
        session: Some("s".into()),
        model: Some("opus-5".into()),
        tools: 3,
        tool_errors: 1,
        unparsed: 0,
        end: end(1_500),
        failure: None,
        warnings: Vec::new(),
    };
    Event::Replied { ask: AskNumber(1), reply: Box::new(reply) }
}

fn gate(status: GateStatus) -> Event {
    Event::GateChecked {
        result: GateResult {
            end: Some(end(400)),
            output: "SECRET OUTPUT".into(),
            ..GateResult::new("test", "make test", Severity::Hard, status)
        },
        survey: None,
    }
}

/// Returns events, one second apart.
fn record(events: Vec<Event>) -> Vec<Recorded> {
    events
        .into_iter()
        .zip(1..)
        .map(|(event, seq)| Recorded {
            seq,
            at: Timestamp(i64::try_from(seq).unwrap_or(0) * 1_000),
            ran: Millis(0),
            event,
        })
        .collect()
}

/// Folds events, one second apart, and returns the spans and the telemetry.
fn collect_spans(events: Vec<Event>) -> (Vec<TraceSpan>, Telemetry) {
    let recorded = record(events);
    let mut state = start_state(&recorded[0]).expect("it begins");
    let mut telemetry = Telemetry::default();
    let mut spans = telemetry.apply_event(&recorded[0], &state);
    for recorded in &recorded[1..] {
        apply_event(&mut state, recorded).expect("it fits");
        spans.extend(telemetry.apply_event(recorded, &state));
    }
    (spans, telemetry)
}

fn drawn(spans: &[TraceSpan]) -> String {
    let line = |span: &TraceSpan| {
        let parent = spans.iter().find(|it| Some(it.id) == span.parent);
        let parent = match (span.parent, parent) {
            (None, _) => "-",
            (Some(_), Some(parent)) => parent.name.as_str(),
            (Some(_), None) => "(not ended)",
        };
        let (start, end) = (span.start.0, span.end.0);
        format!("{} in {parent}, {start}-{end}, {:?}", span.name, span.status)
    };
    spans.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn whole() -> Vec<Event> {
    vec![
        started(),
        begun(),
        asked(),
        replied(),
        gate(GateStatus::Failed),
        Event::IterationEnded { iteration: IterationNumber(1) },
        Event::Waiting { until: Timestamp(9_000), reason: WaitReason::UsageLimit },
        Event::RunEnded { outcome: Outcome::Complete, left: None },
    ]
}

#[test]
fn a_run_is_one_trace_of_iterations_calls_gates_and_waits() {
    let (spans, _) = collect_spans(whole());
    expect_test::expect![[r#"
        invoke_agent claude in iteration prompt, 3000-4000, Unset
        gate test in iteration prompt, 4600-5000, Error("failed")
        iteration prompt in ralph run, 2000-6000, Unset
        wait usage_limit in ralph run, 7000-8000, Unset
        ralph run in -, 1000-8000, Ok"#]]
    .assert_eq(&drawn(&spans));
    assert!(spans.iter().all(|span| span.trace == spans[0].trace && span.trace != 0));
    let mut ids: Vec<u64> = spans.iter().map(|span| span.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn an_interrupted_run_continues_its_trace() {
    let resumed = || Event::RunResumed { version: "0".into(), recipe: None };
    let mut events = vec![started(), begun(), asked(), resumed(), replied()];
    events.push(Event::IterationEnded { iteration: IterationNumber(1) });
    events.push(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    events.push(resumed());
    events.push(Event::RunEnded { outcome: Outcome::Complete, left: None });
    let (spans, _) = collect_spans(events);
    expect_test::expect![[r#"
        ralph run in -, 1000-3000, Error("cut off")
        invoke_agent claude in iteration prompt, 3000-4500, Unset
        iteration prompt in ralph run, 2000-6000, Unset
        ralph run in ralph run, 4000-7000, Unset
        ralph run in ralph run, 8000-9000, Ok"#]]
    .assert_eq(&drawn(&spans));
    let (alone, _) = collect_spans(whole());
    assert_eq!(alone[0].trace, spans[0].trace, "the ids are derived from the run");
    assert_eq!(alone[2].id, spans[2].id);
}

#[test]
fn calls_use_the_semantic_conventions_and_contain_no_prompts() {
    let (spans, telemetry) = collect_spans(whole());
    let shown: Vec<String> =
        spans[0].attributes.iter().map(|(key, value)| format!("{key} {value:?}")).collect();
    expect_test::expect![[r#"
        gen_ai.operation.name Text("invoke_agent")
        gen_ai.provider.name Text("anthropic")
        gen_ai.system Text("anthropic")
        gen_ai.agent.name Text("claude")
        gen_ai.request.model Text("opus")
        gen_ai.response.model Text("opus-5")
        gen_ai.conversation.id Text("s")
        gen_ai.usage.input_tokens Int(130)
        gen_ai.usage.output_tokens Int(5)
        gen_ai.usage.cache_read.input_tokens Int(100)
        gen_ai.usage.cache_creation.input_tokens Int(20)
        ralph.cost.usd Double(0.25)
        ralph.role Text("prompt")
        ralph.purpose Text("work")
        ralph.tools Int(3)
        ralph.tool_errors Int(1)"#]]
    .assert_eq(&shown.join("\n"));
    let resource = otlp::OtlpResource {
        service: "ralph".into(),
        version: "0".into(),
        run: "r".into(),
        started: Timestamp(1_000),
    };
    let sent = format!(
        "{}{}",
        otlp::encode_traces(&resource, &spans),
        otlp::encode_metrics(&resource, &telemetry.metrics(), telemetry.last_event_time())
    );
    assert!(!sent.contains("SECRET"), "{sent}");
    assert!(!sent.contains("/work"), "paths stay here: {sent}");
}

#[test]
fn figures_are_sums_and_histograms_since_the_run_began() {
    let (_, telemetry) = collect_spans(whole());
    let shown: Vec<String> = telemetry
        .metrics()
        .iter()
        .map(|metric| match &metric.points {
            MetricPoints::Sums(points) => {
                let values: Vec<String> =
                    points.iter().map(|(_, value)| format!("{value:?}")).collect();
                format!("{} {}: {}", metric.name, metric.unit, values.join(" "))
            }
            MetricPoints::Histograms { points, .. } => {
                let values: Vec<String> =
                    points.iter().map(|(_, it)| format!("{}x{}", it.count, it.sum)).collect();
                format!("{} {}: {}", metric.name, metric.unit, values.join(" "))
            }
        })
        .collect();
    expect_test::expect![[r"
        ralph.iterations {iteration}: Int(1)
        ralph.gates {gate}: Int(1)
        ralph.cost USD: Double(0.25)
        ralph.iteration.duration s: 1x4
        ralph.gate.duration s: 1x0.4
        gen_ai.client.operation.duration s: 1x1
        gen_ai.client.token.usage {token}: 1x130 1x5"]]
    .assert_eq(&shown.join("\n"));
}

fn worker() -> WorkerId {
    WorkerId("r-T1-r1".into())
}

fn assigned() -> Event {
    let share = WorkerShare { budget: Budget::default(), iterations: 5 };
    let assignment = JobAssignment {
        worker: worker(),
        task: TaskId("T1".into()),
        round: 1,
        base: None,
        start_tree: None,
        conflicts: Vec::new(),
        compacts: None,
        share,
    };
    Event::JobAssigned { assignment: Box::new(assignment) }
}

#[test]
fn the_run_of_a_worker_is_part_of_the_trace_of_its_run_and_is_sent_once() {
    let ours = record(vec![
        started(),
        assigned(),
        Event::WorkerStarted {
            worker: worker(),
            place: "gpu-2/s1".into(),
            origin: WorkerOrigin { machine: Some("gpu-2".into()), ..WorkerOrigin::default() },
        },
        Event::WorkerLost { worker: Some(worker()), reason: "gone".into(), has_ended: false },
        assigned(),
        Event::WorkerEnded {
            worker: worker(),
            result: Box::new(JobResult::without_work(Outcome::Complete, "s1", "/".as_ref())),
        },
    ]);
    let mut theirs = whole();
    if let Event::RunStarted { run, .. } = &mut theirs[0] {
        run.0.clone_from(&worker().0);
    }
    let theirs = record(theirs);
    let state = start_state(&ours[0]).expect("it begins");
    let mut telemetry = Telemetry::default();
    assert_eq!(telemetry.add_worker_run(&worker(), theirs.clone()), [], "no worker yet");
    let mut spans: Vec<TraceSpan> =
        ours.iter().flat_map(|it| telemetry.apply_event(it, &state)).collect();
    let workers = spans.len();
    assert_eq!(workers, 2);
    // What has arrived of it when the first attempt ends.
    spans.extend(telemetry.add_worker_run(&worker(), theirs[..5].to_vec()));
    spans.extend(telemetry.add_worker_run(&worker(), theirs.clone()));
    expect_test::expect![[r#"
        worker in (not ended), 2000-4000, Error("lost")
        worker in (not ended), 5000-6000, Unset
        invoke_agent claude in iteration prompt, 3000-4000, Unset
        gate test in iteration prompt, 4600-5000, Error("failed")
        iteration prompt in ralph run, 2000-6000, Unset
        wait usage_limit in ralph run, 7000-8000, Unset
        ralph run in worker, 1000-8000, Ok"#]]
    .assert_eq(&drawn(&spans));
    assert!(spans.iter().all(|span| span.trace == spans[0].trace));
    assert_eq!(spans.last().and_then(|it| it.parent), Some(spans[0].id), "in the first");
    assert_eq!(telemetry.add_worker_run(&worker(), theirs), []);
    let (alone, own) = collect_spans(whole());
    assert!(alone.iter().all(|it| spans.iter().all(|other| other.id != it.id)));
    assert_eq!(telemetry.metrics(), own.metrics(), "each figure counts once");
}
