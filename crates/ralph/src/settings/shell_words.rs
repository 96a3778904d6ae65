//! Splits text into words as a shell would, for arguments that are written as one string.
//!
//! Not here: anything a shell would expand or run.

/// Splits text into words as a shell would, with its quotes and backslashes but no expansion.
pub(crate) fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        None => return Err(format!("a closing {quote} is missing in `{text}`")),
                        Some(c) if c == quote => break,
                        Some('\\') if quote == '"' => word.extend(rest.next()),
                        Some(c) => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(rest.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        let cases: [(&str, Option<&[&str]>); 6] = [
            ("-p --model 'a b'", Some(&["-p", "--model", "a b"])),
            (r#"a\ b "c \"d\"" e''f"#, Some(&["a b", "c \"d\"", "ef"])),
            ("'' x", Some(&["", "x"])),
            ("$HOME", Some(&["$HOME"])),
            ("  ", Some(&[])),
            ("'open", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(split_words(text).ok(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_splitting_panic(text in "\\PC*|[a'\"\\\\ ]*") {
            let _ = split_words(&text);
        }
    }
}
