//! Wrappers: programs that run another program with the rest of their arguments.

use super::walk::{Walker, count_work};
use crate::arguments::Arguments;
use crate::command::{
    Copies, LoweringError, Redirect, RedirectMode, ShellCommand, parse_program_name, resolve_path,
};
use crate::word::{Word, replace_bounded};

/// How a wrapper's own arguments are separated from the program's.
struct Wrapper {
    /// Flags that take the next word.
    values: &'static [&'static str],
    /// The number of its own operands before the program.
    operands: usize,
}

/// The deepest nesting of wrappers that is followed.
const MOST_WRAPPERS: usize = 8;

/// Flags that only print information.
const INFO_FLAGS: [&str; 4] = ["--help", "--version", "-h", "-V"];

/// Returns how a program wraps another, if it does.
#[rustfmt::skip]
fn find_wrapper(name: &str) -> Option<Wrapper> {
    let (values, operands): (&[&str], usize) = match name {
        "sudo" => (&["-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-U", "-D", "-R",
            "--user", "--group", "--host", "--prompt", "--chdir", "--chroot"], 0),
        "doas" => (&["-u", "-C"], 0),
        "env" | "genv" => (&["-u", "-C", "--unset", "--chdir", "-S", "--split-string"], 0),
        "nice" => (&["-n", "--adjustment"], 0),
        "ionice" => (&["-c", "-n", "-p", "--class", "--classdata"], 0),
        "timeout" | "gtimeout" => (&["-s", "-k", "--signal", "--kill-after"], 1),
        "stdbuf" => (&["-i", "-o", "-e"], 0),
        "xargs" | "gxargs" => (&["-I", "-i", "-L", "-l", "-n", "-P", "-s", "-d", "-E", "-a",
            "--max-args", "--max-procs", "--replace", "--delimiter", "--arg-file"], 0),
        "time" => (&["-f", "-o", "--format", "--output"], 0),
        "exec" => (&["-a"], 0),
        "chroot" | "taskset" | "setarch" | "runcon" | "gosu" | "su-exec" => (&[], 1),
        "unshare" => (&["-S", "-G", "-R", "-w", "--root", "--wd", "--setuid", "--setgid"], 0),
        "setpriv" => (&["--reuid", "--regid", "--groups"], 0),
        "chrt" => (&["-T", "-P", "-D"], 1),
        "flock" => (&["-w", "-E", "--timeout"], 1),
        "strace" | "ltrace" => (&["-e", "-o", "-p", "-s", "-u", "-E"], 0),
        "systemd-run" => (&["-p", "-u", "--unit", "--property", "-E", "--on-calendar"], 0),
        "firejail" | "command" | "builtin" | "nohup" | "setsid" | "busybox" | "toybox"
        | "caffeinate" | "chronic" | "unbuffer" | "torsocks" | "torify" | "proxychains"
        | "catchsegv" | "dbus-launch" | "eatmydata" | "noglob" | "rlwrap" => (&["-f", "-t"], 0),
        "faketime" => (&["-f"], 1),
        "valgrind" | "linux32" | "linux64" | "dbus-run-session" | "fakeroot" | "coreutils"
        | "entr" | "ssh-agent" | "tini" | "dumb-init" | "numactl" | "prlimit"
        | "systemd-inhibit" => (&[], 0),
        "xvfb-run" => (&["-n", "-s", "-e", "-p"], 0),
        "sshpass" => (&["-p", "-f"], 0),
        "screen" => (&["-S", "-dmS", "-t", "-p", "-c"], 0),
        _ => return None,
    };
    // These have flags with the same letters that take no word.
    let values = match name {
        "command" | "builtin" | "nohup" | "setsid" | "busybox" | "toybox" => &[],
        _ => values,
    };
    Some(Wrapper { values, operands })
}

impl Walker {
    /// Removes the wrappers of a command. Returns several commands if each line of input runs one.
    pub(super) fn peel_wrappers(&mut self, mut command: ShellCommand) -> Vec<ShellCommand> {
        while let Some(name) = command.argv.first().map(|word| parse_program_name(word).to_owned())
        {
            if self.functions.contains_key(&name) {
                break;
            }
            let Some(wrapper) = find_wrapper(&name) else { break };
            let asks = |word: &Word| INFO_FLAGS.contains(&word.raw());
            if command.argv.get(1).is_some_and(asks)
                || name == "command" && command.argv.get(1).is_some_and(|it| it.raw() == "-v")
            {
                break;
            }
            let Some(inner) = take_wrapped(&mut command, &name, &wrapper) else { break };
            if command.wrappers.len() >= MOST_WRAPPERS {
                self.record_error(LoweringError::TooDeep);
                break;
            }
            let words = std::mem::replace(&mut command.argv, inner);
            command.wrappers.push(name.clone());
            if matches!(name.as_str(), "xargs" | "gxargs") {
                // The program's words are the last ones; only `env -S` splits one into several.
                let flags = &words[1..words.len() - command.argv.len()];
                if allows_unbounded(flags, &["-P", "--max-procs"]) {
                    command.execution.copies = Copies::AsInput;
                }
                let files = Arguments::new(flags, &[]).find_flag_values(&["-a", "--arg-file"]);
                command.redirects.extend(files.into_iter().map(|file| Redirect {
                    path: Word::from_marked(file),
                    mode: RedirectMode::Read,
                }));
                let given = self.apply_xargs(&command, flags);
                return given.into_iter().flat_map(|command| self.peel_wrappers(command)).collect();
            }
        }
        vec![command]
    }

    /// Returns the commands that `xargs` builds from its input.
    fn apply_xargs(&mut self, command: &ShellCommand, flags: &[Word]) -> Vec<ShellCommand> {
        let is_file = |word: &Word| word.raw().starts_with("-a") || word.raw().starts_with("--arg");
        let named = Arguments::new(flags, &[]).find_flag_values(&["-a", "--arg-file"]);
        let named = named.first().and_then(|it| {
            let at = resolve_path(&Word::from_raw(it), command.cwd.as_deref())?;
            self.files.get(&at).cloned()
        });
        let input = match &command.stdin {
            _ if flags.iter().any(is_file) => named.unwrap_or_else(Word::new_unknown),
            Some(input) => input.clone(),
            None => Word::default(),
        };
        let by_lines = flags.iter().any(|word| {
            let text = word.raw();
            text == "-0" || text == "--null" || text.starts_with("-d") || text.starts_with("-I")
        });
        let is_end =
            |it: char| if by_lines { matches!(it, '\n' | '\0') } else { it.is_whitespace() };
        let items = || input.raw().split(is_end).filter(|item| !item.is_empty());
        if !self.spend_work(items().count()) {
            return Vec::new();
        }
        let replaced = flags.iter().enumerate().find_map(|(at, word)| match word.raw() {
            "-I" | "--replace" => flags.get(at + 1).map(|it| it.raw().to_owned()),
            "-i" => Some("{}".to_owned()),
            other => other.strip_prefix("-I").map(str::to_owned),
        });
        let inner = ShellCommand { stdin: None, ..command.clone() };
        let Some(mark) = replaced.filter(|mark| !mark.is_empty()) else {
            let items = items().map(|item| Word::from_marked(item.to_owned()));
            let argv = inner.argv.iter().cloned().chain(items).collect();
            return vec![ShellCommand { argv, ..inner }];
        };
        let mut rounds = Vec::new();
        for item in items() {
            if !self.spend_one() {
                break;
            }
            let argv =
                inner.argv.iter().map(|word| self.fill_placeholder(word, &mark, item)).collect();
            rounds.push(ShellCommand { argv, ..inner.clone() });
        }
        rounds
    }

    /// Replaces a placeholder in a word; if the result is too long, it is unknown.
    pub(super) fn fill_placeholder(&mut self, word: &Word, mark: &str, with: &str) -> Word {
        if !word.raw().contains(mark) {
            self.spend_one();
            return word.clone();
        }
        match replace_bounded(word.raw(), mark, with) {
            Some(text) if self.spend_work(count_work(&text)) => Word::from_marked(text),
            Some(_) | None => Word::new_unknown(),
        }
    }
}

/// From this many processes at once, the number counts as unlimited.
const MANY: u32 = 64;

/// Returns whether flags allow any number of processes at once.
pub(super) fn allows_unbounded(flags: &[Word], names: &[&str]) -> bool {
    let asked = Arguments::new(flags, &[]).find_flag_values(names);
    asked.iter().any(|text| text.parse::<u32>().is_ok_and(|count| count == 0 || count > MANY))
}

/// Returns the words of the program that a wrapper runs; `None` if it runs none.
fn take_wrapped(command: &mut ShellCommand, name: &str, wrapper: &Wrapper) -> Option<Vec<Word>> {
    let mut at = 1;
    let mut operands = wrapper.operands;
    while let Some(word) = command.argv.get(at) {
        let text = word.raw();
        if text == "--" {
            at += 1;
            break;
        }
        if text.starts_with('-') && text.len() > 1 {
            if matches!(text, "-S" | "--split-string") && matches!(name, "env" | "genv") {
                let code = command.argv.get(at + 1)?.to_code();
                // They may begin with assignments and flags of `env`.
                let words = [name].into_iter().chain(code.split_whitespace()).map(Word::new);
                return Some(words.chain(command.argv[at + 2..].iter().cloned()).collect());
            }
            if matches!(text, "-C" | "--chdir" | "-D") && matches!(name, "env" | "sudo") {
                let to = command.argv.get(at + 1)?;
                command.cwd = crate::command::resolve_path(to, command.cwd.as_deref());
            }
            if let Some(program) = text.strip_prefix("--coreutils-prog=") {
                let rest = command.argv[at + 1..].iter().cloned();
                return Some(std::iter::once(Word::new(program)).chain(rest).collect());
            }
            // `flock FILE -c CODE` and `entr -s CODE` are handled elsewhere.
            if name == "flock" && text == "-c" || name == "entr" && text.contains('s') {
                return None;
            }
            at += if wrapper.values.contains(&text) { 2 } else { 1 };
            continue;
        }
        let assignment = text.split_once('=').filter(|(name, _)| is_name(name));
        if let (Some((variable, value)), "env" | "genv" | "sudo" | "doas") = (assignment, name) {
            command.assigns.push((variable.to_owned(), Word::from_marked(value.to_owned())));
            at += 1;
            continue;
        }
        if operands == 0 {
            break;
        }
        operands -= 1;
        at += 1;
    }
    let inner = command.argv.get(at..)?;
    (!inner.is_empty()).then(|| inner.to_vec())
}

/// Returns whether a text is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|it: char| it.is_ascii_digit())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}
