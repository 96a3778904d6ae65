//! The house rules, checked on the source code: layers, file length, headers, words.
//!
//! A rule that only lives in a document is broken by accident; these cannot be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A source file of the workspace.
pub(crate) struct Source {
    /// Its path from the root of the workspace.
    pub(crate) path: String,
    /// Its text without the tests at its end.
    pub(crate) code: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut directories = vec![root().join("crates")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target" && name != "data") {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a readable file");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                let path = path.strip_prefix(root()).expect("it is below the root");
                sources.push(Source { path: path.to_string_lossy().into_owned(), code, text });
            }
        }
    }
    assert!(sources.len() > 40, "the sources were found");
    sources
}

impl Source {
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/benches/")
    }

    /// Returns the lines of code that contain a word, without comments.
    fn lines_with(&self, word: &str) -> Vec<String> {
        self.code
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//") && line.contains(word))
            .map(|(number, line)| format!("{}:{}: {}", self.path, number + 1, line.trim()))
            .collect()
    }
}

#[track_caller]
fn check_nowhere(words: &[&str], is_forbidden: impl Fn(&Source) -> bool) {
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| !source.is_test())
        .filter(|source| is_forbidden(source))
        .flat_map(|source| words.iter().flat_map(|word| source.lines_with(word)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_core_and_the_adapters_touch_nothing() {
    check_nowhere(
        &[
            "std::fs",
            "std::process",
            "std::env",
            "std::net",
            "std::thread",
            "std::io",
            "SystemTime",
            "Instant",
            "println!",
            "eprintln!",
        ],
        |source| {
            ["ralph-model", "ralph-guard", "ralph-core", "ralph-agents"]
                .iter()
                .any(|room| source.path.starts_with(&format!("crates/{room}/src")))
        },
    );
}

#[test]
fn only_the_process_room_spawns() {
    // The scripted agent is an agent, not a part of ralph that runs one. The stages of a sandbox are
    // processes of their own between the process room and a child.
    check_nowhere(&[" Command::new", "(Command::new", "process::Command"], |source| {
        !source.path.starts_with("crates/ralph-io/src/process/")
            && !source.path.starts_with("crates/ralph-io/src/sandbox/stage/")
            && source.path != "crates/ralph-io/src/sandbox/client_wrapper.rs"
            && !source.path.starts_with("crates/ralph-io/src/sim/")
            && !source.path.starts_with("crates/ralph-testkit/")
            // A binary of its own, on an async runtime, without agents.
            && !source.path.starts_with("crates/ralph-fleet/")
    });
}

#[test]
fn only_the_git_room_knows_git() {
    check_nowhere(
        &["write-tree", "rev-parse", "read-tree", "GIT_INDEX_FILE", "update-ref"],
        // The guard knows what a command of an agent's says to git.
        |source| {
            !source.path.starts_with("crates/ralph-io/src/git")
                && !source.path.starts_with("crates/ralph-guard/src/")
        },
    );
}

#[test]
fn only_the_adapters_know_the_flags_and_formats_of_agents() {
    check_nowhere(&["--output-format", "stream-json", "--dangerously", "tool_use"], |source| {
        !source.path.starts_with("crates/ralph-agents/src/")
            && !source.path.starts_with("crates/ralph-io/src/sim/")
            && !source.path.starts_with("crates/ralph-testkit/src/models/")
    });
}

#[test]
fn only_the_view_prints() {
    check_nowhere(&["println!", "print!(", "io::stdout", "io::stderr"], |source| {
        // One file of the binary opens the streams and hands them to the view.
        source.path != "crates/ralph/src/screen.rs"
            && !source.path.starts_with("crates/ralph-ui/")
            && !source.path.starts_with("crates/ralph-io/src/sim/")
            // Workers report in a protocol on stdout.
            && !source.path.starts_with("crates/ralph-io/src/workers/")
            && !source.path.starts_with("crates/ralph-testkit/src/bin/")
            && !source.path.starts_with("crates/ralph-fleet/")
    });
}

#[test]
fn the_rooms_import_only_what_they_may() {
    for (room, forbidden) in [
        (
            "crates/ralph-model/",
            ["ralph_guard", "ralph_core", "ralph_agents", "ralph_io", "ralph_ui"].as_slice(),
        ),
        ("crates/ralph-guard/", ["ralph_core", "ralph_agents", "ralph_io", "ralph_ui"].as_slice()),
        ("crates/ralph-core/", ["ralph_guard", "ralph_agents", "ralph_io", "ralph_ui"].as_slice()),
        ("crates/ralph-agents/", ["ralph_io", "ralph_ui"].as_slice()),
        ("crates/ralph-ui/", ["ralph_io"].as_slice()),
        ("crates/ralph-io/", ["ralph_ui"].as_slice()),
    ] {
        check_nowhere(forbidden, |source| source.path.starts_with(room));
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| source.path)
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn files_stay_short() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.code.lines().count() > 600)
        .map(|source| source.path)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn names_say_what_a_file_is_about() {
    let vague: Vec<String> = sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            ["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"].contains(&name)
        })
        .collect();
    assert!(vague.is_empty(), "{vague:?}");
}

#[test]
fn nothing_is_left_for_later_or_left_out() {
    // Put together here, so that this file does not find itself.
    let words = [
        ["// TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["to", "do!("].concat(),
        ["#[ig", "nore"].concat(),
        ["should_", "panic"].concat(),
    ];
    let found: Vec<String> = sources()
        .iter()
        .flat_map(|source| {
            words
                .iter()
                .filter(|word| source.text.contains(word.as_str()))
                .map(|word| format!("{}: {word}", source.path))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The one audited module, for system calls without a safe wrapper.
const UNSAFE: &str = "crates/ralph-io/src/sandbox/stage/kernel.rs";

/// Returns the numbers of the lines of code that have the keyword, or lift the ban on it.
fn unsafe_lines(text: &str) -> Vec<usize> {
    let (keyword, ban) = (["uns", "afe"].concat(), ["uns", "afe_code"].concat());
    let has = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|it: char| !it.is_alphanumeric() && it != '_');
        // In quotes or after a dash the word is not the keyword.
        words.any(|it| it == keyword || it == ban) && !code.contains(&format!("{keyword}-"))
    };
    text.lines().enumerate().filter(|(_, line)| has(line)).map(|(at, _)| at + 1).collect()
}

#[test]
fn code_that_the_compiler_cannot_check_is_in_one_file_with_its_reasons() {
    let keyword = ["uns", "afe"].concat();
    for (line, expect) in [
        (format!("{keyword} {{ read() }}"), 1),
        (format!("pub {keyword} fn read() {{}}"), 1),
        (format!("{keyword} impl Send for X {{}}"), 1),
        (format!("#[allow({keyword}_code)]"), 1),
        (format!("// It is {keyword}."), 0),
        (format!("let it = {keyword}_word();"), 0),
        (format!("\"style-src '{keyword}-inline'\""), 0),
    ] {
        assert_eq!(unsafe_lines(&line).len(), expect, "{line}");
    }
    let sources = sources();
    let elsewhere: Vec<String> = sources
        .iter()
        .filter(|source| source.path != UNSAFE)
        .flat_map(|source| {
            unsafe_lines(&source.text).into_iter().map(|at| format!("{}:{at}", source.path))
        })
        .collect();
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));

    // Each has its reason above it, and its function is explained where a reviewer reads.
    let source = sources.iter().find(|source| source.path == UNSAFE).expect("the one file");
    let lines: Vec<&str> = source.text.lines().collect();
    let review = fs::read_to_string(root().join("docs/dependencies.md")).expect("the review");
    let blocks = unsafe_lines(&source.text).into_iter().skip(1);
    let mut number = 0;
    for at in blocks {
        let before = &lines[at.saturating_sub(5)..at];
        assert!(before.iter().any(|it| it.contains("// SAFETY: ")), "{UNSAFE}:{at}");
        let head = lines[..at].iter().rfind(|it| it.contains("fn ")).expect("a function");
        let name = head.split("fn ").nth(1).and_then(|it| it.split('(').next()).expect("a name");
        assert!(review.contains(&format!("`{name}`")), "{name} is not in docs/dependencies.md");
        number += 1;
    }
    assert_eq!(number, 5, "a new one is a decision: change this number with docs/dependencies.md");
}

/// Returns the texts in back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

const CRATES: [&str; 9] = [
    "ralph-model",
    "ralph-guard",
    "ralph-core",
    "ralph-agents",
    "ralph-io",
    "ralph-ui",
    "ralph",
    "ralph-testkit",
    "ralph-fleet",
];

/// Returns the modules that a file declares.
fn declared_modules(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "))
        .map(|line| line.trim_end_matches(';').to_owned())
}

/// Returns whether a module only groups others.
fn is_folder(text: &str) -> bool {
    let groups = |line: &str| ["//", "pub mod ", "pub use "].iter().any(|it| line.starts_with(it));
    text.contains("pub mod ") && text.lines().all(|line| line.is_empty() || groups(line))
}

#[test]
fn the_map_names_every_room_and_no_other() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    for name in CRATES {
        let room = root().join("crates").join(name).join("src");
        let top = ["lib.rs", "main.rs"].map(|file| fs::read_to_string(room.join(file)));
        let mut modules: BTreeSet<String> =
            top.iter().flatten().flat_map(|text| declared_modules(text)).collect();
        for module in modules.clone() {
            let text = fs::read_to_string(room.join(format!("{module}.rs"))).unwrap_or_default();
            if is_folder(&text) {
                modules.extend(declared_modules(&text));
            }
        }
        let head = format!("| in `{name}` | |\n");
        let (_, table) = map.split_once(&head).expect("a table for each crate");
        // Adding an agent does not change the map.
        modules.retain(|module| !room.join(module).join("adapter.rs").is_file());
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let named: BTreeSet<String> = rows.flat_map(quoted).map(str::to_owned).collect();
        assert!(!modules.is_empty(), "{name}");
        assert_eq!(named, modules, "{name}");
    }
}

#[test]
fn what_the_map_names_by_its_path_is_there() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("the map");
    let map = read("ARCHITECTURE.md") + &read("docs/design.md");
    let map: String = map.split("```").step_by(2).collect();
    let sources = sources();
    let mut paths = 0;
    for path in quoted(&map).filter(|it| it.contains("::")) {
        let mut parts = path.rsplit("::");
        let (last, room) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_there = sources.iter().filter(|it| is_in(&it.path, room)).any(|source| {
            ["fn", "mod", "struct", "enum", "trait"]
                .iter()
                .any(|word| defines(&source.code, word, last))
        });
        assert!(is_there, "`{path}` is not there");
        paths += 1;
    }
    assert!(paths > 15, "the paths were found");
}

/// Returns whether a file belongs to a room, as its own file or below its directory.
fn is_in(path: &str, room: &str) -> bool {
    let room = room.replace("ralph_core", "ralph-core").replace("ralph_guard", "ralph-guard");
    path.split('/').any(|part| part == room || part.strip_suffix(".rs") == Some(&*room))
}

/// Returns whether a text defines a name.
fn defines(text: &str, word: &str, name: &str) -> bool {
    let definition = format!("{word} {name}");
    text.match_indices(&definition).any(|(at, _)| {
        !text[at + definition.len()..].starts_with(|it: char| it.is_alphanumeric() || it == '_')
    })
}

/// Returns the paths that an import names: one, or those of a list, such as `{a, b::{C, D}}`.
fn split_import(after: &str) -> Vec<&str> {
    let Some(list) = after.strip_prefix('{') else { return vec![after] };
    let (mut depth, mut begin, mut parts) = (0_usize, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        if letter == '}' && depth == 0 && begin == at + 1 {
            break;
        }
    }
    parts
}

/// Returns the modules of a crate that take part in a cycle of imports, or lie between two.
fn find_knot(name: &str) -> BTreeSet<String> {
    let directory = format!("crates/{name}/src/");
    let module = |path: &str| -> Option<String> {
        let path = path.strip_prefix(&directory)?;
        Some(path.split('/').next()?.trim_end_matches(".rs").to_owned())
    };
    let product: Vec<Source> = sources().into_iter().filter(|it| !it.is_test()).collect();
    let modules: BTreeSet<String> = product.iter().filter_map(|it| module(&it.path)).collect();
    let mut edges: BTreeSet<(String, String)> = BTreeSet::new();
    for source in &product {
        let Some(from) = module(&source.path) else { continue };
        let code: String = source
            .code
            .lines()
            .filter(|it| !it.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        // From `a/b.rs`, `super::super::` is the crate.
        let depth = source.path[directory.len()..].split('/').count();
        let code = code.replace(&"super::".repeat(depth), "crate::");
        for after in code.split("crate::").skip(1) {
            for part in split_import(after) {
                let to: String = part
                    .trim_start()
                    .chars()
                    .take_while(|it| it.is_alphanumeric() || *it == '_')
                    .collect();
                if modules.contains(&to) && to != from {
                    edges.insert((from.clone(), to));
                }
            }
        }
    }
    let mut left = modules;
    loop {
        let inner = |it: &String| {
            let is_left = |(from, to): &&(String, String)| left.contains(from) && left.contains(to);
            edges.iter().filter(is_left).any(|(from, _)| from == it)
                && edges.iter().filter(is_left).any(|(_, to)| to == it)
        };
        let next: BTreeSet<String> = left.iter().filter(|it| inner(it)).cloned().collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    for name in CRATES {
        assert_eq!(find_knot(name), BTreeSet::new(), "{name}");
    }
}
