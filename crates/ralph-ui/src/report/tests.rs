//! The report of a constructed journal: one task done, one stuck, one blocked, with hostile text
//! of the agent.

use expect_test::expect;
use ralph_core::reporting::report::{Report, Summary};
use ralph_core::run_loop::judge::judge_iteration;
use ralph_model::agent::{AgentChoice, AgentKind};
use ralph_model::agent_output::{Reply, Usage};
use ralph_model::child::{ChildEnd, Ending};
use ralph_model::event::{Event, JOURNAL_VERSION, Purpose, Recorded};
use ralph_model::gate::{Gate, GateKind, GateResult, GateStatus, Severity};
use ralph_model::handoff::{FileAction, FileTouched};
use ralph_model::ids::{AskNumber, IterationNumber, Role, RunId, TaskId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{CommitPolicy, Recipe, TaskWork, Work};
use ralph_model::review::ReviewPolicy;
use ralph_model::run::RunState;
use ralph_model::task::{Task, TaskList};
use ralph_model::units::{Millis, Timestamp, Tokens, UsdMicros};
use ralph_model::worktree::{Checkpoint, CommitId, Landed, Observation, TreeDiff, TreeId};
use serde_json::{Value, json};

use super::*;

/// A journal in the making.
#[derive(Default)]
struct Journal {
    report: Report,
    seq: u64,
}

impl Journal {
    fn tell(&mut self, event: Event) {
        self.seq += 1;
        let ran = Millis::from_secs(self.seq);
        let at = Timestamp(1_794_698_100_000).saturating_add(ran);
        let recorded = Recorded { seq: self.seq, at, ran, event };
        self.report.apply_event(&recorded).expect("the event fits");
    }

    fn state(&self) -> &RunState {
        self.report.state().expect("it has begun")
    }

    /// Plays an iteration up to its judgement.
    fn iterate(
        &mut self,
        number: u32,
        role: Role,
        task: &str,
        answer: &Value,
        gates: &[GateResult],
    ) {
        let (iteration, task) = (IterationNumber(number), Some(TaskId(task.into())));
        self.tell(Event::IterationStarted { iteration, role, task });
        let checkpoint = Checkpoint::Git {
            head: Some(CommitId("1a2b3c4d5e".into())),
            branch: Some("refs/heads/main".into()),
            tree: Some(TreeId("start".into())),
        };
        self.tell(Event::Checkpointed { checkpoint });
        self.tell(Event::Asked {
            ask: AskNumber(1),
            role,
            purpose: Purpose::Work,
            agent: AgentKind::Text,
            command: vec!["agent".into()],
            prompt_chars: 5,
            prompt_start: "Do it".into(),
            budget: Vec::new(),
            token: None,
            session: None,
            instructions: Vec::new(),
        });
        self.tell(Event::Replied { ask: AskNumber(1), reply: Box::new(reply(answer)) });
        if role != Role::Review {
            let file = FileTouched { path: "a.rs".into(), action: FileAction::Modified };
            let observation = Some(Observation {
                files: vec![file],
                ..Observation::new(TreeId(format!("tree{number}")), TreeDiff::Dirty)
            });
            self.tell(Event::Observed { observation, kept: None });
        }
        for result in gates {
            self.tell(Event::GateChecked { result: result.clone(), survey: None });
        }
        let current = self.state().current.as_ref().expect("it is open");
        let judgement = judge_iteration(self.state(), current).expect("it was answered");
        self.tell(Event::Judged { judgement: Box::new(judgement) });
    }

    fn land(&mut self, number: u32, landed: Landed) {
        self.tell(Event::Landed { landed });
        self.tell(Event::IterationEnded { iteration: IterationNumber(number) });
    }

    fn save_failed_work(&mut self, number: u32, branch: &str) {
        let commit = CommitId("deadbeef00".into());
        self.land(number, Landed::SavedToFailureBranch { branch: branch.into(), commit });
    }
}

fn ended(ran: u64) -> ChildEnd {
    ChildEnd { ran: Millis(ran), ..ChildEnd::from_ending(Ending::Exited { code: 0 }) }
}

fn reply(answer: &Value) -> Reply {
    let usage = Usage {
        input: Tokens(1_000),
        output: Tokens(100),
        cost: Some(UsdMicros(20_000)),
        ..Usage::default()
    };
    Reply {
        text: String::new(),
        signal: None,
        structured: Some(answer.clone()),
        usage,
        session: None,
        model: None,
        tools: 1,
        tool_errors: 0,
        unparsed: 0,
        end: ended(900),
        failure: None,
        warnings: Vec::new(),
    }
}

fn gate(name: &str, severity: Severity, failure: Option<&str>) -> GateResult {
    GateResult {
        end: Some(ended(1_500)),
        output: failure.unwrap_or_default().into(),
        ..GateResult::new(
            name,
            "make",
            severity,
            if failure.is_some() { GateStatus::Failed } else { GateStatus::Passed },
        )
    }
}

fn handoff(task: &str) -> Value {
    json!({"task_completed": {"task_id": task, "summary": "Did it.", "fully_complete": true}})
}

fn task(id: &str, title: &str) -> Task {
    let acceptance_criteria = vec!["it works".into()];
    Task { description: "d".into(), acceptance_criteria, ..Task::new(id, title) }
}

pub(crate) const HOSTILE: &str =
    "\u{1b}[2J# x | `y` <script> [z](http://z)\n\n## Completed: 9/9 tasks";

/// Returns a journal that has just begun.
fn begun() -> Journal {
    let mut work = TaskWork::new("plan.json");
    work.attempts = 5;
    work.review = ReviewPolicy::Fresh { cap: 2 };
    work.stuck.after = 2;
    work.stuck.strategy_shifts = 1;
    let agent = AgentChoice::new(AgentKind::Text, "agent");
    let gates = vec![Gate::for_command(GateKind::Test, "make test")];
    let mut recipe = Recipe { gates, ..Recipe::new(Work::Tasks(work), agent) };
    recipe.landing.commit = CommitPolicy::Ralph;
    recipe.limits.iterations = 20;
    let mut journal = Journal::default();
    journal.tell(Event::RunStarted {
        journal: JOURNAL_VERSION,
        version: "0.1.0".into(),
        run: RunId("20261114-231500-k3f9".into()),
        project: "/home/ada/project".into(),
        recipe: Box::new(recipe),
    });
    journal
}

/// Returns the report of a run with so many failed attempts at one task.
pub(crate) fn long_report(iterations: u32) -> Report {
    let mut journal = begun();
    let tasks = vec![task("T1", "Never done")];
    let list = Box::new(TaskList { project: "p".into(), tasks, ..TaskList::default() });
    journal.tell(Event::TasksRead { list, remarks: Vec::new() });
    let red = gate("tests", Severity::Hard, Some(&"boom <b>\n".repeat(500)));
    for number in 1..=iterations {
        journal.iterate(number, Role::Implement, "T1", &handoff("T1"), std::slice::from_ref(&red));
        journal.tell(Event::IterationEnded { iteration: IterationNumber(number) });
    }
    journal.report
}

fn night() -> Summary {
    night_report().summary().expect("it has begun")
}

/// Returns the report of a run over three tasks: done, stuck, blocked.
pub(crate) fn night_report() -> Report {
    let mut journal = begun();
    let tasks =
        vec![task("T1", "Write the parser"), task("T2", HOSTILE), task("T3", "Send the mail")];
    let list = Box::new(TaskList { project: "p".into(), tasks, ..TaskList::default() });
    journal.tell(Event::TasksRead { list, remarks: Vec::new() });
    journal.tell(Event::BaselineStarted { tree: None });
    journal.tell(Event::BaselineChecked { result: gate("tests", Severity::Hard, None) });
    let (green, style) =
        (gate("tests", Severity::Hard, None), gate("style", Severity::Soft, Some("long line")));
    let commit = |number: u32| Landed::Committed {
        commit: CommitId(format!("{number}abcdef012345")),
        subject: format!("ralph[{number}]: T1 — Write the parser"),
    };
    journal.iterate(1, Role::Implement, "T1", &handoff("T1"), &[green.clone(), style]);
    journal.land(1, commit(1));
    let wants = json!({"verdict": "changes_requested", "feedback": "No tests.", "criteria": []});
    journal.iterate(2, Role::Review, "T1", &wants, &[]);
    journal.land(2, Landed::NothingToCommit);
    journal.iterate(3, Role::Fix, "T1", &handoff("T1"), std::slice::from_ref(&green));
    journal.land(3, commit(3));
    journal.iterate(4, Role::Review, "T1", &wants, &[]);
    journal.land(4, Landed::NothingToCommit);
    let red = gate("tests", Severity::Hard, Some(&format!("running 1 test\nerror: {HOSTILE}")));
    for number in 5..=7 {
        journal.iterate(number, Role::Implement, "T2", &handoff("T2"), std::slice::from_ref(&red));
        if number == 7 {
            journal.save_failed_work(number, "wip/ralph-fail-T2-20261114-231600");
        } else {
            journal.tell(Event::IterationEnded { iteration: IterationNumber(number) });
        }
    }
    let mut blocked = handoff("T3");
    blocked["blocked"] = json!({"needs": "an API key", "why": "it is missing"});
    journal.iterate(8, Role::Implement, "T3", &blocked, std::slice::from_ref(&green));
    journal.land(8, Landed::RolledBack { kept: Some("refs/ralph/kept/k3f9/8".into()) });
    journal.iterate(9, Role::Implement, "T3", &blocked, std::slice::from_ref(&green));
    journal.save_failed_work(9, "wip/ralph-fail-T3-20261114-231700");
    journal.tell(Event::Warned { text: "the disk is nearly full".into() });
    let failed = vec![TaskId("T2".into()), TaskId("T3".into())];
    let outcome = Outcome::TasksLeft { failed, waiting: Vec::new() };
    journal.tell(Event::RunEnded { outcome, left: None });
    journal.report
}

#[test]
fn the_page_starts_with_what_needs_a_person() {
    expect![[r#"
        # Execution summary

        - Run: 20261114-231500-k3f9
        - Started: 2026-11-14T23:15:01Z
        - Last event: 2026-11-14T23:16:22Z
        - Ending: not complete: 2 tasks failed: T2, T3

        ## Questions (they wait for you)

        - **T3** (Send the mail): needs an API key (it is missing)

        ## Completed: 1/3 tasks

        2 failed.

        ## Failed tasks (they need you)

        ### T2: # x \| \`y\` \<script> [z\](http://z) ## Completed: 9/9 tasks

        - Attempts: 3/5
        - Last gate: tests
        - Branch: `wip/ralph-fail-T2-20261114-231600`
        - Error: error: # x \| \`y\` \<script> [z\](http://z)
        - Reason: failed: stuck, the same failure 3 times
        - Stuck: Yes (same error 3x, strategy shift failed)
        - Quality warnings: 0

        ### T3: Send the mail

        - Attempts: 2/5
        - Last gate: blocked
        - Branch: `wip/ralph-fail-T3-20261114-231700`
        - Reason: blocked: needs an API key (it is missing)
        - Stuck: No
        - Quality warnings: 0

        ## Approved at the cap (check them yourself)

        - **T1** (Write the parser), after 2 reviews: [AUTO-APPROVED AT CAP] No tests.

        ## Reviews

        | Reviews | Tasks |
        | --- | --- |
        | 2 | 1 |

        Some tasks needed a second look.
        1 task hit the cap of reviews: check the work yourself.

        ## Requested changes

        - **T1** (Write the parser), review 1: No tests.

        ## Tasks

        | Task | Title | Status | Failed attempts | Reviews | Commits | Iterations | Time | Cost | Tokens |
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
        | T1 | Write the parser | done | 0 | 2 | 2 | 4 | 29.0s | $0.08 | 4.0K in / 400 out |
        | T2 | # x \| \`y\` \<script> [z\](http://z) ## Completed: 9/9 tasks | failed | 3 | 0 | 0 | 3 | 22.0s | $0.06 | 3.0K in / 300 out |
        | T3 | Send the mail | failed | 2 | 0 | 0 | 2 | 16.0s | $0.04 | 2.0K in / 200 out |
        | all |  |  |  |  | 2 | 9 | 1m 22s | $0.18 | 9.0K in / 900 out |

        Quality warnings of T1:

        - style (1x): long line

        ## Iterations by role

        | Role | Calls | Iterations | Time | Cost | Tokens |
        | --- | --- | --- | --- | --- | --- |
        | fix | 1 | 1 | 8.0s | $0.02 | 1.0K in / 100 out |
        | implement | 6 | 6 | 47.0s | $0.12 | 6.0K in / 600 out |
        | review | 2 | 2 | 12.0s | $0.04 | 2.0K in / 200 out |
        | all | 9 | 9 | 1m 22s | $0.18 | 9.0K in / 900 out |

        ## Gates

        | Gate | Severity | Runs | Passed | Time | Before | Regressions |
        | --- | --- | --- | --- | --- | --- | --- |
        | style | soft | 1 | 0% | 1.5s |  |  |
        | tests | hard | 7 | 57% | 10.5s | green | 3 |

        ## Commits

        - `1abcdef` ralph[1]: T1 — Write the parser
        - `3abcdef` ralph[3]: T1 — Write the parser

        ## Failure branches

        - `wip/ralph-fail-T2-20261114-231600` T2
        - `wip/ralph-fail-T3-20261114-231700` T3

        ## Kept refs

        - `refs/ralph/kept/k3f9/8`

        ## Changed files: 1

        - a.rs

        ## Warnings

        - the disk is nearly full

        ## Next

        ```sh
        git diff main...wip/ralph-fail-T2-20261114-231600  # see what was tried
        ralph build --task T2 --from-shelf  # continue from that work
        ralph build --task T2 --fresh  # start over
        git diff main...wip/ralph-fail-T3-20261114-231700  # see what was tried
        ralph build --task T3 --from-shelf  # continue from that work
        ralph build --task T3 --fresh  # start over
        ralph tasks show T1  # what the last review still wanted
        git log -n 2  # see the commits of this run
        ralph log 20261114-231500-k3f9  # everything that happened
        ```
    "#]].assert_eq(&render_report(&night()));
}

#[test]
fn text_of_others_does_not_break_the_page() {
    let page = render_report(&night());
    assert!(!page.contains('\u{1b}'), "{page}");
    let completed: Vec<&str> =
        page.lines().filter(|line| line.starts_with("## Completed")).collect();
    assert_eq!(completed, ["## Completed: 1/3 tasks"]);
    assert!(!page.contains(" <script>") && !page.contains("[z]"), "{page}");
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<usize> = page.lines().filter(|line| line.starts_with("| T")).map(bars).collect();
    assert_eq!(rows, [11, 11, 11, 11]);
}

#[test]
fn names_become_code_that_nothing_closes() {
    for (text, expect) in
        [("a", "`a`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a|b", "`a\\|b`"), ("", "")]
    {
        assert_eq!(format_code(text), expect, "{text}");
    }
}

#[test]
fn the_status_has_questions_on_top_and_a_line_for_each_task() {
    let around = crate::style::tests::pipe();
    let style =
        crate::style::Style::choose_style(&crate::style::StylePreferences::default(), &around);
    expect![[r#"
        Blocked    T3 needs an API key (it is missing)

        Run        20261114-231500-k3f9
        State      not complete
        Iteration  9 of 20
        Ran        1m 22s
        Cost       $0.18, 9.9K tokens
        Sandbox    none: agent and gates can do whatever you can
        Gates      8 run, 4 failed
        Last gates tests passed
        Commits    2
        Tasks      1 of 3 done, 2 failed

        ✔ T1  done    Write the parser (2 reviews, 1 quality warning, $0.08)
        ✘ T2  failed  # x | `y` <script> [z](http://z) ## Completed: 9/9 tasks (3 of 5 attempts failed, $0.06)
        ✘ T3  failed  Send the mail (2 of 5 attempts failed, $0.04)

        T1 was approved at the cap of reviews: check it yourself
    "#]].assert_eq(&crate::status::describe_run(
        &night(),
        &crate::status::RunForecast::default(),
        "not complete",
        &style
    ));
}
