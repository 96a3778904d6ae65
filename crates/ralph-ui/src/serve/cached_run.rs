//! A cached run: its content, and the revision in which each part changed last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ralph_model::control::ControlRequest;
use serde_json::{Map, Value, json};

use super::{FollowedRun, PageContent};

/// Minimum time between two reads, also with several pages of one run.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(150);

/// A run and its content.
pub(super) struct CachedRun {
    /// Distinguishes it from an earlier one with the same key.
    number: usize,
    follow: Box<dyn FollowedRun>,
    content: Option<PageContent>,
    /// Number of changes so far.
    revision: u64,
    /// The revision of the last change of each part.
    changed: BTreeMap<&'static str, u64>,
    last_read: Option<Instant>,
    last_used: Instant,
}

impl CachedRun {
    pub(super) fn new(number: usize, follow: Box<dyn FollowedRun>) -> Self {
        Self {
            number,
            follow,
            content: None,
            revision: 0,
            changed: BTreeMap::new(),
            last_read: None,
            last_used: Instant::now(),
        }
    }

    pub(super) fn mark_used(&mut self) {
        self.last_used = Instant::now();
    }

    pub(super) fn last_used(&self) -> Instant {
        self.last_used
    }

    pub(super) fn content(&self) -> Option<&PageContent> {
        self.content.as_ref()
    }

    /// Reads the run again, unless it was read just now.
    pub(super) fn refresh(&mut self) -> Result<(), String> {
        if self.last_read.is_some_and(|at| at.elapsed() < MIN_REFRESH_INTERVAL) {
            return Ok(());
        }
        let seen = self.follow.refresh();
        self.last_read = Some(Instant::now());
        if let Some(new) = seen? {
            self.set_content(new);
        }
        Ok(())
    }

    /// Sends a control request to the run, and forces the next read.
    pub(super) fn send_request(&mut self, request: &ControlRequest) -> Result<(), String> {
        self.last_read = None;
        self.follow.send_request(request)
    }

    fn set_content(&mut self, new: PageContent) {
        if self.content.as_ref() == Some(&new) {
            return;
        }
        self.revision += 1;
        for part in &new.parts {
            let before = self.content.as_ref().and_then(|shown| {
                shown.parts.iter().find(|known| known.id == part.id).map(|known| &known.html)
            });
            if before != Some(&part.html) {
                self.changed.insert(part.id, self.revision);
            }
        }
        self.content = Some(new);
    }

    /// Returns the id of the current revision.
    pub(super) fn id(&self) -> String {
        format!("{}-{}", self.number, self.revision)
    }

    /// Returns the changes since the revision with an id of [`CachedRun::id`], with the current id.
    /// Returns everything if the id is unknown or missing.
    pub(super) fn changes_since(&self, since: Option<&str>) -> Option<(String, String)> {
        let shown = self.content.as_ref()?;
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
    use crate::html::{Controls, PagePart};

    struct Script(VecDeque<Result<Option<PageContent>, String>>);

    impl FollowedRun for Script {
        fn refresh(&mut self) -> Result<Option<PageContent>, String> {
            self.0.pop_front().unwrap_or(Ok(None))
        }

        fn send_request(&mut self, _: &ControlRequest) -> Result<(), String> {
            Err("no run is active".to_owned())
        }
    }

    fn shown(one: &str, two: &str) -> PageContent {
        let part = |id, html: &str| PagePart { id, html: html.to_owned() };
        PageContent {
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
    fn look(watched: &mut CachedRun) -> Result<(), String> {
        watched.last_read = None;
        watched.refresh()
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
        let mut watched = CachedRun::new(7, Box::new(Script(script.into())));
        assert_eq!(watched.changes_since(None), None, "nothing is shown yet");
        look(&mut watched).expect("readable");
        let both = || vec!["one".to_owned(), "two".to_owned()];
        assert_eq!(parts(watched.changes_since(None)), Some(("7-1".into(), both())));
        assert_eq!(watched.changes_since(Some("7-1")), None);
        look(&mut watched).expect("readable");
        assert_eq!(watched.changes_since(Some("7-1")), None, "the same again is no news");
        look(&mut watched).expect("readable");
        assert_eq!(
            parts(watched.changes_since(Some("7-1"))),
            Some(("7-2".into(), vec!["two".into()]))
        );
        look(&mut watched).expect_err("it cannot be read just now");
        look(&mut watched).expect("readable");
        assert_eq!(parts(watched.changes_since(Some("7-1"))), Some(("7-3".into(), both())));
        assert_eq!(
            parts(watched.changes_since(Some("7-2"))),
            Some(("7-3".into(), vec!["one".into()]))
        );
        for unknown in ["6-3", "7-9", "", "junk", "7-", "-3"] {
            assert_eq!(
                parts(watched.changes_since(Some(unknown))),
                Some(("7-3".into(), both())),
                "{unknown}"
            );
        }
    }
}
