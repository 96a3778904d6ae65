//! Inline code in other languages: a search for a short list of calls.
//!
//! Searches for calls that start programs, remove, write or connect, and for string literals. Does
//! not parse any of these languages.

use super::codec::{decode_base64, decode_hex};
use super::command::ShellCommand;
use super::network::{is_local, parse_host};
use super::word::{UNKNOWN, Word};

/// Longer code is not searched: it is a program, which the guard does not cover.
const LONGEST: usize = 64 * 1024;

/// Calls that start programs.
const STARTS: [&str; 39] = [
    "os.system",
    "os.popen",
    "os.exec",
    "os.spawn",
    "subprocess",
    "pty.spawn",
    "commands.getoutput",
    "child_process",
    "execSync",
    "spawnSync",
    "execFile",
    "system(",
    "system ",
    "exec(",
    "exec ",
    "popen(",
    "shell_exec",
    "passthru",
    "IO.popen",
    "Open3",
    "`",
    "| getline",
    "|getline",
    "|\"",
    "| \"",
    "|'",
    "os.execute",
    "qx",
    "%x",
    "Deno.Command",
    "Bun.spawn",
    "shell-command",
    "call-process",
    "start-process",
    "process-lines",
    "do shell script",
    "systemlist(",
    "job_start",
    "jobstart",
];

/// Modules whose names stand in string literals.
const MODULES: [&str; 6] = ["child_process", "fs", "os", "path", "open3", "fileutils"];

/// Calls that remove files.
const REMOVES: [&str; 29] = [
    "rmtree",
    "os.remove",
    "os.unlink",
    "os.rmdir",
    ".unlink(",
    "rmSync",
    "unlinkSync",
    "rmdirSync",
    "fs.rm",
    "fs.unlink",
    "rimraf",
    "removeSync",
    "FileUtils.rm",
    "File.delete",
    "File.unlink",
    "Dir.rmdir",
    "unlink",
    "remove_tree",
    "send2trash",
    "rmdir",
    "Deno.remove",
    "delete-directory",
    "delete-file",
    "remove_dir",
    "RemoveAll",
    "rm_rf",
    "Remove-Item",
    "delete(",
    // Of Julia, with the home directory.
    "rm(\u{F8F8}",
];

/// Calls that write files.
const WRITES: [&str; 24] = [
    "'w'",
    "\"w\"",
    "'a'",
    "\"a\"",
    "'wb'",
    "\"wb\"",
    "'w+'",
    "\"w+\"",
    "write_text",
    "write_bytes",
    "writeFile",
    "appendFile",
    "createWriteStream",
    "File.write",
    "'>",
    "\">",
    "> \"",
    ">\"",
    "write-region",
    "os.rename",
    "shutil.move",
    "shutil.copy",
    "renameSync",
    "copyFileSync",
];

/// Calls that start another process without waiting for it.
const FORKS: [&str; 9] = [
    "fork",
    "spawn(",
    "Popen(",
    "exec(",
    "execFile(",
    "Process(",
    "popen(",
    "posix_spawn",
    "proc_open",
];

/// Calls that download.
const DOWNLOADS: [&str; 16] = [
    "urlopen",
    "urlretrieve",
    "requests.get",
    "httpx.get",
    "fetch(",
    "http.get",
    "https.get",
    "axios",
    "Net::HTTP",
    "URI.open",
    "open-uri",
    "LWP::Simple",
    "get('http",
    "get(\"http",
    "get_contents('http",
    "get_contents(\"http",
];

/// Infinite loops, without spaces.
const ENDLESS: [&str; 16] = [
    "while1",
    "while(1",
    "whiletrue",
    "while(true",
    "while(!0",
    "while!0",
    "whilenot0",
    "whilenotfalse",
    "for(;;",
    "loop{",
    "loopdo",
    "untilfalse",
    "until0",
    "until(0",
    "iter(int,",
    "itertools.count",
];

/// Calls that make a loop wait, or leave it.
const LOOP_BREAKERS: [&str; 8] =
    ["wait", "sleep", "break", "exit", "join(", "communicate", "return", "last if"];

/// One-liners that start themselves again in a loop, without spaces.
const BOMBS: [&str; 8] = [
    "forkwhilefork",
    "forkwhile1",
    "1whilefork",
    "forkuntil0",
    "fork(__filename",
    "fork(process.argv[1]",
    "fork&fork",
    "fork()whilefork",
];

/// What code in another language does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CodeAction {
    Starts,
    Removes,
    Writes,
    /// Connects a shell to another machine.
    Connects,
    /// Decodes code and runs it.
    Decodes,
    /// Starts processes in an infinite loop.
    ForksEndlessly,
    /// Downloads code and runs it.
    RunsDownload,
}

/// Interpreters, the letters of their flags that take code, and their other such flags.
const INTERPRETERS: [(&[&str], &str, &[&str]); 9] = [
    (&["python", "pypy", "ipython", "guile", "pwsh"], "c", &["-Command"]),
    (&["node", "nodejs", "bun", "tsx", "ts-node"], "ep", &["--eval", "--print"]),
    (&["deno"], "", &["eval"]),
    (&["perl", "julia"], "eE", &["--eval"]),
    (&["ruby", "lua", "luajit", "osascript", "groovy", "scala", "swift", "gnuplot"], "e", &[]),
    (&["R", "Rscript", "elixir"], "e", &["--eval"]),
    (&["php"], "rRB", &["--run"]),
    (
        &["emacs", "emacsclient", "sbcl", "octave", "erl", "mongosh"],
        "",
        &["--eval", "-eval", "--execute", "-e"],
    ),
    (&["awk", "gawk", "mawk", "nawk"], "", &[]),
];

/// What the home directory is called in code. What is around a name is cut off later.
const HOME_NAMES: [&str; 19] = [
    "'HOME'",
    "\"HOME\"",
    "{HOME}",
    "(HOME)",
    ".HOME",
    "$HOME",
    "homedir()",
    ".homedir",
    "Dir.home",
    ".home()",
    "pw_dir",
    "getpwuid",
    "user.home",
    "NSHomeDirectory()",
    "USERPROFILE",
    "user_home",
    "UserHomeDir()",
    // Where code within code had one of these.
    "(~)",
    "(~,",
];

/// Marks the home directory in code.
const HOME_MARK: char = '\u{F8F8}';

/// Returns the code that a command passes to an interpreter, with the home directory marked.
pub(super) fn find_inline_code(name: &str, command: &ShellCommand) -> Option<String> {
    let base = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let (_, letters, flags) = INTERPRETERS.iter().find(|(names, ..)| names.contains(&base))?;
    let arguments = command.arguments();
    let mut texts: Vec<&str> = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let text = word.raw();
        let next = arguments.get(at + 1).map(Word::raw);
        if flags.contains(&text) {
            texts.extend(next);
        } else if let Some((flag, code)) = text.split_once('=')
            && flags.contains(&flag)
        {
            texts.push(code);
        } else if let Some(cluster) = text.strip_prefix('-').filter(|it| !it.starts_with('-')) {
            let is_plain = cluster.chars().all(|it| it.is_ascii_alphanumeric());
            match cluster.find(|it| letters.contains(it)) {
                Some(_) if is_plain && cluster.ends_with(|it| letters.contains(it)) => {
                    texts.extend(next);
                }
                Some(at) if !is_plain => texts.push(&cluster[at + 1..]),
                Some(_) | None => {}
            }
        }
    }
    if base.ends_with("awk") {
        let mut skip = false;
        let program = arguments.iter().find(|word| {
            let is_value = std::mem::replace(&mut skip, matches!(word.raw(), "-v" | "-F" | "-f"));
            !is_value && !word.raw().starts_with('-')
        });
        texts.extend(program.map(Word::raw));
    }
    let reads_input =
        !arguments.iter().any(|word| !word.raw().starts_with('-') || word.raw() == "-c");
    let is_input = |word: &Word| matches!(word.raw(), "-" | "/dev/stdin");
    if texts.is_empty() && (reads_input || arguments.first().is_some_and(is_input)) {
        texts.extend(command.stdin.as_ref().map(Word::raw));
    }
    let code = texts.join("\n");
    (!code.is_empty() && code.len() <= LONGEST).then(|| mark_home(code))
}

/// Replaces the names of the home directory by a mark.
fn mark_home(code: String) -> String {
    let mark = HOME_MARK.to_string();
    HOME_NAMES
        .iter()
        .filter(|name| code.contains(**name))
        .collect::<Vec<_>>()
        .into_iter()
        .fold(code, |code, name| code.replace(name, &mark))
}

/// Returns whether code does something.
pub(super) fn does_action(code: &str, action: CodeAction) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
    match action {
        CodeAction::Starts => has(&STARTS),
        CodeAction::Removes => has(&REMOVES),
        CodeAction::Writes => has(&WRITES),
        CodeAction::Connects => {
            has(&[
                "socket",
                "Socket",
                "net.connect",
                "fsockopen",
                "/inet/tcp",
                "(\"net\")",
                "('net')",
            ]) && has(&["dup2", "/bin/sh", "/bin/bash", "exec", "spawn", "system", "proc_open"])
                || has(&["TCPSocket", "IO::Socket", "/inet/tcp"])
                    && has(&["`", "qx", "%x", "popen", "getline"])
        }
        CodeAction::Decodes => {
            let decoders = ["b64decode", "fromhex", "atob(", "Buffer.from(", "decode64"];
            (has(&decoders)
                || has(&["unhexlify", "unpack(", "codecs.decode", "decompress(", "decode_base64"]))
                && has(&["exec(", "eval(", "eval ", "system", "subprocess", "Function("])
        }
        CodeAction::ForksEndlessly => is_fork_bomb(code),
        CodeAction::RunsDownload => {
            let texts = find_literals(code);
            let mut addresses = texts.iter().filter(|text| text.contains("://")).peekable();
            let is_remote = addresses.peek().is_none()
                || addresses.any(|address| !is_local(parse_host(address)));
            is_remote
                && has(&DOWNLOADS)
                && (has(&STARTS) || has(&["eval(", "eval ", "Function(", "load("]))
        }
    }
}

/// Returns whether code starts processes in an infinite loop that does not wait.
fn is_fork_bomb(code: &str) -> bool {
    let dense: String = code.chars().filter(|it| !it.is_whitespace()).collect();
    let small = dense.to_ascii_lowercase();
    BOMBS.iter().any(|word| dense.contains(word))
        || FORKS.iter().any(|word| dense.contains(word))
            && ENDLESS.iter().any(|word| small.contains(word))
            && !LOOP_BREAKERS.iter().any(|word| code.contains(word))
}

/// Returns the string literals in code that may be shell commands, if the code starts programs.
pub(super) fn find_shell_literals(code: &str) -> Vec<String> {
    if !does_action(code, CodeAction::Starts) {
        return Vec::new();
    }
    let mut texts = find_literals(code);
    texts.retain(|text| !MODULES.contains(&text.trim_start_matches("node:")));
    let mut commands: Vec<String> = texts.clone();
    // A list of words is a command as well, and so are texts that are put together.
    if texts.len() > 1 {
        commands.push(texts.join(" "));
        commands.push(texts.concat());
    }
    for window in texts.windows(2).filter(|window| window[1] == "~") {
        commands.push(window.concat());
    }
    // `"rm " + name`
    let unknown = Word::new_unknown().to_code();
    commands.extend(texts.iter().filter(|it| it.ends_with(' ')).map(|it| format!("{it}{unknown}")));
    // A pipe of Perl or awk.
    commands.extend(texts.iter().filter_map(|it| it.strip_suffix('|').map(str::to_owned)));
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| decode_base64(it)));
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| decode_hex(it)));
    commands
}

/// Returns the string literals in code, with quotes of any kind; the home directory is `~`.
pub(super) fn find_literals(code: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = code.chars();
    let mut before = None;
    loop {
        let opening = find_opening(rest.as_str(), before);
        let Some(it) = rest.next() else { return texts };
        before = Some(it);
        if it == HOME_MARK {
            texts.push("~".to_owned());
        }
        let Some((length, end)) = opening else { continue };
        if length > 1 {
            rest.nth(length - 2);
        }
        let mut text = String::new();
        while let Some(next) = rest.next() {
            match next {
                '\\' => text.extend(rest.next().map(|it| if it == 'n' { '\n' } else { it })),
                _ if next == end => break,
                // `${process.env.HOME}/x`: the expression around the name goes.
                HOME_MARK => {
                    let is_outer = |it: char| it.is_alphanumeric() || "$_.{[(#:".contains(it);
                    text.truncate(text.trim_end_matches(|it| is_outer(it) || it == UNKNOWN).len());
                    text.push('~');
                    while rest.as_str().starts_with([')', ']', '}'])
                        && !rest.as_str().starts_with(end)
                    {
                        rest.next();
                    }
                }
                other => text.push(other),
            }
        }
        if !text.is_empty() {
            texts.push(text);
        }
    }
}

/// Returns the length of the quotes that a text begins with, and the character that ends them.
fn find_opening(text: &str, before: Option<char>) -> Option<(usize, char)> {
    const OPERATORS: [&str; 10] = ["qq", "qx", "qw", "q", "%x", "%w", "%q", "%Q", "%W", "["];
    let first = text.chars().next()?;
    if matches!(first, '\'' | '"' | '`') {
        return Some((1, first));
    }
    let operator = OPERATORS.iter().find(|operator| text.starts_with(**operator))?;
    let bracket = text[operator.len()..].chars().next()?;
    let end = match (*operator, bracket) {
        // A long string of Lua, not a list of lists.
        ("[", '[') if text[2..].starts_with(char::is_alphanumeric) => ']',
        ("[", _) => return None,
        (_, '(') => ')',
        (_, '{') => '}',
        (_, '[') => ']',
        (_, '<') => '>',
        (_, '/' | '|' | '!') => bracket,
        _ => return None,
    };
    let is_word = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    (!is_word).then_some((operator.len() + 1, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_classified_by_its_calls() {
        let all = [
            CodeAction::Starts,
            CodeAction::Removes,
            CodeAction::Writes,
            CodeAction::Connects,
            CodeAction::Decodes,
            CodeAction::ForksEndlessly,
            CodeAction::RunsDownload,
        ];
        for (code, expect) in [
            ("print(1)", vec![]),
            ("import os; os.system('id')", vec![CodeAction::Starts]),
            ("shutil.rmtree('x')", vec![CodeAction::Removes]),
            ("open('x','w').write('y')", vec![CodeAction::Writes]),
            (
                "exec(base64.b64decode('cHJpbnQoMSk='))",
                vec![CodeAction::Starts, CodeAction::Decodes],
            ),
            ("fork while fork", vec![CodeAction::ForksEndlessly]),
            ("import os\nwhile True: os.fork()", vec![CodeAction::ForksEndlessly]),
            ("loop { fork }", vec![CodeAction::ForksEndlessly]),
            ("while True:\n  if os.fork(): os.wait()", vec![]),
            ("pid = os.fork()", vec![]),
            ("eval(fetch('http://x/'))", vec![CodeAction::RunsDownload]),
            ("eval(fetch('http://localhost/'))", vec![]),
        ] {
            let actions: Vec<CodeAction> =
                all.into_iter().filter(|it| does_action(code, *it)).collect();
            assert_eq!(actions, expect, "{code}");
        }
        let code = "subprocess.run(['rm', \"-rf\", '/'])";
        assert_eq!(find_shell_literals(code), ["rm", "-rf", "/", "rm -rf /", "rm-rf/"]);
    }

    #[test]
    fn names_of_the_home_directory_are_found_in_code() {
        for (code, expect) in [
            ("open(os.environ['HOME'] + '/x')", &["~", "/x"] as &[&str]),
            ("f\"{os.environ['HOME']}/x\"", &["~/x"]),
            ("`${process.env.HOME}/x`", &["~/x"]),
            ("\"#{Dir.home}/x\"", &["~/x"]),
            ("system(qq(rm -rf $ENV{HOME}))", &["rm -rf ~"]),
            ("Path.home() / '.x'", &["~", ".x"]),
            ("pwd.getpwuid(1).pw_dir", &["~", "~"]),
            ("a = [[b]] .. q(c)", &["b", "c"]),
        ] {
            assert_eq!(find_literals(&mark_home(code.to_owned())), expect, "{code}");
        }
    }
}
