//! A Rust project. Its toolchain may be in root's home, where no ordinary user reads it.

use std::env;
use std::path::PathBuf;

use super::stage::ProjectStage;

#[test]
fn cargo_workspace() {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n"),
        (
            "crates/shop/Cargo.toml",
            "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        (
            "crates/shop/src/lib.rs",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn sum() {\n        assert_eq!(1 + 1, 2);\n    }\n}\n",
        ),
    ];
    let prepare = "cargo generate-lockfile --offline --quiet";
    let stage = ProjectStage::in_home(home, ".cargo/bin", &["cargo", "cc"], &files, prepare);
    let Some(stage) = stage else { return };
    stage.build_one_task(
        &["cargo test --workspace"],
        "mkdir -p crates/answer/src\n\
         printf '[package]\\nname = \"answer\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > crates/answer/Cargo.toml\n\
         printf 'pub fn answer() -> u32 {\\n    %s\\n}\\n\\n#[test]\\nfn is_right() {\\n    \
         assert_eq!(answer(), 42);\\n}\\n' $answer > crates/answer/src/lib.rs",
    );
}
