//! The forms of a secret: as it is, and in the encodings that programs print it in.
//!
//! Not here: finding any of them.

use std::collections::BTreeSet;

/// A longer secret is searched in pieces, so that no pattern is long. Pieces of this size fit a
/// line of base64.
const PIECE: usize = 48;

/// A longer value is not a token; its beginning is enough.
const LONGEST: usize = 16 * 1024;

/// Shorter pieces occur in ordinary text by chance.
const SHORTEST: usize = 8;

/// Returns every form in which a secret is searched.
pub(super) fn build_forms(secret: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    for piece in split_pieces(secret) {
        let bytes = piece.as_bytes();
        forms.insert(bytes.to_vec());
        for escaped in escape_json(piece) {
            // JSON inside a JSON string.
            forms.extend(escape_json(&escaped).into_iter().map(String::into_bytes));
            forms.insert(escaped.into_bytes());
        }
        forms.extend(encode_percent(bytes).map(String::into_bytes));
        forms.extend(encode_base64_forms(bytes));
        for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
            let two = |byte: &u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
            forms.insert(bytes.iter().flat_map(two).collect());
            let pairs: Vec<[u8; 2]> = bytes.iter().map(two).collect();
            forms.insert(pairs.join(&b':'));
        }
        forms.extend(encode_base32_forms(bytes));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

/// Splits a secret into lines and lines into pieces: multi-line values are printed line by line.
fn split_pieces(secret: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut most = LONGEST;
    for mut line in secret.lines().map(str::trim) {
        while line.len() >= SHORTEST && most > 0 {
            // The last piece includes a remainder that would be too short.
            let end = if line.len() < PIECE + SHORTEST {
                line.len()
            } else {
                (1..=PIECE).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(line.len())
            };
            let (piece, rest) = line.split_at(end);
            pieces.push(piece);
            line = rest;
            most = most.saturating_sub(piece.len());
        }
    }
    pieces
}

/// Returns a text as different JSON writers escape it.
fn escape_json(text: &str) -> [String; 5] {
    let written = |escapes: fn(char) -> bool, slash: &str| {
        let mut escaped = String::new();
        for character in text.chars() {
            match character {
                '"' => escaped.push_str("\\\""),
                '\\' => escaped.push_str("\\\\"),
                '\t' => escaped.push_str("\\t"),
                '/' => escaped.push_str(slash),
                it if escapes(it) || it.is_control() => {
                    let mut units = [0; 2];
                    for unit in it.encode_utf16(&mut units) {
                        escaped.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                it => escaped.push(it),
            }
        }
        escaped
    };
    [
        written(|_| false, "/"),
        written(|_| false, "\\/"),
        // Go escapes characters with a meaning in HTML, Python non-ASCII ones.
        written(|it| matches!(it, '<' | '>' | '&'), "/"),
        written(|it| !it.is_ascii(), "/"),
        written(|it| !it.is_ascii_alphanumeric(), "\\u002f"),
    ]
}

/// Returns a text as it is encoded in a URL, with either case of digits, in a form, and with
/// everything encoded but letters and digits.
fn encode_percent(bytes: &[u8]) -> [String; 5] {
    let written = |hex: fn(u8) -> String, space: &str, plain: &[u8]| {
        let mut escaped = String::new();
        for byte in bytes {
            match byte {
                b' ' => escaped.push_str(space),
                it if it.is_ascii_alphanumeric() || plain.contains(it) => {
                    escaped.push(char::from(*it));
                }
                it => escaped.push_str(&hex(*it)),
            }
        }
        escaped
    };
    let upper = |byte| format!("%{byte:02X}");
    let lower = |byte| format!("%{byte:02x}");
    [
        written(upper, "%20", b"-._~"),
        written(lower, "%20", b"-._~"),
        written(upper, "+", b"-._~"),
        written(upper, "%20", b""),
        written(lower, "%20", b""),
    ]
}

/// Returns the base32 digits that every text with these bytes has in common, as for base64.
fn encode_base32_forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let encode = |shift: usize| {
        let shifted = [&[0; 4][..shift], bytes].concat();
        let bits = |place: usize| {
            let byte = |at: usize| u16::from(shifted.get(at).copied().unwrap_or_default());
            let at = place * 5;
            let pair = (byte(at / 8) << 8) | byte(at / 8 + 1);
            usize::from((pair >> (11 - at % 8)) & 31)
        };
        ((shift * 8).div_ceil(5)..shifted.len() * 8 / 5).map(|it| ALPHABET[bits(it)]).collect()
    };
    (0..5).map(encode).collect()
}

/// Returns the base64 digits that every text with these bytes has in common: the bytes before them
/// shift the digits by none, a third or two thirds of a group.
fn encode_base64_forms(bytes: &[u8]) -> Vec<Vec<u8>> {
    const START: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut forms = Vec::new();
    for ends in [b"+/", b"-_"] {
        let alphabet = [START.as_slice(), ends].concat();
        for shift in 0..3 {
            let shifted = [&[0; 2][..shift], bytes].concat();
            let bits = |place: usize| {
                let byte = |at: usize| u16::from(shifted.get(at).copied().unwrap_or_default());
                let at = place * 6;
                let pair = (byte(at / 8) << 8) | byte(at / 8 + 1);
                usize::from((pair >> (10 - at % 8)) & 63)
            };
            let first = (shift * 8).div_ceil(6);
            let last = shifted.len() * 8 / 6;
            forms.push((first..last).map(|place| alphabet[bits(place)]).collect());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(secret: &str, form: &str) {
        let forms = build_forms(secret);
        let shown: Vec<_> = forms.iter().map(|it| String::from_utf8_lossy(it)).collect();
        assert!(forms.contains(form.as_bytes()), "{form} in {shown:?}");
    }

    #[test]
    fn a_secret_has_a_form_for_each_encoding() {
        has("s3cret-of-mine", "s3cret-of-mine");
        // `printf s3cret-of-mine | base64`, and after one and two more characters.
        has("s3cret-of-mine", "czNjcmV0LW9mLW1pbm");
        has("s3cret-of-mine", "MzY3JldC1vZi1taW5l");
        has("s3cret-of-mine", "zM2NyZXQtb2YtbWluZ");
        has("s3cret-of-mine", "7333637265742d6f662d6d696e65");
        has("s3cret-of-mine", "7333637265742D6F662D6D696E65");
        has("p\u{e4}ss<&\"/ w0rd", "p\u{e4}ss<&\\\"/ w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p\u{e4}ss<&\\\"\\/ w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p\u{e4}ss\\u003c\\u0026\\\"/ w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p\\u00e4ss<&\\\"/ w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p\u{e4}ss<&\\\\\\\"/ w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p%C3%A4ss%3C%26%22%2F%20w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p%c3%a4ss%3c%26%22%2f%20w0rd");
        has("p\u{e4}ss<&\"/ w0rd", "p%C3%A4ss%3C%26%22%2F+w0rd");
        has("????>>>>????", "Pz8_Pz4-Pj4_Pz8_");
        has("s3cret-of-mine", "s3cret%2Dof%2Dmine");
        has("s3cret-of-mine", "s3cret\\u002dof\\u002dmine");
        has("s3cret-of-mine", "73:33:63:72:65:74:2d:6f:66:2d:6d:69:6e:65");
        // `printf s3cret-of-mine | base32`, and after one more character.
        has("s3cret-of-mine", "OMZWG4TFOQWW6ZRNNVUW4Z");
        has("s3cret-of-mine", "ZTGY3SMV2C233GFVWWS3TF");
    }

    #[test]
    fn long_secrets_are_split_into_pieces() {
        let long = format!("first-line-1\n{}\n\nshort\n", "0123456789".repeat(10));
        let expect =
            ["first-line-1", &"0123456789".repeat(10)[..48], &"0123456789".repeat(10)[48..]];
        assert_eq!(split_pieces(&long), expect);
        assert!(build_forms(&"x1".repeat(100_000)).len() < 50);
        assert_eq!(split_pieces("\u{1f980}".repeat(40).as_str()).concat().len(), 160);
    }
}
