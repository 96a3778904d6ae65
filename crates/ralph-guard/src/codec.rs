//! Decoders: escapes, base64, hexadecimal digits, `tr`.

/// Decodes `$'...'` and the backslash escapes of `echo -e` and `printf`.
pub(super) fn decode_escapes(text: &str) -> String {
    let mut decoded = String::new();
    let mut rest = text.chars().peekable();
    let digits = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, most: usize, radix: u32| {
        let mut value = None;
        for _ in 0..most {
            let Some(digit) = rest.peek().and_then(|it| it.to_digit(radix)) else { break };
            rest.next();
            value = Some(value.unwrap_or(0) * radix + digit);
        }
        value
    };
    while let Some(it) = rest.next() {
        if it != '\\' {
            decoded.push(it);
            continue;
        }
        let Some(kind) = rest.next() else {
            decoded.push('\\');
            break;
        };
        let value = match kind {
            'n' => Some(10),
            't' => Some(9),
            'r' => Some(13),
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'v' => Some(11),
            'e' | 'E' => Some(27),
            'x' => digits(&mut rest, 2, 16),
            'u' => digits(&mut rest, 4, 16),
            'U' => digits(&mut rest, 8, 16),
            '0'..='7' => {
                let first = kind.to_digit(8).unwrap_or_default();
                // `\0` may be followed by three more digits.
                let most = if first == 0 { 3 } else { 2 };
                let mut value = first;
                for _ in 0..most {
                    let Some(digit) = digits(&mut rest, 1, 8) else { break };
                    value = value * 8 + digit;
                }
                Some(value)
            }
            _ => None,
        };
        match value.and_then(char::from_u32) {
            Some(value) => decoded.push(value),
            None => decoded.push(kind),
        }
    }
    decoded
}

/// Decodes base64, also the URL-safe alphabet. Ignores other characters.
pub(crate) fn decode_base64(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for it in text.bytes() {
        let value = match it {
            b'A'..=b'Z' => it - b'A',
            b'a'..=b'z' => it - b'a' + 26,
            b'0'..=b'9' => it - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ if it.is_ascii_whitespace() => continue,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).unwrap_or_default());
        }
    }
    String::from_utf8(bytes).ok()
}

/// Decodes pairs of hexadecimal digits, with or without spaces.
pub(crate) fn decode_hex(text: &str) -> Option<String> {
    let text = text.replace("\\x", "").replace("0x", "");
    let digits: Option<Vec<u32>> =
        text.chars().filter(|it| !it.is_whitespace()).map(|it| it.to_digit(16)).collect();
    let bytes = digits?
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(high * 16 + low).ok(),
            _ => None,
        })
        .collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok()
}

/// Translates characters as `tr FROM TO` does, for plain sets and ranges.
pub(super) fn translate_chars(text: &str, from: &str, to: &str) -> String {
    let (from, to) = (expand_char_set(from), expand_char_set(to));
    text.chars()
        .map(|it| match from.iter().position(|other| *other == it) {
            Some(at) => to.get(at).or(to.last()).copied().unwrap_or(it),
            None => it,
        })
        .collect()
}

/// Removes the characters of a set, as `tr -d SET` does.
pub(super) fn delete_chars(text: &str, unwanted: &str) -> String {
    let unwanted = expand_char_set(unwanted);
    text.chars().filter(|it| !unwanted.contains(it)).collect()
}

fn expand_char_set(text: &str) -> Vec<char> {
    let text = match text {
        "[:lower:]" => "a-z",
        "[:upper:]" => "A-Z",
        other => other,
    };
    let characters: Vec<char> = decode_escapes(text).chars().collect();
    let mut members = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        match characters.get(at..at + 3) {
            Some([from, '-', to]) if from <= to && from.is_ascii() && to.is_ascii() => {
                members.extend(*from..=*to);
                at += 3;
            }
            _ => {
                members.push(characters[at]);
                at += 1;
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded() {
        assert_eq!(decode_escapes(r"\x72\155 -rf\040\u002f\n\q"), "rm -rf /\nq");
        assert_eq!(decode_base64("cm0gLXJmIC8K").as_deref(), Some("rm -rf /\n"));
        assert_eq!(decode_base64("aGk=").as_deref(), Some("hi"));
        assert_eq!(decode_base64("a!"), None);
        assert_eq!(decode_hex("726d 20 2f").as_deref(), Some("rm /"));
        assert_eq!(decode_hex("7"), None);
        assert_eq!(translate_chars("ez -es /", "a-z", "n-za-m"), "rm -rf /");
        assert_eq!(translate_chars("abc", "[:lower:]", "[:upper:]"), "ABC");
        assert_eq!(delete_chars("r_m", "_"), "rm");
    }
}
