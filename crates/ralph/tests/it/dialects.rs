//! Stand-ins that print like real agents: shell scripts whose body decides what to do, each in the
//! format of its agent, and that echo the prompt where the real one does. In the body, `say TEXT`
//! is a message (one line, no quotes or backslashes), `$call` is the number of the call, and
//! `../prompt` is the prompt. Each call records its arguments in `../argv`, one line per argument
//! and an empty one after them.

use ralph_testkit::sealed::Sealed;

/// Reads the prompt, counts the call and records the arguments.
const HEAD: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 9.9.9; exit; }
for argument; do printf '%s\n' "$argument"; done >> ../argv; echo >> ../argv
echo call >> ../calls
call=$(($(wc -l < ../calls)))
"#;

const FROM_STDIN: &str = "cat > ../prompt\n";

/// Cline takes its prompt as an argument, and appends stdin.
const FROM_ARGUMENT: &str = r#"for last; do :; done
{ printf '%s\n' "$last"; cat; } > ../prompt
"#;

const CLAUDE: [&str; 3] = [
    r#"echo '{"type":"system","subtype":"init","session_id":"s1","model":"m1"}'
"#,
    r#"echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"'"$last"'"}]}}'"#,
    r#"echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"'"$last"'"}'
"#,
];

const AMP: [&str; 3] = [
    r#"echo '{"type":"system","subtype":"init","cwd":"/","session_id":"T-1","tools":[],"mcp_servers":[]}'
echo '{"type":"user","message":{"role":"user","content":[{"type":"text","text":"'"$(sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/$/\\n/' ../prompt | tr -d '\n')"'"}]},"parent_tool_use_id":null,"session_id":"T-1"}'
"#,
    r#"echo '{"type":"assistant","message":{"type":"message","role":"assistant","content":[{"type":"text","text":"'"$last"'"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":5}},"parent_tool_use_id":null,"session_id":"T-1"}'"#,
    r#"echo '{"type":"result","subtype":"success","duration_ms":1,"is_error":false,"num_turns":1,"result":"'"$last"'","session_id":"T-1"}'
"#,
];

const CLINE: [&str; 3] = [
    r#"echo '{"ts":"t","type":"agent_event","event":{"type":"iteration_start","iteration":1}}'
"#,
    r#"echo '{"ts":"t","type":"agent_event","event":{"type":"content_end","contentType":"text","text":"'"$last"'"}}'"#,
    r#"echo '{"ts":"t","type":"agent_event","event":{"type":"done","reason":"completed","text":"'"$last"'","iterations":1}}'
echo '{"ts":"t","type":"run_result","finishReason":"completed","iterations":1,"durationMs":1,"text":"'"$last"'"}'
"#,
];

const CODEX: [&str; 3] = [
    r#"echo '{"type":"thread.started","thread_id":"t1"}'
echo '{"type":"turn.started"}'
"#,
    r#"echo '{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":"'"$last"'"}}'"#,
    r#"echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
"#,
];

/// Prints its prompt first.
const TEXT: [&str; 3] = ["cat ../prompt\n", r#"printf '%s\n' "$last""#, ""];

/// Writes a program on the `PATH` that prints like agents of this kind.
pub(crate) fn stand_in(sealed: &Sealed, kind: &str, program: &str, body: &str) {
    let ([begin, say, end], reads) = match kind {
        "claude" => (CLAUDE, FROM_STDIN),
        "amp" => (AMP, FROM_STDIN),
        "cline" => (CLINE, FROM_ARGUMENT),
        "codex" => (CODEX, FROM_STDIN),
        "text" => (TEXT, FROM_STDIN),
        other => panic!("no dialect `{other}`"),
    };
    let say = format!("say() {{ last=$1; {say}; }}\n");
    sealed.write_program(program, &format!("{HEAD}{reads}{begin}{say}{body}\n{end}"));
}

/// Returns the arguments of every call.
pub(crate) fn arguments(sealed: &Sealed) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(sealed.root().join("argv")).unwrap_or_default();
    let mut calls = vec![Vec::new()];
    for line in text.lines() {
        match (line, calls.last_mut()) {
            ("", _) => calls.push(Vec::new()),
            (line, Some(call)) => call.push(line.to_owned()),
            (_, None) => {}
        }
    }
    calls.pop();
    calls
}
