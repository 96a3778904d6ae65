//! What libFuzzer calls. The target is named by the environment, since there is one binary for all.

#![no_main]

use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

use ralph_testkit::fuzzing::{FuzzTarget, list_targets, read_seeds};

static TARGET: OnceLock<&'static FuzzTarget> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: prepare(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(bytes);
    }
});

/// Finds the target; or lists all; or writes out what it begins with, and ends.
fn prepare() {
    let name = std::env::var("RALPH_FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        list_targets().for_each(|target| println!("{}", target.name));
        exit(0);
    }
    let Some(target) = list_targets().find(|target| target.name == name) else {
        eprintln!("RALPH_FUZZ_TARGET names no target: `{name}`");
        exit(2);
    };
    if let Some(corpus) = std::env::var_os("RALPH_FUZZ_SEEDS") {
        let (corpus, root) = (Path::new(&corpus), std::env::var_os("RALPH_FUZZ_ROOT"));
        let root = root.unwrap_or_else(|| "..".into());
        for (number, (_, bytes)) in read_seeds(target, Path::new(&root)).into_iter().enumerate() {
            std::fs::write(corpus.join(format!("seed-{number}")), bytes).expect("writable");
        }
        let quoted = |word: &str| {
            let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
            format!("\"{}\"\n", bytes.collect::<String>())
        };
        let words: String = target.all_words().map(quoted).collect();
        std::fs::write(corpus.with_extension("dict"), words).expect("writable");
        exit(0);
    }
    let _ = TARGET.set(target);
}
