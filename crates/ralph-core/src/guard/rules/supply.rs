//! Rules on the supply chain: running unreviewed code, and publishing.

use super::{Act, Rule, command};
use crate::guard::access::{Mode, accesses};
use crate::guard::category::Category;
use crate::guard::lower::{Command, ShellWords, Word, is_shell, shell_code};
use crate::guard::network::{addresses, host, is_local, is_number};

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

pub(super) const RULES: &[Rule] = &[
    command(
        "supply.pipe-to-shell",
        Category::SupplyChain,
        "runs downloaded code that was not reviewed",
        LOOK,
        |it| is_fetched(it) && reads_program(it),
    ),
    command(
        "supply.download-and-run",
        Category::SupplyChain,
        "runs what the same command has just downloaded",
        LOOK,
        |it| {
            let runs =
                accesses(it.command).into_iter().filter(|access| access.mode == Mode::Execute);
            let mut names = runs.map(|access| plain(access.path.raw())).collect::<Vec<_>>();
            if is_interpreter(it.name()) {
                names.extend(it.operands().first().map(|script| plain(script)));
            }
            names.retain(|name| !name.is_empty());
            let mut before =
                it.all.iter().take_while(|command| !std::ptr::eq(*command, it.command));
            !names.is_empty()
                && before.any(|command| downloaded(command).iter().any(|it| names.contains(it)))
        },
    ),
    command("supply.publish", Category::SupplyChain, "publishes to a registry", USER, publishes),
    command(
        "supply.registry",
        Category::SupplyChain,
        "takes packages from another registry",
        REGISTRY,
        other_registry,
    ),
    command(
        "supply.untrusted-source",
        Category::SupplyChain,
        "installs from a bare IP address or without encryption",
        REGISTRY,
        |it| {
            let installs = match it.name() {
                "pip" | "pip3" | "pipx" | "uv" | "npm" | "pnpm" | "yarn" | "gem" | "cargo"
                | "go" | "bun" => true,
                name if name.starts_with("python") => it.has(&["pip"]),
                _ => false,
            };
            installs
                && it.operands().iter().any(|word| {
                    let address = word.trim_start_matches("git+");
                    address.contains("://")
                        && !is_local(host(address))
                        && (address.starts_with("http://") || is_number(host(address)))
                })
        },
    ),
];

fn is_fetched(checked: &Act<'_>) -> bool {
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
fn reads_program(checked: &Act<'_>) -> bool {
    let is_stream =
        |word: &str| word == "-" || word.starts_with("/dev/fd/") || word == "/dev/stdin";
    let name = checked.name();
    if is_shell(name) {
        return match shell_code(checked.words()) {
            ShellWords::Input => true,
            ShellWords::Code(code, _) => !code.is_known(),
            ShellWords::Script(script, _) => is_stream(script.raw()),
        };
    }
    if matches!(name, "eval") {
        return true;
    }
    if matches!(name, "source" | ".") {
        return checked.operands().first().is_some_and(|word| is_stream(word));
    }
    is_interpreter(name)
        && (checked.words().is_empty()
            || checked.words().first().is_some_and(|word| is_stream(word.raw()))
            || checked.has(&["-c", "-e"]) && checked.words().iter().any(|word| !word.is_known()))
}

/// Returns the files that a command downloads.
fn downloaded(command: &Command) -> Vec<String> {
    if !FETCHERS.contains(&command.name()) {
        return Vec::new();
    }
    let written = accesses(command).into_iter().filter(|access| access.mode == Mode::Write);
    let mut files: Vec<String> = written.map(|access| plain(access.path.raw())).collect();
    let by_address = command.name() == "wget"
        || command.arguments().iter().any(|word| {
            let text = word.raw();
            text == "--remote-name"
                || text.starts_with('-') && !text.starts_with("--") && text.contains('O')
        });
    if by_address {
        let found = addresses(command.name(), command.arguments());
        let names = found.iter().filter_map(|address| address.rsplit('/').next());
        files.extend(names.filter(|name| !name.is_empty()).map(plain));
    }
    files
}

fn plain(path: &str) -> String {
    path.trim_start_matches("./").to_owned()
}

fn publishes(checked: &Act<'_>) -> bool {
    if checked.has(&["--dry-run", "-n", "--help"]) {
        return false;
    }
    let verb = checked.operand(0);
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
            ) || verb == "npm" && checked.operand(1) == "publish"
        }
        "cargo" => matches!(verb, "publish" | "yank" | "owner" | "login"),
        "twine" => verb == "upload",
        "poetry" | "uv" | "flit" | "hatch" | "pdm" | "lerna" | "vsce" | "ovsx" => verb == "publish",
        "gem" => matches!(verb, "push" | "yank" | "owner"),
        "mvn" | "mvnw" => checked.operands().contains(&"deploy"),
        "gradle" | "gradlew" => checked.operands().iter().any(|task| task.starts_with("publish")),
        "dotnet" => verb == "nuget" && checked.operand(1) == "push",
        "docker" | "podman" | "buildah" => {
            verb == "push" || verb == "image" && checked.operand(1) == "push"
        }
        "helm" => verb == "push",
        name if name.starts_with("python") => checked.has(&["twine"]) && checked.has(&["upload"]),
        _ => false,
    }
}

fn other_registry(checked: &Act<'_>) -> bool {
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
        let host = host(address);
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
    let by_variable = checked.set(&variables).iter().any(|value| is_other(value.raw()));
    let words = checked.words();
    let by_flag = || checked.arguments().texts(&flags).iter().any(|value| is_other(value));
    let configured = || {
        matches!(checked.operand(0), "config" | "set")
            && checked.operands().contains(&"set") | (checked.operand(0) == "set")
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
                checked.operand(0) == "env"
                    && words.iter().any(|word| word.raw().starts_with("GOPROXY="))
            }
            name if name.starts_with("python") => checked.has(&["pip"]) && by_flag(),
            _ => false,
        }
}
