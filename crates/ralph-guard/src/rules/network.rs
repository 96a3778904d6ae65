//! Rules on the network: sending data, and access to this machine.

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::git::GitCall;
use crate::interpreter::{self, CodeAction};
use crate::is_remote;
use crate::lower::{UNKNOWN, Word, is_shell};
use crate::network::{
    SentFrom, find_addresses, find_sent_files, find_sent_literals, is_local, is_remote_address,
    parse_host,
};

const ASK: &str = "Say in your answer what should be sent where, and let the user do it.";

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "revshell.netcat",
        GuardCategory::RemoteAccess,
        "gives a shell to the other end of a network connection",
        "Do not connect a shell to the network.",
        |it| {
            let runs = || {
                it.arguments().has_short_flag('e')
                    || it.arguments().has_short_flag('c')
                    || it.has_word(&["--exec", "--sh-exec"])
            };
            let shell = || {
                it.command.feeds.as_deref().is_some_and(is_shell)
                    || it.find_sources().iter().any(|command| is_shell(command.name()))
            };
            match it.name() {
                "nc" | "ncat" | "netcat" | "nc.traditional" | "telnet" => runs() || shell(),
                "socat" => {
                    shell()
                        || it.words().iter().any(|word| {
                            let text = word.raw().to_ascii_uppercase();
                            text.starts_with("EXEC:")
                                || text.starts_with("SYSTEM:")
                                || text.starts_with("SHELL:")
                        })
                }
                "openssl" => it.find_operand(0) == "s_client" && shell(),
                _ => false,
            }
        },
    ),
    new_command_rule(
        "revshell.interpreter",
        GuardCategory::RemoteAccess,
        "connects a shell to the network",
        "Do not connect a shell to the network.",
        |it| {
            interpreter::find_inline_code(it.name(), it.command)
                .is_some_and(|code| interpreter::does_action(&code, CodeAction::Connects))
        },
    ),
    new_command_rule(
        "revshell.tunnel",
        GuardCategory::RemoteAccess,
        "opens a way into this machine",
        "Test against `localhost`.",
        |it| match it.name() {
            "ssh" | "autossh" => ['R', 'L', 'D', 'w'].iter().any(|flag| it.has_short_flag(*flag)),
            "ngrok" | "localtunnel" | "lt" | "frpc" | "chisel" | "bore" | "zrok" => {
                !it.is_help_request() && !it.words().is_empty()
            }
            "cloudflared" => it.find_operand(0) == "tunnel",
            "tailscale" => matches!(it.find_operand(0), "up" | "funnel" | "serve"),
            "sshd" | "dropbear" => true,
            _ => false,
        },
    ),
    new_command_rule(
        "revshell.remote",
        GuardCategory::RemoteAccess,
        "works on another machine",
        "Work on this one; say in your answer what another one needs.",
        |it| match it.name() {
            "ssh" | "mosh" | "rsh" | "rlogin" | "telnet" => {
                let values = ["-i", "-p", "-F", "-o", "-l", "-J", "-E", "-c", "-b"];
                let to = Arguments::new(it.words(), &values)
                    .find_operands()
                    .first()
                    .map(|word| word.raw());
                let is_forge = |to: &str| to.starts_with("git@");
                to.is_some_and(|to| !is_forge(to) && !is_local(parse_host(to)))
                    && !it.has_word(&["-V", "-G", "-Q"])
            }
            _ => runs_on_machines(it),
        },
    ),
    new_command_rule(
        "exfil.upload",
        GuardCategory::Exfiltration,
        "sends a file to another machine",
        ASK,
        uploads_file,
    ),
    new_command_rule(
        "exfil.pipe",
        GuardCategory::Exfiltration,
        "sends the output of a command to another machine",
        ASK,
        sends_input,
    ),
    new_command_rule(
        "exfil.substitution",
        GuardCategory::Exfiltration,
        "puts the output of a command into a request to another machine",
        ASK,
        |it| {
            let asks = it.is_program(&[
                "curl", "wget", "http", "https", "xh", "dig", "nslookup", "host", "drill", "ping",
                "nc",
            ]);
            let is_partly_known =
                |raw: &str| raw.split(UNKNOWN).next_back().is_some_and(|end| end.starts_with('.'));
            // A name server of the domain gets the name.
            let is_asked_for_name = it.is_program(&["dig", "nslookup", "host", "drill"])
                && it.words().iter().any(|word| !word.is_known() && is_partly_known(word.raw()));
            asks && it.words().iter().any(|word| !word.is_known())
                && (is_asked_for_name && !it.find_sources().is_empty()
                    || it
                        .find_sources()
                        .iter()
                        .any(|command| DATA_SOURCES.contains(&command.name())))
                && contacts_remote(it)
        },
    ),
    new_command_rule(
        "exfil.secret-variable",
        GuardCategory::Exfiltration,
        "puts a secret into a request to another machine",
        "Send a secret in a header, to the service that it belongs to.",
        |it| {
            it.is_program(&["curl", "wget", "http", "dig", "nslookup", "ping"])
                && it.command.variables.iter().any(|name| is_secret_name(name))
                && (find_addresses(it.name(), it.words())
                    .iter()
                    .any(|at| at.contains(UNKNOWN) && !parse_host(at).contains(UNKNOWN))
                    || find_sent_literals(it.words()).iter().any(|text| text.contains(UNKNOWN)))
                && contacts_remote(it)
        },
    ),
    new_command_rule(
        "exfil.copy",
        GuardCategory::Exfiltration,
        "copies files to another machine",
        ASK,
        |it| match it.name() {
            "scp" | "rsync" => {
                let values = ["-i", "-P", "-F", "-o", "-e", "--rsh", "--exclude", "-l"];
                let to = Arguments::new(it.words(), &values).find_operands().pop();
                to.is_some_and(|to| is_remote(to) && !is_local(parse_host(to.raw())))
            }
            "sftp" | "ftp" | "lftp" | "tftp" => {
                let values = ["-i", "-P", "-F", "-o", "-l", "-p", "-b"];
                let to = Arguments::new(it.words(), &values).find_operands();
                to.first().is_some_and(|to| !is_local(parse_host(to.raw())))
            }
            "croc" | "wormhole" | "magic-wormhole" => !it.list_operands().is_empty(),
            "rclone" => {
                matches!(it.find_operand(0), "copy" | "sync" | "move" | "copyto" | "moveto")
            }
            "gh" => it.find_operand(0) == "gist" && it.find_operand(1) == "create",
            "aws" | "gsutil" | "gcloud" | "azcopy" | "s3cmd" | "s5cmd" => uploads_to_bucket(it),
            "mail" | "mailx" | "sendmail" | "mutt" | "msmtp" => !it.words().is_empty(),
            _ => false,
        },
    ),
    new_command_rule(
        "exfil.push-elsewhere",
        GuardCategory::Exfiltration,
        "pushes to an address that is no remote of this repository",
        "Push to a remote that the user has set up.",
        |it| {
            let git = GitCall::new(it.words());
            let to = git.rest.find_operands().first().map(|word| word.raw()).unwrap_or_default();
            let elsewhere = (to.contains("://") || to.contains('@') && to.contains(':'))
                && !is_local(parse_host(to));
            it.is_program(&["git"])
                && git.subcommand == "push"
                && (elsewhere || is_new_remote(it, to))
        },
    ),
];

/// Returns whether a program for many machines, or of a cloud, works on another one.
fn runs_on_machines(checked: &CheckedCommand<'_>) -> bool {
    let (first, second) = (checked.find_operand(0), checked.find_operand(1));
    let only_looks = checked.is_help_request()
        || checked.has_word(&["--check", "-C", "--syntax-check", "--list-hosts", "--list-tasks"]);
    let is_here = checked.has_word(&["local", "localhost", "localhost,", "127.0.0.1,"]);
    match checked.name() {
        "ansible" | "ansible-playbook" | "ansible-pull" | "salt" | "salt-ssh" | "pssh" | "pdsh"
        | "clush" | "knife" | "bolt" => {
            !checked.words().is_empty() && !only_looks && !is_here && first != "localhost"
        }
        "gcloud" => first == "compute" && matches!(second, "ssh" | "scp"),
        "aws" => first == "ssm" && matches!(second, "start-session" | "send-command"),
        "az" => matches!(first, "vm" | "vmss") && second == "run-command",
        "doctl" => first == "compute" && second == "ssh",
        "fly" | "flyctl" => first == "ssh",
        "sshfs" => !checked.words().is_empty(),
        "docker" | "podman" => {
            let hosts = checked.arguments().find_flag_values(&["-H", "--host"]);
            hosts.iter().any(|at| !at.starts_with("unix:") && !is_local(parse_host(at)))
        }
        "heroku" => first == "run" || first.starts_with("ps:"),
        _ => false,
    }
}

/// Returns whether files of this machine go to a bucket.
fn uploads_to_bucket(it: &CheckedCommand<'_>) -> bool {
    let is_bucket =
        |word: &str| ["s3://", "gs://", "https://"].iter().any(|start| word.starts_with(start));
    let words = it.list_operands();
    let copies = words
        .iter()
        .take(3)
        .any(|it| matches!(*it, "cp" | "mv" | "sync" | "rsync" | "copy" | "put"));
    let mut last = words.iter().rev();
    copies
        && last.next().is_some_and(|to| is_bucket(to))
        && last.next().is_some_and(|from| !is_bucket(from))
}

/// Programs that read files or the environment.
const DATA_SOURCES: [&str; 26] = [
    "cat", "base64", "head", "tail", "grep", "xxd", "od", "tar", "gzip", "zip", "env", "printenv",
    "cut", "sed", "awk", "jq", "strings", "find", "less", "openssl", "gpg", "tr", "sort",
    "hexdump", "history", "bzip2",
];

/// Returns whether a variable is named like a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 9] = [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
        "CREDENTIAL",
    ];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
        || name.ends_with("_KEY")
        || name.ends_with("_PASS")
}

/// Returns whether an earlier command has set the address of a remote.
fn is_new_remote(checked: &CheckedCommand<'_>, name: &str) -> bool {
    let before = checked.all.iter().take_while(|command| !std::ptr::eq(*command, checked.command));
    before.filter(|command| command.name() == "git").any(|command| {
        let git = GitCall::new(command.arguments());
        let words: Vec<&str> = git.rest.find_operands().into_iter().map(Word::raw).collect();
        git.subcommand == "remote"
            && match words[..] {
                ["add", it, ..] => it == name,
                // A push without a name takes the usual remote.
                ["set-url", it, ..] => it == name || name.is_empty(),
                _ => false,
            }
    })
}

fn contacts_remote(checked: &CheckedCommand<'_>) -> bool {
    match checked.name() {
        "curl" | "wget" | "http" | "https" | "xh" => {
            find_addresses(checked.name(), checked.words())
                .iter()
                .any(|address| is_remote_address(address))
        }
        _ => true,
    }
}

fn uploads_file(checked: &CheckedCommand<'_>) -> bool {
    let sends = match checked.name() {
        "curl" => find_sent_files(checked.words()).iter().any(|(_, from)| *from == SentFrom::File),
        "wget" => checked.words().iter().any(|word| {
            word.raw().starts_with("--post-file") || word.raw().starts_with("--body-file")
        }),
        "http" | "https" | "xh" => checked.words().iter().any(|word| {
            word.raw().contains("=@")
                || word.raw().starts_with('@')
                || word.raw().contains('@') && !word.raw().contains("://")
        }),
        _ => false,
    };
    sends && contacts_remote(checked)
}

fn sends_input(checked: &CheckedCommand<'_>) -> bool {
    let is_fed = !checked.command.fed_by.is_empty()
        || !checked.command.redirects.is_empty() && checked.command.stdin.is_some();
    match checked.name() {
        "curl" => {
            find_sent_files(checked.words()).iter().any(|(_, from)| *from == SentFrom::Input)
                && is_fed
                && contacts_remote(checked)
        }
        "nc" | "ncat" | "netcat" | "telnet" | "socat" => {
            let listens = checked.has_short_flag('l') || checked.has_word(&["--listen"]);
            let only_looks = checked.has_short_flag('z');
            let to = Arguments::new(checked.words(), &["-w", "-p", "-s", "-q"]).find_operands();
            let to = to.first().map(|word| word.raw()).unwrap_or_default();
            let to = to
                .split_once(':')
                .filter(|(kind, _)| {
                    kind.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit())
                        && !kind.is_empty()
                        && !kind.contains('.')
                })
                .map_or(to, |(_, rest)| rest);
            is_fed && !listens && !only_looks && is_remote_address(to)
        }
        "ssh" => {
            is_fed
                && !checked.list_operands().is_empty()
                && checked.list_operands().iter().all(|it| !is_local(parse_host(it)))
        }
        "openssl" => {
            let to = checked.arguments().find_value(&["-connect", "-host"]);
            let is_here = to.is_some_and(|to| is_local(parse_host(to.raw())));
            checked.find_operand(0) == "s_client" && is_fed && !is_here
        }
        "wall" | "write" => is_fed,
        _ => false,
    }
}
