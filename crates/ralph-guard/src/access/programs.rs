//! Programs with known effects on the paths in their arguments.

use super::{AccessCollector, AccessMode};
use crate::arguments::Arguments;
use crate::lower::{ShellCommand, Word, has_marks, new_name_placeholder};

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

/// Options of many programs that name a file or directory that they write.
const OUTPUTS: [&str; 12] = [
    "-o",
    "--output",
    "--out",
    "--outfile",
    "--out-file",
    "--output-file",
    "--outdir",
    "--out-dir",
    "--outDir",
    "--output-dir",
    "--dest",
    "--destdir",
];

/// Programs with other options that do so.
const TARGETS: [(&[&str], &[&str]); 7] = [
    (&["cpio"], &["-D", "--directory"]),
    (&["unsquashfs"], &["-d", "-dest"]),
    (&["pip", "pip3", "uv"], &["-t", "--target", "--root"]),
    (&["cargo"], &["--root", "--target-dir"]),
    (&["javac", "kotlinc"], &["-d"]),
    (&["aria2c", "wget2"], &["-d", "-P", "--dir", "--directory-prefix"]),
    (&["make", "gmake"], &["DESTDIR", "prefix", "PREFIX"]),
];

/// Returns whether the value of an option is a path, and no name of a format or a column.
fn is_written_path(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || has_marks(value) && value.contains('/')
}

impl AccessCollector {
    /// Adds the accesses of a program by its arguments.
    #[expect(clippy::too_many_lines, reason = "one arm for each program")]
    pub(super) fn add_program(&mut self, name: &str, command: &ShellCommand) {
        let words = command.arguments();
        let plain = Arguments::new(words, &[]);
        self.add_targets(name, &plain);
        match name {
            "rm" | "unlink" | "rmdir" | "srm" | "trash" | "trash-put" => {
                self.add_all(plain.find_operands(), AccessMode::Remove);
            }
            "shred" => {
                let arguments = Arguments::new(words, &["-n", "-s"]);
                self.add_all(arguments.find_operands(), AccessMode::Remove);
            }
            "ed" | "red" | "ex" => self.add_all(plain.find_operands(), AccessMode::Write),
            "touch" | "mkdir" | "mkfifo" | "mknod" | "tee" | "sponge" | "truncate"
            | "fallocate" => {
                let values = ["-s", "-m", "-r", "-d", "-t", "-l", "-o", "--size", "--length"];
                self.add_all(Arguments::new(words, &values).find_operands(), AccessMode::Write);
            }
            "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "setcap" => {
                self.add_all(plain.find_operands().into_iter().skip(1), AccessMode::Write);
            }
            "mv" => self.add_copy(words, Some(AccessMode::Remove)),
            "cp" | "install" | "ln" | "ditto" => self.add_copy(words, None),
            "rsync" => {
                let moves = words.iter().any(|word| word.raw() == "--remove-source-files");
                self.add_copy(words, moves.then_some(AccessMode::Remove));
                let deletes = words.iter().any(|word| word.raw().starts_with("--delete"));
                if let Some(to) = plain.find_operands().last().filter(|_| deletes) {
                    self.add_text(
                        &format!("{}/{}", to.raw().trim_end_matches('/'), new_name_placeholder()),
                        AccessMode::Remove,
                    );
                }
            }
            "scp" | "sftp" => {
                let arguments = Arguments::new(words, &["-i", "-P", "-F", "-o", "-l", "-S"]);
                let mut local: Vec<&Word> = arguments.find_operands();
                let to = local.pop();
                local.retain(|word| !is_remote(word));
                self.add_all(local, AccessMode::ReadAll);
                self.add_all(to.filter(|to| !is_remote(to)), AccessMode::Write);
            }
            "dd" => {
                for word in words {
                    match word.raw().split_once('=') {
                        Some(("of", path)) => self.add_text(path, AccessMode::Write),
                        Some(("if", path)) => self.add_text(path, AccessMode::Read),
                        Some(_) | None => {}
                    }
                }
            }
            "sed" | "gsed" | "perl" | "ruby" if words.iter().any(|it| edits_in_place(it.raw())) => {
                self.add_all(skip_script(words), AccessMode::Write);
            }
            "sed" | "gsed" | "awk" | "gawk" | "mawk" => {
                self.add_all(skip_script(words), AccessMode::Read);
            }
            "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "zgrep" => {
                self.add_search(name, words);
            }
            "find" | "fd" => self.add_find(words),
            "tar" | "gtar" | "bsdtar" => self.add_archive(words),
            "zip" | "7z" | "7za" | "7zz" => {
                let is_short = |word: &str| word.starts_with('-') && !word.starts_with("--");
                let moves = words.iter().map(Word::raw).any(|word| match name {
                    "zip" => word == "--move" || is_short(word) && word.contains('m'),
                    _ => word == "-sdel",
                });
                self.add_outputs(&plain);
                let mut operands = plain.find_operands().into_iter();
                if name != "zip" {
                    // What to do.
                    operands.next();
                }
                self.add_all(operands.next(), AccessMode::Write);
                let mode = if moves { AccessMode::Remove } else { AccessMode::ReadAll };
                self.add_all(operands, mode);
            }
            "unrar" | "dpkg" | "dpkg-deb" => {
                let unpacks = ["x", "e", "-x", "-X", "--extract", "--vextract"];
                let to = plain.find_operands().pop().filter(|_| plain.has_any(&unpacks));
                self.add_all(to, AccessMode::Write);
            }
            "docker" | "podman" => {
                self.add_outputs(&plain);
                if plain.find_operands().first().is_some_and(|it| it.raw() == "cp") {
                    let to = plain.find_operands().pop().filter(|to| !is_remote(to));
                    self.add_all(to, AccessMode::Write);
                }
            }
            "unzip" => {
                self.add_flag_values(&plain, &["-d"], AccessMode::Write);
            }
            "curl" => self.add_transfer(words),
            "wget" => {
                let arguments = Arguments::new(words, &["-O", "-P", "-o", "-a", "-i"]);
                let to = ["-O", "-P", "-o", "-a", "--output-document", "--directory-prefix"];
                self.add_flag_values(&arguments, &to, AccessMode::Write);
                self.add_flag_values(
                    &arguments,
                    &["--post-file", "--body-file", "-i"],
                    AccessMode::Read,
                );
            }
            "git" => self.add_git(words),
            "ssh-keygen" => {
                let makes = !plain.has_any(&["-l", "-y", "-R", "-F", "-B"]);
                let mode = if makes { AccessMode::Write } else { AccessMode::Read };
                self.add_flag_values(&plain, &["-f"], mode);
            }
            "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "patch"
            | "split" => {
                self.add_all(plain.find_operands(), AccessMode::Write);
            }
            "gcc" | "cc" | "clang" | "g++" | "c++" | "rustc" | "ld" | "pandoc" | "as" => {
                self.add_flag_values(&plain, &["-o", "--output"], AccessMode::Write);
            }
            "source" | "." => {
                self.add_all(plain.find_operands().into_iter().take(1), AccessMode::Execute);
            }
            "defaults" | "plutil" if plain.has_any(&["write", "delete"]) => {
                self.add_all(plain.find_operands().into_iter().skip(1).take(1), AccessMode::Write);
            }
            // The first operand is a filter.
            "jq" | "yq" => {
                self.add_all(plain.find_operands().into_iter().skip(1), AccessMode::Read);
            }
            // Every file in the directory can be fetched.
            "python" | "python3" if plain.has_any(&["http.server"]) => {
                for text in plain.find_flag_values(&["-d", "--directory"]) {
                    self.add_text(&text, AccessMode::ReadAll);
                }
            }
            _ if NAMERS.contains(&name) => {}
            _ if READERS.contains(&name) => {
                let arguments = Arguments::new(words, &[]);
                self.add_all(arguments.find_operands(), AccessMode::Read);
                self.add_flag_values(&arguments, &["-in", "-inkey", "--in"], AccessMode::Read);
                self.add_flag_values(&arguments, &["-out", "--output"], AccessMode::Write);
                if name == "sort" {
                    self.add_flag_values(&arguments, &["-o"], AccessMode::Write);
                }
            }
            _ => {
                self.add_outputs(&plain);
                for word in words {
                    let text = word.raw();
                    let value = match text.strip_prefix('-') {
                        Some(flag) => flag.split_once('=').map(|(_, value)| value),
                        None => Some(text),
                    };
                    if let Some(value) = value {
                        self.add_text(value.trim_start_matches('@'), AccessMode::Use);
                    }
                }
            }
        }
    }

    fn add_all<'a>(&mut self, paths: impl IntoIterator<Item = &'a Word>, mode: AccessMode) {
        for path in paths {
            self.add_access(path, mode);
        }
    }

    /// Adds the values of the given flags.
    fn add_flag_values(&mut self, arguments: &Arguments<'_>, flags: &[&str], mode: AccessMode) {
        for text in arguments.find_flag_values(flags) {
            self.add_text(&text, mode);
        }
    }

    /// Adds the values of options that name what is written, if they are paths.
    fn add_outputs(&mut self, arguments: &Arguments<'_>) {
        for text in arguments.find_flag_values(&OUTPUTS).iter().filter(|it| is_written_path(it)) {
            self.add_text(text, AccessMode::Write);
        }
    }

    /// Adds the values of such options of this program.
    fn add_targets(&mut self, name: &str, arguments: &Arguments<'_>) {
        if let Some((_, flags)) = TARGETS.iter().find(|(names, _)| names.contains(&name)) {
            self.add_flag_values(arguments, flags, AccessMode::Write);
        }
    }

    /// Adds the sources, and the destination both as a file and as a directory that receives them.
    fn add_copy(&mut self, words: &[Word], sources_go: Option<AccessMode>) {
        let values =
            ["-t", "--target-directory", "-m", "-o", "-g", "-e", "--rsh", "--exclude", "-S"];
        let arguments = Arguments::new(words, &values);
        let mut sources = arguments.find_operands();
        let destination = match arguments.find_value(&["-t", "--target-directory"]) {
            Some(to) => Some(to),
            None if sources.len() > 1 => sources.pop(),
            None => None,
        };
        for source in &sources {
            if !is_remote(source) {
                self.add_access(source, sources_go.unwrap_or(AccessMode::ReadAll));
            }
        }
        let Some(destination) = destination.filter(|to| !is_remote(to)) else { return };
        self.add_access(destination, AccessMode::Write);
        for source in sources {
            let name = source.raw().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            if !matches!(name, "." | "..") {
                let inner = format!("{}/{name}", destination.raw().trim_end_matches('/'));
                self.add_text(&inner, AccessMode::Write);
            }
        }
    }

    fn add_search(&mut self, name: &str, words: &[Word]) {
        let values = ["-e", "-f", "-A", "-B", "-C", "-m", "-g", "-t", "--include", "--exclude"];
        let arguments = Arguments::new(words, &values);
        let has_pattern = arguments.find_value(&["-e", "--regexp", "-f"]).is_some();
        let recursive = !name.ends_with("grep")
            || arguments.has_short_flag('r')
            || arguments.has_short_flag('R');
        let mode = if recursive { AccessMode::ReadAll } else { AccessMode::Read };
        let skipped = usize::from(!has_pattern);
        self.add_all(arguments.find_operands().into_iter().skip(skipped), mode);
        self.add_flag_values(&arguments, &["-f", "--file"], AccessMode::Read);
    }

    fn add_find(&mut self, words: &[Word]) {
        let removes = words.iter().any(|word| word.raw() == "-delete");
        for root in crate::lower::find_roots(words) {
            if removes {
                let name = crate::lower::new_find_placeholder(words);
                self.add_text(
                    &format!("{}/{name}", root.raw().trim_end_matches('/')),
                    AccessMode::Remove,
                );
            }
        }
        let arguments = Arguments::new(words, &[]);
        self.add_flag_values(&arguments, &["-fprint", "-fprintf", "-fls"], AccessMode::Write);
    }

    fn add_archive(&mut self, words: &[Word]) {
        let arguments = Arguments::new(words, &["-f", "-C", "--file", "--directory", "-T", "-X"]);
        let first = words.first().map(Word::raw).unwrap_or_default();
        let letters = if first.starts_with("--") { "" } else { first.trim_start_matches('-') };
        let has_letter =
            |letter: char| letters.contains(letter) || arguments.has_short_flag(letter);
        let is = |letter: char, long: &str| has_letter(letter) || arguments.has_any(&[long]);
        let mut operands = arguments.find_operands();
        // In `tar cf FILE ...` the letters and the file are words without a dash.
        if !first.starts_with('-') && !operands.is_empty() {
            operands.remove(0);
        }
        let file = match arguments.find_value(&["-f", "--file"]) {
            Some(file) => Some(file),
            None if has_letter('f') && !operands.is_empty() => Some(operands.remove(0)),
            None => None,
        };
        let directory = arguments.find_value(&["-C", "--directory"]);
        if is('x', "--extract") {
            self.add_all(file.filter(|file| file.raw() != "-"), AccessMode::Read);
            self.add_all(directory, AccessMode::Write);
        } else if is('c', "--create") || is('r', "--append") || is('u', "--update") {
            self.add_all(file.filter(|file| file.raw() != "-"), AccessMode::Write);
            let moves = arguments.has_any(&["--remove-files"]);
            let mode = if moves { AccessMode::Remove } else { AccessMode::ReadAll };
            for operand in operands {
                match directory.filter(|_| !operand.raw().starts_with('/')) {
                    Some(to) => {
                        self.add_text(&format!("{}/{}", to.raw(), operand.raw()), mode);
                    }
                    None => self.add_access(operand, mode),
                }
            }
        }
    }

    fn add_transfer(&mut self, words: &[Word]) {
        let arguments = Arguments::new(words, &[]);
        let to = ["-o", "--output", "--output-dir", "-c", "--cookie-jar", "-D", "--dump-header"];
        self.add_flag_values(&arguments, &to, AccessMode::Write);
        self.add_flag_values(
            &arguments,
            &["-T", "--upload-file", "-K", "--config"],
            AccessMode::Read,
        );
        self.add_flag_values(
            &arguments,
            &["--netrc-file", "--key", "-b", "--cookie"],
            AccessMode::Use,
        );
        for (value, _) in super::super::network::find_sent_files(words) {
            self.add_text(&value, AccessMode::Read);
        }
    }

    fn add_git(&mut self, words: &[Word]) {
        let git = super::super::git::GitCall::new(words);
        let operands = git.rest.find_operands();
        let placed = |word: &Word| match git.directory {
            Some(directory) if !word.raw().starts_with('/') => {
                format!("{}/{}", directory.raw(), word.raw())
            }
            Some(_) | None => word.raw().to_owned(),
        };
        match git.subcommand {
            // Commands often name a whole tree but rarely change all of it, so parent directories
            // do not count.
            "checkout" | "restore" | "rm" | "mv" | "clean" => {
                for operand in operands {
                    self.add_text(&placed(operand), AccessMode::Write);
                }
            }
            "clone" => {
                if let Some(to) = operands.get(1) {
                    self.add_text(&placed(to), AccessMode::Write);
                }
            }
            "init" => {
                if let Some(to) = operands.first() {
                    self.add_text(&placed(to), AccessMode::Write);
                }
            }
            "bundle" if operands.first().is_some_and(|it| it.raw() == "create") => {
                if let Some(to) = operands.get(1) {
                    self.add_text(&placed(to), AccessMode::Write);
                }
            }
            "worktree" if operands.first().is_some_and(|it| it.raw() == "add") => {
                if let Some(to) = operands.get(1) {
                    self.add_text(&placed(to), AccessMode::Write);
                }
            }
            "hash-object" | "diff" | "archive" => {
                for operand in operands {
                    self.add_text(&placed(operand), AccessMode::Use);
                }
            }
            _ => {}
        }
    }
}

/// Returns the operands of a program whose first operand is a script.
fn skip_script(words: &[Word]) -> Vec<&Word> {
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
    arguments.find_operands().into_iter().skip(skipped).collect()
}

fn edits_in_place(word: &str) -> bool {
    let short = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
    word.starts_with("--in-place")
        || short.is_some_and(|flags| {
            flags.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'i')
        })
}

/// Returns whether a path is on another machine.
pub(crate) fn is_remote(word: &Word) -> bool {
    let text = word.raw();
    let host = text.split_once(':').map(|(host, _)| host);
    host.is_some_and(|host| !host.is_empty() && !host.contains('/')) || text.contains("://")
}
