//! `ralph memory`: what users see of the graph.

use std::fs;

use expect_test::expect;
use ralph_testkit::sealed::Sealed;
use serde_json::{Value, json};

use super::FILE;
use crate::sealed;

const GRAPH: &str = r#"{"type":"entity","name":"parser","entityType":"module","observations":["reads the header","is <b>slow</b>"]}
{"type":"entity","name":"cache","entityType":"module","observations":["holds 100 pages"]}
{"type":"relation","from":"parser","to":"cache","relationType":"fills"}
"#;

fn remembered() -> Sealed {
    let sealed = sealed();
    sealed.write_file(FILE, GRAPH);
    sealed
}

#[test]
fn memory_is_listed() {
    let sealed = remembered();
    let shown = expect![[r"
        2 things, 1 relation

        parser  (module)
          - reads the header
          - is <b>slow</b>
          -> fills cache

        cache  (module)
          - holds 100 pages
    "]];
    shown.assert_eq(&sealed.run_ralph(&["memory", "show"]).expect_code(0).stdout);
    shown.assert_eq(&sealed.run_ralph(&["memory"]).expect_code(0).stdout);
    sealed
        .run_ralph(&["memory", "--file", "none.jsonl"])
        .expect_code(2)
        .expect_stderr("There is no file `");
    sealed.write_file("notes.md", "# Notes\n\nSearch.\n");
    for words in
        [&["memory", "--file", "notes.md"][..], &["memory", "--file", "notes.md", "export"]]
    {
        sealed.run_ralph(words).expect_code(2).expect_stderr("is not a knowledge graph");
    }
    sealed.write_file("empty.jsonl", "");
    let nothing = sealed.run_ralph(&["memory", "--file", "empty.jsonl"]).expect_code(0).stdout;
    assert_eq!(nothing, "Nothing is remembered yet in this project.\n");
}

#[test]
fn search_requires_all_words() {
    let sealed = remembered();
    expect![[r"
        1 thing, 1 relation

        cache  (module)
          - holds 100 pages

        Further relations
          parser fills cache
    "]]
    .assert_eq(&sealed.run_ralph(&["memory", "search", "PAGES", "module"]).expect_code(0).stdout);
    let nothing = sealed.run_ralph(&["memory", "search", "pages", "header"]).expect_code(0).stdout;
    assert_eq!(nothing, "Nothing that is remembered has all of these words.\n");
    sealed.run_ralph(&["memory", "search"]).expect_code(2);
}

#[test]
fn the_graph_is_exported_as_data_page_and_chart() {
    let sealed = remembered();
    let json: Value =
        serde_json::from_str(&sealed.run_ralph(&["memory", "export"]).expect_code(0).stdout)
            .expect("JSON");
    assert_eq!(
        json["relations"],
        json!([{"from": "parser", "to": "cache", "relationType": "fills"}])
    );
    let words = ["memory", "export", "--html", "graph.html", "--mermaid", "graph.mmd"];
    let done = sealed.run_ralph(&words).expect_code(0);
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        (
            "",
            "graph.html is written: 2 things, 1 relation.\ngraph.mmd is written: 2 things, 1 relation.\n"
        )
    );
    let (html, chart) = (sealed.read_file("graph.html"), sealed.read_file("graph.mmd"));
    expect![[r#"
        flowchart LR
        %% 2 things, 1 relation
        n0["parser"]
        n1["cache"]
        n0 -->|"fills"| n1
    "#]]
    .assert_eq(&chart);
    assert!(html.contains("<pre>flowchart LR"), "{html}");
    assert!(html.contains("is &lt;b&gt;slow") && !html.contains("<script"), "{html}");
    sealed.run_ralph(&["memory", "export", "--json", "--mermaid", "x"]).expect_code(2);
    sealed.run_ralph(&["memory", "export", "--mermaid", "no/such/x"]).expect_code(2);
}

#[test]
fn unreadable_memory_is_reported() {
    let sealed = remembered();
    sealed.write_file(FILE, &format!("{GRAPH}{{torn"));
    let shown = sealed.run_ralph(&["memory", "search", "cache"]).expect_code(0);
    assert!(
        shown.stderr.contains("line 4 of") && shown.stdout.contains("cache"),
        "{}",
        shown.stderr
    );
    let expect = format!("{GRAPH}{{torn");
    assert_eq!(sealed.read_file(FILE), expect, "looking changes nothing");
    fs::remove_file(sealed.project_dir().join(FILE)).expect("removed");
    fs::create_dir(sealed.project_dir().join(FILE)).expect("made");
    sealed.run_ralph(&["memory"]).expect_code(2).expect_stderr("is not a file");
}
