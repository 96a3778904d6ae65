//! The built binary is killed at random moments, repeatedly, and resumed: the result is the same
//! as without a kill, nothing is requested or done twice, nothing is left running, and the user's
//! files are unchanged. `RALPH_TEST_KILLS=5000` sets the number of kills, and `RALPH_TEST_SEED=7`
//! repeats the moments of a failed run. Not here: crashes at one chosen moment (`resume`), and
//! deaths at every port call, which the simulation covers.

mod kill_injector;
mod outcome_digest;
mod parallel;
mod rng;
mod scenes;
mod user_state;

use std::collections::BTreeSet;
use std::env;
use std::time::{Duration, Instant, SystemTime};

use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Sealed};

use kill_injector::{KillOrder, Moment, OpenCall, Struck, Talk, Target};
use outcome_digest::{OutcomeDigest, digest_outcome};
use rng::Rng;
use scenes::Scene;
use user_state::UserState;

/// Number of kills that hit a run in `./check --all`, over all scenes.
const KILLS: usize = 216;

/// Number of tests below.
const SCENES: usize = 9;

const _: () = assert!(KILLS >= 200, "fewer prove too little");

/// The same in `./check`.
const QUICK_KILLS: usize = 18;

/// How often one run is killed before it may finish.
const PER_RUN: usize = 6;

macro_rules! scenes {
    ($($name:ident),* $(,)?) => {
        const _: () = assert!([$(stringify!($name)),*].len() == SCENES);
        $(
            #[test]
            fn $name() {
                prove(&scenes::$name());
            }
        )*
    };
}

scenes! {
    a_plain_loop, a_loop_that_goes_back, a_loop_with_messages_and_pushes, changes_set_aside,
    a_task_list_that_ralph_keeps, a_task_list_that_the_agent_keeps, a_draft_of_a_task_list,
    a_plan_by_specifications, a_build_by_specifications,
}

/// The result of a scene without kills.
struct Undisturbed {
    digest: OutcomeDigest,
    /// The phases, in order, with repetitions.
    phases: Vec<String>,
    calls: usize,
    lasted: Duration,
}

/// The kills so far.
#[derive(Default)]
struct Tally {
    hits: usize,
    wardens: usize,
    /// Kills between an answer and its record.
    answered: usize,
    phases: BTreeSet<String>,
}

/// Kills runs of a scene until its share of all kills is reached.
#[expect(
    clippy::print_stderr,
    reason = "what was hit is worth a look when many kills are asked for"
)]
fn prove(scene: &Scene) {
    let seed = number("RALPH_TEST_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        u64::from(now.subsec_nanos())
    });
    let usual = effort::choose_count(KILLS, QUICK_KILLS);
    let all = number("RALPH_TEST_KILLS").map_or(usual, |it| usize::try_from(it).expect("few"));
    let share = all.div_ceil(SCENES);
    let undisturbed = undisturbed(scene);
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    let mut runs = 0;
    while tally.hits < share {
        assert!(runs < share * 2, "seed {seed}: only {} kills hit {runs} runs", tally.hits);
        Run::new(scene, &undisturbed, seed).play(&mut rng, &mut tally);
        runs += 1;
    }
    let known: BTreeSet<&String> = undisturbed.phases.iter().collect();
    let hit = known.iter().filter(|phase| tally.phases.contains(**phase)).count();
    // A few kills cannot hit every phase.
    let is_enough = all < KILLS || hit * 5 >= known.len() * 2;
    assert!(is_enough, "seed {seed}: of {known:?} only {:?}", tally.phases);
    eprintln!(
        "seed {seed}: {} kills ({} of the warden, {} after an answer) in {runs} runs and {hit} of {} phases",
        tally.hits,
        tally.wardens,
        tally.answered,
        known.len()
    );
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

fn undisturbed(scene: &Scene) -> Undisturbed {
    let sealed = (scene.make)();
    let before = UserState::read(&sealed);
    let begun = Instant::now();
    sealed.run_ralph(scene.words).expect_code(scene.code);
    let lasted = begun.elapsed();
    assert_eq!(UserState::read(&sealed), before);
    assert_eq!(sealed.survivors(), [""; 0]);
    Undisturbed {
        digest: digest_outcome(&sealed),
        phases: sealed.events().iter().map(kill_injector::phase).collect(),
        calls: calls(&sealed).len(),
        lasted,
    }
}

/// Returns the agent's own record of its calls.
fn calls(sealed: &Sealed) -> Vec<String> {
    let text = std::fs::read_to_string(sealed.root().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// One run that is killed several times.
struct Run<'a> {
    scene: &'a Scene,
    undisturbed: &'a Undisturbed,
    sealed: Sealed,
    before: UserState,
    /// The kills so far, for the failure message.
    story: Vec<String>,
    /// The calls that were open at a kill.
    open: Vec<OpenCall>,
}

impl<'a> Run<'a> {
    fn new(scene: &'a Scene, undisturbed: &'a Undisturbed, seed: u64) -> Self {
        let sealed = (scene.make)();
        let before = UserState::read(&sealed);
        let story = vec![format!("seed {seed}")];
        Self { scene, undisturbed, sealed, before, story, open: Vec::new() }
    }

    fn play(mut self, rng: &mut Rng, tally: &mut Tally) {
        let mut moments = self.moments(rng, tally).into_iter();
        let mut words = self.scene.words.to_vec();
        loop {
            let Some(moment) = moments.next() else {
                let end = self.sealed.run_ralph(&words);
                self.expect_end(&words, &end);
                break;
            };
            let target = match rng.below(20) {
                0 => Target::Warden,
                1 => Target::Both,
                _ => Target::Ralph,
            };
            let struck = KillOrder { moment, target }.strike(&self.sealed, &words);
            self.story.push(format!("ralph {}: {struck}", words.join(" ")));
            let is_last = match &struck {
                Struck::Missed(end) => {
                    self.expect_end(&words, end);
                    break;
                }
                Struck::Warden { end, phase } => {
                    tally.wardens += 1;
                    tally.note(phase);
                    self.expect_end(&words, end);
                    break;
                }
                Struck::Ralph { phase, open } => {
                    tally.answered += usize::from(open.is_some_and(|it| it.is_answered));
                    tally.note(phase);
                    self.open.extend(open);
                    assert_eq!(self.sealed.survivors(), [""; 0], "{}", self.describe());
                    false
                }
                // No process is there to end the leftovers, except the resumed run.
                Struck::Both { phase, open } => {
                    tally.wardens += 1;
                    tally.note(phase);
                    self.open.extend(open);
                    true
                }
            };
            words = self.next_words();
            if is_last {
                moments = Vec::new().into_iter();
            }
        }
        self.check();
    }

    /// Chooses moments: half of them by the clock, half by events, with events that were not hit
    /// yet first.
    fn moments(&self, rng: &mut Rng, tally: &Tally) -> Vec<Moment> {
        let phases = &self.undisturbed.phases;
        let mut places: Vec<usize> = (0..PER_RUN).map(|_| rng.below(phases.len())).collect();
        let new = (0..phases.len()).filter(|place| !tally.phases.contains(&phases[*place]));
        let new: Vec<usize> = new.collect();
        if let Some(most) = new.len().checked_sub(1) {
            places.extend((0..PER_RUN / 2).map(|_| new[rng.below(most + 1)]));
            places.drain(..PER_RUN / 2);
        }
        places.sort_unstable();
        let lasted = self.undisturbed.lasted;
        places
            .into_iter()
            .enumerate()
            .map(|(at, place)| {
                // Some phases are over in less than a millisecond.
                let longest = if rng.below(2) == 0 { 200 } else { 9_000 };
                let then = Duration::from_micros(rng.below(longest) as u64);
                match (rng.below(16), self.scene.trace) {
                    (0..=1, Some(path)) => Moment::Appears { path, then },
                    (2, _) => Moment::Answered,
                    (0..=6, _) if at == 0 => Moment::After(rng.within(lasted * 4 / 5)),
                    (0..=6, _) => Moment::After(rng.within(lasted / 3)),
                    _ => {
                        let phase = phases[place].clone();
                        let nth = phases[..=place].iter().filter(|it| **it == phase).count();
                        Moment::At { phase, nth, then }
                    }
                }
            })
            .collect()
    }

    /// Returns how a user resumes after a kill.
    fn next_words(&self) -> Vec<&'static str> {
        // A kill before the first event leaves no run to resume.
        if kill_injector::has_begun(&self.sealed) {
            vec!["resume"]
        } else {
            self.scene.words.to_vec()
        }
    }

    fn expect_end(&mut self, words: &[&str], end: &Finished) {
        self.story.push(format!("ralph {}: exit {:?}", words.join(" "), end.code));
        // There is no run to resume if everything was done at the kill.
        let was_done = words == ["resume"] && end.code == Some(2);
        let is_as_meant = end.code == Some(self.scene.code)
            || (was_done && end.stderr.contains("is complete; there is nothing to resume"));
        assert!(is_as_meant, "{}\n{}", self.describe(), end.stderr);
    }

    fn check(&self) {
        let description = self.describe();
        assert_eq!(self.sealed.survivors(), [""; 0], "{description}");
        digest_outcome(&self.sealed).expect_same(&self.undisturbed.digest, &description);
        assert_eq!(UserState::read(&self.sealed), self.before, "{description}");
        self.expect_no_answer_twice(&description);
    }

    fn expect_no_answer_twice(&self, description: &str) {
        let calls = calls(&self.sealed);
        let most = self.undisturbed.calls + self.open.len();
        assert!(
            calls.len() <= most,
            "{} calls, not {most}: {calls:#?}\n{description}",
            calls.len()
        );
        let different: BTreeSet<&String> = calls.iter().collect();
        assert_eq!(
            different.len(),
            calls.len(),
            "a call was made twice: {calls:#?}\n{description}"
        );
        let talk = kill_injector::talk(&self.sealed);
        for OpenCall { iteration, ask, .. } in self.open.iter().filter(|it| it.is_answered) {
            let (iteration, ask) = (*iteration, *ask);
            let place = talk.iter().position(|it| *it == Talk::Asked { iteration, ask });
            let next = place.and_then(|place| talk.get(place + 1));
            let expect = Talk::Replied { iteration, ask };
            assert_eq!(
                next,
                Some(&expect),
                "what was received is not asked for again: {description}"
            );
        }
    }

    fn describe(&self) -> String {
        format!("in {}:\n  {}", self.sealed.root().display(), self.story.join("\n  "))
    }
}

impl Tally {
    fn note(&mut self, phase: &str) {
        self.hits += 1;
        self.phases.insert(phase.to_owned());
    }
}
