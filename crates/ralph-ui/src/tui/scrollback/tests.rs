//! The visible rows of the scrollback at any scroll position.

use proptest::prelude::*;

use super::*;

const ROOM: PanelSize = PanelSize { width: 10, height: 3 };

fn scroll(lines: &[&str]) -> Scrollback {
    let mut scroll = Scrollback::default();
    for line in lines {
        scroll.push_line(LineKind::Text, line);
    }
    scroll
}

fn texts(rows: Vec<Spans>) -> Vec<String> {
    rows.into_iter().map(|row| row.into_iter().map(|(_, text)| text).collect()).collect()
}

#[track_caller]
fn check(scroll: &Scrollback, expect: &[&str]) {
    assert_eq!(texts(scroll.visible_rows(ROOM)), expect);
}

#[test]
fn the_newest_lines_are_followed_until_the_user_scrolls_up() {
    let mut scroll = scroll(&["1", "2", "3", "4", "5", "6"]);
    check(&scroll, &["4", "5", "6"]);
    scroll.scroll_up(ROOM, 1);
    check(&scroll, &["3", "4", "5"]);
    scroll.push_line(LineKind::Text, "7");
    check(&scroll, &["3", "4", "5"]);
    assert_eq!(scroll.lines_below(), 2);
    scroll.scroll_up(ROOM, 100);
    check(&scroll, &["1", "2", "3"]);
    scroll.scroll_down(ROOM, 2);
    check(&scroll, &["3", "4", "5"]);
    scroll.follow_newest();
    check(&scroll, &["5", "6", "7"]);
    scroll.scroll_to_top(ROOM);
    scroll.scroll_down(ROOM, 100);
    assert!(scroll.is_following());
}

#[test]
fn long_lines_wrap_at_spaces_and_wide_characters_stay_whole() {
    check(&scroll(&["one two three four"]), &["one two ", "three four"]);
    check(&scroll(&["a/very/long/path"]), &["a/very/lon", "g/path"]);
    check(&scroll(&["日本語日本語"]), &["日本語日本", "語"]);
    check(&scroll(&["", "x"]), &["", "x"]);
    let mut long = scroll(&["one two three four five six seven eight nine"]);
    check(&long, &["five six ", "seven ", "eight nine"]);
    long.scroll_up(ROOM, 1);
    check(&long, &["three four", "five six ", "seven "]);
}

#[test]
fn pieces_of_a_line_are_one_line() {
    let mut scroll = Scrollback::default();
    for piece in ["a", "b\nc", "\u{1b}[31md", "e\u{1b}[0mf", "\n"] {
        scroll.push_text(LineKind::Text, piece);
    }
    check(&scroll, &["ab", "cdef"]);
    let row = scroll.visible_rows(ROOM).remove(1);
    let spans = [(Paint::None, "c"), (Paint::Bad, "de"), (Paint::None, "f")];
    assert_eq!(row, spans.map(|(paint, text)| (paint, text.to_owned())));
}

#[test]
fn filters_hide_lines_and_searches_find_them() {
    let mut scroll = Scrollback::default();
    for number in 0..50 {
        scroll.push_line(LineKind::Text, &format!("text {number}"));
        scroll.push_line(LineKind::Tool, &format!("tool {number}"));
    }
    scroll.push_line(LineKind::ToolError, "oops");
    scroll.set_filter(LineFilter::Tools);
    check(&scroll, &["tool 48", "tool 49", "oops"]);
    scroll.set_filter(LineFilter::Errors);
    check(&scroll, &["oops"]);
    assert!(!scroll.search_for("tool", ROOM));
    scroll.set_filter(LineFilter::All);
    assert!(scroll.search_for("TEXT 1", ROOM));
    check(&scroll, &["tool 18", "text 19", "tool 19"]);
    assert!(scroll.search_again(Direction::Up, ROOM));
    check(&scroll, &["tool 17", "text 18", "tool 18"]);
    assert!(scroll.search_again(Direction::Down, ROOM));
    check(&scroll, &["tool 18", "text 19", "tool 19"]);
    assert!(!scroll.search_again(Direction::Down, ROOM));
    assert!(scroll.search_for("text 0", ROOM));
    check(&scroll, &["text 0", "tool 0", "text 1"]);
}

#[test]
fn memory_is_bounded_and_removed_lines_are_skipped() {
    let mut scroll = scroll(&["first"]);
    scroll.scroll_to_top(ROOM);
    scroll.scroll_up(ROOM, 1);
    for number in 0..MOST_LINES + 10 {
        scroll.push_line(LineKind::Text, &number.to_string());
    }
    assert_eq!(scroll.lines.len(), MOST_LINES);
    scroll.scroll_to_top(ROOM);
    check(&scroll, &["10", "11", "12"]);
    (0..100).for_each(|_| scroll.push_text(LineKind::Text, &"x".repeat(1_000)));
    assert_eq!(scroll.lines.back().expect("a line").length, LONGEST_LINE);
}

#[derive(Debug, Clone)]
enum ScrollAction {
    Push(String),
    Line(LineKind, String),
    Up(usize),
    Down(usize),
    Top,
    Filter(LineFilter),
    Search(String),
    On(Direction),
}

fn action() -> impl Strategy<Value = ScrollAction> {
    let kinds =
        vec![LineKind::Ralph, LineKind::Text, LineKind::Tool, LineKind::ToolError, LineKind::Gate];
    prop_oneof![
        any::<String>().prop_map(ScrollAction::Push),
        "[a-z 日\n]{0,40}".prop_map(ScrollAction::Push),
        (prop::sample::select(kinds), "[a-z 日]{0,40}")
            .prop_map(|(kind, it)| ScrollAction::Line(kind, it)),
        (0usize..20).prop_map(ScrollAction::Up),
        (0usize..20).prop_map(ScrollAction::Down),
        Just(ScrollAction::Top),
        prop::sample::select(LineFilter::ALL.to_vec()).prop_map(ScrollAction::Filter),
        "[a-z]{0,2}".prop_map(ScrollAction::Search),
        prop::sample::select(vec![Direction::Up, Direction::Down]).prop_map(ScrollAction::On),
    ]
}

proptest! {
    #[test]
    fn any_sequence_of_actions_shows_rows(
        actions in prop::collection::vec((action(), 0usize..12, 0usize..6), 0..40)
    ) {
        let mut scroll = Scrollback::default();
        for (action, width, height) in actions {
            let room = PanelSize { width, height };
            match action {
                ScrollAction::Push(text) => scroll.push_text(LineKind::Text, &text),
                ScrollAction::Line(kind, text) => scroll.push_line(kind, &text),
                ScrollAction::Up(rows) => scroll.scroll_up(room, rows),
                ScrollAction::Down(rows) => scroll.scroll_down(room, rows),
                ScrollAction::Top => scroll.scroll_to_top(room),
                ScrollAction::Filter(filter) => scroll.set_filter(filter),
                ScrollAction::Search(query) => drop(scroll.search_for(&query, room)),
                ScrollAction::On(direction) => drop(scroll.search_again(direction, room)),
            }
            let shown = scroll.visible_rows(room);
            prop_assert!(shown.len() <= height);
            let is_there = scroll.lines.iter().any(|entry| scroll.filter.shows(entry.kind));
            prop_assert_eq!(shown.is_empty(), !is_there || height == 0);
            for row in texts(shown) {
                let span = Span::raw(row.as_str());
                let cells = span.styled_graphemes(Style::new());
                let columns: u16 = cells.map(|cell| cell.symbol.cell_width()).sum();
                prop_assert!(usize::from(columns) <= width.max(1), "{:?}", row);
            }
        }
    }
}
