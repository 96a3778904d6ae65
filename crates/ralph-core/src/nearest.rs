//! The nearest known name to a misspelled one.
//!
//! Not here: which names are known.

/// Returns the candidate closest to `wrong`, if one is close enough to be meant.
///
/// Case, underscores and hyphens do not count: `max_turns` is `maxTurns`.
pub fn find_nearest<'a>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let folded = fold(wrong);
    candidates
        .into_iter()
        .filter_map(|candidate| Some((measure_distance(&folded, &fold(candidate))?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns how much two names differ, if one may be meant by the other. A third of the longer name
/// may differ, so that `maxIterations` finds `maximumIterations` while short names must almost
/// agree; or one is the beginning of the other, as `warn` of `warning`.
fn measure_distance(a: &str, b: &str) -> Option<usize> {
    let (shorter, longer) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let distance = strsim::osa_distance(a, b);
    let is_beginning = shorter.len() >= 3 && longer.starts_with(shorter);
    (is_beginning || distance <= longer.chars().count() / 3).then_some(distance)
}

fn fold(name: &str) -> String {
    // Names are short; text pasted into a key by accident need not be compared in full.
    const MAX_LENGTH: usize = 80;
    let letters = name.chars().filter(|it| !matches!(it, '_' | '-'));
    letters.flat_map(char::to_lowercase).take(MAX_LENGTH).collect()
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
            assert_eq!(find_nearest(wrong, names), expected, "{wrong}");
        }
    }
}
