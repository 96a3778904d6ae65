//! A call to an agent as plain data, and the parts that all agents' calls share: the `RALPH_*`
//! variables, the user's flags, and how the prompt is passed.
//!
//! Not here: the flags of single agents, and starting anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_core::ports::AgentRequest;
use ralph_model::failure::{Failure, FailureClass};

use super::mcp::McpServerSpec;

/// Placeholder in a flag for the prompt itself.
const PROMPT: &str = "{prompt}";

/// Placeholder in a flag for the path of a file with the prompt.
const PROMPT_FILE: &str = "{prompt_file}";

/// The longest prompt in an argument. Linux allows 128 KiB; the rest is for the flag around it.
pub(super) const LONGEST_ARGUMENT: usize = 100_000;

/// How to start an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCall {
    pub program: String,
    pub args: Vec<String>,
    /// Bytes for stdin, which is closed after them, also if there are none.
    pub stdin: Vec<u8>,
    /// Patterns of inherited variables to remove, before `env` is added.
    pub env_remove: Vec<String>,
    /// Variables to add after the removal.
    pub env: BTreeMap<String, String>,
    pub idle: IdleWatch,
}

impl AgentCall {
    /// Returns a call of the request's command, with the variables that all agents get.
    pub(super) fn new(request: &AgentRequest, args: Vec<String>, stdin: Vec<u8>) -> Self {
        Self {
            program: request.agent.command.clone(),
            args,
            stdin,
            env_remove: request.agent.env_deny.clone(),
            env: build_environment(request, &[]),
            idle: IdleWatch::Watch,
        }
    }
}

/// Facts about this run and machine that a call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// File that the caller has written the prompt to.
    pub prompt_file: PathBuf,
    /// The executable of ralph itself, which contains the scripted agent.
    pub self_exe: PathBuf,
    pub privilege: Privilege,
    /// File that lists MCP servers, if there are any.
    pub mcp_config: Option<PathBuf>,
    /// The servers in `mcp_config`, for agents that do not read that file.
    pub mcp_servers: Vec<McpServerSpec>,
    /// System prompt, separate from the prompt.
    pub system_prompt: Option<SystemPrompt>,
    /// File that the caller has written the answer's schema to, if there is one.
    pub schema_file: PathBuf,
    /// File that an agent may write its answer to, see
    /// [`select_answer_file`](super::select_answer_file).
    pub answer_file: PathBuf,
    /// Directory of ralph's plugin, if there is one.
    pub plugin: Option<PathBuf>,
    /// File that ralph's hooks find the run with, if there is one.
    pub active_file: Option<PathBuf>,
    pub outer_sandbox: OuterSandbox,
}

/// Whether ralph runs the agent in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OuterSandbox {
    Absent,
    /// An agent's own sandbox would not work inside ralph's.
    Present,
}

/// System prompt, separate from the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    pub file: PathBuf,
    pub text: String,
}

/// The user that the agent runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    User,
    Root,
}

/// Whether a silent agent counts as hung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleWatch {
    /// The agent reports what it does: silence beyond the idle limit means that it hangs.
    Watch,
    /// The agent may print nothing until its end: only the hard limit applies.
    Off,
}

/// Whether an agent gets its prompt once, or a conversation on stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// Stdin is closed after the call's own bytes.
    OneWay,
    /// Stdin stays open for replies, until the translator closes it.
    Dialog,
}

/// The user's flags with the prompt filled in, and the bytes that remain for stdin.
#[derive(Debug)]
pub(super) struct PromptDelivery {
    pub(super) flags: Vec<String>,
    pub(super) stdin: Vec<u8>,
}

/// Puts the prompt where the user's flags have a placeholder, and on stdin otherwise.
pub(super) fn deliver_prompt(
    request: &AgentRequest,
    context: &CallContext,
) -> Result<PromptDelivery, Failure> {
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
    // Replace the file placeholder first: a prompt may contain the text `{prompt_file}`.
    let file = context.prompt_file.to_string_lossy();
    let flags = flags
        .iter()
        .map(|flag| flag.replace(PROMPT_FILE, &file).replace(PROMPT, &request.prompt))
        .collect();
    let stdin = if is_elsewhere { Vec::new() } else { request.prompt.clone().into_bytes() };
    Ok(PromptDelivery { flags, stdin })
}

/// Returns a text as an argument. Fails if it is too long or contains a NUL byte.
pub(super) fn check_argument(text: &str, what: &str) -> Result<String, Failure> {
    if text.len() <= LONGEST_ARGUMENT && !text.contains('\0') {
        return Ok(text.to_owned());
    }
    let bytes = text.len();
    Err(Failure::new(
        FailureClass::BadCall,
        format!("{what} has {bytes} bytes, which no argument can hold"),
    ))
}

/// Splits entries such as `--model opus`, the way people write a flag with its value.
pub(super) fn split_flags(flags: &[String]) -> Vec<String> {
    let mut split = Vec::with_capacity(flags.len());
    for flag in flags {
        match flag.split_once(' ') {
            // Not `-- text` and not `--x=a b`: there the space belongs to the value.
            Some((name, value)) if is_flag_name(name) => {
                split.extend([name.to_owned(), value.trim_start().to_owned()]);
            }
            Some(_) | None => split.push(flag.clone()),
        }
    }
    split
}

/// Flags that choose a model or its reasoning effort, followed by a value.
const MODEL_FLAGS: [&str; 6] =
    ["--model", "-m", "--fallback-model", "--effort", "--reasoning-effort", "--thinking"];

/// Flags that only change the protocol between the agent and ralph.
const PROTOCOL_FLAGS: [&str; 4] = ["--verbose", "--acp", "--experimental-acp", "acp"];

/// Returns whether flags only choose a model, an effort or a protocol: none of them reads a file,
/// starts a program, lifts a limit or sends the agent to another address.
pub fn has_only_model_flags(flags: &[String]) -> bool {
    let flags = split_flags(flags);
    let mut flags = flags.iter().map(String::as_str);
    while let Some(word) = flags.next() {
        let is_known = match word.split_once('=') {
            Some((name, _)) => MODEL_FLAGS.contains(&name),
            None if MODEL_FLAGS.contains(&word) => {
                flags.next().is_some_and(|value| !value.starts_with('-'))
            }
            None => PROTOCOL_FLAGS.contains(&word),
        };
        if !is_known {
            return false;
        }
    }
    true
}

fn is_flag_name(word: &str) -> bool {
    word.starts_with('-') && !word.trim_start_matches('-').is_empty() && !word.contains('=')
}

/// Returns whether the user's flags contain one of these names, as `--name` or `--name=value`.
pub(super) fn has_flag(flags: &[String], names: &[&str]) -> bool {
    flags.iter().any(|flag| names.contains(&flag.split('=').next().unwrap_or(flag)))
}

/// Collects ralph's flags, except those that the user also gives: the user's flags come last and
/// win.
pub(super) struct FlagBuilder<'a> {
    args: Vec<String>,
    user: &'a [String],
}

impl<'a> FlagBuilder<'a> {
    /// Returns a builder without flags.
    pub(super) fn new(user: &'a [String]) -> Self {
        Self { args: Vec::new(), user }
    }

    /// Adds a flag under the first of its names, unless the user gives any of them.
    pub(super) fn add_flag(&mut self, names: &[&str], value: Option<&str>) {
        if has_flag(self.user, names) {
            return;
        }
        self.args.extend(names.first().map(|&name| name.to_owned()));
        self.args.extend(value.map(str::to_owned));
    }

    /// Adds a flag that may be given several times.
    pub(super) fn add_always(&mut self, name: &str, value: &str) {
        self.args.extend([name, value].map(str::to_owned));
    }

    /// Returns ralph's flags followed by the user's.
    pub(super) fn append_user_flags(mut self) -> Vec<String> {
        self.args.extend_from_slice(self.user);
        self.args
    }
}

/// Returns the variables that identify the run, role and task to the agent, its hooks and its
/// children, merged with the adapter's own variables and then the user's, which win.
pub(super) fn build_environment(
    request: &AgentRequest,
    own: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let identity = [
        ("RALPH_RUN_ID", request.run.to_string()),
        ("RALPH_ROLE", request.role.to_string()),
        ("RALPH_ITERATION", request.iteration.to_string()),
        ("RALPH_ASK", request.ask.0.to_string()),
    ];
    let task = request.task.iter().map(|task| ("RALPH_TASK", task.to_string()));
    let own = own.iter().map(|&(name, value)| (name, value.to_owned()));
    let mut env: BTreeMap<String, String> = identity
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
    use ralph_model::agent::AgentKind;

    use super::*;
    use crate::test_support::build_request;

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
            assert_eq!(has_only_model_flags(&flags), expect, "{flags:?}");
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
            outer_sandbox: OuterSandbox::Absent,
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
            mcp_servers: crate::parse_mcp_servers(text).expect("servers"),
            system_prompt: Some(SystemPrompt {
                file: PathBuf::from("/state/system.md"),
                text: "Be brief.\nSay \"no\".".to_owned(),
            }),
            ..context()
        }
    }

    #[track_caller]
    fn check(flags: &[&str], expect: &[&str], stdin: &str) {
        let request = build_request(AgentKind::Text, flags, "do {prompt_file} it");
        let delivery = deliver_prompt(&request, &context()).expect("a small prompt fits anywhere");
        assert_eq!(delivery.flags, expect);
        assert_eq!(String::from_utf8_lossy(&delivery.stdin), stdin);
    }

    #[test]
    fn prompt_replaces_its_placeholder_or_goes_to_stdin() {
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
        let failure =
            deliver_prompt(&build_request(AgentKind::Text, &["{prompt}"], &long), &context())
                .expect_err("it must not reach argv");
        assert_eq!(failure.class, FailureClass::BadCall);
        assert!(failure.hint.expect("the failure has a hint").contains("{prompt_file}"));
        for flags in [&[][..], &["{prompt_file}"]] {
            assert!(
                deliver_prompt(&build_request(AgentKind::Text, flags, &long), &context()).is_ok()
            );
        }
        assert!(
            deliver_prompt(&build_request(AgentKind::Text, &["{prompt}"], "a\0b"), &context())
                .is_err()
        );
    }

    #[test]
    fn user_variables_override_the_adapter() {
        let mut request = build_request(AgentKind::Text, &[], "");
        request.agent.env.insert("OWN".to_owned(), "user".to_owned());
        let env = build_environment(&request, &[("OWN", "adapter"), ("OTHER", "adapter")]);
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
