//! Simple commands: words, assignments, redirections, and effects on the shell.

use brush_parser::ast::{
    self, Assignment, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, ProcessSubstitutionKind,
};

use super::command::{Redirect, RedirectMode, ShellCommand, resolve_path};
use super::nested_code::{ShellSource, is_shell, parse_shell_source};
use super::walk::{COMMAND_UNITS, Walker, count_work};
use super::word::{UNKNOWN, Word};
use super::wrappers::is_name;
use crate::arguments::Arguments;

/// The most values of one variable that are tried; with more, the variable counts as unknown.
pub(super) const MOST_VALUE_CHOICES: usize = 4;

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
            AssignmentName::ArrayElementName(name, _) => {
                self.arrays.entry(name.clone()).or_default().push(Word::new_unknown());
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
                let mut words = Vec::new();
                for (_, word) in members {
                    words.extend(self.expand_word(&word.value));
                }
                let kept = self.arrays.entry(name).or_default();
                if !assignment.append {
                    kept.clear();
                }
                kept.extend(words);
                None
            }
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
            IoRedirect::HereDocument(_, document) => {
                command.stdin = Some(self.expand_document(document));
                command.fed_by.clear();
            }
            IoRedirect::HereString(_, word) => {
                command.stdin = Some(self.expand_unsplit(&word.value));
                command.fed_by.clear();
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
            IoFileRedirectTarget::Fd(_) => return,
            IoFileRedirectTarget::Filename(word) => self.expand_file(&word.value),
            IoFileRedirectTarget::Duplicate(word) => {
                let path = self.expand_file(&word.value);
                // A duplicated or closed descriptor.
                let text = path.raw().trim_end_matches('-');
                if text.chars().all(|it| it.is_ascii_digit()) {
                    return;
                }
                path
            }
            IoFileRedirectTarget::ProcessSubstitution(kind, subshell) => {
                let word = self.walk_process_substitution(kind, subshell, command);
                if mode == RedirectMode::Read {
                    command.stdin =
                        resolve_path(&word, None).and_then(|at| self.files.get(&at).cloned());
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
        if let Some(file) = command.find_written_file(self.cwd.as_deref()) {
            self.files.insert(file, std::mem::take(&mut command.output));
        }
        self.commands.push(command.clone());
        self.apply_builtin(&name, &command);
        self.walk_nested(&name, &command, feeders);
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
                let line = self.stdin.clone().unwrap_or_else(Word::new_unknown);
                let line = line.raw().lines().next().unwrap_or_default().trim().to_owned();
                let names: Vec<&Word> = operands().collect();
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
