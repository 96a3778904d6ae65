//! A call to an agent as plain data, and what all agents' calls share: the variables that tell
//! a child who asked, the user's flags, and how the prompt gets in.
//!
//! Not here: the flags of single agents, and starting anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_core::failure::{Failure, FailureClass};
use ralph_core::ports::Request;

use super::mcp::McpServer;

/// The place in a flag that takes the prompt itself.
const PROMPT: &str = "{prompt}";

/// The place in a flag that takes the path of a file with the prompt.
const PROMPT_FILE: &str = "{prompt_file}";

/// The longest prompt in an argument. Linux allows 128 KiB for one; the rest is for the flag
/// around it.
const LONGEST_ARGUMENT: usize = 100_000;

/// How to start an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it reads; stdin is closed behind it, also when it is empty.
    pub stdin: Vec<u8>,
    /// Patterns of inherited variables that it must not see. They are removed first.
    pub env_remove: Vec<String>,
    /// Variables it gets, after the removal.
    pub env: BTreeMap<String, String>,
    /// Whether the idle limit can be watched.
    pub idle: IdleWatch,
}

/// What a call needs to know of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// Where the caller has written the prompt.
    pub prompt_file: PathBuf,
    /// The executable of ralph itself, which contains the scripted agent.
    pub self_exe: PathBuf,
    /// Whose rights the agent will have.
    pub privilege: Privilege,
    /// A file that names MCP servers, where there are any.
    pub mcp_config: Option<PathBuf>,
    /// The servers in that file, for agents that do not read it.
    pub mcp_servers: Vec<McpServer>,
    /// Instructions that stand beside the prompt.
    pub system_prompt: Option<SystemPrompt>,
    /// Where the caller has written the schema of the answer, if one is wanted.
    pub schema_file: PathBuf,
    /// Where an agent may leave its answer, see [`answer_file`](super::answer_file).
    pub answer_file: PathBuf,
    /// The directory of ralph's plugin, where there is one.
    pub plugin: Option<PathBuf>,
    /// The file by which ralph's hooks find the run, where there is one.
    pub active_file: Option<PathBuf>,
    /// Whether the agent sits in a sandbox of ralph's.
    pub walls: Walls,
}

/// Whether an agent sits in a sandbox of ralph's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walls {
    /// It does not.
    None,
    /// It does; a sandbox of its own would not work in there.
    Ours,
}

/// Instructions that stand beside the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    /// The file that holds them.
    pub file: PathBuf,
    /// What it says.
    pub text: String,
}

/// Whose rights an agent will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Those of an ordinary user.
    User,
    /// Those of root.
    Root,
}

/// Whether silence says anything about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleWatch {
    /// It reports what it does: silence beyond the idle limit means that it hangs.
    Watch,
    /// It may print nothing until its end: only the hard limit holds.
    Off,
}

/// Whether an agent is given its prompt once, or talked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    /// Its input ends behind the call's own bytes.
    OneWay,
    /// Its input stays open for answers, until the translator says that all is said.
    Dialog,
}

/// The user's flags with the prompt put in, and what is left for stdin.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) flags: Vec<String>,
    pub(super) stdin: Vec<u8>,
}

/// Puts the prompt where the user's flags want it, and on stdin where they do not.
pub(super) fn deliver(request: &Request, context: &CallContext) -> Result<Delivery, Failure> {
    let flags = split_flags(&request.agent.flags);
    let takes_prompt = flags.iter().any(|flag| flag.contains(PROMPT));
    if takes_prompt && request.prompt.len() > LONGEST_ARGUMENT {
        return Err(Failure::new(
            FailureClass::BadCall,
            format!(
                "the prompt has {} bytes, too many for an argument of `{}`",
                request.prompt.len(),
                request.agent.command
            ),
        )
        .with_hint(format!("use `{PROMPT_FILE}` in `agent.flags` instead of `{PROMPT}`")));
    }
    if takes_prompt && request.prompt.contains('\0') {
        return Err(Failure::new(
            FailureClass::BadCall,
            "the prompt contains a NUL byte, which no argument can hold",
        )
        .with_hint(format!("use `{PROMPT_FILE}` in `agent.flags` instead of `{PROMPT}`")));
    }
    let is_elsewhere = takes_prompt || flags.iter().any(|flag| flag.contains(PROMPT_FILE));
    // The file's name goes in first: a prompt may well talk of `{prompt_file}`.
    let file = context.prompt_file.to_string_lossy();
    let flags = flags
        .iter()
        .map(|flag| flag.replace(PROMPT_FILE, &file).replace(PROMPT, &request.prompt))
        .collect();
    let stdin = if is_elsewhere { Vec::new() } else { request.prompt.clone().into_bytes() };
    Ok(Delivery { flags, stdin })
}

/// Returns a text as an argument, if it fits into one.
pub(super) fn argument(text: &str, what: &str) -> Result<String, Failure> {
    if text.len() <= LONGEST_ARGUMENT && !text.contains('\0') {
        return Ok(text.to_owned());
    }
    let bytes = text.len();
    Err(Failure::new(
        FailureClass::BadCall,
        format!("{what} has {bytes} bytes, which no argument can hold"),
    ))
}

/// Splits entries such as `--model opus`, which is how people write a flag with its value.
pub(super) fn split_flags(flags: &[String]) -> Vec<String> {
    let mut split = Vec::with_capacity(flags.len());
    for flag in flags {
        match flag.split_once(' ') {
            // Not `-- text` and not `--x=a b`: there the space belongs to the value.
            Some((name, value)) if is_name(name) => {
                split.extend([name.to_owned(), value.trim_start().to_owned()]);
            }
            Some(_) | None => split.push(flag.clone()),
        }
    }
    split
}

/// Flags that choose a model or how hard it thinks, with a value behind them.
const MODEL_FLAGS: [&str; 6] =
    ["--model", "-m", "--fallback-model", "--effort", "--reasoning-effort", "--thinking"];

/// Flags that only change how the agent talks to ralph.
const TALK_FLAGS: [&str; 4] = ["--verbose", "--acp", "--experimental-acp", "acp"];

/// Returns whether flags do no more than choose a model, an effort or a protocol: nothing that
/// reads a file, starts a program, lifts a limit or sends the agent to another address.
pub fn only_choose_model(flags: &[String]) -> bool {
    let words = split_flags(flags);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let is_known = match word.split_once('=') {
            Some((name, _)) => MODEL_FLAGS.contains(&name),
            None if MODEL_FLAGS.contains(&word) => {
                words.next().is_some_and(|value| !value.starts_with('-'))
            }
            None => TALK_FLAGS.contains(&word),
        };
        if !is_known {
            return false;
        }
    }
    true
}

fn is_name(word: &str) -> bool {
    word.starts_with('-') && !word.trim_start_matches('-').is_empty() && !word.contains('=')
}

/// Returns whether the user's flags give one of these names, as `--name` or `--name=value`.
pub(super) fn has_flag(flags: &[String], names: &[&str]) -> bool {
    flags.iter().any(|flag| names.contains(&flag.split('=').next().unwrap_or(flag)))
}

/// Returns the variables that tell every agent, its hooks and its children who asked, joined
/// with an adapter's own and with the user's, which win.
pub(super) fn environment(request: &Request, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let asked = [
        ("RALPH_RUN_ID", request.run.to_string()),
        ("RALPH_ROLE", request.role.to_string()),
        ("RALPH_ITERATION", request.iteration.to_string()),
        ("RALPH_ASK", request.ask.0.to_string()),
    ];
    let task = request.task.iter().map(|task| ("RALPH_TASK", task.to_string()));
    let own = own.iter().map(|&(name, value)| (name, value.to_owned()));
    let mut env: BTreeMap<String, String> = asked
        .into_iter()
        .chain(task)
        .chain(own)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    env.extend(request.agent.env.clone());
    env
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ralph_core::recipe::AgentKind;

    use crate::rehearsal::request;

    #[test]
    fn flags_that_choose_a_model_are_known() {
        for (flags, expect) in [
            (&[][..], true),
            (&["--model opus", "--verbose"], true),
            (&["--model", "opus", "--effort=high"], true),
            (&["--acp"], true),
            (&["-m", "--mcp-config"], false),
            (&["-m"], false),
            (&["--model opus", "--settings {}"], false),
            (&["--mcp-config=x.json"], false),
            (&["run"], false),
        ] {
            let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
            assert_eq!(only_choose_model(&flags), expect, "{flags:?}");
        }
    }

    pub(crate) fn context() -> CallContext {
        CallContext {
            prompt_file: PathBuf::from("/state/prompt.md"),
            self_exe: PathBuf::from("/bin/ralph"),
            privilege: Privilege::User,
            mcp_config: None,
            mcp_servers: Vec::new(),
            system_prompt: None,
            schema_file: PathBuf::from("/state/schema.json"),
            answer_file: PathBuf::from("/state/answer.md"),
            plugin: Some(PathBuf::from("/state/plugin")),
            active_file: Some(PathBuf::from("/state/active.json")),
            walls: Walls::None,
        }
    }

    /// Returns a context with everything that a call can be given.
    pub(crate) fn full_context() -> CallContext {
        let text = r#"{"mcpServers": {
            "memory": {"command": "ralph", "args": ["mcp", "memory"], "env": {"LEVEL": "1", "API_KEY": "k"}},
            "my docs": {"url": "https://example.invalid/mcp", "headers": {"Authorization": "Bearer t"}}
        }}"#;
        CallContext {
            mcp_config: Some(PathBuf::from("/state/mcp.json")),
            mcp_servers: crate::mcp_servers(text).expect("servers"),
            system_prompt: Some(SystemPrompt {
                file: PathBuf::from("/state/system.md"),
                text: "Be brief.\nSay \"no\".".to_owned(),
            }),
            ..context()
        }
    }

    #[track_caller]
    fn check(flags: &[&str], expect: &[&str], stdin: &str) {
        let request = request(AgentKind::Text, flags, "do {prompt_file} it");
        let delivery = deliver(&request, &context()).expect("a small prompt fits anywhere");
        assert_eq!(delivery.flags, expect);
        assert_eq!(String::from_utf8_lossy(&delivery.stdin), stdin);
    }

    #[test]
    fn the_prompt_goes_where_the_flags_want_it() {
        let prompt = "do {prompt_file} it";
        check(&[], &[], prompt);
        check(&["--message", "{prompt}"], &["--message", prompt], "");
        check(&["--message={prompt}"], &["--message=do {prompt_file} it"], "");
        check(&["--file {prompt_file}"], &["--file", "/state/prompt.md"], "");
    }

    #[test]
    fn a_flag_with_its_value_is_split_once() {
        check(&["--model opus"], &["--model", "opus"], "do {prompt_file} it");
        check(&["-m  a b"], &["-m", "a b"], "do {prompt_file} it");
        check(
            &["--x=a b", "c d", "-- --text"],
            &["--x=a b", "c d", "-- --text"],
            "do {prompt_file} it",
        );
    }

    #[test]
    fn a_prompt_too_long_for_an_argument_is_a_bad_call() {
        let long = "x".repeat(LONGEST_ARGUMENT + 1);
        let failure = deliver(&request(AgentKind::Text, &["{prompt}"], &long), &context())
            .expect_err("it must not reach argv");
        assert_eq!(failure.class, FailureClass::BadCall);
        assert!(failure.hint.expect("there is a way out").contains("{prompt_file}"));
        for flags in [&[][..], &["{prompt_file}"]] {
            assert!(deliver(&request(AgentKind::Text, flags, &long), &context()).is_ok());
        }
        assert!(deliver(&request(AgentKind::Text, &["{prompt}"], "a\0b"), &context()).is_err());
    }

    #[test]
    fn the_user_has_the_last_word_on_variables() {
        let mut request = request(AgentKind::Text, &[], "");
        request.agent.env.insert("OWN".to_owned(), "user".to_owned());
        let env = environment(&request, &[("OWN", "adapter"), ("OTHER", "adapter")]);
        let shown: Vec<String> =
            env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
                "OTHER=adapter",
                "OWN=user",
                "RALPH_ASK=1",
                "RALPH_ITERATION=3",
                "RALPH_ROLE=prompt",
                "RALPH_RUN_ID=20261114-231500-k3f9",
            ]
        );
    }
}
