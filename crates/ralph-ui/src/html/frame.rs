//! The frame around the parts of a page: the standalone document, the live page, and the list of
//! runs.
//!
//! The standalone file contains its style and no script, so its content security policy forbids
//! connections and scripts; CSS alone switches the colors. Not here: the parts.

use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::PagePart;
use super::escaping::{escape_html, escape_line, render_time};
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

/// Returns a standalone page.
pub fn render_document(title: &str, parts: &[PagePart]) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>\n{}</style>\n",
        render_style()
    );
    let top = "<p><strong>ralph</strong> report</p>";
    format!("{}{}</body>\n</html>\n", render_opening(title, &head, "", top), render_main(parts))
}

/// Returns a live page.
pub(crate) fn render_live_page(title: &str, parts: &[PagePart], live: &LivePageData<'_>) -> String {
    let head = "<link rel=\"stylesheet\" href=\"../../style.css\">\n\
                <script src=\"../../live.js\" defer></script>\n";
    let follow = if live.controls.is_active { "yes" } else { "no" };
    let attributes = format!(
        " data-token=\"{}\" data-since=\"{}\" data-follow=\"{follow}\" data-state=\"{}\"",
        escape_html(live.token),
        escape_html(live.since),
        escape_html(&live.controls.to_json().to_string())
    );
    let top = "<p><strong>ralph</strong> <a href=\"../../\">all runs</a></p>\
               <p role=\"status\"><i class=\"pulse\"></i><span id=\"link\">not live without scripts</span></p>";
    format!(
        "{}{CONTROLS}{}</body>\n</html>\n",
        render_opening(title, head, &attributes, top),
        render_main(parts)
    )
}

/// The buttons, disabled until the script has received the state of the run.
const CONTROLS: &str = "<aside aria-label=\"Controls\"><div class=\"controls\" id=\"controls\">\
<p class=\"why\" id=\"why\">The buttons need scripts.</p>\
<form><button type=\"button\" id=\"pause\" disabled>Pause</button>\
<button type=\"button\" id=\"go-on\" disabled>Resume</button>\
<button type=\"button\" id=\"stop\" disabled>Stop</button>\
<label class=\"grow\">Task to skip<select id=\"task\" disabled></select></label>\
<button type=\"button\" id=\"skip\" disabled>Skip</button></form>\
<form id=\"note\"><label class=\"grow\">Note for the next agent\
<textarea id=\"text\" rows=\"1\" maxlength=\"4000\" disabled></textarea></label>\
<button id=\"send\" disabled>Send</button></form>\
<p class=\"why\" id=\"reply\" role=\"status\"></p></div></aside>\n";

/// Returns the page that lists all runs.
pub fn render_list_page(runs: &[ListedRun], clock: &WallClock) -> String {
    let row = |run: &ListedRun| {
        let (class, label) = match &run.state {
            ListedRunState::Active => ("active", "running".to_owned()),
            ListedRunState::Complete => ("good", "complete".to_owned()),
            ListedRunState::Ended(how) => ("bad", escape_line(how)),
            ListedRunState::CutOff => ("middling", "cut off".to_owned()),
        };
        let short = label.chars().count() <= 24;
        let state =
            if short { format!("<span class=\"state {class}\">{label}</span>") } else { label };
        format!(
            "<tr><th scope=\"row\"><a href=\"run/{}/\">{}</a></th><td>{state}</td><td>{}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>\n",
            escape_html(&run.key),
            escape_line(&run.run),
            escape_line(&run.project),
            run.iterations,
            render_time(clock, run.started)
        )
    };
    let rows: Vec<String> = runs.iter().map(row).collect();
    let body = if rows.is_empty() {
        "<p>There is no run yet.</p>".to_owned()
    } else {
        let head = ["Run", "State", "Project", "#Iterations", "Began"];
        super::sections::render_table("Runs, newest first", &head, &rows)
    };
    let head = "<link rel=\"stylesheet\" href=\"style.css\">\n";
    format!(
        "{}<main id=\"main\"><h1>Runs</h1>\n{body}</main>\n</body>\n</html>\n",
        render_opening("Runs", head, "", "<p><strong>ralph</strong></p>")
    )
}

fn render_opening(title: &str, head: &str, attributes: &str, top: &str) -> String {
    let choice = |id: &str, name: &str, checked: &str| {
        format!(
            "<label><input type=\"radio\" name=\"theme\" id=\"theme-{id}\"{checked}><span>{name}</span></label>"
        )
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{head}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n</head>\n<body{attributes}>\n\
         <header class=\"top\">{top}<a class=\"to-main\" href=\"#main\">Skip to the report</a>\
         <fieldset class=\"theme\"><legend>Colors</legend>{}{}{}</fieldset></header>\n",
        escape_line(title),
        choice("auto", "Auto", " checked"),
        choice("light", "Light", ""),
        choice("dark", "Dark", "")
    )
}

fn render_main(parts: &[PagePart]) -> String {
    let sections: Vec<String> = parts
        .iter()
        .map(|part| format!("<section id=\"{}\">{}</section>\n", part.id, part.html))
        .collect();
    format!(
        "<main id=\"main\">\n{}</main>\n<footer><p>Made by ralph {} from the journal of the run. Cost and \
         tokens are those that the agents report; time is running time, without waits for usage \
         limits.</p></footer>\n",
        sections.concat(),
        env!("CARGO_PKG_VERSION")
    )
}
