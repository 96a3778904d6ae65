//! Languages whose own tool runs tests and checks: Rust, Deno, Go, Java, .NET, Ruby, PHP, Elixir, C.
//! Node and Python projects choose among many tools and have modules of their own.

use serde_json::Value;

use super::targets::is_target;
use super::{ProjectCheck, ProjectDirectory};

pub(super) fn detect_rust(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    const NAME: &str = "Cargo.toml";
    let Some(manifest) = directory.read_text(NAME) else { return Vec::new() };
    let is_workspace = manifest.lines().any(|line| line.trim() == "[workspace]");
    let all = if is_workspace { " --workspace" } else { "" };
    let test = if directory.has_file(".config/nextest.toml") {
        directory.new_test(format!("cargo nextest run{all}"), ".config/nextest.toml")
    } else {
        directory.new_test(format!("cargo test{all}"), NAME)
    };
    let has_lints = manifest.contains("lints]") || manifest.contains("lints.clippy]");
    let lints =
        if has_lints { Some(NAME) } else { directory.find_first(&["clippy.toml", ".clippy.toml"]) };
    let clippy =
        lints.map(|name| directory.new_lint(format!("cargo clippy{all} --all-targets"), name));
    let format = directory.find_first(&["rustfmt.toml", ".rustfmt.toml"]);
    let format = format.map(|name| directory.new_lint("cargo fmt --all --check", name));
    [Some(test), clippy, format].into_iter().flatten().collect()
}

pub(super) fn detect_deno(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let Some(name) = directory.find_first(&["deno.json", "deno.jsonc"]) else { return Vec::new() };
    // With comments the text is not JSON; then the usual commands are used.
    let text = directory.read_text(name).unwrap_or_default();
    let manifest: Value = serde_json::from_str(text).unwrap_or_default();
    let command = |task: &str, usual: &str| {
        if manifest["tasks"][task].is_null() {
            usual.to_owned()
        } else {
            format!("deno task {task}")
        }
    };
    vec![
        directory.new_test(command("test", "deno test"), name),
        directory.new_lint(command("lint", "deno lint"), name),
        directory.new_lint(command("check", "deno check ."), name),
    ]
}

pub(super) fn detect_go(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let Some(name) = directory.find_first(&["go.mod", "go.work"]) else { return Vec::new() };
    // A workspace without a module at its top needs the directories of its modules.
    let all = if name == "go.mod" { "./..." } else { "$(go list -m -f '{{.Dir}}/...')" };
    let settings = [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];
    let linter = directory.find_first(&settings).filter(|_| name == "go.mod");
    let linter = linter.map(|name| directory.new_lint("golangci-lint run", name));
    let vet = directory.new_lint(format!("go vet {all}"), name);
    [Some(directory.new_test(format!("go test {all}"), name)), Some(vet), linter]
        .into_iter()
        .flatten()
        .collect()
}

/// Tests of `CMake`, built in `build`; without tests, only the build.
pub(super) fn detect_cmake(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    const NAME: &str = "CMakeLists.txt";
    let Some(text) = directory.read_text(NAME) else { return Vec::new() };
    let build = "cmake -S . -B build && cmake --build build";
    let text = text.to_lowercase();
    let has_tests = text.contains("enable_testing") || text.contains("include(ctest)");
    let tests = if has_tests { " && ctest --test-dir build --output-on-failure" } else { "" };
    vec![directory.new_test(format!("{build}{tests}"), NAME)]
}

pub(super) fn detect_meson(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let name = directory.find_first(&["meson.build"]);
    let test = "{ test -d build || meson setup build; } && meson test -C build";
    name.map(|name| directory.new_test(test, name)).into_iter().collect()
}

/// Tests of a project with a `configure` script that is not configured: in a directory that git
/// ignores, because the script writes many files.
pub(super) fn detect_autotools(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let Some(name) = directory.find_first(&["configure.ac", "configure.in", "configure"]) else {
        return Vec::new();
    };
    let template = directory.read_text("Makefile.in");
    let makes_checks = directory.has_file("Makefile.am");
    let has_target =
        |name: &str| template.is_some_and(|text| text.lines().any(|line| is_target(line, name)));
    let target = match ["check", "test"].into_iter().find(|target| has_target(target)) {
        Some(target) => format!("make {target}"),
        None if makes_checks => "make check".to_owned(),
        None if template.is_some() => "make".to_owned(),
        None => return Vec::new(),
    };
    // Without the script, git must ignore what makes it, or it would be committed.
    let ignored = directory.read_text(".gitignore").unwrap_or_default();
    let is_ignored = ignored.lines().any(|it| it.trim().trim_start_matches('/') == "configure");
    let bootstrap = match (name, is_ignored, directory.has_file("configure")) {
        ("configure.ac" | "configure.in", true, _) => {
            "{ test -x configure || autoreconf --install; } && "
        }
        (_, _, true) => "",
        (_, _, false) => return Vec::new(),
    };
    let command = format!(
        "{bootstrap}mkdir -p _build && echo '*' > _build/.gitignore && cd _build && \
         {{ test -f Makefile || ../configure; }} && {target}"
    );
    vec![directory.new_test(command, name)]
}

pub(super) fn detect_java(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    if let Some(name) =
        directory.find_first(&["build.gradle.kts", "build.gradle", "settings.gradle"])
    {
        let program = if directory.has_file("gradlew") { "./gradlew" } else { "gradle" };
        // It runs the tests and every check that a plugin adds.
        return vec![directory.new_test(format!("{program} check"), name)];
    }
    let Some(manifest) = directory.read_text("pom.xml") else { return Vec::new() };
    let program = if directory.has_file("mvnw") { "./mvnw" } else { "mvn" };
    let goals = [
        ("spotless-maven-plugin", "spotless:check"),
        ("maven-checkstyle-plugin", "checkstyle:check"),
    ];
    let lints = goals.iter().filter(|(plugin, _)| manifest.contains(plugin));
    let lints = lints
        .map(|(_, goal)| directory.new_lint(format!("{program} --batch-mode {goal}"), "pom.xml"));
    let test = directory.new_test(format!("{program} --batch-mode test"), "pom.xml");
    std::iter::once(test).chain(lints).collect()
}

pub(super) fn detect_dotnet(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let solution = directory.find_by_ending(&[".sln", ".slnx"]);
    let project = || directory.find_by_ending(&[".csproj", ".fsproj", ".vbproj"]);
    let Some(name) = solution.or_else(project) else { return Vec::new() };
    let format = directory.find_first(&[".editorconfig"]);
    let format = format.map(|name| directory.new_lint("dotnet format --verify-no-changes", name));
    std::iter::once(directory.new_test("dotnet test", name)).chain(format).collect()
}

pub(super) fn detect_ruby(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    let Some(gems) = directory.read_text("Gemfile") else { return Vec::new() };
    let rake = directory.read_text("Rakefile").unwrap_or_default();
    let test = if directory.has_file(".rspec") {
        Some(("bundle exec rspec", ".rspec"))
    } else if gems.contains("rspec") {
        Some(("bundle exec rspec", "Gemfile"))
    } else if directory.has_file("bin/rails") {
        Some(("bin/rails test", "bin/rails"))
    } else if rake.contains("TestTask") || rake.contains("task :test") {
        Some(("bundle exec rake test", "Rakefile"))
    } else {
        None
    };
    let cop = directory.find_first(&[".rubocop.yml", ".standard.yml"]).map(|name| {
        let program = if name == ".standard.yml" { "standardrb" } else { "rubocop" };
        directory.new_lint(format!("bundle exec {program}"), name)
    });
    test.map(|(command, name)| directory.new_test(command, name)).into_iter().chain(cop).collect()
}

pub(super) fn detect_php(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    const NAME: &str = "composer.json";
    let Some(content) = directory.read_text(NAME) else { return Vec::new() };
    let manifest: Value = serde_json::from_str(content).unwrap_or_default();
    let script = |names: &[&str]| {
        let name = names.iter().find(|it| !manifest["scripts"][**it].is_null())?;
        Some((format!("composer run-script {name}"), NAME))
    };
    let tool = |files: &[&'static str], command: &str| {
        directory.find_first(files).map(|file| (command.to_owned(), file))
    };
    let test = script(&["test", "tests"])
        .or_else(|| tool(&["phpunit.xml", "phpunit.xml.dist"], "vendor/bin/phpunit"));
    let style = script(&["lint", "cs"]).or_else(|| {
        tool(&[".php-cs-fixer.php", ".php-cs-fixer.dist.php"], "vendor/bin/php-cs-fixer check")
    });
    let types = script(&["phpstan", "analyse", "analyze"])
        .or_else(|| tool(&["phpstan.neon", "phpstan.neon.dist"], "vendor/bin/phpstan analyse"));
    let test = test.map(|(command, name)| directory.new_test(command, name));
    let lints = style.into_iter().chain(types);
    test.into_iter().chain(lints.map(|(command, name)| directory.new_lint(command, name))).collect()
}

pub(super) fn detect_elixir(directory: &ProjectDirectory<'_>) -> Vec<ProjectCheck> {
    if !directory.has_file("mix.exs") {
        return Vec::new();
    }
    let lint = |name: &str, command: &str| {
        directory.find_first(&[name]).map(|name| directory.new_lint(command, name))
    };
    let format = lint(".formatter.exs", "mix format --check-formatted");
    let credo = lint(".credo.exs", "mix credo");
    std::iter::once(directory.new_test("mix test", "mix.exs")).chain(format).chain(credo).collect()
}
