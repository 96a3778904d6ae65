//! Parses a git command line: global options, subcommand and the rest.

use super::arguments::Arguments;
use super::word::Word;

/// Keys of git's configuration that run something, or make git trust another party.
const RUNNING_KEYS: [&str; 27] = [
    "core.hookspath",
    "core.sshcommand",
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.askpass",
    "core.gitproxy",
    "sequence.editor",
    "credential.helper",
    "diff.external",
    "gpg.program",
    "gpg.ssh.program",
    "init.templatedir",
    "include.path",
    "http.proxy",
    "https.proxy",
    "http.sslverify",
    "protocol.ext.allow",
    "uploadpack.packobjectshook",
    "interactive.difffilter",
    "web.browser",
    "core.attributesfile",
    "core.worktree",
    "core.alternaterefscommand",
    "receive.procreceiverefs",
    "sendemail.smtpserver",
    "remote.origin.uploadpack",
];

/// Programs that only display or terminate.
const HARMLESS: [&str; 10] =
    ["cat", "less", "true", ":", "", "vi", "vim", "nano", "less -FRX", "false"];

/// A parsed git command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct GitCall<'a> {
    /// The directory given with `-C`.
    pub(super) directory: Option<&'a Word>,
    /// The words before the subcommand.
    pub(super) global_options: &'a [Word],
    /// The subcommand; or empty.
    pub(super) subcommand: &'a str,
    /// The words after the subcommand.
    pub(super) words: &'a [Word],
    /// The same words, split into flags and operands.
    pub(super) rest: Arguments<'a>,
}

impl<'a> GitCall<'a> {
    pub(super) fn new(words: &'a [Word]) -> Self {
        const VALUES: [&str; 6] =
            ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
        let mut at = 0;
        let mut directory = None;
        while let Some(word) = words.get(at).filter(|word| word.raw().starts_with('-')) {
            if word.raw() == "-C" {
                directory = words.get(at + 1);
            }
            at += if VALUES.contains(&word.raw()) { 2 } else { 1 };
        }
        let subcommand = words.get(at).map(Word::raw).unwrap_or_default();
        let rest = words.get(at + 1..).unwrap_or_default();
        Self {
            directory,
            global_options: &words[..at.min(words.len())],
            subcommand,
            words: rest,
            rest: Arguments::new(rest, &["-m", "-F", "-b", "-B", "-t", "-o", "--source", "-s"]),
        }
    }

    /// Returns whether options or `git config` set a key that runs something.
    pub(super) fn sets_running_key(&self) -> bool {
        let given = Arguments::new(self.global_options, &[]);
        let by_option = given.find_flag_values(&["-c", "--config-env"]);
        let cloned = match self.subcommand {
            "clone" => self.rest.find_flag_values(&["-c", "--config"]),
            _ => Vec::new(),
        };
        let by_option = by_option.iter().chain(&cloned).any(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
            runs_on_config_key(key, value)
        });
        by_option || self.subcommand == "config" && self.sets_running_config()
    }

    /// Returns whether `git config` sets a key that runs something.
    fn sets_running_config(&self) -> bool {
        if self.is_config_query() {
            return false;
        }
        let operands =
            Arguments::new(self.words, &["-f", "--file", "--type", "--blob"]).find_operands();
        let operands = match operands.as_slice() {
            [first, rest @ ..] if matches!(first.raw(), "set" | "unset" | "edit") => rest,
            all => all,
        };
        match operands {
            [key, value, ..] => runs_on_config_key(key.raw(), value.raw()),
            [key] => {
                self.rest.has_any(&["--unset", "--unset-all"])
                    && runs_on_config_key(key.raw(), "unset")
            }
            [] => self.rest.has_any(&["-e", "--edit"]),
        }
    }

    /// Returns whether `git config` only prints something.
    pub(super) fn is_config_query(&self) -> bool {
        let operands = Arguments::new(self.words, &["-f", "--file", "--type"]).find_operands();
        let verb = operands.first().map(|word| word.raw()).unwrap_or_default();
        self.rest.has_any(&["--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch"])
            || matches!(verb, "get" | "list")
            || operands.len() == 1
                && !self.rest.has_any(&[
                    "--unset",
                    "--unset-all",
                    "--remove-section",
                    "-e",
                    "--edit",
                ])
    }
}

fn runs_on_config_key(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_shown = matches!(key.as_str(), "core.pager" | "core.editor" | "sequence.editor");
    if is_shown && HARMLESS.contains(&value) || key == "http.sslverify" && value == "true" {
        return false;
    }
    RUNNING_KEYS.contains(&key.as_str())
        || key.starts_with("alias.") && value.starts_with('!')
        || key.starts_with("filter.") && !key.ends_with(".required")
        || key.starts_with("url.")
        || key.starts_with("includeif.")
        || key.starts_with("credential.") && key.ends_with(".helper")
        || key.starts_with("merge.") && key.ends_with(".driver")
        || (key.starts_with("difftool.") || key.starts_with("mergetool."))
            && !HARMLESS.contains(&value)
            && key.ends_with("cmd")
        || key.starts_with("pager.")
            && !HARMLESS.contains(&value)
            && !matches!(value, "true" | "false")
        || key.starts_with("diff.") && (key.ends_with(".textconv") || key.ends_with(".command"))
}
