//! Measures what reading an agent's stream costs: bytes to common events and their reading, against
//! `serde_json` reading the same bytes into typed values.
//!
//! Both are measured in turn, several times over, in one run, and the median of each counts;
//! nothing is asserted. The streams are recorded ones mixed with what makes real ones long:
//! outputs of tools and answers in small pieces. Not here: processes, pipes and the disk.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "stream/listening.rs"]
mod listening;
#[path = "stream/samples.rs"]
mod samples;
#[path = "stream/slow.rs"]
mod slow;
#[path = "stream/typed.rs"]
mod typed;

use std::hint::black_box;
use std::process::Command;
use std::{io, thread};

use listening::{CHUNK, listen, listen_through, rounds};
use ralph_core::ports::Ui;
use ralph_io::mask::Masker;
use ralph_model::agent::AgentKind;
use ralph_model::units::Timestamp;
use ralph_testkit::measure::{Times, measure_time, read_peak_memory};
use ralph_ui::style::{Color, Marks, Style};
use ralph_ui::time::WallClock;
use ralph_ui::tui::{FullScreen, FullScreenSetup, ScreenLink};
use ralph_ui::view::{TerminalView, Verbosity, ViewOptions};
use serde_json::Value;
use slow::Pace;

/// How often each is measured.
const REPETITIONS: usize = 7;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let (Some("memory"), Some(name), Some(size)) =
        (words.get(1).map(String::as_str), words.get(2), words.get(3))
    {
        return flat(name, size.parse().expect("a number of MB"));
    }
    let megabytes = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(200);
    for name in samples::NAMES {
        compare(&samples::load_sample(name), megabytes);
        let [short, long] = [20, megabytes].map(|size| peak_of(name, size));
        println!("{name}: {short:.1} MiB at most for 20 MB, {long:.1} MiB for {megabytes} MB");
    }
    for (kind, name) in [(AgentKind::Gemini, "gemini"), (AgentKind::Pi, "pi")] {
        compare(&samples::Sample { name, kind, unit: samples::all_recorded(name) }, 20);
    }
    compare_with_screen(&samples::load_sample(samples::NAMES[0]), megabytes.min(50));
}

/// Prints how many events per second are read with a full screen, and with the plain view.
fn compare_with_screen(sample: &samples::Sample, megabytes: usize) {
    let rounds = rounds(sample, megabytes);
    let paces = [None, Some(Pace::Quick), Some(Pace::Slow), Some(Pace::Stopped)];
    let mut times = [const { Vec::new() }; 4];
    let mut counts = [0_u32; 4];
    for _ in 0..REPETITIONS {
        for ((times, count), pace) in times.iter_mut().zip(&mut counts).zip(paces) {
            *count = 0;
            let mut view: Box<dyn Ui + Send> = match pace {
                None => Box::new(view()),
                Some(pace) => Box::new(screen(pace)),
            };
            let (time, ()) = measure_time(|| {
                black_box(listen(sample, rounds, |event| {
                    *count += 1;
                    view.show_agent_event(event);
                }));
            });
            // Leaving a hanging terminal waits, which must not be measured.
            thread::spawn(move || drop(view));
            times.push(time);
        }
    }
    let times = times.map(|times| Times::from(times).median().as_secs_f64());
    let [plain, quick, slow, stopped] = std::array::from_fn(|at| f64::from(counts[at]) / times[at]);
    println!(
        "{}: {plain:.0} events/s in plain lines, {quick:.0} on a screen, {slow:.0} on a slow one, \
         {stopped:.0} on one that has stopped",
        sample.name
    );
}

fn screen(pace: Pace) -> impl Ui + Send {
    let setup = FullScreenSetup {
        device: Box::new(slow::Terminal(pace)),
        send: Box::new(|_| Ok(())),
        read_plan: Box::new(|| None),
        screen: ScreenLink::default(),
        options: options(),
    };
    FullScreen::start(setup, |screen| screen, view())
}

fn compare(sample: &samples::Sample, megabytes: usize) {
    let rounds = rounds(sample, megabytes);
    let baseline = sample.as_json();
    let secrets = ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DATABASE_PASSWORD"];
    let masker = Masker::new(secrets.map(|name| format!("{name}-9f8e7d6c5b4a39281706")));
    let mut medians = [const { Vec::new() }; 6];
    for _ in 0..REPETITIONS {
        let times = [
            measure_time(|| {
                black_box(listen(sample, rounds, |_| {}));
            }),
            measure_time(|| {
                let mut view = view();
                black_box(listen(sample, rounds, |event| view.show_agent_event(event)));
            }),
            measure_time(|| (0..rounds).for_each(|_| typed::read(sample.kind, &baseline))),
            measure_time(|| (0..rounds).for_each(|_| typed::each::<Value>(&baseline))),
            measure_time(|| {
                let mut mask = masker.new_stream();
                for chunk in
                    std::iter::repeat_n(&sample.unit, rounds).flat_map(|it| it.chunks(CHUNK))
                {
                    black_box(mask.mask_next(chunk));
                }
            }),
            measure_time(|| {
                let mut mask = masker.new_stream();
                black_box(listen_through(sample, rounds, |chunk| mask.mask_next(chunk), |_| {}));
            }),
        ];
        for (all, (time, ())) in medians.iter_mut().zip(times) {
            all.push(time);
        }
    }
    let [ours, shown, typed, values, alone, together] =
        medians.map(|times| Times::from(times).median().as_secs_f64());
    let bytes = f64::from(u32::try_from(sample.unit.len() * rounds / 1_000).unwrap_or(u32::MAX));
    println!(
        "{}: {:.2} x typed values, {:.2} x with the view, untyped values are {:.2} x typed \
         ({:.0} MB/s, {:.0} MB/s, typed {:.0} MB/s)",
        sample.name,
        ours / typed,
        shown / typed,
        values / typed,
        bytes / 1e3 / ours,
        bytes / 1e3 / shown,
        bytes / 1e3 / typed,
    );
    println!(
        "{}: masking alone {:.0} MB/s, reading with it {:.0} MB/s, {:.2} x without",
        sample.name,
        bytes / 1e3 / alone,
        bytes / 1e3 / together,
        together / ours,
    );
}

fn view() -> TerminalView<io::Sink> {
    TerminalView::new(io::sink(), options())
}

fn options() -> ViewOptions {
    ViewOptions {
        style: Style {
            color: Color::Ansi,
            marks: Marks::Emoji,
            rewrites: false,
            timestamps: false,
            max_output_lines: 5,
            max_output_chars: 120,
            width: 100,
        },
        verbosity: Verbosity::Normal,
        shows_agent: true,
        clock: WallClock { zone: jiff::tz::TimeZone::UTC, now: || Timestamp(0) },
        columns: || None,
    }
}

/// Reads one sample in this process, and prints the most memory it held.
fn flat(name: &str, megabytes: usize) {
    let name = samples::NAMES.into_iter().find(|it| *it == name).expect("a sample");
    let sample = samples::load_sample(name);
    let mut view = view();
    black_box(listen(&sample, rounds(&sample, megabytes), |event| view.show_agent_event(event)));
    println!("{}", read_peak_memory(std::process::id()).expect("a kernel that reports it"));
}

/// Returns the most memory in MiB that reading a stream of this size takes.
fn peak_of(name: &str, megabytes: usize) -> f64 {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["memory", name, &megabytes.to_string()])
        .output()
        .expect("it starts");
    let kibibytes: u32 =
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of KiB");
    f64::from(kibibytes) / 1024.0
}
