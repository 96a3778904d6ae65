//! Simple commands: words, assignments, redirections, and effects on the shell.

use brush_parser::ast::{
    self, Assignment, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, ProcessSubstitutionKind,
};

use super::nested_code::{ShellSource, is_shell, parse_shell_source};
use super::walk::{COMMAND_UNITS, Walker, count_work};
use super::wrappers::is_name;
use crate::arguments::Arguments;
use crate::command::{Redirect, RedirectMode, ShellCommand, resolve_path};
use crate::word::{UNKNOWN, Word};

/// The most values of one variable that are tried; with more, the variable counts as unknown.
pub(super) const MOST_VALUE_CHOICES: usize = 4;

/// Members of an array with a larger index are only known to exist.
const MOST_MEMBERS: usize = 1024;

/// Where the programs of the machine are.
const PROGRAM_DIRECTORIES: [&str; 6] =
    ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/"];

impl Walker {
    pub(super) fn walk_simple(&mut self, simple: &ast::SimpleCommand) {
        let mut choice = 0;
        loop {
            (self.value_choice, self.value_choices) = (choice, 1);
            let from = self.commands.len();
            let command = self.resolve_simple(simple);
            let choices = self.value_choices.min(MOST_VALUE_CHOICES);
            let feeders = self.find_unread(from);
            self.emit_command(command, &feeders);
            choice += 1;
            if choice >= choices || !self.spend_one() {
                break;
            }
        }
        (self.value_choice, self.value_choices) = (0, 1);
    }

    /// Resolves the words of a command.
    fn resolve_simple(&mut self, simple: &ast::SimpleCommand) -> ShellCommand {
        let nameless = std::mem::take(&mut self.unknown_variables);
        let mut command = ShellCommand {
            stdin: self.stdin.clone(),
            fed_by: self.fed_by.clone(),
            cwd: self.cwd.clone(),
            execution: self.execution,
            ..ShellCommand::default()
        };
        let lasts = simple.word_or_name.is_none();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    let assigned = self.resolve_assignment(assignment);
                    if lasts && let Some((name, value)) = &assigned {
                        self.assign_variable(name, value.clone());
                    }
                    command.assigns.extend(assigned);
                }
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                    self.apply_redirect(redirect, &mut command);
                }
                CommandPrefixOrSuffixItem::Word(word) => {
                    let words = self.expand_word(&word.value);
                    command.argv.extend(words);
                }
                CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                    let word = self.walk_process_substitution(kind, subshell, &mut command);
                    command.argv.push(word);
                }
            }
        }
        if let Some(word) = &simple.word_or_name {
            let words = self.expand_word(&word.value);
            command.argv.extend(words);
        }
        let declares =
            matches!(command.name(), "export" | "declare" | "typeset" | "local" | "readonly");
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    if declares {
                        let assigned = self.resolve_assignment(assignment);
                        if let Some((name, value)) = &assigned {
                            self.assign_declared(&command, name, value.clone());
                            let assignment_text = format!("{name}={}", value.raw());
                            command.argv.push(Word::from_marked(assignment_text));
                        }
                        command.assigns.extend(assigned);
                    } else {
                        let words = self.expand_word(&word.value);
                        command.argv.extend(words);
                    }
                }
                CommandPrefixOrSuffixItem::Word(word) => {
                    let words = self.expand_word(&word.value);
                    // `declare "name=value"`.
                    for word in words.iter().filter(|_| declares) {
                        if let Some((name, value)) = word.raw().split_once('=')
                            && is_name(name)
                        {
                            let value = Word::from_marked(value.to_owned());
                            self.assign_declared(&command, name, value.clone());
                            command.assigns.push((name.to_owned(), value));
                        }
                    }
                    command.argv.extend(words);
                }
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                    self.apply_redirect(redirect, &mut command);
                }
                CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                    let word = self.walk_process_substitution(kind, subshell, &mut command);
                    command.argv.push(word);
                }
            }
        }
        command.variables = std::mem::replace(&mut self.unknown_variables, nameless);
        command
    }

    /// Sets a variable, or with `-n` makes it stand for another one.
    fn assign_declared(&mut self, command: &ShellCommand, name: &str, value: Word) {
        let is_reference = Arguments::new(command.arguments(), &[]).has_short_flag('n');
        match value.as_known().filter(|target| is_reference && is_name(target)) {
            Some(target) => drop(self.references.insert(name.to_owned(), target.to_owned())),
            None => self.assign_variable(name, value),
        }
    }

    /// Returns the name and the value of an assignment; arrays are only stored.
    fn resolve_assignment(&mut self, assignment: &Assignment) -> Option<(String, Word)> {
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name.clone(),
            AssignmentName::ArrayElementName(name, index) => {
                let value = match &assignment.value {
                    AssignmentValue::Scalar(word) => self.expand_assigned(&word.value),
                    AssignmentValue::Array(_) => Word::new_unknown(),
                };
                self.assign_member(name, index, value);
                return None;
            }
        };
        match &assignment.value {
            AssignmentValue::Scalar(word) => {
                let value = self.expand_assigned(&word.value);
                let value = if assignment.append {
                    let before = self.find_variable(&name).unwrap_or_default();
                    Word::from_marked(format!("{}{}", before.raw(), value.raw()))
                } else {
                    value
                };
                Some((name, value))
            }
            AssignmentValue::Array(members) => {
                let mut given = Vec::new();
                for (index, word) in members {
                    given.push((index, self.expand_word(&word.value)));
                }
                if !assignment.append {
                    self.arrays.insert(name.clone(), Vec::new());
                }
                for (index, words) in given {
                    match (index, words.as_slice()) {
                        (Some(index), [value]) => {
                            self.assign_member(&name, &index.value, value.clone());
                        }
                        (_, _) => self.arrays.entry(name.clone()).or_default().extend(words),
                    }
                }
                None
            }
        }
    }

    /// Sets a member of an array. That of an associative one is a variable as well.
    fn assign_member(&mut self, name: &str, index: &str, value: Word) {
        let name = self.follow_reference(name).to_owned();
        let index = self.expand_unsplit(index);
        let members = self.arrays.entry(name.clone()).or_default();
        match index.as_known().map(|index| (index, index.parse::<usize>())) {
            Some((_, Ok(at))) if at < MOST_MEMBERS => {
                if members.len() <= at {
                    members.resize(at + 1, Word::new_unknown());
                }
                members[at] = value;
            }
            Some((index, _)) => {
                members.push(value.clone());
                self.assign_variable(&format!("{name}[{index}]"), value);
            }
            None => members.push(value),
        }
    }

    /// Returns the value of an assignment, in which a tilde may follow a colon.
    fn expand_assigned(&mut self, text: &str) -> Word {
        let value = self.expand_unsplit(text);
        match &self.home {
            Some(home) if value.raw().contains(":~/") => {
                Word::from_marked(value.raw().replace(":~/", &format!(":{home}/")))
            }
            Some(_) | None => value,
        }
    }

    pub(super) fn apply_redirect(&mut self, redirect: &IoRedirect, command: &mut ShellCommand) {
        match redirect {
            IoRedirect::File(fd, kind, target) => {
                self.apply_file_redirect(*fd, kind, target, command);
            }
            IoRedirect::HereDocument(fd, document) => {
                let text = self.expand_document(document);
                self.open_text(*fd, text, command);
            }
            IoRedirect::HereString(fd, word) => {
                let text = self.expand_unsplit(&word.value);
                self.open_text(*fd, text, command);
            }
            IoRedirect::OutputAndError(word, _) => {
                let path = self.expand_file(&word.value);
                command.stdout = Some(path.clone());
                command.redirects.push(Redirect { path, mode: RedirectMode::Write });
            }
        }
    }

    fn apply_file_redirect(
        &mut self,
        fd: Option<i32>,
        kind: &IoFileRedirectKind,
        target: &IoFileRedirectTarget,
        command: &mut ShellCommand,
    ) {
        let mode = match kind {
            IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput => RedirectMode::Read,
            IoFileRedirectKind::Write
            | IoFileRedirectKind::Append
            | IoFileRedirectKind::Clobber
            | IoFileRedirectKind::DuplicateOutput => RedirectMode::Write,
            IoFileRedirectKind::ReadAndWrite => RedirectMode::Both,
        };
        let path = match target {
            IoFileRedirectTarget::Fd(from) => {
                if mode == RedirectMode::Read && fd.is_none_or(|fd| fd == 0) {
                    self.read_descriptor(*from, command);
                }
                return;
            }
            IoFileRedirectTarget::Filename(word) => self.expand_file(&word.value),
            IoFileRedirectTarget::Duplicate(word) => {
                let path = self.expand_file(&word.value);
                // A duplicated or closed descriptor.
                let text = path.raw().trim_end_matches('-');
                if text.chars().all(|it| it.is_ascii_digit()) {
                    if let (RedirectMode::Read, Ok(from), true) =
                        (mode, text.parse(), fd.is_none_or(|fd| fd == 0))
                    {
                        self.read_descriptor(from, command);
                    }
                    return;
                }
                path
            }
            IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                let word = self.walk_process_substitution(kind, subshell, command);
                let printed = resolve_path(&word, None).and_then(|at| self.files.get(&at).cloned());
                match (mode, fd) {
                    (RedirectMode::Read, None | Some(0)) => command.stdin = printed,
                    (RedirectMode::Read, Some(fd)) => {
                        self.files.extend(printed.map(|text| (format!("/dev/fd/{fd}"), text)));
                    }
                    (RedirectMode::Write | RedirectMode::Both, _) => {}
                }
                return;
            }
        };
        match mode {
            RedirectMode::Read if fd.is_none_or(|fd| fd == 0) => {
                let at = resolve_path(&path, self.cwd.as_deref());
                let known = at.and_then(|at| self.files.get(&at).cloned());
                command.stdin = Some(known.unwrap_or_else(Word::new_unknown));
                command.fed_by.clear();
            }
            RedirectMode::Write if fd.is_none_or(|fd| fd == 1) => {
                command.stdout = Some(path.clone());
            }
            RedirectMode::Read | RedirectMode::Write | RedirectMode::Both => {}
        }
        command.redirects.push(Redirect { path, mode });
    }

    /// Opens a text on a descriptor, the standard input if none is named.
    fn open_text(&mut self, fd: Option<i32>, text: Word, command: &mut ShellCommand) {
        match fd {
            None | Some(0) => {
                command.stdin = Some(text);
                command.fed_by.clear();
            }
            Some(fd) => drop(self.files.insert(format!("/dev/fd/{fd}"), text)),
        }
    }

    /// Makes a command read what a descriptor was opened on before.
    fn read_descriptor(&self, fd: i32, command: &mut ShellCommand) {
        if let Some(text) = self.files.get(&format!("/dev/fd/{fd}")) {
            command.stdin = Some(text.clone());
            command.fed_by.clear();
        }
    }

    /// Returns the file of a redirection.
    fn expand_file(&mut self, word: &str) -> Word {
        let mut words = self.expand_word(word);
        if words.len() == 1 { words.remove(0) } else { Word::new_unknown() }
    }

    /// Walks a process substitution and returns a word for its file.
    fn walk_process_substitution(
        &mut self,
        kind: &ProcessSubstitutionKind,
        subshell: &ast::SubshellCommand,
        command: &mut ShellCommand,
    ) -> Word {
        let from = self.commands.len();
        let path = format!("/dev/fd/{}", 63 + from);
        let (stdin, fed_by) = (self.stdin.take(), std::mem::take(&mut self.fed_by));
        if matches!(kind, ProcessSubstitutionKind::Write) {
            self.stdin = Some(Word::new_unknown());
        }
        self.walk_subshell(|walker| walker.walk_list(&subshell.list));
        (self.stdin, self.fed_by) = (stdin, fed_by);
        if matches!(kind, ProcessSubstitutionKind::Read) {
            let printed = self.collect_output(from);
            self.files.insert(path.clone(), printed);
            command.fed_by.extend(self.find_unread(from));
        }
        Word::from_marked(path)
    }

    /// Adds a command, and everything that it runs itself.
    pub(super) fn emit_command(&mut self, command: ShellCommand, feeders: &[usize]) {
        for command in self.peel_wrappers(command) {
            let words = command.argv.iter().chain(command.assigns.iter().map(|(_, value)| value));
            if !self
                .spend_work(COMMAND_UNITS + words.map(|word| count_work(word.raw())).sum::<usize>())
            {
                return;
            }
            self.add_command(command, feeders);
        }
    }

    fn add_command(&mut self, mut command: ShellCommand, feeders: &[usize]) {
        let name = command.name().to_owned();
        let reader = if name.is_empty() { UNKNOWN.to_string() } else { name.clone() };
        self.record_reader(feeders, &reader);
        command.execution.recursive |= self.calls.contains(&name) || self.runs_itself(&command);
        command.output = self.find_output(&command);
        if !self.spend_work(count_work(command.output.raw())) {
            return;
        }
        self.record_written_files(&name, &command);
        if let Some(file) = command.find_written_file(self.cwd.as_deref()) {
            self.files.insert(file, std::mem::take(&mut command.output));
        }
        self.commands.push(command.clone());
        self.apply_builtin(&name, &command);
        self.walk_nested(&name, &command, feeders);
    }

    /// Records what programs write into files that they name: copies of what they read, and other
    /// names of programs, which are scripts that run them.
    fn record_written_files(&mut self, name: &str, command: &ShellCommand) {
        let cwd = command.cwd.as_deref();
        let operands = || command.arguments().iter().filter(|word| !word.raw().starts_with('-'));
        match name {
            "tee" | "sponge" => {
                let unknown = Word::new_unknown();
                let text = command.stdin.as_ref().filter(|text| **text != unknown);
                let files = operands().filter_map(|file| resolve_path(file, cwd));
                self.files.extend(files.filter_map(|file| Some((file, text?.clone()))));
            }
            "cp" | "mv" | "ln" | "install" => {
                let (Some(from), Some(to)) = (operands().rev().nth(1), operands().next_back())
                else {
                    return;
                };
                let Some(source) = resolve_path(from, cwd) else { return };
                let is_program = PROGRAM_DIRECTORIES.iter().any(|it| source.starts_with(it));
                let program = || is_program.then(|| Word::new(&format!("{source} \"$@\"")));
                let text = self.files.get(&source).cloned().or_else(program);
                let base = source.rsplit('/').next().unwrap_or_default();
                let inside = Word::from_marked(format!("{}/{base}", to.raw()));
                let places = [to, &inside].into_iter().filter_map(|to| resolve_path(to, cwd));
                let copies: Vec<_> = places.zip(std::iter::repeat(text)).collect();
                self.files.extend(copies.into_iter().filter_map(|(to, text)| Some((to, text?))));
            }
            "hash" => {
                let words: Vec<&Word> = operands().collect();
                if let ([program, name], true) =
                    (words.as_slice(), command.arguments().iter().any(|it| it.raw() == "-p"))
                    && is_name(name.raw())
                {
                    self.walk_nested_text(&format!(
                        "{}() {{ {} \"$@\"; }}",
                        name.raw(),
                        program.to_code()
                    ));
                }
            }
            _ => {}
        }
    }

    /// Returns whether a command runs the script that is being walked, directly or in a shell.
    fn runs_itself(&self, command: &ShellCommand) -> bool {
        let script = match parse_shell_source(command.arguments()) {
            ShellSource::Script(script, _) if is_shell(command.name()) => Some(script),
            ShellSource::Script(..) | ShellSource::Code(..) | ShellSource::Input => None,
        };
        let program = command.argv.first().filter(|word| word.raw().contains('/'));
        [script, program].into_iter().flatten().any(|word| {
            resolve_path(word, command.cwd.as_deref()).is_some_and(|at| self.calls.contains(&at))
        })
    }

    /// Applies the effect of a builtin on the shell.
    fn apply_builtin(&mut self, name: &str, command: &ShellCommand) {
        let arguments = command.arguments();
        let operands = || arguments.iter().filter(|word| !word.raw().starts_with('-'));
        match name {
            "cd" | "pushd" => {
                self.cwd = match (operands().next(), arguments.iter().any(|it| it.raw() == "-")) {
                    (Some(to), _) => resolve_path(to, self.cwd.as_deref()),
                    (None, false) if name == "cd" => self.home.clone(),
                    (None, _) => None,
                };
            }
            "popd" => self.cwd = None,
            "unset" => {
                for word in operands() {
                    self.variables.remove(word.raw());
                    self.arrays.remove(word.raw());
                    self.functions.remove(word.raw());
                    self.references.remove(word.raw());
                }
            }
            "read" => {
                let line = command.stdin.clone().or_else(|| self.stdin.clone());
                let line = line.unwrap_or_else(Word::new_unknown);
                let line = line.raw().lines().next().unwrap_or_default().trim().to_owned();
                let names: Vec<&Word> = operands().collect();
                let is_list =
                    |word: &Word| word.raw().starts_with('-') && word.raw().ends_with('a');
                if let (Some(name), true) = (names.last(), arguments.iter().any(is_list)) {
                    let given = command.assigns.iter().find(|(name, _)| name == "IFS");
                    let separators = given.map_or(" \t", |(_, value)| value.raw());
                    let parts =
                        line.split(|it| separators.contains(it)).filter(|it| !it.is_empty());
                    let parts = parts.map(|part| Word::from_marked(part.to_owned())).collect();
                    self.arrays.insert(name.raw().to_owned(), parts);
                    return;
                }
                for (at, word) in names.iter().enumerate() {
                    let value = match names.len() {
                        1 => Word::from_marked(line.clone()),
                        _ => {
                            line.split_whitespace().nth(at).map_or_else(Word::new_unknown, |part| {
                                Word::from_marked(part.to_owned())
                            })
                        }
                    };
                    self.variables.insert(word.raw().to_owned(), vec![value]);
                }
            }
            "mapfile" | "readarray" => {
                if let Some(word) = operands().next_back() {
                    let text = self.stdin.clone().unwrap_or_else(Word::new_unknown);
                    if self.spend_work(text.raw().lines().count()) {
                        let lines =
                            text.raw().lines().map(|line| Word::from_marked(line.to_owned()));
                        self.arrays.insert(word.raw().to_owned(), lines.collect());
                    }
                }
            }
            "set" => {
                if let Some(at) = arguments.iter().position(|word| word.raw() == "--") {
                    self.positional = arguments[at + 1..].to_vec();
                }
            }
            "shift" if !self.positional.is_empty() => {
                self.positional.remove(0);
            }
            "printf" if arguments.first().is_some_and(|word| word.raw() == "-v") => {
                if let Some(variable) = arguments.get(1).map(|word| word.raw().to_owned()) {
                    let shorter = ShellCommand {
                        argv: std::iter::once(Word::new("printf"))
                            .chain(arguments.iter().skip(2).cloned())
                            .collect(),
                        ..ShellCommand::default()
                    };
                    let value = self.find_output(&shorter);
                    self.assign_variable(&variable, value);
                }
            }
            _ => {}
        }
    }
}
