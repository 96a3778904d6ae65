//! The visible rows of the scrollback at any scroll position.

use proptest::prelude::*;

use super::*;

const ROOM: Room = Room { width: 10, height: 3 };

fn scroll(lines: &[&str]) -> Scroll {
    let mut scroll = Scroll::default();
    for line in lines {
        scroll.push_line(Kind::Text, line);
    }
    scroll
}

fn texts(rows: Vec<(Kind, Spans)>) -> Vec<String> {
    rows.into_iter().map(|(_, row)| row.into_iter().map(|(_, text)| text).collect()).collect()
}

#[track_caller]
fn check(scroll: &Scroll, expect: &[&str]) {
    assert_eq!(texts(scroll.shown(ROOM)), expect);
}

#[test]
fn the_newest_lines_are_followed_until_the_user_scrolls_up() {
    let mut scroll = scroll(&["1", "2", "3", "4", "5", "6"]);
    check(&scroll, &["4", "5", "6"]);
    scroll.up(ROOM, 1);
    check(&scroll, &["3", "4", "5"]);
    scroll.push_line(Kind::Text, "7");
    check(&scroll, &["3", "4", "5"]);
    assert_eq!(scroll.below(), 2);
    scroll.up(ROOM, 100);
    check(&scroll, &["1", "2", "3"]);
    scroll.down(ROOM, 2);
    check(&scroll, &["3", "4", "5"]);
    scroll.follow();
    check(&scroll, &["5", "6", "7"]);
    scroll.rewind(ROOM);
    scroll.down(ROOM, 100);
    assert!(scroll.follows());
}

#[test]
fn long_lines_wrap_at_spaces_and_wide_characters_stay_whole() {
    check(&scroll(&["one two three four"]), &["one two ", "three four"]);
    check(&scroll(&["a/very/long/path"]), &["a/very/lon", "g/path"]);
    check(&scroll(&["日本語日本語"]), &["日本語日本", "語"]);
    check(&scroll(&["", "x"]), &["", "x"]);
    let mut long = scroll(&["one two three four five six seven eight nine"]);
    check(&long, &["five six ", "seven ", "eight nine"]);
    long.up(ROOM, 1);
    check(&long, &["three four", "five six ", "seven "]);
}

#[test]
fn pieces_of_a_line_are_one_line() {
    let mut scroll = Scroll::default();
    for piece in ["a", "b\nc", "\u{1b}[31md", "e\u{1b}[0mf", "\n"] {
        scroll.push(Kind::Text, piece);
    }
    check(&scroll, &["ab", "cdef"]);
    let row = scroll.shown(ROOM).remove(1).1;
    let spans = [(Paint::None, "c"), (Paint::Bad, "de"), (Paint::None, "f")];
    assert_eq!(row, spans.map(|(paint, text)| (paint, text.to_owned())));
}

#[test]
fn filters_hide_lines_and_searches_find_them() {
    let mut scroll = Scroll::default();
    for number in 0..50 {
        scroll.push_line(Kind::Text, &format!("text {number}"));
        scroll.push_line(Kind::Tool, &format!("tool {number}"));
    }
    scroll.push_line(Kind::ToolError, "oops");
    scroll.set_filter(Filter::Tools);
    check(&scroll, &["tool 48", "tool 49", "oops"]);
    scroll.set_filter(Filter::Errors);
    check(&scroll, &["oops"]);
    assert!(!scroll.search("tool", ROOM));
    scroll.set_filter(Filter::All);
    assert!(scroll.search("TEXT 1", ROOM));
    check(&scroll, &["tool 18", "text 19", "tool 19"]);
    assert!(scroll.search_on(Direction::Up, ROOM));
    check(&scroll, &["tool 17", "text 18", "tool 18"]);
    assert!(scroll.search_on(Direction::Down, ROOM));
    check(&scroll, &["tool 18", "text 19", "tool 19"]);
    assert!(!scroll.search_on(Direction::Down, ROOM));
    assert!(scroll.search("text 0", ROOM));
    check(&scroll, &["text 0", "tool 0", "text 1"]);
}

#[test]
fn memory_is_bounded_and_removed_lines_are_skipped() {
    let mut scroll = scroll(&["first"]);
    scroll.rewind(ROOM);
    scroll.up(ROOM, 1);
    for number in 0..MOST_LINES + 10 {
        scroll.push_line(Kind::Text, &number.to_string());
    }
    assert_eq!(scroll.lines.len(), MOST_LINES);
    scroll.rewind(ROOM);
    check(&scroll, &["10", "11", "12"]);
    (0..100).for_each(|_| scroll.push(Kind::Text, &"x".repeat(1_000)));
    assert_eq!(scroll.lines.back().expect("a line").length, LONGEST_LINE);
}

#[derive(Debug, Clone)]
enum ScrollAction {
    Push(String),
    Line(Kind, String),
    Up(usize),
    Down(usize),
    Top,
    Filter(Filter),
    Search(String),
    On(Direction),
}

fn action() -> impl Strategy<Value = ScrollAction> {
    let kinds = vec![Kind::Ralph, Kind::Text, Kind::Tool, Kind::ToolError, Kind::Gate];
    prop_oneof![
        any::<String>().prop_map(ScrollAction::Push),
        "[a-z 日\n]{0,40}".prop_map(ScrollAction::Push),
        (prop::sample::select(kinds), "[a-z 日]{0,40}")
            .prop_map(|(kind, it)| ScrollAction::Line(kind, it)),
        (0usize..20).prop_map(ScrollAction::Up),
        (0usize..20).prop_map(ScrollAction::Down),
        Just(ScrollAction::Top),
        prop::sample::select(Filter::ALL.to_vec()).prop_map(ScrollAction::Filter),
        "[a-z]{0,2}".prop_map(ScrollAction::Search),
        prop::sample::select(vec![Direction::Up, Direction::Down]).prop_map(ScrollAction::On),
    ]
}

proptest! {
    #[test]
    fn any_sequence_of_actions_shows_rows(
        actions in prop::collection::vec((action(), 0usize..12, 0usize..6), 0..40)
    ) {
        let mut scroll = Scroll::default();
        for (action, width, height) in actions {
            let room = Room { width, height };
            match action {
                ScrollAction::Push(text) => scroll.push(Kind::Text, &text),
                ScrollAction::Line(kind, text) => scroll.push_line(kind, &text),
                ScrollAction::Up(rows) => scroll.up(room, rows),
                ScrollAction::Down(rows) => scroll.down(room, rows),
                ScrollAction::Top => scroll.rewind(room),
                ScrollAction::Filter(filter) => scroll.set_filter(filter),
                ScrollAction::Search(query) => drop(scroll.search(&query, room)),
                ScrollAction::On(direction) => drop(scroll.search_on(direction, room)),
            }
            let shown = scroll.shown(room);
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
