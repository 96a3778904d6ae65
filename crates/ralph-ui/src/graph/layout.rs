//! Where the nodes of a picture go: things that relate are near, no name covers another, and what
//! hangs together stands in a place of its own.
//!
//! Every step is the same for the same graph: nodes begin on a spiral and there is no chance in
//! it, so a picture changes only where the graph did. Not here: what a node looks like.

use std::collections::BTreeMap;

/// A point of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A node is in the middle of a box that is twice as wide and as high as this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HalfBox {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Steps until nothing moves that can be seen.
const STEPS: u32 = 300;

/// The distance that related nodes tend to.
const REACH: f64 = 70.0;

/// Rounds in which boxes that overlap are pushed apart. Few need more than a dozen.
const PUSHES: u32 = 200;

/// What lies between groups that do not relate.
const GAP: f64 = 16.0;

/// How much wider than high a picture of many groups is.
const ASPECT: f64 = 1.5;

/// Returns a point for each node, of which these are the boxes and which are connected by these
/// pairs.
pub(super) fn place(boxes: &[HalfBox], pairs: &[(usize, usize)]) -> Vec<Point> {
    let mut points = vec![Point { x: 0.0, y: 0.0 }; boxes.len()];
    let groups: Vec<Group> = groups(boxes.len(), pairs)
        .into_iter()
        .map(|nodes| Group::new(nodes, boxes, pairs))
        .collect();
    for (group, corner) in groups.iter().zip(pack(&groups)) {
        for (&node, point) in group.nodes.iter().zip(&group.points) {
            points[node] = Point { x: point.x + corner.x, y: point.y + corner.y };
        }
    }
    points
}

/// Nodes that hang together, and their places from the upper left corner of the group.
struct Group {
    nodes: Vec<usize>,
    points: Vec<Point>,
    width: f64,
    height: f64,
}

impl Group {
    fn new(nodes: Vec<usize>, boxes: &[HalfBox], pairs: &[(usize, usize)]) -> Self {
        let boxes: Vec<HalfBox> = nodes.iter().map(|&node| boxes[node]).collect();
        let place = |node: usize| nodes.binary_search(&node).ok();
        let pairs: Vec<(usize, usize)> =
            pairs.iter().filter_map(|&(one, other)| Some((place(one)?, place(other)?))).collect();
        let mut points = relax(nodes.len(), &pairs);
        part(&mut points, &boxes);
        let all = || points.iter().zip(&boxes);
        let left = all().map(|(point, half)| point.x - half.x).fold(f64::MAX, f64::min);
        let top = all().map(|(point, half)| point.y - half.y).fold(f64::MAX, f64::min);
        let right = all().map(|(point, half)| point.x + half.x).fold(f64::MIN, f64::max);
        let bottom = all().map(|(point, half)| point.y + half.y).fold(f64::MIN, f64::max);
        for point in &mut points {
            *point = Point { x: point.x - left, y: point.y - top };
        }
        Self { nodes, points, width: right - left, height: bottom - top }
    }
}

/// Returns the nodes of each group in their order, the largest group first.
fn groups(count: usize, pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut leader: Vec<usize> = (0..count).collect();
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for &(one, other) in pairs {
            let least = leader[one].min(leader[other]);
            for node in [one, other] {
                has_changed |= leader[node] != least;
                leader[node] = least;
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, leader) in leader.into_iter().enumerate() {
        groups.entry(leader).or_default().push(node);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort_by_key(|nodes| std::cmp::Reverse(nodes.len()));
    groups
}

/// Returns the upper left corner of each group: in rows, as words stand in a text.
fn pack(groups: &[Group]) -> Vec<Point> {
    let area: f64 = groups.iter().map(|group| (group.width + GAP) * (group.height + GAP)).sum();
    let widest = groups.iter().map(|group| group.width).fold(0.0, f64::max);
    let width = widest.max((area * ASPECT).sqrt());
    let (mut x, mut y, mut row): (f64, f64, f64) = (0.0, 0.0, 0.0);
    groups
        .iter()
        .map(|group| {
            if x > 0.0 && x + group.width > width {
                (x, y, row) = (0.0, y + row + GAP, 0.0);
            }
            let corner = Point { x, y };
            (x, row) = (x + group.width + GAP, row.max(group.height));
            corner
        })
        .collect()
}

/// Returns the places of nodes that hang together, as springs between them would have it.
fn relax(count: usize, pairs: &[(usize, usize)]) -> Vec<Point> {
    let mut points = spiral(count);
    for step in 0..STEPS {
        // Nodes move less and less, so that they come to rest.
        let furthest = REACH * (1.0 - f64::from(step) / f64::from(STEPS));
        let moves = moves(&points, pairs);
        for (point, (x, y)) in points.iter_mut().zip(moves) {
            let length = length(x, y).max(f64::MIN_POSITIVE);
            let share = length.min(furthest) / length;
            point.x += x * share;
            point.y += y * share;
        }
    }
    points
}

/// Pushes boxes apart that overlap, each by half, along the shorter way.
fn part(points: &mut [Point], boxes: &[HalfBox]) {
    for _ in 0..PUSHES {
        let mut has_moved = false;
        for one in 0..points.len() {
            for other in one + 1..points.len() {
                let (x, y) = (points[other].x - points[one].x, points[other].y - points[one].y);
                let over_x = boxes[one].x + boxes[other].x - x.abs();
                let over_y = boxes[one].y + boxes[other].y - y.abs();
                if over_x <= 0.0 || over_y <= 0.0 {
                    continue;
                }
                has_moved = true;
                // A little more, so that it does not come back to be a hair's breadth.
                let (x, y) = if over_y < over_x {
                    (0.0, (over_y / 2.0 + 0.5).copysign(y))
                } else {
                    ((over_x / 2.0 + 0.5).copysign(x), 0.0)
                };
                points[one] = Point { x: points[one].x - x, y: points[one].y - y };
                points[other] = Point { x: points[other].x + x, y: points[other].y + y };
            }
        }
        if !has_moved {
            break;
        }
    }
}

/// Returns the first places: on a spiral that fills a disk evenly. Each node is turned by the
/// golden angle from the one before, by a product and not by a sine: the library that has sines
/// would be loaded at every start of ralph.
fn spiral(count: usize) -> Vec<Point> {
    const TURN: Point = Point { x: -0.737_368_878_078_319_7, y: 0.675_490_294_261_523_8 };
    let mut direction = Point { x: 1.0, y: 0.0 };
    let mut points = Vec::with_capacity(count);
    for number in (0..u32::MAX).take(count) {
        let distance = REACH * (f64::from(number) + 0.5).sqrt();
        points.push(Point { x: distance * direction.x, y: distance * direction.y });
        direction = Point {
            x: direction.x * TURN.x - direction.y * TURN.y,
            y: direction.x * TURN.y + direction.y * TURN.x,
        };
    }
    points
}

/// Returns how long the way is.
pub(super) fn length(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

/// Returns where each node is pushed and pulled to, as a spring between relatives would and a
/// charge on everyone.
fn moves(points: &[Point], pairs: &[(usize, usize)]) -> Vec<(f64, f64)> {
    // Everything is drawn to the middle, or else long chains fly away; the more, the more there are
    // who push, and more so up and down, because screens and names are wide.
    let count = u32::try_from(points.len()).unwrap_or(u32::MAX);
    let draw = 0.02 * f64::from(count).sqrt();
    let mut moves: Vec<(f64, f64)> =
        points.iter().map(|point| (-point.x * draw, -point.y * draw * 2.0)).collect();
    for one in 0..points.len() {
        for other in one + 1..points.len() {
            let (x, y) = (points[one].x - points[other].x, points[one].y - points[other].y);
            let square = (x * x + y * y).max(1.0);
            let push = REACH * REACH / square;
            moves[one].0 += x * push;
            moves[one].1 += y * push;
            moves[other].0 -= x * push;
            moves[other].1 -= y * push;
        }
    }
    for &(one, other) in pairs {
        let (x, y) = (points[one].x - points[other].x, points[one].y - points[other].y);
        let pull = length(x, y) / REACH * 0.4;
        moves[one].0 -= x * pull;
        moves[one].1 -= y * pull;
        moves[other].0 += x * pull;
        moves[other].1 += y * pull;
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: HalfBox = HalfBox { x: 40.0, y: 20.0 };

    #[test]
    fn relatives_are_near_and_nobody_is_on_top_of_another() {
        let hub: Vec<(usize, usize)> = (10..60).map(|other| (9, other)).collect();
        let pairs = [vec![(0, 1), (1, 2), (3, 4), (0, 0), (2, 1)], hub].concat();
        let boxes = [BOX; 64];
        let points = place(&boxes, &pairs);
        assert_eq!(points, place(&boxes, &pairs));
        for one in 0..boxes.len() {
            assert!((0.0..1_500.0).contains(&points[one].x), "{points:?}");
            assert!((0.0..1_500.0).contains(&points[one].y), "{points:?}");
            for other in 0..one {
                let (x, y) = (points[one].x - points[other].x, points[one].y - points[other].y);
                assert!(x.abs() >= 2.0 * BOX.x || y.abs() >= 2.0 * BOX.y, "{one} on {other}");
            }
        }
        let distance = |one: usize, other: usize| {
            length(points[one].x - points[other].x, points[one].y - points[other].y)
        };
        assert!(distance(0, 1) < distance(0, 30), "{points:?}");
        assert_eq!(place(&[], &[]), []);
    }

    #[test]
    fn what_hangs_together_is_a_group_whatever_the_order() {
        let pairs = [(5, 4), (4, 3), (3, 0), (2, 6)];
        assert_eq!(groups(8, &pairs), [vec![0, 3, 4, 5], vec![2, 6], vec![1], vec![7]]);
    }
}
