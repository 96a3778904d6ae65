//! Shell commands within the commands of other programs: editors, pagers, debuggers, clients of
//! databases, `sed` and `make`; and values of flags and variables that are shell commands.
//!
//! Only finds the code. It does not read files, except those that the text itself has written.

use super::walk::Walker;
use crate::arguments::Arguments;
use crate::command::{ShellCommand, resolve_path};
use crate::interpreter::{self, CodeAction};
use crate::word::Word;

/// Programs, and their flags whose values are shell commands.
const CODE_FLAGS: [(&[&str], &[&str]); 16] = [
    (
        &["tar", "gtar", "bsdtar"],
        &["--to-command", "-I", "--use-compress-program", "--rsh-command"],
    ),
    (&["zip"], &["-TT", "--unzip-command"]),
    (&["rsync"], &["-e", "--rsh", "--rsync-path"]),
    (&["man"], &["-P", "--pager"]),
    (&["bat", "delta"], &["--pager"]),
    (&["split"], &["--filter"]),
    (&["sort"], &["--compress-program"]),
    (&["fzf"], &["--preview"]),
    (&["rg"], &["--pre"]),
    (&["nodemon"], &["-x", "--exec"]),
    (&["entr"], &["-s"]),
    (&["nix-shell"], &["--run", "--command"]),
    (&["git"], &["-x", "--extcmd", "-O", "--open-files-in-pager", "--tree-filter", "--env-filter"]),
    (&["wget"], &["--use-askpass"]),
    (&["tcpdump"], &["-z"]),
    (&["hyperfine"], &["-p", "--prepare", "-s", "--setup", "-c", "--cleanup"]),
];

/// Programs all of whose operands are shell commands, after the given subcommands (none: always).
const CODE_OPERANDS: [(&[&str], &[&str]); 2] = [
    (&["hyperfine", "concurrently", "pee"], &[]),
    (
        &["tmux"],
        &[
            "new",
            "new-session",
            "neww",
            "new-window",
            "splitw",
            "split-window",
            "run",
            "run-shell",
            "send",
            "send-keys",
        ],
    ),
];

/// Variables whose values are shell commands that other programs run.
const CODE_VARIABLES: [&str; 11] = [
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "SUDO_EDITOR",
    "FCEDIT",
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "BROWSER",
    "RSYNC_RSH",
];

/// Commands of PowerShell, and those of a shell that do the same.
const POWERSHELL: [(&str, &str); 6] = [
    ("Remove-Item", "rm -rf"),
    ("Get-Content", "cat"),
    ("Copy-Item", "cp"),
    ("Move-Item", "mv"),
    ("Invoke-WebRequest", "curl"),
    ("Invoke-Expression", "eval"),
];

/// Options of `ssh` whose values are shell commands.
const SSH_OPTIONS: [&str; 4] = ["proxycommand", "localcommand", "knownhostscommand", "match exec"];

/// A program with commands of its own, some of which run shell commands.
struct CommandProgram {
    names: &'static [&'static str],
    /// Flags whose values are its commands.
    flags: &'static [&'static str],
    /// Flags whose values are files with its commands.
    files: &'static [&'static str],
    operands: CommandOperands,
    /// What comes directly before a shell command, in lower case.
    leads: &'static [&'static str],
}

/// Which operands of a program are its commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandOperands {
    NoOperand,
    /// Those that begin with `+`.
    Plus,
    All,
}

#[rustfmt::skip]
const COMMAND_PROGRAMS: [CommandProgram; 10] = [
    CommandProgram {
        names: &["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "rvim", "vimx"],
        flags: &["-c", "--cmd", "-sc", "-esc", "-Esc", "-ec"], files: &["-S", "-s", "-u"],
        operands: CommandOperands::Plus, leads: &["!", "terminal ", "term "],
    },
    CommandProgram {
        names: &["ed", "red"], flags: &[], files: &[],
        operands: CommandOperands::NoOperand, leads: &["!"],
    },
    CommandProgram {
        names: &["less", "more", "most", "man", "info"], flags: &[], files: &[],
        operands: CommandOperands::Plus, leads: &["!"],
    },
    CommandProgram {
        names: &["gdb"], flags: &["-ex", "--ex", "-iex", "-eval-command", "--eval-command"],
        files: &["-x", "-ix", "--command"],
        operands: CommandOperands::NoOperand, leads: &["shell ", "!", "pipe "],
    },
    CommandProgram {
        names: &["lldb"], flags: &["-o", "-O", "--one-line", "-k"], files: &["-s", "--source"],
        operands: CommandOperands::NoOperand, leads: &["shell "],
    },
    CommandProgram {
        names: &["sqlite3", "duckdb"], flags: &["-cmd"], files: &["-init"],
        operands: CommandOperands::All, leads: &[".shell ", ".system ", ".sh ", ".read |", ".output |", ".once |"],
    },
    CommandProgram {
        names: &["mysql", "mariadb", "psql"], flags: &["-e", "--execute", "-c", "--command"],
        files: &["-f", "--file"],
        operands: CommandOperands::NoOperand, leads: &["\\!", "system ", "program '", "\\o |", "\\g |"],
    },
    CommandProgram {
        names: &["expect", "tclsh", "wish"], flags: &["-c"], files: &["-f"],
        operands: CommandOperands::NoOperand, leads: &["spawn ", "exec ", "system "],
    },
    CommandProgram {
        names: &["m4"], flags: &[], files: &[],
        operands: CommandOperands::NoOperand, leads: &["syscmd("],
    },
    CommandProgram {
        names: &["ftp", "sftp", "dc", "mail", "mutt"], flags: &["-e"], files: &["-f"],
        operands: CommandOperands::NoOperand, leads: &["!"],
    },
];

/// Functions of databases that read files.
const READING: [&str; 3] = ["readfile(", "pg_read_file(", "load_file("];

/// The most shell commands that are looked for in one line.
const MOST_PER_LINE: usize = 16;

impl Walker {
    /// Returns the shell code that a program gets in other forms than a shell command.
    pub(super) fn find_escapes(&self, name: &str, command: &ShellCommand) -> Vec<String> {
        let arguments = Arguments::new(command.arguments(), &[]);
        let variables = command.assigns.iter();
        let mut codes: Vec<String> = variables
            .filter(|(name, _)| CODE_VARIABLES.contains(&name.as_str()))
            .map(|(_, value)| value.to_code())
            .collect();
        let flags = CODE_FLAGS.iter().filter(|(names, _)| names.contains(&name));
        for (_, flags) in flags {
            codes.extend(find_codes(&arguments, flags));
        }
        let operands = arguments.find_operands();
        let verb = operands.first().map_or("", |it| it.raw());
        for (_, verbs) in CODE_OPERANDS.iter().filter(|(names, _)| names.contains(&name)) {
            if verbs.is_empty() || verbs.contains(&verb) {
                codes.extend(operands.iter().map(|it| it.to_code()));
            }
        }
        match name {
            "pwsh" | "powershell" => {
                let given = find_codes(&arguments, &["-c", "-Command", "-command"]);
                codes.extend(given.map(|code| {
                    POWERSHELL.iter().fold(code, |code, (long, short)| code.replace(long, short))
                }));
            }
            "tar" | "gtar" | "bsdtar" => {
                let actions = find_codes(&arguments, &["--checkpoint-action"]);
                codes.extend(actions.filter_map(|it| it.strip_prefix("exec=").map(str::to_owned)));
            }
            "ssh" | "scp" | "sftp" => {
                codes.extend(find_codes(&arguments, &["-o"]).filter_map(|it| {
                    let (option, code) = it.split_once(['=', ' '])?;
                    SSH_OPTIONS.contains(&option.to_lowercase().as_str()).then(|| code.to_owned())
                }));
            }
            "sed" | "gsed" => {
                codes.extend(find_sed_scripts(&arguments).flat_map(|it| read_sed(&it)));
            }
            "make" | "gmake" => codes.extend(self.find_makefiles(command).iter().flat_map(|it| {
                it.lines().filter_map(read_recipe).map(str::to_owned).collect::<Vec<_>>()
            })),
            _ => {}
        }
        for program in COMMAND_PROGRAMS.iter().filter(|it| it.names.contains(&name)) {
            for text in self.find_commands(program, command) {
                codes.extend(find_led_codes(&text, program.leads));
                codes.extend(interpreter::find_shell_literals(&text));
                if READING.iter().any(|call| text.contains(call)) {
                    let read = interpreter::find_literals(&text).into_iter();
                    codes.extend(read.map(|path| format!("cat {path}")));
                }
                if interpreter::does_action(&text, CodeAction::Removes) {
                    let removed = interpreter::find_literals(&text).into_iter();
                    codes.extend(removed.map(|path| format!("rm -rf {path}")));
                }
            }
        }
        codes
    }

    /// Returns the texts with commands of a program.
    fn find_commands(&self, program: &CommandProgram, command: &ShellCommand) -> Vec<String> {
        let arguments = Arguments::new(command.arguments(), &[]);
        let mut texts: Vec<String> = find_codes(&arguments, program.flags).collect();
        let operands = arguments.find_operands();
        texts.extend(operands.iter().filter_map(|word| match program.operands {
            CommandOperands::NoOperand => None,
            CommandOperands::Plus => word.raw().starts_with('+').then(|| word.to_code()),
            CommandOperands::All => Some(word.to_code()),
        }));
        texts.extend(command.stdin.iter().map(Word::to_code));
        texts.extend(self.find_written_texts(&arguments, program.files, command));
        texts
    }

    /// Returns the texts of files that flags name, as far as the text has written them.
    fn find_written_texts(
        &self,
        arguments: &Arguments<'_>,
        flags: &[&str],
        command: &ShellCommand,
    ) -> Vec<String> {
        let files = arguments.find_flag_values(flags).into_iter();
        let paths =
            files.filter_map(|it| resolve_path(&Word::from_raw(&it), command.cwd.as_deref()));
        paths.filter_map(|at| self.files.get(&at).map(Word::to_code)).collect()
    }

    /// Returns the makefiles of a call, as far as they are known.
    fn find_makefiles(&self, command: &ShellCommand) -> Vec<String> {
        let arguments = Arguments::new(command.arguments(), &[]);
        let mut texts: Vec<String> = find_codes(&arguments, &["--eval", "-E"]).collect();
        let shells = arguments.find_operands().into_iter().map(Word::to_code);
        texts.extend(shells.filter_map(|it| Some(format!("\t{}", it.strip_prefix("SHELL=")?))));
        let named = arguments.find_flag_values(&["-f", "--file", "--makefile"]);
        if named.iter().any(|it| matches!(it.as_str(), "-" | "/dev/stdin" | "/dev/fd/0")) {
            texts.extend(command.stdin.iter().map(Word::to_code));
        }
        texts.extend(self.find_written_texts(&arguments, &["-f", "--file", "--makefile"], command));
        let usual = ["GNUmakefile", "makefile", "Makefile"].iter();
        let usual = usual.filter_map(|it| resolve_path(&Word::new(it), command.cwd.as_deref()));
        texts.extend(usual.filter_map(|at| self.files.get(&at).map(Word::to_code)));
        texts
    }
}

/// Returns the values of flags as shell code.
fn find_codes<'a>(
    arguments: &Arguments<'_>,
    flags: &'a [&'a str],
) -> impl Iterator<Item = String> + use<'a> {
    let values = if flags.is_empty() { Vec::new() } else { arguments.find_flag_values(flags) };
    values.into_iter().map(|value| Word::from_raw(&value).to_code())
}

/// Returns the shell code after the leads in each line, and commands for the files that it names.
fn find_led_codes(text: &str, leads: &[&str]) -> Vec<String> {
    let mut codes = Vec::new();
    for line in text.lines() {
        let small = line.to_ascii_lowercase();
        for lead in leads {
            // In `${!name}` and `[!a]` there is no command.
            let is_command = |at: &usize| *lead != "!" || !small[..*at].ends_with(['{', '[']);
            let found = small.match_indices(lead).map(|(at, _)| at).filter(is_command);
            for at in found.take(MOST_PER_LINE) {
                let code = line[at + lead.len()..].trim_start_matches(['!', ' ', ':']);
                codes.push(code.to_owned());
                // The quotes or brackets that a command of the program ends with.
                codes.push(code.trim_end_matches([';', '\'', '"', ')', ' ']).to_owned());
            }
        }
        // `r FILE` and `w FILE` of editors.
        let plain = line.trim_start_matches(|it: char| "+:%$., ".contains(it) || it.is_numeric());
        codes.extend(match plain.split_once(' ') {
            Some(("r" | "read" | "e" | "edit" | "E" | "so" | "source", file)) => {
                Some(format!("cat {file}"))
            }
            Some(("w" | "w!" | "write" | "write!" | "saveas", file)) => Some(format!("tee {file}")),
            Some(_) | None => None,
        });
    }
    codes.retain(|code| !code.is_empty());
    codes
}

/// Returns the scripts of a call of `sed`.
fn find_sed_scripts<'a>(arguments: &Arguments<'a>) -> impl Iterator<Item = String> + use<'a> {
    let mut scripts: Vec<String> = find_codes(arguments, &["-e", "--expression"]).collect();
    if scripts.is_empty() {
        let operands = arguments.find_operands().into_iter();
        scripts.extend(operands.map(Word::to_code).find(|it| !it.is_empty()));
    }
    scripts.into_iter()
}

/// Returns the shell code that a script of `sed` runs, and commands for the files that it names.
fn read_sed(script: &str) -> Vec<String> {
    let mut codes = Vec::new();
    let mut rest = script;
    loop {
        let is_filler = |it: char| it.is_whitespace() || it.is_numeric() || ";{},$!~+".contains(it);
        rest = rest.trim_start_matches(is_filler);
        let Some(command) = rest.chars().next() else { return codes };
        rest = &rest[command.len_utf8()..];
        match command {
            '/' => rest = take_until(rest, '/').1,
            '\\' => {
                let end = rest.chars().next().unwrap_or('/');
                rest = take_until(rest.strip_prefix(end).unwrap_or(rest), end).1;
            }
            // Labels.
            ':' | 'b' | 't' | 'T' => {
                rest = &rest[rest.find([';', '\n', '}']).unwrap_or(rest.len())..];
            }
            's' | 'y' => {
                let Some(end) = rest.chars().next() else { return codes };
                let (_, after) = take_until(&rest[end.len_utf8()..], end);
                let (with, after) = take_until(after, end);
                let flags = after.find([';', '\n', '}']).unwrap_or(after.len());
                if command == 's' && after[..flags].contains('e') {
                    codes.push(with.replace('&', "${__unknown}"));
                }
                rest = &after[flags..];
            }
            'e' | 'r' | 'w' | 'R' | 'W' | 'a' | 'i' | 'c' | '#' => {
                let end = rest.find('\n').unwrap_or(rest.len());
                let words = rest[..end].trim();
                codes.extend(match command {
                    'e' if words.is_empty() => Some("${__unknown}".to_owned()),
                    'e' => Some(words.to_owned()),
                    'r' | 'R' => Some(format!("cat {words}")),
                    'w' | 'W' => Some(format!("tee {words}")),
                    _ => None,
                });
                rest = &rest[end..];
            }
            _ => {}
        }
    }
}

/// Splits a text at the next end that is not escaped.
fn take_until(text: &str, end: char) -> (&str, &str) {
    let mut is_escaped = false;
    for (at, it) in text.char_indices() {
        if it == end && !is_escaped {
            return (&text[..at], &text[at + it.len_utf8()..]);
        }
        is_escaped = it == '\\' && !is_escaped;
    }
    (text, "")
}

/// Returns the shell code in a line of a makefile.
fn read_recipe(line: &str) -> Option<&str> {
    if let Some((_, code)) = line.split_once("$(shell ") {
        return code.rsplit_once(')').map(|(code, _)| code);
    }
    let code = match line.strip_prefix('\t') {
        Some(code) => code,
        None => line.split_once(':')?.1.split_once(';')?.1,
    };
    Some(code.trim_start_matches(['@', '-', '+', ' ']))
}
