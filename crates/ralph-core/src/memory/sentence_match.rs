//! Decides whether one sentence states the same as another, for sentences about constraints and
//! bugs.
//!
//! A false positive makes ralph forget something, a false negative keeps it twice. So a sentence
//! with a replaced word, another number of negations or another number states something else;
//! only form, order, added words and a few missing words do not matter. Not here: meaning. An
//! agent that rephrases an old item is asked to name it instead.

/// Words without meaning of their own, sorted.
const FILLERS: [&str; 32] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "for", "from", "has", "have", "in",
    "is", "it", "its", "of", "on", "or", "so", "that", "the", "then", "there", "this", "to", "was",
    "we", "were", "which", "with",
];

/// Words that negate a sentence, sorted.
const NEGATIONS: [&str; 16] = [
    "cannot", "cant", "doesnt", "dont", "isnt", "mustnt", "never", "no", "none", "nor", "not",
    "nothing", "shouldnt", "unless", "without", "wont",
];

/// With fewer words than this, two sentences share some by chance.
const FEWEST: usize = 3;

/// Returns whether `sentence` states what `other` states.
pub fn has_same_meaning(sentence: &str, other: &str) -> bool {
    Sentence::new(sentence).covers(&Sentence::new(other))
}

/// A sentence, prepared for comparison. Preparing is the expensive part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The significant words, sorted and unique; all words if none is significant, and the text
    /// itself if there are none.
    words: Vec<String>,
    negations: usize,
    /// A bit for each word. A sentence with a bit that the other lacks is not a part of it, which
    /// rules out most pairs at once.
    bits: u64,
}

impl Sentence {
    /// Splits a sentence into its words.
    pub fn new(text: &str) -> Self {
        let all = split_words(text);
        let counts = |word: &&String| FILLERS.binary_search(&word.as_str()).is_err();
        let mut words: Vec<String> =
            all.iter().filter(counts).map(|word| stem_word(word)).collect();
        if words.is_empty() {
            words = all;
        }
        if words.is_empty() {
            words.push(text.trim().to_owned());
        }
        words.sort_unstable();
        words.dedup();
        let negations = words.iter().filter(|word| is_negation(word)).count();
        let bits = words.iter().fold(0, |bits, word| bits | hash_to_bit(word));
        Self { words, negations, bits }
    }

    /// Returns whether this sentence states what another one states.
    pub fn covers(&self, other: &Self) -> bool {
        if self.bits == other.bits && self.words == other.words {
            return true;
        }
        if self.bits & !other.bits != 0 && other.bits & !self.bits != 0 {
            return false;
        }
        let (ours, theirs) = (self.words.len(), other.words.len());
        if self.negations != other.negations || ours.min(theirs) < FEWEST {
            return false;
        }
        // All words of the other, and at most as many again.
        if theirs <= ours && ours <= theirs * 2 {
            return other.is_part_of(self);
        }
        // The other without a few words, none of which is a number or a name in code.
        let is_plain = |word: &String| word.chars().all(char::is_alphabetic);
        ours < theirs
            && ours * 5 >= theirs * 4
            && self.is_part_of(other)
            && other.words.iter().all(|word| is_plain(word) || self.words.contains(word))
    }

    fn is_part_of(&self, other: &Self) -> bool {
        self.words.iter().all(|word| other.words.binary_search(word).is_ok())
    }
}

fn is_negation(word: &str) -> bool {
    NEGATIONS.binary_search(&word).is_ok()
}

fn hash_to_bit(word: &str) -> u64 {
    let sum = word.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    1 << (sum % 64)
}

/// Returns the words in lower case.
fn split_words(text: &str) -> Vec<String> {
    // `don't` is one word.
    let text = text.to_lowercase().replace(['\'', '’'], "");
    // Dots and the like join a name, but also end a sentence.
    let is_part = |letter: char| letter.is_alphanumeric() || "_-./:".contains(letter);
    text.split(|letter| !is_part(letter))
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns a word without its grammatical ending. Names in code stay as they are.
fn stem_word(word: &str) -> String {
    let is_plain = word.chars().all(|letter| letter.is_ascii_lowercase());
    if !is_plain || is_negation(word) {
        return word.to_owned();
    }
    let root = ["ing", "ed", "es", "s"].iter().find_map(|ending| {
        let root = word.strip_suffix(ending)?;
        (root.len() >= 4 && !root.ends_with('s')).then_some(root)
    });
    root.unwrap_or(word).trim_end_matches('e').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(sentence: &str, other: &str, expect: bool) {
        assert_eq!(has_same_meaning(sentence, other), expect, "{sentence} / {other}");
    }

    #[test]
    fn words_are_found_in_their_lists() {
        assert!(FILLERS.is_sorted() && NEGATIONS.is_sorted());
    }

    #[test]
    fn form_does_not_matter() {
        for (sentence, other) in [
            ("SQLite has one writer.", "sqlite has ONE writer"),
            ("The API has a limit of 10 requests.", "API: limit of 10 requests"),
            ("Don't touch `lib.rs`!", "don’t touch lib.rs"),
            ("Writes are queued in db.rs", "Write is queued in db.rs."),
            ("Requests need a token", "A token is needed for requests"),
            ("Nur ein Schreiber für die Datei", "nur ein schreiber für die datei."),
            ("設定は読み取り専用", "設定は読み取り専用"),
            ("!!!", "!!!"),
            // It says more.
            ("SQLite has one writer at a time", "SQLite has one writer"),
            (
                "Port 8080 is taken by the proxy (see compose.yml)",
                "port 8080 is taken by the proxy",
            ),
            // It leaves out a little.
            (
                "the build server runs old tools offline, vendor everything",
                "the build server runs old tools offline today, vendor everything",
            ),
        ] {
            check(sentence, other, true);
        }
    }

    #[test]
    fn near_misses_are_something_else() {
        for (sentence, other) in [
            ("", "SQLite has one writer"),
            ("!!!", "???"),
            // The opposite.
            ("Use the global cache everywhere", "Never use the global cache everywhere"),
            ("The server needs a restart", "The server needs no restart"),
            ("Files must be locked", "Files mustn't be locked"),
            // Another number, another name, another thing.
            ("The API allows 10 requests a second", "The API allows 100 requests a second"),
            ("Port 8080 must stay free for tests", "Port 8081 must stay free for tests"),
            ("Do not edit src/lib.rs by hand", "Do not edit src/main.rs by hand"),
            (
                "module billing keeps its tokens in redis because the fleet restarts nightly",
                "module auth keeps its tokens in redis because the fleet restarts nightly",
            ),
            ("Tests in `a` are flaky", "Tests in `b` are flaky"),
            // A number, or the name of code, is not left out.
            (
                "The parser limits the depth of nested lists",
                "The parser limits the depth of nested lists to 64",
            ),
            // Too little is left.
            ("SQLite", "SQLite has one writer"),
            ("Use tabs", "Use tabs in Makefiles only"),
            ("one writer at a time", "SQLite has one writer at a time, so queue writes in db.rs"),
            // Words by chance.
            (
                "A long story of the server, the client, the cache, the queue and the retries of both",
                "the server needs the queue",
            ),
        ] {
            check(sentence, other, false);
        }
    }

    proptest! {
        #[test]
        fn every_sentence_says_what_it_says(text in "\\PC{0,80}") {
            prop_assert!(has_same_meaning(&text, &text));
        }

        #[test]
        fn case_and_ends_do_not_matter(text in "[a-z0-9 _./]{1,60}") {
            let shouted = format!(" {}!", text.to_uppercase());
            prop_assert!(has_same_meaning(&shouted, &text) || text.trim().chars().all(|it| !it.is_alphanumeric()));
        }
    }
}
