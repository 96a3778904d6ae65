//! Inline code in other languages: a search for a short list of calls.
//!
//! Searches for calls that start programs, remove, write or connect, and for string literals. Does
//! not parse any of these languages.

use super::lower::{ShellCommand, Word, decode_base64, decode_hex};

/// Longer code is not searched: it is a program, which the guard does not cover.
const LONGEST: usize = 64 * 1024;

/// Calls that start programs.
const STARTS: [&str; 22] = [
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
];

/// Calls that remove files.
const REMOVES: [&str; 19] = [
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
];

/// Calls that write files.
const WRITES: [&str; 21] = [
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
}

/// Returns the code that a command passes to an interpreter.
pub(super) fn find_inline_code(name: &str, command: &ShellCommand) -> Option<String> {
    let base = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    let flags: &[&str] = match base {
        "python" | "pypy" => &["-c"],
        "node" | "nodejs" | "bun" => &["-e", "--eval", "-p", "--print", "-pe"],
        "deno" => &["eval"],
        "perl" => &["-e", "-E", "-pe", "-ne", "-le", "-lne", "-i"],
        "ruby" | "lua" | "osascript" => &["-e"],
        "php" => &["-r"],
        "awk" | "gawk" | "mawk" | "nawk" => &[],
        _ => return None,
    };
    let arguments = command.arguments();
    let mut texts: Vec<&Word> = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let cluster =
            base == "perl" && word.raw().starts_with('-') && word.raw().ends_with(['e', 'E']);
        if flags.contains(&word.raw()) || cluster {
            texts.extend(arguments.get(at + 1));
        }
    }
    if base.ends_with("awk") {
        let mut skip = false;
        texts.extend(arguments.iter().find(|word| {
            let is_value = std::mem::replace(&mut skip, matches!(word.raw(), "-v" | "-F" | "-f"));
            !is_value && !word.raw().starts_with('-')
        }));
    }
    let reads_input =
        !arguments.iter().any(|word| !word.raw().starts_with('-') || word.raw() == "-c");
    if texts.is_empty() && (reads_input || arguments.first().is_some_and(|it| it.raw() == "-")) {
        texts.extend(command.stdin.as_ref());
    }
    let code = texts.iter().map(|word| word.raw()).collect::<Vec<_>>().join("\n");
    (!code.is_empty() && code.len() <= LONGEST).then_some(code)
}

/// Returns whether code does something.
pub(super) fn does_action(code: &str, deed: CodeAction) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
    match deed {
        CodeAction::Starts => has(&STARTS),
        CodeAction::Removes => has(&REMOVES),
        CodeAction::Writes => has(&WRITES),
        CodeAction::Connects => {
            has(&["socket", "Socket", "net.connect", "fsockopen", "/inet/tcp"])
                && has(&["dup2", "pty.spawn", "/bin/sh", "/bin/bash", "exec", "spawn", "system"])
        }
        CodeAction::Decodes => {
            let decoders = ["b64decode", "fromhex", "atob(", "Buffer.from(", "decode64"];
            (has(&decoders) || has(&["unhexlify", "unpack("]))
                && has(&["exec(", "eval(", "eval ", "system", "subprocess", "Function("])
        }
        CodeAction::ForksEndlessly => is_fork_bomb(code),
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
    let texts = find_literals(code);
    let mut commands: Vec<String> = texts.clone();
    // A list of words is a command as well.
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    if plain.len() > 1 {
        commands.push(plain.join(" "));
    }
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| decode_base64(it)));
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| decode_hex(it)));
    commands
}

/// Returns the string literals in code, with quotes of any kind.
pub(super) fn find_literals(code: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = code.chars();
    while let Some(it) = rest.next() {
        if !matches!(it, '\'' | '"' | '`') {
            continue;
        }
        let mut text = String::new();
        while let Some(next) = rest.next() {
            match next {
                '\\' => text.extend(rest.next()),
                _ if next == it => break,
                other => text.push(other),
            }
        }
        if !text.is_empty() {
            texts.push(text);
        }
    }
    texts
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
        ] {
            let deeds: Vec<CodeAction> =
                all.into_iter().filter(|it| does_action(code, *it)).collect();
            assert_eq!(deeds, expect, "{code}");
        }
        let code = "subprocess.run(['rm', \"-rf\", '/'])";
        assert_eq!(find_shell_literals(code), ["rm", "-rf", "/", "rm -rf /"]);
    }
}
