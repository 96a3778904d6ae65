//! Languages whose own tool runs tests and checks: Rust, Deno, Go, Java, .NET, Ruby, PHP, Elixir.
//! Node and Python projects choose among many tools and have modules of their own.

use serde_json::Value;

use super::{Directory, Found};

pub(super) fn rust(directory: &Directory<'_>) -> Vec<Found> {
    const NAME: &str = "Cargo.toml";
    let Some(manifest) = directory.text(NAME) else { return Vec::new() };
    let is_workspace = manifest.lines().any(|line| line.trim() == "[workspace]");
    let all = if is_workspace { " --workspace" } else { "" };
    let test = if directory.has(".config/nextest.toml") {
        directory.test(format!("cargo nextest run{all}"), ".config/nextest.toml")
    } else {
        directory.test(format!("cargo test{all}"), NAME)
    };
    let has_lints = manifest.contains("lints]") || manifest.contains("lints.clippy]");
    let lints =
        if has_lints { Some(NAME) } else { directory.first(&["clippy.toml", ".clippy.toml"]) };
    let clippy = lints.map(|name| directory.lint(format!("cargo clippy{all} --all-targets"), name));
    let format = directory.first(&["rustfmt.toml", ".rustfmt.toml"]);
    let format = format.map(|name| directory.lint("cargo fmt --all --check", name));
    [Some(test), clippy, format].into_iter().flatten().collect()
}

pub(super) fn deno(directory: &Directory<'_>) -> Vec<Found> {
    let Some(name) = directory.first(&["deno.json", "deno.jsonc"]) else { return Vec::new() };
    // With comments the text is not JSON; then the usual commands are used.
    let text = directory.text(name).unwrap_or_default();
    let manifest: Value = serde_json::from_str(text).unwrap_or_default();
    let command = |task: &str, usual: &str| {
        if manifest["tasks"][task].is_null() {
            usual.to_owned()
        } else {
            format!("deno task {task}")
        }
    };
    vec![
        directory.test(command("test", "deno test"), name),
        directory.lint(command("lint", "deno lint"), name),
        directory.lint(command("check", "deno check ."), name),
    ]
}

pub(super) fn go(directory: &Directory<'_>) -> Vec<Found> {
    let Some(name) = directory.first(&["go.mod", "go.work"]) else { return Vec::new() };
    // A workspace without a module at its top needs the directories of its modules.
    let all = if name == "go.mod" { "./..." } else { "$(go list -m -f '{{.Dir}}/...')" };
    let settings = [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];
    let linter = directory.first(&settings).filter(|_| name == "go.mod");
    let linter = linter.map(|name| directory.lint("golangci-lint run", name));
    let vet = directory.lint(format!("go vet {all}"), name);
    [Some(directory.test(format!("go test {all}"), name)), Some(vet), linter]
        .into_iter()
        .flatten()
        .collect()
}

pub(super) fn java(directory: &Directory<'_>) -> Vec<Found> {
    if let Some(name) = directory.first(&["build.gradle.kts", "build.gradle", "settings.gradle"]) {
        let program = if directory.has("gradlew") { "./gradlew" } else { "gradle" };
        // It runs the tests and every check that a plugin adds.
        return vec![directory.test(format!("{program} check"), name)];
    }
    let Some(manifest) = directory.text("pom.xml") else { return Vec::new() };
    let program = if directory.has("mvnw") { "./mvnw" } else { "mvn" };
    let goals = [
        ("spotless-maven-plugin", "spotless:check"),
        ("maven-checkstyle-plugin", "checkstyle:check"),
    ];
    let lints = goals.iter().filter(|(plugin, _)| manifest.contains(plugin));
    let lints =
        lints.map(|(_, goal)| directory.lint(format!("{program} --batch-mode {goal}"), "pom.xml"));
    let test = directory.test(format!("{program} --batch-mode test"), "pom.xml");
    std::iter::once(test).chain(lints).collect()
}

pub(super) fn dotnet(directory: &Directory<'_>) -> Vec<Found> {
    let solution = directory.ending_with(&[".sln", ".slnx"]);
    let project = || directory.ending_with(&[".csproj", ".fsproj", ".vbproj"]);
    let Some(name) = solution.or_else(project) else { return Vec::new() };
    let format = directory.first(&[".editorconfig"]);
    let format = format.map(|name| directory.lint("dotnet format --verify-no-changes", name));
    std::iter::once(directory.test("dotnet test", name)).chain(format).collect()
}

pub(super) fn ruby(directory: &Directory<'_>) -> Vec<Found> {
    let Some(gems) = directory.text("Gemfile") else { return Vec::new() };
    let rake = directory.text("Rakefile").unwrap_or_default();
    let test = if directory.has(".rspec") {
        Some(("bundle exec rspec", ".rspec"))
    } else if gems.contains("rspec") {
        Some(("bundle exec rspec", "Gemfile"))
    } else if directory.has("bin/rails") {
        Some(("bin/rails test", "bin/rails"))
    } else if rake.contains("TestTask") || rake.contains("task :test") {
        Some(("bundle exec rake test", "Rakefile"))
    } else {
        None
    };
    let cop = directory.first(&[".rubocop.yml", ".standard.yml"]).map(|name| {
        let program = if name == ".standard.yml" { "standardrb" } else { "rubocop" };
        directory.lint(format!("bundle exec {program}"), name)
    });
    test.map(|(command, name)| directory.test(command, name)).into_iter().chain(cop).collect()
}

pub(super) fn php(directory: &Directory<'_>) -> Vec<Found> {
    const NAME: &str = "composer.json";
    let Some(content) = directory.text(NAME) else { return Vec::new() };
    let manifest: Value = serde_json::from_str(content).unwrap_or_default();
    let script = |names: &[&str]| {
        let name = names.iter().find(|it| !manifest["scripts"][**it].is_null())?;
        Some((format!("composer run-script {name}"), NAME))
    };
    let tool = |files: &[&'static str], command: &str| {
        directory.first(files).map(|file| (command.to_owned(), file))
    };
    let test = script(&["test", "tests"])
        .or_else(|| tool(&["phpunit.xml", "phpunit.xml.dist"], "vendor/bin/phpunit"));
    let style = script(&["lint", "cs"]).or_else(|| {
        tool(&[".php-cs-fixer.php", ".php-cs-fixer.dist.php"], "vendor/bin/php-cs-fixer check")
    });
    let types = script(&["phpstan", "analyse", "analyze"])
        .or_else(|| tool(&["phpstan.neon", "phpstan.neon.dist"], "vendor/bin/phpstan analyse"));
    let test = test.map(|(command, name)| directory.test(command, name));
    let lints = style.into_iter().chain(types);
    test.into_iter().chain(lints.map(|(command, name)| directory.lint(command, name))).collect()
}

pub(super) fn elixir(directory: &Directory<'_>) -> Vec<Found> {
    if !directory.has("mix.exs") {
        return Vec::new();
    }
    let lint = |name: &str, command: &str| {
        directory.first(&[name]).map(|name| directory.lint(command, name))
    };
    let format = lint(".formatter.exs", "mix format --check-formatted");
    let credo = lint(".credo.exs", "mix credo");
    std::iter::once(directory.test("mix test", "mix.exs")).chain(format).chain(credo).collect()
}
