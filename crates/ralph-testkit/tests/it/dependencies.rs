//! Checks third-party crates against `deny.toml` and against the list in `docs/crates.md`.
//!
//! `cargo deny` reads the same file at a release; building it takes longer than all of these
//! tests, so its lists are checked here with the output of cargo itself. Not here: advisories,
//! which need a database from the network.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// A crate by its name and its version.
type Crate = (String, String);

/// What each crate depends on.
type Graph = BTreeMap<Crate, BTreeSet<Crate>>;

/// The two systems whose dependencies differ; processors and C libraries change nothing.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn cargo(words: &[&str]) -> String {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo).args(words).current_dir(root()).output().expect("cargo runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// Asks cargo what depends on what, over all targets.
fn graph(of: &str, edges: &str) -> Graph {
    let mut graph = Graph::new();
    for target in TARGETS {
        let mut words = vec!["tree", "--locked", "--target", target, "-e", edges];
        words.extend(["--prefix", "depth", "-f", "{p}"]);
        words.extend(of.split(' '));
        let mut path: Vec<Crate> = Vec::new();
        for line in cargo(&words).lines().filter(|line| !line.is_empty()) {
            let start = line.find(|it: char| !it.is_ascii_digit()).expect("a name");
            let (depth, rest) = line.split_at(start);
            let mut parts = rest.split(' ');
            let name = parts.next().expect("a name").to_owned();
            let version = parts.next().expect("a version").trim_start_matches('v').to_owned();
            path.truncate(depth.parse().expect("a depth"));
            if let Some(parent) = path.last() {
                graph.entry(parent.clone()).or_default().insert((name.clone(), version.clone()));
            }
            graph.entry((name.clone(), version.clone())).or_default();
            path.push((name, version));
        }
    }
    assert!(graph.len() > 100, "cargo lists the dependencies: {graph:?}");
    graph
}

/// Returns the `cargo metadata` of each crate, which is read once.
fn packages() -> &'static BTreeMap<Crate, Value> {
    static FOUND: OnceLock<BTreeMap<Crate, Value>> = OnceLock::new();
    FOUND.get_or_init(read_packages)
}

fn read_packages() -> BTreeMap<Crate, Value> {
    let mut found = BTreeMap::new();
    for target in TARGETS {
        let words = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
        let mut data: Value = serde_json::from_str(&cargo(&words)).expect("JSON");
        for package in data["packages"].as_array_mut().expect("a list").drain(..) {
            let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
            found.insert((text("name"), text("version")), package);
        }
    }
    found
}

/// Returns the name of a crate with the significant part of its version.
fn line(krate: &Crate) -> String {
    let mut parts = krate.1.split('.');
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("0", Some(second)) => format!("{} 0.{second}", krate.0),
        _ => format!("{} {first}", krate.0),
    }
}

fn is_ours(krate: &Crate) -> bool {
    krate.0 == "ralph" || krate.0.starts_with("ralph-")
}

/// Returns the entries of a list of `deny.toml`, one a line.
fn entries(deny: &str, section: &str, list: &str) -> Vec<String> {
    let (_, rest) = deny.split_once(&format!("\n[{section}]\n")).expect(section);
    let rest = rest.split("\n[").next().unwrap_or_default();
    let (_, rest) = rest.split_once(&format!("{list} = [\n")).expect(list);
    let (inside, _) = rest.split_once("\n]").expect("an end");
    inside
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Returns the first text in quotes after a word.
fn quoted<'a>(entry: &'a str, behind: &str) -> &'a str {
    let (_, rest) = entry.split_once(behind).unwrap_or(("", entry));
    rest.split('"').nth(1).unwrap_or_default()
}

/// Says whether a license expression can be met with what is allowed.
fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    fn any(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let mut met = all(words, is_allowed);
        while words.first().is_some_and(|it| it == "OR") {
            *words = &words[1..];
            met |= all(words, is_allowed);
        }
        met
    }
    fn all(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let mut met = one(words, is_allowed);
        while words.first().is_some_and(|it| it == "AND") {
            *words = &words[1..];
            met &= one(words, is_allowed);
        }
        met
    }
    fn one(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
        let Some((first, rest)) = words.split_first() else { return false };
        *words = rest;
        if first == "(" {
            let met = any(words, is_allowed);
            *words = words.get(1..).unwrap_or_default();
            return met;
        }
        // An exception makes another license of it.
        match words {
            [with, exception, rest @ ..] if with == "WITH" => {
                *words = rest;
                is_allowed(&format!("{first} WITH {exception}"))
            }
            _ => is_allowed(first),
        }
    }
    // Old manifests write MIT/Apache-2.0.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    let mut words = words.as_slice();
    any(&mut words, is_allowed) && words.is_empty()
}

#[test]
fn a_license_is_met_by_one_of_a_choice_and_by_all_of_a_sum() {
    for (expression, expect) in [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only", false),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR GPL-3.0-only) AND ISC", true),
        ("ISC AND (GPL-3.0-only OR Unicode-3.0)", false),
        ("MIT OR ISC AND GPL-3.0-only", true),
        ("MIT WITH LLVM-exception", false),
        ("MIT WITH LLVM-exception OR ISC", true),
        ("", false),
        ("MIT ISC", false),
    ] {
        assert_eq!(is_met(expression, &|it| ["MIT", "ISC"].contains(&it)), expect, "{expression}");
    }
}

#[test]
fn every_license_is_one_that_we_allow() {
    let deny = read("deny.toml");
    let allowed = entries(&deny, "licenses", "allow");
    let exceptions = entries(&deny, "licenses", "exceptions");
    let packages = packages();
    let refused: Vec<String> = graph("--workspace", "normal,build,dev")
        .keys()
        .filter_map(|krate| {
            let license = packages[krate]["license"].as_str().unwrap_or_default();
            let is_allowed = |it: &str| {
                allowed.iter().any(|entry| quoted(entry, "") == it)
                    || exceptions.iter().any(|entry| {
                        quoted(entry, "crate = ") == krate.0 && quoted(entry, "allow = ") == it
                    })
            };
            (!is_met(license, &is_allowed)).then(|| format!("{}: {license:?}", line(krate)))
        })
        .collect();
    assert!(refused.is_empty(), "deny.toml does not allow these licenses:\n{}", refused.join("\n"));
}

/// Returns the crates that are there more than once, each but its newest version.
fn older_ones(crates: &BTreeSet<Crate>) -> BTreeSet<String> {
    let number = |krate: &Crate| -> Vec<u64> {
        krate.1.split(['.', '+', '-']).map_while(|it| it.parse().ok()).collect()
    };
    crates
        .iter()
        .filter(|krate| {
            crates.iter().any(|other| other.0 == krate.0 && number(other) > number(krate))
        })
        .map(line)
        .collect()
}

#[test]
fn every_second_version_of_a_crate_has_its_reason() {
    let crate_of = |name: &str, version: &str| (name.to_owned(), version.to_owned());
    let some =
        BTreeSet::from([crate_of("a", "0.9.5"), crate_of("a", "0.10.3"), crate_of("b", "1.0.0")]);
    assert_eq!(older_ones(&some), BTreeSet::from(["a 0.9".to_owned()]));

    let found = older_ones(&graph("--workspace", "normal,build,dev").into_keys().collect());
    let deny = read("deny.toml");
    let listed: BTreeSet<String> = entries(&deny, "bans", "skip")
        .iter()
        .inspect(|entry| assert!(!quoted(entry, "reason = ").is_empty(), "{entry}"))
        .map(|entry| quoted(entry, "crate = ").replace('@', " "))
        .collect();
    assert_eq!(found, listed, "found on the left, bans.skip of deny.toml on the right");
}

#[test]
fn what_runs_while_we_build_is_known() {
    let packages = packages();
    let has_script = |krate: &Crate| {
        let targets = packages[krate]["targets"].as_array().expect("targets");
        targets.iter().any(|it| it["kind"][0] == "custom-build")
    };
    let crates = graph("--workspace", "normal,build,dev");
    let found: BTreeSet<&str> =
        crates.keys().filter(|it| has_script(it)).map(|it| it.0.as_str()).collect();
    let deny = read("deny.toml");
    let entries = entries(&deny, "bans.build", "allow-build-scripts");
    let listed: BTreeSet<&str> = entries.iter().map(|entry| quoted(entry, "")).collect();
    assert_eq!(found, listed, "found on the left, allow-build-scripts of deny.toml on the right");
}

/// Returns what a lock file has from elsewhere than the registry of its first crate, or without a
/// checksum. Which registry that may be, `deny.toml` says.
fn strangers(lock: &str) -> Vec<String> {
    let registry = lock.split_once("\nsource = ").map_or("", |(_, source)| quoted(source, ""));
    let blocks = lock.split("[[package]]").skip(1);
    let known = |block: &str| match block.split_once("\nsource = ") {
        Some((_, source)) => {
            let source = quoted(source, "");
            source == registry && source.starts_with("registry+") && block.contains("\nchecksum = ")
        }
        None => is_ours(&(quoted(block, "name = ").to_owned(), String::new())),
    };
    blocks.filter(|it| !known(it)).map(|it| quoted(it, "name = ").to_owned()).collect()
}

#[test]
fn everything_comes_from_one_registry_with_a_checksum() {
    let block = |name: &str, rest: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{rest}\n")
    };
    let registry = "source = \"registry+https://example.com/index\"\n";
    let lock = [
        block("good", &format!("{registry}checksum = \"00\"")),
        block("ralph-core", ""),
        block("bare", registry),
        block("path", ""),
        block("git", "source = \"git+https://example.org/x?branch=main#12\""),
        block("other", "source = \"registry+https://example.org/index\"\nchecksum = \"00\""),
    ];
    assert_eq!(strangers(&lock.concat()), ["bare", "path", "git", "other"]);

    let lock = read("Cargo.lock");
    assert!(lock.contains("name = \"serde\""), "the lock file was read");
    assert_eq!(strangers(&lock), Vec::<String>::new());
}

#[test]
fn what_must_not_come_in_did_not() {
    let deny = read("deny.toml");
    let banned = entries(&deny, "bans", "deny");
    assert!(!banned.is_empty());
    let crates = graph("-p ralph", "normal,build");
    for entry in banned {
        let name = quoted(&entry, "crate = ");
        assert!(!crates.keys().any(|it| it.0 == name), "{name}: {}", quoted(&entry, "reason = "));
    }
}

/// A line of `docs/crates.md`: in which part it is, and through whom it came.
struct Listed {
    part: String,
    through: Vec<String>,
    reason: String,
}

fn listed() -> BTreeMap<String, Listed> {
    let text = read("docs/crates.md");
    let rows = text.lines().filter(|it| it.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, part, through, reason, _] = cells[..] else { panic!("four cells: {row}") };
        let through = through.split(", ").map(str::to_owned).collect();
        let listed = Listed { part: part.to_owned(), through, reason: reason.to_owned() };
        (name.trim_matches('`').to_owned(), listed)
    })
    .collect()
}

/// The list is what a person reads before a crate is let in: nothing comes unseen with an update.
#[test]
fn every_crate_of_the_binary_has_a_line_and_every_line_a_crate() {
    let linked = graph("-p ralph", "normal,no-proc-macro");
    let linked: BTreeSet<String> = linked.keys().map(line).collect();
    let graph = graph("-p ralph", "normal,build");
    let listed = listed();
    let mut wrong = Vec::new();
    for krate in graph.keys().filter(|it| !is_ours(it)) {
        let name = line(krate);
        let parents: BTreeSet<&str> = graph
            .iter()
            .filter(|(_, children)| children.contains(krate))
            .map(|(parent, _)| parent.0.as_str())
            .collect();
        let part = if linked.contains(&name) { "binary" } else { "build" };
        let Some(row) = listed.get(&name) else {
            wrong
                .push(format!("{name} has no line in docs/crates.md; {part}, through {parents:?}"));
            continue;
        };
        if row.part != part {
            wrong.push(format!("{name} is in the {part}, not in the {}", row.part));
        }
        if !row.through.iter().all(|it| parents.contains(it.as_str())) {
            wrong.push(format!("{name} comes through {parents:?}, not {:?}", row.through));
        }
        if row.reason.is_empty() {
            wrong.push(format!("{name} has no reason"));
        }
    }
    let names: BTreeSet<String> = graph.keys().map(line).collect();
    wrong.extend(listed.keys().filter(|it| !names.contains(*it)).map(|it| format!("{it} is gone")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
