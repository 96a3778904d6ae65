//! Tests of the `KEY=VALUE` syntax.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &Expect) {
    let (entries, mistakes) = parse_key_value(text);
    let mut lines = Vec::new();
    for entry in entries {
        let value = match entry.value {
            AssignedValue::Text(text, _) => format!("{text:?}"),
            AssignedValue::List(items) => {
                format!("{:?}", items.iter().map(|(item, _)| item).collect::<Vec<_>>())
            }
        };
        lines.push(format!("{} {} = {value}", entry.position.line, entry.name));
    }
    for KeyValueMistake { position, message } in mistakes {
        lines.push(format!("{}:{} {message}", position.line, position.column));
    }
    lines.push(String::new());
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn assignments_are_read_as_a_shell_would() {
    check(
        r#"# comment
A=plain
  export B="double \"quoted\" \\ \n"   # trailing
C='single $HOME `x` ; "'
D=a"b c"'d e'\ f
E=
F=""
G=with#hash
H="two
lines"
I="cost $ 5 and 100$"
J=https://example.org/?a=b
K=joined\
line"#,
        &expect![[r#"
            2 A = "plain"
            3 B = "double \"quoted\" \\ \\n"
            4 C = "single $HOME `x` ; \""
            5 D = "ab cd e f"
            6 E = ""
            7 F = ""
            8 G = "with#hash"
            9 H = "two\nlines"
            11 I = "cost $ 5 and 100$"
            12 J = "https://example.org/?a=b"
            13 K = "joinedline"
        "#]],
    );
}

#[test]
fn lists_may_span_lines() {
    check(
        "A=(\r\n  \"bats tests/\"  # first\r\n  'x *' plain\r\n)\r\nB=( )\r\nC=(\"a\")  # end\r\n",
        &expect![[r#"
            1 A = ["bats tests/", "x *", "plain"]
            5 B = []
            6 C = ["a"]
        "#]],
    );
}

#[test]
fn what_a_shell_would_run_or_expand_is_a_mistake() {
    check(
        r#"A=$(date)
B=`date`
C="in $(quotes)"
D="in `quotes`"
E=x; rm -rf /
F=a && b
G=a|b
H=a > file
I=$HOME/x
J="${HOME}/x"
K=~/specs
L=two words
M+=more
N=("ok" *.sh)
N2=("ok" $(x)
  "still the list")
echo hello
if [ -f x ]; then
1A=x
O=<(x)
P=$'x'
Q=fine
T=$((1 + 2))
U=$[1 + 2]
V="$((1))"
W=a:~/b
X = spaced
Y =spaced
source other.conf
. other.conf
[ -f x ] && A=b
Z=x || true
export
unset A
R="never closed
S=x"#,
        &expect![[r#"
            22 Q = "fine"
            1:3 `$(...)` would run a command; this file is read, never executed
            2:3 a backtick would run a command; this file is read, never executed
            3:7 `$(...)` would run a command; this file is read, never executed
            4:7 a backtick would run a command; this file is read, never executed
            5:4 `;` is shell syntax; this file is read, never executed: put the value in quotes
            6:5 `&` is shell syntax; this file is read, never executed: put the value in quotes
            7:4 `|` is shell syntax; this file is read, never executed: put the value in quotes
            8:5 `>` is shell syntax; this file is read, never executed: put the value in quotes
            9:3 `$` is not expanded; write the value itself, or put a literal `$` in single quotes
            10:4 `$` is not expanded; write the value itself, or put a literal `$` in single quotes
            11:3 `~` is not expanded; write the whole path
            12:7 more text after the value; put the whole value in quotes
            13:1 `+=` is not supported; write the whole value
            14:9 `*` is not expanded; put the text in quotes
            15:10 `$(...)` would run a command; this file is read, never executed
            16:3 not a `NAME=value` line; this file is read, never executed
            17:1 not a `NAME=value` line; this file is read, never executed
            18:1 not a `NAME=value` line; this file is read, never executed
            19:1 not a `NAME=value` line; this file is read, never executed
            20:3 `<` is shell syntax; this file is read, never executed: put the value in quotes
            21:3 `$` is not expanded; write the value itself, or put a literal `$` in single quotes
            23:3 `$((...))` would be computed; this file is read, never executed
            24:3 `$` is not expanded; write the value itself, or put a literal `$` in single quotes
            25:4 `$((...))` would be computed; this file is read, never executed
            26:5 `~` is not expanded; write the whole path
            27:1 no spaces are allowed around the `=`
            28:1 no spaces are allowed around the `=`
            29:1 not a `NAME=value` line; this file is read, never executed
            30:1 not a `NAME=value` line; this file is read, never executed
            31:1 not a `NAME=value` line; this file is read, never executed
            32:5 `|` is shell syntax; this file is read, never executed: put the value in quotes
            33:1 not a `NAME=value` line; this file is read, never executed
            34:1 not a `NAME=value` line; this file is read, never executed
            35:3 the closing " is missing
        "#]],
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*|[A-C=\"'()$`;#\\\\ \n]*") {
        let _ = parse_key_value(&text);
    }

    #[test]
    fn single_quotes_keep_any_text(text in "[^'\r]*") {
        let (entries, mistakes) = parse_key_value(&format!("A='{text}'\n"));
        prop_assert_eq!(mistakes, Vec::new());
        let at = Position { line: 1, column: 3 };
        prop_assert_eq!(&entries[0].value, &AssignedValue::Text(text, at));
    }
}
