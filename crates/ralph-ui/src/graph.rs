//! The knowledge graph for people: a list, a Mermaid chart, and a page with both.
//!
//! Agents write its content, so it goes through `sanitize` first, and `maud` escapes it. Not here:
//! reading the graph, and writing the files.

mod mermaid;

use std::collections::BTreeMap;

use maud::{DOCTYPE, PreEscaped, html};
use ralph_core::memory::graph::{Entity, Graph, GraphSelection, Relation};

pub use self::mermaid::{MermaidChart, render_mermaid};

use crate::sanitize;
use crate::style::{Paint, Style};

/// Longer than any sensible name; an endless one must not hide the rest.
const LONGEST_NAME: usize = 200;

/// An observation is a sentence; longer ones are cut.
const LONGEST_OBSERVATION: usize = 1_000;

/// A page with more entries is slow to open, and too long to read.
const MOST_ON_PAGE: usize = 2_000;

/// The style of the page, for light and dark mode.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\
pre{overflow-x:auto}\
h2{margin:1.5rem 0 0;font-size:1.05rem}small{font-weight:normal;opacity:.7}\
ul{margin:.2rem 0}.r{opacity:.8}";

/// Returns entities, their observations and relations as text, or `nothing` if the selection is
/// empty.
pub fn format_list(selection: &GraphSelection<'_>, nothing: &str, style: &Style) -> String {
    if selection.entities.is_empty() && selection.relations.is_empty() {
        return format!("{nothing}\n");
    }
    let mut text =
        format!("{}\n", format_counts(selection.entities.len(), selection.relations.len()));
    let (mut outgoing, loose) = group_relations(&selection.entities, &selection.relations);
    for entity in &selection.entities {
        let name = style.paint(Paint::Strong, &format_name(&entity.name));
        let kind = sanitize::sanitize_line(&entity.entity_type, LONGEST_NAME, "…");
        let kind =
            if kind.is_empty() { kind } else { style.paint(Paint::Dim, &format!("  ({kind})")) };
        text.push_str(&format!("\n{name}{kind}\n"));
        for observation in &entity.observations {
            text.push_str(&format!(
                "  - {}\n",
                sanitize::sanitize_line(observation, LONGEST_OBSERVATION, "…")
            ));
        }
        for relation in outgoing.remove(entity.name.as_str()).unwrap_or_default() {
            let (how, to) = (sanitize_name(&relation.relation_type), sanitize_name(&relation.to));
            text.push_str(&format!("  {} {how} {to}\n", style.paint(Paint::Dim, "->")));
        }
    }
    if !loose.is_empty() {
        text.push_str(&format!("\n{}\n", style.paint(Paint::Strong, "Further relations")));
        for Relation { from, relation_type, to, .. } in loose {
            let line = format!(
                "{} {} {}",
                sanitize_name(from),
                sanitize_name(relation_type),
                sanitize_name(to)
            );
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// Returns an HTML page with the list and, collapsed, the text of the chart.
pub fn render_page(graph: &Graph, chart: &MermaidChart) -> String {
    let entities: Vec<&Entity> = graph.entities.iter().take(MOST_ON_PAGE).collect();
    let relations: Vec<&Relation> = graph.relations.iter().collect();
    let (mut outgoing, _) = group_relations(&entities, &relations);
    let missing = graph.entities.len() - entities.len();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width";
            meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
            title { "What is remembered" }
            style { (PreEscaped(STYLE)) }
            h1 { "What is remembered" }
            p { (chart.extent) "." }
            details { summary { "Mermaid chart" } pre { (chart.text) } }
            @for entity in &entities {
                h2 { (format_name(&entity.name)) " " small { (sanitize_name(&entity.entity_type)) } }
                ul {
                    @for observation in &entity.observations {
                        li { (sanitize::sanitize_line(observation, LONGEST_OBSERVATION, "…")) }
                    }
                    @for relation in outgoing.remove(entity.name.as_str()).unwrap_or_default() {
                        li.r {
                            "→ " (sanitize_name(&relation.relation_type)) " "
                            (sanitize_name(&relation.to))
                        }
                    }
                }
            }
            @if missing > 0 {
                p { (missing) " more are not listed here." }
            }
        }
    };
    page.into_string()
}

/// Returns the outgoing relations of each entity by its name, and the rest.
fn group_relations<'a>(
    entities: &[&'a Entity],
    relations: &[&'a Relation],
) -> (BTreeMap<&'a str, Vec<&'a Relation>>, Vec<&'a Relation>) {
    let mut outgoing: BTreeMap<&str, Vec<&Relation>> =
        entities.iter().map(|entity| (entity.name.as_str(), Vec::new())).collect();
    let mut loose = Vec::new();
    for relation in relations {
        match outgoing.get_mut(relation.from.as_str()) {
            Some(known) => known.push(relation),
            None => loose.push(*relation),
        }
    }
    (outgoing, loose)
}

fn format_counts(entities: usize, relations: usize) -> String {
    let some = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let entities = some(entities, "thing", "things");
    format!("{entities}, {}", some(relations, "relation", "relations"))
}

fn format_name(text: &str) -> String {
    let name = sanitize_name(text);
    if name.is_empty() { "(no name)".to_owned() } else { name }
}

fn sanitize_name(text: &str) -> String {
    sanitize::sanitize_line(text, LONGEST_NAME, "…")
}

#[cfg(test)]
mod tests;
