//! Rules on the supply chain: running unreviewed code, and publishing.

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::access::{AccessMode, find_accesses};
use crate::category::GuardCategory;
use crate::lower::{ShellCommand, ShellSource, Word, is_shell, parse_shell_source};
use crate::network::{find_addresses, is_local, is_numeric_host, parse_host};

const LOOK: &str =
    "Download it, look at it, and use the project's package manager where there is one.";
const USER: &str = "Leave publishing to the user; say in your answer that it is due.";
const REGISTRY: &str = "Use the registry that the project is set up for.";

/// Programs that download.
const FETCHERS: [&str; 12] = [
    "curl",
    "wget",
    "fetch",
    "aria2c",
    "http",
    "https",
    "xh",
    "lwp-request",
    "GET",
    "nc",
    "ncat",
    "axel",
];

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "supply.pipe-to-shell",
        GuardCategory::SupplyChain,
        "runs downloaded code that was not reviewed",
        LOOK,
        |it| is_fetched(it) && reads_program(it),
    ),
    new_command_rule(
        "supply.download-and-run",
        GuardCategory::SupplyChain,
        "runs what the same command has just downloaded",
        LOOK,
        |it| {
            let runs = find_accesses(it.command)
                .into_iter()
                .filter(|access| access.mode == AccessMode::Execute);
            let mut names =
                runs.map(|access| strip_dot_slash(access.path.raw())).collect::<Vec<_>>();
            if is_interpreter(it.name()) {
                names.extend(it.list_operands().first().map(|script| strip_dot_slash(script)));
            }
            names.retain(|name| !name.is_empty());
            let mut before =
                it.all.iter().take_while(|command| !std::ptr::eq(*command, it.command));
            !names.is_empty()
                && before.any(|command| find_downloads(command).iter().any(|it| names.contains(it)))
        },
    ),
    new_command_rule(
        "supply.publish",
        GuardCategory::SupplyChain,
        "publishes to a registry",
        USER,
        publishes_package,
    ),
    new_command_rule(
        "supply.registry",
        GuardCategory::SupplyChain,
        "takes packages from another registry",
        REGISTRY,
        uses_other_registry,
    ),
    new_command_rule(
        "supply.untrusted-source",
        GuardCategory::SupplyChain,
        "installs from a bare IP address or without encryption",
        REGISTRY,
        |it| {
            let installs = match it.name() {
                "pip" | "pip3" | "pipx" | "uv" | "npm" | "pnpm" | "yarn" | "gem" | "cargo"
                | "go" | "bun" => true,
                name if name.starts_with("python") => it.has_word(&["pip"]),
                _ => false,
            };
            installs
                && it.list_operands().iter().any(|word| {
                    let address = word.trim_start_matches("git+");
                    address.contains("://")
                        && !is_local(parse_host(address))
                        && (address.starts_with("http://") || is_numeric_host(parse_host(address)))
                })
        },
    ),
];

fn is_fetched(checked: &CheckedCommand<'_>) -> bool {
    checked.is_fed_by(&FETCHERS)
}

fn is_interpreter(name: &str) -> bool {
    let base = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    matches!(
        base,
        "python" | "pypy" | "perl" | "ruby" | "node" | "nodejs" | "php" | "lua" | "deno" | "bun"
    ) || is_shell(name)
}

/// Returns whether a command runs what it reads.
fn reads_program(checked: &CheckedCommand<'_>) -> bool {
    let is_stream =
        |word: &str| word == "-" || word.starts_with("/dev/fd/") || word == "/dev/stdin";
    let name = checked.name();
    if is_shell(name) {
        return match parse_shell_source(checked.words()) {
            ShellSource::Input => true,
            ShellSource::Code(code, _) => !code.is_known(),
            ShellSource::Script(script, _) => is_stream(script.raw()),
        };
    }
    if matches!(name, "eval") {
        return true;
    }
    if matches!(name, "source" | ".") {
        return checked.list_operands().first().is_some_and(|word| is_stream(word));
    }
    is_interpreter(name)
        && (checked.words().is_empty()
            || checked.words().first().is_some_and(|word| is_stream(word.raw()))
            || checked.has_word(&["-c", "-e"])
                && checked.words().iter().any(|word| !word.is_known()))
}

/// Returns the files that a command downloads.
fn find_downloads(command: &ShellCommand) -> Vec<String> {
    if !FETCHERS.contains(&command.name()) {
        return Vec::new();
    }
    let written =
        find_accesses(command).into_iter().filter(|access| access.mode == AccessMode::Write);
    let mut files: Vec<String> = written.map(|access| strip_dot_slash(access.path.raw())).collect();
    let by_address = command.name() == "wget"
        || command.arguments().iter().any(|word| {
            let text = word.raw();
            text == "--remote-name"
                || text.starts_with('-') && !text.starts_with("--") && text.contains('O')
        });
    if by_address {
        let found = find_addresses(command.name(), command.arguments());
        let names = found.iter().filter_map(|address| address.rsplit('/').next());
        files.extend(names.filter(|name| !name.is_empty()).map(strip_dot_slash));
    }
    files
}

fn strip_dot_slash(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}

fn publishes_package(checked: &CheckedCommand<'_>) -> bool {
    if checked.has_word(&["--dry-run", "-n", "--help"]) {
        return false;
    }
    let verb = checked.find_operand(0);
    match checked.name() {
        "npm" | "pnpm" | "yarn" | "bun" => {
            matches!(
                verb,
                "publish"
                    | "unpublish"
                    | "deprecate"
                    | "owner"
                    | "access"
                    | "token"
                    | "login"
                    | "adduser"
                    | "dist-tag"
            ) || verb == "npm" && checked.find_operand(1) == "publish"
        }
        "cargo" => matches!(verb, "publish" | "yank" | "owner" | "login"),
        "twine" => verb == "upload",
        "poetry" | "uv" | "flit" | "hatch" | "pdm" | "lerna" | "vsce" | "ovsx" => verb == "publish",
        "gem" => matches!(verb, "push" | "yank" | "owner"),
        "mvn" | "mvnw" => checked.list_operands().contains(&"deploy"),
        "gradle" | "gradlew" => {
            checked.list_operands().iter().any(|task| task.starts_with("publish"))
        }
        "dotnet" => verb == "nuget" && checked.find_operand(1) == "push",
        "docker" | "podman" | "buildah" => {
            verb == "push" || verb == "image" && checked.find_operand(1) == "push"
        }
        "helm" => verb == "push",
        name if name.starts_with("python") => {
            checked.has_word(&["twine"]) && checked.has_word(&["upload"])
        }
        _ => false,
    }
}

fn uses_other_registry(checked: &CheckedCommand<'_>) -> bool {
    const USUAL: [&str; 8] = [
        "pypi.org",
        "files.pythonhosted.org",
        "registry.npmjs.org",
        "registry.yarnpkg.com",
        "test.pypi.org",
        "download.pytorch.org",
        "npm.pkg.github.com",
        "proxy.golang.org",
    ];
    let is_other = |address: &str| {
        let host = parse_host(address);
        address.contains('.') && !USUAL.contains(&host) && !is_local(host)
            || address.starts_with("http://") && !is_local(host)
    };
    let flags = [
        "--index-url",
        "-i",
        "--extra-index-url",
        "--registry",
        "--find-links",
        "--trusted-host",
        "--index",
        "--default-index",
        "--source",
    ];
    let variables = [
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "npm_config_registry",
        "NPM_CONFIG_REGISTRY",
        "GOPROXY",
        "UV_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "YARN_REGISTRY",
    ];
    let by_variable = checked.find_assigned(&variables).iter().any(|value| is_other(value.raw()));
    let words = checked.words();
    let by_flag =
        || checked.arguments().find_flag_values(&flags).iter().any(|value| is_other(value));
    let configured = || {
        matches!(checked.find_operand(0), "config" | "set")
            && checked.list_operands().contains(&"set") | (checked.find_operand(0) == "set")
            && words.iter().any(|word| {
                ["registry", "index-url", "proxy"].iter().any(|key| word.raw().contains(key))
            })
            && words
                .iter()
                .map(Word::raw)
                .any(|word| is_other(word.split_once('=').map_or(word, |(_, value)| value)))
    };
    by_variable
        || match checked.name() {
            "pip" | "pip3" | "npm" | "pnpm" | "yarn" | "uv" | "pipx" | "gem" | "poetry" | "bun" => {
                by_flag() || configured()
            }
            "go" => {
                checked.find_operand(0) == "env"
                    && words.iter().any(|word| word.raw().starts_with("GOPROXY="))
            }
            name if name.starts_with("python") => checked.has_word(&["pip"]) && by_flag(),
            _ => false,
        }
}
