//! Rules on the supply chain: running unreviewed code, and publishing.

use std::path::{Path, PathBuf};

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::access::{AccessMode, find_accesses};
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::git::GitCall;
use crate::interpreter::{self, CodeAction};
use crate::lower::{RedirectMode, ShellCommand, ShellSource, Word, is_shell, parse_shell_source};
use crate::network::{find_addresses, is_local, is_numeric_host, parse_host};
use crate::{is_remote, normalize_lexically};

const LOOK: &str =
    "Download it, look at it, and use the project's package manager where there is one.";
const USER: &str = "Leave publishing to the user; say in your answer that it is due.";
const REGISTRY: &str = "Use the registry that the project is set up for.";

/// The hosts of the usual registries.
pub(super) const REGISTRIES: [&str; 17] = [
    "pypi.org",
    "files.pythonhosted.org",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "test.pypi.org",
    "download.pytorch.org",
    "npm.pkg.github.com",
    "proxy.golang.org",
    "rubygems.org",
    "crates.io",
    "index.crates.io",
    "packagist.org",
    "conda.anaconda.org",
    "api.nuget.org",
    "deno.land",
    "jsr.io",
    "luarocks.org",
];

/// Programs that download.
const FETCHERS: [&str; 19] = [
    "curl",
    "wget",
    "fetch",
    "aria2c",
    "http",
    "https",
    "xh",
    "lwp-request",
    "lwp-download",
    "GET",
    "nc",
    "ncat",
    "axel",
    "lynx",
    "w3m",
    "links",
    "elinks",
    "ftp",
    "curlie",
];

/// Programs that write a file with the name that an address ends with.
const SAVERS: [&str; 4] = ["wget", "aria2c", "axel", "lwp-download"];

/// Programs that pass on what they read.
const COPIERS: [&str; 15] = [
    "cp", "mv", "ln", "install", "cat", "tee", "dd", "sed", "tr", "head", "tail", "base64",
    "gunzip", "zcat", "openssl",
];

/// Programs that run or install the files among their operands.
const INSTALLERS: [&str; 14] = [
    "dpkg",
    "rpm",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "pip",
    "pip3",
    "npm",
    "gem",
    "java",
    "make",
    "installer",
    "msiexec",
];

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "supply.pipe-to-shell",
        GuardCategory::SupplyChain,
        "runs downloaded code that was not reviewed",
        LOOK,
        |it| {
            it.find_sources().iter().any(|command| is_remote_fetch(command)) && reads_program(it)
                || interpreter::find_inline_code(it.name(), it.command)
                    .is_some_and(|code| interpreter::does_action(&code, CodeAction::RunsDownload))
        },
    ),
    new_command_rule(
        "supply.download-and-run",
        GuardCategory::SupplyChain,
        "runs what the same command has just downloaded",
        LOOK,
        |it| {
            let runs = find_run_files(it);
            !runs.is_empty() && {
                let downloads = find_downloads(it);
                runs.iter().any(|run| {
                    downloads.iter().any(|(path, kind)| match kind {
                        Download::File => run == path,
                        Download::Directory => run.starts_with(path),
                    })
                })
            }
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

/// Returns whether a command downloads from another machine.
fn is_remote_fetch(command: &ShellCommand) -> bool {
    let addresses = find_addresses(command.name(), command.arguments());
    FETCHERS.contains(&command.name())
        && (addresses.is_empty() || addresses.iter().any(|at| !is_local(parse_host(at))))
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

/// What a download leaves on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Download {
    File,
    /// Everything below a directory: a clone, or an archive that was unpacked there.
    Directory,
}

/// Returns the files that a command runs or installs.
fn find_run_files(checked: &CheckedCommand<'_>) -> Vec<PathBuf> {
    let command = checked.command;
    let accesses = find_accesses(command).into_iter();
    let runs = accesses.filter(|access| access.mode == AccessMode::Execute);
    let mut files: Vec<PathBuf> = runs.map(|it| resolve(command, it.path.raw())).collect();
    let operands = checked.list_operands();
    if is_interpreter(checked.name()) {
        files.extend(operands.first().map(|script| resolve(command, script)));
        let read = command.redirects.iter().filter(|it| it.mode == RedirectMode::Read);
        files.extend(read.map(|it| resolve(command, it.path.raw())));
    } else if INSTALLERS.contains(&checked.name()) {
        files.extend(operands.iter().map(|file| resolve(command, file)));
    }
    files
}

/// Returns what the commands before one have downloaded, copied or not.
fn find_downloads(checked: &CheckedCommand<'_>) -> Vec<(PathBuf, Download)> {
    let mut found: Vec<(PathBuf, Download)> = Vec::new();
    if !checked.all.iter().any(|it| is_remote_fetch(it) || it.name() == "git") {
        return found;
    }
    let before = checked.all.iter().take_while(|it| !std::ptr::eq(*it, checked.command));
    for command in before {
        let earlier = CheckedCommand { command, ..*checked };
        let accesses = find_accesses(command);
        let is_known = |path: &Path| found.iter().any(|(at, _)| at == path);
        let copies = COPIERS.contains(&command.name())
            && accesses.iter().any(|access| {
                access.mode != AccessMode::Write && is_known(&resolve(command, access.path.raw()))
            });
        let fetches = is_remote_fetch(command);
        let is_fed = || {
            !command.fed_by.is_empty()
                && earlier.find_sources().iter().any(|it| is_remote_fetch(it))
        };
        let unpacks = matches!(command.name(), "tar" | "bsdtar" | "unzip" | "7z" | "cpio")
            && (is_fed()
                || accesses.iter().any(|it| is_known(&resolve(command, it.path.raw())))
                || command.arguments().iter().any(|it| is_known(&resolve(command, it.raw()))));
        if unpacks {
            let to =
                Arguments::new(command.arguments(), &[]).find_value(&["-C", "-d", "--directory"]);
            found.push((resolve(command, to.map_or(".", Word::raw)), Download::Directory));
        } else if fetches || copies || is_fed() {
            let written = accesses.iter().filter(|access| access.mode == AccessMode::Write);
            found.extend(written.map(|it| (resolve(command, it.path.raw()), Download::File)));
        }
        if fetches {
            found.extend(find_saved(command).into_iter().map(|path| (path, Download::File)));
        }
        found.extend(find_clone(command).map(|path| (path, Download::Directory)));
    }
    found
}

/// Returns the files that a command saves under the names that its addresses end with.
fn find_saved(command: &ShellCommand) -> Vec<PathBuf> {
    let words = command.arguments();
    let is_saved = SAVERS.contains(&command.name())
        || words.iter().any(|word| {
            let text = word.raw();
            matches!(text, "--remote-name" | "--download")
                || text.starts_with('-') && !text.starts_with("--") && text.contains('O')
        });
    let to = Arguments::new(words, &[]).find_value(&[
        "-P",
        "--directory-prefix",
        "--output-dir",
        "-d",
        "--dir",
    ]);
    let to = to.filter(|_| command.name() != "http").map_or(".", Word::raw);
    let found = find_addresses(command.name(), words);
    let names = found.iter().filter_map(|address| address.rsplit('/').next());
    let names = names.filter(|name| is_saved && !name.is_empty());
    names.map(|name| resolve(command, &format!("{to}/{name}"))).collect()
}

/// Returns the directory that a clone from another machine is in.
fn find_clone(command: &ShellCommand) -> Option<PathBuf> {
    let git = GitCall::new(command.arguments());
    let operands =
        Arguments::new(git.words, &["-b", "--branch", "--depth", "-c", "-o"]).find_operands();
    let from = operands.first()?.raw();
    let is_clone = command.name() == "git" && git.subcommand == "clone" && is_remote(operands[0]);
    let name = from.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let to = operands.get(1).map_or(name.trim_end_matches(".git"), |to| to.raw());
    (is_clone && !is_local(parse_host(from))).then(|| resolve(command, to))
}

/// Returns the path that a word of a command names.
fn resolve(command: &ShellCommand, path: &str) -> PathBuf {
    normalize_lexically(&Path::new(command.cwd.as_deref().unwrap_or(".")).join(path))
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
            verb == "push"
                || checked.has_word(&["--push"])
                || verb == "image" && checked.find_operand(1) == "push"
        }
        "helm" => verb == "push",
        name if name.starts_with("python") => {
            checked.has_word(&["twine"]) && checked.has_word(&["upload"])
        }
        _ => false,
    }
}

fn uses_other_registry(checked: &CheckedCommand<'_>) -> bool {
    let is_other = |address: &str| {
        let host = parse_host(address);
        address.contains('.') && !REGISTRIES.contains(&host) && !is_local(host)
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
        "--add-source",
        "--repository-url",
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
            "pip" | "pip3" | "npm" | "pnpm" | "yarn" | "uv" | "pipx" | "gem" | "poetry" | "bun"
            | "dotnet" | "composer" => by_flag() || configured(),
            "go" => {
                checked.find_operand(0) == "env"
                    && words.iter().any(|word| word.raw().starts_with("GOPROXY="))
            }
            name if name.starts_with("python") => checked.has_word(&["pip"]) && by_flag(),
            _ => false,
        }
}
