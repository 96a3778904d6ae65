//! Escape attempts, as an ordinary user and as root, in every backend, and without one to show
//! that each can work at all.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::{ATTEMPTS, Bare, Fate, Shown};
use super::backends;
use super::image::image;
use super::world::{User, World};

const SCRIPT: &str = concat!(include_str!("escapes.py"), "\n\n", include_str!("escapes_beyond.py"));

/// The results of the attempts, by name: whether each got out, and its output.
fn tried(user: User, backend: &str) -> BTreeMap<&'static str, (bool, String)> {
    let world = World::new(user);
    world.sealed.write_file("escapes.py", SCRIPT);
    let map = world.map().to_string();
    let mut words = vec!["/usr/bin/python3", "escapes.py", &map];
    if backend == "none" {
        let not_tried = ATTEMPTS.iter().filter(|attempt| attempt.bare == Bare::NotTried);
        words.extend(not_tried.map(|attempt| attempt.name));
    }
    let finished = world.inside(backend, &words);
    assert_eq!(finished.code, Some(0), "{backend}: {}\n{}", finished.stdout, finished.stderr);
    let message: BTreeMap<&str, &str> =
        finished.stdout.lines().filter_map(|line| line.split_once(' ')).collect();
    let names: BTreeSet<&str> = ATTEMPTS.iter().map(|attempt| attempt.name).collect();
    assert!(message.keys().all(|name| names.contains(name)), "{:?}", message.keys());
    ATTEMPTS
        .iter()
        .filter_map(|attempt| {
            let message = *message.get(attempt.name)?;
            let is_out = match attempt.shown_by {
                Shown::Said => message == "out",
                Shown::Arrives(path) => world.has_arrived(path),
                Shown::Gone(path) => !world.exists(path),
                Shown::Opened(path) => world.is_open(path),
                Shown::Received => message == "out" && world.has_received(),
            };
            Some((attempt.name, (is_out, message.to_owned())))
        })
        .collect()
}

/// Compares what got out with the expectation; `None` allows both.
#[track_caller]
fn check(user: User, backend: &str, expect: impl Fn(&super::attempts::Attempt) -> Option<bool>) {
    let tried = tried(user, backend);
    let surprises: Vec<String> = ATTEMPTS
        .iter()
        .filter_map(|attempt| {
            let expected = expect(attempt)?;
            let (is_out, message) = tried.get(attempt.name)?;
            let verb = if *is_out { "got out" } else { "was held" };
            (*is_out != expected).then(|| format!("{} {verb}: {message}", attempt.name))
        })
        .collect();
    assert!(surprises.is_empty(), "{backend} as {user:?}:\n{}", surprises.join("\n"));
    let wanted = ATTEMPTS.iter().filter(|attempt| expect(attempt).is_some()).count();
    assert!(tried.len() >= wanted.min(60), "only {} of {wanted} were tried", tried.len());
}

#[test]
fn nothing_gets_out_of_namespaces() {
    for backend in backends().into_iter().filter(|it| *it != "landlock") {
        for user in User::all() {
            check(user, backend, |_| Some(false));
        }
    }
}

#[test]
fn nothing_gets_out_of_a_real_container() {
    if image().is_some() {
        check(User::Root, "container", |_| Some(false));
    }
}

#[test]
fn only_what_is_documented_gets_out_of_landlock() {
    if backends().contains(&"landlock") {
        for user in User::all() {
            check(user, "landlock", |attempt| Some(attempt.landlock == Fate::Out));
        }
    }
}

#[test]
fn without_a_sandbox_the_same_attempts_succeed() {
    for user in User::all() {
        check(user, "none", |attempt| match (attempt.bare, user) {
            (Bare::Works, _) | (Bare::WorksForRoot, User::Root) => Some(true),
            (Bare::WorksForRoot, User::Ordinary) | (Bare::Depends | Bare::NotTried, _) => None,
        });
    }
}
