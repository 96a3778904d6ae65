//! Walks the syntax tree: lists, pipelines, compound commands, functions.

use std::collections::BTreeMap;
use std::rc::Rc;

use brush_parser::ast::{
    self, AndOr, CompoundCommand, CompoundList, ExtendedTestExpr, FunctionBody, Pipeline,
    RedirectList, SeparatorOperator,
};

use super::loops::{self, LoopBound};
use super::parse;
use crate::command::{CommandExecution, LoweredScript, LoweringError, ShellCommand, ShellState};
use crate::word::{Word, strip_marks};

/// The deepest nesting of shells in shells and functions in functions.
const DEEPEST: usize = 8;

/// The budget of work units. A word is one unit, and so are `BYTES_PER_UNIT` bytes of text that is
/// copied or searched; a command costs `COMMAND_UNITS`. A release build takes about ten
/// microseconds for a unit, so the hook answers long before its deadline. A text that needs more is
/// a program.
const MOST_WORK: usize = 60_000;

/// Bytes of text per unit of work.
const BYTES_PER_UNIT: usize = 64;

/// Units for a command: every rule checks it, whatever its words are.
pub(super) const COMMAND_UNITS: usize = 20;

/// Units for a function definition: it is copied, and its length is unknown.
const FUNCTION_UNITS: usize = 100;

/// Variables that a subshell saves per unit of work.
const VARIABLES_PER_UNIT: usize = 8;

/// Returns the units of work for a text.
pub(super) fn count_work(text: &str) -> usize {
    1 + text.len() / BYTES_PER_UNIT
}

/// The most iterations of one loop that are walked one by one.
const MOST_LOOP_ITERATIONS: usize = 32;

/// The state of the walk.
pub(super) struct Walker {
    pub(super) commands: Vec<ShellCommand>,
    pub(super) error: Option<LoweringError>,
    /// The possible values of each variable; several if they depend on a condition.
    pub(super) variables: BTreeMap<String, Vec<Word>>,
    pub(super) arrays: BTreeMap<String, Vec<Word>>,
    /// The variables that stand for another one, by `declare -n`.
    pub(super) references: BTreeMap<String, String>,
    pub(super) positional: Vec<Word>,
    pub(super) functions: BTreeMap<String, Rc<FunctionBody>>,
    /// The functions that are being called.
    pub(super) calls: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) home: Option<String>,
    /// The standard input of the next command.
    pub(super) stdin: Option<Word>,
    pub(super) fed_by: Vec<usize>,
    /// The files that the text has written so far.
    pub(super) files: BTreeMap<String, Word>,
    /// The code of `trap`, run at the end.
    pub(super) traps: Vec<String>,
    pub(super) execution: CommandExecution,
    /// The number of conditions around the current command.
    pub(super) conditions: usize,
    /// Which of several values of the variables is used, and how many there are.
    pub(super) value_choice: usize,
    pub(super) value_choices: usize,
    /// The variables in the current words whose values are unknown.
    pub(super) unknown_variables: Vec<String>,
    depth: usize,
    /// The units of work that are left.
    work_left: usize,
}

/// The value of its condition with which a loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopsWhile {
    /// `while`.
    True,
    /// `until`.
    False,
}

/// The state that a subshell cannot change.
pub(super) struct SubshellSnapshot {
    variables: BTreeMap<String, Vec<Word>>,
    arrays: BTreeMap<String, Vec<Word>>,
    references: BTreeMap<String, String>,
    positional: Vec<Word>,
    functions: BTreeMap<String, Rc<FunctionBody>>,
    cwd: Option<String>,
}

impl Walker {
    pub(super) fn new(start: &ShellState) -> Self {
        let variables =
            start.variables.iter().map(|(name, value)| (name.clone(), vec![Word::new(value)]));
        Self {
            commands: Vec::new(),
            error: None,
            variables: variables.collect(),
            arrays: BTreeMap::new(),
            references: BTreeMap::new(),
            positional: Vec::new(),
            functions: BTreeMap::new(),
            calls: Vec::new(),
            cwd: Some(start.cwd.clone()),
            home: start.home.clone(),
            stdin: None,
            fed_by: Vec::new(),
            files: BTreeMap::new(),
            traps: Vec::new(),
            execution: CommandExecution::default(),
            conditions: 0,
            value_choice: 0,
            value_choices: 1,
            unknown_variables: Vec::new(),
            depth: 0,
            work_left: MOST_WORK,
        }
    }

    pub(super) fn finish(mut self) -> LoweredScript {
        for code in std::mem::take(&mut self.traps) {
            self.walk_nested_text(&code);
        }
        LoweredScript { commands: self.commands, error: self.error }
    }

    /// Records an error; the most severe one is kept.
    pub(super) fn record_error(&mut self, error: LoweringError) {
        self.error = self.error.max(Some(error));
    }

    /// Spends units of work, and returns whether the walk may continue.
    pub(super) fn spend_work(&mut self, work: usize) -> bool {
        self.work_left = self.work_left.saturating_sub(work);
        if self.work_left == 0 {
            self.record_error(LoweringError::TooMuch);
        }
        self.work_left > 0
    }

    /// Spends one unit of work, and returns whether the walk may continue.
    pub(super) fn spend_one(&mut self) -> bool {
        self.spend_work(1)
    }

    /// Walks a text within the text, in the current shell.
    pub(super) fn walk_nested_text(&mut self, text: &str) {
        if self.spend_work(count_work(text)) {
            self.walk_text(text);
        }
    }

    /// Walks the whole text.
    pub(super) fn walk_text(&mut self, text: &str) {
        self.walk_deeper(|walker| match parse::parse_program(&strip_marks(text)) {
            Ok((program, tokens)) if walker.spend_work(tokens) => {
                for list in &program.complete_commands {
                    walker.walk_list(list);
                }
            }
            Ok(_) => {}
            Err(error) => walker.record_error(error),
        });
    }

    /// Walks one level deeper, if the limit allows it.
    pub(super) fn walk_deeper(&mut self, walk: impl FnOnce(&mut Self)) {
        if self.depth >= DEEPEST {
            self.record_error(LoweringError::TooDeep);
            return;
        }
        self.depth += 1;
        walk(self);
        self.depth -= 1;
    }

    pub(super) fn save_state(&self) -> SubshellSnapshot {
        SubshellSnapshot {
            variables: self.variables.clone(),
            arrays: self.arrays.clone(),
            references: self.references.clone(),
            positional: self.positional.clone(),
            functions: self.functions.clone(),
            cwd: self.cwd.clone(),
        }
    }

    pub(super) fn restore_state(&mut self, saved: SubshellSnapshot) {
        self.variables = saved.variables;
        self.arrays = saved.arrays;
        self.references = saved.references;
        self.positional = saved.positional;
        self.functions = saved.functions;
        self.cwd = saved.cwd;
    }

    /// Walks in a subshell.
    pub(super) fn walk_subshell(&mut self, walk: impl FnOnce(&mut Self)) {
        let arrays: usize = self.arrays.values().map(Vec::len).sum();
        let kept = self.variables.len() + self.functions.len() + self.positional.len() + arrays;
        if !self.spend_work(1 + kept / VARIABLES_PER_UNIT) {
            return;
        }
        let saved = self.save_state();
        walk(self);
        self.restore_state(saved);
    }

    /// Returns what the commands from an index on print that no other command reads.
    pub(super) fn collect_output(&mut self, from: usize) -> Word {
        let unread = self.commands.get(from..).unwrap_or_default().iter();
        let unread = unread.filter(|it| it.feeds.is_none() && !it.output.raw().is_empty());
        let outputs: Vec<Word> = unread.map(|command| command.output.clone()).collect();
        if let [only] = outputs.as_slice() {
            return only.clone();
        }
        // Each of several commands may print as much as it reads.
        let length = outputs.iter().map(|it| it.raw().len()).fold(0, usize::saturating_add);
        if length > crate::word::LONGEST || !self.spend_work(length / BYTES_PER_UNIT) {
            return Word::new_unknown();
        }
        Word::from_marked(outputs.iter().map(Word::raw).collect())
    }

    /// Returns the commands from an index on whose output is not read yet.
    pub(super) fn find_unread(&self, from: usize) -> Vec<usize> {
        (from..self.commands.len()).filter(|at| self.commands[*at].feeds.is_none()).collect()
    }

    /// Records the program that reads the output of some commands.
    pub(super) fn record_reader(&mut self, readers: &[usize], name: &str) {
        for at in readers {
            if let Some(command) = self.commands.get_mut(*at) {
                command.feeds.get_or_insert_with(|| name.to_owned());
            }
        }
    }

    pub(super) fn walk_list(&mut self, list: &CompoundList) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            if !self.spend_one() {
                return;
            }
            let before = self.execution;
            if matches!(separator, SeparatorOperator::Async) {
                self.execution.background = true;
            }
            self.walk_pipeline(&and_or.first);
            self.conditions += 1;
            for next in &and_or.additional {
                match next {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.walk_pipeline(pipeline),
                }
            }
            self.conditions -= 1;
            self.execution = before;
        }
    }

    fn walk_pipeline(&mut self, pipeline: &Pipeline) {
        if let [command] = pipeline.seq.as_slice() {
            self.walk_command(command);
            return;
        }
        let (stdin, fed_by) = (self.stdin.clone(), self.fed_by.clone());
        let mut from = self.commands.len();
        for (position, command) in pipeline.seq.iter().enumerate() {
            if position > 0 {
                self.stdin = Some(self.collect_output(from));
                self.fed_by = self.find_unread(from);
                from = self.commands.len();
            }
            let feeders = self.fed_by.clone();
            self.walk_subshell(|walker| walker.walk_command(command));
            if position > 0 {
                let name = self.commands.get(from).map_or("", ShellCommand::name).to_owned();
                self.record_reader(&feeders, &name);
            }
        }
        (self.stdin, self.fed_by) = (stdin, fed_by);
    }

    fn walk_command(&mut self, command: &ast::Command) {
        if !self.spend_one() {
            return;
        }
        match command {
            ast::Command::Simple(simple) => self.walk_simple(simple),
            ast::Command::Compound(compound, redirects) => {
                self.walk_redirected(redirects.as_ref(), |walker| walker.walk_compound(compound));
            }
            ast::Command::Function(function) => {
                if !self.spend_work(FUNCTION_UNITS) {
                    return;
                }
                let body = Rc::new(function.body.clone());
                self.functions.insert(function.fname.value.clone(), body);
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.walk_redirected(redirects.as_ref(), |walker| walker.walk_test(&test.expr));
            }
        }
    }

    /// Walks the body of a function with the arguments of a call.
    pub(super) fn walk_call(&mut self, name: &str, body: &Rc<FunctionBody>, arguments: Vec<Word>) {
        let FunctionBody(compound, redirects) = body.as_ref();
        let positional = std::mem::replace(&mut self.positional, arguments);
        self.calls.push(name.to_owned());
        self.walk_deeper(|walker| {
            walker.walk_redirected(redirects.as_ref(), |walker| walker.walk_compound(compound));
        });
        self.calls.pop();
        self.positional = positional;
    }

    /// Walks with redirections that apply to several commands.
    fn walk_redirected(&mut self, redirects: Option<&RedirectList>, walk: impl FnOnce(&mut Self)) {
        let Some(RedirectList(redirects)) = redirects else { return walk(self) };
        let mut carrier = ShellCommand { cwd: self.cwd.clone(), ..ShellCommand::default() };
        for redirect in redirects {
            self.apply_redirect(redirect, &mut carrier);
        }
        let (stdin, fed_by) = (self.stdin.clone(), self.fed_by.clone());
        if let Some(given) = carrier.stdin.take() {
            self.stdin = Some(given);
            self.fed_by = Vec::new();
        }
        let written = carrier.find_written_file(self.cwd.as_deref());
        let from = self.commands.len();
        self.commands.push(carrier);
        walk(self);
        if let Some(file) = written {
            let printed = self.collect_output(from);
            self.files.insert(file, printed);
            let unread = self.find_unread(from);
            for at in unread {
                self.commands[at].output = Word::default();
            }
        }
        (self.stdin, self.fed_by) = (stdin, fed_by);
    }

    fn walk_compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::BraceGroup(group) => self.walk_list(&group.list),
            CompoundCommand::Subshell(subshell) => {
                self.walk_subshell(|walker| walker.walk_list(&subshell.list));
            }
            CompoundCommand::ForClause(clause) => self.walk_for(clause),
            CompoundCommand::ArithmeticForClause(clause) => {
                let condition = clause.condition.as_ref().map(|it| it.value.trim());
                let rounds = match condition {
                    None | Some("") => LoopBound::Endless,
                    Some(text) if loops::parse_arithmetic_truth(text) == Some(true) => {
                        LoopBound::Endless
                    }
                    Some(_) => LoopBound::Bounded,
                };
                self.walk_loop_body(rounds, |walker| walker.walk_list(&clause.body.list));
            }
            CompoundCommand::CaseClause(clause) => {
                self.expand_unsplit(&clause.value.value);
                self.conditions += 1;
                for item in &clause.cases {
                    if let Some(list) = &item.cmd {
                        self.walk_list(list);
                    }
                }
                self.conditions -= 1;
            }
            CompoundCommand::IfClause(clause) => {
                self.walk_list(&clause.condition);
                self.conditions += 1;
                self.walk_list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.walk_list(condition);
                    }
                    self.walk_list(&other.body);
                }
                self.conditions -= 1;
            }
            CompoundCommand::WhileClause(clause) => self.walk_while(clause, LoopsWhile::True),
            CompoundCommand::UntilClause(clause) => self.walk_while(clause, LoopsWhile::False),
            CompoundCommand::Coprocess(coprocess) => {
                let before = self.execution;
                self.execution.background = true;
                self.walk_command(&coprocess.body);
                self.execution = before;
            }
        }
    }

    fn walk_for(&mut self, clause: &ast::ForClauseCommand) {
        let values = match &clause.values {
            Some(words) => words.iter().flat_map(|word| self.expand_word(&word.value)).collect(),
            None => self.positional.clone(),
        };
        let name = clause.variable_name.clone();
        if values.len() > MOST_LOOP_ITERATIONS {
            self.variables.insert(name, vec![Word::new_unknown()]);
            return self
                .walk_loop_body(LoopBound::Bounded, |walker| walker.walk_list(&clause.body.list));
        }
        for value in values {
            if !self.spend_one() {
                return;
            }
            self.variables.insert(name.clone(), vec![value]);
            self.walk_loop_body(LoopBound::Bounded, |walker| walker.walk_list(&clause.body.list));
        }
    }

    /// Walks a loop. If it reads lines that are known, each line is walked.
    fn walk_while(&mut self, clause: &ast::WhileOrUntilClauseCommand, on: LoopsWhile) {
        let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
        let lines: Vec<String> = match &self.stdin {
            Some(text) if !text.raw().is_empty() => {
                text.raw().lines().take(MOST_LOOP_ITERATIONS + 1).map(str::to_owned).collect()
            }
            Some(_) | None => Vec::new(),
        };
        if !self.spend_work(lines.iter().map(|line| count_work(line)).sum()) {
            return;
        }
        let from = self.commands.len();
        let stdin = self.stdin.clone();
        if lines.len() > MOST_LOOP_ITERATIONS {
            self.stdin = Some(Word::new_unknown());
        }
        if lines.is_empty() || lines.len() > MOST_LOOP_ITERATIONS {
            self.walk_list(condition);
        }
        let constant = loops::find_constant_condition(condition, &self.commands[from..]);
        let rounds = match (on, constant) {
            (LoopsWhile::True, Some(true)) | (LoopsWhile::False, Some(false)) => LoopBound::Endless,
            (LoopsWhile::True | LoopsWhile::False, _) => LoopBound::Bounded,
        };
        if lines.is_empty() || lines.len() > MOST_LOOP_ITERATIONS {
            self.walk_loop_body(rounds, |walker| walker.walk_list(&body.list));
            self.stdin = stdin;
            return;
        }
        for line in lines {
            if !self.spend_one() {
                return;
            }
            self.stdin = Some(Word::from_marked(line));
            self.walk_list(condition);
            self.walk_loop_body(LoopBound::Bounded, |walker| walker.walk_list(&body.list));
        }
        self.stdin = stdin;
    }

    /// Walks the substitutions in a test.
    fn walk_test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.walk_test(left);
                self.walk_test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.walk_test(inner);
            }
            ExtendedTestExpr::UnaryTest(_, word) => drop(self.expand_unsplit(&word.value)),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.expand_unsplit(&left.value);
                self.expand_unsplit(&right.value);
            }
        }
    }
}
