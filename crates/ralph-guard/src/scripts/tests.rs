//! Tests of the scripts found in gate commands, one line each.

use super::*;

/// Returns the scripts of a command, relative to the project directory.
fn scripts(command: &str) -> Vec<String> {
    let start =
        ShellState { cwd: "/p".into(), home: Some("/home/dev".into()), ..ShellState::default() };
    let below = |path: &Path| path.strip_prefix("/p").ok().map(|it| it.display().to_string());
    let name = |place: ScriptLocation| match place {
        ScriptLocation::File(path) => below(&path),
        ScriptLocation::Matching { directory, pattern } => {
            let pattern = pattern.as_str().to_owned();
            below(&directory).map(|it| format!("{it}:{pattern}"))
        }
    };
    find_scripts(command, &start).into_iter().filter_map(name).collect()
}

#[test]
fn a_script_is_found_in_every_spelling() {
    let missed: Vec<&str> = [
        "./check.sh",
        "(cd web && true) && ./check.sh",
        "/bin/sh check.sh",
        "/usr/bin/env bash check.sh",
        "bash -o pipefail check.sh",
        "bash -euo pipefail check.sh --all",
        "CI=1 bash -eu check.sh --all",
        "timeout -s KILL 60 ./check.sh",
        "timeout -k 5s 10m sh -e ./check.sh",
        "env -u X ./check.sh",
        "env X=1 ./check.sh",
        "flock L ./check.sh",
        "nice -n 5 ./check.sh",
        "sh < check.sh",
        "cat check.sh | sh",
        "cat check.sh | tr a a | bash -s x",
        "{ sh; } < check.sh",
        "bash <(cat check.sh)",
        ". <(cat check.sh)",
        "sh -c \"$(cat check.sh)\"",
        "eval \"$(cat check.sh)\"",
        "pushd ci && ../check.sh",
        "cd web && cd - && ./check.sh",
        "cd web; cd ..; ./check.sh",
        "'./check.sh'",
        "S=./check.sh; $S",
        "\"$PWD/check.sh\"",
        "$ROOT/check.sh",
        "for it in ./check.sh; do $it; done",
        "echo check.sh | xargs sh",
        "echo ./check.sh | xargs -I{} sh -c {}",
        "setarch x86_64 ./check.sh",
        "setarch -R ./check.sh",
        "xvfb-run -a ./check.sh",
        "bash -lc \"exec ./check.sh\"",
        "test \"$(./check.sh)\" = ok",
        ". ./check.sh",
        "source check.sh && cargo test",
        "! ./check.sh",
        "if ./check.sh; then true; else exit 1; fi",
        "uv run bash check.sh",
        "uv run --python 3.12 ./check.sh",
        "mise exec -- ./check.sh",
        "poetry run timeout 5 ./check.sh",
        "npx -c ./check.sh",
        "npx --yes tsx -r ./check.sh x.ts",
        "pnpm exec ./check.sh",
        "concurrently ./check.sh 'npm:lint'",
        "kcov out ./check.sh",
        "direnv exec . bash -c 'true; ./check.sh'",
        "trap ./check.sh EXIT",
        "find . -exec ./check.sh {} \\;",
        "BASH_ENV=check.sh bash -c true",
        "PATH=.:$PATH check.sh",
        "PATH=\"$PWD:$PATH\"; export PATH; check.sh",
        "export PATH=$ROOT/.:$PATH && check.sh",
        "env PATH=. check.sh",
        "direnv exec . ./check.sh",
        "conda run -n x ./check.sh",
        "dotenv -- ./check.sh",
    ]
    .into_iter()
    .filter(|command| !scripts(command).contains(&"check.sh".to_owned()))
    .collect();
    assert_eq!(missed, [""; 0]);
}

#[test]
fn scripts_of_interpreters_are_found() {
    for (command, expect) in [
        ("python3.11 check.py", &["check.py"] as &[&str]),
        ("export NODE_OPTIONS='--require ./s.js'; jest", &["s.js"]),
        ("/usr/bin/python3 check.py", &["check.py"]),
        ("python3 -W error check.py", &["check.py"]),
        ("python3 -m tools.check", &["tools/check.py"]),
        ("uv run python tools/a.py", &["tools/a.py"]),
        ("uv run a.py", &["a.py"]),
        ("uv run -m tools.check", &["tools/check.py"]),
        ("retry 3 make -f ci.mk", &["ci.mk"]),
        ("node -r ./s.js check.js", &["s.js", "check.js"]),
        ("node --require=./s.js check.js", &["s.js", "check.js"]),
        ("node -r ./s.js --test a.test.js", &["s.js"]),
        ("node tools/check", &["tools/check.js"]),
        ("ruby -r./x check.rb", &["x.rb", "check.rb"]),
        ("perl -Ilib check.pl", &["check.pl"]),
        ("php -f check.php", &["check.php"]),
        ("deno run -A check.ts", &["check.ts"]),
        ("awk -f check.awk data.txt", &["check.awk"]),
        ("make -f ci.mk", &["ci.mk"]),
        ("cat check.py | python3 -", &["check.py"]),
        ("python3 < check.py", &["check.py"]),
        ("'./my check.sh' x", &["my check.sh"]),
        ("cd sub && ./a", &["sub/a"]),
        ("pushd ci && ./check.sh", &["ci/check.sh"]),
        ("sh ci/*.sh", &["ci:/*.sh"]),
        ("for it in ci/*; do sh $it; done", &["ci:/*"]),
        ("find . -name check.sh -exec sh {} \\;", &[":check.sh"]),
        ("find ci -name '*.sh' -exec {} \\;", &["ci:*.sh"]),
        ("find ci -name '*.sh' | xargs -n1 bash", &["ci:*.sh"]),
        ("run-parts ci", &["ci:*"]),
        // Extra or missing words must not hide a script.
        ("./a && (", &["a"]),
    ] {
        let found = scripts(command);
        for path in expect {
            assert!(found.iter().any(|it| it == path), "{command}: {found:?}");
        }
    }
}

#[test]
fn checked_files_are_no_scripts() {
    for command in [
        "",
        "cargo test",
        "grep -q x src/main.rs",
        "make test",
        "npm run test -- a.test.js",
        "npm test -- a.test.js",
        "pytest tests/test_a.py",
        "pytest -c pytest.ini",
        "python3 -c 'print(1)' a.py",
        "node --test a.test.js",
        "ruby -Itest test/x.rb",
        "ruby -I lib:test test/x.rb",
        "deno test a.ts",
        "bundle exec rspec spec/a_spec.rb",
        "poetry run pytest tests/test_a.py",
        "shellcheck deploy.sh",
        "npx eslint lib/a.js",
        "npx prettier --check lib/a.js",
        "uv run ruff check lib/a.py",
        "eslint -c .eslintrc.js bin/cli.js",
        "gcc -c main.c",
        "cat data.json | python3 -c 'import sys'",
        "sh -c \"test $(cat VERSION) = 1\"",
        "awk '{ print }' data.txt",
        "sed -n 1p data.txt",
        "for it in tests/*.sh; do sh $it; done",
        "ls | xargs sh",
        "echo python3 a.py",
        "sh -n deploy.sh",
        "bash -n deploy.sh && node --check bin/cli.js",
        "ruby -c lib/a.rb; perl -wc a.pl; php -l index.php",
    ] {
        let named = ["pytest.py", "pytest/__main__.py", "pytest", "test", "rspec", "ruff"];
        let found: Vec<String> =
            scripts(command).into_iter().filter(|it| !named.contains(&it.as_str())).collect();
        assert_eq!(found, [""; 0], "{command}");
    }
}
