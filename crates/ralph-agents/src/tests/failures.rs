//! Which failure follows from what an agent reports, what it prints on stderr, and how its process
//! ends.

use ralph_model::failure::Failure;

use super::recorded::Recorded;
use super::table::{read_ending, read_rows, select_agents, show_class};

/// Agents, the ending, the class, and what was on stdout and on stderr.
const ENDINGS: &str = r#"
    # Success needs a result and a matching exit.
    all         | 0           | -            | begin; text Fine.; end Fine.
    all         | lingered    | -            | begin; text Fine.; end Fine.
    all         | hard        | -            | begin; text Fine.; end Fine.
    all but acp | 1           | Crashed      | begin; text Fine.; end Fine.
    all but acp | 143         | Crashed      | begin; text Fine.; end Fine.
    all but acp | s9          | Crashed      | begin; text Fine.; end Fine.
    # A result without other lines is enough.
    claude qwen cline amp pi | 0           | -            | end Fine.
    claude qwen cline amp pi | lingered    | -            | end Fine.
    claude qwen cline amp pi | hard        | -            | end Fine.
    claude qwen cline amp pi | 1           | Crashed      | end Fine.
    claude qwen cline amp pi | s9          | Crashed      | end Fine.
    claude qwen cline amp pi | interrupted | Interrupted  | end Fine.
    claude qwen cline amp pi gemini | 0 | Empty     | end
    # Here the result decides before the exit.
    acp         | 1           | -            | begin; text Fine.; end
    acp         | s15         | -            | begin; text Fine.; end
    acp         | idle        | -            | begin; text Fine.; end
    all         | 0           | Empty        | begin; end
    all         | 0           | Malformed    | begin; text Fine.
    all         | 0           | Malformed    |
    all         | 1           | Crashed      | begin; text Fine. | boom
    all         | 3           | Crashed      |       | boom
    all         | 1           | Crashed      |
    all         | s9          | Crashed      |
    all         | 1           | Crashed      |       | TypeError: undefined is not a function
    # Endings by ralph.
    all         | idle        | IdleTimeout  |
    all         | hard        | HardTimeout  |
    all         | idle        | IdleTimeout  | begin; text Fine.
    all         | hard        | HardTimeout  | begin; text Fine.
    all         | interrupted | Interrupted  |
    all         | interrupted | Interrupted  | begin; text Fine.; end Fine.
    claude      | interrupted | Interrupted  | @interrupted-sigint
    codex       | interrupted | Interrupted  | @interrupted-sigint
    cline       | idle        | IdleTimeout  | @timeout
    cline       | hard        | HardTimeout  | @timeout
    # Limits in the agent's own text mean nothing.
    all         | 0           | -            | begin; text You've hit your usage limit, try again at 3:00 PM. Quota exceeded, retry in 3s.; end x
    all         | 1           | Crashed      | begin; text You've hit your usage limit, try again at 3:00 PM. Quota exceeded, retry in 3s.
    # A result, then something that never ended.
    codex gemini amp qwen | 0 | Malformed    | begin; text Fine.; end Fine.; text More.
    copilot     | 0           | Malformed    | begin; text Fine.; end; begin
    codex       | 0           | Malformed    | text Fine.; end; {"type":"turn.started"}
    cline       | 0           | Malformed    | end Fine.; step
    amp         | 0           | Malformed    | end Fine.; tool
    claude      | 0           | Malformed    | end Fine.; init
    claude      | 0           | -            | end Fine.; init; end Fine.
    claude      | 0           | Malformed    | {Execution error
    # Versions without a terminal reason.
    claude      | 0           | -            | {"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Fine."}
    claude      | 0           | Crashed      | {"type":"result","subtype":"success","is_error":true,"num_turns":2,"result":"Fine."}
    # A hook refused the prompt; the CLI reports that as a success.
    claude      | 0           | BadCall      | {"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"blocked by hook"}
    # Here a hook refused the answer.
    claude      | 0           | -            | text TAG; end
    claude      | 1           | ContextExceeded | stop prompt_too_long
    claude      | 1           | ContextExceeded | stop blocking_limit
    claude      | 1           | TurnLimit    | stop max_turns
    claude      | 1           | TurnLimit    | stop budget_exhausted
    claude      | 1           | TurnLimit    | stop hook_stopped
    claude      | 1           | Malformed    | stop structured_output_retry_exhausted
    claude      | 1           | Crashed      | stop aborted_tools
    claude      | 1           | Crashed      | stop something_new
    # Silence while requests are retried is caused by the server, not the agent.
    claude      | idle        | Overloaded   | retry 529
    claude      | idle        | Overloaded   | retry null
    claude      | idle        | RateLimited  | retry 429
    claude      | idle        | NotLoggedIn  | retry 401
    claude      | idle        | IdleTimeout  | retry 529; {"type":"stream_event"}
    codex       | idle        | Unreachable  | @network-wait
    codex       | idle        | IdleTimeout  | @network-wait; text Back.
    copilot     | idle        | RateLimited  | begin; retry 429
    copilot     | idle        | IdleTimeout  | begin; retry 429; piece x
    pi          | idle        | Overloaded   | fail 529 overloaded; retry 529 overloaded
    pi          | 0           | -            | fail 529 overloaded; retry 529 overloaded; begin; text Fine.; end Fine.
    # A full context is compacted, and the turn continues.
    opencode    | 0           | -            | api 400 maximum context length; begin; text Fine.; end
    opencode    | idle        | ContextExceeded | api 400 maximum context length
    opencode    | 0           | TurnLimit    | begin; text Fine.; finish length
    opencode    | 0           | Crashed      | begin; text Fine.; finish content-filter
    opencode    | idle        | Overloaded   | begin; text Nearly.; finish unknown; begin; text Nearly.
    copilot     | 0           | Crashed      | begin; text Fine.; exit 1
    copilot     | 0           | Malformed    | begin; text Fine.; {"type":"result"}
    copilot     | 0           | Empty        | begin; text; end
    # A turn that recovers from an error.
    copilot     | 0           | -            | begin; api 500 x; begin; text Fine.; end
    # An aborted turn is never a success. One that begins after it counts again.
    copilot     | idle        | IdleTimeout  | begin; piece TAG; abort; end
    copilot     | 0           | Malformed    | begin; piece TAG; abort; end
    copilot     | interrupted | Interrupted  | begin; piece TAG; abort; end
    copilot     | 0           | -            | begin; piece TAG; abort; begin; text Fine.; end
    cline       | 0           | Crashed      | result aborted Fine.
    cline       | 0           | Crashed      | result novelty Fine.
    cline       | 1           | NotLoggedIn  | auth no
    cline       | 1           | NotLoggedIn  | auth no; fail no
    cline       | 0           | -            | auth no; end Fine.
    amp         | 0           | Crashed      | {"type":"result","subtype":"success","is_error":true,"result":"Fine."}
    amp         | 1           | TurnLimit    | result error_max_turns x
    pi          | 0           | TurnLimit    | result length
    pi          | 0           | Crashed      | result aborted
    pi          | 0           | Malformed    | {"type":"agent_end","messages":[]}
    gemini      | 173         | RateLimited  | fail [API Error: You have exhausted your daily quota on this model.]
    gemini      | 173         | RateLimited+30s | fail [API Error: Please retry in 30s.]
    gemini      | 244         | Overloaded   | fail [API Error: odd]
    gemini      | 247         | Overloaded   | fail [API Error: odd]
    gemini      | 145         | NotLoggedIn  | fail [API Error: odd]
    gemini      | 148         | BadCall      | fail [API Error: odd]
    gemini      | 144         | Crashed      | fail [API Error: odd]
    gemini      | 255         | Crashed      | fail [API Error: odd]
    gemini      | 1           | Overloaded   | fail [API Error: {\"error\":{\"code\":503,\"message\":\"odd\"}}]
    gemini      | 144         | ContextExceeded | fail The input token count (9) exceeds the maximum number of tokens allowed (1).
    gemini      | 53          | TurnLimit    | result FatalTurnLimitedError x
    gemini      | 1           | Crashed      | text Fine.; error It broke.
    qwen        | 1           | Crashed      | {"type":"result","subtype":"success","is_error":true,"result":"Fine."}
    qwen        | 53          | TurnLimit    |
    qwen        | 1           | RateLimited  | fail [API Error: 429 Slow down.]
    qwen        | 1           | Overloaded   | result x [API Error: 500 Odd.]
    qwen        | 1           | BadCall      | result x [API Error: 404 Odd.]
    qwen        | 1           | Crashed      | result x [API Error: 400 Odd.]
    qwen        | 53          | TurnLimit    | result error_max_turns x
    acp         | 0           | TurnLimit    | begin; text Fine.; stop max_tokens
    acp         | 0           | TurnLimit    | begin; text Fine.; stop max_turn_requests
    acp         | 0           | TurnLimit    | begin; text Fine.; stop refusal
    acp         | 0           | Crashed      | begin; text Fine.; stop cancelled
    acp         | 0           | Crashed      | begin; text Fine.; stop bored
    acp         | 0           | Malformed    | begin; text Fine.; {"jsonrpc":"2.0","id":3,"result":{}}
    acp         | 0           | Malformed    | greeted; {"jsonrpc":"2.0","id":2,"result":null}
    acp         | 0           | BadCall      | {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}
    acp         | interrupted | Interrupted  | greeted
    # A field of an unexpected type is skipped, not the line.
    claude      | 0           | -            | {"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Fine.","usage":7,"total_cost_usd":"free","num_turns":null,"errors":{},"modelUsage":[]}
    codex       | 0           | -            | text Fine.; {"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":"x"}}
    gemini      | 0           | -            | text Fine.; {"type":"result","status":"success","stats":7,"error":[]}
    cline       | 0           | -            | {"type":"run_result","finishReason":"completed","text":"Fine.","usage":7,"aggregateUsage":"x","model":[]}
    amp         | 0           | -            | {"type":"result","subtype":"success","is_error":"no","result":"Fine.","usage":7,"error":[]}
    # What only stderr reports.
    claude copilot | 1        | BadCall      |       | error: unknown option '--frobnicate'
    claude      | 1           | BadCall      |       | --dangerously-skip-permissions cannot be used with root/sudo privileges
    claude      | 1           | BadCall      |       | Error: --json-schema is not valid JSON
    claude      | 1           | BadCall      |       | Error: Session ID x is already in use.
    claude      | 1           | NotLoggedIn  |       | Invalid API key · Please run /login
    codex       | 2           | BadCall      |       | @full-auto-removed
    codex       | 1           | BadCall      |       | @not-a-git-repo
    codex       | 2           | BadCall      |       | error: unexpected argument '--x' found
    codex       | 1           | BadCall      |       | No prompt provided via stdin.
    codex       | 2           | BadCall      |
    codex       | 101         | Crashed      |       | thread 'main' panicked
    gemini      | 55          | BadCall      |       | @untrusted-folder
    gemini      | 42          | BadCall      |       | @no-input
    gemini qwen | 1           | BadCall      |       | Unknown argument: frobnicate
    gemini      | 41          | NotLoggedIn  |
    gemini      | 54          | Crashed      |
    # An earlier limit does not explain a later end.
    gemini      | 1           | Crashed      | text Fine. | @quota-minute-retry
    gemini      | 0           | Malformed    | text Fine. | @quota-minute-retry
    gemini      | 0           | Malformed    | text Fine. | fetch failed
    gemini      | idle        | RateLimited  | begin | @quota-minute-retry
    gemini      | idle        | Overloaded   | begin | Attempt 3 failed with status 503. Retrying after 20000ms...
    # Not caused by the server: a tool that hangs, an answer that stopped, text after the retry.
    gemini      | idle        | IdleTimeout  | begin; tool | @quota-minute-retry
    gemini      | idle        | IdleTimeout  | begin; text Fine. | @quota-minute-retry
    gemini      | hard        | HardTimeout  | begin | @quota-minute-retry
    gemini      | idle        | IdleTimeout  | begin | Attempt 3 failed with status 503. Retrying after 20000ms...\nsomething else
    opencode    | 1           | BadCall      |       | ProviderModelNotFoundError: x
    copilot     | 1           | NotLoggedIn  |       | Error: No authentication information found.
    pi          | 1           | BadCall      |       | Error: Unknown option: --frobnicate
    pi          | 1           | NotLoggedIn  |       | No API key found for x.
    cline       | 1           | BadCall      |       | @one-word-prompt
    cline       | 1           | BadCall      |       | @stdin-only
    amp         | 1           | BadCall      |       | @no-message
    amp         | 1           | BadCall      |       | @unknown-flag
    amp         | 1           | Crashed      |       | @server-404
    aider       | 2           | BadCall      |       | aider: error: unrecognized arguments: --x
    aider       | 0           | Malformed    | begin
"#;

/// Agents, the ending, and the ways in which they report an error.
const WAYS: &str = r#"
    claude  | 1 | api %
    # The exit code adds nothing, and the reason may be only in the line before.
    codex   | 1 | fail %
    codex   | 0 | fail %
    codex   | 1 | error %; {"type":"turn.failed"}
    opencode | 1 | %
    # A contradicting exit code changes nothing.
    copilot | 1 | begin; api %; exit 1
    copilot | 0 | begin; api %; exit 0
    cline   | 1 | fail %
    amp     | 1 | fail %
    amp     | 0 | fail %
    pi      | 0 | fail %
    aider   | 0 | begin; text %; text more
    acp     | 0 | begin; error %
    acp     | 0 | greeted; closed %
"#;

/// The agent, the class, and the error.
const ERRORS: &str = r#"
    claude   | NotLoggedIn     | 401 Invalid API key
    claude   | NotLoggedIn     | 403 Forbidden
    claude   | NotLoggedIn     | 400 Credit balance is too low
    claude   | NotLoggedIn     | null Not logged in · Please run /login
    claude   | BadCall         | 404 There's an issue with the selected model (x).
    claude   | ContextExceeded | 413 Request too large
    claude   | ContextExceeded | 400 prompt is too long: 1 > 0
    claude   | Overloaded      | 500 API Error: 500
    claude   | Overloaded      | 529 Overloaded
    claude   | Unreachable     | null API Error: Connection error.
    claude   | RateLimited     | 429 API Error: Request rejected (429)
    claude   | RateLimited+7170s | 429 You've hit your 5-hour limit · resets 2:48am (UTC)
    claude   | RateLimited+7192s | null Claude AI usage limit reached|1794710902
    codex    | NotLoggedIn     | unexpected status 403 Forbidden: no, url: x
    codex    | BadCall         | unexpected status 404 Not Found: the model x, url: x
    codex    | Overloaded      | unexpected status 500 Internal Server Error: x
    codex    | Overloaded      | exceeded retry limit, last status: 503 Service Unavailable
    codex    | ContextExceeded | unexpected status 413 Payload Too Large: x
    codex    | SchemaRefused   | Invalid schema for response_format 'codex_output_schema': In context=(), x
    codex    | SchemaRefused   | unexpected status 400 Bad Request: {\"error\": {\"code\": \"invalid_json_schema\"}}
    codex    | Crashed         | unexpected status 400 Bad Request: odd
    codex    | Overloaded      | We’re currently experiencing high demand, sorry
    codex    | Unreachable     | Connection failed: error sending request
    codex    | Unreachable     | stream disconnected before completion: error sending request
    codex    | NotLoggedIn     | Your workspace is out of credits.
    codex    | NotLoggedIn     | You hit your spend cap set by the owner.
    codex    | NotLoggedIn     | To use Codex with your ChatGPT plan, upgrade to Plus: x
    codex    | RateLimited     | You've hit your usage limit. Try again later.
    codex    | RateLimited+16290s | You've hit your usage limit for x. Switch to another model now, or try again at 5:20 AM.
    codex    | Crashed         | something new
    opencode | NotLoggedIn     | api 401 Incorrect API key
    opencode | NotLoggedIn     | api 403 Forbidden
    opencode | NotLoggedIn     | body 429 insufficient_quota
    opencode | RateLimited     | api 429 Slow down
    opencode | RateLimited+60s | api 429 Try again in 60s
    opencode | BadCall         | api 404 no such model
    opencode | ContextExceeded | body 400 context_length_exceeded
    opencode | Overloaded      | api 500 boom
    opencode | Unreachable     | api null fetch failed
    opencode | Crashed         | api null odd
    copilot  | NotLoggedIn     | 401 Authentication failed
    copilot  | NotLoggedIn     | 402 No quota
    copilot  | RateLimited     | 429 Slow down
    copilot  | RateLimited+3600s | null You've hit your rate limit. Try again in 1 hour
    copilot  | ContextExceeded | 400 maximum context length is 1
    copilot  | Overloaded      | 503 x
    copilot  | Crashed         | null odd
    cline    | NotLoggedIn     | Incorrect API key provided
    cline    | NotLoggedIn     | 429 insufficient_quota
    cline    | RateLimited     | Too Many Requests
    cline    | RateLimited+20s | Rate limit reached. Please try again in 20s.
    cline    | ContextExceeded | maximum context length is 8192 tokens
    cline    | Overloaded      | 503 Service Unavailable
    cline    | BadCall         | The model `x` does not exist or you do not have access to it.
    cline    | Crashed         | something new
    amp      | NotLoggedIn     | Out of credits. Add credits to continue.
    amp      | NotLoggedIn     | API request failed: 401
    amp      | RateLimited+3600s | Rate limit reached, resets in 1h
    amp      | Overloaded      | Overloaded
    amp      | ContextExceeded | The context window is full
    amp      | Crashed         | something new
    pi       | NotLoggedIn     | 401 Incorrect API key provided: fake.
    pi       | RateLimited     | 429 Slow down
    pi       | RateLimited+60s | 429 Try again in 60s
    pi       | ContextExceeded | 400 maximum context length is 1
    pi       | BadCall         | 404 no such model
    pi       | Overloaded      | 503 x
    pi       | Unreachable     | Connection error.
    pi       | Crashed         | odd
    aider    | NotLoggedIn     | litellm.AuthenticationError: Incorrect; text API key provided: x
    aider    | RateLimited     | litellm.RateLimitError: OpenAIException - Rate limit reached
    aider    | ContextExceeded | litellm.ContextWindowExceededError: too long
    aider    | Crashed         | litellm.BadThing: odd
    acp      | RateLimited+20s | {"code":429,"message":"Too many requests, retry in 20s"}
    acp      | RateLimited+20s | {"code":-32603,"message":"Internal error","data":"rate limit, try again in 20 seconds"}
    acp      | RateLimited     | {"code":-32603,"message":"Internal error","data":{"message":"No.","codexErrorInfo":"usageLimitExceeded"}}
    acp      | Overloaded      | {"code":-32603,"message":"x","data":{"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":503}}}}
    acp      | ContextExceeded | {"code":-32603,"message":"x","data":{"codexErrorInfo":"contextWindowExceeded"}}
    acp      | NotLoggedIn     | {"code":-32000,"message":"Authentication required"}
    acp      | NotLoggedIn     | {"code":-32603,"message":"Internal error: Incorrect API key provided"}
    acp      | BadCall         | {"code":-32603,"message":"Internal error: model not found"}
    acp      | Overloaded      | {"code":500,"message":"x"}
    acp      | Crashed         | {"code":-32603,"message":"Internal error"}
    acp      | Crashed         | {}
"#;

/// The agent, the ending, a part of the message or hint, and what was on stdout and on stderr.
const MESSAGES: &str = r"
    codex    | 2    | workspace-write                                     |       | @full-auto-removed
    codex    | 1    | skip-git-repo-check                                 |       | @not-a-git-repo
    codex    | 2    | does not take `--x`                                 |       | error: unexpected argument '--x' found
    codex    | 2    | exit code 2                                         |
    gemini   | 55   | Gemini CLI is not running in a trusted              |       | @untrusted-folder
    gemini   | 55   | --skip-trust                                        |       | @untrusted-folder
    gemini   | 42   | No input provided                                   |       | @no-input
    gemini   | idle | Attempt 2 failed                                    | begin | @quota-minute-retry
    # Silence has a likely reason.
    opencode | idle | usage limit                                         |
";

/// Returns the failure of a row. What is in a recorded file begins with `@`.
fn find_failure(agent: Recorded, stream: &str, stderr: &str, ending: &str) -> Option<Failure> {
    let stderr = match stderr.strip_prefix('@') {
        Some(name) => agent.file(&format!("{name}.stderr.txt")),
        None => stderr.replace("\\n", "\n"),
    };
    agent.read(&agent.write_stream(stream), &stderr, read_ending(ending)).1.failure
}

/// Checks the class of a row, and that the message shows stderr. Adds to the list what is wrong.
fn check(wrong: &mut Vec<String>, agent: Recorded, [ending, class, stream, stderr]: [&str; 4]) {
    let failure = find_failure(agent, stream, stderr, ending);
    let found = show_class(failure.as_ref().map(|failure| &failure.class));
    let is_shown = stderr.starts_with('@')
        || ending == "idle"
        || failure.as_ref().is_none_or(|failure| failure.message.contains(stderr));
    if found != class || !is_shown {
        let kind = agent.kind.name();
        wrong.push(format!("{kind} | {ending} | {class} | {stream} | {stderr}: {failure:?}"));
    }
}

#[test]
fn each_ending_has_its_class() {
    let mut wrong = Vec::new();
    for [agents, row @ ..] in read_rows::<5>(ENDINGS) {
        for agent in select_agents(agents) {
            check(&mut wrong, agent, row);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_error_has_its_class() {
    let mut wrong = Vec::new();
    for [name, class, error] in read_rows(ERRORS) {
        let agent = select_agents(name)[0];
        let ways = read_rows::<3>(WAYS).into_iter().filter(|[agent, ..]| *agent == name);
        let ways: Vec<_> = ways.collect();
        assert!(!ways.is_empty(), "{name} has no way to report an error");
        for [_, ending, stream] in ways {
            check(&mut wrong, agent, [ending, class, &stream.replace('%', error), ""]);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn message_and_hint_name_the_reason() {
    for [agents, ending, text, stream, stderr] in read_rows(MESSAGES) {
        for agent in select_agents(agents) {
            let failure = find_failure(agent, stream, stderr, ending).expect("a failure");
            let is_named = failure.message.contains(text)
                || failure.hint.as_ref().is_some_and(|hint| hint.contains(text));
            assert!(is_named, "{text}: {failure:?}");
        }
    }
}
