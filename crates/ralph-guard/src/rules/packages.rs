//! The rule on packages that are run or installed from an address instead of a registry.

use super::supply::REGISTRIES;
use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::lower::Word;
use crate::network::{is_local, parse_host};

pub(super) const RULES: &[GuardRule] = &[new_command_rule(
    "supply.remote-package",
    GuardCategory::SupplyChain,
    "takes a package from an address instead of a registry",
    "Use a package of the registry that the project is set up for.",
    takes_remote_package,
)];

/// What a tool does with a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackageUse {
    /// Runs it at once. Its first operand is the package, the others are arguments.
    Run,
    /// The same; `user/name` is a repository on a forge.
    RunNode,
    /// Installs all operands.
    Install,
    /// Builds a module of Go, whose name begins with a host.
    Module,
}

/// Programs, their subcommands (none: all of them), and what they do with packages.
#[rustfmt::skip]
const TOOLS: [(&[&str], &[&str], PackageUse); 15] = [
    (&["npx", "bunx", "pnpx"], &[], PackageUse::RunNode),
    (&["npm"], &["exec", "x", "create", "init"], PackageUse::RunNode),
    (&["pnpm", "yarn"], &["dlx", "create"], PackageUse::RunNode),
    (&["bun"], &["x", "create"], PackageUse::RunNode),
    (&["bun"], &["run"], PackageUse::Run),
    (&["uvx", "tsx", "ts-node", "jbang", "scala-cli", "groovy"], &[], PackageUse::Run),
    (&["uv", "pipx", "gem"], &["run", "exec"], PackageUse::Run),
    (&["deno"], &["run", "install", "serve", "test", "compile", "cache", "x"], PackageUse::Run),
    (&["nix"], &["run", "shell", "develop", "build", "profile"], PackageUse::Run),
    (&["go"], &["run", "install"], PackageUse::Module),
    (&["npm", "pnpm", "yarn", "bun"], &["install", "i", "add", "global"], PackageUse::Install),
    (&["pip", "pip3", "uv", "pipx", "poetry", "pdm", "pipenv", "rye"],
        &["install", "add", "pip", "tool", "inject", "download", "wheel"], PackageUse::Install),
    (&["cargo", "gem", "cpanm", "luarocks", "composer", "brew", "conda", "mamba", "opam"],
        &["install", "add", "binstall", "require", "pin", "tap"], PackageUse::Install),
    (&["nix-shell", "nix-env", "nix-build"], &[], PackageUse::Install),
    (&["deno", "bun", "node"], &[], PackageUse::Run),
];

/// Flags of runners that name a package.
const PACKAGE_FLAGS: [&str; 5] = ["-p", "--package", "--from", "--with", "--spec"];

/// Flags of runners that take the next word.
const VALUES: [&str; 20] = [
    "-p",
    "--package",
    "--from",
    "--with",
    "--spec",
    "--python",
    "--directory",
    "--project",
    "--prefix",
    "-w",
    "--workspace",
    "-C",
    "--cwd",
    "--extra",
    "--group",
    "-c",
    "--config",
    "--env-file",
    "--call",
    "-n",
];

/// Hosts where every user can have repositories. Installing from them is usual, running a package
/// at once is not.
const FORGES: [&str; 5] =
    ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "codeload.github.com"];

/// Hosts of modules of Go.
const MODULE_HOSTS: [&str; 15] = [
    "golang.org",
    "google.golang.org",
    "go.dev",
    "gopkg.in",
    "go.uber.org",
    "k8s.io",
    "sigs.k8s.io",
    "honnef.co",
    "mvdan.cc",
    "gotest.tools",
    "cuelang.org",
    "connectrpc.com",
    "entgo.io",
    "github.com",
    "gitlab.com",
];

/// Where a package comes from.
#[derive(Debug, PartialEq, Eq)]
enum PackageSource<'a> {
    Registry,
    /// A repository on a forge, in short form.
    Forge,
    Host(&'a str),
}

fn takes_remote_package(checked: &CheckedCommand<'_>) -> bool {
    let words = checked.words();
    // `python -m pip install ...` and `uv tool run ...`.
    let (name, words) = match words {
        [first, module, rest @ ..]
            if first.raw() == "-m" && checked.name().starts_with("python") =>
        {
            (module.raw(), rest)
        }
        [tool, rest @ ..] if checked.name() == "uv" && tool.raw() == "tool" => ("uv", rest),
        all => (checked.name(), all),
    };
    let verb = Arguments::new(words, &VALUES).find_operands().first().map_or("", |it| it.raw());
    let tool = TOOLS.iter().find(|(names, verbs, _)| {
        names.contains(&name) && (verbs.is_empty() || verbs.contains(&verb))
    });
    let Some((_, verbs, package_use)) = tool else { return false };
    let at = words.iter().position(|word| !verbs.is_empty() && word.raw() == verb);
    let rest = at.map_or(words, |at| &words[at + 1..]);
    let arguments = Arguments::new(rest, &VALUES);
    let first = arguments.find_operands().first().map_or("", |it| it.raw());
    match package_use {
        PackageUse::Run | PackageUse::RunNode => {
            let named = arguments.find_flag_values(&PACKAGE_FLAGS);
            let is_short = *package_use == PackageUse::RunNode
                && first.matches('/').count() == 1
                && !first.starts_with(['@', '.', '/', '~']);
            is_short
                || named.iter().map(String::as_str).chain([first]).any(|text| {
                    match parse_source(text) {
                        PackageSource::Registry => false,
                        PackageSource::Forge => true,
                        PackageSource::Host(host) => !is_local(host) && !REGISTRIES.contains(&host),
                    }
                })
        }
        PackageUse::Install => rest.iter().map(Word::raw).any(|text| match parse_source(text) {
            PackageSource::Registry | PackageSource::Forge => false,
            PackageSource::Host(host) => {
                !is_local(host) && !REGISTRIES.contains(&host) && !FORGES.contains(&host)
            }
        }),
        PackageUse::Module => first.split_once('@').is_some_and(|(module, _)| {
            let host = module.split('/').next().unwrap_or_default();
            host.contains('.') && !MODULE_HOSTS.contains(&host) && !FORGES.contains(&host)
        }),
    }
}

/// Returns where a package comes from; it may have a name and `@` in front.
fn parse_source(text: &str) -> PackageSource<'_> {
    const SHORT: [&str; 5] = ["github:", "gitlab:", "bitbucket:", "gist:", "sourcehut:"];
    let is_short = |it: &str| text.starts_with(it) || text.contains(&format!("@{it}"));
    if let Some(at) = text.find("://") {
        return PackageSource::Host(parse_host(&text[at + 3..]));
    }
    match text.strip_prefix("git@") {
        Some(rest) => PackageSource::Host(parse_host(rest)),
        None if SHORT.iter().any(|it| is_short(it)) => PackageSource::Forge,
        None => PackageSource::Registry,
    }
}
