//! Determines what a command prints, where that follows from the text alone.

use super::walk::Walker;
use crate::arguments::Arguments;
use crate::codec;
use crate::command::{RedirectMode, ShellCommand, resolve_path};
use crate::word::{ONE, STAR, Word, has_marks, mark_globs};

impl Walker {
    /// Returns what a command prints.
    pub(super) fn find_output(&self, command: &ShellCommand) -> Word {
        let name = command.name();
        if self.functions.contains_key(name) {
            return Word::default();
        }
        let arguments = command.arguments();
        let operands: Vec<&Word> =
            arguments.iter().filter(|word| !word.raw().starts_with('-')).collect();
        let has = |flags: &[&str]| arguments.iter().any(|word| flags.contains(&word.raw()));
        let line = |text: &str| Word::from_marked(format!("{text}\n"));
        let some = || line(&new_name_placeholder());
        match name {
            // `$(< FILE)`
            "" if command.redirects.iter().any(|it| it.mode == RedirectMode::Read) => {
                self.find_read_text(command, &operands)
            }
            "" if command.argv.is_empty() => Word::default(),
            // The commands that these run print; the others print nothing.
            "eval" | "source" | "." | "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "trap"
            | "watch" | "parallel" | "env_parallel" | "sem" | "cd" | "mkdir" | "rm" | "cp"
            | "mv" | "touch" | "export" | "set" | "test" | "[" | "true" | "false" | ":"
            | "sleep" | "chmod" | "kill" | "wait" | "unset" | "read" | "local" | "declare"
            | "alias" | "shift" | "return" | "exit" | "ln" => Word::default(),
            "echo" => format_echo(arguments),
            "printf" => format_printf(arguments),
            "cat" | "tee" | "head" | "tail" | "sort" | "uniq" | "tac" | "grep" => {
                self.find_read_text(command, &operands)
            }
            "base64" | "gbase64" if has(&["-d", "-D", "--decode", "-di"]) => {
                decode_word(&self.find_read_text(command, &operands), codec::decode_base64)
            }
            "openssl" if has(&["-d"]) && has(&["base64", "-base64", "-a"]) => {
                decode_word(&read_stdin(command), codec::decode_base64)
            }
            "xxd" if arguments.iter().any(|it| it.raw().starts_with("-r") || it.raw() == "-pr") => {
                decode_word(&self.find_read_text(command, &operands), codec::decode_hex)
            }
            "rev" => decode_word(&self.find_read_text(command, &operands), |text| {
                Some(reverse_lines(text))
            }),
            "tr" => format_tr(command, &operands),
            "mktemp" => Word::from_marked(format!("/tmp/tmp.{}\n", crate::word::UNKNOWN)),
            "pwd" => command.cwd.as_deref().map_or_else(Word::new_unknown, line),
            "which" | "realpath" | "readlink" | "type" => match operands.as_slice() {
                [only]
                    if has(&["-p", "-f", "-e", "-m"]) || name == "which" || name == "realpath" =>
                {
                    line(only.raw())
                }
                _ => Word::new_unknown(),
            },
            "command" if has(&["-v"]) => match operands.as_slice() {
                [only] => line(only.raw()),
                _ => Word::new_unknown(),
            },
            "dirname" | "basename" => match operands.as_slice() {
                [path, ..] => {
                    let path = path.raw().trim_end_matches('/');
                    let (front, back) = path.rsplit_once('/').unwrap_or((".", path));
                    line(if name == "basename" { back } else { front })
                }
                [] => Word::new_unknown(),
            },
            "seq" => format_seq(&operands),
            "find" => {
                let roots = find_roots(arguments);
                let name = new_find_placeholder(arguments);
                let found = roots.iter().map(|root| format!("{}/{name}\n", root.raw()));
                Word::from_marked(found.collect())
            }
            "ls" => {
                let is_path = |word: &&&Word| has(&["-d"]) || has_marks(word.raw());
                let paths: Vec<&str> = operands.iter().filter(is_path).map(|it| it.raw()).collect();
                if paths.is_empty() { some() } else { line(&paths.join("\n")) }
            }
            "fd" | "fdfind" if operands.len() > 1 => {
                let values = ["-e", "-t", "-d", "-E", "-S", "-o", "--extension", "--type"];
                let operands = Arguments::new(arguments, &values).find_operands();
                let pattern = operands.first().map_or("", |word| word.raw());
                let is_plain = |it: char| it.is_alphanumeric() || "_-.".contains(it);
                let is_name = pattern.len() > 1 && pattern.chars().all(is_plain);
                let found = operands.iter().skip(1).map(|root| match root.raw() {
                    // In the project anything may be called like a secret.
                    root if is_name && root.starts_with('/') => {
                        format!("{root}/{STAR}/{STAR}{pattern}{STAR}\n")
                    }
                    root => format!("{root}/{}\n", new_name_placeholder()),
                });
                Word::from_marked(found.collect())
            }
            "fd" => some(),
            "git" if has(&["--show-toplevel"]) => {
                let project = self.variables.get("CLAUDE_PROJECT_DIR").and_then(|it| it.first());
                project.map_or_else(Word::new_unknown, |project| line(project.raw()))
            }
            "git" if has(&["ls-files", "--name-only", "ls-tree"]) => some(),
            _ => Word::new_unknown(),
        }
    }

    /// Returns what a command reads: files that the text has written, or its standard input.
    fn find_read_text(&self, command: &ShellCommand, operands: &[&Word]) -> Word {
        match (command.name(), operands) {
            ("grep", _)
                if command
                    .arguments()
                    .iter()
                    .any(|it| it.raw().starts_with('-') && it.raw().contains('l')) =>
            {
                Word::from_marked(new_name_placeholder() + "\n")
            }
            ("grep", _) => Word::new_unknown(),
            ("tee", _) | (_, []) => read_stdin(command),
            (_, files) => {
                let mut text = String::new();
                for file in files {
                    let at = resolve_path(file, command.cwd.as_deref());
                    match at.and_then(|at| self.files.get(&at)) {
                        Some(known) => text.push_str(known.raw()),
                        None => return Word::new_unknown(),
                    }
                }
                Word::from_marked(text)
            }
        }
    }
}

/// Returns a placeholder for one of several file names.
pub(crate) fn new_name_placeholder() -> String {
    format!("{ONE}{STAR}")
}

/// Returns a placeholder for the names that `find` finds: everything, unless it has a test.
pub(crate) fn new_find_placeholder(arguments: &[Word]) -> String {
    const TESTS: [&str; 19] = [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-empty",
        "-mtime",
        "-mmin",
        "-newer",
        "-size",
        "-user",
        "-perm",
        "-ctime",
        "-atime",
        "-cmin",
        "-amin",
        "-links",
    ];
    let is_negative = |word: &Word| matches!(word.raw(), "!" | "-not");
    let name = Arguments::new(arguments, &[]).find_value(&["-name", "-iname"]);
    if let Some(name) = name.filter(|_| !arguments.iter().any(is_negative)) {
        format!("{STAR}/{}", mark_globs(name.raw()))
    } else if arguments.iter().any(|word| TESTS.contains(&word.raw())) {
        new_name_placeholder()
    } else {
        STAR.to_string()
    }
}

/// Returns the directories that `find` starts in.
pub(crate) fn find_roots(arguments: &[Word]) -> Vec<Word> {
    let roots: Vec<Word> = arguments
        .iter()
        .skip_while(|word| matches!(word.raw(), "-H" | "-L" | "-P"))
        .take_while(|word| !word.raw().starts_with(['-', '(', '!']))
        .cloned()
        .collect();
    if roots.is_empty() { vec![Word::new(".")] } else { roots }
}

fn reverse_lines(text: &str) -> String {
    text.lines().map(|line| line.chars().rev().collect::<String>() + "\n").collect()
}

/// Returns the standard input of a command.
fn read_stdin(command: &ShellCommand) -> Word {
    command.stdin.clone().unwrap_or_else(Word::new_unknown)
}

fn decode_word(text: &Word, decode: impl FnOnce(&str) -> Option<String>) -> Word {
    let decoded = text.as_known().and_then(decode);
    decoded.map_or_else(Word::new_unknown, |text| Word::new(&crate::word::strip_marks(&text)))
}

fn format_echo(arguments: &[Word]) -> Word {
    let is_flag = |word: &&Word| {
        let flags = word.raw().strip_prefix('-').unwrap_or_default();
        !flags.is_empty() && flags.chars().all(|it| matches!(it, 'n' | 'e' | 'E'))
    };
    let flags: Vec<&Word> = arguments.iter().take_while(is_flag).collect();
    let has = |flag: char| flags.iter().any(|word| word.raw().contains(flag));
    let words: Vec<&str> = arguments.iter().skip(flags.len()).map(Word::raw).collect();
    let text = words.join(" ");
    let text = if has('e') { codec::decode_escapes(&text) } else { text };
    Word::from_marked(if has('n') { text } else { text + "\n" })
}

/// Formats as `printf` does, for the common directives.
fn format_printf(arguments: &[Word]) -> Word {
    let arguments = match arguments {
        [first, rest @ ..] if first.raw() == "--" => rest,
        all => all,
    };
    let Some((format, values)) = arguments.split_first() else { return Word::default() };
    let format: Vec<char> = codec::decode_escapes(format.raw()).chars().collect();
    let mut values = values.iter();
    let mut text = String::new();
    loop {
        let before = values.len();
        let mut rest = format.iter().copied().peekable();
        while let Some(it) = rest.next() {
            if it != '%' {
                text.push(it);
                continue;
            }
            while rest.next_if(|it| matches!(it, '0'..='9' | '.' | '-' | '+' | ' ' | '#')).is_some()
            {
            }
            match rest.next() {
                Some('%') => text.push('%'),
                Some('b') => {
                    let value = values.next().map(|word| codec::decode_escapes(word.raw()));
                    text.push_str(&value.unwrap_or_default());
                }
                Some('c') => text.extend(values.next().and_then(|word| word.raw().chars().next())),
                Some(_) => text.push_str(values.next().map(Word::raw).unwrap_or_default()),
                None => {}
            }
        }
        // The format is used again while there are values left.
        if values.len() == 0 || values.len() == before || text.len() > 64 * 1024 {
            return Word::from_marked(text);
        }
    }
}

fn format_seq(operands: &[&Word]) -> Word {
    let numbers: Option<Vec<i64>> =
        operands.iter().map(|word| word.as_known().and_then(|text| text.parse().ok())).collect();
    let (from, to) = match numbers.as_deref() {
        Some([to]) => (1, *to),
        Some([from, to]) => (*from, *to),
        _ => return Word::new_unknown(),
    };
    if to.saturating_sub(from) > 100 {
        return Word::new_unknown();
    }
    let lines: Vec<String> = (from..=to).map(|it| it.to_string()).collect();
    Word::from_marked(lines.join("\n"))
}

fn format_tr(command: &ShellCommand, operands: &[&Word]) -> Word {
    let text = read_stdin(command);
    let flags = command.arguments().iter().any(|word| word.raw() == "-d");
    let changed = match (text.as_known(), operands, flags) {
        (Some(text), [from, to], false) => from
            .as_known()
            .zip(to.as_known())
            .map(|(from, to)| codec::translate_chars(text, from, to)),
        (Some(text), [unwanted], true) => {
            unwanted.as_known().map(|unwanted| codec::delete_chars(text, unwanted))
        }
        _ => None,
    };
    changed.map_or_else(Word::new_unknown, Word::from_marked)
}
