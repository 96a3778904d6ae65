//! The list, the chart and the page, with hostile text in them.

use expect_test::expect;
use ralph_core::memory::graph::{Entity, Relation};
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
    let page = render_page(&graph, &render_mermaid(&graph));
    for word in ["<script", "<img", "\"evil\"", "\u{1b}", "href", "<a ", "http:"] {
        assert!(!page.contains(word), "{word} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    assert!(page.contains("&quot;evil&quot; &amp; 'co'"), "{page}");
    assert!(page.contains("<pre>flowchart LR\n"), "{page}");
}

#[test]
fn nothing_in_a_chart_leaves_its_label() {
    let mut graph = graph();
    graph.entities.push(entity("x\"]\nclick n0 \"javascript:y\"", "", &[]));
    graph.entities.push(entity("%%{init: {}}%%", "", &[]));
    graph.entities.push(entity("`*a*` #34; ﬂ°°34¶ß", "", &[]));
    graph.relations.push(relation("parser", "is \"|n9", ""));
    graph.relations.push(relation("", "", "parser"));
    expect![[r##"
        flowchart LR
        %% 6 things, 5 relations
        n0["parser"]
        n1["#60;script#62;alert#40;1#41;#60;/script…"]
        n2["#40;no name#41;"]
        n3["x#34;#93; click n0 #34;javascript…"]
        n4["#37;#37;#123;init#58; #123;#125;#125;#37;#37;"]
        n5["#96;#42;a#42;#96; #35;34#59; ﬂ#176;#176;34#182;ß"]
        n0 -->|"is part of"| n0
        n0 -->|"feeds"| n1
        n0 -->|"is #34;#124;n9"| n2
        n2 --> n0
    "##]]
    .assert_eq(&render_mermaid(&graph).text);
}

#[test]
fn a_chart_is_bounded_and_says_what_is_missing() {
    let mut large = Graph::default();
    for number in 0..5_000 {
        large.entities.push(entity(&number.to_string(), "thing", &[]));
        large.relations.push(relation("4999", "knows", &number.to_string()));
    }
    for from in 0..10 {
        let known = (0..60).map(|to| relation(&from.to_string(), "knows", &to.to_string()));
        large.relations.extend(known);
    }
    let chart = render_mermaid(&large);
    let extent = "5000 things, 5600 relations; the chart shows the 120 with the most relations, \
                  4880 are not shown";
    assert_eq!(chart.extent, extent);
    assert!(chart.text.contains(&format!("%% {extent}\n")), "{}", chart.text);
    assert_eq!(chart.text.matches("[\"").count(), 120);
    assert_eq!(chart.text.matches(" -->").count(), 500);
    assert!(chart.text.ends_with("%% 220 more arrows are not shown\n"), "{}", chart.text);
    assert!(chart.text.contains("[\"4999\"]"), "the best connected one is there");
    assert!(render_page(&large, &chart).contains("3000 more are not listed here."));
}
