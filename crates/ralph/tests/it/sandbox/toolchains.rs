//! What toolchains need in a sandbox: package stores, persistent caches, sockets, sanitizers, and
//! the build outputs of the enclosing repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use ralph_testkit::sealed::{Finished, Running, Sealed};

use super::backends;
use crate::{repository, sealed};

/// Runs a shell script in a directory, in the sandbox of an agent, a gate or git.
fn run_in(
    sealed: &Sealed,
    directory: &Path,
    backend: &str,
    process: &str,
    script: &str,
) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    let words =
        ["sandbox", "exec", "--backend", backend, "--as", process, "--network", "none", "--"];
    command.args(words).args(["sh", "-c", script]).current_dir(directory);
    Running::start_command(command).wait_for_end()
}

fn run_as(sealed: &Sealed, backend: &str, process: &str, script: &str) -> Finished {
    run_in(sealed, &sealed.project_dir(), backend, process, script)
}

fn put_in_home(sealed: &Sealed, name: &str, text: &str) {
    let path = sealed.root().join("home").join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("written");
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
        || Command::new(program).arg("version").output().is_ok()
}

#[test]
fn stores_of_package_managers_are_visible_and_their_credentials_are_not() {
    let stores = [
        ".m2/repository/junit.jar",
        ".m2/wrapper/dists/maven",
        ".gradle/wrapper/dists/gradle-8-bin/hash/gradle-8/bin/gradle",
        ".ivy2/cache/a",
        ".nuget/packages/a",
        ".gem/ruby/3.2.0/gems/a.rb",
        ".julia/packages/a",
        ".stack/snapshots/a",
        ".composer/vendor/a.php",
        ".pub-cache/hosted/a",
        ".conan2/p/a",
        ".npm/_cacache/a",
        ".konan/a",
        ".yarn/berry/cache/mocha.zip",
        ".virtualenvs/v/bin/python",
        ".local/share/virtualenvs/v/a",
        ".local/share/pypoetry/venv/a",
        ".local/pipx/venvs/a",
        ".cache/pypoetry/virtualenvs/v/a",
        ".cache/pip/a",
        ".cache/node/corepack/pnpm/a",
        ".cache/pre-commit/db.db",
        ".cache/ms-playwright/chromium/a",
        ".cache/Cypress/a",
        ".cache/puppeteer/a",
        ".rvm/a",
        ".nodenv/a",
        ".phpenv/a",
        ".proto/a",
        ".tool-versions",
        ".gemrc",
        ".config/mise/config.toml",
    ];
    let credentials = [
        ".m2/settings.xml",
        ".m2/settings-security.xml",
        ".gradle/gradle.properties",
        ".npmrc",
        ".gem/credentials",
        ".composer/auth.json",
        ".nuget/NuGet/NuGet.Config",
        ".cargo/credentials.toml",
        ".bundle/config",
        ".ivy2/.credentials",
        ".config/pypoetry/auth.toml",
        ".pub-cache/credentials.json",
        ".conan2/credentials.json",
        ".hex/hex.config",
        ".netrc",
    ];
    for backend in backends() {
        let sealed = sealed();
        for name in stores {
            put_in_home(&sealed, name, "of a store");
        }
        for name in credentials {
            put_in_home(&sealed, name, "canary");
        }
        for process in ["agent", "gate", "git"] {
            let script = format!(
                "cd ~; for it in {}; do grep -q 'of a store' $it || echo missing $it; \
                 echo x 2>/dev/null > $it && echo written $it; done; \
                 for it in {}; do grep -s canary $it; done; true",
                stores.join(" "),
                credentials.join(" ")
            );
            let ran = run_as(&sealed, backend, process, &script);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{backend}: {}", ran.stderr);
        }
        let kept = fs::read_to_string(sealed.root().join("home/.gemrc"));
        assert_eq!(kept.expect("there"), "of a store");
    }
}

#[test]
fn caches_persist_separately_for_agents_and_gates() {
    for backend in backends() {
        let sealed = sealed();
        put_in_home(&sealed, ".cache/mine", "the user's");
        // Landlock has no mounts, so tools get variables.
        let cache = if backend == "landlock" { "${GOCACHE%/*}" } else { "$HOME/.cache" };
        let script = format!("cat {cache}/mark {cache}/mine 2>/dev/null; echo $0 > {cache}/mark");
        for (process, expect) in [("gate", ""), ("gate", "sh\n"), ("agent", ""), ("agent", "sh\n")]
        {
            let ran = run_as(&sealed, backend, process, &script);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expect), "{}", ran.stderr);
        }
        let home = fs::read_dir(sealed.root().join("home/.cache")).expect("there");
        assert_eq!(home.count(), 1, "{backend}: nothing of theirs is in the user's");
        let shown =
            sealed.run_ralph(&["sandbox", "show", "--backend", backend, "--as", "gate"]).stdout;
        assert!(shown.contains("Writable, kept, separate from yours"), "{shown}");
        let cleaned = sealed.run_ralph(&["clean"]).expect_code(0).stdout;
        assert!(cleaned.contains("1 cache;"), "{cleaned}");
        let ran = run_as(&sealed, backend, "gate", &script);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    }
}

/// Without jest itself: its default directory is `os.tmpdir()/jest_` and the user's id in base 36.
#[test]
fn the_cache_of_jest_persists() {
    let user = Command::new("id").arg("-u").output().expect("it runs").stdout;
    let user: u32 = String::from_utf8_lossy(&user).trim().parse().expect("a number");
    let digit = |digit: u32| char::from_digit(digit, 36).expect("a digit");
    let name = match user {
        0..36 => digit(user).to_string(),
        _ => format!("{}{}", digit(user / 36 % 36), digit(user % 36)),
    };
    // Landlock has no mounts: there the temporary directory lasts as long as the run.
    for backend in backends().into_iter().filter(|it| *it != "landlock" && user < 1296) {
        let sealed = sealed();
        let script = format!(
            "ls $TMPDIR/jest_{name} 2>/dev/null; mkdir -p $TMPDIR/jest_{name} && touch $TMPDIR/jest_{name}/haste-map"
        );
        let run = |process| run_as(&sealed, backend, process, &script).expect_code(0).stdout;
        assert_eq!([run("gate"), run("gate")], ["", ""], "{backend}: not a JavaScript project");
        sealed.write_file("package.json", "{}");
        assert_eq!([run("gate"), run("gate")], ["", "haste-map\n"], "{backend}");
        assert_eq!([run("agent"), run("agent")], ["", "haste-map\n"], "{backend}");
    }
}

#[test]
fn go_build_cache_is_reused() {
    if !is_installed("go") {
        return;
    }
    for backend in backends() {
        let sealed = sealed();
        sealed.write_file("go.mod", "module m\n\ngo 1.19\n");
        sealed.write_file(
            "m_test.go",
            "package m\n\nimport \"testing\"\n\nfunc TestM(t *testing.T) {}\n",
        );
        let first = run_as(&sealed, backend, "gate", "go test ./...");
        assert_eq!(first.code, Some(0), "{backend}: {}{}", first.stdout, first.stderr);
        assert!(!first.stdout.contains("(cached)"), "{backend}: {}", first.stdout);
        let second = run_as(&sealed, backend, "gate", "go test ./...");
        assert!(second.stdout.contains("(cached)"), "{backend}: {}", second.stdout);
    }
}

#[test]
fn gates_have_ci_set_and_agents_do_not() {
    for backend in [&backends()[..], &["none"]].concat() {
        let sealed = sealed();
        for (process, expect) in [("gate", "1\n"), ("agent", "\n"), ("git", "\n")] {
            let ran = run_as(&sealed, backend, process, "echo $CI");
            assert_eq!(ran.stdout, expect, "{backend} {process}: {}", ran.stderr);
        }
    }
}

#[test]
fn programs_with_sanitizers_run_and_their_memory_is_bounded() {
    let backends = || backends().into_iter().filter(|it| *it != "landlock");
    for sanitizer in ["address", "leak", "thread"] {
        let sealed = sealed();
        sealed.write_file("a.c", "int main(void) { return 0; }\n");
        let flag = format!("-fsanitize={sanitizer}");
        let mut compiler = sealed.build_command("gcc");
        compiler.args([&flag, "a.c", "-o", "a"]);
        if compiler.output().map_or(true, |ran| !ran.status.success()) {
            continue;
        }
        if sealed.build_command("./a").output().map_or(true, |ran| !ran.status.success()) {
            continue;
        }
        for backend in backends() {
            for process in ["gate", "agent"] {
                let ran = run_as(&sealed, backend, process, "./a");
                assert_eq!(ran.code, Some(0), "{backend} {sanitizer}: {}", ran.stderr);
            }
        }
    }
    let program = "import time; x = b\"x\" * (700 << 20); print(len(x)); time.sleep(60)";
    for (memory, backend) in backends().map(|it| ("\"300M\"", it)).chain([("0", "native")]) {
        let sealed = sealed();
        sealed.write_file(
            ".ralph/settings.json",
            &format!(r#"{{"sandbox": {{"limits": {{"memory": {memory}}}}}}}"#),
        );
        sealed.run_ralph(&["trust"]).expect_code(0);
        let program = if memory == "0" { program.replace("60", "0") } else { program.to_owned() };
        sealed.write_file("big.py", &program);
        let ran = run_as(&sealed, backend, "gate", "exec /usr/bin/python3 big.py");
        if memory == "0" {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        } else {
            assert_eq!(ran.code, Some(137), "{backend}: {}{}", ran.stdout, ran.stderr);
            assert!(
                ran.stderr.contains("`sandbox.limits.memory` is the limit") || is_root(),
                "{backend}: {}",
                ran.stderr
            );
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_part_of_a_repository_writes_its_ignored_build_outputs_and_nothing_else() {
    for backend in backends() {
        let sealed = repository();
        sealed
            .write_file("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n");
        sealed
            .write_file("crates/app/Cargo.toml", "[package]\nname = \"app\"\nedition = \"2021\"\n");
        sealed.write_file("crates/app/src/lib.rs", "");
        sealed.write_file(".gitignore", "target/\nbuild/\n.vscode/\n");
        sealed.write_file("build/old", "x");
        sealed.write_file("dist/tracked", "x");
        sealed.write_file(".vscode/tasks.json", "{}");
        sealed.commit_all("Workspace");
        let script = "mkdir -p ../../target/debug && echo x > ../../target/debug/.cargo-lock && \
                      echo x > ../../build/new || exit 9; \
                      for it in Cargo.toml other dist/tracked .vscode/tasks.json .git/config; do \
                      { echo x >> ../../$it; } 2>/dev/null && echo wrote $it; done; true";
        for process in ["gate", "agent"] {
            let ran =
                run_in(&sealed, &sealed.project_dir().join("crates/app"), backend, process, script);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{backend}: {}", ran.stderr);
        }
        assert_eq!(sealed.read_file("target/debug/.cargo-lock"), "x\n");
        assert_eq!(sealed.run_git(&["status", "--short"]), "", "{backend}");
    }
}
