//! The lines of ralph itself, from the first line of a run to the last.

use expect_test::expect;
use ralph_core::reporting::report::Report;
use ralph_model::child::{Leftovers, SoftLimit};
use ralph_model::event::WaitReason;
use ralph_model::failure::FailureClass;
use ralph_model::outcome::Outcome;
use ralph_model::worktree::{Landed, Observation, TreeDiff, TreeId};

use super::*;

/// An iteration that fails its gates, then one that completes the work.
fn two_iterations(stage: &mut Stage) {
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt).pass(367).answer(1, "I tried.");
    let observation = Observation {
        more_files: 2,
        ..Observation::new(TreeId("7e7e7e7e7e".into()), TreeDiff::Dirty)
    };
    stage.tell(Event::Observed { observation: Some(observation), kept: None });
    stage.check("lint", GateStatus::Passed, 0, "");
    stage.check("test", GateStatus::Failed, 2, "test one ... FAILED\nexpected 1, got 2\n");
    stage.judge();
    let kept = Some("refs/ralph/20261114-231500-k3f9/1".to_owned());
    stage.tell(Event::Landed { landed: Landed::RolledBack { kept } });
    stage.pass(3).tell(Event::IterationEnded { iteration: IterationNumber(1) });

    stage.iterate(2).ask(1, Role::Prompt).pass(367);
    stage.answer(1, "<response>DONE</response>");
    stage.check("lint", GateStatus::Cached, 0, "");
    stage.check("test", GateStatus::Passed, 0, "ok");
    stage.check("style", GateStatus::Failed, 1, "too long");
    stage.judge();
    let surveyed = Landed::Surveyed {
        tree: Some(TreeId("7e7e7e7e7e".into())),
        changes: TreeDiff::Dirty,
        checked_out: None,
    };
    stage.tell(Event::Landed { landed: surveyed });
    stage.ask(2, Role::Message).answer(2, "Fix the parser");
    let commit = CommitId("fedcba9876543210".into());
    let subject = "ralph: Fix the parser".to_owned();
    stage.tell(Event::Landed { landed: Landed::Committed { commit, subject } });
    stage.tell(Event::Landed { landed: Landed::ScmRan { command: "git push".into() } });
    stage.pass(3).tell(Event::IterationEnded { iteration: IterationNumber(2) });
    stage.tell(Event::RunEnded { outcome: Outcome::Complete, left: None });
}

#[test]
fn a_run_in_a_pipe() {
    let mut stage = Stage::new(&pipe());
    two_iterations(&mut stage);
    assert!(!stage.text().contains('\u{1b}'));
    stage.shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        Iteration 1/10
        Checkpoint 1a2b3c4
        I tried.
        ✅ Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        ⏳ Gate lint: running make lint
        ✔ Gate lint: passed, exit code 0 (1.2s)
        ⏳ Gate test: running make test
        ✘ Gate test: failed, exit code 2 (1.2s)
          ⎿  test one ... FAILED
             expected 1, got 2
          output: .ralph/guardrail_1_test.log
        ✘ Failed gate: test; the next prompt reports it
        ↩ Rolled back to the checkpoint; kept on refs/ralph/20261114-231500-k3f9/1
        Progress: iteration 1/10, 6m 10s elapsed, $5.76 so far

        Iteration 2/10
        Checkpoint 1a2b3c4
        <response>DONE</response>
        ✅ Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        ⏳ Gate lint: running make lint
        ✔ Gate lint: cached, it passed before on the same tree
        ⏳ Gate test: running make test
        ✔ Gate test: passed, exit code 0 (1.2s)
        ⏳ Gate style: running make style
        ⚠ Gate style: failed, exit code 1 (1.2s); soft, so the work may be kept
          ⎿  too long
          output: .ralph/guardrail_1_style.log
        ✔ Complete: the hard gates passed and the agent said DONE
        Asking claude for a commit message
        Fix the parser
        ✅ Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        ✔ Commit fedcba9 ralph: Fix the parser
        ✔ Ran git push
        Progress: iteration 2/10, 12m 20s elapsed, $17.28 so far

        ✅ Run ended: complete
          2 iterations, 1 commit, $17.28, 12m 20s, 1 warning
          tokens: 3.6M in (2.5M cached) / 135K out
          git log -n 1  see the commits of this run
          ralph log     read what happened
    "#]]);
}

#[test]
fn a_run_in_a_log_is_ascii_with_times_and_keeps_to_its_width() {
    let mut options = options(&StylePreferences::default(), &terminal(), Verbosity::Normal);
    options.style = options.style.for_log();
    let mut stage = Stage::of(options);
    two_iterations(&mut stage);
    assert!(stage.text().is_ascii());
    stage.shows(&expect![[r#"
        [23:15:00] > ralph 0.1.0, run 20261114-231500-k3f9
        [23:15:00]   workflow prompt, agent claude (opus)
        [23:15:00]   sandbox none
        [23:15:00]   at most 10 iterations, $20.00
        [23:15:00]   gates lint, test, style (soft)
        [23:15:00]   no file is protected: that needs a git repository or a sandbox

        [23:15:00] Iteration 1/10
        [23:15:00] Checkpoint 1a2b3c4
        [23:21:07] I tried.
        [23:21:07] [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [23:21:07] [..] Gate lint: running make lint
        [23:21:07] [OK] Gate lint: passed, exit code 0 (1.2s)
        [23:21:07] [..] Gate test: running make test
        [23:21:07] [ERR] Gate test: failed, exit code 2 (1.2s)
        [23:21:07]   |  test one ... FAILED
        [23:21:07]      expected 1, got 2
        [23:21:07]   output: .ralph/guardrail_1_test.log
        [23:21:07] [ERR] Failed gate: test; the next prompt reports it
        [23:21:07] [<] Rolled back to the checkpoint; kept on
        [23:21:07]     refs/ralph/20261114-231500-k3f9/1
        [23:21:10] Progress: iteration 1/10, 6m 10s elapsed, $5.76 so far

        [23:21:10] Iteration 2/10
        [23:21:10] Checkpoint 1a2b3c4
        [23:27:17] <response>DONE</response>
        [23:27:17] [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [23:27:17] [..] Gate lint: running make lint
        [23:27:17] [OK] Gate lint: cached, it passed before on the same tree
        [23:27:17] [..] Gate test: running make test
        [23:27:17] [OK] Gate test: passed, exit code 0 (1.2s)
        [23:27:17] [..] Gate style: running make style
        [23:27:17] [WARN] Gate style: failed, exit code 1 (1.2s); soft, so the work may
        [23:27:17]        be kept
        [23:27:17]   |  too long
        [23:27:17]   output: .ralph/guardrail_1_style.log
        [23:27:17] [OK] Complete: the hard gates passed and the agent said DONE
        [23:27:17] Asking claude for a commit message
        [23:27:17] Fix the parser
        [23:27:17] [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [23:27:17] [OK] Commit fedcba9 ralph: Fix the parser
        [23:27:17] [OK] Ran git push
        [23:27:20] Progress: iteration 2/10, 12m 20s elapsed, $17.28 so far

        [23:27:20] [OK] Run ended: complete
        [23:27:20]   2 iterations, 1 commit, $17.28, 12m 20s, 1 warning
        [23:27:20]   tokens: 3.6M in (2.5M cached) / 135K out
        [23:27:20]   git log -n 1  see the commits of this run
        [23:27:20]   ralph log     read what happened
    "#]]);
}

#[test]
fn a_run_on_a_terminal_replaces_temporary_lines() {
    let mut stage = Stage::new(&terminal());
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt).answer(1, "<promise>not yet</promise>");
    stage.check("lint", GateStatus::Passed, 0, "").judge();
    stage.tell(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    stage.shows(&expect![[r#"
        ^[36m▶^[0m ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        ^[1mIteration 1/10^[0m
        ^[2mCheckpoint 1a2b3c4^[0m
        <promise>not yet</promise>
        ^[32m✅^[0m Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        ⏳ ^[2mGate lint: running make lint^[0m<CR><CR>^[2K^[32m✔^[0m Gate lint: passed, exit code 0 (1.2s)
        ^[36m●^[0m Passed, but not done: the agent said "not yet" instead of DONE

        ^[33m⚠^[0m Run ended: interrupted
          1 iteration, 0 commits, $5.76, 0.0s
          tokens: 1.2M in (850K cached) / 45K out
          ralph resume  resume where it stopped
          ralph log     read what happened
    "#]]);
}

#[test]
fn a_verbose_run_shows_reasons() {
    let mut stage = Stage::with(&ascii(), &pipe(), Verbosity::Verbose);
    stage.view.write_remark("Loading settings from .ralph/settings.json");
    two_iterations(&mut stage);
    stage.shows(&expect![[r#"
        [ralph] Loading settings from .ralph/settings.json
        [ralph] Project: /home/ada/project, journal version 2
        > ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        Iteration 1/10
        [ralph] Iteration 1/10 starting
        Checkpoint 1a2b3c4
        [ralph] Agent command: claude -p --model opus 'two words'
        [ralph] Prompt (1234 chars): Do it well. and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well...
        I tried.
        [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [ralph] Agent ended: exit code 0 (6m 7s), model opus
        [ralph] Running guardrails on tree 7e7e7e7, 2 paths changed
        [ralph] Running guardrail: make lint
        [..] Gate lint: running make lint
        [ralph] Guardrail exited with code 0 (1.2s)
        [OK] Gate lint: passed, exit code 0 (1.2s)
        [ralph] Running guardrail: make test
        [..] Gate test: running make test
        [ralph] Guardrail exited with code 2 (1.2s)
        [ERR] Gate test: failed, exit code 2 (1.2s)
          |  test one ... FAILED
             expected 1, got 2
          output: .ralph/guardrail_1_test.log
        [ralph] Completion: not checked, because a gate failed: test
        [ralph] The work tree is rolled back to the checkpoint; feedback for the next iteration: 1
        [ERR] Failed gate: test; the next prompt reports it
        [<] Rolled back to the checkpoint; kept on refs/ralph/20261114-231500-k3f9/1
        Progress: iteration 1/10, 6m 10s elapsed, $5.76 so far
        [ralph] Iteration 1 took 6m 10s

        Iteration 2/10
        [ralph] Iteration 2/10 starting
        Checkpoint 1a2b3c4
        [ralph] Agent command: claude -p --model opus 'two words'
        [ralph] Prompt (1234 chars): Do it well. and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well...
        <response>DONE</response>
        [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [ralph] Agent ended: exit code 0 (6m 7s), model opus
        [ralph] Running guardrail: make lint
        [..] Gate lint: running make lint
        [ralph] Guardrail not run again: the tree is the same
        [OK] Gate lint: cached, it passed before on the same tree
        [ralph] Running guardrail: make test
        [..] Gate test: running make test
        [ralph] Guardrail exited with code 0 (1.2s)
        [OK] Gate test: passed, exit code 0 (1.2s)
        [ralph] Running guardrail: make style
        [..] Gate style: running make style
        [ralph] Guardrail exited with code 1 (1.2s)
        [WARN] Gate style: failed, exit code 1 (1.2s); soft, so the work may be kept
          |  too long
          output: .ralph/guardrail_1_style.log
        [ralph] Completion: looked for "DONE" and found it
        [ralph] The work tree is committed; feedback for the next iteration: 0
        [OK] Complete: the hard gates passed and the agent said DONE
        [ralph] The tree 7e7e7e7 differs from the last commit
        [ralph] Agent command: claude -p --model opus 'two words'
        [ralph] Prompt (1234 chars): Do it well. and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well and well...
        Asking claude for a commit message
        Fix the parser
        [OK] Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        [ralph] Agent ended: exit code 0 (6m 7s), model opus
        [OK] Commit fedcba9 ralph: Fix the parser
        [OK] Ran git push
        Progress: iteration 2/10, 12m 20s elapsed, $17.28 so far
        [ralph] Iteration 2 took 6m 10s

        [OK] Run ended: complete
          2 iterations, 1 commit, $17.28, 12m 20s, 1 warning
          tokens: 3.6M in (2.5M cached) / 135K out
          git log -n 1  see the commits of this run
          ralph log     read what happened
    "#]]);
}

#[test]
fn a_quiet_run_shows_only_what_matters() {
    let mut stage = Stage::with(&StylePreferences::default(), &pipe(), Verbosity::Quiet);
    stage.view.write_remark("not said");
    two_iterations(&mut stage);
    stage.tell(Event::Warned { text: "the settings changed".into() });
    stage.shows(&expect![[r#"
        ✅ Run ended: complete
        ⚠ the settings changed
    "#]]);
}

#[test]
fn without_the_stream_only_the_summary_of_a_call_is_shown() {
    let mut options = options(&StylePreferences::default(), &pipe(), Verbosity::Normal);
    options.shows_agent = false;
    let mut stage = Stage::of(options);
    let bare = Recipe { gates: Vec::new(), ..recipe() };
    stage.begin(bare).iterate(1).ask(1, Role::Prompt).answer(1, "I tried.").judge();
    stage.shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          no gates: only the agent decides whether the work is done

        Iteration 1/10
        Checkpoint 1a2b3c4
        ✅ Complete (cost: $5.76, tokens: 1.2M in (850K cached) / 45K out, turns: 12, tools: 58, errors: 4, time: 6m7s)
        ● Not done: the agent did not say DONE
    "#]]);
}

#[test]
fn failures_of_the_agent_are_reported_with_consequences() {
    let crash = || Failure::new(FailureClass::Crashed, "panic at the disco\nand more");
    let mut stage = Stage::new(&pipe());
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt).fail(1, crash());
    let until = stage.now().saturating_add(Millis(5_000));
    stage.tell(Event::Waiting { until, reason: WaitReason::Retry });
    stage.pass(5).ask(2, Role::Prompt);
    stage.fail(2, Failure::new(FailureClass::ContextExceeded, "prompt is too long"));
    stage.ask(3, Role::Prompt);
    stage.fail(3, Failure::new(FailureClass::IdleTimeout, "silent for 10m")).judge();
    let login = Failure::new(FailureClass::NotLoggedIn, "Invalid API key")
        .with_hint("run `claude` once and log in");
    stage.tell(Event::RunEnded {
        outcome: Outcome::AgentFailed { failure: login, asks: 3 },
        left: None,
    });
    stage.shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        Iteration 1/10
        Checkpoint 1a2b3c4
        ❌ Failed (tools: 0, errors: 0, time: 2.5s)
        ✘ The agent failed, crashed: panic at the disco and more
        ↻ Retry 1 of 3 in 5.0s, because of: crashed
        Asking claude again (call 2)
        ❌ Failed (tools: 0, errors: 0, time: 2.5s)
        ✘ The agent failed, context window exceeded: prompt is too long
        ↻ Asking again with the smallest prompt
        Asking claude again (call 3)
        ❌ Failed (tools: 0, errors: 0, time: 2.5s)
        ✘ The agent failed, idle timeout: silent for 10m
        ✘ Attempt failed: idle timeout

        ❌ Run ended: the agent failed (not logged in, asked 3 times): Invalid API key
          1 iteration, 0 commits, 5.0s, 5.0s of waiting
          hint: run `claude` once and log in
          ralph resume  resume after fixing this
          ralph log     read what happened
    "#]]);
}

/// Waits for a limit for 25 minutes.
fn wait(stage: &mut Stage) {
    let until = START.saturating_add(Millis::from_mins(25));
    let limit = FailureClass::RateLimited { resets_at: Some(until) };
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt);
    stage.fail(1, Failure::new(limit, "5-hour limit reached"));
    stage.tell(Event::Waiting { until, reason: WaitReason::UsageLimit });
    for left in (0..=1_500).rev().map(Millis::from_secs) {
        let reason = WaitReason::UsageLimit;
        stage.view.show_activity(&Activity::Waiting { until, reason, left });
    }
    stage.pass(1_500).ask(2, Role::Prompt);
}

#[test]
fn a_wait_in_a_pipe_is_a_line_now_and_then() {
    let mut stage = Stage::new(&pipe());
    wait(&mut stage);
    stage.shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        Iteration 1/10
        Checkpoint 1a2b3c4
        ❌ Failed (tools: 0, errors: 0, time: 2.5s)
        ⚠ The agent reached a usage limit: 5-hour limit reached
        ⏳ Usage limit: waiting until 23:40 (in 25m 0s); this counts against no limit
        ⏳ Usage limit: still waiting, resumes at 23:40 (in 15m 0s)
        ⏳ Usage limit: still waiting, resumes at 23:40 (in 5m 0s)
        Asking claude again (call 2)
    "#]]);
}

#[test]
fn a_wait_that_a_note_interrupts_is_reported_once() {
    let mut stage = Stage::new(&pipe());
    let until = START.saturating_add(Millis::from_mins(25));
    let limit = FailureClass::RateLimited { resets_at: Some(until) };
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt);
    stage.fail(1, Failure::new(limit, "5-hour limit reached"));
    for _ in 0..2 {
        stage.tell(Event::Waiting { until, reason: WaitReason::UsageLimit });
        stage.pass(60);
    }
    stage.ask(2, Role::Prompt).fail(2, Failure::new(FailureClass::Crashed, "boom"));
    let until = stage.now().saturating_add(Millis(30_000));
    stage.tell(Event::Waiting { until, reason: WaitReason::Retry });
    stage.pass(30).ask(3, Role::Prompt);
    assert_eq!(stage.text().matches("waiting until").count(), 1, "{}", stage.text());
    let report = Report::from_events(&stage.course.events).expect("the events fit");
    let waits = report.summary().expect("it has begun").waits;
    assert_eq!((waits.usage_limits, waits.retries), (1, 1));
    assert_eq!((waits.waited, waits.retry_waited), (Millis(120_000), Millis(30_000)));
}

#[test]
fn a_wait_on_a_terminal_counts_down_on_one_line() {
    let mut stage = Stage::with(
        &StylePreferences { color: StyleChoice::Never, ..StylePreferences::default() },
        &terminal(),
        Verbosity::Normal,
    );
    wait(&mut stage);
    let text = stage.text();
    assert_eq!(text.matches("\r\u{1b}[2K").count(), 1_501);
    let countdown = &text[text.find("Usage limit: resumes").expect("a countdown")..];
    let first = &countdown[..countdown.find('\r').expect("rewritten")];
    expect!["Usage limit: resumes at 23:40, in 25:00"].assert_eq(first);
    assert_eq!(text.lines().filter(|line| line.contains("resumes at")).count(), 1);
}

#[test]
fn leftovers_are_warned_about() {
    let mut stage = Stage::new(&pipe());
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt);
    let end = ChildEnd {
        ending: Ending::Exited { code: 0 },
        ran: Millis::from_mins(31),
        soft_limit: SoftLimit::Passed,
        leftovers: Leftovers { processes: 2, held_pipe: true },
    };
    let reply = ReplyFold::default().into_reply(end, None);
    stage.tell(Event::Replied { ask: AskNumber(1), reply: Box::new(reply) });
    stage.tell(Event::Landed { landed: Landed::NothingToCommit });
    let output = "lint-staged: 3 errors\n".to_owned();
    stage.tell(Event::Landed { landed: Landed::CommitRefused { output } });
    stage.tell(Event::Landed { landed: Landed::RolledBack { kept: None } });
    stage.shows(&expect![[r#"
        ▶ ralph 0.1.0, run 20261114-231500-k3f9
          workflow prompt, agent claude (opus)
          sandbox none
          at most 10 iterations, $20.00
          gates lint, test, style (soft)
          no file is protected: that needs a git repository or a sandbox

        Iteration 1/10
        Checkpoint 1a2b3c4
        ✅ Complete (tools: 0, errors: 0, time: 31m0s)
        ⚠ ended 2 processes that the agent left behind
        ⚠ a process that the agent started kept its output open; ralph did not wait for
          it
        Nothing to commit
        ✘ The commit was refused; the next prompt reports it
          ⎿  lint-staged: 3 errors
        ↩ Rolled back to the checkpoint; there was nothing to keep
    "#]]);
}

#[test]
fn every_end_suggests_the_next_command() {
    use ralph_model::budget::ExhaustedBudget;
    let used = UsdMicros::from_dollars(20.5);
    let limit = UsdMicros::from_dollars(20.0);
    let mut shown = String::new();
    for outcome in [
        Outcome::Complete,
        Outcome::IterationsUsedUp { limit: 10 },
        Outcome::BudgetUsedUp { exhausted: ExhaustedBudget::Cost { used, limit } },
        Outcome::LimitTooLong {
            resets_at: Some(START.saturating_add(Millis::from_mins(600))),
            message: "weekly limit reached".into(),
        },
        Outcome::NoCommitMessage,
        Outcome::GitFailed { message: "cannot lock ref\x1b[2J 'HEAD'".into() },
        Outcome::PromptLost { message: "prompt file `p.md` is gone".into() },
        Outcome::Interrupted,
    ] {
        let mut stage = Stage::new(&pipe());
        stage.begin(recipe());
        let header = stage.text().len();
        stage.tell(Event::RunEnded { outcome, left: None });
        shown.push_str(&stage.text()[header..]);
    }
    expect![[r#"

        ✅ Run ended: complete
          0 iterations, 0 commits, 0.0s
          ralph log  read what happened

        ⚠ Run ended: not complete after 10 iterations
          0 iterations, 0 commits, 0.0s
          ralph resume -m 20  resume with more iterations
          ralph log           read what happened

        ⚠ Run ended: not complete: cost budget used up ($20.50 of $20.00)
          0 iterations, 0 commits, 0.0s
          ralph resume --max-cost USD  resume with a higher cost limit
          ralph log                    read what happened

        ⚠ Run ended: not complete: the usage limit resets too late (weekly limit
          reached)
          0 iterations, 0 commits, 0.0s
          ralph resume  resume after the limit has reset at Sun 09:15
          ralph log     read what happened

        ❌ Run ended: the agent gave no commit message; the changes are kept,
           uncommitted
          0 iterations, 0 commits, 0.0s
          ralph resume  resume after fixing this
          ralph log     read what happened

        ❌ Run ended: git failed: cannot lock ref 'HEAD'
          0 iterations, 0 commits, 0.0s
          ralph resume  resume after fixing this
          ralph log     read what happened

        ❌ Run ended: prompt file `p.md` is gone
          0 iterations, 0 commits, 0.0s
          ralph resume  resume after fixing this
          ralph log     read what happened

        ⚠ Run ended: interrupted
          0 iterations, 0 commits, 0.0s
          ralph resume  resume where it stopped
          ralph log     read what happened
    "#]]
    .assert_eq(&shown);
}

#[test]
fn own_lines_keep_to_eighty_columns() {
    for (around, timestamps) in [(pipe(), false), (terminal(), false), (pipe(), true)] {
        let preferences = StylePreferences {
            color: StyleChoice::Never,
            timestamps,
            ..StylePreferences::default()
        };
        let mut stage = Stage::with(&preferences, &around, Verbosity::Normal);
        two_iterations(&mut stage);
        stage.tell(Event::Warned { text: "a long warning ".repeat(30) });
        let mut waiting = Stage::with(&preferences, &around, Verbosity::Normal);
        wait(&mut waiting);
        let text = format!("{}{}", stage.text(), waiting.text());
        // The line that sums up a call is the one that people search for; it stays whole.
        for line in text.lines().filter(|line| !line.contains("Complete (")) {
            for shown in line.split("\r\u{1b}[2K") {
                assert!(sanitize::count_columns(shown) <= 80, "{shown}");
            }
        }
    }
}

#[test]
fn an_interrupted_agent_did_not_fail() {
    let mut stage = Stage::with(&ascii(), &pipe(), Verbosity::Normal);
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt);
    let header = stage.text().len();
    stage.fail(1, Failure::new(FailureClass::Interrupted, "by the user"));
    stage.tell(Event::RunEnded { outcome: Outcome::Interrupted, left: None });
    stage.tell(Event::RunResumed { version: "0.2.0".into(), recipe: None });
    expect![[r#"
        [WARN] Interrupted (tools: 0, errors: 0, time: 2.5s)

        [WARN] Run ended: interrupted
          1 iteration, 0 commits, 0.0s
          ralph resume  resume where it stopped
          ralph log     read what happened
        > ralph 0.2.0 resumes run 20261114-231500-k3f9, 1 iteration so far
    "#]]
    .assert_eq(&stage.text()[header..]);
}
