//! The nearest known name to a misspelled one.
//!
//! Not here: which names are known.

/// Returns the candidate closest to `wrong`, if one is close enough to be meant.
///
/// Case, underscores and hyphens do not count: `max_turns` is `maxTurns`.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wrong);
    candidates
        .into_iter()
        .map(|candidate| (fold(candidate), candidate))
        .filter(|(known, _)| is_close(&folded, known))
        .min_by_key(|(known, _)| distance(&folded, known))
        .map(|(_, candidate)| candidate)
}

/// A third of the longer name may differ, so that `maxIterations` finds `maximumIterations` while
/// short names must all but agree; or one is the beginning of the other, as `warning` of `warn`.
fn is_close(a: &[char], b: &[char]) -> bool {
    let shorter = a.len().min(b.len());
    let is_beginning = shorter >= 3 && a[..shorter] == b[..shorter];
    let most = a.len().max(b.len()) / 3;
    // Every letter that one has more is a difference; most pairs need not be compared at all.
    is_beginning || a.len().abs_diff(b.len()) <= most && distance(a, b) <= most
}

fn fold(name: &str) -> Vec<char> {
    // Names are short; whatever is pasted into a key by accident need not be compared in full.
    const LONGEST: usize = 80;
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .take(LONGEST)
        .collect()
}

/// Counts insertions, deletions, replacements and swaps of neighbors.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_may_be_meant() {
        let names = ["maximumIterations", "maxTurns", "agent", "agents", "scm", "ui"];
        let cases = [
            ("maximumIteration", Some("maximumIterations")),
            ("maxIterations", Some("maximumIterations")),
            ("max_turns", Some("maxTurns")),
            ("agnet", Some("agent")),
            ("scmCommand", Some("scm")),
            ("csm", Some("scm")),
            ("xy", None),
            ("completely-different", None),
            ("", None),
        ];
        for (wrong, expected) in cases {
            assert_eq!(nearest(wrong, names), expected, "{wrong}");
        }
    }
}
