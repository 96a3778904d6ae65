//! Rules on the network: sending data, and access to this machine.

use super::{Act, Rule, command};
use crate::guard::arguments::Arguments;
use crate::guard::category::Category;
use crate::guard::git::Git;
use crate::guard::interpreter::{self, Deed};
use crate::guard::is_remote;
use crate::guard::lower::{UNKNOWN, Word, is_shell};
use crate::guard::network::{
    SentFrom, addresses, host, is_elsewhere, is_local, sent_files, sent_texts,
};

const ASK: &str = "Say in your answer what should be sent where, and let the user do it.";

pub(super) const RULES: &[Rule] = &[
    command(
        "revshell.netcat",
        Category::RemoteAccess,
        "gives a shell to the other end of a network connection",
        "Do not connect a shell to the network.",
        |it| {
            let runs = || {
                it.arguments().short('e')
                    || it.arguments().short('c')
                    || it.has(&["--exec", "--sh-exec"])
            };
            let shell = || {
                it.command.feeds.as_deref().is_some_and(is_shell)
                    || it.sources().iter().any(|command| is_shell(command.name()))
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
                "openssl" => it.operand(0) == "s_client" && shell(),
                _ => false,
            }
        },
    ),
    command(
        "revshell.interpreter",
        Category::RemoteAccess,
        "connects a shell to the network",
        "Do not connect a shell to the network.",
        |it| {
            interpreter::code(it.name(), it.command)
                .is_some_and(|code| interpreter::does(&code, Deed::Connects))
        },
    ),
    command(
        "revshell.tunnel",
        Category::RemoteAccess,
        "opens a way into this machine",
        "Test against `localhost`.",
        |it| match it.name() {
            "ssh" | "autossh" => ['R', 'L', 'D', 'w'].iter().any(|flag| it.short(*flag)),
            "ngrok" | "localtunnel" | "lt" | "frpc" | "chisel" | "bore" | "zrok" => {
                !it.only_asks() && !it.words().is_empty()
            }
            "cloudflared" => it.operand(0) == "tunnel",
            "tailscale" => matches!(it.operand(0), "up" | "funnel" | "serve"),
            "sshd" | "dropbear" => true,
            _ => false,
        },
    ),
    command(
        "revshell.remote",
        Category::RemoteAccess,
        "works on another machine",
        "Work on this one; say in your answer what another one needs.",
        |it| match it.name() {
            "ssh" | "mosh" | "rsh" | "rlogin" | "telnet" => {
                let values = ["-i", "-p", "-F", "-o", "-l", "-J", "-E", "-c", "-b"];
                let to =
                    Arguments::new(it.words(), &values).operands().first().map(|word| word.raw());
                let is_forge = |to: &str| to.starts_with("git@");
                to.is_some_and(|to| !is_forge(to) && !is_local(host(to)))
                    && !it.has(&["-V", "-G", "-Q"])
            }
            _ => false,
        },
    ),
    command(
        "exfil.upload",
        Category::Exfiltration,
        "sends a file to another machine",
        ASK,
        uploads,
    ),
    command(
        "exfil.pipe",
        Category::Exfiltration,
        "sends the output of a command to another machine",
        ASK,
        sends_input,
    ),
    command(
        "exfil.substitution",
        Category::Exfiltration,
        "puts the output of a command into a request to another machine",
        ASK,
        |it| {
            let asks = it.is(&[
                "curl", "wget", "http", "https", "xh", "dig", "nslookup", "host", "ping", "nc",
            ]);
            asks && it.words().iter().any(|word| !word.is_known())
                && it.sources().iter().any(|command| READERS.contains(&command.name()))
                && speaks_elsewhere(it)
        },
    ),
    command(
        "exfil.secret-variable",
        Category::Exfiltration,
        "puts a secret into a request to another machine",
        "Send a secret in a header, to the service that it belongs to.",
        |it| {
            it.is(&["curl", "wget", "http", "dig", "nslookup", "ping"])
                && it.command.variables.iter().any(|name| is_secret_name(name))
                && (addresses(it.name(), it.words())
                    .iter()
                    .any(|at| at.contains(UNKNOWN) && !host(at).contains(UNKNOWN))
                    || sent_texts(it.words()).iter().any(|text| text.contains(UNKNOWN)))
                && speaks_elsewhere(it)
        },
    ),
    command("exfil.copy", Category::Exfiltration, "copies files to another machine", ASK, |it| {
        match it.name() {
            "scp" | "rsync" => {
                let values = ["-i", "-P", "-F", "-o", "-e", "--rsh", "--exclude", "-l"];
                let to = Arguments::new(it.words(), &values).operands().pop();
                to.is_some_and(|to| is_remote(to) && !is_local(host(to.raw())))
            }
            "sftp" | "ftp" | "lftp" | "tftp" | "croc" | "wormhole" | "magic-wormhole" => {
                !it.operands().is_empty()
            }
            "rclone" => matches!(it.operand(0), "copy" | "sync" | "move" | "copyto" | "moveto"),
            "gh" => it.operand(0) == "gist" && it.operand(1) == "create",
            "mail" | "mailx" | "sendmail" | "mutt" | "msmtp" => !it.words().is_empty(),
            _ => false,
        }
    }),
    command(
        "exfil.push-elsewhere",
        Category::Exfiltration,
        "pushes to an address that is no remote of this repository",
        "Push to a remote that the user has set up.",
        |it| {
            let git = Git::new(it.words());
            let to = git.rest.operands().first().map(|word| word.raw()).unwrap_or_default();
            let elsewhere = to.contains("://") || to.contains('@') && to.contains(':');
            it.is(&["git"]) && git.verb == "push" && (elsewhere || is_new_remote(it, to))
        },
    ),
];

/// Programs that read files or the environment.
const READERS: [&str; 26] = [
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
fn is_new_remote(checked: &Act<'_>, name: &str) -> bool {
    let before = checked.all.iter().take_while(|command| !std::ptr::eq(*command, checked.command));
    before.filter(|command| command.name() == "git").any(|command| {
        let git = Git::new(command.arguments());
        let words: Vec<&str> = git.rest.operands().into_iter().map(Word::raw).collect();
        git.verb == "remote" && matches!(words[..], ["add" | "set-url", it, ..] if it == name)
    })
}

fn speaks_elsewhere(checked: &Act<'_>) -> bool {
    match checked.name() {
        "curl" | "wget" | "http" | "https" | "xh" => {
            addresses(checked.name(), checked.words()).iter().any(|address| is_elsewhere(address))
        }
        _ => true,
    }
}

fn uploads(checked: &Act<'_>) -> bool {
    let sends = match checked.name() {
        "curl" => sent_files(checked.words()).iter().any(|(_, from)| *from == SentFrom::File),
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
    sends && speaks_elsewhere(checked)
}

fn sends_input(checked: &Act<'_>) -> bool {
    let is_fed = !checked.command.fed_by.is_empty()
        || !checked.command.redirects.is_empty() && checked.command.stdin.is_some();
    match checked.name() {
        "curl" => {
            sent_files(checked.words()).iter().any(|(_, from)| *from == SentFrom::Input)
                && is_fed
                && speaks_elsewhere(checked)
        }
        "nc" | "ncat" | "netcat" | "telnet" | "socat" => {
            let listens = checked.short('l') || checked.has(&["--listen"]);
            let only_looks = checked.short('z');
            let to = Arguments::new(checked.words(), &["-w", "-p", "-s", "-q"]).operands();
            let to = to.first().map(|word| word.raw()).unwrap_or_default();
            let to = to
                .split_once(':')
                .filter(|(kind, _)| {
                    kind.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit())
                        && !kind.is_empty()
                        && !kind.contains('.')
                })
                .map_or(to, |(_, rest)| rest);
            is_fed && !listens && !only_looks && is_elsewhere(to)
        }
        "ssh" => {
            is_fed
                && !checked.operands().is_empty()
                && checked.operands().iter().all(|it| !is_local(it))
        }
        "openssl" => checked.operand(0) == "s_client" && is_fed,
        "wall" | "write" => is_fed,
        _ => false,
    }
}
