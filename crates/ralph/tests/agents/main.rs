//! Whole runs with the real agent CLIs, at the versions of the lock file beside this one, against
//! scripted models on loopback: dummy keys, a home of their own, no network.

mod cli;
mod configured;
mod hooks;
mod instructions;
mod isolated;
mod memory;
mod parallel;
mod plugin;
mod review;
mod scenes;
mod specs;
mod stage;
mod state;

/// Makes a test of each scene that a CLI plays: those of all CLIs, and its own.
macro_rules! plays {
    ($($module:ident as $cli:ident { $($own:ident,)* })*) => { $(
        mod $module {
            plays!(@each $cli:
                tools_work_and_only_the_final_answer_completes,
                failing_servers_are_asked_again,
                a_refused_key_stops_the_run,
                silence_ends_the_tree_and_the_loop_continues,
                the_second_signal_ends_the_tree,
                $($own,)*
            );
        }
    )* };
    (@each $cli:ident: $($scene:ident,)*) => { $(
        #[test]
        fn $scene() {
            crate::scenes::$scene(crate::cli::Cli::$cli);
        }
    )* };
}

// What differs from CLI to CLI, and why:
//
// - Only Claude Code and Codex report when a limit resets, and have an option not to repeat requests
//   themselves. Gemini CLI and pi give up at a limit without telling a reset. Of the others a
//   short limit is their own business; at a long one they repeat without a word, for longer than
//   a test can wait, until the idle limit ends them as it does in the scene of silence.
// - Gemini CLI repeats a broken stream in the same turn and joins the words of both attempts
//   without a mark between them, so a tag in lost words cannot be distinguished from one in the answer.
// - A start of the others costs three to six seconds of a processor: they show the plain answer
//   and the process that is left in scenes of other things. An approval without evidence shows their
//   follow-up question; a review in prose is for those that treat prose in a way of their own, and
//   Codex. After the first signal nothing depends on the CLI but whether it ends its own commands:
//   one of those that run on Node shows it for all.
plays! {
    claude as Claude {
        a_review_in_prose_gets_a_follow_up_question,
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_task_is_handed_over_as_it_was_asked_for,
        an_answer_completes_the_work,
        the_first_signal_lets_the_agent_finish,
        what_is_left_running_is_ended_and_said,
        a_usage_limit_is_waited_for,
        a_limit_without_a_reset_is_waited_for,
        a_broken_stream_completes_nothing,
    }
    codex as Codex {
        a_review_in_prose_gets_a_follow_up_question,
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_task_is_handed_over_as_it_was_asked_for,
        a_task_is_built_and_reviewed_under_schemas_that_the_api_takes,
        a_refused_schema_is_asked_for_in_words,
        an_answer_completes_the_work,
        the_first_signal_lets_the_agent_finish,
        what_is_left_running_is_ended_and_said,
        a_usage_limit_is_waited_for,
        a_limit_without_a_reset_is_waited_for,
        a_broken_stream_completes_nothing,
    }
    gemini as Gemini {
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_task_is_handed_over_as_it_was_asked_for,
        the_first_signal_lets_the_agent_finish,
        a_limit_without_a_reset_is_waited_for,
        a_broken_stream_is_repeated,
    }
    qwen as Qwen {
        a_review_in_prose_gets_a_follow_up_question,
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_broken_stream_completes_nothing,
    }
    opencode as Opencode {
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_broken_stream_completes_nothing,
    }
    cline as Cline {
        a_review_in_prose_gets_a_follow_up_question,
        a_broken_stream_completes_nothing,
    }
    copilot as Copilot {
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_broken_stream_completes_nothing,
    }
    pi as Pi {
        a_follow_up_continues_the_session,
        a_follow_up_to_a_lost_session_quotes_the_answer,
        a_limit_without_a_reset_is_waited_for,
        a_broken_stream_completes_nothing,
        an_answer_without_an_end_completes_nothing,
    }
}
