//! Tests of lowering: texts and the commands they lower to.

use std::collections::BTreeMap;

use super::*;

/// Returns the commands that a text lowers to, one per line.
fn lowered(text: &str) -> Vec<String> {
    let start = ShellState {
        cwd: "/p".into(),
        home: Some("/home/dev".into()),
        variables: BTreeMap::from([("USER".to_owned(), "dev".to_owned())]),
    };
    let lowered = lower_text(text, &start);
    assert_eq!(lowered.error, None, "{text}");
    let commands = lowered.commands.iter().filter(|it| !it.argv.is_empty());
    commands.map(crate::format_command).collect()
}

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    assert_eq!(lowered(text), expect, "{text}");
}

#[test]
fn one_word_of_env_may_be_many() {
    check("env -S 'A=1 git log -1 --stat'", &["A=1 git log -1 --stat"]);
    check("sudo env -S 'ls a b' c", &["ls a b c"]);
}

#[test]
fn words_are_resolved() {
    for (text, expect) in [
        (r#"a'b'"c"\d$'\x65'"#, &["abcde"] as &[&str]),
        ("ls ~ ~/x \"$HOME\" $PWD ~root", &["ls /home/dev /home/dev/x /home/dev /p /root"]),
        ("x=1; y=\"$x 2\"; echo $y \"$y\"", &["echo 1 2 1 2"]),
        ("echo ${x:-a} ${x:=b} $x ${x:+c}", &["echo a b b c"]),
        ("x=abc; echo ${x:1:1} ${x^^} ${x#a} ${x%c} ${x/b/z}", &["echo b ABC bc ab azc"]),
        ("f=/a/b.c; echo ${f##*/} ${f%/*}", &["echo b.c /a"]),
        ("a=(x y); echo ${a[1]} ${a[@]}", &["echo y x y"]),
        ("n=x; x=v; echo ${!n}", &["echo v"]),
        ("echo $UNKNOWN a$B*", &["echo ‹?› a‹?›*"]),
        ("echo {a,b}{1..2}", &["echo a1 a2 b1 b2"]),
        ("IFS=:; x=a:b; $x", &["a b"]),
        ("printf -v x '%s-%s' a b; echo $x", &["printf -v x %s-%s a b", "echo a-b"]),
        ("echo \"$(echo hi)\" `echo ho`", &["echo hi", "echo ho", "echo hi ho"]),
        ("x=a; x+=b; echo $x", &["echo ab"]),
        ("x=1; [ a ] && x=2; echo $x", &["[ a ]", "echo 1", "echo 2"]),
    ] {
        check(text, expect);
    }
}

#[test]
fn every_command_is_met() {
    for (text, expect) in [
        ("a; b && c || d & e", &["a", "b", "c", "d", "e"] as &[&str]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
        ("for x in 1 2; do a $x; done", &["a 1", "a 2"]),
        ("case x in a) b;; *) c;; esac", &["b", "c"]),
        ("(a; b) | { c; d; }", &["a", "b", "c", "d"]),
        ("f() { a \"$1\" \"$@\"; }; f x y", &["f x y", "a x x y"]),
        ("cat <(a) > >(b)", &["a", "b", "cat /dev/fd/63"]),
        ("[[ $(a) == b ]] && c", &["a", "c"]),
        ("coproc a; ! b; time c", &["a", "b", "c"]),
        ("cat <<E\n$(a)\nE", &["a", "cat"]),
        ("find x -name y -exec a {} \\;", &["find x -name y -exec a {} ;", "a x/*/y"]),
        ("echo a b | xargs c", &["echo a b", "c a b"]),
        (
            "printf '1\\n2\\n' | while read x; do a $x; done",
            &["printf 1\\n2\\n", "read x", "a 1", "read x", "a 2"],
        ),
        ("set -- x y; a $2 $#", &["set -- x y", "a y ‹?›"]),
    ] {
        check(text, expect);
    }
}

#[test]
fn wrappers_are_peeled_off() {
    for (text, expect) in [
        ("sudo -u x nice -n 5 a b", &["a b"] as &[&str]),
        ("env -i X=1 a", &["X=1 a"]),
        ("timeout -k 1 5 a", &["a"]),
        ("command -p a; builtin b; exec -a z c; nohup d; setsid e", &["a", "b", "c", "d", "e"]),
        ("busybox rm x", &["rm x"]),
        ("env -S 'a b' c", &["a b c"]),
        ("sudo --version", &["sudo --version"]),
        ("xargs -I{} a {}x < /dev/null", &["a ‹?›x"]),
    ] {
        check(text, expect);
    }
}

#[test]
fn code_within_code_is_followed() {
    for (text, expect) in [
        ("sh -c 'a $0 $1' x y", &["sh -c a $0 $1 x y", "a x y"] as &[&str]),
        ("bash -lc a", &["bash -lc a", "a"]),
        ("eval 'a b'", &["eval a b", "a b"]),
        ("bash <<< 'a'", &["bash", "a"]),
        ("echo YQo= | base64 -d | sh", &["echo YQo=", "base64 -d", "sh", "a"]),
        ("echo 'a b' > x.sh; sh x.sh", &["echo a b", "sh x.sh", "a b"]),
        ("trap 'a b' EXIT", &["trap a b EXIT", "a b"]),
        (
            "python3 -c 'import os; os.system(\"a b\")'",
            &["python3 -c import os; os.system(\"a b\")", "a b"],
        ),
        ("git bisect run a b", &["git bisect run a b", "a b"]),
        ("parallel a ::: 1 2", &["parallel a ::: 1 2", "a 1", "a 2"]),
        ("watch -n 1 'a b'", &["watch -n 1 a b", "a b"]),
        ("tar xf a --to-command='b c'", &["tar xf a --to-command=b c", "b c"]),
    ] {
        check(text, expect);
    }
}

#[test]
fn directories_are_followed() {
    let cwd = |text: &str| {
        let start =
            ShellState { cwd: "/p".into(), home: Some("/h".into()), ..ShellState::default() };
        lower_text(text, &start).commands.last().and_then(|command| command.cwd.clone())
    };
    for (text, expect) in [
        ("a", Some("/p")),
        ("cd x && cd ../y; a", Some("/p/y")),
        ("cd; a", Some("/h")),
        ("(cd /x); a", Some("/p")),
        ("cd /x | a", Some("/p")),
        ("cd \"$WHERE\"; a", None),
        ("env -C /x a", Some("/x")),
        ("pushd /x; a", Some("/x")),
    ] {
        assert_eq!(cwd(text).as_deref(), expect, "{text}");
    }
}

#[test]
fn incomplete_lowering_is_reported() {
    let error_of = |text: &str| lower_text(text, &ShellState::default()).error;
    assert_eq!(error_of("a | | b"), Some(LoweringError::Syntax));
    assert_eq!(
        error_of("f() { g; }; g() { f; }; f"),
        None,
        "a function that calls itself is met once"
    );
    assert_eq!(
        error_of(&format!("{}a{}", "(".repeat(14), ")".repeat(14))),
        Some(LoweringError::TooDeep)
    );
    assert_eq!(error_of(&"a;".repeat(20_000)), Some(LoweringError::TooMuch));
    assert_eq!(error_of(&format!("{}a", "eval ".repeat(10))), Some(LoweringError::TooDeep));
}

#[test]
fn what_find_runs_ends_where_find_says() {
    for (text, expect) in [
        ("find . -exec a -exec b \\;", &["find . -exec a -exec b ;", "a -exec b"] as &[&str]),
        ("find . -exec a + b \\;", &["find . -exec a + b ;", "a + b"]),
        (
            "find . -exec a {} + -exec b \\; -ok c \\;",
            &["find . -exec a {} + -exec b ; -ok c ;", "a ./*", "b", "c"],
        ),
        (
            "find x -exec find y -exec a {} \\;",
            &["find x -exec find y -exec a {} ;", "find y -exec a x/*", "a x/*"],
        ),
    ] {
        check(text, expect);
    }
}

#[test]
fn wrappers_within_wrappers_are_peeled_off() {
    check("echo x | xargs env A=1 nice a", &["echo x", "A=1 a x"]);
    check("echo x | xargs xargs a", &["echo x", "a x"]);
    let lines = format!("printf '{}' | while read x; do a $x; done", "x\\n".repeat(40));
    assert_eq!(lowered(&lines).last().map(String::as_str), Some("a ‹?›"));
    check("xargs -a list -I{} a {}", &["a ‹?›"]);
    let wrapped =
        |count: usize| lower_text(&format!("{}a", "nice ".repeat(count)), &ShellState::default());
    assert_eq!(wrapped(8).error, None);
    assert_eq!(wrapped(9).error, Some(LoweringError::TooDeep));
}

/// Texts that cause far more work than their length suggests.
fn expensive_texts() -> Vec<(&'static str, String)> {
    let doubled = |text: &str| format!("x=aaaaaaaa; {}{text}", "x=$x$x; ".repeat(12));
    let document = |text: &str, line: &str| format!("( {text}) <<'E'\n{line}\nE\n");
    let variables: Vec<String> = (0..2_000).map(|it| format!("v{it}=1")).collect();
    vec![
        ("find", "find . -exec ".repeat(400)),
        ("find with several roots", "find a b c d -exec ".repeat(40)),
        ("bisect", "git bisect run ".repeat(400)),
        ("foreach", "git submodule foreach ".repeat(100)),
        ("after a mistake", format!("eval '('; {}", "find a b -exec ".repeat(40))),
        ("wrappers", "env ".repeat(1_000)),
        ("xargs", "xargs ".repeat(1_000)),
        ("arguments", format!("set -- a a; {}", "set -- \"$@\" \"$@\"; ".repeat(40))),
        ("members", format!("a=(x x); {}", "a=(\"${a[@]}\" \"${a[@]}\"); ".repeat(40))),
        ("long members", doubled(&format!("a=($x $x); {}", "a+=(${a[@]}); ".repeat(40)))),
        ("code", doubled("for i in {1..32}; do for j in {1..32}; do python3 -c $x; done; done")),
        ("shells", format!("x='{}'; {}", "a b; ".repeat(500), "sh -c \"$x\"; ".repeat(500))),
        ("copies of input", document(&"tr a b; ".repeat(1_000), &"a".repeat(1 << 19))),
        ("variables", format!("{}; {}", variables.join(" "), "$(a) ".repeat(500))),
        ("functions", "for i in {1..32}; do for j in {1..32}; do f() { a; }; done; done".into()),
        ("members of lines", document(&"mapfile m; ".repeat(500), &"\n".repeat(1 << 12))),
        ("substitutions", "$(a) ".repeat(3_000)),
    ]
}

#[test]
fn work_is_bounded_whatever_a_text_asks_for() {
    for (name, text) in expensive_texts() {
        let lowered = lower_text(&text, &ShellState { cwd: "/p".into(), ..ShellState::default() });
        assert!(lowered.error >= Some(LoweringError::TooDeep), "{name}: {:?}", lowered.error);
        let commands = &lowered.commands;
        assert!(commands.len() <= 3_000, "{name}: {} commands", commands.len());
        let lengths = commands.iter().flat_map(|it| &it.argv).map(|word| word.raw().len());
        let (words, bytes) = lengths.fold((0, 0), |(words, bytes), it| (words + 1, bytes + it));
        assert!(words <= 60_000, "{name}: {words} words");
        assert!(bytes <= 64 * 60_000, "{name}: {bytes} bytes");
    }
}

#[test]
fn text_that_would_fill_the_memory_is_not_known() {
    let doubled = format!("x=aaaaaaaa; {}", "x=$x$x; ".repeat(12));
    for text in [
        format!("{doubled}a ${{x//a/$x}}"),
        format!("printf x {}| xargs a", "| { cat; cat; } ".repeat(40)),
        format!("{doubled}echo $x | xargs -Ia a $x"),
    ] {
        let lowered = lower_text(&text, &ShellState::default());
        let last = lowered.commands.last().expect("a command");
        let is_reported = lowered.error.is_some() || last.argv.iter().any(|word| !word.is_known());
        assert!(is_reported, "{text}: {last:?}");
        assert!(last.argv.iter().all(|word| word.raw().len() <= 1 << 20));
    }
}

#[test]
fn the_most_severe_error_wins() {
    let error_of = |text: &str| lower_text(text, &ShellState::default()).error;
    let deep = format!("{}a", "eval ".repeat(10));
    assert_eq!(error_of(&format!("eval '('; {deep}")), Some(LoweringError::TooDeep));
    assert_eq!(error_of(&format!("{deep}; eval '('")), Some(LoweringError::TooDeep));
}
