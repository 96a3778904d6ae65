//! What globs match, and what is refused.

use super::*;

#[track_caller]
fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    let glob = Pattern::new(pattern).expect("a pattern");
    for path in matching {
        assert!(glob.matches(path), "{pattern} matches {path}");
    }
    for path in others {
        assert!(!glob.matches(path), "{pattern} does not match {path}");
    }
}

#[test]
fn a_pattern_without_a_slash_matches_in_any_directory() {
    check("*.rs", &["lib.rs", "src/lib.rs", "a/b/c.rs", ".rs"], &["lib.rsx", "lib.rs/x", ""]);
    check("Makefile", &["Makefile", "a/Makefile", "./Makefile"], &["aMakefile", "Makefile/a"]);
    check("*", &["a", "a/b", "a/b/c"], &[]);
    check("**", &["a", "a/b", "a/b/c"], &[""]);
}

#[test]
fn a_pattern_with_a_slash_begins_at_the_project_directory() {
    check("src/*.rs", &["src/lib.rs"], &["a/src/lib.rs", "src/a/lib.rs", "src/lib.r"]);
    check("/Makefile", &["Makefile"], &["a/Makefile"]);
    check("./Makefile", &["Makefile"], &["a/Makefile"]);
    check("docs/", &["docs/a", "docs/a/b"], &["docs", "a/docsx/b", "x"]);
    check("/docs/", &["docs/a"], &["x/docs/a"]);
}

#[test]
fn a_slash_at_the_end_alone_does_not_anchor() {
    check("target/", &["target/a", "crates/x/target/b/c"], &["target", "targets/a"]);
}

#[test]
fn two_stars_cross_directories() {
    check("src/**", &["src/a", "src/a/b"], &["src", "xsrc/a"]);
    check("src/**/*.rs", &["src/a.rs", "src/b/a.rs", "src/c/b/a.rs"], &["a.rs", "src/a.r"]);
    check("**/tests/*.rs", &["tests/a.rs", "x/y/tests/a.rs"], &["xtests/a.rs", "tests/b/a.rs"]);
    check("a**b/c", &["ab/c", "axxb/c"], &["a/b/c"]);
    check("{src,lib}/**", &["src/a/b", "lib/a"], &["lib"]);
    check("{**/a,b}/c", &["a/c", "x/y/a/c", "b/c"], &["x/b/c"]);
}

#[test]
fn classes_choices_and_escapes() {
    check("[a-c]x", &["ax", "cx", "d/bx"], &["dx", "x"]);
    check("[!a-c]x", &["dx", "-x", "a/dx"], &["ax"]);
    check("a/[!b]c", &["a/dc"], &["a/bc"]);
    check("[]a]", &["]", "a"], &["b"]);
    check("[a-]", &["a", "-"], &["b"]);
    check("*.{js,ts{,x}}", &["a.js", "a.ts", "b/a.tsx"], &["a.jsx"]);
    check("\\*\\{", &["*{"], &["a{"]);
    check("a,b", &["a,b"], &["a"]);
    check("?é?", &["aéb"], &["é", "a/é"]);
    check("\\!x", &["!x"], &["x"]);
}

#[test]
fn a_pattern_that_cannot_be_read_is_refused_with_the_reason() {
    for (pattern, expect) in [
        ("", "nothing to match in the glob ``"),
        ("/", "nothing to match in the glob `/`"),
        ("src/[a-", "unclosed character class; missing ']' in the glob `src/[a-`"),
        ("[z-a]", "invalid range; 'z' > 'a' in the glob `[z-a]`"),
        ("a\\", "dangling '\\' in the glob `a\\`"),
        (
            "!a",
            "`!` excludes nothing here (write `\\!` for a name that begins with it) in the glob `!a`",
        ),
    ] {
        let error = Pattern::new(pattern).expect_err("refused");
        assert_eq!(error.to_string(), expect);
    }
    for pattern in ["{a,b", "a}b", &"{".repeat(100), &"{a,".repeat(300), &"a".repeat(2000)] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
    let deep = format!("{}a{}", "{".repeat(400), "}".repeat(400));
    assert!(Pattern::new(&deep).is_err() || Pattern::new(&deep).expect("read").matches("a"));
}

#[test]
fn many_stars_do_not_blow_up() {
    let path = "a".repeat(4000);
    for pattern in ["*a".repeat(200) + "b", "**/a*".repeat(100) + "b", "{a,*}".repeat(100) + "b"] {
        check(&pattern, &[], &[&path]);
    }
}

#[test]
fn a_pattern_is_written_as_its_text() {
    let glob = Pattern::new("src/**").expect("a pattern");
    let text = serde_json::to_string(&glob).expect("written");
    assert_eq!(text, "\"src/**\"");
    assert_eq!(serde_json::from_str::<Pattern>(&text).expect("read"), glob);
    let error = serde_json::from_str::<Pattern>("\"[\"").expect_err("refused").to_string();
    assert!(error.contains("unclosed character class"), "{error}");
}

proptest::proptest! {
    #[test]
    fn nothing_panics(pattern in "[a-c/*?\\[\\]{},!\\\\.é-]{0,20}", path in "[a-c/.é-]{0,20}") {
        if let Ok(glob) = Pattern::new(&pattern) {
            glob.matches(&path);
        }
    }

    #[test]
    fn a_path_without_special_characters_matches_itself(path in "[a-c]{1,2}[.]?(/[a-c]{1,3}){0,3}") {
        proptest::prop_assert!(Pattern::new(&path).expect("a pattern").matches(&path));
    }
}

#[test]
fn a_path_as_it_is_matches_itself_alone() {
    for path in ["check", "tests/a b.sh", "a[1]*?.sh", "{x,y}!", "-x", "\\odd"] {
        let pattern = Pattern::for_path(path).expect("a path");
        assert!(pattern.matches(path), "{path}");
        assert!(!pattern.matches(&format!("deeper/{path}")), "{path}");
        assert!(!pattern.matches(&format!("{path}x")), "{path}");
    }
    assert!(Pattern::for_path("").is_none());
    assert!(Pattern::for_path("./").is_none());
    for spelled in ["./a/b", "a//b", "a/./b", "a/b/"] {
        assert!(Pattern::for_path(spelled).is_some_and(|it| it.matches("a/b")), "{spelled}");
    }
}
