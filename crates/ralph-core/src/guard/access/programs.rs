//! Programs with known effects on the paths in their arguments.

use super::{Found, Mode};
use crate::guard::arguments::Arguments;
use crate::guard::lower::{Command, Word, found_name};

/// Programs that print or copy their operands.
const READERS: [&str; 44] = [
    "cat", "bat", "less", "more", "head", "tail", "tac", "nl", "base64", "base32", "xxd", "od",
    "hexdump", "strings", "cut", "sort", "uniq", "paste", "fold", "fmt", "pr", "rev", "tr",
    "column", "diff", "cmp", "comm", "sdiff", "vimdiff", "jq", "yq", "openssl", "gpg", "wc",
    "view", "vim", "vi", "nano", "emacs", "aws", "gsutil", "rclone", "pbcopy", "xclip",
];

/// Programs that only mention their operands, or that have a rule of their own.
const NAMERS: [&str; 45] = [
    "echo",
    "printf",
    "ls",
    "cd",
    "pushd",
    "pwd",
    "test",
    "[",
    "stat",
    "file",
    "which",
    "type",
    "man",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "du",
    "df",
    "tree",
    "export",
    "declare",
    "local",
    "unset",
    "set",
    "alias",
    "trap",
    "eval",
    "kill",
    "pkill",
    "pgrep",
    "ps",
    "sleep",
    "ssh-add",
    "ssh-keyscan",
    "ssh",
    "docker",
    "podman",
    "crontab",
    "true",
    "false",
    "read",
    "ralph",
    "id",
    "getent",
];

impl Found {
    /// Adds the accesses of a program by its arguments.
    #[expect(clippy::too_many_lines, reason = "one arm for each program")]
    pub(super) fn program(&mut self, name: &str, command: &Command) {
        let words = command.arguments();
        let plain = Arguments::new(words, &[]);
        match name {
            "rm" | "unlink" | "rmdir" | "srm" | "trash" | "trash-put" => {
                self.all(plain.operands(), Mode::Remove);
            }
            "shred" => {
                let arguments = Arguments::new(words, &["-n", "-s"]);
                self.all(arguments.operands(), Mode::Remove);
            }
            "touch" | "mkdir" | "mkfifo" | "mknod" | "tee" | "sponge" | "truncate"
            | "fallocate" => {
                let values = ["-s", "-m", "-r", "-d", "-t", "-l", "-o", "--size", "--length"];
                self.all(Arguments::new(words, &values).operands(), Mode::Write);
            }
            "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "setcap" => {
                self.all(plain.operands().into_iter().skip(1), Mode::Write);
            }
            "mv" => self.copied(words, Some(Mode::Remove)),
            "cp" | "install" | "ln" | "ditto" => self.copied(words, None),
            "rsync" => {
                self.copied(words, None);
                let deletes = words.iter().any(|word| word.raw().starts_with("--delete"));
                if let Some(to) = plain.operands().last().filter(|_| deletes) {
                    self.add_text(
                        &format!("{}/{}", to.raw().trim_end_matches('/'), found_name()),
                        Mode::Remove,
                    );
                }
            }
            "scp" | "sftp" => {
                let arguments = Arguments::new(words, &["-i", "-P", "-F", "-o", "-l", "-S"]);
                let mut local: Vec<&Word> = arguments.operands();
                let to = local.pop();
                local.retain(|word| !is_remote(word));
                self.all(local, Mode::ReadAll);
                self.all(to.filter(|to| !is_remote(to)), Mode::Write);
            }
            "dd" => {
                for word in words {
                    match word.raw().split_once('=') {
                        Some(("of", path)) => self.add_text(path, Mode::Write),
                        Some(("if", path)) => self.add_text(path, Mode::Read),
                        Some(_) | None => {}
                    }
                }
            }
            "sed" | "gsed" | "perl" | "ruby" if words.iter().any(|it| edits_in_place(it.raw())) => {
                self.all(scripted(words), Mode::Write);
            }
            "sed" | "gsed" | "awk" | "gawk" | "mawk" => self.all(scripted(words), Mode::Read),
            "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "zgrep" => {
                self.searched(name, words);
            }
            "find" | "fd" => self.found(words),
            "tar" | "gtar" | "bsdtar" => self.archived(words),
            "zip" | "7z" => {
                let mut operands = plain.operands().into_iter();
                self.all(operands.next(), Mode::Write);
                self.all(operands, Mode::ReadAll);
            }
            "unzip" => {
                self.texts(&plain, &["-d"], Mode::Write);
            }
            "curl" => self.transferred(words),
            "wget" => {
                let arguments = Arguments::new(words, &["-O", "-P", "-o", "-a", "-i"]);
                let to = ["-O", "-P", "-o", "-a", "--output-document", "--directory-prefix"];
                self.texts(&arguments, &to, Mode::Write);
                self.texts(&arguments, &["--post-file", "--body-file", "-i"], Mode::Read);
            }
            "git" => self.git(words),
            "ssh-keygen" => {
                let makes = !plain.has(&["-l", "-y", "-R", "-F", "-B"]);
                let mode = if makes { Mode::Write } else { Mode::Read };
                self.texts(&plain, &["-f"], mode);
            }
            "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "patch"
            | "split" => {
                self.all(plain.operands(), Mode::Write);
            }
            "gcc" | "cc" | "clang" | "g++" | "c++" | "rustc" | "ld" | "pandoc" | "as" => {
                self.texts(&plain, &["-o", "--output"], Mode::Write);
            }
            "source" | "." => self.all(plain.operands().into_iter().take(1), Mode::Execute),
            "defaults" | "plutil" if plain.has(&["write", "delete"]) => {
                self.all(plain.operands().into_iter().skip(1).take(1), Mode::Write);
            }
            _ if NAMERS.contains(&name) => {}
            _ if READERS.contains(&name) => {
                let arguments = Arguments::new(words, &[]);
                self.all(arguments.operands(), Mode::Read);
                self.texts(&arguments, &["-in", "-inkey", "--in"], Mode::Read);
                self.texts(&arguments, &["-out", "--output"], Mode::Write);
                if name == "sort" {
                    self.texts(&arguments, &["-o"], Mode::Write);
                }
            }
            _ => {
                for word in words {
                    let text = word.raw();
                    let value = match text.strip_prefix('-') {
                        Some(flag) => flag.split_once('=').map(|(_, value)| value),
                        None => Some(text),
                    };
                    if let Some(value) = value {
                        self.add_text(value.trim_start_matches('@'), Mode::Use);
                    }
                }
            }
        }
    }

    fn all<'a>(&mut self, paths: impl IntoIterator<Item = &'a Word>, mode: Mode) {
        for path in paths {
            self.add(path, mode);
        }
    }

    /// Adds the values of the given flags.
    fn texts(&mut self, arguments: &Arguments<'_>, flags: &[&str], mode: Mode) {
        for text in arguments.texts(flags) {
            self.add_text(&text, mode);
        }
    }

    /// Adds the sources, and the destination both as a file and as a directory that receives them.
    fn copied(&mut self, words: &[Word], sources_go: Option<Mode>) {
        let values =
            ["-t", "--target-directory", "-m", "-o", "-g", "-e", "--rsh", "--exclude", "-S"];
        let arguments = Arguments::new(words, &values);
        let mut sources = arguments.operands();
        let destination = match arguments.value(&["-t", "--target-directory"]) {
            Some(to) => Some(to),
            None if sources.len() > 1 => sources.pop(),
            None => None,
        };
        for source in &sources {
            if !is_remote(source) {
                self.add(source, sources_go.unwrap_or(Mode::ReadAll));
            }
        }
        let Some(destination) = destination.filter(|to| !is_remote(to)) else { return };
        self.add(destination, Mode::Write);
        for source in sources {
            let name = source.raw().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            if !matches!(name, "." | "..") {
                let inner = format!("{}/{name}", destination.raw().trim_end_matches('/'));
                self.add_text(&inner, Mode::Write);
            }
        }
    }

    fn searched(&mut self, name: &str, words: &[Word]) {
        let values = ["-e", "-f", "-A", "-B", "-C", "-m", "-g", "-t", "--include", "--exclude"];
        let arguments = Arguments::new(words, &values);
        let has_pattern = arguments.value(&["-e", "--regexp", "-f"]).is_some();
        let recursive = !name.ends_with("grep") || arguments.short('r') || arguments.short('R');
        let mode = if recursive { Mode::ReadAll } else { Mode::Read };
        let skipped = usize::from(!has_pattern);
        self.all(arguments.operands().into_iter().skip(skipped), mode);
        self.texts(&arguments, &["-f", "--file"], Mode::Read);
    }

    fn found(&mut self, words: &[Word]) {
        let removes = words.iter().any(|word| word.raw() == "-delete");
        for root in crate::guard::lower::find_roots(words) {
            if removes {
                let name = crate::guard::lower::name_of_found(words);
                self.add_text(
                    &format!("{}/{name}", root.raw().trim_end_matches('/')),
                    Mode::Remove,
                );
            }
        }
        let arguments = Arguments::new(words, &[]);
        self.texts(&arguments, &["-fprint", "-fprintf", "-fls"], Mode::Write);
    }

    fn archived(&mut self, words: &[Word]) {
        let arguments = Arguments::new(words, &["-f", "-C", "--file", "--directory", "-T", "-X"]);
        let first = words.first().map(Word::raw).unwrap_or_default();
        let letters = if first.starts_with("--") { "" } else { first.trim_start_matches('-') };
        let is = |letter: char, long: &str| letters.contains(letter) || arguments.has(&[long]);
        let mut operands = arguments.operands();
        // In `tar cf FILE ...` the letters and the file are words without a dash.
        if !first.starts_with('-') && !operands.is_empty() {
            operands.remove(0);
        }
        let file = match arguments.value(&["-f", "--file"]) {
            Some(file) => Some(file),
            None if letters.contains('f') && !operands.is_empty() => Some(operands.remove(0)),
            None => None,
        };
        let directory = arguments.value(&["-C", "--directory"]);
        if is('x', "--extract") {
            self.all(file.filter(|file| file.raw() != "-"), Mode::Read);
            self.all(directory, Mode::Write);
        } else if is('c', "--create") || is('r', "--append") || is('u', "--update") {
            self.all(file.filter(|file| file.raw() != "-"), Mode::Write);
            for operand in operands {
                match directory.filter(|_| !operand.raw().starts_with('/')) {
                    Some(to) => {
                        self.add_text(&format!("{}/{}", to.raw(), operand.raw()), Mode::ReadAll);
                    }
                    None => self.add(operand, Mode::ReadAll),
                }
            }
        }
    }

    fn transferred(&mut self, words: &[Word]) {
        let arguments = Arguments::new(words, &[]);
        let to = ["-o", "--output", "--output-dir", "-c", "--cookie-jar", "-D", "--dump-header"];
        self.texts(&arguments, &to, Mode::Write);
        self.texts(&arguments, &["-T", "--upload-file", "-K", "--config"], Mode::Read);
        self.texts(&arguments, &["--netrc-file", "--key", "-b", "--cookie"], Mode::Use);
        for (value, _) in super::super::network::sent_files(words) {
            self.add_text(&value, Mode::Read);
        }
    }

    fn git(&mut self, words: &[Word]) {
        let git = super::super::git::Git::new(words);
        let operands = git.rest.operands();
        let placed = |word: &Word| match git.directory {
            Some(directory) if !word.raw().starts_with('/') => {
                format!("{}/{}", directory.raw(), word.raw())
            }
            Some(_) | None => word.raw().to_owned(),
        };
        match git.verb {
            // Commands often name a whole tree but rarely change all of it, so parent directories
            // do not count.
            "checkout" | "restore" | "rm" | "mv" | "clean" => {
                for operand in operands {
                    self.add_text(&placed(operand), Mode::Write);
                }
            }
            "clone" => {
                if let Some(to) = operands.get(1) {
                    self.add_text(&placed(to), Mode::Write);
                }
            }
            "init" => {
                if let Some(to) = operands.first() {
                    self.add_text(&placed(to), Mode::Write);
                }
            }
            "worktree" if operands.first().is_some_and(|it| it.raw() == "add") => {
                if let Some(to) = operands.get(1) {
                    self.add_text(&placed(to), Mode::Write);
                }
            }
            "hash-object" | "diff" | "archive" => {
                for operand in operands {
                    self.add_text(&placed(operand), Mode::Use);
                }
            }
            _ => {}
        }
    }
}

/// Returns the operands of a program whose first operand is a script.
fn scripted(words: &[Word]) -> Vec<&Word> {
    const VALUES: [&str; 9] =
        ["-e", "-f", "-v", "-F", "--expression", "--file", "-pe", "-ne", "-pie"];
    let arguments = Arguments::new(words, &VALUES);
    let is_given = words.iter().any(|word| {
        let text = word.raw();
        text.starts_with("-e")
            || text.starts_with("--expression")
            || text == "-f"
            || (text.starts_with('-')
                && !text.starts_with("--")
                && text.ends_with('e')
                && text.len() > 2)
    });
    let skipped = usize::from(!is_given);
    arguments.operands().into_iter().skip(skipped).collect()
}

fn edits_in_place(word: &str) -> bool {
    let short = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
    word.starts_with("--in-place")
        || short.is_some_and(|flags| {
            flags.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'i')
        })
}

/// Returns whether a path is on another machine.
pub(in crate::guard) fn is_remote(word: &Word) -> bool {
    let text = word.raw();
    let host = text.split_once(':').map(|(host, _)| host);
    host.is_some_and(|host| !host.is_empty() && !host.contains('/')) || text.contains("://")
}
