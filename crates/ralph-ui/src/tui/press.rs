//! Handles keys: maps a screen state and a key to a new state and an action.
//!
//! Pure. Not here: executing the action.

use ralph_core::control::Wish;

use crate::tui::editor::Editor;
use crate::tui::facts::{Standing, Wanted};
use crate::tui::keys::Key;
use crate::tui::screen::{Layout, Mode, Panel, Play, Question, Screen, Source, Stopping};
use crate::tui::scroll::{Direction, Filter};

/// The action that a key requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Send a control request to the run.
    Wish(Wish),
    /// Send a control request, then leave the screen.
    WishAndLeave(Wish),
    /// Leave the screen; the run continues.
    Leave,
    /// Redraw everything.
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
pub(crate) fn press(screen: &mut Screen, key: &Key) -> Option<Deed> {
    screen.hint = None;
    screen.pressed = screen.now;
    if *key == Key::Redraw {
        return Some(Deed::Redraw);
    }
    match std::mem::take(&mut screen.mode) {
        Mode::Watch => watch(screen, key),
        // Any key closes it.
        Mode::Help => None,
        Mode::Ask(question) => answer(screen, question, key),
        Mode::Note(editor) => note(screen, editor, key),
        Mode::Search(editor) => search(screen, editor, key),
    }
}

fn watch(screen: &mut Screen, key: &Key) -> Option<Deed> {
    match key {
        Key::Char(letter) => {
            letter_pressed(screen, *letter);
            return command(screen, *letter);
        }
        Key::Up => scroll(screen, Direction::Up, 1),
        Key::Down => scroll(screen, Direction::Down, 1),
        Key::PageUp => scroll(screen, Direction::Up, page(screen)),
        Key::PageDown => scroll(screen, Direction::Down, page(screen)),
        Key::Home => to_edge(screen, Direction::Up),
        Key::End => to_edge(screen, Direction::Down),
        Key::Left | Key::Right => return sideways(screen, key),
        Key::Tab => turn(screen),
        Key::Escape
        | Key::Enter
        | Key::Backspace
        | Key::Delete
        | Key::Clear
        | Key::WordBack
        | Key::Redraw => {}
        Key::Paste(_) => screen.hint = Some("press m to start a note, then paste".to_owned()),
    }
    None
}

/// Handles letters that only affect the screen.
fn letter_pressed(screen: &mut Screen, letter: char) {
    let room = screen.room();
    match letter {
        '?' | 'h' => screen.mode = Mode::Help,
        '/' => screen.mode = Mode::Search(Editor::default()),
        'n' => search_on(screen, Direction::Up),
        'N' => search_on(screen, Direction::Down),
        'g' => screen.scroll.rewind(room),
        'G' => screen.scroll.follow(),
        'f' => set_filter(screen, screen.scroll.filter().next()),
        '1'..='5' => {
            let at = letter as usize - '1' as usize;
            set_filter(screen, Filter::ALL[at]);
        }
        _ => {}
    }
}

/// Handles letters that control the run or the replay.
fn command(screen: &mut Screen, letter: char) -> Option<Deed> {
    match (letter, screen.deck) {
        ('q', Some(_)) => Some(Deed::Leave),
        ('q', None) => ask(screen, Question::Leave),
        (' ' | '+' | '-', Some(_)) => {
            play(screen, letter);
            None
        }
        ('p' | 's' | 'k' | 'm', Some(deck)) if deck.source == Source::Record => {
            screen.hint = Some("this run is over".to_owned());
            None
        }
        ('p', _) => Some(pause(screen)),
        ('s', _) => ask(screen, Question::Stop),
        ('k', _) => {
            if let Some(task) = screen.facts.task.clone() {
                return ask(screen, Question::Skip(task));
            }
            screen.hint = Some("no task is being worked on".to_owned());
            None
        }
        ('m', _) => {
            screen.mode = Mode::Note(Editor::default());
            None
        }
        (_, _) => None,
    }
}

fn ask(screen: &mut Screen, question: Question) -> Option<Deed> {
    screen.mode = Mode::Ask(question);
    None
}

fn pause(screen: &mut Screen) -> Deed {
    let is_paused = matches!(screen.facts.standing, Standing::Paused { .. });
    match screen.facts.asked {
        Wanted::Pause => {}
        Wanted::Nothing | Wanted::Stop if is_paused => {}
        Wanted::Nothing | Wanted::Stop => {
            screen.hint = Some("pausing after this step; p resumes".to_owned());
            screen.facts.asked = Wanted::Pause;
            return Deed::Wish(Wish::Pause);
        }
    }
    screen.hint = Some("resuming".to_owned());
    screen.facts.asked = Wanted::Nothing;
    Deed::Wish(Wish::GoOn)
}

fn answer(screen: &mut Screen, question: Question, key: &Key) -> Option<Deed> {
    let is_yes = matches!(key, Key::Char('y' | 'Y'));
    match (question, key) {
        (Question::Stop, _) if is_yes => {
            screen.stopping = Stopping::AfterThisStep;
            Some(Deed::Wish(Wish::Stop))
        }
        (Question::Skip(task), _) if is_yes => {
            screen.hint = Some(format!("skipping {}", crate::tasks::name(&task)));
            Some(Deed::Wish(Wish::Skip { task }))
        }
        (Question::Leave, Key::Char('s')) => Some(Deed::WishAndLeave(Wish::Stop)),
        (Question::Leave, Key::Char('l')) => Some(Deed::Leave),
        (Question::Stop | Question::Skip(_) | Question::Leave, _) => {
            screen.hint = Some("canceled".to_owned());
            None
        }
    }
}

fn note(screen: &mut Screen, mut editor: Editor, key: &Key) -> Option<Deed> {
    if *key == Key::Escape {
        return None;
    }
    if *key != Key::Enter {
        editor.press(key);
        screen.mode = Mode::Note(editor);
        return None;
    }
    let text = editor.text().trim().to_owned();
    if text.is_empty() {
        return None;
    }
    screen.hint = Some("sent to the next agent".to_owned());
    Some(Deed::Wish(Wish::Note { text }))
}

fn search(screen: &mut Screen, mut editor: Editor, key: &Key) -> Option<Deed> {
    if *key == Key::Enter {
        let room = screen.room();
        if !screen.scroll.search(editor.text(), room) && !editor.text().is_empty() {
            screen.hint = Some(format!("\"{}\" is not there", editor.text()));
        }
    } else if *key != Key::Escape {
        editor.press(key);
        screen.mode = Mode::Search(editor);
    }
    None
}

fn search_on(screen: &mut Screen, direction: Direction) {
    let room = screen.room();
    if !screen.scroll.search_on(direction, room) {
        screen.hint = Some(match screen.scroll.query() {
            "" => "/ searches".to_owned(),
            query => format!("no more of \"{query}\""),
        });
    }
}

fn set_filter(screen: &mut Screen, filter: Filter) {
    screen.scroll.set_filter(filter);
    screen.hint = Some(format!("showing {}", filter.name()));
}

fn scroll(screen: &mut Screen, direction: Direction, rows: usize) {
    let room = screen.room();
    match (screen.focus, direction) {
        (Panel::Stream, Direction::Up) => screen.scroll.up(room, rows),
        (Panel::Stream, Direction::Down) => screen.scroll.down(room, rows),
        (Panel::List, direction) => {
            let height = list_height(screen);
            let top = screen.first_row(height);
            let last = screen.facts.work.len().saturating_sub(height);
            screen.list_top = Some(match direction {
                Direction::Up => top.saturating_sub(rows),
                Direction::Down => top.saturating_add(rows).min(last),
            });
        }
    }
}

fn to_edge(screen: &mut Screen, direction: Direction) {
    let room = screen.room();
    match (screen.focus, direction) {
        (Panel::Stream, Direction::Up) => screen.scroll.rewind(room),
        (Panel::Stream, Direction::Down) => screen.scroll.follow(),
        (Panel::List, Direction::Up) => screen.list_top = Some(0),
        // Keeps the current row visible again.
        (Panel::List, Direction::Down) => screen.list_top = None,
    }
}

fn turn(screen: &mut Screen) {
    screen.focus = match screen.focus {
        Panel::Stream if list_height(screen) > 0 => Panel::List,
        Panel::Stream | Panel::List => Panel::Stream,
    };
}

fn sideways(screen: &mut Screen, key: &Key) -> Option<Deed> {
    match (screen.deck, key) {
        (Some(_), Key::Right) => Some(Deed::Jump(Jump::Next)),
        (Some(_), _) => Some(Deed::Jump(Jump::Previous)),
        (None, Key::Left) => {
            screen.focus = Panel::Stream;
            turn(screen);
            None
        }
        (None, _) => {
            screen.focus = Panel::Stream;
            None
        }
    }
}

fn play(screen: &mut Screen, letter: char) {
    let Some(deck) = &mut screen.deck else { return };
    match letter {
        '+' => deck.speed = deck.speed.faster(),
        '-' => deck.speed = deck.speed.slower(),
        _ => {
            deck.play = match deck.play {
                Play::On => Play::Halted,
                Play::Halted => Play::On,
                Play::AtEnd => Play::AtEnd,
            };
        }
    }
}

fn page(screen: &Screen) -> usize {
    let rows = match screen.focus {
        Panel::Stream => screen.room().height,
        Panel::List => list_height(screen),
    };
    // Keeps one row of the previous page visible.
    rows.saturating_sub(1).max(1)
}

fn list_height(screen: &Screen) -> usize {
    let list = Layout::of(screen.size).list;
    if list.width == 0 { 0 } else { usize::from(list.height) }
}
