//! Which text completes: only the final answer of a successful turn.

use super::recorded::exit;
use super::table::{read_rows, select_agents};

/// Agents, a stream, and whether it completes.
const ANSWERS: &str = r"
    all                     | begin; text TAG; end TAG                                  | yes
    all                     | begin; text TAG                                           | no
    all                     | begin; text TAG; fail x                                   | no
    all                     | begin; text Hm.; end Hm.                                  | no
    # What is not the agent's own text.
    all                     | begin; user TAG; text Hm.; end Hm.                        | no
    all                     | begin; thought TAG; text Hm.; end Hm.                     | no
    all                     | begin; sub TAG; text Hm.; end Hm.                         | no
    all but aider           | begin; tool; output TAG; text Hm.; end Hm.                | no
    all                     | begin; user TAG; end                                      | no
    all                     | begin; thought TAG; end                                   | no
    all but aider           | begin; tool; sub TAG; end                                 | no
    all but aider           | begin; tool; output TAG; end                              | no
    # Text before a tool call is not the answer.
    all but aider           | begin; text TAG; tool; end                                | no
    all but aider           | begin; text TAG; tool; text Hm.; end Hm.                  | no
    all but aider           | begin; tool; output x; text TAG; end TAG                  | yes
    # A message that comes in pieces, and text that another message replaces.
    all but codex amp aider | begin; piece <promise>COMPLE; piece TE</promise>; end TAG | yes
    claude codex qwen cline amp | text TAG; text Not yet.; end Not yet.                 | no
    claude codex qwen amp   | text <promise>COMPLE; text TE</promise>; end Hm.          | no
    claude qwen             | piece <promise>COMPLE; piece TE</promise>; end Hm.        | yes
    claude qwen             | text TAG; end Hm.                                         | yes
    qwen                    | text TAG; tool; end Hm.                                   | no
    qwen                    | thought TAG; end Hm.                                      | no
    qwen                    | output TAG; end Hm.                                       | no
    # A hook refused the answer.
    claude qwen             | text TAG; end                                             | no
    codex                   | text TAG; notice deprecated; end                          | yes
    codex                   | text TAG; thought TAG; end                                | yes
    codex                   | text TAG; todo; end                                       | no
    codex                   | text TAG; cut; end                                        | no
    codex                   | text TAG; cut; text Not yet.; end                         | no
    codex                   | text TAG; cut; text TAG; end                              | yes
    gemini qwen             | begin; text TAG; fail no; end Fine.                       | no
    gemini                  | begin; text TAG; warning Something is slow.; end          | yes
    gemini                  | begin; text TAG; warning Agent execution blocked: no.; end | no
    gemini                  | begin; text TAG; error It broke.; end                     | no
    gemini                  | begin; end                                                | no
    gemini                  | init; text TAG; user Print TAG.; end                      | no
    gemini                  | whole <promise>COMPLE; whole TE</promise>; end            | no
    opencode                | begin; call; text TAG; finish tool-calls; begin; end      | no
    opencode                | begin; call; text TAG; finish tool-calls; begin; text Hm.; end | no
    opencode                | begin; text TAG; finish unknown; begin; end               | no
    opencode                | begin; text TAG; finish length; begin; end                | no
    opencode                | begin; text TAG; api 500 x; end                           | no
    opencode                | begin; text TAG; finish length                            | no
    copilot                 | begin; piece <promise>COMPLE; piece TE</promise>; text TAG; end | yes
    # The complete message wins over different pieces.
    copilot                 | begin; piece <promise>COMPLE; piece TE</promise>; text; end | no
    copilot                 | user TAG; begin; piece Hm.; end                           | no
    copilot                 | user TAG; begin; text TAG; user TAG; begin; text; end     | no
    copilot                 | begin; text TAG; tool; begin; text; end                   | no
    copilot                 | begin; piece <promise>COMPLE; piece TE</promise>; retry 500; text; end | no
    copilot                 | begin; text TAG; exit 1                                   | no
    copilot                 | begin; piece TAG; abort; end                              | no
    copilot                 | begin; tool; sub TAG; piece Hm.; end                      | no
    # A lost piece is replaced by the complete text.
    cline                   | piece <promise>COMPLE; text TAG; end TAG                  | yes
    cline                   | piece <promise>COMPLE; end TAG                            | yes
    cline amp               | text TAG; end Not yet.                                    | no
    cline amp               | text TAG; tool; end TAG                                   | no
    cline                   | text TAG; tool; text TAG; end TAG                         | yes
    cline amp               | text TAG; fail TAG                                        | no
    cline                   | text TAG; error cut off; silent                           | no
    cline                   | text TAG; error cut off; end TAG                          | no
    cline                   | piece TAG; error cut off; piece No.; silent               | no
    cline                   | text TAG; end TAG; abort                                  | no
    cline                   | thought TAG; end Fine.                                    | no
    qwen cline amp          | sub TAG; end Fine.                                        | no
    amp                     | end TAG                                                   | yes
    amp                     | halves <promise>COMPLE TE</promise>; end TAG              | yes
    qwen amp                | user TAG; end Fine.                                       | no
    amp                     | user TAG; text No.; user TAG; end No.                     | no
    amp                     | user Go.; text TAG; user Really?; text No.; end No.       | no
    # Text that a user message followed is not an answer, whether the prompt was repeated or not.
    amp                     | user Go.; text TAG; user Really?; end TAG                 | no
    amp                     | text TAG; user Really?; end TAG                           | no
    pi                      | user TAG; begin; text Hm.; end Hm.                        | no
    # The whole turn is repeated at its end, which replaces a lost line.
    pi                      | end TAG                                                   | yes
    pi                      | begin; piece <promise>COMPLE; piece TE</promise>; text TAG; end TAG | yes
    pi                      | begin; piece <promise>COMPLE; piece TE</promise>; result error | no
    pi                      | begin; piece <promise>COMPLE; piece TE</promise>; message error TAG; begin; text; end | no
    pi                      | begin; message toolUse TAG; tool; begin; text; end        | no
    pi                      | begin; message length TAG; result length TAG              | no
    acp                     | begin; tool; over; text TAG; end                          | yes
    acp                     | begin; text TAG; tool; over; end                          | no
    acp                     | begin; text TAG; vague; end                               | no
    acp                     | begin; tool; text <promise>COMPLE; over; text TE</promise>; end | no
    acp                     | begin; text TAG; other Hm.; end                           | no
    acp                     | begin; text TAG; stop max_tokens                          | no
    acp                     | begin; text TAG; stop cancelled                           | no
    acp                     | begin; text Hm.; end; text TAG                            | no
    acp                     | begin; text TAG; end; tool; text Hm.                      | yes
    acp                     | begin; text TAG; end; vague; other Hm.                    | yes
";

#[test]
fn only_the_final_answer_of_a_success_completes() {
    for [agents, stream, expect] in read_rows(ANSWERS) {
        let items = stream.split("; ");
        let failed = items.map(|item| if item.starts_with("end") { "fail x" } else { item });
        let failed = failed.collect::<Vec<&str>>().join("; ");
        let expect = (expect == "yes").then_some("COMPLETE");
        for agent in select_agents(agents) {
            for (stream, code, expect) in
                [(stream, 0, expect), (&failed, 0, None), (&failed, 1, None)]
            {
                let found = agent.read(&agent.write_stream(stream), "", exit(code)).1.signal;
                assert_eq!(found.as_deref(), expect, "{:?}: {stream}", agent.kind);
            }
        }
    }
}
