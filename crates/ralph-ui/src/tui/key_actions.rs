//! Handles keys: maps a screen state and a key to a new state and an action.
//!
//! Pure. Not here: executing the action.

use ralph_model::control::ControlRequest;

use crate::tui::editor::LineEditor;
use crate::tui::facts::{LiveStatus, PendingControl};
use crate::tui::keys::TerminalKey;
use crate::tui::screen::{
    ConfirmPrompt, InputMode, Panel, PlayState, ReplaySource, ScreenState, Stopping,
};
use crate::tui::scrollback::{Direction, LineFilter};
use crate::tui::worker_panel;

/// The action that a key requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// Send a control request to the run.
    Request(ControlRequest),
    /// Send a control request, then leave the screen.
    RequestAndLeave(ControlRequest),
    /// Leave the screen; the run continues.
    Leave,
    Redraw,
    /// Show another iteration of a replay.
    Jump(Jump),
}

/// The iteration to jump to in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    Next,
    Previous,
}

/// Handles a key.
pub(crate) fn handle_key(screen: &mut ScreenState, key: &TerminalKey) -> Option<KeyAction> {
    screen.hint = None;
    screen.pressed = screen.now;
    if *key == TerminalKey::Redraw {
        return Some(KeyAction::Redraw);
    }
    match std::mem::take(&mut screen.mode) {
        InputMode::Watch => handle_watch_key(screen, key),
        // Any key closes it.
        InputMode::Help => None,
        InputMode::Ask(question) => answer_prompt(screen, question, key),
        InputMode::Note(editor) => handle_note_key(screen, editor, key),
        InputMode::Search(editor) => handle_search_key(screen, editor, key),
    }
}

fn handle_watch_key(screen: &mut ScreenState, key: &TerminalKey) -> Option<KeyAction> {
    match key {
        TerminalKey::Char(letter) => {
            handle_view_letter(screen, *letter);
            return handle_command_letter(screen, *letter);
        }
        TerminalKey::Up => scroll_panel(screen, Direction::Up, 1),
        TerminalKey::Down => scroll_panel(screen, Direction::Down, 1),
        TerminalKey::PageUp => scroll_panel(screen, Direction::Up, count_page_rows(screen)),
        TerminalKey::PageDown => scroll_panel(screen, Direction::Down, count_page_rows(screen)),
        TerminalKey::Home => scroll_to_edge(screen, Direction::Up),
        TerminalKey::End => scroll_to_edge(screen, Direction::Down),
        TerminalKey::Left | TerminalKey::Right => return handle_sideways_key(screen, key),
        TerminalKey::Tab => toggle_panel(screen),
        TerminalKey::Enter => screen.hint = worker_panel::describe_chosen(screen),
        TerminalKey::Paste(_) => {
            screen.hint = Some("press m to start a note, then paste".to_owned());
        }
        _ => {}
    }
    None
}

/// Handles letters that only affect the screen.
fn handle_view_letter(screen: &mut ScreenState, letter: char) {
    let room = screen.stream_size();
    match letter {
        '?' | 'h' => screen.mode = InputMode::Help,
        '/' => screen.mode = InputMode::Search(LineEditor::default()),
        'n' => search_again(screen, Direction::Up),
        'N' => search_again(screen, Direction::Down),
        'g' => screen.scroll.scroll_to_top(room),
        'G' => screen.scroll.follow_newest(),
        'w' => screen.chosen = worker_panel::choose_next(screen),
        'f' => set_filter(screen, screen.scroll.filter().next_filter()),
        '1'..='5' => {
            let at = letter as usize - '1' as usize;
            set_filter(screen, LineFilter::ALL[at]);
        }
        _ => {}
    }
}

/// Handles letters that control the run or the replay.
fn handle_command_letter(screen: &mut ScreenState, letter: char) -> Option<KeyAction> {
    match (letter, screen.replay) {
        ('q', Some(_)) => Some(KeyAction::Leave),
        ('q', None) => open_prompt(screen, ConfirmPrompt::Leave),
        (' ' | '+' | '-', Some(_)) => {
            control_replay(screen, letter);
            None
        }
        ('p' | 's' | 'k' | 'm', Some(deck)) if deck.source == ReplaySource::Record => {
            screen.hint = Some("this run has ended".to_owned());
            None
        }
        ('p', _) => Some(toggle_pause(screen)),
        ('s', _) => open_prompt(screen, ConfirmPrompt::Stop),
        ('k', _) => {
            let chosen = worker_panel::find_chosen(screen).cloned();
            if let Some(task) = chosen.or_else(|| screen.facts.task.clone()) {
                return open_prompt(screen, ConfirmPrompt::Skip(task));
            }
            screen.hint = Some("no task is being worked on".to_owned());
            None
        }
        ('m', _) => {
            screen.mode = InputMode::Note(LineEditor::default());
            None
        }
        (_, _) => None,
    }
}

fn open_prompt(screen: &mut ScreenState, question: ConfirmPrompt) -> Option<KeyAction> {
    screen.mode = InputMode::Ask(question);
    None
}

fn toggle_pause(screen: &mut ScreenState) -> KeyAction {
    let is_paused = matches!(screen.facts.status, LiveStatus::Paused { .. });
    match screen.facts.pending {
        PendingControl::Pause => {}
        PendingControl::Nothing | PendingControl::Stop if is_paused => {}
        PendingControl::Nothing | PendingControl::Stop => {
            screen.hint = Some("pausing after this step; p resumes".to_owned());
            screen.facts.pending = PendingControl::Pause;
            return KeyAction::Request(ControlRequest::Pause);
        }
    }
    screen.hint = Some("resuming".to_owned());
    screen.facts.pending = PendingControl::Nothing;
    KeyAction::Request(ControlRequest::Resume)
}

fn answer_prompt(
    screen: &mut ScreenState,
    question: ConfirmPrompt,
    key: &TerminalKey,
) -> Option<KeyAction> {
    let is_yes = matches!(key, TerminalKey::Char('y' | 'Y'));
    match (question, key) {
        (ConfirmPrompt::Stop, _) if is_yes => {
            screen.stopping = Stopping::AfterThisStep;
            Some(KeyAction::Request(ControlRequest::Stop))
        }
        (ConfirmPrompt::Skip(task), _) if is_yes => {
            screen.hint = Some(format!("skipping {}", crate::tasks::format_task_id(&task)));
            Some(KeyAction::Request(ControlRequest::Skip { task }))
        }
        (ConfirmPrompt::Leave, TerminalKey::Char('s')) => {
            Some(KeyAction::RequestAndLeave(ControlRequest::Stop))
        }
        (ConfirmPrompt::Leave, TerminalKey::Char('l')) => Some(KeyAction::Leave),
        (ConfirmPrompt::Stop | ConfirmPrompt::Skip(_) | ConfirmPrompt::Leave, _) => {
            screen.hint = Some("canceled".to_owned());
            None
        }
    }
}

fn handle_note_key(
    screen: &mut ScreenState,
    mut editor: LineEditor,
    key: &TerminalKey,
) -> Option<KeyAction> {
    if *key == TerminalKey::Escape {
        return None;
    }
    if *key != TerminalKey::Enter {
        editor.apply_key(key);
        screen.mode = InputMode::Note(editor);
        return None;
    }
    let text = editor.text().trim().to_owned();
    if text.is_empty() {
        return None;
    }
    if let Some(task) = worker_panel::find_chosen(screen).cloned() {
        screen.hint =
            Some(format!("sent to the worker on {}", crate::tasks::format_task_id(&task)));
        return Some(KeyAction::Request(ControlRequest::TaskNote { task, text }));
    }
    screen.hint = Some("sent to the next agent".to_owned());
    Some(KeyAction::Request(ControlRequest::Note { text }))
}

fn handle_search_key(
    screen: &mut ScreenState,
    mut editor: LineEditor,
    key: &TerminalKey,
) -> Option<KeyAction> {
    if *key == TerminalKey::Enter {
        let room = screen.stream_size();
        if !screen.scroll.search_for(editor.text(), room) && !editor.text().is_empty() {
            screen.hint = Some(format!("\"{}\" was not found", editor.text()));
        }
    } else if *key != TerminalKey::Escape {
        editor.apply_key(key);
        screen.mode = InputMode::Search(editor);
    }
    None
}

fn search_again(screen: &mut ScreenState, direction: Direction) {
    let room = screen.stream_size();
    if !screen.scroll.search_again(direction, room) {
        screen.hint = Some(match screen.scroll.query() {
            "" => "/ searches".to_owned(),
            query => format!("no more of \"{query}\""),
        });
    }
}

fn set_filter(screen: &mut ScreenState, filter: LineFilter) {
    screen.scroll.set_filter(filter);
    screen.hint = Some(format!("showing {}", filter.name()));
}

fn scroll_panel(screen: &mut ScreenState, direction: Direction, rows: usize) {
    let room = screen.stream_size();
    match (screen.focus, direction) {
        (Panel::Stream, Direction::Up) => screen.scroll.scroll_up(room, rows),
        (Panel::Stream, Direction::Down) => screen.scroll.scroll_down(room, rows),
        (Panel::List, direction) => {
            let height = measure_list_height(screen);
            let top = screen.first_row(height);
            let last = screen.facts.work.len().saturating_sub(height);
            screen.list_top = Some(match direction {
                Direction::Up => top.saturating_sub(rows),
                Direction::Down => top.saturating_add(rows).min(last),
            });
        }
    }
}

fn scroll_to_edge(screen: &mut ScreenState, direction: Direction) {
    let room = screen.stream_size();
    match (screen.focus, direction) {
        (Panel::Stream, Direction::Up) => screen.scroll.scroll_to_top(room),
        (Panel::Stream, Direction::Down) => screen.scroll.follow_newest(),
        (Panel::List, Direction::Up) => screen.list_top = Some(0),
        // Keeps the current row visible again.
        (Panel::List, Direction::Down) => screen.list_top = None,
    }
}

fn toggle_panel(screen: &mut ScreenState) {
    screen.focus = match screen.focus {
        Panel::Stream if measure_list_height(screen) > 0 => Panel::List,
        Panel::Stream | Panel::List => Panel::Stream,
    };
}

fn handle_sideways_key(screen: &mut ScreenState, key: &TerminalKey) -> Option<KeyAction> {
    match (screen.replay, key) {
        (Some(_), TerminalKey::Right) => Some(KeyAction::Jump(Jump::Next)),
        (Some(_), _) => Some(KeyAction::Jump(Jump::Previous)),
        (None, TerminalKey::Left) => {
            screen.focus = Panel::Stream;
            toggle_panel(screen);
            None
        }
        (None, _) => {
            screen.focus = Panel::Stream;
            None
        }
    }
}

fn control_replay(screen: &mut ScreenState, letter: char) {
    let Some(deck) = &mut screen.replay else { return };
    match letter {
        '+' => deck.speed = deck.speed.faster(),
        '-' => deck.speed = deck.speed.slower(),
        _ => {
            deck.play = match deck.play {
                PlayState::Playing => PlayState::Halted,
                PlayState::Halted => PlayState::Playing,
                PlayState::AtEnd => PlayState::AtEnd,
            };
        }
    }
}

fn count_page_rows(screen: &ScreenState) -> usize {
    let rows = match screen.focus {
        Panel::Stream => screen.stream_size().height,
        Panel::List => measure_list_height(screen),
    };
    // Keeps one row of the previous page visible.
    rows.saturating_sub(1).max(1)
}

fn measure_list_height(screen: &ScreenState) -> usize {
    let list = screen.layout().list;
    if list.width == 0 { 0 } else { usize::from(list.height) }
}
