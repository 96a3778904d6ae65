//! What a shell command writes and removes, as far as that stands in it by the letter.
//!
//! Quotes, redirections, here-documents, `cd` and the usual programs are understood; variables
//! but for a few, `eval`, scripts and everything that other programs do are not.

/// Something that a command writes or removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path as it is said.
    pub said: String,
    /// The directory that the command has changed to before; empty if it has not.
    pub directory: String,
    /// What is done to it.
    pub deed: Deed,
}

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It is written to.
    Write,
    /// It goes, with everything in it.
    Remove,
}

impl Target {
    /// Returns a path that is written to.
    pub(super) fn written(path: &str) -> Self {
        Self { said: path.to_owned(), directory: String::new(), deed: Deed::Write }
    }
}

/// Shells within shells are followed this far.
const DEEPEST: usize = 3;

/// A command as long as a file is not taken apart; nobody writes one by hand.
const LONGEST: usize = 256 * 1024;

/// Returns what a command line writes and removes, and which commands of ralph's it runs.
pub(super) fn look_at(command: &str) -> (Vec<Target>, Vec<Vec<String>>) {
    let mut found = Findings::default();
    found.read(command, DEEPEST);
    (found.targets, found.ralph)
}

#[derive(Default)]
struct Findings {
    targets: Vec<Target>,
    ralph: Vec<Vec<String>>,
    directory: String,
}

impl Findings {
    fn read(&mut self, text: &str, depth: usize) {
        if depth == 0 || text.len() > LONGEST {
            return;
        }
        for command in commands(text) {
            for said in command.redirects {
                self.add(said, Deed::Write);
            }
            self.simple(&command.words, depth);
        }
    }

    fn simple(&mut self, words: &[String], depth: usize) {
        let words = without_prefixes(words);
        let Some((program, rest)) = words.split_first() else { return };
        let name = program.rsplit('/').next().unwrap_or_default();
        let operands = || operands(rest).into_iter();
        match name {
            "cd" | "pushd" => {
                if let Some(to) = operands().next() {
                    self.directory = if to.starts_with(['/', '~', '$']) {
                        to
                    } else {
                        format!(
                            "{}/{to}",
                            if self.directory.is_empty() { "." } else { &self.directory }
                        )
                    };
                }
            }
            "rm" | "unlink" | "rmdir" | "shred" => {
                operands().for_each(|it| self.add(it, Deed::Remove));
            }
            "truncate" | "touch" | "chmod" | "chown" | "chgrp" | "tee" => {
                operands().for_each(|it| self.add(it, Deed::Write));
            }
            "mv" => self.copied(rest, Some(Deed::Remove)),
            "cp" | "install" | "ln" | "rsync" => self.copied(rest, None),
            "sed" | "perl" | "ruby" if rest.iter().any(|word| edits_in_place(word)) => {
                operands().for_each(|it| self.add(it, Deed::Write));
            }
            "dd" => rest
                .iter()
                .filter_map(|word| word.strip_prefix("of="))
                .for_each(|it| self.add(it.to_owned(), Deed::Write)),
            "find" if rest.iter().any(|word| matches!(word.as_str(), "-delete" | "-exec")) => {
                rest.iter()
                    .take_while(|word| !word.starts_with('-'))
                    .for_each(|it| self.add(it.clone(), Deed::Remove));
            }
            "git" => self.git(rest),
            "sh" | "bash" | "dash" | "zsh" => {
                let script = rest.iter().skip_while(|word| !runs_text(word)).nth(1);
                if let Some(script) = script {
                    self.read(script, depth - 1);
                }
            }
            "ralph" if program == "ralph" => self.ralph.push(rest.to_vec()),
            "$RALPH_EXE" | "${RALPH_EXE}" | "${RALPH_EXE:-ralph}" => {
                self.ralph.push(rest.to_vec());
            }
            _ => {}
        }
    }

    /// Adds the destination, as a file and as a directory that the sources come into; and the
    /// sources, if something becomes of them.
    fn copied(&mut self, words: &[String], sources_deed: Option<Deed>) {
        let mut sources = operands(words);
        let named = words.iter().zip(words.iter().skip(1)).find(|(flag, _)| *flag == "-t");
        let long = words.iter().find_map(|it| it.strip_prefix("--target-directory="));
        let destination = match (named, long) {
            (Some((_, to)), _) => {
                sources.retain(|it| it != to);
                Some(to.clone())
            }
            (None, Some(to)) => Some(to.to_owned()),
            (None, None) => sources.pop(),
        };
        let Some(destination) = destination else { return };
        self.add(destination.clone(), Deed::Write);
        for source in sources {
            let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            self.add(format!("{destination}/{name}"), Deed::Write);
            if let Some(deed) = sources_deed {
                self.add(source, deed);
            }
        }
    }

    fn git(&mut self, words: &[String]) {
        let mut words = words;
        while let [flag, after @ ..] = words
            && flag.starts_with('-')
        {
            let takes_value = matches!(flag.as_str(), "-C" | "-c" | "--git-dir" | "--work-tree");
            words = if takes_value { after.get(1..).unwrap_or_default() } else { after };
        }
        if let [verb, rest @ ..] = words
            && matches!(verb.as_str(), "checkout" | "restore" | "rm" | "mv" | "clean")
        {
            // A whole tree is named often and meant seldom, so directories above do not count.
            for it in operands(rest) {
                self.add(it, Deed::Write);
            }
        }
    }

    fn add(&mut self, said: String, deed: Deed) {
        self.targets.push(Target { said, directory: self.directory.clone(), deed });
    }
}

fn operands(words: &[String]) -> Vec<String> {
    let mut only_operands = false;
    let mut operands = Vec::new();
    for word in words {
        if only_operands || !word.starts_with('-') || word == "-" {
            operands.push(word.clone());
        } else if word == "--" {
            only_operands = true;
        }
    }
    operands
}

fn edits_in_place(word: &str) -> bool {
    let short = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
    word.starts_with("--in-place")
        || short.is_some_and(|flags| {
            flags.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'i')
        })
}

fn runs_text(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('c')
}

/// Returns a command without what stands in front of the program.
fn without_prefixes(words: &[String]) -> &[String] {
    let mut words = words;
    while let [first, rest @ ..] = words {
        let is_assignment = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        });
        words = match first.as_str() {
            "sudo" | "env" | "nice" | "timeout" | "xargs" | "stdbuf" | "doas" => {
                let skipped = rest
                    .iter()
                    .take_while(|it| {
                        it.starts_with('-') || it.starts_with(|c: char| c.is_ascii_digit())
                    })
                    .count();
                &rest[skipped..]
            }
            "command" | "nohup" | "time" | "exec" | "builtin" | "then" | "do" | "else" | "elif"
            | "if" | "while" | "until" | "!" | "{" => rest,
            _ if is_assignment => rest,
            _ => break,
        };
    }
    words
}

/// One program with its arguments, and the files that its output goes to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Simple {
    words: Vec<String>,
    redirects: Vec<String>,
}

/// Takes a command line apart.
fn commands(text: &str) -> Vec<Simple> {
    let mut lexer = Lexer {
        chars: text.chars().peekable(),
        commands: Vec::new(),
        command: Simple::default(),
        word: None,
        role: Role::default(),
        documents: Vec::new(),
    };
    lexer.run();
    lexer.commands
}

/// What the next word is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Role {
    #[default]
    Argument,
    /// A file that is written to.
    Redirect,
    /// A file, or the number of a stream.
    RedirectOrStream,
    /// A file that is read.
    Input,
    /// What ends a here-document.
    Delimiter,
}

struct Lexer<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<Simple>,
    command: Simple,
    word: Option<String>,
    role: Role,
    /// The ends of the here-documents that begin after this line.
    documents: Vec<String>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(character) = self.chars.next() {
            match character {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' => {
                    self.end_command();
                    self.skip_documents();
                }
                '&' if self.chars.peek() == Some(&'>') => {
                    self.end_word();
                    self.chars.next();
                    self.output();
                }
                ';' | '|' | '&' | '(' | ')' | '`' => self.end_command(),
                '>' => {
                    // The number of a stream in front of it is no word of its own.
                    if self
                        .word
                        .as_ref()
                        .is_some_and(|word| word.chars().all(|it| it.is_ascii_digit()))
                    {
                        self.word = None;
                    }
                    self.end_word();
                    self.output();
                }
                '<' => self.input(),
                '#' if self.word.is_none() => {
                    while self.chars.next_if(|next| *next != '\n').is_some() {}
                }
                '\'' => self.quoted('\''),
                '"' => self.quoted('"'),
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                other => self.push(other),
            }
        }
        self.end_command();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        while let Some(character) = self.chars.next() {
            match character {
                _ if character == quote => return,
                '\\' if quote == '"' => {
                    let next = self.chars.next();
                    next.into_iter().filter(|next| *next != '\n').for_each(|next| self.push(next));
                }
                other => self.push(other),
            }
        }
    }

    fn output(&mut self) {
        self.role = Role::Redirect;
        match self.chars.peek() {
            Some('>' | '|') => drop(self.chars.next()),
            Some('&') => {
                self.chars.next();
                self.role = Role::RedirectOrStream;
            }
            Some(_) | None => {}
        }
    }

    fn input(&mut self) {
        self.end_word();
        match self.chars.peek() {
            Some('>') => {
                self.chars.next();
                self.role = Role::Redirect;
            }
            Some('<') => {
                self.chars.next();
                self.role = if self.chars.next_if_eq(&'<').is_some() {
                    Role::Input
                } else {
                    self.chars.next_if_eq(&'-');
                    Role::Delimiter
                };
            }
            Some(_) | None => self.role = Role::Input,
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.role) {
            Role::Argument => self.command.words.push(word),
            Role::Redirect => self.command.redirects.push(word),
            Role::RedirectOrStream => {
                if word != "-" && !word.chars().all(|it| it.is_ascii_digit()) {
                    self.command.redirects.push(word);
                }
            }
            Role::Input => {}
            Role::Delimiter => self.documents.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.role = Role::Argument;
        let command = std::mem::take(&mut self.command);
        if command != Simple::default() {
            self.commands.push(command);
        }
    }

    fn skip_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                let mut is_over = true;
                for character in self.chars.by_ref() {
                    if character == '\n' {
                        is_over = false;
                        break;
                    }
                    line.push(character);
                }
                if is_over || line.trim_start_matches('\t') == delimiter {
                    break;
                }
            }
        }
    }
}
