//! The frame around the parts of a page: the standalone document, the live page, and the list of
//! runs.
//!
//! The standalone file contains its style and no script, so its content security policy forbids
//! connections and scripts; CSS alone switches the colors. Not here: the parts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use ralph_model::units::Timestamp;
use serde_json::{Value, json};

use super::PagePart;
use super::foreign_text::{clean_line, render_time};
use super::sections::render_table;
use crate::time::WallClock;

/// The style of every page, before its dark colors are filled in.
const SHEET: &str = include_str!("style.css");

/// The colors of dark mode.
const DARK: &str = "--paper:#14171b;--card:#1b1f25;--ink:#e7e9ed;--soft:#a3abb8;--rule:#2d333c;\
--wash:#242a32;--good:#37a67e;--good-ink:#6fdcae;--good-wash:#14352a;--middling:#c8921f;\
--middling-ink:#f2c665;--middling-wash:#372b10;--bad:#dd5a4f;--bad-ink:#ff9d94;--bad-wash:#40201d;\
--active:#6c9bff;--active-ink:#9dbcff;--active-wash:#1c2b4d;color-scheme:dark;";

/// The script of a live page.
pub(crate) const SCRIPT: &str = include_str!("live.js");

/// Returns the style of every page.
pub(crate) fn render_style() -> String {
    SHEET.replace("/*dark*/", DARK)
}

/// Data of a live page about its run.
pub(crate) struct LivePageData<'a> {
    /// The access token, sent back with control requests.
    pub(crate) token: &'a str,
    /// The revision that the page shows; the event stream starts from it.
    pub(crate) since: &'a str,
    pub(crate) controls: &'a Controls,
}

/// Which control requests a run accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controls {
    pub is_active: bool,
    pub is_paused: bool,
    /// The explanation shown to the user.
    pub why: String,
    /// The tasks that can be skipped: id and title.
    pub tasks: Vec<(String, String)>,
}

impl Controls {
    /// Returns them as the script expects them.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "active": self.is_active,
            "paused": self.is_paused,
            "why": self.why,
            "tasks": self.tasks,
        })
    }
}

/// A run in the list of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRun {
    /// The last part of its URL.
    pub key: String,
    pub run: String,
    /// The project, if there are several.
    pub project: String,
    pub started: Timestamp,
    pub iterations: u32,
    pub state: ListedRunState,
}

/// The state of a run in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedRunState {
    Active,
    Complete,
    /// Ended with another outcome.
    Ended(String),
    /// Ended without an outcome.
    CutOff,
}

/// The frame of a page.
struct PageFrame<'a> {
    title: &'a str,
    /// Elements of the document's head.
    head: Markup,
    /// The top line of the page.
    top: Markup,
    /// None on a page that does not change.
    live: Option<&'a LivePageData<'a>>,
}

/// Returns a standalone page.
pub fn render_document(title: &str, parts: &[PagePart]) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(policy);
        style { (PreEscaped(render_style())) }
    };
    let top = html! { p { strong { "ralph" } " report" } };
    PageFrame { title, head, top, live: None }.render_around(&render_main(parts))
}

/// Returns a live page.
pub(crate) fn render_live_page(title: &str, parts: &[PagePart], live: &LivePageData<'_>) -> String {
    let head = html! {
        link rel="stylesheet" href="../../style.css";
        script src="../../live.js" defer {}
    };
    let top = html! {
        p { strong { "ralph" } " " a href="../../" { "all runs" } }
        p role="status" { i.pulse {} span #link { "not live without scripts" } }
    };
    let body = html! { (render_controls()) (render_main(parts)) };
    PageFrame { title, head, top, live: Some(live) }.render_around(&body)
}

/// Returns the buttons, disabled until the script has received the state of the run.
fn render_controls() -> Markup {
    html! {
        aside aria-label="Controls" {
            div.controls #controls {
                p.why #why { "The buttons need scripts." }
                form {
                    button type="button" #pause disabled { "Pause" }
                    button type="button" #go-on disabled { "Resume" }
                    button type="button" #stop disabled { "Stop" }
                    button type="button" #stop-now disabled { "Stop now" }
                    label.grow { "Task to skip" select #task disabled {} }
                    button type="button" #skip disabled { "Skip" }
                }
                form #note {
                    label.grow {
                        "Note for the next agent"
                        textarea #text rows="1" maxlength="4000" disabled {}
                    }
                    button #send disabled { "Send" }
                }
                p.why #reply role="status" {}
            }
        }
    }
}

/// Returns the page that lists all runs.
pub fn render_list_page(runs: &[ListedRun], clock: &WallClock) -> String {
    let row = |run: &ListedRun| {
        let (class, label) = match &run.state {
            ListedRunState::Active => ("active", "running".to_owned()),
            ListedRunState::Complete => ("good", "complete".to_owned()),
            ListedRunState::Ended(how) => ("bad", clean_line(how)),
            ListedRunState::CutOff => ("middling", "cut off".to_owned()),
        };
        html! {
            tr {
                th scope="row" { a href={ "run/" (run.key) "/" } { (clean_line(&run.run)) } }
                td {
                    @if label.chars().count() <= 24 {
                        span class={ "state " (class) } { (label) }
                    } @else {
                        (label)
                    }
                }
                td { (clean_line(&run.project)) }
                td.n { (run.iterations) }
                td { (render_time(clock, run.started)) }
            }
        }
    };
    let rows: Vec<Markup> = runs.iter().map(row).collect();
    let columns = "Run|State|Project|#Iterations|Began";
    let body = html! {
        main #main {
            h1 { "Runs" }
            @if rows.is_empty() {
                p { "There is no run yet." }
            } @else {
                p { a href="stats/" { "Statistics of all runs" } }
                div.runs { (render_table("Runs, newest first", columns, &rows)) }
            }
        }
    };
    let head = html! { link rel="stylesheet" href="style.css"; };
    let top = html! { p { strong { "ralph" } } };
    PageFrame { title: "Runs", head, top, live: None }.render_around(&body)
}

/// Returns a page that does not change, below the list of runs.
pub(super) fn render_plain_page(title: &str, list: &str, body: &Markup) -> String {
    let head = html! { link rel="stylesheet" href={ (list) "style.css" }; };
    let top = html! { p { strong { "ralph" } " " a href=(list) { "all runs" } } };
    PageFrame { title, head, top, live: None }.render_around(body)
}

impl PageFrame<'_> {
    fn render_around(&self, body: &Markup) -> String {
        let follow = |live: &LivePageData<'_>| if live.controls.is_active { "yes" } else { "no" };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    (self.head)
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    link rel="icon" href="data:,";
                    title { (clean_line(self.title)) }
                }
                body
                    data-token=[self.live.map(|live| live.token)]
                    data-since=[self.live.map(|live| live.since)]
                    data-follow=[self.live.map(follow)]
                    data-state=[self.live.map(|live| live.controls.to_json())]
                {
                    header.top {
                        (self.top)
                        a.to-main href="#main" { "Skip to the report" }
                        fieldset.theme {
                            legend { "Colors" }
                            @for (id, name) in [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")] {
                                label {
                                    input type="radio" name="theme" id={ "theme-" (id) } checked[id == "auto"];
                                    span { (name) }
                                }
                            }
                        }
                    }
                    (body)
                }
            }
        };
        page.into_string()
    }
}

fn render_main(parts: &[PagePart]) -> Markup {
    html! {
        main #main {
            @for part in parts {
                section id=(part.id) { (PreEscaped(&part.html)) }
            }
        }
        footer {
            p {
                "Made by ralph " (env!("CARGO_PKG_VERSION")) " from the journal of the run. Cost and tokens are \
                 those that the agents report; time is running time, without waits for usage limits."
            }
        }
    }
}
