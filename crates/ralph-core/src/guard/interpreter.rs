//! Inline code in other languages: a search for a short list of calls.
//!
//! Searches for calls that start programs, remove, write or connect, and for string literals. Does
//! not parse any of these languages.

use super::lower::{Command, Word, base64, hex};

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
const HELD_UP: [&str; 8] =
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
pub(super) enum Deed {
    Starts,
    Removes,
    Writes,
    /// Connects a shell to another machine.
    Connects,
    /// Decodes code and runs it.
    Decodes,
    /// Starts processes in an infinite loop.
    Multiplies,
}

/// Returns the code that a command passes to an interpreter.
pub(super) fn code(name: &str, command: &Command) -> Option<String> {
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
pub(super) fn does(code: &str, deed: Deed) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
    match deed {
        Deed::Starts => has(&STARTS),
        Deed::Removes => has(&REMOVES),
        Deed::Writes => has(&WRITES),
        Deed::Connects => {
            has(&["socket", "Socket", "net.connect", "fsockopen", "/inet/tcp"])
                && has(&["dup2", "pty.spawn", "/bin/sh", "/bin/bash", "exec", "spawn", "system"])
        }
        Deed::Decodes => {
            let decoders = ["b64decode", "fromhex", "atob(", "Buffer.from(", "decode64"];
            (has(&decoders) || has(&["unhexlify", "unpack("]))
                && has(&["exec(", "eval(", "eval ", "system", "subprocess", "Function("])
        }
        Deed::Multiplies => multiplies(code),
    }
}

/// Returns whether code starts processes in an infinite loop that does not wait.
fn multiplies(code: &str) -> bool {
    let dense: String = code.chars().filter(|it| !it.is_whitespace()).collect();
    let small = dense.to_ascii_lowercase();
    BOMBS.iter().any(|word| dense.contains(word))
        || FORKS.iter().any(|word| dense.contains(word))
            && ENDLESS.iter().any(|word| small.contains(word))
            && !HELD_UP.iter().any(|word| code.contains(word))
}

/// Returns the string literals in code that may be shell commands, if the code starts programs.
pub(super) fn shell_texts(code: &str) -> Vec<String> {
    if !does(code, Deed::Starts) {
        return Vec::new();
    }
    let texts = texts(code);
    let mut commands: Vec<String> = texts.clone();
    // A list of words is a command as well.
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    if plain.len() > 1 {
        commands.push(plain.join(" "));
    }
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| base64(it)));
    commands.extend(texts.iter().filter(|it| it.len() > 7).filter_map(|it| hex(it)));
    commands
}

/// Returns the string literals in code, with quotes of any kind.
pub(super) fn texts(code: &str) -> Vec<String> {
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
            Deed::Starts,
            Deed::Removes,
            Deed::Writes,
            Deed::Connects,
            Deed::Decodes,
            Deed::Multiplies,
        ];
        for (code, expect) in [
            ("print(1)", vec![]),
            ("import os; os.system('id')", vec![Deed::Starts]),
            ("shutil.rmtree('x')", vec![Deed::Removes]),
            ("open('x','w').write('y')", vec![Deed::Writes]),
            ("exec(base64.b64decode('cHJpbnQoMSk='))", vec![Deed::Starts, Deed::Decodes]),
            ("fork while fork", vec![Deed::Multiplies]),
            ("import os\nwhile True: os.fork()", vec![Deed::Multiplies]),
            ("loop { fork }", vec![Deed::Multiplies]),
            ("while True:\n  if os.fork(): os.wait()", vec![]),
            ("pid = os.fork()", vec![]),
        ] {
            let deeds: Vec<Deed> = all.into_iter().filter(|it| does(code, *it)).collect();
            assert_eq!(deeds, expect, "{code}");
        }
        let code = "subprocess.run(['rm', \"-rf\", '/'])";
        assert_eq!(shell_texts(code), ["rm", "-rf", "/", "rm -rf /"]);
    }
}
