//! The knowledge graph as a picture: circles, arrows and words, in plain SVG.
//!
//! A picture holds the best connected things only; what is left out is said in it. Not here:
//! scripts. There are none, and nothing is loaded from anywhere.

use std::collections::{BTreeMap, BTreeSet};

use ralph_core::graph::{Entity, Graph};

use super::layout::{self, HalfBox, Point};
use super::{escape_html, format_counts, format_name, sanitize_name};
use crate::sanitize;

/// More nodes are a ball of wool, and their names are too small to be read on a screen.
const MOST_NODES: usize = 120;

/// A hub may have thousands.
const MOST_EDGES: usize = 1_000;

/// With more arrows their words would cover each other; they are then told on pointing.
const MOST_WORDS: usize = 60;

/// Colors that differ from each other and from both a light and a dark ground.
const COLORS: [&str; 8] =
    ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#edc948"];

/// The longest name beside a node.
const LABEL: usize = 24;

/// About how wide a letter is, in the fonts that browsers take.
const LETTER: f64 = 7.0;

/// How far above and below a node its name reaches.
const HALF_HEIGHT: f64 = 25.0;

/// What is free around everything.
const MARGIN: f64 = 16.0;

/// A row of other words.
const ROW: f64 = 20.0;

/// The picture of a single thing is no narrower than this.
const NARROWEST: f64 = 360.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333;paint-order:stroke;\
stroke:#fff;stroke-width:3px}line,path{stroke:#999;stroke-width:1.2;fill:none}\
.w{font-size:10px;fill:#666}.b{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd;stroke:#1b1b1b}.b{fill:#1b1b1b}.w{fill:#aaa}}";

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// It.
    pub svg: String,
    /// What is in it and what is not, in words.
    pub extent: String,
}

/// Where the words of an arrow stand.
#[derive(Debug, Clone, Copy)]
enum Words {
    /// On it, so far from its beginning, of 1.
    At(f64),
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
    let labels: Vec<String> = nodes
        .iter()
        .map(|node| sanitize::sanitize_line(&format_name(&node.name), LABEL, "…"))
        .collect();
    let boxes: Vec<HalfBox> = labels.iter().map(|label| around(label)).collect();
    let mut points = layout::place(&boxes, &pairs);
    let extent = extent(graph, nodes.len());
    let kinds: BTreeSet<&str> = nodes.iter().map(|node| node.entity_type.as_str()).collect();
    let colors: BTreeMap<&str, &str> = kinds.into_iter().zip(COLORS.into_iter().cycle()).collect();

    let all = || points.iter().zip(&boxes);
    let right = all().map(|(point, half)| point.x + half.x).fold(0.0, f64::max);
    let bottom = all().map(|(point, half)| point.y + half.y).fold(0.0, f64::max);
    let inner = right.max(NARROWEST);
    for point in &mut points {
        point.x += (inner - right) / 2.0;
    }
    let (legend, above) = legend(&colors, inner);
    let (width, height) = (inner + 2.0 * MARGIN, bottom + above + ROW + 2.0 * MARGIN);
    let (left, top) = (-MARGIN, -MARGIN - above);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left:.0} {top:.0} {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{extent}</title>\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8\"/></marker></defs>\n\
         <rect class=\"b\" x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n",
    );
    let words = if edges.len() <= MOST_WORDS { Words::At(0.5) } else { Words::OnPointing };
    let mut drift = vec![0.0; nodes.len()];
    for edge in &edges {
        let (from, to) = (points[edge.from], points[edge.to]);
        drift[edge.from] += (to.y - from.y).clamp(-1.0, 1.0);
        drift[edge.to] += (from.y - to.y).clamp(-1.0, 1.0);
        // The words of two arrows back and forth keep apart.
        let is_answered = pairs.contains(&(edge.to, edge.from));
        let words = match words {
            Words::At(_) if is_answered => Words::At(0.35),
            Words::At(_) | Words::OnPointing => words,
        };
        push_edge(&mut svg, edge, from, to, words);
    }
    for (place, node) in nodes.iter().enumerate() {
        let color = colors.get(node.entity_type.as_str()).unwrap_or(&COLORS[0]);
        // The name stands where fewer arrows are.
        let side = if drift[place] > 0.0 { Side::Above } else { Side::Below };
        push_node(&mut svg, node, &labels[place], points[place], color, side);
    }
    svg.push_str(&legend);
    let y = top + height - MARGIN;
    svg.push_str(&format!("<text x=\"0\" y=\"{y:.0}\" class=\"w\">{extent}</text>\n</svg>"));
    Drawing { svg, extent }
}

/// Returns the room that a node takes with its name, above or below it.
fn around(label: &str) -> HalfBox {
    let letters = u32::try_from(label.chars().count()).unwrap_or(u32::MAX);
    HalfBox { x: (f64::from(letters) * LETTER / 2.0).max(10.0) + 4.0, y: HALF_HEIGHT }
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
    let all = format_counts(graph.entities.len(), graph.relations.len());
    if drawn < graph.entities.len() {
        format!("{all}; the picture shows the {drawn} with the most relations")
    } else {
        all
    }
}

/// Says what the colors mean, where each means one thing; in rows above everything else. Returns
/// the rows and how high they are.
fn legend(colors: &BTreeMap<&str, &str>, width: f64) -> (String, f64) {
    let mut svg = String::new();
    if colors.is_empty() || colors.len() > COLORS.len() {
        return (svg, 0.0);
    }
    let (mut x, mut rows) = (0.0, vec![Vec::new()]);
    for (kind, color) in colors {
        let kind = sanitize::sanitize_line(kind, LABEL, "…");
        let letters = u32::try_from(kind.chars().count()).unwrap_or(u32::MAX);
        let wide = 30.0 + f64::from(letters) * LETTER;
        if x > 0.0 && x + wide > width {
            x = 0.0;
            rows.push(Vec::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, kind, color));
        }
        x += wide;
    }
    let above = MARGIN + rows.iter().map(|_| ROW).sum::<f64>();
    for (row, y) in rows.iter().zip((0_u32..).map(|row| ROW * (f64::from(row) + 0.5) - above)) {
        for (x, kind, color) in row {
            svg.push_str(&format!(
                "<circle cx=\"{:.0}\" cy=\"{y:.0}\" r=\"5\" fill=\"{color}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>\n",
                x + 5.0,
                x + 15.0,
                y + 4.0,
                escape_html(kind)
            ));
        }
    }
    (svg, above)
}

/// Where the name of a node stands.
#[derive(Debug, Clone, Copy)]
enum Side {
    Above,
    Below,
}

fn push_node(svg: &mut String, node: &Entity, label: &str, point: Point, color: &str, side: Side) {
    let Point { x, y } = point;
    let whole =
        escape_html(&format!("{} ({})", format_name(&node.name), sanitize_name(&node.entity_type)));
    let known = node.observations.iter().take(5);
    let known: Vec<String> =
        known.map(|it| format!("\n- {}", escape_html(&sanitize_name(it)))).collect();
    let known = known.concat();
    let label = escape_html(label);
    let line = match side {
        Side::Above => y - 14.0,
        Side::Below => y + 22.0,
    };
    svg.push_str(&format!(
        "<g><title>{whole}{known}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"{color}\"/>\
         <text x=\"{x:.1}\" y=\"{line:.1}\" text-anchor=\"middle\">{label}</text></g>\n"
    ));
}

fn push_edge(svg: &mut String, edge: &Edge<'_>, from: Point, to: Point, shown: Words) {
    let words: Vec<&str> = edge.words.iter().copied().collect();
    let (words, short) = (words.join(", "), sanitize::sanitize_line(&words.join(", "), 20, "…"));
    let words = escape_html(&sanitize_name(&words));
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
        Words::At(share) => {
            let at = Point { x: from.x + x * share, y: from.y + y * share + 3.0 };
            svg.push_str(&format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"w\">{}</text>",
                at.x,
                at.y,
                escape_html(&short)
            ));
        }
    }
    svg.push_str("</g>\n");
}
