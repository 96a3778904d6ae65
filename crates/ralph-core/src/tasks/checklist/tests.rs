//! Texts as agents write them, and as they should not.

use proptest::prelude::*;

use super::*;

/// Writes the items down as `o` or `x` and their words.
fn read(text: &str) -> Vec<String> {
    let checklist = Checklist::read(text);
    let counts = checklist.counts();
    let shown = checklist.items.iter().map(|item| match item.mark {
        Mark::Open => format!("o {}", item.text),
        Mark::Done => format!("x {}", item.text),
        Mark::Person => format!("? {}", item.text),
    });
    assert_eq!(counts.total() as usize, checklist.items.len(), "{text:?}");
    assert_eq!(counts.open as usize, checklist.open().count(), "{text:?}");
    shown.collect()
}

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    assert_eq!(read(text), expect, "{text:?}");
    let text = text.replace('\n', "\r\n");
    assert_eq!(read(&text), expect, "{text:?}");
}

#[test]
fn boxes_of_every_list_are_read() {
    check("- [ ] a\n* [x] b\n+ [X] c", &["o a", "x b", "x c"]);
    check("1. [ ] a\n2) [x] b\n123456789. [ ] c", &["o a", "x b", "o c"]);
    check("  - [ ] a\n\t- [x] b\n        - [ ] c", &["o a", "x b", "o c"]);
    check("> - [ ] a\n>> 1. [x] b\n> > * [ ] c\n- > - [ ] d", &["o a", "x b", "o c", "o d"]);
    check("- - [ ] a\n1. * [x] b", &["o a", "x b"]);
    check("\u{feff}- [ ] a", &["o a"]);
    check("-   [ ]\t a  b\t\n-\t[x]   c ", &["o a b", "x c"]);
    check("- [ ] **a** `b` [c](d)", &["o **a** `b` [c](d)"]);
    assert_eq!(read("- [ ] a\r- [x] b\r"), ["o a", "x b"], "old ends of lines");
}

#[test]
fn items_for_a_person_are_neither_open_nor_done() {
    check("- [?] a: a key\n- [x] b\n1. [?] c", &["? a: a key", "x b", "? c"]);
    check("        - [?] a", &["? a"]);
    check("```\n- [?] b", &["? b"]);
    check("```\n- [?] a\n```\n- [?]b\n- a [?] b\n- [?](link)\n- [??] c", &[]);
    let counts = Checklist::read("- [?] a\n- [?] b\n- [x] c\n- [ ] why [?]").counts();
    assert_eq!((counts.open, counts.done, counts.person), (1, 1, 2));
}

#[test]
fn what_only_looks_like_a_box_is_not_read() {
    for text in [
        "",
        "[ ] a",
        "-[ ] a",
        "- []",
        "- [] a",
        "- [ ]a",
        "- [x](link)",
        "- [xx] a",
        "- [y] a",
        "- [ ]",
        "- [ ]  ",
        "- [x] \u{a0}",
        "1234567890. [ ] a",
        "1 [ ] a",
        "a) [ ] b",
        "- a [ ] b",
        "| [ ] | a |",
        "# [ ] a",
        "* * *",
        "- > [ ] a",
        "- [ ] <!-- only a note -->",
        "[ ]: /url",
    ] {
        check(text, &[]);
    }
}

#[test]
fn code_is_no_list() {
    check("```\n- [ ] a\n```\n- [ ] b", &["o b"]);
    check("~~~ md\n- [ ] a\n~~~\n- [ ] b", &["o b"]);
    check("```md\n- [ ] a\n~~~\n- [ ] b\n```", &[]);
    check("````\n```\n- [ ] a\n```\n`````  \n- [ ] b", &["o b"]);
    check("```\n``` md\n- [ ] a\n```\n- [ ] b", &["o b"]);
    check("- [ ] a\n  ```\n  - [ ] b\n  ```\n- [x] c", &["o a", "x c"]);
    check("1. ```\n   - [ ] a\n   ```\n2. [ ] b", &["o b"]);
    check("> ```\n> - [ ] a\n> ```\n> - [ ] b", &["o b"]);
    check("```\n<!--\n```\n- [ ] a\n-->", &["o a"]);
    check("``` `not a fence\n- [ ] a\n```\n- [x] b", &["o a", "x b"]);
    check("~~~ `a fence\n- [ ] a\n~~~", &[]);
    check("``\n- [ ] a\n``", &["o a"]);
}

#[test]
fn comments_are_no_list() {
    check("<!--\n- [ ] a\n-->\n- [ ] b", &["o b"]);
    check("<!-- - [ ] a -->\n- [ ] b", &["o b"]);
    check("<!-->\n- [ ] a\n-->", &["o a"]);
    check("- <!--\n  - [ ] a\n  -->\n- [ ] b", &["o b"]);
    check("<!--\n```\n-->\n- [ ] a\n```\n- [x] b\n```", &["o a"]);
    check("- [ ] a <!-- id: 7 -->\n- [x] `<!-- b -->`", &["o a", "x `<!-- b -->`"]);
    // A list item begins whatever the line before it left open.
    check(
        "- [ ] strip `<!--`\n- [ ] a\n- [x] strip `-->`",
        &["o strip `<!--`", "o a", "x strip `-->`"],
    );
}

#[test]
fn unclosed_blocks_hide_nothing() {
    check("```\n- [ ] a", &["o a"]);
    check("- [x] a\n````\n- [ ] b\n```", &["x a", "o b"]);
    check("<!--\n- [ ] a", &["o a"]);
    check("--> <!--\n- [ ] a", &["o a"]);
    check("-->\n<!--\n- [ ] a", &["o a"]);
    check("```\na\n```\n```\n- [ ] b", &["o b"]);
}

#[test]
fn what_is_struck_through_is_not_to_be_done() {
    check("- [ ] ~~a~~\n- [x] ~~b~~ (not needed)\n- [ ] ~~c~~ — d has it\n- ~~[ ] e~~", &[]);
    check("- [ ] ~~a~~ b\n- [ ] ~~c\n- [x] ~~d~~ **e**", &["o ~~a~~ b", "o ~~c", "x ~~d~~ **e**"]);
}

#[test]
fn long_plans_are_counted_whole_and_kept_in_part() {
    let plan = "- [ ] a\n- [x] b\n".repeat(MOST_ITEMS);
    let checklist = Checklist::read(&plan);
    assert_eq!(checklist.items.len(), MOST_ITEMS);
    assert_eq!(checklist.counts(), Counts { open: 10_000, done: 10_000, person: 0 });
    let long = Checklist::read(&format!("- [ ] {}", "ä".repeat(1_000_000)));
    assert_eq!(long.items[0].text, format!("{}…", "ä".repeat(LONGEST_TEXT)));
}

/// Each of these takes minutes if something is searched again on every line.
#[test]
fn hostile_texts_take_no_longer_than_others() {
    const SIZE: usize = 1 << 18;
    let fences = |mark: &str, lengths: &mut dyn Iterator<Item = usize>| {
        lengths.map(|length| mark.repeat(length)).collect::<Vec<_>>().join("a\n")
    };
    let (growing, falling) = (fences("`", &mut (3..600)), fences("~", &mut (3..600).rev()));
    for (text, items) in [
        ("```a\n".repeat(SIZE / 5), 0),
        (growing, 0),
        (format!("{falling}a\n{}", "~~~\n".repeat(SIZE / 4)), 0),
        ("<!--\n".repeat(SIZE / 5), 0),
        ("<!--".repeat(SIZE / 4), 0),
        (format!("- [ ] {}-->", "<!-- ".repeat(SIZE / 5)), 1),
        (format!("- [ ] {}", "-->".repeat(SIZE / 3)), 1),
        ("- ".repeat(SIZE / 2), 0),
        ("> ".repeat(SIZE / 2), 0),
        ("1".repeat(SIZE), 0),
        ("\n".repeat(SIZE), 0),
        ("`".repeat(SIZE), 0),
        (format!("- [ ] {}", "~~".repeat(SIZE / 2)), 1),
    ] {
        let start: String = text.chars().take(40).collect();
        assert_eq!(Checklist::read(&text).counts().total() as usize, items, "{start}");
    }
}

/// Mostly what begins and ends things, so that they meet in every order.
fn markdown() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        prop::sample::select(vec![
            "- ",
            "* ",
            "1. ",
            "2) ",
            "> ",
            "[ ] ",
            "[x] ",
            "[X]\t",
            "\n",
            "\r\n",
            "\r",
            "```",
            "~~~",
            "`",
            "~~",
            "<!--",
            "-->",
            "a",
            " ",
            "\t",
            "- [ ] open\n",
            "- [x] done\n",
            "ä",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_text_is_read_and_counts_match(text in markdown()) {
        for line in read(&text) {
            prop_assert!(line.len() > 2 && !line.contains(['\n', '\r']), "{line:?}");
        }
    }

    #[test]
    fn plain_lists_are_read_back(marks in prop::collection::vec(any::<bool>(), 0..40)) {
        let (mut text, mut expect) = (String::new(), Vec::new());
        for (at, is_done) in marks.into_iter().enumerate() {
            let (mark, shown) = if is_done { ("x", "x") } else { (" ", "o") };
            text.push_str(&format!("- [{mark}] item {at}\n"));
            expect.push(format!("{shown} item {at}"));
        }
        prop_assert_eq!(read(&text), expect);
    }

    #[test]
    fn a_fence_around_a_text_hides_it(text in markdown()) {
        let long = "`".repeat(text.len() + 3);
        prop_assert_eq!(read(&format!("{long}\n{text}\n{long}\n")), Vec::<String>::new());
    }
}
