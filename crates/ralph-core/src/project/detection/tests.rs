//! Trees of files, and the commands found in them.

use super::*;

fn tree(files: &[(&str, &str)]) -> ProjectFiles {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    ProjectFiles { files: files.collect(), parent_files: BTreeSet::new() }
}

#[track_caller]
fn check(files: &[(&str, &str)], expect: &[&str]) {
    let found: Vec<String> = detect_checks(&tree(files)).into_iter().map(|it| it.command).collect();
    assert_eq!(found, expect, "{files:?}");
}

const SCRIPTS: &str = r#"{"scripts": {"test": "vitest run", "lint": "eslint .", "build": "x"}}"#;

#[test]
fn rust_go_and_elixir() {
    check(&[], &[]);
    check(&[("Cargo.toml", "[package]\nname = \"a\"\n")], &["cargo test"]);
    check(
        &[("Cargo.toml", "[workspace]\n[workspace.lints.clippy]\n"), ("rustfmt.toml", "")],
        &[
            "cargo test --workspace",
            "cargo clippy --workspace --all-targets",
            "cargo fmt --all --check",
        ],
    );
    check(&[("Cargo.toml", ""), (".config/nextest.toml", "")], &["cargo nextest run"]);
    check(&[("go.mod", "module a\n")], &["go test ./...", "go vet ./..."]);
    check(
        &[("go.mod", "module a\n"), (".golangci.yml", "")],
        &["go test ./...", "go vet ./...", "golangci-lint run"],
    );
    let all = "$(go list -m -f '{{.Dir}}/...')";
    check(
        &[("go.work", ""), ("a/go.mod", "")],
        &[&format!("go test {all}"), &format!("go vet {all}")],
    );
    check(&[("Cargo.toml", ""), ("go.mod", "")], &["cargo test", "go test ./...", "go vet ./..."]);
    check(
        &[("mix.exs", ""), (".formatter.exs", ""), (".credo.exs", "")],
        &["mix test", "mix format --check-formatted", "mix credo"],
    );
}

#[test]
fn cmake_and_meson() {
    let build = "cmake -S . -B build && cmake --build build";
    let tests = format!("{build} && ctest --test-dir build --output-on-failure");
    check(&[("CMakeLists.txt", "project(a)\n")], &[build]);
    check(&[("CMakeLists.txt", "project(a)\nenable_testing()\n")], &[&tests]);
    check(
        &[("meson.build", "")],
        &["{ test -d build || meson setup build; } && meson test -C build"],
    );
}

#[test]
fn autotools() {
    let build = "mkdir -p _build && echo '*' > _build/.gitignore && cd _build && { test -f Makefile || ../configure; } && make";
    let bootstrap = "{ test -x configure || autoreconf --install; } && ";
    let checked = format!("{build} check");
    let tested = format!("{build} test");
    let generated = format!("{bootstrap}{checked}");
    for (files, expect) in [
        (&[("configure.ac", ""), ("configure", ""), ("Makefile.am", "")][..], Some(&*checked)),
        (
            &[("configure.ac", ""), ("Makefile.am", ""), (".gitignore", "/configure\n")],
            Some(generated.as_str()),
        ),
        // What makes the script would be committed.
        (&[("configure.ac", ""), ("Makefile.am", "")], None),
        (&[("configure", ""), ("Makefile.in", "all:\ntest: all\n")], Some(tested.as_str())),
        (&[("configure", ""), ("Makefile.in", "all:\n")], Some(build)),
        (&[("configure", "")], None),
        // The project is configured already.
        (
            &[("configure.ac", ""), ("configure", ""), ("Makefile", "check: all\n")],
            Some("make check"),
        ),
    ] {
        check(files, expect.as_slice());
    }
    let both = [("CMakeLists.txt", ""), ("configure", ""), ("Makefile.in", "check:\n")];
    check(&both, &["cmake -S . -B build && cmake --build build"]);
}

#[test]
fn node_by_its_package_manager() {
    check(&[("package.json", SCRIPTS)], &["npm run test", "npm run lint"]);
    for (lock, runner) in [
        ("package-lock.json", "npm"),
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
    ] {
        let expect = [format!("{runner} run test"), format!("{runner} run lint")];
        check(&[("package.json", SCRIPTS), (lock, "")], &expect.each_ref().map(String::as_str));
    }
    let named = SCRIPTS.replacen('{', r#"{"packageManager": "pnpm@9.1.0", "#, 1);
    check(&[("package.json", &named), ("yarn.lock", "")], &["pnpm run test", "pnpm run lint"]);
    let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    check(&[("package.json", fresh)], &[]);
    check(&[("package.json", r#"{"scripts": {"test": "jest --watch"}}"#)], &[]);
    let for_ci = r#"{"scripts": {"test": "jest --watch", "test:ci": "jest"}}"#;
    check(&[("package.json", for_ci)], &["npm run test:ci"]);
    check(&[("package.json", "{ broken")], &[]);
    let typed = r#"{"scripts": {"test": "x"}, "devDependencies": {"typescript": "5"}}"#;
    check(&[("package.json", typed), ("tsconfig.json", "")], &["npm run test", "npx tsc --noEmit"]);
    let own = r#"{"scripts": {"check-types": "tsc"}, "devDependencies": {"typescript": "5"}}"#;
    check(&[("package.json", own), ("tsconfig.json", "")], &["npm run check-types"]);
}

#[test]
fn node_workspaces() {
    let root = r#"{"workspaces": ["packages/*"]}"#;
    let files = [("package.json", root), ("packages/a/package.json", SCRIPTS)];
    let npm = "npm run --workspaces --if-present";
    check(&files, &[&format!("{npm} test"), &format!("{npm} lint")]);
    let pnpm =
        [("package.json", "{}"), ("pnpm-workspace.yaml", ""), ("packages/a/package.json", SCRIPTS)];
    check(
        &pnpm,
        &["pnpm --recursive --if-present run test", "pnpm --recursive --if-present run lint"],
    );
    let turbo = r#"{"tasks": {"test": {}, "check-types": {}}}"#;
    check(
        &[("package.json", root), ("turbo.json", turbo), ("yarn.lock", "")],
        &["yarn run turbo run test", "yarn run turbo run check-types"],
    );
    // A package of a workspace is checked by itself, with the workspace's lock file.
    let mut package = tree(&[("package.json", SCRIPTS)]);
    package.parent_files.insert("pnpm-lock.yaml".to_owned());
    assert_eq!(detect_checks(&package)[0].command, "pnpm run test");
}

#[test]
fn deno_by_its_tasks() {
    check(&[("deno.jsonc", "{ // x\n}")], &["deno test", "deno lint", "deno check ."]);
    check(
        &[("deno.json", r#"{"tasks": {"test": "deno test -A"}}"#)],
        &["deno task test", "deno lint", "deno check ."],
    );
}

#[test]
fn python_tests_with_unittest() {
    let project = ("pyproject.toml", "[project]\nname = \"a\"\n");
    let tests = "import unittest\n\nfrom a import b\n";
    check(&[project, ("test_a.py", tests)], &["python3 -m unittest"]);
    let package = ("tests/__init__.py", "");
    check(&[project, ("tests/test_a.py", tests), package], &["python3 -m unittest"]);
    check(&[project, ("tests/test_a.py", tests)], &["python3 -m unittest discover -s tests"]);
    check(&[project, ("tests/test_a.py", "import pytest\n")], &[]);
    check(&[project, ("tests/test_a.py", tests), ("conftest.py", "")], &["pytest"]);
    check(&[project, ("tests/helper.py", tests)], &[]);
}

#[test]
fn python_by_what_its_files_mention() {
    let python = "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n";
    check(&[("pyproject.toml", python)], &["pytest", "ruff check .", "mypy ."]);
    check(
        &[("pyproject.toml", "[tool.pytest]\n[tool.ruff]\n"), ("uv.lock", "")],
        &["uv run pytest", "uv run ruff check ."],
    );
    check(&[("pyproject.toml", "[tool.pytest]\n"), ("poetry.lock", "")], &["poetry run pytest"]);
    check(&[("tox.ini", "[tox]\n[flake8]\n")], &["tox", "flake8"]);
    check(&[("setup.cfg", "[mypy]\n"), ("pytest.ini", "")], &["pytest", "mypy ."]);
    check(&[("noxfile.py", "")], &["nox"]);
    let tox = "[tox]\n[testenv]\ncommands = pytest\n";
    check(&[("tox.ini", tox)], &["tox"]);
    check(&[("tox.ini", tox), ("conftest.py", "")], &["pytest"]);
    let poetry = "[tool.poetry]\nname = \"a\"\n[tool.pytest.ini_options]\n";
    check(&[("pyproject.toml", poetry)], &["poetry run pytest"]);
    let venv = (".venv/bin/pytest", "");
    check(&[("pyproject.toml", python), venv], &[".venv/bin/pytest", "ruff check .", "mypy ."]);
    let settings = "[tool.ruff]\nfix = true\n[tool.mypy]\nfiles = [\"src\"]\n";
    check(&[("pyproject.toml", settings)], &["ruff check --no-fix .", "mypy"]);
    check(
        &[("ruff.toml", "fix=true\n"), ("mypy.ini", "[mypy]\npackages = a\n")],
        &["ruff check --no-fix .", "mypy"],
    );
    let others = "[tool.ruff]\nfix = false\n[tool.x]\nfix = true\nfiles = 1\n[tool.mypy]\n";
    check(&[("pyproject.toml", others)], &["ruff check .", "mypy ."]);
    check(&[("manage.py", ""), ("pyrightconfig.json", "")], &["python manage.py test", "pyright"]);
    check(&[("pyproject.toml", "[project]\n")], &[]);
}

#[test]
fn java_and_dotnet() {
    check(&[("pom.xml", "<project/>")], &["mvn --batch-mode test"]);
    check(
        &[("pom.xml", "spotless-maven-plugin"), ("mvnw", "")],
        &["./mvnw --batch-mode test", "./mvnw --batch-mode spotless:check"],
    );
    check(&[("build.gradle.kts", ""), ("gradlew", "")], &["./gradlew check"]);
    check(&[("build.gradle", "")], &["gradle check"]);
    check(
        &[("App.sln", ""), (".editorconfig", "")],
        &["dotnet test", "dotnet format --verify-no-changes"],
    );
    check(&[("App.fsproj", "")], &["dotnet test"]);
}

#[test]
fn ruby_and_php() {
    check(
        &[("Gemfile", "gem 'rspec-rails'"), (".rubocop.yml", "")],
        &["bundle exec rspec", "bundle exec rubocop"],
    );
    check(&[("Gemfile", ""), ("bin/rails", "")], &["bin/rails test"]);
    check(&[("Gemfile", ""), ("Rakefile", "Rake::TestTask.new")], &["bundle exec rake test"]);
    check(&[("Gemfile", "")], &[]);
    check(
        &[("composer.json", r#"{"scripts": {"test": "pest"}}"#), ("phpstan.neon", "")],
        &["composer run-script test", "vendor/bin/phpstan analyse"],
    );
    check(&[("composer.json", "{}"), ("phpunit.xml.dist", "")], &["vendor/bin/phpunit"]);
}

#[test]
fn a_makefile_or_justfile_has_priority() {
    let cargo = ("Cargo.toml", "[package]\n");
    check(&[cargo, ("Makefile", "test: build\n\tx\nlint :\n\ty\n")], &["make test", "make lint"]);
    check(&[cargo, ("Makefile", "test:\n\ncheck: test\n")], &["make check"]);
    check(
        &[cargo, ("Makefile", "test:\n\nlint:\n\ncheck:\n\t$(MAKE) lint test\n")],
        &["make check"],
    );
    check(&[cargo, ("Makefile", "test:\n\ncheck:\n\tshellcheck x\n")], &["make test"]);
    check(&[cargo, ("Makefile", "check:\n\tshellcheck x\n")], &["make check"]);
    check(&[cargo, ("Makefile", "test := 1\n.PHONY: test\n")], &["cargo test"]);
    check(&[cargo, ("justfile", "@test *args:\n  x\nlint:\n  y\n")], &["just test", "just lint"]);
    check(&[cargo, ("justfile", "test name:\n  x\ntest := 'x'\n")], &["cargo test"]);
}

#[test]
fn parts_are_checked_if_the_top_has_no_checks() {
    check(
        &[
            ("backend/Cargo.toml", ""),
            ("backend/x/Cargo.toml", ""),
            ("frontend/package.json", SCRIPTS),
        ],
        &["cd backend && cargo test", "cd frontend && npm run test", "cd frontend && npm run lint"],
    );
    check(&[("a b/go.mod", ""), (".hidden/go.mod", ""), ("x;rm/go.mod", "")], &[]);
    let found = detect_checks(&tree(&[("apps/web/package.json", SCRIPTS), ("yarn.lock", "")]));
    assert_eq!(found[0].command, "cd apps/web && yarn run test");
    assert_eq!(found[0].place, "apps/web/package.json");
    let many: Vec<String> = (0..9).map(|it| format!("part{it}/go.mod")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|it| (it.as_str(), "")).collect();
    assert_eq!(detect_checks(&tree(&many)).len(), 2 * MOST_PARTS);
}

#[test]
fn kinds_and_places_are_reported() {
    let found = detect_checks(&tree(&[("package.json", SCRIPTS), ("go.mod", "")]));
    let kinds_and_places: Vec<(GateKind, &str)> =
        found.iter().map(|it| (it.kind, it.place.as_str())).collect();
    let (test, lint) = (GateKind::Test, GateKind::Lint);
    assert_eq!(
        kinds_and_places,
        [(test, "package.json"), (lint, "package.json"), (test, "go.mod"), (lint, "go.mod")]
    );
}
