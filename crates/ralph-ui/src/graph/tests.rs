//! The list, the picture and the page, with hostile words in them.

use expect_test::expect;
use ralph_core::graph::{Entity, Relation};
use serde_json::Map;

use super::*;
use crate::style::StylePreferences;
use crate::style::tests::pipe;

fn entity(name: &str, kind: &str, observations: &[&str]) -> Entity {
    Entity {
        name: name.into(),
        entity_type: kind.into(),
        observations: observations.iter().map(ToString::to_string).collect(),
        extra: Map::new(),
    }
}

fn relation(from: &str, how: &str, to: &str) -> Relation {
    Relation { from: from.into(), to: to.into(), relation_type: how.into(), extra: Map::new() }
}

fn style() -> Style {
    Style::choose_style(&StylePreferences::default(), &pipe())
}

fn graph() -> Graph {
    Graph {
        entities: vec![
            entity("parser", "module", &["reads the header", "is \u{1b}[31mslow\u{1b}[0m"]),
            entity("<script>alert(1)</script>", "\"evil\" & 'co'", &["</li><img src=x onerror=y>"]),
            entity("", "", &[]),
        ],
        relations: vec![
            relation("parser", "feeds", "<script>alert(1)</script>"),
            relation("parser", "is part of", "parser"),
            relation("gone", "calls", "parser"),
        ],
    }
}

#[test]
fn a_list_tells_what_is_known_and_hides_nothing() {
    expect![[r#"
        3 things, 3 relations

        parser  (module)
          - reads the header
          - is slow
          -> feeds <script>alert(1)</script>
          -> is part of parser

        <script>alert(1)</script>  ("evil" & 'co')
          - </li><img src=x onerror=y>

        (no name)

        Further relations
          gone calls parser
    "#]]
    .assert_eq(&format_list(&graph().select_all(), "Nothing.", &style()));
    let nothing = Graph::default();
    assert_eq!(format_list(&nothing.select_all(), "Nothing.", &style()), "Nothing.\n");
}

#[test]
fn nothing_in_a_page_is_more_than_text() {
    let graph = graph();
    let drawn = draw(&graph);
    let page = render_page(&graph, &drawn);
    for text in [&page, &drawn.svg] {
        for word in ["<script", "<img", "\"evil\"", "\u{1b}", "href", "<a "] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
        assert!(text.contains("&quot;evil&quot; &amp; &#39;co&#39;"), "{text}");
    }
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http:"), "{page}");
    assert_eq!(drawn, draw(&graph), "the same graph is the same picture");
}

#[test]
fn a_picture_is_bounded_and_says_what_is_missing() {
    let mut large = Graph::default();
    for number in 0..5_000 {
        large.entities.push(entity(&number.to_string(), "thing", &[]));
        large.relations.push(relation("4999", "knows", &number.to_string()));
    }
    let drawn = draw(&large);
    let extent = "5000 things, 5000 relations; the picture shows the 120 with the most relations";
    assert_eq!(drawn.extent, extent);
    assert_eq!(drawn.svg.matches("r=\"8\"").count(), 120);
    assert!(drawn.svg.contains(">4999</text>"), "the best connected one is there");
    assert!(render_page(&large, &drawn).contains("3000 more are not listed here."));
}
