//! Commands that run more code: shells, `eval`, functions, `find -exec`, interpreters.

use std::rc::Rc;

use super::parse;
use super::printed_output::{find_roots, new_find_placeholder};
use super::walk::{Walker, count_work};
use super::wrappers::allows_unbounded;
use crate::arguments::Arguments;
use crate::command::{Copies, LoweringError, ShellCommand, resolve_path};
use crate::word::{Word, replace_bounded};

/// The shells.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"];

/// Programs whose output is what someone else wrote. The output of any other program, passed to
/// `eval`, is as trustworthy as the program itself.
const CARRIERS: [&str; 31] = [
    "curl", "wget", "fetch", "http", "nc", "ncat", "socat", "ssh", "dig", "nslookup", "host",
    "base64", "xxd", "openssl", "gpg", "gunzip", "zcat", "rev", "tr", "sed", "awk", "printf",
    "echo", "cat", "head", "tail", "cut", "perl", "python3", "python", "grep",
];

/// Flags of `parallel` that take the next word.
const PARALLEL_VALUES: [&str; 28] = [
    "-a",
    "-j",
    "-P",
    "-I",
    "-N",
    "-n",
    "-L",
    "-S",
    "-C",
    "-d",
    "-s",
    "--arg-file",
    "--jobs",
    "--max-procs",
    "--colsep",
    "--delimiter",
    "--joblog",
    "--results",
    "--delay",
    "--timeout",
    "--retries",
    "--tmpdir",
    "--workdir",
    "--wd",
    "--tagstring",
    "--load",
    "--halt",
    "--block",
];

/// What `parallel` replaces by an input, or by a part of it.
const PARALLEL_MARKS: [&str; 8] = ["{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}", "{3}"];

/// Bytes of code per unit of work: it is searched for about a hundred patterns.
const CODE_BYTES_PER_UNIT: usize = 16;

/// Returns whether a program is a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns the code that a shell gets with `-c` and the words after it, or its script.
pub(crate) fn parse_shell_source(arguments: &[Word]) -> ShellSource<'_> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let text = word.raw();
        let flags = text.strip_prefix(['-', '+']).filter(|it| !it.is_empty());
        match (text, flags) {
            ("--", _) | ("-", None) => {
                at += 1;
                break;
            }
            ("-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file", _) => at += 2,
            // `-euo pipefail`: the last of several letters takes the next word.
            (_, Some(flags))
                if !flags.starts_with('-')
                    && flags.ends_with(['o', 'O'])
                    && !flags.contains(['c', 's']) =>
            {
                at += 2;
            }
            (_, Some(flags)) if !flags.starts_with('-') && flags.contains('c') => {
                let rest = &arguments[at + 1..];
                let skipped = rest.iter().take_while(|word| word.raw().starts_with('-')).count();
                return match rest.get(skipped) {
                    Some(code) => ShellSource::Code(code, &rest[skipped + 1..]),
                    None => ShellSource::Input,
                };
            }
            (_, Some(flags)) if !flags.starts_with('-') && flags.contains('s') => {
                return ShellSource::Input;
            }
            (_, Some(_)) => at += 1,
            (_, None) => break,
        }
    }
    match arguments.get(at) {
        Some(script) => ShellSource::Script(script, &arguments[at + 1..]),
        None => ShellSource::Input,
    }
}

/// Returns the inputs of `parallel`: its arguments after `:::`, or lines of its input or a file.
fn find_inputs(flags: &[Word], given: &[Word], command: &ShellCommand) -> Vec<String> {
    let reads_file = |word: &Word| {
        word.raw() == "::::" || word.raw().starts_with("-a") || word.raw().starts_with("--arg-file")
    };
    if flags.iter().chain(given).any(reads_file) {
        return vec![Word::new_unknown().to_code()];
    }
    if given.is_empty() {
        let input = command.stdin.clone().unwrap_or_default().to_code();
        return input.lines().map(str::to_owned).collect();
    }
    given.iter().filter(|word| !word.raw().starts_with(":::")).map(Word::to_code).collect()
}

/// Fills an input into code; without a mark it comes last.
fn fill_marks(code: &str, marks: &[&str], input: &str) -> Option<String> {
    let mut filled = code.to_owned();
    let mut is_filled = false;
    for mark in marks.iter().filter(|mark| !mark.is_empty()) {
        if filled.contains(mark) {
            filled = replace_bounded(&filled, mark, input)?;
            is_filled = true;
        }
    }
    Some(if is_filled { filled } else { format!("{code} {input}") })
}

/// Where a shell reads its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellSource<'a> {
    /// The value of `-c`, and the arguments after it.
    Code(&'a Word, &'a [Word]),
    /// A file, and its arguments.
    Script(&'a Word, &'a [Word]),
    /// Standard input.
    Input,
}

impl Walker {
    /// Walks what a command runs itself.
    pub(super) fn walk_nested(&mut self, name: &str, command: &ShellCommand, feeders: &[usize]) {
        let arguments = command.arguments();
        if let Some(body) = self.functions.get(name).map(Rc::clone) {
            if !command.execution.recursive {
                self.walk_call(name, &body, arguments.to_vec());
            }
            return;
        }
        match name {
            name if is_shell(name) => self.walk_shell(command),
            "eval" => {
                if feeders.is_empty() || self.has_only_carriers(feeders) {
                    let code: Vec<String> = arguments.iter().map(Word::to_code).collect();
                    self.walk_nested_text(&code.join(" "));
                }
            }
            "source" | "." => {
                if let Some(file) = arguments.first()
                    && (command.fed_by.is_empty()
                        || self.has_only_carriers(&command.fed_by.clone()))
                {
                    self.walk_script(file, &arguments[1..], command);
                }
            }
            // The code of `trap` runs after everything else.
            "trap" => {
                let code = arguments.first().map(Word::to_code);
                self.traps.extend(code.filter(|code| code.contains([' ', '/', ';'])));
            }
            "alias" => {
                for word in arguments {
                    let code = word.to_code();
                    if let Some((_, code)) = code.split_once('=') {
                        self.walk_subshell(|walker| walker.walk_nested_text(code));
                    }
                }
            }
            "find" => self.walk_find(command),
            "fd" | "fdfind" => self.walk_fd(command),
            "watch" | "parallel" | "env_parallel" | "sem" => self.walk_joined_code(name, command),
            "su" | "script" | "flock" | "npx" | "runuser" => {
                let code = arguments.iter().position(|word| {
                    let flags = word.raw().strip_prefix('-').unwrap_or_default();
                    !flags.starts_with('-') && flags.ends_with('c') || flags == "-command"
                });
                if let Some(code) = code.and_then(|at| arguments.get(at + 1)) {
                    let code = code.to_code();
                    self.walk_subshell(|walker| walker.walk_nested_text(&code));
                }
            }
            "git" => self.walk_git(command),
            _ => self.walk_interpreter(name, command),
        }
        self.walk_launched(name, command, feeders);
        for code in self.find_escapes(name, command) {
            if self.spend_work(count_work(&code)) && parse::parse_program(&code).is_ok() {
                self.walk_subshell(|walker| walker.walk_nested_text(&code));
            }
        }
        // A program that the text has written before.
        if let Some(program) = command.argv.first().filter(|word| word.raw().contains('/'))
            && !is_shell(name)
        {
            self.walk_script(program, arguments, command);
        }
    }

    /// Returns whether the input comes from programs that only pass on what others wrote.
    fn has_only_carriers(&self, feeders: &[usize]) -> bool {
        feeders.iter().any(|at| {
            self.commands.get(*at).is_none_or(|command| {
                command.name().is_empty() || CARRIERS.contains(&command.name())
            })
        })
    }

    fn walk_shell(&mut self, command: &ShellCommand) {
        match parse_shell_source(command.arguments()) {
            ShellSource::Code(code, rest) => {
                let code = code.to_code();
                let positional = rest.get(1..).unwrap_or_default().to_vec();
                let (cwd, stdin) = (command.cwd.clone(), command.stdin.clone());
                self.walk_subshell(|walker| {
                    (walker.positional, walker.cwd) = (positional, cwd);
                    let name = rest.first().map(|word| ("0".to_owned(), vec![word.clone()]));
                    walker.variables.extend(name);
                    let assigns = command.assigns.iter().cloned();
                    walker.variables.extend(assigns.map(|(name, value)| (name, vec![value])));
                    let before = std::mem::replace(&mut walker.stdin, stdin);
                    walker.walk_nested_text(&code);
                    walker.stdin = before;
                });
            }
            ShellSource::Script(script, rest) => self.walk_script(script, rest, command),
            ShellSource::Input => {
                if let Some(code) = &command.stdin {
                    let code = code.to_code();
                    self.walk_subshell(|walker| {
                        walker.stdin = None;
                        walker.walk_nested_text(&code);
                    });
                }
            }
        }
    }

    /// Walks a script, if the text itself has written it.
    fn walk_script(&mut self, file: &Word, rest: &[Word], command: &ShellCommand) {
        let at = match file.raw() {
            "/dev/stdin" | "/dev/fd/0" | "-" => None,
            _ => resolve_path(file, command.cwd.as_deref()),
        };
        if at.as_ref().is_some_and(|at| self.calls.contains(at)) {
            return;
        }
        let code = match &at {
            Some(at) => self.files.get(at).cloned(),
            None if file.is_known() => command.stdin.clone(),
            None => None,
        };
        if let Some(code) = code.map(|code| code.to_code()) {
            let positional = rest.to_vec();
            self.calls.extend(at.clone());
            self.walk_subshell(|walker| {
                walker.positional = positional;
                walker.walk_nested_text(&code);
            });
            if at.is_some() {
                self.calls.pop();
            }
        }
    }

    fn walk_find(&mut self, command: &ShellCommand) {
        let arguments = command.arguments();
        let roots = find_roots(arguments);
        let name = new_find_placeholder(arguments);
        let starts = |word: &Word| matches!(word.raw(), "-exec" | "-execdir" | "-ok" | "-okdir");
        let mut rest = arguments;
        while let Some(at) = rest.iter().position(starts) {
            // The words up to `;` or `+` belong to the command, including another `-exec`.
            let words = &rest[at + 1..];
            let end = words.iter().enumerate().position(|(at, word)| match word.raw() {
                ";" => true,
                "+" => at > 0 && words[at - 1].raw() == "{}",
                _ => false,
            });
            let (inner, after) = words.split_at(end.unwrap_or(words.len()));
            rest = after;
            for root in &roots {
                if inner.is_empty() || !self.spend_one() {
                    break;
                }
                let found = format!("{}/{name}", root.raw());
                let argv =
                    inner.iter().map(|word| self.fill_placeholder(word, "{}", &found)).collect();
                let mut wrappers = command.wrappers.clone();
                wrappers.push("find".to_owned());
                let (cwd, setting) = (command.cwd.clone(), command.execution);
                let inner = ShellCommand {
                    argv,
                    wrappers,
                    cwd,
                    execution: setting,
                    ..ShellCommand::default()
                };
                self.walk_deeper(|walker| walker.emit_command(inner, &[]));
            }
        }
    }

    /// Walks the command that `fd` runs for what it finds.
    fn walk_fd(&mut self, command: &ShellCommand) {
        let starts = |word: &Word| matches!(word.raw(), "-x" | "-X" | "--exec" | "--exec-batch");
        let arguments = command.arguments();
        let Some(at) = arguments.iter().position(starts) else { return };
        let mut argv: Vec<Word> = arguments[at + 1..].to_vec();
        let found = self.find_output(&ShellCommand {
            argv: command.argv[..=at].to_vec(),
            ..ShellCommand::default()
        });
        let found = found.raw().trim_end();
        if !argv.iter().any(|word| word.raw().contains("{}")) {
            argv.push(Word::new("{}"));
        }
        let argv = argv.iter().map(|word| self.fill_placeholder(word, "{}", found)).collect();
        let inner = ShellCommand { argv, cwd: command.cwd.clone(), ..ShellCommand::default() };
        self.walk_deeper(|walker| walker.emit_command(inner, &[]));
    }

    /// Walks a command that joins its words into code.
    fn walk_joined_code(&mut self, name: &str, command: &ShellCommand) {
        let arguments = command.arguments();
        let values: &[&str] =
            if name == "watch" { &["-n", "--interval"] } else { &PARALLEL_VALUES };
        let mut flags = 0;
        while let Some(word) = arguments.get(flags).filter(|word| word.raw().starts_with('-')) {
            flags += if values.contains(&word.raw()) { 2 } else { 1 };
        }
        let (stated, rest) = arguments.split_at(flags.min(arguments.len()));
        let before = self.execution;
        if name != "watch" && allows_unbounded(stated, &["-j", "--jobs", "-P"]) {
            self.execution.copies = Copies::AsInput;
        }
        let end = rest.iter().position(|word| word.raw().starts_with(":::"));
        let (words, given) = rest.split_at(end.unwrap_or(rest.len()));
        let code = words.iter().map(Word::to_code).collect::<Vec<_>>().join(" ");
        let fed_by = std::mem::replace(&mut self.fed_by, command.fed_by.clone());
        // With `-n0` inputs are only counted, with `--pipe` they are the input of the command.
        let has = |flags: &[&str]| stated.iter().any(|word| flags.contains(&word.raw()));
        let inputs = if name == "watch" || has(&["-n0", "-N0", "--pipe"]) {
            Vec::new()
        } else {
            find_inputs(stated, given, command)
        };
        if inputs.is_empty() {
            let before = self.stdin.clone();
            if has(&["--pipe"]) {
                self.stdin.clone_from(&command.stdin);
            }
            self.walk_subshell(|walker| walker.walk_nested_text(&code));
            self.stdin = before;
        }
        let own_mark = Arguments::new(stated, &[]).find_flag_values(&["-I"]);
        let marks: Vec<&str> = own_mark.iter().map(String::as_str).chain(PARALLEL_MARKS).collect();
        for input in inputs {
            if !self.spend_one() {
                break;
            }
            match fill_marks(&code, &marks, &input) {
                Some(code) => self.walk_subshell(|walker| walker.walk_nested_text(&code)),
                None => self.record_error(LoweringError::TooMuch),
            }
        }
        (self.execution, self.fed_by) = (before, fed_by);
    }

    /// Walks the code that a git command runs.
    fn walk_git(&mut self, command: &ShellCommand) {
        let arguments = command.arguments();
        let rebases = arguments.iter().any(|it| it.raw() == "rebase");
        for (at, word) in arguments.iter().enumerate() {
            let rest = arguments.get(at + 1..).unwrap_or_default();
            if matches!(word.raw(), "foreach" | "run") && !self.spend_work(rest.len()) {
                return;
            }
            let code = match word.raw() {
                "foreach" => {
                    let words = rest.iter().filter(|word| word.raw() != "--recursive");
                    Some(words.map(Word::to_code).collect::<Vec<_>>().join(" "))
                }
                "run" if at > 0 && arguments[at - 1].raw() == "bisect" => {
                    let inner = ShellCommand {
                        argv: rest.to_vec(),
                        wrappers: vec!["git".to_owned()],
                        cwd: command.cwd.clone(),
                        ..ShellCommand::default()
                    };
                    self.walk_deeper(|walker| walker.emit_command(inner, &[]));
                    None
                }
                "-x" | "--exec" if rebases => rest.first().map(Word::to_code),
                other => other
                    .split_once("=!")
                    .filter(|(key, _)| key.starts_with("alias."))
                    .map(|(_, code)| code.to_owned()),
            };
            if let Some(code) = code {
                self.walk_subshell(|walker| walker.walk_nested_text(&code));
            }
        }
    }

    /// Walks the shell commands in string literals of code in another language.
    fn walk_interpreter(&mut self, name: &str, command: &ShellCommand) {
        let Some(code) = super::super::interpreter::find_inline_code(name, command) else { return };
        if !self.spend_work(code.len() / CODE_BYTES_PER_UNIT) {
            return;
        }
        for text in super::super::interpreter::find_shell_literals(&code) {
            // Most string literals are not commands.
            if self.spend_work(count_work(&text)) && parse::parse_program(&text).is_ok() {
                self.walk_subshell(|walker| walker.walk_nested_text(&text));
            }
        }
    }
}
