//! Rules on secrets, and on variables that change what programs do.

use std::path::Path;

use super::network::is_secret_name;
use super::{CheckedCommand, CheckedPath, GuardRule, new_command_rule, new_path_rule};
use crate::access::AccessMode;
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::lower::{Redirect, RedirectMode, Word, has_marks, may_match};
use crate::network::{is_local, parse_host};
use crate::place::PathLocation;

const WITHOUT: &str = "Do without it; say in your answer what needs a secret.";

/// Paths in a home directory that contain secrets.
const SECRETS: [&str; 45] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".docker/config.json",
    ".kube",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".git-credentials",
    ".config/git/credentials",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".config/amp",
    ".local/share/amp/secrets.json",
    ".config/github-copilot",
    ".cursor/auth.json",
    ".local/share/keyrings",
    ".password-store",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".azure",
    ".config/op",
    ".vault-token",
    ".pgpass",
    ".my.cnf",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
    ".bash_history",
    ".zsh_history",
    ".terraform.d",
    ".config/doctl",
    ".config/heroku",
    ".config/rclone",
    ".config/ralph",
    ".s3cfg",
];

/// System files that contain secrets.
const SYSTEM: [&str; 9] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/ssl/private",
    "/var/run/secrets",
    "/run/secrets",
    "/proc/kcore",
    "/var/lib/docker",
    "/etc/krb5.keytab",
];

/// Names of files that contain secrets, wherever they are.
const KEY_NAMES: [&str; 6] =
    ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", ".git-credentials", ".netrc"];

/// Endings of names that files with keys have.
const KEY_ENDINGS: [&str; 7] = [".pem", ".key", ".p12", ".pfx", ".ppk", ".kdbx", "credentials"];

/// Files of `/proc` that show the environment or the memory of a process.
const PROCESS_FILES: [&str; 2] = ["environ", "mem"];

/// Variables that make programs load code.
const LOADING: [&str; 22] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "PERL5DB",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_PROXY_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_TEMPLATE_DIR",
    "LESSOPEN",
];

pub(super) const RULES: &[GuardRule] = &[
    new_path_rule(
        "cred.secret-files",
        GuardCategory::Credentials,
        "holds secrets",
        WITHOUT,
        |it| {
            reads_path(it)
                && (it.placed.places().iter().any(|place| is_secret(it, place))
                    || may_be_secret(it))
                || it.placed.mode == AccessMode::Remove
                    && it.checked_command.is_some_and(|checked| checked.is_program(&["mv"]))
                    && it.placed.places().iter().any(|place| is_secret(it, place))
        },
    ),
    new_path_rule(
        "cred.home",
        GuardCategory::Credentials,
        "contains secrets among other files",
        "Copy or search only what the work needs.",
        |it| {
            let home = it.context.home.as_deref().map(Path::new);
            it.placed.mode == AccessMode::ReadAll
                && home.is_some_and(|home| {
                    SECRETS.iter().any(|secret| it.placed.affects_root(&home.join(secret)))
                })
                && !it.placed.places().iter().any(|place| is_secret(it, place))
        },
    ),
    new_path_rule(
        "cred.env-file",
        GuardCategory::Credentials,
        "holds the project's secrets",
        "Look at `.env.example`, or ask for what you need in your answer.",
        |it| {
            matches!(it.placed.mode, AccessMode::Read)
                && it.placed.places().iter().any(|place| {
                    let name = place.file_name().map(|it| it.to_string_lossy().into_owned());
                    name.is_some_and(|name| is_env_file(&name))
                })
                || it.placed.mode == AccessMode::ReadAll
                    && it.placed.places().iter().any(|place| {
                        place.file_name().is_some_and(|name| is_env_file(&name.to_string_lossy()))
                    })
        },
    ),
    new_path_rule(
        "cred.process",
        GuardCategory::Credentials,
        "shows the environment of a process",
        WITHOUT,
        |it| reads_path(it) && shows_process(it),
    ),
    new_command_rule(
        "cred.process-list",
        GuardCategory::Credentials,
        "lists processes with their environment",
        "List them without it, as `ps aux` does.",
        |it| match it.name() {
            "ps" => lists_environment(it.words()),
            "pargs" => it.has_short_flag('e'),
            "procenv" => true,
            _ => false,
        },
    ),
    new_command_rule(
        "cred.store",
        GuardCategory::Credentials,
        "reads from a secret store",
        WITHOUT,
        reads_secret_store,
    ),
    new_command_rule("cred.print", GuardCategory::Credentials, "prints a secret", WITHOUT, |it| {
        let prints = is_output_shown(it);
        let named = it.command.variables.iter().any(|name| is_secret_name(name));
        match it.name() {
            "echo" | "printf" => prints && named && it.words().iter().any(|word| !word.is_known()),
            "printenv" => prints && it.list_operands().iter().any(|name| is_secret_name(name)),
            "grep" | "rg" | "egrep" => {
                let wanted = it.find_operand(0).to_ascii_lowercase();
                it.is_fed_by(&["env", "printenv", "set", "export", "declare", "typeset"])
                    && ["token", "secret", "key", "passw", "cred"]
                        .iter()
                        .any(|word| wanted.contains(word))
            }
            "node" | "bun" | "deno" | "python" | "python3" | "ruby" | "perl" | "php" => {
                let is_value_printed = it.has_short_flag('p') || it.has_word(&["--print"]);
                let mut words = it.words().iter();
                prints && words.any(|code| is_secret_printed(code.raw(), is_value_printed))
            }
            _ => false,
        }
    }),
    new_command_rule(
        "env.loader",
        GuardCategory::Environment,
        "makes other programs load code",
        "Run the program as it is.",
        |it| {
            it.command.assigns.iter().any(|(name, value)| {
                LOADING.contains(&name.as_str())
                    && !value.raw().is_empty()
                    && value.raw() != "/dev/null"
                    || is_loading_option(it, name, value.raw())
            })
        },
    ),
    new_command_rule(
        "env.path",
        GuardCategory::Environment,
        "puts a world-writable directory into the program search path",
        "Name the program by its path.",
        |it| {
            let has = |names: &[&str], is_bad: &dyn Fn(&str) -> bool| {
                it.find_assigned(names).iter().any(|value| value.raw().split(':').any(is_bad))
            };
            let is_shared = |part: &str| {
                let roots = ["/tmp", "/var/tmp", "/dev/shm"];
                roots.iter().any(|root| Path::new(part).starts_with(root)) || part.starts_with("..")
            };
            // Modules are looked up in the project by default.
            has(&["PATH", "LD_LIBRARY_PATH"], &|part| matches!(part, "." | "./") || is_shared(part))
                || has(&["PYTHONPATH", "NODE_PATH"], &is_shared)
        },
    ),
    new_command_rule(
        "env.trust",
        GuardCategory::Environment,
        "sends traffic through a proxy, or weakens certificate checks",
        "Leave proxies and certificates as the user has set them up.",
        |it| {
            let proxies = [
                "http_proxy",
                "https_proxy",
                "HTTP_PROXY",
                "HTTPS_PROXY",
                "ALL_PROXY",
                "all_proxy",
            ];
            let elsewhere = |value: &&Word| {
                !value.raw().is_empty() && value.is_known() && !is_local(parse_host(value.raw()))
            };
            it.find_assigned(&proxies).iter().any(elsewhere)
                || it
                    .find_assigned(&["NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY"])
                    .iter()
                    .any(|it| it.raw() == "0")
                || it
                    .find_assigned(&["GIT_SSL_NO_VERIFY"])
                    .iter()
                    .any(|it| !matches!(it.raw(), "0" | "false" | ""))
                || it.is_program(&["npm", "pnpm", "yarn"]) && accepts_any_certificate(it)
        },
    ),
];

/// Programs that pass on or keep the text that they read.
const FILTERS: [&str; 24] = [
    "cat", "tee", "rev", "base64", "base32", "xxd", "od", "hexdump", "head", "tail", "cut", "tr",
    "sed", "awk", "sort", "uniq", "fold", "fmt", "tac", "nl", "less", "more", "column", "sponge",
];

/// Returns whether the output of a command ends in the transcript or in a file.
fn is_output_shown(checked: &CheckedCommand<'_>) -> bool {
    let is_shown = match checked.command.feeds.as_deref() {
        None => true,
        Some(program) => FILTERS.contains(&program),
    };
    let is_dropped = |it: &Redirect| it.mode != RedirectMode::Read && it.path.raw() == "/dev/null";
    is_shown && !checked.command.redirects.iter().any(is_dropped)
}

/// Returns whether a package manager is set to trust any server.
fn accepts_any_certificate(checked: &CheckedCommand<'_>) -> bool {
    let words: Vec<&str> = checked.words().iter().map(Word::raw).collect();
    let is_key =
        |word: &str| matches!(word.trim_start_matches('-'), "strict-ssl" | "enableStrictSsl");
    words.windows(2).any(|pair| is_key(pair[0]) && pair[1] == "false")
        || words
            .iter()
            .filter_map(|word| word.split_once('='))
            .any(|(key, value)| is_key(key) && value == "false")
}

fn reads_path(checked_path: &CheckedPath<'_>) -> bool {
    matches!(checked_path.placed.mode, AccessMode::Read | AccessMode::ReadAll | AccessMode::Use)
}

fn is_secret(checked_path: &CheckedPath<'_>, place: &Path) -> bool {
    let name = place.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let is_public =
        place.extension().is_some_and(|it| it == "pub") || name.starts_with("known_hosts");
    if is_public && !checked_path.placed.path.raw().ends_with('/') {
        return false;
    }
    SYSTEM.iter().any(|root| place.starts_with(root))
        || place.starts_with("/etc/ssh") && name.ends_with("_key")
        || checked_path.find_homes(place).iter().any(|home| {
            place.strip_prefix(home).is_ok_and(|rest| SECRETS.iter().any(|it| rest.starts_with(it)))
        })
        || KEY_NAMES.contains(&name.as_str())
}

/// Returns whether a path that is not known completely may hold secrets in some home directory.
fn may_be_secret(checked_path: &CheckedPath<'_>) -> bool {
    let raw = checked_path.placed.path.raw();
    if !has_marks(raw) {
        return false;
    }
    let parts: Vec<&str> = raw.split('/').collect();
    let last = parts.iter().rev().find(|part| !part.is_empty()).copied().unwrap_or_default();
    if Path::new(last).extension().is_some_and(|it| it == "pub") || last.starts_with("known_hosts")
    {
        return false;
    }
    let in_home = checked_path.context.home.as_deref().is_some_and(|home| {
        checked_path.placed.places().iter().any(|place| Path::new(home).starts_with(place))
    });
    KEY_NAMES.iter().any(|name| matches_part(last, name))
        || in_home && KEY_ENDINGS.iter().any(|ending| last.ends_with(ending))
        || SECRETS.iter().filter(|secret| **secret != ".npmrc").any(|secret| {
            let wanted: Vec<&str> = secret.split('/').collect();
            parts.windows(wanted.len()).any(|window| {
                window.iter().zip(&wanted).all(|(part, name)| matches_part(part, name))
            })
        })
}

/// Returns whether a part of a path may stand for a name. One that is nearly unknown does not.
fn matches_part(part: &str, name: &str) -> bool {
    let known = part.chars().filter(|it| !has_marks(it.encode_utf8(&mut [0; 4]))).count();
    part == name || known > 1 && may_match(part, name)
}

/// Returns whether a path shows the environment or the memory of a process.
fn shows_process(checked_path: &CheckedPath<'_>) -> bool {
    let raw = checked_path.placed.path.raw();
    let (front, last) = raw.trim_end_matches('/').rsplit_once('/').unwrap_or(("", raw));
    let process = front.rsplit('/').next().unwrap_or_default();
    let is_process = |part: &str| {
        has_marks(part) || part == "self" || part.chars().all(|it| it.is_ascii_digit())
    };
    let shown = |part: &str| {
        let is_open = part.chars().all(|it| has_marks(it.encode_utf8(&mut [0; 4])));
        PROCESS_FILES.iter().any(|name| may_match(part, name))
            && (!is_open || !process.is_empty() && is_process(process))
    };
    let below = checked_path.placed.places().iter().filter_map(|it| it.strip_prefix("/proc").ok());
    match &checked_path.placed.location {
        PathLocation::Unknown => PROCESS_FILES[..1].contains(&last),
        // Code in other languages puts such paths together.
        PathLocation::At(places) if places.iter().any(|it| it == Path::new("/environ")) => true,
        PathLocation::At(_) => below.into_iter().any(|rest| {
            let name = rest.file_name().map(|it| it.to_string_lossy().into_owned());
            let parts = rest.components().count();
            let name = name.unwrap_or_default();
            parts > 1 && PROCESS_FILES.contains(&name.as_str())
                || checked_path.placed.mode == AccessMode::ReadAll
                    && (parts == 0 || parts == 1 && is_process(&name))
        }),
        PathLocation::In { .. } => below.count() > 0 && shown(last),
    }
}

/// Returns whether arguments of `ps` ask for environments: a letter `e` without a dash.
fn lists_environment(words: &[Word]) -> bool {
    let mut is_value = false;
    words.iter().map(Word::raw).any(|text| {
        let letters = text.trim_start_matches('-');
        let is_flags = !std::mem::replace(&mut is_value, false)
            && !text.starts_with("--")
            && letters.chars().all(|it| it.is_ascii_alphabetic());
        // The value of a flag is the next word.
        is_value = is_flags
            && letters.ends_with(['o', 'O', 'p', 'C', 'u', 'U', 'g', 'G', 't', 'q'])
            && (text.starts_with('-') || letters.ends_with(['o', 'O', 'p', 'U', 't', 'q']))
            || matches!(text, "--sort" | "--format" | "--pid" | "--ppid" | "--user");
        is_flags && (!text.starts_with('-') && text.contains('e') || text.contains('E'))
    })
}

/// Returns whether a file contains a project's secrets and is not an example file.
fn is_env_file(name: &str) -> bool {
    const EXAMPLES: [&str; 10] = [
        "example", "sample", "template", "test", "dist", "defaults", "schema", "ci", "testing",
        "tpl",
    ];
    match name.strip_prefix(".env") {
        Some("" | "rc") => name == ".env",
        Some(rest) => {
            rest.starts_with('.') && !rest.split('.').any(|part| EXAMPLES.contains(&part))
        }
        None => false,
    }
}

fn reads_secret_store(checked: &CheckedCommand<'_>) -> bool {
    // Options of these programs that may stand in front of what they do.
    let values =
        ["-n", "--namespace", "--context", "--kubeconfig", "--profile", "--region", "--project"];
    let operands = Arguments::new(checked.words(), &values).find_operands();
    let operand = |at: usize| operands.get(at).map_or("", |word| word.raw());
    let (first, second) = (operand(0), operand(1));
    match checked.name() {
        "security" => first.starts_with("find-") || first.starts_with("dump-") || first == "export",
        "secret-tool" => matches!(first, "lookup" | "search"),
        "pass" | "gopass" => !matches!(first, "" | "ls" | "help" | "version"),
        "op" => matches!(first, "read" | "item" | "inject"),
        "bw" | "lpass" => matches!(first, "get" | "show" | "export" | "list"),
        "vault" => matches!(first, "read" | "kv" | "token") && second != "list",
        "gpg" | "gpg2" => checked.has_word(&["--export-secret-keys", "--export-secret-subkeys"]),
        "aws" => {
            first == "secretsmanager" && second == "get-secret-value"
                || first == "ssm" && checked.has_word(&["--with-decryption"])
                || first == "configure" && matches!(second, "get" | "export-credentials")
                || first == "sts" && second.starts_with("get-session")
                || first == "ecr" && second == "get-login-password"
        }
        "gcloud" => {
            checked.has_word(&["print-access-token", "print-identity-token"])
                || first == "secrets" && checked.has_word(&["access"])
        }
        "az" => {
            first == "account" && second == "get-access-token"
                || first == "keyvault" && checked.has_word(&["secret"])
        }
        "kubectl" | "oc" => {
            matches!(first, "get" | "describe")
                && matches!(second.split(['/', ',']).next(), Some("secret" | "secrets"))
                || first == "config" && second == "view" && checked.has_word(&["--raw"])
        }
        "getent" => matches!(first, "shadow" | "gshadow"),
        "sops" => first == "decrypt" || checked.has_word(&["-d", "--decrypt"]),
        "ansible-vault" => matches!(first, "view" | "decrypt"),
        "doppler" | "infisical" => first == "secrets",
        "rbw" | "credstash" | "chamber" => matches!(first, "get" | "read" | "export" | "getall"),
        "wg" => first == "showconf" || checked.has_word(&["private-key"]),
        "gh" => first == "auth" && (second == "token" || checked.has_word(&["--show-token", "-t"])),
        "heroku" => first.starts_with("config"),
        "fly" | "flyctl" | "doctl" | "glab" => first == "auth" && second == "token",
        "docker" | "podman" => first == "secret" && second == "inspect",
        "git" => first == "credential" && matches!(second, "fill" | "get"),
        "ssh-add" => checked.has_short_flag('L') && checked.has_word(&["--private"]),
        "keyring" => first == "get",
        _ => false,
    }
}

/// Returns whether options in a variable make a program load code from another place.
fn is_loading_option(checked: &CheckedCommand<'_>, name: &str, value: &str) -> bool {
    let words: Vec<&str> = value.split_whitespace().collect();
    let outside = |path: &str| {
        let in_project = checked
            .context
            .protected
            .project
            .iter()
            .any(|project| Path::new(path).starts_with(project));
        path.starts_with(['/', '~']) && !in_project
    };
    match name {
        "NODE_OPTIONS" => words.iter().enumerate().any(|(at, word)| {
            let next = words.get(at + 1).copied().unwrap_or_default();
            let (flag, path) = word.split_once('=').unwrap_or((word, next));
            matches!(flag, "--require" | "-r" | "--import" | "--loader" | "--experimental-loader")
                && outside(path)
        }),
        "RUBYOPT" | "PYTHONINSPECT" | "JAVA_TOOL_OPTIONS" | "_JAVA_OPTIONS" => {
            words.iter().any(|word| word.starts_with("-r") || word.starts_with("-javaagent"))
        }
        "PAGER" | "GIT_PAGER" | "MANPAGER" | "EDITOR" | "VISUAL" | "GIT_EDITOR" | "BROWSER" => {
            value.contains([';', '|', '&', '`', '$'])
                || value.starts_with("sh ")
                || value.starts_with("bash ")
        }
        _ => false,
    }
}

/// Returns whether code of an interpreter prints a variable that is named like a secret: in one
/// statement, or as its value.
fn is_secret_printed(code: &str, is_value_printed: bool) -> bool {
    const PRINTS: [&str; 6] = ["print", "console.", "puts", "echo", "say", "write("];
    const READS: [&str; 5] = ["process.env", "environ", "getenv", "ENV", "env.get"];
    let mut reads = READS.iter().flat_map(|read| {
        code.match_indices(read).map(move |(at, _)| (&code[..at], &code[at + read.len()..]))
    });
    reads.any(|(before, after)| {
        let statement = before.rsplit([';', '\n']).next().unwrap_or_default();
        let after = after.trim_start_matches(".get").trim_start_matches(".fetch");
        let after = after.trim_start_matches(|it: char| "[{(.\"'\\".contains(it));
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let name = after.split(|it: char| !is_name(it)).next().unwrap_or_default();
        is_secret_name(name)
            && (is_value_printed || PRINTS.iter().any(|print| statement.contains(print)))
    })
}
