//! A shell script that calls an agent in a loop: which agent, with which arguments, how often.
//!
//! It is read line by line and word by word, never run, and only partly understood: every unknown
//! line is reported.

/// Programs that only start another one.
const STARTERS: [&str; 9] =
    ["command", "env", "exec", "gtimeout", "nice", "nohup", "npx", "sudo", "timeout"];

/// Keywords of the loop itself, and programs that only print something.
const FRAME: [&str; 27] = [
    "{", "}", "break", "case", "cd", "continue", "date", "do", "done", "echo", "elif", "else",
    "esac", "exit", "fi", "for", "if", "local", "printf", "read", "return", "set", "then", "trap",
    "true", "until", "while",
];

/// What a script contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopScript {
    /// The agent's program and its arguments, without the prompt.
    pub agent: Option<Vec<String>>,
    /// The file with the prompt.
    pub prompt: Option<String>,
    /// The most iterations.
    pub iterations: Option<u32>,
    /// The seconds between iterations.
    pub delay: Option<u32>,
    /// Lines that were not understood, with their numbers.
    pub unknown: Vec<(usize, String)>,
}

/// Parses a script. `is_agent` recognizes the programs of agents.
pub fn parse_loop_script(script: &str, is_agent: impl Fn(&str) -> bool) -> LoopScript {
    let mut found = LoopScript::default();
    for (number, line) in join_continued_lines(script) {
        let is_known = found.take_line(&line, &is_agent);
        let text = line.trim();
        if !is_known && !text.is_empty() && !text.starts_with('#') {
            found.unknown.push((number, text.to_owned()));
        }
    }
    found
}

/// Returns whether a script calls an agent in a loop.
pub fn is_loop(script: &str, is_agent: impl Fn(&str) -> bool) -> bool {
    let loops = ["while ", "until ", "for "];
    let has_loop =
        script.lines().any(|line| loops.iter().any(|it| line.trim_start().starts_with(it)));
    has_loop && parse_loop_script(script, is_agent).agent.is_some()
}

impl LoopScript {
    /// Processes a line, and returns whether it was understood.
    fn take_line(&mut self, line: &str, is_agent: &impl Fn(&str) -> bool) -> bool {
        if line.trim_start().starts_with("for ") {
            self.iterations = self.iterations.or_else(|| parse_loop_count(line));
        }
        let mut is_known = true;
        for command in split_commands(line) {
            is_known &= self.take_command(&command, is_agent);
        }
        is_known
    }

    fn take_command(&mut self, command: &str, is_agent: &impl Fn(&str) -> bool) -> bool {
        self.take_prompt(command);
        let words = split_words(command);
        let mut rest = words.as_slice();
        while let [first, after @ ..] = rest
            && (is_assignment(first)
                || STARTERS.contains(&first.as_str())
                || ["do", "then", "else", "if", "!", "while", "until"].contains(&first.as_str())
                || first.trim_end_matches(['s', 'm', 'h']).parse::<u32>().is_ok())
        {
            if is_assignment(first) {
                self.take_assignment(first);
            }
            rest = after;
        }
        let Some((program, arguments)) = rest.split_first() else { return true };
        let name = program.rsplit('/').next().unwrap_or(program);
        if is_agent(name) {
            if self.agent.is_none() {
                let agent = std::iter::once(program).chain(strip_prompt(arguments));
                self.agent = Some(agent.cloned().collect());
            }
            return true;
        }
        match name {
            "sleep" => {
                let seconds =
                    arguments.first().and_then(|it| it.trim_end_matches('s').parse().ok());
                self.delay = self.delay.or(seconds);
                seconds.is_some()
            }
            "cat" | "tee" | "envsubst" | ":" => true,
            "seq" => {
                let last = arguments.last().map(|it| it.trim_end_matches(')'));
                let last = last.and_then(|it| it.parse().ok()).filter(|it| *it > 0);
                self.iterations = self.iterations.or(last);
                true
            }
            // A line such as `[ $i -lt 10 ]`, or a part of `((i=1; i<=10; i++))`.
            _ => {
                FRAME.contains(&name)
                    || name.starts_with(['[', '(', '#', '"', '$'])
                    || name.contains("++")
                    || name.contains("<=")
            }
        }
    }

    fn take_assignment(&mut self, word: &str) {
        let Some((name, value)) = word.split_once('=') else { return };
        let is_limit = name.to_ascii_uppercase().contains("MAX");
        // `${1:-10}` is ten unless the user passes another number.
        let value = value.rsplit(":-").next().unwrap_or(value);
        let number: String = value.chars().filter(char::is_ascii_digit).collect();
        if is_limit && self.iterations.is_none() {
            self.iterations = number.parse().ok().filter(|it| *it > 0);
        }
    }

    fn take_prompt(&mut self, command: &str) {
        if self.prompt.is_some() {
            return;
        }
        let words: Vec<&str> = command
            .split([' ', '\t', '"', '\'', '(', ')', '`', '='])
            .filter(|word| !word.is_empty())
            .collect();
        let is_text = |word: &str| {
            let ending = word.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
            ending.is_some_and(|it| ["md", "txt"].contains(&it.as_str()))
        };
        let behind = words.windows(2).find_map(|pair| {
            let leads = ["cat", "<", "$<", "-f", "--prompt-file", "--file"].contains(&pair[0]);
            pair.get(1).filter(|word| leads && is_text(word))
        });
        let attached = words.iter().find_map(|word| {
            let file = word.strip_prefix(['<', '@'])?;
            is_text(file).then_some(file)
        });
        // A variable in front usually names the script's directory.
        let file = behind.copied().or(attached).map(|file| match file.rsplit_once('/') {
            Some((above, name)) if above.contains('$') => name,
            Some(_) | None => file.trim_start_matches("./"),
        });
        self.prompt = file.filter(|file| !file.contains('$')).map(str::to_owned);
    }
}

/// Returns the lines of a script, with continuation lines joined.
fn join_continued_lines(script: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut is_continued = false;
    for (number, line) in (1..).zip(script.lines()) {
        match lines.last_mut().filter(|_| is_continued) {
            Some((_, above)) => above.push_str(line.trim_start()),
            None => lines.push((number, line.to_owned())),
        }
        is_continued = line.ends_with('\\');
        if let Some((_, last)) = lines.last_mut().filter(|_| is_continued) {
            last.pop();
        }
    }
    lines
}

/// Returns the commands of a line, including those of substitutions.
fn split_commands(line: &str) -> Vec<String> {
    if line.trim_start().starts_with('#') {
        return Vec::new();
    }
    let mut commands = vec![String::new()];
    let mut quote = None;
    let mut previous = ' ';
    for character in line.chars() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (it, Some(open)) if it == open => quote = None,
            _ => {}
        }
        let ends = quote.is_none()
            && matches!(character, ';' | '|' | '&')
            && !(character == '&' && previous == '>');
        let begins = previous == '$' && character == '(';
        match commands.last_mut() {
            Some(last) if !ends => last.push(character),
            Some(_) | None => commands.push(String::new()),
        }
        if begins {
            commands.push(String::new());
            quote = None;
        }
        previous = character;
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

/// Returns the words of a command without their quotes.
fn split_words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in command.chars() {
        match (character, quote) {
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (it, Some(open)) if it == open => quote = None,
            (it, None) if it.is_whitespace() => words.extend(word.take()),
            (it, _) => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    words
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Returns the arguments of an agent that apply to every iteration: no redirections, no prompt.
fn strip_prompt(arguments: &[String]) -> impl Iterator<Item = &String> {
    let mut is_target = false;
    arguments.iter().filter(move |word| {
        let was_target = std::mem::take(&mut is_target);
        let word = word.trim_end_matches(')');
        let is_redirection = word.contains('>') || word.contains('<');
        is_target = is_redirection && word.ends_with(['>', '<']);
        // Whole sentences and substitutions are the prompt.
        let is_prompt = word.contains(['$', ' ', '\n', '@', '`']);
        !was_target && !is_redirection && !is_prompt && !word.is_empty()
    })
}

/// Returns the number of iterations of a `for`: `i in {1..10}`, `((i=1; i<=10; …`.
fn parse_loop_count(line: &str) -> Option<u32> {
    let number = |text: &str| -> Option<u32> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|it| *it > 0)
    };
    let braces = line.split_once("..").and_then(|(_, rest)| number(rest));
    let below = || number(line.split_once('<')?.1.trim_start_matches('=').trim_start());
    braces.or_else(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_agent(name: &str) -> bool {
        ["claude", "codex", "amp"].contains(&name)
    }

    #[track_caller]
    fn check(
        script: &str,
        agent: &str,
        prompt: Option<&str>,
        bounds: [Option<u32>; 2],
    ) -> LoopScript {
        let found = parse_loop_script(script, is_agent);
        let words: Vec<String> = agent.split_whitespace().map(str::to_owned).collect();
        assert_eq!(found.agent, (!words.is_empty()).then_some(words), "{script}");
        assert_eq!(found.prompt.as_deref(), prompt, "{script}");
        assert_eq!([found.iterations, found.delay], bounds, "{script}");
        found
    }

    #[test]
    fn the_usual_loops_are_understood() {
        let none = [None, None];
        let simple = "while :; do cat PROMPT.md | claude -p --model opus; done";
        assert_eq!(check(simple, "claude -p --model opus", Some("PROMPT.md"), none).unknown, []);
        check(
            "while true; do\n  codex exec \"$(cat ./prompt.md)\"\n  sleep 5\ndone\n",
            "codex exec",
            Some("prompt.md"),
            [None, Some(5)],
        );
        check(
            "for i in {1..20}; do claude -p \"Do the next thing.\" < PLAN.md; done",
            "claude -p",
            Some("PLAN.md"),
            [Some(20), None],
        );
        let full = "#!/bin/bash\nset -e\nMAX_ITERATIONS=${1:-10}\nfor i in $(seq 1 $MAX_ITERATIONS); do\n  echo \"Iteration $i\"\n  OUTPUT=$(cat \"$DIR/prompt.md\" | amp --dangerous 2>&1 | tee /dev/stderr) || true\n  if echo \"$OUTPUT\" | grep -q \"<promise>COMPLETE</promise>\"; then\n    exit 0\n  fi\n  sleep 2\ndone\ngit push\n";
        let found = check(full, "amp --dangerous", Some("prompt.md"), [Some(10), Some(2)]);
        let unknown: Vec<usize> = found.unknown.iter().map(|(line, _)| *line).collect();
        assert_eq!(unknown, [7, 12], "{found:#?}");
        check(
            "for ((i=1; i<=7; i++)); do claude -p @PROMPT.md; done",
            "claude -p",
            Some("PROMPT.md"),
            [Some(7), None],
        );
        check(
            "until false; do timeout 30m claude \\\n  --verbose \\\n  -p < p.md\ndone",
            "claude --verbose -p",
            Some("p.md"),
            none,
        );
    }

    #[test]
    fn lines_outside_an_agent_loop_are_reported() {
        for (script, expect) in [
            ("while :; do claude -p; done", true),
            ("claude -p", false),
            ("while :; do make; done", false),
            ("", false),
        ] {
            assert_eq!(is_loop(script, is_agent), expect, "{script}");
        }
        assert_eq!(
            parse_loop_script("make test\n# claude\n", is_agent).unknown,
            [(1, "make test".to_owned())]
        );
    }
}
