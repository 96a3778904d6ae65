//! Plans that once failed. Every `cargo test` plays them first.
//!
//! A plan is kept as a file in `tests/simulation/`, as `simulate` prints it.

use std::fs;
use std::path::Path;

use super::plan::SimulationPlan;

/// Reads the kept plans with the names of their files.
pub fn read_plans() -> Vec<(String, SimulationPlan)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation");
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    paths.sort();
    let read = |path: &Path| {
        let text = fs::read_to_string(path).expect("a kept plan can be read");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let plan = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        (name, plan)
    };
    paths.iter().map(|path| read(path)).collect()
}
