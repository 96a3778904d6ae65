//! Finds the files that a gate command runs, sources or reads as a script.
//!
//! The command is lowered like an agent's command, and each simple command is searched for the
//! files that it executes. Test files passed to a test runner do not count: attempts change them.
//! Does not check whether the files exist.

use std::path::{Path, PathBuf};

use ralph_model::glob::Pattern;

use super::access::{AccessMode, find_accesses};
use super::arguments::Arguments;
use super::lower::{
    RedirectMode, ShellCommand, ShellSource, ShellState, UNKNOWN, Word, find_roots, is_shell,
    lower_text, parse_shell_source,
};
use super::place::normalize_lexically;
use super::started_programs::{PLAIN, find_task_runner};

/// Where scripts of a command are.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptLocation {
    File(PathBuf),
    /// In the files below a directory whose relative paths match a pattern.
    Matching {
        directory: PathBuf,
        pattern: Pattern,
    },
}

/// The deepest nesting of code in code that is followed.
const DEEPEST: usize = 4;

/// An interpreter and its flags.
struct ScriptInterpreter {
    /// Flags that take the next word.
    values: &'static [&'static str],
    /// Flags that name a file to load.
    files: &'static [&'static str],
    /// Flags that name a file to run in place of an operand.
    programs: &'static [&'static str],
    /// Flags that take code.
    code: &'static [&'static str],
    /// Endings that the interpreter appends to script names.
    endings: &'static [&'static str],
}

/// Returns how a program runs scripts, if it is an interpreter. Ignores version numbers in the
/// name.
#[rustfmt::skip]
fn find_interpreter(name: &str) -> Option<ScriptInterpreter> {
    const NONE: &[&str] = &[];
    let base = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-');
    let [values, files, programs, code, endings]: [&[&str]; 5] = match base {
        "python" | "pypy" | "pythonw" =>
            [&["-W", "-X", "-Q"], NONE, NONE, &["-c"], &["/__main__.py"]],
        "node" | "nodejs" | "tsx" | "ts-node" | "babel-node" =>
            [&["-C", "--conditions", "--env-file", "-P", "--project"], &["-r", "--require", "--import", "--loader", "--experimental-loader"],
             NONE, &["-e", "--eval", "-p", "--print"], &[".js", ".cjs", ".mjs", "/index.js"]],
        "bun" => [NONE, &["-r", "--preload"], NONE, &["-e", "--eval"], &[".ts", ".js"]],
        "deno" => [&["-c", "--config", "--import-map"], &["--preload"], NONE, NONE, NONE],
        "ruby" | "jruby" => [&["-I", "-C", "-E"], &["-r", "--require"], NONE, &["-e"], &[".rb"]],
        "perl" => [&["-I"], NONE, NONE, &["-e", "-E"], NONE],
        "php" => [&["-d", "-c", "-z"], NONE, &["-f", "--file"], &["-r"], NONE],
        "awk" | "gawk" | "mawk" | "nawk" => [&["-v", "-F"], NONE, &["-f", "--file"], NONE, NONE],
        "sed" | "gsed" => [NONE, NONE, &["-f", "--file"], &["-e"], NONE],
        "make" | "gmake" => [&["-C", "-j"], NONE, &["-f", "--file", "--makefile"], NONE, NONE],
        "just" => [NONE, NONE, &["-f", "--justfile"], NONE, NONE],
        "expect" => [NONE, NONE, &["-f"], &["-c"], NONE],
        "pwsh" | "powershell" => [NONE, NONE, &["-File", "-f"], &["-Command", "-c"], NONE],
        "java" => [&["-cp", "-classpath"], NONE, &["-jar"], NONE, NONE],
        "lua" | "luajit" | "tclsh" | "wish" | "Rscript" | "julia" | "groovy" | "scala" | "swift"
        | "elixir" | "escript" | "runghc" | "runhaskell" | "ocaml" | "gjs" | "guile" | "racket"
        | "nu" | "osascript" | "jshell" | "coffee" | "crystal" =>
            [NONE, &["-L", "--load"], NONE, &["-e", "--eval"], NONE],
        _ => return None,
    };
    Some(ScriptInterpreter { values, files, programs, code, endings })
}

/// Programs whose operands are input, not scripts, unless a flag names one.
const ONLY_BY_FLAG: [&str; 9] =
    ["awk", "gawk", "mawk", "nawk", "sed", "gsed", "make", "gmake", "just"];

/// Programs that run the first path in their arguments.
#[rustfmt::skip]
const FIRST_PATH_RUNNERS: [&str; 11] = [
    "setarch", "linux32", "linux64", "i386", "x86_64", "xvfb-run", "valgrind", "kcov", "rr", "gdb",
    "entr",
];

/// Variables with options of an interpreter, and its name.
const OPTION_VARIABLES: [(&str, &str); 2] = [("NODE_OPTIONS", "node"), ("RUBYOPT", "ruby")];

/// Words before a program that another program runs, as in `uv run` or `mise exec --`.
const BEFORE_PROGRAM: [&str; 4] = ["run", "exec", "--command", "--args"];

/// Flags between these words and the program that take the next word.
const BEFORE_VALUES: [&str; 6] =
    ["--python", "--with", "--extra", "--group", "--package", "--env-file"];

/// Where an interpreter reads its code.
enum ScriptSource {
    Files(Vec<Word>),
    /// A module by its dotted name.
    Module(Word),
    /// Text on the command line.
    Code,
    /// Standard input.
    Input,
    Elsewhere,
}

/// Returns the files that a command runs, sources or reads as a script.
///
/// The files need not exist. If the command cannot be lowered completely, every word counts.
pub fn find_scripts(command: &str, start: &ShellState) -> Vec<ScriptLocation> {
    find_in_text(command, start, UnreadableText::EveryWord)
}

/// Returns the files that the text of a script runs, sources or reads as a script. Skips what
/// cannot be lowered: its words may be anything.
pub fn find_scripts_in_file(text: &str, start: &ShellState) -> Vec<ScriptLocation> {
    find_in_text(text, start, UnreadableText::Skipped)
}

fn find_in_text(text: &str, start: &ShellState, unreadable: UnreadableText) -> Vec<ScriptLocation> {
    let directories = vec![start.cwd.clone()];
    let mut finder = ScriptFinder {
        start,
        unreadable,
        directories,
        search_path: Vec::new(),
        places: Vec::new(),
    };
    finder.read_text(text, start.cwd.clone(), 0);
    finder.places
}

/// Returns whether a program runs scripts that its arguments name.
pub fn is_interpreter(name: &str) -> bool {
    find_endings(name).is_some()
}

/// What happens to a text that cannot be lowered completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnreadableText {
    EveryWord,
    Skipped,
}

struct ScriptFinder<'a> {
    start: &'a ShellState,
    unreadable: UnreadableText,
    /// The directories that commands are known to run in.
    directories: Vec<String>,
    /// What the text prepends or appends to the `PATH`.
    search_path: Vec<String>,
    places: Vec<ScriptLocation>,
}

impl ScriptFinder<'_> {
    fn read_text(&mut self, text: &str, cwd: String, depth: usize) {
        let lowered = lower_text(text, &ShellState { cwd, ..self.start.clone() });
        for command in &lowered.commands {
            self.directories.extend(command.cwd.clone());
            let values = command.assigns.iter().filter(|(name, _)| name == "PATH");
            let parts = values.flat_map(|(_, value)| value.raw().split(':'));
            let own =
                parts.filter(|part| !part.trim_matches(UNKNOWN).is_empty()).map(str::to_owned);
            self.search_path.extend(own);
        }
        self.directories.sort();
        self.directories.dedup();
        if lowered.error.is_some() && self.unreadable == UnreadableText::EveryWord {
            let is_end = |it: char| it.is_whitespace() || ";&|()<>`$".contains(it);
            for word in text.split(is_end) {
                self.add_word(&Word::new(word.trim_matches(['"', '\''])), None, &[]);
            }
        }
        for command in &lowered.commands {
            self.add_command(command, depth);
            self.add_fed_files(command, &lowered.commands);
        }
    }

    /// Adds the scripts that a command itself runs.
    fn add_command(&mut self, command: &ShellCommand, depth: usize) {
        let cwd = command.cwd.as_deref();
        for (variable, value) in &command.assigns {
            if matches!(variable.as_str(), "BASH_ENV" | "ENV" | "PYTHONSTARTUP") {
                self.add_word(value, cwd, &[]);
            }
            for (_, program) in OPTION_VARIABLES.iter().filter(|(name, _)| name == variable) {
                let options = value.to_string();
                let words = std::iter::once(*program).chain(options.split_whitespace());
                let mut inner = command.clone();
                inner.argv = words.map(Word::new).collect();
                if let ScriptSource::Files(files) = find_source(&inner) {
                    self.add_all(&files, cwd, find_endings(program).unwrap_or_default());
                }
            }
        }
        let (Some(program), name) = (command.argv.first(), command.name()) else { return };
        if program.raw().contains('/') {
            self.add_word(program, cwd, &[]);
        } else {
            for directory in self.search_path.clone() {
                self.add_word(&Word::from_raw(&format!("{directory}/{name}")), cwd, &[]);
            }
        }
        // What `find` passes on is relative to the directory of `find`.
        if command.wrappers.last().is_some_and(|it| it == "find") {
            return;
        }
        if matches!(name, "source" | ".") {
            self.add_all(command.arguments().first(), cwd, &[]);
        } else if name == "find" {
            self.add_find_results(command);
        } else if name == "run-parts" {
            let directories = command.arguments().iter().filter(|it| !it.raw().starts_with('-'));
            for directory in directories.filter_map(Word::as_known) {
                self.add_below(&Path::new(cwd.unwrap_or(&self.start.cwd)).join(directory), "*");
            }
        } else if let Some(endings) = find_endings(name) {
            match find_source(command) {
                ScriptSource::Files(files) => self.add_all(&files, cwd, endings),
                ScriptSource::Module(name) => {
                    let path = Word::from_raw(&name.raw().replace('.', "/"));
                    self.add_word(&path, cwd, &[".py", "/__main__.py"]);
                }
                ScriptSource::Code | ScriptSource::Input | ScriptSource::Elsewhere => {}
            }
        } else if !PLAIN.contains(&name) {
            self.add_launched(command, depth);
        }
    }

    /// Adds the files whose content a command gets as code.
    fn add_fed_files(&mut self, command: &ShellCommand, all: &[ShellCommand]) {
        let name = command.name();
        let is_open = command.arguments().iter().any(|word| word.raw().starts_with(UNKNOWN));
        let mut feeders: Vec<&ShellCommand> = Vec::new();
        match find_source(command) {
            ScriptSource::Input => {
                for redirect in &command.redirects {
                    if redirect.mode != RedirectMode::Write {
                        self.add_word(&redirect.path, command.cwd.as_deref(), &[]);
                    }
                }
                let mut open: Vec<usize> = command.fed_by.clone();
                while let Some(feeder) = open.pop().and_then(|at| all.get(at)) {
                    open.extend(feeder.fed_by.iter().filter(|_| feeders.len() < all.len()));
                    feeders.push(feeder);
                }
                if command.fed_by.is_empty()
                    && command.redirects.is_empty()
                    && command.stdin.is_some()
                {
                    // A group's redirection applies to every command in it.
                    feeders.extend(all.iter().filter(|it| it.argv.is_empty()));
                }
            }
            ScriptSource::Code | ScriptSource::Elsewhere
                if is_open && (name == "eval" || find_endings(name).is_some()) =>
            {
                // A substitution is code itself, or a variable that may hold such output.
                let is_code = |(at, it): &(usize, &ShellCommand)| {
                    let reader = it.feeds.as_deref().unwrap_or_default();
                    !command.fed_by.contains(at) && (reader == name || reader.starts_with(UNKNOWN))
                };
                feeders.extend(all.iter().enumerate().filter(is_code).map(|(_, it)| it));
            }
            ScriptSource::Files(_)
            | ScriptSource::Module(_)
            | ScriptSource::Code
            | ScriptSource::Elsewhere => return,
        }
        for feeder in feeders {
            for access in find_accesses(feeder) {
                match access.mode {
                    AccessMode::Read | AccessMode::ReadAll => {
                        self.add_word(&access.path, feeder.cwd.as_deref(), &[]);
                    }
                    AccessMode::Use
                    | AccessMode::Execute
                    | AccessMode::Write
                    | AccessMode::Remove => {}
                }
            }
        }
    }

    /// Adds the script that a launcher runs, or that a program names after a word such as `run`.
    fn add_launched(&mut self, command: &ShellCommand, depth: usize) {
        let arguments = command.arguments();
        let inner = arguments.iter().position(|word| {
            let name = word.raw().rsplit('/').next().unwrap_or_default();
            find_endings(name).is_some() && !ONLY_BY_FLAG.contains(&name)
        });
        if let Some(at) = inner {
            let mut inner = command.clone();
            inner.argv.drain(..=at);
            if let (ShellSource::Code(code, _), true) =
                (parse_shell_source(inner.arguments()), is_shell(inner.name()) && depth < DEEPEST)
            {
                let cwd = command.cwd.clone().unwrap_or_else(|| self.start.cwd.clone());
                self.read_text(&code.to_string(), cwd, depth + 1);
                return;
            }
            self.add_command(&inner, depth);
            return;
        }
        let is_operand = |word: &&Word| !word.raw().starts_with('-');
        let cwd = command.cwd.as_deref();
        if FIRST_PATH_RUNNERS.contains(&command.name()) {
            let is_path = |word: &&Word| word.raw().contains('/') && !word.raw().ends_with('/');
            self.add_all(arguments.iter().filter(is_operand).find(is_path), cwd, &[]);
        }
        let before = arguments.iter().position(|word| BEFORE_PROGRAM.contains(&word.raw()));
        if let Some(at) = before {
            let rest = arguments.get(at + 1..).unwrap_or_default();
            let code = rest.first().filter(|it| it.raw().contains(' ') && depth < DEEPEST);
            if let Some(code) = code {
                let cwd = command.cwd.clone().unwrap_or_else(|| self.start.cwd.clone());
                self.read_text(&code.to_string(), cwd, depth + 1);
            } else {
                let operands = Arguments::new(rest, &BEFORE_VALUES).find_operands();
                self.add_all(operands.into_iter().find(|it| it.raw() != "--"), cwd, &[]);
                if let [flag, module, ..] = rest
                    && matches!(flag.raw(), "-m" | "--module")
                {
                    let path = Word::from_raw(&module.raw().replace('.', "/"));
                    self.add_word(&path, cwd, &[".py", "/__main__.py"]);
                }
            }
        }
        if let Some(code) = find_task_runner(command).filter(|_| depth < DEEPEST) {
            let directory = command.cwd.clone().unwrap_or_else(|| self.start.cwd.clone());
            self.read_text(&code, directory, depth + 1);
        }
    }

    /// Adds the files that `find` finds, if they are run.
    fn add_find_results(&mut self, command: &ShellCommand) {
        let arguments = command.arguments();
        let starts = |word: &Word| matches!(word.raw(), "-exec" | "-execdir" | "-ok" | "-okdir");
        let is_run = arguments.iter().position(starts).is_some_and(|at| {
            let mut inner = command.clone();
            inner.argv.drain(..at + 2);
            let is_found = |word: &Word| word.raw() == "{}";
            inner.argv.first().is_some_and(is_found)
                || match find_source(&inner) {
                    ScriptSource::Files(files) => files.iter().any(is_found),
                    ScriptSource::Module(_)
                    | ScriptSource::Code
                    | ScriptSource::Input
                    | ScriptSource::Elsewhere => false,
                }
        });
        let feeds = command.feeds.as_deref().unwrap_or_default();
        if !is_run && find_endings(feeds).is_none() {
            return;
        }
        let name = arguments.iter().position(|word| matches!(word.raw(), "-name" | "-iname"));
        let name = name.and_then(|at| arguments.get(at + 1)).map(ToString::to_string);
        let cwd = command.cwd.clone().unwrap_or_else(|| self.start.cwd.clone());
        for root in find_roots(arguments).iter().filter_map(Word::as_known) {
            let root = normalize_lexically(&Path::new(&cwd).join(root));
            // A command that runs everything there runs the work itself.
            if name.is_some() || root != Path::new(&self.start.cwd) {
                self.add_below(&root, name.as_deref().unwrap_or("*"));
            }
        }
    }

    fn add_all<'a>(
        &mut self,
        words: impl IntoIterator<Item = &'a Word>,
        cwd: Option<&str>,
        endings: &[&str],
    ) {
        for word in words {
            self.add_word(word, cwd, endings);
        }
    }

    /// Adds the file that a word names. If the directory is unknown, adds it for every directory
    /// that commands run in.
    fn add_word(&mut self, word: &Word, cwd: Option<&str>, endings: &[&str]) {
        let directories = match cwd {
            Some(cwd) => vec![cwd.to_owned()],
            None => self.directories.clone(),
        };
        if let Some(path) = word.as_known().filter(|it| !it.is_empty()) {
            for directory in directories {
                for ending in [""].iter().chain(endings) {
                    let path = Path::new(&directory).join(format!("{path}{ending}"));
                    self.push_place(ScriptLocation::File(normalize_lexically(&path)));
                }
            }
            return;
        }
        let certain = word.certain_prefix();
        if !word.is_known() {
            // `$ROOT/check.sh`: most variables of this kind hold the project directory.
            let shown = word.to_string();
            let rest = shown.strip_prefix("‹?›/").filter(|rest| !rest.contains('‹'));
            if let Some(rest) = rest.filter(|_| certain.is_empty()) {
                self.push_place(ScriptLocation::File(normalize_lexically(
                    &Path::new(&self.start.cwd).join(rest),
                )));
            }
            return;
        }
        let (front, _) = certain.rsplit_once('/').unwrap_or(("", certain));
        let shown = word.to_string();
        let name = shown.get(front.len()..).unwrap_or_default().trim_start_matches('/');
        let is_telling = name.contains(|it: char| it.is_ascii_alphanumeric());
        for directory in directories {
            let directory = match front {
                "" if certain.starts_with('/') => PathBuf::from("/"),
                front => normalize_lexically(&Path::new(&directory).join(front)),
            };
            // `sh *` in the project directory runs the work itself.
            if is_telling || directory != Path::new(&self.start.cwd) {
                self.add_below(&directory, &format!("/{name}"));
            }
        }
    }

    fn add_below(&mut self, directory: &Path, pattern: &str) {
        let directory = normalize_lexically(directory);
        let is_test = |part: std::path::Component<'_>| {
            ["test", "tests", "spec", "specs", "__tests__"].iter().any(|it| part.as_os_str() == *it)
        };
        if let (Ok(pattern), false) = (Pattern::new(pattern), directory.components().any(is_test)) {
            self.push_place(ScriptLocation::Matching { directory, pattern });
        }
    }

    fn push_place(&mut self, place: ScriptLocation) {
        if !self.places.contains(&place) {
            self.places.push(place);
        }
    }
}

/// Returns the endings that a program appends to script names, if it runs scripts.
fn find_endings(name: &str) -> Option<&'static [&'static str]> {
    match find_interpreter(name) {
        Some(interpreter) => Some(interpreter.endings),
        None if is_shell(name) => Some(&[]),
        None => None,
    }
}

/// Returns whether an interpreter only checks its file, as in `bash -n` or `node --check`: that
/// file is the work that is checked.
fn checks_syntax_only(command: &ShellCommand) -> bool {
    let name = command.name();
    let flags: &[&str] = match name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.') {
        "node" | "nodejs" => &["-c", "--check"],
        "ruby" | "perl" => &["-c", "-wc", "-cw"],
        "php" => &["-l", "--syntax-check"],
        _ if is_shell(name) => &["-n", "-nv", "-vn", "-en", "-ne"],
        _ => return false,
    };
    let mut options = command.arguments().iter().take_while(|word| word.raw().starts_with('-'));
    options.any(|word| flags.contains(&word.raw()))
}

/// Returns where a shell or an interpreter reads its code.
fn find_source(command: &ShellCommand) -> ScriptSource {
    let name = command.name();
    let is_input = |word: &Word| {
        matches!(word.raw(), "-" | "/dev/stdin") || word.raw().starts_with("/dev/fd/")
    };
    if checks_syntax_only(command) {
        return ScriptSource::Elsewhere;
    }
    if is_shell(name) {
        return match parse_shell_source(command.arguments()) {
            ShellSource::Code(..) => ScriptSource::Code,
            ShellSource::Script(script, _) if is_input(script) => ScriptSource::Input,
            ShellSource::Script(script, _) => ScriptSource::Files(vec![script.clone()]),
            ShellSource::Input => ScriptSource::Input,
        };
    }
    if matches!(name, "source" | ".") && command.arguments().first().is_some_and(is_input) {
        return ScriptSource::Input;
    }
    let Some(interpreter) = find_interpreter(name) else { return ScriptSource::Elsewhere };
    let mut files: Vec<Word> = Vec::new();
    let is_runtime = matches!(name, "deno" | "bun");
    let mut words = command.arguments().iter().peekable();
    let mut is_test = is_runtime && words.peek().is_some_and(|it| it.raw() == "test");
    // `deno run`, `bun run`.
    words.next_if(|word| is_runtime && word.raw() == "run");
    while let Some(word) = words.next() {
        let text = word.raw();
        if is_input(word) {
            return ScriptSource::Input;
        }
        if !text.starts_with('-') || text == "--" {
            let script = if text == "--" { words.next() } else { Some(word) };
            let is_run = !ONLY_BY_FLAG.contains(&name) && !is_test;
            files.extend(script.filter(|_| is_run).cloned());
            return if files.is_empty() {
                ScriptSource::Elsewhere
            } else {
                ScriptSource::Files(files)
            };
        }
        is_test |= text == "--test";
        let takes = |flags: &[&str]| flags.contains(&text);
        let attached = interpreter.files.iter().find_map(|flag| match text.strip_prefix(flag)? {
            rest if flag.starts_with("--") => rest.strip_prefix('='),
            rest => Some(rest).filter(|rest| !rest.is_empty()),
        });
        if takes(interpreter.programs) {
            files.extend(words.next().cloned());
            return ScriptSource::Files(files);
        } else if takes(interpreter.files) {
            files.extend(words.next().cloned());
        } else if let Some(file) = attached {
            files.push(Word::from_raw(file));
        } else if takes(interpreter.values) {
            let value = words.next();
            is_test |= text == "-I" && value.is_some_and(|it| holds_tests(it.raw()));
        } else if text == "-m" && name.starts_with("py") {
            return words
                .next()
                .map_or(ScriptSource::Elsewhere, |it| ScriptSource::Module(it.clone()));
        } else if takes_code(text, &interpreter) {
            return if files.is_empty() { ScriptSource::Code } else { ScriptSource::Files(files) };
        } else if let Some(libraries) = text.strip_prefix("-I") {
            is_test |= holds_tests(libraries);
        }
    }
    match files.is_empty() {
        true if ONLY_BY_FLAG.contains(&name) => ScriptSource::Elsewhere,
        true => ScriptSource::Input,
        false => ScriptSource::Files(files),
    }
}

/// Returns whether a flag takes code, by itself or as the last of several letters.
fn takes_code(flag: &str, interpreter: &ScriptInterpreter) -> bool {
    let is_attached =
        interpreter.values.iter().chain(interpreter.files).any(|it| flag.starts_with(it));
    let letters = flag.strip_prefix('-').filter(|it| !it.starts_with('-'));
    let last = letters.and_then(|it| it.chars().last()).map(|last| format!("-{last}"));
    interpreter.code.contains(&flag)
        || !is_attached && last.is_some_and(|last| interpreter.code.contains(&last.as_str()))
}

/// Returns whether a library search path contains a directory of tests: then a test is run.
fn holds_tests(path: &str) -> bool {
    path.split([':', '/']).any(|part| matches!(part, "test" | "tests" | "spec"))
}

#[cfg(test)]
mod tests;
