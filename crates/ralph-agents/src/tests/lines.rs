//! The lines of each agent under words that all agents share, for the tables.
//!
//! `begin` opens a turn, `text` is a whole message and `piece` a part of one, `end` is the success of
//! a turn and `fail` its failure. `-` stands for no line, `= ` for other words. The rest of the words
//! are the agent's own.

pub(crate) const CLAUDE: &str = r##"
    begin   -
    user    {"type":"user","message":{"content":[{"type":"text","text":"%"}]}}
    text    {"type":"assistant","message":{"id":"#","model":"claude","content":[{"type":"text","text":"%"}]}}
    piece   {"type":"assistant","message":{"id":"p","model":"claude","content":[{"type":"text","text":"%"}]}}
    thought {"type":"assistant","message":{"id":"#","content":[{"type":"thinking","thinking":"%"}]}}
    sub     {"type":"assistant","parent_tool_use_id":"t","message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    tool    {"type":"assistant","message":{"id":"#","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,"result":"%"}
    fail    = api null %
    api     {"subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":%1,"result":"%2","num_turns":1,"type":"result"}
    stop    {"subtype":"x","is_error":true,"terminal_reason":"%","num_turns":1,"type":"result"}
    retry   {"type":"system","subtype":"api_retry","attempt":4,"max_retries":10,"error_status":%,"error":"x"}
    init    {"type":"system","subtype":"init"}
"##;

pub(crate) const CODEX: &str = r#"
    begin   -
    user    -
    text    {"type":"item.completed","item":{"id":"i","type":"agent_message","text":"%"}}
    thought {"type":"item.completed","item":{"id":"r","type":"reasoning","text":"%"}}
    sub     -
    tool    {"type":"item.completed","item":{"id":"t","type":"command_execution","command":"x","exit_code":0,"status":"completed"}}
    output  {"type":"item.completed","item":{"id":"t","type":"command_execution","command":"%","aggregated_output":"%","exit_code":0,"status":"completed"}}
    todo    {"type":"item.updated","item":{"id":"l","type":"todo_list","items":[]}}
    notice  {"type":"item.completed","item":{"id":"e","type":"error","message":"%"}}
    error   {"type":"error","message":"%"}
    cut     = error Reconnecting... 1/5 (stream disconnected)
    end     {"type":"turn.completed","usage":{"input_tokens":1}}
    fail    {"type":"turn.failed","error":{"message":"%"}}
"#;

pub(crate) const GEMINI: &str = r#"
    init    {"type":"init","session_id":"s","model":"m"}
    begin   = init; user Print TAG.
    user    {"type":"message","role":"user","content":"%"}
    text    {"type":"message","role":"assistant","content":"%","delta":true}
    piece   = text %
    whole   {"type":"message","role":"assistant","content":"%"}
    thought -
    sub     -
    tool    {"type":"tool_use","tool_name":"read_file","tool_id":"t","parameters":{}}
    output  {"type":"tool_result","tool_id":"t","status":"success","output":"%"}
    warning {"type":"error","severity":"warning","message":"%"}
    error   {"type":"error","severity":"error","message":"%"}
    end     {"type":"result","status":"success","stats":{"total_tokens":1}}
    fail    = result unknown %
    result  {"type":"result","status":"error","error":{"type":"%1","message":"%2"}}
"#;

pub(crate) const OPENCODE: &str = r#"
    begin   {"type":"step_start","sessionID":"s","part":{}}
    user    -
    text    {"type":"text","sessionID":"s","part":{"text":"%"}}
    piece   = text %
    thought -
    sub     -
    tool    = call; finish tool-calls; begin
    call    {"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"}}}}
    output  {"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"%"},"output":"%"}}}
    finish  {"type":"step_finish","sessionID":"s","part":{"reason":"%"}}
    end     = finish stop
    fail    = api null %
    api     {"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"%2","statusCode":%1,"responseBody":""}}}
    body    {"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"Quota","statusCode":%1,"responseBody":"%2"}}}
"#;

pub(crate) const COPILOT: &str = r#"
    begin   {"type":"assistant.turn_start","data":{"turnId":"0"}}
    user    {"type":"user.message","data":{"content":"%"}}
    text    {"type":"assistant.message","data":{"content":"%","toolRequests":[]}}
    piece   {"type":"assistant.message_delta","data":{"deltaContent":"%"}}
    thought -
    sub     {"type":"assistant.message","data":{"content":"%","parentToolCallId":"c"}}
    tool    {"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{}}}
    output  {"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":{"content":"%"}}}
    abort   {"type":"abort","data":{"reason":"user_initiated"}}
    retry   {"type":"model.call_failure","data":{"statusCode":%,"errorMessage":"x"}}
    end     = exit 0
    exit    {"type":"result","sessionId":"s","exitCode":%,"usage":{}}
    fail    = api null %; exit 1
    api     {"type":"session.error","data":{"errorType":"query","message":"%2","statusCode":%1}}
"#;

pub(crate) const QWEN: &str = r##"
    begin   -
    user    {"type":"user","message":{"id":"m","content":[{"type":"text","text":"%"}]}}
    text    {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    piece   {"type":"assistant","parent_tool_use_id":null,"message":{"id":"p","content":[{"type":"text","text":"%"}]}}
    thought {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"thinking","thinking":"%"}]}}
    sub     {"type":"assistant","parent_tool_use_id":"t","message":{"id":"#","content":[{"type":"text","text":"%"}]}}
    tool    {"type":"assistant","parent_tool_use_id":null,"message":{"id":"#","content":[{"type":"tool_use","id":"t","name":"edit","input":{}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"result":"%"}
    fail    = result error_during_execution %
    result  {"type":"result","subtype":"%1","is_error":true,"error":{"message":"%2"}}
"##;

pub(crate) const CLINE: &str = r#"
    begin   -
    user    -
    text    {"type":"agent_event","event":{"type":"content_end","contentType":"text","text":"%"}}
    piece   {"type":"agent_event","event":{"type":"content_start","contentType":"text","text":"%"}}
    thought {"type":"agent_event","event":{"type":"content_start","contentType":"reasoning","reasoning":"%"}}
    sub     {"parentAgentId":"a","type":"agent_event","event":{"type":"content_end","contentType":"text","text":"%"}}
    tool    {"type":"agent_event","event":{"type":"content_start","contentType":"tool","toolName":"run_commands","toolCallId":"c","input":{"commands":["ls"]}}}
    output  {"type":"agent_event","event":{"type":"content_end","contentType":"tool","toolName":"run_commands","toolCallId":"c","output":"%"}}
    step    {"type":"agent_event","event":{"type":"iteration_start","iteration":2}}
    error   {"type":"agent_event","event":{"type":"error","error":{"message":"%"}}}
    auth    {"type":"agent_event","event":{"type":"error","error":{"message":"%"},"errorClass":"auth"}}
    abort   {"type":"run_aborted","message":"aborted"}
    end     = result completed %
    fail    = result error %
    result  {"type":"run_result","finishReason":"%1","text":"%2"}
    silent  {"type":"run_result","finishReason":"completed"}
"#;

pub(crate) const AMP: &str = r#"
    begin   -
    user    {"type":"user","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":null}
    text    {"type":"assistant","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":null}
    halves  {"type":"assistant","message":{"content":[{"type":"text","text":"%1"},{"type":"text","text":"%2"}]},"parent_tool_use_id":null}
    thought {"type":"assistant","message":{"content":[{"type":"thinking","thinking":"%"}]},"parent_tool_use_id":null}
    sub     {"type":"assistant","message":{"content":[{"type":"text","text":"%"}]},"parent_tool_use_id":"t"}
    tool    {"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"cmd":"ls"}}]}}
    output  {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"%"}]}}
    end     {"type":"result","subtype":"success","is_error":false,"result":"%"}
    fail    = result error_during_execution %
    result  {"type":"result","subtype":"%1","is_error":true,"error":"%2"}
"#;

pub(crate) const PI: &str = r#"
    begin   {"type":"message_start","message":{"role":"assistant","content":[]}}
    user    {"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"%"}]}}
    text    = message stop %
    message {"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"%2"}],"stopReason":"%1"}}
    piece   {"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"%"}}
    thought -
    sub     -
    tool    {"type":"tool_execution_start","toolCallId":"c","toolName":"write","args":{"path":"a"}}
    output  {"type":"tool_execution_end","toolCallId":"c","toolName":"write","result":{"content":[{"type":"text","text":"%"}]},"isError":false}
    retry   {"type":"auto_retry_start","errorMessage":"%"}
    end     = result stop %
    result  {"type":"agent_end","messages":[{"role":"assistant","content":[{"type":"text","text":"%2"}],"stopReason":"%1"}]}
    fail    {"type":"agent_end","messages":[{"role":"assistant","content":[],"stopReason":"error","errorMessage":"%"}]}
"#;

pub(crate) const AIDER: &str = r"
    begin   = head; map
    head    Aider v0.86.2
    map     Repo-map: using 1024 tokens, auto refresh
    user    -
    text    %
    thought -
    sub     -
    wait    Retrying in 0.2 seconds...
    edit    Applied edit to a.txt
    end     Tokens: 1.2k sent, 7 received. Cost: $0.0020 message, $0.01 session.
    fail    %
";

pub(crate) const ACP: &str = r#"
    begin   = greeted; opened
    greeted {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
    opened  {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}
    user    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"%"}}}}
    text    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%"}}}}
    piece   = text %
    other   {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"2","content":{"type":"text","text":"%"}}}}
    thought {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"%"}}}}
    sub     -
    tool    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"in_progress"}}}
    over    {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"completed"}}}
    vague   {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"v","status":"pending","rawInput":{}}}}
    output  {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"%"}}]}}}
    end     = stop end_turn
    stop    {"jsonrpc":"2.0","id":3,"result":{"stopReason":"%"}}
    fail    = error {"code":-32603,"message":"%"}
    error   {"jsonrpc":"2.0","id":3,"error":%}
    closed  {"jsonrpc":"2.0","id":2,"error":%}
"#;
