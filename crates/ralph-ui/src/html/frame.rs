//! What stands around the parts of a page: the document that is a file, the one that is served,
//! and the list of runs.
//!
//! The file holds its style and no script, so its policy allows neither a connection nor a script;
//! colors are switched by style alone. Not here: the parts.

use ralph_core::units::Timestamp;
use serde_json::{Value, json};

use super::Part;
use super::words::{escape, line, moment};
use crate::time::WallClock;

/// The style of every page, before its dark colors are filled in.
const SHEET: &str = include_str!("style.css");

/// The colors in the dark.
const DARK: &str = "--paper:#14171b;--card:#1b1f25;--ink:#e7e9ed;--soft:#a3abb8;--rule:#2d333c;\
--wash:#242a32;--good:#37a67e;--good-ink:#6fdcae;--good-wash:#14352a;--middling:#c8921f;\
--middling-ink:#f2c665;--middling-wash:#372b10;--bad:#dd5a4f;--bad-ink:#ff9d94;--bad-wash:#40201d;\
--active:#6c9bff;--active-ink:#9dbcff;--active-wash:#1c2b4d;color-scheme:dark;";

/// The script of a served page.
pub(crate) const SCRIPT: &str = include_str!("live.js");

/// Returns the style of every page.
pub(crate) fn style() -> String {
    SHEET.replace("/*dark*/", DARK)
}

/// What a served page knows of its run.
pub(crate) struct Live<'a> {
    /// What the last part of its address is.
    pub(crate) token: &'a str,
    /// What the page shows, for the stream of changes to begin from.
    pub(crate) since: &'a str,
    /// Whether buttons work, and why not.
    pub(crate) controls: &'a Controls,
}

/// Whether a run can be asked for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controls {
    /// Whether it is going on.
    pub is_active: bool,
    /// Whether it waits for somebody to say that it may go on.
    pub is_paused: bool,
    /// What to say of that.
    pub why: String,
    /// The tasks that can be left out: id and title.
    pub tasks: Vec<(String, String)>,
}

impl Controls {
    /// Returns them as the script reads them.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "active": self.is_active,
            "paused": self.is_paused,
            "why": self.why,
            "tasks": self.tasks,
        })
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What its address ends with.
    pub key: String,
    /// Its id.
    pub run: String,
    /// The project, where there are several.
    pub project: String,
    /// When it began.
    pub started: Timestamp,
    /// How many iterations it began.
    pub iterations: u32,
    /// How it stands.
    pub state: ListedState,
}

/// How a run in a list stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedState {
    /// It is going on.
    Active,
    /// It is complete.
    Complete,
    /// It ended otherwise.
    Ended(String),
    /// It was cut off.
    CutOff,
}

/// Returns a page that is a file of its own.
pub fn document(title: &str, parts: &[Part]) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>\n{}</style>\n",
        style()
    );
    let top = "<p><strong>ralph</strong> report</p>";
    format!("{}{}</body>\n</html>\n", opening(title, &head, "", top), main(parts))
}

/// Returns a page that is served.
pub(crate) fn live_page(title: &str, parts: &[Part], live: &Live<'_>) -> String {
    let head = "<link rel=\"stylesheet\" href=\"../../style.css\">\n\
                <script src=\"../../live.js\" defer></script>\n";
    let follow = if live.controls.is_active { "yes" } else { "no" };
    let attributes = format!(
        " data-token=\"{}\" data-since=\"{}\" data-follow=\"{follow}\" data-state=\"{}\"",
        escape(live.token),
        escape(live.since),
        escape(&live.controls.to_json().to_string())
    );
    let top = "<p><strong>ralph</strong> <a href=\"../../\">all runs</a></p>\
               <p role=\"status\"><i class=\"pulse\"></i><span id=\"link\">not live without scripts</span></p>";
    format!("{}{CONTROLS}{}</body>\n</html>\n", opening(title, head, &attributes, top), main(parts))
}

/// The buttons. They do nothing until the script knows that somebody listens.
const CONTROLS: &str = "<aside aria-label=\"Controls\"><div class=\"controls\" id=\"controls\">\
<p class=\"why\" id=\"why\">The buttons need scripts.</p>\
<form><button type=\"button\" id=\"pause\" disabled>Pause</button>\
<button type=\"button\" id=\"go-on\" disabled>Go on</button>\
<button type=\"button\" id=\"stop\" disabled>Stop</button>\
<label class=\"grow\">Task to leave out<select id=\"task\" disabled></select></label>\
<button type=\"button\" id=\"skip\" disabled>Skip</button></form>\
<form id=\"note\"><label class=\"grow\">Note for the next agent\
<textarea id=\"text\" rows=\"1\" maxlength=\"4000\" disabled></textarea></label>\
<button id=\"send\" disabled>Send</button></form>\
<p class=\"why\" id=\"told\" role=\"status\"></p></div></aside>\n";

/// Returns the page with all runs.
pub fn list_page(runs: &[Listed], clock: &WallClock) -> String {
    let row = |run: &Listed| {
        let (class, words) = match &run.state {
            ListedState::Active => ("active", "running".to_owned()),
            ListedState::Complete => ("good", "complete".to_owned()),
            ListedState::Ended(how) => ("bad", line(how)),
            ListedState::CutOff => ("middling", "cut off".to_owned()),
        };
        let short = words.chars().count() <= 24;
        let state =
            if short { format!("<span class=\"state {class}\">{words}</span>") } else { words };
        format!(
            "<tr><th scope=\"row\"><a href=\"run/{}/\">{}</a></th><td>{state}</td><td>{}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>\n",
            escape(&run.key),
            line(&run.run),
            line(&run.project),
            run.iterations,
            moment(clock, run.started)
        )
    };
    let rows: Vec<String> = runs.iter().map(row).collect();
    let body = if rows.is_empty() {
        "<p>There is no run yet.</p>".to_owned()
    } else {
        let head = ["Run", "State", "Project", "#Iterations", "Began"];
        super::sections::table("Runs, newest first", &head, &rows)
    };
    let head = "<link rel=\"stylesheet\" href=\"style.css\">\n";
    format!(
        "{}<main id=\"main\"><h1>Runs</h1>\n{body}</main>\n</body>\n</html>\n",
        opening("Runs", head, "", "<p><strong>ralph</strong></p>")
    )
}

fn opening(title: &str, head: &str, attributes: &str, top: &str) -> String {
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
        line(title),
        choice("auto", "Auto", " checked"),
        choice("light", "Light", ""),
        choice("dark", "Dark", "")
    )
}

fn main(parts: &[Part]) -> String {
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
