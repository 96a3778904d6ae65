//! Where the nodes of a picture go: things that relate are near, all others keep away.
//!
//! Every step is the same for the same graph: nodes begin on a spiral and there is no chance in
//! it, so a picture changes only where the graph did. Not here: what a node looks like.

/// A point of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Steps until nothing moves that can be seen.
const STEPS: u32 = 300;

/// The distance that related nodes tend to.
const REACH: f64 = 90.0;

/// Returns a point for each of `count` nodes that are connected by these pairs.
pub(super) fn place(count: usize, pairs: &[(usize, usize)]) -> Vec<Point> {
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
    // Everything is drawn to the middle a little, or else what is not connected flies away.
    let mut moves: Vec<(f64, f64)> =
        points.iter().map(|point| (-point.x * 0.02, -point.y * 0.02)).collect();
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

    #[test]
    fn relatives_are_near_and_nobody_is_on_top_of_another() {
        let pairs = [(0, 1), (1, 2), (3, 4), (0, 0)];
        let points = place(8, &pairs);
        assert_eq!(points, place(8, &pairs));
        let distance = |one: usize, other: usize| {
            length(points[one].x - points[other].x, points[one].y - points[other].y)
        };
        for one in 0..8 {
            assert!(points[one].x.is_finite() && points[one].x.abs() < 2_000.0, "{points:?}");
            for other in 0..one {
                assert!(distance(one, other) > REACH / 3.0, "{points:?}");
            }
        }
        assert!(distance(0, 1) < distance(0, 6), "{points:?}");
        assert_eq!(place(0, &[]), []);
    }
}
