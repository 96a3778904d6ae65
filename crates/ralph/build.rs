//! Links the binary so that it starts fast.
//!
//! A hook runs for every tool call of an agent, and an agent waits for its memory server: most of
//! what they take is the start of the process. Not here: anything that changes what the binary does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // A static musl build brings its own start files and sets its own flags.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    // At a fixed address the loader need not rewrite 15 000 addresses on 65 pages before `main`.
    // Libraries, heap and stack stay at random places.
    println!("cargo::rustc-link-arg-bins=-no-pie");
    if variable("HOST") == variable("TARGET")
        && let Some(directory) = link_static_unwinder(Path::new(&variable("OUT_DIR")))
    {
        println!("cargo::rustc-link-search=native={}", directory.display());
    }
}

/// Makes the linker take the unwinder from the compiler's static archive, if there is one. One shared
/// library less to find, map and bind saves a sixth of the time of an empty process.
fn link_static_unwinder(out: &Path) -> Option<PathBuf> {
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let archive = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    // A compiler that has none repeats the bare name.
    if !archive.is_absolute() || !archive.is_file() {
        return None;
    }
    let directory = out.join("unwinder");
    fs::create_dir_all(&directory).ok()?;
    fs::write(directory.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").ok()?;
    Some(directory)
}
