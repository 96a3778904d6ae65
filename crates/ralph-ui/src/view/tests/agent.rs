//! The messages and tool calls of the agent.

use expect_test::expect;
use ralph_model::agent_output::{
    RateLimitStatus, ResultStatus, TodoItem, TodoState, ToolOutcome, UsageScope,
};

use super::*;

fn text(words: &str, form: TextForm) -> AgentEvent {
    AgentEvent::Text { text: words.into(), speaker: Speaker::Agent, form }
}

fn start(id: &str, name: &str, summary: &str) -> AgentEvent {
    started(id, name, summary, Speaker::Agent)
}

fn started(id: &str, name: &str, summary: &str, speaker: Speaker) -> AgentEvent {
    AgentEvent::ToolStarted { id: id.into(), name: name.into(), summary: summary.into(), speaker }
}

fn finish(id: &str, output: &str) -> AgentEvent {
    AgentEvent::ToolEnded { id: id.into(), outcome: ToolOutcome::Ok, output: output.into() }
}

fn todo() -> AgentEvent {
    let items = [
        ("Read the file", TodoState::Done),
        ("Edit the code", TodoState::Active),
        ("Run tests", TodoState::Pending),
    ];
    AgentEvent::Todo {
        items: items.map(|(text, state)| TodoItem { text: text.into(), state }).to_vec(),
    }
}

/// A turn with most kinds of events.
fn turn() -> Vec<AgentEvent> {
    vec![
        AgentEvent::Session {
            id: Some("s-1".into()),
            model: Some("opus".into()),
            version: Some("2.1.0".into()),
        },
        text("I will look at it first.", TextForm::Message),
        start("1", "Read", "src/main.rs"),
        finish("1", "\nfn main() {\n    println!();\n}\n\n// end\n"),
        todo(),
        start("2", "Bash", "make\ntest"),
        AgentEvent::Usage { usage: usage(), scope: UsageScope::Step },
        AgentEvent::ToolEnded {
            id: "2".into(),
            outcome: ToolOutcome::Error,
            output: "boom".into(),
        },
        start("3", "Bash", "true"),
        finish("3", ""),
        AgentEvent::FileChanged { path: "src/new.rs".into() },
        AgentEvent::Notice { text: "Retrying after a server error".into() },
        AgentEvent::RateLimit {
            status: RateLimitStatus::Warning,
            resets_at: Some(START.saturating_add(Millis::from_mins(120))),
        },
        AgentEvent::Reasoning { text: "Maybe\nso.".into() },
        text("Half a ", TextForm::Delta),
        text("line,\nthen ", TextForm::Delta),
        text("more", TextForm::Delta),
        AgentEvent::Result {
            status: ResultStatus::Success,
            text: Some("line,\nthen more".into()),
            structured: None,
        },
    ]
}

#[track_caller]
fn check(events: &[AgentEvent], expect: &Expect) {
    let mut stage = Stage::new(&pipe());
    for event in events {
        stage.hear(event);
    }
    stage.view.stream.end_stream(&mut stage.view.writer);
    stage.shows(expect);
}

#[test]
fn a_message_in_pieces_keeps_the_spaces_between_them() {
    check(
        &[text("All is ", TextForm::Message), text("well.", TextForm::Delta)],
        &expect![[r#"
            All is well.
        "#]],
    );
}

#[test]
fn a_turn_is_shown_as_it_happens() {
    check(
        &turn(),
        &expect![[r#"
        Session s-1, model opus, version 2.1.0
        I will look at it first.
        ⏺ Read(src/main.rs)
        ✅ Result ← Read (6 lines, 39 chars)
          ⎿  fn main() {
                 println!();
             }
             … 2 more lines
        📋 Todo List
          ✅ Read the file
          🔄 Edit the code ← ACTIVE
          ⏸️ Run tests
          📊 Progress: 1/3 (33%)
        ⏺ Bash(make test)
        ❌ Error ← Bash (1 line, 4 chars)
          ⎿  boom
        ⏺ Bash(true)
        ✅ Result ← Bash (no output)
        📝 Changed src/new.rs
        💬 Retrying after a server error
        ⚠ The usage limit is close; it resets at Sun 01:15
        💭 Maybe so.
        Half a line,
        then more
    "#]],
    );
}

#[test]
fn without_emoji_everything_is_ascii() {
    let mut stage = Stage::with(&ascii(), &pipe(), Verbosity::Normal);
    for event in turn() {
        stage.hear(&event);
    }
    stage.view.stream.end_stream(&mut stage.view.writer);
    assert!(stage.text().is_ascii());
    stage.shows(&expect![[r#"
        Session s-1, model opus, version 2.1.0
        I will look at it first.
        * Read(src/main.rs)
        [OK] Result <- Read (6 lines, 39 chars)
          |  fn main() {
                 println!();
             }
             ... 2 more lines
        [LIST] Todo List
          [x] Read the file
          [>] Edit the code <- ACTIVE
          [ ] Run tests
          [%] Progress: 1/3 (33%)
        * Bash(make test)
        [ERR] Error <- Bash (1 line, 4 chars)
          |  boom
        * Bash(true)
        [OK] Result <- Bash (no output)
        [+] Changed src/new.rs
        [i] Retrying after a server error
        [WARN] The usage limit is close; it resets at Sun 01:15
        [~] Maybe so.
        Half a line,
        then more
    "#]]);
}

#[test]
fn a_terminal_gets_colors_that_end_with_their_line() {
    let mut stage = Stage::new(&terminal());
    for event in &turn()[2..8] {
        stage.hear(event);
    }
    stage.shows(&expect![[r#"
        ^[36m⏺^[0m ^[1mRead^[0m(src/main.rs)
        ^[32m✅^[0m Result ← Read (6 lines, 39 chars)
          ⎿  ^[2mfn main() {^[0m
             ^[2m    println!();^[0m
             ^[2m}^[0m
             ^[2m… 2 more lines^[0m
        📋 Todo List
          ^[32m✅^[0m Read the file
          ^[36m🔄^[0m ^[1mEdit the code^[0m ← ACTIVE
          ^[2m⏸️ Run tests^[0m
          📊 Progress: 1/3 (33%)
        ^[36m⏺^[0m ^[1mBash^[0m(make test)
        ^[31m❌^[0m Error ← Bash (1 line, 4 chars)
          ⎿  ^[2mboom^[0m
    "#]]);
}

#[test]
fn results_find_their_calls_side_by_side() {
    check(
        &[
            start("a", "Read", "src/one.rs"),
            start("b", "Read", "src/two.rs"),
            started("c", "Grep", "fn main", Speaker::Subagent),
            finish("b", "two"),
            finish("a", "one"),
            finish("c", "src/main.rs"),
            finish("z", "unasked call"),
        ],
        &expect![[r#"
            ⏺ Read(src/one.rs)
            ⏺ Read(src/two.rs)
              ⏺ Grep(fn main)
            ✅ Result ← Read(src/two.rs) (1 line, 3 chars)
              ⎿  two
            ✅ Result ← Read(src/one.rs) (1 line, 3 chars)
              ⎿  one
              ✅ Result ← Grep(fn main) (1 line, 11 chars)
                ⎿  src/main.rs
            ✅ Result ← unknown call (1 line, 12 chars)
              ⎿  unasked call
        "#]],
    );
}

#[test]
fn pieces_of_two_speakers_do_not_share_a_line() {
    let piece = |text: &str, speaker| AgentEvent::Text {
        text: text.into(),
        speaker,
        form: TextForm::Delta,
    };
    check(
        &[
            piece("agent ", Speaker::Agent),
            piece("speaks", Speaker::Agent),
            piece("sub", Speaker::Subagent),
            piece("agent\nspeaks\n", Speaker::Subagent),
            piece("agent again", Speaker::Agent),
            start("1", "Bash", ""),
        ],
        &expect![[r#"
            agent speaks
              subagent
              speaks
            agent again
            ⏺ Bash
        "#]],
    );
}

#[test]
fn hostile_text_does_nothing() {
    check(
        &[
            text("\x1b[2J\x1b]0;owned\x07I am\r\nfine \u{202e}lived\u{202c}", TextForm::Message),
            text("\x1b[31", TextForm::Delta),
            text("mred\n", TextForm::Delta),
            start("1\n", "Ba\x1b[1msh", "rm\n\x1b]52;c;eA==\x07 -rf"),
            finish("1\n", "a\x1bPdcs\x1b\\b\r50%\r100%\n\u{9b}2J"),
            AgentEvent::Notice { text: "one\n✅ Complete (cost: $0)".into() },
            AgentEvent::Unparsed { line: "\x1b]8;;http://x\x1b\\{\"type\":\x00".into() },
            AgentEvent::Todo {
                items: vec![TodoItem { text: "a\nb".into(), state: TodoState::Pending }],
            },
        ],
        &expect![[r#"
            I am
            fine livedmred
            ⏺ Bash(rm -rf)
            ✅ Result ← Bash (3 lines, 12 chars)
              ⎿  ab
                 50%
                 100%
            💬 one ✅ Complete (cost: $0)
            {"type":
            📋 Todo List
              ⏸️ a b
              📊 Progress: 0/1 (0%)
        "#]],
    );
}

#[test]
fn long_output_is_cut_and_says_so() {
    let wide = "日".repeat(450);
    check(
        &[
            start("1", "Read", "big.txt"),
            finish("1", &"line\n".repeat(2_000)),
            start("2", "Read", "wide.txt"),
            finish("2", &format!("{}\nsecond", &wide[..3 * 395])),
            start("3", "Read", "wider.txt"),
            finish("3", &format!("{wide}\nsecond")),
        ],
        &expect![[r#"
            ⏺ Read(big.txt)
            ✅ Result ← Read (2000 lines, 10000 chars)
              ⎿  line
                 line
                 line
                 … 1 997 more lines
            ⏺ Read(wide.txt)
            ✅ Result ← Read (2 lines, 402 chars)
              ⎿  日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日
                 secon…
            ⏺ Read(wider.txt)
            ✅ Result ← Read (2 lines, 457 chars)
              ⎿  日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日日…
                 … 1 more line
        "#]],
    );
}

#[test]
fn lines_that_are_no_events_do_not_flood() {
    let mut events = vec![AgentEvent::Unparsed { line: "npm warn".into() }; 1_254];
    events.push(text("Hello", TextForm::Message));
    events.push(AgentEvent::Unparsed { line: "once more".into() });
    let mut stage = Stage::new(&pipe());
    for event in &events {
        stage.hear(event);
    }
    let text = stage.text();
    assert_eq!(text.matches("npm warn\n").count(), 20);
    assert!(text.ends_with("npm warn\n… 1 234 more lines that are no events\nHello\nonce more\n"));
}

#[test]
fn a_final_text_is_shown_only_if_it_is_new() {
    let result = AgentEvent::Result {
        status: ResultStatus::Failed("too many turns".into()),
        text: Some("All done.".into()),
        structured: None,
    };
    check(
        &[text("Said before.", TextForm::Message), result.clone()],
        &expect![[r#"
        Said before.
        ❌ too many turns
    "#]],
    );
    check(
        &[start("1", "Bash", "ls"), finish("1", "x"), result],
        &expect![[r#"
        ⏺ Bash(ls)
        ✅ Result ← Bash (1 line, 1 char)
          ⎿  x
        ❌ too many turns
        All done.
    "#]],
    );
}

#[test]
fn a_repeated_limit_is_reported_once() {
    let news = |status| AgentEvent::RateLimit { status, resets_at: None };
    check(
        &[
            news(RateLimitStatus::Allowed),
            news(RateLimitStatus::Warning),
            news(RateLimitStatus::Warning),
            news(RateLimitStatus::Rejected),
        ],
        &expect![[r#"
            ⚠ The usage limit is close
            ⚠ The usage limit is reached
        "#]],
    );
}

/// Counts instead of keeping.
#[derive(Debug, Default)]
struct Counter {
    bytes: u64,
    lines: u64,
}

impl Write for Counter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes += piece.len() as u64;
        self.lines += piece.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_million_events_need_no_memory() {
    let options = options(&StylePreferences::default(), &pipe(), Verbosity::Normal);
    let mut view = TerminalView::new(Counter::default(), options);
    for number in 0..1_000_000_u32 {
        match number % 10 {
            // A call that never ends, as with a faulty agent.
            0 => view.show_agent_event(&start(&number.to_string(), "Read", "src/main.rs")),
            1 => view.show_agent_event(&start(&number.to_string(), "Bash", "ls")),
            2 => view.show_agent_event(&finish(&(number - 1).to_string(), "one\ntwo\n")),
            _ => view.show_agent_event(&text("word ", TextForm::Delta)),
        }
    }
    let calls = view.stream.open_calls();
    view.stream.end_stream(&mut view.writer);
    assert!(calls <= 64, "old calls are forgotten");
    assert_eq!(view.writer.written().lines, 100_000 * 6);
    assert_eq!(view.writer.written().bytes, 100_000 * 130);
}

#[test]
fn too_much_output_of_a_call_is_cut() {
    let mut stage = Stage::new(&pipe());
    stage.begin(recipe()).iterate(1).ask(1, Role::Prompt);
    let flood = text(&"x".repeat(1 << 20), TextForm::Message);
    for _ in 0..40 {
        stage.hear(&flood);
    }
    stage.answer(1, "not shown");
    let said = "… too much agent output to show: the rest is only in the raw stream";
    assert_eq!(stage.text().matches(said).count(), 1);
    assert!(!stage.text().contains("not shown"));
    assert!(stage.text().len() < 18 << 20);
    stage.ask(2, Role::Prompt).answer(2, "shown again");
    assert!(stage.text().contains("shown again"));
}
