//! The sandbox, through the built binary: escapes, what must work, how children end.

mod agents;
mod attempts;
mod bad_input;
mod blocked;
mod container;
mod ends;
mod escapes;
mod image;
mod names;
mod packages;
mod proxied;
mod runs;
mod toolchains;
mod vm;
mod working;
mod world;

pub(crate) use image::image;
use ralph_testkit::effort;
use ralph_testkit::sealed::{Finished, Sealed};

/// The backends of this machine's kernel.
const BACKENDS: [&str; 3] = ["native", "bwrap", "landlock"];

/// Returns the backends that work here, in a quick check the first of them. CI must have all; elsewhere skipped ones are reported.
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
pub(crate) fn backends() -> Vec<&'static str> {
    let sealed = crate::sealed();
    let works = |backend: &&str| {
        let tried = inside(&sealed, backend, &["true"]);
        if tried.code != Some(0) {
            assert!(std::env::var_os("CI").is_none(), "{backend}: {}", tried.stderr);
            eprintln!("LEFT OUT: the sandbox backend {backend}: {}", tried.stderr);
        }
        tried.code == Some(0)
    };
    let count = effort::choose_count(BACKENDS.len(), 1);
    BACKENDS.into_iter().filter(works).take(count).collect()
}

/// Runs a command in an agent's sandbox without a network.
fn inside(sealed: &Sealed, backend: &str, command: &[&str]) -> Finished {
    let words = ["sandbox", "exec", "--backend", backend, "--network", "none", "--"];
    sealed.run_ralph(&[&words, command].concat())
}

/// Runs a shell script there.
fn script(sealed: &Sealed, backend: &str, script: &str) -> Finished {
    inside(sealed, backend, &["sh", "-c", script])
}
