//! Simulates runs for a given time, and reports violations.
//!
//! `simulate [--for 10m] [--runs N] [--from SEED] [--jobs 2] [--sweep] [--all]`, or `simulate
//! --plan FILE` and `simulate --seed SEED` to show one run with its journal. With `--sweep` the
//! process dies at every step of every plan; with `--all` the search continues after a violation.
//! With `--workers` the plans are of runs with several tasks at once.

#![expect(clippy::print_stdout, reason = "a program that prints its findings")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, panic, process, thread};

use ralph_testkit::simulation::parallel::{check_parallel_plan, draw_parallel_plan};
use ralph_testkit::simulation::{
    InvariantViolation, SimulationPlan, Tally, check_plan, draw_plan, run_plan, shrink_plan,
    sweep_deaths,
};

/// Runs that take longer than this are reported.
const SLOW: Duration = Duration::from_secs(2);

/// The command-line arguments.
struct SimulateArgs {
    time: Option<Duration>,
    runs: Option<u64>,
    from: u64,
    jobs: u64,
    kind: PlayMode,
    after: OnViolation,
    plan: Option<SimulationPlan>,
}

/// How plans are played.
enum PlayMode {
    Drawn,
    /// Runs with workers.
    Workers,
    /// With a death at every step.
    Sweep,
}

/// What happens after a violation.
enum OnViolation {
    Stop,
    Continue,
}

/// The results of all workers.
#[derive(Default)]
struct SimulationTotals {
    tally: Tally,
    runs: u64,
    /// How many runs were played, including repetitions without deaths.
    played: u64,
    /// The events of the runs with a report.
    events: u64,
    reports: u64,
    /// By kind of violation: how often, and the first seed and plan.
    found: BTreeMap<String, (u64, u64, SimulationPlan, InvariantViolation)>,
}

fn main() {
    let wanted = match parse_args(env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(error) => {
            println!("simulate: {error}");
            process::exit(2);
        }
    };
    // The panic message is part of the report.
    panic::set_hook(Box::new(|_| {}));
    if let PlayMode::Workers = wanted.kind {
        return play_workers(&wanted);
    }
    if let Some(plan) = &wanted.plan {
        return play_plan(plan);
    }
    let (begun, next, is_over) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
    let sums = Mutex::new(SimulationTotals::default());
    thread::scope(|scope| {
        for _ in 0..wanted.jobs {
            scope.spawn(|| run_worker(&wanted, begun, &next, &is_over, &sums));
        }
    });
    let SimulationTotals { tally, runs, played, events, reports, found } =
        sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = begun.elapsed().as_secs_f64();
    let rate = divide(runs, seconds);
    println!("{tally}");
    println!("{runs} runs in {seconds:.1} s, {rate:.0} a second, from seed {}", wanted.from);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let reports = reports as f64;
    println!(
        "{played} including repetitions without deaths; on average {:.1} events, {:.1} iterations, {:.1} calls",
        divide(events, reports),
        divide(tally.find_count("events iteration"), reports),
        divide(tally.sum_group("roles"), reports),
    );
    if found.is_empty() {
        println!("no violations");
        return;
    }
    for (times, seed, plan, found) in found.values() {
        report_violation(*times, *seed, plan, found);
    }
    process::exit(1);
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn divide(many: u64, of: f64) -> f64 {
    if of > 0.0 { many as f64 / of } else { 0.0 }
}

/// Takes seeds until the time is over or a violation is found.
fn run_worker(
    wanted: &SimulateArgs,
    begun: Instant,
    next: &AtomicU64,
    is_over: &AtomicBool,
    sums: &Mutex<SimulationTotals>,
) {
    let may_continue = || {
        !is_over.load(Ordering::Relaxed) && wanted.time.is_none_or(|time| begun.elapsed() <= time)
    };
    while may_continue() {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if wanted.runs.is_some_and(|most| number >= most) {
            break;
        }
        let seed = wanted.from.wrapping_add(number);
        let (plan, asked) = (draw_plan(seed), Instant::now());
        let (runs, played, plan, report) = match wanted.kind {
            PlayMode::Drawn | PlayMode::Workers => {
                let report = check_plan(&plan);
                (1, report.played, plan, report)
            }
            PlayMode::Sweep => match sweep_deaths(&plan, may_continue) {
                (Some((deadly, report)), deaths) => (deaths + 1, deaths + 1, deadly, report),
                (None, deaths) => {
                    let report = run_plan(&plan);
                    (deaths + 1, deaths + 2, plan, report)
                }
            },
        };
        let took = asked.elapsed();
        if took > SLOW {
            let (steps, events) = (report.steps, report.journal.len());
            println!("seed {seed} took {took:.1?}: {steps} steps, {events} events");
        }
        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.tally.add_all(&report.tally);
        sums.runs += runs;
        sums.played += played;
        sums.events += report.journal.len() as u64;
        sums.reports += 1;
        let Some(first) = report.violations.into_iter().next() else { continue };
        sums.found.entry(first.category()).or_insert_with(|| (0, seed, plan, first)).0 += 1;
        match wanted.after {
            OnViolation::Stop => is_over.store(true, Ordering::Relaxed),
            OnViolation::Continue => {}
        }
    }
}

/// Reports a violation, in the smallest plan that shows it.
fn report_violation(times: u64, seed: u64, plan: &SimulationPlan, found: &InvariantViolation) {
    println!("\nseed {seed}: {found}");
    println!("({times} times)");
    let wrong = found.category();
    let fails = |plan: &SimulationPlan| {
        check_plan(plan).violations.iter().any(|found| found.category() == wrong)
    };
    let small = if fails(plan) { shrink_plan(plan, fails) } else { plan.clone() };
    for violation in &check_plan(&small).violations {
        println!("in the smallest plan: {violation}");
    }
    println!("{}", serde_json::to_string(&small).unwrap_or_default());
}

/// Plays one plan, also undisturbed, and shows the journals.
fn play_plan(plan: &SimulationPlan) {
    println!("{}", serde_json::to_string(plan).unwrap_or_default());
    for plan in [plan.clone(), plan.without_deaths()] {
        let report = run_plan(&plan);
        for recorded in &report.journal {
            let line = format!("{:?}", recorded.event);
            println!("{} {}", recorded.seq, line.chars().take(600).collect::<String>());
        }
        println!("{:?}\n{:?}\n", report.violations, report.ended);
    }
    println!("{:?}", check_plan(plan).violations);
}

/// Plays runs with workers until the time is over or an invariant is violated.
fn play_workers(wanted: &SimulateArgs) {
    let (begun, mut runs) = (Instant::now(), 0);
    while wanted.time.is_none_or(|time| begun.elapsed() <= time)
        && wanted.runs.is_none_or(|most| runs < most)
    {
        let seed = wanted.from.wrapping_add(runs);
        let plan = draw_parallel_plan(seed);
        let report = check_parallel_plan(&plan);
        if let Some(first) = report.violations.first() {
            for recorded in &report.journal {
                let line = format!("{:?}", recorded.event);
                println!("{} {}", recorded.seq, line.chars().take(300).collect::<String>());
            }
            println!("\nseed {seed}: {first}");
            println!("{}", serde_json::to_string(&plan).unwrap_or_default());
            if let OnViolation::Stop = wanted.after {
                process::exit(1);
            }
        }
        runs += 1;
    }
    println!(
        "{runs} runs with workers in {:.1} s, from seed {}",
        begun.elapsed().as_secs_f64(),
        wanted.from
    );
}

fn parse_args(mut args: impl Iterator<Item = String>) -> Result<SimulateArgs, String> {
    let mut wanted = SimulateArgs {
        time: None,
        runs: None,
        from: 0,
        jobs: 1,
        kind: PlayMode::Drawn,
        after: OnViolation::Stop,
        plan: None,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--sweep" => wanted.kind = PlayMode::Sweep,
            "--workers" => wanted.kind = PlayMode::Workers,
            "--all" => wanted.after = OnViolation::Continue,
            _ => {
                let value = args.next().ok_or(format!("`{arg}` needs a value"))?;
                apply_arg(&mut wanted, &arg, &value)?;
            }
        }
    }
    if wanted.time.is_none() && wanted.runs.is_none() {
        wanted.time = Some(Duration::from_secs(10));
    }
    Ok(wanted)
}

fn apply_arg(wanted: &mut SimulateArgs, arg: &str, value: &str) -> Result<(), String> {
    let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is not a number"));
    match arg {
        "--for" => wanted.time = Some(parse_duration(value)?),
        "--runs" => wanted.runs = Some(number()?),
        "--from" => wanted.from = number()?,
        "--jobs" => wanted.jobs = number()?.max(1),
        "--seed" => wanted.plan = Some(draw_plan(number()?)),
        "--plan" => {
            let text = fs::read_to_string(value).unwrap_or_default();
            let plan = serde_json::from_str(&text);
            wanted.plan = Some(plan.map_err(|why| format!("no plan in `{value}`: {why}"))?);
        }
        _ => return Err(format!("unknown argument `{arg}`")),
    }
    Ok(())
}

/// Reads a duration such as `90s`, `10m` or `2h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as `10m`");
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err(wrong()),
    }
}
