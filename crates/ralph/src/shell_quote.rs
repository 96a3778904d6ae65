//! Command lines quoted for a shell, for people to copy.
//!
//! Not here: commands that ralph runs; those never go through a shell unless the user wrote one.

/// Returns arguments quoted for a shell.
pub(crate) fn quote_for_shell(words: &[String]) -> String {
    let quote = |word: &String| {
        let is_plain = !word.is_empty()
            && word.chars().all(|character| {
                character.is_ascii_alphanumeric() || "-_./=:,@%+{}".contains(character)
            });
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
