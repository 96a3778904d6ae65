//! Tests of masking.

use super::*;
use proptest::prelude::*;

const TOKEN: &str = "canary-7f3a\"9<x";

fn masker() -> Masker {
    static MASKER: LazyLock<Masker> = LazyLock::new(|| {
        Masker::new([TOKEN, "tail-of-9<xyz-1", "0123456789ab-more"].map(str::to_owned))
    });
    MASKER.clone()
}

fn in_pieces(masker: &Masker, text: &[u8], size: usize) -> Vec<u8> {
    let mut stream = masker.new_stream();
    let mut clean: Vec<u8> = Vec::new();
    for piece in text.chunks(size) {
        clean.extend_from_slice(&stream.mask_next(piece));
    }
    clean.extend(stream.finish());
    clean
}

/// Returns the token as programs print it.
fn printed() -> Vec<String> {
    let forms = encodings::build_forms(TOKEN);
    forms.into_iter().map(|form| String::from_utf8(form).expect("text")).collect()
}

#[test]
fn a_known_value_is_masked_in_every_encoding_wherever_the_pieces_are_split() {
    let masker = masker();
    assert!(printed().len() >= 9);
    for form in printed() {
        let text = format!("before {form} after\n{form}\n{form}");
        let expect = "before *** after\n***\n***";
        assert_eq!(masker.mask_text(&text), expect, "{form}");
        for size in [1, 2, 3, 7, 16, 64] {
            let clean = in_pieces(&masker, text.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&clean), expect, "{form} by {size}");
        }
    }
}

#[test]
fn a_secret_is_masked_as_people_see_it() {
    let masker = masker();
    let a = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
    for (text, expect) in [
        ("x canary-\u{1b}[0m7f3a\"9<x y\n".to_owned(), "x *** y\n"),
        ("x ca\u{200b}nary-7f3a\u{2060}\"9<\u{ad}x\u{1b}[0m y\n".to_owned(), "x ***\u{1b}[0m y\n"),
        ("x canary-\\u001b[1m7f3a\\\"9<\\u200bx y\n".to_owned(), "x *** y\n"),
        ("x \u{1b}[1mcanary-\u{8}7f3a\"9<x\u{1b}[0m\n".to_owned(), "x \u{1b}[1m***\u{1b}[0m\n"),
        (format!("x ghp_{}\u{200b}{} y\n", &a[..9], &a[9..]), "x *** y\n"),
        (TOKEN.chars().chain(" y".chars()).flat_map(|it| [it, '\0']).collect(), "***\0 \0y\0"),
        (
            "no \u{1b}[31msecret\u{1b}[0m \u{2014} here\n".to_owned(),
            "no \u{1b}[31msecret\u{1b}[0m \u{2014} here\n",
        ),
    ] {
        assert_eq!(masker.mask_text(&text), expect, "{text:?}");
        for size in [1, 2, 3, 5, 16, 64] {
            let clean = in_pieces(&masker, text.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&clean), expect, "{text:?} by {size}");
        }
    }
}

#[test]
fn secrets_are_known_by_their_shape() {
    let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
    let a = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
    for (text, expect) in [
        (format!("key sk-ant-api03-{a}."), "key ***."),
        (format!("\\nsk-{a}\\n"), "\\n***\\n"),
        (format!("\u{1b}[32msk-{a}"), "\u{1b}[32m***"),
        (format!("ghp_{a}"), "***"),
        (format!("github_pat_{a}_x"), "***"),
        ("AKIAJ2F7Q3ZT5WXY6RNB;".to_owned(), "***;"),
        (format!("xoxb-1234567890-{a}"), "***"),
        (format!("npm_{a}"), "***"),
        (format!("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{a}\""), "Bearer ***\""),
        (format!("-----BEGIN PRIVATE KEY-----\n{key}\n{key}\n-----END"), "***-----END"),
        (format!("\"-----BEGIN RSA PRIVATE KEY-----\\n{key}\\n\","), "\"***\","),
        (format!("ghp_{a} and sk-ant-{a}"), "*** and ***"),
    ] {
        let masker = Masker::default();
        assert_eq!(masker.mask_text(&text), expect, "{text}");
        for size in [1, 5, 32] {
            let clean = in_pieces(&masker, text.as_bytes(), size);
            assert_eq!(String::from_utf8_lossy(&clean), expect, "{text} by {size}");
        }
    }
}

#[test]
fn text_that_only_resembles_a_secret_stays() {
    let masker = Masker::default();
    for text in [
        "task-0123456789abcdef0123456789abcdef",
        "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-learn and risk-based sk-",
        "AKIAIOSFODNN7EXAMPLE",
        "AKIAJ2F7Q3ZT5WXY6RNBQQ",
        "ghp_short",
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJhbGciOiJIUzI1NiJ9.txt.gz",
        "-----BEGIN PRIVATE KEY-----\n...",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "the quick brown fox",
        // Samples of documentation.
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        concat!("gh", "o_16C7e42F292c6912E7710c838347Ae178B4a"),
        concat!("AI", "zaSyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe"),
        concat!("xox", "p-23984754863-2348975623103"),
    ] {
        assert_eq!(masker.mask_text(text), text);
        assert_eq!(in_pieces(&masker, text.as_bytes(), 1), text.as_bytes(), "{text}");
    }
}

#[test]
fn later_bytes_do_not_change_earlier_decisions() {
    let masker = Masker::default();
    let same = "a".repeat(33_000);
    for text in [
        // Too long without a decision, so it is not masked.
        format!("ghp_{same}bcdefghijk0123456789"),
        format!("eyJ{same}.eyJ{same}.{same}"),
        // A placeholder is recognized only at its end, so the shape decides.
        "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3EXAMPLE.".to_owned(),
    ] {
        let whole = masker.mask_bytes(text.as_bytes()).into_owned();
        for size in [999, 40_000] {
            assert!(in_pieces(&masker, text.as_bytes(), size) == whole, "{size}: {}", &text[..40]);
        }
    }
}

/// Each of these takes quadratic time if every candidate is followed to the end.
#[test]
fn many_candidates_take_linear_time() {
    let masker = Masker::new((0..60).map(|number| format!("secret-number-{number:04}")));
    for word in [
        "AKIA",
        "eyJ",
        "sk-ant-",
        "ghp_",
        "secret-number-0059",
        "-----BEGIN PRIVATE KEY-----",
        "\u{1b}]",
        "\u{200b}",
    ] {
        let flood = word.repeat((1 << 16) / word.len());
        assert!(masker.mask_text(&flood).len() <= flood.len(), "{word}");
        assert!(in_pieces(&masker, flood.as_bytes(), 1 << 14).len() <= flood.len(), "{word}");
    }
}

#[test]
fn secrets_that_overlap_or_touch_are_one() {
    let masker = masker();
    for (text, expect) in [
        ("<canary-7f3a\"9<xtail-of-9<xyz-1>".to_owned(), "<***>"),
        ("canary-7f3a\"9<x canary-7f3a\"9<x".to_owned(), "*** ***"),
        // A long one is searched in pieces, but masked as one.
        (format!("<{}>", "long-secret-4711-".repeat(9)), "<***>"),
    ] {
        let masker = match text.len() {
            100.. => Masker::new(["long-secret-4711-".repeat(9)]),
            _ => masker.clone(),
        };
        assert_eq!(masker.mask_text(&text), expect);
        let clean = in_pieces(&masker, text.as_bytes(), 4);
        // Split between two that touch, two masks are acceptable.
        assert!(!String::from_utf8_lossy(&clean).contains("4711"), "{text}");
    }
}

#[test]
fn a_secret_after_another_is_found_wherever_the_pieces_are_split() {
    let (a, masker) =
        ("aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5", Masker::new(["value-gh".to_owned()]));
    for text in [
        format!("<ghp_{a}ghp_{a}>"),
        format!("<value-ghp_{a}>"),
        format!("<-----BEGIN PRIVATE KEY-----\n{a}{a}\nghp_{a}>"),
    ] {
        for size in 1..text.len() {
            let clean = String::from_utf8(in_pieces(&masker, text.as_bytes(), size)).expect("text");
            assert!(clean.replace("***", "") == "<>", "{text} by {size}: {clean}");
        }
    }
}

#[test]
fn a_complete_line_is_never_held_back() {
    let mut stream = masker().new_stream();
    // A prefix of a secret at the end of a line is not held back.
    assert_eq!(stream.mask_next(b"{\"a\":\"canary-\n"), b"{\"a\":\"canary-\n".as_slice());
    assert_eq!(stream.mask_next(b"x canary-"), b"x ".as_slice());
    assert_eq!(stream.mask_next(b"7f3a\n"), b"canary-7f3a\n".as_slice());
    assert_eq!(stream.finish(), b"");
}

#[test]
fn only_the_secrets_in_an_event_are_masked() {
    let clean = masker().mask_event(Event::Warned { text: format!("a {TOKEN} \"b\"") });
    assert_eq!(clean, Event::Warned { text: "a *** \"b\"".to_owned() });
    let other = Event::Warned { text: "nothing".to_owned() };
    assert_eq!(masker().mask_event(other.clone()), other);
}

proptest! {
    #[test]
    fn masking_in_pieces_equals_masking_the_whole(
        parts in prop::collection::vec(
            prop_oneof![
                "[a-c0-3 \\n\"<-]{0,6}".prop_map(|text| text),
                (0usize..12).prop_map(|place| printed()[place % printed().len()].clone()),
                Just("0123456789ab".to_owned()),
                Just("canary\u{1b}[0m-7f3a\u{200b}\"9<x\u{1b}[m".to_owned()),
                Just("ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5".to_owned()),
            ],
            0..12,
        ),
        size in 1usize..40,
    ) {
        let (masker, text) = (masker(), parts.join(" "));
        let clean = in_pieces(&masker, text.as_bytes(), size);
        prop_assert_eq!(masker.mask_bytes(text.as_bytes()).into_owned(), clean.clone());
        for form in printed() {
            prop_assert!(!String::from_utf8_lossy(&clean).contains(&form));
        }
    }

    #[test]
    fn masked_json_is_json(text in "\\PC*") {
        let document = serde_json::json!({"a": format!("{text}{TOKEN}{text}"), "b": [TOKEN, 1]});
        let clean = masker().mask_bytes(document.to_string().as_bytes()).into_owned();
        let read: serde_json::Value = serde_json::from_slice(&clean).expect("JSON");
        prop_assert_eq!(&read["b"], &serde_json::json!(["***", 1]));
        prop_assert!(!read["a"].to_string().contains("canary-7f3a"));
    }
}
