//! The knowledge graph as a Mermaid flowchart: the entities with the most relations, and arrows.
//!
//! Agents write the labels, so only letters, digits and a few signs reach the text as they are. Not
//! here: drawing it, which GitHub and editors do.

use std::collections::{BTreeMap, BTreeSet};

use ralph_core::memory::graph::{Entity, Graph};

use super::{format_counts, format_name};
use crate::sanitize;

/// A chart with more nodes cannot be read on a screen.
const MOST_NODES: usize = 120;

/// Mermaid refuses a chart with more by default.
const MOST_ARROWS: usize = 500;

/// The longest label of a node or an arrow. Mermaid refuses a chart of more than 50 000 characters.
const LONGEST_LABEL: usize = 24;

/// A flowchart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MermaidChart {
    pub text: String,
    /// What the graph has, and how much of it the chart shows.
    pub extent: String,
}

/// Renders a graph; the same graph gives the same chart.
pub fn render_mermaid(graph: &Graph) -> MermaidChart {
    let nodes = choose_nodes(graph);
    let arrows = group_arrows(graph, &nodes);
    let extent = format_extent(graph, nodes.len());
    let mut text = format!("flowchart LR\n%% {extent}\n");
    for (number, node) in nodes.iter().enumerate() {
        text.push_str(&format!("n{number}[\"{}\"]\n", escape_label(&format_name(&node.name))));
    }
    for ((from, to), kinds) in arrows.iter().take(MOST_ARROWS) {
        let kinds: Vec<&str> = kinds.iter().copied().collect();
        let label = escape_label(&kinds.join(", "));
        let label = if label.is_empty() { label } else { format!("|\"{label}\"|") };
        text.push_str(&format!("n{from} -->{label} n{to}\n"));
    }
    if let Some(missing @ 1..) = arrows.len().checked_sub(MOST_ARROWS) {
        text.push_str(&format!("%% {missing} more arrows are not shown\n"));
    }
    MermaidChart { text, extent }
}

/// Returns the entities with the most relations in the order of the file, one for each name.
fn choose_nodes(graph: &Graph) -> Vec<&Entity> {
    let mut degrees: BTreeMap<&str, usize> = BTreeMap::new();
    for relation in &graph.relations {
        *degrees.entry(&relation.from).or_default() += 1;
        *degrees.entry(&relation.to).or_default() += 1;
    }
    let mut names = BTreeSet::new();
    let mut ranked: Vec<(usize, &Entity)> = graph
        .entities
        .iter()
        .filter(|entity| names.insert(entity.name.as_str()))
        .enumerate()
        .collect();
    let degree = |entity: &Entity| degrees.get(entity.name.as_str()).copied().unwrap_or_default();
    ranked.sort_by_key(|(place, entity)| (std::cmp::Reverse(degree(entity)), *place));
    ranked.truncate(MOST_NODES);
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, entity)| entity).collect()
}

/// Returns the kinds of relations between each two nodes.
fn group_arrows<'a>(
    graph: &'a Graph,
    nodes: &[&Entity],
) -> BTreeMap<(usize, usize), BTreeSet<&'a str>> {
    let places: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let mut arrows: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for relation in &graph.relations {
        if let (Some(&from), Some(&to)) =
            (places.get(relation.from.as_str()), places.get(relation.to.as_str()))
        {
            arrows.entry((from, to)).or_default().insert(&relation.relation_type);
        }
    }
    arrows
}

fn format_extent(graph: &Graph, shown: usize) -> String {
    let all = format_counts(graph.entities.len(), graph.relations.len());
    match graph.entities.len() - shown {
        0 => all,
        missing => format!(
            "{all}; the chart shows the {shown} with the most relations, {missing} are not shown"
        ),
    }
}

/// Returns text for a label in quotes. Everything that could end the label, begin a directive
/// (`%%{`), or be read as HTML or Markdown becomes a character code such as `#34;`.
fn escape_label(text: &str) -> String {
    let mut label = String::new();
    for character in sanitize::sanitize_line(text, LONGEST_LABEL, "…").chars() {
        match character {
            ' ' | ',' | '.' | '-' | '/' | '…' => label.push(character),
            character if character.is_alphanumeric() => label.push(character),
            character => label.push_str(&format!("#{};", u32::from(character))),
        }
    }
    label
}
