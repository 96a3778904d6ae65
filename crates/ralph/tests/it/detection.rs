//! What `ralph init --yes` detects in projects of every kind: the commands that check them, and the agent. Not
//! here: unusual trees, which the core tests cover.

use crate::{repository, sealed};

/// Files of a project, and the expected check commands, each with the file that it comes from.
type Row = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const NODE: &str = r#"{
  "name": "shop",
  "scripts": { "start": "node .", "test": "vitest run", "lint": "eslint .", "typecheck": "tsc" },
  "devDependencies": { "typescript": "^5", "vitest": "^3", "eslint": "^9" }
}"#;

const PYTHON: &str = r#"[project]
name = "shop"
version = "0.1.0"
dependencies = ["httpx"]

[dependency-groups]
dev = ["pytest", "ruff", "mypy"]

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.ruff]
line-length = 100

[tool.mypy]
strict = true
"#;

const PROJECTS: [Row; 22] = [
    (
        "rust",
        &[
            ("Cargo.toml", "[package]\nname = \"shop\"\n\n[lints.clippy]\npedantic = \"warn\"\n"),
            ("rustfmt.toml", "edition = \"2024\"\n"),
            ("src/main.rs", "fn main() {}\n"),
        ],
        &[
            "cargo test (Cargo.toml)",
            "cargo clippy --all-targets (Cargo.toml)",
            "cargo fmt --all --check (rustfmt.toml)",
        ],
    ),
    (
        "npm",
        &[("package.json", NODE), ("package-lock.json", "{}"), ("tsconfig.json", "{}")],
        &[
            "npm run test (package.json)",
            "npm run lint (package.json)",
            "npm run typecheck (package.json)",
        ],
    ),
    (
        "pnpm",
        &[("package.json", NODE), ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n")],
        &[
            "pnpm run test (package.json)",
            "pnpm run lint (package.json)",
            "pnpm run typecheck (package.json)",
        ],
    ),
    (
        "yarn",
        &[("package.json", NODE), ("yarn.lock", "# yarn lockfile v1\n")],
        &[
            "yarn run test (package.json)",
            "yarn run lint (package.json)",
            "yarn run typecheck (package.json)",
        ],
    ),
    (
        "bun",
        &[("package.json", NODE), ("bun.lock", "{}")],
        &[
            "bun run test (package.json)",
            "bun run lint (package.json)",
            "bun run typecheck (package.json)",
        ],
    ),
    (
        "python",
        &[("pyproject.toml", PYTHON), ("tests/test_shop.py", "def test_shop(): pass\n")],
        &["pytest (pyproject.toml)", "ruff check . (pyproject.toml)", "mypy . (pyproject.toml)"],
    ),
    (
        "python with files of its own for each tool",
        &[("pytest.ini", "[pytest]\n"), ("ruff.toml", ""), ("mypy.ini", "[mypy]\n")],
        &["pytest (pytest.ini)", "ruff check . (ruff.toml)", "mypy . (mypy.ini)"],
    ),
    (
        "uv",
        &[("pyproject.toml", PYTHON), ("uv.lock", "version = 1\n")],
        &[
            "uv run pytest (pyproject.toml)",
            "uv run ruff check . (pyproject.toml)",
            "uv run mypy . (pyproject.toml)",
        ],
    ),
    (
        "poetry",
        &[("pyproject.toml", PYTHON), ("poetry.lock", "")],
        &[
            "poetry run pytest (pyproject.toml)",
            "poetry run ruff check . (pyproject.toml)",
            "poetry run mypy . (pyproject.toml)",
        ],
    ),
    (
        "go",
        &[("go.mod", "module shop\n\ngo 1.25\n"), (".golangci.yml", "version: '2'\n")],
        &["go test ./... (go.mod)", "go vet ./... (go.mod)", "golangci-lint run (.golangci.yml)"],
    ),
    (
        "maven",
        &[("pom.xml", "<project><artifactId>shop</artifactId></project>"), ("mvnw", "#!/bin/sh\n")],
        &["./mvnw --batch-mode test (pom.xml)"],
    ),
    (
        "gradle",
        &[("build.gradle.kts", "plugins { kotlin(\"jvm\") }\n"), ("gradlew", "#!/bin/sh\n")],
        &["./gradlew check (build.gradle.kts)"],
    ),
    (
        "make, which has the last word",
        &[
            ("Makefile", ".PHONY: test lint\ntest:\n\tgo test ./...\nlint:\n\tgo vet ./...\n"),
            ("go.mod", "module shop\n"),
        ],
        &["make test (Makefile)", "make lint (Makefile)"],
    ),
    (
        "just",
        &[("justfile", "test *args:\n  cargo test {{args}}\n\nlint:\n  cargo clippy\n")],
        &["just test (justfile)", "just lint (justfile)"],
    ),
    (
        ".NET",
        &[("Shop.sln", ""), ("Shop/Shop.csproj", "<Project/>"), (".editorconfig", "root = true\n")],
        &["dotnet test (Shop.sln)", "dotnet format --verify-no-changes (.editorconfig)"],
    ),
    (
        "ruby",
        &[
            ("Gemfile", "source 'https://rubygems.org'\ngem 'rspec'\n"),
            (".rspec", "--color\n"),
            (".rubocop.yml", ""),
        ],
        &["bundle exec rspec (.rspec)", "bundle exec rubocop (.rubocop.yml)"],
    ),
    (
        "php",
        &[("composer.json", "{}"), ("phpunit.xml", "<phpunit/>"), ("phpstan.neon", "")],
        &["vendor/bin/phpunit (phpunit.xml)", "vendor/bin/phpstan analyse (phpstan.neon)"],
    ),
    (
        "elixir",
        &[("mix.exs", "defmodule Shop.MixProject do\nend\n"), (".formatter.exs", "[]\n")],
        &["mix test (mix.exs)", "mix format --check-formatted (.formatter.exs)"],
    ),
    (
        "a workspace of cargo",
        &[("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"), ("a/Cargo.toml", "[package]\n")],
        &["cargo test --workspace (Cargo.toml)"],
    ),
    (
        "a workspace of pnpm",
        &[
            ("package.json", "{ \"private\": true }"),
            ("pnpm-workspace.yaml", "packages: ['packages/*']\n"),
            ("packages/web/package.json", NODE),
        ],
        &[
            "pnpm --recursive --if-present run test (package.json)",
            "pnpm --recursive --if-present run lint (package.json)",
            "pnpm --recursive --if-present run typecheck (package.json)",
        ],
    ),
    (
        "parts in several languages",
        &[
            ("backend/go.mod", "module shop\n"),
            ("frontend/package.json", NODE),
            ("frontend/yarn.lock", ""),
            ("frontend/node_modules/x/package.json", NODE),
            ("tools/pyproject.toml", "[tool.pytest]\n"),
        ],
        &[
            "cd backend && go test ./... (backend/go.mod)",
            "cd backend && go vet ./... (backend/go.mod)",
            "cd frontend && yarn run test (frontend/package.json)",
            "cd frontend && yarn run lint (frontend/package.json)",
            "cd frontend && yarn run typecheck (frontend/package.json)",
            "cd tools && pytest (tools/pyproject.toml)",
        ],
    ),
    ("nothing that says how it is checked", &[("main.c", "int main(void) { return 0; }\n")], &[]),
];

#[test]
fn check_commands_are_detected_from_project_files() {
    for (what, files, expect) in PROJECTS {
        let sealed = sealed();
        for (path, text) in files {
            sealed.write_file(path, text);
        }
        let end = sealed.run_ralph(&["init", "--yes", "--dry-run"]).expect_code(0);
        let found = end.stdout.lines().filter_map(|line| line.strip_prefix("found   "));
        // Agents may be installed on this machine.
        let found: Vec<&str> = found.filter(|line| !line.contains(" as the agent (")).collect();
        assert_eq!(found, expect, "{what}");
        assert_eq!(end.stdout.matches("{ \"kind\": ").count(), expect.len(), "{}", end.stdout);
    }
}

#[test]
fn the_agent_can_be_named() {
    let sealed = repository();
    sealed.write_program("codex", "#!/bin/sh\necho 'codex-cli 0.139.0'\n");
    sealed.write_program("amp", "#!/bin/sh\nexit 1\n");
    let end = sealed.run_ralph(&["init", "--yes", "--agent", "gemini"]).expect_code(2);
    assert!(
        end.stderr.contains("no agent of this name is installed (found: codex, amp)"),
        "{end:?}"
    );
    assert!(!sealed.project_dir().join(".ralph").exists());
    let end = sealed.run_ralph(&["init", "--yes", "--agent", "amp"]).expect_code(0);
    assert!(end.stdout.contains("also installed: codex 0.139.0\n"), "{}", end.stdout);
    let settings = sealed.read_file(".ralph/settings.json");
    assert!(settings.contains(r#""agent": { "command": "amp" }"#), "{settings}");
    // Existing settings are kept, so that another name would change nothing.
    let end = sealed.run_ralph(&["init", "--yes", "--agent", "codex"]).expect_code(2);
    assert!(
        end.stderr.contains(r#"name the agent there: "agent": { "command": "codex" }"#),
        "{end:?}"
    );
    assert_eq!(sealed.read_file(".ralph/settings.json"), settings);
}
