//! The timers, without processes.

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn limits() -> ProcessLimits {
    ProcessLimits {
        soft: Some(ms(100)),
        hard: Some(ms(1000)),
        idle: Some(ms(300)),
        grace: ms(50),
        drain: ms(20),
        linger: Some(ms(40)),
        output: None,
        space: None,
    }
}

/// Plays inputs at their times; returns every action but `Listen`, and how it ended.
#[track_caller]
fn check(
    limits: ProcessLimits,
    inputs: &[(u64, LimitInput)],
    actions: &[(u64, ChildAction)],
    expected: &(Ending, SoftLimit),
) {
    let mut course = LimitTracker::new(limits);
    let mut taken = Vec::new();
    for &(at, input) in inputs {
        let action = course.process_input(input, ms(at));
        if action != ChildAction::Listen {
            taken.push((at, action));
        }
    }
    assert_eq!(taken, actions);
    let by_itself = Ending::Exited { code: 0 };
    assert_eq!(&(course.to_ending(by_itself), course.soft_limit()), expected);
}

const EXITED: Ending = Ending::Exited { code: 0 };

const fn timed_out(limit: Limit, force: Force) -> Ending {
    Ending::TimedOut { limit, force }
}

use ChildAction::{Done, Kill, Sweep, Terminate};
use LimitInput::{Eof, Exited, Interrupted, Output as Printed, Quiet, Swept};
use OutputActivity::{Final, Noise, Useful};

#[test]
fn a_child_that_exits_by_itself_is_swept_once_exit_and_both_ends_are_seen() {
    let done = [(9, Sweep), (9, Done)];
    for order in [[Eof, Eof, Exited], [Exited, Eof, Eof], [Eof, Exited, Eof]] {
        let inputs = [(7, order[0]), (8, order[1]), (9, order[2]), (9, Swept)];
        check(limits(), &inputs, &done, &(EXITED, SoftLimit::Kept));
    }
}

#[test]
fn passing_the_soft_limit_is_only_noted() {
    let inputs = [(99, Quiet), (100, Printed(Useful)), (120, Eof), (120, Eof), (130, Exited)];
    check(limits(), &inputs, &[(130, Sweep)], &(EXITED, SoftLimit::Passed));
    // Also if no event came between the limit and the exit.
    let inputs = [(1, Eof), (1, Eof), (130, Exited)];
    check(limits(), &inputs, &[(130, Sweep)], &(EXITED, SoftLimit::Passed));
}

#[test]
fn only_useful_output_holds_off_the_idle_limit() {
    let inputs =
        [(200, Printed(Useful)), (499, Printed(Noise)), (500, Printed(Noise)), (510, Exited)];
    let ending = timed_out(Limit::Idle, Force::Terminated);
    check(limits(), &inputs, &[(500, Terminate)], &(ending, SoftLimit::Passed));
}

#[test]
fn a_child_that_prints_all_the_time_runs_into_the_hard_limit() {
    let mut inputs: Vec<(u64, LimitInput)> =
        (0..=20).map(|at| (at * 50, Printed(Useful))).collect();
    inputs.extend([(1049, Printed(Useful)), (1050, Printed(Useful)), (1060, Exited)]);
    let actions = [(1000, Terminate), (1050, Kill)];
    let ending = timed_out(Limit::Hard, Force::Killed);
    check(limits(), &inputs, &actions, &(ending, SoftLimit::Passed));
}

#[test]
fn a_child_that_cannot_be_killed_is_abandoned() {
    let mut quick = limits();
    quick.soft = None;
    let inputs = [
        (300, Quiet),
        (350, Quiet),
        (10_349, Quiet),
        (10_350, Quiet),
        (10_350, Swept),
        (10_370, Quiet),
    ];
    let actions = [(300, Terminate), (350, Kill), (10_350, Sweep), (10_370, Done)];
    let ending = timed_out(Limit::Idle, Force::Killed);
    check(quick, &inputs, &actions, &(ending, SoftLimit::Kept));
}

#[test]
fn a_final_result_starts_the_linger_period_and_work_after_it_cancels_it() {
    let lingered = Ending::Lingered { force: Force::Terminated };
    let word = [(10, Printed(Final)), (49, Printed(Noise)), (50, Quiet), (60, Exited)];
    check(limits(), &word, &[(50, Terminate)], &(lingered.clone(), SoftLimit::Kept));
    let again =
        [(10, Printed(Final)), (49, Printed(Final)), (88, Quiet), (89, Quiet), (90, Exited)];
    check(limits(), &again, &[(89, Terminate)], &(lingered.clone(), SoftLimit::Kept));
    let onward = [(10, Printed(Final)), (20, Printed(Useful)), (319, Quiet), (320, Quiet)];
    let idle = timed_out(Limit::Idle, Force::Terminated);
    check(limits(), &onward, &[(320, Terminate)], &(idle, SoftLimit::Passed));
    // With a final result, the hard limit only shortens the linger period.
    let late = [
        (250, Printed(Useful)),
        (500, Printed(Useful)),
        (750, Printed(Useful)),
        (990, Printed(Final)),
        (1000, Quiet),
    ];
    check(limits(), &late, &[(1000, Terminate)], &(lingered, SoftLimit::Passed));
}

#[test]
fn an_interrupt_ends_a_running_child_once_and_spares_one_that_has_left() {
    let interrupted = Ending::Interrupted { force: Force::Terminated };
    let inputs = [(5, Interrupted), (6, Interrupted), (7, Exited)];
    check(limits(), &inputs, &[(5, Terminate)], &(interrupted, SoftLimit::Kept));
    let inputs = [(5, Exited), (6, Interrupted)];
    check(limits(), &inputs, &[], &(EXITED, SoftLimit::Kept));
    // A child that already ran into a limit is not interrupted as well.
    let inputs = [(300, Quiet), (301, Interrupted), (302, Exited)];
    let ending = timed_out(Limit::Idle, Force::Terminated);
    check(limits(), &inputs, &[(300, Terminate)], &(ending, SoftLimit::Passed));
}

#[test]
fn a_child_that_prints_more_than_allowed_is_ended() {
    let mut course = LimitTracker::new(ProcessLimits { output: Some(10), ..limits() });
    course.count_bytes(10);
    assert_eq!(course.process_input(Printed(Useful), ms(1)), ChildAction::Listen);
    course.count_bytes(1);
    assert_eq!(course.process_input(Printed(Useful), ms(2)), Terminate);
    course.process_input(Exited, ms(3));
    assert_eq!(course.to_ending(EXITED), timed_out(Limit::Output, Force::Terminated));
}

#[test]
fn a_child_that_uses_more_disk_than_allowed_is_ended_at_once() {
    for limit in [Limit::Growth, Limit::Disk] {
        let mut course = LimitTracker::new(limits());
        assert_eq!(course.process_input(LimitInput::Quiet, Duration::ZERO), ChildAction::Listen);
        course.note_exceeded(limit);
        course.note_exceeded(Limit::Output);
        assert_eq!(course.process_input(LimitInput::Quiet, Duration::ZERO), ChildAction::Terminate);
        assert_eq!(
            course.to_ending(EXITED),
            timed_out(limit, Force::Terminated),
            "the first counts"
        );
    }
}

#[test]
fn a_pipe_that_stays_open_is_waited_for_only_so_long() {
    let quiet = [(5, Exited), (24, Quiet), (25, Quiet), (25, Swept), (26, Eof), (26, Eof)];
    check(limits(), &quiet, &[(25, Sweep), (26, Done)], &(EXITED, SoftLimit::Kept));
    let mut chatty = vec![(0, Exited)];
    chatty.extend((1..=80).map(|at| (at, Printed(Noise))));
    check(limits(), &chatty, &[(80, Sweep)], &(EXITED, SoftLimit::Kept));
}

#[test]
fn only_an_exited_child_leaves_a_held_pipe() {
    let mut course = LimitTracker::new(limits());
    course.process_input(Exited, ms(0));
    assert!(!course.held_pipe());
    course.process_input(Quiet, ms(20));
    assert!(course.held_pipe());
}

#[test]
fn patience_lasts_until_the_next_deadline_and_at_most_a_tick() {
    let mut course = LimitTracker::new(limits());
    assert_eq!(course.compute_patience(ms(0)), ms(100));
    course.process_input(Quiet, ms(100));
    assert_eq!(course.compute_patience(ms(100)), ms(200));
    course.process_input(Quiet, ms(300));
    assert_eq!(course.compute_patience(ms(310)), ms(40));
    assert_eq!(LimitTracker::new(ProcessLimits::default()).compute_patience(ms(0)), TICK);
}

#[test]
fn limits_without_end_do_not_overflow() {
    let mut endless = limits();
    endless.idle = Some(Duration::MAX);
    endless.hard = Some(Duration::MAX);
    endless.grace = Duration::MAX;
    endless.drain = Duration::MAX;
    endless.linger = Some(Duration::MAX);
    let inputs =
        [(5, Printed(Useful)), (6, Printed(Final)), (7, Interrupted), (8, Exited), (9, Quiet)];
    let interrupted = Ending::Interrupted { force: Force::Terminated };
    check(endless, &inputs, &[(7, Terminate)], &(interrupted, SoftLimit::Kept));
}

#[test]
fn time_in_which_nothing_ran_counts_as_one_tick() {
    let mut running = RunningTime::from_reading(ms(500));
    let readings =
        [(500, 0), (900, 400), (3900, 3400), (90_000, 4400), (90_000, 4400), (80_000, 4400)];
    for (reading, expected) in readings {
        assert_eq!(running.advance(ms(reading)), ms(expected), "at {reading}");
    }
}
