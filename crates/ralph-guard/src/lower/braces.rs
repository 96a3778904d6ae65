//! Brace expansion: `{a,b}` and `{1..3}`.
//!
//! Replaces the parser's own expansion, which needs exponential time for unclosed braces.

/// The most words that one word may expand to.
const MOST: usize = 256;

/// The deepest braces that are expanded.
const DEEPEST: usize = 8;

/// The most opening braces in a word; each may cost a scan to the end of the word.
const MOST_BRACES: usize = 64;

/// Expands the braces of a word, keeping quotes. Returns `None` if there are too many results.
pub(super) fn expand_braces(word: &str) -> Option<Vec<String>> {
    if !word.contains('{') {
        return Some(vec![word.to_owned()]);
    }
    if !word.contains([',', '.']) {
        return Some(vec![word.to_owned()]);
    }
    if word.matches('{').count() > MOST_BRACES {
        return None;
    }
    let characters: Vec<char> = word.chars().collect();
    expand_level(&characters, DEEPEST)
}

fn expand_level(word: &[char], depth: usize) -> Option<Vec<String>> {
    let plain = || Some(vec![word.iter().collect()]);
    if depth == 0 {
        return plain();
    }
    let Some((open, close)) = find_group(word) else { return plain() };
    let (front, inner, back) = (&word[..open], &word[open + 1..close], &word[close + 1..]);
    let members: Vec<String> = match (split_alternatives(inner), expand_sequence(inner)) {
        (Some(parts), _) => {
            let mut members = Vec::new();
            for part in parts {
                members.extend(expand_level(part, depth - 1)?);
            }
            members
        }
        (None, Some(sequence)) if sequence.is_empty() => return None,
        (None, Some(sequence)) => sequence,
        (None, None) => return plain(),
    };
    let front: String = front.iter().collect();
    let backs = expand_level(back, depth)?;
    if members.len().saturating_mul(backs.len()) > MOST {
        return None;
    }
    let words = members.iter().flat_map(|member| {
        let front = &front;
        backs.iter().map(move |back| format!("{front}{member}{back}"))
    });
    Some(words.collect())
}

/// Returns the position of the first braces that expand.
fn find_group(word: &[char]) -> Option<(usize, usize)> {
    let mut at = 0;
    while at < word.len() {
        match word[at] {
            '{' => {
                if let Some(close) = find_closing(word, at) {
                    let inner = &word[at + 1..close];
                    if split_alternatives(inner).is_some() || expand_sequence(inner).is_some() {
                        return Some((at, close));
                    }
                }
                at += 1;
            }
            _ => at = skip_unit(word, at),
        }
    }
    None
}

/// Returns the position after a character, a quoted part or an expansion.
fn skip_unit(word: &[char], at: usize) -> usize {
    let end = |from: usize, wanted: char| {
        let found = word.get(from..).and_then(|rest| rest.iter().position(|it| *it == wanted));
        found.map_or(word.len(), |position| from + position + 1)
    };
    match word[at] {
        '\\' => at + 2,
        '\'' => end(at + 1, '\''),
        '`' => end(at + 1, '`'),
        '"' => {
            let mut at = at + 1;
            while at < word.len() && word[at] != '"' {
                at += if word[at] == '\\' { 2 } else { 1 };
            }
            at + 1
        }
        '$' if matches!(word.get(at + 1), Some('{' | '(')) => {
            let (open, close) = if word[at + 1] == '{' { ('{', '}') } else { ('(', ')') };
            let mut depth = 0_usize;
            let mut at = at + 1;
            while at < word.len() {
                if word[at] == open {
                    depth += 1;
                } else if word[at] == close {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                at += 1;
            }
            at + 1
        }
        _ => at + 1,
    }
}

fn find_closing(word: &[char], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = open;
    while at < word.len() {
        match word[at] {
            '{' => {
                depth += 1;
                at += 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
                at += 1;
            }
            _ => at = skip_unit(word, at),
        }
    }
    None
}

/// Returns the parts between commas, if there is a comma.
fn split_alternatives(inner: &[char]) -> Option<Vec<&[char]>> {
    let mut parts = Vec::new();
    let (mut begin, mut depth, mut at) = (0, 0_usize, 0);
    while at < inner.len() {
        match inner[at] {
            '{' => {
                depth += 1;
                at += 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            ',' if depth == 0 => {
                parts.push(&inner[begin..at]);
                at += 1;
                begin = at;
            }
            _ => at = skip_unit(inner, at),
        }
    }
    parts.push(&inner[begin.min(inner.len())..]);
    (parts.len() > 1).then_some(parts)
}

/// Returns the members of `1..9`, `a..e` or `1..9..2`; none if there are too many.
fn expand_sequence(inner: &[char]) -> Option<Vec<String>> {
    let text: String = inner.iter().collect();
    let mut parts = text.split("..");
    let (from, to, step) = (parts.next()?, parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    let step = step.map_or(Some(1), |step| step.parse::<i64>().ok())?;
    let step = usize::try_from(step.unsigned_abs().max(1)).ok()?;
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        if from.abs_diff(to) / step as u64 > MOST as u64 {
            return Some(Vec::new());
        }
        let members = (from.min(to)..=from.max(to)).step_by(step);
        return Some(members.map(|it| it.to_string()).collect());
    }
    let one = |text: &str| Some(text).filter(|it| it.len() == 1)?.chars().next();
    let (from, to) = (one(from)?, one(to)?);
    if !from.is_ascii_alphabetic() || !to.is_ascii_alphabetic() {
        return None;
    }
    let members = (from.min(to)..=from.max(to)).step_by(step);
    Some(members.map(|it| it.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_as_in_bash() {
        for (word, expect) in [
            ("a", vec!["a"]),
            ("{a,b}", vec!["a", "b"]),
            ("x{a,b}y", vec!["xay", "xby"]),
            ("{a,{b,c}d}", vec!["a", "bd", "cd"]),
            ("{a,b}{c,d}", vec!["ac", "ad", "bc", "bd"]),
            ("{1..3}", vec!["1", "2", "3"]),
            ("{a..c}", vec!["a", "b", "c"]),
            ("{1..5..2}", vec!["1", "3", "5"]),
            ("{a}", vec!["{a}"]),
            ("{}", vec!["{}"]),
            ("${a,b}", vec!["${a,b}"]),
            ("'{a,b}'", vec!["'{a,b}'"]),
            ("\"{a,b}\"", vec!["\"{a,b}\""]),
            ("\\{a,b}", vec!["\\{a,b}"]),
            ("{a,", vec!["{a,"]),
            ("{'a b',\"c,d\"}", vec!["'a b'", "\"c,d\""]),
            ("$(x {a,b})", vec!["$(x {a,b})"]),
            ("{,x}", vec!["", "x"]),
        ] {
            let expect: Vec<String> = expect.into_iter().map(str::to_owned).collect();
            assert_eq!(expand_braces(word), Some(expect), "{word}");
        }
        assert_eq!(expand_braces("{1..100000}"), None);
        assert_eq!(expand_braces(&"{a,b}".repeat(20)), None);
        assert_eq!(expand_braces(&"{a,".repeat(5000)), None);
    }
}
