//! A cached run: its content, and the revision in which each part changed last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ralph_core::control::Wish;
use serde_json::{Map, Value, json};

use super::{Follow, Shown};

/// Minimum time between two reads, also with several pages of one run.
const OFTEN_ENOUGH: Duration = Duration::from_millis(150);

/// A run and its content.
pub(super) struct Watched {
    /// Distinguishes it from an earlier one with the same key.
    number: usize,
    follow: Box<dyn Follow>,
    shown: Option<Shown>,
    /// Number of changes so far.
    revision: u64,
    /// The revision of the last change of each part.
    changed: BTreeMap<&'static str, u64>,
    looked: Option<Instant>,
    used: Instant,
}

impl Watched {
    pub(super) fn new(number: usize, follow: Box<dyn Follow>) -> Self {
        Self {
            number,
            follow,
            shown: None,
            revision: 0,
            changed: BTreeMap::new(),
            looked: None,
            used: Instant::now(),
        }
    }

    pub(super) fn touch(&mut self) {
        self.used = Instant::now();
    }

    pub(super) fn used(&self) -> Instant {
        self.used
    }

    pub(super) fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// Reads the run again, unless it was read just now.
    pub(super) fn look(&mut self) -> Result<(), String> {
        if self.looked.is_some_and(|at| at.elapsed() < OFTEN_ENOUGH) {
            return Ok(());
        }
        let seen = self.follow.look();
        self.looked = Some(Instant::now());
        if let Some(new) = seen? {
            self.take(new);
        }
        Ok(())
    }

    /// Sends a control request to the run, and forces the next read.
    pub(super) fn wish(&mut self, request: &Wish) -> Result<(), String> {
        self.looked = None;
        self.follow.wish(request)
    }

    fn take(&mut self, new: Shown) {
        if self.shown.as_ref() == Some(&new) {
            return;
        }
        self.revision += 1;
        for part in &new.parts {
            let before = self.shown.as_ref().and_then(|shown| {
                shown.parts.iter().find(|known| known.id == part.id).map(|known| &known.html)
            });
            if before != Some(&part.html) {
                self.changed.insert(part.id, self.revision);
            }
        }
        self.shown = Some(new);
    }

    /// Returns the id of the current revision.
    pub(super) fn id(&self) -> String {
        format!("{}-{}", self.number, self.revision)
    }

    /// Returns the changes since the revision with an id of [`CachedRun::id`], with the current id.
    /// Returns everything if the id is unknown or missing.
    pub(super) fn news(&self, since: Option<&str>) -> Option<(String, String)> {
        let shown = self.shown.as_ref()?;
        let known = since.and_then(|since| {
            let (number, revision) = since.split_once('-')?;
            let number: usize = number.parse().ok()?;
            let revision: u64 = revision.parse().ok()?;
            (number == self.number && revision <= self.revision).then_some(revision)
        });
        if known == Some(self.revision) {
            return None;
        }
        let is_new = |id: &str| {
            let changed = self.changed.get(id).copied().unwrap_or_default();
            known.is_none_or(|known| changed > known)
        };
        let parts: Map<String, Value> = shown
            .parts
            .iter()
            .filter(|part| is_new(part.id))
            .map(|part| (part.id.to_owned(), Value::String(part.html.clone())))
            .collect();
        let data =
            json!({ "parts": parts, "title": shown.title, "state": shown.controls.to_json() });
        Some((self.id(), data.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::html::{Controls, Part};

    struct Script(VecDeque<Result<Option<Shown>, String>>);

    impl Follow for Script {
        fn look(&mut self) -> Result<Option<Shown>, String> {
            self.0.pop_front().unwrap_or(Ok(None))
        }

        fn wish(&mut self, _: &Wish) -> Result<(), String> {
            Err("no run is active".to_owned())
        }
    }

    fn shown(one: &str, two: &str) -> Shown {
        let part = |id, html: &str| Part { id, html: html.to_owned() };
        Shown {
            title: "t".into(),
            parts: vec![part("one", one), part("two", two)],
            controls: Controls {
                is_active: true,
                is_paused: false,
                why: String::new(),
                tasks: Vec::new(),
            },
        }
    }

    /// Reads again in any case.
    fn look(watched: &mut Watched) -> Result<(), String> {
        watched.looked = None;
        watched.look()
    }

    fn parts(news: Option<(String, String)>) -> Option<(String, Vec<String>)> {
        let (id, data) = news?;
        let data: Value = serde_json::from_str(&data).expect("JSON");
        Some((id, data["parts"].as_object().expect("parts").keys().cloned().collect()))
    }

    #[test]
    fn a_page_gets_each_change_once_from_any_revision() {
        let script = [
            Ok(Some(shown("a", "b"))),
            Ok(Some(shown("a", "b"))),
            Ok(Some(shown("a", "B"))),
            Err("half a line".to_owned()),
            Ok(Some(shown("A", "B"))),
        ];
        let mut watched = Watched::new(7, Box::new(Script(script.into())));
        assert_eq!(watched.news(None), None, "nothing is shown yet");
        look(&mut watched).expect("readable");
        let both = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!(parts(watched.news(None)), Some(("7-1".into(), both())));
        assert_eq!(watched.news(Some("7-1")), None);
        look(&mut watched).expect("readable");
        assert_eq!(watched.news(Some("7-1")), None, "the same again is no news");
        look(&mut watched).expect("readable");
        assert_eq!(parts(watched.news(Some("7-1"))), Some(("7-2".into(), vec!["two".into()])));
        look(&mut watched).expect_err("it cannot be read just now");
        look(&mut watched).expect("readable");
        assert_eq!(parts(watched.news(Some("7-1"))), Some(("7-3".into(), both())));
        assert_eq!(parts(watched.news(Some("7-2"))), Some(("7-3".into(), vec!["one".into()])));
        for unknown in ["6-3", "7-9", "", "junk", "7-", "-3"] {
            assert_eq!(
                parts(watched.news(Some(unknown))),
                Some(("7-3".into(), both())),
                "{unknown}"
            );
        }
    }
}
