//! The rules for names and words, checked on the source itself.
//!
//! A type name finds one type, a function name says what the function does, and retired words do
//! not return (`ARCHITECTURE.md` has the glossary). Not here: layers and file sizes (`tidy`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::{Source, root, sources};

/// What a function name may begin with besides a verb: constructors, conversions, predicates.
const PREFIXES: [&str; 24] = [
    "new", "from", "for", "as", "to", "into", "with", "without", "is", "has", "needs", "can",
    "may", "must", "was", "are", "did", "does", "should", "try", "on", "main", "default", "at",
];

/// The verbs that functions begin with. Add one only if no listed verb says the same.
const VERBS: &str = include_str!("vocabulary/verbs.txt");

/// Verbs in the third person, for predicates such as `matches`.
const PREDICATES: &str = include_str!("vocabulary/predicates.txt");

/// Words and phrases that say too little.
const RETIRED: &str = include_str!("vocabulary/retired.txt");

/// Names on disk, flags, rule ids and programs that have a retired word in them.
const OUTSIDE_NAMES: [&str; 13] = [
    "is_none",
    "goOn",
    "go-on",
    "GoOn",
    "x-tenant",
    "\\told",
    "wish\\\"",
    "--from-shelf",
    "from_shelf",
    "git-untold.json",
    "\"wish\"",
    "\"wishes\"",
    "\"nobody\"",
];

fn product() -> impl Iterator<Item = Source> {
    let is_product = |it: &Source| !it.is_test() && !it.path.contains("/fuzzing");
    sources().into_iter().filter(is_product)
}

#[test]
fn a_type_name_is_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in product().filter(|it| !it.path.contains("/wire")) {
        for (number, line) in source.code.lines().enumerate() {
            let item = without_visibility(line.trim_start());
            let item = item.strip_prefix("struct ").or_else(|| item.strip_prefix("enum "));
            if let Some(name) =
                item.and_then(|it| it.split(|it: char| !it.is_alphanumeric()).next())
            {
                let place = format!("{}:{}", source.path, number + 1);
                places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    assert!(places.len() > 1_000, "the types were found");
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "these share a name: {places:#?}");
}

#[test]
fn a_function_name_begins_with_a_verb() {
    let verbs: BTreeSet<&str> =
        VERBS.split_whitespace().chain(PREDICATES.split_whitespace()).chain(PREFIXES).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for source in product() {
        for (line, name) in free_functions(&source.code) {
            count += 1;
            if !name.split('_').next().is_some_and(|it| verbs.contains(it)) {
                wrong.push(format!("{}:{line}: {name}", source.path));
            }
        }
    }
    assert!(count > 3_000, "the functions were found");
    assert!(wrong.is_empty(), "no verb in front:\n{}", wrong.join("\n"));
}

/// Returns the functions whose names are ours to choose and that are no getters, with their lines.
fn free_functions(code: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    let mut trait_impl = None;
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let item = line.trim_start();
        if item.starts_with("impl") && lines[at..].iter().take(4).any(|it| it.contains(" for ")) {
            let head: String =
                lines[at..].iter().take_while(|it| !it.contains('{')).copied().collect();
            let head = head + line;
            trait_impl = head.contains(" for ").then_some(indent);
        }
        if trait_impl.is_some_and(|it| indent == it && item.starts_with('}')) {
            trait_impl = None;
        }
        let item = without_visibility(item);
        let item =
            ["const ", "async "].iter().fold(item, |it, word| it.strip_prefix(word).unwrap_or(it));
        let Some(rest) = item.strip_prefix("fn ").filter(|_| trait_impl.is_none()) else {
            continue;
        };
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        let head: Vec<&str> = lines[at..].iter().take(12).copied().collect();
        let head = head.join(" ");
        let head = head.split_once("fn ").map_or("", |it| it.1);
        let head = head.split(['{', ';']).next().unwrap_or_default();
        let receiver = head.split_once('(').map_or("", |it| it.1).trim_start();
        let is_method = ["&self", "self", "&'a self"].iter().any(|it| receiver.starts_with(it));
        if !(receiver.starts_with('$') || is_method && head.contains("->")) {
            found.push((at + 1, name.to_owned()));
        }
    }
    found
}

#[test]
fn retired_words_do_not_return() {
    let retired: Vec<Vec<&str>> = RETIRED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let mut texts: Vec<(String, String)> =
        sources().into_iter().map(|source| (source.path, source.text)).collect();
    read_markdown(&root(), &mut texts);
    assert!(texts.len() > 700, "the texts were found");
    let mut found = Vec::new();
    for (path, text) in texts {
        // This list itself.
        if path.ends_with("vocabulary.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let is_outside = line.contains("rename = \"")
                || line.contains("alias = \"")
                || OUTSIDE_NAMES.iter().any(|it| line.contains(it));
            if is_outside {
                continue;
            }
            let words = split_words(line);
            for phrase in &retired {
                if words.windows(phrase.len()).any(|it| it == phrase.as_slice()) {
                    found.push(format!("{path}:{}: {}: {line}", number + 1, phrase.join(" ")));
                }
            }
        }
    }
    assert!(found.is_empty(), "{} retired words:\n{}", found.len(), found.join("\n"));
}

/// Adds the pages for people, with their paths.
fn read_markdown(directory: &Path, texts: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).expect("a readable directory").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = !name.starts_with('.') && name != "target" && name != "node_modules";
        if path.is_dir() && is_ours && name != "tests" {
            read_markdown(&path, texts);
        } else if path.extension().is_some_and(|it| it == "md") {
            let text = fs::read_to_string(&path).expect("a readable file");
            texts.push((path.display().to_string(), text));
        }
    }
}

/// Splits text and the names in it into words of lower case.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in line.chars() {
        if !character.is_alphabetic() || (was_lower && character.is_uppercase()) {
            words.push(String::new());
        }
        if character.is_alphabetic() {
            words.last_mut().expect("there is one").extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase();
    }
    words.retain(|it| !it.is_empty());
    words
}

#[test]
fn public_items_are_documented() {
    let mut missing = Vec::new();
    for source in product() {
        let lines: Vec<&str> = source.code.lines().map(str::trim_start).collect();
        for (at, item) in lines.iter().enumerate() {
            let starts = ["pub struct ", "pub enum ", "pub trait ", "pub fn ", "pub const fn "];
            if item.contains('$') || !starts.iter().any(|it| item.starts_with(it)) {
                continue;
            }
            // Attributes may take several lines; documentation stands above all of them.
            let mut above = lines[..at].iter().rev().skip_while(|it| {
                !it.is_empty() && !it.starts_with("///") && !it.ends_with('}') && !it.ends_with(';')
            });
            if !above.next().is_some_and(|it| it.starts_with("///")) {
                missing.push(format!("{}:{}: {item}", source.path, at + 1));
            }
        }
    }
    assert!(missing.is_empty(), "without documentation:\n{}", missing.join("\n"));
}

fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest =
        if rest.starts_with('(') { rest.split_once(')').map_or(rest, |it| it.1) } else { rest };
    rest.trim_start()
}
