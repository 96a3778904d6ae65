//! The documentation lists each cheat with its result, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{IN_CONTAINERS, Scene, tables};

/// The names in the first column of the tables of a page.
fn rows(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let names = rows.filter_map(|row| Some(row.split_once(" |")?.0.trim()));
    names.filter(|name| !["an agent", "a project"].contains(name)).collect()
}

#[test]
fn documentation_lists_exactly_the_tested_cheats() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(project.join("../../docs/cheats.md")).expect("a page");
    let (documented, mut tried) = (rows(&page), Vec::new());
    for cheat in tables().into_iter().flatten() {
        tried.push(cheat.name);
        if let Scene::Elsewhere(file, test) = cheat.scene {
            let text = fs::read_to_string(project.join("tests/it").join(file)).expect("a file");
            let is_there = text.contains(&format!("#[test]\nfn {test}() {{"));
            assert!(is_there, "{}: there is no test {test} in {file}", cheat.name);
        }
    }
    let missing = |these: &[&'_ str], those: &[&'_ str]| {
        let those: BTreeSet<&str> = those.iter().copied().collect();
        these
            .iter()
            .filter(|it| !those.contains(*it))
            .map(|it| (*it).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(missing(&tried, &documented), [""; 0], "tried, and missing in docs/cheats.md");
    assert_eq!(missing(&documented, &tried), [""; 0], "listed in docs/cheats.md, and not tried");
    let proof = fs::read_to_string(project.join("../../docs/proof.md")).expect("a page");
    let count = format!("\n{} things an agent may try are one table", tried.len());
    assert!(proof.contains(&count), "docs/proof.md: {count}");
    let elsewhere =
        tables().into_iter().flatten().filter(|cheat| matches!(cheat.scene, Scene::Elsewhere(..)));
    let own = format!(" {} run without a sandbox", tried.len() - elsewhere.count());
    assert!(proof.contains(&own), "docs/proof.md: {own}");
    for name in IN_CONTAINERS {
        assert!(tried.contains(&name), "{name} is no row");
    }
    let once: BTreeSet<&&str> = tried.iter().collect();
    assert_eq!((once.len(), documented.len()), (tried.len(), tried.len()), "each has one name");
}
