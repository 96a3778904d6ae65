//! The knowledge graph as a picture: circles, arrows and words, in plain SVG.
//!
//! A picture holds the best connected things only; what is left out is said in it. Not here:
//! scripts. There are none, and nothing is loaded from anywhere.

use std::collections::{BTreeMap, BTreeSet};

use ralph_core::graph::{Entity, Graph};

use super::layout::{self, Point};
use super::{counts, escape, name, name_of};
use crate::safe;

/// More nodes are a ball of wool, and every pair of them takes time.
const MOST_NODES: usize = 200;

/// A hub may have thousands.
const MOST_EDGES: usize = 1_000;

/// With more arrows their words would cover each other; they are then told on pointing.
const MOST_WORDS: usize = 60;

/// Colors that differ from each other and from both a light and a dark ground.
const COLORS: [&str; 8] =
    ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#edc948"];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333;paint-order:stroke;\
stroke:#fff;stroke-width:3px}line,path{stroke:#999;stroke-width:1.2;fill:none}\
.w{font-size:10px;fill:#666}rect{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd;stroke:#1b1b1b}rect{fill:#1b1b1b}.w{fill:#aaa}}";

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// It.
    pub svg: String,
    /// What is in it and what is not, in words.
    pub extent: String,
}

/// Whether the words of an arrow stand beside it.
#[derive(Debug, Clone, Copy)]
enum Words {
    Shown,
    OnPointing,
}

/// An arrow, or several in the same direction.
struct Edge<'a> {
    from: usize,
    to: usize,
    words: BTreeSet<&'a str>,
}

/// Draws a graph; the same graph gives the same picture.
pub fn draw(graph: &Graph) -> Drawing {
    let nodes = nodes(graph);
    let edges = edges(graph, &nodes);
    let pairs: Vec<(usize, usize)> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let points = layout::place(nodes.len(), &pairs);
    let extent = extent(graph, nodes.len());
    let [left, top, width, height] = frame(&points);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left:.0} {top:.0} {width:.0} {height:.0}\" \
         role=\"img\">\n<title>{extent}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8\"/></marker></defs>\n\
         <rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n",
    );
    let words = if edges.len() <= MOST_WORDS { Words::Shown } else { Words::OnPointing };
    for edge in &edges {
        push_edge(&mut svg, edge, points[edge.from], points[edge.to], words);
    }
    let kinds: BTreeSet<&str> = nodes.iter().map(|node| node.entity_type.as_str()).collect();
    let colors: BTreeMap<&str, &str> = kinds.into_iter().zip(COLORS.into_iter().cycle()).collect();
    for (node, point) in nodes.iter().zip(&points) {
        push_node(
            &mut svg,
            node,
            *point,
            colors.get(node.entity_type.as_str()).unwrap_or(&COLORS[0]),
        );
    }
    push_legend(&mut svg, &colors, left + 14.0, top + 20.0);
    let (x, y) = (left + 12.0, top + height - 12.0);
    svg.push_str(&format!("<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"w\">{extent}</text>\n</svg>"));
    Drawing { svg, extent }
}

/// Returns the best connected things in the order of the file, one for each name.
fn nodes(graph: &Graph) -> Vec<&Entity> {
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

fn edges<'a>(graph: &'a Graph, nodes: &[&Entity]) -> Vec<Edge<'a>> {
    let places: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let mut edges: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for relation in &graph.relations {
        if let (Some(&from), Some(&to)) =
            (places.get(relation.from.as_str()), places.get(relation.to.as_str()))
        {
            edges.entry((from, to)).or_default().insert(&relation.relation_type);
        }
    }
    let edges = edges.into_iter().map(|((from, to), words)| Edge { from, to, words });
    edges.take(MOST_EDGES).collect()
}

fn extent(graph: &Graph, drawn: usize) -> String {
    let all = counts(graph.entities.len(), graph.relations.len());
    if drawn < graph.entities.len() {
        format!("{all}; the picture shows the {drawn} with the most relations")
    } else {
        all
    }
}

fn frame(points: &[Point]) -> [f64; 4] {
    /// Room for the words at the edge.
    const MARGIN: f64 = 90.0;
    let bounds = |of: fn(&Point) -> f64| {
        let least = points.iter().map(of).fold(-120.0, f64::min);
        let most = points.iter().map(of).fold(120.0, f64::max);
        (least - MARGIN, most - least + 2.0 * MARGIN)
    };
    let ((left, width), (top, height)) = (bounds(|point| point.x), bounds(|point| point.y));
    [left, top, width, height]
}

/// Says what the colors mean, where each means one thing.
fn push_legend(svg: &mut String, colors: &BTreeMap<&str, &str>, x: f64, top: f64) {
    if colors.len() > COLORS.len() {
        return;
    }
    for ((kind, color), row) in colors.iter().zip(0_u32..) {
        let y = top + 18.0 * f64::from(row);
        let kind = escape(&safe::one_line(kind, 24, "…"));
        svg.push_str(&format!(
            "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"5\" fill=\"{color}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" class=\"w\">{kind}</text>\n",
            x + 10.0,
            y + 4.0
        ));
    }
}

fn push_node(svg: &mut String, node: &Entity, point: Point, color: &str) {
    /// The longest name beside a node.
    const LABEL: usize = 24;
    let Point { x, y } = point;
    let whole = escape(&format!("{} ({})", name(&node.name), name_of(&node.entity_type)));
    let known = node.observations.iter().take(5);
    let known: Vec<String> = known.map(|it| format!("\n- {}", escape(&name_of(it)))).collect();
    let known = known.concat();
    let label = escape(&safe::one_line(&name(&node.name), LABEL, "…"));
    let below = y + 22.0;
    svg.push_str(&format!(
        "<g><title>{whole}{known}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"{color}\"/>\
         <text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{label}</text></g>\n"
    ));
}

fn push_edge(svg: &mut String, edge: &Edge<'_>, from: Point, to: Point, shown: Words) {
    let words: Vec<&str> = edge.words.iter().copied().collect();
    let (words, short) = (words.join(", "), safe::one_line(&words.join(", "), 20, "…"));
    let words = escape(&name_of(&words));
    if edge.from == edge.to {
        let (x, y) = (from.x, from.y - 8.0);
        svg.push_str(&format!(
            "<g><title>{words}</title><path d=\"M{x:.1} {y:.1}c-22 -30 22 -30 0 0\" marker-end=\"url(#a)\"/></g>\n"
        ));
        return;
    }
    // The arrow ends at the circle, not under it.
    let (x, y) = (to.x - from.x, to.y - from.y);
    let share = 1.0 - 10.0 / layout::length(x, y).max(10.0);
    let end = Point { x: from.x + x * share, y: from.y + y * share };
    svg.push_str(&format!(
        "<g><title>{words}</title><line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" marker-end=\"url(#a)\"/>",
        from.x, from.y, end.x, end.y
    ));
    match shown {
        Words::OnPointing => {}
        Words::Shown => {
            // Nearer to the beginning, so that two arrows back and forth keep their words apart.
            let at = Point { x: from.x + x * 0.4, y: from.y + y * 0.4 };
            svg.push_str(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"w\">{}</text>",
                at.x,
                at.y,
                escape(&short)
            ));
        }
    }
    svg.push_str("</g>\n");
}
