//! Walks the syntax tree: lists, pipelines, compound commands, functions.

use std::collections::BTreeMap;
use std::rc::Rc;

use brush_parser::ast::{
    self, AndOr, CompoundCommand, CompoundList, ExtendedTestExpr, FunctionBody, Pipeline,
    RedirectList, SeparatorOperator,
};

use super::command::{Command, Lowered, Setting, Start, Trouble};
use super::parse;
use super::rounds::{self, Rounds};
use super::word::{Word, unmarked};

/// The deepest nesting of shells in shells and functions in functions.
const DEEPEST: usize = 8;

/// The budget of work units. A word is one unit, and so are `BYTES_PER_UNIT` bytes of text that is
/// copied or searched; a command costs `COMMAND_UNITS`. A release build takes about ten
/// microseconds for a unit, so the hook answers long before its deadline. A text that needs more is
/// a program.
const MOST_WORK: usize = 60_000;

/// Bytes of text per unit of work.
const BYTES: usize = 64;

/// Units for a command: every rule checks it, whatever its words are.
pub(super) const COMMAND: usize = 20;

/// Units for a function definition: it is copied, and its length is unknown.
const FUNCTION: usize = 100;

/// Variables that a subshell saves per unit of work.
const VARIABLES: usize = 8;

/// Returns the units of work for a text.
pub(super) fn work(text: &str) -> usize {
    1 + text.len() / BYTES
}

/// The most iterations of one loop that are walked one by one.
const MOST_ROUNDS: usize = 32;

/// The state of the walk.
pub(super) struct Walker {
    pub(super) commands: Vec<Command>,
    pub(super) trouble: Option<Trouble>,
    /// The possible values of each variable; several if they depend on a condition.
    pub(super) variables: BTreeMap<String, Vec<Word>>,
    pub(super) arrays: BTreeMap<String, Vec<Word>>,
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
    pub(super) setting: Setting,
    /// The number of conditions around the current command.
    pub(super) conditions: usize,
    /// Which of several values of the variables is used, and how many there are.
    pub(super) world: usize,
    pub(super) worlds: usize,
    /// The variables in the current words whose values are unknown.
    pub(super) nameless: Vec<String>,
    depth: usize,
    /// The units of work that are left.
    left: usize,
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
pub(super) struct Saved {
    variables: BTreeMap<String, Vec<Word>>,
    arrays: BTreeMap<String, Vec<Word>>,
    positional: Vec<Word>,
    functions: BTreeMap<String, Rc<FunctionBody>>,
    cwd: Option<String>,
}

impl Walker {
    pub(super) fn new(start: &Start) -> Self {
        let variables =
            start.variables.iter().map(|(name, value)| (name.clone(), vec![Word::new(value)]));
        Self {
            commands: Vec::new(),
            trouble: None,
            variables: variables.collect(),
            arrays: BTreeMap::new(),
            positional: Vec::new(),
            functions: BTreeMap::new(),
            calls: Vec::new(),
            cwd: Some(start.cwd.clone()),
            home: start.home.clone(),
            stdin: None,
            fed_by: Vec::new(),
            files: BTreeMap::new(),
            traps: Vec::new(),
            setting: Setting::default(),
            conditions: 0,
            world: 0,
            worlds: 1,
            nameless: Vec::new(),
            depth: 0,
            left: MOST_WORK,
        }
    }

    pub(super) fn finish(mut self) -> Lowered {
        for code in std::mem::take(&mut self.traps) {
            self.text(&code);
        }
        Lowered { commands: self.commands, trouble: self.trouble }
    }

    /// Records an error; the most severe one is kept.
    pub(super) fn fail(&mut self, error: Trouble) {
        self.trouble = self.trouble.max(Some(error));
    }

    /// Spends units of work, and returns whether the walk may continue.
    pub(super) fn spend(&mut self, work: usize) -> bool {
        self.left = self.left.saturating_sub(work);
        if self.left == 0 {
            self.fail(Trouble::TooMuch);
        }
        self.left > 0
    }

    /// Spends one unit of work, and returns whether the walk may continue.
    pub(super) fn may_go_on(&mut self) -> bool {
        self.spend(1)
    }

    /// Walks a text within the text, in the current shell.
    pub(super) fn text(&mut self, text: &str) {
        if self.spend(work(text)) {
            self.whole(text);
        }
    }

    /// Walks the whole text.
    pub(super) fn whole(&mut self, text: &str) {
        self.deeper(|walker| match parse::program(&unmarked(text)) {
            Ok((program, tokens)) if walker.spend(tokens) => {
                for list in &program.complete_commands {
                    walker.list(list);
                }
            }
            Ok(_) => {}
            Err(error) => walker.fail(error),
        });
    }

    /// Walks one level deeper, if the limit allows it.
    pub(super) fn deeper(&mut self, walk: impl FnOnce(&mut Self)) {
        if self.depth >= DEEPEST {
            self.fail(Trouble::TooDeep);
            return;
        }
        self.depth += 1;
        walk(self);
        self.depth -= 1;
    }

    pub(super) fn save(&self) -> Saved {
        Saved {
            variables: self.variables.clone(),
            arrays: self.arrays.clone(),
            positional: self.positional.clone(),
            functions: self.functions.clone(),
            cwd: self.cwd.clone(),
        }
    }

    pub(super) fn restore(&mut self, saved: Saved) {
        self.variables = saved.variables;
        self.arrays = saved.arrays;
        self.positional = saved.positional;
        self.functions = saved.functions;
        self.cwd = saved.cwd;
    }

    /// Walks in a subshell.
    pub(super) fn apart(&mut self, walk: impl FnOnce(&mut Self)) {
        let arrays: usize = self.arrays.values().map(Vec::len).sum();
        let kept = self.variables.len() + self.functions.len() + self.positional.len() + arrays;
        if !self.spend(1 + kept / VARIABLES) {
            return;
        }
        let saved = self.save();
        walk(self);
        self.restore(saved);
    }

    /// Returns what the commands from an index on print that no other command reads.
    pub(super) fn printed(&mut self, from: usize) -> Word {
        let unread = self.commands.get(from..).unwrap_or_default().iter();
        let unread = unread.filter(|it| it.feeds.is_none() && !it.output.raw().is_empty());
        let outputs: Vec<Word> = unread.map(|command| command.output.clone()).collect();
        if let [only] = outputs.as_slice() {
            return only.clone();
        }
        // Each of several commands may print as much as it reads.
        let length = outputs.iter().map(|it| it.raw().len()).fold(0, usize::saturating_add);
        if length > parse::LONGEST || !self.spend(length / BYTES) {
            return Word::unknown();
        }
        Word::marked(outputs.iter().map(Word::raw).collect())
    }

    /// Returns the commands from an index on whose output is not read yet.
    pub(super) fn unread(&self, from: usize) -> Vec<usize> {
        (from..self.commands.len()).filter(|at| self.commands[*at].feeds.is_none()).collect()
    }

    /// Records the program that reads the output of some commands.
    pub(super) fn feed(&mut self, readers: &[usize], name: &str) {
        for at in readers {
            if let Some(command) = self.commands.get_mut(*at) {
                command.feeds.get_or_insert_with(|| name.to_owned());
            }
        }
    }

    pub(super) fn list(&mut self, list: &CompoundList) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            if !self.may_go_on() {
                return;
            }
            let before = self.setting;
            if matches!(separator, SeparatorOperator::Async) {
                self.setting.background = true;
            }
            self.pipeline(&and_or.first);
            self.conditions += 1;
            for next in &and_or.additional {
                match next {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
            self.conditions -= 1;
            self.setting = before;
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        if let [command] = pipeline.seq.as_slice() {
            self.command(command);
            return;
        }
        let (stdin, fed_by) = (self.stdin.clone(), self.fed_by.clone());
        let mut from = self.commands.len();
        for (position, command) in pipeline.seq.iter().enumerate() {
            if position > 0 {
                self.stdin = Some(self.printed(from));
                self.fed_by = self.unread(from);
                from = self.commands.len();
            }
            let feeders = self.fed_by.clone();
            self.apart(|walker| walker.command(command));
            if position > 0 {
                let name = self.commands.get(from).map_or("", Command::name).to_owned();
                self.feed(&feeders, &name);
            }
        }
        (self.stdin, self.fed_by) = (stdin, fed_by);
    }

    fn command(&mut self, command: &ast::Command) {
        if !self.may_go_on() {
            return;
        }
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirects) => {
                self.redirected(redirects.as_ref(), |walker| walker.compound(compound));
            }
            ast::Command::Function(function) => {
                if !self.spend(FUNCTION) {
                    return;
                }
                let body = Rc::new(function.body.clone());
                self.functions.insert(function.fname.value.clone(), body);
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.redirected(redirects.as_ref(), |walker| walker.test(&test.expr));
            }
        }
    }

    /// Walks the body of a function with the arguments of a call.
    pub(super) fn call(&mut self, name: &str, body: &Rc<FunctionBody>, arguments: Vec<Word>) {
        let FunctionBody(compound, redirects) = body.as_ref();
        let positional = std::mem::replace(&mut self.positional, arguments);
        self.calls.push(name.to_owned());
        self.deeper(|walker| {
            walker.redirected(redirects.as_ref(), |walker| walker.compound(compound));
        });
        self.calls.pop();
        self.positional = positional;
    }

    /// Walks with redirections that apply to several commands.
    fn redirected(&mut self, redirects: Option<&RedirectList>, walk: impl FnOnce(&mut Self)) {
        let Some(RedirectList(redirects)) = redirects else { return walk(self) };
        let mut carrier = Command { cwd: self.cwd.clone(), ..Command::default() };
        for redirect in redirects {
            self.redirect(redirect, &mut carrier);
        }
        let (stdin, fed_by) = (self.stdin.clone(), self.fed_by.clone());
        if let Some(given) = carrier.stdin.take() {
            self.stdin = Some(given);
            self.fed_by = Vec::new();
        }
        let written = carrier.written_file(self.cwd.as_deref());
        let from = self.commands.len();
        self.commands.push(carrier);
        walk(self);
        if let Some(file) = written {
            let printed = self.printed(from);
            self.files.insert(file, printed);
            let unread = self.unread(from);
            for at in unread {
                self.commands[at].output = Word::default();
            }
        }
        (self.stdin, self.fed_by) = (stdin, fed_by);
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => {
                self.apart(|walker| walker.list(&subshell.list));
            }
            CompoundCommand::ForClause(clause) => self.for_clause(clause),
            CompoundCommand::ArithmeticForClause(clause) => {
                let condition = clause.condition.as_ref().map(|it| it.value.trim());
                let rounds = match condition {
                    None | Some("") => Rounds::Endless,
                    Some(text) if rounds::number(text) == Some(true) => Rounds::Endless,
                    Some(_) => Rounds::Bounded,
                };
                self.in_loop(rounds, |walker| walker.list(&clause.body.list));
            }
            CompoundCommand::CaseClause(clause) => {
                self.one_word(&clause.value.value);
                self.conditions += 1;
                for item in &clause.cases {
                    if let Some(list) = &item.cmd {
                        self.list(list);
                    }
                }
                self.conditions -= 1;
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.conditions += 1;
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition);
                    }
                    self.list(&other.body);
                }
                self.conditions -= 1;
            }
            CompoundCommand::WhileClause(clause) => self.while_clause(clause, LoopsWhile::True),
            CompoundCommand::UntilClause(clause) => self.while_clause(clause, LoopsWhile::False),
            CompoundCommand::Coprocess(coprocess) => {
                let before = self.setting;
                self.setting.background = true;
                self.command(&coprocess.body);
                self.setting = before;
            }
        }
    }

    fn for_clause(&mut self, clause: &ast::ForClauseCommand) {
        let values = match &clause.values {
            Some(words) => words.iter().flat_map(|word| self.words(&word.value)).collect(),
            None => self.positional.clone(),
        };
        let name = clause.variable_name.clone();
        if values.len() > MOST_ROUNDS {
            self.variables.insert(name, vec![Word::unknown()]);
            return self.in_loop(Rounds::Bounded, |walker| walker.list(&clause.body.list));
        }
        for value in values {
            if !self.may_go_on() {
                return;
            }
            self.variables.insert(name.clone(), vec![value]);
            self.in_loop(Rounds::Bounded, |walker| walker.list(&clause.body.list));
        }
    }

    /// Walks a loop. If it reads lines that are known, each line is walked.
    fn while_clause(&mut self, clause: &ast::WhileOrUntilClauseCommand, on: LoopsWhile) {
        let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
        let lines: Vec<String> = match &self.stdin {
            Some(text) if !text.raw().is_empty() => {
                text.raw().lines().take(MOST_ROUNDS + 1).map(str::to_owned).collect()
            }
            Some(_) | None => Vec::new(),
        };
        if !self.spend(lines.iter().map(|line| work(line)).sum()) {
            return;
        }
        let from = self.commands.len();
        let stdin = self.stdin.clone();
        if lines.len() > MOST_ROUNDS {
            self.stdin = Some(Word::unknown());
        }
        if lines.is_empty() || lines.len() > MOST_ROUNDS {
            self.list(condition);
        }
        let constant = rounds::constant(condition, &self.commands[from..]);
        let rounds = match (on, constant) {
            (LoopsWhile::True, Some(true)) | (LoopsWhile::False, Some(false)) => Rounds::Endless,
            (LoopsWhile::True | LoopsWhile::False, _) => Rounds::Bounded,
        };
        if lines.is_empty() || lines.len() > MOST_ROUNDS {
            self.in_loop(rounds, |walker| walker.list(&body.list));
            self.stdin = stdin;
            return;
        }
        for line in lines {
            if !self.may_go_on() {
                return;
            }
            self.stdin = Some(Word::marked(line));
            self.list(condition);
            self.in_loop(Rounds::Bounded, |walker| walker.list(&body.list));
        }
        self.stdin = stdin;
    }

    /// Walks the substitutions in a test.
    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner);
            }
            ExtendedTestExpr::UnaryTest(_, word) => drop(self.one_word(&word.value)),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.one_word(&left.value);
                self.one_word(&right.value);
            }
        }
    }
}
